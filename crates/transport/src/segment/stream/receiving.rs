//! How a connection over segments waits to receive: by a sleep on the word that will change, or on
//! the socket where a poller watches that.

use super::super::medium::{Join, Joined, PeerSegment, Sleep};
use super::super::memory::OwnSegment;
use super::super::ring::Ring;
use super::super::timeout_monitor::{LEAD, MonitoredWait, OWN_TIMER_NS};
use super::{NO_LIMIT, SegmentStream, Spun, after};
use crate::Wait;
use isorb_rt::net::{Interest, recv_into, wait_ready};
use isorb_rt::time::Deadline;
use rustix::io::Errno;
use std::hint::cold_path;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Signals that are taken off the doorbell at a time; an honest peer has at most two under way.
const SIGNALS: usize = 8;

/// Why a sleep ended though nothing arrived.
enum WakeReason {
    /// One of the two sides has ended the stream.
    Ended,
    /// No reason: the receiver goes on waiting.
    Spurious { deadline_is_near: bool },
}

impl<J: Join> SegmentStream<J> {
    /// Waits and receives. Ends that take turns always come here.
    #[inline(always)]
    pub(super) fn recv_waiting(&self, ring: &Joined<J>, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let watched = self.watched.load(Acquire);
        if wait == Wait::No {
            cold_path();
            return self.recv_no_wait(ring, into, watched);
        }
        let timeout = self.recv_timeout.load(Relaxed);
        // Servers wait without a limit and need no clock.
        let deadline = if timeout == NO_LIMIT { Deadline::NONE } else { after(timeout) };
        let monitored = if watched { None } else { self.monitored.get() };
        let Some(monitored) = monitored else { return self.recv_by_socket(ring, into, deadline) };
        let mut near = timeout <= OWN_TIMER_NS;
        let spun = self.spin(ring, &self.reader, deadline, || ring.available() != Ok(0) || self.ended(ring));
        if let Spun::Ready = spun {
            let n = ring.take(into)?;
            if n != 0 {
                return Ok(n);
            }
        }
        loop {
            self.sleep(ring, monitored, deadline, near)?;
            let n = ring.take(into)?;
            if n != 0 {
                self.reader.slept(spun);
                return Ok(n);
            }
            match self.wake_reason(ring, deadline)? {
                // Octets before the end are delivered first.
                WakeReason::Ended => return take(ring, into),
                WakeReason::Spurious { deadline_is_near } => near = deadline_is_near,
            }
        }
    }

    /// As [`recv_waiting`](Self::recv_waiting), where a poller watches the socket.
    #[cold]
    fn recv_by_socket(&self, ring: &Joined<J>, into: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        while self.wait_on_socket(ring, deadline)? {
            let n = take(ring, into)?;
            if n != 0 {
                return Ok(n);
            }
            if let WakeReason::Ended = self.wake_reason(ring, deadline)? {
                break;
            }
        }
        take(ring, into)
    }

    /// Why a sleep ended though nothing arrived.
    #[cold]
    fn wake_reason(&self, ring: &Joined<J>, deadline: Deadline) -> io::Result<WakeReason> {
        if self.ended(ring) {
            return Ok(WakeReason::Ended);
        }
        if deadline.is_past() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let deadline_is_near = deadline.remaining().is_some_and(|left| left <= LEAD);
        Ok(WakeReason::Spurious { deadline_is_near })
    }

    /// Sleeps on the word until octets arrive, the peer ends or the deadline is near. If it is
    /// `near` already, sleeps until the deadline. The ring's announcement has the fence that the
    /// monitor needs.
    #[inline]
    fn sleep(
        &self,
        ring: &Joined<J>,
        monitored: &MonitoredWait,
        deadline: Deadline,
        near: bool,
    ) -> io::Result<()> {
        let (monitored_until, timer) =
            if near { (Deadline::NONE, deadline) } else { (deadline, Deadline::NONE) };
        monitored.announce_sleep(monitored_until);
        let may = ring.about_to_read(Sleep::OnWord);
        if may == Ok(true) && !self.closed.load(Acquire) && monitored.may_sleep() {
            ring.sleep_to_read(timer);
        }
        monitored.announce_awake();
        may?;
        Ok(())
    }

    /// Waits on the descriptor until octets arrive; `false` when the peer is gone.
    #[cold]
    fn wait_on_socket(&self, ring: &Joined<J>, deadline: Deadline) -> io::Result<bool> {
        let alive = self.drain_doorbell()?;
        if self.polled.announce(ring)? && alive && !self.closed.load(Acquire) {
            wait_ready(&*self.socket, Interest::READ, deadline)?;
        }
        Ok(alive)
    }

    /// Receives without waiting. If a poller watches the socket, later octets will ring the
    /// doorbell, unless the threads behind the poller [arm](crate::Polled::arm) it themselves.
    #[inline(never)]
    fn recv_no_wait(&self, ring: &Joined<J>, into: &mut [u8], watched: bool) -> io::Result<usize> {
        // Old signals first: one after the announcement is for octets after it.
        let polled = self.polled.is_on();
        let alive = if polled { !self.polled.is_gone() } else { self.drain_doorbell()? };
        if watched && !polled {
            self.polled.announce(ring)?;
        }
        let ended = !alive || self.ended(ring);
        match take(ring, into)? {
            0 if !ended => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    /// Takes the signals off the doorbell; `false` when the peer is gone.
    pub(super) fn drain_doorbell(&self) -> io::Result<bool> {
        for _ in 0..SIGNALS {
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

    /// Takes the signals off that one system call can, not the news of the peer's end behind them;
    /// `false` when that is all there is.
    pub(super) fn take_signals(&self) -> io::Result<bool> {
        match recv_into(&*self.socket, &mut [0; 64], isorb_rt::net::Wait::Never) {
            Ok(0) | Err(Errno::CONNRESET) => Ok(false),
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes the octets that are there; out of line, for all callers but one.
#[inline(never)]
pub(super) fn take<O: PeerSegment>(ring: &Ring<Arc<OwnSegment>, O>, into: &mut [u8]) -> io::Result<usize> {
    Ok(ring.take(into)?)
}
