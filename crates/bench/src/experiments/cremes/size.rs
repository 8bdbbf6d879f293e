//! The high producer's round trip among 40 low ones, by the size of the values.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{BARE, CHANNEL, JUDGED, MEMORY, Quick, figure, notes, returned, subjects, turns};
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, aim, claims, most, paper};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::Measured;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trip from node to node of a high producer among 40 low ones, by the size of the values, and one by one at 8 KiB",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 8 to 11",
    paper: "only reflective memory scales with the size of the values: what the event service takes grows faster",
    seconds: (50, 750),
    run,
    claims,
};

const NAME: &str = "cremes-size";
const LOW: u32 = 40;
/// Octets. At 16 KiB the low producers fill half of the link; at 32 it would not carry them.
const SIZES: [usize; 5] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10];
const QUICK_SIZES: [usize; 3] = [1 << 10, 8 << 10, 16 << 10];
/// The size at which round trips are shown one by one.
const TRACE: usize = 8 << 10;
const LEAST: f64 = 1.0;
const MOST: f64 = 16.0;
pub(super) const QUICK: Quick = Quick { subjects: &[MEMORY, BARE, CHANNEL], ms: 4_500 };

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let lab = site::lab()?;
    let (subjects, missing) = subjects(cx);
    let subjects = QUICK.subjects(cx, &subjects);
    let sizes: &[usize] = cx.pick(&QUICK_SIZES, &SIZES);
    for &size in sizes {
        let point = Point {
            passes: &[(Release::Behind, ["high", "low"])],
            x: size as f64 / 1024.0,
            low: LOW,
            size,
            lengths: QUICK.lengths(cx),
            turns: turns(cx),
            judged: &JUDGED,
            subjects: &subjects,
            trace: (size == TRACE).then_some("trace"),
        };
        measure(cx, &lab, &point, out)?;
    }
    let (x, draw) = ("size of a value, KiB", &["mean_ns", "max_ns"]);
    out.figures = vec![
        figure("high", "The high producer among 40 low ones", x, draw),
        figure("low", "The 40 low producers", x, draw),
        figure("trace", "The high producer's round trips one by one, 8 KiB", "number", &["round_trip_ns"]),
    ];
    notes(out, missing);
    Ok(())
}

/// The time of each further KiB in microseconds. A ratio would favour a subject that is slow at 1
/// KiB already.
fn slope(r: &dyn Cells, subject: &str) -> f64 {
    let mean = |x: f64| r.at("high", subject, "mean_ns", x) / 1000.0;
    (mean(MOST) - mean(LEAST)) / (MOST - LEAST)
}

fn claims() -> Vec<Claim> {
    claims! {
        paper AtMost(MOST), "sixteen times the size takes {0:.1} times as long through reflective memory \
             ({limit})", |r| [r.growth("high", MEMORY, "mean_ns", [LEAST, MOST])];
        paper Above(0.0), "each KiB more takes {1:.0} us through the event channel, {0:.1} us more than \
             reflective memory's {2:.0} ({limit})",
            |r| {
                let [channel, memory] = [CHANNEL, MEMORY].map(|subject| slope(r, subject));
                [channel - memory, channel, memory]
            };
        paper Below(1.0), "of those shown at 8 KiB, the longest takes {1:.0} us through reflective \
             memory, {0:.2} of the event channel's {2:.0} ({limit})",
            |r| {
                let [memory, channel] = [MEMORY, CHANNEL]
                    .map(|subject| most(r.values("trace", subject, "round_trip_ns")) / 1000.0);
                [memory / channel, memory, channel]
            };
        paper AtMost(1.0), "at 16 KiB the low producers take {1:.0} us through reflective memory, {0:.2} of \
             the event channel's {2:.0} ({limit})",
            |r| {
                let [memory, channel] =
                    [MEMORY, CHANNEL].map(|subject| r.at("low", subject, "mean_ns", MOST) / 1000.0);
                [memory / channel, memory, channel]
            };
        aim AtLeast(99.0), "{0:.1} % of the high producer's stamps came back through reflective memory \
             ({limit})", |r| [returned(r, "high", MEMORY)];
    }
}
