//! Parts of a message that lie in memory of the peer.
//!
//! Over segments the peer may lend parts of its message. The inbox leaves room for each in the
//! block, and takes the part without copying it. An operation that [reads in
//! place](isorb_cdr::Lent) gets the parts. For all others the room is filled before the message is
//! parsed.
//!
//! ```text
//!   inbox ── takes parts ──► LentParts ── operation reads in place? ──► Decoder::with_lent
//!                                └─ no: fill the room in the block ───► as any other message
//! ```

use isorb_cdr::LentOctets;
use isorb_transport::{LentPart, Stream};
use std::cell::Cell;

/// Parts of one message that are not copied at once. A sender lends at most as many.
const PARTS: usize = 4;

/// The parts of a message that lie in memory of the peer, until they are released.
#[derive(Debug, Default)]
pub(crate) struct LentParts {
    /// With the offset of its room in the message.
    parts: [Option<(usize, LentPart)>; PARTS],
    /// The peer may use them again.
    released: Cell<bool>,
}

impl LentParts {
    /// Nothing but a segment lends: without them the code for lent parts is left out.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        !cfg!(feature = "segments") || self.parts[0].is_none()
    }

    pub fn is_full(&self) -> bool {
        self.parts[PARTS - 1].is_some()
    }

    /// Where the first begins in the message.
    pub fn begin(&self) -> Option<usize> {
        self.parts[0].as_ref().map(|(at, _)| *at)
    }

    /// Adds a part behind all others. The caller has checked that there is room for it.
    pub fn push(&mut self, at: usize, part: LentPart) {
        if let Some(free) = self.parts.iter_mut().find(|part| part.is_none()) {
            *free = Some((at, part));
        }
    }

    /// Copies the parts into their rooms in `message`, and releases them.
    #[cold]
    pub fn fill(&self, message: &mut [u8], stream: &dyn Stream) {
        if self.released.get() {
            return;
        }
        for (at, part) in self.parts.iter().flatten() {
            if let Some(room) = message.get_mut(*at..*at + part.octets()) {
                part.read(0, room);
            }
        }
        self.release(stream);
    }

    /// Returns the parts to the peer, once. They are not read any more.
    #[cold]
    pub fn release(&self, stream: &dyn Stream) {
        if !self.released.replace(true) {
            self.parts.iter().flatten().for_each(|(_, part)| stream.release_lent(part));
        }
    }

    /// Forgets the parts; those that are not released stay with the connection until it ends.
    #[cold]
    pub fn clear(&mut self) {
        *self = LentParts::default();
    }
}

impl LentOctets for LentParts {
    fn part(&self, i: usize) -> Option<(usize, usize)> {
        let (at, part) = self.parts.get(i)?.as_ref()?;
        Some((*at, part.octets()))
    }

    fn fill(&self, i: usize, into: &mut [u8]) {
        if let Some((_, part)) = &self.parts[i] {
            part.read(0, into);
        }
    }

    fn claim(&self, i: usize) {
        if let Some((_, part)) = &self.parts[i] {
            part.count_read_in_place();
        }
    }

    fn read(&self, i: usize, from: usize, into: &mut [u8]) {
        if let Some((_, part)) = &self.parts[i] {
            part.read(from, into);
        }
    }
}
