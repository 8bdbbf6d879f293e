//! How a channel is configured and made.

use crate::channel::Channel;
use crate::clock::{Clock, Monotonic};
use crate::dispatch::{Strategy, ThreadSetup};
use crate::error::StartError;
use crate::event::SizeClass;
use crate::modules::{Configuration, ModuleSet};
use crate::placement::{AsDeclared, RunTimeScheduler};
use crate::retention::{HistoryQos, Lifespan};
use crate::supplier::Undeclared;
use isorb_rt::priority::Priority;
use isorb_rt::sched::Cpus;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The capacities of a channel. All memory is allocated when the channel is made; events allocate
/// none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most consumers.
    pub consumers: usize,
    /// The most suppliers.
    pub suppliers: usize,
    /// The most observers, remote ones included.
    pub observers: usize,
    /// Copies of queued events and of events held by conjunctions. Without a free copy the
    /// consumer's overflow policy applies.
    pub events: usize,
    /// The most octets of such a copy (payload and any together). The pool takes `events` times as
    /// much.
    pub payload: usize,
    /// Copies of events with more data than `payload`, in any order. An event takes a copy of the
    /// smallest size that holds it. Unused entries are zero.
    ///
    /// An event that is larger than all of them reaches the consumers without a queue. For others
    /// it is lost, counted ([`Counts::too_large`](crate::Counts::too_large)) and reported to the
    /// supplier ([`Pushed::too_large`](crate::Pushed::too_large)).
    pub larger: [SizeClass; 3],
    /// Queued pushes of several events.
    pub sets: usize,
    /// Different masks in filters; each costs an event one look-up. Sources, types, and both
    /// together count as one each.
    pub masks: usize,
    /// The parts of a table, of which a change copies one. About the root of the expected number of
    /// subscriptions.
    pub parts: usize,
    /// Timers for each priority level. A consumer that needs more is refused.
    pub timers: usize,
    /// About how many instances (types and sources) have an owner, and for each consumer with an
    /// [`instance_period`](crate::Quality::instance_period) a deadline.
    pub instances: usize,
    /// Threads that may write to the trace.
    pub trace_threads: usize,
    /// Records of each of them.
    pub trace_records: usize,
}

impl Limits {
    /// The sizes of copies, the smallest first.
    pub(crate) fn size_classes(&self) -> Vec<SizeClass> {
        let mut larger: Vec<SizeClass> = self.larger.to_vec();
        larger.retain(|class| class.payload > self.payload && class.events > 0);
        larger.sort_unstable();
        let mut classes = vec![SizeClass { payload: self.payload, events: self.events }];
        classes.append(&mut larger);
        classes
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            consumers: 1024,
            suppliers: 1024,
            observers: 64,
            events: 1024,
            payload: 1024,
            larger: [
                SizeClass { payload: 8 << 10, events: 128 },
                SizeClass { payload: 64 << 10, events: 16 },
                SizeClass::default(),
            ],
            sets: 128,
            masks: 16,
            parts: 64,
            timers: 256,
            instances: 256,
            trace_threads: 32,
            trace_records: 4096,
        }
    }
}

/// The fields of a [`ChannelBuilder`]: the documentation of its method, the type, the default.
macro_rules! channel_builder {
    ($($(#[$doc:meta])+ $field:ident: $type:ty = $default:expr;)+) => {
        /// Configures a channel and makes it. See [`Channel::builder`].
        #[derive(Clone)]
        #[must_use = "a channel is made by `build`"]
        pub struct ChannelBuilder {
            $(pub(crate) $field: $type),+
        }

        impl Default for ChannelBuilder {
            fn default() -> Self {
                ChannelBuilder { $($field: $default),+ }
            }
        }

        impl ChannelBuilder {
            $($(#[$doc])+
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })+
        }
    };
}

channel_builder! {
    /// Its capacities.
    limits: Limits = Limits::default();
    /// The priority levels at which consumers are served, the least urgent first; at most 64. A
    /// consumer is served at the most urgent level that is not above its own priority.
    levels: Vec<Priority> = ChannelBuilder::default_levels();
    /// Its modules at first.
    configuration: Configuration = Configuration::Full;
    /// Its dispatching strategy at first.
    strategy: Strategy = Strategy::Direct;
    /// The scheduling class, processors and stacks of its threads.
    threads: ThreadSetup = ThreadSetup::default();
    /// Processors that the [`scheduler`](Self::scheduler) assigns consumers to
    /// ([`ScheduledProcessors`](crate::ScheduledProcessors), or
    /// `RegisteredOperations::of_file_on`), by number: each has a thread for each
    /// level, which is bound to it and dispatches its consumers. None by default.
    processors: Vec<Cpus> = Vec::new();
    /// Whether the channel starts threads for timers (one for each level that has any) and for
    /// evicted consumers. If not, the program calls [`Channel::expire`](crate::Channel::expire) and
    /// [`Channel::sweep`](crate::Channel::sweep).
    own_threads: bool = true;
    /// The longest wait of a supplier for room in a queue with
    /// [`Overflow::Block`](crate::Overflow::Block).
    block: Duration = Duration::from_millis(100);
    /// Whether the trace records from the start.
    trace: bool = false;
    /// Whether each consumer has histograms of its times (1 KiB each), which count while the trace
    /// is on. See [`Channel::latencies`](crate::Channel::latencies).
    latencies: bool = false;
    /// Whether pushes are counted for each consumer. Losses and failures always are.
    counting: bool = true;
    /// The events that it keeps for consumers that connect later; none by default. See
    /// [`ConsumerQos::history`](crate::ConsumerQos::history).
    history: HistoryQos = HistoryQos::default();
    /// For how long events are of use. By default for ever.
    lifespans: Vec<Lifespan> = Vec::new();
    /// What happens to undeclared events (see [`SupplierQos`](crate::SupplierQos)).
    undeclared: Undeclared = Undeclared::default();
    /// Its number in a federation, unique there; 0 for none.
    id: u64 = 0;
    /// Its clock.
    clock: Arc<dyn Clock> = Arc::new(Monotonic);
    /// The scheduler that admits consumers and assigns priorities.
    scheduler: Arc<dyn RunTimeScheduler> = Arc::new(AsDeclared);
}

impl ChannelBuilder {
    /// Four levels, evenly spread.
    pub fn default_levels() -> Vec<Priority> {
        [0, 8_192, 16_384, 24_576].into_iter().filter_map(Priority::new).collect()
    }

    /// Makes a channel with replaceable modules.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn build(self) -> Result<Channel, StartError> {
        Channel::start(self)
    }

    /// Makes a channel with modules that are chosen by type. The configuration and the strategy
    /// are those of the modules.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn build_fixed<M: ModuleSet>(self, modules: M) -> Result<Channel<M>, StartError> {
        Channel::start_fixed(self, modules)
    }
}

impl fmt::Debug for ChannelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelBuilder")
            .field("configuration", &self.configuration)
            .field("strategy", &self.strategy)
            .field("levels", &self.levels.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
