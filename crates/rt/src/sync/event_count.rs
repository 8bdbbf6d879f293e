//! Waiting for a change under a lock, without being handed the lock.

use core::fmt;

use super::atomic::Ordering::{Relaxed, SeqCst};
use super::atomic::{AtomicU32, fence};
use super::futex::Word;
use super::pi_mutex::{PiGuard, PiMutex};
use crate::time::Deadline;

/// Lets threads wait until what a [`PiMutex`] protects has changed.
///
/// A [`PiCondvar`](super::PiCondvar) gives the waiter the mutex at the moment of the notification.
/// If both threads share a processor, the notifier then blocks on the mutex of a thread that has
/// not run yet. From there on they hand the mutex to each other, with two switches for each lock.
///
/// Here the waiter is only woken, and locks the mutex once it runs. That suits a notifier that goes
/// on locking the mutex many times, such as a thread that empties a queue. The price: another
/// thread may be faster than the waiter. The most urgent waiter is woken first, but competes for
/// the mutex like all others.
///
/// ```
/// use isorb_rt::{sync::{EventCount, PiMutex}, time::Deadline};
///
/// let (queue, room) = (PiMutex::new(vec![1, 2, 3]), EventCount::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         while queue.lock().pop().is_some() {
///             room.notify_one();
///         }
///     });
///     let empty = room.lock_while(&queue, Deadline::NONE, |q| !q.is_empty());
///     assert!(empty.is_empty());
/// });
/// ```
pub struct EventCount {
    /// Counts notifications; a waiter sleeps on the count that it saw under the mutex.
    count: Word,
    waiters: AtomicU32,
}

impl EventCount {
    /// An event count without waiters.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        EventCount { count: Word::new(0), waiters: AtomicU32::new(0) }
    }

    /// An event count without waiters.
    #[cfg(loom)]
    pub fn new() -> Self {
        EventCount { count: Word::new(0), waiters: AtomicU32::new(0) }
    }

    /// Locks `mutex` when `condition` is false, or at `deadline` however it is.
    ///
    /// # Panics
    /// As [`PiMutex::lock`].
    ///
    /// # Real-time
    /// Does not allocate. Blocks until notified or `deadline`, then as [`PiMutex::lock`], once a
    /// notification.
    pub fn lock_while<'m, T: ?Sized>(
        &self,
        mutex: &'m PiMutex<T>,
        deadline: Deadline,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> PiGuard<'m, T> {
        loop {
            let mut guard = mutex.lock();
            if !condition(&mut guard) {
                return guard;
            }
            // Under the mutex: a thread that changes the condition later sees the number of
            // waiters, or changes the count.
            self.waiters.fetch_add(1, SeqCst);
            let seen = self.count.value.load(SeqCst);
            drop(guard);
            let late = self.count.wait(seen, deadline) == Err(rustix::io::Errno::TIMEDOUT);
            self.waiters.fetch_sub(1, SeqCst);
            if late {
                return mutex.lock();
            }
        }
    }

    /// Wakes the most urgent waiter. Call it after the change, without the mutex.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. A fence and a load without waiters, else one system call.
    #[inline]
    pub fn notify_one(&self) {
        fence(SeqCst);
        if self.waiters.load(Relaxed) != 0 {
            self.wake(1);
        }
    }

    /// Wakes all waiters.
    ///
    /// # Real-time
    /// As [`notify_one`](Self::notify_one), with a system call a waiter.
    pub fn notify_all(&self) {
        fence(SeqCst);
        self.wake(self.waiters.load(Relaxed));
    }

    #[cold]
    fn wake(&self, threads: u32) {
        self.count.value.fetch_add(1, SeqCst);
        (0..threads).for_each(|_| self.count.wake_one());
    }
}

impl Default for EventCount {
    fn default() -> Self {
        EventCount::new()
    }
}

impl fmt::Debug for EventCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCount").field("waiters", &self.waiters.load(Relaxed)).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::time::now_ns;

    #[test]
    fn a_wait_ends_at_its_deadline_with_the_lock_held() {
        let (mutex, event) = (PiMutex::new(0), EventCount::new());
        let at = now_ns() + 5_000_000;
        let guard = event.lock_while(&mutex, Deadline::at_ns(at), |_| true);
        assert!(now_ns() >= at);
        thread::scope(|s| s.spawn(|| assert!(mutex.try_lock().is_err())).join().unwrap());
        drop(guard);
        assert_eq!(event.waiters.load(Relaxed), 0);
    }

    #[test]
    fn what_holds_already_is_not_waited_for() {
        let (mutex, event) = (PiMutex::new(7), EventCount::new());
        assert_eq!(*event.lock_while(&mutex, Deadline::PAST, |n| *n != 7), 7);
    }

    #[test]
    fn a_bounded_queue_lets_many_through() {
        const EACH: u32 = 20_000;
        let shared = Arc::new((PiMutex::new(0_u32), EventCount::new(), EventCount::new()));
        let long = || Deadline::after(Duration::from_secs(60));
        let fill: Vec<_> = (0..3)
            .map(|_| {
                let s = shared.clone();
                thread::spawn(move || {
                    for _ in 0..EACH {
                        let mut count = s.1.lock_while(&s.0, long(), |n| *n >= 8);
                        assert!(*count < 8, "no thread woke it");
                        *count += 1;
                        drop(count);
                        s.2.notify_one();
                    }
                })
            })
            .collect();
        for _ in 0..3 * EACH {
            let mut count = shared.2.lock_while(&shared.0, long(), |n| *n == 0);
            *count = count.checked_sub(1).expect("no thread woke it");
            drop(count);
            shared.1.notify_one();
        }
        fill.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn all_are_woken() {
        let shared = Arc::new((PiMutex::new(false), EventCount::new()));
        let waiters: Vec<_> = (0..5)
            .map(|_| {
                let s = shared.clone();
                thread::spawn(move || {
                    assert!(*s.1.lock_while(&s.0, Deadline::after(Duration::from_secs(60)), |go| !*go));
                })
            })
            .collect();
        while shared.1.waiters.load(Relaxed) < 5 {
            thread::yield_now();
        }
        *shared.0.lock() = true;
        shared.1.notify_all();
        waiters.into_iter().for_each(|t| t.join().unwrap());
    }
}
