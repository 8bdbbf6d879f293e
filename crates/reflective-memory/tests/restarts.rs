//! The server of a reader's own node is restarted: the reader gets another replica, and continues
//! there after the last value that it read.

mod world;

use isorb_reflective_memory::AreaReader;
use isorb_reflective_memory::idl::{Path, ReaderQoS};
use isorb_reflective_memory::memory::{ReadError, WaitError};
use isorb_rt::time::Deadline;
use isorb_testkit::{wait_for, wait_until};
use std::time::Duration;
use world::*;

/// The next value that was not read.
fn next(reader: &mut AreaReader) -> (u64, u8) {
    let mut out = vec![0; reader.size()];
    wait_for("a value", || Some((reader.next(&mut out).ok()??.source, out[0])))
}

/// The retained values that a reader has not read.
fn rest(reader: &mut AreaReader) -> Vec<u64> {
    let (mut out, mut all) = (vec![0; reader.size()], Vec::new());
    while let Some(sample) = reader.next(&mut out).unwrap() {
        all.push(sample.source);
    }
    all
}

#[test]
fn what_was_read_does_not_come_again_by_any_path() {
    for through in [Path::PathUdp, Path::PathOrb, Path::PathOneway] {
        let mut world = World::new();
        let (near, far) = (world.library(0), world.library(1));
        near.create_area(&area("line", 64)).unwrap();
        let mut writer = near.map_writer("line", QOS).unwrap();
        let request = ReaderQoS { through, histories: 3, ..on_write() };
        let [mut one, mut two] = [(); 2].map(|()| far.attach_reader("line", request).unwrap());
        for n in 1..=5 {
            writer.write(&[n; 64]).unwrap();
            assert_eq!(next(&mut one), (n.into(), n), "{through:?}");
        }
        assert_eq!(until(&mut two, 5), [5; 64]);

        world.far = None;
        world.far = Some(world.start(1));
        let moved = || {
            let (status, _) = world.far.as_ref().unwrap().status(10);
            status.replicas.iter().any(|replica| replica.readers == 2)
        };
        wait_until(format!("{through:?}: the readers are attached again"), moved);
        // A new reader reads the replica from its beginning, with the same values.
        let mut fresh = far.attach_reader("line", request).unwrap();
        until(&mut fresh, 5);
        let again = rest(&mut far.attach_reader("line", request).unwrap());
        let kept: &[u64] = if through == Path::PathUdp { &[5] } else { &[2, 3, 4, 5] };
        assert_eq!(again, kept, "{through:?}");
        // The former readers have read them.
        for reader in [&mut one, &mut two] {
            assert!(!reader.has_new(), "{through:?}");
            assert_eq!(reader.wait(Duration::from_millis(1)), Err(WaitError::TimedOut), "{through:?}");
            assert_eq!(until(reader, 5), [5; 64]);
        }
        for n in 6..=8 {
            writer.write(&[n; 64]).unwrap();
            assert_eq!(next(&mut one), (n.into(), n), "{through:?}");
        }
        assert_eq!(until(&mut two, 8), [8; 64]);
        assert_eq!(one.next(&mut [0; 64]).unwrap(), None);
    }
}

#[test]
fn a_sleeping_reader_is_woken_by_the_other_replica() {
    let mut world = World::new();
    let (mut writer, mut reader) = world.line(64);
    writer.write(&[1; 64]).unwrap();
    until(&mut reader, 1);
    let sleeper = std::thread::spawn(move || {
        let end = Deadline::after(TIMEOUT);
        // The state changes meanwhile.
        while let Err(error) = reader.wait(TIMEOUT) {
            assert!(!end.is_past(), "{error}");
        }
        let mut out = [0; 64];
        (reader.latest(&mut out).unwrap().source, out)
    });
    // It probably sleeps by now; its result does not depend on that.
    std::thread::sleep(Duration::from_millis(100));
    world.far = None;
    world.far = Some(world.start(1));
    writer.write(&[2; 64]).unwrap();
    assert_eq!(sleeper.join().unwrap(), (2, [2; 64]));
}

/// The area was created anew while the reader's node had no server: its numbers begin anew, and do
/// not count as old ones.
#[test]
fn another_area_of_that_name_is_read_from_its_beginning() {
    let mut world = World::new();
    let near = world.library(0);
    let (mut writer, mut reader) = world.line(64);
    for n in 1..=5 {
        writer.write(&[n; 64]).unwrap();
        until(&mut reader, n.into());
    }
    world.far = None;
    drop(writer);
    near.destroy_area("line").unwrap();
    near.create_area(&area("line", 64)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    writer.write(&[9; 64]).unwrap();
    world.far = Some(world.start(1));
    let mut out = [0; 64];
    let source = wait_for("the other area's value", || match reader.latest(&mut out) {
        Ok(sample) => (out == [9; 64]).then_some(sample.source),
        Err(ReadError::Empty) => None,
        Err(error) => panic!("{error}"),
    });
    assert_eq!(source, 1);
}
