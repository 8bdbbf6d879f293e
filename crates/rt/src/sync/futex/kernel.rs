//! The kernel itself.

use core::cell::Cell;
use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use std::sync::Once;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

use super::lock_pi;
use crate::time::Deadline;

const ANY: NonZeroU32 = NonZeroU32::MAX;

/// A 32-bit word that threads compare and sleep on.
pub(crate) struct Word {
    pub(crate) value: AtomicU32,
}

impl Word {
    pub(crate) const fn new(value: u32) -> Self {
        Word { value: AtomicU32::new(value) }
    }

    /// Sleeps if the word still holds `seen`. Wakes for [`wake_one`](Self::wake_one), a signal or
    /// no reason (`Ok`, or an error that says the same), or at the deadline (`TIMEDOUT`).
    pub(crate) fn wait(&self, seen: u32, deadline: Deadline) -> Result<(), Errno> {
        // Only the bitset form has an absolute time-out.
        futex::wait_bitset(&self.value, Flags::PRIVATE, seen, deadline.timespec().as_ref(), ANY)
    }

    pub(crate) fn wake_one(&self) {
        // Fails only for an address that is not ours.
        let _ = futex::wake(&self.value, Flags::PRIVATE, 1);
    }

    /// Sleeps if the word still holds `seen`, until it is moved to `lock` and owns it. `Ok` means
    /// owned; every error means not owned.
    pub(crate) fn wait_requeue(&self, seen: u32, lock: &LockWord, deadline: Deadline) -> Result<(), Errno> {
        let at = deadline.timespec();
        futex::wait_requeue_pi(&self.value, Flags::PRIVATE, seen, at.as_ref(), &lock.value)
    }

    /// Moves one waiter, or all of them, to `lock`, if the word still holds `seen` (`AGAIN` if
    /// not). The most urgent gets the lock now if it is free.
    pub(crate) fn requeue(&self, seen: u32, lock: &LockWord, all: bool) -> Result<usize, Errno> {
        // One is counted as woken in any case, the rest are on top of it.
        let more = if all { i32::MAX as u32 } else { 0 };
        futex::cmp_requeue_pi(&self.value, Flags::PRIVATE, more, &lock.value, seen)
    }
}

/// A priority-inheritance lock word: 0 free, otherwise the owner's thread id and the waiters bit.
pub(crate) struct LockWord {
    pub(crate) value: AtomicU32,
}

impl LockWord {
    pub(crate) const fn new() -> Self {
        LockWord { value: AtomicU32::new(0) }
    }

    /// Waits in the kernel's queue, lending the owner this thread's priority.
    #[cold]
    pub(crate) fn lock(&self, deadline: Deadline) -> Result<(), Errno> {
        lock_pi::lock(&self.value, deadline)
    }

    /// Hands the lock to the most urgent waiter.
    #[cold]
    pub(crate) fn unlock(&self) -> Result<(), Errno> {
        futex::unlock_pi(&self.value, Flags::PRIVATE)
    }
}

/// The kernel's id of this thread, asked for once a thread.
#[inline]
pub(crate) fn thread_id() -> u32 {
    match TID.get() {
        0 => ask_thread_id(),
        id => id,
    }
}

thread_local! {
    // No destructor, so that locks work in other thread-locals' destructors too.
    static TID: Cell<u32> = const { Cell::new(0) };
}

#[cold]
fn ask_thread_id() -> u32 {
    static FORK_HANDLER: Once = Once::new();
    FORK_HANDLER.call_once(|| {
        // Miri knows neither forks nor this function.
        if cfg!(not(miri)) {
            // SAFETY: the handler is a function that lives as long as the program; all it does in
            // the child is a store to a thread-local of plain data, which is allowed between fork
            // and exec.
            unsafe { libc::pthread_atfork(None, None, Some(forget_thread_id)) };
        }
    });
    let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    TID.set(id);
    id
}

/// The child of a fork has the parent's thread-locals but not its thread id.
extern "C" fn forget_thread_id() {
    TID.set(0);
}
