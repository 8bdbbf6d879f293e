//! One thread waits, anybody wakes it.

use core::fmt;

use rustix::io::Errno;

use super::atomic::Ordering::{Acquire, Relaxed, Release};
use super::futex::Word;
use crate::time::Deadline;

const EMPTY: u32 = 0;
const TOKEN: u32 = 1;
const PARKED: u32 = 2;

/// A token that one thread waits for and any thread supplies.
///
/// [`unpark`](Self::unpark) stores the token (there is at most one),
/// [`park_until`](Self::park_until) takes it and waits for it if need be, so a token supplied
/// before the wait is not lost. What was written before `unpark` is visible after the `park_until`
/// that took its token. A thread that waits for a reply which another thread reads waits here.
///
/// There is no owner, so there is no priority to lend: use it where the waker is a thread that runs
/// anyway (a reader of the connection, a timer), not to wait for work of a lower priority.
///
/// One thread at a time may park. Several are harmless to memory, but a token then wakes any one of
/// them.
///
/// ```
/// use isorb_rt::{sync::Parker, time::Deadline};
/// use std::{sync::Arc, thread};
///
/// let parker = Arc::new(Parker::new());
/// let other = parker.clone();
/// let t = thread::spawn(move || other.unpark());
/// assert!(parker.park_until(Deadline::NONE));
/// assert!(!parker.park_until(Deadline::PAST));
/// t.join().unwrap();
/// ```
pub struct Parker {
    state: Word,
}

impl Parker {
    /// A parker without a token.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Parker { state: Word::new(EMPTY) }
    }

    /// A parker without a token.
    #[cfg(loom)]
    pub fn new() -> Self {
        Parker { state: Word::new(EMPTY) }
    }

    /// Takes the token, waiting for it until `deadline`. Says whether it got it.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until the token or the deadline; one compare-exchange when the
    /// token is there.
    pub fn park_until(&self, deadline: Deadline) -> bool {
        let word = &self.state.value;
        if word.compare_exchange(TOKEN, EMPTY, Acquire, Relaxed).is_ok() {
            return true;
        }
        loop {
            // EMPTY -> PARKED; another parker's PARKED is left as it is.
            let token = word.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed) == Err(TOKEN);
            if !token && self.state.wait(PARKED, deadline) == Err(Errno::TIMEDOUT) {
                return self.withdraw();
            }
            // A token, a wake-up, a signal, or too late to sleep: look again.
            if word.compare_exchange(TOKEN, EMPTY, Acquire, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Supplies the token.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. One exchange; one system call if a thread is parked.
    pub fn unpark(&self) {
        if self.state.value.swap(TOKEN, Release) == PARKED {
            self.state.wake_one();
        }
    }

    /// Drops an unused token, before the parker is used for another event.
    #[inline]
    pub fn reset(&self) {
        if self.state.value.load(Relaxed) == TOKEN {
            let _ = self.state.value.compare_exchange(TOKEN, EMPTY, Acquire, Relaxed);
        }
    }

    /// Whether a token waits to be taken.
    pub(super) fn has_token(&self) -> bool {
        self.state.value.load(Acquire) == TOKEN
    }

    /// The deadline passed; the token may have come at the same moment.
    fn withdraw(&self) -> bool {
        self.state.value.swap(EMPTY, Acquire) == TOKEN
    }
}

impl Default for Parker {
    fn default() -> Self {
        Parker::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker").finish_non_exhaustive()
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
    fn a_token_is_kept_and_there_is_only_one() {
        let p = Parker::new();
        p.unpark();
        p.unpark();
        assert!(p.park_until(Deadline::PAST));
        assert!(!p.park_until(Deadline::PAST));
        p.unpark();
        p.reset();
        assert!(!p.park_until(Deadline::PAST));
    }

    #[test]
    fn a_wait_ends_at_its_deadline_not_before() {
        let p = Parker::new();
        let at = now_ns() + 5_000_000;
        assert!(!p.park_until(Deadline::at_ns(at)));
        assert!(now_ns() >= at);
    }

    #[test]
    fn two_threads_hand_tokens_to_and_fro() {
        const TOKENS: u32 = if cfg!(miri) { 30 } else { 2_000 };
        let p = Arc::new((Parker::new(), Parker::new()));
        let q = p.clone();
        let t = thread::spawn(move || {
            for _ in 0..TOKENS {
                assert!(q.0.park_until(Deadline::NONE));
                q.1.unpark();
            }
        });
        for _ in 0..TOKENS {
            p.0.unpark();
            assert!(p.1.park_until(Deadline::after(Duration::from_secs(60))));
        }
        t.join().unwrap();
    }
}
