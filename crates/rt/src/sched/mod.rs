//! Threads as the scheduler sees them: class and native priority, processors, resident memory, and
//! the rights that all this needs.
//!
//! [`RealTime`] determines once, at start, the rights of the process, and names the missing ones;
//! [`ThreadSpec`] starts a thread that runs its function only once it has what was asked for.

mod address_space;
mod affinity;
mod class;
mod id;
mod memory;
mod rights;
mod supervision;
mod thread;

pub use address_space::ProcessAddressSpace;
pub use affinity::{Cpus, current_cpu, current_cpus, possible_cpus, set_current_cpus};
pub use class::{NativeRange, Reservation, SchedClass, SchedError};
pub use id::ThreadId;
pub use memory::{MemoryLock, lock_memory, lock_range, prefault_stack, unlock_memory};
pub use rights::{Granted, MissingRight, Need, RealTime, Right};
pub use supervision::{OnPanic, PanicCounts, panic_counts};
pub use thread::{SpawnError, Thread, ThreadSpec};
