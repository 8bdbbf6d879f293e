//! The operating system as real-time code needs it: native priorities, locks that do not invert
//! them, deadlines, and sockets that cost one system call a use. It is not a portability layer: its
//! terms are those of Linux, and the rest of the project calls the system through it only.
//!
//! ```text
//!   what a process may do        what its threads wait on            what they wait with
//!   sched  RealTime, ThreadSpec  sync    PiMutex, PiCondvar, Parker   time    Deadline, now_ns
//!          SchedClass, Cpus      queue   PriorityQueue (never waits)  timers  TimerHeap
//!   priority  Priority,          net     Poller, send, recv_into      log     records for operators
//!             PriorityMapping    pool    IndexPool (never waits)
//! ```
//!
//! Three rules hold in all of it:
//! - **Nothing allocates after set-up.** Each constructor takes the memory it will ever need. Each
//!   item that may stand on the path of a request says under *Real-time* whether it blocks, on
//!   what, and what bounds it. The feature `alloc-count` has the allocator with which the tests of
//!   this crate and of the crates above prove it.
//! - **Every wait ends.** Waits take a [`time::Deadline`], a point on the monotonic clock that the
//!   caller hands down unchanged to the socket. `Deadline::NONE` waits without a limit.
//! - **No thread waits for a less urgent one that does not run**, unless the less urgent one runs
//!   at its priority for that time. Locks inherit, and structures without a lock ([`pool`]) leave
//!   no unfinished step that others must wait for.
//!
//! # A real-time thread, from the right to the reply
//!
//! ```
//! use isorb_rt::priority::{Linear, Priority, PriorityMapping};
//! use isorb_rt::queue::PriorityQueue;
//! use isorb_rt::sched::{NativeRange, Need, RealTime, SchedClass, ThreadSpec};
//! use isorb_rt::sync::{PiCondvar, PiMutex};
//! use isorb_rt::time::Deadline;
//! use std::{cmp::Reverse, sync::Arc, time::Duration};
//!
//! // Which native priority is CORBA priority 20000 on this machine?
//! let mapping = Linear(NativeRange::system());
//! let native = mapping.to_native(Priority::new(20_000).unwrap()).unwrap();
//!
//! // Has the process the right to it? `Require` would refuse to start without.
//! let granted = RealTime::Prefer.resolve(Need { native_priority: native, lock_memory: None })?;
//! for missing in granted.missing() {
//!     isorb_rt::log::warn("sensors", format_args!("{missing}"));
//! }
//!
//! // A worker that takes the most urgent request first, with its stack in memory before the first.
//! let shared = Arc::new((PiMutex::new(PriorityQueue::with_capacity(16)), PiCondvar::new()));
//! let (requests, filled) = &*shared;
//! let queue = shared.clone();
//! let worker = ThreadSpec::new("lane-20000")
//!     .class(granted.class(SchedClass::Fifo(native)))
//!     .prefault(128 * 1024)
//!     .spawn(move || {
//!         let (requests, filled) = &*queue;
//!         let mut requests = requests.lock();
//!         filled.wait_while(&mut requests, Deadline::after(Duration::from_secs(60)), |r| r.len() < 2);
//!         [requests.pop(), requests.pop()]
//!     })?;
//!
//! for (priority, request) in [(10, "log"), (20_000, "alarm")] {
//!     requests.lock().push(Reverse(priority), request)?;
//!     filled.notify_one(requests);
//! }
//! assert_eq!(worker.join().unwrap(), [Some((Reverse(20_000), "alarm")), Some((Reverse(10), "log"))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors of the system
//!
//! Calls that pass on the kernel's error return its number, an [`Errno`]. Where the cause matters
//! to the caller there is an enum of causes ([`sync::LockError`], [`sched::SchedError`],
//! [`sched::SpawnError`]). All of them are `Copy` and hold no heap memory; text is made only when
//! they are displayed.
//!
//! # How it is tested
//!
//! - The user-space half of each lock, and the pool, run in all interleavings under loom
//!   (`RUSTFLAGS="--cfg loom" cargo test -p isorb-rt --release --lib loom`). A model of the
//!   kernel's futex queues takes the kernel's place.
//! - The priority queue and the timers run against a sorted map on random actions.
//! - Priority inheritance is shown on one processor against std's lock, which must fail.
//!
//! A test that needs a right which the process lacks prints that it is skipped.

#[cfg(not(target_os = "linux"))]
compile_error!("isorb-rt needs the Linux kernel: futexes with priority inheritance, epoll, sched_setattr");

#[cfg(feature = "alloc-count")]
pub mod alloc_count;
pub mod clock_sync;
pub mod common_clock;
pub mod counted;
pub mod histogram;
pub mod log;
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

/// A random number of the kernel (`getrandom`).
///
/// # Panics
/// If the kernel has no random numbers (before Linux 3.17).
///
/// # Real-time
/// One system call. It blocks only early in the boot, before the kernel has gathered entropy.
pub fn random_u64() -> u64 {
    let mut octets = [0; 8];
    loop {
        match rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => return u64::from_ne_bytes(octets),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("no random numbers from the kernel: {error}"),
        }
    }
}
