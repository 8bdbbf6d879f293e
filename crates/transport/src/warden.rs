//! Who ends the sleeps that no peer ends: because it died, or because the time is up.
//!
//! A sleep with a time limit costs the kernel a timer that is set and taken back, about as much as a tenth of a whole
//! hand-over. So who receives sleeps without one, and a thread of the process, the warden, keeps the time for all: it waits
//! until a peer's socket hangs up or the earliest limit comes near, and wakes whom it concerns.
//!
//! ```text
//!   sleeper                                   warden
//!   until := when to be woken                 hangs up: gone := true
//!   earlier than the warden's next look?      until ≠ AWAKE, and gone or due? wake
//!       tell it                               next := earliest until; look once more; wait
//!   gone? then not
//!   sleep ........................ until := AWAKE
//! ```
//!
//! Each side stores before it loads, with a full fence between, so that one of the two sees the other. A wake that falls
//! between a sleeper's last look and its sleep is lost; the warden wakes again until somebody was woken or is awake.

use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sched::{SchedClass, SpawnError, Thread, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::fmt::Debug;
use std::io;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// So long before a time limit the warden wakes the sleeper, who waits for the rest with a timer of its own: how late the warden
/// may come without anybody's time-out being late.
pub(crate) const AHEAD: Duration = Duration::from_millis(20);
/// Up to here a time-out takes a timer of its own, in nanoseconds: the warden would have to be told of each.
pub(crate) const NEAR: u64 = 2 * AHEAD.as_nanos() as u64;
/// Between two attempts to wake somebody, at first and at last.
const AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
/// At no time.
pub(crate) const NEVER: u64 = u64::MAX;
/// Of who does not sleep, in the place of a time.
pub(crate) const AWAKE: u64 = 0;
/// It calls little, and nothing deep.
const STACK: usize = 64 << 10;

/// Somebody whose sleeps the warden ends.
pub(crate) trait Sleeper: Send + Sync + Debug {
    /// When it wants to be woken, in nanoseconds of the monotonic clock; [`AWAKE`] if it does not sleep.
    fn until(&self) -> u64;

    /// The socket hung up that the warden [watches](Charge::watch) for it.
    fn hung_up(&self) {}

    /// Wakes it if it is to be awake `now`. Says whether somebody who should have been woken may sleep on.
    ///
    /// # Real-time
    /// On the warden's thread, with its lock: a bounded number of system calls that do not block.
    fn wake_if_due(&self, now: u64) -> bool;
}

/// When to wake who sleeps until `deadline`.
#[inline]
pub(crate) fn ahead_of(deadline: Deadline) -> u64 {
    deadline.as_ns().map_or(NEVER, |at| at.saturating_sub(AHEAD.as_nanos() as u64).max(AWAKE + 1))
}

/// A sleeper in the warden's charge, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge<S> {
    sleeper: Arc<S>,
    warden: &'static Warden,
    place: Place,
}

/// Where the warden keeps it. Places are taken again; the round tells one holder from the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    at: u32,
    round: u32,
}

impl Place {
    fn token(self) -> u64 {
        u64::from(self.at) | u64::from(self.round) << 32
    }
}

impl<S: Sleeper + 'static> Charge<S> {
    /// Gives the sleeper into the warden's charge, which is as urgent as this thread from now on. The process's first one starts it.
    ///
    /// # Errors
    /// No thread, no descriptor or no memory for it.
    pub fn of(sleeper: S) -> io::Result<Charge<S>> {
        let warden = Warden::of_the_process()?;
        warden.be_as_urgent_as_this_thread();
        let sleeper = Arc::new(sleeper);
        let place = warden.keep(sleeper.clone());
        Ok(Charge { sleeper, warden, place })
    }
}

impl<S> Charge<S> {
    /// Has the sleeper told when the socket hangs up.
    ///
    /// # Errors
    /// No memory for it, or too many watched.
    pub fn watch(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.warden.poller.add(socket, self.place.token(), Interest::END, Trigger::Edge)?)
    }

    /// Watches the socket no more, before it is closed.
    pub fn unwatch(&self, socket: BorrowedFd<'_>) {
        // Not watched any more where this was said before.
        let _ = self.warden.poller.delete(socket);
    }

    /// Lets go of the sleeper, whom nobody wakes any more. Dropping this does so as well.
    pub fn release(&self) {
        self.warden.forget(self.place);
    }

    /// Tells the warden of somebody who is about to sleep `until` then, if it would look too late. The sleeper has said so, and a full
    /// fence is between.
    ///
    /// # Real-time
    /// A system call where the warden would look too late, which is so about once in the time that a time-out takes.
    #[inline]
    pub fn tell(&self, until: u64) {
        let next = &self.warden.next;
        if until < next.load(SeqCst) && next.fetch_min(until, Relaxed) > until {
            self.warden.poller.wake();
        }
    }
}

impl<S> Deref for Charge<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        &self.sleeper
    }
}

impl<S> Drop for Charge<S> {
    fn drop(&mut self) {
        self.release();
    }
}

/// One a process, once it has a connection.
#[derive(Debug)]
struct Warden {
    poller: Poller,
    /// When it looks next by itself.
    next: AtomicU64,
    kept: PiMutex<Kept>,
    thread: OnceLock<Thread<()>>,
}

#[derive(Debug, Default)]
struct Kept {
    places: Vec<Option<(u32, Arc<dyn Sleeper>)>>,
    free: Vec<u32>,
    rounds: u32,
}

impl Kept {
    fn sleepers(&self) -> impl Iterator<Item = &dyn Sleeper> {
        self.places.iter().flatten().map(|(_, sleeper)| &**sleeper)
    }
}

impl Warden {
    fn of_the_process() -> io::Result<&'static Warden> {
        static WARDEN: Mutex<Option<(u32, &'static Warden)>> = Mutex::new(None);
        let mut warden = WARDEN.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        // The child of a fork has the parent's memory and not its thread.
        if let Some((of, warden)) = *warden
            && of == process
        {
            return Ok(warden);
        }
        // For as long as the process lives: its thread never ends.
        let new = Arc::new(Warden {
            poller: Poller::new()?,
            next: AtomicU64::new(NEVER),
            kept: PiMutex::new(Kept::default()),
            thread: OnceLock::new(),
        });
        let body = {
            let warden = new.clone();
            move || warden.run()
        };
        let thread = ThreadSpec::new("isorb-timeouts").stack_size(STACK).spawn(body).map_err(no_thread)?;
        let _ = new.thread.set(thread);
        Ok(warden.insert((process, Box::leak(Box::new(new)))).1)
    }

    /// A sleeper must not wait for less urgent work than itself.
    fn be_as_urgent_as_this_thread(&self) {
        let urgency = |class: SchedClass| class.native_priority().unwrap_or(0);
        let Some(warden) = self.thread.get() else { return };
        if let (Ok(mine), Ok(its)) = (SchedClass::current(), warden.class())
            && urgency(mine) > urgency(its)
        {
            // Refused to who may not have the class, and then this thread had no right to it either.
            let _ = warden.set_class(mine);
        }
    }

    fn keep(&self, sleeper: Arc<dyn Sleeper>) -> Place {
        let mut kept = self.kept.lock();
        kept.rounds = kept.rounds.wrapping_add(1) & (u32::MAX >> 1);
        let round = kept.rounds;
        let at = kept.free.pop().unwrap_or_else(|| {
            kept.places.push(None);
            kept.places.len() as u32 - 1
        });
        kept.places[at as usize] = Some((round, sleeper));
        Place { at, round }
    }

    fn forget(&self, place: Place) {
        let mut kept = self.kept.lock();
        let gone = kept.places[place.at as usize].take_if(|(round, _)| *round == place.round);
        if gone.is_some() {
            kept.free.push(place.at);
        }
        drop(kept);
        // What it held is let go without the lock.
        drop(gone);
    }

    fn run(&self) {
        let mut events = Events::<16>::new();
        let mut again = AGAIN.0;
        loop {
            let insists = self.wake_whom_it_concerns();
            again = if insists { (again * 2).min(AGAIN.1) } else { AGAIN.0 };
            let next = Deadline::at_ns(self.next.load(Relaxed));
            let next = if insists { next.earlier(Deadline::after(again)) } else { next };
            let ready = match self.poller.wait(&mut events, next) {
                Ok(ready) => ready,
                // None is known. Should there be one, it may not take the processor.
                Err(_) => {
                    sleep_until(Deadline::after(AGAIN.1));
                    continue;
                }
            };
            let kept = self.kept.lock();
            for event in ready.filter(|event| event.closed) {
                let place = kept.places.get((event.token & u64::from(u32::MAX)) as usize);
                if let Some(Some((round, sleeper))) = place
                    && u64::from(*round) == event.token >> 32
                {
                    sleeper.hung_up();
                }
            }
        }
    }

    /// Wakes all who sleep although their peer is gone or their time is near, and sets when to look next. Says whether somebody who should
    /// have been woken may sleep on.
    ///
    /// # Real-time
    /// Bounded by the connections of the process.
    fn wake_whom_it_concerns(&self) -> bool {
        fence(SeqCst);
        let kept = self.kept.lock();
        let now = now_ns();
        let mut insists = false;
        for sleeper in kept.sleepers() {
            insists |= sleeper.wake_if_due(now);
        }
        // Who is due was woken just now, and is not waited for here.
        let earliest =
            || kept.sleepers().map(Sleeper::until).filter(|until| *until > now).min().unwrap_or(NEVER);
        // A look that it was told of stays, asleep or not whoever told: who calls time and again would tell it each time.
        let told = Some(self.next.load(Relaxed)).filter(|told| *told > now).unwrap_or(NEVER);
        loop {
            let next = earliest().min(told);
            self.next.store(next, Relaxed);
            fence(SeqCst);
            // Who lay down meanwhile may have seen an earlier one.
            if earliest() >= next {
                return insists;
            }
        }
    }
}

fn no_thread(error: SpawnError) -> io::Error {
    match error {
        SpawnError::Create(errno) => errno.into(),
        other => io::Error::other(other.to_string()),
    }
}
