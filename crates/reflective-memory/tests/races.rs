//! Concurrent set-up: of two equal requests one succeeds, and no state is left over.

mod world;

use isorb_reflective_memory::idl::Glob_CommRef;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{AreaWriter, Error};
use isorb_testkit::{RunningOrb, wait_until};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use world::*;

#[test]
fn of_two_clients_that_create_one_name_one_succeeds() {
    let world = World::new();
    let libraries = [world.library(0), world.library(0)];
    for round in 0..100 {
        let (name, start) = (format!("area/{round}"), Barrier::new(2));
        let made = std::thread::scope(|scope| {
            let tries = libraries.each_ref().map(|library| {
                scope.spawn(|| {
                    start.wait();
                    library.create_area(&area(&name, 64))
                })
            });
            tries.map(|made| made.join().unwrap())
        });
        let refused: Vec<&Error> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        assert!(
            matches!(&*refused, [Error::AreaExists(other)] if other.what.name == name),
            "{round}: {made:?}"
        );
    }
    assert_eq!(world.near.as_ref().unwrap().counts().0, 100);
}

#[test]
fn readers_that_leave_together_leave_no_channel() {
    let world = World::new();
    let (near, far) = (world.library(0), [(); 4].map(|()| world.library(1)));
    near.create_area(&area("shared", 64)).unwrap();
    let _writer = near.map_writer("shared", QOS).unwrap();
    for round in 0..300 {
        // By one channel.
        let readers = far.each_ref().map(|library| library.attach_reader("shared", on_write()).unwrap());
        assert_eq!(world.near.as_ref().unwrap().counts().3, 1, "round {round}");
        let start = Barrier::new(readers.len());
        std::thread::scope(|scope| {
            for reader in readers {
                scope.spawn(|| {
                    start.wait();
                    drop(reader);
                });
            }
        });
        let gone = || world.near.as_ref().unwrap().counts().3 == 0;
        wait_until(format!("round {round}: the channel is still there"), gone);
    }
}

#[test]
fn a_writer_rings_while_another_node_reads_and_no_longer() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("idle", 64)).unwrap();
    let mut writer = near.map_writer("idle", QOS).unwrap();
    let _here = near.attach_reader("idle", on_write()).unwrap();
    assert!(!writer.rings(), "no other node reads it");
    for _ in 0..3 {
        let mut first = far.attach_reader("idle", on_write()).unwrap();
        let every = isorb_reflective_memory::idl::ReaderQoS { deadline: 1_000_000_000, ..on_write() };
        let mut second = far.attach_reader("idle", every).unwrap();
        assert!(writer.rings());
        let last = writer.write(b"news").unwrap();
        assert_eq!((until(&mut first, last), until(&mut second, last)), (b"news".to_vec(), b"news".to_vec()));
        drop(first);
        wait_until("one of two channels ends", || world.near.as_ref().unwrap().counts().3 == 1);
        assert!(writer.rings(), "the other goes on");
        let last = writer.write(b"more").unwrap();
        assert_eq!(until(&mut second, last), b"more");
        drop(second);
        wait_until("it still rings", || !writer.rings());
    }
}

#[test]
fn a_second_server_of_one_name_is_refused_while_the_first_answers() {
    let mut world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("own", 64)).unwrap();
    let orb = RunningOrb::new();
    let glob: Glob_CommRef = orb.resolve(&world.glob).unwrap();
    let second = || {
        NodeServer::start(
            &orb,
            ServerConfig::new("near", world.sockets[0].with_extension("2")),
            Some(glob.clone()),
        )
    };
    match second() {
        Err(Error::Unavailable(refused)) => {
            assert!(refused.reason.contains("there is a node near already"), "{}", refused.reason);
        }
        other => panic!("{other:?}"),
    }
    // The first has kept its own area.
    assert!(far.attach_reader("own", on_write()).is_ok());
    // It ends; its name is free.
    drop(near);
    world.near = None;
    assert!(second().is_ok());
}

#[test]
fn a_writer_knows_that_no_server_takes_its_area_back_and_it_is_offered_again() {
    let room = Arc::new(AtomicUsize::new(10));
    let areas = room.clone();
    let mut world =
        World::configured(Box::new(move |_, config| config.limits.areas = areas.load(Ordering::Relaxed)));
    let (near, far) = (world.library(0), world.library(1));
    let mut writers = ["first", "second"].map(|name| {
        near.create_area(&area(name, 64)).unwrap();
        near.map_writer(name, QOS).unwrap()
    });
    assert!(writers.iter().all(AreaWriter::is_served));
    let mut here = ["first", "second"].map(|name| near.attach_reader(name, on_write()).unwrap());
    world.near = None;
    wait_until("a server seems to be there", || !writers.iter().any(AreaWriter::is_served));
    room.store(1, Ordering::Relaxed);
    world.near = Some(world.start(0));
    let served = |writers: &[AreaWriter; 2]| writers.iter().filter(|writer| writer.is_served()).count();
    wait_until("one has room", || served(&writers) == 1);
    let refused = writers.iter().position(|writer| !writer.is_served()).unwrap();
    // Processes that have it mapped continue.
    let last = writers[refused].write(b"unserved").unwrap();
    assert_eq!(until(&mut here[refused], last), b"unserved");
    let in_the_way = ["second", "first"][refused];
    near.destroy_area(in_the_way).unwrap();
    wait_until("it is not taken back", || writers[refused].is_served());
    let mut there = far.attach_reader(["first", "second"][refused], on_write()).unwrap();
    assert_eq!(until(&mut there, last), b"unserved");
    let last = writers[refused].write(b"served").unwrap();
    assert_eq!(until(&mut there, last), b"served");
}
