//! What a mutex with priority inheritance costs where nobody else wants it, and what it is for: how long an urgent thread waits for one
//! that a low thread holds while a third has work. std's mutex is the negative control: its waits grow with the third one's work.

mod inversion;

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;

use self::inversion::{HELD_MS, Work, waits};
use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::stats::{Samples, median, ratio_of_medians};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "A mutex with priority inheritance beside std's: uncontended, and wanted by a high thread while a low one holds it",
    source: "a measurement of ours",
    paper: PAPER,
    seconds: (8, 40),
    run,
};

const NAME: &str = "pi-mutex";
const PAPER: &str = "a mutex with priority inheritance costs little more than one without where nobody else wants it; where a low thread \
                     holds it, a high one waits for that thread and for nobody else";
const SUBJECTS: [&str; 3] = ["std", "std-again", "pi"];
/// Lockings to a sample: one alone takes less than reading the clock.
const TOGETHER: u64 = 64;
const BLOCK: usize = 200;
/// Work of the thread in between, in milliseconds.
const HOG_MS: [u32; 4] = [0, 5, 10, 20];

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
    let mut notes = vec![format!(
        "A sample is the mean of {TOGETHER}. 'std-again' is 'std' once more: what the two differ by is noise."
    )];
    let inverted = cx.fifo.is_some();
    if inverted {
        rows.extend(invert(cx)?);
        notes.push(format!(
            "Inversion: three real-time threads on one processor; the low one holds the lock for {HELD_MS} ms of work, wakes \
             the high one, which wants it, and then the one in between."
        ));
    } else {
        notes.push(
            "Inversion: not shown, this process may not schedule in real time (isorb doctor says why)."
                .to_owned(),
        );
    }
    let verdict = Verdict::new(NAME, PAPER, judge(&rows, inverted));
    Ok(Outcome { figures: figures(inverted), rows, notes, verdict })
}

/// The inversion with either mutex, in turns.
fn invert(cx: &mut Context<'_>) -> Result<Vec<Row>, BenchError> {
    let (rounds, times_each) = (cx.pick(4, 20), 5);
    let amount = Work::calibrate(cx)?;
    let mut rows = Vec::new();
    for hog_ms in HOG_MS {
        cx.step(format!("{NAME}: inversion, {hog_ms} ms"));
        let (mut std, mut pi) = (Samples::new(), Samples::new());
        for _ in 0..rounds {
            std.extend(waits::<Mutex<()>>(cx, amount, hog_ms, times_each)?);
            pi.extend(waits::<PiMutex<()>>(cx, amount, hog_ms, times_each)?);
        }
        for (subject, samples) in [("std", std), ("pi", pi)] {
            let values = times(&samples.summary());
            rows.push(Row { experiment: NAME, figure: "inversion", subject, x: hog_ms.into(), values });
        }
    }
    Ok(rows)
}

fn figures(inverted: bool) -> Vec<Figure> {
    let lock = Figure {
        id: "lock",
        title: "Lock and unlock, uncontended",
        x: "threads",
        y: "nanoseconds",
        draw: &["p50_ns", "p99_ns"],
        divide: 1.0,
        log: false,
    };
    let inversion = Figure {
        id: "inversion",
        title: "The high thread waits for a lock that the low one holds",
        x: "work of the thread in between, ms",
        y: "milliseconds",
        draw: &["p50_ns", "max_ns"],
        divide: 1e6,
        log: false,
    };
    if inverted { vec![lock, inversion] } else { vec![lock] }
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

fn judge(rows: &[Row], inverted: bool) -> Vec<Claim> {
    let ratio = |subject: &str| at(rows, "lock", subject, "ratio_to_std_p50", 1.0);
    let (pi, noise) = (ratio("pi"), ratio("std-again"));
    let mut claims = vec![Claim::paper(
        pi <= 1.5,
        format!("it takes {pi:.2} times as long as std's (at most 1.5); std's against itself {noise:.2}"),
    )];
    if inverted {
        let longest = HOG_MS.into_iter().max().unwrap_or_default();
        let waits = |subject: &str| at(rows, "inversion", subject, "p50_ns", longest.into()) / 1e6;
        let (pi, std) = (waits("pi"), waits("std"));
        claims.push(Claim::paper(
            pi < 2.0 * HELD_MS,
            format!(
                "while a third thread wants {longest} ms of the processor, the high one waits {pi:.2} ms (below {}, twice what the lock \
                 is held)",
                2.0 * HELD_MS
            ),
        ));
        claims.push(Claim::control(
            std > f64::from(longest),
            format!("for std's it waits {std:.2} ms (above {longest}: until the third is done)"),
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |ratio: f64, pi_ms: f64, std_ms: f64| {
            let row =
                |figure, subject, x, value| Row { experiment: NAME, figure, subject, x, values: vec![value] };
            let mut rows = vec![
                row("lock", "pi", 1.0, ("ratio_to_std_p50", ratio)),
                row("lock", "std-again", 1.0, ("ratio_to_std_p50", 1.0)),
            ];
            for (subject, ms) in [("pi", pi_ms), ("std", std_ms)] {
                rows.push(row("inversion", subject, 20.0, ("p50_ns", ms * 1e6)));
            }
            let v = Verdict::new(NAME, PAPER, judge(&rows, true));
            (v.shape_holds, v.control_fails)
        };
        assert_eq!(verdict(1.2, 1.6, 21.7), (true, Some(true)));
        assert_eq!(verdict(1.6, 1.6, 21.7), (false, Some(true)));
        assert_eq!(verdict(1.2, 21.7, 21.7), (false, Some(true)));
        assert_eq!(verdict(1.2, 1.6, 1.6), (true, Some(false)));
        assert_eq!(verdict(f64::NAN, f64::NAN, f64::NAN), (false, Some(false)));
        assert_eq!(Verdict::new(NAME, PAPER, judge(&[], false)).control_fails, None, "nothing was shown");
    }

    #[test]
    fn everybody_has_as_many_samples() {
        let (samples, medians) = measure(1);
        assert!(
            samples.iter().all(|s| s.summary().n == BLOCK as u64) && medians.iter().all(|m| m.len() == 1)
        );
    }
}
