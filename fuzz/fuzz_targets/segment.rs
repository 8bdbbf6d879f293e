//! A hostile peer of a segment: every word that this side loads and every octet that it reads comes
//! from the fuzzer. Nothing may panic, reach outside the segments, or return more than requested.
#![no_main]

use isorb_rt::time::Deadline;
use isorb_transport::segment::Ring;
use isorb_transport::segment::medium::{ArenaWord, PeerSegment, ReceiveSegment, Sleep, Word};
use libfuzzer_sys::fuzz_target;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

const CAPACITY: u32 = 64;
/// Octets of the peer's arena.
const ARENA: u32 = 500;

/// The peer's octets, one answer after the other.
#[derive(Debug)]
struct Hostile(Mutex<Vec<u8>>);

impl Hostile {
    fn next(&self) -> u8 {
        self.0.lock().unwrap().pop().unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
struct Segment(Arc<Hostile>);

impl ReceiveSegment for Segment {
    fn capacity(&self) -> u32 {
        CAPACITY
    }
    fn load(&self, _: Word) -> u32 {
        // Mostly small, as from honest peers; sometimes arbitrary.
        match self.0.next() {
            255 => u32::from_le_bytes([self.0.next(), self.0.next(), self.0.next(), self.0.next()]),
            small => small.into(),
        }
    }
    fn read(&self, at: u32, into: &mut [u8]) {
        assert!(at as usize + into.len() <= CAPACITY as usize);
        into.fill_with(|| self.0.next());
    }
    fn load_arena(&self, _: ArenaWord) -> u32 {
        // Mostly none, so that the ring is reached too.
        match self.0.next() {
            0..128 => 0,
            128 => self.load(Word::Head),
            small => (small - 128).into(),
        }
    }
    fn admits(&self, at: u32, octets: u32) -> bool {
        at.checked_add(octets).is_some_and(|end| end <= ARENA)
    }
    fn read_arena(&self, at: u32, into: &mut [u8]) {
        assert!(at as usize + into.len() <= ARENA as usize);
        into.fill_with(|| self.0.next());
    }
    fn sleep(&self, _: Word, _: u32, _: Deadline) {}
    fn wake_own(&self, _: Word) -> bool {
        false
    }
}

impl PeerSegment for Segment {
    fn capacity(&self) -> u32 {
        CAPACITY
    }
    fn write(&self, at: u32, bytes: &[u8]) {
        assert!(at as usize + bytes.len() <= CAPACITY as usize);
    }
    fn store(&self, _: Word, _: u32) {}
    fn fence(&self) -> bool {
        true
    }
    fn wake(&self, _: Word) {}
    fn ring_doorbell(&self) {}
}

fuzz_target!(|data: &[u8]| {
    let Some((steps, answers)) = data.split_at_checked(data.len().min(64)) else { return };
    let peer = Segment(Arc::new(Hostile(Mutex::new(answers.to_vec()))));
    let ring = Ring::new(peer.clone(), peer);
    let message = [7; 200];
    let mut into = [0; 200];
    for step in steps {
        let n = usize::from(step >> 2) * 3;
        let broken = match step & 3 {
            0 => ring.take(&mut into[..n]).map(|got| assert!(got <= n)).is_err(),
            1 => {
                let pieces = [IoSlice::new(&message[..n]), IoSlice::new(&message[n..])];
                ring.put(&pieces, n / 2).map(|sent| assert!(sent <= 200 - n / 2)).is_err()
            }
            2 => ring.about_to_read(if n % 2 == 0 { Sleep::OnWord } else { Sleep::OnDescriptor }).is_err(),
            _ => ring.about_to_write(if n % 2 == 0 { Sleep::OnWord } else { Sleep::OnDescriptor }).is_err(),
        };
        if broken {
            // The connection ends here.
            return ring.close();
        }
        ring.sleep_to_read(Deadline::PAST);
        ring.sleep_to_write(Deadline::PAST);
    }
});
