//! When a push takes place whose consumer is not simply free, and how long one that failed is left alone.

use super::{Connection, Fate, GONE, RESTS};
use crate::counters::count;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use isorb_trace::RecordKind;

/// When a push that came on its supplier's thread takes place.
pub(super) enum Turn {
    Now,
    /// After those that wait.
    Later,
    Never(Fate),
}

impl Connection {
    /// What becomes of a push that meets a consumer which is not simply free.
    #[cold]
    pub(super) fn now_or_later(&self, now: u64) -> Turn {
        let busy = self.busy.load(Acquire);
        if busy & GONE != 0 {
            return Turn::Never(Fate::Gone);
        }
        if busy & RESTS != 0 && self.rest_left() != 0 {
            count(&self.counters.dropped);
            self.record(RecordKind::Drop, now, 0, 0);
            return Turn::Never(Fate::Dropped);
        }
        if busy & !RESTS == 0 { Turn::Now } else { Turn::Later }
    }

    /// For how many nanoseconds the consumer is still to be left alone.
    pub(crate) fn rest_left(&self) -> u64 {
        let until = self.rests_until.load(Acquire);
        if until == 0 || self.is_gone() {
            return 0;
        }
        let left = until.saturating_sub(self.kernel.clock.now_ns());
        if left == 0 && self.rests_until.compare_exchange(until, 0, AcqRel, Acquire).is_ok() {
            self.busy.fetch_and(!RESTS, AcqRel);
            // Another rest may have begun between the two, and its mark is gone with the old one's.
            if self.rests_until.load(Acquire) != 0 {
                self.busy.fetch_or(RESTS, AcqRel);
            }
        }
        left
    }

    /// The consumer failed, and says for how long it would fail again.
    #[cold]
    pub(super) fn begin_rest(&self, rest: std::time::Duration) {
        let rest = u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX);
        let until = self.kernel.clock.now_ns().saturating_add(rest).max(1);
        // First the time, then the mark: who finds an old rest over would take the new one's mark for its own.
        self.rests_until.store(until, Release);
        self.busy.fetch_or(RESTS, AcqRel);
    }
}
