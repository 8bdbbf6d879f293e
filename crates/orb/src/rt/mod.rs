//! Real-Time CORBA: priorities from the client's thread to the servant and back.
//!
//! ```text
//!   client thread ─ RtCurrent ─► effective policies ─► band ─► connection ═► lane ─► upcall at the request's priority
//! ```
//!
//! [`RtOrb`] makes thread pools and mutexes and maps priorities. [`policy`] has the six policies, which a POA is made with and a client
//! [overrides](Overrides). What holds for a reference is worked out once for each set of overrides and then looked up (`plan`).

mod adapter;
mod binding;
mod budget;
mod config;
mod current;
#[cfg(feature = "dynamic-scheduling")]
pub mod dynamic;
mod mutex;
mod overrides;
mod plan;
pub mod policy;
pub(crate) mod pool;
mod priorities;
mod reference;
mod rt_orb;
mod socket;
pub(crate) mod thread;
mod urgency;
mod watchdog;

pub use budget::{Budget, BudgetStatus, Overrun, OverrunObserver};
pub use config::{LockMemory, Mapping, RealTimeClass, RealTimeConfig, UpcallMemory};
pub use current::RtCurrent;
pub use isorb_rt::priority::{
    ClassSelectors, Continuous, Direct, Linear, NetworkPriority, NetworkPriorityMapping, Priority,
    PriorityMapping, Unmarked,
};
pub use isorb_rt::sched::{Cpus, NativeRange, RealTime, Reservation, SchedClass};
pub use mutex::{Mutex, MutexNotFound};
pub use overrides::{Overrides, set_thread_overrides, thread_overrides};
pub use pool::{
    DestroyError, InvalidThreadpool, LaneStatus, RequestBuffering, ThreadpoolId, ThreadpoolLane,
    ThreadpoolOptions,
};
pub use priorities::PriorityTransform;
pub use rt_orb::RtOrb;
pub use watchdog::WatchdogOptions;

pub(crate) use adapter::{Adapter, Unfit};
#[cfg(feature = "miop")]
pub(crate) use binding::group_priority;
pub(crate) use binding::{ClientState, Way, local_priority};
pub(crate) use plan::{Plans, Setup};
pub(crate) use pool::ThreadPlan;
pub(crate) use reference::Facts;
pub(crate) use rt_orb::State;
pub(crate) use socket::{mark, prepare};
pub(crate) use thread::Raised;
pub(crate) use urgency::Urgency;

/// The operation by which a client says which band a connection is for (RT-CORBA 1.2, clause 5.13.2).
pub(crate) const BIND_PRIORITY_BAND: &str = "_bind_priority_band";
