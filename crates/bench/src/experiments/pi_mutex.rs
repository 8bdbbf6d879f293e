//! What a mutex with priority inheritance costs where nobody else wants it.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::stats::{Samples, median, ratio_of_medians};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Locking and unlocking a mutex with priority inheritance, beside std's, uncontended",
    source: "a measurement of ours",
    paper: PAPER,
    seconds: (2, 8),
    run,
};

const NAME: &str = "pi-mutex";
const PAPER: &str =
    "a mutex with priority inheritance costs little more than one without where nobody else wants it";
const SUBJECTS: [&str; 3] = ["std", "std-again", "pi"];
/// Lockings to a sample: one alone takes less than reading the clock.
const TOGETHER: u64 = 64;
const BLOCK: usize = 200;

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let rounds = cx.pick(300, 2_000);
    cx.step(NAME);
    let (samples, medians) = cx.on_thread(move || measure(rounds))?;
    let mut rows = Vec::new();
    for ((subject, samples), of) in SUBJECTS.into_iter().zip(samples).zip(&medians) {
        let mut values = times(&samples.summary());
        let ratio = ratio_of_medians(of, &medians[0]).unwrap_or(f64::NAN);
        values.push(("ratio_to_std_p50", (ratio * 1000.0).round() / 1000.0));
        rows.push(Row { experiment: NAME, figure: "lock", subject, x: 1.0, values });
    }
    let figures = vec![Figure {
        id: "lock",
        title: "Lock and unlock, uncontended",
        x: "threads",
        y: "nanoseconds",
        draw: &["p50_ns", "p99_ns"],
        divide: 1.0,
        log: false,
    }];
    let notes = vec![format!(
        "A sample is the mean of {TOGETHER}. 'std-again' is 'std' once more: what the two differ by is noise."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

type Medians = Vec<Option<u64>>;

fn measure(rounds: usize) -> ([Samples; 3], [Medians; 3]) {
    let (std, again, pi) = (Mutex::new(0u64), Mutex::new(0u64), PiMutex::new(0u64));
    let mut samples: [Samples; 3] = Default::default();
    let mut medians: [Medians; 3] = Default::default();
    for _ in 0..rounds {
        // Nobody panics with a lock in his hands.
        let lock = |mutex: &Mutex<u64>| {
            mutex.lock().map_or(0, |mut n| {
                *n += 1;
                *n
            })
        };
        let blocks = [
            block(|| lock(&std)),
            block(|| lock(&again)),
            block(|| {
                let mut n = pi.lock();
                *n += 1;
                *n
            }),
        ];
        for (i, block) in blocks.into_iter().enumerate() {
            medians[i].push(median(&block));
            samples[i].extend(block.into_iter().map(|ns| ns / TOGETHER));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (samples, medians)
}

/// How long [`TOGETHER`] lockings took, in nanoseconds.
fn block(mut lock: impl FnMut() -> u64) -> Vec<u64> {
    let sample = |_| {
        let start = now_ns();
        for _ in 0..TOGETHER {
            black_box(lock());
        }
        now_ns() - start
    };
    (0..BLOCK).map(sample).collect()
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let ratio = |subject: &str| at(rows, "lock", subject, "ratio_to_std_p50", 1.0);
    let (pi, noise) = (ratio("pi"), ratio("std-again"));
    vec![Claim::paper(
        pi <= 1.5,
        format!("it takes {pi:.2} times as long as std's (at most 1.5); std's against itself {noise:.2}"),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let holds = |pi: f64| {
            let row = |subject, ratio| Row {
                experiment: NAME,
                figure: "lock",
                subject,
                x: 1.0,
                values: vec![("ratio_to_std_p50", ratio)],
            };
            Verdict::new(NAME, PAPER, judge(&[row("pi", pi), row("std-again", 1.0)])).shape_holds
        };
        assert!(holds(1.2) && !holds(1.6) && !holds(f64::NAN));
    }

    #[test]
    fn everybody_has_as_many_samples() {
        let (samples, medians) = measure(1);
        assert!(
            samples.iter().all(|s| s.summary().n == BLOCK as u64) && medians.iter().all(|m| m.len() == 1)
        );
    }
}
