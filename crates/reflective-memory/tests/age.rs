//! The age of a value includes its time in the network: a queue on the way makes it older, and a
//! reader with a deadline is told.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_reflective_memory::Library;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::node::NodeServer;
use isorb_rt::time::now_ns;
use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{node_on, orb_on};

const LINK_KBIT: u32 = 2_000;
const DEADLINE: Duration = Duration::from_millis(50);
/// What the queue holds when it is full: 100 packets, 606 ms.
const PACKETS: u32 = 100;
const PACKET: usize = 1_400;

fn node(host: &Host, name: &str, glob: &str) -> (NodeServer, Library) {
    node_on(host, &orb_on(host, None), name, glob, |config| {
        config.admission.link_bits_per_s = u64::from(LINK_KBIT) * 1000;
        // The queue is longer than the usual silence.
        config.silence = Duration::from_secs(10);
    })
}

/// Fills the queue towards the right host by most of its length, and keeps it so.
fn keep_full(lab: &Lab, span: Duration) {
    let socket = lab.left().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    let to = (lab.right().address(), 9);
    let interval = Duration::from_secs_f64((PACKET + 42) as f64 * 8.0 / f64::from(LINK_KBIT) / 1000.0 / 0.9);
    (0..80).for_each(|_| drop(socket.send_to(&[0; PACKET], to)));
    let start = Instant::now();
    let mut due = start;
    while start.elapsed() < span {
        due += interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let _ = socket.send_to(&[0; PACKET], to);
    }
}

#[test]
fn a_queue_in_the_network_makes_values_older() {
    let spec = LinkSpec { rate_kbit: LINK_KBIT, sorting: Sorting::OneQueue { packets: PACKETS } };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let ((_near_server, near), (_far_server, far)) =
        (node(lab.left(), "near", &glob), node(lab.right(), "far", &glob));
    for path in [Path::PathUdp, Path::PathOneway] {
        let name = format!("{path:?}");
        let make = || {
            near.create_area(&Area::new(&name, 8, 1))?;
            near.map_writer(&name, WriterQoS::every(Duration::from_millis(20)))
        };
        let mut writer = lab.left().run(make).unwrap().unwrap();
        let qos = ReaderQoS::on_write().deadline(DEADLINE).through(path);
        let mut reader = lab.right().run(|| far.attach_reader(&name, qos)).unwrap().unwrap();
        let (mut oldest, mut stale, mut read) = (0, 0, Vec::new());
        let written = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(1));
                keep_full(&lab, Duration::from_secs(3));
            });
            let writing = scope.spawn(|| {
                let mut written = HashMap::new();
                for _ in 0..250 {
                    let before = now_ns();
                    writer.write(&before.to_le_bytes()).unwrap();
                    written.insert(before, now_ns());
                    std::thread::sleep(Duration::from_millis(20));
                }
                written
            });
            let start = Instant::now();
            let mut value = [0; 8];
            while start.elapsed() < Duration::from_secs(5) {
                stale += u64::from(reader.state() == Some(State::Stale));
                if reader.wait(Duration::from_millis(10)).is_err() {
                    continue;
                }
                let Ok(sample) = reader.latest(&mut value) else { continue };
                let bound = sample.age_bound_ns().expect("the writer's node has answered");
                read.push((u64::from_le_bytes(value), sample.written_ns, bound));
                oldest = oldest.max(sample.age_ns());
            }
            writing.join().unwrap()
        });
        // Both hosts have one clock. The writer's thread may stand before the sample gets its time.
        for (before, at, bound) in &read {
            let while_writing = before - bound..=written[before] + bound;
            assert!(while_writing.contains(at), "{name}: {at} is not in {while_writing:?}, within {bound}");
        }
        let statistics = lab.right().run(|| reader.statistics()).unwrap().unwrap();
        println!(
            "{name}: {} values, the oldest {} ms, stale {stale} looks, {statistics:?}",
            read.len(),
            oldest / 1_000_000
        );
        assert!(oldest > 300_000_000, "{name}: the oldest value was {oldest} ns old");
        assert!(stale > 0 && statistics.stale > 0 && statistics.worst_age > 300_000_000, "{statistics:?}");
    }
}
