//! A connected consumer: its queue, and how it is called.

mod pace;
mod place;
mod traced;

use crate::batch::{Batch, Item, Queued};
use crate::consumer::PushConsumer;
use crate::counters::{Counters, Counts, Me, Tally, count, me};
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::event::{Current, Event, NoCopy};
use crate::kernel::{Kernel, Leaving};
use crate::latency::{Counted, Latencies};
use crate::placement::{Containment, Placement, Quality, SubPriority};
use crate::trace::What;
use isorb_rt::priority::Priority;
use isorb_rt::queue::Overflow;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use isorb_rt::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use isorb_rt::sync::{EventCount, PiMutex};
use isorb_rt::time::Deadline;
use pace::Pace;
use place::Place;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What became of a push to one consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It ran, or will.
    Taken,
    /// It waits in the queue, and somebody must be told that the consumer has work.
    Ready,
    /// Lost, by the consumer's policy.
    Dropped,
    /// Lost, and the supplier is told.
    Refused,
    /// Lost, since it would have to be copied and is larger than a copy may be; the supplier is told.
    TooLarge,
    /// The consumer is gone.
    Gone,
}

/// When a push that came on its supplier's thread takes place.
enum Turn {
    Now,
    /// After those that wait.
    Later,
    Never(Fate),
}

pub(crate) struct Connection {
    pub id: u32,
    pub name: String,
    pub quality: Quality,
    pub counters: Counters,
    /// Apart from the others, since it is raised by every event.
    pushed: Tally,
    latencies: Option<Box<Counted>>,
    place: Place,
    pace: Pace,
    kernel: Arc<Kernel>,
    consumer: Arc<dyn PushConsumer>,
    own_dispatch: Option<Arc<dyn Dispatch>>,
    only_anys: bool,
    queue: PiMutex<Queue>,
    room: EventCount,
    /// How many pushes wait or run by way of the queue, and whether the consumer is [`GONE`]. While it is not 0 there is more to
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
    rests_until: AtomicU64,
}

/// In [`Connection::busy`]: it is not called any more.
const GONE: u32 = 1 << 31;
/// In [`Connection::busy`]: it asked to be left alone, perhaps until now.
const RESTS: u32 = 1 << 30;

struct Queue {
    waiting: VecDeque<Waiting>,
    /// Somebody was told that there is work, and has not finished it.
    told: bool,
}

struct Waiting {
    events: Queued,
    since: u64,
}

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
            pushed: Tally::default(),
            latencies: kernel.latencies.then(|| Box::new(Counted::new())),
            place: Place::new(&placement),
            pace: Pace::new(&placement),
            consumer,
            only_anys: own_dispatch.as_ref().is_some_and(|own| own.only_anys()),
            own_dispatch,
            queue: PiMutex::new(Queue { waiting, told: false }),
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
            rests_until: AtomicU64::new(0),
            quality,
            kernel,
        })
    }

    pub(crate) fn priority(&self) -> Priority {
        self.place.priority()
    }

    /// The scheduler has put it here. What waits is served where it was; whoever was demoted stays so.
    pub(crate) fn put_at(&self, placement: &Placement) {
        let before = self.kernel.level(self.place.priority());
        self.place.set(placement);
        self.pace.set(placement);
        let level = self.kernel.level(placement.priority);
        let _ = self.level.compare_exchange(before, level, Relaxed, Relaxed);
        self.consumer.placed(placement.priority);
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
        self.place.deadline().map(std::time::Duration::from_nanos)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.busy.load(Acquire) & GONE != 0
    }

    /// From now on it is not called any more (a call under way ends). What waits is thrown away.
    pub(crate) fn leave(&self) {
        self.busy.fetch_or(GONE, AcqRel);
        let waiting: Vec<Waiting> = self.queue.lock().waiting.drain(..).collect();
        self.busy.fetch_sub(waiting.len() as u32, AcqRel);
        self.room.notify_all();
    }

    /// As `leave`, from the consumer's own path: the channel clears up later.
    fn quit(&self) {
        self.busy.fetch_or(GONE, AcqRel);
        self.kernel.ask_to_leave(Leaving::Consumer(self.id));
    }

    pub(crate) fn tell_disconnected(&self) {
        // A consumer that panics now has nobody left to hear of it.
        let _ = catch_unwind(AssertUnwindSafe(|| self.consumer.disconnected()));
    }

    /// Pushes one event on the caller's thread, unless others wait before it. `traced` and `counted` are whether the channel does so.
    /// A panic of the consumer may come through; the caller then calls [`failed`](Self::failed).
    #[inline]
    pub(crate) fn run_now(
        &self,
        current: &Current<'_>,
        now: &mut u64,
        traced: bool,
        counted: Option<Me>,
    ) -> Fate {
        if self.busy.load(Acquire) != 0 {
            match self.now_or_later(*now) {
                Turn::Now => {}
                Turn::Later => return self.enqueue_one(current, now),
                Turn::Never(fate) => return fate,
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
        Fate::Taken
    }

    /// Pushes several on the caller's thread, unless others wait before them.
    pub(crate) fn run_batch_now(&self, batch: Batch<'_, '_>, now: &mut u64) -> Fate {
        if self.busy.load(Acquire) != 0 {
            match self.now_or_later(*now) {
                Turn::Now => {}
                Turn::Later => return self.enqueue(batch, now),
                Turn::Never(fate) => return fate,
            }
        }
        self.arrived(now);
        let since = *now;
        let (traced, counted) = (self.kernel.trace.is_on(), self.kernel.counting.then(me));
        batch.with_events(|events| self.call(events, since, now, traced, counted));
        Fate::Taken
    }

    /// What becomes of a push that meets a consumer which is not simply free.
    #[cold]
    fn now_or_later(&self, now: u64) -> Turn {
        let busy = self.busy.load(Acquire);
        if busy & GONE != 0 {
            return Turn::Never(Fate::Gone);
        }
        if busy & RESTS != 0 && self.rest_left() != 0 {
            count(&self.counters.dropped);
            self.record(What::Drop, now, 0, 0);
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
        }
        left
    }

    /// The consumer failed, and says for how long it would fail again.
    #[cold]
    fn begin_rest(&self, rest: std::time::Duration) {
        let rest = u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX);
        let until = self.kernel.clock.now_ns().saturating_add(rest).max(1);
        self.busy.fetch_or(RESTS, AcqRel);
        self.rests_until.store(until, Release);
    }

    pub(crate) fn enqueue_one(&self, current: &Current<'_>, now: &mut u64) -> Fate {
        if self.only_anys && current.event.data.any.is_empty() {
            return Fate::Gone;
        }
        match current.keep() {
            Ok(kept) => self.put(Queued::One(Item::Kept(kept)), now),
            Err(cause) => self.not_kept(cause, *now),
        }
    }

    pub(crate) fn enqueue(&self, batch: Batch<'_, '_>, now: &mut u64) -> Fate {
        match batch.into_queued(&self.kernel.sets) {
            Ok(queued) => self.put(queued, now),
            Err(cause) => self.not_kept(cause, *now),
        }
    }

    /// There was no memory for the event. One that is too large is no matter of policy; else the supplier is told under
    /// [`Overflow::Refuse`] and `Block`.
    pub(crate) fn not_kept(&self, cause: NoCopy, now: u64) -> Fate {
        if cause == NoCopy::TooLarge {
            count(&self.counters.too_large);
            count(&self.kernel.totals.too_large);
            self.record(What::Drop, now, 2, 0);
            return Fate::TooLarge;
        }
        count(&self.counters.not_kept);
        self.record(What::Drop, now, 1, 0);
        match self.quality.overflow {
            Overflow::Refuse | Overflow::Block => Fate::Refused,
            Overflow::DropOldest | Overflow::DropNewest => Fate::Dropped,
        }
    }

    fn put(&self, events: Queued, now: &mut u64) -> Fate {
        if self.is_gone() {
            return Fate::Gone;
        }
        if *now == 0 && self.times() {
            *now = self.kernel.clock.now_ns();
        }
        self.arrived(now);
        let limit = self.quality.queue.max(1);
        let mut displaced = None;
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= limit && self.quality.overflow == Overflow::Block {
            let deadline = Deadline::after(self.kernel.block);
            drop(queue);
            let full = |q: &mut Queue| q.waiting.len() >= limit && !self.is_gone();
            queue = self.room.lock_while(&self.queue, deadline, full);
        }
        if self.is_gone() {
            return Fate::Gone;
        }
        if queue.waiting.len() >= limit {
            match self.quality.overflow {
                Overflow::DropOldest => displaced = queue.waiting.pop_front(),
                Overflow::DropNewest => {
                    drop(queue);
                    count(&self.counters.dropped);
                    self.record(What::Drop, *now, 0, 0);
                    return Fate::Dropped;
                }
                Overflow::Refuse | Overflow::Block => {
                    drop(queue);
                    count(&self.counters.refused);
                    self.record(What::Drop, *now, 0, 0);
                    return Fate::Refused;
                }
            }
        }
        queue.waiting.push_back(Waiting { events, since: *now });
        let length = queue.waiting.len();
        let tell = !std::mem::replace(&mut queue.told, true);
        if displaced.is_none() {
            self.busy.fetch_add(1, AcqRel);
        }
        drop(queue);
        if displaced.is_some() {
            count(&self.counters.dropped);
            self.record(What::Drop, *now, 0, 0);
        }
        if self.kernel.counting {
            count(&self.counters.queued);
        }
        self.record(What::Queue, *now, length as u64, 0);
        if tell { Fate::Ready } else { Fate::Taken }
    }

    /// Serves the oldest push that waits. Says whether more do; if not, whoever brings the next is told [`Fate::Ready`].
    pub(crate) fn serve(&self) -> bool {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        let Some(next) = next else {
            queue.told = false;
            return false;
        };
        let left = queue.waiting.len();
        drop(queue);
        if self.quality.overflow == Overflow::Block && left + self.roomy() <= self.quality.queue.max(1) {
            self.room.notify_one();
        }
        if !self.is_gone() {
            let mut now = if self.times() { self.kernel.clock.now_ns() } else { 0 };
            let (traced, counted) = (self.kernel.trace.is_on(), self.kernel.counting.then(me));
            next.events.with_events(|events| self.call(events, next.since, &mut now, traced, counted));
        }
        drop(next);
        let mut queue = self.queue.lock();
        self.busy.fetch_sub(1, AcqRel);
        queue.told = !queue.waiting.is_empty();
        queue.told
    }

    /// So much room there is before suppliers that wait for it are woken: one wake-up an event would be two switches an event where both
    /// share a processor.
    fn roomy(&self) -> usize {
        (self.quality.queue / 8).clamp(1, 32)
    }

    /// Where its next push stands among its priority; lower first.
    pub(crate) fn key(&self) -> u64 {
        let since = || self.queue.lock().waiting.front().map_or(0, |w| w.since);
        match (self.place.sub_priority(), self.place.deadline()) {
            (SubPriority::Static(value), _) => (i64::from(i32::MAX) - i64::from(value)) as u64,
            (SubPriority::Deadline, Some(deadline)) => since().saturating_add(deadline),
            (SubPriority::Laxity, Some(deadline)) => {
                let worst = self.place.worst_case().unwrap_or(0);
                since().saturating_add(deadline).saturating_sub(worst)
            }
            (_, None) => u64::MAX,
        }
    }

    /// Does anybody want to know the time of its pushes?
    #[inline]
    pub(crate) fn times(&self) -> bool {
        self.timed || self.kernel.trace.is_on()
    }

    /// Calls the consumer. `now` is the time that was last looked at, and is looked at again where anybody wants to know.
    #[inline]
    fn call(&self, events: &[Event<'_>], since: u64, now: &mut u64, traced: bool, counted: Option<Me>) {
        if let Some(me) = counted {
            self.pushed.add(me);
        }
        if traced || self.timed {
            return self.call_timed(events, since, now);
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.consumer.push(events)));
        match result {
            Ok(Ok(())) => self.succeeded(),
            _ => self.failed(),
        }
    }

    fn call_timed_now(&self, events: &[Event<'_>], now: &mut u64) {
        self.arrived(now);
        self.call_timed(events, *now, now);
    }

    /// A push has come.
    fn arrived(&self, now: &mut u64) {
        if !self.pace.is_declared() {
            return;
        }
        if *now == 0 {
            *now = self.kernel.clock.now_ns();
        }
        if self.pace.is_early(*now) {
            count(&self.counters.early);
        }
    }

    fn call_timed(&self, events: &[Event<'_>], since: u64, now: &mut u64) {
        if self.skip.load(Relaxed) && self.skip.swap(false, Relaxed) {
            count(&self.counters.skipped);
            self.record(What::Drop, *now, 3, 0);
            return;
        }
        let clock = &*self.kernel.clock;
        if *now == 0 {
            *now = clock.now_ns();
        }
        let since = if since == 0 { *now } else { since };
        let begin = *now;
        let trace = &self.kernel.trace;
        let run = trace.begin(self.note(What::Begin, begin, begin.saturating_sub(since), 0));
        let used = self.place.worst_case().map(|worst| {
            self.nested.store(0, Relaxed);
            (worst, clock.cpu_ns())
        });
        let result = catch_unwind(AssertUnwindSafe(|| self.consumer.push(events)));
        let failed = !matches!(result, Ok(Ok(())));
        *now = clock.now_ns();
        trace.end(run, self.note(What::End, *now, now.saturating_sub(begin), u64::from(failed)));
        if failed {
            self.failed();
        } else {
            self.succeeded();
        }
        if let Some(latencies) = &self.latencies
            && self.kernel.trace.is_on()
        {
            latencies.count(since, begin, *now, self.place.deadline());
        }
        if let Some(deadline) = self.place.deadline() {
            let deadline = since.saturating_add(deadline);
            if *now > deadline {
                count(&self.counters.missed);
                self.record(What::Miss, *now, *now - deadline, deadline);
            }
        }
        if let Some((declared, before)) = used {
            let used = clock.cpu_ns().saturating_sub(before).saturating_sub(self.nested.load(Relaxed));
            if used > declared {
                self.overran(used, declared, *now);
            }
        }
    }

    #[cold]
    fn overran(&self, used: u64, declared: u64, now: u64) {
        count(&self.counters.overruns);
        self.record(What::Overrun, now, used, declared);
        match self.quality.containment {
            Containment::Count => {}
            Containment::Skip => self.skip.store(true, Relaxed),
            Containment::Demote => self.level.store(0, Relaxed),
            Containment::Disconnect => self.quit(),
        }
    }

    #[inline]
    fn succeeded(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    #[cold]
    pub(crate) fn failed(&self) {
        count(&self.counters.failed);
        let rest = self.consumer.rest();
        if !rest.is_zero() {
            self.begin_rest(rest);
        }
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        if self.quality.failures != 0 && failures == self.quality.failures {
            self.quit();
        }
    }
}
