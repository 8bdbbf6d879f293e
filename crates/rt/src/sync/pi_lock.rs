//! The lock by itself: the protocol of a priority-inheritance futex.

use core::fmt;
use core::hint::cold_path;

use rustix::io::Errno;

use super::atomic::Ordering::{Acquire, Relaxed, Release};
use super::futex::{LockWord, OWNER, thread_id};
use crate::time::Deadline;

/// Why a lock was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Another thread holds it ([`PiLock::try_lock`]).
    WouldBlock,
    /// Another thread still held it at the deadline.
    TimedOut,
    /// This thread holds it already, or holds one that the owner waits for, directly or through
    /// others. Of threads that close such a circle at the same moment, more than one may get this
    /// error.
    Deadlock,
    /// The thread that holds it ended without unlocking: it forgot the guard.
    OwnerDied,
    /// The kernel had no memory to queue this thread.
    NoMemory,
    /// The kernel was built without priority inheritance (`CONFIG_FUTEX_PI`).
    Unsupported,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::WouldBlock => "another thread holds the mutex",
            LockError::TimedOut => "another thread still held the mutex at the deadline",
            LockError::Deadlock => {
                "deadlock: this thread holds the mutex already, or one that the mutex's owner waits for"
            }
            LockError::OwnerDied => "the thread that held the mutex has ended without unlocking it",
            LockError::NoMemory => "the kernel has no memory to queue this thread for the mutex",
            LockError::Unsupported => {
                "this kernel was built without priority-inheritance locks (CONFIG_FUTEX_PI)"
            }
        })
    }
}

impl std::error::Error for LockError {}

/// This thread does not hold the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotOwner;

impl fmt::Display for NotOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this thread does not hold the lock")
    }
}

impl std::error::Error for NotOwner {}

/// A priority-inheritance lock without a value and without a guard: the thread that locks must
/// unlock. It is the lock of `RTCORBA::Mutex`, with its separate calls for lock and unlock. Other
/// code uses [`PiMutex`](super::PiMutex), this lock around a value, which documents the properties
/// of both.
///
/// ```
/// use isorb_rt::sync::{LockError, NotOwner, PiLock};
///
/// let lock = PiLock::new();
/// assert_eq!(lock.try_lock(), Ok(()));
/// assert_eq!(lock.try_lock(), Err(LockError::Deadlock));
/// assert_eq!(lock.unlock(), Ok(()));
/// assert_eq!(lock.unlock(), Err(NotOwner));
/// ```
pub struct PiLock {
    word: LockWord,
}

impl PiLock {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        PiLock { word: LockWord::new() }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        PiLock { word: LockWord::new() }
    }

    /// Locks, waiting until `deadline` at most.
    ///
    /// # Errors
    /// [`LockError`], each but `WouldBlock`.
    ///
    /// # Real-time
    /// Does not allocate. Blocks while another thread holds the lock, bounded by `deadline`. A
    /// kernel before 5.14 counts the wait by the clock of the day: where that is set back
    /// meanwhile, the wait may end later by as much. It never ends early.
    #[inline(always)]
    pub fn lock_until(&self, deadline: Deadline) -> Result<(), LockError> {
        match self.word.value.compare_exchange(0, thread_id(), Acquire, Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => self.lock_in_kernel(deadline),
        }
    }

    /// Locks if the lock is free.
    ///
    /// # Errors
    /// [`LockError::WouldBlock`], or [`LockError::Deadlock`] if it is this thread that holds it.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange.
    #[inline(always)]
    pub fn try_lock(&self) -> Result<(), LockError> {
        let me = thread_id();
        match self.word.value.compare_exchange(0, me, Acquire, Relaxed) {
            Ok(_) => Ok(()),
            Err(held) => {
                cold_path();
                Err(if held & OWNER == me { LockError::Deadlock } else { LockError::WouldBlock })
            }
        }
    }

    /// Unlocks, handing the lock to the most urgent waiter.
    ///
    /// # Errors
    /// [`NotOwner`]; nothing has changed then.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. One compare-exchange, and a system call if threads wait.
    #[inline(always)]
    pub fn unlock(&self) -> Result<(), NotOwner> {
        match self.word.value.compare_exchange(thread_id(), 0, Release, Relaxed) {
            Ok(_) => Ok(()),
            // Threads wait, or it is not ours: the kernel looks.
            Err(_) => self.word.unlock().map_err(|_| NotOwner),
        }
    }

    pub(super) fn word(&self) -> &LockWord {
        &self.word
    }

    #[cold]
    fn lock_in_kernel(&self, deadline: Deadline) -> Result<(), LockError> {
        loop {
            return Err(match self.word.lock(deadline) {
                Ok(()) => return Ok(()),
                // A signal; or the owner is just ending, which the kernel asks to try again.
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(Errno::TIMEDOUT) => LockError::TimedOut,
                Err(Errno::DEADLK) => LockError::Deadlock,
                Err(Errno::NOMEM) => LockError::NoMemory,
                Err(Errno::NOSYS | Errno::OPNOTSUPP) => LockError::Unsupported,
                // SRCH: no thread has the id in the word. PERM: it is a thread of the kernel, so
                // the id was reused.
                Err(_) => LockError::OwnerDied,
            });
        }
    }
}

impl Default for PiLock {
    fn default() -> Self {
        PiLock::new()
    }
}

impl fmt::Debug for PiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.word.value.load(Relaxed) & OWNER != 0;
        f.debug_struct("PiLock").field("held", &held).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn only_the_owner_unlocks() {
        let lock = Arc::new(PiLock::new());
        let other = lock.clone();
        assert_eq!(lock.unlock(), Err(NotOwner));
        lock.lock_until(Deadline::NONE).unwrap();
        thread::spawn(move || {
            assert_eq!(other.unlock(), Err(NotOwner));
            assert_eq!(other.try_lock(), Err(LockError::WouldBlock));
        })
        .join()
        .unwrap();
        assert_eq!(lock.unlock(), Ok(()));
        assert_eq!(format!("{lock:?}"), "PiLock { held: false }");
    }

    #[test]
    fn a_contended_lock_is_handed_over() {
        let lock = Arc::new(PiLock::new());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || {
                    for _ in 0..5_000 {
                        lock.lock_until(Deadline::NONE).unwrap();
                        assert_eq!(lock.unlock(), Ok(()));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(lock.try_lock(), Ok(()));
    }
}
