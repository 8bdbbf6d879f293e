//! Files that earlier versions wrote are read for ever: `files/VERSION` holds those of each
//! version. Files of later versions are refused with a sentence, and stay as they are.
//!
//! A version that changes a format adds a folder, which the ignored test writes, and the old
//! folders stay.

mod common;

use common::events::{consume, orb, supply};
use common::{Service, ended, isorb, run};
use isorb::{Orb, Reference};
use isorb_event::servants::RegistrationStore;
use isorb_event::servants::stamped::rtec_event_channel_admin::EventChannelRef;
use isorb_event::{Configuration, Strategy};
use isorb_event_file::{Reader, Record, RecordedEvent, Recorder, RecorderOptions};
use isorb_naming::cos_naming::NamingContextRef;
use isorb_reflective_memory::coordinator::{AreaLocation, CoordinatorStore, FileStore, NodeEntry};
use isorb_reflective_memory::idl::{Area, DataType, WriterQoS};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{Library, ValueStore};
use isorb_store::redb::{self, Database, ReadableDatabase, TableDefinition, TableHandle};
use isorb_testkit::{RunningOrb, TempFolder, wait_until};
use isorb_trace::{Participant, Phase, Recording, Refusal, Role, Track};
use std::path::{Path, PathBuf};

/// The versions of which files are kept.
const VERSIONS: [&str; 1] = ["0.1.0"];

const NAMES: &str = "names.redb";
const REGISTRATIONS: &str = "registrations.redb";
const REGISTER: &str = "register.redb";
const VALUES: &str = "values.redb";
const TRACE: &str = "trace.isorbtrc";
/// Of version 2, which 0.1.0 wrote before it was released.
const TRACE_2: &str = "trace-2.isorbtrc";
const EVENTS: &str = "events.isorbevt";
const POLICY: &str = "policy.toml";

/// To what the name in the store is bound.
const BOUND: &str = "corbaloc::1.2@192.0.2.1:2809/Sensor";
const PATTERN: &str = "plant/*";
const QOS: WriterQoS = WriterQoS { period: 0, size: 0, type_hash: 0 };

/// A copy of each version's file, which a test may change.
fn copies(name: &str) -> Vec<(TempFolder, PathBuf)> {
    let copy = |version: &&str| {
        let folder = TempFolder::new();
        let file = folder.file(name);
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(version).join(name);
        std::fs::copy(&kept, &file).unwrap_or_else(|error| panic!("{}: {error}", kept.display()));
        (folder, file)
    };
    VERSIONS.iter().map(copy).collect()
}

fn register_entry() -> (NodeEntry, [AreaLocation; 2]) {
    let node = NodeEntry { name: "left".into(), incarnation: 7, server: BOUND.into() };
    let area = |what: Area| AreaLocation { area: what, node: "left".into() };
    let typed = Area::new("plant/2", 8, 2).typed(DataType::of::<f64>());
    (node, [area(Area::new("plant/1", 64, 1)), area(typed)])
}

fn recorded(number: u64) -> RecordedEvent<'static> {
    RecordedEvent {
        event_type: 16,
        source: 3,
        number,
        supplier: 5,
        octets: b"kept",
        ..RecordedEvent::default()
    }
}

fn trace() -> Recording {
    use isorb_trace::{Record, RecordKind};
    let record = |at, kind| Record { at, kind, level: 1, id: 2, a: 3, b: 0 };
    let records =
        vec![record(10, RecordKind::Push), record(20, RecordKind::Begin), record(90, RecordKind::End)];
    let name = "gauge".into();
    let participants = vec![Participant { role: Role::Consumer, id: 2, name, deadline: Some(70) }];
    let tracks = vec![Track { thread: "lane-1".into(), overwritten: 4, records }];
    let phases = vec![Phase { from: 10, to: 50, caption: "GPS silent".into() }];
    let refused = vec![Refusal { name: "video".into(), why: "no time is left".into() }];
    Recording { name: "plant".into(), lost: 5, participants, tracks, phases, refused, ..Recording::default() }
}

/// A node's server without a coordinator, and a library.
fn node(folder: &TempFolder) -> (RunningOrb, NodeServer, Library) {
    let (orb, socket) = (RunningOrb::new(), folder.file("socket"));
    let server = NodeServer::start(&orb, ServerConfig::new("node", &socket), None).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    (orb, server, library)
}

/// An event channel with this store, which asks no consumer whether it exists.
fn channel(store: &str) -> Service {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let fixed = ["event-channel", "--real-time", "off", "--ping", "0"];
    Service::start(&[&fixed[..], &["--port", &port, "--store", store]].concat())
}

fn values(file: &Path) -> Result<ValueStore, isorb_reflective_memory::Error> {
    ValueStore::open(file, vec![PATTERN.into()], 100)
}

#[test]
#[ignore = "writes the files of this version into the folder that ISORB_WRITE_FILES names"]
fn files_are_written() {
    let folder =
        PathBuf::from(std::env::var_os("ISORB_WRITE_FILES").expect("ISORB_WRITE_FILES names a folder"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();

    let naming = Service::start(&["naming", "--store", &path(NAMES)]);
    for args in [&["new-context", "lab"][..], &["bind", "lab/sensor", BOUND]] {
        let ended = run(&[&["name", "--ns", &naming.url], args].concat());
        assert_eq!(ended.0, Some(0), "{ended:?}");
    }
    drop(naming);

    let channel = channel(&path(REGISTRATIONS));
    let client = orb();
    let reference: EventChannelRef = client.resolve(&channel.url).unwrap();
    let (_consumer, _supplier) = (consume(&client, &reference, 16), supply(&reference));
    drop(channel);
    client.shutdown(false).unwrap();
    let store = RegistrationStore::open(path(REGISTRATIONS)).unwrap();
    store.put_modules(Configuration::Full, Strategy::SingleThreaded).unwrap();

    let (entry, places) = register_entry();
    let register = FileStore::open(path(REGISTER)).unwrap();
    register.set_node(&entry, &places.map(|place| place.area), &[]).unwrap();

    let machine = TempFolder::new();
    let (_orb, _server, library) = node(&machine);
    library.create_area(&Area::new("plant/1", 64, 1)).unwrap();
    library.map_writer("plant/1", QOS).unwrap().write(b"kept").unwrap();
    assert_eq!(values(Path::new(&path(VALUES))).unwrap().save(&library).unwrap(), 1);

    std::fs::write(path(TRACE), isorb_trace::encode(&trace())).unwrap();
    let recorder = Recorder::create(path(EVENTS), RecorderOptions { buffer: 1 << 16 }).unwrap();
    (1..=3).for_each(|number| recorder.record(&recorded(number)));
    recorder.finish().unwrap();
}

#[test]
fn names_are_read() {
    for (_folder, file) in copies(NAMES) {
        let naming = Service::start(&["naming", "--store", &file.display().to_string()]);
        let (code, out, error) = run(&["name", "--ns", &naming.url, "resolve", "lab/sensor"]);
        assert_eq!(code, Some(0), "{error}");
        let client = Orb::with_config(isorb::Config::default()).unwrap();
        let found: NamingContextRef = client.string_to_object(out.trim()).unwrap().unchecked_narrow();
        let bound: NamingContextRef = client.string_to_object(BOUND).unwrap().unchecked_narrow();
        assert_eq!(found.object().to_string(), bound.object().to_string());
    }
}

#[test]
fn registrations_at_event_channels_are_read() {
    for (_folder, file) in copies(REGISTRATIONS) {
        let store = RegistrationStore::open(&file).unwrap();
        assert_eq!(store.modules().unwrap(), Some((Configuration::Full, Strategy::SingleThreaded)));
        drop(store);
        let channel = channel(&file.display().to_string());
        wait_until("its consumer is connected", || {
            let (_, out, _) = run(&["event", "ls", &channel.url]);
            out.lines().filter(|line| line.contains("remote")).count() == 1
        });
    }
}

#[test]
fn the_coordinators_register_is_read() {
    for (_folder, file) in copies(REGISTER) {
        let register = FileStore::open(&file).unwrap();
        let (entry, places) = register_entry();
        let nodes = register.nodes().unwrap();
        assert_eq!(nodes.len(), 1);
        assert_eq!(
            (&nodes[0].name, nodes[0].incarnation, &nodes[0].server),
            (&entry.name, entry.incarnation, &entry.server)
        );
        for place in places {
            let found = register.area(&place.area.name).unwrap().unwrap();
            assert_eq!((found.area, found.node), (place.area, place.node));
        }
    }
}

#[test]
fn last_values_are_read() {
    for (folder, file) in copies(VALUES) {
        let (_orb, _server, library) = node(&folder);
        assert_eq!(values(&file).unwrap().restore(&library).unwrap(), 1);
        let mut reader =
            library.attach_reader("plant/1", isorb_reflective_memory::idl::ReaderQoS::on_write()).unwrap();
        let mut value = [0; 64];
        let sample = reader.latest(&mut value).unwrap();
        assert_eq!(&value[..sample.len], b"kept");
    }
}

#[test]
fn traces_and_recordings_are_read() {
    for (_folder, file) in copies(TRACE) {
        assert_eq!(isorb_trace::decode(&std::fs::read(&file).unwrap()).unwrap(), trace());
    }
    for (_folder, file) in copies(TRACE_2) {
        let mut expected = trace();
        (expected.phases, expected.refused) = (Vec::new(), Vec::new());
        expected.participants.iter_mut().for_each(|participant| participant.deadline = None);
        assert_eq!(isorb_trace::decode(&std::fs::read(&file).unwrap()).unwrap(), expected);
    }
    for (_folder, file) in copies(EVENTS) {
        let mut reader = Reader::open(&file).unwrap();
        let (mut events, mut ends) = (Vec::new(), 0);
        while let Some(record) = reader.next().unwrap() {
            match record {
                Record::Event(event) => {
                    events.push((event.event_type, event.source, event.number, event.octets.to_vec()));
                }
                Record::End(totals) => {
                    ends += 1;
                    assert_eq!((totals.events, totals.lost), (3, 0));
                }
                Record::Loss(loss) => panic!("{loss:?}"),
            }
        }
        let expected: Vec<_> = (1..=3).map(|number| (16, 3, number, b"kept".to_vec())).collect();
        assert_eq!((events, ends, reader.damage().pieces), (expected, 1, 0));
    }
}

#[test]
fn policies_are_read() {
    for (_folder, file) in copies(POLICY) {
        assert_eq!(isorb_access::Policy::read(&file).unwrap().roles(), 3);
    }
}

/// Renames a table, as a version with another layout does.
fn rename_table(file: &Path, from: &str, to: &str) {
    let database = Database::open(file).unwrap();
    let has =
        |name: &str| database.begin_read().unwrap().list_tables().unwrap().any(|table| table.name() == name);
    assert!(has(from), "there is no table {from}");
    let transaction = database.begin_write().unwrap();
    let table = transaction.list_tables().unwrap().find(|table| table.name() == from).unwrap();
    assert!(transaction.delete_table(table).unwrap());
    transaction.open_table(TableDefinition::<u64, u64>::new(to)).unwrap();
    transaction.commit().unwrap();
}

fn set_number(file: &Path, table: &str, key: &str, value: u64) {
    let database = Database::open(file).unwrap();
    let transaction: redb::WriteTransaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<&str, u64>::new(table)).unwrap().insert(key, value).unwrap();
    transaction.commit().unwrap();
}

/// The service says that it does not know the version, and leaves the file as it is.
fn refuses(version: u64, args: &[&str], file: &Path) {
    let before = std::fs::read(file).unwrap();
    let (code, out, error) = ended(isorb(&[args, &[&file.display().to_string()]].concat()));
    assert!(code != Some(0) && out.is_empty(), "{out}");
    let sentence = format!("it has format {version}, which this version of isorb does not know");
    assert!(error.contains(&sentence), "{error}");
    assert_eq!(std::fs::read(file).unwrap(), before, "the file was changed");
}

#[test]
fn stores_of_later_versions_are_refused() {
    for (_folder, file) in copies(NAMES) {
        set_number(&file, "isorb-naming", "format", 2);
        refuses(2, &["naming", "--store"], &file);
    }
    for (_folder, file) in copies(REGISTRATIONS) {
        rename_table(&file, "event-registrations-1", "event-registrations-2");
        refuses(2, &["event-channel", "--real-time", "off", "--port", "9", "--store"], &file);
    }
    for (_folder, file) in copies(REGISTER) {
        rename_table(&file, "nodes-1", "nodes-3");
        refuses(3, &["memory-coordinator", "--store"], &file);
    }
    for (_folder, file) in copies(VALUES) {
        rename_table(&file, "values-1", "values-2");
        let error = values(&file).unwrap_err().to_string();
        assert!(error.contains("it has format 2, which this version of isorb does not know"), "{error}");
    }
}

#[test]
fn traces_and_recordings_of_later_versions_are_refused() {
    let later = |file: &Path, command: &[&str], sentence: &str| {
        let mut octets = std::fs::read(file).unwrap();
        // The number of the version follows eight octets that say what it is.
        octets[8] = 9;
        std::fs::write(file, octets).unwrap();
        let (code, _, error) = ended(isorb(&[command, &[&file.display().to_string()]].concat()));
        assert!(code != Some(0) && error.contains(sentence), "{error}");
    };
    for (_folder, file) in copies(TRACE) {
        later(&file, &["timeline"], "the trace file has version 9; this program reads versions 2 to 4");
    }
    for (folder, file) in copies(EVENTS) {
        later(
            &file,
            &["event", "export", "--perfetto", &folder.text("page")],
            "the recording has version 9; this program reads version 1",
        );
    }
}
