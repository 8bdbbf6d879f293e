//! Servants that reply after their upcall: over connections, inside the process, through a lane;
//! the limits, and everything that can be gone by then.

use isorb::interceptor::{ReplyStatus, ServerRequestInfo, ServerRequestInterceptor};
use isorb::poa::PoaPolicies;
use isorb::rt::{ThreadpoolLane, ThreadpoolOptions};
use isorb::{Completion, Config, Deferred, Kind, Orb, Policies, Reference as _, Result, Upcall, minor};
use isorb_testkit::wait_until;
use isorb_tests::everyday::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Later(Arc<Mutex<Vec<Deferred>>>);

impl Later {
    fn keep(&self, cx: Upcall<'_>) -> Result<()> {
        let later = cx.defer()?;
        self.0.lock().unwrap().push(later);
        Ok(())
    }
}

impl Radar for Later {
    fn best<'u>(&'u self, cx: Upcall<'u>) -> Result<TrackView<'u>> {
        self.keep(cx)?;
        assert_eq!(cx.defer().unwrap_err().kind, Kind::BadInvOrder);
        Err(Deferred::LATER)
    }
    fn all<'u>(&'u self, _: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        Err(Deferred::LATER)
    }
    fn draw<'u>(&'u self, cx: Upcall<'u>) -> Result<PictureView<'u>> {
        drop(cx.defer()?);
        Err(Deferred::LATER)
    }
    fn paint(&self, cx: Upcall<'_>, _: &[TrackView<'_>]) -> Result<i32> {
        self.keep(cx)?;
        panic!("after it was deferred");
    }
    fn long_text<'u>(&'u self, cx: Upcall<'u>, _: u32) -> Result<&'u str> {
        self.keep(cx)?;
        // Not sent, since the reply is deferred.
        Ok("at once")
    }
    fn slow<'u>(
        &'u self,
        cx: Upcall<'u>,
        _: u32,
        _: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        self.keep(cx)?;
        Err(Deferred::LATER.into())
    }
    fn wait_ms(&self, cx: Upcall<'_>, _: u32) -> Result<u32> {
        self.keep(cx)?;
        Err(Deferred::LATER)
    }
    fn notify(&self, _: Upcall<'_>, _: Option<&ListenerRef>) -> Result<()> {
        Ok(())
    }
}

struct Fixture {
    server: Orb,
    /// Held for its connections.
    client: Orb,
    near: RadarRef,
    radar: RadarRef,
    kept: Arc<Mutex<Vec<Deferred>>>,
}

impl Fixture {
    fn new(config: Config) -> Fixture {
        Fixture::of(Orb::with_config(config).unwrap())
    }

    fn of(server: Orb) -> Fixture {
        let client = Orb::with_config(Config { connections_per_server: 1, ..Config::default() }).unwrap();
        let later = Later::default();
        let kept = later.0.clone();
        let near: RadarRef = server.root_poa().unwrap().activate(Arc::new(later)).unwrap();
        server.root_poa().unwrap().manager().activate().unwrap();
        let radar = client.resolve(&near.to_string()).unwrap();
        Fixture { server, client, near, radar, kept }
    }

    /// The oldest deferred reply, once there is one.
    fn next(&self) -> Deferred {
        self.wait(1);
        self.kept.lock().unwrap().remove(0)
    }

    fn wait(&self, count: usize) {
        wait_until("deferred replies", || self.kept.lock().unwrap().len() >= count);
    }
}

#[test]
fn replies_come_from_another_thread() {
    let it = Fixture::new(Config::default());
    std::thread::scope(|threads| {
        let best = threads.spawn(|| it.radar.best());
        let next = it.next();
        assert!(next.is_awaited() && next.priority().is_none());
        radar::reply_best(next, Ok(TrackView { name: "later", speed: 3 })).unwrap();
        assert_eq!(best.join().unwrap().unwrap(), Track { name: "later".into(), speed: 3 });

        // The connection serves other requests meanwhile, and in any order.
        let (one, two) = (it.radar.slow_begin(0, "text").unwrap(), it.radar.slow_begin(0, "").unwrap());
        it.wait(2);
        let (first, second) = (it.next(), it.next());
        let refused = radar::SlowError::Refused(Refused { why: "empty".into() });
        radar::reply_slow(second, Err(&refused)).unwrap();
        assert_eq!(two.wait().unwrap_err(), refused);
        let long = "x".repeat(100_000);
        radar::reply_slow(first, Ok(("result", &long, 7))).unwrap();
        assert_eq!(one.wait().unwrap(), ("result".into(), long, 7));

        let paint = it.radar.paint_begin(&[Track::default()]).unwrap();
        it.next().raise(&Kind::NoPermission.into()).unwrap();
        assert_eq!(paint.wait().unwrap_err().kind, Kind::NoPermission);

        let text = it.radar.long_text_begin(1).unwrap();
        radar::reply_long_text(it.next(), Ok("later")).unwrap();
        assert_eq!(text.wait().unwrap(), "later");
    });
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_reply_that_is_dropped_or_never_deferred_is_no_response() {
    let it = Fixture::new(Config::default());
    for radar in [&it.radar, &it.near] {
        for exception in [radar.draw().unwrap_err(), radar.all().unwrap_err()] {
            assert_eq!(exception.kind, Kind::NoResponse);
            assert_eq!(exception.minor, minor::NO_RESPONSE_DEFERRED);
            assert_eq!(exception.completed, Completion::Maybe);
        }
    }
    it.server.shutdown(true).unwrap();
}

#[test]
fn results_that_exceed_a_message_are_an_error_for_both() {
    let it = Fixture::new(Config { message_limit: 4096, ..Config::default() });
    let best = it.radar.best_begin().unwrap();
    let long = "x".repeat(5000);
    let refused = radar::reply_best(it.next(), Ok(TrackView { name: &long, speed: 3 })).unwrap_err();
    assert_eq!(best.wait().unwrap_err().kind, refused.kind);
    it.server.shutdown(true).unwrap();
}

#[test]
fn as_many_replies_are_deferred_as_the_settings_say() {
    let refused = |radar: &RadarRef, setting: &str| {
        let exception = radar.wait_ms(0).unwrap_err();
        assert_eq!((exception.kind, exception.minor), (Kind::ImpLimit, minor::IMP_LIMIT_DEFERRED));
        assert!(exception.detail.as_ref().unwrap().contains(setting), "{exception:?}");
    };
    for (config, setting) in [
        (
            Config { deferred_replies_per_connection: 2, ..Config::default() },
            "deferred_replies_per_connection",
        ),
        (Config { deferred_replies_per_poa: 2, ..Config::default() }, "deferred_replies_per_poa"),
    ] {
        let it = Fixture::new(config);
        for _ in 0..3 {
            let calls = [it.radar.wait_ms_begin(0).unwrap(), it.radar.wait_ms_begin(0).unwrap()];
            it.wait(2);
            refused(&it.radar, setting);
            for n in 0..2 {
                radar::reply_wait_ms(it.next(), Ok(n)).unwrap();
            }
            assert_eq!(calls.map(|call| call.wait().unwrap()), [0, 1]);
        }
        it.server.shutdown(true).unwrap();
    }
}

#[test]
fn a_client_that_is_gone_is_an_error_for_the_servant() {
    let it = Fixture::new(Config { deferred_replies_per_connection: 1, ..Config::default() });
    let call = it.radar.wait_ms_begin(0).unwrap();
    let kept = it.next();
    it.client.shutdown(false).unwrap();
    drop(call);
    wait_until("the connection's end", || !kept.is_awaited());
    assert_eq!(radar::reply_wait_ms(kept, Ok(1)).unwrap_err().kind, Kind::CommFailure);
    wait_until("the connection is forgotten", || it.server.connection_counts().open == 0);
    it.server.shutdown(true).unwrap();
}

#[test]
fn calls_inside_the_process_wait_for_the_reply() {
    let it = Fixture::new(Config::default());
    std::thread::scope(|threads| {
        for n in 0..3 {
            let call = threads.spawn(|| it.near.wait_ms(0));
            radar::reply_wait_ms(it.next(), Ok(n)).unwrap();
            assert_eq!(call.join().unwrap(), Ok(n));
        }
    });
    let hasty = Policies { round_trip_timeout: Some(Duration::from_millis(30)), ..Policies::default() };
    let hasty = RadarRef::from_object(it.near.object().with_policies(hasty));
    assert_eq!(hasty.wait_ms(0).unwrap_err().kind, Kind::Timeout);
    let late = it.next();
    assert!(!late.is_awaited());
    assert_eq!(radar::reply_wait_ms(late, Ok(1)).unwrap_err().kind, Kind::Timeout);
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_lane_is_free_while_its_reply_is_deferred() {
    let it = Fixture::new(Config::default());
    let root = it.server.root_poa().unwrap();
    let options = ThreadpoolOptions::default();
    let pool = it.server.rt().create_threadpool(ThreadpoolLane::new(5, 1), &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool);
    let poa = root.create_poa("pool", Some(&root.manager()), policies).unwrap();
    let later = Later(it.kept.clone());
    let near: RadarRef = poa.activate(Arc::new(later)).unwrap();
    let far: RadarRef = it.client.resolve(&near.to_string()).unwrap();
    std::thread::scope(|threads| {
        for radar in [&near, &far] {
            let calls: Vec<_> = (0..3).map(|_| threads.spawn(|| radar.wait_ms(0))).collect();
            // One thread has served them all.
            it.wait(3);
            for n in 0..3 {
                radar::reply_wait_ms(it.next(), Ok(n)).unwrap();
            }
            let mut results: Vec<_> = calls.into_iter().map(|call| call.join().unwrap().unwrap()).collect();
            results.sort();
            assert_eq!(results, [0, 1, 2]);
        }
        let dropped = threads.spawn(|| near.wait_ms(0));
        drop(it.next());
        assert_eq!(dropped.join().unwrap().unwrap_err().kind, Kind::NoResponse);
    });
    it.server.shutdown(true).unwrap();
}

#[test]
fn a_poa_is_destroyed_before_its_deferred_replies() {
    let it = Fixture::new(Config::default());
    let root = it.server.root_poa().unwrap();
    let poa = root.create_poa("short", Some(&root.manager()), PoaPolicies::new()).unwrap();
    let near: RadarRef = poa.activate(Arc::new(Later(it.kept.clone()))).unwrap();
    let far: RadarRef = it.client.resolve(&near.to_string()).unwrap();
    let call = far.wait_ms_begin(0).unwrap();
    let kept = it.next();
    poa.destroy(true, true).unwrap();
    radar::reply_wait_ms(kept, Ok(4)).unwrap();
    assert_eq!(call.wait(), Ok(4));

    // The ORB ends: the connection closes behind the reply.
    let call = it.radar.wait_ms_begin(0).unwrap();
    let kept = it.next();
    it.server.shutdown(true).unwrap();
    radar::reply_wait_ms(kept, Ok(5)).unwrap();
    assert_eq!(call.wait(), Ok(5));
}

struct Ends(Arc<Mutex<Vec<(String, ReplyStatus)>>>);

impl ServerRequestInterceptor for Ends {
    fn send_other(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), isorb::interceptor::Raised> {
        self.0.lock().unwrap().push((info.operation().to_owned(), info.reply_status()?));
        Ok(())
    }
}

#[test]
fn interceptors_see_that_the_reply_comes_later() {
    let ends = Arc::<Mutex<Vec<_>>>::default();
    let interceptor = Arc::new(Ends(ends.clone()));
    let server = Orb::builder()
        .register(|info| Ok(info.add_server_request_interceptor(interceptor.clone())?))
        .build()
        .unwrap();
    let it = Fixture::of(server);
    let call = it.radar.wait_ms_begin(0).unwrap();
    radar::reply_wait_ms(it.next(), Ok(6)).unwrap();
    assert_eq!(call.wait(), Ok(6));
    wait_until("the ending point", || !ends.lock().unwrap().is_empty());
    assert_eq!(*ends.lock().unwrap(), [("wait_ms".to_owned(), ReplyStatus::Unknown)]);
    it.server.shutdown(true).unwrap();
}
