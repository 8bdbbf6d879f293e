//! The state of a whole ORB for Real-Time CORBA: settings, priorities of threads, budgets of
//! operations, named mutexes, and socket options. Nothing here knows objects or requests.

mod budget;
mod config;
mod mutex;
pub mod policy;
mod priorities;
mod socket;
pub(crate) mod thread;
mod watchdog;

pub use budget::{Budget, BudgetStatus, Overrun, OverrunObserver};
#[cfg(feature = "config-file")]
pub(crate) use config::by_name;
pub use config::{HeapFree, LocalCalls, LockMemory, Mapping, RealTimeClass, RealTimeConfig, UpcallMemory};
pub use mutex::{Mutex, MutexNotFound};
pub use priorities::PriorityTransform;
pub use thread::ThreadpoolId;
pub use watchdog::WatchdogOptions;

pub(crate) use priorities::{Priorities, checked, unmappable};
pub(crate) use socket::{Setup, mark, prepare, prepare_listener};
pub(crate) use thread::PriorityGuard;

use budget::Budgets;
use mutex::Mutexes;
use watchdog::Watchdog;

/// The operation by which a client announces the band of a connection (RT-CORBA 1.2,
/// priority-banded connections).
pub(crate) const BIND_PRIORITY_BAND: &str = "_bind_priority_band";

/// The scheduling state of an ORB.
pub(crate) struct State {
    pub priorities: Priorities,
    pub mutexes: Mutexes,
    pub budgets: Budgets,
    pub watchdog: Watchdog,
}

impl State {
    pub fn new(config: &RealTimeConfig) -> State {
        State {
            priorities: Priorities::new(config),
            mutexes: Mutexes::default(),
            budgets: Budgets::new(),
            watchdog: Watchdog::default(),
        }
    }
}
