//! What an ORB adds to raw TCP, by the size of what is sent: two-way calls and bursts of oneways.
//!
//! The negative control is isorb itself with messages cut into small fragments (`-ORBFragment`): what is paid for each kilobyte
//! does not vanish in large messages, so its overhead must not fall as the paper's does.

use std::time::{Duration, Instant};

use super::catalogue::Experiment;
use super::seats::{PATIENCE, Seat, places};
use super::{BenchError, Context};
use crate::cases::{Case, Kind};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::harness::{Limits, calibrate, interleave};
use crate::report::Placement;
use crate::stats::ratio_of_medians;
use crate::subjects::Subject;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Two-way latency and one-way throughput beside raw TCP and omniORB, 0 to 256 KiB",
    source: "Zou, Levy, Liu: figures 3 to 5",
    paper: PAPER,
    seconds: (45, 240),
    run,
};

const NAME: &str = "tao-overhead";
const PAPER: &str = "an ORB's overhead over TCP falls as messages grow: two-way to about 10 % beyond 32 KB, and one-way throughput \
                     comes near TCP's beyond 8 KB";
const SIZES: [usize; 9] = [0, 64, 512, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10];
const QUICK_SIZES: [usize; 5] = [0, 1 << 10, 16 << 10, 32 << 10, 64 << 10];
const SUBJECTS: [Subject; 5] =
    [Subject::Raw, Subject::RawAgain, Subject::Isorb, Subject::IsorbFragments, Subject::OmniOrb];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let mut notes = Vec::new();
    let mut seats = Vec::new();
    for subject in SUBJECTS {
        match subject.programs(cx.launcher) {
            Ok(programs) => {
                seats.push(Seat::take(
                    cx.launcher,
                    subject,
                    &programs,
                    places(Placement::OneCore, &cx.machine),
                )?);
            }
            Err(missing) => notes.push(format!("{subject}: {missing}")),
        }
    }
    let sizes: &[usize] = cx.pick(&QUICK_SIZES, &SIZES);
    let cases: Vec<Case> = [Kind::Message, Kind::Post]
        .into_iter()
        .flat_map(|kind| sizes.iter().map(move |&size| Case { kind, size }))
        .collect();
    let each = Duration::from_millis(cx.ms(4_000, 12_000).into());
    let mut rows = Vec::new();
    for case in cases {
        cx.step(format!("{NAME}: {case}"));
        rows.extend(measure(&mut seats, case, each)?);
    }
    for seat in seats {
        // Whether it ends by itself matters to nobody any more.
        let _ = seat.pair.end(PATIENCE);
    }
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures: figures(), rows, notes, verdict })
}

fn measure(seats: &mut [Seat], case: Case, each: Duration) -> Result<Vec<Row>, BenchError> {
    let until = Instant::now() + each;
    let block = calibrate(seats.first_mut().ok_or(BenchError::NoSubject)?, case)?;
    let outcomes = interleave(seats, block, Limits { at_least: 3, until }, || ());
    let raw = outcomes[0].medians.clone();
    let mut rows = Vec::new();
    for (seat, outcome) in seats.iter().zip(&outcomes) {
        if let Some(error) = outcome.failed {
            return Err(error.into());
        }
        let summary = outcome.samples.summary();
        let mut values = times(&summary);
        let ratio = ratio_of_medians(&outcome.medians, &raw).unwrap_or(f64::NAN);
        values.push(("overhead_percent", percent(ratio - 1.0)));
        if case.is_burst() && summary.mean_ns > 0.0 {
            values.push(("calls_per_s", (1e9 / summary.mean_ns).round()));
            values.push(("megabytes_per_s", percent(case.size as f64 / summary.mean_ns * 10.0)));
        }
        let figure = if case.is_burst() { "oneway" } else { "two-way" };
        rows.push(Row {
            experiment: NAME,
            figure,
            subject: seat.subject.name(),
            x: case.size as f64,
            values,
        });
    }
    Ok(rows)
}

/// In hundredths, to a hundredth of those.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

fn figures() -> Vec<Figure> {
    let figure = |id, title, y, draw| Figure { id, title, x: "octets", y, draw, divide: 1.0, log: false };
    vec![
        Figure {
            divide: 1000.0,
            ..figure("two-way", "Two-way latency", "microseconds, median", &["p50_ns"])
        },
        figure("two-way", "Two-way overhead over raw TCP", "percent", &["overhead_percent"]),
        figure("oneway", "One-way throughput", "megabytes a second", &["megabytes_per_s"]),
    ]
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let overhead = |figure: &str, subject: Subject, size: f64| {
        at(rows, figure, subject.name(), "overhead_percent", size)
    };
    let ours = |size| overhead("two-way", Subject::Isorb, size);
    let cut = |size| overhead("two-way", Subject::IsorbFragments, size);
    let (small, large, larger) = (ours(1024.0), ours(32768.0), ours(65536.0));
    let oneway = overhead("oneway", Subject::Isorb, 16384.0);
    let noise = overhead("two-way", Subject::RawAgain, 65536.0);
    let cut_large = cut(65536.0);
    vec![
        Claim::paper(
            larger < 20.0,
            format!(
                "two-way overhead is {small:.1} % at 1 KiB, {large:.1} % at 32 KiB, {larger:.1} % at 64 KiB (below 20 there)"
            ),
        ),
        Claim::paper(
            oneway < 20.0,
            format!("oneways of 16 KiB take {oneway:.1} % longer than raw TCP's (below 20)"),
        ),
        Claim::control(
            cut_large > larger + 10.0,
            format!(
                "in fragments, 64 KiB take {cut_large:.1} % longer than raw (above whole messages by 10)"
            ),
        ),
        Claim::aim(
            larger < 10.0,
            format!("{larger:.1} % at 64 KiB (below 10); raw against itself differs by {noise:.1} %"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(overhead: impl Fn(&str, Subject, f64) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for figure in ["two-way", "oneway"] {
            for subject in SUBJECTS {
                for size in SIZES {
                    let x = size as f64;
                    let values = vec![("overhead_percent", overhead(figure, subject, x))];
                    rows.push(Row { experiment: NAME, figure, subject: subject.name(), x, values });
                }
            }
        }
        rows
    }

    #[test]
    fn a_falling_overhead_holds_and_a_constant_one_does_not() {
        let verdict = |overhead: &dyn Fn(&str, Subject, f64) -> f64| {
            let v = Verdict::new(NAME, PAPER, judge(&rows(overhead)));
            (v.shape_holds, v.control_fails)
        };
        let falling = |_: &str, subject, size: f64| match subject {
            Subject::Raw | Subject::RawAgain => 0.0,
            Subject::IsorbFragments => 60.0,
            _ => 5.0 + 20.0 / (1.0 + size / 4096.0),
        };
        assert_eq!(verdict(&falling), (true, Some(true)));
        assert_eq!(verdict(&|_, _, _| 50.0), (false, Some(false)));
        assert!(!Verdict::new(NAME, PAPER, judge(&[])).shape_holds);
    }

    #[test]
    fn the_places_that_are_judged_are_measured_in_a_quick_run_too() {
        for size in [1 << 10, 16 << 10, 32 << 10, 64 << 10] {
            assert!(QUICK_SIZES.contains(&size) && SIZES.contains(&size));
        }
    }
}
