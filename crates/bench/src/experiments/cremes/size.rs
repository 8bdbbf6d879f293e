//! The high producer's round trip among 40 low ones, by the size of the values.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{CHANNEL, MEMORY, figure, growth, notes, returned, subjects};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict, at, series};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trip from node to node of a high producer among 40 low ones, by the size of the values, and one by one at 8 KiB",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 8 to 11",
    paper: PAPER,
    seconds: (30, 150),
    run,
};

const NAME: &str = "cremes-size";
const PAPER: &str =
    "only reflective memory scales with the size of the values: what the event service takes grows faster";
const LOW: u32 = 40;
/// Octets. At 16 KiB the low producers fill half of the link; at 32 it would not carry them.
const SIZES: [usize; 5] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10];
const QUICK_SIZES: [usize; 3] = [1 << 10, 8 << 10, 16 << 10];
/// The size at which round trips are shown one by one.
const TRACE: usize = 8 << 10;
const LEAST: f64 = 1.0;
const MOST: f64 = 16.0;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let lab = site::lab()?;
    let (subjects, missing) = subjects(cx);
    let sizes: &[usize] = cx.pick(&QUICK_SIZES, &SIZES);
    let mut rows = Vec::new();
    for &size in sizes {
        let point = Point {
            experiment: NAME,
            passes: &[(Release::Behind, ["high", "low"])],
            x: size as f64 / 1024.0,
            low: LOW,
            size,
            ms: if size == TRACE { cx.ms(1_000, 5_000) } else { cx.ms(800, 2_500) },
            turns: 1,
            subjects: &subjects,
            trace: (size == TRACE).then_some("trace"),
        };
        measure(cx, &lab, &point, &mut rows)?;
    }
    let (x, draw) = ("size of a value, KiB", &["mean_ns", "max_ns"]);
    let figures = vec![
        figure("high", "The high producer among 40 low ones", x, draw),
        figure("low", "The 40 low producers", x, draw),
        figure("trace", "The high producer's round trips one by one, 8 KiB", "number", &["round_trip_ns"]),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes: notes(missing), verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let memory = growth(rows, "high", MEMORY, "mean_ns", LEAST, MOST);
    // What each KiB more takes: a ratio would speak for whoever takes long at 1 KiB already.
    let slope = |subject: &str| {
        let mean = |x: f64| at(rows, "high", subject, "mean_ns", x) / 1000.0;
        (mean(MOST) - mean(LEAST)) / (MOST - LEAST)
    };
    let (flat, steep) = (slope(MEMORY), slope(CHANNEL));
    let worst = |subject: &str| {
        let trace = series(rows, "trace", subject, "round_trip_ns");
        trace.iter().map(|&(_, ns)| ns / 1000.0).reduce(f64::max).unwrap_or(f64::NAN)
    };
    let back = returned(rows, "high", MEMORY);
    vec![
        Claim::paper(
            memory <= MOST,
            format!(
                "sixteen times the size takes {memory:.1} times as long through reflective memory (at most 16)"
            ),
        ),
        Claim::paper(
            steep > flat,
            format!(
                "each KiB more takes {steep:.0} us through the event channel (more than reflective memory's {flat:.0})"
            ),
        ),
        Claim::paper(
            worst(MEMORY) < worst(CHANNEL),
            format!(
                "of those shown at 8 KiB, the longest takes {:.0} us through reflective memory (less than the event channel's {:.0})",
                worst(MEMORY),
                worst(CHANNEL)
            ),
        ),
        Claim::aim(
            back >= 99.0,
            format!(
                "{back:.1} % of the high producer's stamps came back through reflective memory (at least 99)"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(us: impl Fn(&str, f64) -> f64) -> bool {
        let mut rows = Vec::new();
        for subject in [MEMORY, CHANNEL] {
            for x in [LEAST, MOST] {
                let ns = us(subject, x) * 1000.0;
                let values = vec![("mean_ns", ns), ("returned_percent", 100.0)];
                rows.push(Row { experiment: NAME, figure: "high", subject, x, values });
                rows.push(Row {
                    experiment: NAME,
                    figure: "trace",
                    subject,
                    x,
                    values: vec![("round_trip_ns", ns)],
                });
            }
        }
        Verdict::new(NAME, PAPER, judge(&rows)).shape_holds
    }

    #[test]
    fn shapes_are_told_apart() {
        assert!(verdict(|subject, kib| if subject == CHANNEL { 500.0 * kib } else { 500.0 + 100.0 * kib }));
        assert!(!verdict(|_, kib| 500.0 + 100.0 * kib));
        assert!(!verdict(|subject, kib| if subject == CHANNEL { 500.0 } else { 500.0 + 100.0 * kib }));
        assert!(!verdict(|_, kib| if kib > 1.0 { f64::NAN } else { 500.0 }));
    }
}
