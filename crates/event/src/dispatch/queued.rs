//! Dispatchers with priority queues.

use super::lane::Lane;
use super::strategy::Worker;
use super::upcall::Frame;
use super::{Dispatch, ReadyConsumer, Redispatch, Strategy, ThreadSetup};
use isorb_rt::priority::Priority;
use isorb_rt::sched::SpawnError;
use isorb_rt::sync::PiMutex;
use isorb_sched::Preemption;
use std::fmt;
use std::sync::{Arc, Weak};

/// Priority queues and the threads that serve them: one ([`Strategy::SingleThreaded`],
/// [`Strategy::Upcalls`]), or one for each priority level ([`Strategy::Threads`]).
pub struct Queued {
    shared: Arc<Shared>,
    preemption: Option<Preemption>,
    threads: PiMutex<Vec<Worker>>,
}

pub(crate) struct Shared {
    lanes: Box<[Arc<Lane>]>,
    successor: Weak<dyn Redispatch>,
    /// Consumers may yield to more urgent ones.
    pub upcalls: bool,
}

impl Queued {
    /// Starts the queues and threads of a strategy; `None` for [`Strategy::Direct`], which has
    /// neither.
    ///
    /// # Errors
    /// [`SpawnError`]: a thread did not start, or not with its priority.
    pub fn start(
        strategy: Strategy,
        levels: &[Priority],
        setup: &ThreadSetup,
        successor: Weak<dyn Redispatch>,
    ) -> Result<Option<Queued>, SpawnError> {
        let setup = setup.clone().for_levels(levels);
        let count = levels.len();
        let top = levels.last().copied().unwrap_or(Priority::MIN);
        // (lane, its thread's priority, how many threads)
        let (lanes, upcalls): (Vec<(Lane, Priority, usize)>, bool) = match strategy {
            Strategy::Direct => return Ok(None),
            Strategy::ByHand { upcalls } => (vec![(Lane::new(0, count, 0), top, 0)], upcalls),
            Strategy::SingleThreaded => (vec![(Lane::new(0, count, 1), top, 1)], false),
            Strategy::Upcalls => (vec![(Lane::new(0, count, 1), top, 1)], true),
            Strategy::Threads { per_level } => {
                let threads = per_level.max(1);
                let lane = |(i, level): (usize, &Priority)| (Lane::new(i as u8, 1, threads), *level, threads);
                (levels.iter().enumerate().map(lane).collect(), false)
            }
        };
        let plan: Vec<(Priority, usize)> = lanes.iter().map(|(_, p, threads)| (*p, *threads)).collect();
        let lanes = lanes.into_iter().map(|(lane, ..)| Arc::new(lane)).collect();
        let queued = Queued {
            shared: Arc::new(Shared { lanes, successor, upcalls }),
            preemption: strategy.preemption(),
            threads: PiMutex::new(Vec::new()),
        };
        for (number, (priority, threads)) in plan.into_iter().enumerate() {
            for thread in 0..threads {
                let shared = queued.shared.clone();
                let name = format!("event-{}-{thread}", priority.get());
                let started = setup.spawn(name, priority, move || shared.run_thread(number, thread));
                match started {
                    Ok(thread) => queued.threads.lock().push(thread),
                    Err(error) => {
                        queued.close();
                        return Err(error);
                    }
                }
            }
        }
        Ok(Some(queued))
    }

    /// Starts a dispatcher that is never replaced, for modules that are chosen by type and for
    /// gateways.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn alone(
        strategy: Strategy,
        levels: &[Priority],
        setup: &ThreadSetup,
    ) -> Result<Option<Queued>, SpawnError> {
        Queued::start(strategy, levels, setup, Weak::<NoSuccessor>::new())
    }
}

/// Drops the ready consumers of a dispatcher without a replacement.
struct NoSuccessor;

impl Redispatch for NoSuccessor {
    fn redispatch(&self, _: ReadyConsumer) {}
}

impl Shared {
    fn lane(&self, level: u8) -> &Arc<Lane> {
        &self.lanes[(level as usize).min(self.lanes.len() - 1)]
    }

    /// The body of a thread.
    fn run_thread(self: &Arc<Self>, lane: usize, thread: usize) {
        super::upcall::serve(self);
        while let Some(consumer) = self.lanes[lane].wait(thread) {
            if self.lanes[lane].is_closed() {
                self.redispatch(consumer);
            } else {
                self.run(consumer);
            }
        }
    }

    /// Runs the consumer, and queues it again if it has more.
    pub(crate) fn run(self: &Arc<Self>, consumer: ReadyConsumer) {
        let frame = self.upcalls.then(|| Frame::enter(self, consumer.level(), &consumer.0));
        let more = consumer.run();
        drop(frame);
        if let Some(Err(consumer)) = more.map(|consumer| self.lane(consumer.level()).put(consumer)) {
            self.redispatch(consumer);
        }
    }

    pub(crate) fn take_above(&self, level: u8) -> Option<ReadyConsumer> {
        self.lanes[0].take_above(Some(level))
    }

    fn redispatch(&self, consumer: ReadyConsumer) {
        // Without a channel no consumer is left.
        if let Some(successor) = self.successor.upgrade() {
            successor.redispatch(consumer);
        }
    }
}

impl Dispatch for Queued {
    fn preemption(&self) -> Option<Preemption> {
        self.preemption
    }

    #[inline]
    fn ready(&self, consumer: ReadyConsumer) -> Result<(), ReadyConsumer> {
        self.shared.lane(consumer.level()).put(consumer)
    }

    fn reserve(&self, consumers: usize) {
        self.shared.lanes.iter().for_each(|lane| lane.reserve(consumers));
    }

    fn close(&self) {
        self.shared.lanes.iter().for_each(|lane| lane.close());
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A thread cannot wait for its own end; it ends when it returns to its loop.
            if !super::upcall::is_worker_of(&self.shared) {
                // A consumer's panic was caught where it was called.
                let _ = thread.join();
            }
        }
        // Without threads only this call empties the lanes.
        for lane in &self.shared.lanes {
            while let Some(consumer) = lane.take_above(None) {
                self.shared.redispatch(consumer);
            }
        }
    }

    fn step(&self) -> bool {
        let consumer = self.shared.lanes.iter().rev().find_map(|lane| lane.take_above(None));
        consumer.map(|consumer| self.shared.run(consumer)).is_some()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("lanes", &self.shared.lanes.len()).finish_non_exhaustive()
    }
}
