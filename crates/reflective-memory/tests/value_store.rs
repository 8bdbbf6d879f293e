//! Last values over a reboot: all processes and all memory end, the file stays.

mod world;

use isorb_reflective_memory::idl::{Area, DataType};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{Error, Library, ValueStore};
use isorb_testkit::{RunningOrb, TempFolder};
use std::path::Path;
use world::*;

/// A node's server with all areas; its end is that of the machine.
struct Machine {
    library: Library,
    _server: NodeServer,
    _orb: RunningOrb,
}

fn boot(folder: &TempFolder) -> Machine {
    let (orb, socket) = (RunningOrb::new(), folder.file("socket"));
    let server = NodeServer::start(&orb, ServerConfig::new("node", &socket), None).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    Machine { library, _server: server, _orb: orb }
}

fn store(file: &Path) -> Result<ValueStore, Error> {
    ValueStore::open(file, vec!["plant/*".into(), "gauge".into()], 100)
}

fn latest(library: &Library, name: &str) -> Option<Vec<u8>> {
    let mut reader = library.attach_reader(name, on_write().histories(0).any_type()).ok()?;
    let mut out = vec![0; reader.size()];
    let sample = reader.latest(&mut out).ok()?;
    Some(out[..sample.len].to_vec())
}

#[test]
fn last_values_are_there_after_a_reboot_where_that_was_asked() {
    let folder = TempFolder::new();
    let file = folder.file("values.redb");
    let machine = boot(&folder);
    let library = &machine.library;
    let typed = Area::of::<f64>("gauge", 2).unwrap();
    for what in
        [area("plant/1", 64), area("plant/2", 64), area("plant/empty", 64), area("other", 64), typed.clone()]
    {
        library.create_area(&what).unwrap();
    }
    let mut writers = ["plant/1", "plant/2", "other"].map(|name| library.map_writer(name, QOS).unwrap());
    let mut gauge = library.typed_writer::<f64>("gauge", QOS).unwrap();
    let mut saving = store(&file).unwrap();
    assert_eq!(saving.save(library).unwrap(), 0, "there are no values yet");
    for writer in &mut writers {
        writer.write(b"first").unwrap();
    }
    gauge.write(&21.5).unwrap();
    assert_eq!(saving.save(library).unwrap(), 3);
    assert_eq!(saving.save(library).unwrap(), 0, "nothing is new");
    writers[0].write(b"last").unwrap();
    assert_eq!(saving.save(library).unwrap(), 1);
    // An area that was destroyed is forgotten.
    library.destroy_area("plant/2").unwrap();
    saving.save(library).unwrap();
    drop((saving, writers, gauge, machine));

    let machine = boot(&folder);
    let library = &machine.library;
    assert_eq!(library.list_areas().unwrap(), [], "memory is gone");
    let mut restoring = store(&file).unwrap();
    assert_eq!(restoring.restore(library).unwrap(), 2);
    assert_eq!(latest(library, "plant/1").as_deref(), Some(&b"last"[..]));
    for name in ["plant/2", "plant/empty", "other"] {
        assert!(matches!(library.attach_reader(name, on_write()), Err(Error::UnknownArea(_))), "{name}");
    }
    // The reader sees that no writer lives, and that the value is at least as old as it seems.
    let mut reader = library.typed_reader::<f64>("gauge", on_write()).unwrap();
    let (value, sample) = reader.latest().unwrap();
    assert_eq!((value, sample.age_bound_ns(), reader.state()), (21.5, None, Some(State::WriterGone)));
    assert_eq!(reader.data_type(), &DataType::of::<f64>());
    // A writer goes on, and what it writes is not replaced by what is stored.
    let mut writer = library.map_writer("plant/1", QOS).unwrap();
    writer.write(b"new").unwrap();
    assert_eq!(restoring.restore(library).unwrap(), 0);
    assert_eq!(latest(library, "plant/1").as_deref(), Some(&b"new"[..]));
    restoring.save(library).unwrap();
    drop((restoring, reader, writer, machine));
    let machine = boot(&folder);
    assert_eq!(store(&file).unwrap().restore(&machine.library).unwrap(), 2);
    assert_eq!(latest(&machine.library, "plant/1").as_deref(), Some(&b"new"[..]));
}

#[test]
fn what_is_too_much_is_not_stored_and_a_damaged_file_is_refused() {
    let folder = TempFolder::new();
    let file = folder.file("values.redb");
    let machine = boot(&folder);
    let library = &machine.library;
    let mut writers = [("plant/1", 60), ("plant/2", 60)].map(|(name, size)| {
        library.create_area(&area(name, size)).unwrap();
        library.map_writer(name, QOS).unwrap()
    });
    for writer in &mut writers {
        writer.write(&[7; 60]).unwrap();
    }
    let mut saving = store(&file).unwrap();
    assert_eq!(saving.save(library).unwrap(), 1, "both together are more than 100 octets");
    // A smaller value has room.
    writers[1].write(&[7; 40]).unwrap();
    assert_eq!(saving.save(library).unwrap(), 1);
    assert!(store(&file).is_err(), "one process uses the file");
    // An area that has the name with another size keeps what it has.
    drop((saving, writers, machine));
    let machine = boot(&folder);
    machine.library.create_area(&area("plant/1", 8)).unwrap();
    assert_eq!(store(&file).unwrap().restore(&machine.library).unwrap(), 1);
    assert_eq!(latest(&machine.library, "plant/1"), None);
    let octets = std::fs::read(&file).unwrap();
    for at in [0, octets.len() / 2] {
        let mut damaged = octets.clone();
        damaged[at..at + 64].fill(0xff);
        std::fs::write(&file, &damaged).unwrap();
        if at == 0 {
            assert!(store(&file).is_err(), "no database");
            assert_eq!(std::fs::read(&file).unwrap(), damaged, "it is left as it is");
        } else if let Ok(mut store) = store(&file) {
            // Damage that the file's checks find in no record changes no value.
            drop(store.restore(&machine.library));
        }
    }
}
