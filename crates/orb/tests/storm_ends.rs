//! Ten thousand silent connections, as far as there are descriptors for them: clients in service
//! continue, and limits and time-outs close all others. A process of its own, because it takes
//! nearly all descriptors.

mod common;

use common::pair_with;
use isorb::{Concurrency, Config};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How many connect.
const STORM: usize = 10_000;
/// Connections that the server holds.
const HELD: usize = 64;
/// The header of a message of 16 MiB that arrives octet by octet.
const HEAD: [u8; 12] = *b"GIOP\x01\x02\x01\x00\x00\x00\xf0\x00";

/// The number of connections: each takes a descriptor here, and briefly one at the server.
fn many() -> usize {
    let limits = getrlimit(Resource::Nofile);
    let needed = (2 * STORM + 3 * HELD + 200) as u64;
    let may = Rlimit { current: Some(needed), maximum: Some(needed.max(limits.maximum.unwrap_or(u64::MAX))) };
    if limits.current.is_some_and(|now| now < needed) && setrlimit(Resource::Nofile, may).is_err() {
        setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }).unwrap();
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) as usize;
    let many = STORM.min(most.saturating_sub(3 * HELD + 200) / 2);
    if many < STORM {
        println!(
            "SKIPPED in part: a storm of {many} instead of {STORM}, for which the limit of descriptors is too low"
        );
    }
    many
}

/// Whether the server has closed it.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut ending = [0; 64];
    loop {
        match stream.read(&mut ending) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

#[test]
fn a_storm_ends_closed_and_no_other_client_suffers() {
    let many = many();
    assert!(many >= 300, "too few descriptors for a storm");
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let limit = Duration::from_millis(500);
        let config = Config {
            concurrency,
            max_connections: HELD,
            message_timeout_ms: limit.as_millis() as u64,
            first_request_timeout_ms: limit.as_millis() as u64,
            ..Config::default()
        };
        let (server, client, echo, _) = pair_with(config, Config::default());
        echo.ping().unwrap();
        let at = server.endpoint_addresses().remove(0);
        let mut crowd: Vec<(TcpStream, usize)> = Vec::with_capacity(many);
        for i in 0..many {
            let stream = TcpStream::connect((at.0.as_str(), at.1)).unwrap();
            stream.set_nonblocking(true).unwrap();
            crowd.push((stream, 0));
            if i % 100 == 0 {
                echo.ping().unwrap();
            }
        }
        // Every second one sends an octet now and then, until the last of all is closed.
        let timeout = Instant::now() + Duration::from_secs(60);
        while !crowd.is_empty() {
            crowd.retain_mut(|(stream, _)| !is_closed(stream));
            for (stream, sent) in crowd.iter_mut().step_by(2) {
                // Closed connections are counted above.
                let _ = stream.write(&[HEAD.get(*sent).copied().unwrap_or(0)]);
                *sent += 1;
            }
            echo.ping().unwrap();
            assert!(Instant::now() < timeout, "{} of {many} connections are not closed", crowd.len());
        }
        client.shutdown(true).unwrap();
        server.shutdown(true).unwrap();
    }
}
