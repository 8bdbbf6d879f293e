//! What waits for a consumer.

use super::{Connection, Fate, GONE};
use crate::batch::{Batch, Item, Queued};
use crate::counters::{count, me};
use crate::event::{Current, NoCopy};
use crate::placement::SubPriority;
use isorb_rt::queue::Overflow;
use isorb_rt::sync::atomic::Ordering::AcqRel;
use isorb_rt::time::Deadline;
use isorb_trace::RecordKind;
use std::collections::VecDeque;

pub(super) struct Queue {
    pub waiting: VecDeque<Waiting>,
    /// Somebody was told that there is work, and has not finished it.
    pub told: bool,
}

pub(super) struct Waiting {
    events: Queued,
    since: u64,
}

impl Connection {
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// From now on it is not called any more (a call under way ends). What waits is thrown away.
    pub(crate) fn leave(&self) {
        self.busy.fetch_or(GONE, AcqRel);
        let waiting: Vec<Waiting> = self.queue.lock().waiting.drain(..).collect();
        self.busy.fetch_sub(waiting.len() as u32, AcqRel);
        self.room.notify_all();
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
            self.record(RecordKind::Drop, now, 2, 0);
            return Fate::TooLarge;
        }
        count(&self.counters.not_kept);
        self.record(RecordKind::Drop, now, 1, 0);
        match self.quality.overflow {
            Overflow::Refuse | Overflow::Block => Fate::Refused,
            Overflow::DropOldest | Overflow::DropNewest => Fate::Dropped,
        }
    }

    pub(super) fn put(&self, events: Queued, now: &mut u64) -> Fate {
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
                    self.record(RecordKind::Drop, *now, 0, 0);
                    return Fate::Dropped;
                }
                Overflow::Refuse | Overflow::Block => {
                    drop(queue);
                    count(&self.counters.refused);
                    self.record(RecordKind::Drop, *now, 0, 0);
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
            self.record(RecordKind::Drop, *now, 0, 0);
        }
        if self.kernel.counting {
            count(&self.counters.queued);
        }
        self.record(RecordKind::Queue, *now, length as u64, 0);
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
            let (traced, counted) = (self.kernel.recorder.is_on(), self.kernel.counting.then(me));
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
    pub(super) fn roomy(&self) -> usize {
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
}
