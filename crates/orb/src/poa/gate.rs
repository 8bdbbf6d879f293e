//! The door of a POA: counts who is inside, and says whether one may come in, in one atomic step.

use isorb_rt::sync::atomic::{AtomicU64, Ordering};

/// The POA's manager is not active.
pub(super) const HELD: u64 = 1 << 32;
/// The adapter activator that creates the POA has not returned yet.
pub(super) const STARTING: u64 = 1 << 33;
/// The POA is being destroyed.
pub(super) const DEAD: u64 = 1 << 34;
/// Somebody wants to know when the last one leaves.
pub(super) const WATCHED: u64 = 1 << 35;

const COUNT: u64 = HELD - 1;
const CLOSED: u64 = HELD | STARTING | DEAD;

/// Number of requests inside in the low half, flags in the high half.
///
/// A request adds itself and reads the flags in the same step, so whoever sets a flag and then reads the number either
/// sees the request or has turned it away.
#[derive(Debug)]
pub(super) struct Gate(AtomicU64);

impl Gate {
    pub fn new(flags: u64) -> Gate {
        Gate(AtomicU64::new(flags))
    }

    /// Comes in and says which flags bar the way. If there are any, the caller leaves again.
    #[inline]
    pub fn enter(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) & CLOSED
    }

    /// Leaves. True when nobody is left and somebody wants to know.
    #[inline]
    #[must_use]
    pub fn leave(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        before & COUNT == 1 && before & (WATCHED | DEAD) != 0
    }

    pub fn set(&self, flags: u64) {
        self.0.fetch_or(flags, Ordering::SeqCst);
    }

    pub fn clear(&self, flags: u64) {
        self.0.fetch_and(!flags, Ordering::SeqCst);
    }

    pub fn has(&self, flags: u64) -> bool {
        self.0.load(Ordering::SeqCst) & flags != 0
    }

    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst) & COUNT == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_bar_the_way_and_the_last_one_tells() {
        let gate = Gate::new(HELD);
        assert_eq!(gate.enter(), HELD);
        assert!(!gate.leave());
        gate.clear(HELD);
        assert_eq!((gate.enter(), gate.enter()), (0, 0));
        gate.set(WATCHED);
        assert!(!gate.leave());
        assert!(!gate.is_empty());
        assert!(gate.leave());
        assert!(gate.is_empty() && gate.has(WATCHED));
        gate.set(DEAD);
        assert_eq!(gate.enter(), DEAD);
        assert!(gate.leave());
    }
}
