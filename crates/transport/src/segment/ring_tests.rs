//! The ring over plain memory, without threads.

use super::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU32};

/// A segment in this process, and the signals it got.
#[derive(Debug)]
struct Plain {
    words: [AtomicU32; 6],
    payload: Vec<AtomicU8>,
    woken: AtomicU32,
    rung: AtomicU32,
}

type End = Ring<Arc<Plain>, Arc<Plain>>;

impl ReceiveSegment for Arc<Plain> {
    fn capacity(&self) -> u32 {
        self.payload.len() as u32
    }
    fn load(&self, word: Word) -> u32 {
        self.words[word as usize].load(Acquire)
    }
    fn read(&self, at: u32, into: &mut [u8]) {
        let from = &self.payload[at as usize..at as usize + into.len()];
        into.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Relaxed));
    }
    fn sleep(&self, _: Word, _: u32, _: Deadline) {}
    fn wake_own(&self, _: Word) -> bool {
        false
    }
}

impl PeerSegment for Arc<Plain> {
    fn capacity(&self) -> u32 {
        self.payload.len() as u32
    }
    fn write(&self, at: u32, bytes: &[u8]) {
        let to = &self.payload[at as usize..at as usize + bytes.len()];
        to.iter().zip(bytes).for_each(|(to, from)| to.store(*from, Relaxed));
    }
    fn store(&self, word: Word, value: u32) {
        self.words[word as usize].store(value, Release);
    }
    fn fence(&self) -> bool {
        std::sync::atomic::fence(SeqCst);
        true
    }
    fn wake(&self, _: Word) {
        self.woken.fetch_add(1, SeqCst);
    }
    fn ring_doorbell(&self) {
        self.rung.fetch_add(1, SeqCst);
    }
}

fn plain(capacity: usize) -> Arc<Plain> {
    Arc::new(Plain {
        words: Default::default(),
        payload: (0..capacity).map(|_| AtomicU8::new(0)).collect(),
        woken: AtomicU32::new(0),
        rung: AtomicU32::new(0),
    })
}

/// Two ends that have exchanged `start` octets each way.
fn ends(capacity: usize, start: u32) -> (End, End) {
    let (a, b) = (plain(capacity), plain(capacity));
    for segment in [&a, &b] {
        segment.store(Word::Head, start);
        segment.store(Word::Credit, start);
    }
    (Ring::at(a.clone(), b.clone(), start, start), Ring::at(b, a, start, start))
}

#[test]
fn it_is_a_queue_of_octets_for_all_sizes() {
    // A queue is the model, on pseudo-random steps that cross the end of the ring and of the
    // counters.
    let mut x = 88172645463325252u64;
    let mut random = move |below: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % below
    };
    const STEPS: u32 = if cfg!(miri) { 100 } else { 5000 };
    for start in [0, 5, u32::MAX - 700, u32::MAX - 64] {
        let (a, b) = ends(64, start);
        let mut model = VecDeque::new();
        let mut next = 0u8;
        for _ in 0..STEPS {
            if random(2) == 0 {
                let bytes: Vec<u8> = (0..random(100)).map(|i| next.wrapping_add(i as u8)).collect();
                let cut = random(bytes.len() as u64 + 1) as usize;
                let pieces = [IoSlice::new(&bytes[..cut]), IoSlice::new(&[]), IoSlice::new(&bytes[cut..])];
                let skip = random(bytes.len() as u64 + 1) as usize;
                let n = a.put(&pieces, skip).unwrap();
                // Room is returned when it is a quarter, so up to that much may be missing.
                assert!(n <= bytes.len() - skip && model.len() + n <= 64);
                assert!(n == bytes.len() - skip || model.len() + n > 64 - 16);
                model.extend(&bytes[skip..skip + n]);
                next = next.wrapping_add(n as u8);
            } else {
                let mut into = vec![0; random(90) as usize];
                let n = b.take(&mut into).unwrap();
                assert_eq!(n, into.len().min(model.len()));
                assert!(into[..n].iter().all(|octet| model.pop_front() == Some(*octet)));
            }
        }
    }
}

#[test]
fn a_long_message_is_published_in_pieces() {
    let (a, b) = ends(1 << 16, 0);
    let long = vec![7; 50_000];
    assert_eq!(a.put(&[IoSlice::new(&long[..10]), IoSlice::new(&long[10..])], 0).unwrap(), 50_000);
    assert_eq!(b.available().unwrap(), 50_000);
    let full = vec![8; 1 << 16];
    assert_eq!(a.put(&[IoSlice::new(&full)], 0).unwrap(), (1 << 16) - 50_000);
    assert_eq!(a.put(&[IoSlice::new(&full)], 0).unwrap(), 0);
    assert!(!a.has_room().unwrap());
}

#[test]
fn only_a_sleeping_thread_is_signalled() {
    let (a, b) = ends(64, 0);
    let byte = [1];
    let put = || a.put(&[IoSlice::new(&byte)], 0).unwrap();
    let signals = |end: &End| (end.inward().woken.load(SeqCst), end.inward().rung.load(SeqCst));
    put();
    assert_eq!(signals(&b), (0, 0), "no thread sleeps");
    assert!(!b.about_to_read(Sleep::OnWord).unwrap(), "octets are there");
    put();
    assert_eq!(signals(&b), (0, 0), "no thread slept after all");
    assert_eq!(b.take(&mut [0; 9]).unwrap(), 2);
    assert!(b.about_to_read(Sleep::OnWord).unwrap());
    put();
    put();
    assert_eq!(signals(&b), (2, 0), "on a word, until it announces that it is awake");
    b.sleep_to_read(Deadline::PAST);
    put();
    assert_eq!(signals(&b), (2, 0));
    assert_eq!(b.take(&mut [0; 9]).unwrap(), 3);
    for n in 1..=2 {
        assert!(b.about_to_read(Sleep::OnDescriptor).unwrap());
        put();
        put();
        assert_eq!(signals(&b), (2, n), "the doorbell once for each sleep");
        assert_eq!(b.take(&mut [0; 9]).unwrap(), 2);
    }

    // The same for a writer without room: it is signalled when room is returned.
    let full = [0; 64];
    let n = a.put(&[IoSlice::new(&full)], 0).unwrap();
    assert!(a.about_to_write(Sleep::OnWord).unwrap());
    assert_eq!(b.take(&mut [0; 5]).unwrap(), 5);
    assert_eq!(signals(&a), (0, 0), "too little to return");
    assert_eq!(b.take(&mut [0; 64]).unwrap(), n - 5);
    assert_eq!(signals(&a), (1, 0));
    assert!(!a.about_to_write(Sleep::OnWord).unwrap());
}

#[test]
fn a_sender_knows_that_it_had_to_wake_its_peer() {
    let (a, b) = ends(64, 0);
    let woke = || {
        a.put(&[IoSlice::new(&[1])], 0).unwrap();
        assert_eq!(b.take(&mut [0; 9]).unwrap(), 1);
        a.take_woke()
    };
    assert!(!woke(), "it is awake");
    for sleep in [Sleep::OnWord, Sleep::OnDescriptor] {
        assert!(b.about_to_read(sleep).unwrap());
        assert!(woke());
        assert!(!a.take_woke(), "it is said once");
        b.sleep_to_read(Deadline::PAST);
        assert!(!woke());
    }
}

#[test]
fn impossible_values_are_errors() {
    for lie in [65, 1000, u32::MAX] {
        let (_a, b) = ends(64, 0);
        b.inward().store(Word::Head, lie);
        assert_eq!(b.available(), Err(ProtocolViolation::Head));
        assert_eq!(b.take(&mut [0; 100]), Err(ProtocolViolation::Head));
        let (a, _b) = ends(64, 0);
        assert_eq!(a.put(&[IoSlice::new(&[1; 64])], 0), Ok(64));
        a.inward().store(Word::Credit, lie);
        assert_eq!(a.put(&[IoSlice::new(&[1; 64])], 0), Err(ProtocolViolation::Credit));
        assert_eq!(a.has_room(), Err(ProtocolViolation::Credit));
    }
    // A credit that decreases only reduces the room.
    let (a, b) = ends(64, 0);
    assert_eq!(a.put(&[IoSlice::new(&[1; 64])], 0), Ok(64));
    assert_eq!(b.take(&mut [0; 64]), Ok(64));
    assert_eq!(a.put(&[IoSlice::new(&[1; 64])], 0), Ok(64));
    a.inward().store(Word::Credit, 64);
    assert_eq!(a.put(&[IoSlice::new(&[1; 64])], 0), Ok(0));
}

/// Two threads and many rounds of the ring and of its counters. Miri runs it too, in other orders
/// for each seed, and hands out old octets where the order of memory allows it.
#[test]
fn a_stream_passes_whole_between_two_threads() {
    const OCTETS: usize = if cfg!(miri) { 400 } else { 1 << 20 };
    let stream: Vec<u8> = (0..OCTETS).map(|at| ((at * 7) >> 3) as u8).collect();
    let (a, b) = ends(64, u32::MAX - 100);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for message in stream.chunks(23) {
                let mut sent = 0;
                while sent < message.len() {
                    match a.put(&[IoSlice::new(message)], sent).unwrap() {
                        0 => {
                            if a.about_to_write(Sleep::OnWord).unwrap() {
                                a.sleep_to_write(Deadline::PAST);
                            }
                            std::thread::yield_now();
                        }
                        n => sent += n,
                    }
                }
            }
            a.close();
        });
        let mut received = Vec::new();
        while received.len() < OCTETS {
            let mut block = [0; 17];
            match b.take(&mut block).unwrap() {
                0 => {
                    if b.about_to_read(Sleep::OnWord).unwrap() {
                        b.sleep_to_read(Deadline::PAST);
                    }
                    std::thread::yield_now();
                }
                n => received.extend_from_slice(&block[..n]),
            }
        }
        assert!(received == stream);
    });
    assert!(b.closed());
}

#[test]
fn octets_before_the_end_are_received() {
    let (a, b) = ends(64, 0);
    a.put(&[IoSlice::new(&[1, 2])], 0).unwrap();
    a.close();
    assert!(b.closed() && !b.about_to_read(Sleep::OnWord).unwrap());
    assert_eq!(b.take(&mut [0; 9]).unwrap(), 2);
}
