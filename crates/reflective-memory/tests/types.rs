//! Areas have types: values of IDL structures and of plain ones arrive as they are, on the writer's
//! node and on others, and a process with another type is refused with the difference.

mod world;

use isorb_reflective_memory::idl::{Area, DataType, ReaderQoS, Sample as Generated, WriterQoS};
use isorb_reflective_memory::{Error, Library, ValueError, area_type};
use std::time::Duration;
use world::{TIMEOUT, World};

mod first {
    super::area_type! {
        "IDL:Plant/Pressure:1.0";
        pub struct Pressure {
            pub valid: bool,
            pub bar: f64,
            pub of: [u16; 3],
        }
    }
}

/// The same structure after a member was changed.
mod second {
    super::area_type! {
        "IDL:Plant/Pressure:1.0";
        pub struct Pressure {
            pub valid: bool,
            pub bar: f32,
            pub of: [u16; 3],
        }
    }
}

use first::Pressure;

const QOS: WriterQoS = WriterQoS { period: 0, size: 0, type_hash: 0 };

fn wrong_type<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(error @ Error::WrongType(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_have_the_type_of_their_area_on_every_node() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    let area = Area::of::<Pressure>("typed", 2).unwrap();
    assert_eq!(area.size, 22, "a boolean, the double at 8, three numbers");
    near.create_area(&area).unwrap();
    let mut writer = near.typed_writer::<Pressure>("typed", QOS).unwrap();
    for library in [&near, &far] {
        let mut reader = library.typed_reader::<Pressure>("typed", ReaderQoS::on_write()).unwrap();
        let value = Pressure { valid: true, bar: 3.25, of: [1, 2, 0xfffe] };
        let number = writer.write(&value).unwrap();
        while reader.latest().map_or(0, |(_, sample)| sample.source) < number {
            let _ = reader.wait(TIMEOUT);
        }
        assert_eq!(reader.latest().unwrap().0, value);
        let (bar, sample) = reader.latest_view(|value, _| value.bar).unwrap();
        assert_eq!((bar, sample.source, sample.len), (3.25, number, 22));
        refuses(library);
    }
    // Readers of any type see the octets; they lie as CDR says.
    let mut raw = far.attach_reader("typed", ReaderQoS::on_write().any_type()).unwrap();
    assert_eq!(raw.data_type().id, "IDL:Plant/Pressure:1.0");
    let octets = world::until(&mut raw, 2);
    assert_eq!((octets[0], &octets[8..16]), (1, &3.25_f64.to_ne_bytes()[..]));
    // A writer of octets says so, and what it writes is checked by readers.
    drop(writer);
    assert!(wrong_type(near.map_writer("typed", QOS)).contains("octets were expected"));
    let mut reader = near.typed_reader::<Pressure>("typed", ReaderQoS::on_write()).unwrap();
    let mut writer = near.map_writer("typed", QOS.any_type()).unwrap();
    writer.write(&[0; 21]).unwrap();
    assert!(matches!(reader.latest(), Err(ValueError::Value(_))));
    writer.write(&[2; 22]).unwrap();
    assert!(matches!(reader.latest(), Err(ValueError::Value(_))), "2 is no boolean");
}

/// All that this process could take for the area's type.
fn refuses(library: &Library) {
    let qos = ReaderQoS::on_write();
    let text = wrong_type(library.typed_reader::<second::Pressure>("typed", qos));
    assert!(text.contains("`double bar` there and `float bar` here"), "{text}");
    let text = wrong_type(library.typed_reader::<Generated>("typed", qos));
    assert!(text.contains("IDL:Plant/Pressure:1.0, and IDL:isorb/ReflectiveMemory/Sample:1.0"), "{text}");
    let text = wrong_type(library.attach_reader("typed", qos));
    assert!(text.contains("octets were expected"), "{text}");
}

#[test]
fn generated_types_with_strings_and_areas_without_types() {
    let world = World::new();
    let near = world.library(0);
    assert!(matches!(Area::of::<Area>("x", 0), Err(Error::WrongSize(_))), "its strings are unbounded");
    near.create_area(&Area::new("lists", 2000, 1).typed(DataType::of::<Vec<Area>>())).unwrap();
    let mut writer = near.typed_writer::<Vec<Area>>("lists", QOS).unwrap();
    let mut reader = near.typed_reader::<Vec<Area>>("lists", ReaderQoS::on_write()).unwrap();
    let lists = [vec![], vec![Area::new("a", 1, 2), Area::of::<Pressure>("b", 3).unwrap()]];
    for list in &lists {
        writer.write(list).unwrap();
        assert_eq!(&reader.next().unwrap().unwrap().0, list);
    }
    assert_eq!(reader.history(1).unwrap().0, lists[0]);
    assert!(matches!(writer.write(&vec![Area::new("n".repeat(3000), 1, 1)]), Err(ValueError::TooLarge(_))));
    assert!(matches!(writer.write(&vec![Area::new("\0", 1, 1)]), Err(ValueError::Value(_))));
    writer.write(&lists[1]).unwrap();
    assert_eq!(reader.latest().unwrap().0, lists[1], "a refused value leaves nothing behind");

    near.create_area(&Area::new("octets", 64, 0)).unwrap();
    let text = wrong_type(near.typed_writer::<Pressure>("octets", QOS));
    assert!(text.contains("octets without a type, and IDL:Plant/Pressure:1.0 was expected"), "{text}");
    // The same name with another type is another area.
    let other = Area::new("octets", 64, 0).typed(DataType::of::<Pressure>());
    assert!(matches!(near.open_or_create(&other), Err(Error::AreaExists(_))));
    let nonsense = DataType { hash: 5, ..DataType::default() };
    assert!(near.create_area(&Area::new("nonsense", 64, 0).typed(nonsense)).is_err());
}

#[test]
fn the_type_outlives_the_servers_and_the_byte_order_is_the_areas() {
    let mut world = World::of_mortals();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&Area::of::<Pressure>("typed", 2).unwrap()).unwrap();
    let mut writer = near.typed_writer::<Pressure>("typed", QOS).unwrap();
    let mut reader = far.typed_reader::<Pressure>("typed", ReaderQoS::on_write()).unwrap();
    writer.write(&Pressure { bar: 1.0, ..Pressure::default() }).unwrap();
    reader.wait(TIMEOUT).unwrap();
    drop(world.near.take());
    world.near = Some(world.start(0));
    let end = std::time::Instant::now() + TIMEOUT;
    while !writer.is_served() || near.list_areas().is_ok_and(|areas| areas.is_empty()) {
        assert!(std::time::Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(near.list_areas().unwrap(), [Area::of::<Pressure>("typed", 2).unwrap()]);
    refuses(&near);
    writer.write(&Pressure { bar: 2.0, ..Pressure::default() }).unwrap();
    while reader.latest().map_or(0.0, |(value, _)| value.bar) < 2.0 {
        let _ = reader.wait(TIMEOUT);
    }

    // An area with values of the other byte order.
    let mut foreign = Area::new("foreign", 8, 1).typed(DataType::of::<u64>());
    foreign.data.little_endian = !foreign.data.little_endian;
    near.create_area(&foreign).unwrap();
    assert!(wrong_type(near.typed_writer::<u64>("foreign", QOS)).contains("byte order"));
    let mut raw = near.map_writer("foreign", QOS.any_type()).unwrap();
    raw.write(&0x0102_0304_0506_0708_u64.swap_bytes().to_ne_bytes()).unwrap();
    let mut reader = near.typed_reader::<u64>("foreign", ReaderQoS::on_write()).unwrap();
    assert_eq!(reader.latest().unwrap().0, 0x0102_0304_0506_0708);
}
