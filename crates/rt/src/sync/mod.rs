//! Locks and waits that a real-time thread may use.
//!
//! | type | for |
//! |---|---|
//! | [`PiMutex`], [`PiCondvar`] | exclusion and conditions; the holder runs at the priority of its most urgent waiter |
//! | [`CeilingMutex`] | exclusion with a ceiling that was computed off line |
//! | [`EventCount`] | conditions with a notifier that locks the mutex often |
//! | [`PiOnceLock`] | a value that is made on first use |
//! | [`PiLatch`] | an event that a known thread brings about; it runs at the priority of the most urgent waiter |
//! | [`Parker`] | one thread that waits for one event |
//! | [`Waiters`] | threads that wait while one of them works for all, at the priority of the most urgent |
//! | [`Turn`] | work that one thread at a time does for all, without waiting |
//! | [`ExclusiveSlot`] | a value behind a handle: one user at a time, without waiting, until the handle expires |
//! | [`AtomicEnum`] | the state of a state machine |
//! | [`Snapshot`] | values that are read all the time and seldom replaced |
//!
//! With the locks of std and parking_lot, which do not inherit, an urgent thread waits as long as
//! threads of middle priority keep the less urgent holder from running.
//!
//! [`atomic`], [`cell`] and [`thread`] are the facade of everything that is built on atomics here:
//! the real types in a build, loom's types with `--cfg loom`, which runs the same code in every
//! interleaving.

mod atomic_enum;
mod ceiling;
mod event_count;
mod exclusive_slot;
pub mod facade;
pub(crate) mod futex;
mod parker;
mod pi_condvar;
mod pi_latch;
mod pi_lock;
mod pi_mutex;
mod pi_once;
mod snapshot;
mod turn;
mod waiters;

pub use atomic_enum::{AtomicEnum, AtomicState};
pub use ceiling::{CeilingError, CeilingGuard, CeilingMutex};
pub use event_count::EventCount;
pub use exclusive_slot::{ExclusiveSlot, SlotError, SlotGuard};
pub use facade::{atomic, cell, thread};
pub use parker::Parker;
pub use pi_condvar::PiCondvar;
pub use pi_latch::PiLatch;
pub use pi_lock::{LockError, NotOwner, PiLock};
pub use pi_mutex::{PiGuard, PiMutex};
pub use pi_once::PiOnceLock;
pub use snapshot::{Busy, Snapshot, SnapshotGuard};
pub use turn::Turn;
pub use waiters::{Announced, Waiters};

#[cfg(all(test, loom))]
mod loom_tests;
