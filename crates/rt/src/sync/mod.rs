//! Locks and waits that a real-time thread may use.
//!
//! [`PiMutex`] and [`PiCondvar`] lend the waiting thread's priority to whoever holds the lock, which neither std's
//! nor parking_lot's do: with those, a high thread waits for as long as middling threads keep the low holder from
//! running. [`CeilingMutex`] raises the holder beforehand, to a ceiling that was computed off line. [`Parker`] is for the plain case of one thread that waits for one event, [`Turn`] for work that one thread does
//! for all and nobody waits for, [`Snapshot`] for what is read all the time and replaced now and then.
//!
//! [`atomic`], [`cell`] and [`thread`] are the facade that everything built on atomics here goes through: the real
//! things in a build, loom's in a build with `--cfg loom`, which runs the same code in every interleaving.

mod ceiling;
mod event_count;
pub mod facade;
pub(crate) mod futex;
mod parker;
mod pi_condvar;
mod pi_lock;
mod pi_mutex;
mod snapshot;
mod turn;
mod waiters;

pub use ceiling::{CeilingError, CeilingGuard, CeilingMutex};
pub use event_count::EventCount;
pub use facade::{atomic, cell, thread};
pub use parker::Parker;
pub use pi_condvar::PiCondvar;
pub use pi_lock::{LockError, NotOwner, PiLock};
pub use pi_mutex::{PiGuard, PiMutex};
pub use snapshot::{Busy, Snapshot, SnapshotGuard};
pub use turn::Turn;
pub use waiters::{Announced, Waiters};

#[cfg(all(test, loom))]
mod loom_tests;
