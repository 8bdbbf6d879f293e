//! Replayed and forged datagrams, from the peer's own address and from another. They are counted,
//! and readers never see them.

mod world;

use isorb_reflective_memory::AreaReader;
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::wire::{Counters, Datagram, HEADER, Kind};
use isorb_rt::time::Deadline;
use isorb_testkit::wait_until;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use world::*;

/// Four fragments.
const SIZE: usize = 5_000;

fn value(n: u64) -> Vec<u8> {
    vec![n as u8; SIZE - n as usize]
}

/// A hostile path between two nodes: for the reader's node, `back` is the writer's address.
struct Tap {
    front: UdpSocket,
    back: UdpSocket,
    to: SocketAddr,
    /// All datagrams that passed.
    log: Vec<Vec<u8>>,
}

impl Tap {
    fn world(silence: Duration) -> (World, Tap) {
        let [front, back] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        front.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let ports = [&back, &front].map(|socket| socket.local_addr().unwrap().port());
        let world = World::configured(Box::new(move |which, config| {
            config.publish_port = Some(ports[which]);
            config.silence = silence;
        }));
        let to = world.far.as_ref().unwrap().datagram_addresses()[0];
        (world, Tap { front, back, to, log: Vec::new() })
    }

    /// Forwards the datagrams that have arrived, except those for which `keep` returns true.
    fn carry(&mut self, mut keep: impl FnMut(&Datagram<'_>) -> bool) {
        let mut octets = [0; 2000];
        while let Ok((len, _)) = self.front.recv_from(&mut octets) {
            self.log.push(octets[..len].to_vec());
            if !keep(&Datagram::read(&octets[..len]).unwrap()) {
                self.back.send_to(&octets[..len], self.to).unwrap();
            }
        }
    }

    fn carry_until(&mut self, what: &str, mut so: impl FnMut() -> bool) {
        let deadline = Deadline::after(TIMEOUT);
        while !so() {
            assert!(!deadline.is_past(), "waited in vain: {what}");
            self.carry(|_| false);
        }
    }

    fn send(&self, from: &UdpSocket, datagrams: &[Vec<u8>]) {
        for octets in datagrams {
            from.send_to(octets, self.to).unwrap();
        }
    }
}

/// The same datagram with another head.
fn changed(octets: &[u8], change: impl FnOnce(&mut Datagram<'_>)) -> Vec<u8> {
    let mut datagram = Datagram::read(octets).unwrap();
    change(&mut datagram);
    let mut head = [0; HEADER];
    datagram.write_head(&mut head);
    [&head[..], &octets[HEADER..]].concat()
}

fn of_push(log: &[Vec<u8>], push: u64) -> Vec<Vec<u8>> {
    let is_of = |octets: &&Vec<u8>| {
        let datagram = Datagram::read(octets).unwrap();
        datagram.kind == Kind::Fragment && datagram.push == push
    };
    log.iter().filter(is_of).cloned().collect()
}

fn counters(world: &World) -> Counters {
    world.far.as_ref().unwrap().status(10).0.replicas[0].counts.unwrap().counters
}

fn ignored(c: &Counters) -> u64 {
    c.repeated + c.late + c.forged + c.other_epoch + c.malformed
}

fn shown(reader: &mut AreaReader) -> u64 {
    let mut out = vec![0; SIZE];
    let Ok(sample) = reader.latest(&mut out) else { return 0 };
    assert!(out[..sample.len] == value(sample.source), "torn or invented: {}", sample.source);
    sample.source
}

#[test]
fn what_is_replayed_is_counted_and_never_shown() {
    let (mut world, mut tap) = Tap::world(Duration::from_secs(2));
    let (mut writer, mut reader) = world.line(SIZE as u32);
    for n in 1..=5 {
        writer.write(&value(n)).unwrap();
        tap.carry_until("a value", || shown(&mut reader) == n);
    }

    // All of it again, from the peer's address and backwards: each datagram is counted.
    let before = ignored(&counters(&world));
    let again: Vec<Vec<u8>> = tap.log.iter().rev().cloned().collect();
    let back = tap.back.try_clone().unwrap();
    tap.send(&back, &again);
    tap.carry_until("replays", || ignored(&counters(&world)) >= before + again.len() as u64);
    assert_eq!(ignored(&counters(&world)), before + again.len() as u64);
    assert_eq!(shown(&mut reader), 5);

    // From another address, with the right token: past datagrams and possible next ones.
    let (stranger, before) = (UdpSocket::bind("127.0.0.1:0").unwrap(), counters(&world));
    let next = of_push(&tap.log, 5);
    let next: Vec<Vec<u8>> =
        next.iter().map(|old| changed(old, |head| (head.push, head.sequence) = (1000, 1000))).collect();
    tap.send(&stranger, &next);
    tap.send(&stranger, &again);
    // From the peer's address, with another token: a sender that can write there and cannot read.
    let blind: Vec<Vec<u8>> = next.iter().map(|next| changed(next, |head| head.token ^= 1)).collect();
    tap.send(&back, &blind);
    let forged = (next.len() + again.len() + blind.len()) as u64;
    tap.carry_until("forgeries", || counters(&world).forged >= before.forged + forged);
    assert_eq!((counters(&world).forged, shown(&mut reader)), (before.forged + forged, 5));

    // Both servers start again: the former channel is void, and so are its datagrams.
    for which in [0, 1] {
        if which == 0 {
            world.near = None;
            world.near = Some(world.start(0));
        } else {
            world.far = None;
            world.far = Some(world.start(1));
            tap.to = world.far.as_ref().unwrap().datagram_addresses()[0];
        }
        let (old, n) = (tap.log.clone(), 6 + which as u64);
        tap.carry_until("the channel is there again", || {
            let far = world.far.as_ref().unwrap().status(10).0;
            let near = world.near.as_ref().unwrap().pushes(10);
            near.len() == 1 && far.replicas.len() == 1 && far.replicas[0].value.state == Some(State::Open)
        });
        writer.write(&value(n)).unwrap();
        tap.carry_until("a value after a restart", || shown(&mut reader) == n);
        let before = ignored(&counters(&world));
        tap.send(&back, &old);
        tap.carry_until("replays of before", || ignored(&counters(&world)) >= before + old.len() as u64);
        assert_eq!((ignored(&counters(&world)), shown(&mut reader)), (before + old.len() as u64, n));
    }
}

#[test]
fn an_update_is_never_made_of_pieces_of_two() {
    let (world, mut tap) = Tap::world(Duration::from_secs(30));
    let (mut writer, mut reader) = world.line(SIZE as u32);
    writer.write(&value(1)).unwrap();
    tap.carry_until("a value", || shown(&mut reader) == 1);
    let back = tap.back.try_clone().unwrap();
    for n in 2..=10 {
        // One fragment of each push is withheld, and an old fragment with the same index is sent in
        // its place.
        let missing = n as u32 % 4;
        let begun = tap.log.len();
        writer.write(&value(n)).unwrap();
        let deadline = Deadline::after(TIMEOUT);
        let mut came = 0;
        while came < 4 {
            assert!(!deadline.is_past(), "{came} fragments");
            tap.carry(|d| {
                came += usize::from(d.kind == Kind::Fragment && d.sequence == n);
                // Repeated values and heartbeats, which would end the push, are withheld as well.
                d.kind == Kind::Heartbeat || d.index == missing
            });
        }
        let place = |octets: &Vec<u8>| Datagram::read(octets).unwrap().index == missing;
        let newest = Datagram::read(tap.log.iter().rev().find(|o| of_kind(o)).unwrap()).unwrap().push;
        let old: Vec<Vec<u8>> =
            tap.log[..begun].iter().filter(|octets| of_kind(octets) && place(octets)).cloned().collect();
        let before = counters(&world);
        tap.send(&back, &old);
        // The same piece, made to look as if it belonged to the update that is under way.
        let last = old.last().unwrap();
        let mixed = changed(last, |head| head.push = newest);
        tap.send(&back, std::slice::from_ref(&mixed));
        let replayed = old.len() as u64 + 1;
        wait_until("the replayed datagrams are counted", || {
            ignored(&counters(&world)) >= ignored(&before) + replayed
        });
        assert!(counters(&world).malformed > before.malformed, "it contradicts its push");
        assert_eq!(shown(&mut reader), n - 1, "what is not whole is not there");
        // Now the missing one.
        tap.send(&back, &of_push(&tap.log, newest));
        tap.carry_until("the whole value", || shown(&mut reader) == n);
    }
}

fn of_kind(octets: &[u8]) -> bool {
    Datagram::read(octets).unwrap().kind == Kind::Fragment
}

#[test]
fn replayed_heartbeats_keep_no_dead_node_alive() {
    let (mut world, mut tap) = Tap::world(Duration::from_secs(2));
    let (mut writer, mut reader) = world.line(SIZE as u32);
    writer.write(&value(1)).unwrap();
    tap.carry_until("a value", || shown(&mut reader) == 1);
    let beats = |tap: &Tap| tap.log.iter().filter(|octets| !of_kind(octets)).count();
    let deadline = Deadline::after(TIMEOUT);
    while beats(&tap) < 3 {
        assert!(!deadline.is_past(), "there are no heartbeats");
        tap.carry(|_| false);
    }
    world.near = None;
    tap.carry(|_| false);
    let back = tap.back.try_clone().unwrap();
    let deadline = Deadline::after(TIMEOUT);
    while reader.state() != Some(State::WriterGone) {
        assert!(!deadline.is_past(), "old datagrams keep it alive: {:?}", counters(&world));
        // All of its datagrams, ten times a second.
        tap.send(&back, &tap.log);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(shown(&mut reader), 1);
}
