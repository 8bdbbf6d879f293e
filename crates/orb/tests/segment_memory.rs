//! The system refuses memory for segments, to the client or to the server: the call uses the
//! reference's next endpoint, or ends in a standard exception, and nothing leaks. One test in a
//! process of its own, because limits and counts are those of the process.
#![cfg(feature = "segments")]

mod common;

use common::{EchoRef, Parrot};
use isorb::{Config, Kind, Orb, Reference, TransportConfig};
use isorb_testkit::{retry, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;

/// More than the process may have besides its present memory.
const HUGE: usize = 1 << 30;
const USUAL: usize = 64 << 10;
/// The allowed memory: enough for threads and their heaps.
const LEFT: u64 = 700 << 20;

/// Descriptors, threads, mappings of segments.
fn held() -> [usize; 3] {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let segments =
        maps.lines().filter(|line| line.contains("isorb-segment") || line.contains("isorb-arena")).count();
    [entries("/proc/self/fd"), entries("/proc/self/task"), segments]
}

fn settles(at_most: [usize; 3]) {
    retry(format_args!("at most {at_most:?} descriptors, threads and segments"), || {
        let held = held();
        if held.iter().zip(at_most).all(|(now, most)| *now <= most) {
            Ok(())
        } else {
            Err(format!("{held:?}"))
        }
    });
}

fn orb(segment_bytes: usize, endpoints: &[&str]) -> Orb {
    let transport = TransportConfig { segment_bytes, ..TransportConfig::default() };
    let endpoints = endpoints.iter().map(|endpoint| endpoint.to_string()).collect();
    // Calls fail for lack of memory, not of time.
    Orb::with_config(Config { transport, endpoints, round_trip_timeout_ms: 60_000, ..Config::default() })
        .unwrap()
}

fn serve(server: &Orb) -> String {
    let near: EchoRef = server.root_poa().unwrap().activate(Arc::new(Parrot::default())).unwrap();
    server.root_poa().unwrap().manager().activate().unwrap();
    near.object().to_string()
}

/// The transports of the connected clients.
fn connected(server: &Orb) -> Vec<String> {
    server.served_connections().into_iter().map(|connection| connection.peer).collect()
}

/// As [`connected`], once there is one: abandoned and closed connections are gone.
fn connected_alone(server: &Orb) -> String {
    wait_for("a single connection", || {
        let mut all = connected(server);
        all.pop().filter(|_| all.is_empty())
    })
}

fn with_little_memory(f: impl FnOnce()) {
    let usual = getrlimit(Resource::As);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = size.trim_end_matches("kB").trim().parse().unwrap();
    let most = (kib << 10) + LEFT;
    setrlimit(Resource::As, Rlimit { current: Some(most), maximum: usual.maximum }).unwrap();
    f();
    setrlimit(Resource::As, usual).unwrap();
}

#[test]
fn a_client_without_memory_for_a_segment_goes_another_way() {
    // One-time allocations of the process happen before the counts, and before the limit is
    // computed.
    let (server, client) = (orb(USUAL, &["segment:", "unix:"]), orb(USUAL, &[]));
    client.resolve::<EchoRef>(&serve(&server)).unwrap().ping().unwrap();
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
    drop((client, server));
    settles([usize::MAX, usize::MAX, 0]);
    with_little_memory(|| {
        // The side that asks for more than there is.
        for (of_client, of_server) in [(HUGE, USUAL), (USUAL, HUGE)] {
            for others in [&["unix:"][..], &["127.0.0.1:0"][..], &[][..]] {
                refused(of_client, of_server, others);
            }
        }
    });
}

fn refused(of_client: usize, of_server: usize, others: &[&str]) {
    let server = orb(of_server, &[&["segment:"][..], others].concat());
    let reference = serve(&server);
    let before = held();
    for _ in 0..20 {
        let client = orb(of_client, &[]);
        let far: EchoRef = client.resolve(&reference).unwrap();
        match far.ping() {
            Ok(()) => {
                assert!(!others.is_empty(), "without memory there is no other way");
                let came = if others == ["unix:"] { "unix: " } else { "127.0.0.1:" };
                let by = connected_alone(&server);
                assert!(by.starts_with(came), "{others:?}: {by}");
            }
            Err(error) => {
                assert!(others.is_empty(), "{others:?}: {error}");
                let kinds = [Kind::Transient, Kind::CommFailure, Kind::NoResources];
                assert!(kinds.contains(&error.kind), "{error}");
            }
        }
        // The same client again: the earlier failure harms no later call.
        assert_eq!(far.ping().is_ok(), !others.is_empty());
        client.shutdown(true).unwrap();
    }
    settles(before);
    // The control, if the client lacked memory: one that needs less gets segments.
    if of_server == USUAL {
        let client = orb(USUAL, &[]);
        client.resolve::<EchoRef>(&reference).unwrap().ping().unwrap();
        assert_ne!(held()[2], 0, "segments are what is taken; {:?}", connected(&server));
        client.shutdown(true).unwrap();
    }
    server.shutdown(true).unwrap();
}
