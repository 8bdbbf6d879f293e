//! Ends the sleeps that no peer ends: because the peer died, or because the time is up.
//!
//! A sleep with a time limit makes the kernel set a timer and take it back, which costs about a
//! tenth of a whole hand-over. So a receiver sleeps without one, and one thread of the process
//! keeps the time for all. It waits until the socket of a peer hangs up or the earliest time limit
//! comes near, and wakes the receivers concerned.
//!
//! ```text
//!   receiver                                  timeout monitor
//!   wake_at := when to be woken               socket hung up: gone := true
//!   earlier than the monitor's next scan?     wake_at ≠ AWAKE, and gone or due? wake
//!       wake the monitor                      next := earliest wake_at; scan once more; wait
//!   gone? then do not sleep
//!   sleep ....................... wake_at := AWAKE
//! ```
//!
//! Each side stores before it loads, with a full fence between, so one of the two sees the other. A
//! wake-up between a receiver's last look and its sleep is lost, so the monitor wakes again until a
//! thread was woken or is awake.

use super::medium::{ArenaWord, ReceiveSegment, Word};
use super::memory::OwnSegment;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sched::{SchedClass, SpawnError, Thread, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The monitor wakes a receiver so long before its time limit. The receiver waits for the rest with
/// a timer of its own. A monitor that is late by less than this makes no time-out late.
pub(crate) const LEAD: Duration = Duration::from_millis(20);
/// A receiver sets a timer of its own for time-outs of up to so many nanoseconds.
pub(crate) const OWN_TIMER_NS: u64 = 2 * LEAD.as_nanos() as u64;
/// The first and the longest time between two attempts to wake a thread.
const RETRY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
const NEVER: u64 = u64::MAX;
/// Instead of a time: the receiver does not sleep.
const AWAKE: u64 = 0;
/// The monitor's thread makes few calls, and no deep ones.
const STACK: usize = 64 << 10;

/// The waits on one connection.
#[derive(Debug)]
struct WaitState {
    own: Arc<OwnSegment>,
    /// The socket hung up: the peer ended or closed, or this side did.
    gone: AtomicBool,
    /// When the receiver wants to be woken, in nanoseconds of the monotonic clock.
    wake_at: AtomicU64,
    /// A sender waits for room. It keeps its own time.
    wants_room: AtomicBool,
}

impl WaitState {
    /// Wakes the threads that should be awake `now`. Returns whether one of them may still sleep.
    ///
    /// # Real-time
    /// Runs on the monitor's thread with its lock. At most two system calls, which do not block.
    fn wake_if_due(&self, now: u64) -> bool {
        let (wake_at, gone) = (self.wake_at.load(Relaxed), self.gone.load(Acquire));
        let mut asleep = false;
        if wake_at != AWAKE && (gone || wake_at <= now) {
            asleep |= !self.own.wake_own(Word::Head);
        }
        if gone && self.wants_room.load(Relaxed) {
            // It waits for room, or for an entry of its arena.
            asleep |= !(self.own.wake_own(Word::Credit) | self.own.wake_own_arena(ArenaWord::Releases));
        }
        asleep
    }
}

/// A connection that the monitor watches, until this is dropped.
#[derive(Debug)]
pub(super) struct MonitoredWait {
    state: Arc<WaitState>,
    monitor: &'static TimeoutMonitor,
    slot: SlotKey,
}

impl MonitoredWait {
    /// Registers a connection by its own segment and its socket. The monitor becomes as urgent as
    /// this thread. The first connection of the process starts it.
    ///
    /// # Errors
    /// No thread, no descriptor or no memory for it.
    pub fn new(own: Arc<OwnSegment>, socket: BorrowedFd<'_>) -> io::Result<MonitoredWait> {
        let monitor = TimeoutMonitor::of_the_process()?;
        monitor.raise_to_this_thread();
        let state = Arc::new(WaitState {
            own,
            gone: AtomicBool::new(false),
            wake_at: AtomicU64::new(AWAKE),
            wants_room: AtomicBool::new(false),
        });
        let slot = monitor.register(state.clone());
        let wait = MonitoredWait { state, monitor, slot };
        wait.monitor.poller.add(socket, slot.token(), Interest::END, Trigger::Edge)?;
        Ok(wait)
    }

    /// Ends the monitoring, before the socket is closed.
    pub fn end(&self, socket: BorrowedFd<'_>) {
        // The socket is no longer registered where this was called before.
        let _ = self.monitor.poller.delete(socket);
        self.monitor.deregister(self.slot);
    }

    /// Whether the socket has hung up.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.state.gone.load(Acquire)
    }

    /// Announces that the receiver is about to sleep and wants to be woken ahead of `deadline`. A
    /// full fence must follow, and then [`may_sleep`](Self::may_sleep).
    #[inline]
    pub fn announce_sleep(&self, deadline: Deadline) {
        let lead = LEAD.as_nanos() as u64;
        let wake_at = deadline.as_ns().map_or(NEVER, |at| at.saturating_sub(lead).max(AWAKE + 1));
        self.state.wake_at.store(wake_at, Relaxed);
    }

    /// Whether the peer is there, so that it or the monitor will end the sleep.
    ///
    /// # Real-time
    /// One system call if the monitor would scan too late, which happens about once in each
    /// time-out.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        let (next, wake_at) = (&self.monitor.next, self.state.wake_at.load(Relaxed));
        if wake_at < next.load(SeqCst) && next.fetch_min(wake_at, Relaxed) > wake_at {
            self.monitor.poller.wake();
        }
        !self.is_gone()
    }

    /// Announces that the receiver is awake.
    #[inline]
    pub fn announce_awake(&self) {
        self.state.wake_at.store(AWAKE, Relaxed);
    }

    /// Announces whether a sender waits for room. Before it sleeps a full fence must follow, and
    /// then [`is_gone`](Self::is_gone).
    pub fn set_wants_room(&self, wants: bool) {
        self.state.wants_room.store(wants, Relaxed);
    }

    #[cfg(all(test, not(loom)))]
    pub fn wants_room(&self) -> bool {
        self.state.wants_room.load(Relaxed)
    }
}

impl Drop for MonitoredWait {
    fn drop(&mut self) {
        self.monitor.deregister(self.slot);
    }
}

/// The monitor of the process, which exists once it has a connection over segments.
#[derive(Debug)]
struct TimeoutMonitor {
    poller: Poller,
    /// When it scans next by itself.
    next: AtomicU64,
    waits: PiMutex<WaitTable>,
    thread: OnceLock<Thread<()>>,
}

/// A slot of the table. Slots are reused; the generation distinguishes one owner from the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SlotKey {
    index: u32,
    generation: u32,
}

impl SlotKey {
    fn token(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32
    }
}

#[derive(Debug, Default)]
struct WaitTable {
    slots: Vec<Option<(u32, Arc<WaitState>)>>,
    free: Vec<u32>,
    generations: u32,
}

impl WaitTable {
    fn iter(&self) -> impl Iterator<Item = &WaitState> {
        self.slots.iter().flatten().map(|(_, state)| &**state)
    }
}

impl TimeoutMonitor {
    fn of_the_process() -> io::Result<&'static TimeoutMonitor> {
        type OfProcess = PiMutex<Option<(u32, &'static TimeoutMonitor)>>;
        #[cfg(not(loom))]
        static MONITOR: OfProcess = PiMutex::new(None);
        #[cfg(loom)]
        static MONITOR: std::sync::LazyLock<OfProcess> = std::sync::LazyLock::new(|| PiMutex::new(None));
        let mut monitor = MONITOR.lock();
        let process = std::process::id();
        // The child of a fork has the parent's memory but not its thread.
        if let Some((owner, monitor)) = *monitor
            && owner == process
        {
            return Ok(monitor);
        }
        // Lives as long as the process: its thread never ends.
        let new = Arc::new(TimeoutMonitor {
            poller: Poller::new()?,
            next: AtomicU64::new(NEVER),
            waits: PiMutex::new(WaitTable::default()),
            thread: OnceLock::new(),
        });
        let running = new.clone();
        let thread =
            ThreadSpec::new("isorb-timeouts").stack_size(STACK).spawn_supervised(move || running.run());
        let _ = new.thread.set(thread.map_err(not_started)?);
        Ok(monitor.insert((process, Box::leak(Box::new(new)))).1)
    }

    /// A receiver must not wait for a less urgent thread than itself.
    fn raise_to_this_thread(&self) {
        let native = |class: SchedClass| class.native_priority().unwrap_or(0);
        let Some(thread) = self.thread.get() else { return };
        if let (Ok(caller), Ok(monitor)) = (SchedClass::current(), thread.class())
            && native(caller) > native(monitor)
        {
            // The kernel refuses where this thread had no right to its class either.
            let _ = thread.set_class(caller);
        }
    }

    fn register(&self, state: Arc<WaitState>) -> SlotKey {
        let mut waits = self.waits.lock();
        waits.generations = waits.generations.wrapping_add(1) & (u32::MAX >> 1);
        let generation = waits.generations;
        let index = waits.free.pop().unwrap_or_else(|| {
            waits.slots.push(None);
            waits.slots.len() as u32 - 1
        });
        waits.slots[index as usize] = Some((generation, state));
        SlotKey { index, generation }
    }

    fn deregister(&self, slot: SlotKey) {
        let mut waits = self.waits.lock();
        let removed =
            waits.slots[slot.index as usize].take_if(|(generation, _)| *generation == slot.generation);
        if removed.is_some() {
            waits.free.push(slot.index);
        }
        drop(waits);
        // Freed without the lock.
        drop(removed);
    }

    fn run(&self) {
        let mut events = Events::<16>::new();
        let mut retry = RETRY.0;
        loop {
            let asleep = self.scan();
            retry = if asleep { (retry * 2).min(RETRY.1) } else { RETRY.0 };
            let next = Deadline::at_ns(self.next.load(Relaxed));
            let next = if asleep { next.earlier(Deadline::after(retry)) } else { next };
            let Ok(ready) = self.poller.wait(&mut events, next) else {
                // No such error is known. If there is one, it must not occupy the processor.
                sleep_until(Deadline::after(RETRY.1));
                continue;
            };
            let waits = self.waits.lock();
            for event in ready.filter(|event| event.closed) {
                let slot = waits.slots.get((event.token & u64::from(u32::MAX)) as usize);
                if let Some(Some((generation, state))) = slot
                    && u64::from(*generation) == event.token >> 32
                {
                    state.gone.store(true, Release);
                }
            }
        }
    }

    /// Wakes the threads that sleep although their peer is gone or their time is near, and computes
    /// the time of the next scan. Returns whether one of them may still sleep.
    ///
    /// # Real-time
    /// Bounded by the connections of the process.
    fn scan(&self) -> bool {
        fence(SeqCst);
        let waits = self.waits.lock();
        let now = now_ns();
        let asleep = waits.iter().fold(false, |asleep, state| asleep | state.wake_if_due(now));
        // Those that are due were woken above.
        let wake_times = || waits.iter().map(|state| state.wake_at.load(Relaxed));
        let earliest = || wake_times().filter(|wake_at| *wake_at > now).min().unwrap_or(NEVER);
        // A requested scan is kept even if its receiver is awake again. A client that calls time
        // and again would otherwise wake the monitor for each call.
        let requested = Some(self.next.load(Relaxed)).filter(|next| *next > now).unwrap_or(NEVER);
        loop {
            let next = earliest().min(requested);
            self.next.store(next, Relaxed);
            fence(SeqCst);
            // A receiver that announced its sleep meanwhile may have seen an earlier time.
            if earliest() >= next {
                return asleep;
            }
        }
    }
}

fn not_started(error: SpawnError) -> io::Error {
    match error {
        SpawnError::Create(errno) => errno.into(),
        other => io::Error::other(other.to_string()),
    }
}
