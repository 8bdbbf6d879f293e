//! Real-Time CORBA: priorities from the client's thread to the servant and back.
//!
//! ```text
//!   client thread ─ RtCurrent ─► effective policies ─► band ─► connection ═► lane ─► upcall at the request's priority
//! ```
//!
//! [`RtOrb`] makes mutexes and maps priorities. [`policy`] has the six policies, which a POA is made with and a client
//! overrides.

mod config;
mod mutex;
pub mod policy;
mod priorities;
mod rt_orb;
// What it has is for the dispatcher and for RTCurrent, which come next.
#[allow(dead_code)]
pub(crate) mod thread;

pub use config::{LockMemory, Mapping, RealTimeClass, RealTimeConfig, UpcallMemory};
pub use isorb_rt::priority::{Continuous, Direct, Linear, Priority, PriorityMapping};
pub use isorb_rt::sched::{Cpus, NativeRange, RealTime};
pub use mutex::{Mutex, MutexNotFound};
pub use priorities::PriorityTransform;
pub use rt_orb::RtOrb;

pub(crate) use rt_orb::State;
