//! The counts and times of requests, in the text format of OpenMetrics.

use isorb::{Orb, RequestCounts};
use isorb_rt::histogram::Histogram;
use std::fmt::Write;

/// Labels, and the counts with them.
type Row = (String, RequestCounts);

/// Upper bounds of the buckets that are shown, as powers of 2 in nanoseconds: 1 us to 1 s.
const BOUNDS: [usize; 11] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];

/// Adds the families of requests, by lane and by operation.
pub fn write(text: &mut String, orb: &Orb) {
    let lanes = orb.requests_by_lane().into_iter().map(|of| (lane(of.lane), of.counts));
    families(text, "isorb_lane", "by lane", &lanes.collect::<Vec<_>>());
    let operations = orb.requests_by_operation().into_iter();
    let operations = operations.map(|of| (operation(of.operation), of.counts));
    families(text, "isorb_operation", "by operation", &operations.collect::<Vec<_>>());
}

fn lane(lane: Option<(u32, Option<isorb_rt::priority::Priority>)>) -> String {
    let (pool, priority) = match lane {
        None => ("others".into(), "others".into()),
        Some((pool, priority)) => {
            (pool.to_string(), priority.map_or_else(|| "none".into(), |own| own.get().to_string()))
        }
    };
    format!("pool=\"{pool}\",priority=\"{priority}\"")
}

fn operation(operation: Option<(&str, &str)>) -> String {
    let (interface, operation) = operation.unwrap_or(("others", "others"));
    format!("interface=\"{}\",operation=\"{}\"", escaped(interface), escaped(operation))
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn families(text: &mut String, prefix: &str, by: &str, rows: &[Row]) {
    // Writing to a string does not fail.
    let name = format!("{prefix}_requests");
    let _ = writeln!(text, "# TYPE {name} counter\n# HELP {name} Requests that ended, {by} and outcome.");
    for (labels, counts) in rows {
        for (outcome, count) in [
            ("results", counts.results),
            ("user_exception", counts.user_exceptions),
            ("system_exception", counts.system_exceptions),
        ] {
            let _ = writeln!(text, "{name}_total{{{labels},outcome=\"{outcome}\"}} {count}");
        }
    }
    let name = format!("{prefix}_refused");
    let _ = writeln!(text, "# TYPE {name} counter\n# HELP {name} Requests that reached no servant, {by}.");
    for (labels, counts) in rows {
        let _ = writeln!(text, "{name}_total{{{labels}}} {}", counts.refused);
    }
    let name = format!("{prefix}_request_seconds");
    let _ = writeln!(
        text,
        "# TYPE {name} histogram\n# UNIT {name} seconds\n# HELP {name} Times from dispatch to reply, {by}."
    );
    for (labels, counts) in rows {
        times(text, &name, labels, counts);
    }
}

fn times(text: &mut String, name: &str, labels: &str, counts: &RequestCounts) {
    let Histogram(buckets) = counts.times;
    for bound in BOUNDS {
        let below: u64 = buckets[..=bound].iter().sum();
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{}\"}} {below}", seconds(1 << bound));
    }
    let all = counts.times.count();
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", seconds(counts.time_ns));
    let _ = writeln!(text, "{name}_count{{{labels}}} {all}");
}

/// Exact, whatever the number.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_times_are_written_as_the_format_asks() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(operation(None), "interface=\"others\",operation=\"others\"");
        assert_eq!(lane(Some((3, None))), "pool=\"3\",priority=\"none\"");
        assert_eq!(
            (seconds(1 << 10), seconds(61_000_000_001)),
            ("0.000001024".into(), "61.000000001".into())
        );
    }
}
