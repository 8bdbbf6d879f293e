//! Two nodes with a relay between them that loses, repeats and reorders datagrams: nothing torn or
//! invented is ever read, and the counts agree with what the relay did.

mod relay;
mod world;

use isorb_netlab::Plan;
use isorb_reflective_memory::idl::ReaderQoS;
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::wire::Counters;
use isorb_rt::time::Deadline;
use isorb_testkit::wait_until;
use relay::{Direction, Out, Relay};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;
use world::*;

const SIZE: usize = 9_000;

/// A world with a relay from near to far.
fn world(plan: Plan, silence: Duration) -> (World, Relay) {
    let [front, back] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let ports = [&back, &front].map(|socket| socket.local_addr().unwrap().port());
    let world = World::configured(Box::new(move |which, config| {
        config.publish_port = Some(ports[which]);
        config.silence = silence;
    }));
    let to = world.far.as_ref().unwrap().datagram_addresses()[0];
    (world, Relay::start(front, vec![Out { socket: back, to, plan, drops: relay::none }]))
}

/// The newest push of which anything came, and what became of all.
fn counters(world: &World) -> (u64, Counters) {
    loop {
        // None while one channel replaces another.
        if let Some(counts) = world.far.as_ref().unwrap().status(1).0.replicas[0].counts {
            return (counts.newest.unwrap(), counts.counters);
        }
    }
}

/// Writes values while a reader of the other node reads; gives what was counted at the end, when it
/// stands still.
fn run(plan: Plan, parity: u8, agrees: impl Fn(&Counters, &Relay) -> bool) -> Counters {
    // What is lost may be all heartbeats of a while.
    let (world, relay) = world(plan, Duration::from_secs(30));
    relay.set(Direction::Bad);
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("line", SIZE as u32)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let mut reader = far.attach_reader("line", ReaderQoS { parity, ..on_write() }).unwrap();
    let (mut value, mut before, mut read) = (vec![0; SIZE], 0, 0);
    let mut look = |reader: &mut isorb_reflective_memory::AreaReader| {
        let Ok(sample) = reader.latest(&mut value) else { return (0, read) };
        let expected = sample.source as u8 ^ 0x5a;
        assert_eq!(sample.len, SIZE - (sample.source % 100) as usize, "invented");
        assert!(value[..sample.len].iter().all(|octet| *octet == expected), "torn");
        assert!(sample.source >= before, "{} after {before}", sample.source);
        read += u32::from(sample.source > before);
        before = sample.source;
        (sample.source, read)
    };
    let deadline = Deadline::after(TIMEOUT);
    let mut last = 0_u64;
    // A busy machine may let the reader see few of them: then there are more.
    while last < 300 || look(&mut reader).1 <= 10 {
        assert!(!deadline.is_past(), "{:?}", counters(&world));
        last += 1;
        writer.write(&vec![last as u8 ^ 0x5a; SIZE - (last % 100) as usize]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        look(&mut reader);
        // Sockets that overflow would lose datagrams that the relay does not count.
        let begun = || world.near.as_ref().unwrap().pushes(1)[0].counts.begun;
        while counters(&world).0 + 3 < begun() {
            assert!(!deadline.is_past(), "{:?} of {}", counters(&world), begun());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // The latest comes in the end, whatever is lost: it is sent again.
    while look(&mut reader).0 < last {
        assert!(!deadline.is_past(), "{:?}", counters(&world));
        std::thread::sleep(Duration::from_millis(5));
    }
    loop {
        let (_, counted) = counters(&world);
        if agrees(&counted, &relay) {
            return counted;
        }
        assert!(!deadline.is_past(), "{counted:?}, the relay has {:?}", relay.pushes(0, 0));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_loss_is_counted_as_the_relay_counts_it() {
    let plan = Plan { seed: 7, loss: 0.05, delay_ns: 200_000, ..Plan::default() };
    let counted = run(plan, 0, |counted, relay| {
        let (pushes, whole) = relay.pushes(0, 0);
        counted.complete == whole && counted.incomplete + counted.lost == pushes - whole
    });
    assert!(counted.incomplete > 0, "the relay lost nothing: {counted:?}");
    assert_eq!((counted.forged, counted.malformed, counted.repeated), (0, 0, 0));
}

#[test]
fn parity_heals_what_it_can_and_the_rest_is_counted() {
    let plan = Plan { seed: 9, loss: 0.03, delay_ns: 200_000, ..Plan::default() };
    let counted = run(plan, 3, |counted, relay| {
        let (pushes, whole) = relay.pushes(0, 0);
        counted.complete >= whole && counted.complete + counted.incomplete + counted.lost == pushes
    });
    assert!(counted.recovered > 0, "{counted:?}");
}

#[test]
fn loss_repetition_and_reordering_together_show_nothing_wrong() {
    let plan =
        Plan { seed: 11, loss: 0.02, duplicate: 0.05, reorder: 0.05, delay_ns: 300_000, jitter_ns: 200_000 };
    let counted = run(plan, 0, |counted, relay| {
        let (pushes, whole) = relay.pushes(0, 0);
        // What comes after a later push began is late: it may cost a push that came out whole.
        counted.complete <= whole && counted.complete + counted.incomplete + counted.lost == pushes
    });
    assert!(counted.repeated + counted.late > 0 && counted.incomplete + counted.lost > 0, "{counted:?}");
    assert_eq!((counted.forged, counted.malformed), (0, 0));
}

/// The reader's node receives nothing for so long that it opens the channel anew, again and again;
/// the writer writes on.
#[test]
fn what_is_pushed_while_a_node_is_cut_off_is_counted() {
    let (world, relay) = world(Plan::default(), Duration::from_millis(350));
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("line", SIZE as u32)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let mut reader = far.attach_reader("line", on_write()).unwrap();
    let mut write = |n: u64| {
        writer.write(&[n as u8; SIZE]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        n
    };
    let mut number = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            number = write(number + 1);
        }
        assert_eq!(until(&mut reader, number), [number as u8; SIZE]);
        relay.set(Direction::Cut);
        let deadline = Deadline::after(TIMEOUT);
        let handle = || world.far.as_ref().unwrap().status(1).0.replicas[0].handle;
        let mut handles = HashSet::from([handle()]);
        // Until it has been opened anew, and that one is silent as well.
        while reader.state() != Some(State::WriterGone) || handles.len() < 3 {
            assert!(!deadline.is_past(), "{:?}, channels {handles:?}", reader.state());
            handles.insert(handle());
            number = write(number + 1);
        }
        let last = reader.latest(&mut [0; SIZE]).unwrap().source;
        assert!(last < number, "nothing was lost");
        relay.set(Direction::Good);
        assert_eq!(until(&mut reader, number), [number as u8; SIZE]);
        until_state(&mut reader, State::Open);
    }
    let deadline = Deadline::after(TIMEOUT);
    loop {
        let ((_, counted), (pushes, whole)) = (counters(&world), relay.pushes(0, 0));
        // A value that the relay forwarded completely may have arrived for a channel that was being
        // closed.
        if counted.complete + counted.incomplete + counted.lost == pushes && counted.complete <= whole {
            assert!(counted.lost > 0, "{counted:?}");
            // Tools and readers see the same counts.
            let lost = counted.lost + counted.incomplete;
            let replica = far.report(10).unwrap().replicas.remove(0);
            assert_eq!((replica.lost, reader.statistics().unwrap().lost), (lost, lost), "{counted:?}");
            break;
        }
        assert!(!deadline.is_past(), "{counted:?}, {whole} of {pushes} came whole");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing that the node of a destroyed area says comes to its readers' node.
#[test]
fn readers_learn_of_an_area_that_was_destroyed_while_their_node_was_cut_off() {
    let (world, relay) = world(Plan::default(), SHORT);
    let (near, far) = (world.library(0), world.library(1));
    let areas = ["stays", "goes"];
    let mut both = areas.map(|name| {
        near.create_area(&area(name, 100)).unwrap();
        let mut writer = near.map_writer(name, QOS).unwrap();
        let mut reader = far.attach_reader(name, on_write()).unwrap();
        writer.write(b"x").unwrap();
        until(&mut reader, 1);
        (writer, reader)
    });
    relay.set(Direction::Cut);
    near.destroy_area("goes").unwrap();
    let [(_stays, stays), (_goes, goes)] = &mut both;
    until_state(goes, State::Destroyed);
    until_state(stays, State::WriterGone);
    // It is said for good.
    assert_eq!(goes.state(), Some(State::Destroyed));
    relay.set(Direction::Good);
    until_state(stays, State::Open);
    assert_eq!(goes.state(), Some(State::Destroyed));
}

/// A channel that its reader stopped is opened anew, since its node received nothing for a while,
/// and stays stopped.
#[test]
fn what_was_stopped_stays_stopped_when_it_is_opened_anew() {
    let (world, relay) = world(Plan::default(), SHORT);
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("line", 100)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let mut reader = far.attach_reader("line", on_write()).unwrap();
    writer.write(b"seen").unwrap();
    until(&mut reader, 1);
    reader.set_running(false).unwrap();
    until_state(&mut reader, State::Stopped);
    let handle = || world.far.as_ref().unwrap().status(1).0.replicas[0].handle;
    let before = handle();
    relay.set(Direction::Cut);
    writer.write(b"unseen").unwrap();
    wait_until("the channel is opened anew", || handle() != before);
    relay.set(Direction::Good);
    until_state(&mut reader, State::Stopped);
    assert_eq!(reader.latest(&mut [0; 100]).unwrap().source, 1);
    reader.set_running(true).unwrap();
    assert_eq!(until(&mut reader, 2), b"unseen");
}
