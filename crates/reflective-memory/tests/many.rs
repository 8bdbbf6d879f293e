//! A thousand areas and ten thousand readers in ten sessions, one of them on another node, while
//! values flow.

mod world;

use isorb_reflective_memory::{AreaReader, AreaWriter, Library};
use isorb_rt::time::Deadline;
use isorb_testkit::wait_until;
use std::time::{Duration, Instant};
use world::*;

const AREAS: usize = 1_000;
/// Of the writers' node; three of them write as well.
const NEAR: usize = 9;
const SIZE: usize = 64;

/// A value of one area is none of another.
fn value(area: usize, n: u64) -> [u8; SIZE] {
    let mut value = [n as u8; SIZE];
    value[..8].copy_from_slice(&(area as u64).to_be_bytes());
    value
}

fn number(area: usize, reader: &mut AreaReader) -> u64 {
    let mut out = [0; SIZE];
    let Ok(sample) = reader.latest(&mut out) else { return 0 };
    assert_eq!(out, value(area, sample.source), "of area {area}");
    sample.source
}

fn attach(library: &Library) -> Vec<AreaReader> {
    (0..AREAS).map(|number| library.attach_reader(&format!("area-{number}"), on_write()).unwrap()).collect()
}

#[test]
fn ten_thousand_readers_of_a_thousand_areas_get_every_last_value() {
    let (soft, hard) = {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        (limit.current, limit.maximum)
    };
    if hard.is_some_and(|hard| hard < 20_000) {
        println!("SKIPPED: a process may have {hard:?} descriptors ({soft:?} before)");
        return;
    }
    let world = World::configured(Box::new(|_, config| {
        (config.dispatcher.scheduler.pushes, config.dispatcher.scheduler.receives) = (AREAS, AREAS);
        // A busy machine is late, which is no death.
        config.silence = Duration::from_secs(60);
    }));
    let libraries: Vec<Library> = (0..NEAR).map(|_| world.library(0)).collect();
    let far = world.library(1);
    let start = Instant::now();
    let make = |number: usize| {
        let (library, name) = (&libraries[number % 3], format!("area-{number}"));
        library.create_area(&area(&name, SIZE as u32)).unwrap();
        library.map_writer(&name, QOS).unwrap()
    };
    let mut writers: Vec<AreaWriter> = (0..AREAS).map(make).collect();
    // Values flow while readers come.
    let (near, mut there) = std::thread::scope(|scope| {
        let near: Vec<_> = libraries.iter().map(|library| scope.spawn(|| attach(library))).collect();
        let there = scope.spawn(|| attach(&far));
        while !there.is_finished() || near.iter().any(|thread| !thread.is_finished()) {
            for (number, writer) in writers.iter_mut().enumerate() {
                writer.write(&value(number, writer.sequence() + 1)).unwrap();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let near: Vec<_> = near.into_iter().map(|thread| thread.join().unwrap()).collect();
        (near, there.join().unwrap())
    });
    let mut here: Vec<(usize, AreaReader)> =
        near.into_iter().flat_map(|readers| readers.into_iter().enumerate()).collect();
    assert_eq!(here.len() + there.len(), 10_000);
    println!("{} readers of {AREAS} areas in {:?}", here.len() + there.len(), start.elapsed());
    for _ in 0..5 {
        for (number, writer) in writers.iter_mut().enumerate() {
            writer.write(&value(number, writer.sequence() + 1)).unwrap();
        }
        for (area, reader) in &mut here {
            assert_eq!(
                number(*area, reader),
                writers[*area].sequence(),
                "a reader beside its writer has it at once"
            );
        }
        let deadline = Deadline::after(TIMEOUT);
        for (area, reader) in there.iter_mut().enumerate() {
            while number(area, reader) < writers[area].sequence() {
                assert!(!deadline.is_past(), "area {area} at {}", number(area, reader));
                let _ = reader.wait(Duration::from_millis(50));
            }
        }
    }
    // A value of one area reaches all of its readers, and no agent of another area is checked.
    let next = writers[500].sequence() + 1;
    let last = writers[500].write(&value(500, next)).unwrap();
    assert!(
        here.iter_mut().filter(|(area, _)| *area == 500).all(|(area, reader)| number(*area, reader) == last)
    );
    println!("and five rounds of values in {:?}", start.elapsed());
    drop((here, there));
    let server = world.near.as_ref().unwrap();
    wait_until("the counts", || (server.counts().2, server.counts().3) == (AREAS, 0));
}
