//! More clients than a server may have connections: newcomers are served, idle connections give
//! way, and clients in service do not suffer.

mod common;

use common::raw::Raw;
use common::rt::{lane, poa};
use common::{EchoRef, Parrot, pair_with};
use isorb::poa::PoaPolicies;
use isorb::rt::ThreadpoolOptions;
use isorb::rt::policy::PriorityModel::ServerDeclared;
use isorb::{Concurrency, Config, Orb, Reference};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: usize = 8;

fn config() -> Config {
    Config { max_connections: LIMIT, ..Config::default() }
}

/// A client with one connection, which has called once and stays.
fn caller(echo: &EchoRef) -> Raw {
    let mut raw = Raw::connect(echo.object());
    assert_eq!(raw.call("ping", &[]).status, 0);
    // The thread that replied may not have counted the end of the request yet.
    std::thread::sleep(Duration::from_millis(20));
    raw
}

fn newcomer(echo: &EchoRef) -> (Orb, EchoRef) {
    let orb = Orb::with_config(Config { round_trip_timeout_ms: 60_000, ..Config::default() }).unwrap();
    let far = orb.resolve(&echo.object().to_string()).unwrap();
    (orb, far)
}

fn endpoint(concurrency: Concurrency) -> (Orb, EchoRef) {
    let (server, _client, echo, _) = pair_with(Config { concurrency, ..config() }, Config::default());
    (server, echo)
}

fn pool() -> (Orb, EchoRef) {
    let server = Orb::with_config(config()).unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    let pool =
        server.rt().create_threadpool_with_lanes(&[lane(0, 1)], &ThreadpoolOptions::default()).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 0);
    let near: EchoRef = poa(&server, "laned", policies).activate(Arc::new(Parrot::default())).unwrap();
    (server, near)
}

#[test]
fn clients_that_called_once_are_evicted_for_newcomers() {
    let servers = [endpoint(Concurrency::Connection), endpoint(Concurrency::Lane), pool()];
    for (i, (server, echo)) in servers.into_iter().enumerate() {
        let crowd: Vec<Raw> = (0..LIMIT).map(|_| caller(&echo)).collect();
        // They stay, so that each takes the place of another client.
        let _newcomers: Vec<_> = (0..3 * LIMIT)
            .map(|_| {
                let (orb, far) = newcomer(&echo);
                far.ping().unwrap_or_else(|refused| panic!("server {i}: {refused}"));
                (orb, far)
            })
            .collect();
        // They were told, so that their ORBs connect again.
        for mut raw in crowd {
            assert_eq!(raw.read_to_end(), b"GIOP\x01\0\x01\x05\0\0\0\0", "server {i}");
        }
        let counts = server.connection_counts();
        assert!(counts.evicted >= LIMIT as u64, "{counts:?}");
        assert_eq!(counts.refused, 0, "{counts:?}");
        server.shutdown(true).unwrap();
    }
}

#[test]
fn connections_in_use_stay() {
    let (server, echo) = endpoint(Concurrency::Connection);
    let clients: Vec<_> = (0..LIMIT).map(|_| newcomer(&echo)).collect();
    std::thread::scope(|threads| {
        let calls: Vec<_> = clients.iter().map(|(_, far)| threads.spawn(|| far.sleep(1_000))).collect();
        std::thread::sleep(Duration::from_millis(300));
        let mut refused = Raw::connect(echo.object());
        assert_eq!(refused.read_to_end(), b"GIOP\x01\0\x01\x05\0\0\0\0");
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap(), 1_000);
        }
    });
    newcomer(&echo).1.ping().unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn the_peer_with_the_most_connections_is_evicted_from_first() {
    let (server, echo) = endpoint(Concurrency::Connection);
    let mut alone = Raw::connect_from(echo.object(), [127, 0, 0, 2]);
    assert_eq!(alone.call("ping", &[]).status, 0);
    let _crowd: Vec<Raw> = (0..3 * LIMIT).map(|_| caller(&echo)).collect();
    assert_eq!(
        alone.call("ping", &[]).status,
        0,
        "the oldest connection of all, but the only one of its peer"
    );
    server.shutdown(true).unwrap();
}

#[test]
fn a_peer_has_a_limit_of_its_own() {
    let limited = Config { max_peer_connections: 2, ..config() };
    let (server, _client, echo, _) = pair_with(limited, Config::default());
    let mut other = Raw::connect_from(echo.object(), [127, 0, 0, 2]);
    assert_eq!(other.call("ping", &[]).status, 0);
    let mut first = caller(&echo);
    let _more = [caller(&echo), caller(&echo)];
    assert_eq!(first.read_to_end(), b"GIOP\x01\0\x01\x05\0\0\0\0");
    assert!(server.connection_counts().open <= 4);
    assert_eq!(other.call("ping", &[]).status, 0);
    server.shutdown(true).unwrap();
}
