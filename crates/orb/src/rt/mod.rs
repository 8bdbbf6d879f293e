//! Real-Time CORBA: priorities from the client's thread to the servant and back.
//!
//! ```text
//!   client thread ─ RtCurrent ─► policies ─► band ─► connection ═► lane ─► upcall at the priority
//! ```
//!
//! [`RtOrb`] creates thread pools and mutexes and maps priorities. [`policy`] has the six policies,
//! which a POA is created with and a client [overrides](Overrides).

mod client_lane;
mod current;
#[cfg(feature = "dynamic-scheduling")]
pub mod dynamic;
mod rt_orb;

pub use crate::binding::{Overrides, set_thread_overrides, thread_overrides};
pub use crate::pool::{
    DestroyError, InvalidThreadpool, LaneMessages, LaneStatus, RequestBuffering, ThreadpoolId,
    ThreadpoolLane, ThreadpoolOptions,
};
pub use crate::sched::{
    Budget, BudgetStatus, HeapFree, LocalCalls, LockMemory, Mapping, Mutex, MutexNotFound, Overrun,
    OverrunObserver, PriorityTransform, RealTimeClass, RealTimeConfig, UpcallMemory, WatchdogOptions, policy,
};
pub use client_lane::ClientLaneOptions;
pub use current::RtCurrent;
#[cfg(feature = "alloc-count")]
pub use isorb_rt::alloc_count::CountingAllocator;
pub use isorb_rt::priority::{
    ClassSelectors, Continuous, Direct, Linear, NetworkPriority, NetworkPriorityMapping, Priority,
    PriorityMapping, Unmarked,
};
pub use isorb_rt::sched::{Cpus, NativeRange, RealTime, Reservation, SchedClass};
pub use isorb_rt::sync::{PiGuard, PiMutex};
pub use rt_orb::RtOrb;
