//! Threads that wait while one of them works for all.

use core::fmt;

use super::Parker;
use super::atomic::Ordering::{Relaxed, SeqCst};
use super::atomic::{AtomicBool, AtomicU32, fence};
use crate::time::Deadline;

/// Threads that wait while one of them, which holds a lock, works for all: the first caller on a
/// shared connection reads the replies of the others.
///
/// - The holder [`wake`](Self::wake)s the threads for which it has a reply. When it releases the
///   lock it calls [`hand_over`](Self::hand_over), so that another thread takes over.
/// - A thread that finds the lock taken [`announce`](Self::announce)s itself, *tries the lock once
///   more*, and only then [`park`](Announced::park)s. A holder that leaves in between sees the
///   announcement, or the second try finds the lock free.
/// - A woken thread that does not take the lock must call `hand_over` too, since it does not know
///   the reason of the wake-up.
pub struct Waiters {
    waiting: AtomicU32,
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    parked: AtomicBool,
    parker: Parker,
}

impl Waiters {
    /// Room for `slots` threads.
    pub fn new(slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Waiters { waiting: AtomicU32::new(0), slots }
    }

    /// Announces that the thread with this slot is about to park, until the result is dropped.
    ///
    /// # Panics
    /// If there is no such slot.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; two atomic operations and a fence.
    pub fn announce(&self, slot: usize) -> Announced<'_> {
        let slot = &self.slots[slot];
        self.waiting.fetch_add(1, SeqCst);
        slot.parked.store(true, SeqCst);
        fence(SeqCst);
        Announced { waiters: self, slot }
    }

    /// Wakes the thread with this slot, or lets its next [`park`](Announced::park) return at once.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call if the thread is parked.
    pub fn wake(&self, slot: usize) {
        self.slots[slot].parker.unpark();
    }

    /// Drops a wake-up that the last user of the slot did not take.
    #[inline]
    pub fn reset(&self, slot: usize) {
        self.slots[slot].parker.reset();
    }

    /// Wakes a waiting thread, if there is one. Call it after releasing the lock.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. A fence and a load without waiters; else it reads each slot
    /// once, and makes one system call.
    #[inline]
    pub fn hand_over(&self) {
        fence(SeqCst);
        if self.waiting.load(Relaxed) != 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        if let Some(slot) = self.slots.iter().find(|slot| slot.parked.load(SeqCst)) {
            slot.parker.unpark();
        }
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("waiting", &self.waiting.load(Relaxed)).finish_non_exhaustive()
    }
}

/// A thread that is about to park.
#[must_use = "the announcement ends when this is dropped"]
pub struct Announced<'a> {
    waiters: &'a Waiters,
    slot: &'a Slot,
}

impl Announced<'_> {
    /// Parks until woken; `false` when the deadline passed.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until woken or the deadline.
    pub fn park(&self, deadline: Deadline) -> bool {
        self.slot.parker.park_until(deadline)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.slot.parked.store(false, SeqCst);
        self.waiters.waiting.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for Announced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announced").finish_non_exhaustive()
    }
}
