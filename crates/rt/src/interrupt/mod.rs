//! Ending another thread's blocking system call, and no other one of its.
//!
//! A receive with a time limit of its own costs the kernel a timer each time. Where one thread keeps the time for many, it must get
//! them out of a call that has no limit, and for sockets Linux has one way: a signal, whose handler does nothing and does not have the
//! call restarted, so that it returns `EINTR`. What makes that harmless to the rest of a program is here:
//!
//! - **The signal is nobody's**: a real-time one that had no handler ([`Signal`]).
//! - **No other call of the thread is interrupted** ([`InterruptibleWait`]). A thread says when it begins to wait and when it has ended; who
//!   interrupts it takes that statement first, sends, and gives it back; and a thread that finds it taken, or that it was sent a signal,
//!   sees to it that the signal has been delivered before it goes on.
//!
//! ```text
//!   waiting thread                        interrupter, when the time has come
//!   wait := until                         lock
//!   recv ..........  ◄── signal ───       wait: until ─► INTERRUPTING, if it is still that
//!   was := wait, wait := AWAKE            send the signal
//!   INTERRUPTING or SIGNALLED?            wait: INTERRUPTING ─► until + SIGNALLED
//!       lock, unlock; take the signal     unlock
//! ```
//!
//! The lock lends its holder the priority of who waits, so that nobody waits longer than for one system call of the other. A signal that
//! comes before the call has begun to block ends nothing; it is the interrupter's to try again.

mod signal;
mod wait;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use signal::{Choice, ChoiceError, Signal};
pub use wait::{Interrupter, InterruptibleWait, Reach};
