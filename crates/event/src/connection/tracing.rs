//! What a connection writes to the trace, and how it makes way for another.

use super::Connection;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use isorb_trace::{Record, RecordKind};

/// A consumer has made way on its own stack.
pub(crate) struct YieldState {
    /// When, if anybody wants to know.
    since: Option<u64>,
    /// What of the thread's processor time was used then, if that is held against what the consumer declared.
    used: Option<u64>,
}

impl Connection {
    #[inline]
    pub(crate) fn record(&self, kind: RecordKind, at: u64, a: u64, b: u64) {
        if self.kernel.recorder.is_on() {
            let at = if at == 0 { self.kernel.clock.now_ns() } else { at };
            self.kernel.recorder.record(self.note(kind, at, a, b));
        }
    }

    #[inline]
    pub(super) fn note(&self, kind: RecordKind, at: u64, a: u64, b: u64) -> Record {
        Record { at, kind, level: self.level(), id: self.id, a, b }
    }

    /// Makes way for a more urgent one on its own stack, by its consent.
    pub(crate) fn begin_yield(&self, by: &Connection) -> YieldState {
        let traced = self.kernel.recorder.is_on();
        let since = traced.then(|| {
            let at = self.kernel.clock.now_ns();
            self.record(RecordKind::Preempt, at, by.level().into(), by.id.into());
            at
        });
        YieldState { since, used: self.placement.worst_case().map(|_| self.kernel.clock.cpu_ns()) }
    }

    /// That one has returned. What it used was not this one's.
    pub(crate) fn end_yield(&self, made: YieldState, by: u32) {
        if let Some(before) = made.used {
            let nested = self.kernel.clock.cpu_ns().saturating_sub(before);
            // Nobody else writes it: one push at a time is served.
            self.nested.store(self.nested.load(Relaxed).saturating_add(nested), Relaxed);
        }
        if let Some(since) = made.since {
            let at = self.kernel.clock.now_ns();
            self.record(RecordKind::Resume, at, at.saturating_sub(since), by.into());
        }
    }
}
