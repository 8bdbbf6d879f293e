//! Writers ring after a write, and only the agents of that area are checked. Nothing is pushed a
//! second time here: a value without a ring never arrives.

mod world;

use isorb_reflective_memory::idl::{ReaderQoS, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter, Library};
use std::time::Duration;
use world::*;

fn without_refresh(dispatchers: usize) -> World {
    without_refresh_and_silent(dispatchers, SILENCE)
}

fn without_refresh_and_silent(dispatchers: usize, silence: Duration) -> World {
    World::configured(Box::new(move |_, config| {
        config.silence = silence;
        config.dispatcher.scheduler.refresh_ns = 0;
        config.dispatchers = dispatchers;
    }))
}

fn writer(library: &Library, name: &str) -> AreaWriter {
    library.create_area(&area(name, 64)).unwrap();
    library.map_writer(name, QOS).unwrap()
}

fn looks(world: &World) -> u64 {
    world.near.as_ref().unwrap().status(0).0.looks
}

#[test]
fn one_of_a_thousand_areas_of_a_process_is_looked_at() {
    let world = without_refresh(1);
    let (near, far) = (world.library(0), world.library(1));
    let mut areas: Vec<(AreaWriter, AreaReader)> = (0..1000)
        .map(|number| {
            let name = format!("area/{number}");
            (writer(&near, &name), far.attach_reader(&name, on_write()).unwrap())
        })
        .collect();
    assert_eq!(looks(&world), 0);
    let (writer, reader) = &mut areas[613];
    let number = writer.write(b"news").unwrap();
    assert_eq!(until(reader, number), b"news");
    assert_eq!(looks(&world), 1, "agents looked for one value of one area");
    // An area that two nodes read in different ways has two agents, and both are checked.
    let every = ReaderQoS { deadline: 1_000_000_000, ..on_write() };
    let mut other = far.attach_reader("area/613", every).unwrap();
    let number = writer.write(b"more").unwrap();
    assert_eq!((until(reader, number), until(&mut other, number)), (b"more".to_vec(), b"more".to_vec()));
    assert_eq!(looks(&world), 3);
}

#[test]
fn a_channel_that_is_opened_while_the_writer_writes_misses_nothing() {
    let world = without_refresh(2);
    let (near, far) = (world.library(0), world.library(1));
    for round in 0..60_u64 {
        let name = format!("area/{round}");
        let mut writer = writer(&near, &name);
        let (numbers, mut reader) = std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                // From before the reader is there until after it: some other moment in each round.
                for _ in 0..round % 10 {
                    writer.write(b"some").unwrap();
                    std::thread::sleep(Duration::from_micros(round * 8));
                }
                writer.write(b"last").unwrap()
            });
            let reader = far.attach_reader(&name, on_write()).unwrap();
            (writes.join().unwrap(), reader)
        });
        assert_eq!(until(&mut reader, numbers), b"last", "round {round}");
    }
}

#[test]
fn the_next_writer_wakes_readers() {
    let world = without_refresh(2);
    let (near, far) = (world.library(0), world.library(1));
    let first = writer(&near, "tank");
    let mut readers: Vec<AreaReader> = (0..4)
        .map(|n| far.attach_reader("tank", ReaderQoS { deadline: 1_000_000_000 + n, ..on_write() }).unwrap())
        .collect();
    let mut writer = Some(first);
    for round in 0..20 {
        // A process that is gone, or another of this one's: it has a doorbell of its own.
        let other = world.library(0);
        drop(writer.take());
        let library = if round % 2 == 0 { &other } else { &near };
        let mut next = library.map_writer("tank", WriterQoS { period: 0, size: 0, type_hash: 0 }).unwrap();
        for _ in 0..3 {
            let number = next.write(b"next").unwrap();
            readers.iter_mut().for_each(|reader| assert_eq!(until(reader, number), b"next"));
        }
        writer = Some(next);
    }
}

#[test]
fn readers_of_a_process_share_an_areas_memory() {
    let world = without_refresh(1);
    let (near, far) = (world.library(0), world.library(1));
    let mut writer = writer(&near, "shared by many");
    // By its name in the list of what this process has mapped.
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("isorb-memory:shared by many")).count()
    };
    let mut readers = vec![near.attach_reader("shared by many", on_write()).unwrap()];
    readers.push(far.attach_reader("shared by many", on_write()).unwrap());
    let before = mapped();
    for library in [&near, &far].repeat(10) {
        readers.push(library.attach_reader("shared by many", on_write()).unwrap());
    }
    assert_eq!(mapped(), before, "beside the first readers' memory");
    assert!(before >= 4, "the server's, the writer's, the replica's, two readers'");
    let number = writer.write(b"for all").unwrap();
    readers.iter_mut().for_each(|reader| assert_eq!(until(reader, number), b"for all"));
    // A writer that ends leaves the other areas alone.
    readers.drain(..12);
    let number = writer.write(b"for others").unwrap();
    readers.iter_mut().for_each(|reader| assert_eq!(until(reader, number), b"for others"));
}

#[test]
fn an_area_that_is_handed_back_still_wakes_readers() {
    let mut world = without_refresh_and_silent(1, SHORT);
    let (near, far) = (world.library(0), world.library(1));
    let mut writer = writer(&near, "tank");
    let mut reader = far.attach_reader("tank", on_write()).unwrap();
    for _ in 0..3 {
        world.near = None;
        // It writes on, whatever becomes of the server: the last value comes at some other moment
        // of its return in each round.
        let ends = std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                let mut last = 0;
                for _ in 0..400 {
                    last = writer.write(b"goes on").unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
                last
            });
            world.near = Some(world.start(0));
            writes.join().unwrap()
        });
        assert_eq!(until(&mut reader, ends), b"goes on");
        let number = writer.write(b"is heard").unwrap();
        assert_eq!(until(&mut reader, number), b"is heard");
    }
}
