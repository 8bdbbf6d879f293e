//! The trace records of a connection, and the times of nested consumers.

use super::Connection;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use isorb_trace::{DropReason, Record, RecordKind};

/// A consumer that yielded to a nested one.
pub(crate) struct YieldState {
    /// When it yielded, if the trace is on.
    since: Option<u64>,
    /// The thread's processor time at that moment, if the consumer declared a worst case.
    used: Option<u64>,
}

impl Connection {
    #[inline]
    pub(crate) fn record(&self, kind: RecordKind, at: u64, a: u64, b: u64) {
        if self.kernel.recorder.is_on() {
            let at = if at == 0 { self.kernel.clock.now_ns() } else { at };
            self.kernel.recorder.record(self.trace_record(kind, at, a, b));
        }
    }

    pub(super) fn record_drop(&self, at: u64, reason: DropReason) {
        self.record(RecordKind::Drop, at, reason as u64, 0);
    }

    #[inline]
    pub(super) fn trace_record(&self, kind: RecordKind, at: u64, a: u64, b: u64) -> Record {
        Record { at, kind, level: self.level(), id: self.id, a, b }
    }

    /// Records that it yields to a more urgent consumer on its own stack.
    pub(crate) fn begin_yield(&self, by: &Connection) -> YieldState {
        let traced = self.kernel.recorder.is_on();
        let since = traced.then(|| {
            let at = self.kernel.clock.now_ns();
            self.record(RecordKind::Preempt, at, by.level().into(), by.id.into());
            at
        });
        YieldState { since, used: self.placement.worst_case().map(|_| self.kernel.clock.cpu_ns()) }
    }

    /// Records that the nested consumer returned. Its processor time does not count for this one.
    pub(crate) fn end_yield(&self, made: YieldState, by: u32) {
        if let Some(before) = made.used {
            let nested = self.kernel.clock.cpu_ns().saturating_sub(before);
            // No other thread writes it: pushes are served one at a time.
            self.nested.store(self.nested.load(Relaxed).saturating_add(nested), Relaxed);
        }
        if let Some(since) = made.since {
            let at = self.kernel.clock.now_ns();
            self.record(RecordKind::Resume, at, at.saturating_sub(since), by.into());
        }
    }
}
