//! How long it takes to find the servant of a request, by the depth of its POA.
//!
//! In this process and without a connection: the step that a server makes between reading a request and calling the servant. The
//! message's key lies in memory as a request's does, in a scope or on the heap. The negative control are persistent objects, whose
//! keys name the path to their POA: the same step, and it must grow with the depth.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use isorb::poa::PoaPolicies;
use isorb::poa::policies::Lifespan;
use isorb::{Config, Orb, Poa, Reference, Region, Result, SystemException};
use isorb_rt::time::now_ns;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, series, times};
use crate::stats::Samples;
use crate::subjects::isorb::Echo;
use crate::subjects::isorb::generated::bench::TargetRef;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Time to find a servant at the end of 1 to 150 nested POAs",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 3",
    paper: PAPER,
    seconds: (6, 25),
    run,
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

fn run(cx: &mut Context<'_>) -> std::result::Result<Outcome, BenchError> {
    let samples = cx.pick(10_000, 50_000);
    cx.step(format!("{NAME}: making POAs"));
    let orb = Orb::with_config(Config::default())?;
    let root = orb.root_poa()?;
    root.manager().activate().map_err(|_| internal())?;
    let active = keys(&orb, &root, "a", &PoaPolicies::new())?;
    let persistent = keys(&orb, &root, "p", &PoaPolicies::new().lifespan(Lifespan::Persistent))?;
    let mut rows = Vec::new();
    for (depth, (active, persistent)) in DEPTHS.into_iter().zip(active.into_iter().zip(persistent)) {
        cx.step(format!("{NAME}: depth {depth}"));
        let orb = orb.clone();
        let measured = cx.on_thread(move || measure(&orb, &active, &persistent, samples))?;
        for (subject, samples) in SUBJECTS.into_iter().zip(measured) {
            let Some(samples) = samples else { return Err(BenchError::NoSubject) };
            let values = times(&samples.summary());
            rows.push(Row { experiment: NAME, figure: "demux", subject, x: depth.into(), values });
        }
    }
    orb.shutdown(true)?;
    let figure =
        |title, y, draw, log| Figure { id: "demux", title, x: "depth of the POA", y, draw, divide: 1.0, log };
    let figures = vec![
        figure("Time to find a servant", "nanoseconds", &["p50_ns", "p99_ns"][..], true),
        figure("Its scatter", "nanoseconds, standard deviation", &["stddev_ns"][..], true),
    ];
    let notes = vec![format!(
        "A sample is the mean of {TOGETHER} requests. 'look-up' finds servant and operation; the others also place the key in memory and leave that."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// Of what cannot fail in a process with one root POA that nobody else has.
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
    // In turns, so that all see the same machine; and with rests, so that the kernel does not stop a real-time thread.
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

fn judge(rows: &[Row]) -> Vec<Claim> {
    let at = |subject: &str, value: &str, depth: f64| at(rows, "demux", subject, value, depth);
    let ratio = |subject: &str, value: &str| at(subject, value, 150.0) / at(subject, value, 1.0);
    let scatter = scatter(rows);
    let (median, by_path) = (ratio("look-up", "p50_ns"), ratio("path-control", "p50_ns"));
    let means = (ratio("scope", "mean_ns"), ratio("heap", "mean_ns"));
    let (alone, with_memory) = (at("look-up", "p50_ns", 150.0), at("scope", "p50_ns", 150.0));
    vec![
        Claim::paper(
            means.0 < 1.25 && means.1 < 1.25,
            format!(
                "the mean at depth 150 is {:.2} times that at depth 1 in scopes, {:.2} on the heap (below 1.25)",
                means.0, means.1
            ),
        ),
        Claim::paper(
            scatter > 1.0,
            format!(
                "on the heap it scatters {scatter:.1} times as much as in scopes (above 1; the paper: 4)"
            ),
        ),
        Claim::control(
            by_path > 1.25,
            format!("found by its path, depth 150 takes {by_path:.2} times as long as depth 1 (above 1.25)"),
        ),
        Claim::aim(
            median <= 1.05,
            format!("the median at depth 150 is {median:.3} of that at depth 1 (at most 1.05)"),
        ),
        Claim::aim(
            alone < 100.0,
            format!(
                "at depth 150 the look-up takes {alone:.0} ns (below 100), {with_memory:.0} ns with the request's memory"
            ),
        ),
    ]
}

/// The median over depths of the ratio of standard deviations, heap to scope.
fn scatter(rows: &[Row]) -> f64 {
    let deviations = |subject: &str| series(rows, "demux", subject, "stddev_ns");
    let mut ratios: Vec<f64> = deviations("heap")
        .iter()
        .zip(deviations("scope"))
        .map(|(heap, scope)| heap.1 / scope.1.max(0.1))
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(value: impl Fn(&str, f64) -> (f64, f64)) -> Vec<Row> {
        let subjects = SUBJECTS;
        let places = DEPTHS.into_iter().flat_map(|depth| subjects.map(|subject| (subject, f64::from(depth))));
        places
            .map(|(subject, x)| {
                let (ns, stddev) = value(subject, x);
                let values = vec![("p50_ns", ns), ("mean_ns", ns), ("stddev_ns", stddev)];
                Row { experiment: NAME, figure: "demux", subject, x, values }
            })
            .collect()
    }

    #[test]
    fn shapes_are_told_apart() {
        let verdict = |value: &dyn Fn(&str, f64) -> (f64, f64)| {
            let v = Verdict::new(NAME, PAPER, judge(&rows(value)));
            (v.shape_holds, v.control_fails)
        };
        let as_seen = |subject: &str, depth: f64| match subject {
            "look-up" | "scope" => (60.0, 5.0),
            "heap" => (90.0, 20.0),
            _ => (60.0 + depth, 5.0),
        };
        assert_eq!(verdict(&as_seen), (true, Some(true)));
        assert_eq!(verdict(&|_, _| (60.0, 5.0)), (false, Some(false)), "no scatter, no growth");
        assert!(!verdict(&|_, depth| (60.0 + depth, 5.0)).0);
        assert!(!Verdict::new(NAME, PAPER, judge(&[])).shape_holds);
    }

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
            assert!(measure(&orb, b"nobody", &keys[0], 1)[0].is_none(), "a look-up that fails is no result");
        }
        orb.shutdown(true).unwrap();
    }
}
