//! The time-based filter of a consumer: the shortest time between two of its pushes.

use super::Connection;
use crate::counters::count;
use isorb_rt::sync::atomic::AtomicU64;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(super) struct TimeFilter {
    /// Nanoseconds; 0 for none.
    separation: u64,
    /// When the next event may come.
    next: AtomicU64,
}

impl TimeFilter {
    pub fn new(separation: Duration) -> TimeFilter {
        let separation = u64::try_from(separation.as_nanos()).unwrap_or(u64::MAX);
        TimeFilter { separation, next: AtomicU64::new(0) }
    }

    /// Returns true if an event that comes `now` is let through. Of several threads at a time one
    /// is let through.
    fn passes(&self, now: u64) -> bool {
        let next = self.next.load(Relaxed);
        let after = now.saturating_add(self.separation);
        now >= next && self.next.compare_exchange(next, after, Relaxed, Relaxed).is_ok()
    }
}

impl Connection {
    /// Returns true for an event that the time-based filter drops, and counts it.
    #[inline]
    pub(super) fn is_too_soon(&self, now: &mut u64) -> bool {
        self.time_filter.separation != 0 && self.comes_too_soon(now)
    }

    #[inline(never)]
    fn comes_too_soon(&self, now: &mut u64) -> bool {
        if *now == 0 {
            *now = self.kernel.clock.now_ns();
        }
        let too_soon = !self.time_filter.passes(*now);
        if too_soon {
            count(&self.counters.too_soon);
        }
        too_soon
    }
}
