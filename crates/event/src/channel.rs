//! The channel.

use crate::admin::{ConsumerAdmin, SupplierAdmin};
use crate::config::Config;
use crate::core::Core;
use crate::counters::{Counts, Totals};
use crate::dispatch::{Direct, Dispatch, Queued, Redispatch, Strategy};
use crate::error::{ConnectError, OtherPreemption, StartError, SwapError};
use crate::latency::Latencies;
use crate::modules::{Configuration, ModuleSet, Pipeline, Replaceable};
use crate::observer::Observer;
use crate::placement::RunTimeScheduler;
use isorb_rt::priority::Priority;
use isorb_rt::sched::SpawnError;
use isorb_rt::time::Deadline;
use isorb_sched::Preemption;
use isorb_trace::{Participant, Recorder, Recording, Role};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An event channel: takes events from suppliers, finds out who wants them, and brings them there in order of urgency.
///
/// `R` says how it comes by its modules: [`Replaceable`] ones, or [`Fixed`](crate::Fixed) by type. Clones are handles of one
/// channel; it ends with [`destroy`](Channel::destroy), or with its last handle, supplier and consumer.
pub struct Channel<M: ModuleSet = Replaceable> {
    core: Arc<Core<M>>,
}

impl Channel {
    /// A channel whose modules can be replaced.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn new(config: Config) -> Result<Channel, StartError> {
        let (configuration, strategy, setup) =
            (config.configuration, config.strategy, config.threads.clone());
        let count = config.levels.len();
        // Before anything of it is there.
        agree(&*config.scheduler, dispatched(configuration, strategy).preemption())?;
        let core = Core::start(config, Replaceable::default())?;
        let channel = Channel { core };
        let pipeline = channel.pipeline(configuration, strategy, &setup)?;
        channel.core.install(pipeline, Deadline::NONE).map_err(|_| StartError::Levels { count })?;
        Ok(channel)
    }

    /// Puts other modules in the place of those that events pass now. Events that have entered pass the old ones to the end, later
    /// ones the new ones; what waits in queues is served by the new dispatcher. For each consumer, what one supplier pushed
    /// stays in order, and nothing is lost or doubled.
    ///
    /// Waits until no event is under way in the old modules and their threads have ended; after `within` it returns
    /// [`SwapError::Unfinished`], which is true of nothing but the waiting: the new modules are in place. A consumer may call it
    /// too, and will then see just that.
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

    /// As [`reconfigure`](Self::reconfigure), with a dispatcher of the caller's.
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

    /// What it is configured as.
    pub fn configuration(&self) -> Configuration {
        self.core.view.read().pipeline.configuration
    }

    fn pipeline(
        &self,
        configuration: Configuration,
        strategy: Strategy,
        setup: &crate::dispatch::ThreadSetup,
    ) -> Result<Pipeline, SpawnError> {
        let route: Weak<dyn Redispatch> = Arc::downgrade(&(self.core.clone() as Arc<dyn Redispatch>));
        let queued =
            Queued::start(dispatched(configuration, strategy), &self.core.kernel.levels, setup, route)?;
        let dispatch: Arc<dyn Dispatch> = match queued {
            Some(queued) => Arc::new(queued),
            None => Arc::new(Direct),
        };
        Ok(Pipeline { configuration, dispatch })
    }
}

/// What becomes of a strategy in this configuration.
fn dispatched(configuration: Configuration, strategy: Strategy) -> Strategy {
    if configuration.is_direct() { Strategy::Direct } else { strategy }
}

/// Whether the scheduler's promises are for a dispatching that hands the processor over in this way.
fn agree(scheduler: &dyn RunTimeScheduler, dispatching: Option<Preemption>) -> Result<(), OtherPreemption> {
    match scheduler.preemption() {
        Some(promised) if Some(promised) != dispatching => Err(OtherPreemption { promised, dispatching }),
        _ => Ok(()),
    }
}

impl<M: ModuleSet> Channel<M> {
    /// A channel with modules that are chosen by type; `config.configuration` and `config.strategy` do not matter.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn fixed(config: Config, modules: M) -> Result<Channel<M>, StartError> {
        let core = Core::start(config, modules)?;
        agree(&*core.scheduler, core.preemption())?;
        Ok(Channel { core })
    }

    /// The levels of priority at which consumers are served, the least urgent first.
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

    /// Disconnects everybody, ends the channel's threads. Pushes after this reach nobody.
    pub fn destroy(&self) {
        self.core.destroy();
    }

    /// Calls `observer` with what consumers want, now and after each change, until the result is given to
    /// [`remove_observer`](Self::remove_observer).
    ///
    /// # Errors
    /// [`ConnectError::TooManyObservers`], or [`Destroyed`](ConnectError::Destroyed).
    pub fn append_observer(&self, observer: Arc<dyn Observer>) -> Result<u32, ConnectError> {
        self.core.append_observer(observer)
    }

    /// Says whether there was such an observer.
    pub fn remove_observer(&self, handle: u32) -> bool {
        self.core.remove_observer(handle)
    }

    /// The recorder of this channel's trace.
    pub fn recorder(&self) -> &Recorder {
        &self.core.kernel.recorder
    }

    /// A copy of the trace so far, with names. The channel knows the names of connected consumers; those of
    /// suppliers are given with their proxies' numbers.
    pub fn recording(&self, name: impl Into<String>, suppliers: &[(u32, &str)]) -> Recording {
        let participant = |role, id, name: &str| Participant { role, id, name: name.to_owned() };
        let mut participants: Vec<Participant> =
            suppliers.iter().map(|(id, name)| participant(Role::Supplier, *id, name)).collect();
        let consumers = self.consumers();
        participants.extend(consumers.iter().map(|c| participant(Role::Consumer, c.id, &c.name)));
        let recorder = self.recorder();
        Recording { name: name.into(), lost: recorder.lost(), participants, tracks: recorder.snapshot() }
    }

    /// What the consumers are and what happened to them, for tools.
    pub fn consumers(&self) -> Vec<ConsumerStatus> {
        self.core.registry.lock().status()
    }

    /// The times of these consumers, by the numbers that [`consumers`](Self::consumers) has; `None` where there is no such consumer, or the
    /// channel was made without [`Config::latencies`](crate::Config::latencies).
    ///
    /// # Real-time
    /// Allocates, and holds up nobody but who connects or leaves; disturbs no event.
    pub fn latencies(&self, consumers: &[u32]) -> Vec<Option<Latencies>> {
        self.core.registry.lock().latencies(consumers)
    }

    /// How many table look-ups an event costs at this moment.
    pub fn lookups(&self) -> usize {
        self.core.view.read().tables.classes()
    }

    /// Copies of events that are free, of those that [`Limits::events`](crate::Limits::events) says.
    pub fn free_copies(&self) -> usize {
        self.core.kernel.events.available()
    }

    /// What happened in the channel that no single consumer's counts say.
    pub fn totals(&self) -> Totals {
        self.core.kernel.totals.read()
    }

    /// A supplier at the other end of a network was removed.
    #[cfg(not(loom))]
    pub(crate) fn lost_supplier(&self) {
        crate::counters::count(&self.core.kernel.totals.suppliers_lost);
    }

    /// Serves the most urgent push that waits, on this thread, if the dispatching is driven by hand. Says whether there was one.
    pub fn step(&self) -> bool {
        self.core.step()
    }

    /// Fires the time-outs that are due, on this thread. For channels without threads of their own. Says how many there were.
    pub fn expire(&self) -> usize {
        self.core.expire()
    }

    /// When the next time-out falls due, on the channel's clock.
    pub fn next_timeout(&self) -> Option<u64> {
        self.core.timers.next_at()
    }

    /// Disconnects the consumers that have forfeited their connection. For channels without threads of their own.
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

/// A consumer as a tool sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerStatus {
    /// Its number, which the trace uses.
    pub id: u32,
    /// The name that it connected under.
    pub name: String,
    /// Its priority.
    pub priority: isorb_rt::priority::Priority,
    /// The level where it is served.
    pub level: u8,
    /// Is it suspended?
    pub suspended: bool,
    /// Has it brought a dispatcher of its own, as gateways and remote consumers have? Its level says nothing of that one's threads.
    pub own_dispatch: bool,
    /// How many pushes wait for it.
    pub waiting: usize,
    /// How many may.
    pub queue: usize,
    /// From an event's arrival to its return, where it has a deadline.
    pub deadline: Option<Duration>,
    /// What happened so far.
    pub counts: Counts,
}
