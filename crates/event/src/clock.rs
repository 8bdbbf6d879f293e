//! The channel's clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// The time source of a channel. Tests use a clock that only they advance.
///
/// # Real-time
/// Read for each event: implementations neither allocate nor block.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds on a clock that never goes back; not 0.
    fn now_ns(&self) -> u64;

    /// Nanoseconds of processor time that the calling thread has used.
    fn cpu_ns(&self) -> u64;
}

/// `CLOCK_MONOTONIC`, and the thread's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        isorb_rt::time::now_ns()
    }

    fn cpu_ns(&self) -> u64 {
        isorb_rt::time::thread_cpu_ns()
    }
}

/// A clock that only [`advance`](Self::advance) moves. Processor time passes with it.
#[derive(Debug)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// A clock at one second.
    pub const fn new() -> Self {
        VirtualClock(AtomicU64::new(1_000_000_000))
    }

    /// Advances the clock by `ns` nanoseconds.
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        VirtualClock::new()
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn cpu_ns(&self) -> u64 {
        self.now_ns()
    }
}

impl<C: Clock> Clock for std::sync::Arc<C> {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn cpu_ns(&self) -> u64 {
        (**self).cpu_ns()
    }
}
