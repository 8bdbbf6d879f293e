//! Scheduling over the ORB: the analysis of [`isorb_sched`] as CORBA services.
//!
//! - [`SchedulerService`]: `RtecScheduler::Scheduler`, the configuration run of the real-time event
//!   service. Suppliers and consumers register operations and what makes them run;
//!   `compute_scheduling` gives each its priorities.
//! - [`ClientScheduler`], [`ServerScheduler`]: the static scheduling service of Real-Time CORBA
//!   (`RTCosScheduling`), which gives priorities to activities and objects by the names that a
//!   schedule file has. They are local interfaces, and so plain Rust here.
//!
//! # Real-time
//! Not for a real-time path: programs look up priorities at start and keep them.
#![forbid(unsafe_code)]

mod compiled;
mod convert;
mod names;
mod service;

/// The generated modules.
#[allow(missing_docs)]
pub mod generated {
    isorb::include_idl!("rtec_scheduler_tao1");
}

pub use compiled::{Compiled, FetchError, NoPromise, Promise};
pub use generated::{rtec_base, rtec_scheduler, rtec_scheduler_tao1};
pub use names::{ClientScheduler, NameError, ServerScheduler};
pub use service::{SchedulerService, Tao1Scheduler};
