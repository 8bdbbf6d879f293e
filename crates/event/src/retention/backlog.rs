//! The events of the history that a consumer has not been given yet.

/// An event of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RetainedRef {
    /// The number of its stream.
    pub stream: u32,
    /// Its own number.
    pub number: u64,
}

/// References to events, in order. Holding no events, a slow consumer takes no memory from the
/// history: it loses the events that are overwritten before its turn, and counts them.
///
/// Its memory stays until the consumer is disconnected: the dispatcher's thread frees none.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    events: Box<[RetainedRef]>,
    served: usize,
}

impl Backlog {
    pub fn new(events: Vec<RetainedRef>) -> Backlog {
        Backlog { events: events.into(), served: 0 }
    }

    /// The next event; `None` if all were served.
    #[inline]
    pub fn next(&self) -> Option<RetainedRef> {
        self.events.get(self.served).copied()
    }

    /// The events from the next one on, which is the first.
    pub fn ahead<const N: usize>(&self) -> [Option<RetainedRef>; N] {
        std::array::from_fn(|at| self.events.get(self.served.saturating_add(at)).copied())
    }

    /// Goes on behind the next `count` events. Returns true after the last one.
    pub fn advance(&mut self, count: usize) -> bool {
        self.served += count;
        self.served >= self.events.len()
    }

    /// Skips what is left.
    pub fn abandon(&mut self) {
        self.served = self.events.len();
    }
}
