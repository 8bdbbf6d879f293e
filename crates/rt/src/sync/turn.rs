//! Work that one thread at a time does for all.

use core::fmt;

use super::AtomicEnum;
use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Free,
    Taken,
    /// Taken, and another thread has asked since.
    Again,
}

crate::atomic_enum!(State: Free, Taken, Again);

/// Exclusive work without waiting: any thread may find work, and one thread at a time does it.
///
/// A thread that finds work calls [`take`](Self::take). The owner of the turn does the work, then
/// calls [`pass`](Self::pass). Another thread meanwhile leaves at once, and its work is done all
/// the same: `pass` makes the owner check once more. It is not a lock: no thread waits, so there is
/// no priority to lend.
///
/// ```
/// let turn = isorb_rt::sync::Turn::new();
/// assert!(turn.take());
/// assert!(!turn.take(), "another thread works");
/// assert!(!turn.pass(), "another thread asked: check again");
/// assert!(turn.pass());
/// ```
pub struct Turn(AtomicEnum<State>);

impl Turn {
    /// A turn without an owner.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Turn(AtomicEnum::new())
    }

    /// A turn without an owner.
    #[cfg(loom)]
    pub fn new() -> Self {
        Turn(AtomicEnum::new())
    }

    /// Returns whether the caller owns the turn now. If not, its owner will check once more, and
    /// will see the caller's earlier writes.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange, and one exchange if it is taken.
    #[inline]
    pub fn take(&self) -> bool {
        // If the owner leaves between the two, the caller owns the turn and checks once more than
        // needed.
        self.0.change(State::Free, State::Taken, Acquire) || self.0.swap(State::Again, AcqRel) == State::Free
    }

    /// Releases the turn, unless another thread asked: `false` means that the caller still owns it
    /// and must check again.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange, and one exchange if another thread
    /// asked.
    #[inline]
    pub fn pass(&self) -> bool {
        if self.0.change(State::Taken, State::Free, Release) {
            return true;
        }
        self.0.swap(State::Taken, AcqRel);
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
        f.debug_struct("Turn").field("taken", &!self.0.is(State::Free, Relaxed)).finish()
    }
}
