//! The ring over a medium that only carries writes, late and in order, as remote memory does. The
//! writing half has no access to the peer's segment, so code that reads it would not compile.

use super::*;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const CAPACITY: usize = 256;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A receive segment: its owner reads it, the network writes it.
#[derive(Debug)]
struct Memory {
    words: [AtomicU32; 6],
    payload: Vec<AtomicU8>,
    signals: (Mutex<()>, Condvar),
}

#[derive(Debug)]
struct OwnSegment(Arc<Memory>);

/// A write on the network.
enum Write {
    Payload(u32, Vec<u8>),
    Word(Word, u32),
    Signal,
}

/// The one-way path to the peer's segment.
#[derive(Debug)]
struct Remote(Mutex<Sender<Write>>);

impl ReceiveSegment for OwnSegment {
    fn capacity(&self) -> u32 {
        CAPACITY as u32
    }
    fn load(&self, word: Word) -> u32 {
        self.0.words[word as usize].load(Acquire)
    }
    fn read(&self, at: u32, into: &mut [u8]) {
        let from = &self.0.payload[at as usize..at as usize + into.len()];
        into.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Relaxed));
    }
    fn sleep(&self, word: Word, seen: u32, _: Deadline) {
        let (queue, signal) = &self.0.signals;
        let asleep = queue.lock().unwrap();
        let woken = signal.wait_timeout_while(asleep, TIMEOUT, |()| self.load(word) == seen).unwrap();
        assert!(!woken.1.timed_out(), "a wake-up was lost");
    }
    fn wake_own(&self, _: Word) -> bool {
        self.0.signals.1.notify_all();
        true
    }
}

impl Remote {
    fn send(&self, write: Write) {
        // A network that has ended carries nothing.
        let _ = self.0.lock().unwrap().send(write);
    }
}

impl PeerSegment for Remote {
    fn capacity(&self) -> u32 {
        CAPACITY as u32
    }
    fn write(&self, at: u32, bytes: &[u8]) {
        self.send(Write::Payload(at, bytes.to_vec()));
    }
    fn store(&self, word: Word, value: u32) {
        self.send(Write::Word(word, value));
    }
    fn fence(&self) -> bool {
        false
    }
    fn wake(&self, _: Word) {
        self.send(Write::Signal);
    }
    fn ring_doorbell(&self) {}
}

/// Carries writes into a segment, some of them late, until the sender is dropped.
fn carry(writes: Receiver<Write>, into: &Memory) {
    for (i, write) in writes.into_iter().enumerate() {
        if i % 17 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        match write {
            Write::Payload(at, bytes) => {
                let to = &into.payload[at as usize..at as usize + bytes.len()];
                to.iter().zip(bytes).for_each(|(to, from)| to.store(from, Relaxed));
            }
            Write::Word(word, value) => into.words[word as usize].store(value, Release),
            Write::Signal => {
                drop(into.signals.0.lock().unwrap());
                into.signals.1.notify_all();
            }
        }
    }
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory {
        words: Default::default(),
        payload: (0..CAPACITY).map(|_| AtomicU8::new(0)).collect(),
        signals: Default::default(),
    })
}

fn put_all(ring: &Ring<OwnSegment, Remote>, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        match ring.put(&[IoSlice::new(bytes)], sent).unwrap() {
            0 if ring.about_to_write(Sleep::OnWord).unwrap() => ring.sleep_to_write(Deadline::NONE),
            n => sent += n,
        }
    }
}

fn take_all(ring: &Ring<OwnSegment, Remote>, n: usize) -> Vec<u8> {
    let mut all = vec![0; n];
    let mut filled = 0;
    while filled < n {
        let end = n.min(filled + 77);
        match ring.take(&mut all[filled..end]).unwrap() {
            0 if ring.about_to_read(Sleep::OnWord).unwrap() => ring.sleep_to_read(Deadline::NONE),
            got => filled += got,
        }
    }
    all
}

#[test]
fn it_needs_only_late_writes_in_order() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 100 };
    let (a, b) = (memory(), memory());
    let (to_b, from_a) = channel();
    let (to_a, from_b) = channel();
    let here = Ring::new(OwnSegment(a.clone()), Remote(Mutex::new(to_b)));
    let there = Ring::new(OwnSegment(b.clone()), Remote(Mutex::new(to_a)));
    let message =
        |round: usize| -> Vec<u8> { (0..round * 37 % 900).map(|i| (i * 7 + round) as u8).collect() };
    std::thread::scope(|scope| {
        scope.spawn(|| carry(from_a, &b));
        scope.spawn(|| carry(from_b, &a));
        // Both ways, with messages longer than the segment.
        scope.spawn(move || {
            for round in 0..ROUNDS {
                let message = message(round);
                put_all(&here, &message);
                assert_eq!(take_all(&here, message.len()), message);
            }
        });
        scope.spawn(move || {
            for round in 0..ROUNDS {
                let message = take_all(&there, message(round).len());
                put_all(&there, &message);
            }
        });
    });
}
