//! One connection: the peer's segment as this side writes it, and the news of both sides.
//!
//! The ring writes payload into a copy of the peer's segment that this side keeps. A flush has the
//! device write it to the peer's memory, and sends the news after it. So a device that is busy
//! delays a flush and blocks no thread; what the ring writes meanwhile goes with the next flush.

use crate::device::DeviceHandle;
use crate::ffi::{Endpoint, Info, Region};
use crate::hello::{End, Hello, News};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use isorb_transport::segment::OwnSegment;
use isorb_transport::segment::medium::{ReceiveSegment, Sleep, Word};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, send, socketpair};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};
use std::time::Duration;

/// Messages that a connection has room for at a time, and the octets of each. One that is longer
/// than news is an error of the device.
const SLOTS: usize = 64;
const SLOT: usize = 16;
/// The context of a write, in the place of a slot.
const WRITE: usize = 0xff;
/// The numbers of the regions that an endpoint keeps.
const MESSAGES: usize = 0;
/// How long the peer of a closed connection may take to acknowledge what it has received.
const LINGER: Duration = Duration::from_secs(10);

/// How a thread of this side announced that it sleeps, and the sleep that was signalled last.
#[derive(Debug, Default)]
struct Announced {
    sleep: AtomicU32,
    rung: AtomicU32,
}

pub(crate) struct Connection {
    id: u64,
    handle: Arc<DeviceHandle>,
    own: Arc<OwnSegment>,
    messages: Arc<OwnSegment>,
    /// The other end belongs to the stream: it carries signals, and hangs up when either side ends.
    doorbell: OwnedFd,
    /// Octets that the peer's segment may have.
    most: usize,
    reader: Announced,
    writer: Announced,
    state: PiMutex<State>,
}

struct State {
    endpoint: Option<Endpoint>,
    peer: Option<Hello>,
    connected: bool,
    /// News has arrived.
    answered: bool,
    outgoing: Option<Outgoing>,
    news: News,
    /// The news differ from those that were sent last.
    unsent: bool,
    /// What the peer said of its end.
    received: End,
    failure: Option<io::Error>,
    /// The stream has ended, and this side waits until then for the peer.
    linger: Option<Deadline>,
}

/// The copy of the peer's segment, and the part of it that was not written there yet.
struct Outgoing {
    copy: Arc<OwnSegment>,
    region: usize,
    peer: Hello,
    at: u32,
    pending: u32,
}

impl Debug for Connection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a connection needs next.
pub(crate) enum Outcome {
    /// Nothing, until something happens.
    Settled,
    /// To be tried again, at the latest at this time.
    Unsettled(Deadline),
    /// To be closed.
    Over,
}

impl Connection {
    /// A connection that is not open yet, the hello for its peer, and the stream's end of its
    /// doorbell.
    pub fn new(
        id: u64,
        handle: Arc<DeviceHandle>,
        info: &Info,
        bytes: usize,
        most: usize,
        peer: Option<Hello>,
    ) -> io::Result<(Connection, Hello, OwnedFd)> {
        let device = handle.device();
        let mut endpoint = Endpoint::open(device, info)?;
        let (own, messages) = (Arc::new(OwnSegment::new(bytes)?), Arc::new(OwnSegment::new(4096)?));
        // No other process can guess a key, so that only this peer writes into the segment.
        endpoint.keep(Region::register(device, messages.clone(), false, random()?)?);
        let segment = Region::register(device, own.clone(), true, random()?)?;
        let hello = Hello { capacity: bytes as u32, key: segment.key, address: segment.address };
        endpoint.keep(segment);
        let flags = SocketFlags::CLOEXEC;
        let (doorbell, socket) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for slot in 0..SLOTS {
            endpoint.post_receive(MESSAGES, slot * SLOT..(slot + 1) * SLOT, context(id, slot))?;
        }
        let state = PiMutex::new(State {
            endpoint: Some(endpoint),
            peer,
            connected: false,
            answered: false,
            outgoing: None,
            news: News::default(),
            unsent: false,
            received: End::Open,
            failure: None,
            linger: None,
        });
        let (reader, writer) = Default::default();
        Ok((Connection { id, handle, own, messages, doorbell, most, reader, writer, state }, hello, socket))
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// The descriptor that hangs up when the stream has ended.
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// Works on the endpoint, unless it is closed.
    pub fn with_endpoint<R>(&self, work: impl FnOnce(&Endpoint) -> io::Result<R>) -> io::Result<R> {
        let state = self.state.lock();
        work(state.endpoint.as_ref().ok_or(io::ErrorKind::ConnectionAborted)?)
    }

    /// The device is connected; the accepting side sent this `message`. It sends its first news
    /// when it first receives, and then the connecting side knows that both may send.
    pub fn connected(&self, message: &[u8]) {
        let mut state = self.state.lock();
        state.connected = true;
        if state.peer.is_some() {
            return self.ring();
        }
        match Hello::decode(message, self.most) {
            Ok(hello) => state.peer = Some(hello),
            Err(error) => self.fail_locked(&mut state, error),
        }
    }

    /// Ends the connection: the peer has gone, or broke the protocol.
    pub fn fail(&self, error: Option<io::Error>) {
        let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
        self.fail_locked(&mut self.state.lock(), error);
    }

    fn fail_locked(&self, state: &mut State, error: io::Error) {
        state.failure.get_or_insert(error);
        self.hang_up();
    }

    /// Threads of this side that wait see the end, after the octets that arrived before it.
    fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.doorbell, Shutdown::Both);
    }

    /// The stream of this side has ended.
    pub fn ended(&self) {
        let mut state = self.state.lock();
        if !state.connected {
            return self.fail_locked(&mut state, io::ErrorKind::ConnectionAborted.into());
        }
        state.linger.get_or_insert(Deadline::after(LINGER));
        state.set_end(End::Closed);
        self.flush(&mut state);
    }

    /// A message is in this slot.
    pub fn received(&self, slot: usize, length: usize) {
        let mut text = [0; News::LENGTH];
        self.messages.read((slot * SLOT) as u32, &mut text);
        let mut state = self.state.lock();
        let news = if length == News::LENGTH { News::decode(&text) } else { None };
        let Some(news) = news else {
            let sentence = "the peer sent a message that is none of the fabric protocol";
            return self.fail_locked(&mut state, io::Error::new(io::ErrorKind::InvalidData, sentence));
        };
        if let Some(endpoint) = &state.endpoint
            && let Err(error) =
                endpoint.post_receive(MESSAGES, slot * SLOT..(slot + 1) * SLOT, context(self.id, slot))
        {
            self.fail_locked(&mut state, error);
        }
        self.deliver(news);
        if !state.answered {
            state.answered = true;
            self.ring();
        }
        if news.end > state.received {
            state.received = news.end;
            // All that the peer wrote before has arrived.
            state.set_end(End::Acknowledged);
            self.flush(&mut state);
            self.hang_up();
        }
    }

    /// Shows the ring what the peer has said, and wakes the threads that wait for it. The numbers
    /// may be any: the ring ends the stream where they cannot be.
    fn deliver(&self, news: News) {
        self.own.store(Word::Credit, news.credit);
        self.own.store(Word::Head, news.head);
        if news.end != End::Open {
            self.own.store(Word::Closed, 1);
        }
        // A thread announces its sleep before it looks at the words, with a fence between. So one
        // of the two sees the other.
        fence(SeqCst);
        for (announced, word) in [(&self.reader, Word::Head), (&self.writer, Word::Credit)] {
            let sleep = announced.sleep.load(Acquire);
            if sleep & 3 == Sleep::OnWord as u32 {
                self.own.wake_own(word);
            } else if sleep & 3 == Sleep::OnDescriptor as u32 && announced.rung.swap(sleep, Relaxed) != sleep
            {
                self.ring();
            }
        }
    }

    fn ring(&self) {
        // A doorbell that is full was announced already.
        let _ = send(&self.doorbell, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Sends what the device did not take before, and says what the connection needs next.
    pub fn tend(&self) -> Outcome {
        let mut state = self.state.lock();
        if state.failure.is_some() {
            return Outcome::Over;
        }
        self.flush(&mut state);
        let unflushed = state.is_unflushed();
        match state.linger {
            _ if state.failure.is_some() => Outcome::Over,
            Some(_) if state.received == End::Acknowledged && !unflushed => Outcome::Over,
            Some(until) if until.is_past() => Outcome::Over,
            // The device is busy; it does not say when it no longer is.
            linger if unflushed => Outcome::Unsettled(
                Deadline::after(Duration::from_millis(1)).earlier(linger.unwrap_or(Deadline::NONE)),
            ),
            Some(until) => Outcome::Unsettled(until),
            None => Outcome::Settled,
        }
    }

    /// Closes the endpoint. Only the device's thread calls it, since libfabric reports events of
    /// the endpoint to it.
    pub fn close(&self) {
        self.hang_up();
        let endpoint = self.state.lock().endpoint.take();
        drop(endpoint);
    }

    fn flush(&self, state: &mut State) {
        if let Err(error) = state.flush(self.id)
            && error.kind() != io::ErrorKind::WouldBlock
        {
            self.fail_locked(state, error);
        }
    }

    /// Changes the state by a thread of the stream, flushes it, and leaves the rest to the device's
    /// thread.
    pub fn flush_from_stream(&self) {
        let mut state = self.state.lock();
        self.flush(&mut state);
        let unsettled = state.is_unflushed();
        drop(state);
        if unsettled {
            self.handle.tend_later(self.id);
        }
    }

    /// Copies payload of the ring, for the next flush.
    pub fn write(&self, at: u32, bytes: &[u8]) {
        let mut state = self.state.lock();
        let Some(outgoing) = &mut state.outgoing else { return };
        // Credit for octets that this side has not even sent.
        if bytes.len() as u32 > outgoing.peer.capacity - outgoing.pending {
            let sentence = "the peer gave credit for octets that were not sent";
            let error = io::Error::new(io::ErrorKind::InvalidData, sentence);
            return self.fail_locked(&mut state, error);
        }
        outgoing.copy.write(at, bytes);
        outgoing.pending += bytes.len() as u32;
    }

    /// Takes a word of the ring: an announcement for this side, or news for the next flush.
    pub fn store(&self, word: Word, value: u32) {
        match word {
            Word::Reader => return self.reader.sleep.store(value, Release),
            Word::Writer => return self.writer.sleep.store(value, Release),
            // The peer runs on a processor of its own.
            Word::Processor => return,
            _ => {}
        }
        let mut state = self.state.lock();
        match word {
            Word::Head => state.news.head = value,
            Word::Credit => state.news.credit = value,
            _ => return state.set_end(End::Closed),
        }
        state.unsent = true;
    }

    /// The segment of this side.
    pub fn own(&self) -> &Arc<OwnSegment> {
        &self.own
    }

    /// Makes the copy of the peer's segment, and tells the peer that this side receives. Where the
    /// peer has gone already, what it sent before can still be received. `None` when there was
    /// never a connection.
    pub fn attach(&self) -> io::Result<Option<u32>> {
        let mut state = self.state.lock();
        let failure = state.failure.as_ref().map(|error| io::Error::new(error.kind(), error.to_string()));
        let Some(peer) = state.peer else { return failure.map_or(Ok(None), Err) };
        if failure.is_none()
            && let Some(endpoint) = state.endpoint.as_mut()
        {
            let copy = Arc::new(OwnSegment::new(peer.capacity as usize)?);
            let region = Region::register(self.handle.device(), copy.clone(), false, random()?)?;
            let region = endpoint.keep(region);
            state.outgoing = Some(Outgoing { copy, region, peer, at: 0, pending: 0 });
            state.unsent = true;
        }
        drop(state);
        self.flush_from_stream();
        Ok(Some(peer.capacity))
    }
}

impl State {
    fn set_end(&mut self, end: End) {
        if end > self.news.end {
            self.news.end = end;
            self.unsent = true;
        }
    }

    fn is_unflushed(&self) -> bool {
        self.endpoint.is_some()
            && self.connected
            && (self.unsent || self.outgoing.as_ref().is_some_and(|outgoing| outgoing.pending > 0))
    }

    /// Has the device write the payload, then the news of it.
    fn flush(&mut self, id: u64) -> io::Result<()> {
        let Some(endpoint) = self.endpoint.as_ref().filter(|_| self.connected) else { return Ok(()) };
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.flush(endpoint, id)?;
        }
        if self.unsent {
            endpoint.send(&self.news.encode())?;
            self.unsent = false;
        }
        Ok(())
    }
}

impl Outgoing {
    fn flush(&mut self, endpoint: &Endpoint, id: u64) -> io::Result<()> {
        while self.pending > 0 {
            let n = self.pending.min(self.peer.capacity - self.at);
            let (at, end) = (self.at as usize, (self.at + n) as usize);
            // The peer's device refuses what lies outside its segment.
            let address = self.peer.address.wrapping_add(u64::from(self.at));
            endpoint.write(self.region, at..end, address, self.peer.key, context(id, WRITE))?;
            self.at = (self.at + n) & (self.peer.capacity - 1);
            self.pending -= n;
        }
        Ok(())
    }
}

fn context(id: u64, slot: usize) -> usize {
    (id as usize) << 8 | slot
}

/// The connection, and the slot if a message was received.
pub(crate) fn of_context(context: usize) -> (u64, Option<usize>) {
    let slot = context & 0xff;
    ((context >> 8) as u64, (slot < SLOTS).then_some(slot))
}

/// A key that no other process can guess.
fn random() -> io::Result<u64> {
    let mut key = [0; 8];
    let n = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    // The kernel gives so few octets whole.
    if n == key.len() { Ok(u64::from_ne_bytes(key)) } else { Err(io::ErrorKind::Interrupted.into()) }
}
