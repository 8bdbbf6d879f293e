//! The rings that a lane polls before it sleeps in its poller.
//!
//! A stream in memory ([`Polled`]) costs no system call while a thread polls it. One thread of the
//! lane polls at a time, up to [`MOST`] rings; the others sleep in the poller. Whichever thread
//! leaves last arms the rings, and then each peer makes an event of its socket.
//!
//! ```text
//!   a thread without work ─► turn? ─► polls ─┬ a ring has octets ─► arms the others, serves it
//!                             │ none          ├ the poller has an event ─► likewise
//!                             ▼               └ the limit is over ─► arms all ─► sleeps in the poller
//!                   sleeps in the poller
//! ```
//!
//! No ring is forgotten because of two rules:
//!
//! - A ring that is not armed has a thread that will come here before it does anything of unknown
//!   length: the owner of the turn, the owner of the connection, or a thread about to reply.
//! - The turn ([`Turn`]) is passed on only after all rings were armed since the last such thread
//!   came by: if one did meanwhile, its owner arms once more.
//!
//! A lane with one thread arms nothing before it serves a request: it comes back before anything
//! else could poll.

use isorb_rt::sched::current_cpu;
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::{Deadline, now_ns};
use isorb_transport::Polled;
use isorb_transport::segment::{SpinBudget, SpinWait};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Most rings that a lane polls. The connections beyond wait in its poller.
pub(crate) const MOST: usize = 16;
/// Rounds over the rings between two readings of the clock.
const ROUNDS: u32 = 32;
/// The poller is looked at once in so many served rings,
const SERVED: u32 = 16;
/// and after so many nanoseconds of polling.
const POLLER_NS: u64 = 20_000;

/// A connection with a ring.
pub(crate) trait Ring {
    /// Its ring; `None` while it is not to be read: another thread owns the connection, or its peer
    /// does not take replies.
    fn ring(&self) -> Option<&dyn Polled>;

    /// Whether threads of the program read it, too. Then it is no longer polled.
    fn leaves(&self) -> bool;

    /// Ends the polling: from now on each receive that finds nothing arms the ring.
    fn leave(&self);

    /// Makes the poller report it.
    fn report(&self);
}

/// The rings of a lane.
pub(crate) struct RingWatch<M> {
    /// Whether the lane may have several threads.
    several: bool,
    turn: Turn,
    /// How many there are.
    count: AtomicUsize,
    /// Counts the changes of `members`, and which of them the polling threads know.
    changes: AtomicUsize,
    known: AtomicUsize,
    members: PiMutex<Vec<Arc<M>>>,
    /// For the owner of the turn alone.
    polling: PiMutex<Polling<M>>,
    budget: OnceLock<SpinBudget>,
}

struct Polling<M> {
    members: Vec<Arc<M>>,
    /// Where the next round begins, so that no ring comes first.
    next: usize,
    served: u32,
    /// A wait that polled in vain.
    vain: Option<SpinWait>,
}

/// What ended the polling.
pub(crate) enum Ready<M, E> {
    /// A ring with something to receive.
    Ring(Arc<M>),
    /// An event of the poller.
    Event(E),
}

impl<M: Ring> RingWatch<M> {
    pub fn new(several: bool) -> RingWatch<M> {
        let members = Vec::with_capacity(MOST);
        RingWatch {
            several,
            turn: Turn::new(),
            count: AtomicUsize::new(0),
            changes: AtomicUsize::new(0),
            known: AtomicUsize::new(0),
            members: PiMutex::new(Vec::with_capacity(MOST)),
            polling: PiMutex::new(Polling { members, next: 0, served: 0, vain: None }),
            budget: OnceLock::new(),
        }
    }

    /// Polls this connection from now on, if there is room. The caller then adds its socket to the
    /// poller: the first event brings a thread here.
    pub fn add(&self, member: &Arc<M>, ring: &dyn Polled) {
        let budget = self.budget.get().unwrap_or_else(|| {
            let _ = self.budget.set(SpinBudget::new(ring.spin()));
            self.budget.get().expect("set above")
        });
        let mut members = self.members.lock();
        if !budget.spin().spins() || members.len() == MOST {
            return;
        }
        ring.set_polled(true);
        members.push(member.clone());
        self.changed(members.len());
    }

    /// Ends the polling of a connection that has left the lane.
    pub fn remove(&self, member: &M) {
        let mut members = self.members.lock();
        let before = members.len();
        members.retain(|other| !std::ptr::eq(&**other, member));
        if members.len() != before {
            self.changed(members.len());
        }
    }

    fn changed(&self, count: usize) {
        self.count.store(count, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// How many rings are polled.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Polls until a ring has something, `poller` has an event, or the caller may sleep in the
    /// poller (`None`).
    ///
    /// # Real-time
    /// Allocates nothing. Polls for at most the limit of [`Spin`](isorb_transport::Spin), and not
    /// where all peers share this processor. Looks into the poller before the 17th ring and after
    /// 20 µs.
    pub fn poll<E>(&self, deadline: Deadline, mut poller: impl FnMut() -> Option<E>) -> Option<Ready<M, E>> {
        // After the last ring has left, its connection is to be freed.
        let unchanged = self.known.load(Ordering::Relaxed) == self.changes.load(Ordering::Relaxed);
        if self.len() == 0 && unchanged {
            return None;
        }
        // Otherwise the owner comes by all rings once more before it sleeps.
        if !self.turn.take() {
            return None;
        }
        let mut polling = self.polling.lock();
        let mut work = polling.wait(self, deadline, &mut poller);
        loop {
            if work.is_none() {
                work = polling.arm_all().map(Ready::Ring);
            }
            if self.several
                && let Some(work) = &work
            {
                polling.arm_others(work);
            }
            if self.turn.pass() {
                return work;
            }
            polling.refresh(self);
        }
    }

    /// A thread is back from its sleep in the poller.
    pub fn awake(&self) {
        if self.len() > 0
            && let Ok(mut polling) = self.polling.try_lock()
            && let (Some(vain), Some(budget)) = (polling.vain.take(), self.budget.get())
        {
            budget.slept(&vain, now_ns());
        }
    }
}

impl<M: Ring> Polling<M> {
    fn wait<E>(
        &mut self,
        watch: &RingWatch<M>,
        deadline: Deadline,
        poller: &mut impl FnMut() -> Option<E>,
    ) -> Option<Ready<M, E>> {
        self.refresh(watch);
        self.served = self.served.wrapping_add(1);
        if self.served.is_multiple_of(SERVED)
            && let Some(event) = poller()
        {
            return Some(Ready::Event(event));
        }
        if let Some(member) = self.ready() {
            return Some(Ready::Ring(member));
        }
        let budget = watch.budget.get().filter(|budget| budget.may_spin())?;
        let woke = self.rings().fold(false, |woke, ring| woke | ring.take_woke());
        let mut wait = None;
        let mut look_at = 0;
        while self.peer_is_elsewhere() {
            for _ in 0..ROUNDS {
                if let Some(member) = self.ready() {
                    budget.hit(woke);
                    return Some(Ready::Ring(member));
                }
                std::hint::spin_loop();
            }
            let now = now_ns();
            let wait = wait.get_or_insert_with(|| {
                look_at = now + POLLER_NS;
                budget.begin(now, woke)
            });
            if now >= look_at {
                look_at = now + POLLER_NS;
                if let Some(event) = poller() {
                    return Some(Ready::Event(event));
                }
                self.refresh(watch);
            }
            if !wait.lasts(now) {
                self.vain = Some(*wait);
                return None;
            }
            if deadline.as_ns().is_some_and(|at| at <= now) {
                return None;
            }
        }
        None
    }

    /// Takes over what has changed, and sends off those that are no longer polled.
    fn refresh(&mut self, watch: &RingWatch<M>) {
        if watch.known.load(Ordering::Relaxed) != watch.changes.load(Ordering::Acquire) {
            let members = watch.members.lock();
            watch.known.store(watch.changes.load(Ordering::Acquire), Ordering::Relaxed);
            self.members.clear();
            self.members.extend(members.iter().cloned());
        }
        if let Some(at) = self.members.iter().position(|member| member.leaves()) {
            let member = self.members.swap_remove(at);
            watch.remove(&member);
            member.leave();
        }
    }

    fn rings(&self) -> impl Iterator<Item = &dyn Polled> {
        self.members.iter().filter_map(|member| member.ring())
    }

    /// The next ring with something to receive.
    #[inline]
    fn ready(&mut self) -> Option<Arc<M>> {
        let n = self.members.len();
        let at = (0..n)
            .map(|i| (self.next + i) % n)
            .find(|at| self.members[*at].ring().is_some_and(|ring| ring.ready()))?;
        self.next = at + 1;
        Some(self.members[at].clone())
    }

    /// Whether a peer was last seen on another processor.
    fn peer_is_elsewhere(&self) -> bool {
        let processor = current_cpu() as u32 + 1;
        self.rings().fold(false, |elsewhere, ring| elsewhere | ring.polls_from(processor))
    }

    /// Arms all rings, for a sleep. Returns one that has something to receive.
    fn arm_all(&self) -> Option<Arc<M>> {
        let armed = |member: &Arc<M>| member.ring().is_none_or(|ring| ring.arm());
        self.members.iter().fold(None, |ready, member| match armed(member) {
            true => ready,
            false => Some(member.clone()),
        })
    }

    /// Arms all rings but that of this work, for the other threads; those that have something to
    /// receive are reported to them.
    fn arm_others<E>(&self, work: &Ready<M, E>) {
        for member in &self.members {
            if !matches!(work, Ready::Ring(own) if Arc::ptr_eq(own, member)) {
                rearm(&**member);
            }
        }
    }
}

/// Arms the ring of a connection that the calling thread will not poll soon.
pub(crate) fn rearm(member: &impl Ring) {
    if member.ring().is_some_and(|ring| !ring.arm()) {
        member.report();
    }
}

#[cfg(all(test, loom))]
#[path = "ring_watch_loom.rs"]
mod loom_tests;
