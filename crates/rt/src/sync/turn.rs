//! Work that one thread at a time does for all.

use core::fmt;

use super::atomic::AtomicU32;
use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody has come by since.
const AGAIN: u32 = 2;

/// Whose turn it is, where anybody may find that there is work and one thread at a time may do it, without waiting.
///
/// Who finds work calls [`take`](Self::take). Who has the turn works, then calls [`pass`](Self::pass). Who comes by meanwhile leaves
/// at once, and what it came for is done all the same: `pass` sends the owner back to look once more. It is no lock: nobody
/// waits, so there is no priority to lend.
///
/// ```
/// let turn = isorb_rt::sync::Turn::new();
/// assert!(turn.take());
/// assert!(!turn.take(), "somebody is at it");
/// assert!(!turn.pass(), "somebody came by: look again");
/// assert!(turn.pass());
/// ```
pub struct Turn(AtomicU32);

impl Turn {
    /// Nobody's turn.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Turn(AtomicU32::new(FREE))
    }

    /// Nobody's turn.
    #[cfg(loom)]
    pub fn new() -> Self {
        Turn(AtomicU32::new(FREE))
    }

    /// Whether the turn is the caller's now. If not, its owner will look once more, and will then see what the caller wrote before.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange, and one exchange where somebody has the turn.
    #[inline]
    pub fn take(&self) -> bool {
        // The owner may leave between the two: then the turn is the caller's, who will look once more than needed.
        self.0.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok() || self.0.swap(AGAIN, AcqRel) == FREE
    }

    /// Gives the turn up, unless somebody came by: `false` means that the caller still has it and must look again.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange, and one exchange where somebody came by.
    #[inline]
    pub fn pass(&self) -> bool {
        if self.0.compare_exchange(TAKEN, FREE, Release, Relaxed).is_ok() {
            return true;
        }
        self.0.swap(TAKEN, AcqRel);
        false
    }
}

impl Default for Turn {
    fn default() -> Self {
        Turn::new()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("taken", &(self.0.load(Relaxed) != FREE)).finish()
    }
}
