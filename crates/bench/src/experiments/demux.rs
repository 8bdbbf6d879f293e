//! How long it takes to find the servant of a request, by the depth of its POA.
//!
//! In this process and without a connection: the step that a server makes between reading a request
//! and calling the servant. The message's key lies in memory as a request's does, in a scope or on
//! the heap, as the ORB's setting `memory` has it. The negative control is persistent objects.
//! Their keys name the path to their POA, so the same step must grow with the depth.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use isorb::poa::PoaPolicies;
use isorb::poa::policies::Lifespan;
use isorb::{Config, Orb, Poa, Reference, Region, Result, SystemException};
use isorb_scope::BufferPool;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::{Local, local_rows};
use crate::claim::{Above, AtLeast, AtMost, Below, Claim, aim, claims, control, median_of, most, paper};
use crate::figure::{Figure, Measured, Row};
use crate::subjects::isorb::Echo;
use crate::subjects::isorb::generated::bench::TargetRef;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time to find a servant at the end of 1 to 150 nested POAs",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 3",
    paper: "finding a servant takes as long at any depth of nested POAs; with scoped memory it scatters four times less",
    seconds: (6, 25),
    run,
    claims,
};

const NAME: &str = "demux";
const DEPTHS: [u32; 7] = [1, 25, 50, 75, 100, 125, 150];
/// Look-ups to a sample: one alone takes about as long as reading the clock.
const TOGETHER: u32 = 8;
/// Samples of a subject before it is another's turn.
const BLOCK: u32 = 250;
/// The look-up by itself, then with the memory that a request lies in.
const SUBJECTS: [&str; 4] = ["look-up", "scope", "heap", "path-control"];
const OPERATION: &str = "ping";
/// What an upcall's region has, and what it may take from the heap in the other mode.
const REGION: usize = 16 << 10;
const LIMIT: usize = 1 << 20;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> std::result::Result<(), BenchError> {
    let blocks = cx.pick(10_000, 50_000) / BLOCK;
    cx.progress(format!("{NAME}: making POAs"));
    let orb = Orb::with_config(Config::default())?;
    let root = orb.root_poa()?;
    root.manager().activate().map_err(|_| internal())?;
    let active = keys(&orb, &root, "a", &PoaPolicies::new())?;
    let persistent = keys(&orb, &root, "p", &PoaPolicies::new().lifespan(Lifespan::Persistent))?;
    for (depth, (active, persistent)) in DEPTHS.into_iter().zip(active.into_iter().zip(persistent)) {
        cx.progress(format!("{NAME}: depth {depth}"));
        let orb = orb.clone();
        let measured = cx.on_thread(move || measure(&orb, depth, [&active, &persistent], blocks))?;
        out.rows.extend(measured.ok_or(BenchError::NoSubject)?);
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

/// The rows of the subjects; `None` where a look-up failed.
fn measure(orb: &Orb, depth: u32, [active, persistent]: [&[u8]; 2], blocks: u32) -> Option<Vec<Row>> {
    let found = Cell::new(true);
    let mut region = Region::new(REGION);
    region.prefault();
    // As the ORB makes it for a pool with memory = "heap": nothing fits, and no block is kept.
    let mut heap = Region::with_overflow(0, BufferPool::new(LIMIT, 0));
    let mut path = Region::new(REGION);
    path.prefault();
    let look_up = |key: &[u8]| {
        found.set(found.get() & orb.demultiplex(black_box(key), black_box(OPERATION)));
    };
    let within = |region: &mut Region, key: &[u8]| match region.enter().slice(key) {
        Ok(key) => look_up(key),
        Err(_) => found.set(false),
    };
    let calls: [Box<dyn FnMut() + '_>; 4] = [
        Box::new(|| look_up(active)),
        Box::new(|| within(&mut region, active)),
        Box::new(|| within(&mut heap, active)),
        Box::new(|| within(&mut path, persistent)),
    ];
    let subject = |(name, call)| Local::called(name, depth.into(), [BLOCK, TOGETHER], call);
    let mut subjects: Vec<Local<'_>> = SUBJECTS.into_iter().zip(calls).map(subject).collect();
    let rows = local_rows("demux", blocks, &mut subjects);
    found.get().then_some(rows)
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
        paper AtLeast(2.0), "on the heap it scatters {0:.1} times as much as in scopes ({limit}; the \
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
            let rows = measure(&orb, 150, [&keys[0], &keys[6]], 1).expect("both are found");
            assert!(rows.len() == 4 && rows.iter().all(|row| row.value("n") == Some(BLOCK.into())));
            let missing = measure(&orb, 150, [b"missing", &keys[0]], 1);
            assert!(missing.is_none(), "a look-up that fails is no result");
        }
        orb.shutdown(true).unwrap();
    }
}
