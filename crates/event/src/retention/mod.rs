//! What a channel keeps of events after their delivery, and for how long events are of use.
//!
//! ```text
//!  push ─► lifespan: when the event expires ─► history: the last events of each type and source
//!                                                 │
//!  a consumer connects ─► its backlog ◄───────────┘  served before the events that arrive meanwhile
//! ```

mod backlog;
mod history;
mod lifespan;
#[cfg(all(test, not(loom)))]
mod model_tests;
mod stream;

pub use history::{HistoryQos, HistoryRequest, HistoryStatus, StreamStatus};
pub use lifespan::Lifespan;

pub(crate) use backlog::{Backlog, RetainedRef};
pub(crate) use history::History;

use crate::event::CurrentEvent;
use lifespan::Lifespans;

/// The history and the lifespans of a channel that has any.
pub(crate) struct Retention {
    pub history: Option<History>,
    lifespans: Lifespans,
}

impl Retention {
    /// `None` for a channel that keeps nothing.
    ///
    /// # Errors
    /// Its memory cannot be allocated.
    pub(crate) fn new(qos: HistoryQos, lifespans: &[Lifespan]) -> Result<Option<Retention>, NoMemory> {
        if !qos.is_on() && lifespans.is_empty() {
            return Ok(None);
        }
        let history = if qos.is_on() { Some(History::new(qos).ok_or(NoMemory)?) } else { None };
        Ok(Some(Retention { history, lifespans: Lifespans::new(lifespans) }))
    }

    /// Sets the end of an event's lifespan, and keeps the event if it is `new`: not from a link of
    /// a federation. `view` is the version of the view that the event meets. Returns true if there
    /// is a loss to log.
    ///
    /// # Real-time
    /// Does not allocate. With a history, one PI lock for a short section and a copy of the data.
    #[inline(never)]
    pub(crate) fn admit(&self, current: &mut CurrentEvent<'_>, new: bool, view: u64, now: u64) -> bool {
        current.expires = self.lifespans.end(current.event.header.event_type, now);
        let history = self.history.as_ref().filter(|_| new);
        history.is_some_and(|history| history.keep(current.event, current.expires, view, now))
    }
}

/// The memory of the history cannot be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;
