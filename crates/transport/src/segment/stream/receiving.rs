//! How a connection over segments receives when nothing was there: by a sleep on the word that will change, or on the socket where a
//! poller watches that.

use super::super::medium::Sleep;
use super::super::watch::Watch;
use super::{EVER, SegmentStream, Shared, after};
use crate::Wait;
use crate::warden::{self, NEAR};
use isorb_rt::net::{Interest, recv_into, wait_ready};
use isorb_rt::time::Deadline;
use rustix::io::Errno;
use std::hint::cold_path;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Rings that are taken off the bell at a time; an honest peer has at most two under way.
const RINGS: usize = 8;

/// What a receiver finds that was woken for nothing.
enum Nothing {
    /// One of the two sides has said that it is over.
    Ended,
    /// It goes on waiting; whether the deadline is near.
    Yet(bool),
}

impl SegmentStream {
    /// Receives when nothing was there: where two ends take turns, always.
    #[inline(always)]
    pub(super) fn recv_later(&self, ring: &Shared, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let watched = self.watched.load(Acquire);
        if wait == Wait::No {
            cold_path();
            return self.recv_no_wait(ring, into, watched);
        }
        let timeout = self.recv_timeout.load(Relaxed);
        // Servers wait for ever, and need no clock for it.
        let deadline = if timeout == EVER { Deadline::NONE } else { after(timeout) };
        let watch = if watched { None } else { self.watch.get() };
        let Some(watch) = watch else { return self.recv_by_the_socket(ring, into, deadline) };
        let mut near = timeout <= NEAR;
        self.look(ring, &self.reader, || ring.available() != Ok(0) || self.ended(ring));
        loop {
            self.sleep(ring, watch, deadline, near)?;
            let n = ring.take(into)?;
            if n != 0 {
                return Ok(n);
            }
            match self.why_nothing(ring, deadline)? {
                // What came before the end goes first.
                Nothing::Ended => return take(ring, into),
                Nothing::Yet(is_near) => near = is_near,
            }
        }
    }

    /// As [`recv_later`](Self::recv_later), where a poller watches the socket.
    #[cold]
    fn recv_by_the_socket(&self, ring: &Shared, into: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        while self.wait_on_the_socket(ring, deadline)? {
            let n = take(ring, into)?;
            if n != 0 {
                return Ok(n);
            }
            if let Nothing::Ended = self.why_nothing(ring, deadline)? {
                break;
            }
        }
        take(ring, into)
    }

    /// Why a sleep has ended though nothing came.
    #[cold]
    fn why_nothing(&self, ring: &Shared, deadline: Deadline) -> io::Result<Nothing> {
        if self.ended(ring) {
            return Ok(Nothing::Ended);
        }
        if deadline.is_past() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Nothing::Yet(deadline.remaining().is_some_and(|left| left <= warden::AHEAD)))
    }

    /// Sleeps on the word until something comes, the peer ends or the deadline is near; when it is `near` already, until then. (The
    /// announcement has the fence that the watch needs.)
    #[inline]
    fn sleep(&self, ring: &Shared, watch: &Watch, deadline: Deadline, near: bool) -> io::Result<()> {
        let (warned, timer) = if near { (Deadline::NONE, deadline) } else { (deadline, Deadline::NONE) };
        watch.about_to_sleep(warned);
        let may = ring.about_to_read(Sleep::OnWord);
        if may == Ok(true) && !self.closed.load(Acquire) && watch.may_sleep() {
            ring.sleep_to_read(timer);
        }
        watch.is_awake();
        may?;
        Ok(())
    }

    /// Waits on the descriptor until something comes; `false` when the peer is gone.
    #[cold]
    fn wait_on_the_socket(&self, ring: &Shared, deadline: Deadline) -> io::Result<bool> {
        let lives = self.hear()?;
        if ring.about_to_read(Sleep::OnDescriptor)? && lives && !self.closed.load(Acquire) {
            wait_ready(&*self.socket, Interest::READ, deadline)?;
        }
        Ok(lives)
    }

    /// Receives without waiting when nothing was there, and sees to it that what comes rings where somebody watches.
    #[inline(never)]
    fn recv_no_wait(&self, ring: &Shared, into: &mut [u8], watched: bool) -> io::Result<usize> {
        // Old rings first: one that comes after the announcement is for what comes after it.
        let lives = self.hear()?;
        if watched {
            ring.about_to_read(Sleep::OnDescriptor)?;
        }
        let ended = !lives || self.ended(ring);
        match take(ring, into)? {
            0 if !ended => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    /// Takes the rings off the bell; `false` when the peer is gone.
    fn hear(&self) -> io::Result<bool> {
        for _ in 0..RINGS {
            match recv_into(&*self.socket, &mut [0; 8], isorb_rt::net::Wait::Never) {
                Ok(0) => return Ok(false),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::CONNRESET) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// What is there, for all but who has just slept for it.
#[inline(never)]
pub(super) fn take(ring: &Shared, into: &mut [u8]) -> io::Result<usize> {
    Ok(ring.take(into)?)
}
