//! What a mutex with priority inheritance costs without contention, and what it is for: how long an
//! urgent thread waits for one that a low thread holds while a third has work. std's mutex is the
//! negative control: its waits grow with the third one's work.

pub(super) mod inversion;

use std::sync::Mutex;

use isorb_rt::sync::PiMutex;

use self::inversion::{HELD_MS, WorkAmount, waits};
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::{Local, keep, local_rows};
use crate::claim::{Above, AtMost, Below, Cells, Claim, claims, control, paper};
use crate::figure::{Figure, Measured, Row, times};
use crate::stats::Samples;

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
const TOGETHER: u32 = 64;
const BLOCK: u32 = 200;
/// Work of the thread in between, in milliseconds.
const HOG_MS: [u32; 4] = [0, 5, 10, 20];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.pick(300, 2_000);
    cx.progress(NAME);
    let mut rows = cx.on_thread(move || measure(rounds))?;
    for Row { values, .. } in &mut rows {
        values.iter_mut().filter(|(name, _)| *name == "ratio").for_each(|(name, _)| *name = RATIO);
    }
    out.rows.extend(rows);
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

/// The name of the ratio of medians in the rows.
const RATIO: &str = "ratio_to_std_p50";

/// Rows of uncontended locks, in turns.
fn measure(rounds: u32) -> Vec<Row> {
    let (std, again, pi) = (Mutex::new(0u64), Mutex::new(0u64), PiMutex::new(0u64));
    // No thread panics while it holds the lock.
    let lock = |mutex: &Mutex<u64>| keep(mutex.lock().map(|mut n| *n += 1));
    let calls: [Box<dyn FnMut()>; 3] =
        [Box::new(|| lock(&std)), Box::new(|| lock(&again)), Box::new(|| *pi.lock() += 1)];
    let mut subjects: Vec<Local<'_>> = SUBJECTS
        .into_iter()
        .zip(calls)
        .map(|(name, call)| Local::called(name, 1.0, [BLOCK, TOGETHER], call))
        .collect();
    local_rows("lock", rounds, &mut subjects)
}

fn claims() -> Vec<Claim> {
    const LONGEST: u32 = HOG_MS[HOG_MS.len() - 1];
    let waits = |r: &dyn Cells, subject: &str| [r.at("inversion", subject, "p50_ns", LONGEST.into()) / 1e6];
    let is_shown = |r: &dyn Cells| !r.series("inversion", "pi", "p50_ns").is_empty();
    claims! {
        paper AtMost(1.5), "it takes {0:.2} times as long as std's ({limit}); std's against itself {1:.2}",
            |r| ["pi", "std-again"].map(|subject| r.at("lock", subject, RATIO, 1.0));
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
    fn all_locks_have_as_many_samples() {
        let rows = measure(1);
        assert_eq!(rows.len(), SUBJECTS.len());
        assert!(rows.iter().all(|row| row.value("n") == Some(BLOCK.into()) && row.value("ratio").is_some()));
    }
}
