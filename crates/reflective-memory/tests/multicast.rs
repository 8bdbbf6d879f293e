//! An area that several nodes read goes over the wire once.

mod world;

use isorb_reflective_memory::idl::{Glob_CommRef, Path, ReaderQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{AreaReader, Error, Library};
use isorb_testkit::{RunningOrb, wait_until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use world::*;

const SIZE: usize = 20_000;

/// A group with a port of its own.
fn group() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(239, 255, 77, 1).into(), free_port())
}

fn free_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

fn qos() -> ReaderQoS {
    ReaderQoS { through: Path::PathMulticast, ..on_write() }
}

/// Waits for the value; every value is whole.
fn whole(reader: &mut AreaReader, number: u64) {
    let value = until(reader, number);
    assert!(value.len() == SIZE && value.iter().all(|octet| *octet == value[0]), "torn");
}

#[test]
fn one_push_reaches_all_nodes_and_each_counts_for_itself() {
    let group = group();
    let world = World::configured(Box::new(move |_, config| config.dispatcher.multicast = Some(group)));
    let third_orb = RunningOrb::new();
    let socket = world.sockets[0].with_extension("third");
    let mut config = ServerConfig { silence: SILENCE, ..ServerConfig::new("third", &socket) };
    config.dispatcher.multicast = Some(group);
    let glob: Glob_CommRef = third_orb.resolve(&world.glob).unwrap();
    let third_server = NodeServer::start(&third_orb, config, Some(glob)).unwrap();
    let (near, far) = (world.library(0), world.library(1));
    let third = Library::connect(&world.app, &socket).unwrap();
    near.create_area(&area("radar", SIZE as u32)).unwrap();
    let mut writer = near.map_writer("radar", QOS).unwrap();
    let status = || world.near.as_ref().unwrap().status(10).0;

    let mut first = far.attach_reader("radar", qos()).unwrap();
    let mut number = 0;
    let mut write = |readers: &mut [&mut AreaReader]| {
        number = writer.write(&[number as u8; SIZE]).unwrap();
        readers.iter_mut().for_each(|reader| whole(reader, number));
        number
    };
    for _ in 0..10 {
        write(&mut [&mut first]);
    }
    // A later reader has missed nothing and gets the present value at once.
    let mut second = third.attach_reader("radar", qos()).unwrap();
    whole(&mut second, 10);
    let pushed = || world.near.as_ref().unwrap().pushes(10)[0].counts.pushes;
    let before = pushed();
    for _ in 0..20 {
        write(&mut [&mut first, &mut second]);
    }
    let pushes = pushed() - before;
    assert_eq!(pushes, 20, "two nodes, one push a value");
    assert_eq!(world.near.as_ref().unwrap().counts().3, 3, "the group and two parts in it");
    let lost = second.statistics().unwrap().lost;
    assert!(lost < 10, "what went before it joined counts as lost: {lost}");

    // A reader that stops does not affect the other.
    first.set_running(false).unwrap();
    until_state(&mut first, State::Stopped);
    let last = write(&mut [&mut second]);
    first.set_running(true).unwrap();
    whole(&mut first, last);
    until_state(&mut first, State::Open);

    // The reader's server is restarted, or leaves.
    drop(third_server);
    let mut config = ServerConfig { silence: SILENCE, ..ServerConfig::new("third", &socket) };
    config.dispatcher.multicast = Some(group);
    let glob: Glob_CommRef = third_orb.resolve(&world.glob).unwrap();
    let third_server = NodeServer::start(&third_orb, config, Some(glob)).unwrap();
    wait_until("the reader is back", || status().areas[0].pushed_to.iter().any(|(node, _)| node == "third"));
    write(&mut [&mut first, &mut second]);
    drop(second);
    wait_until("it left", || world.near.as_ref().unwrap().counts().3 == 2);
    write(&mut [&mut first]);
    drop(first);
    wait_until("the group ends with its last", || world.near.as_ref().unwrap().counts().3 == 0);
    drop((third, third_server));
}

#[test]
fn a_group_is_admitted_once() {
    let group = group();
    let world = World::configured(Box::new(move |_, config| config.dispatcher.multicast = Some(group)));
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("gauge", 64)).unwrap();
    let mut writer = near.map_writer("gauge", QOS).unwrap();
    let sure = ReaderQoS { guaranteed: true, deadline: 50_000_000, ..qos() };
    let guaranteed = |which: usize| {
        let server = [&world.near, &world.far][which].as_ref().unwrap();
        server.status(10).0.guaranteed
    };
    let mut one = far.attach_reader("gauge", sure).unwrap();
    assert_eq!((guaranteed(0), guaranteed(1)), (1, 1));
    // A reader with the same requirements on the same node shares the replica; other requirements
    // make another group.
    let two = far.attach_reader("gauge", sure).unwrap();
    assert_eq!((guaranteed(0), guaranteed(1)), (1, 1));
    let other = far.attach_reader("gauge", ReaderQoS { deadline: 60_000_000, ..sure }).unwrap();
    assert_eq!((guaranteed(0), guaranteed(1)), (2, 2));
    writer.write(b"7").unwrap();
    assert_eq!(until(&mut one, 1), b"7");
    drop((one, two, other));
    assert_eq!((guaranteed(0), guaranteed(1)), (0, 0));
}

#[test]
fn a_node_without_multicast_says_so() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("gauge", 64)).unwrap();
    match far.attach_reader("gauge", qos()) {
        Err(Error::Unavailable(error)) => assert!(error.reason.contains("multicast"), "{}", error.reason),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.near.as_ref().unwrap().counts().3, 0);
}

#[test]
fn groups_and_addresses_are_of_one_family() {
    let group = group();
    let world = World::new();
    let mut config = ServerConfig::new("third", world.sockets[0].with_extension("third"));
    config.dispatcher.udp = "[::1]:0".parse().unwrap();
    config.dispatcher.multicast = Some(group);
    if UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    let error = NodeServer::start(&world.app, config, None).unwrap_err().to_string();
    assert!(error.contains("of the same family"), "{error}");
}
