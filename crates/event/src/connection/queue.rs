//! The queue of a consumer.

use super::{Connection, DISCONNECTED, PushOutcome};
use crate::batch::{Batch, QueuedEvents, StoredEvent};
use crate::counters::{count, thread_number};
use crate::event::{CurrentEvent, NoCopy};
use crate::placement::SubPriority;
use crate::retention::Backlog;
use isorb_rt::queue::Overflow;
use isorb_rt::sync::atomic::Ordering::{AcqRel, Relaxed};
use isorb_rt::time::Deadline;
use isorb_trace::{DropReason, RecordKind};
use std::collections::VecDeque;

pub(super) struct Queue {
    pub waiting: VecDeque<WaitingPush>,
    /// A dispatcher has the consumer as ready and has not finished it.
    pub scheduled: bool,
    /// Events of the history, which are served first. While there are any the consumer counts as
    /// busy with one push more.
    pub backlog: Backlog,
}

/// What a consumer's dispatcher does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// More pushes are queued.
    More,
    /// None is queued; the next push is [`PushOutcome::ConsumerReady`].
    Empty,
    /// The consumer takes nothing until it resumes.
    Busy,
}

pub(super) struct WaitingPush {
    events: QueuedEvents,
    since: u64,
}

impl Connection {
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// Stops calling the consumer (a call under way ends) and drops its queue.
    pub(crate) fn leave(&self) {
        self.busy.fetch_or(DISCONNECTED, AcqRel);
        let waiting: Vec<WaitingPush> = self.queue.lock().waiting.drain(..).collect();
        self.busy.fetch_sub(waiting.len() as u32, AcqRel);
        self.room.notify_all();
    }

    #[inline(never)]
    pub(crate) fn enqueue_one(&self, current: &CurrentEvent<'_>, now: &mut u64) -> PushOutcome {
        if self.is_too_soon(now) {
            return PushOutcome::TooSoon;
        }
        self.enqueue_passed(current, now)
    }

    /// As [`enqueue_one`](Self::enqueue_one), behind the time-based filter.
    pub(super) fn enqueue_passed(&self, current: &CurrentEvent<'_>, now: &mut u64) -> PushOutcome {
        if self.only_anys && current.event.data.any.is_empty() {
            return PushOutcome::Disconnected;
        }
        match current.keep() {
            Ok(kept) => self.put(QueuedEvents::One(StoredEvent::Copy(kept)), now),
            Err(cause) => self.copy_failed(cause, *now),
        }
    }

    pub(crate) fn enqueue(&self, batch: Batch<'_, '_>, now: &mut u64) -> PushOutcome {
        if batch.is_event() && self.is_too_soon(now) {
            return PushOutcome::TooSoon;
        }
        self.enqueue_batch_passed(batch, now)
    }

    /// As [`enqueue`](Self::enqueue), behind the time-based filter.
    pub(super) fn enqueue_batch_passed(&self, batch: Batch<'_, '_>, now: &mut u64) -> PushOutcome {
        match batch.into_queued(&self.kernel.sets) {
            Ok(queued) => self.put(queued, now),
            Err(cause) => self.copy_failed(cause, *now),
        }
    }

    /// Handles a failed copy. An event that is too large is not subject to the overflow policy.
    /// Otherwise the supplier is told under [`Overflow::Refuse`] and `Block`.
    pub(crate) fn copy_failed(&self, cause: NoCopy, now: u64) -> PushOutcome {
        if cause == NoCopy::TooLarge {
            count(&self.counters.too_large);
            count(&self.kernel.totals.too_large);
            self.record_drop(now, DropReason::TooLarge);
            return PushOutcome::TooLarge;
        }
        count(&self.counters.not_kept);
        self.record_drop(now, DropReason::Copies);
        match self.quality.overflow {
            Overflow::Refuse | Overflow::Block => PushOutcome::Refused,
            Overflow::DropOldest | Overflow::DropNewest => PushOutcome::Dropped,
        }
    }

    pub(super) fn put(&self, events: QueuedEvents, now: &mut u64) -> PushOutcome {
        if self.is_gone() {
            return PushOutcome::Disconnected;
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
            return PushOutcome::Disconnected;
        }
        if queue.waiting.len() >= limit {
            match self.quality.overflow {
                Overflow::DropOldest => displaced = queue.waiting.pop_front(),
                Overflow::DropNewest => {
                    drop(queue);
                    count(&self.counters.dropped);
                    self.record_drop(*now, DropReason::Queue);
                    return PushOutcome::Dropped;
                }
                Overflow::Refuse | Overflow::Block => {
                    drop(queue);
                    count(&self.counters.refused);
                    self.record_drop(*now, DropReason::Queue);
                    return PushOutcome::Refused;
                }
            }
        }
        queue.waiting.push_back(WaitingPush { events, since: *now });
        if self.kernel.counting {
            // Under the lock no other thread writes it.
            self.counters.queued.store(self.counters.queued.load(Relaxed) + 1, Relaxed);
        }
        let length = queue.waiting.len();
        let newly_ready = !std::mem::replace(&mut queue.scheduled, true);
        if displaced.is_none() {
            self.busy.fetch_add(1, AcqRel);
        }
        drop(queue);
        if displaced.is_some() {
            count(&self.counters.dropped);
            self.record_drop(*now, DropReason::Queue);
        }
        self.record(RecordKind::Queue, *now, length as u64, 0);
        if newly_ready { PushOutcome::ConsumerReady } else { PushOutcome::Accepted }
    }

    /// Serves the oldest queued push.
    pub(crate) fn serve(&self) -> Served {
        let mut queue = self.queue.lock();
        if let Some(kept) = queue.backlog.next() {
            drop(queue);
            return self.serve_kept(kept);
        }
        let next = queue.waiting.pop_front();
        let Some(next) = next else {
            queue.scheduled = false;
            return Served::Empty;
        };
        let left = queue.waiting.len();
        drop(queue);
        if self.quality.overflow == Overflow::Block
            && left + self.wake_threshold() <= self.quality.queue.max(1)
        {
            self.room.notify_one();
        }
        if !self.is_gone() {
            let expires = next.events.expires();
            let mut now = if expires != 0 || self.times() { self.kernel.clock.now_ns() } else { 0 };
            let taken = if expires != 0 && now >= expires {
                count(&self.counters.expired);
                Ok(())
            } else {
                let (traced, counted) =
                    (self.kernel.recorder.is_on(), self.kernel.counting.then(thread_number));
                let since = next.since;
                next.events.with_events(|events| self.call(events, since, &mut now, traced, counted))
            };
            if taken.is_err() {
                self.put_back(next, now);
                return Served::Busy;
            }
        }
        drop(next);
        let mut queue = self.queue.lock();
        self.busy.fetch_sub(1, AcqRel);
        queue.scheduled = !queue.waiting.is_empty();
        if queue.scheduled { Served::More } else { Served::Empty }
    }

    /// Makes a push that the consumer did not take the first of its queue again.
    #[cold]
    fn put_back(&self, push: WaitingPush, now: u64) {
        let limit = self.quality.queue.max(1);
        let mut queue = self.queue.lock();
        // The queue has room for one more than its limit.
        let displaced = queue.waiting.len() >= limit && self.quality.overflow == Overflow::DropOldest;
        if !displaced && !self.is_gone() {
            queue.waiting.push_front(push);
            return;
        }
        drop(queue);
        self.busy.fetch_sub(1, AcqRel);
        if !self.is_gone() {
            count(&self.counters.dropped);
            self.record_drop(now, DropReason::Queue);
        }
    }

    /// The free slots before blocked suppliers are woken. A wake-up for each event would be two
    /// context switches where both share a processor.
    pub(super) fn wake_threshold(&self) -> usize {
        (self.quality.queue / 8).clamp(1, 32)
    }

    /// The order of its next push within its priority; lower is first.
    pub(crate) fn key(&self) -> u64 {
        let since = || {
            let queue = self.queue.lock();
            match queue.backlog.next() {
                // Events of the history come behind the new ones of other consumers.
                Some(_) => u64::MAX,
                None => queue.waiting.front().map_or(0, |waiting| waiting.since),
            }
        };
        match (self.placement.sub_priority(), self.placement.deadline()) {
            (SubPriority::Static(value), _) => (i64::from(i32::MAX) - i64::from(value)) as u64,
            (SubPriority::Deadline, Some(deadline)) => since().saturating_add(deadline),
            (SubPriority::Laxity, Some(deadline)) => {
                let worst = self.placement.worst_case().unwrap_or(0);
                since().saturating_add(deadline).saturating_sub(worst)
            }
            (_, None) => u64::MAX,
        }
    }
}
