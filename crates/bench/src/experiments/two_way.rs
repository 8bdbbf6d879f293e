//! `isorb-bench two-way`: how long a call takes, beside raw sockets and other ORBs.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;

use super::{BenchError, Context, Urgency};
use crate::blocks::{Rounds, calibrate, interleave};
use crate::cases::Case;
use crate::machine::Machine;
use crate::process::Launcher;
use crate::report::{Placement, Row, table};
use crate::subjects::{PairScheduling, Programs, StoppedPair, Subject};

/// A quick run ends within a minute, the last blocks and the end of the subjects included.
const QUICK: Duration = Duration::from_secs(50);

/// What to measure.
#[derive(Args, Debug)]
pub struct Options {
    /// At most a minute, with fewer rounds
    #[arg(long)]
    quick: bool,
    /// Seconds for each case and placement
    #[arg(long, conflicts_with = "quick", default_value_t = 12)]
    seconds: u32,
    /// One JSON object a line on standard output; the tables go to standard error
    #[arg(long)]
    json: bool,
    /// Subjects, separated by commas; the usual ones if not given
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<Subject>,
    /// Cases such as void,octets:1024,oneway; all if not given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Both processes on one core, on two, or both ways if not given
    #[arg(long, value_enum)]
    placement: Option<Placement>,
    #[command(flatten)]
    urgency: Urgency,
}

/// Measures, and prints as it goes.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let begin = Instant::now();
    let subjects = if options.subjects.is_empty() { Subject::usual() } else { &options.subjects };
    let cases = if options.cases.is_empty() { &Case::all() } else { &options.cases };
    let (mut cx, missing) = Context::new(launcher, options.urgency, options.quick, 0)?;
    let placements = placements(options, &cx.machine)?;
    let sink = Sink { json: options.json };
    sink.text(&format!("{}\n", cx.machine));
    missing.iter().for_each(|missing| sink.text(&format!("{missing}\n")));

    if options.placement.is_none() && !placements.contains(&Placement::TwoCore) {
        sink.text("two-core: skipped, this process may use one processor only\n");
    }

    let mut absent = Vec::new();
    let mut present = Vec::new();
    for &subject in subjects {
        match subject.programs(launcher) {
            Ok(programs) => present.push((subject, programs)),
            Err(missing) => absent.push((subject.name(), missing.to_string())),
        }
    }
    if present.is_empty() {
        absent.iter().for_each(|(subject, why)| sink.text(&format!("{subject}: {why}")));
        return Err(BenchError::NoSubject);
    }

    let cells = placements.len() * cases.len();
    let each = Duration::from_secs(options.seconds.into());
    let all = each * u32::try_from(cells).unwrap_or(u32::MAX);
    let end = if options.quick { begin + QUICK } else { Instant::now() + all };
    let length = end.saturating_duration_since(Instant::now());
    sink.text(&format!("{cells} cases, about {} s\n", length.as_secs()));
    cx.lasts(length);
    let mut left = u32::try_from(cells).unwrap_or(u32::MAX);
    for placement in placements {
        let scheduling = PairScheduling::of(placement, &cx.machine);
        let start = |(subject, programs): &(Subject, Programs)| {
            StoppedPair::start(launcher, *subject, programs, scheduling)
        };
        let mut pairs = present.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for &case in cases {
            // Its share of the time that is left.
            let until = Instant::now() + end.saturating_duration_since(Instant::now()) / left;
            left -= 1;
            let rows = measure(&mut cx, &mut pairs, (placement, case), until, &mut absent)?;
            cx.suspend_progress(|| sink.rows(&rows, &absent, case))?;
            // What a connection's and a lane's buffers grow to depends on the sizes that follow.
            if case.size == 0 {
                cx.suspend_progress(|| sink.text(&(memory(&pairs) + &misplaced(&pairs))));
            }
        }
        pairs.into_iter().for_each(StoppedPair::end);
    }
    cx.finish();
    Ok(())
}

/// One case in one placement.
fn measure(
    cx: &mut Context<'_>,
    pairs: &mut Vec<StoppedPair>,
    (placement, case): (Placement, Case),
    until: Instant,
    absent: &mut Vec<(&'static str, String)>,
) -> Result<Vec<Row>, BenchError> {
    // The control is the first: it decides how many calls a block has, for all.
    let control = pairs.iter().position(|pair| pair.subject == Subject::Raw);
    let first = pairs.get_mut(control.unwrap_or(0)).ok_or(BenchError::NoSubject)?;
    let block = calibrate(|block| first.block(block), case)?;
    let progress = || cx.progress(format!("{case}, {}", placement.name()));
    let all = interleave(pairs, Rounds::until(until), |pair| pair.block(block), progress);
    let mut rows = Vec::new();
    for (pair, series) in pairs.iter().zip(&all) {
        let subject = pair.subject.name();
        match series.failed {
            Some(error) if control.is_some() && pair.subject == Subject::Raw => return Err(error.into()),
            Some(error) => absent.push((subject, format!("failed: {error}"))),
            None => {
                let ratio = control.map(|i| series.ratio_to(&all[i])).filter(|ratio| !ratio.is_nan());
                rows.push(Row {
                    experiment: case.experiment(),
                    subject,
                    placement,
                    size: case.size,
                    times: series.samples.summary().rounded(),
                    ratio_to_raw_p50: ratio.map(|r| (r * 10_000.0).round() / 10_000.0),
                });
            }
        }
    }
    let mut keep = all.iter().map(|series| series.failed.is_none());
    pairs.retain(|_| keep.next().unwrap_or(false));
    if pairs.is_empty() { Err(BenchError::NoSubject) } else { Ok(rows) }
}

fn placements(options: &Options, machine: &Machine) -> Result<Vec<Placement>, BenchError> {
    let two = machine.cpus.len() >= 2;
    match options.placement {
        Some(Placement::TwoCore) if !two => Err(BenchError::NoPlacement),
        Some(requested) => Ok(vec![requested]),
        None if two => Ok(vec![Placement::OneCore, Placement::TwoCore]),
        None => Ok(vec![Placement::OneCore]),
    }
}

fn memory(pairs: &[StoppedPair]) -> String {
    let each = pairs.iter().filter_map(|pair| {
        let kib = pair.pair.server_resident_kib()?;
        Some(format!("{} {:.1} MiB", pair.subject, kib as f64 / 1024.0))
    });
    format!("  server's resident memory: {}\n", each.collect::<Vec<_>>().join(", "))
}

/// A line for each subject that has changed class or processor of its threads.
fn misplaced(pairs: &[StoppedPair]) -> String {
    let each = pairs.iter().filter_map(|pair| {
        let (misplaced, all) = pair.pair.misplaced_threads();
        let subject = pair.subject;
        (misplaced > 0)
            .then(|| format!("  {subject}: {misplaced} of {all} threads run at another place or priority\n"))
    });
    each.collect()
}

/// Where results go.
struct Sink {
    json: bool,
}

impl Sink {
    fn text(&self, text: &str) {
        if self.json { eprintln!("{text}") } else { println!("{text}") }
    }

    fn rows(&self, rows: &[Row], absent: &[(&str, String)], case: Case) -> Result<(), BenchError> {
        self.text(&table(rows, absent, case.is_burst()));
        if self.json {
            let mut output = std::io::stdout().lock();
            for row in rows {
                writeln!(output, "{}", serde_json::to_string(row).map_err(std::io::Error::from)?)?;
            }
            output.flush()?;
        }
        Ok(())
    }
}
