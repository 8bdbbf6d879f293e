//! `isorb event export`: a recording as a trace for Perfetto.

use super::Outcome;
use super::selection::Selection;
use crate::commands::arguments::{to_read, to_write};
use isorb_event_file::{LossCause, Reader, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording.
    #[arg(value_parser = to_read())]
    file: PathBuf,
    /// File to write, in the JSON form of traces.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    perfetto: PathBuf,
    #[command(flatten)]
    selection: Selection,
}

pub fn run(args: &Args) -> Outcome {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", args.file.display());
    let written = |error: std::io::Error| format!("{}: {error}", args.perfetto.display());
    let mut reader = Reader::open(&args.file).map_err(|error| named(&error))?;
    let mut output = BufWriter::new(File::create(&args.perfetto).map_err(written)?);
    let process = json!({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": args.file.display().to_string()}});
    write!(output, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{process}").map_err(written)?;
    // A row for each type and source.
    let mut rows = BTreeMap::<(i32, i32), usize>::new();
    let mut put = |value: &Value| write!(output, ",\n{value}").map_err(written);
    while let Some(record) = reader.next().map_err(|error| named(&error))? {
        let (event_type, source) = match &record {
            Record::Event(event) => (event.event_type, event.source),
            Record::Loss(loss) => (loss.event_type, loss.source),
            Record::End(_) => continue,
        };
        if !args.selection.has(event_type) {
            continue;
        }
        let next = rows.len() + 1;
        let row = *rows.entry((event_type, source)).or_insert(next);
        if row == next {
            let name = format!("type {event_type}, source {source}");
            put(&json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "args": {"name": name}}))?;
        }
        let (name, at_ns, arguments) = match record {
            Record::Event(event) => {
                let arguments = json!({
                    "octets": event.octets.len() + event.any.len(),
                    "supplier": format!("{:x}", event.supplier),
                    "number": event.number,
                    "created": event.creation_time,
                });
                ("event".to_owned(), event.at_ns, arguments)
            }
            Record::Loss(loss) => {
                let cause = match loss.cause {
                    LossCause::OnTheWay => "on the way",
                    LossCause::BufferFull => "buffer full",
                    LossCause::NotWritten => "not written",
                };
                (format!("{} lost", loss.count), loss.at_ns, json!({"cause": cause, "count": loss.count}))
            }
            Record::End(_) => continue,
        };
        let ts = at_ns as f64 / 1e3;
        put(&json!({"ph": "i", "s": "t", "name": name, "pid": 1, "tid": row, "ts": ts, "args": arguments}))?;
    }
    write!(output, "\n]}}\n").and_then(|()| output.flush()).map_err(written)?;
    println!("{}", args.perfetto.display());
    let damage = reader.damage();
    if damage.is_none() { Ok(()) } else { Err(named(&damage).into()) }
}
