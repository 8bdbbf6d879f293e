//! A connection over segments, as a stream.
//!
//! Who waits goes through three stages: it looks for a moment, if the peer runs on another processor; it sleeps on the
//! word that will change, which costs the least to wake from; and when nothing came for [`HOT`] it waits on the socket, which
//! also tells when the peer's process has ended. Where a poller watches the socket, there is no second stage.

use super::greeting::{self, Shared, Terms};
use super::medium::{Inward, Outward, Sleep, Word};
use super::ring::Broken;
use crate::{Stream, Wait};
use isorb_rt::net::{Interest, recv_into, wait_ready};
use isorb_rt::time::{Deadline, now_ns};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// So long a waiting side sleeps on a word before it looks whether the peer lives.
const HOT: Duration = Duration::from_millis(20);
/// Between two looks of a writer that waits for room.
const TICK: Duration = Duration::from_millis(100);
/// Looks between two readings of the clock.
const LOOKS: u32 = 64;
/// Rings that are taken off the bell at a time; an honest peer has at most two under way.
const RINGS: usize = 8;
/// 'For ever', as a time-out in nanoseconds.
const EVER: u64 = u64::MAX;

/// A connection over segments.
#[derive(Debug)]
pub(crate) struct SegmentStream {
    socket: Arc<OwnedFd>,
    terms: Terms,
    peer: String,
    /// There once both sides have greeted.
    ring: OnceLock<Shared>,
    watched: AtomicBool,
    closed: AtomicBool,
    recv_timeout: AtomicU64,
    send_timeout: AtomicU64,
    /// Longest time to look for before sleeping.
    spin: Duration,
    reader: Looking,
    writer: Looking,
}

/// How long one side of a stream looks before it sleeps, which it learns from how it went before.
#[derive(Debug)]
#[repr(align(64))]
struct Looking {
    /// Nanoseconds.
    budget: AtomicU64,
    /// What this side last said where it waits.
    processor: AtomicU32,
}

impl Looking {
    fn new(spin: Duration) -> Looking {
        Looking { budget: AtomicU64::new(spin.as_nanos() as u64), processor: AtomicU32::new(0) }
    }
}

impl From<Broken> for io::Error {
    fn from(_: Broken) -> io::Error {
        io::ErrorKind::InvalidData.into()
    }
}

impl SegmentStream {
    /// The connecting side: greets, and waits until `deadline` for the answer.
    pub fn connect(
        socket: OwnedFd,
        terms: Terms,
        spin: Duration,
        peer: String,
        deadline: Deadline,
    ) -> io::Result<SegmentStream> {
        terms.check_peer(&socket)?;
        let stream = SegmentStream::new(socket, terms, spin, peer);
        let offered = greeting::offer(&stream.socket, &stream.terms)?;
        if !wait_ready(&*stream.socket, Interest::READ, deadline)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let answer = greeting::greeted(&stream.socket)?.ok_or(io::ErrorKind::ConnectionReset)?;
        let ring = greeting::join(offered, answer, stream.socket.clone(), &stream.terms)?;
        stream.started(ring);
        Ok(stream)
    }

    /// The accepting side. It greets when it first receives, so that who accepts never waits for who connects.
    pub fn accepted(socket: OwnedFd, terms: Terms, spin: Duration) -> io::Result<SegmentStream> {
        let process = terms.check_peer(&socket)?;
        Ok(SegmentStream::new(socket, terms, spin, format!("segment: process {process}")))
    }

    fn new(socket: OwnedFd, terms: Terms, spin: Duration, peer: String) -> SegmentStream {
        SegmentStream {
            socket: Arc::new(socket),
            terms,
            peer,
            ring: OnceLock::new(),
            watched: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            recv_timeout: AtomicU64::new(EVER),
            send_timeout: AtomicU64::new(EVER),
            spin,
            reader: Looking::new(spin),
            writer: Looking::new(spin),
        }
    }

    fn started(&self, ring: Shared) {
        let processor = here();
        self.reader.processor.store(processor, Relaxed);
        ring.outward().store(Word::Processor, processor);
        let _ = self.ring.set(ring);
    }

    /// Waits for the other side's greeting and answers it. `false` when the peer has left.
    #[cold]
    fn greet(&self, wait: Wait) -> io::Result<bool> {
        if wait == Wait::Block && !wait_ready(&*self.socket, Interest::READ, after(&self.recv_timeout))? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(greeting) = greeting::greeted(&self.socket)? else { return Ok(false) };
        let offered = greeting::offer(&self.socket, &self.terms)?;
        self.started(greeting::join(offered, greeting, self.socket.clone(), &self.terms)?);
        // Who closed meanwhile did not know the peer's segment yet.
        if self.closed.load(Acquire) {
            self.shutdown();
        }
        Ok(true)
    }

    /// Receives when nothing was there.
    #[cold]
    fn recv_later(&self, ring: &Shared, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let mut stage = if self.watched.load(Acquire) { Stage::Descriptor } else { Stage::Look };
        if wait == Wait::No {
            return self.recv_no_wait(ring, into, stage);
        }
        let deadline = after(&self.recv_timeout);
        let mut hot = Deadline::NONE;
        loop {
            match stage {
                Stage::Look => {
                    self.look(ring, &self.reader, || ring.available() != Ok(0) || self.ended(ring));
                    hot = Deadline::after(HOT).earlier(deadline);
                    stage = Stage::Word;
                }
                Stage::Word => {
                    if ring.about_to_read(Sleep::OnWord)? && !self.closed.load(Acquire) {
                        ring.sleep_to_read(hot);
                    }
                    if hot.is_past() {
                        stage = Stage::Descriptor;
                    }
                }
                Stage::Descriptor => {
                    let lives = self.hear()?;
                    if ring.about_to_read(Sleep::OnDescriptor)? && lives && !self.closed.load(Acquire) {
                        wait_ready(&*self.socket, Interest::READ, deadline)?;
                    }
                    if !lives {
                        return Ok(ring.take(into)?);
                    }
                }
            }
            match ring.take(into)? {
                // What came before the end goes first.
                0 if self.ended(ring) => return Ok(ring.take(into)?),
                0 if deadline.is_past() => return Err(io::ErrorKind::WouldBlock.into()),
                0 => {}
                n => return Ok(n),
            }
        }
    }

    /// Receives without waiting when nothing was there, and sees to it that what comes rings where somebody watches.
    fn recv_no_wait(&self, ring: &Shared, into: &mut [u8], stage: Stage) -> io::Result<usize> {
        // Old rings first: one that comes after the announcement is for what comes after it.
        let lives = self.hear()?;
        if stage == Stage::Descriptor {
            ring.about_to_read(Sleep::OnDescriptor)?;
        }
        let ended = !lives || self.ended(ring);
        match ring.take(into)? {
            0 if !ended => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    /// Sends what did not fit in.
    #[cold]
    fn send_later(
        &self,
        ring: &Shared,
        pieces: &[IoSlice<'_>],
        mut sent: usize,
        total: usize,
        wait: Wait,
    ) -> io::Result<usize> {
        if wait == Wait::No {
            if self.watched.load(Acquire) && ring.about_to_write(Sleep::OnDescriptor)? {
                return partly(sent);
            }
            return match ring.put(pieces, sent)? {
                0 => partly(sent),
                n => Ok(sent + n),
            };
        }
        let deadline = after(&self.send_timeout);
        while sent < total {
            if !self.look(ring, &self.writer, || ring.has_room() != Ok(false) || self.ended(ring)) {
                if ring.about_to_write(Sleep::OnWord)? && !self.closed.load(Acquire) {
                    ring.sleep_to_write(Deadline::after(TICK).earlier(deadline));
                }
                if self.ended(ring) || !self.lives()? {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            match ring.put(pieces, sent)? {
                0 if self.ended(ring) => return Err(io::ErrorKind::BrokenPipe.into()),
                0 if deadline.is_past() => return partly(sent),
                n => sent += n,
            }
        }
        Ok(sent)
    }

    /// Looks for a while, if the peer was last seen on another processor; says whether it is `ready`.
    #[inline]
    fn look(&self, ring: &Shared, looking: &Looking, ready: impl Fn() -> bool) -> bool {
        if self.spin.is_zero() {
            return ready();
        }
        let processor = here();
        if looking.processor.swap(processor, Relaxed) != processor {
            ring.outward().store(Word::Processor, processor);
        }
        if ring.inward().load(Word::Processor) == processor {
            return ready();
        }
        let mut until = None;
        let budget = looking.budget.load(Relaxed);
        loop {
            for _ in 0..LOOKS {
                if ready() {
                    looking.budget.store(self.spin.as_nanos() as u64, Relaxed);
                    return true;
                }
                std::hint::spin_loop();
            }
            if now_ns() >= *until.get_or_insert_with(|| now_ns() + budget) {
                // In vain: less next time, but never nothing, or it would not be noticed that things have changed.
                looking.budget.store((budget / 2).max(self.spin.as_nanos() as u64 / 16), Relaxed);
                return false;
            }
        }
    }

    /// Whether one of the two sides has said that it is over.
    #[inline]
    fn ended(&self, ring: &Shared) -> bool {
        ring.closed() || self.closed.load(Acquire)
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

    /// Whether the peer still holds its end, without taking anything off the bell.
    fn lives(&self) -> io::Result<bool> {
        let mut watched = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut watched, Some(&now))?;
        Ok(watched[0].revents().is_empty())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Look,
    Word,
    Descriptor,
}

fn partly(sent: usize) -> io::Result<usize> {
    if sent > 0 { Ok(sent) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

fn after(timeout: &AtomicU64) -> Deadline {
    match timeout.load(Relaxed) {
        EVER => Deadline::NONE,
        ns => Deadline::after(Duration::from_nanos(ns)),
    }
}

/// One more than the number of the processor that this thread runs on.
fn here() -> u32 {
    rustix::thread::sched_getcpu() as u32 + 1
}

fn in_ns(timeout: Option<Duration>) -> u64 {
    timeout.map_or(EVER, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(EVER))
}

impl Stream for SegmentStream {
    #[inline]
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let ring = match self.ring.get() {
            Some(ring) => ring,
            None if self.closed.load(Acquire) || !self.greet(wait)? => return Ok(0),
            None => match self.ring.get() {
                Some(ring) => ring,
                None => return Ok(0),
            },
        };
        match ring.take(into)? {
            0 => self.recv_later(ring, into, wait),
            n => Ok(n),
        }
    }

    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let Some(ring) = self.ring.get() else { return Err(io::ErrorKind::NotConnected.into()) };
        if self.ended(ring) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let total = pieces.iter().map(|piece| piece.len()).sum();
        let sent = ring.put(pieces, 0)?;
        if sent == total { Ok(sent) } else { self.send_later(ring, pieces, sent, total, wait) }
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.recv_timeout.store(in_ns(timeout), Relaxed);
        Ok(())
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.send_timeout.store(in_ns(timeout), Relaxed);
        Ok(())
    }

    fn shutdown(&self) {
        self.closed.store(true, Release);
        if let Some(ring) = self.ring.get() {
            ring.close();
        }
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn watched(&self) {
        self.watched.store(true, Release);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for SegmentStream {
    fn drop(&mut self) {
        self.shutdown();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "stream_tests.rs"]
mod tests;
