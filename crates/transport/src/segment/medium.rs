//! The medium of a pair of segments: the part that another interconnect replaces.
//!
//! Each side owns a receive segment. Its owner reads it, and the peer **only** writes it: nothing
//! here lets a side read its peer's segment, or change a word of it depending on its value. So the
//! medium may be memory that two processes map, or a network that only carries writes to another
//! machine's memory.
//!
//! ```text
//!   A                                             B
//!   A's segment (A reads)  ◄── writes ───  PeerSegment (B's view of it)
//!   PeerSegment (A's view) ─── writes ──►  B's segment (B reads)
//! ```

use super::arena::Arena;
use super::memory::OwnSegment;
use super::ring::Ring;
use isorb_rt::time::Deadline;
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The words of a segment that are not payload. All are written by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// How many octets the peer has put into this segment, modulo 2^32.
    Head,
    /// Not 0 when the peer will put in no more.
    Closed,
    /// One more than the processor that the peer last waited on.
    Processor,
    /// How many octets the peer has taken out of its own segment, modulo 2^32: room that it
    /// returns.
    Credit,
    /// How the peer's reader sleeps: see [`Sleep`].
    Reader,
    /// How the peer's writer sleeps, which waits for credit.
    Writer,
}

/// The words of a segment about messages that lie in an arena. All are written by the peer. Media
/// without arenas have none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaWord {
    /// A field of one of the 32 entries of such messages.
    Entry(u32, Field),
    /// The number of the message that the peer has released last with this entry.
    Released(u32),
    /// How many messages the peer has released, modulo 2^32. A sender without a free entry sleeps
    /// on it.
    Releases,
}

/// The fields of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The octet of the ring that stands for the message, counted as the head counts.
    Stands,
    /// Where the message begins in the arena.
    At,
    /// Its length in octets.
    Octets,
    /// The number of the message, modulo 2^32, written behind the other fields: the receiver knows
    /// by it that the entry of the next message is there.
    Number,
}

/// How a thread sleeps, in the low bits of [`Word::Reader`] and [`Word::Writer`]. The bits above
/// count its sleeps: each sleep on the descriptor gets one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// It is awake.
    Not = 0,
    /// On the word itself ([`ReceiveSegment::sleep`]).
    OnWord = 1,
    /// On the connection's descriptor.
    OnDescriptor = 2,
}

/// A receive segment as its owner sees it. Its values may change at any time, since the peer may be
/// hostile.
pub trait ReceiveSegment: Send + Sync + Debug {
    /// Octets of payload that it holds, a power of two.
    fn capacity(&self) -> u32;

    /// A word. The peer's writes before this word are visible afterwards (acquire).
    fn load(&self, word: Word) -> u32;

    /// Copies payload out. The range lies within the capacity; no reference to the segment leaves
    /// this method.
    fn read(&self, at: u32, into: &mut [u8]);

    /// As [`load`](Self::load). Always 0 without an arena.
    fn load_arena(&self, word: ArenaWord) -> u32 {
        let _ = word;
        0
    }

    /// Whether these octets can be read from the peer's arena.
    fn admits(&self, at: u32, octets: u32) -> bool {
        let _ = (at, octets);
        false
    }

    /// Copies octets out of the peer's arena. The range was [admitted](Self::admits).
    fn read_arena(&self, at: u32, into: &mut [u8]) {
        let _ = (at, into);
    }

    /// As [`sleep`](Self::sleep), on a word about the arena.
    fn sleep_arena(&self, word: ArenaWord, seen: u32, deadline: Deadline) {
        let _ = (word, seen, deadline);
    }

    /// As [`wake_own`](Self::wake_own), for a word about the arena.
    fn wake_own_arena(&self, word: ArenaWord) -> bool {
        let _ = word;
        false
    }

    /// Sleeps while `word` is `seen`, until [`PeerSegment::wake`] of the peer,
    /// [`ReceiveSegment::wake_own`] or `deadline`. May also return for no reason.
    fn sleep(&self, word: Word, seen: u32, deadline: Deadline);

    /// Wakes the threads of this side that sleep on a word. Returns whether there were any.
    fn wake_own(&self, word: Word) -> bool;
}

/// The peer's receive segment as this side sees it. No method reads it.
pub trait PeerSegment: Send + Sync + Debug {
    /// Octets of payload that it holds, a power of two.
    fn capacity(&self) -> u32;

    /// Writes payload. The range lies within the capacity.
    fn write(&self, at: u32, bytes: &[u8]);

    /// Writes a word after all earlier writes (release).
    fn store(&self, word: Word, value: u32);

    /// Writes a word about the arena, after all earlier writes (release).
    fn store_arena(&self, word: ArenaWord, value: u32) {
        let _ = (word, value);
    }

    /// As [`wake`](Self::wake), for a word about the arena.
    fn wake_arena(&self, word: ArenaWord) {
        let _ = word;
    }

    /// The arena in which this side lends to the peer, if there is one.
    fn arena(&self) -> Option<&Arc<Arena>> {
        None
    }

    /// A full fence: earlier writes are at the peer before this side's next load. `false` where the
    /// medium cannot promise that, such as a network that only carries writes. Then both signals
    /// follow every head and every credit, whether a thread sleeps or not.
    fn fence(&self) -> bool;

    /// Wakes the peer's threads that sleep on a word of its segment.
    fn wake(&self, word: Word);

    /// Rings the doorbell: makes the peer's descriptor ready to receive.
    fn ring_doorbell(&self);
}

/// Both segments of a connection: the receive segment is memory of this process.
pub type Joined<J> = Ring<Arc<OwnSegment>, <J as Join>::PeerSegment>;

/// Makes the two segments of a connection known to each other.
pub trait Join: Send + Sync + Debug {
    /// The peer's segment as this side sees it.
    type PeerSegment: PeerSegment;

    /// Both segments, once `socket` is ready to receive; `None` when the peer has left.
    ///
    /// # Errors
    /// `WouldBlock` when the peer's segment is not known yet, `InvalidData` for one that cannot be.
    fn join(&self, socket: &Arc<OwnedFd>) -> io::Result<Option<Joined<Self>>>
    where
        Self: Sized;
}
