//! Placeholder while the crate is written.
pub mod net;
pub mod priority;
pub mod sched;
pub mod sync;
#[cfg(all(test, not(loom)))]
mod testing;
pub mod time;

pub use rustix::io::Errno;
