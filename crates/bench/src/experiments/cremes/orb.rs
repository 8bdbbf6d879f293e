//! CReMeS-ORB: reflective memory by two-way calls, admitted, beside the event channel that is
//! federated by the ORB.
//!
//! Half of the period is the longest time that a call can be admitted with, and an eighth of that
//! is the processor's. With the costs of a slow machine a value of 1 KiB needs a period of 14.4 ms
//! so, and one of 8 KiB 19.5 ms. A quick run has 300 values every 15 ms and therefore 1 KiB only.

use super::points::{Point, measure};
use super::site::{self, Release};
use super::{AGAIN, BARE, CHANNEL_ORB, MEMORY, ORB, ORB_BEST_EFFORT, Quick, figure, notes, returned, turns};
use crate::claim::{Above, AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, paper};
use crate::experiments::catalogue::Experiment;
use crate::experiments::{BenchError, Context};
use crate::figure::Measured;
use crate::tail::differs;

pub const EXPERIMENT: Experiment = Experiment {
    name: "cremes-orb",
    about: "Round trip from node to node of a high producer alone and among 50 low ones, all by the ORB: reflective memory with guarantees (CReMeS-ORB) and the event channel",
    source: "Chung, González, Ramamritham, Shen (CReMeS): figures 2 to 7",
    paper: "CReMeS-ORB is nearly as fast as CReMeS and keeps the high producer apart from the low ones; through the event service it takes longer, deviates more, and grows more",
    seconds: (60, 1_000),
    run,
    claims,
};

/// The numbers of low producers.
const ENDS: [u32; 2] = [0, 50];
const MOST: f64 = 50.0;
/// Octets of a value, and the figures of the high producer and of the low ones.
type Size = (usize, [&'static str; 2]);
const SIZES: [Size; 2] = [(1 << 10, ["high-1k", "low-1k"]), (8 << 10, ["high-8k", "low-8k"])];
/// The subjects in the order of their turns.
const SUBJECTS: [&str; 6] = [ORB, BARE, CHANNEL_ORB, ORB_BEST_EFFORT, AGAIN, MEMORY];
/// Those of which the mean is to be known.
const JUDGED: [&str; 2] = [ORB, CHANNEL_ORB];
pub(super) const QUICK: Quick =
    Quick { subjects: &[ORB, BARE, CHANNEL_ORB, ORB_BEST_EFFORT, AGAIN], ms: 4_500 };

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let lab = site::lab()?;
    let subjects = QUICK.subjects(cx, &SUBJECTS);
    let sizes = if Quick::applies(cx) { &SIZES[..1] } else { &SIZES };
    for &(size, figures) in sizes {
        for low in ENDS {
            let point = Point {
                passes: &[(Release::Behind, figures)],
                x: low.into(),
                low,
                size,
                lengths: QUICK.lengths(cx),
                turns: turns(cx),
                judged: &JUDGED,
                subjects: &subjects,
                trace: None,
            };
            measure(cx, &lab, &point, out)?;
        }
    }
    out.rows.sort_by(|a, b| a.x.total_cmp(&b.x));
    let (x, draw) = ("low producers", &["mean_ns", "max_ns"]);
    out.figures = vec![
        figure("high-1k", "The high producer where it meets the low ones, 1 KiB", x, draw),
        figure("low-1k", "The low producers, 1 KiB", x, draw),
        figure("high-8k", "The high producer where it meets the low ones, 8 KiB", x, draw),
        figure("low-8k", "The low producers, 8 KiB", x, draw),
    ];
    notes(out, Vec::new());
    Ok(())
}

/// Microseconds among 50 low producers.
fn among(r: &dyn Cells, figure: &str, subject: &str, value: &str) -> f64 {
    r.at(figure, subject, value, MOST) / 1000.0
}

/// The mean among 50 low producers over that alone.
fn growth(r: &dyn Cells, figure: &str, subject: &str) -> f64 {
    r.growth(figure, subject, "mean_ns", [0.0, MOST])
}

fn claims() -> Vec<Claim> {
    SIZES.iter().flat_map(|&(_, [high, low])| of_high(high).into_iter().chain(of_low(low, high))).collect()
}

/// Made where `subject` was measured in `figure`, and inconclusive where the bare program differs
/// from itself there.
fn judged(claim: Claim, figure: &'static str, subject: &'static str) -> Claim {
    let mean = move |r: &dyn Cells, subject: &str, x| r.at(figure, subject, "mean_ns", x);
    let alone = move |r: &dyn Cells| differs(mean(r, BARE, 0.0), mean(r, AGAIN, 0.0));
    let among = move |r: &dyn Cells| differs(mean(r, BARE, MOST), mean(r, AGAIN, MOST));
    claim
        .when(move |r| !r.series(figure, subject, "mean_ns").is_empty())
        .unless_noisy(move |r| alone(r).max(among(r)))
}

fn of_high(figure: &'static str) -> Vec<Claim> {
    let both = move |r: &dyn Cells, value: &str| [ORB, CHANNEL_ORB].map(|of| among(r, figure, of, value));
    let beside_the_channel = claims! {
        paper Above(1.0), format!("{figure}: among 50 low ones, it takes {{1:.0}} us by reflective memory's \
             two-way calls, and {{0:.2}} times as long through the event channel ({{limit}})"),
            move |r| {
                let [orb, channel] = both(r, "mean_ns");
                [channel / orb, orb]
            };
        paper Below(1.0), format!("{figure}: that is {{1:.2}} times as long as alone, {{0:.2}} of the event \
             channel's {{2:.2}} ({{limit}})"),
            move |r| {
                let [orb, channel] = [ORB, CHANNEL_ORB].map(|of| growth(r, figure, of));
                [orb / channel, orb, channel]
            };
        paper Below(1.0), format!("{figure}: it deviates by {{1:.0}} us, {{0:.2}} of the event channel's \
             {{2:.0}} ({{limit}})"),
            move |r| {
                let [orb, channel] = both(r, "stddev_ns");
                [orb / channel, orb, channel]
            };
        paper Below(1.0), format!("{figure}: it grows {{0:.2}} times as much as through one queue without \
             priorities ('bare', {{1:.2}} times as long) ({{limit}})"),
            move |r| {
                let [orb, bare] = [ORB, BARE].map(|of| growth(r, figure, of));
                [orb / bare, bare]
            };
        // A subject that delivers no value would deviate by nothing.
        paper AtLeast(99.0), format!("{figure}: {{0:.1}} % of its stamps came back ({{limit}})"),
            move |r| [returned(r, figure, ORB)];
        control Above(1.0), format!("{figure}: among 50, by calls that are not admitted it takes {{1:.0}} us, \
             {{0:.2}} times as long as by those that are ({{limit}})"),
            move |r| {
                let [free, orb] = [ORB_BEST_EFFORT, ORB].map(|of| among(r, figure, of, "mean_ns"));
                [free / orb, free]
            };
        aim AtMost(1.0), format!("{figure}: among 50, p99 of its round trips is {{1:.0}} us, {{0:.2}} of the \
             deadline that it was admitted with ({{limit}})"),
            move |r| {
                let [p99, deadline] = ["p99_ns", "deadline_ns"].map(|of| among(r, figure, ORB, of));
                [p99 / deadline, p99]
            };
        aim AtMost(3.0), format!("{figure}: alone, it takes {{0:.2}} times as long as through the bare \
             hand-overs ({{limit}})"),
            move |r| {
                let [orb, bare] = [ORB, BARE].map(|of| r.at(figure, of, "mean_ns", 0.0));
                [orb / bare]
            };
    };
    let beside_datagrams = claims! {
        paper AtMost(2.0), format!("{figure}: among 50, it takes {{0:.2}} times as long as by datagrams \
             ({{limit}}; the paper: similar)"),
            move |r| {
                let [orb, memory] = [ORB, MEMORY].map(|of| among(r, figure, of, "mean_ns"));
                [orb / memory]
            };
    };
    let of =
        |claims: Vec<Claim>, subject| claims.into_iter().map(move |claim| judged(claim, figure, subject));
    of(beside_the_channel, ORB).chain(of(beside_datagrams, MEMORY)).collect()
}

/// The paper has them alike for CReMeS-ORB and the event service.
fn of_low(figure: &'static str, high: &'static str) -> Vec<Claim> {
    let claims = claims! {
        aim AtMost(1.5), format!("{figure}: the 50 low ones take {{1:.0}} us by reflective memory's two-way \
             calls, {{0:.2}} of the event channel's {{2:.0}} ({{limit}}; the paper: similar)"),
            move |r| {
                let [orb, channel] = [ORB, CHANNEL_ORB].map(|of| among(r, figure, of, "mean_ns"));
                [orb / channel, orb, channel]
            };
    };
    claims.into_iter().map(|claim| judged(claim, high, ORB)).collect()
}
