//! Two nodes with a relay between them that loses, repeats and reorders datagrams: nothing torn or invented is ever read, and the counts
//! agree with what the relay did.

mod world;

use isorb_crm::idl::ReaderQoS;
use isorb_crm::wire::{Counters, Datagram, ETHERNET_FRAGMENT, Kind};
use isorb_netlab::{Impairment, Plan};
use isorb_rt::time::{Deadline, now_ns};
use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::*;

const SIZE: usize = 9_000;

/// What became of a push on the way.
#[derive(Clone, Copy, Default, Debug)]
struct Fate {
    fragments: usize,
    delivered: usize,
}

/// One direction of the way between two nodes, with known addresses at both ends.
struct Relay {
    pushes: Arc<Mutex<BTreeMap<u64, Fate>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    fn start(front: UdpSocket, back: UdpSocket, to: std::net::SocketAddr, plan: Plan) -> Relay {
        front.set_read_timeout(Some(Duration::from_micros(500))).unwrap();
        let (pushes, stop) = (Arc::<Mutex<BTreeMap<u64, Fate>>>::default(), Arc::new(AtomicBool::new(false)));
        let (log, end) = (pushes.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut impairment = Impairment::new(plan);
            let mut input = [0; 2000];
            // Fragments that came out at the other end.
            let mut seen = BTreeSet::new();
            while !end.load(Ordering::Relaxed) {
                if let Ok((len, _)) = front.recv_from(&mut input) {
                    if let Ok(datagram) = Datagram::read(&input[..len])
                        && datagram.kind == Kind::Fragment
                    {
                        let fragments = (datagram.size as usize).div_ceil(ETHERNET_FRAGMENT);
                        log.lock().unwrap().entry(datagram.push).or_default().fragments = fragments;
                    }
                    impairment.push(now_ns(), input[..len].to_vec());
                }
                while let Some(packet) = impairment.pop(now_ns()) {
                    if let Ok(datagram) = Datagram::read(&packet)
                        && datagram.kind == Kind::Fragment
                        && seen.insert((datagram.push, datagram.index))
                    {
                        log.lock().unwrap().entry(datagram.push).or_default().delivered += 1;
                    }
                    let _ = back.send_to(&packet, to);
                }
            }
        });
        Relay { pushes, stop, thread: Some(thread) }
    }

    /// Pushes so far, and those of which every fragment came out.
    fn pushes(&self) -> (u64, u64) {
        let pushes = self.pushes.lock().unwrap();
        let newest = pushes.keys().last().copied().unwrap_or(0);
        let whole = pushes.values().filter(|fate| fate.delivered == fate.fragments).count() as u64;
        (newest, whole)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A world with a relay from near to far.
fn world(plan: Plan) -> (World, Relay) {
    let [front, back] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let ports = [&back, &front].map(|socket| socket.local_addr().unwrap().port());
    let world = World::configured(Box::new(move |which, config| {
        config.publish_port = Some(ports[which]);
        // What is lost may be all heartbeats of a while.
        config.silence = Duration::from_secs(30);
    }));
    let to = world.far.as_ref().unwrap().datagram_addresses()[0];
    (world, Relay::start(front, back, to, plan))
}

fn counters(world: &World) -> Counters {
    let (status, _) = world.far.as_ref().unwrap().status(10);
    status.replicas[0].counts.unwrap().counters
}

/// Writes values while a reader of the other node reads; gives what was counted at the end, when it stands still.
fn run(plan: Plan, parity: u8, agrees: impl Fn(&Counters, &Relay) -> bool) -> Counters {
    let (world, relay) = world(plan);
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("line", SIZE as u32)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let mut reader = far.attach_reader("line", ReaderQoS { parity, ..on_write() }).unwrap();
    let (mut value, mut before, mut read) = (vec![0; SIZE], 0, 0);
    let mut look = |reader: &mut isorb_crm::AreaReader| {
        let Ok(sample) = reader.latest(&mut value) else { return (0, read) };
        let expected = sample.source as u8 ^ 0x5a;
        assert_eq!(sample.len, SIZE - (sample.source % 100) as usize, "invented");
        assert!(value[..sample.len].iter().all(|octet| *octet == expected), "torn");
        assert!(sample.source >= before, "{} after {before}", sample.source);
        read += u32::from(sample.source > before);
        before = sample.source;
        (sample.source, read)
    };
    let deadline = Deadline::after(PATIENCE);
    let mut last = 0_u64;
    // A busy machine may let the reader see few of them: then there are more.
    while last < 300 || look(&mut reader).1 <= 10 {
        assert!(!deadline.is_past(), "{:?}", counters(&world));
        last += 1;
        writer.write(&vec![last as u8 ^ 0x5a; SIZE - (last % 100) as usize]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        look(&mut reader);
    }
    // The latest comes in the end, whatever is lost: it is sent again.
    while look(&mut reader).0 < last {
        assert!(!deadline.is_past(), "{:?}", counters(&world));
        std::thread::sleep(Duration::from_millis(5));
    }
    loop {
        let counted = counters(&world);
        if agrees(&counted, &relay) {
            return counted;
        }
        assert!(!deadline.is_past(), "{counted:?}, the relay has {:?}", relay.pushes());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_loss_is_counted_as_the_relay_counts_it() {
    let plan = Plan { seed: 7, loss: 0.05, delay_ns: 200_000, ..Plan::default() };
    let counted = run(plan, 0, |counted, relay| {
        let (pushes, whole) = relay.pushes();
        counted.complete == whole && counted.incomplete + counted.lost == pushes - whole
    });
    assert!(counted.incomplete > 0, "the relay lost nothing: {counted:?}");
    assert_eq!((counted.forged, counted.malformed, counted.repeated), (0, 0, 0));
}

#[test]
fn parity_heals_what_it_can_and_the_rest_is_counted() {
    let plan = Plan { seed: 9, loss: 0.03, delay_ns: 200_000, ..Plan::default() };
    let counted = run(plan, 3, |counted, relay| {
        let (pushes, whole) = relay.pushes();
        counted.complete >= whole && counted.complete + counted.incomplete + counted.lost == pushes
    });
    assert!(counted.recovered > 0, "{counted:?}");
}

#[test]
fn loss_repetition_and_reordering_together_show_nothing_wrong() {
    let plan =
        Plan { seed: 11, loss: 0.02, duplicate: 0.05, reorder: 0.05, delay_ns: 300_000, jitter_ns: 200_000 };
    let counted = run(plan, 0, |counted, relay| {
        let (pushes, whole) = relay.pushes();
        // What comes after a later push began is late: it may cost a push that came out whole.
        counted.complete <= whole && counted.complete + counted.incomplete + counted.lost == pushes
    });
    assert!(counted.repeated + counted.late > 0 && counted.incomplete + counted.lost > 0, "{counted:?}");
    assert_eq!((counted.forged, counted.malformed), (0, 0));
}
