//! What all parts of a channel share.

use crate::batch::Sets;
use crate::clock::Clock;
use crate::connection::Connection;
use crate::counters::Total;
use crate::event::EventPool;
use isorb_rt::priority::Priority;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_trace::Recorder;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Who is to be disconnected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    Consumer(u32),
    Supplier(u32),
}

pub(crate) struct Kernel {
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    pub events: EventPool,
    pub sets: Sets,
    /// The least urgent first.
    pub levels: Box<[Priority]>,
    /// How long a supplier waits for room in a queue that blocks.
    pub block: Duration,
    pub counting: bool,
    pub totals: Total,
    /// Consumers have histograms.
    pub latencies: bool,
    /// Whom the channel is to disconnect when it comes to it.
    leaving: PiMutex<Vec<Leaving>>,
    /// Who was disconnected and has not been told yet: so many at most.
    untold: PiMutex<VecDeque<Arc<Connection>>>,
    farewells: usize,
    /// Wakes whoever does so.
    pub sweeper: Parker,
}

impl Kernel {
    #[allow(clippy::too_many_arguments, reason = "one place makes it, from one configuration")]
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        recorder: Recorder,
        events: EventPool,
        sets: Sets,
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
            totals: Total::default(),
            latencies,
            leaving,
            untold: PiMutex::default(),
            farewells: consumers.max(1),
            sweeper: Parker::new(),
        }
    }

    /// The level that serves a priority: the most urgent one that is not above it, or the lowest.
    pub(crate) fn level(&self, priority: Priority) -> u8 {
        let above = self.levels.iter().take_while(|level| **level <= priority).count();
        above.saturating_sub(1) as u8
    }

    /// Notes that somebody is to be disconnected. Each asks once.
    pub(crate) fn ask_to_leave(&self, who: Leaving) {
        let mut leaving = self.leaving.lock();
        // Room for all consumers was taken beforehand.
        if !leaving.contains(&who) {
            leaving.push(who);
        }
        drop(leaving);
        self.sweeper.unpark();
    }

    pub(crate) fn next_to_leave(&self) -> Option<Leaving> {
        self.leaving.lock().pop()
    }

    /// Notes that a consumer that is gone is to be told so. The one that waits longest goes without where too many wait.
    pub(crate) fn tell_later(&self, gone: Arc<Connection>) {
        let mut untold = self.untold.lock();
        let spared = if untold.len() >= self.farewells { untold.pop_front() } else { None };
        untold.push_back(gone);
        drop(untold);
        drop(spared);
    }

    pub(crate) fn next_to_tell(&self) -> Option<Arc<Connection>> {
        self.untold.lock().pop_front()
    }
}
