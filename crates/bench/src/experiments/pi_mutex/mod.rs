//! What a mutex with priority inheritance costs without contention, and what it is for: how long an
//! urgent thread waits for one that a low thread holds while a third has work. std's mutex is the
//! negative control: its waits grow with the third one's work.

mod inversion;

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;

use self::inversion::{HELD_MS, WorkAmount, waits};
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, AtMost, Below, Cells, Claim, claims, control, paper};
use crate::figure::{Figure, Measured, times};
use crate::stats::{Samples, median, ratio_of_medians};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "A mutex with priority inheritance beside std's: uncontended, and wanted by a high thread while a low one holds it",
    source: "a measurement of ours",
    paper: PAPER,
    seconds: (8, 40),
    run,
    claims,
};

const NAME: &str = "pi-mutex";
const PAPER: &str = "a mutex with priority inheritance costs little more than one without while it is uncontended; where a low thread \
                     holds it, a high one waits for that thread only";
const SUBJECTS: [&str; 3] = ["std", "std-again", "pi"];
/// Lockings to a sample: one alone takes less than reading the clock.
const TOGETHER: u64 = 64;
const BLOCK: usize = 200;
/// Work of the thread in between, in milliseconds.
const HOG_MS: [u32; 4] = [0, 5, 10, 20];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.pick(300, 2_000);
    cx.progress(NAME);
    let (samples, medians) = cx.on_thread(move || measure(rounds))?;
    for ((subject, samples), of) in SUBJECTS.into_iter().zip(samples).zip(&medians) {
        let mut values = times(&samples.summary());
        let ratio = ratio_of_medians(of, &medians[0]).unwrap_or(f64::NAN);
        values.push(("ratio_to_std_p50", (ratio * 1000.0).round() / 1000.0));
        out.row("lock", subject, 1.0, values);
    }
    let (title, draw) = ("Lock and unlock, uncontended", &["p50_ns", "p99_ns"]);
    out.figures = vec![Figure::new("lock", title, "threads", "nanoseconds", draw).divide(1.0).linear()];
    out.note(format!(
        "A sample is the mean of {TOGETHER}. 'std-again' is 'std' once more: what the two differ by is noise."
    ));
    if cx.fifo.is_none() {
        out.note("Inversion: not shown, this process may not schedule in real time (isorb doctor says why).");
        return Ok(());
    }
    invert(cx, out)?;
    let (title, x) =
        ("The high thread waits for a lock that the low one holds", "work of the thread in between, ms");
    let figure = Figure::new("inversion", title, x, "milliseconds", &["p50_ns", "max_ns"]);
    out.figures.push(figure.divide(1e6).linear());
    out.note(format!(
        "Inversion: three real-time threads on one processor; the low one holds the lock for {HELD_MS} ms \
         of work, wakes the high one, which wants it, and then the one in between."
    ));
    Ok(())
}

/// The inversion with either mutex, in turns.
fn invert(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let (rounds, times_each) = (cx.pick(4, 20), 5);
    let amount = WorkAmount::calibrate(cx)?;
    for hog_ms in HOG_MS {
        cx.progress(format!("{NAME}: inversion, {hog_ms} ms"));
        let (mut std, mut pi) = (Samples::new(), Samples::new());
        for _ in 0..rounds {
            std.extend(waits::<Mutex<()>>(cx, amount, hog_ms, times_each)?);
            pi.extend(waits::<PiMutex<()>>(cx, amount, hog_ms, times_each)?);
        }
        for (subject, samples) in [("std", std), ("pi", pi)] {
            out.row("inversion", subject, hog_ms, times(&samples.summary()));
        }
    }
    Ok(())
}

type Medians = Vec<Option<u64>>;

fn measure(rounds: usize) -> ([Samples; 3], [Medians; 3]) {
    let (std, again, pi) = (Mutex::new(0u64), Mutex::new(0u64), PiMutex::new(0u64));
    let mut samples: [Samples; 3] = Default::default();
    let mut medians: [Medians; 3] = Default::default();
    for _ in 0..rounds {
        // No thread panics while it holds the lock.
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

fn claims() -> Vec<Claim> {
    const LONGEST: u32 = HOG_MS[HOG_MS.len() - 1];
    let waits = |r: &dyn Cells, subject: &str| [r.at("inversion", subject, "p50_ns", LONGEST.into()) / 1e6];
    let is_shown = |r: &dyn Cells| !r.series("inversion", "pi", "p50_ns").is_empty();
    claims! {
        paper AtMost(1.5), "it takes {0:.2} times as long as std's ({limit}); std's against itself {1:.2}",
            |r| ["pi", "std-again"].map(|subject| r.at("lock", subject, "ratio_to_std_p50", 1.0));
        paper Below(2.0 * HELD_MS), format!("while a third thread wants {LONGEST} ms of the processor, \
             the high one waits {{0:.2}} ms ({{limit}}, twice what the lock is held)"),
            move |r| waits(r, "pi"), when is_shown;
        control Above(LONGEST.into()), "for std's it waits {0:.2} ms ({limit}: until the third is done)",
            move |r| waits(r, "std"), when is_shown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_as_many_samples() {
        let (samples, medians) = measure(1);
        assert!(
            samples.iter().all(|s| s.summary().n == BLOCK as u64) && medians.iter().all(|m| m.len() == 1)
        );
    }
}
