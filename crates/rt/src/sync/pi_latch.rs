//! A latch that one thread opens.

use super::pi_lock::{LockError, PiLock};
use crate::time::Deadline;

/// An event that a known thread brings about, and that others wait for. They lend that thread their
/// priorities, so that it brings the event about without delay by threads in between: a thread that
/// opens a connection, or runs an application's call-back, which others need as well.
///
/// ```
/// use isorb_rt::{sync::PiLatch, time::Deadline};
///
/// let latch = PiLatch::new();
/// std::thread::scope(|s| {
///     s.spawn(|| assert!(latch.wait_until(Deadline::NONE)));
///     latch.open();
/// });
/// ```
#[derive(Debug)]
pub struct PiLatch(PiLock);

impl PiLatch {
    /// A latch that the calling thread is to open.
    #[expect(clippy::new_without_default, reason = "it belongs to the thread that makes it")]
    pub fn new() -> PiLatch {
        let lock = PiLock::new();
        // A new lock is free.
        let _ = lock.try_lock();
        PiLatch(lock)
    }

    /// Opens it for ever. Only the thread that made it can; another changes nothing.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call if threads wait.
    pub fn open(&self) {
        let _ = self.0.unlock();
    }

    /// Waits until it is open; `false` at the deadline. The most urgent waiter returns first. A
    /// latch of a thread that has ended counts as open.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until the latch is open or the deadline, on kernels before 5.14 as
    /// [`PiLock::lock_until`] says.
    pub fn wait_until(&self, deadline: Deadline) -> bool {
        match self.0.lock_until(deadline) {
            Ok(()) => self.0.unlock().is_ok(),
            Err(error) => error != LockError::TimedOut,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn all_wait_until_its_thread_opens_it_or_ends() {
        let latch = Arc::new(PiLatch::new());
        let wait = |until: Deadline| {
            let latch = latch.clone();
            std::thread::spawn(move || {
                latch.open();
                latch.wait_until(until)
            })
        };
        assert!(!wait(Deadline::after(Duration::from_millis(1))).join().unwrap(), "another cannot open it");
        let waiters = [wait(Deadline::NONE), wait(Deadline::after(Duration::from_secs(60)))];
        latch.open();
        waiters.into_iter().for_each(|waiter| assert!(waiter.join().unwrap()));
        assert!(latch.wait_until(Deadline::PAST));
        let left = std::thread::spawn(PiLatch::new).join().unwrap();
        // The thread's number goes a moment after the thread.
        while !left.wait_until(Deadline::after(Duration::from_millis(5))) {}
    }
}
