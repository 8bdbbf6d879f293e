//! Messages of the ring that lie in an arena.
//!
//! The sender writes an entry, counts it, and puts one octet into the ring in the place of the
//! message's octets. So the head, the sleeps and the wake-ups of the ring stay as they are. The
//! receiver sees the count when it sees the octet, because it was stored before the head.
//!
//! The receiver copies an entry once, checks the copy, and never reads the shared one again.

use super::super::arena::{ENTRIES, Lent};
use super::super::medium::{ArenaWord, Field};
use super::{PeerSegment, ProtocolViolation, ReceiveSegment, Ring};
use isorb_rt::sync::atomic::AtomicU32;
use isorb_rt::sync::atomic::Ordering::Relaxed;

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
}

impl LentReceiving {
    pub fn new() -> LentReceiving {
        let word = || AtomicU32::new(0);
        LentReceiving { taken: word(), stands: word(), at: word(), left: word() }
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
        self.outward.store_arena(ArenaWord::Sent, lent.number);
        self.outward.write(sent & (self.outward.capacity() - 1), &[0]);
        self.tx.sent.store(sent.wrapping_add(1), Relaxed);
        Ok(true)
    }

    /// As [`take`](Ring::take), where the peer has sent entries that are not taken.
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

    /// How many octets stand before the next message of the arena; `None` if there is none.
    fn next_lent(&self) -> Result<Option<u32>, ProtocolViolation> {
        let lent = &self.rx.lent;
        let taken = self.rx.taken.load(Relaxed);
        if lent.left.load(Relaxed) == 0 {
            let number = lent.taken().wrapping_add(1);
            let outstanding = self.inward.load_arena(ArenaWord::Sent).wrapping_sub(lent.taken());
            if outstanding == 0 {
                return Ok(None);
            }
            if outstanding > ENTRIES {
                return Err(ProtocolViolation::Entry);
            }
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
        if n == left {
            let number = lent.taken().wrapping_add(1);
            lent.taken.store(number, Relaxed);
            self.outward.store_arena(ArenaWord::Released(number % ENTRIES), number);
            let taken = self.rx.taken.load(Relaxed).wrapping_add(1);
            self.rx.taken.store(taken, Relaxed);
            // A sender may wait for the entry as well as for room.
            self.return_room(taken);
        }
        n as usize
    }
}
