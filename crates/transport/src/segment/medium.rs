//! What a pair of segments is made of: the part that another interconnect replaces.
//!
//! Each side owns a receive segment. Its owner reads it; the peer writes it, and **only** writes it: nothing here lets a
//! side read its peer's segment, or change a word of it depending on what stands there. So the medium may be memory that
//! two processes map, or a network that carries writes to another machine's memory and nothing else.
//!
//! ```text
//!   A                                             B
//!   A's segment (A reads)  ◄── writes ───  Outward (B's view of it)
//!   Outward (A's view)     ─── writes ──►  B's segment (B reads)
//! ```

use isorb_rt::time::Deadline;
use std::fmt::Debug;

/// The words of a segment that are not payload. All are written by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// How many octets the peer has put into this segment, modulo 2^32.
    Head,
    /// Not 0 when the peer will put in no more.
    Closed,
    /// One more than the processor that the peer last waited on.
    Processor,
    /// How many octets the peer has taken out of its own segment, modulo 2^32: what it returns to this side.
    Credit,
    /// How the peer's reader sleeps, if it does: see [`Sleep`].
    Reader,
    /// How the peer's writer, which waits for credit, sleeps.
    Writer,
}

/// How somebody sleeps, in the low bits of [`Word::Reader`] and [`Word::Writer`]. The bits above count the times that it
/// went to sleep: on the descriptor, each time is worth one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// It does not.
    Not = 0,
    /// On the word itself ([`Inward::sleep`]).
    OnWord = 1,
    /// On the connection's descriptor.
    OnDescriptor = 2,
}

/// A receive segment as its owner sees it. What it gives may be anything at any time: the peer may be hostile.
pub trait Inward: Send + Sync + Debug {
    /// Octets of payload that it holds, a power of two.
    fn capacity(&self) -> u32;

    /// A word. What the peer wrote before it wrote this word is visible afterwards (acquire).
    fn load(&self, word: Word) -> u32;

    /// Copies payload out. The range lies within the capacity; no reference to the segment leaves this method.
    fn read(&self, at: u32, into: &mut [u8]);

    /// Sleeps while `word` is `seen`, until [`Outward::wake`] of the peer, [`Inward::rouse`] or `deadline`; may also return for
    /// no reason.
    fn sleep(&self, word: Word, seen: u32, deadline: Deadline);

    /// Wakes this side's own sleepers; whether there were any.
    fn rouse(&self, word: Word) -> bool;
}

/// The peer's receive segment as this side sees it. No method reads it.
pub trait Outward: Send + Sync + Debug {
    /// Octets of payload that it holds, a power of two.
    fn capacity(&self) -> u32;

    /// Writes payload. The range lies within the capacity.
    fn write(&self, at: u32, bytes: &[u8]);

    /// Writes a word, after everything that was written before it (release).
    fn store(&self, word: Word, value: u32);

    /// What was written before is at the peer before what this side loads next: a full fence. `false` where the medium cannot promise that,
    /// as a network that carries writes and nothing back: then every head and every credit is followed by both signals, whether
    /// anybody sleeps or not.
    fn settle(&self) -> bool;

    /// Wakes who sleeps on a word of the peer's segment.
    fn wake(&self, word: Word);

    /// Makes the peer's descriptor ready to receive.
    fn ring(&self);
}
