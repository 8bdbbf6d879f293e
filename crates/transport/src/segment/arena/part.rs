//! A part of the peer's message that is read where it lies.

use super::super::memory::OwnSegment;
use super::Lent;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A part of a message that this side took without copying it: octets in the arena of the peer.
///
/// Holding one proves that the octets stay mapped and have memory. It proves nothing about their
/// values: the peer may write them at any time, so they are only copied out. An honest peer leaves
/// them alone until they are [released](crate::Stream::release_lent). Without that they stay in
/// use until the connection ends.
pub struct LentPart {
    /// Keeps the arena mapped.
    segment: Arc<OwnSegment>,
    lent: Lent,
}

impl LentPart {
    pub(in super::super) fn new(segment: Arc<OwnSegment>, lent: Lent) -> LentPart {
        if let Some(arena) = segment.peers_arena() {
            arena.held.fetch_add(lent.octets as usize, Relaxed);
        }
        LentPart { segment, lent }
    }

    /// The number by which it is released.
    pub(in super::super) fn number(&self) -> u32 {
        self.lent.number
    }

    /// Its length in octets.
    #[inline]
    pub fn octets(&self) -> usize {
        self.lent.octets as usize
    }

    /// Copies octets from offset `from` on.
    ///
    /// # Panics
    /// If they do not lie within the part.
    ///
    /// # Real-time
    /// The time of a copy.
    #[inline]
    pub fn read(&self, from: usize, into: &mut [u8]) {
        let len = self.octets();
        assert!(from <= len && into.len() <= len - from, "octets of a part of {len}");
        if let Some(arena) = self.segment.peers_arena() {
            arena.read(self.lent.at + from as u32, into);
        }
    }

    /// Counts it as read in place.
    pub fn count_read_in_place(&self) {
        if let Some(arena) = self.segment.peers_arena() {
            arena.read_in_place.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for LentPart {
    fn drop(&mut self) {
        if let Some(arena) = self.segment.peers_arena() {
            arena.held.fetch_sub(self.octets(), Relaxed);
        }
    }
}

impl fmt::Debug for LentPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentPart({} octets, message {})", self.octets(), self.lent.number)
    }
}
