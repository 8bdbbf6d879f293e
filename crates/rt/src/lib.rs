//! The operating system as real-time code needs it: native priorities, locks that do not invert them, deadlines, and
//! sockets that cost one system call a use. It is not a portability layer: it says what Linux does, and the rest of
//! the project calls the system through it only.
//!
//! ```text
//!   what a process may do        what its threads wait on           what they wait with
//!   sched  RealTime, ThreadSpec  sync    PiMutex, PiCondvar, Parker  time    Deadline, now_ns
//!          SchedClass, Cpus      queue   BandQueue                   timers  TimerHeap
//!   priority  Priority,          net     Poller, send, recv_into
//!             PriorityMapping    pool    IndexPool (never waits)      interrupt  Interrupter
//! ```
//!
//! Three rules run through all of it:
//! - **Nothing allocates after set-up.** Each constructor takes the memory it will ever need; each item that may stand
//!   on the path of a request says under *Real-time* whether it blocks, on what, and what bounds it. The feature
//!   `alloc-count` brings the allocator with which this crate's tests, and those of the crates above, prove it.
//! - **Every wait ends.** Waits take a [`time::Deadline`], a point on the monotonic clock that is handed down unchanged
//!   from the caller to the socket. `Deadline::NONE` is there for those who mean it.
//! - **No thread waits for a less urgent one that is not running**, unless the less urgent one runs at its priority for
//!   that time: locks inherit, and what has no lock ([`pool`]) leaves no half-done step that others must wait for.
//!
//! # A real-time thread, from the right to the reply
//!
//! ```
//! use isorb_rt::priority::{Linear, Priority, PriorityMapping};
//! use isorb_rt::queue::{BandQueue, Overflow};
//! use isorb_rt::sched::{NativeRange, Need, RealTime, SchedClass, ThreadSpec};
//! use isorb_rt::time::Deadline;
//! use std::{sync::Arc, time::Duration};
//!
//! // Which native priority is CORBA priority 20000 on this machine?
//! let mapping = Linear(NativeRange::system());
//! let native = mapping.to_native(Priority::new(20_000).unwrap()).unwrap();
//!
//! // May we? Under `Require` this would refuse to start where we may not.
//! let granted = RealTime::Prefer.resolve(Need { native_priority: native, lock_memory: None })?;
//! for missing in granted.missing() {
//!     eprintln!("warning: {missing}");
//! }
//!
//! // A worker that takes the most urgent request first, with its stack in memory before the first.
//! let requests = Arc::new(BandQueue::new(&[16, 4], Overflow::Block));
//! let queue = requests.clone();
//! let worker = ThreadSpec::new("lane-20000")
//!     .class(granted.class(SchedClass::Fifo(native)))
//!     .prefault(128 * 1024)
//!     .spawn(move || {
//!         let mut served = 0;
//!         while let Ok((_band, request)) = queue.pop(Deadline::NONE) {
//!             served += request;
//!         }
//!         served
//!     })?;
//!
//! requests.push(1, 40, Deadline::after(Duration::from_millis(100)))?;
//! requests.push(0, 2, Deadline::after(Duration::from_millis(100)))?;
//! requests.close();
//! assert_eq!(worker.join().unwrap(), 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors of the system
//!
//! Calls that hand on what the kernel said return its number, an [`Errno`]; where the cause matters to the caller
//! there is an enum of causes ([`sync::LockError`], [`sched::SchedError`], [`sched::SpawnError`]). All of them are
//! `Copy` and hold no heap; text is made only when they are displayed.
//!
//! # How it is tested
//!
//! Beside the ordinary tests: the user-space half of each lock, and the pool, run in all interleavings under loom
//! (`RUSTFLAGS="--cfg loom" cargo test -p isorb-rt --release --lib loom`), with a model of the kernel's futex queues
//! in the kernel's place; the timers run against a sorted map on random steps; priority inheritance is shown on one
//! processor against std's lock, which must fail. What needs a right that the process lacks prints that it is skipped.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "isorb-rt speaks to the Linux kernel: futexes with priority inheritance, epoll, sched_setattr"
);

#[cfg(feature = "alloc-count")]
pub mod alloc_count;
pub mod counted;
pub mod crew;
pub mod interrupt;
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
