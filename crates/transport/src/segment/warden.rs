//! Who ends the sleeps that no peer ends: because it died, or because the time is up.
//!
//! A sleep on a word with a time limit costs the kernel a timer that is set and taken back, about as much as a tenth of a whole
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

use super::medium::{Inward, Word};
use super::memory::Own;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sched::{SchedClass, SpawnError, Thread, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// So long before a time limit the warden wakes the sleeper, who waits for the rest with a timer of its own: how late the warden
/// may come without anybody's time-out being late.
pub(super) const AHEAD: Duration = Duration::from_millis(20);
/// Between two attempts to wake somebody, at first and at last.
const AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
/// Nothing to do at any time.
const NEVER: u64 = u64::MAX;
/// In [`Watch::until`]: does not sleep.
const AWAKE: u64 = 0;
/// It calls little, and nothing deep.
const STACK: usize = 64 << 10;

/// What the warden knows of a connection's receiver.
#[derive(Debug)]
pub(super) struct Watch {
    own: Arc<Own>,
    /// The socket hung up: the peer has ended or let go, or this side did.
    gone: AtomicBool,
    /// When the receiver wants to be woken, if it sleeps.
    until: AtomicU64,
    /// Who sends waits for room. It looks for the time itself.
    wants_room: AtomicBool,
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

impl Watch {
    /// Has the connection watched whose own segment and socket these are. The process's first one starts the warden.
    ///
    /// # Errors
    /// No thread, no descriptor or no memory for it.
    pub fn over(own: Arc<Own>, socket: BorrowedFd<'_>) -> io::Result<Arc<Watch>> {
        let warden = Warden::of_the_process()?;
        warden.be_as_urgent_as_this_thread();
        let watch = warden.keep(own);
        if let Err(error) = warden.poller.add(socket, watch.place.token(), Interest::END, Trigger::Edge) {
            warden.forget(&watch);
            return Err(error.into());
        }
        Ok(watch)
    }

    /// Stops watching, before the socket is closed.
    pub fn end(&self, socket: BorrowedFd<'_>) {
        // Not watched any more where this was said before.
        let _ = self.warden.poller.delete(socket);
        self.warden.forget(self);
    }

    /// Whether the socket has hung up.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    /// Says that the receiver is about to sleep, and that it wants to be woken [`AHEAD`] of `deadline`. A full fence must follow, and
    /// then [`Watch::may_sleep`].
    #[inline]
    pub fn about_to_sleep(&self, deadline: Deadline) {
        let until = deadline.as_ns().map_or(NEVER, |at| at.saturating_sub(AHEAD.as_nanos() as u64).max(1));
        self.until.store(until, Relaxed);
    }

    /// Whether the peer is there, so that it or the warden will end the sleep.
    ///
    /// # Real-time
    /// A system call where the warden would look too late, which is so about once in the time that a time-out takes.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        let until = self.until.load(Relaxed);
        if until < self.warden.next.load(Relaxed) && self.warden.next.fetch_min(until, Relaxed) > until {
            self.warden.poller.wake();
        }
        !self.is_gone()
    }

    /// Says that a writer is about to sleep until there is room, or that it does so no more. Before it sleeps a full fence must follow, and
    /// then [`Watch::is_gone`].
    pub fn wants_room(&self, wants: bool) {
        self.wants_room.store(wants, Relaxed);
    }

    #[cfg(all(test, not(loom)))]
    pub fn is_wanting_room(&self) -> bool {
        self.wants_room.load(Relaxed)
    }

    /// Says that it sleeps no more.
    #[inline]
    pub fn is_awake(&self) {
        self.until.store(AWAKE, Relaxed);
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
    places: Vec<Option<Arc<Watch>>>,
    free: Vec<u32>,
    rounds: u32,
}

impl Warden {
    fn of_the_process() -> io::Result<&'static Warden> {
        static WARDEN: Mutex<Option<&'static Warden>> = Mutex::new(None);
        let mut warden = WARDEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warden) = *warden {
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
        let thread = ThreadSpec::new("isorb-warden").stack_size(STACK).spawn(body).map_err(no_thread)?;
        let _ = new.thread.set(thread);
        Ok(*warden.insert(Box::leak(Box::new(new))))
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

    fn keep(&'static self, own: Arc<Own>) -> Arc<Watch> {
        let mut kept = self.kept.lock();
        kept.rounds = kept.rounds.wrapping_add(1) & (u32::MAX >> 1);
        let round = kept.rounds;
        let at = kept.free.pop().unwrap_or_else(|| {
            kept.places.push(None);
            kept.places.len() as u32 - 1
        });
        let watch = Arc::new(Watch {
            own,
            gone: AtomicBool::new(false),
            until: AtomicU64::new(AWAKE),
            wants_room: AtomicBool::new(false),
            warden: self,
            place: Place { at, round },
        });
        kept.places[at as usize] = Some(watch.clone());
        watch
    }

    fn forget(&self, watch: &Watch) {
        let mut kept = self.kept.lock();
        let place = &mut kept.places[watch.place.at as usize];
        let gone = place.take_if(|there| there.place == watch.place);
        if gone.is_some() {
            kept.free.push(watch.place.at);
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
                if let Some(Some(watch)) = place
                    && watch.place.token() == event.token
                {
                    watch.gone.store(true, Release);
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
        for watch in kept.places.iter().flatten() {
            let until = watch.until.load(Relaxed);
            if until != AWAKE && (watch.is_gone() || until <= now) {
                insists |= !watch.own.rouse(Word::Head);
            }
            if watch.is_gone() && watch.wants_room.load(Relaxed) {
                insists |= !watch.own.rouse(Word::Credit);
            }
        }
        // Who is due was woken just now, and is not waited for here.
        let earliest = || {
            let untils = kept.places.iter().flatten().map(|watch| watch.until.load(Relaxed));
            untils.filter(|until| *until > now).min().unwrap_or(NEVER)
        };
        loop {
            let next = earliest();
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
