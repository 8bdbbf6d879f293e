//! Lanes with reserved processor time (`SCHED_DEADLINE`). Without the right to reserve, a lane runs
//! without reservation, and logs it.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, far, poa, server_with};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{LaneStatus, RealTime, Reservation, SchedClass, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Result};
use isorb_rt::sched::ThreadSpec;
use std::sync::Mutex;
use std::time::Duration;

/// Reservations belong to the machine: one test at a time.
static MACHINE: Mutex<()> = Mutex::new(());

const MS: Duration = Duration::from_millis(1);

/// One thread with a twentieth of a processor.
fn modest() -> ThreadpoolLane {
    ThreadpoolLane::new(300, 1).reservation(MS, 20 * MS, 20 * MS)
}

/// More than any machine has.
fn greedy() -> ThreadpoolLane {
    ThreadpoolLane::new(300, 100).reservation(19 * MS, 20 * MS, 20 * MS)
}

fn class() -> SchedClass {
    let ns = |time: Duration| time.as_nanos() as u64;
    SchedClass::Reserved(Reservation { runtime_ns: ns(MS), deadline_ns: ns(20 * MS), period_ns: ns(20 * MS) })
}

/// Whether this process may reserve; prints a message if not.
fn may_reserve() -> bool {
    let may = ThreadSpec::new("probe").class(class()).spawn(|| ());
    match may {
        Ok(thread) => {
            thread.join().unwrap();
            true
        }
        Err(refused) => {
            println!("SKIPPED: no reservations here: {refused}");
            false
        }
    }
}

/// Whether the kernel counts admitted reservations.
fn is_limited() -> bool {
    let limit = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    let limited = limit.trim().parse::<i64>().is_ok_and(|us| us >= 0);
    if !limited {
        println!("SKIPPED: sched_rt_runtime_us is {}, so everything is admitted", limit.trim());
    }
    limited
}

fn orb(mode: RealTime) -> Orb {
    let mut config = Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() };
    config.real_time.mode = mode;
    server_with(config)
}

fn pool(orb: &Orb, lane: ThreadpoolLane) -> Result<(u32, LaneStatus)> {
    let pool = orb.rt().create_threadpool_with_lanes(&[lane], &ThreadpoolOptions::default())?;
    Ok((pool, orb.rt().threadpool_status(pool).unwrap().remove(0)))
}

/// A call to an object of the pool, and the class of its thread.
fn run(server: &Orb, pool: u32) -> SchedClass {
    let witness = arc::<Witness>();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 300);
    let object: EchoRef = poa(server, "reserved", policies).activate(witness.clone()).unwrap();
    far(&Orb::with_config(Config::default()).unwrap(), &object).ping().unwrap();
    let run = witness.take().remove(0);
    assert_eq!(run.priority, Some(300));
    run.class
}

#[test]
fn a_lane_runs_in_its_reservation() {
    let _machine = MACHINE.lock().unwrap();
    if !may_reserve() {
        return;
    }
    let server = orb(RealTime::Require);
    let (pool, status) = pool(&server, modest()).unwrap();
    assert_eq!(status.class, class());
    assert_eq!(run(&server, pool), class());
    server.shutdown(true).unwrap();
}

#[test]
fn what_the_kernel_does_not_admit_is_an_error_where_it_is_required() {
    let _machine = MACHINE.lock().unwrap();
    if !may_reserve() || !is_limited() {
        return;
    }
    let server = orb(RealTime::Require);
    let refused = pool(&server, greedy()).unwrap_err();
    assert_eq!(refused.kind, Kind::NoResources);
    let sentence = refused.to_string();
    for part in ["lane 300", "SCHED_DEADLINE 19000000 ns", "beside the others", "sched_rt_runtime_us"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    // Nothing is left of it: a small reservation still fits.
    assert_eq!(pool(&server, modest()).unwrap().1.class, class());
    server.shutdown(true).unwrap();
}

#[test]
fn where_it_is_preferred_the_lane_runs_at_its_priority() {
    let _machine = MACHINE.lock().unwrap();
    if !may_reserve() || !is_limited() {
        return;
    }
    let server = orb(RealTime::Prefer);
    let (pool, status) = pool(&server, greedy()).unwrap();
    assert!(matches!(status.class, SchedClass::Fifo(_)), "{:?}", status.class);
    assert_eq!(run(&server, pool), status.class);
    server.shutdown(true).unwrap();
}

#[test]
fn without_real_time_nothing_is_reserved() {
    let _machine = MACHINE.lock().unwrap();
    let server = orb(RealTime::Off);
    let (pool, status) = pool(&server, modest()).unwrap();
    assert_eq!((status.class, run(&server, pool)), (SchedClass::Other, SchedClass::Other));
    server.shutdown(true).unwrap();
}
