//! The channel.

use crate::admin::{ConsumerAdmin, SupplierAdmin};
use crate::config::ChannelBuilder;
use crate::core::Core;
use crate::counters::{Counts, Totals};
use crate::dispatch::{Direct, Dispatch, Queued, Redispatch, Strategy};
use crate::error::{ConnectError, OtherPreemption, StartError, SwapError};
use crate::latency::Latencies;
use crate::modules::{Configuration, ModuleSet, Pipeline, Replaceable};
use crate::observer::Observer;
use crate::placement::RunTimeScheduler;
use crate::retention::HistoryStatus;
use isorb_rt::priority::Priority;
use isorb_rt::sched::{Cpus, SpawnError};
use isorb_rt::time::Deadline;
use isorb_sched::Preemption;
use isorb_trace::{Participant, Recorder, Recording, Role};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An event channel: takes events from suppliers and delivers them to the subscribed consumers in
/// order of priority.
///
/// `M` is its set of modules: [`Replaceable`] ones, or [`Fixed`](crate::Fixed) by type. Clones are
/// handles of one channel. It ends with [`destroy`](Channel::destroy), or with its last handle,
/// supplier and consumer.
pub struct Channel<M: ModuleSet = Replaceable> {
    core: Arc<Core<M>>,
}

impl Channel {
    /// A full channel without dispatching: four levels, ordinary threads, trace off; and the
    /// methods that change this.
    pub fn builder() -> ChannelBuilder {
        ChannelBuilder::default()
    }

    pub(crate) fn start(config: ChannelBuilder) -> Result<Channel, StartError> {
        let (configuration, strategy, setup) =
            (config.configuration, config.strategy, config.threads.clone());
        let count = config.levels.len();
        // Before any thread starts.
        agree(&*config.scheduler, dispatched(configuration, strategy).preemption())?;
        let core = Core::start(config, Replaceable::default())?;
        let channel = Channel { core };
        let pipeline = channel.pipeline(configuration, strategy, &setup)?;
        channel.core.install(pipeline, Deadline::NONE).map_err(|_| StartError::Levels { count })?;
        Ok(channel)
    }

    /// Replaces the modules while events flow. Events that have entered pass the old modules to the
    /// end, later ones the new. The new dispatcher serves queued events. For each consumer, the
    /// events of one supplier stay in order, and none is lost or doubled.
    ///
    /// Waits until no event is in the old modules and their threads have ended. After `within` it
    /// returns [`SwapError::Unfinished`]: the new modules are in place, but the old ones still run.
    /// A consumer that calls this gets that result.
    ///
    /// # Errors
    /// [`SwapError`].
    pub fn reconfigure(
        &self,
        configuration: Configuration,
        strategy: Strategy,
        within: Duration,
    ) -> Result<(), SwapError> {
        agree(&*self.core.scheduler, dispatched(configuration, strategy).preemption())?;
        let setup = self.core.setup.clone();
        let pipeline = self.pipeline(configuration, strategy, &setup).map_err(SwapError::Thread)?;
        self.core.install(pipeline, Deadline::after(within))
    }

    /// As [`reconfigure`](Self::reconfigure), with a dispatcher of the caller.
    ///
    /// # Errors
    /// [`SwapError`].
    pub fn reconfigure_with(
        &self,
        configuration: Configuration,
        dispatch: Arc<dyn Dispatch>,
        within: Duration,
    ) -> Result<(), SwapError> {
        agree(&*self.core.scheduler, dispatch.preemption())?;
        self.core.install(Pipeline { configuration, dispatch }, Deadline::after(within))
    }

    /// The current configuration.
    pub fn configuration(&self) -> Configuration {
        self.core.view.read().pipeline.configuration
    }

    fn pipeline(
        &self,
        configuration: Configuration,
        strategy: Strategy,
        setup: &crate::dispatch::ThreadSetup,
    ) -> Result<Pipeline, SpawnError> {
        let successor: Weak<dyn Redispatch> = Arc::downgrade(&(self.core.clone() as Arc<dyn Redispatch>));
        let queued =
            Queued::start(dispatched(configuration, strategy), &self.core.kernel.levels, setup, successor)?;
        let dispatch: Arc<dyn Dispatch> = match queued {
            Some(queued) => Arc::new(queued),
            None => Arc::new(Direct),
        };
        Ok(Pipeline { configuration, dispatch })
    }
}

/// The strategy that applies in this configuration.
fn dispatched(configuration: Configuration, strategy: Strategy) -> Strategy {
    if configuration.is_direct() { Strategy::Direct } else { strategy }
}

/// Checks that the scheduler's promises assume the pre-emption of this dispatching.
fn agree(scheduler: &dyn RunTimeScheduler, dispatching: Option<Preemption>) -> Result<(), OtherPreemption> {
    match scheduler.preemption() {
        Some(promised) if Some(promised) != dispatching => Err(OtherPreemption { promised, dispatching }),
        _ => Ok(()),
    }
}

impl<M: ModuleSet> Channel<M> {
    pub(crate) fn start_fixed(config: ChannelBuilder, modules: M) -> Result<Channel<M>, StartError> {
        let core = Core::start(config, modules)?;
        agree(&*core.scheduler, core.preemption())?;
        Ok(Channel { core })
    }

    /// The priority levels at which consumers are served, the least urgent first.
    pub fn levels(&self) -> &[Priority] {
        &self.core.kernel.levels
    }

    /// Where consumers connect.
    pub fn for_consumers(&self) -> ConsumerAdmin<M> {
        ConsumerAdmin { core: self.core.clone() }
    }

    /// Where suppliers connect.
    pub fn for_suppliers(&self) -> SupplierAdmin<M> {
        SupplierAdmin { core: self.core.clone() }
    }

    /// Disconnects all suppliers and consumers and ends the channel's threads. Later pushes reach
    /// no consumer.
    pub fn destroy(&self) {
        self.core.destroy();
    }

    /// Notifies `observer` of all subscriptions and publications, now and after each change, until
    /// [`remove_observer`](Self::remove_observer).
    ///
    /// # Errors
    /// [`ConnectError::TooManyObservers`], or [`Destroyed`](ConnectError::Destroyed).
    pub fn append_observer(&self, observer: Arc<dyn Observer>) -> Result<u32, ConnectError> {
        self.core.append_observer(observer)
    }

    /// Removes an observer. Returns false for an unknown handle.
    pub fn remove_observer(&self, handle: u32) -> bool {
        self.core.remove_observer(handle)
    }

    /// The recorder of this channel's trace.
    pub fn recorder(&self) -> &Recorder {
        &self.core.kernel.recorder
    }

    /// A copy of the trace so far, with names. The channel knows the names of connected consumers;
    /// those of suppliers are given with their proxies' numbers.
    pub fn recording(&self, name: impl Into<String>, suppliers: &[(u32, &str)]) -> Recording {
        let participant =
            |role, id, name: &str| Participant { role, id, name: name.to_owned(), deadline: None };
        let mut participants: Vec<Participant> =
            suppliers.iter().map(|(id, name)| participant(Role::Supplier, *id, name)).collect();
        let consumers = self.consumers();
        participants.extend(consumers.iter().map(|c| Participant {
            deadline: c.deadline.and_then(|deadline| u64::try_from(deadline.as_nanos()).ok()),
            ..participant(Role::Consumer, c.id, &c.name)
        }));
        let recorder = self.recorder();
        Recording {
            name: name.into(),
            lost: recorder.lost(),
            participants,
            tracks: recorder.snapshot(),
            ..Recording::default()
        }
    }

    /// The consumers and their counts, for tools.
    pub fn consumers(&self) -> Vec<ConsumerStatus> {
        self.core.registry.lock().status()
    }

    /// The latencies of these consumers, by [`ConsumerStatus::id`]. `None` for an unknown consumer,
    /// or without [`ChannelBuilder::latencies`](crate::ChannelBuilder::latencies).
    ///
    /// # Real-time
    /// Allocates, and delays threads that connect or disconnect. Does not disturb events.
    pub fn latencies(&self, consumers: &[u32]) -> Vec<Option<Latencies>> {
        self.core.registry.lock().latencies(consumers)
    }

    /// The number of table look-ups for each event at this moment.
    pub fn lookups(&self) -> usize {
        self.core.view.read().tables.classes()
    }

    /// The number of free event copies, of [`Limits::events`](crate::Limits::events).
    pub fn free_copies(&self) -> usize {
        self.core.kernel.events.available()
    }

    /// Counts that belong to no single consumer.
    pub fn totals(&self) -> Totals {
        self.core.kernel.totals.read()
    }

    /// The history: its streams, and what was not kept. `None` if the channel keeps none.
    ///
    /// # Real-time
    /// Allocates; takes the lock of each stream for a section that is linear in its depth.
    pub fn history(&self) -> Option<HistoryStatus> {
        let history = self.core.kernel.history()?;
        Some(history.status(self.core.kernel.clock.now_ns()))
    }

    /// Whether its scheduler knows operations by their handles.
    #[cfg(not(loom))]
    pub(crate) fn has_operations(&self) -> bool {
        self.core.scheduler.has_operations()
    }

    /// Counts a remote supplier that did not answer and was removed.
    #[cfg(not(loom))]
    pub(crate) fn lost_supplier(&self) {
        crate::counters::count(&self.core.kernel.totals.suppliers_lost);
    }

    /// Counts a remote push to a proxy without a supplier. Returns the count.
    #[cfg(not(loom))]
    pub(crate) fn unknown_proxy(&self) -> u64 {
        self.core.kernel.totals.unknown_proxies.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1
    }

    /// Runs the most urgent queued push on this thread, if the strategy is [`Strategy::ByHand`].
    /// Returns false if none was queued.
    pub fn step(&self) -> bool {
        self.core.step()
    }

    /// Fires the timers that are due on this thread, for channels without threads of their own.
    /// Returns their number.
    pub fn expire(&self) -> usize {
        self.core.expire()
    }

    /// When the next timer expires, on the channel's clock.
    pub fn next_timeout(&self) -> Option<u64> {
        self.core.timers.next_at()
    }

    /// Disconnects evicted consumers and logs the first losses of suppliers, for channels without
    /// threads of their own. Returns the number of consumers.
    pub fn sweep(&self) -> usize {
        self.core.sweep()
    }

    /// Its number in a federation; 0 is none.
    pub fn id(&self) -> u64 {
        self.core.id
    }
}

impl<M: ModuleSet> Clone for Channel<M> {
    /// Another handle of the same channel.
    fn clone(&self) -> Self {
        Channel { core: self.core.clone() }
    }
}

impl<M: ModuleSet> fmt::Debug for Channel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("id", &self.core.id).finish_non_exhaustive()
    }
}

/// A consumer's state, for tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerStatus {
    /// Its number in the trace.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where it is; empty for a consumer in the process.
    pub address: String,
    /// What it asked for, in words: its registrations, separated by semicolons, and its condition
    /// on the payload.
    pub filter: String,
    /// It forwards to another channel.
    pub gateway: bool,
    /// Its priority.
    pub priority: isorb_rt::priority::Priority,
    /// The level at which it is served.
    pub level: u8,
    /// Its delivery is suspended.
    pub suspended: bool,
    /// It has a dispatcher of its own, as gateways and remote consumers do. Its level does not tell
    /// the priority of that dispatcher's threads.
    pub own_dispatch: bool,
    /// The processor that its scheduler assigned it to
    /// ([`ChannelBuilder::processors`](crate::ChannelBuilder::processors)).
    pub processor: Option<Cpus>,
    /// How many pushes wait for it.
    pub waiting: usize,
    /// The capacity of its queue.
    pub queue: usize,
    /// From an event's arrival to its return, if declared.
    pub deadline: Option<Duration>,
    /// Its counts so far.
    pub counts: Counts,
}
