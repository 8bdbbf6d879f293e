//! `isorb event replay`.

use super::Outcome;
use super::selection::Selection;
use crate::commands::arguments::{object_url, to_read};
use isorb::Orb;
use isorb_event::{Data, Event, Header};
use isorb_event_file::{Reader, Record, RecordedEvent};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording.
    #[arg(value_parser = to_read())]
    file: PathBuf,
    /// URL of the channel, from its line READY.
    #[arg(value_parser = object_url)]
    url: String,
    /// How many times as fast as recorded; 0 for as fast as the channel takes them.
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    #[command(flatten)]
    selection: Selection,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed >= 0.0);
    speed.ok_or_else(|| format!("{text}: give a factor, as in 0.5 or 10; 0 for as fast as possible"))
}

pub fn run(args: &Args, orb: &Orb) -> Outcome {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", args.file.display());
    let mut reader = Reader::open(&args.file).map_err(|error| named(&error))?;
    let supplier = super::connect(orb, &args.url)?.supplier()?;
    let mut first = None;
    let (mut missing, mut failure) = (0_u64, None);
    let begin = Instant::now();
    while let Some(record) = reader.next().map_err(|error| named(&error))? {
        let event = match record {
            Record::Event(event) if args.selection.has(event.event_type) => event,
            Record::Loss(loss) => {
                missing = missing.saturating_add(loss.count);
                continue;
            }
            // Without those that were lost at first and came late.
            Record::End(totals) => {
                missing = totals.lost;
                continue;
            }
            Record::Event(_) => continue,
        };
        let since = event.at_ns.saturating_sub(*first.get_or_insert(event.at_ns));
        if args.speed > 0.0 {
            let due = Duration::from_secs_f64((since as f64 / 1e9 / args.speed).min(LONGEST));
            std::thread::sleep((begin + due).saturating_duration_since(Instant::now()));
        }
        if let Err(error) = supplier.push(&as_event(&event)) {
            failure.get_or_insert(error);
        }
    }
    let mut output = std::io::stdout();
    writeln!(output, "{} events replayed in {:.1} s", supplier.pushed(), begin.elapsed().as_secs_f64())?;
    if missing > 0 {
        writeln!(output, "{missing} events were lost when it was recorded")?;
    }
    match (failure, reader.damage()) {
        (Some(error), _) => {
            Err(format!("{} events were not pushed; the first one: {error}", supplier.lost()).into())
        }
        (None, damage) if !damage.is_none() => Err(named(&damage).into()),
        (None, _) => Ok(()),
    }
}

/// The longest pause that is waited for: a year.
const LONGEST: f64 = 365.0 * 86_400.0;

fn as_event<'a>(recorded: &RecordedEvent<'a>) -> Event<'a> {
    Event {
        header: Header {
            event_type: recorded.event_type,
            source: recorded.source,
            ttl: recorded.ttl,
            creation_time: recorded.creation_time,
        },
        data: Data { pad1: recorded.pad1, octets: recorded.octets, any: recorded.any },
        ..Event::default()
    }
}
