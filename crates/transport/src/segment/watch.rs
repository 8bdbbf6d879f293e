//! What the [warden](crate::warden) knows of a connection over segments.

use super::medium::{Inward, Word};
use super::memory::Own;
use crate::warden::{AWAKE, Charge, Sleeper, ahead_of};
use isorb_rt::time::Deadline;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A connection's receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    own: Arc<Own>,
    /// The socket hung up: the peer has ended or let go, or this side did.
    gone: AtomicBool,
    /// When the receiver wants to be woken, if it sleeps.
    until: AtomicU64,
    /// Who sends waits for room. It looks for the time itself.
    wants_room: AtomicBool,
}

impl Sleeper for Receiver {
    fn until(&self) -> u64 {
        self.until.load(Relaxed)
    }

    fn hung_up(&self) {
        self.gone.store(true, Release);
    }

    fn wake_if_due(&self, now: u64) -> bool {
        let (until, gone) = (self.until(), self.gone.load(Acquire));
        let mut insists = false;
        if until != AWAKE && (gone || until <= now) {
            insists |= !self.own.rouse(Word::Head);
        }
        if gone && self.wants_room.load(Relaxed) {
            insists |= !self.own.rouse(Word::Credit);
        }
        insists
    }
}

/// The warden's look after a connection.
#[derive(Debug)]
pub(super) struct Watch(Charge<Receiver>);

impl Watch {
    /// Has the connection watched whose own segment and socket these are.
    ///
    /// # Errors
    /// No thread, no descriptor or no memory for it.
    pub fn over(own: Arc<Own>, socket: BorrowedFd<'_>) -> io::Result<Watch> {
        let charge = Charge::of(Receiver {
            own,
            gone: AtomicBool::new(false),
            until: AtomicU64::new(AWAKE),
            wants_room: AtomicBool::new(false),
        })?;
        charge.watch(socket)?;
        Ok(Watch(charge))
    }

    /// Stops watching, before the socket is closed.
    pub fn end(&self, socket: BorrowedFd<'_>) {
        self.0.unwatch(socket);
        self.0.release();
    }

    /// Whether the socket has hung up.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.0.gone.load(Acquire)
    }

    /// Says that the receiver is about to sleep, and that it wants to be woken ahead of `deadline`. A full fence must follow, and
    /// then [`Watch::may_sleep`].
    #[inline]
    pub fn about_to_sleep(&self, deadline: Deadline) {
        self.0.until.store(ahead_of(deadline), Relaxed);
    }

    /// Whether the peer is there, so that it or the warden will end the sleep.
    ///
    /// # Real-time
    /// A system call where the warden would look too late, which is so about once in the time that a time-out takes.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        self.0.tell(self.0.until.load(Relaxed));
        !self.is_gone()
    }

    /// Says that a writer is about to sleep until there is room, or that it does so no more. Before it sleeps a full fence must follow, and
    /// then [`Watch::is_gone`].
    pub fn wants_room(&self, wants: bool) {
        self.0.wants_room.store(wants, Relaxed);
    }

    #[cfg(all(test, not(loom)))]
    pub fn is_wanting_room(&self) -> bool {
        self.0.wants_room.load(Relaxed)
    }

    /// Says that it sleeps no more.
    #[inline]
    pub fn is_awake(&self) {
        self.0.until.store(AWAKE, Relaxed);
    }
}
