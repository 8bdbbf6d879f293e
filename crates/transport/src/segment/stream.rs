//! A connection over segments, as a stream.
//!
//! Who waits looks for a moment, if the peer runs on another processor, and then sleeps on the word that will change, which costs
//! the least to wake from. That the peer's process has ended, and that the time is nearly up, says the [warden](crate::warden). Where
//! a poller watches the socket, its reader neither looks nor sleeps on the word, but waits on the socket.

mod receiving;

use super::greeting::{self, Shared, Terms};
use super::medium::{Inward, Outward, Sleep, Word};
use super::ring::Broken;
use super::watch::Watch;
use crate::{Stream, Wait};
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::time::{Deadline, now_ns};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::hint::cold_path;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Between two looks of a writer that waits for room, should nobody have woken it. Tests are to see who does.
const GLANCE: Duration = if cfg!(test) { Duration::from_secs(3600) } else { Duration::from_millis(100) };
/// How often two that were seen on one processor wait without asking again where they are.
const SHARES: u32 = 7;
/// Looks between two readings of the clock.
const LOOKS: u32 = 64;
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
    /// There with the ring, unless a poller watches the socket.
    watch: OnceLock<Watch>,
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
    /// So many times it need not find out anew that the two share a processor.
    shares: AtomicU32,
}

impl Looking {
    fn new(spin: Duration) -> Looking {
        Looking {
            budget: AtomicU64::new(spin.as_nanos() as u64),
            processor: AtomicU32::new(0),
            shares: AtomicU32::new(0),
        }
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
        stream.started(ring)?;
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
            watch: OnceLock::new(),
            watched: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            recv_timeout: AtomicU64::new(EVER),
            send_timeout: AtomicU64::new(EVER),
            spin,
            reader: Looking::new(spin),
            writer: Looking::new(spin),
        }
    }

    fn started(&self, ring: Shared) -> io::Result<()> {
        if !self.watched.load(Acquire) {
            let _ = self.watch.set(Watch::over(ring.inward().clone(), self.socket.as_fd())?);
        }
        let processor = here();
        self.reader.processor.store(processor, Relaxed);
        ring.outward().store(Word::Processor, processor);
        let _ = self.ring.set(ring);
        Ok(())
    }

    /// Waits for the other side's greeting and answers it. `false` when the peer has left.
    #[cold]
    fn greet(&self, wait: Wait) -> io::Result<bool> {
        if wait == Wait::Block
            && !wait_ready(&*self.socket, Interest::READ, after(self.recv_timeout.load(Relaxed)))?
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(greeting) = greeting::greeted(&self.socket)? else { return Ok(false) };
        let offered = greeting::offer(&self.socket, &self.terms)?;
        self.started(greeting::join(offered, greeting, self.socket.clone(), &self.terms)?)?;
        // Who closed meanwhile did not know the peer's segment yet.
        if self.closed.load(Acquire) {
            self.shutdown();
        }
        Ok(true)
    }

    /// The ring, once both sides have greeted; none when the peer has left.
    #[cold]
    fn first_ring(&self, wait: Wait) -> io::Result<Option<&Shared>> {
        if self.closed.load(Acquire) || !self.greet(wait)? {
            return Ok(None);
        }
        Ok(self.ring.get())
    }

    /// Sends what is no short message.
    #[inline(never)]
    fn send_pieces(&self, ring: &Shared, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let total = pieces.iter().map(|piece| piece.len()).sum();
        let sent = ring.put(pieces, 0)?;
        if sent == total { Ok(sent) } else { self.send_later(ring, pieces, sent, total, wait) }
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
            let full = self.watched.load(Acquire) && ring.about_to_write(Sleep::OnDescriptor)?;
            let more = if full { 0 } else { ring.put(pieces, sent)? };
            return match sent + more {
                // A peer whose process ended makes no room and says nothing.
                0 if !self.lives()? => Err(io::ErrorKind::BrokenPipe.into()),
                sent => partly(sent),
            };
        }
        let deadline = after(self.send_timeout.load(Relaxed));
        while sent < total {
            if !self.look(ring, &self.writer, || ring.has_room() != Ok(false) || self.ended(ring)) {
                self.sleep_to_write(ring, Deadline::after(GLANCE).earlier(deadline))?;
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

    /// Sleeps on the word until there is room, the peer ends or `until`.
    fn sleep_to_write(&self, ring: &Shared, until: Deadline) -> io::Result<()> {
        let watch = self.watch.get();
        if let Some(watch) = watch {
            watch.wants_room(true);
        }
        let may = ring.about_to_write(Sleep::OnWord);
        if may == Ok(true) && !self.closed.load(Acquire) && !watch.is_some_and(|watch| watch.is_gone()) {
            ring.sleep_to_write(until);
        }
        if let Some(watch) = watch {
            watch.wants_room(false);
        }
        may?;
        Ok(())
    }

    /// Looks for a while, if the peer was last seen on another processor; says whether it is `ready`. Without a look it is not, and who is
    /// about to sleep finds out.
    #[inline]
    fn look(&self, ring: &Shared, looking: &Looking, ready: impl Fn() -> bool) -> bool {
        if self.spin.is_zero() {
            return false;
        }
        let shares = looking.shares.load(Relaxed);
        if shares > 0 {
            looking.shares.store(shares - 1, Relaxed);
            return false;
        }
        cold_path();
        self.look_closely(ring, looking, ready)
    }

    /// As [`look`](Self::look), when it is to be found out anew where the two run.
    #[inline(never)]
    fn look_closely(&self, ring: &Shared, looking: &Looking, ready: impl Fn() -> bool) -> bool {
        let processor = here();
        // One thread at a time waits on a side.
        if looking.processor.load(Relaxed) != processor {
            looking.processor.store(processor, Relaxed);
            ring.outward().store(Word::Processor, processor);
        }
        if ring.inward().load(Word::Processor) == processor {
            looking.shares.store(SHARES, Relaxed);
            return false;
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
        ring.closed() || self.closed.load(Acquire) || self.watch.get().is_some_and(|watch| watch.is_gone())
    }

    fn end_watch(&self) {
        if let Some(watch) = self.watch.get() {
            watch.end(self.socket.as_fd());
        }
    }

    /// Whether the peer still holds its end, without taking anything off the bell.
    fn lives(&self) -> io::Result<bool> {
        let mut watched = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            match rustix::event::poll(&mut watched, Some(&now)) {
                // A signal says nothing about the peer.
                Err(Errno::INTR) => continue,
                looked => {
                    looked?;
                    break;
                }
            }
        }
        Ok(watched[0].revents().is_empty())
    }
}

fn partly(sent: usize) -> io::Result<usize> {
    if sent > 0 { Ok(sent) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

#[inline(always)]
fn after(timeout: u64) -> Deadline {
    Deadline::from_now(timeout).1
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
            None => match self.first_ring(wait)? {
                Some(ring) => ring,
                None => return Ok(0),
            },
        };
        if ring.available()? == 0 {
            return self.recv_later(ring, into, wait);
        }
        receiving::take(ring, into)
    }

    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let Some(ring) = self.ring.get() else { return Err(io::ErrorKind::NotConnected.into()) };
        if self.ended(ring) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if let [piece] = pieces
            && ring.put_whole(piece)?
        {
            return Ok(piece.len());
        }
        self.send_pieces(ring, pieces, wait)
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
        // The poller hears of the end as well.
        self.end_watch();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for SegmentStream {
    fn drop(&mut self) {
        self.shutdown();
        self.end_watch();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "stream_tests.rs"]
mod tests;
