//! Limits of resources: one client cannot use up the resources of the others.

mod common;

use common::{EchoRef, Parrot, pair, pair_with};
use isorb::generated::{Result, SystemException, Upcall};
use isorb::{Concurrency, Config, Kind, Orb, Reference};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

const BOTH: [Concurrency; 2] = [Concurrency::Connection, Concurrency::Lane];

/// A server with few message blocks.
fn small(concurrency: Concurrency) -> Config {
    Config { concurrency, memory_limit: 16 << 20, message_limit: 4 << 20, ..Config::default() }
}

fn echo_octets(echo: &EchoRef, octets: &[u8]) {
    let same =
        echo.object().orb().scope(|scope| Ok::<_, SystemException>(echo.octets_in(scope, octets)? == octets));
    assert!(same.unwrap());
}

#[test]
fn announcing_a_message_takes_no_memory_from_others() {
    for concurrency in BOTH {
        let (server, _client, echo, _) = pair_with(small(concurrency), Config::default());
        let (host, port) = server.endpoint_addresses().remove(0);
        let stalled: Vec<_> = (0..20)
            .map(|_| {
                let mut stream = TcpStream::connect((host.as_str(), port)).unwrap();
                stream.write_all(b"GIOP\x01\x02\x01\x00\x00\x00\x30\x00").unwrap();
                stream
            })
            .collect();
        for _ in 0..20 {
            echo_octets(&echo, &vec![1; 1 << 20]);
        }
        drop(stalled);
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_client_that_sent_a_large_message_and_rests_holds_no_large_block() {
    for concurrency in BOTH {
        let (server, _client, echo, _) = pair_with(small(concurrency), Config::default());
        let resting: Vec<EchoRef> = (0..20)
            .map(|_| {
                let client = Orb::with_config(Config::default()).unwrap();
                let echo: EchoRef = client.resolve(&echo.object().to_string()).unwrap();
                echo_octets(&echo, &vec![1; 1 << 20]);
                echo
            })
            .collect();
        for echo in &resting {
            echo.ping().unwrap();
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn panics_use_no_nesting_up() {
    for concurrency in BOTH {
        let config = Config { concurrency, lane_threads: 1, ..Config::default() };
        let (server, _client, echo, _) = pair_with(config, Config::default());
        for _ in 0..200 {
            let unknown = echo.fail(99).unwrap_err();
            assert_eq!(unknown.kind, Kind::Unknown, "{unknown}");
        }
        let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
        assert_eq!(echo.call_back(Some(&near)).unwrap(), "from the servant");
        server.shutdown(true).unwrap();
    }
}

#[test]
fn a_destructor_that_panics_ends_a_connection_and_no_thread() {
    for concurrency in BOTH {
        let config = Config { concurrency, lane_threads: 1, ..Config::default() };
        let client = Config { round_trip_timeout_ms: 5_000, ..Config::default() };
        let (server, _client, echo, _) = pair_with(config, client);
        for _ in 0..3 {
            // The scope is left while the reply is on its way.
            echo.fail(97).unwrap();
            // The connection ended during this call, or before.
            if let Err(lost) = echo.ping() {
                assert_eq!(lost.kind, Kind::CommFailure, "{lost}");
                echo.ping().unwrap();
            }
        }
        server.shutdown(true).unwrap();
    }
}

#[test]
fn calls_that_nest_without_end_are_refused() {
    let (server, _client, _, _) = pair(Concurrency::Connection);
    let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Recursion)).unwrap();
    MYSELF.set(Some(near.clone()));
    let refused = near.ping().unwrap_err();
    assert_eq!(refused.kind, Kind::ImpLimit, "{refused}");
    // The thread is not affected.
    assert_eq!(near.ping().unwrap_err().kind, Kind::ImpLimit);
    server.shutdown(true).unwrap();
}

/// Calls itself through its reference.
struct Recursion;

thread_local! {
    static MYSELF: std::cell::RefCell<Option<EchoRef>> = const { std::cell::RefCell::new(None) };
}

impl common::Echo for Recursion {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        let myself = MYSELF.with_borrow(|myself| myself.clone());
        myself.ok_or(Kind::Internal)?.ping()
    }
}
