//! Messages of the ring that lie in an arena.
//!
//! The sender writes an entry, its number last, and puts one octet into the ring in the place of
//! the message's octets. So the head, the sleeps and the wake-ups of the ring stay as they are. The
//! receiver sees the number when it sees the octet, because it was stored before the head. Number
//! and fields are on one cache line: a count of entries elsewhere would have to cross between the
//! processors as well.
//!
//! The receiver copies an entry once, checks the copy, and never reads the shared one again.
//!
//! It releases a message when it has copied its octets, or later, when it reads them where they
//! lie. Then any thread may release it, in any order. A sender without a free entry sleeps on the
//! count of releases, because a release returns no room of the ring.

use super::super::arena::{ENTRIES, Lent};
use super::super::medium::{ArenaWord, Field};
use super::{OFF, ON_WORD, PeerSegment, ProtocolViolation, ReceiveSegment, Ring, Word};
use isorb_rt::sync::atomic::Ordering::Relaxed;
use isorb_rt::sync::atomic::{AtomicBool, AtomicU32};

/// The receiver's place in the messages that lie in the arena. One thread at a time receives.
#[derive(Debug)]
pub(super) struct LentReceiving {
    /// Entries that were taken.
    taken: AtomicU32,
    /// Where the present one stands in the stream, where its next octets lie, and how many are
    /// left; with 0 there is none.
    stands: AtomicU32,
    at: AtomicU32,
    left: AtomicU32,
    /// Whether octets of the present one were copied.
    begun: AtomicBool,
    /// Messages that were released.
    released: AtomicU32,
}

impl LentReceiving {
    pub fn new() -> LentReceiving {
        let word = || AtomicU32::new(0);
        LentReceiving {
            taken: word(),
            stands: word(),
            at: word(),
            left: word(),
            begun: AtomicBool::new(false),
            released: word(),
        }
    }

    #[inline]
    pub fn taken(&self) -> u32 {
        self.taken.load(Relaxed)
    }
}

impl<I: ReceiveSegment, O: PeerSegment> Ring<I, O> {
    /// Writes the entry of a message that lies in the arena. [`publish`](Ring::publish) shows
    /// it to the peer. `false`: there is no room.
    ///
    /// # Errors
    /// [`ProtocolViolation::Credit`].
    pub(in super::super) fn put_lent(&self, lent: Lent) -> Result<bool, ProtocolViolation> {
        if self.room(1)? == 0 {
            return Ok(false);
        }
        let sent = self.tx.sent.load(Relaxed);
        let slot = lent.number % ENTRIES;
        let fields = [(Field::Stands, sent), (Field::At, lent.at), (Field::Octets, lent.octets)];
        for (field, value) in fields {
            self.outward.store_arena(ArenaWord::Entry(slot, field), value);
        }
        self.outward.store_arena(ArenaWord::Entry(slot, Field::Number), lent.number);
        self.outward.write(sent & (self.outward.capacity() - 1), &[0]);
        self.tx.sent.store(sent.wrapping_add(1), Relaxed);
        Ok(true)
    }

    /// As [`take`](Ring::take), where the peer has sent entries that are not taken. Octets of the
    /// ring before a message of the arena end a take, so that the message can be read in place.
    #[inline(never)]
    pub(super) fn take_lent(&self, into: &mut [u8]) -> Result<usize, ProtocolViolation> {
        let mut got = 0;
        while got < into.len() {
            let available = self.available()?;
            if available == 0 {
                break;
            }
            let ahead = self.next_lent()?;
            let room = &mut into[got..];
            got += match ahead {
                Some(0) if got > 0 => break,
                Some(0) => self.read_lent(room),
                ahead => {
                    let n = available.min(ahead.unwrap_or(u32::MAX));
                    let n = n.min(u32::try_from(room.len()).unwrap_or(u32::MAX));
                    self.take_octets(&mut room[..n as usize]);
                    n as usize
                }
            };
        }
        Ok(got)
    }

    /// Whether the entry behind the one that was taken last is there.
    #[inline(always)]
    pub(super) fn has_entry(&self) -> bool {
        let number = self.rx.lent.taken().wrapping_add(1);
        self.inward.load_arena(ArenaWord::Entry(number % ENTRIES, Field::Number)) == number
    }

    /// How many octets stand before the next message of the arena; `None` if there is none.
    fn next_lent(&self) -> Result<Option<u32>, ProtocolViolation> {
        let lent = &self.rx.lent;
        let taken = self.rx.taken.load(Relaxed);
        if lent.left.load(Relaxed) == 0 {
            if !self.has_entry() {
                return Ok(None);
            }
            let number = lent.taken().wrapping_add(1);
            let field = |field| self.inward.load_arena(ArenaWord::Entry(number % ENTRIES, field));
            let (stands, at, octets) = (field(Field::Stands), field(Field::At), field(Field::Octets));
            if stands.wrapping_sub(taken) > self.inward.capacity()
                || octets == 0
                || !self.inward.admits(at, octets)
            {
                return Err(ProtocolViolation::Entry);
            }
            lent.stands.store(stands, Relaxed);
            lent.at.store(at, Relaxed);
            lent.left.store(octets, Relaxed);
            lent.begun.store(false, Relaxed);
        }
        Ok(Some(lent.stands.load(Relaxed).wrapping_sub(taken)))
    }

    /// Copies octets of the present message out of the arena. After the last, the message is
    /// released.
    fn read_lent(&self, into: &mut [u8]) -> usize {
        let lent = &self.rx.lent;
        let (at, left) = (lent.at.load(Relaxed), lent.left.load(Relaxed));
        let n = left.min(u32::try_from(into.len()).unwrap_or(u32::MAX));
        self.inward.read_arena(at, &mut into[..n as usize]);
        lent.at.store(at.wrapping_add(n), Relaxed);
        lent.left.store(left - n, Relaxed);
        lent.begun.store(true, Relaxed);
        if n == left {
            let number = self.pass_lent();
            self.release(number);
        }
        n as usize
    }

    /// Goes on behind the present message of the arena, and returns its number.
    fn pass_lent(&self) -> u32 {
        let number = self.rx.lent.taken().wrapping_add(1);
        self.rx.lent.taken.store(number, Relaxed);
        self.rx.lent.left.store(0, Relaxed);
        self.took(self.rx.taken.load(Relaxed).wrapping_add(1));
        number
    }

    /// The length of the message of the arena that stands next in the stream, if it can be taken
    /// as a whole.
    ///
    /// # Errors
    /// [`ProtocolViolation::Head`], [`ProtocolViolation::Entry`].
    pub(in super::super) fn lent_ahead(&self) -> Result<Option<u32>, ProtocolViolation> {
        let lent = &self.rx.lent;
        if self.available()? == 0 || lent.left.load(Relaxed) == 0 && !self.has_entry() {
            return Ok(None);
        }
        let next = self.next_lent()? == Some(0) && !lent.begun.load(Relaxed);
        Ok(next.then(|| lent.left.load(Relaxed)))
    }

    /// Takes the message that stands next without copying it. It lies in the arena until it is
    /// [released](Ring::release).
    ///
    /// # Errors
    /// As [`lent_ahead`](Ring::lent_ahead).
    pub(in super::super) fn take_whole(&self) -> Result<Option<Lent>, ProtocolViolation> {
        let Some(octets) = self.lent_ahead()? else { return Ok(None) };
        let at = self.rx.lent.at.load(Relaxed);
        Ok(Some(Lent { at, octets, number: self.pass_lent() }))
    }

    /// Returns a message to the peer, on any thread. Earlier ones may be released later.
    pub(in super::super) fn release(&self, number: u32) {
        self.outward.store_arena(ArenaWord::Released(number % ENTRIES), number);
        // Each release stores another value, so that a sender that has seen an earlier one does not
        // fall asleep.
        let releases = self.rx.lent.released.fetch_add(1, Relaxed).wrapping_add(1);
        self.outward.store_arena(ArenaWord::Releases, releases);
        if !self.outward.fence() {
            self.outward.wake_arena(ArenaWord::Releases);
            self.outward.ring_doorbell();
            return;
        }
        let sleep = self.inward.load(Word::Writer);
        match sleep & 3 {
            OFF => {}
            ON_WORD => self.outward.wake_arena(ArenaWord::Releases),
            _ => _ = self.ring_once(sleep, &self.rx.rung),
        }
    }
}
