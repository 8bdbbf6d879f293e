//! A part of an arena that a program fills and sends.

use super::Arena;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Octets of an [`Arena`] that belong to the program until this is dropped. A send that gets them
/// as one of its pieces copies nothing: the peer reads them where they lie.
///
/// It may outlive the connection; its octets then reach no peer any more.
pub struct Loan {
    arena: Arc<Arena>,
    at: u32,
    len: u32,
}

impl Loan {
    pub(super) fn new(arena: Arc<Arena>, at: u32, len: u32) -> Loan {
        Loan { arena, at, len }
    }

    /// The octets, to be filled; `None` while the peer may still read a message that refers to
    /// them.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    #[allow(unsafe_code)]
    pub fn octets_mut(&mut self) -> Option<&mut [u8]> {
        if self.is_sent() {
            return None;
        }
        let mut octets = self.arena.mapping.octets(self.at, self.len as usize);
        // SAFETY: the octets stay mapped as long as the arena lives. The record of chunks lends
        // them to this loan alone, which is borrowed for writing. The peer has no way to write
        // them: the file was sealed against later writers before its descriptor left this process.
        Some(unsafe { octets.as_mut() })
    }

    /// Whether the peer may still read a message that refers to the octets.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    pub fn is_sent(&self) -> bool {
        self.arena.is_sent(self.at)
    }

    /// The arena that lends it.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

impl Deref for Loan {
    type Target = [u8];

    #[inline]
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: as in `octets_mut`, and the loan is not borrowed for writing.
        unsafe { self.arena.mapping.octets(self.at, self.len as usize).as_ref() }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.arena.give_back(self.at);
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} octets)", self.len)
    }
}
