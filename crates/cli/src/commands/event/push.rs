//! `isorb event push`.

use super::{Outcome, PayloadArgs};
use crate::commands::arguments::object_url;
use crate::typed::from_hex;
use isorb::Orb;
use isorb_event::{Event, Ownership};
use std::io::Write;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// URL of the channel, from its line READY.
    #[arg(value_parser = object_url)]
    url: String,
    /// Type of the event; those of applications begin at 16.
    #[arg(value_name = "TYPE")]
    event_type: i32,
    /// The payload: JSON of the type of --idl, else text [default: none].
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Source of the event.
    #[arg(long, default_value_t = 1)]
    source: i32,
    /// The number of channels over which it may be forwarded.
    #[arg(long, default_value_t = 1)]
    ttl: i32,
    #[command(flatten)]
    payload: PayloadArgs,
    /// Reads the payload as hexadecimal digits.
    #[arg(long, conflicts_with = "idl")]
    hex: bool,
    /// How often it is pushed.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Time between two pushes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    period: u64,
    /// Competes with other suppliers of this type and source: the channel drops the events of all
    /// but the strongest.
    #[arg(long, allow_hyphen_values = true)]
    strength: Option<i32>,
    /// Time without an event after which weaker suppliers are heard, in milliseconds; 0: only when
    /// this one has ended.
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "strength")]
    lease: u64,
}

pub fn run(args: &Args, orb: &Orb) -> Outcome {
    let octets = match (args.payload.load()?, &args.value) {
        (Some(typed), Some(json)) => {
            typed.parse(json).map_err(|error| format!("the payload {json}: {error}"))?
        }
        (Some(_), None) => return Err("--idl needs a payload: give a JSON value after the type".into()),
        (None, Some(digits)) if args.hex => from_hex(digits)?,
        (None, text) => text.as_deref().unwrap_or_default().as_bytes().to_vec(),
    };
    let channel = super::connect(orb, &args.url)?;
    let supplier = match args.strength {
        None => channel.supplier()?,
        Some(strength) => {
            let ownership = Ownership::new(strength).lease(Duration::from_millis(args.lease));
            channel.supplier_with([], ownership)?
        }
    };
    let event = Event::new(args.event_type, args.source).ttl(args.ttl).octets(&octets);
    for number in 0..args.count {
        if number > 0 && args.period > 0 {
            std::thread::sleep(Duration::from_millis(args.period));
        }
        supplier.push(&event).map_err(|error| {
            format!(
                "{} of {} events were pushed; the next one failed: {error}",
                supplier.pushed(),
                args.count
            )
        })?;
    }
    let mut line = format!("{} pushed", supplier.pushed());
    if supplier.not_owned() > 0 {
        line += &format!(", {} dropped because a stronger supplier is heard", supplier.not_owned());
    }
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
