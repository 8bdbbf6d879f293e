//! Pools under load from many clients, some of which share connections: every call gets its own
//! reply or the pool's error, and afterwards nothing is left.

mod common;

use common::EchoRef;
use common::rt::{Witness, arc, far, lane, poa, server_with};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::rt::{RealTime, RealTimeConfig, RequestBuffering, ThreadpoolOptions};
use isorb::{Config, Kind, Orb};
use isorb_testkit::wait_until;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const CALLS: usize = 150;

/// Calls from twelve threads, four on each connection; returns the number of rejected ones.
fn storm(options: &ThreadpoolOptions, dynamic: u32) -> u32 {
    // Ordinary threads, so that the clients make progress as well.
    let real_time = RealTimeConfig { mode: RealTime::Off, ..RealTimeConfig::default() };
    let server = server_with(Config { real_time, ..Config::default() });
    let lanes = [10, 20, 30].map(|priority| lane(priority, 1).dynamic_threads(dynamic));
    let pool = server.rt().create_threadpool_with_lanes(&lanes, options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 10);
    let poa = poa(&server, "storm", policies);
    let refused = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for priority in [10, 20, 30] {
            let near: EchoRef = poa.activate_with_priority(arc::<Witness>(), priority).unwrap();
            let client = Orb::with_config(Config { connections_per_server: 1, ..Config::default() }).unwrap();
            for thread in 0..4 {
                let (object, refused) = (far(&client, &near), &refused);
                scope.spawn(move || {
                    for i in 0..CALLS {
                        // Lengths that arrive alone, together, and in pieces.
                        let text = format!("{priority}-{thread}-{i}").repeat(1 + (i % 40) * (i % 7));
                        match object.text(&text) {
                            Ok(answer) => assert_eq!(answer, text),
                            Err(error) => {
                                assert_eq!(error.kind, Kind::Transient, "{error}");
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        if i % 16 == 0 {
                            object.feed(&[0; 100]).unwrap();
                        }
                    }
                });
            }
        }
    });
    wait_until("nothing is left", || {
        let status = server.rt().threadpool_status(pool).unwrap();
        status.iter().all(|lane| (lane.running, lane.buffered_requests, lane.buffered_bytes) == (0, 0, 0))
    });
    let status = server.rt().threadpool_status(pool).unwrap();
    for lane in status {
        assert!(lane.dynamic_threads <= dynamic && lane.connections <= 1, "{lane:?}");
    }
    server.shutdown(true).unwrap();
    refused.into_inner()
}

#[test]
fn no_call_is_lost_whatever_the_pool_does_when_it_is_busy() {
    let plain = ThreadpoolOptions::default;
    assert_eq!(storm(&plain(), 0), 0);
    assert_eq!(storm(&ThreadpoolOptions { idle_timeout: Some(Duration::from_millis(1)), ..plain() }, 2), 0);
    assert_eq!(storm(&ThreadpoolOptions { allow_borrowing: true, ..plain() }, 0), 0);
    let roomy = Some(RequestBuffering::default());
    assert_eq!(storm(&ThreadpoolOptions { buffering: roomy, ..plain() }, 0), 0);
    assert_eq!(storm(&ThreadpoolOptions { buffering: roomy, allow_borrowing: true, ..plain() }, 1), 0);
    // Rejections are up to the scheduler. No call may hang or get another's reply.
    let tight = RequestBuffering { max_buffered_requests: 1, max_request_buffer_size: 600 };
    storm(&ThreadpoolOptions { buffering: Some(tight), ..plain() }, 0);
}
