//! Nodes with three dispatching threads each: the guarantees of one thread hold with several.

mod world;

use isorb_reflective_memory::idl::{Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::{AreaReader, AreaWriter, Error, Library};
use isorb_rt::time::Deadline;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use world::*;

const THREADS: usize = 3;
const SIZE: usize = 5_000;

fn world(change: impl Fn(usize, &mut isorb_reflective_memory::node::ServerConfig) + 'static) -> World {
    World::configured(Box::new(move |which, config| {
        config.dispatchers = THREADS;
        change(which, config);
    }))
}

/// No value is torn, and none is older than the one before.
struct Line {
    writer: AreaWriter,
    readers: Vec<(AreaReader, u64)>,
    /// How often a reader may go back: once into each new replica, which on the ORB's paths begins
    /// with what the area keeps.
    new_replicas: usize,
}

impl Line {
    fn new(near: &Library, far: &Library, name: &str, wishes: &[ReaderQoS]) -> Line {
        near.create_area(&area(name, SIZE as u32)).unwrap();
        let writer = near.map_writer(name, QOS).unwrap();
        let readers = wishes.iter().map(|request| (far.attach_reader(name, *request).unwrap(), 0)).collect();
        Line { writer, readers, new_replicas: 0 }
    }

    fn write(&mut self) -> u64 {
        let n = self.writer.sequence() + 1;
        self.writer.write(&vec![n as u8; SIZE - n as usize % 100]).unwrap()
    }

    /// Waits until all readers have the last value.
    fn all_have_it(&mut self) {
        let last = self.writer.sequence();
        for (reader, before) in &mut self.readers {
            let deadline = Deadline::after(TIMEOUT);
            let mut out = vec![0; SIZE];
            while *before < last {
                assert!(!deadline.is_past(), "{last} does not come after {before}: {:?}", reader.state());
                let _ = reader.wait(Duration::from_millis(100));
                let Ok(sample) = reader.latest(&mut out) else { continue };
                let n = sample.source;
                if n < *before {
                    assert!(self.new_replicas > 0, "{n} after {before}");
                    self.new_replicas -= 1;
                }
                assert_eq!(sample.len, SIZE - n as usize % 100);
                assert!(out[..sample.len].iter().all(|octet| *octet == n as u8), "{n} is torn");
                *before = n;
            }
        }
    }
}

fn lines(world: &World, count: usize, wishes: &[ReaderQoS]) -> Vec<Line> {
    let (near, far) = (world.library(0), world.library(1));
    (0..count).map(|number| Line::new(&near, &far, &format!("line-{number}"), wishes)).collect()
}

fn rounds(lines: &mut [Line], count: usize) {
    for _ in 0..count {
        for line in lines.iter_mut() {
            line.write();
            line.write();
        }
        lines.iter_mut().for_each(Line::all_have_it);
    }
}

/// Those of the near node that have pushed since records were kept.
fn threads_that_push(world: &World) -> usize {
    world.near.as_ref().unwrap().recorded().iter().filter(|thread| !thread.rows().is_empty()).count()
}

#[test]
fn values_cross_on_all_threads_and_paths_and_outlive_both_servers() {
    let mut world = world(|_, config| config.silence = SHORT);
    let paths = [Path::PathUdp, Path::PathOrb, Path::PathOneway];
    let wishes = paths.map(|through| ReaderQoS { through, ..on_write() });
    world.near.as_ref().unwrap().record(10_000);
    let mut lines = lines(&world, 6, &wishes);
    rounds(&mut lines, 20);
    assert_eq!(threads_that_push(&world), THREADS, "all of them push");
    let ports: HashSet<SocketAddr> = world.far.as_ref().unwrap().datagram_addresses().into_iter().collect();
    assert_eq!(ports.len(), THREADS);
    // The reader's node, then the writer's.
    for which in [1, 0] {
        if which == 1 {
            world.far = None;
            world.far = Some(world.start(1));
            lines.iter_mut().for_each(|line| line.new_replicas = paths.len());
        } else {
            world.near = None;
            world.near = Some(world.start(0));
            lines.iter_mut().for_each(|line| line.new_replicas = 0);
        }
        rounds(&mut lines, 5);
    }
    for (reader, _) in lines.iter_mut().flat_map(|line| &mut line.readers) {
        until_state(reader, State::Open);
    }
    // Channels that were opened anew, by whichever thread, have replaced those before.
    let deadline = Deadline::after(TIMEOUT);
    while world.near.as_ref().unwrap().counts().3 != 6 * paths.len() {
        let server = world.near.as_ref().unwrap();
        let areas: Vec<_> = server.status(100).0.areas.into_iter().map(|area| area.pushed_to).collect();
        assert!(!deadline.is_past(), "{:?}: {areas:?}", server.counts());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of channels with 4 KiB each tenth of a second that a node with this many threads
/// admits, and the refusal of the next.
fn admitted(world: &World, named: &str) -> (Vec<Line>, Error) {
    let (near, far) = (world.library(0), world.library(1));
    let request = ReaderQoS { guaranteed: true, deadline: 100_000_000, ..on_write() };
    let mut lines = Vec::new();
    loop {
        let name = format!("{named}-{}", lines.len());
        near.create_area(&area(&name, SIZE as u32)).unwrap();
        let writer =
            near.map_writer(&name, WriterQoS { period: 100_000_000, size: 0, type_hash: 0 }).unwrap();
        match far.attach_reader(&name, request) {
            Ok(reader) => lines.push(Line { writer, readers: vec![(reader, 0)], new_replicas: 0 }),
            Err(error) => return (lines, error),
        }
        assert!(lines.len() < 200, "there is no end to it");
    }
}

#[test]
fn threads_share_the_link_and_what_is_admitted_on_them_arrives() {
    let narrow = |_, config: &mut isorb_reflective_memory::node::ServerConfig| {
        config.admission.link_bits_per_s = 30_000_000;
    };
    let alone = World::configured(Box::new(narrow));
    let (of_one, _) = admitted(&alone, "sure");
    let world = world(narrow);
    world.near.as_ref().unwrap().record(10_000);
    let (mut lines, refused) = admitted(&world, "sure");
    // Together they get no more than one thread that has the link alone: each has a part of it.
    assert!(!lines.is_empty() && lines.len() <= of_one.len(), "{} and {}", lines.len(), of_one.len());
    let Error::NotAdmitted(refused) = refused else { panic!("{refused}") };
    assert!(refused.reason.contains("link"), "{}", refused.reason);
    rounds(&mut lines, 5);
    assert!(threads_that_push(&world) > 1, "they are on several threads");
    // A released share is admitted again.
    drop(lines.pop());
    let (again, _) = admitted(&world, "again");
    assert_eq!(again.len(), 1);
}

#[test]
fn groups_are_joined_and_left_on_all_threads() {
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let group = SocketAddr::new(Ipv4Addr::new(239, 255, 79, 1).into(), port);
    let world = world(move |_, config| config.dispatcher.multicast = Some(group));
    world.near.as_ref().unwrap().record(10_000);
    let request = ReaderQoS { through: Path::PathMulticast, ..on_write() };
    let mut lines = lines(&world, 6, &[request, ReaderQoS { histories: 1, ..request }]);
    rounds(&mut lines, 10);
    assert_eq!(threads_that_push(&world), THREADS, "all of them push");
    // One of the two leaves, then the other.
    lines.iter_mut().for_each(|line| drop(line.readers.pop()));
    rounds(&mut lines, 5);
    lines.iter_mut().for_each(|line| line.readers.clear());
    assert_eq!(world.near.as_ref().unwrap().counts().3, 0, "nothing is pushed without readers");
}

#[test]
fn all_threads_go_over_to_the_second_path() {
    // The published first path leads nowhere.
    let unreachable = IpAddr::V4(Ipv4Addr::new(127, 66, 66, 66));
    let world = world(move |which, config| {
        config.dispatcher.second = Some("127.0.0.1:0".parse().unwrap());
        config.publish = (which == 1).then_some(unreachable);
        // After two thirds of it they change to the second path, and arrive again in the last
        // third.
        config.silence = Duration::from_secs(9);
    });
    let mut lines = lines(&world, 6, &[on_write()]);
    rounds(&mut lines, 10);
    let (status, _) = world.far.as_ref().unwrap().status(10);
    for replica in &status.replicas {
        assert_eq!(replica.counts.unwrap().switches, 1, "{replica:?}");
    }
    for (reader, _) in lines.iter_mut().flat_map(|line| &mut line.readers) {
        until_state(reader, State::Open);
    }
}
