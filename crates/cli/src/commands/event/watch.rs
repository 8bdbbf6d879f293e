//! `isorb event watch`.

use super::selection::{ConsumerArgs, seconds};
use super::{Outcome, PayloadArgs};
use crate::commands::arguments::object_url;
use crate::typed::Typed;
use isorb::Orb;
use isorb_event::designator::INSTANCE_TIMEOUT;
use isorb_event::{ContentFilter, Event};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait for the terminal. When it does not take them the channel keeps the events in
/// this consumer's queue, and counts those that it loses.
const WAITING: usize = 1024;
/// Octets of a payload that are shown in a line.
const SHOWN: usize = 32;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// URL of the channel, from its line READY.
    #[arg(value_parser = object_url)]
    url: String,
    #[command(flatten)]
    consumer: ConsumerArgs,
    /// Prints a JSON object for each event.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    payload: PayloadArgs,
    /// Condition on the payload, as in 'position.altitude > 300 && id == 7', which the channel
    /// evaluates.
    #[arg(long = "where", value_name = "EXPRESSION", requires = "payload")]
    condition: Option<String>,
    /// Shows at most one event in this time, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    separation: Option<Duration>,
    /// Shows, as an event of type 15, each type and source of which no event came for this time, in
    /// seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    instance_period: Option<Duration>,
    /// Number of events after which it ends.
    #[arg(long)]
    count: Option<u64>,
    /// Time after which it ends, in seconds.
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
}

pub fn run(args: &Args, orb: &Orb) -> Outcome {
    let typed = args.payload.load()?;
    let channel = super::connect(orb, &args.url)?;
    let (lines, shown) = sync_channel::<String>(WAITING);
    let (json, types) = (args.json, args.consumer.selection.filter());
    let mut qos = args.consumer.qos();
    qos.min_separation = args.separation.unwrap_or_default();
    qos.instance_period = args.instance_period;
    if let (Some(condition), Some(typed)) = (&args.condition, &typed) {
        qos.content = Some(ContentFilter::new(condition, typed.payload_type())?);
    }
    let begin = Instant::now();
    let selection = args.consumer.selection.clone();
    let _consumer = channel.consume_with(qos, types, move |event| {
        if selection.has(event.header.event_type) || event.header.event_type == INSTANCE_TIMEOUT {
            let line = if json { as_json(event, typed.as_ref()) } else { as_text(event, typed.as_ref()) };
            // The command ends.
            let _ = lines.send(line);
        }
    })?;
    let end = args.seconds.map(|time| begin + time);
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut output = std::io::stdout().lock();
    while left > 0 {
        let limit =
            end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        match shown.recv_timeout(limit) {
            Ok(line) => {
                writeln!(output, "{line}")?;
                output.flush()?;
                left -= 1;
            }
            Err(RecvTimeoutError::Timeout) if end.is_none() => {}
            Err(_) => break,
        }
    }
    Ok(())
}

fn as_text(event: &Event<'_>, typed: Option<&Typed>) -> String {
    let header = &event.header;
    let octets = event.data.octets;
    let mut line = format!(
        "type {:<6} source {:<6} {:>7} octets  ",
        header.event_type,
        header.source,
        octets.len() + event.data.any.len()
    );
    let _ = match typed {
        Some(typed) => write!(line, "{}", typed.show(octets).unwrap_or_else(|error| format!("({error})"))),
        None => write!(line, "{}", shown(octets)),
    };
    if event.origin.supplier != 0 {
        let _ = write!(line, "  #{} of {:x}", event.origin.number, event.origin.supplier);
    }
    line
}

/// Text as it is, other octets as hexadecimal digits.
fn shown(octets: &[u8]) -> String {
    let part = &octets[..octets.len().min(SHOWN)];
    let more = if octets.len() > SHOWN { "…" } else { "" };
    match std::str::from_utf8(part) {
        Ok(text) if !text.chars().any(char::is_control) => format!("{text}{more}"),
        _ => format!("{}{more}", hex(part)),
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// One object a line. The payload is the value of the IDL type, else text, else hexadecimal digits
/// as `hex`.
fn as_json(event: &Event<'_>, typed: Option<&Typed>) -> String {
    let header = &event.header;
    let mut object = json!({
        "type": header.event_type,
        "source": header.source,
        "created": header.creation_time,
    });
    if event.origin.supplier != 0 {
        object["supplier"] = json!(format!("{:x}", event.origin.supplier));
        object["number"] = json!(event.origin.number);
    }
    let octets = event.data.octets;
    match typed.map(|typed| {
        typed.show(octets).and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()))
    }) {
        Some(Ok(value)) => object["payload"] = value,
        Some(Err(error)) => {
            object["error"] = Value::from(error);
            object["hex"] = Value::from(hex(octets));
        }
        None => match std::str::from_utf8(octets) {
            Ok(text) => object["payload"] = Value::from(text),
            Err(_) => object["hex"] = Value::from(hex(octets)),
        },
    }
    if !event.data.any.is_empty() {
        object["any"] = Value::from(hex(event.data.any));
    }
    object.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_text_or_digits() {
        assert_eq!(shown(b"48.2N 16.3E"), "48.2N 16.3E");
        assert_eq!(shown(&[1, 0xff]), "01ff");
        assert_eq!(shown(b"two\nlines"), "74776f0a6c696e6573");
        assert_eq!(shown(&[b'a'; 40]), format!("{}…", "a".repeat(32)));
        let event = Event::new(16, 1).octets(b"48.2N");
        assert_eq!(as_json(&event, None), r#"{"created":0,"payload":"48.2N","source":1,"type":16}"#);
        let event = Event::new(16, 1).octets(&[0xff]);
        assert_eq!(as_json(&event, None), r#"{"created":0,"hex":"ff","source":1,"type":16}"#);
        assert!(as_text(&event, None).ends_with("1 octets  ff"));
    }
}
