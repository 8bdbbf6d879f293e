//! A connected consumer.
//!
//! ```text
//!  push_now, push_batch_now ─────────────► call     on the supplier's thread
//!        │ earlier pushes wait, or backoff    ▲
//!        └─► enqueue ─► queue ─► serve ───────┘     on a dispatcher's thread
//!                          ▲       │ the consumer is busy
//!              Resume ─────┴─ park ┘
//! ```

mod atomic_placement;
mod backoff;
mod call;
mod instance_watch;
mod parking;
mod queue;
mod rate_monitor;
mod replay;
mod time_filter;
mod tracing;

use crate::batch::Batch;
use crate::consumer::{Failure, PushConsumer};
use crate::content::{ContentFilter, PayloadError};
use crate::counters::{Counters, Counts, OwnedCounter, ThreadNumber, count, thread_number};
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::{CurrentEvent, Event};
use crate::kernel::{FirstLoss, Kernel};
use crate::latency::{Latencies, LatencyCounters};
use crate::placement::{Placement, Quality, SubPriority};
use crate::retention::Backlog;
use atomic_placement::AtomicPlacement;
use backoff::CallDecision;
use call::Busy;
use instance_watch::InstanceWatch;
use isorb_rt::priority::Priority;
use isorb_rt::sync::atomic::Ordering::{Acquire, Relaxed};
use isorb_rt::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use isorb_rt::sync::{EventCount, PiMutex};
use parking::Parking;
pub use parking::Resume;
use queue::Queue;
pub(crate) use queue::Served;
use rate_monitor::RateMonitor;
use std::collections::VecDeque;
use std::sync::Arc;
use time_filter::TimeFilter;

/// The outcome of a push to one consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushOutcome {
    /// The consumer has run or will run.
    Accepted,
    /// The push is queued, and the dispatcher must be told that the consumer is ready.
    ConsumerReady,
    /// Lost by the consumer's overflow policy.
    Dropped,
    /// Lost, and the supplier is scheduled.
    Refused,
    /// Too large for a copy; the supplier is told.
    TooLarge,
    /// It comes sooner than the consumer's time-based filter allows.
    TooSoon,
    /// The consumer is disconnected.
    Disconnected,
}

pub(crate) struct Connection {
    pub id: u32,
    pub name: String,
    pub quality: Quality,
    pub counters: Counters,
    /// Not in `counters`, since each event increments it.
    pushed: OwnedCounter,
    latencies: Option<Box<LatencyCounters>>,
    placement: AtomicPlacement,
    rate: RateMonitor,
    time_filter: TimeFilter,
    instances: Option<Box<InstanceWatch>>,
    kernel: Arc<Kernel>,
    consumer: Arc<dyn PushConsumer>,
    own_dispatch: Option<Arc<dyn Dispatch>>,
    only_anys: bool,
    content: Option<ContentFilter>,
    queue: PiMutex<Queue>,
    room: EventCount,
    /// The pushes that are queued or run from the queue, with the flags [`DISCONNECTED`] and
    /// [`BACKING_OFF`]. While it is 0 a push may call the consumer directly.
    busy: AtomicU32,
    /// Its pushes are timed even without a trace: it has a deadline, a worst case, a period, a
    /// time-based filter, or an order that depends on time.
    timed: bool,
    /// The index of its level in the channel's levels.
    level: AtomicU8,
    parking: Parking,
    skip: AtomicBool,
    /// Processor time that nested consumers used during its push.
    nested: AtomicU64,
    failures: AtomicU32,
    /// The end of its backoff on the channel's clock; 0 for none.
    backoff_until: AtomicU64,
}

/// In [`Connection::busy`]: the consumer is no longer called.
const DISCONNECTED: u32 = 1 << 31;
/// In [`Connection::busy`]: the consumer is in backoff, or was until now.
const BACKING_OFF: u32 = 1 << 30;

impl Connection {
    pub(crate) fn new(
        id: u32,
        name: String,
        quality: Quality,
        placement: Placement,
        consumer: Arc<dyn PushConsumer>,
        own_dispatch: Option<Arc<dyn Dispatch>>,
        kernel: Arc<Kernel>,
    ) -> Result<Connection, ConnectError> {
        let level = kernel.level(placement.priority);
        let mut waiting = VecDeque::new();
        // One more for a push that returns from a busy consumer.
        waiting
            .try_reserve_exact(quality.queue.max(1).saturating_add(1))
            .map_err(|_| ConnectError::Memory)?;
        Ok(Connection {
            id,
            name,
            counters: Counters::default(),
            pushed: OwnedCounter::default(),
            latencies: kernel.latencies.then(|| Box::new(LatencyCounters::new())),
            placement: AtomicPlacement::new(&placement),
            rate: RateMonitor::new(&placement),
            time_filter: TimeFilter::new(quality.min_separation),
            instances: InstanceWatch::new(quality.instance_period, kernel.instances),
            consumer,
            only_anys: own_dispatch.as_ref().is_some_and(|own| own.only_anys()),
            own_dispatch,
            content: None,
            queue: PiMutex::new(Queue { waiting, scheduled: false, backlog: Backlog::default() }),
            room: EventCount::new(),
            busy: AtomicU32::new(0),
            timed: placement.deadline.is_some()
                || placement.worst_case.is_some()
                || placement.period.is_some()
                || !quality.min_separation.is_zero()
                || !matches!(placement.sub_priority, SubPriority::Static(_)),
            level: AtomicU8::new(level),
            parking: Parking::default(),
            skip: AtomicBool::new(false),
            nested: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            backoff_until: AtomicU64::new(0),
            quality,
            kernel,
        })
    }

    /// Sets the condition on the payload.
    pub(crate) fn with_content(mut self, content: Option<ContentFilter>) -> Connection {
        self.content = content;
        self
    }

    /// The condition on the payload.
    pub(crate) fn content(&self) -> Option<&ContentFilter> {
        self.content.as_ref()
    }

    #[inline]
    pub(crate) fn has_content(&self) -> bool {
        self.content.is_some()
    }

    /// Returns true if the event satisfies the condition on its payload.
    pub(crate) fn admits(&self, event: &Event<'_>) -> bool {
        let Some(content) = &self.content else { return true };
        match content.matches(event.data.octets) {
            Ok(true) => true,
            Ok(false) => {
                count(&self.counters.filtered);
                false
            }
            Err(why) => {
                self.count_unreadable(event, why);
                false
            }
        }
    }

    #[cold]
    fn count_unreadable(&self, event: &Event<'_>, why: PayloadError) {
        if self.counters.unreadable.fetch_add(1, Relaxed) == 0 {
            let (event_type, octets) = (event.header.event_type, event.data.octets.len());
            self.kernel.report_loss(FirstLoss::Payload { consumer: self.id, event_type, octets, why });
        }
    }

    pub(crate) fn priority(&self) -> Priority {
        self.placement.priority()
    }

    /// Applies a new placement. Queued pushes stay at their level; a demoted consumer stays
    /// demoted.
    pub(crate) fn set_placement(&self, placement: &Placement) {
        let before = self.kernel.level(self.placement.priority());
        self.placement.set(placement);
        self.rate.set(placement);
        let level = self.kernel.level(placement.priority);
        let _ = self.level.compare_exchange(before, level, Relaxed, Relaxed);
        self.consumer.priority_changed(placement.priority);
    }

    /// The consumer's own dispatcher.
    pub(crate) fn own_dispatch(&self) -> Option<&Arc<dyn Dispatch>> {
        self.own_dispatch.as_ref()
    }

    /// Returns true if it is called on the supplier's thread; `inline` is the channel's setting.
    #[inline]
    pub(crate) fn is_direct(&self, inline: bool) -> bool {
        self.own_dispatch.as_ref().map_or(inline, |own| own.runs_inline())
    }

    #[inline]
    pub(crate) fn has_own_dispatch(&self) -> bool {
        self.own_dispatch.is_some()
    }

    pub(crate) fn level(&self) -> u8 {
        self.level.load(Relaxed)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { pushed: self.pushed.read(), ..self.counters.read() }
    }

    /// `None` if the channel keeps no histograms.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        self.latencies.as_ref().map(|counted| counted.read())
    }

    pub(crate) fn deadline(&self) -> Option<std::time::Duration> {
        self.placement.deadline().map(std::time::Duration::from_nanos)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.busy.load(Acquire) & DISCONNECTED != 0
    }

    /// Pushes one event on the caller's thread, unless earlier pushes are queued. `traced` and
    /// `counted` are the channel's settings. If the consumer panics the caller calls
    /// [`failed`](Self::failed).
    #[inline(always)]
    pub(crate) fn push_now(
        &self,
        current: &CurrentEvent<'_>,
        now: &mut u64,
        traced: bool,
        counted: Option<ThreadNumber>,
    ) -> PushOutcome {
        if self.busy.load(Acquire) != 0 {
            match self.decide(*now) {
                CallDecision::Call => {}
                CallDecision::Enqueue => return self.enqueue_one(current, now),
                CallDecision::Drop(outcome) => return outcome,
            }
        }
        if let Some(me) = counted {
            self.pushed.add(me);
        }
        let events = std::slice::from_ref(current.event);
        if traced || self.timed {
            if self.is_too_soon(now) {
                return self.push_too_soon(counted);
            }
            return match self.call_timed_now(events, now) {
                Ok(()) => PushOutcome::Accepted,
                Err(Busy) => self.not_taken(Failure::Busy, current, now, counted),
            };
        }
        match self.consumer.push(events) {
            Ok(()) => {
                self.succeeded();
                PushOutcome::Accepted
            }
            Err(failure) => self.not_taken(failure, current, now, counted),
        }
    }

    /// What becomes of a push that the consumer did not take on its supplier's thread. Apart, so
    /// that the loop over many consumers stays one function.
    #[cold]
    #[inline(never)]
    fn not_taken(
        &self,
        failure: Failure,
        current: &CurrentEvent<'_>,
        now: &mut u64,
        counted: Option<ThreadNumber>,
    ) -> PushOutcome {
        match failure {
            Failure::Failed => {
                self.failed();
                PushOutcome::Accepted
            }
            Failure::Unsent => {
                self.unsent();
                PushOutcome::Accepted
            }
            Failure::Busy => {
                if let Some(me) = counted {
                    self.pushed.take_back(me);
                }
                self.enqueue_passed(current, now)
            }
        }
    }

    #[cold]
    fn push_too_soon(&self, counted: Option<ThreadNumber>) -> PushOutcome {
        if let Some(me) = counted {
            self.pushed.take_back(me);
        }
        PushOutcome::TooSoon
    }

    /// Pushes several events on the caller's thread, unless earlier pushes are queued.
    pub(crate) fn push_batch_now(&self, batch: Batch<'_, '_>, now: &mut u64) -> PushOutcome {
        if batch.is_event() && self.is_too_soon(now) {
            return PushOutcome::TooSoon;
        }
        if self.busy.load(Acquire) != 0 {
            match self.decide(*now) {
                CallDecision::Call => {}
                CallDecision::Enqueue => return self.enqueue_batch_passed(batch, now),
                CallDecision::Drop(outcome) => return outcome,
            }
        }
        self.arrived(now);
        let since = *now;
        let (traced, counted) = (self.kernel.recorder.is_on(), self.kernel.counting.then(thread_number));
        match batch.with_events(|events| self.call(events, since, now, traced, counted)) {
            Ok(()) => PushOutcome::Accepted,
            Err(Busy) => self.enqueue_batch_passed(batch, now),
        }
    }
}
