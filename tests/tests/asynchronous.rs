//! Calls that are begun and waited for later: by threads, by several at once, by futures of tokio
//! and smol; and calls that wait for a slot.

use isorb::rt::ClientLaneOptions;
use isorb::{Config, Kind, Orb, Policies, Reference as _, Result, Upcall, wait_any};
use isorb_testkit::wait_until;
use isorb_tests::everyday::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Slow;

/// How many waits of 201 ms servants have begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);

impl Radar for Slow {
    fn best<'u>(&'u self, _: Upcall<'u>) -> Result<TrackView<'u>> {
        Ok(TrackView { name: "best", speed: 7 })
    }
    fn all<'u>(&'u self, _: Upcall<'u>) -> Result<&'u [TrackView<'u>]> {
        Ok(&[])
    }
    fn draw<'u>(&'u self, _: Upcall<'u>) -> Result<PictureView<'u>> {
        Err(Kind::NoImplement.into())
    }
    fn paint(&self, _: Upcall<'_>, seen: &[TrackView<'_>]) -> Result<i32> {
        Ok(seen.len() as i32)
    }
    fn long_text<'u>(&'u self, cx: Upcall<'u>, octets: u32) -> Result<&'u str> {
        cx.str(&"x".repeat(octets as usize))
    }
    fn slow<'u>(
        &'u self,
        cx: Upcall<'u>,
        ms: u32,
        text: &mut &'u str,
    ) -> Result<(&'u str, i32), radar::SlowError> {
        std::thread::sleep(Duration::from_millis(ms.into()));
        if text.is_empty() {
            return Err(Refused { why: "empty".into() }.into());
        }
        let old = std::mem::replace(text, cx.format(format_args!("{text}!"))?);
        Ok((old, old.len() as i32))
    }
    fn wait_ms(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        BEGUN.fetch_add(u32::from(ms == 201), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(ms.into()));
        Ok(ms)
    }
    fn notify(&self, _: Upcall<'_>, who: Option<&ListenerRef>) -> Result<()> {
        who.ok_or(Kind::BadParam)?.noticed("you")
    }
}

fn pair(config: Config) -> (Orb, Orb, RadarRef) {
    let server = Orb::with_config(Config::default()).unwrap();
    let client = Orb::with_config(config).unwrap();
    let near: RadarRef = server.root_poa().unwrap().activate(Arc::new(Slow)).unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    let far = client.resolve(&near.to_string()).unwrap();
    (server, client, far)
}

fn one_connection() -> Config {
    Config { connections_per_server: 1, ..Config::default() }
}

#[test]
fn a_call_is_begun_and_waited_for() {
    let (server, _client, radar) = pair(Config::default());
    let pending = radar.best_begin().unwrap();
    assert_eq!(pending.wait().unwrap(), Track { name: "best".into(), speed: 7 });
    let pending = radar.slow_begin(0, "text").unwrap();
    assert_eq!(pending.wait().unwrap(), ("text".into(), "text!".into(), 4));
    let refused = radar.slow_begin(0, "").unwrap().wait().unwrap_err();
    assert_eq!(refused, radar::SlowError::Refused(Refused { why: "empty".into() }));
    assert_eq!(radar.paint_begin(&[Track::default()]).unwrap().wait(), Ok(1));
    // Results as views.
    isorb::generated::call_scope(|scope| {
        let call = radar.best_begin()?.into_call()?;
        assert_eq!(radar::read_best(call.wait_in(scope)?)?.name, "best");
        Ok::<_, isorb::SystemException>(())
    })
    .unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn replies_come_in_any_order_and_abandoned_ones_are_dropped() {
    let (server, _client, radar) = pair(one_connection());
    let calls: Vec<_> = (0..20).map(|_| radar.wait_ms_begin(1).unwrap()).collect();
    let mut kept: Vec<_> =
        calls.into_iter().enumerate().filter(|(i, _)| i % 2 == 0).map(|(_, c)| c).collect();
    // A call of the usual kind reads the replies to others while it waits.
    assert_eq!(radar.wait_ms(2), Ok(2));
    while let Some(call) = kept.pop() {
        assert_eq!(call.wait(), Ok(1));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn a_call_is_tried_until_it_is_there() {
    let (server, _client, radar) = pair(Config::default());
    let mut pending = radar.wait_ms_begin(50).unwrap();
    assert!(pending.try_wait().is_none());
    let result = loop {
        match pending.try_wait() {
            Some(result) => break result,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(result, Ok(50));
    assert_eq!(pending.wait().unwrap_err().kind, Kind::BadInvOrder);
    server.shutdown(true).unwrap();
}

#[test]
fn the_first_of_several_calls_ends_the_wait() {
    let (server, _client, radar) = pair(Config::default());
    assert_eq!(wait_any::<isorb::PendingCall>(&[]).unwrap_err().kind, Kind::BadParam);
    // Over connections of their own, since each is busy.
    let mut calls = vec![radar.wait_ms_begin(400).unwrap(), radar.wait_ms_begin(20).unwrap()];
    assert_eq!(wait_any(&calls), Ok(1));
    assert_eq!(calls[1].try_wait(), Some(Ok(20)));
    // One that was taken is skipped, and another thread reads the other's connection.
    std::thread::scope(|threads| {
        threads.spawn(|| radar.wait_ms(30).unwrap());
        assert_eq!(wait_any(&calls), Ok(0));
    });
    assert_eq!(calls.remove(0).wait(), Ok(400));
    server.shutdown(true).unwrap();
}

#[test]
fn deadlines_count_from_the_beginning() {
    let (server, _client, radar) = pair(Config::default());
    let hasty = Policies { round_trip_timeout: Some(Duration::from_millis(40)), ..Policies::default() };
    let radar = RadarRef::from_object(radar.object().with_policies(hasty));
    let pending = radar.wait_ms_begin(500).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(pending.wait().unwrap_err().kind, Kind::Timeout);
    let pending = radar.wait_ms_begin(500).unwrap();
    assert_eq!(wait_any(&[&pending]), Ok(0));
    assert_eq!(pending.wait().unwrap_err().kind, Kind::Timeout);
    server.shutdown(false).unwrap();
}

#[test]
fn as_many_calls_are_pending_as_the_setting_says() {
    let (server, _client, radar) = pair(one_connection());
    let calls: Vec<_> = (0..64).map(|_| radar.wait_ms_begin(0).unwrap()).collect();
    let refused = radar.wait_ms_begin(0).unwrap_err();
    assert_eq!(refused.kind, Kind::ImpLimit);
    assert!(refused.detail.unwrap().contains("pending_calls"));
    // Calls that wait have slots of their own.
    assert_eq!(radar.wait_ms(0), Ok(0));
    calls.into_iter().for_each(|call| assert_eq!(call.wait(), Ok(0)));
    server.shutdown(true).unwrap();

    let (server, _client, radar) = pair(Config { pending_calls: 10_000, ..one_connection() });
    let calls: Vec<_> = (0..10_000).map(|_| radar.wait_ms_begin(0).unwrap()).collect();
    assert_eq!(radar.wait_ms_begin(0).unwrap_err().kind, Kind::ImpLimit);
    calls.into_iter().rev().for_each(|call| assert_eq!(call.wait(), Ok(0)));
    server.shutdown(true).unwrap();
}

#[test]
fn a_call_inside_the_process_and_one_after_the_servers_end() {
    let (server, _client, radar) = pair(Config::default());
    let near: RadarRef = server.resolve(&radar.to_string()).unwrap();
    assert_eq!(near.wait_ms_begin(3).unwrap().wait(), Ok(3));
    assert_eq!(wait_any(&[near.wait_ms_begin(3).unwrap()]), Ok(0));
    let pending = radar.wait_ms_begin(201).unwrap();
    wait_until("the upcall", || BEGUN.load(Ordering::Relaxed) == 1);
    // Running requests are answered before the connection closes.
    server.shutdown(false).unwrap();
    assert_eq!(pending.wait(), Ok(201));
    assert!(
        matches!(radar.wait_ms_begin(1).and_then(isorb::Pending::wait), Err(e) if e.kind == Kind::Transient)
    );
}

#[test]
fn more_calls_than_slots_wait_for_one() {
    let (server, _client, radar) = pair(one_connection());
    std::thread::scope(|threads| {
        let calls: Vec<_> = (0..100).map(|_| threads.spawn(|| radar.wait_ms(2))).collect();
        calls.into_iter().for_each(|call| assert_eq!(call.join().unwrap(), Ok(2)));
    });
    server.shutdown(true).unwrap();

    let (server, _client, radar) = pair(Config { queued_calls: 0, ..one_connection() });
    std::thread::scope(|threads| {
        let calls: Vec<_> = (0..100).map(|_| threads.spawn(|| radar.wait_ms(10))).collect();
        let refused: Vec<_> = calls.into_iter().filter_map(|call| call.join().unwrap().err()).collect();
        assert!(!refused.is_empty());
        assert!(refused.iter().all(|e| e.detail.as_ref().unwrap().contains("queued_calls")), "{refused:?}");
    });
    server.shutdown(true).unwrap();

    // A call that waits for a slot leaves at its time-out.
    let (server, _client, radar) = pair(one_connection());
    let hasty = Policies { round_trip_timeout: Some(Duration::from_millis(150)), ..Policies::default() };
    let hasty = RadarRef::from_object(radar.object().with_policies(hasty));
    std::thread::scope(|threads| {
        let calls: Vec<_> = (0..70).map(|_| threads.spawn(|| hasty.wait_ms(50))).collect();
        let results: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert!(results.iter().flatten().count() >= 1);
        assert!(results.iter().filter_map(|r| r.as_ref().err()).all(|e| e.kind == Kind::Timeout));
    });
    server.shutdown(false).unwrap();
}

fn with_lane(config: Config) -> (Orb, Orb, RadarRef) {
    let (server, client, radar) = pair(config);
    client.rt().start_client_lane(&ClientLaneOptions::default()).unwrap();
    assert_eq!(
        client.rt().start_client_lane(&ClientLaneOptions::default()).unwrap_err().kind,
        Kind::BadInvOrder
    );
    (server, client, radar)
}

#[test]
fn tokio_awaits_calls() {
    let (server, client, radar) = with_lane(Config::default());
    for runtime in [
        tokio::runtime::Builder::new_current_thread().build().unwrap(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap(),
    ] {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..50)
                .map(|i| {
                    let radar = radar.clone();
                    tokio::spawn(async move {
                        for _ in 0..20 {
                            assert_eq!(radar.best_async().await.unwrap().speed, 7);
                        }
                        radar.slow_async(i % 3, "x").await.unwrap()
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap().2, 1);
            }
        });
    }
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn smol_awaits_calls_beside_calls_that_wait() {
    let (server, client, radar) = with_lane(one_connection());
    std::thread::scope(|threads| {
        threads.spawn(|| (0..500).for_each(|_| assert_eq!(radar.wait_ms(0), Ok(0))));
        smol::block_on(async {
            for _ in 0..500 {
                let (one, two) = (radar.wait_ms_async(0), radar.best_begin().unwrap());
                assert_eq!(one.await, Ok(0));
                assert_eq!(two.await.unwrap().name, "best");
            }
        });
    });
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn futures_end_at_their_deadline_and_with_their_connection() {
    let (server, client, radar) = with_lane(Config::default());
    let hasty = Policies { round_trip_timeout: Some(Duration::from_millis(60)), ..Policies::default() };
    let hasty = RadarRef::from_object(radar.object().with_policies(hasty));
    smol::block_on(async {
        let patient = radar.wait_ms_begin(300).unwrap();
        assert_eq!(hasty.wait_ms_async(5_000).await.unwrap_err().kind, Kind::Timeout);
        assert_eq!(patient.await, Ok(300));
        let cut = radar.wait_ms_begin(60_000).unwrap();
        client.shutdown(false).unwrap();
        assert_eq!(cut.await.unwrap_err().kind, Kind::CommFailure);
    });
    // The servants still sleep.
    drop(server);
}

#[test]
fn a_future_without_a_lane_says_what_is_missing() {
    let (server, _client, radar) = pair(Config::default());
    let refused = smol::block_on(radar.wait_ms_async(1)).unwrap_err();
    assert_eq!(refused.kind, Kind::BadInvOrder);
    assert!(refused.detail.unwrap().contains("start_client_lane"));
    server.shutdown(true).unwrap();
}
