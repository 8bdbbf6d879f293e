//! Calls inside a process to objects of a thread pool: its threads run them, within its limits.

mod common;

use common::rt::{Run, Witness, arc, far, lane, poa, poa_of, server, sleepers};
use common::{Echo, EchoRef};
use isorb::generated::*;
use isorb::poa::{PoaPolicies, policies::IdUniqueness};
use isorb::rt::policy::PriorityModel::{ClientPropagated, ServerDeclared};
use isorb::rt::{LocalCalls, RequestBuffering, ThreadpoolId, ThreadpoolOptions};
use isorb::{Completion, Config, Kind, Orb, Policies, SystemException};
use isorb_testkit::wait_until;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Certain to pass before the awaited event.
const SHORT: Duration = Duration::from_millis(20);
const LOW: i16 = 700;
const HIGH: i16 = 20_000;

/// A server with an object in each of two lanes of one thread, and their servant.
struct TwoLanes {
    server: Orb,
    pool: ThreadpoolId,
    witness: Arc<Witness>,
    low: EchoRef,
    high: EchoRef,
}

fn two_lanes(options: &ThreadpoolOptions) -> TwoLanes {
    let server = server();
    let lanes = [lane(LOW, 1), lane(HIGH, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, LOW);
    let poa = poa(&server, "lanes", policies.id_uniqueness(IdUniqueness::Multiple));
    let witness = arc::<Witness>();
    let of = |priority| poa.activate_with_priority(witness.clone(), priority).unwrap();
    let (low, high) = (of(LOW), of(HIGH));
    TwoLanes { server, pool, witness, low, high }
}

impl TwoLanes {
    /// Threads in the low lane, and requests that wait there.
    fn state(&self) -> (u32, usize) {
        let status = self.server.rt().threadpool_status(self.pool).unwrap().swap_remove(0);
        (self.witness.inside(), status.buffered_requests)
    }
}

fn priorities(runs: Vec<Run>) -> Vec<(Option<i16>, String)> {
    runs.into_iter().map(|run| (run.priority, run.thread)).collect()
}

fn ran(pool: ThreadpoolId, priority: i16) -> (Option<i16>, String) {
    (Some(priority), format!("pool{pool}-{priority}"))
}

fn finish(calls: Vec<JoinHandle<Result<u32, SystemException>>>) {
    calls.into_iter().for_each(|call| _ = call.join().unwrap().unwrap());
}

#[test]
fn a_lane_of_one_thread_serialises_local_and_remote_callers() {
    let it = two_lanes(&ThreadpoolOptions::default());
    let remote = far(&Orb::with_config(Config::default()).unwrap(), &it.low);
    let callers = [it.low.clone(), it.low.clone(), remote, it.low.clone()];
    let calls = sleepers(&callers);
    let mut begun = 0;
    for number in 1..=4 {
        wait_until("the next one runs", || {
            begun += it.witness.take().len();
            begun >= number
        });
        // The other lane is free meanwhile.
        it.high.ping().unwrap();
        assert_eq!(priorities(it.witness.take()), [ran(it.pool, HIGH)], "and no other one runs");
        assert!(it.witness.inside() <= 1);
        it.witness.open(1);
    }
    finish(calls);
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_pool_may_leave_calls_to_their_callers() {
    let it = two_lanes(&ThreadpoolOptions { local_calls: Some(LocalCalls::Caller), ..Default::default() });
    let calls = sleepers(&[it.low.clone(), it.low.clone(), it.low.clone()]);
    it.witness.await_inside(3);
    it.witness.open(3);
    finish(calls);
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_call_to_the_own_lane_is_nested_and_one_to_another_lane_is_not() {
    let it = two_lanes(&ThreadpoolOptions::default());
    assert_eq!(it.low.call_back(Some(&it.low)).unwrap(), "called");
    assert_eq!(priorities(it.witness.take()), [ran(it.pool, LOW), ran(it.pool, LOW)]);
    assert_eq!(it.low.call_back(Some(&it.high)).unwrap(), "called");
    assert_eq!(priorities(it.witness.take()), [ran(it.pool, LOW), ran(it.pool, HIGH)]);
    // A thread of another pool is outside.
    let other = it.server.rt().create_threadpool(lane(5, 1), &ThreadpoolOptions::default()).unwrap();
    let caller: EchoRef = poa_of(&it.server, "other", other).activate(it.witness.clone()).unwrap();
    assert_eq!(caller.call_back(Some(&it.high)).unwrap(), "called");
    assert_eq!(priorities(it.witness.take()), [ran(other, 5), ran(it.pool, HIGH)]);
    it.server.shutdown(true).unwrap();
}

/// Calls another object when it is called.
#[derive(Default)]
struct Relay(OnceLock<EchoRef>);

impl Echo for Relay {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        self.0.get().unwrap().ping()
    }
}

/// The only thread of the low lane waits for the high one, which calls the low one again.
#[test]
fn a_call_that_comes_back_to_a_waiting_lane_is_nested_there() {
    let it = two_lanes(&ThreadpoolOptions::default());
    let poa = it.server.root_poa().unwrap().find_poa("lanes", false).unwrap();
    let relay = arc::<Relay>();
    let through: EchoRef = poa.activate_with_priority(relay.clone(), HIGH).unwrap();
    relay.0.set(it.low.clone()).unwrap();
    for _ in 0..3 {
        assert_eq!(it.low.call_back(Some(&through)).unwrap(), "called");
        assert_eq!(priorities(it.witness.take()), [ran(it.pool, LOW), ran(it.pool, LOW)]);
    }
    it.server.shutdown(true).unwrap();
}

/// Feeds an object, and returns before the object's lane has a thread for it.
#[derive(Default)]
struct Feeder(OnceLock<EchoRef>);

impl Echo for Feeder {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        (0..FEEDS).try_for_each(|_| self.0.get().unwrap().feed(&[1]))
    }
}

const FEEDS: usize = 5;

/// Nothing tells the caller of a oneway operation that its request was dropped, so a thread that
/// is about to end its own call does not take it.
#[test]
fn oneway_calls_to_a_waiting_lane_all_arrive() {
    let it = two_lanes(&ThreadpoolOptions::default());
    let poa = it.server.root_poa().unwrap().find_poa("lanes", false).unwrap();
    let feeder = arc::<Feeder>();
    let through: EchoRef = poa.activate_with_priority(feeder.clone(), HIGH).unwrap();
    feeder.0.set(it.low.clone()).unwrap();
    for _ in 0..50 {
        assert_eq!(it.low.call_back(Some(&through)).unwrap(), "called");
        let mut runs = 0;
        wait_until("all requests run", || {
            runs += it.witness.take().len();
            runs == 1 + FEEDS
        });
    }
    it.server.shutdown(true).unwrap();
}

#[test]
fn the_priority_of_the_caller_chooses_the_lane() {
    let server = server();
    let lanes = [lane(LOW, 1), lane(HIGH, 1)];
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ClientPropagated, LOW);
    let witness = arc::<Witness>();
    let object: EchoRef = poa(&server, "propagated", policies).activate(witness.clone()).unwrap();
    let current = server.rt_current();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            object.ping().unwrap();
            for priority in [LOW, 1_000, HIGH, 30_000] {
                current.set_the_priority(priority).unwrap();
                object.ping().unwrap();
                assert_eq!(current.the_priority().unwrap().get(), priority);
            }
        });
    });
    let on = |priority, lane| (Some(priority), format!("pool{pool}-{lane}"));
    let expected = [on(LOW, LOW), on(LOW, LOW), on(1_000, LOW), on(HIGH, HIGH), on(30_000, HIGH)];
    assert_eq!(priorities(witness.take()), expected);
    server.shutdown(true).unwrap();
}

#[test]
fn a_pool_without_lanes_runs_the_most_urgent_call_first() {
    let server = server();
    let pool = server.rt().create_threadpool(lane(5, 1), &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ClientPropagated, 5);
    let witness = arc::<Witness>();
    let object: EchoRef = poa(&server, "pool", policies).activate(witness.clone()).unwrap();
    let first = sleepers(std::slice::from_ref(&object));
    witness.await_inside(1);
    witness.take();
    let mut calls = Vec::new();
    for priority in [LOW, 3, HIGH] {
        let (object, current) = (object.clone(), server.rt_current());
        calls.push(std::thread::spawn(move || {
            current.set_the_priority(priority).unwrap();
            object.ping().unwrap();
        }));
    }
    // No state of the lane shows that all of them wait.
    std::thread::sleep(5 * SHORT);
    witness.open(1);
    calls.into_iter().for_each(|call| call.join().unwrap());
    let on = |priority| (Some(priority), format!("pool{pool}-5"));
    assert_eq!(priorities(witness.take()), [on(HIGH), on(LOW), on(3)]);
    finish(first);
    server.shutdown(true).unwrap();
}

#[test]
fn the_limits_of_the_request_buffer_hold() {
    let buffering = RequestBuffering { max_buffered_requests: 2, max_request_buffer_size: 0 };
    let it = two_lanes(&ThreadpoolOptions { buffering: Some(buffering), ..Default::default() });
    let calls = sleepers(&[it.low.clone(), it.low.clone(), it.low.clone()]);
    wait_until("one runs, two wait", || it.state() == (1, 2));
    for _ in 0..3 {
        let full = it.low.ping().unwrap_err();
        assert_eq!((full.kind, full.completed), (Kind::Transient, Completion::No));
    }
    it.high.ping().unwrap();
    it.witness.open(3);
    finish(calls);
    it.low.ping().unwrap();
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_call_waits_no_longer_than_its_time_out_and_does_not_run_later() {
    let it = two_lanes(&ThreadpoolOptions::default());
    let policies = Policies { round_trip_timeout: Some(SHORT), ..Policies::default() };
    let (quick, first) = (it.low.with_policies(policies), sleepers(std::slice::from_ref(&it.low)));
    it.witness.await_inside(1);
    it.witness.take();
    for _ in 0..3 {
        let error = quick.ping().unwrap_err();
        assert_eq!((error.kind, error.completed), (Kind::Timeout, Completion::No), "{error}");
    }
    it.witness.open(1);
    finish(first);
    it.low.text("last").unwrap();
    assert_eq!(it.witness.take().len(), 1, "the abandoned calls did not run");
    // One that runs already may complete.
    let error = quick.sleep(1).unwrap_err();
    assert_eq!((error.kind, error.completed), (Kind::Timeout, Completion::Maybe), "{error}");
    it.witness.open(1);
    assert_eq!(it.low.text("again").unwrap(), "again");
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_oneway_call_does_not_wait_for_the_lane() {
    let it = two_lanes(&ThreadpoolOptions::default());
    let first = sleepers(std::slice::from_ref(&it.low));
    it.witness.await_inside(1);
    it.witness.take();
    for _ in 0..5 {
        it.low.feed(b"later").unwrap();
    }
    assert!(it.witness.take().is_empty());
    it.witness.open(1);
    finish(first);
    it.low.ping().unwrap();
    assert_eq!(priorities(it.witness.take()), vec![ran(it.pool, LOW); 6]);
    it.server.shutdown(true).unwrap();
}

#[test]
fn exceptions_and_panics_arrive_and_the_lane_goes_on() {
    let it = two_lanes(&ThreadpoolOptions::default());
    for _ in 0..3 {
        assert_eq!(it.low.fail(3).unwrap_err().kind, Kind::Unknown, "the servant panicked");
        it.low.ping().unwrap();
    }
    let long = "x".repeat(300 << 10);
    let error = it.low.text(&long).unwrap_err();
    assert_eq!(error.kind, Kind::ImpLimit, "{error}");
    assert_eq!(it.low.text(&long[..200 << 10]).unwrap().len(), 200 << 10);
    it.server.shutdown(true).unwrap();
}

#[test]
fn callers_that_wait_end_with_the_server() {
    let it = two_lanes(&ThreadpoolOptions::default());
    let first = sleepers(std::slice::from_ref(&it.low));
    it.witness.await_inside(1);
    let waiting = sleepers(&[it.low.clone(), it.low.clone()]);
    std::thread::sleep(5 * SHORT);
    it.server.shutdown(false).unwrap();
    it.witness.open(3);
    for call in waiting {
        let error = call.join().unwrap().unwrap_err();
        let expected = [Kind::Transient, Kind::BadInvOrder, Kind::ObjectNotExist];
        assert!(expected.contains(&error.kind), "{error}");
    }
    finish(first);
}
