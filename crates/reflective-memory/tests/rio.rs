//! RIO: the whole interface, called in its process and by GIOP, and its name.

mod world;

use isorb::{Config, Kind, Orb, Reference};
use isorb_naming::{Limits, MemoryStore, Naming, NamingService};
use isorb_reflective_memory::Rio;
use isorb_reflective_memory::idl::{Area, Path, RIORef, ReaderQoS, State, WriterQoS, rio};
use isorb_rt::time::now_ns;
use isorb_testkit::{RunningOrb, wait_until};
use std::sync::Arc;
use world::{QOS, TIMEOUT, World, area, on_write};

#[test]
fn rio_is_an_object_like_any_other() {
    let world = World::new();
    let near = world.library(0);
    let (local, name) = Rio::activate(&world.app, &near).unwrap();
    assert!(name.starts_with("crm-") && name.contains(&std::process::id().to_string()));
    world.app.root_poa().unwrap().manager().activate().unwrap();
    let use_it = |rio: &RIORef, name: &str| {
        use isorb_reflective_memory::idl::rio::ReadLatestError;
        rio.create_area(&area(name, 32)).unwrap();
        let writer = rio.map_writer(name, QOS).unwrap();
        let reader = rio.attach_reader(name, on_write()).unwrap();
        assert!(matches!(rio.read_latest(reader, 0, 0), Err(ReadLatestError::NoValueYet(_))));
        assert!(matches!(rio.read_next(reader, 1_000_000), Err(ReadLatestError::TimedOut(_))));
        for n in 1..=3u64 {
            assert_eq!(rio.write(writer, &[n as u8; 8]).unwrap(), n);
        }
        let (data, about) = rio.read_next(reader, 0).unwrap();
        assert_eq!((&data[..], about.number, about.missed), (&[1; 8][..], 1, 0));
        let (data, about) = rio.read_latest(reader, TIMEOUT.as_nanos() as u64, 0).unwrap();
        assert_eq!((&data[..], about.number, about.missed), (&[3; 8][..], 3, 1));
        assert!(about.age < now_ns());
        assert_eq!(rio.read_history(reader, 2).unwrap().0, [1; 8]);
        assert!(matches!(rio.read_history(reader, 9), Err(ReadLatestError::Overwritten(_))));
        assert!(
            matches!(rio.read_latest(reader, 1, 1), Err(ReadLatestError::TimedOut(_))),
            "older than a ns"
        );
        assert!(matches!(rio.read_latest(writer, 0, 0), Err(ReadLatestError::UnknownHandle(_))));
        assert!(rio.write(writer, &[0; 33]).is_err());
        assert_eq!(rio.get_statistics(reader).unwrap().values, 3);
        rio.detach(writer).unwrap();
        assert!(rio.detach(writer).is_err());
        rio.destroy_area(name).unwrap();
        assert!(matches!(rio.read_next(reader, TIMEOUT.as_nanos() as u64), Err(ReadLatestError::Lost(_))));
    };
    use_it(&local, "by-call");
    // Another process's view: by GIOP.
    let far: RIORef = world.coordinator.resolve(&local.object().to_string()).unwrap();
    use_it(&far, "by-giop");
}

#[test]
fn what_is_refused_says_what_and_how_much_by_giop() {
    let world = World::new();
    let (here, _) = Rio::activate(&world.app, &world.library(0)).unwrap();
    let (there, _) = Rio::activate(&world.near_orb, &world.library(1)).unwrap();
    let by_giop = |rio: &RIORef| world.coordinator.resolve::<RIORef>(&rio.object().to_string()).unwrap();
    let (here, there) = (by_giop(&here), by_giop(&there));
    here.create_area(&area("x", 64)).unwrap();
    match here.create_area(&Area { histories: 0, ..area("x", 65) }).unwrap_err() {
        rio::CreateAreaError::AreaExists(error) => assert_eq!(error.what, area("x", 64)),
        other => panic!("{other}"),
    }
    match here.create_area(&area("huge", u32::MAX)).unwrap_err() {
        rio::CreateAreaError::WrongSize(error) => {
            assert!(
                error.requested == u64::from(u32::MAX)
                    && error.limit < error.requested
                    && !error.what.is_empty(),
                "{error:?}"
            );
        }
        other => panic!("{other}"),
    }
    let promise = WriterQoS { period: 10_000_000, size: 48, type_hash: 0 };
    let writer = here.map_writer("x", promise).unwrap();
    match here.map_writer("x", promise).unwrap_err() {
        rio::MapWriterError::WriterExists(error) => assert_eq!(error.name, "x"),
        other => panic!("{other}"),
    }
    match here.write(writer, &[0; 49]).unwrap_err() {
        rio::WriteError::WrongSize(error) => assert_eq!((error.requested, error.limit), (49, 48)),
        other => panic!("{other}"),
    }
    assert!(
        matches!(here.map_writer("nothing", QOS).unwrap_err(), rio::MapWriterError::UnknownArea(e) if e.name == "nothing")
    );
    assert!(matches!(here.destroy_area("nothing").unwrap_err(), rio::DestroyAreaError::UnknownArea(_)));
    let sure = |deadline| ReaderQoS { guaranteed: true, deadline, ..on_write() };
    match there.attach_reader("x", sure(1_000)).unwrap_err() {
        rio::AttachReaderError::NotAdmitted(error) => {
            assert!(!error.resource.is_empty() && error.reason.contains("cannot be admitted"), "{error:?}");
            assert!(error.nearest_deadline > 1_000, "{error:?}");
            // The deadline that it names is admitted, unless the other end refuses it.
            let mut deadline = error.nearest_deadline;
            let admitted = (0..4).find_map(|_| match there.attach_reader("x", sure(deadline)) {
                Ok(reader) => Some(reader),
                Err(rio::AttachReaderError::NotAdmitted(error)) => {
                    assert!(error.nearest_deadline > deadline, "{error:?}");
                    deadline = error.nearest_deadline;
                    None
                }
                Err(other) => panic!("{other}"),
            });
            there.detach(admitted.expect("following the refusals leads to what is admitted")).unwrap();
        }
        other => panic!("{other}"),
    }
    // A channel that is stopped is open again when it is started.
    let reader = there.attach_reader("x", on_write()).unwrap();
    here.write(writer, b"1").unwrap();
    assert_eq!(there.read_next(reader, TIMEOUT.as_nanos() as u64).unwrap().0, b"1");
    there.stop(reader).unwrap();
    wait_until("it is reported as stopped", || {
        there.get_statistics(reader).unwrap().now == State::StateStopped
    });
    there.start(reader).unwrap();
    here.write(writer, b"2").unwrap();
    assert_eq!(there.read_next(reader, TIMEOUT.as_nanos() as u64).unwrap().0, b"2");
    assert!(matches!(here.stop(writer).unwrap_err(), rio::StopError::Unavailable(_)));
    assert!(matches!(here.stop(writer + 1_000).unwrap_err(), rio::StopError::UnknownHandle(_)));
    // An area of this node has no channel to be stopped.
    let local = here.attach_reader("x", ReaderQoS { through: Path::PathOrb, ..on_write() }).unwrap();
    assert!(matches!(here.start(local).unwrap_err(), rio::StartError::Unavailable(_)));
}

#[test]
fn a_call_that_waits_keeps_no_other_from_its_reader() {
    let world = World::new();
    let (local, _) = Rio::activate(&world.app, &world.library(1)).unwrap();
    let rio: RIORef = world.coordinator.resolve(&local.object().to_string()).unwrap();
    world.library(0).create_area(&area("silent", 8)).unwrap();
    let reader = rio.attach_reader("silent", on_write()).unwrap();
    std::thread::scope(|scope| {
        let policies =
            isorb::Policies { round_trip_timeout: Some(std::time::Duration::ZERO), ..Default::default() };
        let patient = RIORef::from_object(rio.object().with_policies(policies));
        // No server listens there: a caller that waited for it would wait in vain.
        let waiting = scope.spawn(move || patient.read_next(reader, 3_000_000_000_000));
        for _ in 0..20 {
            // The other call has the memory by now or soon; both get the same answer.
            match rio.read_latest(reader, 0, 1_000_000).unwrap_err() {
                rio::ReadLatestError::TimedOut(_) | rio::ReadLatestError::NoValueYet(_) => {}
                other => panic!("{other}"),
            }
            rio.stop(reader).unwrap();
            assert_eq!(rio.get_statistics(reader).unwrap().values, 0);
            rio.start(reader).unwrap();
        }
        rio.detach(reader).unwrap();
        let ended = waiting.join().unwrap().unwrap_err();
        assert!(matches!(ended, rio::ReadNextError::UnknownHandle(ref e) if e.which == reader), "{ended}");
    });
}

#[test]
fn a_process_is_found_by_its_name_and_names_of_the_dead_go() {
    let names = RunningOrb::new();
    let service = NamingService::start(&names, Arc::new(MemoryStore::new()), Limits::default()).unwrap();
    let world = World::new();
    let mut config = Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() };
    config.init_refs.insert("NameService".into(), service.object().to_string());
    let orb = Orb::with_config(config).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    let library = isorb_reflective_memory::Library::connect(&orb, &world.sockets[0]).unwrap();

    // Names of ended processes: one object does not exist, and one answers, so it belongs to
    // another container.
    let naming = Naming::initial(&orb).unwrap();
    let other =
        Orb::with_config(Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() }).unwrap();
    let (gone, mine) = Rio::activate(&other, &library).unwrap();
    let gone = orb.string_to_object(&gone.object().to_string()).unwrap();
    other.shutdown(true).unwrap();
    drop(other);
    let (answers, _) = Rio::activate(&world.app, &library).unwrap();
    let host = mine.rsplitn(3, '-').last().unwrap().to_owned();
    let dead = |start: u32| format!("{host}-4294967295-{start}");
    naming.bind(&dead(1), &gone).unwrap();
    naming.bind(&dead(2), answers.object()).unwrap();
    naming.bind("crm-elsewhere-4294967295-1", &gone).unwrap();

    let (local, name) = Rio::activate(&orb, &library).unwrap();
    assert_eq!(name, mine, "host, process and its start");
    let client = Orb::with_config(Config::default()).unwrap();
    let far: RIORef = client
        .resolve(&format!("corbaname:{}#{name}", {
            let (host, port) = &names.endpoint_addresses()[0];
            format!(":{host}:{port}")
        }))
        .unwrap();
    far.create_area(&area("named", 8)).unwrap();
    assert!(matches!(local.create_area(&area("named", 8)).unwrap_err(), rio::CreateAreaError::AreaExists(_)));
    assert_eq!(naming.resolve::<RIORef>(&dead(1)).unwrap_err().kind, Kind::InvObjref, "it is unbound");
    naming.resolve::<RIORef>(&dead(2)).unwrap();
    // Another host's name stays, though its object does not answer.
    naming.resolve::<RIORef>("crm-elsewhere-4294967295-1").unwrap();
    // The process's next one takes the name.
    let (_, again) = Rio::activate(&orb, &library).unwrap();
    assert_eq!(again, name);
    orb.shutdown(true).unwrap();
}
