//! Two nodes, a coordinator and libraries over real sockets; the parts are in one process here,
//! each with an ORB of its own.

mod world;

use isorb_reflective_memory::idl::{Area, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::{ReadError, State, WaitError};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{AreaReader, Error};
use isorb_testkit::{RunningOrb, TempFolder, retry, wait_until};
use std::time::Duration;
use world::*;

#[test]
fn a_value_appears_on_both_nodes() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("radar", 20_000)).unwrap();
    let mut writer = near.map_writer("radar", QOS).unwrap();
    let mut here = near.attach_reader("radar", on_write()).unwrap();
    let mut there = far.attach_reader("radar", on_write()).unwrap();
    let mut healed = far.attach_reader("radar", ReaderQoS { parity: 4, ..on_write() }).unwrap();
    let mut orb = far.attach_reader("radar", ReaderQoS { through: Path::PathOrb, ..on_write() }).unwrap();
    for n in 1..=5u8 {
        let value = vec![n; 4_000 * usize::from(n)];
        assert_eq!(writer.write(&value).unwrap(), u64::from(n));
        for reader in [&mut here, &mut there, &mut healed, &mut orb] {
            assert_eq!(until(reader, u64::from(n)), value);
        }
    }
    assert_eq!(there.history(1, &mut vec![0; 20_000]).unwrap().len, 16_000);
    assert_eq!(there.history(3, &mut vec![0; 20_000]), Err(ReadError::Gone));
    assert!(there.statistics().unwrap().values >= 5);
    assert_eq!(here.statistics().unwrap().values, 5);

    // Periodic: the latest value, at the reader's rate.
    let qos = ReaderQoS { how: Mode::PeriodicPush, period: 5_000_000, ..on_write() };
    let mut periodic = far.attach_reader("radar", qos).unwrap();
    for n in 6..=60u8 {
        writer.write(&[n]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(until(&mut periodic, 60), [60]);

    // Stop and start.
    there.set_running(false).unwrap();
    until_state(&mut there, State::Stopped);
    writer.write(b"unseen").unwrap();
    there.set_running(true).unwrap();
    assert_eq!(until(&mut there, 61), b"unseen");
    assert!(matches!(here.set_running(false), Err(Error::Unavailable(_))));

    // The writer leaves, and returns.
    drop(writer);
    for reader in [&mut here, &mut there] {
        until_state(reader, State::WriterGone);
    }
    let mut writer = near.map_writer("radar", QOS).unwrap();
    writer.write(b"again").unwrap();
    for reader in [&mut here, &mut there] {
        assert_eq!(until(reader, 62), b"again");
        until_state(reader, State::Open);
    }
    near.destroy_area("radar").unwrap();
    for reader in [&mut here, &mut there] {
        until_state(reader, State::Destroyed);
        assert!(matches!(reader.wait(TIMEOUT), Err(WaitError::Changed(_))));
    }
    drop((here, there, healed, orb, periodic, writer));
    drop((near, far));
}

#[test]
fn bad_input_is_refused_by_name_and_number() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("tank", 100)).unwrap();
    assert!(matches!(near.create_area(&area("tank", 100)), Err(Error::AreaExists(e)) if e.what.size == 100));
    assert!(matches!(far.create_area(&area("tank", 50)), Err(Error::AreaExists(e)) if e.what.size == 100));
    assert!(matches!(near.create_area(&area("nothing", 0)), Err(Error::WrongSize(e)) if e.requested == 0));
    assert!(matches!(near.create_area(&area("huge", u32::MAX)), Err(Error::WrongSize(_))));
    let many = Area { histories: 5_000, ..area("many", 8) };
    assert!(
        matches!(near.create_area(&many), Err(Error::WrongSize(e)) if (e.requested, e.limit) == (5_000, 1022))
    );
    for library in [&near, &far] {
        assert!(
            matches!(library.attach_reader("none", on_write()), Err(Error::UnknownArea(e)) if e.name == "none")
        );
    }
    // Its writer is of its node, which the error names.
    let refused = far.map_writer("tank", QOS).unwrap_err();
    assert!(matches!(&refused, Error::UnknownArea(e) if e.node == "near"), "{refused:?}");
    assert!(refused.to_string().contains("near"), "{refused}");
    let mut writer = near.map_writer("tank", QOS).unwrap();
    assert!(matches!(near.map_writer("tank", QOS), Err(Error::WriterExists(e)) if e.name == "tank"));
    assert!(matches!(world.library(0).map_writer("tank", QOS), Err(Error::WriterExists(_))));
    assert_eq!(writer.write(&[0; 101]).unwrap_err().limit, 100);
    let greedy = ReaderQoS { histories: 4, ..on_write() };
    assert!(
        matches!(near.attach_reader("tank", greedy), Err(Error::WrongSize(e)) if (e.requested, e.limit) == (4, 3))
    );
    let hopeless = ReaderQoS { guaranteed: true, deadline: 1_000, ..on_write() };
    match far.attach_reader("tank", hopeless) {
        Err(Error::NotAdmitted(e)) => {
            assert!(e.reason.contains("cannot be admitted") && e.nearest_deadline > 1_000, "{e:?}");
            let qos = ReaderQoS { deadline: e.nearest_deadline * 4, ..hopeless };
            assert!(far.attach_reader("tank", qos).is_ok(), "with room for both ends it is admitted");
        }
        other => panic!("{other:?}"),
    }
    // A value may wait a whole period for its push, which leaves no time for a guarantee.
    let periodic = ReaderQoS { how: Mode::PeriodicPush, period: 50_000_000, guaranteed: true, ..on_write() };
    let in_time = |deadline| far.attach_reader("tank", ReaderQoS { deadline, ..periodic });
    assert!(
        matches!(in_time(50_000_000), Err(Error::NotAdmitted(e)) if e.reason.contains("50000000 ns for the next"))
    );
    let Err(Error::NotAdmitted(e)) = in_time(50_001_000) else { panic!("a microsecond is not enough") };
    assert!(e.nearest_deadline > 50_001_000, "{e:?}");
    assert!(in_time(e.nearest_deadline + 50_000_000).is_ok(), "with room for both ends it is admitted");
    let by_call = ReaderQoS { guaranteed: true, deadline: 50_000_000, through: Path::PathOrb, ..on_write() };
    assert!(far.attach_reader("tank", by_call).is_ok());
    let by_call = ReaderQoS { deadline: 1_000, ..by_call };
    assert!(matches!(far.attach_reader("tank", by_call), Err(Error::NotAdmitted(_))));
    let unpromised = area("unpromised", 10);
    near.create_area(&unpromised).unwrap();
    let _silent = near.map_writer("unpromised", WriterQoS { period: 0, size: 0, type_hash: 0 }).unwrap();
    let qos = ReaderQoS { guaranteed: true, deadline: 50_000_000, ..on_write() };
    assert!(
        matches!(far.attach_reader("unpromised", qos), Err(Error::NotAdmitted(e)) if e.resource == "declaration")
    );
    // No channel or area is left over.
    assert_eq!(world.near.as_ref().unwrap().counts().3, 0);
}

/// A silence shorter than two heartbeats is refused, and so is one without a bound.
#[test]
fn a_silence_that_tells_nothing_is_refused_with_the_numbers() {
    let orb = RunningOrb::new();
    let folder = TempFolder::new();
    let socket = folder.file("socket");
    let start = |silence, heartbeat_ns| {
        let mut config = ServerConfig { silence, ..ServerConfig::new("node", &socket) };
        config.dispatcher.scheduler.heartbeat_ns = heartbeat_ns;
        NodeServer::start(&orb, config, None)
    };
    for (silence, heartbeat, message) in [
        (Duration::ZERO, 100_000_000, ["0ns", "200ms"]),
        (Duration::from_millis(199), 100_000_000, ["199ms", "200ms"]),
        (Duration::from_millis(350), 1_000_000_000, ["350ms", "2s"]),
        (Duration::MAX, 100_000_000, ["200ms", "86400s"]),
    ] {
        let error = start(silence, heartbeat).unwrap_err().to_string();
        assert!(message.iter().all(|number| error.contains(number)), "{silence:?}: {error}");
    }
    for silence in [Duration::from_millis(200), Duration::from_secs(24 * 60 * 60)] {
        drop(start(silence, 100_000_000).unwrap());
    }
}

#[test]
fn strangers_datagrams_are_ignored() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("door", 64)).unwrap();
    let mut writer = near.map_writer("door", QOS).unwrap();
    let mut reader = far.attach_reader("door", on_write()).unwrap();
    writer.write(b"shut").unwrap();
    assert_eq!(until(&mut reader, 1), b"shut");
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = world.far.as_ref().unwrap().datagram_addresses()[0];
    let mut head = [0; isorb_reflective_memory::wire::HEADER];
    for token in 0..50 {
        isorb_reflective_memory::wire::Datagram {
            kind: isorb_reflective_memory::wire::Kind::Fragment,
            channel: 0,
            epoch: token as u32,
            token,
            push: 1_000_000,
            sequence: 1_000_000,
            size: 4,
            index: 0,
            writer: 1,
            ..Default::default()
        }
        .write_head(&mut head);
        stranger.send_to(&[&head[..], b"open"].concat(), target).unwrap();
        stranger.send_to(b"noise", target).unwrap();
    }
    wait_until("values are ignored", || reader.statistics().unwrap().ignored >= 50);
    writer.write(b"shut still").unwrap();
    assert_eq!(until(&mut reader, 2), b"shut still");
}

#[test]
fn a_restarted_server_gets_its_memory_back() {
    let mut world = World::of_mortals();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("pump", 64)).unwrap();
    let mut writer = near.map_writer("pump", QOS).unwrap();
    let mut here = near.attach_reader("pump", on_write()).unwrap();
    let mut there = far.attach_reader("pump", on_write()).unwrap();
    writer.write(b"one").unwrap();
    for reader in [&mut here, &mut there] {
        assert_eq!(until(reader, 1), b"one");
    }
    // The reader's node: its replica is lost, and created anew.
    world.far = None;
    assert_eq!(until(&mut there, 1), b"one", "the memory outlives the server");
    world.far = Some(world.start(1));
    writer.write(b"two").unwrap();
    assert_eq!(until(&mut there, 2), b"two");
    // The writer's node: its own readers are not affected; then the area is handed back, and other
    // nodes find it again.
    world.near = None;
    writer.write(b"three").unwrap();
    assert_eq!(until(&mut here, 3), b"three");
    until_state(&mut there, State::WriterGone);
    world.near = Some(world.start(0));
    let mut again = retry("the reader", || far.attach_reader("pump", on_write()));
    assert_eq!(until(&mut again, 3), b"three");
    writer.write(b"four").unwrap();
    // The earlier reader, too: its channel was opened anew, into the same memory.
    for reader in [&mut again, &mut here, &mut there] {
        assert_eq!(until(reader, 4), b"four");
    }
    until_state(&mut there, State::Open);
}

#[test]
fn readers_that_ask_for_the_same_share_a_replica() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("shared", 64)).unwrap();
    let mut writer = near.map_writer("shared", QOS).unwrap();
    let mut readers: Vec<AreaReader> =
        (0..20).map(|_| far.attach_reader("shared", on_write()).unwrap()).collect();
    let channels = || world.near.as_ref().unwrap().counts().3;
    assert_eq!(channels(), 1);
    let parity = far.attach_reader("shared", ReaderQoS { parity: 2, ..on_write() }).unwrap();
    assert_eq!(channels(), 2);
    writer.write(b"for all").unwrap();
    readers.iter_mut().for_each(|reader| assert_eq!(until(reader, 1), b"for all"));
    drop(parity);
    readers.truncate(1);
    assert_eq!(channels(), 1);
    writer.write(b"for one").unwrap();
    assert_eq!(until(&mut readers[0], 2), b"for one");
    readers.clear();
    assert_eq!(channels(), 0);
}

#[test]
fn an_area_without_a_writer_outlives_its_server_in_its_readers() {
    let mut world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("left", 64)).unwrap();
    let mut writer = near.map_writer("left", QOS).unwrap();
    writer.write(b"last words").unwrap();
    let mut here = near.attach_reader("left", on_write()).unwrap();
    drop(writer);
    until_state(&mut here, State::WriterGone);
    world.near = None;
    world.near = Some(world.start(0));
    let mut there = retry("the reader", || far.attach_reader("left", on_write()));
    assert_eq!(until(&mut there, 1), b"last words");
    until_state(&mut there, State::WriterGone);
    // The next writer continues.
    let mut writer = near.map_writer("left", QOS).unwrap();
    assert_eq!(writer.write(b"more").unwrap(), 2);
    for reader in [&mut here, &mut there] {
        assert_eq!(until(reader, 2), b"more");
    }
    // Without any reader, a holder keeps it.
    let mut holder = isorb_reflective_memory::Holder::new(&world.library(0));
    assert_eq!(holder.look().unwrap(), 1);
    drop((writer, here, there));
    world.near = None;
    world.near = Some(world.start(0));
    wait_until("the area is handed back", || near.list_areas().is_ok_and(|areas| areas.len() == 1));
    let mut here = near.attach_reader("left", on_write()).unwrap();
    assert_eq!(until(&mut here, 2), b"more");
    drop(here);
    // A destroyed area does not return.
    near.destroy_area("left").unwrap();
    assert_eq!(holder.look().unwrap(), 0);
}

#[test]
fn pushes_by_calls_lose_nothing_that_the_area_keeps() {
    [Path::PathOneway, Path::PathOrb].into_iter().for_each(lose_nothing_that_the_area_keeps);
}

fn lose_nothing_that_the_area_keeps(through: Path) {
    const VALUES: u64 = 400;
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&Area { histories: 1000, ..area("log", 100) }).unwrap();
    let mut writer = near.map_writer("log", QOS).unwrap();
    let qos = ReaderQoS { through, histories: 1000, ..on_write() };
    let mut all = far.attach_reader("log", qos).unwrap();
    let period = ReaderQoS { how: Mode::PeriodicPush, period: 20_000_000, histories: 1, ..qos };
    let mut latest = far.attach_reader("log", period).unwrap();
    writer.write(&[0; 100]).unwrap();
    until(&mut all, 1);
    for n in 2..=VALUES {
        writer.write(&[n as u8; 100]).unwrap();
    }
    assert_eq!(until(&mut latest, VALUES), [VALUES as u8; 100]);
    until(&mut all, VALUES);
    let statistics = all.statistics().unwrap();
    assert_eq!((statistics.values, statistics.lost), (VALUES, 0), "{statistics:?}");
    let statistics = latest.statistics().unwrap();
    assert!(statistics.values < VALUES, "{statistics:?}");
    all.set_running(false).unwrap();
    until_state(&mut all, State::Stopped);
    all.set_running(true).unwrap();
    until_state(&mut all, State::Open);
    drop(writer);
    until_state(&mut all, State::WriterGone);
    // An area with fewer histories loses values that cannot be sent in time, and counts them.
    near.create_area(&Area { histories: 0, ..area("brief", 100) }).unwrap();
    let mut writer = near.map_writer("brief", QOS).unwrap();
    let mut reader = far.attach_reader("brief", ReaderQoS { histories: 0, ..qos }).unwrap();
    writer.write(&[1; 100]).unwrap();
    until(&mut reader, 1);
    for n in 2..=VALUES {
        writer.write(&[n as u8; 100]).unwrap();
    }
    until(&mut reader, VALUES);
    let statistics = reader.statistics().unwrap();
    assert_eq!(statistics.values + statistics.lost, VALUES, "{statistics:?}");
}
