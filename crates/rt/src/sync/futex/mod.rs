//! The two kinds of futex this crate sleeps on: a plain word and a priority-inheritance lock word.
//!
//! The kernel's half of each protocol is behind the methods here, so that the user-space half can
//! be run under loom with [`model`](self) in the kernel's place. All futexes are private to the
//! process.

#[cfg(not(loom))]
mod kernel;
#[cfg(not(loom))]
mod lock_pi;
#[cfg(loom)]
mod model;

#[cfg(not(loom))]
pub(crate) use kernel::{LockWord, Word, thread_id};
#[cfg(loom)]
pub(crate) use model::{LockWord, Word, thread_id};

/// The bits of a lock word that hold the owner's thread id (the kernel's ABI, futex(2)).
pub(crate) const OWNER: u32 = 0x3fff_ffff;
/// The bit of a lock word that is set while threads wait in the kernel.
#[cfg(loom)]
pub(crate) const WAITERS: u32 = 0x8000_0000;
