//! When a push takes placement whose consumer is not simply free, and how long one that failed is left alone.

use super::{BACKING_OFF, Connection, DISCONNECTED, PushOutcome};
use crate::counters::count;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use isorb_trace::RecordKind;

/// When a push that came on its supplier's thread takes placement.
pub(super) enum CallDecision {
    Call,
    /// After those that wait.
    Enqueue,
    Drop(PushOutcome),
}

impl Connection {
    /// What becomes of a push that meets a consumer which is not simply free.
    #[cold]
    pub(super) fn decide(&self, now: u64) -> CallDecision {
        let busy = self.busy.load(Acquire);
        if busy & DISCONNECTED != 0 {
            return CallDecision::Drop(PushOutcome::Disconnected);
        }
        if busy & BACKING_OFF != 0 && self.backoff_left() != 0 {
            count(&self.counters.dropped);
            self.record(RecordKind::Drop, now, 0, 0);
            return CallDecision::Drop(PushOutcome::Dropped);
        }
        if busy & !BACKING_OFF == 0 { CallDecision::Call } else { CallDecision::Enqueue }
    }

    /// For how many nanoseconds the consumer is still to be left alone.
    pub(crate) fn backoff_left(&self) -> u64 {
        let until = self.backoff_until.load(Acquire);
        if until == 0 || self.is_gone() {
            return 0;
        }
        let left = until.saturating_sub(self.kernel.clock.now_ns());
        if left == 0 && self.backoff_until.compare_exchange(until, 0, AcqRel, Acquire).is_ok() {
            self.busy.fetch_and(!BACKING_OFF, AcqRel);
            // Another backoff may have begun between the two, and its mark is gone with the old one's.
            if self.backoff_until.load(Acquire) != 0 {
                self.busy.fetch_or(BACKING_OFF, AcqRel);
            }
        }
        left
    }

    /// The consumer failed, and says for how long it would fail again.
    #[cold]
    pub(super) fn begin_backoff(&self, backoff: std::time::Duration) {
        let backoff = u64::try_from(backoff.as_nanos()).unwrap_or(u64::MAX);
        let until = self.kernel.clock.now_ns().saturating_add(backoff).max(1);
        // First the time, then the mark: who finds an old backoff over would take the new one's mark for its own.
        self.backoff_until.store(until, Release);
        self.busy.fetch_or(BACKING_OFF, AcqRel);
    }
}
