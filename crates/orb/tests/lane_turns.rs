//! A lane's thread serves its connections in turn: one that floods it does not keep the others out.

mod common;

use common::raw::Raw;
use common::rt::{lane, poa};
use common::{Echo, EchoRef, Parrot, pair_with};
use isorb::poa::PoaPolicies;
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::{Concurrency, Config, Orb, Reference, Result, SystemException, Upcall};
use isorb_giop::message::Response;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A lane of an endpoint, and one of a thread pool, each with one thread.
fn servers() -> [(Orb, EchoRef); 2] {
    let config = Config { concurrency: Concurrency::Lane, ..Config::default() };
    let (endpoint, _client, echo, _) = pair_with(config, Config::default());
    let server = Orb::with_config(Config::default()).unwrap();
    let near = in_pool(&server, Arc::new(Parrot::default()));
    [(endpoint, echo), (server, near)]
}

/// A servant in a lane with one thread.
fn in_pool(server: &Orb, servant: Arc<impl Echo>) -> EchoRef {
    server.root_poa().unwrap().manager().activate().unwrap();
    let pool =
        server.rt().create_threadpool_with_lanes(&[lane(0, 1)], &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 0);
    poa(server, "laned", policies).activate(servant).unwrap()
}

fn client(echo: &EchoRef) -> (Orb, EchoRef) {
    let orb = Orb::with_config(Config { round_trip_timeout_ms: 60_000, ..Config::default() }).unwrap();
    let far = orb.resolve(&echo.object().to_string()).unwrap();
    (orb, far)
}

/// Calls while another client sends more than the thread can serve, and never stops.
fn served_beside(flood: impl Fn(&mut Raw) + Sync, what: &str) {
    for (number, (server, echo)) in servers().into_iter().enumerate() {
        let (orb, known) = client(&echo);
        known.ping().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut raw = Raw::connect(echo.object());
                while !stop.load(SeqCst) {
                    flood(&mut raw);
                }
            });
            std::thread::sleep(Duration::from_millis(200));
            let outcome = (|| {
                (0..10).try_for_each(|_| known.ping())?;
                let (newcomer, far) = client(&echo);
                far.ping()?;
                newcomer.shutdown(true)
            })();
            stop.store(true, SeqCst);
            outcome.unwrap_or_else(|refused| panic!("{what}, server {number}: {refused}"));
        });
        orb.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

#[test]
fn requests_without_an_end_leave_others_their_turn() {
    let flood = |raw: &mut Raw| {
        // Each keeps the thread for a millisecond. They are long: few of them are under way.
        let mut request = raw.request(Response::None, "sleep", &[0]);
        request.resize(16 << 10, 0);
        let size = (request.len() - 12) as u32;
        let size = if request[6] & 1 == 1 { size.to_le_bytes() } else { size.to_be_bytes() };
        request[8..12].copy_from_slice(&size);
        raw.write(&request.repeat(16));
    };
    served_beside(flood, "oneways");
}

/// What a turn leaves is served in the next one, over each transport: nothing waits for an event
/// that has come already.
#[test]
fn nothing_is_left_behind_when_a_turn_ends() {
    const MANY: u64 = 500;
    for endpoint in ["127.0.0.1:0;lane=1", "unix:;lane=1", "segment:;lane=1"] {
        let config = Config { endpoints: vec![endpoint.into()], ..Config::default() };
        let (server, client, echo, parrot) = pair_with(config, Config::default());
        for _ in 0..MANY {
            echo.feed(&[1; 100]).unwrap();
        }
        echo.ping().unwrap();
        assert_eq!(parrot.fed.load(SeqCst), 100 * MANY, "{endpoint}");
        // Several turns for one message.
        let long: Vec<u8> = (0..3 << 20).map(|n: u32| n as u8).collect();
        let echoed = client.scope(|scope| Ok::<_, SystemException>(echo.octets_in(scope, &long)? == long));
        assert!(echoed.unwrap(), "{endpoint}");
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}

/// Clients that come while the only thread of a lane is busy are accepted in several turns.
#[test]
fn all_newcomers_of_a_lane_are_accepted() {
    let [_, (server, echo)] = servers();
    let (orb, known) = client(&echo);
    known.ping().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| known.sleep(300).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        let mut crowd: Vec<Raw> = (0..50).map(|_| Raw::connect(echo.object())).collect();
        crowd.iter_mut().for_each(|raw| raw.send("ping", &[]));
        for (number, raw) in crowd.iter_mut().enumerate() {
            assert_eq!(raw.receive().status, 0, "client {number}");
        }
    });
    orb.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

/// Is busy for a second, or takes down how many connections the ORB has accepted.
#[derive(Default)]
struct Counting(AtomicU64);

impl Echo for Counting {
    fn ping(&self, cx: Upcall<'_>) -> Result<()> {
        self.0.store(cx.orb().connection_counts().accepted, SeqCst);
        Ok(())
    }
    fn feed(&self, _: Upcall<'_>, _: &[u8]) -> Result<()> {
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }
}

/// A client waits for a turn of newcomers, not for all of them.
#[test]
fn a_connected_client_is_served_among_newcomers() {
    const NEWCOMERS: u64 = 100;
    let server = Orb::with_config(Config::default()).unwrap();
    let servant = Arc::new(Counting::default());
    let echo = in_pool(&server, servant.clone());
    let (orb, busy) = client(&echo);
    let mut known = Raw::connect(echo.object());
    busy.ping().unwrap();
    assert_eq!(known.call("ping", &[]).status, 0);
    let before = servant.0.load(SeqCst);
    let busy = std::thread::spawn(move || busy.feed(&[]));
    std::thread::sleep(Duration::from_millis(100));
    let _crowd: Vec<Raw> = (0..NEWCOMERS).map(|_| Raw::connect(echo.object())).collect();
    assert_eq!(known.call("ping", &[]).status, 0);
    let accepted = servant.0.load(SeqCst) - before;
    assert!(accepted < NEWCOMERS / 2, "{accepted} newcomers were accepted first");
    busy.join().unwrap().unwrap();
    orb.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
