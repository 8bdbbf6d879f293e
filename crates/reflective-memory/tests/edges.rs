//! Requests at the limits of their ranges, values read in place, and calls between nodes from
//! outsiders.

mod world;

use isorb::Reference;
use isorb_reflective_memory::Error;
use isorb_reflective_memory::idl::{self, CRM_CommRef, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::{ReadError, State};
use isorb_testkit::wait_until;
use std::time::Duration;
use world::*;

const LONGEST: u64 = u64::MAX;

fn world() -> World {
    // No node counts as dead because the machine is busy.
    World::configured(Box::new(|_, config| config.silence = Duration::from_secs(30)))
}

/// "None" may be said as the largest number there is.
#[test]
fn the_longest_deadlines_and_periods_are_none() {
    let mut world = world();
    let (near, far) = (world.library(0), world.library(1));
    let paths = [Path::PathUdp, Path::PathOrb, Path::PathOneway];
    for (name, period) in [("promised", LONGEST), ("unpromised", 0)] {
        near.create_area(&area(name, 64)).unwrap();
        let mut writer = near.map_writer(name, WriterQoS { period, size: 0, type_hash: 0 }).unwrap();
        let mut readers = Vec::new();
        for (library, through) in [(&near, paths[0]), (&far, paths[0]), (&far, paths[1]), (&far, paths[2])] {
            for deadline in [LONGEST, LONGEST - 1, 1 << 63] {
                let request = ReaderQoS { deadline, through, ..on_write() };
                readers.push(library.attach_reader(name, request).unwrap());
                // The first push of such a channel comes at once, the next never.
                let request = ReaderQoS { how: Mode::PeriodicPush, period: LONGEST, ..request };
                drop(library.attach_reader(name, request).unwrap());
            }
        }
        let last = writer.write(&[1; 64]).unwrap();
        for reader in &mut readers {
            assert_eq!(until(reader, last), [1; 64]);
            assert_eq!(reader.state(), Some(State::Open), "not too old for a deadline that never comes");
            assert_eq!(reader.statistics().unwrap().stale, 0);
        }
        let sure = ReaderQoS { guaranteed: true, deadline: LONGEST, ..on_write() };
        match (far.attach_reader(name, sure), period) {
            (Ok(mut reader), LONGEST) => assert_eq!(until(&mut reader, last), [1; 64]),
            (Err(Error::NotAdmitted(_)), _) => {}
            (other, period) => panic!("{period}: {other:?}"),
        }
        // The same when the channels are opened anew.
        world.far = None;
        world.far = Some(world.start(1));
        let last = writer.write(&[2; 64]).unwrap();
        for reader in &mut readers {
            assert_eq!(until(reader, last), [2; 64]);
        }
    }
}

#[test]
fn values_are_written_and_read_in_place_near_and_far() {
    let world = world();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("line", 1_000)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let mut readers = [&near, &far].map(|library| library.attach_reader("line", on_write()).unwrap());
    for reader in &mut readers {
        assert!(matches!(reader.read_with(|_| ()), Err(ReadError::Empty)));
    }
    for n in 1..=50_u8 {
        let len = 1_000 - usize::from(n);
        let number = writer
            .write_with(len, |cells| {
                assert_eq!(cells.len(), 1_000, "the place of the largest value");
                let (first, second) = (vec![n; len / 2], vec![!n; len - len / 2]);
                cells.put(len / 2, &second).unwrap();
                cells.put(0, &first).unwrap();
                assert!(cells.put(1_000, &[0]).is_err(), "behind its end there is nothing");
            })
            .unwrap();
        assert_eq!(number, u64::from(n));
        for reader in &mut readers {
            // Its doorbell rang for the other node.
            until(reader, number);
            let (seen, sample) = reader
                .read_with(|view| {
                    let mut copy = vec![0; view.len()];
                    view.copy_to(0, &mut copy).unwrap();
                    (copy, view.bytes::<1>(view.len()).is_err())
                })
                .unwrap();
            assert_eq!((sample.source, sample.len, seen.0.len(), seen.1), (number, len, len, true));
            let (first, second) = seen.0.split_at(len / 2);
            assert!(first.iter().all(|octet| *octet == n) && second.iter().all(|octet| *octet == !n));
        }
    }
}

/// Any client that resolves a node's server may call it. The handles of other clients' channels
/// cannot be guessed.
#[test]
fn guessed_handles_close_and_stop_no_channel() {
    let world = world();
    let (mut writer, mut reader) = world.line(64);
    let glob: Glob_CommRef = world.app.resolve(&world.glob).unwrap();
    let node = glob.list_nodes().unwrap().into_iter().find(|node| node.name == "near").unwrap();
    let server: CRM_CommRef = node.server.unwrap();
    assert!(!server.object().to_string().is_empty());
    let handle = world.far.as_ref().unwrap().status(1).0.replicas[0].handle;
    assert!(handle > 1_000, "{handle} is found by counting");
    for which in 0..1_000 {
        assert!(server.set_running(which, false).is_err() && server.close_channel(which).is_err());
    }
    assert_eq!(world.near.as_ref().unwrap().counts().3, 1);
    let last = writer.write(&[7; 64]).unwrap();
    assert_eq!(until(&mut reader, last), [7; 64]);
    // A client with the handle may.
    server.set_running(handle, false).unwrap();
    until_state(&mut reader, State::Stopped);
    // Nonsense is refused, and changes nothing.
    let times = idl::Times { sent: 1, answered: 2, answer_arrived: 3 };
    assert!(server.beat(u32::MAX, 1, idl::State::StateOpen, times).is_err());
    assert!(!server.push(u32::MAX, 1, 1, 1, 1, 0, 0, b"nothing").unwrap());
    server.set_running(handle, true).unwrap();
    wait_until("the state is open", || reader.state() == Some(State::Open));
}
