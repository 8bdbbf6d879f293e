//! The mean round trip of the high producer while low ones are added.

use super::{BARE, CHANNEL, MEMORY, ORB, Point, figure, growth, measure, notes, returned};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict, at};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trip from node to node of a high producer among 0 to 50 low ones: reflective memory and the event channel",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 2, 3, 5 and 6",
    paper: PAPER,
    seconds: (50, 1250),
    run,
};

const NAME: &str = "cremes-latency";
const PAPER: &str = "through reflective memory the high producer's latency stays nearly as it is while low producers are added; through the event service it is longer, and grows more";
const LOW: [u32; 6] = [0, 10, 20, 30, 40, 50];
const QUICK_LOW: [u32; 2] = [0, 50];
/// Octets of a value, with the figures of the high producer and of the low ones.
const SIZES: [(usize, [&str; 2]); 2] = [(1 << 10, ["high-1k", "low-1k"]), (8 << 10, ["high-8k", "low-8k"])];
const MOST: f64 = 50.0;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let lows: &[u32] = cx.pick(&QUICK_LOW, &LOW);
    let ms = cx.ms(2_000, 25_000);
    let mut rows = Vec::new();
    for (size, figures) in SIZES {
        for &low in lows {
            let point = Point { experiment: NAME, figures, x: low.into(), low, size, ms };
            measure(cx, &point, &mut rows)?;
        }
    }
    let x = "low producers";
    let draw = &["mean_ns"];
    let figures = vec![
        figure("high-1k", "The high producer, 1 KiB", x, draw),
        figure("low-1k", "The low producers, 1 KiB", x, draw),
        figure("high-8k", "The high producer, 8 KiB", x, draw),
        figure("low-8k", "The low producers, 8 KiB", x, draw),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes: notes(), verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let grows = |subject: &str, size: &str| growth(rows, size, subject, "mean_ns", 0.0, MOST);
    let mean = |subject: &str, size: &str| at(rows, size, subject, "mean_ns", MOST);
    let mut claims = Vec::new();
    for (size, words, limit, paper) in [("high-1k", "1 KiB", 1.5, "1.13"), ("high-8k", "8 KiB", 2.0, "1.44")]
    {
        let memory = grows(MEMORY, size);
        claims.push(Claim::paper(
            memory <= limit,
            format!("at {words}, 50 low producers make it {memory:.2} times as long through reflective memory (at most {limit}; the paper: {paper})"),
        ));
    }
    let (channel, memory) = (grows(CHANNEL, "high-8k"), grows(MEMORY, "high-8k"));
    claims.push(Claim::paper(
        channel > memory,
        format!("at 8 KiB, {channel:.2} times through the event channel (more than reflective memory's {memory:.2}; the paper: 1.97)"),
    ));
    let beside = mean(CHANNEL, "high-8k") / mean(MEMORY, "high-8k");
    claims.push(Claim::paper(
        beside > 1.0,
        format!("at 8 KiB and 50, the event channel takes {beside:.2} times as long as reflective memory (above 1; the paper: 2.3)"),
    ));
    let bare = mean(MEMORY, "high-1k") / mean(BARE, "high-1k");
    claims.push(Claim::aim(
        bare <= 1.5,
        format!(
            "at 1 KiB and 50, reflective memory takes {bare:.2} times as long as a bare program (at most 1.5)"
        ),
    ));
    let orb = mean(ORB, "high-8k") / mean(MEMORY, "high-8k");
    claims.push(Claim::aim(
        orb > 1.0,
        format!("at 8 KiB and 50, through the ORB it takes {orb:.2} times as long as by datagrams (above 1)"),
    ));
    let least =
        ["high-1k", "high-8k"].map(|size| returned(rows, size, MEMORY)).into_iter().fold(100.0, f64::min);
    claims.push(Claim::aim(
        least >= 99.0,
        format!(
            "{least:.1} % of the high producer's stamps came back through reflective memory (at least 99)"
        ),
    ));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::cremes::SUBJECTS;

    fn verdict(us: impl Fn(&str, f64) -> f64) -> bool {
        let mut rows = Vec::new();
        for figure in ["high-1k", "high-8k"] {
            for subject in SUBJECTS {
                for x in [0.0, 50.0] {
                    let values = vec![("mean_ns", us(subject, x) * 1000.0), ("returned_percent", 100.0)];
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        Verdict::new(NAME, PAPER, judge(&rows)).shape_holds
    }

    #[test]
    fn shapes_are_told_apart() {
        let paper =
            |subject: &str, n: f64| if subject == CHANNEL { 1900.0 + 40.0 * n } else { 880.0 + 2.0 * n };
        assert!(verdict(paper));
        assert!(!verdict(|_, n| 880.0 + 2.0 * n), "the event channel grows no more");
        assert!(!verdict(|subject, n| paper(subject, n) + if subject == MEMORY { 50.0 * n } else { 0.0 }));
        assert!(
            !verdict(|subject, n| if subject == CHANNEL { 100.0 + n * 10.0 } else { 880.0 }),
            "it is shorter"
        );
        assert!(!verdict(|_, _| f64::NAN));
    }
}
