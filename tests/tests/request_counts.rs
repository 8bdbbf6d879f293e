//! Requests are counted by operation and by lane, with their times, where the configuration asks
//! for it.

use isorb::poa::PoaPolicies;
use isorb::rt::{PiMutex, RealTime, RealTimeConfig, RequestBuffering, ThreadpoolLane, ThreadpoolOptions};
use isorb::{
    Concurrency, Config, Guard, Interface, Kind, OperationRequests, Orb, Reference, RequestCounts, Result,
    Upcall,
};
use isorb_testkit::wait_until;
use isorb_tests::everyday::*;
use isorb_tests::serve_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

struct Display;

impl Radar for Display {
    fn best(&self, _: Upcall<'_>) -> Result<TrackView<'_>> {
        Ok(TrackView { name: "one", speed: 1 })
    }
    fn all(&self, _: Upcall<'_>) -> Result<&[TrackView<'_>]> {
        Ok(&[])
    }
    fn draw(&self, _: Upcall<'_>) -> Result<PictureView<'_>> {
        panic!("as servants do")
    }
    fn paint(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<i32> {
        Ok(seen.len() as i32)
    }
    fn long_text<'u>(&'u self, _: Upcall<'u>, _: u32) -> Result<&'u str> {
        Err(Kind::NoImplement.into())
    }
    fn slow<'u>(
        &'u self,
        _: Upcall<'u>,
        _: u32,
        _: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        Err(Refused { why: "always".into() }.into())
    }
    fn wait_ms(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        Ok(ms)
    }
    fn notify(&self, _: Upcall<'_>, _: Option<&ListenerRef>) -> Result<()> {
        Ok(())
    }
}

/// Denies `wait_ms`.
struct NoWaiting;

impl Guard for NoWaiting {
    fn admit(&self, _: &'static Interface, _: u16, cx: Upcall<'_>) -> Result<()> {
        if cx.operation() == "wait_ms" { Err(Kind::NoPermission.into()) } else { Ok(()) }
    }
}

/// Results, user exceptions, system exceptions, refused ones, times.
fn numbers(counts: &RequestCounts) -> [u64; 5] {
    [counts.results, counts.user_exceptions, counts.system_exceptions, counts.refused, counts.times.count()]
}

fn named(all: &[OperationRequests], name: &str) -> Option<[u64; 5]> {
    let is_it = |of: &&OperationRequests| of.operation == Some(("IDL:Everyday/Radar:1.0", name));
    all.iter().find(is_it).map(|of| numbers(&of.counts))
}

#[test]
fn each_operation_has_its_counts() {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let config = Config { request_statistics: 100, concurrency, ..Config::default() };
        let guard: Arc<dyn Guard> = Arc::new(NoWaiting);
        let server = Orb::builder().config(config).guard(guard).build().unwrap();
        let root = server.root_poa().unwrap();
        root.manager().activate().unwrap();
        let near: RadarRef = root.activate(Arc::new(Display)).unwrap();
        let gone: RadarRef = root.activate(Arc::new(Display)).unwrap();
        let client = Orb::with_config(Config { endpoints: Vec::new(), ..Config::default() }).unwrap();
        let [radar, lost]: [RadarRef; 2] =
            [&near, &gone].map(|near| client.resolve(&near.object().to_string()).unwrap());
        for _ in 0..3 {
            radar.best().unwrap();
        }
        assert!(matches!(radar.slow(0, &mut String::new()), Err(radar::SlowError::Refused(_))));
        assert_eq!(radar.wait_ms(1).unwrap_err().kind, Kind::NoPermission);
        assert_eq!(radar.draw().unwrap_err().kind, Kind::Unknown);
        assert_eq!(radar.long_text(1).unwrap_err().kind, Kind::NoImplement);
        lost.best().unwrap();
        root.deactivate_object(root.reference_to_id(gone.object()).unwrap()).unwrap();
        assert_eq!(lost.best().unwrap_err().kind, Kind::ObjectNotExist);
        let all = server.requests_by_operation();
        assert_eq!(named(&all, "best"), Some([4, 0, 0, 0, 4]), "{all:?}");
        assert_eq!(named(&all, "slow"), Some([0, 1, 0, 0, 1]));
        assert_eq!(named(&all, "wait_ms"), Some([0, 0, 1, 1, 1]), "the guard refused it");
        assert_eq!(named(&all, "draw"), Some([0, 0, 1, 0, 1]), "the servant panicked");
        assert_eq!(named(&all, "long_text"), Some([0, 0, 1, 0, 1]));
        assert_eq!(named(&all, "paint"), None, "it was not called");
        // The object that is gone has no interface.
        let others = all.last().unwrap();
        assert_eq!((others.operation, others.counts.refused), (None, 1));
        assert!(all.iter().all(|of| of.counts.time_ns > 0));
        let [lane] = server.requests_by_lane()[..] else { panic!("one lane") };
        assert_eq!((lane.lane, numbers(&lane.counts)), (Some((0, None)), [4, 1, 4, 2, 9]));
        // A second display has the same interface: its calls are added.
        let second: RadarRef = root.activate(Arc::new(Display)).unwrap();
        let second: RadarRef = client.resolve(&second.object().to_string()).unwrap();
        second.best().unwrap();
        assert_eq!(named(&server.requests_by_operation(), "best"), Some([5, 0, 0, 0, 5]));
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_full_table_counts_the_rest_together_and_none_is_there_by_default() {
    for (request_statistics, rows) in [(0, 0), (1, 2), (2, 2)] {
        let (server, client, path) = serve_with(Config { request_statistics, ..Config::default() }, false);
        path.ping().unwrap();
        path.fed().unwrap();
        path.fed().unwrap();
        let all = server.requests_by_operation();
        assert_eq!(all.len(), rows, "{all:?}");
        let sum: u64 = all.iter().map(|of| of.counts.results).sum();
        assert_eq!(sum, if rows == 0 { 0 } else { 3 });
        assert_eq!(all.iter().any(|of| of.operation.is_none()), request_statistics == 1);
        assert_eq!(server.requests_by_lane().is_empty(), rows == 0);
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

/// Holds its callers until it is opened.
#[derive(Default)]
struct Barrier {
    inside: AtomicU32,
    open: AtomicBool,
    seen: PiMutex<u32>,
}

impl Listener for Barrier {
    fn noticed(&self, _: Upcall<'_>, _: &str) -> Result<()> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        wait_until("it is open", || self.open.load(Ordering::SeqCst));
        *self.seen.lock() += 1;
        Ok(())
    }
}

#[test]
fn each_lane_has_its_counts_and_those_that_its_limit_refused() {
    // Needs no rights.
    let real_time = RealTimeConfig { mode: RealTime::Off, ..RealTimeConfig::default() };
    let config = Config { request_statistics: 10, real_time, ..Config::default() };
    let server = Orb::with_config(config.clone()).unwrap();
    let client = Orb::with_config(Config { endpoints: Vec::new(), ..config }).unwrap();
    let buffering = RequestBuffering { max_buffered_requests: 1, max_request_buffer_size: 0 };
    let options = ThreadpoolOptions { buffering: Some(buffering), ..ThreadpoolOptions::default() };
    let lanes = [10, 20].map(|priority| ThreadpoolLane::new(priority, 1));
    let pool = server.rt().create_threadpool_with_lanes(&lanes, &options).unwrap();
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let policies = |priority| {
        let model = isorb::rt::policy::PriorityModel::ServerDeclared;
        PoaPolicies::new().threadpool(pool).priority_model(model, priority)
    };
    let barrier = Arc::new(Barrier::default());
    let far = [10, 20].map(|priority| {
        let poa = root.create_poa(&priority.to_string(), Some(&root.manager()), policies(priority)).unwrap();
        let near: ListenerRef = poa.activate(barrier.clone()).unwrap();
        let far: ListenerRef = client.resolve(&near.object().to_string()).unwrap();
        far
    });
    std::thread::scope(|threads| {
        let first = threads.spawn(|| far[1].noticed("first"));
        wait_until("it runs", || barrier.inside.load(Ordering::SeqCst) == 1);
        // One of them is buffered.
        let more: Vec<_> = (0..3).map(|_| threads.spawn(|| far[1].noticed("more"))).collect();
        wait_until("two are refused", || more.iter().filter(|call| call.is_finished()).count() == 2);
        barrier.open.store(true, Ordering::SeqCst);
        assert_eq!(first.join().unwrap(), Ok(()));
        let ended: Vec<_> = more.into_iter().map(|call| call.join().unwrap()).collect();
        let refused = ended.iter().filter_map(|ended| ended.as_ref().err());
        assert_eq!(refused.map(|error| error.kind).collect::<Vec<_>>(), [Kind::Transient; 2]);
    });
    far[0].noticed("low").unwrap();
    let lanes = server.requests_by_lane();
    let of = |priority: i16| {
        let lane = lanes.iter().find(|lane| {
            lane.lane.is_some_and(|(at, own)| at == pool && own.is_some_and(|own| own.get() == priority))
        });
        numbers(&lane.unwrap_or_else(|| panic!("{priority}: {lanes:?}")).counts)
    };
    assert_eq!((of(20), of(10)), ([2, 0, 2, 2, 2], [1, 0, 0, 0, 1]), "{lanes:?}");
    assert_eq!(*barrier.seen.lock(), 3);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
