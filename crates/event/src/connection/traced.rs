//! What a connection writes to the trace.

use super::Connection;
use crate::trace::{Record, What};

impl Connection {
    #[inline]
    pub(crate) fn record(&self, what: What, at: u64, a: u64, b: u64) {
        if self.kernel.trace.is_on() {
            let at = if at == 0 { self.kernel.clock.now_ns() } else { at };
            self.kernel.trace.record(self.note(what, at, a, b));
        }
    }

    #[inline]
    pub(super) fn note(&self, what: What, at: u64, a: u64, b: u64) -> Record {
        Record { at, what, level: self.level(), who: self.id, a, b }
    }

    /// Makes way for a more urgent one on its own stack, by its consent. Says since when, if anybody wants to know.
    pub(crate) fn make_way(&self, by: &Connection) -> Option<u64> {
        let traced = self.kernel.trace.is_on();
        traced.then(|| {
            let at = self.kernel.clock.now_ns();
            self.record(What::Preempt, at, by.level().into(), by.id.into());
            at
        })
    }

    /// That one has returned.
    pub(crate) fn go_on(&self, since: Option<u64>, by: u32) {
        if let Some(since) = since {
            let at = self.kernel.clock.now_ns();
            self.record(What::Resume, at, at.saturating_sub(since), by.into());
        }
    }
}
