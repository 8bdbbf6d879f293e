//! A writer's promise of the size of its largest value, by which its guaranteed readers are
//! admitted.

mod world;

use isorb::Reference;
use isorb_reflective_memory::idl::{RIORef, ReaderQoS, WriterQoS, rio};
use isorb_reflective_memory::{Error, Rio};
use isorb_testkit::wait_until;
use world::*;

/// A value of the area's size would take the whole link.
const SIZE: u32 = 1 << 20;
const SMALL: WriterQoS = WriterQoS { period: 50_000_000, size: 1_000, type_hash: 0 };

fn sure() -> ReaderQoS {
    ReaderQoS { guaranteed: true, deadline: 50_000_000, ..on_write() }
}

#[test]
fn readers_are_admitted_by_the_size_that_is_promised() {
    let mut world = World::of_mortals();
    let (near, far) = (world.library(0), world.library(1));
    for (name, promise) in [("small", SMALL), ("large", WriterQoS { size: 0, ..SMALL })] {
        near.create_area(&area(name, SIZE)).unwrap();
        let mut writer = near.map_writer(name, promise).unwrap();
        match (far.attach_reader(name, sure()), promise.size) {
            (Ok(mut reader), 1_000) => {
                assert_eq!(writer.size(), 1_000);
                let refused = writer.write(&[1; 1_001]).unwrap_err();
                assert_eq!((refused.len, refused.limit), (1_001, 1_000));
                assert!(writer.write_with(1_001, |_| panic!("it is refused before")).is_err());
                assert_eq!(writer.write(&[2; 1_000]).unwrap(), 1);
                assert_eq!(until(&mut reader, 1), [2; 1_000]);

                // The next writer must keep to the size of the guarantee; its other promises are
                // its own.
                drop(writer);
                match near.map_writer(name, WriterQoS { size: 2_000, ..SMALL }) {
                    Err(Error::WrongSize(error)) => {
                        assert_eq!((error.requested, error.limit), (2_000, 1_000))
                    }
                    other => panic!("{other:?}"),
                }
                // The promise outlives the server.
                let mut writer = near.map_writer(name, SMALL).unwrap();
                world.near = None;
                world.near = Some(world.start(0));
                wait_until("the guaranteed channel is back", || {
                    world.near.as_ref().unwrap().status(10).0.guaranteed > 0
                });
                let number = writer.write(&[3; 1_000]).unwrap();
                assert_eq!(until(&mut reader, number), [3; 1_000]);
            }
            (Err(Error::NotAdmitted(error)), 0) => {
                assert!(error.reason.contains("cannot be admitted"), "{}", error.reason);
            }
            (other, size) => panic!("{size}: {other:?}"),
        }
    }
    match near.map_writer("large", WriterQoS { size: SIZE + 1, ..SMALL }) {
        Err(Error::WrongSize(error)) => {
            assert_eq!((error.requested, error.limit), (u64::from(SIZE) + 1, u64::from(SIZE)))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_promise_and_its_refusals_go_by_giop() {
    let world = World::new();
    let (rio, _) = Rio::activate(&world.app, &world.library(0)).unwrap();
    world.app.root_poa().unwrap().manager().activate().unwrap();
    let rio: RIORef = world.coordinator.resolve(&rio.object().to_string()).unwrap();
    rio.create_area(&area("tank", 100)).unwrap();
    match rio.map_writer("tank", WriterQoS { period: 0, size: 101, type_hash: 0 }) {
        Err(rio::MapWriterError::WrongSize(error)) => assert_eq!((error.requested, error.limit), (101, 100)),
        other => panic!("{other:?}"),
    }
    let writer = rio.map_writer("tank", WriterQoS { period: 0, size: 10, type_hash: 0 }).unwrap();
    match rio.write(writer, &[0; 11]) {
        Err(rio::WriteError::WrongSize(error)) => assert_eq!((error.requested, error.limit), (11, 10)),
        other => panic!("{other:?}"),
    }
    rio.write(writer, &[0; 10]).unwrap();
}
