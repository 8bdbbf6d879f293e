//! Readers of several areas: all that match a pattern, and the strongest living writer of some.

mod world;

use isorb_reflective_memory::idl::ReaderQoS;
use isorb_reflective_memory::{AreaSet, Error, Shown, area_type};
use isorb_testkit::{wait_for, wait_until};
use std::collections::BTreeMap;
use std::time::Duration;
use world::*;

area_type! {
    "IDL:Plant/Level:1.0";
    struct Level {
        metres: f64,
    }
}

/// Reads until each of these areas has shown this value last.
fn until_all(set: &mut AreaSet, wanted: &[(&str, &[u8])]) {
    let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    wait_until(format!("{wanted:?}"), || {
        if let Some(reader) = set.wait(Duration::from_millis(100)) {
            let mut out = vec![0; reader.size()];
            if let Ok(sample) = reader.latest(&mut out) {
                seen.insert(reader.name().into(), out[..sample.len].to_vec());
            }
        }
        wanted.iter().all(|(name, value)| seen.get(*name).is_some_and(|seen| seen == value))
    });
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert!(names.iter().all(|name| wanted.iter().any(|(wanted, _)| wanted == name)), "{names:?}");
}

#[test]
fn a_set_reads_the_areas_of_all_nodes_that_match_and_those_that_come_later() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    let writer = |library: &isorb_reflective_memory::Library, name: &str, value: &[u8]| {
        library.create_area(&area(name, 64)).unwrap();
        let mut writer = library.map_writer(name, QOS).unwrap();
        writer.write(value).unwrap();
        writer
    };
    let _one = writer(&near, "plant/1", b"one");
    let mut two = writer(&far, "plant/2", b"two");
    let _other = writer(&near, "store/1", b"other");
    let found: Vec<_> = far.find_areas("p*/?", 10).unwrap();
    let places: Vec<(&str, &str)> = found.iter().map(|place| (&*place.what.name, &*place.node)).collect();
    assert_eq!(places, [("plant/1", "near"), ("plant/2", "far")]);
    assert_eq!(far.find_areas("*", 2).unwrap().len(), 2, "no more than asked for");

    let mut set = far.attach_matching("plant/*", on_write()).unwrap();
    until_all(&mut set, &[("plant/1", b"one"), ("plant/2", b"two")]);
    // An area that is made later, and one of a type.
    let _three = writer(&near, "plant/3", b"three");
    near.create_area(&isorb_reflective_memory::idl::Area::of::<Level>("plant/level", 1).unwrap()).unwrap();
    two.write(b"new").unwrap();
    until_all(&mut set, &[("plant/2", b"new"), ("plant/3", b"three")]);
    wait_until("the area with a type refuses", || {
        set.refresh().unwrap();
        set.refused().any(|(name, error)| name == "plant/level" && matches!(error, Error::WrongType(_)))
    });
    // A destroyed one leaves.
    near.destroy_area("plant/3").unwrap();
    wait_until("it has left", || {
        set.refresh().unwrap();
        set.readers().map(|reader| reader.name().to_owned()).eq(["plant/1", "plant/2"])
    });
    assert!(set.wait(Duration::ZERO).is_none(), "there is nothing new");
}

#[test]
fn the_strongest_living_writer_is_shown() {
    let world = World::of_mortals();
    let (near, far) = (world.library(0), world.library(1));
    let make = |library: &isorb_reflective_memory::Library, name: &str| {
        library.create_area(&isorb_reflective_memory::idl::Area::of::<Level>(name, 1).unwrap()).unwrap();
        library.typed_writer::<Level>(name, QOS).unwrap()
    };
    // The spare writes first; the main sensor is not there yet.
    let mut spare = make(&far, "spare");
    spare.write(&Level { metres: 1.0 }).unwrap();
    let areas = [("spare", 1), ("main", 10), ("third", -5)];
    let mut reader = far.typed_strongest_reader::<Level>(&areas, ReaderQoS::on_write()).unwrap();
    let shows = |reader: &mut isorb_reflective_memory::StrongestReader<Level>, area: &str, metres: f64| {
        wait_for(format!("{metres} of {area}"), || {
            let _ = reader.wait(Duration::from_millis(50));
            let value = reader.current()?.latest().ok()?.0;
            (value.metres == metres && reader.shown()?.0 == area).then_some(())
        });
    };
    shows(&mut reader, "spare", 1.0);
    let mut main = make(&near, "main");
    main.write(&Level { metres: 2.0 }).unwrap();
    shows(&mut reader, "main", 2.0);
    assert_eq!(reader.shown(), Some(("main", 10)));
    // A weaker writer changes nothing, and the value of the stronger one ends a wait.
    spare.write(&Level { metres: 1.5 }).unwrap();
    main.write(&Level { metres: 2.5 }).unwrap();
    assert_eq!(wait_for("a value", || reader.wait(Duration::from_secs(1)).ok()), Shown::Value);
    shows(&mut reader, "main", 2.5);
    // Its death shows the spare, its return itself again.
    drop(main);
    shows(&mut reader, "spare", 1.5);
    let mut main = near.typed_writer::<Level>("main", QOS).unwrap();
    main.write(&Level { metres: 3.0 }).unwrap();
    shows(&mut reader, "main", 3.0);
    assert!(reader.changes() >= 4, "{}", reader.changes());
    // Without any living writer the last values can be read by name.
    drop((main, spare));
    wait_until("no writer lives", || reader.current().is_none());
    assert_eq!(reader.any("spare").unwrap().latest().unwrap().0, Level { metres: 1.5 });
    assert!(reader.any("third").is_none());
}

#[test]
fn areas_of_different_types_are_no_redundant_writers() {
    let world = World::new();
    let near = world.library(0);
    near.create_area(&area("octets", 64)).unwrap();
    near.create_area(&isorb_reflective_memory::idl::Area::of::<Level>("level", 1).unwrap()).unwrap();
    let areas = [("octets", 1), ("level", 2)];
    match near.strongest_reader(&areas, ReaderQoS::on_write().any_type()) {
        Err(Error::WrongType(error)) => assert_eq!(error.name, "octets"),
        other => panic!("{other:?}"),
    }
}

/// How often this thread has gone to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_thread_that_waits_for_several_areas_sleeps_until_there_is_something() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    let writers: Vec<_> = ["plant/1", "plant/2"]
        .into_iter()
        .map(|name| {
            near.create_area(&area(name, 64)).unwrap();
            let mut writer = near.map_writer(name, QOS).unwrap();
            writer.write(b"value").unwrap();
            writer
        })
        .collect();
    // At the other node, and at the writer's own, where the reader itself checks the age.
    for library in [&far, &near] {
        let mut set = library.attach_matching("plant/*", on_write()).unwrap();
        until_all(&mut set, &[("plant/1", b"value"), ("plant/2", b"value")]);
        let areas = [("plant/1", 2), ("plant/2", 1)];
        let mut strongest = library.strongest_reader(&areas, on_write()).unwrap();
        wait_until("the value", || {
            strongest.wait(Duration::from_millis(100)) == Ok(Shown::Value)
                && strongest.current().unwrap().latest(&mut [0; 64]).is_ok()
        });
        let before = sleeps();
        assert!(set.wait(Duration::from_secs(2)).is_none());
        let of_set = sleeps() - before;
        let before = sleeps();
        assert!(strongest.wait(Duration::from_secs(2)).is_err());
        let of_strongest = sleeps() - before;
        println!("{of_set} and {of_strongest} sleeps");
        // A search each second is some calls. A look each 5 and each 20 ms is 400 and 100 sleeps.
        assert!(of_set < 100 && of_strongest < 40, "{of_set} and {of_strongest} sleeps in two seconds");
    }
    drop(writers);
}

/// A server that ends and comes again hands out other memory: threads that wait go on with that.
#[test]
fn threads_that_wait_for_several_areas_go_on_with_the_next_server() {
    let mut world = World::of_mortals();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("plant/1", 64)).unwrap();
    let mut writer = near.map_writer("plant/1", QOS).unwrap();
    let mut set = far.attach_matching("plant/*", on_write()).unwrap();
    let mut strongest = far.strongest_reader(&[("plant/1", 1)], on_write()).unwrap();
    writer.write(b"before").unwrap();
    until_all(&mut set, &[("plant/1", b"before")]);
    for round in 0..2_u8 {
        world.far = None;
        world.far = Some(world.start(1));
        wait_until("both read a value of the next server", || {
            writer.write(&[round; 3]).unwrap();
            let mut out = [0; 64];
            let came = set.wait(Duration::from_millis(200)).is_some_and(|reader| {
                reader.latest(&mut out).is_ok_and(|sample| out[..sample.len] == [round; 3])
            });
            let _ = strongest.wait(Duration::from_millis(200));
            let other = strongest.current().is_some_and(|reader| {
                reader.latest(&mut out).is_ok_and(|sample| out[..sample.len] == [round; 3])
            });
            came && other
        });
    }
}
