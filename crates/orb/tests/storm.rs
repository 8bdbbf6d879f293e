//! Many who connect and say nothing, and descriptors that run out: who is served goes on, others get in again, nothing is
//! left behind. One test in a process of its own, since counts and limits are those of the process.

mod common;

use common::{EchoRef, pair_with};
use isorb::{Concurrency, Config, Orb, Reference};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Mappings of segments.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("isorb-segment")).count()
}

fn held() -> [usize; 3] {
    [entries("/proc/self/fd"), entries("/proc/self/task"), mappings()]
}

/// Waits until no more is held than at most.
fn settles(at_most: [usize; 3]) {
    for _ in 0..500 {
        if held().iter().zip(at_most).all(|(now, most)| *now <= most) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("descriptors, threads, segments: {:?} are left, there were {at_most:?}", held());
}

/// A connection that says nothing.
fn silent(server: &Orb) -> std::io::Result<Socket> {
    let (protocol, at) = server.endpoint_names().remove(0);
    let (domain, kind, address) = match protocol {
        "tcp" => (Domain::IPV4, Type::STREAM, SockAddr::from(at.parse::<SocketAddr>().unwrap())),
        "unix" => (Domain::UNIX, Type::STREAM, SockAddr::unix(at)?),
        _ => (Domain::UNIX, Type::SEQPACKET, SockAddr::unix(at)?),
    };
    let socket = Socket::new(domain, kind, None)?;
    socket.connect(&address)?;
    Ok(socket)
}

fn another(echo: &EchoRef) -> (Orb, EchoRef) {
    let orb = Orb::with_config(Config { round_trip_timeout_ms: 60_000, ..Config::default() });
    let far = orb.resolve(&echo.object().to_string()).unwrap();
    (orb, far)
}

/// Calls until it works: a newcomer may be turned away while everybody else is new as well.
fn gets_in(echo: &EchoRef) -> Orb {
    let (orb, far) = another(echo);
    for _ in 0..500 {
        if far.ping().is_ok() {
            return orb;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("a newcomer never gets in: {:?}", far.ping());
}

fn storm(endpoint: &str, concurrency: Concurrency) {
    let endpoints = vec![endpoint.to_string()];
    let config = Config { endpoints, concurrency, max_connections: 32, ..Config::default() };
    let (server, client, echo, _) = pair_with(config, Config::default());
    echo.ping().unwrap();
    let before = held();

    // Many more than there is room for, who stay.
    let mut crowd: Vec<Socket> = Vec::new();
    for i in 0..200 {
        crowd.extend(silent(&server));
        if i % 20 == 0 {
            echo.ping().unwrap();
        }
    }
    echo.ping().unwrap();
    drop(gets_in(&echo));
    echo.ping().unwrap();
    drop(crowd);
    settles(before);

    // Descriptors run out: clients of this process connect until none is left.
    let usual = getrlimit(Resource::Nofile);
    let few = entries("/proc/self/fd") as u64 + 40;
    setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum: usual.maximum }).unwrap();
    let mut crowd: Vec<Socket> = Vec::new();
    while let Ok(one) = silent(&server) {
        crowd.push(one);
        assert!(crowd.len() < 1000, "the limit is not reached");
    }
    assert!(!crowd.is_empty());
    std::thread::sleep(Duration::from_millis(100));
    echo.ping().unwrap();
    drop(crowd);
    let newcomer = gets_in(&echo);
    setrlimit(Resource::Nofile, usual).unwrap();
    echo.ping().unwrap();
    newcomer.shutdown(true).unwrap();
    drop(newcomer);
    settles(before);
    server.shutdown(true).unwrap();
    client.shutdown(true).unwrap();
}

#[test]
fn those_who_are_served_do_not_suffer() {
    // What is there once and for all, such as the clock's page, is not counted.
    let before = held();
    for endpoint in ["127.0.0.1:0", "unix:", "segment:"] {
        for concurrency in [Concurrency::Connection, Concurrency::Lane] {
            storm(endpoint, concurrency);
        }
    }
    settles([before[0] + 2, before[1] + 1, before[2]]);
}
