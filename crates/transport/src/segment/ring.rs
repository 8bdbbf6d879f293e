//! The protocol between two segments: a stream of octets each way.
//!
//! The writer copies payload into the peer's segment, then publishes it by storing the head. The
//! reader copies it out, then returns the room by storing its credit in the writer's segment.
//!
//! A thread that finds no octets or no room announces its sleep in the peer's segment and checks
//! once more. After a side stored a head or a credit, it checks whether the peer sleeps. Each side
//! stores before it loads, with a full fence between, so one of the two sees the other.
//!
//! Values from the peer are not trusted. An impossible head or credit ends the connection; any
//! other value is harmless. Each side keeps its own state in its own memory.
//!
//! Long messages may lie in an arena beside the ring ([`lent`]).
//!
//! On each side one thread may receive and one may send at a time. The caller ensures it. A
//! violation garbles the stream and does no other harm.

mod lent;

use super::medium::{ArenaWord, PeerSegment, ReceiveSegment, Sleep, Word};
use isorb_rt::sync::atomic::Ordering::Relaxed;
use isorb_rt::sync::atomic::{AtomicBool, AtomicU32};
use isorb_rt::time::Deadline;
use lent::LentReceiving;
use std::hint::cold_path;
use std::io::IoSlice;

/// A long message is published in pieces of this many octets, so that the peer copies while this
/// side does.
const PIECE: u32 = 8 << 10;

const OFF: u32 = Sleep::Not as u32;
const ON_WORD: u32 = Sleep::OnWord as u32;

/// The peer wrote a value that no correct peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolViolation {
    /// The head is ahead by more than the length of the segment.
    Head,
    /// The credit is for octets that were not sent.
    Credit,
    /// A message does not lie in the peer's arena, or there are more of them than there can be.
    Entry,
}

/// Both segments of a connection, and this side's positions in them.
#[derive(Debug)]
pub struct Ring<I, O> {
    inward: I,
    outward: O,
    rx: Receiving,
    tx: Sending,
}

/// State of the receiving thread. It shares no cache line with the sender's.
#[derive(Debug)]
#[repr(align(128))]
struct Receiving {
    taken: AtomicU32,
    credited: AtomicU32,
    /// The last announcement of a sleep.
    slept: AtomicU32,
    /// The sleep of the peer's writer that was signalled last.
    rung: AtomicU32,
    lent: LentReceiving,
}

#[derive(Debug)]
#[repr(align(128))]
struct Sending {
    sent: AtomicU32,
    published: AtomicU32,
    /// The credit that was seen last.
    credit: AtomicU32,
    slept: AtomicU32,
    rung: AtomicU32,
    /// Whether the next sleep is for an entry of the arena, and the releases seen before it.
    lacks_entry: AtomicBool,
    releases: AtomicU32,
    /// A put has had to wake the peer's reader.
    woke: AtomicBool,
}

impl<I: ReceiveSegment, O: PeerSegment> Ring<I, O> {
    /// A ring over fresh segments.
    pub fn new(inward: I, outward: O) -> Ring<I, O> {
        Ring::at(inward, outward, 0, 0)
    }

    /// A ring over segments with earlier traffic of these lengths.
    fn at(inward: I, outward: O, received: u32, sent: u32) -> Ring<I, O> {
        let word = AtomicU32::new;
        let rx = Receiving {
            taken: word(received),
            credited: word(received),
            slept: word(0),
            rung: word(0),
            lent: LentReceiving::new(),
        };
        let tx = Sending {
            sent: word(sent),
            published: word(sent),
            credit: word(sent),
            slept: word(0),
            rung: word(0),
            lacks_entry: AtomicBool::new(false),
            releases: word(0),
            woke: AtomicBool::new(false),
        };
        Ring { inward, outward, rx, tx }
    }

    /// This side's segment.
    pub fn inward(&self) -> &I {
        &self.inward
    }

    /// The peer's segment.
    pub fn outward(&self) -> &O {
        &self.outward
    }

    /// How many octets can be taken.
    ///
    /// # Errors
    /// [`ProtocolViolation::Head`].
    #[inline]
    pub fn available(&self) -> Result<u32, ProtocolViolation> {
        let available = self.inward.load(Word::Head).wrapping_sub(self.rx.taken.load(Relaxed));
        if available > self.inward.capacity() { Err(ProtocolViolation::Head) } else { Ok(available) }
    }

    /// Copies out as many octets as there are and `into` has room for.
    ///
    /// # Errors
    /// [`ProtocolViolation::Head`].
    #[inline(always)]
    pub fn take(&self, into: &mut [u8]) -> Result<usize, ProtocolViolation> {
        let n = self.available()?.min(u32::try_from(into.len()).unwrap_or(u32::MAX));
        if n == 0 {
            return Ok(0);
        }
        // After the head: an entry is numbered before the octet in its place is published.
        if self.has_entry() {
            cold_path();
            return self.take_lent(into);
        }
        self.take_octets(&mut into[..n as usize]);
        Ok(n as usize)
    }

    /// Copies out octets that are there.
    #[inline(always)]
    fn take_octets(&self, into: &mut [u8]) {
        let n = into.len() as u32;
        let capacity = self.inward.capacity();
        let taken = self.rx.taken.load(Relaxed);
        let at = taken & (capacity - 1);
        let first = n.min(capacity - at);
        self.inward.read(at, &mut into[..first as usize]);
        if first < n {
            cold_path();
            self.inward.read(0, &mut into[first as usize..]);
        }
        self.took(taken.wrapping_add(n));
    }

    /// Records octets that were taken.
    #[inline(always)]
    fn took(&self, taken: u32) {
        let capacity = self.inward.capacity();
        self.rx.taken.store(taken, Relaxed);
        // Room is returned when it is a quarter of the segment. A writer that finds no room has
        // more than that outstanding, so it does not wait for the rest.
        if taken.wrapping_sub(self.rx.credited.load(Relaxed)) >= capacity / 4 {
            cold_path();
            self.return_room(taken);
        }
    }

    #[inline(never)]
    fn return_room(&self, taken: u32) {
        self.rx.credited.store(taken, Relaxed);
        self.outward.store(Word::Credit, taken);
        self.signal(Word::Writer, Word::Credit, &self.rx.rung);
    }

    /// Signals the peer's sleeping thread after the store that it waits for. A doorbell keeps a
    /// signal, so it gets one for each sleep. A word keeps none, so a thread that sleeps on one is
    /// woken each time.
    /// Returns whether the peer had to be woken.
    #[inline]
    fn signal(&self, announcement: Word, sleeps_on: Word, rung: &AtomicU32) -> bool {
        if !self.outward.fence() {
            cold_path();
            // The peer may be about to sleep, with its announcement still under way.
            self.outward.wake(sleeps_on);
            self.outward.ring_doorbell();
            return true;
        }
        let sleep = self.inward.load(announcement);
        match sleep & 3 {
            OFF => false,
            ON_WORD => {
                self.outward.wake(sleeps_on);
                true
            }
            _ => self.ring_once(sleep, rung),
        }
    }

    /// Rings the doorbell, once for each sleep.
    #[cold]
    fn ring_once(&self, sleep: u32, rung: &AtomicU32) -> bool {
        let rings = sleep != rung.load(Relaxed);
        if rings {
            rung.store(sleep, Relaxed);
            self.outward.ring_doorbell();
        }
        rings
    }

    /// How many octets fit now.
    #[inline]
    fn room(&self, wanted: u32) -> Result<u32, ProtocolViolation> {
        let capacity = self.outward.capacity();
        let sent = self.tx.sent.load(Relaxed);
        let room = capacity.saturating_sub(sent.wrapping_sub(self.tx.credit.load(Relaxed)));
        if room >= wanted { Ok(room) } else { self.room_by_credit(sent, capacity) }
    }

    /// The room by the peer's last credit.
    #[inline(never)]
    fn room_by_credit(&self, sent: u32, capacity: u32) -> Result<u32, ProtocolViolation> {
        let credit = self.inward.load(Word::Credit);
        let used = sent.wrapping_sub(credit);
        if used > capacity {
            return Err(ProtocolViolation::Credit);
        }
        self.tx.credit.store(credit, Relaxed);
        Ok(capacity - used)
    }

    /// Writes and publishes the octets after the first `skip`, as far as there is room. Returns how
    /// many.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    #[inline]
    pub fn put(&self, pieces: &[IoSlice<'_>], skip: usize) -> Result<usize, ProtocolViolation> {
        if let ([piece], 0) = (pieces, skip)
            && self.put_whole(piece)?
        {
            return Ok(piece.len());
        }
        self.put_pieces(pieces, skip)
    }

    #[inline(never)]
    fn put_pieces(&self, pieces: &[IoSlice<'_>], mut skip: usize) -> Result<usize, ProtocolViolation> {
        let mut all = 0;
        for piece in pieces {
            let bytes = piece.get(skip..).unwrap_or(&[]);
            skip = skip.saturating_sub(piece.len());
            let mut bytes = bytes;
            while !bytes.is_empty() {
                let n = self.put_some(bytes)?;
                all += n;
                bytes = &bytes[n..];
                if n == 0 {
                    self.publish();
                    return Ok(all);
                }
            }
        }
        self.publish();
        Ok(all)
    }

    /// Writes and publishes a short message that fits without wrapping. `false`: nothing was
    /// written.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    #[inline(always)]
    pub fn put_whole(&self, bytes: &[u8]) -> Result<bool, ProtocolViolation> {
        let sent = self.tx.sent.load(Relaxed);
        let capacity = self.outward.capacity();
        let at = sent & (capacity - 1);
        let most = PIECE.min(capacity - at);
        if bytes.is_empty()
            || bytes.len() > most as usize
            || self.room(bytes.len() as u32)? < bytes.len() as u32
        {
            cold_path();
            return Ok(false);
        }
        self.outward.write(at, bytes);
        let sent = sent.wrapping_add(bytes.len() as u32);
        self.tx.sent.store(sent, Relaxed);
        self.publish_up_to(sent);
        Ok(true)
    }

    /// Writes octets as far as there is room, and returns how many. Those of the last piece are not
    /// published.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    pub(super) fn put_octets(&self, bytes: &[u8]) -> Result<usize, ProtocolViolation> {
        let mut all = 0;
        while all < bytes.len() {
            match self.put_some(&bytes[all..])? {
                0 => break,
                n => all += n,
            }
        }
        Ok(all)
    }

    /// Copies without wrapping, and publishes when a piece is full.
    #[inline(always)]
    fn put_some(&self, bytes: &[u8]) -> Result<usize, ProtocolViolation> {
        let capacity = self.outward.capacity();
        let sent = self.tx.sent.load(Relaxed);
        let at = sent & (capacity - 1);
        let unpublished = sent.wrapping_sub(self.tx.published.load(Relaxed));
        let most = (PIECE - unpublished.min(PIECE - 1)).min(capacity - at);
        let wanted = most.min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let n = wanted.min(self.room(wanted)?);
        self.outward.write(at, &bytes[..n as usize]);
        self.tx.sent.store(sent.wrapping_add(n), Relaxed);
        if unpublished + n >= PIECE {
            self.publish();
        }
        Ok(n as usize)
    }

    /// Shows the peer the octets that were written, and wakes it if it sleeps.
    #[inline]
    pub(super) fn publish(&self) {
        let sent = self.tx.sent.load(Relaxed);
        if sent != self.tx.published.load(Relaxed) {
            self.publish_up_to(sent);
        }
    }

    #[inline]
    fn publish_up_to(&self, sent: u32) {
        self.tx.published.store(sent, Relaxed);
        self.outward.store(Word::Head, sent);
        if self.signal(Word::Reader, Word::Head, &self.tx.rung) {
            cold_path();
            self.tx.woke.store(true, Relaxed);
        }
    }

    /// Whether a put has had to wake the peer's reader since this was last asked.
    #[inline]
    pub fn take_woke(&self) -> bool {
        let woke = self.tx.woke.load(Relaxed);
        if woke {
            cold_path();
            self.tx.woke.store(false, Relaxed);
        }
        woke
    }

    /// Whether the peer has ended its stream. Earlier octets can still be taken.
    #[inline]
    pub fn closed(&self) -> bool {
        self.inward.load(Word::Closed) != 0
    }

    /// Ends this side's stream, and wakes all sleeping threads of both sides.
    pub fn close(&self) {
        self.outward.store(Word::Closed, 1);
        for word in [Word::Head, Word::Credit] {
            self.outward.wake(word);
            self.inward.wake_own(word);
        }
        self.outward.wake_arena(ArenaWord::Releases);
        self.inward.wake_own_arena(ArenaWord::Releases);
    }

    /// Announces how the reader is about to sleep. Returns true when it may sleep: nothing arrived
    /// meanwhile, and later octets make a signal.
    ///
    /// # Errors
    /// [`ProtocolViolation::Head`].
    pub fn about_to_read(&self, sleep: Sleep) -> Result<bool, ProtocolViolation> {
        self.announce(Word::Reader, sleep, &self.rx.slept);
        let may = self.available()? == 0 && !self.closed();
        if !may {
            self.announce_awake(Word::Reader, &self.rx.slept);
        }
        Ok(may)
    }

    /// Sleeps, after [`Ring::about_to_read`] with [`Sleep::OnWord`], until octets arrive or
    /// `deadline`. May return for no reason.
    pub fn sleep_to_read(&self, deadline: Deadline) {
        self.inward.sleep(Word::Head, self.rx.taken.load(Relaxed), deadline);
        self.announce_awake(Word::Reader, &self.rx.slept);
    }

    /// As [`Ring::about_to_read`], for a writer that found no room.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    pub fn about_to_write(&self, sleep: Sleep) -> Result<bool, ProtocolViolation> {
        self.about_to_write_lacking(sleep, || false)
    }

    /// As [`Ring::about_to_write`], for a writer that may be `lacking` an entry of its arena, which
    /// the peer returns when it releases a message.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    pub(super) fn about_to_write_lacking(
        &self,
        sleep: Sleep,
        lacking: impl Fn() -> bool,
    ) -> Result<bool, ProtocolViolation> {
        // The sleep ends when the releases differ from these, or the credit from the one below.
        let releases = self.inward.load_arena(ArenaWord::Releases);
        self.announce(Word::Writer, sleep, &self.tx.slept);
        let room = self.room_by_credit(self.tx.sent.load(Relaxed), self.outward.capacity())?;
        let lacks = lacking();
        self.tx.releases.store(releases, Relaxed);
        self.tx.lacks_entry.store(lacks && room > 0, Relaxed);
        let may = (room == 0 || lacks) && !self.closed();
        if !may {
            self.announce_awake(Word::Writer, &self.tx.slept);
        }
        Ok(may)
    }

    /// Sleeps, after [`Ring::about_to_write`] with [`Sleep::OnWord`], until there is room or
    /// `deadline`. May return for no reason.
    pub fn sleep_to_write(&self, deadline: Deadline) {
        if self.tx.lacks_entry.load(Relaxed) {
            self.inward.sleep_arena(ArenaWord::Releases, self.tx.releases.load(Relaxed), deadline);
        } else {
            self.inward.sleep(Word::Credit, self.tx.credit.load(Relaxed), deadline);
        }
        self.announce_awake(Word::Writer, &self.tx.slept);
    }

    /// Takes back the announcement of a sleep on a word, so that the peer need not wake this side.
    /// A doorbell gets one signal anyway.
    fn announce_awake(&self, word: Word, slept: &AtomicU32) {
        let announced = slept.load(Relaxed);
        if announced & 3 == ON_WORD {
            slept.store(announced & !3, Relaxed);
            self.outward.store(word, announced & !3);
        }
    }

    /// Takes back the announcement of the reader's sleep on the descriptor. A signal may be under
    /// way.
    pub fn stay_awake(&self) {
        let announced = self.rx.slept.load(Relaxed);
        self.rx.slept.store(announced & !3, Relaxed);
        self.outward.store(Word::Reader, announced & !3);
    }

    /// Whether there is room for an octet.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    #[inline]
    pub fn has_room(&self) -> Result<bool, ProtocolViolation> {
        Ok(self.room(1)? > 0)
    }

    fn announce(&self, word: Word, sleep: Sleep, slept: &AtomicU32) {
        let times = (slept.load(Relaxed) & !3).wrapping_add(4);
        slept.store(times | sleep as u32, Relaxed);
        self.outward.store(word, times | sleep as u32);
        self.outward.fence();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
mod tests;

#[cfg(all(test, not(loom)))]
#[path = "ring_remote.rs"]
mod remote_tests;

#[cfg(all(test, loom))]
#[path = "ring_loom.rs"]
mod loom_tests;
