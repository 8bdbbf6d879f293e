//! `isorb log read`.

use super::moment::{self, since, text_of};
use super::{LogRef, Outcome, level_name, line, retrieval, shown};
use isorb_log_service::cos_lw_log::{LogRecord, LogTime};
use std::time::Duration;

/// The most records of one request.
const BATCH: u32 = 500;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Begins with the record of this number [default: the oldest].
    #[arg(long, value_name = "ID", conflicts_with_all = ["since", "last"])]
    from: Option<u64>,
    /// Begins with the first record of this time or later: seconds since 1970, a time such as
    /// 2026-11-28T04:00:00Z, or how long ago, such as 90s, 15m, 2h or 1d.
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with = "last")]
    since: Option<LogTime>,
    /// Begins N records before the end.
    #[arg(long, value_name = "N")]
    last: Option<u64>,
    /// Prints at most this number of records.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Prints records of this level, by name or number; repeatable.
    #[arg(long, value_parser = super::level)]
    level: Vec<u16>,
    /// Prints records of the producer with this identification; repeatable.
    #[arg(long, value_name = "ID")]
    producer_id: Vec<String>,
    /// Prints records of the producer with this name; repeatable.
    #[arg(long, value_name = "NAME")]
    producer_name: Vec<String>,
    /// Goes on with records that are written from now on.
    #[arg(long)]
    follow: bool,
    /// Time between two requests at the end of the log (`--follow`), in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Prints each record as a JSON object in a line.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, log: &LogRef) -> Outcome {
    let mut current = begin(args, log)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut expected = None;
    while left > 0 {
        let (records, next) = fetch(args, log, current, left)?;
        if let (Some(expected), Some(first), true) = (expected, records.first(), is_unfiltered(args))
            && first.id > expected
        {
            eprintln!("isorb: the records {expected} to {} were lost before they were read", first.id - 1);
        }
        let is_end = records.is_empty();
        for record in records.iter().filter(|record| is_wanted(args, record)).take(left as usize) {
            print(record, args.json)?;
            left -= 1;
        }
        (current, expected) = (next, Some(next));
        match (is_end, args.follow) {
            (false, _) => {}
            (true, true) => std::thread::sleep(Duration::from_millis(args.interval)),
            (true, false) => break,
        }
    }
    Ok(())
}

/// The number of the record to begin with.
fn begin(args: &Args, log: &LogRef) -> Outcome<u64> {
    if let Some(time) = args.since {
        return log.get_record_id_from_time(time).map_err(retrieval);
    }
    if let Some(last) = args.last {
        let end = LogTime { seconds: i32::MAX, nanoseconds: moment::LAST_NANOSECOND };
        let end = log.get_record_id_from_time(end).map_err(retrieval)?;
        return Ok(end.saturating_sub(last));
    }
    Ok(args.from.unwrap_or(0))
}

/// The next records, and the number to go on with. The service compares with the first filter that
/// is given.
fn fetch(args: &Args, log: &LogRef, mut current: u64, left: u64) -> Outcome<(Vec<LogRecord>, u64)> {
    let mut how_many = BATCH.min(u32::try_from(left).unwrap_or(BATCH));
    let (at, number) = (&mut current, &mut how_many);
    let records = if !args.producer_id.is_empty() {
        log.retrieve_records_by_producer_id(at, number, &args.producer_id)
    } else if !args.producer_name.is_empty() {
        log.retrieve_records_by_producer_name(at, number, &args.producer_name)
    } else if !args.level.is_empty() {
        log.retrieve_records_by_level(at, number, &args.level)
    } else {
        log.retrieve_records(at, number)
    };
    Ok((records.map_err(retrieval)?, current))
}

fn is_unfiltered(args: &Args) -> bool {
    args.producer_id.is_empty() && args.producer_name.is_empty() && args.level.is_empty()
}

fn is_wanted(args: &Args, record: &LogRecord) -> bool {
    let info = &record.info;
    (args.level.is_empty() || args.level.contains(&info.level))
        && (args.producer_id.is_empty() || args.producer_id.contains(&info.producer_id))
        && (args.producer_name.is_empty() || args.producer_name.contains(&info.producer_name))
}

fn print(record: &LogRecord, json: bool) -> Outcome {
    let (info, time) = (&record.info, text_of(record.time));
    if json {
        return line(&serde_json::json!({
            "id": record.id,
            "time": time,
            "level": info.level,
            "level_name": level_name(info.level),
            "producer_id": info.producer_id,
            "producer_name": info.producer_name,
            "data": info.log_data,
        }));
    }
    let level = level_name(info.level).map_or_else(|| info.level.to_string(), str::to_owned);
    let mut producer = shown(&info.producer_id);
    if !info.producer_name.is_empty() {
        producer = format!("{producer} ({})", shown(&info.producer_name));
    }
    line(&format_args!("{} {time} {level} {producer}: {}", record.id, shown(&info.log_data)))
}
