//! Calls a consumer and checks its deadline, worst case, period and failures.

use super::{Connection, DISCONNECTED, Resume};
use crate::consumer::Failure;
use crate::counters::{ThreadNumber, count};
use crate::event::Event;
use crate::kernel::PendingDisconnect;
use crate::placement::Containment;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Relaxed};
use isorb_trace::{DropReason, RecordKind};
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The consumer did not take the push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Busy;

impl Connection {
    pub(crate) fn notify_connected(&self, resume: Resume) {
        self.consumer.connected(resume);
    }

    pub(crate) fn notify_disconnected(&self) {
        // No caller is left to learn of a panic here.
        let _ = catch_unwind(AssertUnwindSafe(|| self.consumer.disconnected()));
    }

    /// Calls the consumer. `now` is the last time read from the clock; it is read again where
    /// needed.
    #[inline]
    pub(super) fn call(
        &self,
        events: &[Event<'_>],
        since: u64,
        now: &mut u64,
        traced: bool,
        counted: Option<ThreadNumber>,
    ) -> Result<(), Busy> {
        if let Some(me) = counted {
            self.pushed.add(me);
        }
        let taken = if traced || self.timed {
            self.call_timed(events, since, now)
        } else {
            match catch_unwind(AssertUnwindSafe(|| self.consumer.push(events))) {
                Ok(Ok(())) => self.succeeded(),
                Ok(Err(Failure::Busy)) => return self.take_back(counted),
                Ok(Err(Failure::Unsent)) => self.unsent(),
                _ => self.failed(),
            }
            Ok(())
        };
        if taken.is_err() { self.take_back(counted) } else { Ok(()) }
    }

    #[cold]
    fn take_back(&self, counted: Option<ThreadNumber>) -> Result<(), Busy> {
        if let Some(me) = counted {
            self.pushed.take_back(me);
        }
        Err(Busy)
    }

    #[inline(never)]
    pub(super) fn call_timed_now(&self, events: &[Event<'_>], now: &mut u64) -> Result<(), Busy> {
        self.arrived(now);
        self.call_timed(events, *now, now)
    }

    /// Checks a push against the declared period.
    pub(super) fn arrived(&self, now: &mut u64) {
        if !self.rate.is_declared() {
            return;
        }
        if *now == 0 {
            *now = self.kernel.clock.now_ns();
        }
        if self.rate.is_early(*now) {
            count(&self.counters.early);
        }
    }

    pub(super) fn call_timed(&self, events: &[Event<'_>], since: u64, now: &mut u64) -> Result<(), Busy> {
        if self.skip.load(Relaxed) && self.skip.swap(false, Relaxed) {
            count(&self.counters.skipped);
            self.record_drop(*now, DropReason::Skipped);
            return Ok(());
        }
        let clock = &*self.kernel.clock;
        if *now == 0 {
            *now = clock.now_ns();
        }
        let since = if since == 0 { *now } else { since };
        let begin = *now;
        let recorder = &self.kernel.recorder;
        let run = recorder.begin(self.trace_record(RecordKind::Begin, begin, begin.saturating_sub(since), 0));
        let used = self.placement.worst_case().map(|worst| {
            self.nested.store(0, Relaxed);
            (worst, clock.cpu_ns())
        });
        let result = catch_unwind(AssertUnwindSafe(|| self.consumer.push(events)));
        let busy = matches!(result, Ok(Err(Failure::Busy)));
        let failed = !busy && !matches!(result, Ok(Ok(())));
        *now = clock.now_ns();
        recorder
            .end(run, self.trace_record(RecordKind::End, *now, now.saturating_sub(begin), u64::from(failed)));
        if busy {
            return Err(Busy);
        }
        match result {
            Ok(Ok(())) => self.succeeded(),
            Ok(Err(Failure::Unsent)) => self.unsent(),
            _ => self.failed(),
        }
        if let Some(latencies) = &self.latencies
            && self.kernel.recorder.is_on()
        {
            latencies.count(since, begin, *now, self.placement.deadline());
        }
        if let Some(deadline) = self.placement.deadline() {
            let deadline = since.saturating_add(deadline);
            if *now > deadline {
                count(&self.counters.missed);
                self.record(RecordKind::Miss, *now, *now - deadline, deadline);
            }
        }
        if let Some((declared, before)) = used {
            let used = clock.cpu_ns().saturating_sub(before).saturating_sub(self.nested.load(Relaxed));
            if used > declared {
                self.overran(used, declared, *now);
            }
        }
        Ok(())
    }

    #[cold]
    pub(super) fn overran(&self, used: u64, declared: u64, now: u64) {
        count(&self.counters.overruns);
        self.record(RecordKind::Overrun, now, used, declared);
        match self.quality.containment {
            Containment::Count => {}
            Containment::Skip => self.skip.store(true, Relaxed),
            Containment::Demote => self.level.store(0, Relaxed),
            Containment::Disconnect => self.request_own_disconnect(),
        }
    }

    #[inline]
    pub(super) fn succeeded(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    #[cold]
    pub(super) fn unsent(&self) {
        count(&self.counters.failed);
    }

    #[cold]
    pub(crate) fn failed(&self) {
        count(&self.counters.failed);
        let backoff = self.consumer.backoff();
        if !backoff.is_zero() {
            self.begin_backoff(backoff);
        }
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        if self.quality.failures != 0 && failures == self.quality.failures {
            self.request_own_disconnect();
        }
    }

    /// Why the channel disconnects it.
    pub(crate) fn why_disconnected(&self) -> impl Display {
        let (limit, contained) = (self.quality.failures, self.quality.containment == Containment::Disconnect);
        // A push that had begun before may have succeeded meanwhile.
        let overran = contained && (limit == 0 || self.failures.load(Relaxed) < limit);
        fmt::from_fn(move |f| match overran {
            true => f.write_str("it computed for longer than its worst case"),
            false => write!(f, "pushes to it that failed in a row: {limit}"),
        })
    }

    /// As `leave`, from the path of the consumer's own push: the channel removes it later.
    pub(super) fn request_own_disconnect(&self) {
        self.busy.fetch_or(DISCONNECTED, AcqRel);
        self.kernel.request_disconnect(PendingDisconnect::Consumer(self.id));
    }

    /// Returns true if its pushes are timed.
    #[inline]
    pub(crate) fn times(&self) -> bool {
        self.timed || self.kernel.recorder.is_on()
    }
}
