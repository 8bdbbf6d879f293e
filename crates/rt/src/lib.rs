//! Placeholder while the crate is written.
#[cfg(feature = "alloc-count")]
pub mod alloc_count;
pub mod net;
pub mod pool;
pub mod priority;
pub mod queue;
pub mod sched;
pub mod sync;
#[cfg(all(test, not(loom)))]
mod testing;
pub mod time;
pub mod timers;

pub use rustix::io::Errno;
