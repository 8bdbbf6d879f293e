//! What a mutex with priority inheritance costs without contention, and what it is for: how long an
//! urgent thread waits for one that a low thread holds while a third has work. std's mutex is the
//! negative control: its waits grow with the third one's work.

use std::sync::Mutex;
use std::time::Duration;

use isorb_rt::sync::PiMutex;

use super::catalogue::Experiment;
use super::inversion_scene::{Lock, Scene, with_lock};
use super::{BenchError, Context};
use crate::blocks::{Local, keep, local_rows};
use crate::claim::{Above, AtMost, Below, Cells, Claim, claims, control, paper};
use crate::figure::{Figure, Measured, Row, times};
use crate::stats::Samples;
use crate::workload::calibrate_work;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "A mutex with priority inheritance beside std's: uncontended, and wanted by a high thread while a low one holds it",
    source: "a measurement of ours",
    paper: "a mutex with priority inheritance costs little more than one without while it is uncontended; where a low thread \
                     holds it, a high one waits for that thread only",
    seconds: (8, 40),
    run,
    claims,
};

const NAME: &str = "pi-mutex";
const SUBJECTS: [&str; 3] = ["std", "std-again", "pi"];
/// Lockings to a sample: one alone takes less than reading the clock.
const TOGETHER: u32 = 64;
const BLOCK: u32 = 200;
/// How long the low thread holds the lock, in milliseconds.
const HELD_MS: u64 = 2;
const SCENE: Scene =
    Scene { lows: 1, served: Duration::from_millis(HELD_MS), pause: Duration::from_millis(5) };
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
        "Inversion: three real-time threads on one processor; the low one holds the lock for {HELD_MS} ms, \
         while the one in between begins, and then the high one, which wants it."
    ));
    Ok(())
}

/// The inversion with either mutex, in turns.
fn invert(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.pick(20, 100);
    let unit = calibrate_work(cx)?;
    for hog_ms in HOG_MS {
        cx.progress(format!("{NAME}: inversion, {hog_ms} ms"));
        let computing = (f64::from(hog_ms) * unit).round() as i32;
        let (mut std, mut pi) = (Samples::new(), Samples::new());
        for _ in 0..rounds {
            std.add(wait::<Mutex<()>>(cx, computing)?);
            pi.add(wait::<PiMutex<()>>(cx, computing)?);
        }
        for (subject, samples) in [("std", std), ("pi", pi)] {
            out.row("inversion", subject, hog_ms, times(&samples.summary()));
        }
    }
    Ok(())
}

/// How long the high thread waits for a lock, and holds it.
fn wait<L: Lock>(cx: &Context<'_>, computing: i32) -> Result<u64, BenchError> {
    SCENE.play(cx, computing, with_lock::<L>(SCENE.served))
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
        paper Below(2.0 * HELD_MS as f64), format!("while a third thread wants {LONGEST} ms of the processor, \
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
