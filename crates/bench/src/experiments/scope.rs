//! What it costs to enter and to leave scoped memory, by the size of the request that was placed in it.
//!
//! The request is placed in pieces, as the views of structures are. Three ways to hold it: in a scope, whose leaving does
//! not depend on what is in it; in a scope with values that need finalising, which is what the paper measured; and piece by
//! piece on the heap, the control.

use std::hint::black_box;
use std::time::Duration;

use isorb::Region;
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series, times};
use crate::stats::Samples;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time to enter and to leave a scope, by the size of the request in it",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 4",
    paper: PAPER,
    seconds: (5, 25),
    run,
};

const NAME: &str = "scope";
const PAPER: &str = "entering a scope takes the same time whatever the request's size; leaving takes longer the larger it is, \
                     by the finalisers";
/// As the paper's.
const SCOPE_BYTES: usize = 512 * 1024;
const SIZES: [usize; 5] = [1 << 10, 25 << 10, 50 << 10, 75 << 10, 100 << 10];
const PIECE: usize = 256;
/// Scopes that are entered, filled and left together: one alone takes less than reading the clock.
const TOGETHER: usize = 16;

/// A piece on the heap, or one in a scope that must be finalised.
type Owned = Box<[u8; PIECE]>;

const SUBJECTS: [&str; 3] = ["scope", "scope-finalised", "heap"];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let rounds = cx.pick(2_000, 10_000);
    let mut rows = Vec::new();
    for size in SIZES {
        cx.step(format!("{NAME}: {} KiB", size >> 10));
        let measured = cx.on_thread(move || measure(size / PIECE, rounds))?;
        for (subject, [enter, exit]) in SUBJECTS.into_iter().zip(measured) {
            for (figure, samples) in [("enter", enter), ("exit", exit)] {
                let values = times(&samples.summary());
                rows.push(Row { experiment: NAME, figure, subject, x: (size >> 10) as f64, values });
            }
        }
    }
    let figure = |id, title| Figure {
        id,
        title,
        x: "request, KiB",
        y: "nanoseconds",
        draw: &["p50_ns", "p99_ns"],
        divide: 1.0,
        log: true,
    };
    let figures = vec![figure("enter", "Entering a scope"), figure("exit", "Leaving a scope")];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    let notes = vec![format!(
        "A sample is the mean of {TOGETHER} scopes that are entered, or left, one after the other. 'heap' enters nothing."
    )];
    Ok(Outcome { figures, rows, notes, verdict })
}

/// Enter and exit of each subject.
fn measure(pieces: usize, rounds: usize) -> [[Samples; 2]; 3] {
    let mut results: [[Samples; 2]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| Samples::new()));
    let mut regions: Vec<Region> = (0..TOGETHER).map(|_| Region::new(SCOPE_BYTES)).collect();
    regions.iter_mut().for_each(Region::prefault);
    for round in 0..rounds {
        // In turns, so that all see the same machine; and with rests, so that the kernel does not stop a real-time thread.
        let [scope, finalised, heap] = &mut results;
        add(scope, in_scopes(&mut regions, pieces, false));
        add(finalised, in_scopes(&mut regions, pieces, true));
        add(heap, on_heap(pieces));
        if round % 50 == 49 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    results
}

fn add(to: &mut [Samples; 2], [enter, exit]: [u64; 2]) {
    to[0].add(enter / TOGETHER as u64);
    to[1].add(exit / TOGETHER as u64);
}

fn in_scopes(regions: &mut [Region], pieces: usize, finalised: bool) -> [u64; 2] {
    let mut scopes = Vec::with_capacity(TOGETHER);
    let start = now_ns();
    for region in regions {
        scopes.push(region.enter());
    }
    let entered = now_ns() - start;
    for scope in &scopes {
        for _ in 0..pieces {
            // There is room for five times as much; what did not fit would show as a flat exit of nothing.
            if finalised {
                black_box(scope.keep::<Owned>(Box::new([1; PIECE])).is_ok());
            } else {
                black_box(scope.bytes_mut(PIECE).is_ok());
            }
        }
    }
    let start = now_ns();
    scopes.clear();
    [entered, now_ns() - start]
}

fn on_heap(pieces: usize) -> [u64; 2] {
    let mut requests: Vec<Vec<Owned>> = Vec::with_capacity(TOGETHER);
    let start = now_ns();
    for _ in 0..TOGETHER {
        requests.push(black_box(Vec::with_capacity(pieces)));
    }
    let entered = now_ns() - start;
    for request in &mut requests {
        request.extend((0..pieces).map(|_| black_box(Box::new([1; PIECE]))));
    }
    let start = now_ns();
    requests.clear();
    [entered, now_ns() - start]
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let p50 = |figure: &str, subject: &str| -> Vec<f64> {
        series(rows, figure, subject, "p50_ns").into_iter().map(|(_, ns)| ns).collect()
    };
    let (least, most) = range(&p50("enter", "scope"));
    let (leave_least, leave_most) = range(&p50("exit", "scope"));
    let grows = |subject: &str| {
        let of = |kib| at(rows, "exit", subject, "p50_ns", kib);
        of(100.0) / of(1.0)
    };
    let (finalised, heap) = (grows("scope-finalised"), grows("heap"));
    vec![
        Claim::paper(
            flat(least, most),
            format!(
                "entering takes {least:.0} to {most:.0} ns from 1 KiB to 100 KiB (flat: within 10 ns or a fifth)"
            ),
        ),
        Claim::paper(
            finalised > 3.0,
            format!(
                "leaving with finalisers takes {finalised:.1} times as long at 100 KiB as at 1 KiB (above 3)"
            ),
        ),
        Claim::control(
            heap > 3.0,
            format!("from the heap, giving back takes {heap:.1} times as long at 100 KiB (above 3)"),
        ),
        Claim::aim(
            most < 50.0 && leave_most < 50.0,
            format!("entering takes at most {most:.0} ns, leaving at most {leave_most:.0} ns (below 50)"),
        ),
        Claim::aim(
            flat(leave_least, leave_most),
            format!(
                "leaving takes {leave_least:.0} to {leave_most:.0} ns whatever the size: better than the paper's"
            ),
        ),
    ]
}

fn range(values: &[f64]) -> (f64, f64) {
    (values.iter().copied().fold(f64::NAN, f64::min), values.iter().copied().fold(f64::NAN, f64::max))
}

fn flat(least: f64, most: f64) -> bool {
    most - least <= (0.2 * least).max(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ns: impl Fn(&str, &str, f64) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for figure in ["enter", "exit"] {
            for subject in SUBJECTS {
                for size in SIZES {
                    let x = (size >> 10) as f64;
                    let values = vec![("p50_ns", ns(figure, subject, x))];
                    rows.push(Row { experiment: NAME, figure, subject, x, values });
                }
            }
        }
        rows
    }

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |ns: &dyn Fn(&str, &str, f64) -> f64| {
            let v = Verdict::new(NAME, PAPER, judge(&rows(ns)));
            (v.shape_holds, v.control_fails, v.claims.iter().all(|c| c.holds))
        };
        let ours = |figure: &str, subject: &str, x: f64| match (figure, subject) {
            ("enter", _) | (_, "scope") => 20.0,
            _ => 20.0 * x,
        };
        assert_eq!(verdict(&ours), (true, Some(true), true));
        assert_eq!(verdict(&|_, _, _| 20.0), (false, Some(false), false), "nothing grows");
        assert!(!verdict(&|_, _, x| 20.0 * x).0, "entering grows");
        assert!(!Verdict::new(NAME, PAPER, judge(&[])).shape_holds);
    }

    #[test]
    fn everything_fits_and_is_measured() {
        let results = measure(SIZES[4] / PIECE, 2);
        assert!(results.iter().flatten().all(|samples| samples.summary().n == 2));
        let mut region = Region::new(SCOPE_BYTES);
        let scope = region.enter();
        for _ in 0..SIZES[4] / PIECE {
            scope.keep::<Owned>(Box::new([0; PIECE])).unwrap();
        }
    }
}
