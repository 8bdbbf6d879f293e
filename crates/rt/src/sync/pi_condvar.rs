//! A condition variable that keeps priority inheritance intact.

use core::fmt;

use rustix::io::Errno;

use super::atomic::AtomicU32;
use super::atomic::Ordering::Relaxed;
use super::futex::Word;
use super::pi_mutex::{PiGuard, PiMutex};
use crate::time::Deadline;

/// Waits for a change of what a [`PiMutex`] protects.
///
/// A woken waiter is moved from the condition's queue to the mutex's queue inside the kernel. It
/// does not wake to find the mutex taken, and the thread that holds the mutex inherits its priority
/// while it waits there; a condition on top of a plain futex would lose the inheritance in between.
/// The most urgent waiter goes first.
///
/// One condition belongs to one mutex as long as threads wait on it. A wait may end without a
/// notification, so the predicate is always checked again: [`wait_while`](Self::wait_while) does.
///
/// ```
/// use isorb_rt::{sync::{PiCondvar, PiMutex}, time::Deadline};
///
/// let (mutex, filled) = (PiMutex::new(Vec::new()), PiCondvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         mutex.lock().push(7);
///         filled.notify_one(&mutex);
///     });
///     let mut values = mutex.lock();
///     assert!(filled.wait_while(&mut values, Deadline::NONE, |v| v.is_empty()));
///     assert_eq!(values.pop(), Some(7));
/// });
/// ```
pub struct PiCondvar {
    /// Counts notifications; a waiter sleeps on the count that it saw under the mutex. One that is
    /// suspended between looking and sleeping for exactly 2^32 notifications would miss the last of
    /// them.
    count: Word,
    /// Written with the mutex held only, so that a notification without waiters costs no system
    /// call.
    waiters: AtomicU32,
}

impl PiCondvar {
    /// A condition without waiters.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        PiCondvar { count: Word::new(0), waiters: AtomicU32::new(0) }
    }

    /// A condition without waiters.
    #[cfg(loom)]
    pub fn new() -> Self {
        PiCondvar { count: Word::new(0), waiters: AtomicU32::new(0) }
    }

    /// Unlocks, waits for a notification until `deadline`, locks again. Says `false` if the
    /// deadline passed first. May also return `true` for no reason.
    ///
    /// # Panics
    /// Never; but if the mutex cannot be locked again (a deadlock of the program's making, see
    /// [`PiMutex::lock`]) the process is aborted with a sentence, since the guard would be a lie.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until notified or `deadline`, then as [`PiMutex::lock`]: the
    /// deadline bounds the wait for the notification, not the wait for the mutex.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut PiGuard<'_, T>, deadline: Deadline) -> bool {
        let seen = self.count.value.load(Relaxed);
        self.waiters.store(self.waiters.load(Relaxed) + 1, Relaxed);
        let notified = PiGuard::released(guard, |lock| match self.count.wait_requeue(seen, lock, deadline) {
            Ok(()) => (true, true),
            Err(Errno::TIMEDOUT) => (false, false),
            // Notified before it slept, or a signal.
            Err(_) => (true, false),
        });
        self.waiters.store(self.waiters.load(Relaxed) - 1, Relaxed);
        notified
    }

    /// Waits until `condition` is false; `deadline` is the latest. Says whether it is false.
    ///
    /// # Real-time
    /// As [`wait_until`](Self::wait_until), once a notification.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut PiGuard<'_, T>,
        deadline: Deadline,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> bool {
        while condition(guard) {
            if !self.wait_until(guard, deadline) {
                return !condition(guard);
            }
        }
        true
    }

    /// Wakes the most urgent waiter, with `mutex` held or not. Held, the waiter runs when it is
    /// unlocked.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. One system call if a thread waits (again, if another
    /// notification came between), none if not.
    pub fn notify_one<T: ?Sized>(&self, mutex: &PiMutex<T>) {
        self.notify(mutex, false);
    }

    /// Wakes all waiters; they run one after the other, the most urgent first.
    ///
    /// # Real-time
    /// As [`notify_one`](Self::notify_one); the system call takes time proportional to the waiters.
    pub fn notify_all<T: ?Sized>(&self, mutex: &PiMutex<T>) {
        self.notify(mutex, true);
    }

    fn notify<T: ?Sized>(&self, mutex: &PiMutex<T>, all: bool) {
        // A thread that waits for this change raised the number under the mutex, before the
        // notifier made the change under the mutex.
        if self.waiters.load(Relaxed) == 0 {
            return;
        }
        let mut seen = self.count.value.fetch_add(1, Relaxed).wrapping_add(1);
        // AGAIN: another notification came between, and there may be waiters that saw it. (Or the
        // mutex's owner is just ending.) Waiters that saw neither are awake already.
        while self.count.requeue(seen, mutex.lock_word(), all) == Err(Errno::AGAIN) {
            seen = self.count.value.load(Relaxed);
        }
    }
}

impl Default for PiCondvar {
    fn default() -> Self {
        PiCondvar::new()
    }
}

impl fmt::Debug for PiCondvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PiCondvar").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::time::now_ns;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_wait_ends_at_its_deadline_with_the_lock_held() {
        let (m, c) = (PiMutex::new(0), PiCondvar::new());
        let mut g = m.lock();
        let at = now_ns() + 5_000_000;
        while c.wait_until(&mut g, Deadline::at_ns(at)) {}
        assert!(now_ns() >= at);
        thread::scope(|s| s.spawn(|| assert!(m.try_lock().is_err())).join().unwrap());
        drop(g);
        drop(m.try_lock().unwrap());
        assert_eq!(c.waiters.load(Relaxed), 0);
    }

    #[test]
    fn one_notification_an_item_feeds_many_waiters() {
        let shared = Arc::new((PiMutex::new((0u32, 0u32)), PiCondvar::new()));
        const EACH: u32 = 3_000;
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let s = shared.clone();
                thread::spawn(move || {
                    for _ in 0..EACH {
                        let mut g = s.0.lock();
                        assert!(s.1.wait_while(&mut g, Deadline::after(LONG), |v| v.0 == 0));
                        g.0 -= 1;
                        g.1 += 1;
                    }
                })
            })
            .collect();
        for i in 0..3 * EACH {
            // With the lock held and without.
            let mut g = shared.0.lock();
            g.0 += 1;
            if i % 2 == 0 {
                drop(g);
                shared.1.notify_one(&shared.0);
            } else {
                shared.1.notify_one(&shared.0);
                drop(g);
            }
        }
        takers.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*shared.0.lock(), (0, 3 * EACH));
    }

    #[test]
    fn all_are_woken() {
        let shared = Arc::new((PiMutex::new((0, false)), PiCondvar::new()));
        let waiters: Vec<_> = (0..5)
            .map(|_| {
                let s = shared.clone();
                thread::spawn(move || {
                    let mut g = s.0.lock();
                    g.0 += 1;
                    assert!(s.1.wait_while(&mut g, Deadline::after(LONG), |v| !v.1));
                })
            })
            .collect();
        while shared.0.lock().0 < 5 {
            thread::yield_now();
        }
        shared.0.lock().1 = true;
        shared.1.notify_all(&shared.0);
        waiters.into_iter().for_each(|t| t.join().unwrap());
    }
}
