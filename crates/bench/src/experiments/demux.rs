//! How long it takes to find the servant of a request, by the depth of its POA.
//!
//! In this process and without a connection: the step that a server makes between reading a request
//! and calling the servant. The message's key lies in memory as a request's does, in a scope or on
//! the heap. The negative control is persistent objects. Their keys name the path to their
//! POA, so the same step must grow with the depth.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use isorb::poa::PoaPolicies;
use isorb::poa::policies::Lifespan;
use isorb::{Config, Orb, Poa, Reference, Region, Result, SystemException};
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, AtMost, Below, Claim, aim, claims, control, median_of, most, paper};
use crate::figure::{Figure, Measured, times};
use crate::stats::Samples;
use crate::subjects::isorb::Echo;
use crate::subjects::isorb::generated::bench::TargetRef;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time to find a servant at the end of 1 to 150 nested POAs",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 3",
    paper: PAPER,
    seconds: (6, 25),
    run,
    claims,
};

const NAME: &str = "demux";
const PAPER: &str = "finding a servant takes as long at any depth of nested POAs; with scoped memory it scatters four times less";
const DEPTHS: [u32; 7] = [1, 25, 50, 75, 100, 125, 150];
/// Look-ups to a sample: one alone takes about as long as reading the clock.
const TOGETHER: u64 = 8;
/// The look-up by itself, then with the memory that a request lies in.
const SUBJECTS: [&str; 4] = ["look-up", "scope", "heap", "path-control"];
const OPERATION: &str = "ping";
/// What an upcall's region has, which the heap gives request by request in the other mode.
const REGION: usize = 16 << 10;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> std::result::Result<(), BenchError> {
    let samples = cx.pick(10_000, 50_000);
    cx.progress(format!("{NAME}: making POAs"));
    let orb = Orb::with_config(Config::default())?;
    let root = orb.root_poa()?;
    root.manager().activate().map_err(|_| internal())?;
    let active = keys(&orb, &root, "a", &PoaPolicies::new())?;
    let persistent = keys(&orb, &root, "p", &PoaPolicies::new().lifespan(Lifespan::Persistent))?;
    for (depth, (active, persistent)) in DEPTHS.into_iter().zip(active.into_iter().zip(persistent)) {
        cx.progress(format!("{NAME}: depth {depth}"));
        let orb = orb.clone();
        let measured = cx.on_thread(move || measure(&orb, &active, &persistent, samples))?;
        for (subject, samples) in SUBJECTS.into_iter().zip(measured) {
            let Some(samples) = samples else { return Err(BenchError::NoSubject) };
            out.row("demux", subject, depth, times(&samples.summary()));
        }
    }
    orb.shutdown(true)?;
    let figure = |title, y, draw| Figure::new("demux", title, "depth of the POA", y, draw).divide(1.0);
    out.figures = vec![
        figure("Time to find a servant", "nanoseconds", &["p50_ns", "p99_ns"]),
        figure("Its scatter", "nanoseconds, standard deviation", &["stddev_ns"]),
    ];
    out.note(format!(
        "A sample is the mean of {TOGETHER} requests. 'look-up' finds servant and operation; the others also place the key in memory and leave that."
    ));
    Ok(())
}

/// For calls that cannot fail in a process with one root POA of its own.
fn internal() -> SystemException {
    isorb::Kind::Internal.into()
}

/// The object keys of a servant at each of the depths.
fn keys(orb: &Orb, root: &Poa, name: &str, policies: &PoaPolicies) -> Result<Vec<Vec<u8>>> {
    let (mut poa, mut keys) = (root.clone(), Vec::new());
    for depth in 1..=DEPTHS[DEPTHS.len() - 1] {
        let name = format!("{name}{depth}");
        poa = poa.create_poa(&name, Some(&root.manager()), policies.clone()).map_err(|_| internal())?;
        if DEPTHS.contains(&depth) {
            let target: TargetRef = poa.activate(Arc::new(Echo::new(orb))).map_err(|_| internal())?;
            let profile = target.object().ior().iiop_profiles().next().ok_or_else(internal)?;
            keys.push(profile.map_err(|_| internal())?.key);
        }
    }
    Ok(keys)
}

/// What the subjects took, in their order; `None` where a look-up failed.
fn measure(orb: &Orb, active: &[u8], persistent: &[u8], n: usize) -> [Option<Samples>; 4] {
    const BLOCK: usize = 250;
    let mut region = Region::new(REGION);
    region.prefault();
    let mut found = [true; 4];
    let mut results: [Samples; 4] = Default::default();
    let mut in_scope = |key: &[u8]| {
        let scope = region.enter();
        scope.slice(key).is_ok_and(|key| orb.demultiplex(black_box(key), black_box(OPERATION)))
    };
    let on_heap = |key: &[u8]| {
        let mut region = Region::new(REGION);
        let scope = region.enter();
        scope.slice(key).is_ok_and(|key| orb.demultiplex(black_box(key), black_box(OPERATION)))
    };
    // In turns, so that all see the same machine; and with rests, so that the kernel does not stop
    // a real-time thread.
    for _ in 0..n.div_ceil(BLOCK) {
        block(&mut results[0], &mut found[0], BLOCK, || {
            orb.demultiplex(black_box(active), black_box(OPERATION))
        });
        block(&mut results[1], &mut found[1], BLOCK, || in_scope(active));
        block(&mut results[2], &mut found[2], BLOCK, || on_heap(active));
        block(&mut results[3], &mut found[3], BLOCK, || in_scope(persistent));
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut found = found.into_iter();
    results.map(|samples| found.next().unwrap_or(false).then_some(samples))
}

fn block(samples: &mut Samples, found: &mut bool, n: usize, mut find: impl FnMut() -> bool) {
    // What ran before has left the caches to others.
    for _ in 0..20 {
        *found &= find();
    }
    for _ in 0..n {
        let start = now_ns();
        for _ in 0..TOGETHER {
            *found &= find();
        }
        samples.add((now_ns() - start) / TOGETHER);
    }
}

fn claims() -> Vec<Claim> {
    const ENDS: [f64; 2] = [1.0, 150.0];
    claims! {
        paper Below(1.25), "the mean at depth 150 is {1:.2} times that at depth 1 in scopes, {2:.2} on \
             the heap (each {limit})",
            |r| {
                let [scope, heap] =
                    ["scope", "heap"].map(|subject| r.growth("demux", subject, "mean_ns", ENDS));
                [most([scope, heap]), scope, heap]
            };
        paper Above(1.0), "on the heap it scatters {0:.1} times as much as in scopes ({limit}; the \
             paper: 4)",
            |r| {
                let [heap, scope] = ["heap", "scope"].map(|subject| r.values("demux", subject, "stddev_ns"));
                [median_of(heap.iter().zip(scope).map(|(heap, scope)| heap / scope.max(0.1)).collect())]
            };
        control Above(1.25), "found by its path, depth 150 takes {0:.2} times as long as depth 1 ({limit})",
            |r| [r.growth("demux", "path-control", "p50_ns", ENDS)];
        aim AtMost(1.05), "the median at depth 150 is {0:.3} of that at depth 1 ({limit})",
            |r| [r.growth("demux", "look-up", "p50_ns", ENDS)];
        aim Below(100.0), "at depth 150 the look-up takes {0:.0} ns ({limit}), {1:.0} ns with the \
             request's memory",
            |r| ["look-up", "scope"].map(|subject| r.at("demux", subject, "p50_ns", 150.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_leads_to_its_servant() {
        let orb = Orb::with_config(Config::default()).unwrap();
        let root = orb.root_poa().unwrap();
        root.manager().activate().unwrap();
        for (name, lifespan) in [("a", Lifespan::Transient), ("p", Lifespan::Persistent)] {
            let keys = keys(&orb, &root, name, &PoaPolicies::new().lifespan(lifespan)).unwrap();
            assert_eq!(keys.len(), DEPTHS.len());
            assert!(keys.iter().all(|key| orb.demultiplex(key, OPERATION) && !orb.demultiplex(key, "pong")));
            let measured = measure(&orb, &keys[0], &keys[6], 1);
            assert!(measured.iter().all(|samples| samples.as_ref().is_some_and(|s| s.summary().n == 250)));
            assert!(measure(&orb, b"missing", &keys[0], 1)[0].is_none(), "a look-up that fails is no result");
        }
        orb.shutdown(true).unwrap();
    }
}
