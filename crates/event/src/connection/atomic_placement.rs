//! A consumer's placement, which the scheduler may change while events flow.

use crate::placement::{Placement, SubPriority};
use isorb_rt::priority::Priority;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use isorb_rt::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The stored form of an undeclared time.
const NONE: u64 = u64::MAX;

/// A [`Placement`] that each push reads without a lock. A push during a change may read old and new
/// parts.
pub(super) struct AtomicPlacement {
    priority: AtomicU32,
    /// The kind of sub-priority in the upper 32 bits, a static value in the lower ones.
    order: AtomicU64,
    deadline: AtomicU64,
    worst_case: AtomicU64,
}

impl AtomicPlacement {
    pub fn new(placement: &Placement) -> AtomicPlacement {
        let atomic = AtomicPlacement {
            priority: AtomicU32::new(0),
            order: AtomicU64::new(0),
            deadline: AtomicU64::new(NONE),
            worst_case: AtomicU64::new(NONE),
        };
        atomic.set(placement);
        atomic
    }

    pub fn set(&self, placement: &Placement) {
        let order = match placement.sub_priority {
            SubPriority::Static(value) => u64::from(value as u32),
            SubPriority::Deadline => 1 << 32,
            SubPriority::Laxity => 2 << 32,
        };
        self.priority.store(u32::from(placement.priority.get().unsigned_abs()), Relaxed);
        self.order.store(order, Relaxed);
        self.deadline.store(stored(placement.deadline), Relaxed);
        self.worst_case.store(stored(placement.worst_case), Relaxed);
    }

    pub fn priority(&self) -> Priority {
        let priority = i16::try_from(self.priority.load(Relaxed)).ok().and_then(Priority::new);
        // Only valid priorities are stored.
        priority.unwrap_or(Priority::MIN)
    }

    #[inline]
    pub fn sub_priority(&self) -> SubPriority {
        let order = self.order.load(Relaxed);
        match order >> 32 {
            0 => SubPriority::Static(order as u32 as i32),
            1 => SubPriority::Deadline,
            _ => SubPriority::Laxity,
        }
    }

    /// In nanoseconds.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        Some(self.deadline.load(Relaxed)).filter(|time| *time != NONE)
    }

    /// In nanoseconds.
    #[inline]
    pub fn worst_case(&self) -> Option<u64> {
        Some(self.worst_case.load(Relaxed)).filter(|time| *time != NONE)
    }
}

fn stored(time: Option<Duration>) -> u64 {
    time.map_or(NONE, |time| u64::try_from(time.as_nanos()).unwrap_or(NONE - 1).min(NONE - 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_stored() {
        let placement = |priority, sub_priority, deadline: Option<u64>| Placement {
            priority: Priority::new(priority).unwrap(),
            sub_priority,
            deadline: deadline.map(Duration::from_nanos),
            worst_case: deadline.map(|time| Duration::from_nanos(time / 2)),
            period: None,
            jitter: Duration::ZERO,
        };
        let atomic = AtomicPlacement::new(&placement(0, SubPriority::Static(i32::MIN), None));
        assert_eq!((atomic.priority(), atomic.deadline(), atomic.worst_case()), (Priority::MIN, None, None));
        assert_eq!(atomic.sub_priority(), SubPriority::Static(i32::MIN));
        for sub in
            [SubPriority::Deadline, SubPriority::Laxity, SubPriority::Static(-1), SubPriority::Static(7)]
        {
            atomic.set(&placement(32_767, sub, Some(1_000)));
            assert_eq!((atomic.priority(), atomic.sub_priority()), (Priority::MAX, sub));
            assert_eq!((atomic.deadline(), atomic.worst_case()), (Some(1_000), Some(500)));
        }
        atomic.set(&Placement { deadline: Some(Duration::MAX), ..placement(1, SubPriority::Deadline, None) });
        assert_eq!(atomic.deadline(), Some(u64::MAX - 1));
    }
}
