//! Receiving from a socket with a time limit that the [warden](crate::warden) keeps.
//!
//! `SO_RCVTIMEO` has the kernel set a timer in each receive that waits, and take it back: a thirtieth of a call between two processes
//! over unix sockets. So a limit that is not near stays out of the kernel: the warden interrupts the receive by a
//! [signal](isorb_rt::interrupt) ahead of the limit, and the receiver waits for the rest with a timer.
//!
//! A thread may have the signal blocked since it last received. Then the receive goes on whatever the warden does; past the limit it
//! shuts the socket down, and the receiver reports its time-out. The connection has ended then.

use crate::warden::{AHEAD, AWAKE, Charge, NEAR, Sleeper, ahead_of};
use isorb_rt::interrupt::{Interrupter, InterruptibleWait, Reach, Signal};
use isorb_rt::net::{self, Interest, Wait, wait_ready};
use isorb_rt::time::Deadline;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// After as many signals without effect, some 30 ms, it is asked why.
const ATTEMPTS: u32 = 4;
/// No limit, or the kernel has it.
const NONE: u64 = u64::MAX;

/// What the warden knows of a receiver.
#[derive(Debug)]
struct Receiver {
    wait: InterruptibleWait,
    socket: Arc<OwnedFd>,
    by: &'static Interrupter,
    /// The warden's: which wait it interrupted last, and how often.
    interrupted: AtomicU64,
    attempts: AtomicU32,
    /// The warden ended the connection, and the receiver has not noticed yet.
    given_up: AtomicBool,
}

impl Sleeper for Receiver {
    fn until(&self) -> u64 {
        self.wait.until().unwrap_or(AWAKE)
    }

    fn wake_if_due(&self, now: u64) -> bool {
        let until = self.until();
        if until == AWAKE || until > now {
            return false;
        }
        if self.interrupted.swap(until, Relaxed) != until {
            self.attempts.store(0, Relaxed);
        }
        let attempts = self.attempts.load(Relaxed);
        let past = now >= until + AHEAD.as_nanos() as u64;
        let reach = if past && attempts >= ATTEMPTS { self.by.reach(&self.wait) } else { Reach::Open };
        match reach {
            Reach::Open if attempts < 4 * ATTEMPTS => {
                self.attempts.store(attempts + 1, Relaxed);
                self.by.interrupt(&self.wait)
            }
            // Others keep the thread from running. That is no reason to end anything, nor to send it more and more.
            Reach::Pending => true,
            // Or somebody has put a handler in the place of ours that has calls restarted.
            Reach::Shut | Reach::Open => {
                self.given_up.store(true, Release);
                let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
                // The receive ends by itself now.
                false
            }
        }
    }
}

/// The receiving side of a socket.
#[derive(Debug)]
pub(crate) struct Timed {
    receiver: Charge<Receiver>,
    /// In nanoseconds.
    limit: AtomicU64,
    /// Whether the kernel has a limit.
    in_kernel: AtomicBool,
}

impl Timed {
    /// That of a socket of which one thread at a time receives. `None` where there is no signal or no warden for it.
    ///
    /// # Real-time
    /// Allocates. For the set-up of a connection.
    pub fn over(socket: Arc<OwnedFd>) -> Option<Timed> {
        static INTERRUPTER: OnceLock<Interrupter> = OnceLock::new();
        let signal = Signal::of_the_process()?;
        let receiver = Receiver {
            wait: InterruptibleWait::new(),
            socket,
            by: INTERRUPTER.get_or_init(|| Interrupter::new(signal)),
            interrupted: AtomicU64::new(AWAKE),
            attempts: AtomicU32::new(0),
            given_up: AtomicBool::new(false),
        };
        let receiver = Charge::of(receiver).ok()?;
        Some(Timed { receiver, limit: AtomicU64::new(NONE), in_kernel: AtomicBool::new(false) })
    }

    /// Sets the limit of each receive.
    pub fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let limit = timeout.map_or(NONE, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NONE));
        let warden_keeps_it = limit > NEAR && limit != NONE;
        let kernels = timeout.filter(|_| !warden_keeps_it);
        if kernels.is_some() || self.in_kernel.load(Relaxed) {
            net::set_recv_timeout(&*self.receiver.socket, kernels)?;
            self.in_kernel.store(kernels.is_some(), Relaxed);
        }
        self.limit.store(if warden_keeps_it { limit } else { NONE }, Relaxed);
        Ok(())
    }

    /// The limit that the warden keeps.
    #[inline]
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|limit| *limit != NONE)
    }

    /// Receives within `limit`; `WouldBlock` if nothing came.
    ///
    /// # Real-time
    /// One system call where something comes in time; the warden is told about once in a `limit`.
    #[inline]
    pub fn recv(&self, into: &mut [u8], limit: u64) -> io::Result<usize> {
        let deadline = Deadline::from_now(limit).1;
        match self.until_interrupted(into, deadline) {
            Ok(n) if n > 0 => Ok(n),
            other => self.go_on(into, deadline, other),
        }
    }

    #[inline]
    fn until_interrupted(&self, into: &mut [u8], deadline: Deadline) -> Result<usize, Errno> {
        let receiver = &*self.receiver;
        let until = ahead_of(deadline);
        receiver.wait.begin(receiver.by, until);
        self.receiver.tell(until);
        let got = net::recv_into(&*receiver.socket, into, Wait::Allowed);
        receiver.wait.end(receiver.by);
        got
    }

    /// After a receive that got nothing.
    #[cold]
    fn go_on(&self, into: &mut [u8], deadline: Deadline, mut got: Result<usize, Errno>) -> io::Result<usize> {
        let socket = &*self.receiver.socket;
        loop {
            got = match got {
                // A signal of the program's own.
                Err(Errno::INTR) if deadline.remaining() > Some(AHEAD) => {
                    self.until_interrupted(into, deadline)
                }
                Err(Errno::INTR | Errno::AGAIN) if wait_ready(socket, Interest::READ, deadline)? => {
                    net::recv_into(socket, into, Wait::Never)
                }
                Err(Errno::INTR | Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                // Once: it is the end of the connection for who comes next.
                Ok(0) if self.receiver.given_up.load(Acquire) => {
                    self.receiver.given_up.store(false, Relaxed);
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                other => return Ok(other?),
            };
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "timed_tests.rs"]
mod tests;
