//! What it costs to enter and to leave scoped memory, by the size of the request that was placed in
//! it.
//!
//! The request is placed in pieces, as the views of structures are. Three ways to hold it: in a
//! scope, which takes the same time to leave whatever is in it; in a scope with values that need
//! finalising, which is what the paper measured; and piece by piece on the heap, the control.
//!
//! Then requests of the same sizes go through the ORB, to a pool that takes an upcall's memory from
//! a scope and to one that takes it from the heap.

use std::hint::black_box;
use std::time::{Duration, Instant};

use isorb::Region;
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::Series;
use crate::cases::READING;
use crate::claim::{Above, AtMost, Below, Cells, Claim, aim, claims, control, least, most, paper, worst};
use crate::figure::{Figure, Measured, times};
use crate::stats::Samples;
use crate::tail::differs;
use crate::workload::{Call, Plan, Role, Setup, Workload};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time to enter and to leave a scope, by the size of the request in it",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 4",
    paper: "entering a scope takes the same time whatever the request's size; leaving takes longer the larger it is, \
                     by the finalisers",
    seconds: (30, 250),
    run,
    claims,
};

const NAME: &str = "scope";
/// As the paper's.
const SCOPE_BYTES: usize = 512 * 1024;
const SIZES: [usize; 5] = [1 << 10, 25 << 10, 50 << 10, 75 << 10, 100 << 10];
const PIECE: usize = 256;
/// Scopes that are entered, filled and left together: one alone takes less than reading the clock.
const TOGETHER: usize = 16;

/// Of the pool and its client.
const PRIORITY: i16 = 20_000;
/// The figure of whole requests, and its subjects.
const REQUEST: &str = "request";
const SCOPE: &str = "scope";
const AGAIN: &str = "scope-again";
const HEAP: &str = "heap";

/// A piece on the heap, or one in a scope that must be finalised.
type Owned = Box<[u8; PIECE]>;

const SUBJECTS: [&str; 3] = ["scope", "scope-finalised", "heap"];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let rounds = cx.pick(2_000, 10_000);
    for size in SIZES {
        cx.progress(format!("{NAME}: {} KiB", size >> 10));
        let measured = cx.on_thread(move || measure(size / PIECE, rounds))?;
        for (subject, [enter, exit]) in SUBJECTS.into_iter().zip(measured) {
            for (figure, samples) in [("enter", enter), ("exit", exit)] {
                out.row(figure, subject, (size >> 10) as f64, times(&samples.summary()));
            }
        }
    }
    requests(cx, out)?;
    let draw = &["p50_ns", "p99_ns"];
    let figure = |id, title| Figure::new(id, title, "request, KiB", "nanoseconds", draw).divide(1.0);
    out.figures = vec![figure("enter", "Entering a scope"), figure("exit", "Leaving a scope")];
    out.figures.push(Figure::new(REQUEST, "A request through the ORB", "request, KiB", "microseconds", draw));
    out.note(format!(
        "A sample is the mean of {TOGETHER} scopes that are entered, or left, one after the other. 'heap' enters nothing."
    ));
    Ok(())
}

/// Requests of structures there and back, in turns.
fn requests(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    const POOLS: [(&str, bool); 3] = [(SCOPE, false), (AGAIN, false), (HEAP, true)];
    let (rounds, ms) = (cx.pick(5, 20), cx.ms(100, 300));
    let calls = if cx.is_smoke() { 10 } else { cx.pick(10_000, 100_000) };
    let mut workloads = Vec::new();
    for (subject, heap) in POOLS {
        let one_pool =
            Setup { sorted: false, banded: false, declared: true, heap, ..Setup::lanes(&[PRIORITY]) };
        let setup = Setup { region_bytes: Some(SCOPE_BYTES), ..one_pool };
        workloads.push((subject, Workload::start(cx, subject, &setup, None)?));
    }
    for size in SIZES {
        cx.progress(format!("{NAME}: requests of {} KiB", size >> 10));
        let call = Call::Structures(u32::try_from(size / READING).unwrap_or(1));
        let plan = Plan { ms, roles: vec![Role { call, ..Role::new(1, 0, 0, PRIORITY) }] };
        let mut series = [(); POOLS.len()].map(|()| Series::<()>::default());
        // A slow machine makes fewer.
        let until = Instant::now() + Duration::from_millis(cx.ms(6_000, 60_000).into());
        let mut round = 0;
        let few = |series: &Series<()>| series.samples.summary().n < calls;
        while round < rounds || Instant::now() < until && series.iter().any(few) {
            round += 1;
            for ((_, workload), series) in workloads.iter_mut().zip(&mut series) {
                workload.run(&plan)?.into_iter().for_each(|results| series.add(results.latencies));
            }
        }
        for ((subject, _), series) in workloads.iter().zip(series) {
            out.row(REQUEST, subject, (size >> 10) as f64, series.values());
        }
    }
    workloads.into_iter().for_each(|(_, workload)| workload.end());
    Ok(())
}

/// Enter and exit of each subject.
fn measure(pieces: usize, rounds: usize) -> [[Samples; 2]; 3] {
    let mut results: [[Samples; 2]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| Samples::new()));
    let mut regions: Vec<Region> = (0..TOGETHER).map(|_| Region::new(SCOPE_BYTES)).collect();
    regions.iter_mut().for_each(Region::prefault);
    for round in 0..rounds {
        // In turns, so that all see the same machine; and with rests, so that the kernel does not
        // stop a real-time thread.
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
            // There is room for five times as much; what did not fit would show as a flat exit of
            // nothing.
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

/// How far the medians of scopes are from flat (1 is the most: 10 ns or a fifth), the least, the
/// most.
fn flatness(r: &dyn Cells, figure: &str) -> [f64; 3] {
    let medians = || r.values(figure, "scope", "p50_ns");
    let (low, high) = (least(medians()), most(medians()));
    [(high - low) / (0.2 * low).max(10.0), low, high]
}

fn claims() -> Vec<Claim> {
    let grows = |r: &dyn Cells, subject: &str| r.growth("exit", subject, "p50_ns", [1.0, 100.0]);
    let mut claims = claims! {
        paper AtMost(1.0), "entering takes {1:.0} to {2:.0} ns from 1 KiB to 100 KiB (flat: within 10 ns \
             or a fifth)", |r| flatness(r, "enter");
        paper Above(3.0), "leaving with finalisers takes {0:.1} times as long at 100 KiB as at 1 KiB \
             ({limit})", move |r| [grows(r, "scope-finalised")];
        control Above(3.0), "from the heap, giving back takes {0:.1} times as long at 100 KiB ({limit})",
            move |r| [grows(r, "heap")];
        aim Below(50.0), "entering takes at most {1:.0} ns, leaving at most {2:.0} ns (each {limit})",
            |r| {
                let [enter, exit] = ["enter", "exit"].map(|figure| flatness(r, figure)[2]);
                [most([enter, exit]), enter, exit]
            };
        aim AtMost(1.0), "leaving takes {1:.0} to {2:.0} ns whatever the size: better than the paper's",
            |r| flatness(r, "exit");
    };
    // The heap's pool has the same threads and priorities; the noise is that of scopes.
    let p999 = |r: &dyn Cells, subject, kib| r.at(REQUEST, subject, "p999_ns", kib);
    let sentence = "through the ORB, p99.9 of requests of 100 KiB in scopes is {0:.2} times that with the heap ({limit}; \
                of 1 KiB {1:.2} times)";
    let to_heap = move |r: &dyn Cells| [100.0, 1.0].map(|kib| p999(r, SCOPE, kib) / p999(r, HEAP, kib));
    let beside_heap = worst(AtMost(1.2), sentence, to_heap);
    claims.push(beside_heap.unless_noisy(move |r| differs(p999(r, SCOPE, 100.0), p999(r, AGAIN, 100.0))));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

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
