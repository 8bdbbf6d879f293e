//! A mutex with priority inheritance.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::cell::UnsafeCell;
use super::futex::LockWord;
use super::pi_lock::{LockError, PiLock};
use crate::time::Deadline;

/// A mutual-exclusion lock that raises its holder to the priority of its most urgent waiter.
///
/// Free, it costs one compare-exchange to lock and one to unlock. Held, the waiter sleeps in the
/// kernel's queue for the lock, which is ordered by priority, and the kernel lends the holder the
/// waiter's priority, through chains of locks too. The lock is handed over: a thread that comes
/// later does not overtake a waiter of its own priority.
///
/// What it does not do:
/// - **Poison.** A guard that a panic drops unlocks. Code that may panic in the middle of a change
///   must repair it.
/// - **Recover from a dead owner.** A thread cannot end while it borrows a guard, but it can forget
///   one; a later [`lock`](Self::lock) panics and the other calls say [`LockError::OwnerDied`], as
///   far as the kernel notices. A thread that waits while the owner ends gets the lock.
/// - **Survive `fork`.** The child's thread is not the one that locked: a lock that any thread held
///   at the fork stays held in the child for ever, and a guard that the forking thread carries over
///   must be forgotten there. A lock that was free works in the child. (A child that calls exec is
///   not concerned.)
/// - **Reach between processes.**
///
/// ```
/// use isorb_rt::sync::PiMutex;
///
/// static TOTAL: PiMutex<u64> = PiMutex::new(0);
/// *TOTAL.lock() += 1;
/// assert_eq!(*TOTAL.lock(), 1);
/// ```
pub struct PiMutex<T: ?Sized> {
    lock: PiLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, which one thread at a time has; so sharing the
// mutex moves the value between threads at most.
unsafe impl<T: ?Sized + Send> Sync for PiMutex<T> {}
// SAFETY: as for the value itself; nothing waits on a mutex that can be moved.
unsafe impl<T: ?Sized + Send> Send for PiMutex<T> {}

impl<T> PiMutex<T> {
    /// A free mutex around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        PiMutex { lock: PiLock::new(), value: UnsafeCell::new(value) }
    }

    /// A free mutex around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        PiMutex { lock: PiLock::new(), value: UnsafeCell::new(value) }
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> PiMutex<T> {
    /// Locks, waiting as long as it takes.
    ///
    /// # Panics
    /// With a sentence, on every [`LockError`] but `WouldBlock` and `TimedOut`: locking again what
    /// the thread holds and waiting for a thread that has ended are faults of the program, and
    /// would otherwise be a wait for ever.
    ///
    /// # Real-time
    /// Does not allocate. Blocks while another thread holds the lock, bounded by the critical
    /// sections of that thread and of the waiters that are as urgent as this one; no other thread
    /// prolongs the wait.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> PiGuard<'_, T> {
        match self.lock_until(Deadline::NONE) {
            Ok(guard) => guard,
            Err(error) => lock_failed(error),
        }
    }

    /// Locks, waiting until `deadline` at most.
    ///
    /// # Errors
    /// [`LockError`], each but `WouldBlock`.
    ///
    /// # Real-time
    /// As [`lock`](Self::lock), and bounded by `deadline` besides.
    #[inline(always)]
    pub fn lock_until(&self, deadline: Deadline) -> Result<PiGuard<'_, T>, LockError> {
        self.lock.lock_until(deadline)?;
        Ok(PiGuard::new(self))
    }

    /// Locks if the mutex is free.
    ///
    /// # Errors
    /// [`LockError::WouldBlock`], or [`LockError::Deadlock`] if it is this thread that holds it.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange.
    #[inline(always)]
    pub fn try_lock(&self) -> Result<PiGuard<'_, T>, LockError> {
        self.lock.try_lock()?;
        Ok(PiGuard::new(self))
    }

    /// The value, without locking: `&mut self` is the only reference.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` says that no guard exists and none can come into being while the
        // result lives.
        unsafe { &mut *self.value.with_mut(|value| value) }
    }

    pub(super) fn lock_word(&self) -> &LockWord {
        self.lock.word()
    }

    #[inline(always)]
    fn unlock(&self) {
        // Fails only in the child of a fork, which should have forgotten the guard. No thread waits
        // there.
        let _ = self.lock.unlock();
    }
}

impl<T: Default> Default for PiMutex<T> {
    fn default() -> Self {
        PiMutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for PiMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Ok(guard) => f.debug_tuple("PiMutex").field(&&*guard).finish(),
            Err(_) => f.write_str("PiMutex(<locked>)"),
        }
    }
}

/// The right to use what a [`PiMutex`] protects; dropping it unlocks. It stays on the thread that
/// locked.
#[must_use = "dropping the guard unlocks at once"]
pub struct PiGuard<'a, T: ?Sized> {
    mutex: &'a PiMutex<T>,
    // The kernel lets only the owner unlock.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for PiGuard<'_, T> {}

impl<'a, T: ?Sized> PiGuard<'a, T> {
    #[inline]
    fn new(mutex: &'a PiMutex<T>) -> Self {
        PiGuard { mutex, not_send: PhantomData }
    }

    /// The mutex that this locks.
    #[inline]
    pub fn mutex(this: &Self) -> &'a PiMutex<T> {
        this.mutex
    }

    /// Unlocks, waits, and locks again unless `wait` says that the kernel has done so. For
    /// [`PiCondvar`](super::PiCondvar).
    pub(super) fn released<R>(this: &mut Self, wait: impl FnOnce(&LockWord) -> (R, bool)) -> R {
        this.mutex.unlock();
        let (result, locked) = wait(this.mutex.lock_word());
        if !locked && let Err(error) = this.mutex.lock.lock_until(Deadline::NONE) {
            // The caller's guard says that the lock is held. Unwinding would drop it and unlock
            // what is not ours.
            eprintln!("isorb-rt: a condition's mutex cannot be locked again: {error}");
            std::process::abort();
        }
        result
    }
}

impl<T: ?Sized> Deref for PiGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock while the guard lives, so no other reference to the
        // value exists.
        unsafe { &*self.mutex.value.with(|value| value) }
    }
}

impl<T: ?Sized> DerefMut for PiGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for deref; and `&mut self` says that the guard has no other reference out.
        unsafe { &mut *self.mutex.value.with_mut(|value| value) }
    }
}

impl<T: ?Sized> Drop for PiGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for PiGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cold]
#[track_caller]
fn lock_failed(error: LockError) -> ! {
    panic!("PiMutex::lock: {error}")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::sched::ThreadId;
    use crate::sync::atomic::Ordering::Relaxed;
    use crate::sync::futex::OWNER;
    use crate::testing::sleeps;

    #[test]
    fn one_at_a_time() {
        let m = Arc::new(PiMutex::new((0u64, 0u64)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let m = m.clone();
                thread::spawn(move || {
                    for _ in 0..20_000 {
                        let mut g = m.lock();
                        assert_eq!(g.0, g.1);
                        g.0 += 1;
                        g.1 += 1;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*m.lock(), (80_000, 80_000));
    }

    #[test]
    fn locking_twice_is_said_not_waited_for() {
        let m = PiMutex::new(());
        let g = m.lock();
        assert_eq!(m.try_lock().unwrap_err(), LockError::Deadlock);
        assert_eq!(m.lock_until(Deadline::after(Duration::from_secs(60))).unwrap_err(), LockError::Deadlock);
        let panic = catch_unwind(AssertUnwindSafe(|| drop(m.lock()))).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("deadlock"));
        drop(g);
        drop(m.lock());
    }

    #[test]
    fn two_locks_in_opposite_order_are_a_deadlock() {
        let locks = Arc::new((PiMutex::new(()), PiMutex::new(())));
        let first = Arc::new(std::sync::OnceLock::new());
        let (mine, its) = (locks.clone(), first.clone());
        let a = locks.0.lock();
        let t = thread::spawn(move || {
            let _b = mine.1.lock();
            its.set(ThreadId::current()).unwrap();
            mine.0.lock_until(Deadline::after(Duration::from_secs(60))).map(drop)
        });
        // What follows here sleeps nowhere but for the lock.
        while !first.get().is_some_and(|&thread| sleeps(thread)) {
            thread::yield_now();
        }
        // The second thread closes the circle and gets the error.
        assert_eq!(
            locks.1.lock_until(Deadline::after(Duration::from_secs(60))).unwrap_err(),
            LockError::Deadlock
        );
        drop(a);
        assert_eq!(t.join().unwrap(), Ok(()));
    }

    #[test]
    fn where_both_close_a_circle_at_once_one_at_least_is_told() {
        for _ in 0..500 {
            let (locks, both) = ([PiMutex::new(()), PiMutex::new(())], std::sync::Barrier::new(2));
            let cross = |first: usize| {
                let _held = locks[first].lock();
                both.wait();
                locks[1 - first].lock_until(Deadline::after(Duration::from_secs(60))).map(drop)
            };
            let results = thread::scope(|s| {
                let other = s.spawn(|| cross(1));
                [cross(0), other.join().unwrap()]
            });
            let refused = results.iter().filter(|result| **result == Err(LockError::Deadlock)).count();
            let taken = results.iter().filter(|result| result.is_ok()).count();
            assert!(refused >= 1 && refused + taken == 2, "{results:?}");
        }
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let m = Arc::new(PiMutex::new(()));
        let held = m.lock();
        let n = m.clone();
        thread::spawn(move || {
            assert_eq!(n.try_lock().unwrap_err(), LockError::WouldBlock);
            assert_eq!(n.lock_until(Deadline::PAST).unwrap_err(), LockError::TimedOut);
            let d = Deadline::after(Duration::from_millis(5));
            assert_eq!(n.lock_until(d).unwrap_err(), LockError::TimedOut);
            assert!(d.is_past());
        })
        .join()
        .unwrap();
        drop(held);
        drop(m.lock_until(Deadline::PAST).expect("a free lock needs no time"));
    }

    #[test]
    fn a_dead_owner_is_reported() {
        let m = Arc::new(PiMutex::new(()));
        let n = m.clone();
        let owner = thread::spawn(move || {
            core::mem::forget(n.lock());
            crate::sync::futex::thread_id()
        });
        // join returns when the thread's memory may go, a moment before its id goes.
        let its = std::path::PathBuf::from(format!("/proc/self/task/{}", owner.join().unwrap()));
        while its.exists() {
            thread::yield_now();
        }
        let result = m.lock_until(Deadline::after(Duration::from_millis(10))).map(core::mem::forget);
        assert_eq!(result, Err(LockError::OwnerDied));
    }

    #[test]
    fn a_panic_unlocks_and_does_not_poison() {
        let m = PiMutex::new(3);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _g = m.lock();
            panic!("on purpose");
        }));
        assert_eq!(*m.lock(), 3);
        assert_eq!(format!("{m:?}"), "PiMutex(3)");
    }

    #[test]
    fn a_child_of_fork_locks_under_its_own_id() {
        let m = PiMutex::new(0);
        drop(m.lock());
        // SAFETY: the child only locks a mutex that no thread holds, and leaves by _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let g = m.lock();
            // SAFETY: gettid has no preconditions.
            let id = unsafe { libc::gettid() } as u32;
            let good = m.lock_word().value.load(Relaxed) & OWNER == id;
            drop(g);
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(if good { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: status is ours to write.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "child status {status:#x}");
    }
}
