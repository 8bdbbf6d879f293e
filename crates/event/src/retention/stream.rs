//! The last events of one type and source.

use crate::event::EventCopy;
use std::collections::VecDeque;

/// An event of the history.
pub(crate) struct RetainedEvent {
    /// Its number among all events of the history.
    pub number: u64,
    /// When it arrived.
    pub at: u64,
    /// The version of the view that it met. Consumers that this view lists were pushed it.
    pub view: u64,
    pub copy: EventCopy,
}

/// A ring of events, in order of their numbers.
pub(crate) struct Ring {
    events: VecDeque<RetainedEvent>,
    depth: usize,
    /// Events that a newer one replaced.
    pub overwritten: u64,
    /// Events that became too old.
    pub aged: u64,
}

impl Ring {
    pub fn new(depth: usize) -> Ring {
        Ring { events: VecDeque::with_capacity(depth), depth, overwritten: 0, aged: 0 }
    }

    /// Adds the newest event. Returns up to two events that it displaces, to be dropped without
    /// the lock: the oldest of a full ring, and one that arrived before `since`.
    pub fn push(&mut self, kept: RetainedEvent, since: u64) -> [Option<RetainedEvent>; 2] {
        let mut gone = [None, None];
        if self.events.len() >= self.depth {
            gone[0] = self.events.pop_front();
            self.overwritten += u64::from(gone[0].is_some());
        }
        if self.events.front().is_some_and(|oldest| oldest.at < since) {
            gone[1] = self.events.pop_front();
            self.aged += 1;
        }
        self.events.push_back(kept);
        gone
    }

    /// The event with this number, if it is still there.
    ///
    /// # Real-time
    /// O(log n).
    pub fn get(&self, number: u64) -> Option<&RetainedEvent> {
        let at = self.events.binary_search_by_key(&number, |kept| kept.number).ok()?;
        self.events.get(at)
    }

    /// The newest `last` events that arrived at `since` or later, from an older view than `view`;
    /// the oldest first.
    pub fn newest(&self, last: usize, since: u64, view: u64) -> impl Iterator<Item = &RetainedEvent> {
        // Suppliers of one stream may meet different views at a time, so that not only the end of
        // the ring is of a newer one.
        let older = self.events.iter().filter(|kept| kept.view < view).count();
        let wanted = self.events.iter().filter(move |kept| kept.view < view);
        wanted.skip(older.saturating_sub(last)).filter(move |kept| kept.at >= since)
    }

    pub fn len(&self, since: u64) -> usize {
        self.events.iter().filter(|kept| kept.at >= since).count()
    }
}
