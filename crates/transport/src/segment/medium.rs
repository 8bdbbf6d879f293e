//! The medium of a pair of segments: the part that another interconnect replaces.
//!
//! Each side owns a receive segment. Its owner reads it, and the peer **only** writes it: nothing
//! here lets a side read its peer's segment, or change a word of it depending on its value. So the
//! medium may be memory that two processes map, or a network that only carries writes to another
//! machine's memory.
//!
//! ```text
//!   A                                             B
//!   A's segment (A reads)  ◄── writes ───  Outward (B's view of it)
//!   Outward (A's view)     ─── writes ──►  B's segment (B reads)
//! ```

use super::memory::Own;
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

/// How a thread sleeps, in the low bits of [`Word::Reader`] and [`Word::Writer`]. The bits above
/// count its sleeps: each sleep on the descriptor gets one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// It is awake.
    Not = 0,
    /// On the word itself ([`Inward::sleep`]).
    OnWord = 1,
    /// On the connection's descriptor.
    OnDescriptor = 2,
}

/// A receive segment as its owner sees it. Its values may change at any time, since the peer may be
/// hostile.
pub trait Inward: Send + Sync + Debug {
    /// Octets of payload that it holds, a power of two.
    fn capacity(&self) -> u32;

    /// A word. The peer's writes before this word are visible afterwards (acquire).
    fn load(&self, word: Word) -> u32;

    /// Copies payload out. The range lies within the capacity; no reference to the segment leaves
    /// this method.
    fn read(&self, at: u32, into: &mut [u8]);

    /// Sleeps while `word` is `seen`, until [`Outward::wake`] of the peer, [`Inward::wake_own`] or
    /// `deadline`. May also return for no reason.
    fn sleep(&self, word: Word, seen: u32, deadline: Deadline);

    /// Wakes the threads of this side that sleep on a word. Returns whether there were any.
    fn wake_own(&self, word: Word) -> bool;
}

/// The peer's receive segment as this side sees it. No method reads it.
pub trait Outward: Send + Sync + Debug {
    /// Octets of payload that it holds, a power of two.
    fn capacity(&self) -> u32;

    /// Writes payload. The range lies within the capacity.
    fn write(&self, at: u32, bytes: &[u8]);

    /// Writes a word after all earlier writes (release).
    fn store(&self, word: Word, value: u32);

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
pub type Joined<J> = Ring<Arc<Own>, <J as Join>::Outward>;

/// Makes the two segments of a connection known to each other.
pub trait Join: Send + Sync + Debug {
    /// The peer's segment as this side sees it.
    type Outward: Outward;

    /// Both segments, once `socket` is ready to receive; `None` when the peer has left.
    ///
    /// # Errors
    /// `WouldBlock` when the peer's segment is not known yet, `InvalidData` for one that cannot be.
    fn join(&self, socket: &Arc<OwnedFd>) -> io::Result<Option<Joined<Self>>>
    where
        Self: Sized;
}
