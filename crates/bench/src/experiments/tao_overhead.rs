//! What an ORB adds to raw TCP, by the size of what is sent: two-way calls and bursts of oneways.
//!
//! The negative control is isorb itself with messages cut into small fragments (`-ORBFragment`):
//! what is paid for each kilobyte does not vanish in large messages, so its overhead must not fall
//! as the paper's does.

use std::time::{Duration, Instant};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::{Rounds, calibrate, interleave_all};
use crate::cases::{Case, Kind};
use crate::claim::{Above, Below, Cells, Claim, aim, claims, control, paper};
use crate::figure::{Figure, Measured};
use crate::report::Placement;
use crate::subjects::{PairScheduling, StoppedPair, Subject};
use crate::tail::Tail;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Two-way latency and one-way throughput beside raw TCP and omniORB, 0 to 256 KiB",
    source: "Zou, Levy, Liu: figures 3 to 5",
    paper: "an ORB's overhead over TCP falls as messages grow: two-way to about 10 % beyond 32 KB, and one-way throughput \
                     comes near TCP's beyond 8 KB",
    seconds: (60, 420),
    run,
    claims,
};

const NAME: &str = "tao-overhead";
const SIZES: [usize; 9] = [0, 64, 512, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10];
const QUICK_SIZES: [usize; 6] = [0, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10];
const SUBJECTS: [Subject; 5] =
    [Subject::Raw, Subject::RawAgain, Subject::Isorb, Subject::IsorbFragments, Subject::OmniOrb];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let scheduling = PairScheduling::of(Placement::OneCore, &cx.machine);
    let mut pairs = Vec::new();
    for subject in SUBJECTS {
        match subject.programs(cx.launcher) {
            Ok(programs) => pairs.push(StoppedPair::start(cx.launcher, subject, &programs, scheduling)?),
            Err(missing) => out.note(format!("{subject}: {missing}")),
        }
    }
    let sizes: &[usize] = cx.pick(&QUICK_SIZES, &SIZES);
    let cases: Vec<Case> = [Kind::Message, Kind::Post]
        .into_iter()
        .flat_map(|kind| sizes.iter().map(move |&size| Case { kind, size }))
        .collect();
    let each = Duration::from_millis(cx.ms(2_000, 12_000).into());
    let calls = if cx.is_smoke() { 100 } else { cx.pick(10_000, 100_000) };
    for case in cases {
        cx.progress(format!("{NAME}: {case}"));
        measure(out, &mut pairs, case, (each, calls))?;
    }
    pairs.into_iter().for_each(StoppedPair::end);
    out.figures = FIGURES.to_vec();
    Ok(())
}

fn measure(
    out: &mut Measured,
    pairs: &mut [StoppedPair],
    case: Case,
    (each, calls): (Duration, usize),
) -> Result<(), BenchError> {
    let raw = pairs.first_mut().ok_or(BenchError::NoSubject)?;
    let block = calibrate(|block| raw.block(block), case)?;
    // Two-way calls that a tail is judged of are so many, however long that takes.
    let at_least = if case.is_burst() { 3 } else { calls.div_ceil(block.calls) };
    let rounds = Rounds { at_least, ..Rounds::until(Instant::now() + each) };
    let all = interleave_all(pairs, rounds, |pair| {
        let is_done = Instant::now() > rounds.until && !WITH_TAIL.contains(&pair.subject);
        if is_done { Ok(Vec::new()) } else { pair.block(block) }
    })?;
    for (pair, series) in pairs.iter().zip(&all) {
        let summary = series.samples.summary();
        let mut values = series.values();
        values.push(("overhead_percent", percent(series.ratio_to(&all[0]) - 1.0)));
        if case.is_burst() && summary.mean_ns > 0.0 {
            values.push(("calls_per_s", (1e9 / summary.mean_ns).round()));
            values.push(("megabytes_per_s", percent(case.size as f64 / summary.mean_ns * 10.0)));
        }
        let figure = if case.is_burst() { "oneway" } else { "two-way" };
        out.row(figure, pair.subject.name(), case.size as f64, values);
    }
    Ok(())
}

/// In hundredths, to a hundredth of those.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

/// The others are compared by their medians.
const WITH_TAIL: [Subject; 3] = [Subject::Raw, Subject::RawAgain, Subject::Isorb];
const TAILS: [(u32, &str); 2] = [(1 << 10, "two-way, 1 KiB"), (256 << 10, "two-way, 256 KiB")];

const FIGURES: [Figure; 3] = [
    Figure::new("two-way", "Two-way latency", "octets", "microseconds, median", &["p50_ns"]).linear(),
    Figure::new("two-way", "Two-way overhead over raw TCP", "octets", "percent", &["overhead_percent"])
        .divide(1.0)
        .linear(),
    Figure::new("oneway", "One-way throughput", "octets", "megabytes a second", &["megabytes_per_s"])
        .divide(1.0)
        .linear(),
];

fn overhead(r: &dyn Cells, figure: &str, subject: Subject, size: u32) -> f64 {
    r.at(figure, subject.name(), "overhead_percent", size.into())
}

fn claims() -> Vec<Claim> {
    let ours = |r: &dyn Cells, size| overhead(r, "two-way", Subject::Isorb, size);
    let mut claims = claims! {
        paper Below(20.0), "two-way overhead is {1:.1} % at 1 KiB, {2:.1} % at 64 KiB, {0:.1} % at 256 \
             KiB ({limit} there)", move |r| [262_144, 1024, 65_536].map(|size| ours(r, size));
        paper Below(5.0), "at 64 KiB it is {0:.1} points more than at 64 octets ({limit}; the paper: less \
             by far)", move |r| [ours(r, 65_536) - ours(r, 64)];
        paper Below(20.0), "oneways of 16 KiB take {0:.1} % longer than raw TCP's ({limit})",
            |r| [overhead(r, "oneway", Subject::Isorb, 16384)];
        control Above(10.0), "in fragments, 64 KiB take {1:.1} % longer than raw, {0:.1} more than whole \
             messages ({limit})",
            move |r| {
                let cut = overhead(r, "two-way", Subject::IsorbFragments, 65536);
                [cut - ours(r, 65536), cut]
            };
        aim Below(10.0), "{0:.1} % at 64 KiB ({limit}); raw against itself differs by {1:.1} %",
            |r| {
                [Subject::Isorb, Subject::RawAgain].map(|subject| overhead(r, "two-way", subject, 65536))
            };
    };
    for (size, words) in TAILS {
        let [subject, bare, again] = [Subject::Isorb, Subject::Raw, Subject::RawAgain].map(Subject::name);
        claims.extend(Tail { figure: "two-way", subject, bare, again, x: size.into() }.claims(words));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_that_are_judged_are_measured_in_a_quick_run_too() {
        for size in [64, 1 << 10, 16 << 10, 64 << 10, 256 << 10] {
            assert!(QUICK_SIZES.contains(&size) && SIZES.contains(&size));
        }
    }
}
