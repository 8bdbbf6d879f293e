//! An urgent call beside less urgent ones to the same server, while a thread in between computes.
//!
//! The less urgent threads have the connections while their requests are at the server. The threads
//! of the server are above all, and each request sleeps there for [`SERVED_MS`]. So the urgent call
//! takes little more than that unless it waits for the thread in between.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use isorb::poa::PoaPolicies;
use isorb::rt::policy::{PriorityBand, PriorityModel, RtPolicy};
use isorb::rt::{Overrides, ThreadpoolLane};
use isorb::{Config, Orb, Reference, Upcall};
use isorb_rt::priority::{Priority, PriorityMapping};
use isorb_rt::sync::PiMutex;

use super::catalogue::Experiment;
use super::inversion_scene::{Call, LOW, MIDDLE, Scene, URGENT, with_lock};
use super::{BenchError, Context};
use crate::claim::{AtLeast, AtMost, Cells, Claim, control, paper};
use crate::figure::{Figure, Measured, times};
use crate::stats::Samples;
use crate::subjects::isorb::generated::bench::{Layered, LayeredRef, MessageView, Stamps};
use crate::tail::differs;
use crate::workload::calibrate_work;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "An urgent call beside five less urgent ones to one server, while a thread in between computes",
    source: "of our own",
    paper: "an urgent call waits for its server only, however connections are shared with less urgent calls",
    seconds: (25, 130),
    run,
    claims,
};

const NAME: &str = "inversion";
const FIGURE: &str = "urgent";
/// How long the server takes for a request.
const SERVED_MS: u32 = 50;
/// How long the thread in between computes.
const COMPUTED_MS: u32 = 500;
/// What an urgent call may take: 51 ms, and 1 ms for wake-ups.
const MOST_MS: f64 = 52.0;
/// Of the server, above all of the scene.
const SERVER: u8 = 40;
const BARE: &str = "bare-pi";
const CONTROL: &str = "bare-futex-control";
const SCENE: Scene = Scene {
    lows: 1,
    served: Duration::from_millis(SERVED_MS as u64),
    // The kernel stops real-time threads that leave nothing to others.
    pause: Duration::from_millis(100),
};

/// How the client shares connections: subject, less urgent calls that are outstanding, policies.
type Arrangement = (&'static str, u32, fn() -> Vec<RtPolicy>);

const ARRANGEMENTS: [Arrangement; 4] = [
    ("five-connections", 5, Vec::new),
    ("one-band", 5, || bands(&[(0, i16::MAX)])),
    ("two-bands", 5, || bands(&[(0, MIDDLE.into()), (i16::from(MIDDLE) + 1, i16::MAX)])),
    ("private-shared", 5, || vec![RtPolicy::PrivateConnection]),
];

fn bands(bands: &[(i16, i16)]) -> Vec<RtPolicy> {
    vec![RtPolicy::PriorityBands(bands.iter().map(|&(low, high)| PriorityBand { low, high }).collect())]
}

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    if cx.fifo.is_none() {
        out.note("Not shown: this process may not schedule in real time (isorb doctor says why).");
        return Ok(());
    }
    let computing = (f64::from(COMPUTED_MS) * calibrate_work(cx)?).round() as i32;
    let (server, reference) = server(cx)?;
    let mut clients = Vec::new();
    for (subject, lows, policies) in ARRANGEMENTS {
        let orb = orb()?;
        orb.set_rt_overrides(Overrides::new(&policies())?);
        let target: LayeredRef = orb.resolve(&reference)?;
        clients.push((subject, lows, orb, target));
    }
    let mut all: Vec<(&str, Samples)> = Vec::new();
    let mut add = |subject, ns| match all.iter_mut().find(|(of, _)| *of == subject) {
        Some((_, samples)) => samples.add(ns),
        None => all.push((subject, [ns].into_iter().collect())),
    };
    let rounds = if cx.is_smoke() { 1 } else { cx.pick(4, 20) };
    for round in 1..=rounds {
        for (subject, lows, orb, target) in &clients {
            cx.progress(format!("{NAME}: {subject}, round {round} of {rounds}"));
            // Opens as many connections as are outstanding at a time.
            let scene = Scene { lows: *lows, ..SCENE };
            scene.play(cx, 0, caller(orb, target, 5))?;
            add(*subject, scene.play(cx, computing, caller(orb, target, SERVED_MS))?);
        }
        cx.progress(format!("{NAME}: bare, round {round} of {rounds}"));
        add(BARE, SCENE.play(cx, computing, with_lock::<PiMutex<()>>(SCENE.served))?);
        add(CONTROL, SCENE.play(cx, computing, with_lock::<Mutex<()>>(SCENE.served))?);
    }
    for (subject, samples) in &all {
        out.row(FIGURE, subject, COMPUTED_MS, times(&samples.summary()));
    }
    for (_, _, orb, _) in clients {
        orb.shutdown(true)?;
    }
    server.shutdown(true)?;
    let (title, x) = ("The urgent call", "milliseconds that the thread in between computes");
    out.figures = vec![Figure::new(FIGURE, title, x, "milliseconds", &["p50_ns", "max_ns"]).divide(1e6)];
    out.note(format!(
        "Less urgent calls at SCHED_FIFO {LOW}, then a thread at {MIDDLE} that computes for {COMPUTED_MS} ms, \
         then the urgent call at {URGENT}; the server at {SERVER} sleeps for {SERVED_MS} ms in each. '{BARE}' \
         and '{CONTROL}' are a mutex with and without priority inheritance in the place of the connection."
    ));
    Ok(())
}

/// CORBA priorities are native ones.
struct Native;

impl PriorityMapping for Native {
    fn to_native(&self, corba: Priority) -> Option<u8> {
        u8::try_from(corba.get()).ok().filter(|native| (1..=99).contains(native))
    }

    fn to_corba(&self, native: u8) -> Option<Priority> {
        Priority::new(native.into())
    }
}

fn orb() -> Result<Orb, BenchError> {
    let orb = Orb::with_config(Config { endpoints: vec!["127.0.0.1:0".to_owned()], ..Config::default() })?;
    orb.rt().set_priority_mapping(Arc::new(Native));
    Ok(orb)
}

/// An ORB with one object that sleeps, and the object's reference. Its pool serves all calls of a
/// scene at a time.
fn server(cx: &Context<'_>) -> Result<(Orb, String), BenchError> {
    cx.on_thread(|| {
        let orb = orb()?;
        let pool = orb.rt().create_threadpool(ThreadpoolLane::new(SERVER.into(), 8), &Default::default())?;
        let policies =
            PoaPolicies::new().priority_model(PriorityModel::ServerDeclared, SERVER.into()).threadpool(pool);
        let root = orb.root_poa()?;
        let poa =
            root.create_poa("sleeps", Some(&root.manager()), policies).map_err(std::io::Error::other)?;
        let target: LayeredRef = poa.activate(Arc::new(Sleeper)).map_err(std::io::Error::other)?;
        root.manager().activate().map_err(std::io::Error::other)?;
        let reference = target.object().to_string();
        Ok::<_, BenchError>((orb, reference))
    })?
}

struct Sleeper;

impl Layered for Sleeper {
    /// Sleeps for so many milliseconds.
    fn timed<'u>(&'u self, _: Upcall<'u>, m: &mut MessageView<'u>) -> isorb::Result<Stamps> {
        std::thread::sleep(Duration::from_millis(m.work.max(0).unsigned_abs().into()));
        Ok(Stamps::default())
    }
}

fn caller(orb: &Orb, target: &LayeredRef, ms: u32) -> Call {
    let (orb, target, work) = (orb.clone(), target.clone(), i32::try_from(ms).unwrap_or(0));
    Arc::new(move |priority| {
        orb.rt_current().set_the_priority(priority.into())?;
        orb.scope(|scope| target.timed_in(scope, &mut MessageView { work, payload: &[] }).map(drop))?;
        Ok(())
    })
}

/// A value of the urgent call, in milliseconds.
fn ms(r: &dyn Cells, subject: &str, value: &str) -> f64 {
    r.at(FIGURE, subject, value, COMPUTED_MS.into()) / 1e6
}

fn claims() -> Vec<Claim> {
    let arrangement = |(subject, lows, _): Arrangement| {
        let sentence = format!(
            "{subject}: beside {lows} less urgent, the urgent call takes at most {{0:.1}} ms ({{limit}})"
        );
        paper(AtMost(MOST_MS), sentence, move |r| [ms(r, subject, "max_ns")])
            .unless_noisy(|r| differs(ms(r, BARE, "max_ns"), ms(r, BARE, "min_ns")))
    };
    let mut claims: Vec<Claim> = ARRANGEMENTS.into_iter().map(arrangement).collect();
    claims.push(control(
        AtLeast(0.8 * f64::from(COMPUTED_MS)),
        "by a futex without priority inheritance it takes at least {0:.0} ms ({limit})",
        |r| [ms(r, CONTROL, "min_ns")],
    ));
    claims
}
