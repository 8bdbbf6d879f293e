//! The mean round trip of the high producer while low ones are added.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{
    AGAIN, BARE, CHANNEL, CHANNEL_ORB, JUDGED, MEMORY, OMNIORB, ORB, Quick, explained_deviation, figure,
    notes, returned, subjects, turns,
};
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, least, most, paper};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::Measured;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trip from node to node of a high producer among 0 to 50 low ones: reflective memory and the event channel",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 2, 3, 5 and 6",
    paper: "through reflective memory the high producer's latency stays nearly as it is while low producers are added; through the event service it is longer, and grows more",
    seconds: (60, 1_500),
    run,
    claims,
};

const NAME: &str = "cremes-latency";
/// The numbers of low producers: the ends, which the claims use, and some between.
const ENDS: [u32; 2] = [0, 50];
const BETWEEN: [u32; 2] = [10, 30];
/// The subjects that are measured between the ends.
const FEW: [&str; 5] = [MEMORY, BARE, CHANNEL, ORB, OMNIORB];
/// Octets of a value, and the figures: all released together, and the high one where it meets the
/// low ones.
type Size = (usize, [(Release, [&'static str; 2]); 2]);
const SIZES: [Size; 2] = [
    (1 << 10, [(Release::Together, ["high-1k", "low-1k"]), (Release::Behind, ["met-1k", ""])]),
    (8 << 10, [(Release::Together, ["high-8k", "low-8k"]), (Release::Behind, ["met-8k", ""])]),
];
const MOST: f64 = 50.0;
/// Of each size.
pub(super) const QUICK: [Quick; 2] = [
    Quick { subjects: &[MEMORY, BARE, CHANNEL, AGAIN], ms: 500 },
    Quick { subjects: &[MEMORY, BARE, CHANNEL, AGAIN, CHANNEL_ORB], ms: 2_400 },
];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let lab = site::lab()?;
    let (subjects, missing) = subjects(cx);
    let few: Vec<&str> = FEW.into_iter().filter(|subject| subjects.contains(subject)).collect();
    for ((size, passes), quick) in SIZES.iter().zip(&QUICK) {
        let point = Point {
            passes,
            x: 0.0,
            low: 0,
            size: *size,
            lengths: quick.lengths(cx),
            turns: turns(cx),
            judged: &JUDGED,
            subjects: &quick.subjects(cx, &subjects),
            trace: None,
        };
        for low in ENDS {
            measure(cx, &lab, &Point { x: low.into(), low, ..point }, out)?;
        }
        for &low in cx.pick(&[][..], &BETWEEN) {
            let between = Point { subjects: &few, ..point };
            measure(cx, &lab, &Point { x: low.into(), low, ..between }, out)?;
        }
    }
    out.rows.sort_by(|a, b| a.x.total_cmp(&b.x));
    let x = "low producers";
    let draw = &["mean_ns"];
    out.figures = vec![
        figure("high-1k", "The high producer, 1 KiB", x, draw),
        figure("low-1k", "The low producers, 1 KiB", x, draw),
        figure("high-8k", "The high producer, 8 KiB", x, draw),
        figure("low-8k", "The low producers, 8 KiB", x, draw),
        figure("met-1k", "The high producer where it meets the low ones, 1 KiB", x, draw),
        figure("met-8k", "The high producer where it meets the low ones, 8 KiB", x, draw),
    ];
    notes(out, missing);
    Ok(())
}

fn is_measured(r: &dyn Cells, subject: &str) -> bool {
    !r.series("met-8k", subject, "mean_ns").is_empty()
}

fn mean(r: &dyn Cells, subject: &str, figure: &str) -> f64 {
    r.at(figure, subject, "mean_ns", MOST)
}

fn deviation(r: &dyn Cells, subject: &str, figure: &str) -> f64 {
    r.at(figure, subject, "stddev_ns", MOST) / 1000.0
}

/// The mean where the high producer meets 50 low ones over that alone.
fn met(r: &dyn Cells, subject: &str, [met, alone]: [&str; 2]) -> f64 {
    mean(r, subject, met) / r.at(alone, subject, "mean_ns", 0.0)
}

const AT_1K: [&str; 2] = ["met-1k", "high-1k"];
const AT_8K: [&str; 2] = ["met-8k", "high-8k"];

fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for (figure, words, limit, papers) in
        [("high-1k", "1 KiB", 1.15, "1.13"), ("high-8k", "8 KiB", 1.45, "1.44")]
    {
        claims.extend(claims! {
            paper AtMost(limit), format!("at {words}, 50 low producers make it {{0:.2}} times as long through \
                 reflective memory ({{limit}}; the paper: {papers})"),
                move |r| [r.growth(figure, MEMORY, "mean_ns", [0.0, MOST])];
            paper AtMost(1.0), format!("{figure}: released together with 50, when nothing is in its way yet, it \
                 deviates by {{1:.0}} us, the worst value being {{2:.0}} us (the event channel by {{3:.0}}, the \
                 bare hand-overs by {{4:.0}} and {{5:.0}}): {{0:.2}} of the largest of these ({{limit}})"),
                move |r| {
                    let [memory, channel, bare, again] = [MEMORY, CHANNEL, BARE, AGAIN]
                        .map(|subject| explained_deviation(r, figure, subject, MOST));
                    let worst = r.at(figure, MEMORY, "max_ns", MOST) / 1000.0;
                    [memory / most([channel, bare, again]), memory, worst, channel, bare, again]
                };
        });
    }
    for (figures, limit) in [(AT_1K, 1.15), (AT_8K, 1.45)] {
        let [figure, _] = figures;
        claims.extend(claims! {
            paper AtMost(limit), format!("{figure}: even where it meets them, {{0:.2}} times through reflective \
                 memory ({{limit}})"), move |r| [met(r, MEMORY, figures)];
            paper Below(1.0), format!("{figure}: among 50, it deviates by {{1:.0}} us through reflective memory, \
                 {{0:.2}} of the event channel's {{2:.0}} ({{limit}})"),
                move |r| {
                    let [memory, channel] = [MEMORY, CHANNEL].map(|subject| deviation(r, subject, figure));
                    [memory / channel, memory, channel]
                };
        });
    }
    for subject in [CHANNEL, CHANNEL_ORB] {
        claims.extend(claims! {
            paper Above(1.0), format!("at 8 KiB, where it meets 50, {subject} takes {{0:.2}} times as long as \
                 reflective memory ({{limit}}; the paper: 2.3)"),
                move |r| [mean(r, subject, "met-8k") / mean(r, MEMORY, "met-8k")];
        });
    }
    for figure in ["low-1k", "low-8k"] {
        claims.extend(claims! {
            paper AtMost(1.0), format!("{figure}: among 50, the low producers take {{1:.0}} us through reflective \
                 memory, {{0:.2}} of the event channel's {{2:.0}} ({{limit}})"),
                move |r| {
                    let [memory, channel] = [MEMORY, CHANNEL].map(|subject| mean(r, subject, figure) / 1000.0);
                    [memory / channel, memory, channel]
                };
        });
    }
    claims.extend(claims! {
        paper Above(1.0), "at 8 KiB, where it meets them, {1:.2} times through the event channel, {0:.2} of \
             reflective memory's {2:.2} ({limit}; the paper: 1.97)",
            |r| {
                let [channel, memory] = [CHANNEL, MEMORY].map(|subject| met(r, subject, AT_8K));
                [channel / memory, channel, memory]
            };
        control Above(1.0), "there, over one queue without priorities ('bare') it takes {1:.2} times as long, \
             {0:.2} of the larger of 2 and reflective memory's ({limit})",
            |r| {
                let [bare, memory] = [BARE, MEMORY].map(|subject| met(r, subject, AT_8K));
                [bare / most([memory, 2.0]), bare]
            };
        aim AtMost(1.5), "at 1 KiB and 50, reflective memory takes {0:.2} times as long as a bare program \
             ({limit})", |r| [mean(r, MEMORY, "high-1k") / mean(r, BARE, "high-1k")];
        aim Above(1.0), "at 8 KiB, where it meets 50, by two-way calls of omniORB it takes {0:.2} times as long \
             ({limit})", |r| [mean(r, OMNIORB, "met-8k") / mean(r, MEMORY, "met-8k")],
            when |r| is_measured(r, OMNIORB);
        // A subject that delivers no value would appear slow, and its deviation small.
        paper AtLeast(99.0), "alone, {0:.0} % of the high producer's values arrive by every way ({limit})",
            |r| {
                let subjects = [MEMORY, CHANNEL, CHANNEL_ORB, ORB, BARE, AGAIN].into_iter();
                let all = subjects.flat_map(|subject| {
                    ["high-1k", "high-8k"].into_iter().flat_map(move |figure| {
                        let all = r.series(figure, subject, "returned_percent");
                        all.into_iter().filter(|&(low, _)| low == 0.0).map(|(_, percent)| percent)
                    })
                });
                [least(all)]
            };
        aim AtLeast(99.0), "{0:.1} % of the high producer's stamps came back through reflective memory ({limit})",
            |r| [least(AT_1K.into_iter().chain(AT_8K).map(|figure| returned(r, figure, MEMORY)))];
    });
    claims
}
