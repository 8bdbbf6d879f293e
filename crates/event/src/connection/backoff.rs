//! Backoff: a consumer that failed may ask not to be called for a time.

use super::{BACKING_OFF, Connection, DISCONNECTED, PushOutcome};
use crate::counters::count;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use isorb_trace::DropReason;

/// What to do with a push that arrives on its supplier's thread.
pub(super) enum CallDecision {
    Call,
    /// Queue it behind earlier pushes.
    Enqueue,
    Drop(PushOutcome),
}

impl Connection {
    /// Decides about a push to a consumer that is not idle.
    #[cold]
    pub(super) fn decide(&self, now: u64) -> CallDecision {
        let busy = self.busy.load(Acquire);
        if busy & DISCONNECTED != 0 {
            return CallDecision::Drop(PushOutcome::Disconnected);
        }
        if busy & BACKING_OFF != 0 && self.backoff_left() != 0 {
            count(&self.counters.dropped);
            self.record_drop(now, DropReason::Queue);
            return CallDecision::Drop(PushOutcome::Dropped);
        }
        if busy & !BACKING_OFF == 0 { CallDecision::Call } else { CallDecision::Enqueue }
    }

    /// The remaining backoff in nanoseconds.
    pub(crate) fn backoff_left(&self) -> u64 {
        let until = self.backoff_until.load(Acquire);
        if until == 0 || self.is_gone() {
            return 0;
        }
        let left = until.saturating_sub(self.kernel.clock.now_ns());
        if left == 0 && self.backoff_until.compare_exchange(until, 0, AcqRel, Acquire).is_ok() {
            self.busy.fetch_and(!BACKING_OFF, AcqRel);
            // A new backoff may have begun between the two; this would clear its flag.
            if self.backoff_until.load(Acquire) != 0 {
                self.busy.fetch_or(BACKING_OFF, AcqRel);
            }
        }
        left
    }

    /// Begins a backoff after a failure.
    #[cold]
    pub(super) fn begin_backoff(&self, backoff: std::time::Duration) {
        let backoff = u64::try_from(backoff.as_nanos()).unwrap_or(u64::MAX);
        let until = self.kernel.clock.now_ns().saturating_add(backoff).max(1);
        // Store the time before the flag: a thread that ends an old backoff must not clear the new
        // flag.
        self.backoff_until.store(until, Release);
        self.busy.fetch_or(BACKING_OFF, AcqRel);
    }
}
