//! A connected consumer.
//!
//! ```text
//!  push_now, push_batch_now ──────────────► call     on the supplier's thread
//!        │ backoff: others wait, or it rests     ▲
//!        └─► enqueue ─► queue ─► serve ───────┘     on a dispatcher's
//! ```

mod atomic_placement;
mod backoff;
mod call;
mod queue;
mod rate_monitor;
mod tracing;

use crate::batch::Batch;
use crate::consumer::PushConsumer;
use crate::counters::{Counters, Counts, OwnedCounter, ThreadNumber, thread_number};
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::CurrentEvent;
use crate::kernel::Kernel;
use crate::latency::{Latencies, LatencyCounters};
use crate::placement::{Placement, Quality, SubPriority};
use atomic_placement::AtomicPlacement;
use backoff::CallDecision;
use isorb_rt::priority::Priority;
use isorb_rt::sync::atomic::Ordering::{Acquire, Relaxed};
use isorb_rt::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use isorb_rt::sync::{EventCount, PiMutex};
use queue::Queue;
use rate_monitor::RateMonitor;
use std::collections::VecDeque;
use std::sync::Arc;

/// What became of a push to one consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushOutcome {
    /// It ran, or will.
    Accepted,
    /// It waits in the queue, and somebody must be scheduled that the consumer has work.
    ConsumerReady,
    /// Lost, by the consumer's policy.
    Dropped,
    /// Lost, and the supplier is scheduled.
    Refused,
    /// Lost, since it would have to be copied and is larger than a copy may be; the supplier is scheduled.
    TooLarge,
    /// The consumer is gone.
    Disconnected,
}

pub(crate) struct Connection {
    pub id: u32,
    pub name: String,
    pub quality: Quality,
    pub counters: Counters,
    /// Apart from the others, since it is raised by every event.
    pushed: OwnedCounter,
    latencies: Option<Box<LatencyCounters>>,
    placement: AtomicPlacement,
    rate: RateMonitor,
    kernel: Arc<Kernel>,
    consumer: Arc<dyn PushConsumer>,
    own_dispatch: Option<Arc<dyn Dispatch>>,
    only_anys: bool,
    queue: PiMutex<Queue>,
    room: EventCount,
    /// How many pushes wait or run by way of the queue, and whether the consumer is [`DISCONNECTED`]. While it is not 0 there is more to
    /// a push than calling the consumer.
    busy: AtomicU32,
    /// Its pushes are timed even without a trace: it has a deadline, a worst case, a period, or an order that depends on time.
    timed: bool,
    /// Where it is served: an index into the channel's levels.
    level: AtomicU8,
    skip: AtomicBool,
    /// Processor time that others used during its push, nested on its stack.
    nested: AtomicU64,
    failures: AtomicU32,
    /// It is left alone until then, by the channel's clock; 0 is not at all.
    backoff_until: AtomicU64,
}

/// In [`Connection::busy`]: it is not called any more.
const DISCONNECTED: u32 = 1 << 31;
/// In [`Connection::busy`]: it asked to be left alone, perhaps until now.
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
        waiting.try_reserve_exact(quality.queue.max(1)).map_err(|_| ConnectError::Memory)?;
        Ok(Connection {
            id,
            name,
            counters: Counters::default(),
            pushed: OwnedCounter::default(),
            latencies: kernel.latencies.then(|| Box::new(LatencyCounters::new())),
            placement: AtomicPlacement::new(&placement),
            rate: RateMonitor::new(&placement),
            consumer,
            only_anys: own_dispatch.as_ref().is_some_and(|own| own.only_anys()),
            own_dispatch,
            queue: PiMutex::new(Queue { waiting, scheduled: false }),
            room: EventCount::new(),
            busy: AtomicU32::new(0),
            timed: placement.deadline.is_some()
                || placement.worst_case.is_some()
                || placement.period.is_some()
                || !matches!(placement.sub_priority, SubPriority::Static(_)),
            level: AtomicU8::new(level),
            skip: AtomicBool::new(false),
            nested: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            backoff_until: AtomicU64::new(0),
            quality,
            kernel,
        })
    }

    pub(crate) fn priority(&self) -> Priority {
        self.placement.priority()
    }

    /// The scheduler has put it here. What waits is served where it was; whoever was demoted stays so.
    pub(crate) fn set_placement(&self, placement: &Placement) {
        let before = self.kernel.level(self.placement.priority());
        self.placement.set(placement);
        self.rate.set(placement);
        let level = self.kernel.level(placement.priority);
        let _ = self.level.compare_exchange(before, level, Relaxed, Relaxed);
        self.consumer.priority_changed(placement.priority);
    }

    /// The dispatcher that it brought with it.
    pub(crate) fn own_dispatch(&self) -> Option<&Arc<dyn Dispatch>> {
        self.own_dispatch.as_ref()
    }

    /// Is it called on the supplier's thread, where `inline` is whether the channel does so?
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

    /// None where the channel keeps none.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        self.latencies.as_ref().map(|counted| counted.read())
    }

    pub(crate) fn deadline(&self) -> Option<std::time::Duration> {
        self.placement.deadline().map(std::time::Duration::from_nanos)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.busy.load(Acquire) & DISCONNECTED != 0
    }

    /// Pushes one event on the caller's thread, unless others wait before it. `traced` and `counted` are whether the channel does so.
    /// A panic of the consumer may come through; the caller then calls [`failed`](Self::failed).
    #[inline]
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
            self.call_timed_now(events, now);
        } else {
            match self.consumer.push(events) {
                Ok(()) => self.succeeded(),
                Err(_) => self.failed(),
            }
        }
        PushOutcome::Accepted
    }

    /// Pushes several on the caller's thread, unless others wait before them.
    pub(crate) fn push_batch_now(&self, batch: Batch<'_, '_>, now: &mut u64) -> PushOutcome {
        if self.busy.load(Acquire) != 0 {
            match self.decide(*now) {
                CallDecision::Call => {}
                CallDecision::Enqueue => return self.enqueue(batch, now),
                CallDecision::Drop(outcome) => return outcome,
            }
        }
        self.arrived(now);
        let since = *now;
        let (traced, counted) = (self.kernel.recorder.is_on(), self.kernel.counting.then(thread_number));
        batch.with_events(|events| self.call(events, since, now, traced, counted));
        PushOutcome::Accepted
    }
}
