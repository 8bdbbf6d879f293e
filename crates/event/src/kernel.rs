//! What all parts of a channel share.

use crate::batch::EventListPool;
use crate::clock::Clock;
use crate::connection::Connection;
use crate::counters::TotalCounters;
use crate::event::EventPool;
use isorb_rt::priority::Priority;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_trace::Recorder;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Who is to be disconnected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingDisconnect {
    Consumer(u32),
    Supplier(u32),
}

pub(crate) struct Kernel {
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    pub events: EventPool,
    pub sets: EventListPool,
    /// The least urgent first.
    pub levels: Box<[Priority]>,
    /// How long a supplier waits for room in a queue that blocks.
    pub block: Duration,
    pub counting: bool,
    pub totals: TotalCounters,
    /// Consumers have histograms.
    pub latencies: bool,
    /// Whom the channel is to disconnect when it comes to it.
    leaving: PiMutex<Vec<PendingDisconnect>>,
    /// Who was disconnected and has not been told yet: so many at most.
    unnotified: PiMutex<VecDeque<Arc<Connection>>>,
    max_unnotified: usize,
    /// Wakes whoever does so.
    pub sweeper: Parker,
}

impl Kernel {
    #[allow(clippy::too_many_arguments, reason = "one place makes it, from one configuration")]
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        recorder: Recorder,
        events: EventPool,
        sets: EventListPool,
        levels: Box<[Priority]>,
        block: Duration,
        counting: bool,
        latencies: bool,
        consumers: usize,
    ) -> Kernel {
        let leaving = PiMutex::new(Vec::with_capacity(consumers));
        Kernel {
            clock,
            recorder,
            events,
            sets,
            levels,
            block,
            counting,
            totals: TotalCounters::default(),
            latencies,
            leaving,
            unnotified: PiMutex::default(),
            max_unnotified: consumers.max(1),
            sweeper: Parker::new(),
        }
    }

    /// The level that serves a priority: the most urgent one that is not above it, or the lowest.
    pub(crate) fn level(&self, priority: Priority) -> u8 {
        let above = self.levels.iter().take_while(|level| **level <= priority).count();
        above.saturating_sub(1) as u8
    }

    /// Notes that somebody is to be disconnected. Each asks once.
    pub(crate) fn request_disconnect(&self, who: PendingDisconnect) {
        let mut leaving = self.leaving.lock();
        // Room for all consumers was taken beforehand.
        if !leaving.contains(&who) {
            leaving.push(who);
        }
        drop(leaving);
        self.sweeper.unpark();
    }

    pub(crate) fn next_pending_disconnect(&self) -> Option<PendingDisconnect> {
        self.leaving.lock().pop()
    }

    /// Notes that a consumer that is gone is to be told so. The one that waits longest goes without where too many wait.
    pub(crate) fn notify_later(&self, gone: Arc<Connection>) {
        let mut unnotified = self.unnotified.lock();
        let spared = if unnotified.len() >= self.max_unnotified { unnotified.pop_front() } else { None };
        unnotified.push_back(gone);
        drop(unnotified);
        drop(spared);
    }

    pub(crate) fn next_to_notify(&self) -> Option<Arc<Connection>> {
        self.unnotified.lock().pop_front()
    }
}
