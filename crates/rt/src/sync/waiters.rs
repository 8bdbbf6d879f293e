//! Threads that wait while one of them works for all.

use core::fmt;

use rustix::io::Errno;

use super::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use super::atomic::{AtomicU32, fence};
use super::futex::{LockWord, OWNER, thread_id};
use super::{Parker, PiMutex};
use crate::time::Deadline;

/// Threads that wait while one of them, which holds a lock, works for all: the first caller on a
/// shared connection reads the replies of the others.
///
/// - The holder [`wake`](Self::wake)s the threads for which it has a reply. When it releases the
///   lock it calls [`hand_over`](Self::hand_over), so that the most urgent waiter takes over.
/// - A thread that finds the lock taken [`announce`](Self::announce)s itself, *tries the lock once
///   more*, and only then [`park`](Announced::park)s. A holder that leaves in between sees the
///   announcement, or the second try finds the lock free.
/// - A woken thread that does not take the lock must call `hand_over` too, since it does not know
///   the reason of the wake-up.
///
/// # Priority inheritance
/// A thread that is more urgent than the holder lends it its priority while it is parked. The
/// others park on a plain futex: the holder is at least as urgent as they are.
///
/// The lock itself cannot carry the loan: a thread that waits for a futex with inheritance leaves
/// it as its owner or at its deadline, not because another thread has an answer for it. So each
/// waiter has a lock word of its own. It writes the holder's thread id there, as if the holder had
/// locked it, and waits for it in the kernel. The holder unlocks the word to wake the thread, or
/// when it hands over. Nothing else has to be undone: the kernel ends the loan at the deadline, at
/// the unlocking, and at the holder's end. It needs no right, it follows chains of locks, and it
/// does not disturb the class that the holder has. Raising the holder with `sched_setattr` would
/// need `RLIMIT_RTPRIO`, and would overwrite a class that a third thread sets meanwhile.
///
/// The loan does not reach a thread that became urgent only because another thread waits for a
/// lock that it holds: its own class decides.
pub struct Waiters {
    waiting: AtomicU32,
    /// How many of them lend.
    lending: AtomicU32,
    slots: Box<[Slot]>,
}

struct Slot {
    /// 0 while the slot's thread is not parked, else its rank and one more.
    parked: AtomicU32,
    parker: Parker,
    /// Names the holder while the thread lends it its priority.
    loan: LockWord,
}

impl Slot {
    fn wake(&self) {
        self.parker.unpark();
        // Either this thread sees the loan, or the waiter sees the token.
        fence(SeqCst);
        self.repay();
    }

    /// Ends a loan to the calling thread.
    fn repay(&self) {
        let me = thread_id();
        if self.loan.value.load(SeqCst) & OWNER == me
            && self.loan.value.compare_exchange(me, 0, SeqCst, Relaxed).is_err()
        {
            // Fails if the waiter has left at its deadline.
            let _ = self.loan.unlock();
        }
    }
}

impl Waiters {
    /// Room for `slots` threads.
    pub fn new(slots: usize) -> Self {
        let slot = |_| Slot { parked: AtomicU32::new(0), parker: Parker::new(), loan: LockWord::new() };
        let slots = (0..slots).map(slot).collect();
        Waiters { waiting: AtomicU32::new(0), lending: AtomicU32::new(0), slots }
    }

    /// Announces that the thread with this slot is about to park, until the result is dropped.
    ///
    /// # Panics
    /// If there is no such slot.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; two atomic operations, a fence and a system call.
    pub fn announce(&self, slot: usize) -> Announced<'_> {
        let rank = rank::of_caller(slot);
        let slot = &self.slots[slot];
        self.waiting.fetch_add(1, SeqCst);
        slot.parked.store(1 + rank, SeqCst);
        fence(SeqCst);
        Announced { waiters: self, slot, rank }
    }

    /// Wakes the thread with this slot, or lets its next [`park`](Announced::park) return at once.
    /// A thread that lends its priority is woken by the thread that it lends it to only, at the
    /// latest when that hands over.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call if the thread is parked.
    pub fn wake(&self, slot: usize) {
        self.slots[slot].wake();
    }

    /// Drops a wake-up that the last user of the slot did not take.
    #[inline]
    pub fn reset(&self, slot: usize) {
        self.slots[slot].parker.reset();
    }

    /// Whether threads that are more urgent than the holder wait. It is to hand over as soon as its
    /// work allows.
    #[inline]
    pub fn has_loans(&self) -> bool {
        self.lending.load(Relaxed) != 0
    }

    /// Wakes the most urgent of the waiting threads, if there are any. Call it after releasing the
    /// lock.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. A fence and a load without waiters; else it reads each slot
    /// once or twice, and makes one system call, and one for each thread that lends it its
    /// priority.
    #[inline]
    pub fn hand_over(&self) {
        fence(SeqCst);
        if self.waiting.load(Relaxed) != 0 {
            self.wake_most_urgent();
        }
    }

    #[cold]
    fn wake_most_urgent(&self) {
        let mut most = (0, None);
        for slot in &self.slots {
            let parked = slot.parked.load(SeqCst);
            if parked > most.0 {
                most = (parked, Some(slot));
            }
        }
        if let Some(slot) = most.1 {
            slot.wake();
        }
        // The caller no longer holds the lock. The others look for the thread that does.
        if self.lending.load(SeqCst) != 0 {
            self.slots.iter().for_each(Slot::repay);
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
    rank: u32,
}

impl Announced<'_> {
    /// Parks until woken, or until `lock` is free; `false` when the deadline passed. Lends this
    /// thread's priority to the thread that holds `lock` if that is less urgent. May return `true`
    /// for no reason.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until woken or the deadline. No thread of a priority between this
    /// one's and the holder's prolongs the wait.
    pub fn park<T: ?Sized>(&self, lock: &PiMutex<T>, deadline: Deadline) -> bool {
        let word = lock.lock_word();
        let holder = word.value.load(Acquire) & OWNER;
        // If the lock is free, the holder has left and has chosen a thread by now, or will; this
        // thread may take the lock as well.
        if holder == 0 {
            return true;
        }
        if !rank::exceeds_thread(self.rank, holder) {
            return self.slot.parker.park_until(deadline);
        }
        self.slot.loan.value.store(holder, SeqCst);
        self.waiters.lending.fetch_add(1, SeqCst);
        fence(SeqCst);
        // A holder that has left, or has delivered, before it could see the loan does not repay it.
        // The order matters: a token of an earlier holder is visible to a thread that sees the
        // later one.
        let still = word.value.load(Acquire) & OWNER == holder && !self.slot.parker.has_token();
        let repaid = if still { self.slot.loan.lock(deadline) } else { Ok(()) };
        self.waiters.lending.fetch_sub(1, SeqCst);
        // The kernel knows no waiter for it any more.
        self.slot.loan.value.store(0, SeqCst);
        match repaid {
            Ok(()) | Err(Errno::INTR | Errno::AGAIN | Errno::TIMEDOUT) => {
                let woken = self.slot.parker.has_token();
                self.slot.parker.reset();
                woken || repaid != Err(Errno::TIMEDOUT)
            }
            // The kernel is too old, has no memory, or sees a circle of locks: without inheritance,
            // then.
            Err(_) => self.slot.parker.park_until(deadline),
        }
    }

    /// Parks until woken, without lending; `false` when the deadline passed. For a thread that has
    /// just handed over to a more urgent one.
    ///
    /// # Real-time
    /// As [`park`](Self::park).
    pub fn park_behind(&self, deadline: Deadline) -> bool {
        self.slot.parker.park_until(deadline)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.slot.parked.store(0, SeqCst);
        self.waiters.waiting.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for Announced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announced").finish_non_exhaustive()
    }
}

/// How urgent threads are, by their classes.
#[cfg(not(loom))]
mod rank {
    use crate::sched::SchedClass;

    /// Of a reservation, which precedes every priority.
    const RESERVED: u32 = 256;

    fn of(class: SchedClass) -> u32 {
        match class {
            SchedClass::Other => 0,
            SchedClass::Fifo(priority) | SchedClass::Rr(priority) => priority.into(),
            SchedClass::Reserved(_) => RESERVED,
        }
    }

    pub(super) fn of_caller(_: usize) -> u32 {
        SchedClass::current().map_or(0, of)
    }

    /// Whether a thread of this rank is more urgent than the thread with this id. Of two
    /// reservations the kernel knows which is.
    pub(super) fn exceeds_thread(rank: u32, thread: u32) -> bool {
        rank == RESERVED
            || rank > 0 && SchedClass::get(thread.cast_signed()).is_ok_and(|class| of(class) < rank)
    }
}

/// Under loom the first slot's thread is the least urgent, and all others lend.
#[cfg(loom)]
mod rank {
    pub(super) fn of_caller(slot: usize) -> u32 {
        slot as u32
    }
    pub(super) fn exceeds_thread(rank: u32, _: u32) -> bool {
        rank > 0
    }
}
