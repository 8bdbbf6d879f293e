//! How a channel is made.

use crate::clock::{Clock, Monotonic};
use crate::dispatch::{Strategy, ThreadSetup};
use crate::modules::Configuration;
use crate::placement::{AsDeclared, RunTimeScheduler};
use crate::supplier::Undeclared;
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a channel can hold at most. All of it is set up front; nothing grows with the flow of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Consumers connected at once. One more is refused.
    pub consumers: usize,
    /// Suppliers connected at once. One more is refused.
    pub suppliers: usize,
    /// Observers at once, those elsewhere among them. One more is refused.
    pub observers: usize,
    /// Copies of events that wait in queues and conjunctions. Without a free one the consumer's overflow policy holds.
    pub events: usize,
    /// The octets of data that a copy can have (payload and any together). An event with more reaches the consumers that need no copy,
    /// which are those without a queue; for the others it is lost, counted ([`Counts::too_large`](crate::Counts::too_large)) and the
    /// supplier told ([`Pushed::too_large`](crate::Pushed::too_large)). All copies have this size: the pool takes `events` times as much.
    pub payload: usize,
    /// Pushes of several events that wait in queues.
    pub sets: usize,
    /// Different masks in filters; each costs an event one look-up. Sources, types and both count as one each.
    pub masks: usize,
    /// In how many parts a table is kept, of which a change copies one: about the root of the subscriptions that are expected.
    pub parts: usize,
    /// Timers set at once, for each level of priority. A consumer whose timers do not fit is refused.
    pub timers: usize,
    /// Threads that may write to the trace.
    pub trace_threads: usize,
    /// Records that are kept for each of them.
    pub trace_records: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            consumers: 1024,
            suppliers: 1024,
            observers: 64,
            events: 1024,
            payload: 1024,
            sets: 128,
            masks: 16,
            parts: 64,
            timers: 256,
            trace_threads: 32,
            trace_records: 4096,
        }
    }
}

/// A channel to be.
#[derive(Clone)]
pub struct Config {
    /// What it can hold.
    pub limits: Limits,
    /// The levels of priority at which consumers are served, the least urgent first; at most 64. A consumer is served at the
    /// most urgent level that is not above its own priority.
    pub levels: Vec<Priority>,
    /// Which modules it begins with.
    pub configuration: Configuration,
    /// How it dispatches at first.
    pub strategy: Strategy,
    /// What its threads are.
    pub threads: ThreadSetup,
    /// Whether timers are driven by a thread for each level that has any, and departing consumers cleared up by one; if not,
    /// somebody calls [`Channel::expire`](crate::Channel::expire) and [`Channel::sweep`](crate::Channel::sweep).
    pub own_threads: bool,
    /// How long a supplier waits for room in a queue that blocks.
    pub block: Duration,
    /// Whether the trace records from the start.
    pub trace: bool,
    /// Whether each consumer has histograms of its times (1 KiB each), which count while the trace is on. See
    /// [`Channel::latencies`](crate::Channel::latencies).
    pub latencies: bool,
    /// Whether pushes are counted by consumer. Losses and failures always are.
    pub counting: bool,
    /// What becomes of events that their supplier has not declared (see [`SupplierQos`](crate::SupplierQos)).
    pub undeclared: Undeclared,
    /// Its number in a federation: unique there, and not 0, which is none.
    pub id: u64,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Who admits consumers and gives them priorities.
    pub scheduler: Arc<dyn RunTimeScheduler>,
}

impl Default for Config {
    /// A full channel without dispatching: four levels, ordinary threads, the trace off.
    fn default() -> Self {
        let levels = [0, 8_192, 16_384, 24_576].into_iter().filter_map(Priority::new).collect();
        Config {
            limits: Limits::default(),
            levels,
            configuration: Configuration::Full,
            strategy: Strategy::Direct,
            threads: ThreadSetup::default(),
            own_threads: true,
            block: Duration::from_millis(100),
            trace: false,
            latencies: false,
            counting: true,
            undeclared: Undeclared::default(),
            id: 0,
            clock: Arc::new(Monotonic),
            scheduler: Arc::new(AsDeclared),
        }
    }
}

impl Config {
    /// The default configuration with this dispatching.
    pub fn with(strategy: Strategy) -> Config {
        Config { strategy, ..Config::default() }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("configuration", &self.configuration)
            .field("strategy", &self.strategy)
            .field("levels", &self.levels.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
