//! A connection over segments, as a stream.
//!
//! A waiting thread [spins](super::spin) for a moment, if the peer runs on another processor. Then
//! it sleeps on the word that will change, the sleep with the cheapest wake-up. The [timeout
//! monitor](super::timeout_monitor) wakes it when the peer's process ends or its time is nearly up.
//! Where a poller watches the socket, the receiver neither spins nor sleeps on the word, but waits
//! on the socket; the threads behind the poller may poll the ring before ([`Polled`]).

mod lending;
mod polled;
mod receiving;

use super::arena::{Arena, LentPart};
use super::handshake::{self, Terms};
use super::medium::{Join, Joined, PeerSegment, ReceiveSegment, Sleep, Word};
use super::ring::ProtocolViolation;
use super::spin::{Spin, SpinBudget, SpinWait};
use super::timeout_monitor::MonitoredWait;
use crate::{PeerIdentity, Polled, Stream, Wait, rendezvous};
use isorb_rt::net::{Interest, wait_ready};
use isorb_rt::time::{Deadline, now_ns};
use polled::PolledState;
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

/// Longer pieces of a message may lie in the arena.
const LENT_FROM: usize = 4096;
/// The longest sleep of a sender that waits for room. In tests the wake-up must come from
/// elsewhere.
const MAX_ROOM_WAIT: Duration =
    if cfg!(test) { Duration::from_secs(3600) } else { Duration::from_millis(100) };
/// Waits of two ends on one processor until they check again where they run.
const SHARED_WAITS: u32 = 7;
/// Spins between two readings of the clock.
const SPINS: u32 = 64;
/// A time-out in nanoseconds: no limit.
const NO_LIMIT: u64 = u64::MAX;

/// A connection over the segments of a medium, which `Terms` join in shared memory and another
/// [`Join`] over a network.
#[derive(Debug)]
pub struct SegmentStream<J: Join> {
    socket: Arc<OwnedFd>,
    join: J,
    peer: String,
    /// Set by the handshake.
    pub(super) ring: OnceLock<Joined<J>>,
    /// Set by the handshake, unless a poller watches the socket.
    monitored: OnceLock<MonitoredWait>,
    watched: AtomicBool,
    polled: PolledState,
    closed: AtomicBool,
    recv_timeout: AtomicU64,
    send_timeout: AtomicU64,
    reader: SpinState,
    writer: SpinState,
}

/// How one side of a stream waits.
#[derive(Debug)]
#[repr(align(64))]
struct SpinState {
    budget: SpinBudget,
    /// The processor that this side announced last.
    processor: AtomicU32,
    /// Waits until this side checks again whether both share a processor.
    shared_waits: AtomicU32,
}

impl SpinState {
    fn new(spin: Spin) -> SpinState {
        SpinState {
            budget: SpinBudget::new(spin),
            processor: AtomicU32::new(0),
            shared_waits: AtomicU32::new(0),
        }
    }

    /// A wait ended with a sleep, which may have followed a spin in vain.
    #[inline]
    fn slept(&self, spun: Spun) {
        if let Spun::InVain(wait) = spun {
            self.budget.slept(&wait, now_ns());
        }
    }
}

/// The result of a spin.
#[derive(Clone, Copy)]
enum Spun {
    /// It saw what it waited for.
    Ready,
    /// It did not, within its budget.
    InVain(SpinWait),
    /// There was none.
    Not,
}

impl From<ProtocolViolation> for io::Error {
    fn from(_: ProtocolViolation) -> io::Error {
        io::ErrorKind::InvalidData.into()
    }
}

impl SegmentStream<Terms> {
    /// The connecting side: sends a hello and waits until `deadline` for the answer.
    pub(crate) fn connect(
        socket: OwnedFd,
        terms: Terms,
        spin: Spin,
        peer: String,
        deadline: Deadline,
    ) -> io::Result<SegmentStream<Terms>> {
        terms.check_peer(&socket)?;
        let offered = handshake::offer(&socket, &terms)?;
        if !wait_ready(&socket, Interest::READ, deadline)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let answer = handshake::receive_hello(&socket)?.ok_or(io::ErrorKind::ConnectionReset)?;
        let socket = Arc::new(socket);
        let ring = handshake::join(offered, answer, socket.clone(), &terms)?;
        let stream = SegmentStream::new(socket, terms, spin, peer);
        stream.start(ring)?;
        Ok(stream)
    }

    /// The accepting side. It answers the hello when it first receives, so that an accept never
    /// waits for a client.
    pub(crate) fn accepted(socket: OwnedFd, terms: Terms, spin: Spin) -> io::Result<SegmentStream<Terms>> {
        let process = terms.check_peer(&socket)?;
        Ok(SegmentStream::new(Arc::new(socket), terms, spin, format!("segment: process {process}")))
    }
}

impl<J: Join> SegmentStream<J> {
    /// A stream that joins its segments in the first receive after `socket` became ready to
    /// receive. Until then a send is `NotConnected`. A hang-up of the socket ends the stream; what
    /// arrives on it later is signals of the doorbell.
    ///
    /// # Real-time
    /// Allocates.
    pub fn new(socket: Arc<OwnedFd>, join: J, spin: Spin, peer: String) -> SegmentStream<J> {
        SegmentStream {
            socket,
            join,
            peer,
            ring: OnceLock::new(),
            monitored: OnceLock::new(),
            watched: AtomicBool::new(false),
            polled: PolledState::default(),
            closed: AtomicBool::new(false),
            recv_timeout: AtomicU64::new(NO_LIMIT),
            send_timeout: AtomicU64::new(NO_LIMIT),
            reader: SpinState::new(spin),
            writer: SpinState::new(spin),
        }
    }

    fn start(&self, ring: Joined<J>) -> io::Result<()> {
        if !self.watched.load(Acquire) {
            let monitored = MonitoredWait::new(ring.inward().clone(), self.socket.as_fd())?;
            let _ = self.monitored.set(monitored);
        }
        let processor = current_processor();
        self.reader.processor.store(processor, Relaxed);
        ring.outward().store(Word::Processor, processor);
        let _ = self.ring.set(ring);
        Ok(())
    }

    /// Waits until the segments can be joined, and joins them. `false` when the peer has left.
    #[cold]
    fn join(&self, wait: Wait) -> io::Result<bool> {
        if wait == Wait::Block
            && !wait_ready(&*self.socket, Interest::READ, after(self.recv_timeout.load(Relaxed)))?
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(ring) = self.join.join(&self.socket)? else { return Ok(false) };
        self.start(ring)?;
        // A shutdown meanwhile did not know the peer's segment yet.
        if self.closed.load(Acquire) {
            self.shutdown();
        }
        Ok(true)
    }

    /// Completes the handshake; `None` when the peer has left.
    #[cold]
    fn ring_after_handshake(&self, wait: Wait) -> io::Result<Option<&Joined<J>>> {
        if self.closed.load(Acquire) || !self.join(wait)? {
            return Ok(None);
        }
        Ok(self.ring.get())
    }

    /// Sends any message but a single short piece.
    #[inline(never)]
    fn send_pieces(&self, ring: &Joined<J>, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        if let Some(arena) = ring.outward().arena()
            && pieces.iter().any(|piece| arena.contains(piece))
        {
            cold_path();
            return self.send_lent(ring, arena, pieces, wait);
        }
        let total = pieces.iter().map(|piece| piece.len()).sum();
        let sent = ring.put(pieces, 0)?;
        if sent == total { Ok(sent) } else { self.send_remaining(ring, pieces, sent, total, wait) }
    }

    /// Sends the octets that did not fit.
    #[cold]
    fn send_remaining(
        &self,
        ring: &Joined<J>,
        pieces: &[IoSlice<'_>],
        mut sent: usize,
        total: usize,
        wait: Wait,
    ) -> io::Result<usize> {
        if wait == Wait::No {
            let full = self.watched.load(Acquire) && ring.about_to_write(Sleep::OnDescriptor)?;
            let more = if full { 0 } else { ring.put(pieces, sent)? };
            return match sent + more {
                // A peer that ended makes no room and sends no signal.
                0 if !self.peer_is_alive()? => Err(io::ErrorKind::BrokenPipe.into()),
                sent => sent_or_would_block(sent),
            };
        }
        let deadline = after(self.send_timeout.load(Relaxed));
        while sent < total {
            let ready = || ring.has_room() != Ok(false) || self.ended(ring);
            let spun = self.spin(ring, &self.writer, deadline, ready);
            if !matches!(spun, Spun::Ready) {
                self.sleep_to_write(ring, Deadline::after(MAX_ROOM_WAIT).earlier(deadline), || false)?;
                self.writer.slept(spun);
                if self.ended(ring) || !self.peer_is_alive()? {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            match ring.put(pieces, sent)? {
                0 if self.ended(ring) => return Err(io::ErrorKind::BrokenPipe.into()),
                0 if deadline.is_past() => return sent_or_would_block(sent),
                n => sent += n,
            }
        }
        Ok(sent)
    }

    /// Sleeps on the word until there is room and nothing else is `lacking`, the peer ends or
    /// `until`.
    fn sleep_to_write(
        &self,
        ring: &Joined<J>,
        until: Deadline,
        lacking: impl Fn() -> bool,
    ) -> io::Result<()> {
        let monitored = self.monitored.get();
        if let Some(monitored) = monitored {
            monitored.set_wants_room(true);
        }
        let may = ring.about_to_write_lacking(Sleep::OnWord, lacking);
        if may == Ok(true) && !self.closed.load(Acquire) && !monitored.is_some_and(MonitoredWait::is_gone) {
            ring.sleep_to_write(until);
        }
        if let Some(monitored) = monitored {
            monitored.set_wants_room(false);
        }
        may?;
        Ok(())
    }

    /// Spins for a while, if the peer was last seen on another processor. Without a spin, the
    /// announcement of the sleep checks what the caller waits for.
    #[inline]
    fn spin(
        &self,
        ring: &Joined<J>,
        state: &SpinState,
        deadline: Deadline,
        ready: impl Fn() -> bool,
    ) -> Spun {
        if !state.budget.spin().spins() {
            return Spun::Not;
        }
        let shared = state.shared_waits.load(Relaxed);
        if shared > 0 {
            state.shared_waits.store(shared - 1, Relaxed);
            return Spun::Not;
        }
        cold_path();
        self.spin_measured(ring, state, deadline, ready)
    }

    /// As [`spin`](Self::spin), after checking where both ends run.
    #[inline(never)]
    fn spin_measured(
        &self,
        ring: &Joined<J>,
        state: &SpinState,
        deadline: Deadline,
        ready: impl Fn() -> bool,
    ) -> Spun {
        let processor = current_processor();
        // One thread at a time waits on a side.
        if state.processor.load(Relaxed) != processor {
            state.processor.store(processor, Relaxed);
            ring.outward().store(Word::Processor, processor);
        }
        let woke = ring.take_woke();
        if ring.inward().load(Word::Processor) == processor {
            state.shared_waits.store(SHARED_WAITS, Relaxed);
            return Spun::Not;
        }
        if !state.budget.may_spin() {
            return Spun::Not;
        }
        let mut wait = None;
        loop {
            for _ in 0..SPINS {
                if ready() {
                    state.budget.hit(woke);
                    return Spun::Ready;
                }
                std::hint::spin_loop();
            }
            let now = now_ns();
            let wait = wait.get_or_insert_with(|| state.budget.begin(now, woke));
            if !wait.lasts(now) || deadline.as_ns().is_some_and(|at| at <= now) {
                return Spun::InVain(*wait);
            }
            // With `never_sleep` the peer may move here.
            if ring.inward().load(Word::Processor) == processor {
                return Spun::Not;
            }
        }
    }

    /// Whether one of the two sides has ended the stream.
    #[inline]
    fn ended(&self, ring: &Joined<J>) -> bool {
        ring.closed() || self.closed.load(Acquire) || self.monitored.get().is_some_and(MonitoredWait::is_gone)
    }

    fn end_monitoring(&self) {
        if let Some(monitored) = self.monitored.get() {
            monitored.end(self.socket.as_fd());
        }
    }

    /// Whether the peer still has its end open. Takes no signal off the doorbell.
    fn peer_is_alive(&self) -> io::Result<bool> {
        let mut watched = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            match rustix::event::poll(&mut watched, Some(&now)) {
                // A signal says nothing about the peer.
                Err(Errno::INTR) => continue,
                polled => {
                    polled?;
                    break;
                }
            }
        }
        Ok(watched[0].revents().is_empty())
    }
}

fn sent_or_would_block(sent: usize) -> io::Result<usize> {
    if sent > 0 { Ok(sent) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

#[inline(always)]
fn after(timeout: u64) -> Deadline {
    Deadline::from_now(timeout).1
}

/// One more than the number of the processor that this thread runs on.
fn current_processor() -> u32 {
    rustix::thread::sched_getcpu() as u32 + 1
}

fn in_ns(timeout: Option<Duration>) -> u64 {
    timeout.map_or(NO_LIMIT, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NO_LIMIT))
}

impl<J: Join> Stream for SegmentStream<J> {
    #[inline]
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let ring = match self.ring.get() {
            Some(ring) => ring,
            None => match self.ring_after_handshake(wait)? {
                Some(ring) => ring,
                None => return Ok(0),
            },
        };
        if ring.available()? == 0 {
            return self.recv_waiting(ring, into, wait);
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
            && piece.len() < LENT_FROM
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

    fn identity(&self) -> PeerIdentity {
        PeerIdentity { process: rendezvous::credentials(&self.socket).ok(), ..PeerIdentity::default() }
    }

    fn watched(&self) {
        self.watched.store(true, Release);
        // The poller reports the end as well.
        self.end_monitoring();
    }

    fn polled(&self) -> Option<&dyn Polled> {
        Some(self)
    }

    fn arena(&self) -> Option<&Arc<Arena>> {
        self.ring.get()?.outward().arena()
    }

    fn lent_ahead(&self) -> io::Result<Option<usize>> {
        let Some(ring) = self.ring.get() else { return Ok(None) };
        Ok(ring.lent_ahead()?.map(|octets| octets as usize))
    }

    fn take_lent(&self) -> io::Result<Option<LentPart>> {
        let Some(ring) = self.ring.get() else { return Ok(None) };
        Ok(ring.take_whole()?.map(|lent| LentPart::new(ring.inward().clone(), lent)))
    }

    fn release_lent(&self, part: &LentPart) {
        if let Some(ring) = self.ring.get() {
            ring.release(part.number());
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<J: Join> Drop for SegmentStream<J> {
    fn drop(&mut self) {
        self.shutdown();
        self.end_monitoring();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "stream_tests.rs"]
mod tests;
