//! The deviation of round trips while low producers are added.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{
    AGAIN, BARE, CHANNEL, CHANNEL_ORB, JUDGED, MEMORY, Quick, explained_deviation, figure, notes, subjects,
    turns,
};
use crate::claim::{Above, AtLeast, AtMost, Cells, Claim, aim, claims, control, most, paper};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::Measured;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Deviation of round trips from node to node, high and low, at 8 KiB",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 4 and 7",
    paper: "through reflective memory the high producer's deviation stays small among 50 low producers; through the event service even the low ones' is many times that",
    seconds: (60, 1_100),
    run,
    claims,
};

const NAME: &str = "cremes-jitter";
const LOW: [u32; 4] = [0, 10, 30, 50];
const QUICK_LOW: [u32; 2] = [0, 50];
const SIZE: usize = 8 << 10;
const MOST: f64 = 50.0;
pub(super) const QUICK: Quick = Quick { subjects: &[MEMORY, BARE, CHANNEL, AGAIN, CHANNEL_ORB], ms: 3_000 };

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let lab = site::lab()?;
    let (subjects, missing) = subjects(cx);
    let subjects = QUICK.subjects(cx, &subjects);
    let lows: &[u32] = cx.pick(&QUICK_LOW, &LOW);
    for &low in lows {
        let point = Point {
            passes: &[(Release::Behind, ["high", "low"]), (Release::Together, ["together", ""])],
            x: low.into(),
            low,
            size: SIZE,
            lengths: QUICK.lengths(cx),
            turns: turns(cx),
            judged: &JUDGED,
            subjects: &subjects,
            trace: None,
        };
        measure(cx, &lab, &point, out)?;
    }
    let (x, draw) = ("low producers", &["stddev_ns"]);
    out.figures = vec![
        figure("high", "Deviation of the high producer where it meets the low ones, 8 KiB", x, draw),
        figure("together", "Deviation of the high producer, all released together, 8 KiB", x, draw),
        figure("low", "Deviation of the low producers, 8 KiB", x, draw),
    ];
    notes(out, missing);
    Ok(())
}

/// The deviation of a subject among 50 low producers, in microseconds.
fn deviation(r: &dyn Cells, figure: &str, subject: &str) -> f64 {
    r.at(figure, subject, "stddev_ns", MOST) / 1000.0
}

fn claims() -> Vec<Claim> {
    let over_memory = |r: &dyn Cells, figure: &str, subject: &str| {
        let other = deviation(r, figure, subject);
        [other / deviation(r, "high", MEMORY), other]
    };
    claims! {
        paper AtMost(300.0), "among 50, the high producer deviates by {0:.0} us through reflective \
             memory ({limit}, the paper's most)", |r| [deviation(r, "high", MEMORY)];
        paper AtLeast(2.0), "low ones by {1:.0} us through the event channel, {0:.1} times as much \
             ({limit}; the paper: 1,800 to 2,000)", move |r| over_memory(r, "low", CHANNEL);
        paper AtMost(1.0), "low ones by {1:.0} us through reflective memory, {0:.2} times the event \
             channel's ({limit})",
            |r| {
                let [memory, channel] = [MEMORY, CHANNEL].map(|subject| deviation(r, "low", subject));
                [memory / channel, memory]
            };
        control Above(1.0), "over one queue without priorities ('bare') the high one deviates by {1:.0} \
             us, {0:.1} times as much ({limit})", move |r| over_memory(r, "high", BARE);
        paper Above(1.0), "through the event channel the high one deviates by {1:.0} us, {0:.1} times as \
             much ({limit})", move |r| over_memory(r, "high", CHANNEL);
        paper AtMost(1.0), "released together with 50 it deviates by {1:.0} us, the worst value being \
             {2:.0} us: {0:.2} of the largest of the event channel's and the bare hand-overs' ({limit})",
            |r| {
                let others = |subject: &str| explained_deviation(r, "together", subject, MOST);
                let memory = others(MEMORY);
                let worst = r.at("together", MEMORY, "max_ns", MOST) / 1000.0;
                [memory / most([CHANNEL, BARE, AGAIN].map(others)), memory, worst]
            };
        aim Above(1.0), "by {1:.0} us where the channels are federated by the ORB, {0:.1} times as much \
             ({limit})", move |r| over_memory(r, "high", CHANNEL_ORB);
    }
}
