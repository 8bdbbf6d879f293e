//! Serves a consumer with the events of the history that it asked for, before later ones.
//!
//! ```text
//!  await_history ─► its pushes are queued ─► begin_history ─► serve: the backlog, then the queue
//! ```

use super::Connection;
use super::queue::Served;
use crate::counters::{count, thread_number};
use crate::retention::{Backlog, RetainedRef};
use isorb_rt::sync::atomic::Ordering::AcqRel;

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
            return self.go_on(|| count(&self.counters.history_lost));
        };
        let mut now = self.kernel.clock.now_ns();
        if copy.expires() != 0 && now >= copy.expires() {
            return self.go_on(|| count(&self.counters.expired));
        }
        // Counts what it does not admit.
        if !self.admits(&copy.event()) {
            return self.go_on(|| ());
        }
        let (traced, counted) = (self.kernel.recorder.is_on(), self.kernel.counting.then(thread_number));
        if self.call(&[copy.event()], now, &mut now, traced, counted).is_err() {
            return Served::Busy;
        }
        drop(copy);
        self.go_on(|| count(&self.counters.from_history))
    }

    /// Ends the turn of an event of the backlog.
    fn go_on(&self, counted: impl FnOnce()) -> Served {
        let gone = self.is_gone();
        if !gone {
            counted();
        }
        let mut queue = self.queue.lock();
        if gone {
            queue.backlog.abandon();
        } else if !queue.backlog.advance() {
            return Served::More;
        }
        self.busy.fetch_sub(1, AcqRel);
        queue.scheduled = !queue.waiting.is_empty();
        if queue.scheduled { Served::More } else { Served::Empty }
    }
}
