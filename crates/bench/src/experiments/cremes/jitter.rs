//! The deviation of round trips while low producers are added.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{AGAIN, BARE, CHANNEL, CHANNEL_ORB, MEMORY, deviation_of_others, figure, notes, subjects};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::{Claim, Outcome, Row, Verdict, at};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deviation of round trips from node to node, high and low, at 8 KiB",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 4 and 7",
    paper: PAPER,
    seconds: (40, 170),
    run,
};

const NAME: &str = "cremes-jitter";
const PAPER: &str = "through reflective memory the high producer's deviation stays small among 50 low producers; through the event service even the low ones' is many times that";
const LOW: [u32; 4] = [0, 10, 30, 50];
const QUICK_LOW: [u32; 2] = [0, 50];
const SIZE: usize = 8 << 10;
const MOST: f64 = 50.0;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let lab = site::lab()?;
    let (subjects, missing) = subjects(cx);
    let lows: &[u32] = cx.pick(&QUICK_LOW, &LOW);
    let mut rows = Vec::new();
    for &low in lows {
        let point = Point {
            experiment: NAME,
            passes: &[(Release::Behind, ["high", "low"]), (Release::Together, ["together", ""])],
            x: low.into(),
            low,
            size: SIZE,
            ms: cx.ms(1_200, 2_500),
            turns: 1,
            subjects: &subjects,
            trace: None,
        };
        measure(cx, &lab, &point, &mut rows)?;
    }
    let (x, draw) = ("low producers", &["stddev_ns"]);
    let figures = vec![
        figure("high", "Deviation of the high producer where it meets the low ones, 8 KiB", x, draw),
        figure("together", "Deviation of the high producer, all released together, 8 KiB", x, draw),
        figure("low", "Deviation of the low producers, 8 KiB", x, draw),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes: notes(missing), verdict })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let deviation = |figure: &str, subject: &str| at(rows, figure, subject, "stddev_ns", MOST) / 1000.0;
    let (high, channel, bare) =
        (deviation("high", MEMORY), deviation("high", CHANNEL), deviation("high", BARE));
    let (low, by_calls) = (deviation("low", CHANNEL), deviation("high", CHANNEL_ORB));
    let others = |subject: &str| deviation_of_others(rows, "together", subject, MOST);
    let together = others(MEMORY);
    let most = [CHANNEL, BARE, AGAIN].map(others).into_iter().fold(f64::NAN, f64::max);
    let worst = at(rows, "together", MEMORY, "max_ns", MOST) / 1000.0;
    vec![
        Claim::paper(
            high <= 300.0,
            format!(
                "among 50, the high producer deviates by {high:.0} us through reflective memory (at most 300, the paper's most)"
            ),
        ),
        Claim::paper(
            low >= 2.0 * high,
            format!(
                "low ones by {low:.0} us through the event channel (at least twice that; the paper: 1,800 to 2,000)"
            ),
        ),
        Claim::control(
            bare > high,
            format!(
                "over one queue without priorities ('bare') the high one deviates by {bare:.0} us (more)"
            ),
        ),
        Claim::paper(
            high < channel,
            format!("through the event channel the high one deviates by {channel:.0} us (more)"),
        ),
        Claim::paper(
            together <= most,
            format!(
                "released together with 50 it deviates by {together:.0} us but for the worst value, {worst:.0} us (at most {most:.0}, the largest of the event channel's and the bare hand-overs')"
            ),
        ),
        Claim::aim(
            high < by_calls,
            format!("and by {by_calls:.0} us where the channels are federated by the ORB (more)"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::SUBJECTS;
    use super::*;

    fn verdict(us: impl Fn(&str, &str) -> f64) -> (bool, Option<bool>) {
        let mut rows = Vec::new();
        for figure in ["high", "together", "low"] {
            for subject in SUBJECTS {
                let of = us(figure, subject) * 1000.0;
                let values = vec![("n", 50.0), ("mean_ns", of), ("max_ns", of), ("stddev_ns", of)];
                rows.push(Row { experiment: NAME, figure, subject, x: MOST, values });
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails)
    }

    #[test]
    fn shapes_are_told_apart() {
        let paper = |_: &str, subject: &str| if subject == MEMORY { 200.0 } else { 1900.0 };
        assert_eq!(verdict(paper), (true, Some(true)));
        assert_eq!(verdict(|_, _| 200.0), (false, Some(false)));
        assert_eq!(verdict(|_, _| 1900.0), (false, Some(false)));
        assert_eq!(verdict(|_, _| f64::NAN), (false, Some(false)));
    }
}
