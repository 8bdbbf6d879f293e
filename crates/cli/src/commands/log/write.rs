//! `isorb log write`.

use super::{LEVELS, LogRef, Outcome, ProducerLogRecord};
use isorb::{Policies, Reference, SyncScope};
use std::io::{BufRead, BufReader};

/// The most records of one request.
const BATCH: usize = 256;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The text; without it each line of standard input is a record.
    text: Option<String>,
    /// What the record is about: a name of the standard's, such as failure-alarm, or a number.
    #[arg(long, default_value = LEVELS[7], value_parser = super::level)]
    level: u16,
    /// The producer's identification. With an access policy the scope of `write` is compared with
    /// it.
    #[arg(long, value_name = "ID", default_value = "isorb")]
    producer_id: String,
    /// The producer's name.
    #[arg(long, value_name = "NAME", default_value = "")]
    producer_name: String,
}

pub fn run(args: &Args, log: &LogRef) -> Outcome {
    // The standard's write operations are oneway: this waits for the service's answer.
    let policies = Policies { sync_scope: Some(SyncScope::WithTarget), ..Policies::default() };
    let log: LogRef = log.object().with_policies(policies).unchecked_narrow();
    if let Some(text) = &args.text {
        return Ok(log.write_record(&record(args, text.clone()))?);
    }
    let mut input = BufReader::new(std::io::stdin());
    let mut records = Vec::new();
    let mut text = String::new();
    loop {
        text.clear();
        let is_end = input.read_line(&mut text)? == 0;
        if !is_end {
            records.push(record(args, text.trim_end_matches(['\n', '\r']).to_owned()));
        }
        // What has come in is written at once; lines that came together go together.
        let has_more = !is_end && input.buffer().contains(&b'\n');
        if !records.is_empty() && (!has_more || records.len() == BATCH) {
            log.write_records(&records)?;
            records.clear();
        }
        if is_end {
            return Ok(());
        }
    }
}

fn record(args: &Args, log_data: String) -> ProducerLogRecord {
    ProducerLogRecord {
        producer_id: args.producer_id.clone(),
        producer_name: args.producer_name.clone(),
        level: args.level,
        log_data,
    }
}
