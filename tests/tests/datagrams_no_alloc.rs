//! As `no_alloc.rs`, for calls in datagrams: after warm-up neither UDP nor a group of several
//! members allocates, on either side.

use isorb::{Concurrency, Config, Orb, TransportConfig};
use isorb_rt::alloc_count::{CountingAllocator, process_allocations};
use isorb_tests::allocations::in_steady_state;
use isorb_tests::steady::*;
use isorb_tests::{Parrot, serve_with};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Allocations of a hundred rounds, after fifty rounds of warm-up and a pause after which a
/// connection is checked.
fn made(mut round: impl FnMut()) -> u64 {
    for _ in 0..50 {
        round();
    }
    std::thread::sleep(Duration::from_millis(20));
    round();
    in_steady_state(|| (0..100).for_each(|_| round()))
}

fn tracks(n: usize) -> Vec<Track> {
    let track = Track { name: "Überflug".into(), state: Mode::Run, last: Stamp { value: 1.5, at: 7 } };
    vec![track; n]
}

/// Both in one test, because the count is that of the process.
#[test]
fn datagrams_allocate_nothing_in_the_steady_state() {
    over_udp();
    to_a_group();
}

fn over_udp() {
    for concurrency in [Concurrency::Connection, Concurrency::Lane] {
        let endpoints = vec!["udp:127.0.0.1:0".into()];
        let config = Config { endpoints, concurrency, lane_threads: 1, ..Config::default() };
        let (server, _client, path) = serve_with(config, false);
        let (tracks, octets) = (tracks(20), vec![7; 30_000]);
        let made = made(|| {
            let called = server.scope(|scope| {
                path.ping()?;
                let mut b = "old";
                assert_eq!(path.text_in(scope, "grüße", &mut b)?, ("grüße", "old"));
                assert_eq!(path.echo_octets_in(scope, &octets)?.len(), octets.len());
                path.feed(&tracks)?;
                path.fed()
            });
            called.unwrap();
        });
        assert_eq!(made, 0, "over UDP, {concurrency:?}: {made} allocations in 100 rounds");
        let before = process_allocations();
        path.who().unwrap();
        assert!(process_allocations() > before, "the control allocates");
        server.shutdown(true).unwrap();
    }
}

fn to_a_group() {
    let transport = TransportConfig { multicast_interface: "lo".into(), ..TransportConfig::default() };
    let config = || Config { transport: transport.clone(), ..Config::default() };
    let (server, client) = (Orb::with_config(config()).unwrap(), Orb::with_config(config()).unwrap());
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("corbaloc:miop:1.0@1.0-steady-1/239.255.81.1:{port}");
    let group = server.string_to_object(&url).unwrap();
    let members: [PathRef; 2] = std::array::from_fn(|_| root.activate(Arc::new(Parrot::default())).unwrap());
    for member in &members {
        let id = root.reference_to_id(&member.clone().into()).unwrap();
        if let Err(error) = root.associate_reference_with_id(&group, &id) {
            return println!("SKIPPED: {error}");
        }
    }
    let far: PathRef = client.string_to_object(&url).unwrap().unchecked_narrow();
    // One packet, and several.
    let (few, many) = (tracks(2), tracks(500));
    let fed = || members.each_ref().map(|member| member.fed().unwrap());
    let made = made(|| {
        for tracks in [&few, &many] {
            let before = fed();
            // A request to a group may be lost: a machine that stands for seconds drops its parts.
            loop {
                far.feed(tracks).unwrap();
                let end = Instant::now() + Duration::from_secs(1);
                while fed().iter().zip(before).any(|(fed, before)| *fed == before) && Instant::now() < end {
                    std::thread::yield_now();
                }
                if fed().iter().zip(before).all(|(fed, before)| *fed != before) {
                    break;
                }
            }
        }
    });
    assert_eq!(made, 0, "to a group: {made} allocations in 100 rounds");
    let statistics = server.group_statistics();
    assert!(statistics.messages >= 302 && statistics.refused == 0, "{statistics:?}");
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
