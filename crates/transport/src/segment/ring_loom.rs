//! The ring in all interleavings of loom: no lost wake-up, no payload read while it is written.

use super::super::arena::{Chunks, ENTRIES, Lent};
use super::super::medium::{ArenaWord, Field};
use super::*;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32 as Loomed;
use loom::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

const CAPACITY: usize = 4;

/// A segment in which loom sees every access, with the kernel's queue of sleeping threads.
#[derive(Debug)]
struct Model {
    words: [Loomed; 6],
    payload: [UnsafeCell<u8>; CAPACITY],
    /// About the arena: the count, one entry, its release. Then the arena's only octet.
    arena_words: [Loomed; 6],
    arena: UnsafeCell<u8>,
    queue: (Mutex<()>, Condvar),
    /// A descriptor that stays ready until it is received from.
    doorbell: (Mutex<bool>, Condvar),
}

#[derive(Clone, Debug)]
struct Segment(Arc<Model>);

// SAFETY: loom's cells report an access that the protocol does not order; this model exists to find
// those.
#[allow(unsafe_code)]
unsafe impl Send for Model {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Model {}

impl Segment {
    /// The words of this slot are those of all: one message is under way.
    fn arena_word(&self, word: ArenaWord) -> &Loomed {
        &self.0.arena_words[match word {
            ArenaWord::Entry(_, Field::Number) => 0,
            ArenaWord::Entry(_, Field::Stands) => 1,
            ArenaWord::Entry(_, Field::At) => 2,
            ArenaWord::Entry(_, Field::Octets) => 3,
            ArenaWord::Released(_) => 4,
            ArenaWord::Releases => 5,
        }]
    }

    /// Fills the octet of the arena.
    #[allow(unsafe_code)]
    fn lend(&self, value: u8) {
        // SAFETY: loom checks that no other thread accesses it meanwhile.
        self.0.arena.with_mut(|p| unsafe { *p = value });
    }
}

impl ReceiveSegment for Segment {
    fn load_arena(&self, word: ArenaWord) -> u32 {
        self.arena_word(word).load(Acquire)
    }
    fn admits(&self, at: u32, octets: u32) -> bool {
        (at, octets) == (0, 1)
    }
    #[allow(unsafe_code)]
    fn read_arena(&self, _: u32, into: &mut [u8]) {
        // SAFETY: loom checks that no thread writes meanwhile.
        into[0] = self.0.arena.with(|p| unsafe { *p });
    }
    fn capacity(&self) -> u32 {
        CAPACITY as u32
    }
    fn load(&self, word: Word) -> u32 {
        self.0.words[word as usize].load(Acquire)
    }
    #[allow(unsafe_code)]
    fn read(&self, at: u32, into: &mut [u8]) {
        for (i, to) in into.iter_mut().enumerate() {
            // SAFETY: loom checks that no thread writes meanwhile.
            *to = self.0.payload[at as usize + i].with(|p| unsafe { *p });
        }
    }
    fn sleep(&self, word: Word, seen: u32, _: Deadline) {
        // As futex(2): for the waking thread, comparison and sleep are one step. No deadline: loom
        // reports a sleep that no thread ends.
        let guard = self.0.queue.0.lock().unwrap();
        if self.load(word) == seen {
            drop(self.0.queue.1.wait(guard).unwrap());
        }
    }
    fn sleep_arena(&self, word: ArenaWord, seen: u32, _: Deadline) {
        let guard = self.0.queue.0.lock().unwrap();
        if self.load_arena(word) == seen {
            drop(self.0.queue.1.wait(guard).unwrap());
        }
    }
    fn wake_own(&self, word: Word) -> bool {
        PeerSegment::wake(self, word);
        true
    }
}

impl PeerSegment for Segment {
    fn store_arena(&self, word: ArenaWord, value: u32) {
        self.arena_word(word).store(value, Release);
    }
    fn capacity(&self) -> u32 {
        CAPACITY as u32
    }
    #[allow(unsafe_code)]
    fn write(&self, at: u32, bytes: &[u8]) {
        for (i, from) in bytes.iter().enumerate() {
            // SAFETY: loom checks that no other thread accesses it meanwhile.
            self.0.payload[at as usize + i].with_mut(|p| unsafe { *p = *from });
        }
    }
    fn store(&self, word: Word, value: u32) {
        self.0.words[word as usize].store(value, Release);
    }
    fn fence(&self) -> bool {
        loom::sync::atomic::fence(SeqCst);
        true
    }
    fn wake(&self, _: Word) {
        drop(self.0.queue.0.lock().unwrap());
        self.0.queue.1.notify_all();
    }
    fn wake_arena(&self, _: ArenaWord) {
        self.wake(Word::Credit);
    }
    fn ring_doorbell(&self) {
        *self.0.doorbell.0.lock().unwrap() = true;
        self.0.doorbell.1.notify_all();
    }
}

fn segment() -> Segment {
    Segment(Arc::new(Model {
        words: std::array::from_fn(|_| Loomed::new(0)),
        payload: std::array::from_fn(|_| UnsafeCell::new(0)),
        arena_words: std::array::from_fn(|_| Loomed::new(0)),
        arena: UnsafeCell::new(0),
        queue: (Mutex::new(()), Condvar::new()),
        doorbell: (Mutex::new(false), Condvar::new()),
    }))
}

fn send(ring: &Ring<Segment, Segment>, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        match ring.put(&[IoSlice::new(bytes)], sent).unwrap() {
            0 => {
                if ring.about_to_write(Sleep::OnWord).unwrap() {
                    ring.sleep_to_write(Deadline::NONE);
                }
            }
            n => sent += n,
        }
    }
}

fn receive(ring: &Ring<Segment, Segment>, n: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < n {
        let mut block = [0; CAPACITY];
        match ring.take(&mut block).unwrap() {
            0 => {
                if ring.about_to_read(Sleep::OnWord).unwrap() {
                    ring.sleep_to_read(Deadline::NONE);
                }
            }
            n => all.extend_from_slice(&block[..n]),
        }
    }
    all
}

/// As the stream does where a poller watches: old rings off the doorbell, then the announcement,
/// then the wait.
fn receive_by_doorbell(ring: &Ring<Segment, Segment>, n: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < n {
        let mut block = [0; CAPACITY];
        match ring.take(&mut block).unwrap() {
            0 => {
                let doorbell = &ring.inward().0.doorbell;
                *doorbell.0.lock().unwrap() = false;
                if ring.about_to_read(Sleep::OnDescriptor).unwrap() {
                    let mut rung = doorbell.0.lock().unwrap();
                    while !*rung {
                        rung = doorbell.1.wait(rung).unwrap();
                    }
                }
            }
            n => all.extend_from_slice(&block[..n]),
        }
    }
    all
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

#[test]
fn loom_a_message_longer_than_the_ring_streams_through() {
    model(|| {
        let (a, b) = (segment(), segment());
        let near = Ring::new(a.clone(), b.clone());
        let far = Ring::new(b, a);
        let sender = thread::spawn(move || send(&near, &[1, 2, 3, 4, 5, 6]));
        assert_eq!(receive(&far, 6), [1, 2, 3, 4, 5, 6]);
        sender.join().unwrap();
    });
}

#[test]
fn loom_calls_and_replies() {
    model(|| {
        let (a, b) = (segment(), segment());
        let near = Ring::new(a.clone(), b.clone());
        let far = Ring::new(b, a);
        let server = thread::spawn(move || {
            for _ in 0..2 {
                let request = receive(&far, 1);
                send(&far, &request);
            }
        });
        for i in 1..=2 {
            send(&near, &[i]);
            assert_eq!(receive(&near, 1), [i]);
        }
        server.join().unwrap();
    });
}

#[test]
fn loom_a_doorbell_is_not_missed() {
    model(|| {
        let (a, b) = (segment(), segment());
        let near = Ring::new(a.clone(), b.clone());
        let far = Ring::new(b, a);
        let sender = thread::spawn(move || {
            for i in 1..=3 {
                send(&near, &[i]);
            }
        });
        assert_eq!(receive_by_doorbell(&far, 3), [1, 2, 3]);
        sender.join().unwrap();
    });
}

/// An octet of the arena, lent, read and lent again: it is never written while it is read. The
/// owner's record decides when it is free, by the number that the receiver released.
fn lend_twice(near: &Ring<Segment, Segment>, a: &Segment, b: &Segment) {
    let mut record = Chunks::new(64);
    let at = record.take(64).unwrap();
    for value in 1..=2 {
        // The arena is the owner's memory; this model keeps it in the reader's segment.
        b.lend(value);
        let number = record.send(at, 1).unwrap();
        assert!(near.put_lent(Lent { at, octets: 1, number }).unwrap());
        near.publish();
        let released = || a.load_arena(ArenaWord::Released(number % ENTRIES)) == number;
        while !released() {
            if near.about_to_write_lacking(Sleep::OnWord, || !released()).unwrap() {
                near.sleep_to_write(Deadline::NONE);
            }
        }
        record.reclaim(|slot| a.load_arena(ArenaWord::Released(slot)));
        assert!(!record.is_sent(at));
    }
}

#[test]
fn loom_a_loan_is_free_only_after_it_was_read() {
    model(|| {
        let (a, b) = (segment(), segment());
        let near = Ring::new(a.clone(), b.clone());
        let far = Ring::new(b.clone(), a.clone());
        let sender = thread::spawn(move || lend_twice(&near, &a, &b));
        assert_eq!(receive(&far, 2), [1, 2]);
        sender.join().unwrap();
    });
}

/// As above, where the receiver reads the octet in place and releases it afterwards.
#[test]
fn loom_a_loan_that_is_read_in_place_is_free_only_after_its_release() {
    model(|| {
        let (a, b) = (segment(), segment());
        let near = Ring::new(a.clone(), b.clone());
        let far = Ring::new(b.clone(), a.clone());
        let sender = thread::spawn(move || lend_twice(&near, &a, &b));
        for value in 1..=2 {
            let lent = loop {
                match far.take_whole().unwrap() {
                    Some(lent) => break lent,
                    None => {
                        if far.about_to_read(Sleep::OnWord).unwrap() {
                            far.sleep_to_read(Deadline::NONE);
                        }
                    }
                }
            };
            let mut octet = [0];
            far.inward().read_arena(lent.at, &mut octet);
            assert_eq!(octet, [value]);
            far.release(lent.number);
        }
        sender.join().unwrap();
    });
}
