//! Serves a consumer with the events of the history that it asked for, before later ones.
//!
//! ```text
//!  await_history ─► its pushes are queued ─► begin_history ─► serve: the backlog, then the queue
//! ```

use super::Connection;
use super::queue::Served;
use crate::counters::{ThreadNumber, count, thread_number};
use crate::event::{Event, EventCopy};
use crate::retention::{Backlog, History, RetainedRef};
use isorb_rt::sync::atomic::Ordering::{AcqRel, Relaxed};

/// The most events of a set. Each is a copy that its ring may overwrite meanwhile, and the history
/// has few to spare.
const SET: usize = 8;
/// The octets at which a set ends.
const SET_OCTETS: usize = 32 << 10;

impl Connection {
    /// From now on its pushes are queued, and no dispatcher gets it, until
    /// [`begin_history`](Self::begin_history). Called before any event meets it.
    pub(crate) fn await_history(&self) {
        self.busy.fetch_add(1, AcqRel);
        self.queue.lock().scheduled = true;
    }

    /// Sets the events that it gets first. The caller passes it to its dispatcher.
    pub(crate) fn begin_history(&self, backlog: Backlog) {
        let mut queue = self.queue.lock();
        let is_empty = backlog.next().is_none();
        queue.backlog = backlog;
        if is_empty {
            self.busy.fetch_sub(1, AcqRel);
        }
    }

    /// Serves an event of the backlog.
    #[cold]
    pub(super) fn serve_kept(&self, kept: RetainedRef) -> Served {
        let copy =
            if self.is_gone() { None } else { self.kernel.history().and_then(|history| history.get(kept)) };
        let Some(copy) = copy else {
            return self.go_on(1, || count(&self.counters.history_lost));
        };
        let mut now = self.kernel.clock.now_ns();
        if copy.expires() != 0 && now >= copy.expires() {
            return self.go_on(1, || count(&self.counters.expired));
        }
        // Counts what it does not admit.
        if !self.admits(&copy.event()) {
            return self.go_on(1, || ());
        }
        let (traced, counted) = (self.kernel.recorder.is_on(), self.kernel.counting.then(thread_number));
        // One that is timed declared what a single event costs.
        if !self.timed
            && !self.has_content()
            && self.consumer.takes_sets()
            && let Some(history) = self.kernel.history()
        {
            return self.serve_set(history, copy, now, traced, counted);
        }
        if self.call(&[copy.event()], now, &mut now, traced, counted).is_err() {
            return Served::Busy;
        }
        drop(copy);
        self.go_on(1, || count(&self.counters.from_history))
    }

    /// Serves events of the backlog by one push: `first` and those that follow, up to one that is
    /// gone or expired.
    fn serve_set(
        &self,
        history: &History,
        first: EventCopy,
        mut now: u64,
        traced: bool,
        counted: Option<ThreadNumber>,
    ) -> Served {
        let ahead: [Option<RetainedRef>; SET] = self.queue.lock().backlog.ahead();
        let mut copies: [Option<EventCopy>; SET] = std::array::from_fn(|_| None);
        let size = |copy: &EventCopy| copy.event().data.octets.len() + copy.event().data.any.len();
        let (mut length, mut octets) = (1, size(&first));
        copies[0] = Some(first);
        for kept in ahead.into_iter().skip(1) {
            let Some(copy) = kept.and_then(|kept| history.get(kept)) else { break };
            octets = octets.saturating_add(size(&copy));
            if octets > SET_OCTETS || copy.expires() != 0 && now >= copy.expires() {
                break;
            }
            copies[length] = Some(copy);
            length += 1;
        }
        let mut events = [Event::default(); SET];
        for (event, copy) in events.iter_mut().zip(copies.iter().flatten()) {
            *event = copy.event();
        }
        if self.call(&events[..length], now, &mut now, traced, counted).is_err() {
            return Served::Busy;
        }
        drop(copies);
        self.go_on(length, || {
            self.counters.from_history.fetch_add(length as u64, Relaxed);
        })
    }

    /// Ends the turn of `length` events of the backlog.
    fn go_on(&self, length: usize, counted: impl FnOnce()) -> Served {
        let gone = self.is_gone();
        if !gone {
            counted();
        }
        let mut queue = self.queue.lock();
        if gone {
            queue.backlog.abandon();
        } else if !queue.backlog.advance(length) {
            return Served::More;
        }
        self.busy.fetch_sub(1, AcqRel);
        queue.scheduled = !queue.waiting.is_empty();
        if queue.scheduled { Served::More } else { Served::Empty }
    }
}
