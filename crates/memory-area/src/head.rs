//! The head of a segment: what the area is, which value is the latest, and the futex that readers
//! sleep on.

use crate::geometry::{Geometry, HEAD_BYTES};
use core::fmt;
use core::mem::offset_of;
use isorb_rt::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use isorb_rt::sync::atomic::{AtomicU32, AtomicU64, fence};

/// "isorbcrm" and the version of the layout.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"isorbcm2");

/// The first bytes of a segment. All of it can be changed by another process at any time.
#[repr(C, align(64))]
pub(crate) struct Head {
    pub magic: AtomicU64,
    pub size: AtomicU64,
    pub histories: AtomicU64,
    /// How many writers there have been.
    pub epoch: AtomicU64,
    pub state: AtomicU32,
    /// Not 0: the owner needs a doorbell for each value, because it pushes them to other nodes.
    pub doorbell: AtomicU32,
    /// The period that the writer promised, in nanoseconds; 0 for none.
    pub period: AtomicU64,
    /// A number that no other area has; 0 where it does not matter.
    pub identity: AtomicU64,
    _pad: [u8; 8],
    pub hot: Hot,
}

/// The fields that change with each value, in a cache line of their own.
#[repr(C, align(64))]
pub(crate) struct Hot {
    /// The sequence number of the last complete value; 0 for none.
    pub latest: AtomicU64,
    /// Changes with each value and each state. Readers sleep on it.
    pub signal: AtomicU32,
}

/// The state of an area, which its server sets for readers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum State {
    /// Values are written.
    Open = 0,
    /// The channel was stopped and may be started again.
    Stopped = 1,
    /// The writer's process died, or its node cannot be reached. The last complete value stays
    /// readable.
    WriterGone = 2,
    /// The latest value is older than the reader's deadline allows.
    Stale = 3,
    /// The area was destroyed: no value will come.
    Destroyed = 4,
    /// The area continues in another segment, which the server hands out.
    Moved = 5,
}

impl State {
    /// Does no value come into this segment any more?
    pub fn is_final(self) -> bool {
        matches!(self, State::Destroyed | State::Moved)
    }

    /// The state with this number, as `as u32` gives it.
    pub fn from_code(code: u32) -> Option<State> {
        [State::Open, State::Stopped, State::WriterGone, State::Stale, State::Destroyed, State::Moved]
            .into_iter()
            .find(|state| *state as u32 == code)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Open => "open",
            State::Stopped => "stopped",
            State::WriterGone => "without its writer",
            State::Stale => "stale",
            State::Destroyed => "destroyed",
            State::Moved => "in another segment",
        })
    }
}

impl Head {
    /// The head of an area in which nothing has been written, outside of any segment.
    #[cfg(any(loom, test))]
    pub fn new() -> Head {
        Head {
            magic: AtomicU64::new(0),
            size: AtomicU64::new(0),
            histories: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            state: AtomicU32::new(0),
            doorbell: AtomicU32::new(0),
            period: AtomicU64::new(0),
            identity: AtomicU64::new(0),
            _pad: [0; 8],
            hot: Hot { latest: AtomicU64::new(0), signal: AtomicU32::new(0) },
        }
    }

    /// Magic, size and histories in the first bytes of a file.
    pub fn described(bytes: &[u8; HEAD_BYTES]) -> [u64; 3] {
        [offset_of!(Head, magic), offset_of!(Head, size), offset_of!(Head, histories)].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        })
    }

    /// Describes a new area. The magic comes last: a head that is half written is none.
    pub fn describe(&self, geometry: Geometry) {
        self.size.store(geometry.size() as u64, Relaxed);
        self.histories.store(geometry.histories() as u64, Relaxed);
        self.magic.store(MAGIC, Release);
    }

    /// The state; `None` for an invalid number.
    pub fn state(&self) -> Option<State> {
        State::from_code(load_acquire_32(&self.state))
    }

    /// Requests a ring of the writer after each value. A value without a ring is visible when this
    /// returns: each side writes, executes a fence, and then reads, so at least one of them sees
    /// the other's write.
    pub fn set_doorbell(&self, wanted: bool) {
        self.doorbell.store(u32::from(wanted), Relaxed);
        fence(SeqCst);
    }

    /// The other side, after the value.
    #[inline]
    pub fn wants_doorbell(&self) -> bool {
        fence(SeqCst);
        self.doorbell.load(Relaxed) != 0
    }

    pub fn set_state(&self, state: State) {
        self.state.store(state as u32, Release);
        self.announce();
    }

    /// Reports a change and wakes all waiting readers.
    ///
    /// The system call is made even without waiting readers. Readers would have to write a count of
    /// themselves, and a hostile one could then keep all others asleep.
    #[cfg(not(loom))]
    pub fn announce(&self) {
        use rustix::thread::futex::{self, Flags};
        self.hot.signal.fetch_add(1, Release);
        // Not private: the sleepers are in other processes. It fails only for an address that is
        // not ours.
        let _ = futex::wake(&self.hot.signal, Flags::empty(), i32::MAX as u32);
    }

    #[cfg(loom)]
    pub fn announce(&self) {
        self.hot.signal.fetch_add(1, Release);
    }

    /// Looks until there is an answer, and sleeps between. `sleep` is given what the signal was
    /// before the look: whatever is announced after that has changed it, and the sleep ends at
    /// once.
    pub fn await_change<T>(&self, mut look: impl FnMut() -> Option<T>, mut sleep: impl FnMut(u32)) -> T {
        loop {
            let seen = load_acquire_32(&self.hot.signal);
            match look() {
                Some(answer) => return answer,
                None => sleep(seen),
            }
        }
    }

    /// What the kernel does with a sleeper, without it.
    #[cfg(loom)]
    pub fn sleep(&self, seen: u32) {
        while self.hot.signal.load(isorb_rt::sync::atomic::Ordering::Acquire) == seen {
            loom::thread::yield_now();
        }
    }

    /// Sleeps while the signal holds `seen`, until the deadline. May end for no reason.
    #[cfg(not(loom))]
    pub fn sleep(&self, seen: u32, deadline: isorb_rt::time::Deadline) {
        use isorb_rt::time::NS_PER_S;
        use rustix::thread::futex::{self, Flags, Timespec};
        let at = deadline
            .as_ns()
            .map(|ns| Timespec { tv_sec: (ns / NS_PER_S) as _, tv_nsec: (ns % NS_PER_S) as _ });
        let any = core::num::NonZeroU32::MAX;
        // The bitset form takes an absolute time. The caller looks again whatever comes back.
        let _ = futex::wait_bitset(&self.hot.signal, Flags::empty(), seen, at.as_ref(), any);
    }
}

/// An acquiring load from memory that may be mapped for reading only, where the language promises
/// relaxed loads alone.
#[inline(always)]
pub(crate) fn load_acquire(word: &AtomicU64) -> u64 {
    let value = word.load(Relaxed);
    fence(isorb_rt::sync::atomic::Ordering::Acquire);
    value
}

/// See [`load_acquire`].
#[inline(always)]
pub(crate) fn load_acquire_32(word: &AtomicU32) -> u32 {
    let value = word.load(Relaxed);
    fence(isorb_rt::sync::atomic::Ordering::Acquire);
    value
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Head>() <= crate::geometry::HEAD_BYTES);
#[cfg(not(loom))]
const _: () = assert!(size_of::<AtomicU64>() == 8 && align_of::<Head>() == 64);
