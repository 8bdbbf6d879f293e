//! Subjects in one process that take turns in short blocks.

use std::hint::black_box;
use std::time::Duration;

use isorb_rt::time::now_ns;

use crate::figure::Row;
use crate::stats::{Samples, median, ratio_of_medians};

/// So much work between two rests: the kernel stalls a real-time thread that never rests.
const WORK_NS: u64 = 20_000_000;
const REST: Duration = Duration::from_millis(5);

/// Who is measured. The first of several is the control of the others.
pub struct Subject<'a> {
    name: &'static str,
    x: f64,
    block: Box<dyn FnMut() -> Vec<u64> + 'a>,
}

impl<'a> Subject<'a> {
    /// One whose call is too short for a clock: a sample is the mean of `together` calls, of which a block has ten.
    pub fn called(name: &'static str, x: f64, together: u64, mut call: impl FnMut() + 'a) -> Subject<'a> {
        let mut sample = move || {
            let start = now_ns();
            (0..together).for_each(|_| call());
            (now_ns() - start) * 1000 / together
        };
        Subject { name, x, block: Box::new(move || (0..10).map(|_| sample()).collect()) }
    }

    /// One that measures by itself: `sample` says how many nanoseconds it took. A block has `samples`.
    pub fn timed(
        name: &'static str,
        x: f64,
        samples: usize,
        mut sample: impl FnMut() -> u64 + 'a,
    ) -> Subject<'a> {
        Subject { name, x, block: Box::new(move || (0..samples).map(|_| sample() * 1000).collect()) }
    }
}

/// What the compiler must not leave out.
pub fn keep<T>(result: T) {
    let _ = black_box(result);
}

/// So many rounds; a row a subject, in nanoseconds, and its median ratio to the first in the same round.
pub fn rows(figure: &'static str, rounds: u32, subjects: &mut [Subject<'_>]) -> Vec<Row> {
    let mut samples = vec![Samples::new(); subjects.len()];
    let mut medians = vec![Vec::new(); subjects.len()];
    let mut rested = now_ns();
    // The first round only warms.
    for round in 0..=rounds {
        for (i, subject) in subjects.iter_mut().enumerate() {
            let block = (subject.block)();
            if round > 0 {
                medians[i].push(median(&block));
                samples[i].extend(block);
            }
            if now_ns() - rested > WORK_NS {
                std::thread::sleep(REST);
                rested = now_ns();
            }
        }
    }
    let row = |(i, subject): (usize, &Subject<'_>)| {
        let s = samples[i].summary();
        let ns = |ps: u64| ps as f64 / 1000.0;
        let ratio = ratio_of_medians(&medians[i], &medians[0]).unwrap_or(f64::NAN);
        let values = vec![
            ("n", s.n as f64),
            ("min_ns", ns(s.min_ns)),
            ("p50_ns", ns(s.p50_ns)),
            ("p99_ns", ns(s.p99_ns)),
            ("max_ns", ns(s.max_ns)),
            ("ratio", (ratio * 1000.0).round() / 1000.0),
        ];
        Row { figure, subject: subject.name, x: subject.x, values }
    };
    subjects.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Cells;

    #[test]
    fn ratios_are_to_the_first() {
        let mut subjects =
            [Subject::timed("control", 1.0, 3, || 100), Subject::timed("other", 1.0, 3, || 150)];
        let rows = rows("f", 5, &mut subjects);
        assert_eq!(rows.at("f", "other", "ratio", 1.0), 1.5);
        assert_eq!((rows.at("f", "control", "ratio", 1.0), rows.at("f", "control", "n", 1.0)), (1.0, 15.0));
        let p50 = rows.at("f", "other", "p50_ns", 1.0);
        assert!((p50 - 150.0).abs() < 0.5, "{p50}");
    }

    #[test]
    fn calls_are_all_made() {
        let mut calls = 0;
        let rows = rows("f", 2, &mut [Subject::called("one", 1.0, 7, || calls += 1)]);
        assert_eq!(calls, 3 * 10 * 7);
        assert_eq!(rows.at("f", "one", "n", 1.0), 20.0);
    }
}
