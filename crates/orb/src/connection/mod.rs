//! One connection, used alike by the side that opened it and the side that accepted it.
//!
//! There is no reader thread. Whoever waits for a reply reads: the first waiter holds the inbox and delivers what it
//! reads for others to their slots; when its own reply is there it hands the inbox over. A server's connection has a thread
//! that always reads; with bidirectional GIOP both meet on one connection and the same rule holds.
//!
//! ```text
//!   call ──► Outbox (one lock, one send) ──► wire
//!   call ◄── Inbox (held by the first waiter) ◄── wire      Slots: who waits for which request id
//! ```

mod inbox;
mod outbox;
mod slots;

pub(crate) use inbox::{Arrived, Inbox, ReadError, STAY};
pub(crate) use outbox::SendError;
pub(crate) use slots::{Slot, Slots};

use isorb_cdr::{Message, Narrow, Text, Version, Wide};
use isorb_giop::MessageKind;
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Stream, Wait};
use outbox::Outbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Limits of a connection, from the ORB's configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest message, in bytes, either way.
    pub message: usize,
    /// Messages longer than this go out in fragments; 0 for never.
    pub fragment: usize,
    /// How long a send may block on a peer that does not read.
    pub send_timeout: Option<Duration>,
}

/// Which side opened the connection; request ids of the two sides differ in their low bit (clause 9.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Connector,
    Acceptor,
}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    side: Side,
    outbox: PiMutex<Outbox>,
    inbox: PiMutex<Inbox>,
    slots: Slots,
    state: AtomicU8,
    /// Calls that chose this connection and have not returned.
    pub in_flight: AtomicU32,
    /// When the newest call began, in nanoseconds.
    used_at: AtomicU64,
    /// Agreed code sets: 0 none yet, else 1 + bits of [`encode_text`].
    code_sets: AtomicU8,
    /// The peer agreed to take requests over this connection too.
    pub bidirectional: AtomicBool,
    pool: Arc<BufferPool>,
    limits: Limits,
}

const OPEN: u8 = 0;
/// The peer said CloseConnection: what it has not answered it has not processed.
const CLOSED_BY_PEER: u8 = 1;
const BROKEN: u8 = 2;

impl Connection {
    pub fn new(stream: Box<dyn Stream>, side: Side, limits: Limits, pool: Arc<BufferPool>) -> Connection {
        let _ = stream.set_send_timeout(limits.send_timeout);
        Connection {
            stream,
            side,
            outbox: PiMutex::new(Outbox::default()),
            inbox: PiMutex::new(Inbox::new(&pool, limits.message)),
            slots: Slots::new(side),
            state: AtomicU8::new(OPEN),
            in_flight: AtomicU32::new(0),
            used_at: AtomicU64::new(now_ns()),
            code_sets: AtomicU8::new(0),
            bidirectional: AtomicBool::new(false),
            pool,
            limits,
        }
    }

    pub fn peer(&self) -> &str {
        self.stream.peer()
    }

    pub fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) == OPEN
    }

    /// Whether the peer closed in order, so that a request without an answer was not processed.
    pub fn closed_in_order(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED_BY_PEER
    }

    /// The code sets agreed on this connection.
    pub fn code_sets(&self) -> Option<(Narrow, Wide)> {
        match self.code_sets.load(Ordering::Acquire) {
            0 => None,
            bits => Some((
                if bits & 2 == 0 { Narrow::Latin1 } else { Narrow::Utf8 },
                if bits & 4 == 0 { Wide::None } else { Wide::Utf16 },
            )),
        }
    }

    /// Remembers the code sets that the first request announced.
    pub fn set_code_sets(&self, narrow: Narrow, wide: Wide) {
        let bits = 1 | u8::from(narrow == Narrow::Utf8) << 1 | u8::from(wide == Wide::Utf16) << 2;
        self.code_sets.store(bits, Ordering::Release);
    }

    /// How text travels in a message of `version` on this connection.
    pub fn text(&self, version: Version) -> Text {
        match self.code_sets() {
            Some((narrow, wide)) => Text { version, narrow, wide },
            None => Text::fallback(version),
        }
    }

    /// Takes a place to wait for a reply in.
    pub fn claim(&self) -> Option<Slot<'_>> {
        self.slots.claim()
    }

    /// Sends a message, whole, waiting for the peer as long as the send time-out says.
    ///
    /// # Real-time
    /// One PI lock, one system call when the socket takes it all.
    pub fn send(&self, message: &Message<'_>) -> Result<(), SendError> {
        if !self.is_open() {
            return Err(SendError::Closed);
        }
        let sent = outbox::send(&mut self.outbox.lock(), &*self.stream, message, self.limits.fragment);
        if sent.is_err() {
            self.break_off();
        }
        sent
    }

    /// Sends a whole message of the protocol's own, such as CloseConnection.
    pub fn send_control(&self, message: &[u8]) -> Result<(), SendError> {
        outbox::send_bytes(&mut self.outbox.lock(), &*self.stream, message)
    }

    /// Tells the peer that nobody waits for a reply any more.
    #[cold]
    pub fn cancel(&self, version: Version, id: u32) {
        let _ = self.send_control(&isorb_giop::message::cancel_request(version, id));
    }

    /// Sends a message without waiting for the peer: what the socket does not take is kept, up to one message's limit.
    /// `Ok(true)` when nothing is left to send.
    pub fn send_or_keep(&self, message: &Message<'_>) -> Result<bool, SendError> {
        if !self.is_open() {
            return Err(SendError::Closed);
        }
        let mut outbox = self.outbox.lock();
        let limits = &self.limits;
        let sent = outbox::send_or_keep(&mut outbox, &*self.stream, message, limits.fragment, limits.message);
        if sent.is_err() {
            drop(outbox);
            self.break_off();
        }
        sent
    }

    /// Sends what [`Connection::send_or_keep`] kept; `Ok(true)` when nothing is left.
    pub fn flush(&self) -> Result<bool, SendError> {
        let sent = outbox::flush(&mut self.outbox.lock(), &*self.stream);
        if sent.is_err() {
            self.break_off();
        }
        sent
    }

    /// Reads the next message into `into`, as the only reader for as long as that takes.
    pub fn read(&self, wait: Wait, into: &mut Buffer) -> Result<Arrived, ReadError> {
        let read = self.inbox.lock().next(&*self.stream, &self.pool, wait, Deadline::NONE, None, into);
        self.note(&read);
        read
    }

    /// Reads a message that has arrived, and says whether it is known that nothing was behind it, the end of the stream
    /// aside.
    pub fn read_arrived(&self, into: &mut Buffer) -> (Result<Arrived, ReadError>, bool) {
        let mut inbox = self.inbox.lock();
        let read = inbox.next(&*self.stream, &self.pool, Wait::No, Deadline::NONE, None, into);
        let last = inbox.emptied && inbox.is_empty() && self.stream.short_is_all();
        drop(inbox);
        self.note(&read);
        (read, last)
    }

    /// Waits for the reply to the request of `slot`, reading for others meanwhile. The message lies in `into`. What is
    /// no reply is handed to `other`, with the inbox free, and may be answered there.
    pub fn await_reply(
        &self,
        slot: &Slot<'_>,
        deadline: Deadline,
        timeout: Option<Duration>,
        into: &mut Buffer,
        other: &mut dyn FnMut(Arrived, &mut Buffer),
    ) -> Result<Arrived, ReadError> {
        loop {
            let mut held = self.inbox.try_lock().ok();
            if held.is_none() {
                // Announce the wait first, then look again: a holder that leaves in between sees either us or an empty lock.
                let waiting = slot.announce();
                fence(Ordering::SeqCst);
                held = self.inbox.try_lock().ok();
                if held.is_none() {
                    let woken = waiting.park(deadline);
                    drop(waiting);
                    if let Some(arrived) = slot.arrived(into) {
                        self.hand_over();
                        return Ok(arrived);
                    }
                    if !woken || self.closed_in_order() {
                        self.hand_over();
                        return Err(if woken { ReadError::ClosedInOrder } else { ReadError::TimedOut });
                    }
                    // Woken to read. That may be because a send failed: what arrived before is read all the same, since it
                    // may be the reply, or CloseConnection.
                    continue;
                }
            }
            let Some(mut inbox) = held else { continue };
            // Somebody may have delivered here before we held the inbox.
            if let Some(arrived) = slot.arrived_hint(into) {
                drop(inbox);
                self.hand_over();
                return Ok(arrived);
            }
            let read = inbox.next(&*self.stream, &self.pool, Wait::Block, deadline, timeout, into);
            self.note(&read);
            if let Ok(arrived) = &read
                && matches!(arrived.header.kind, MessageKind::Reply | MessageKind::LocateReply)
                && !arrived.is_reply_to(slot.id())
            {
                self.slots.deliver(*arrived, into, &self.pool);
                continue;
            }
            drop(inbox);
            self.hand_over();
            match read {
                Ok(arrived) if arrived.is_reply_to(slot.id()) => return Ok(arrived),
                Ok(arrived) => other(arrived, into),
                // The end of the stream follows CloseConnection, which `other` took.
                Err(ReadError::End | ReadError::Lost) if self.closed_in_order() => {
                    return Err(ReadError::ClosedInOrder);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the peer has left the connection open, as far as can be known without waiting. For a connection on which
    /// nobody waited for a while, before a request is trusted to it.
    ///
    /// # Real-time
    /// One receive system call that does not wait.
    #[cold]
    pub fn still_open(&self) -> bool {
        // One with bidirectional GIOP is read at all times; one whose inbox is held is being read.
        if !self.bidirectional.load(Ordering::Acquire)
            && let Ok(mut inbox) = self.inbox.try_lock()
        {
            let mut block = inbox::fresh_block(&self.pool);
            loop {
                let read = inbox.next(&*self.stream, &self.pool, Wait::No, Deadline::NONE, None, &mut block);
                match read.map(|arrived| (arrived, arrived.header.kind)) {
                    Ok((arrived, MessageKind::Reply | MessageKind::LocateReply)) => {
                        self.slots.deliver(arrived, &mut block, &self.pool);
                    }
                    Ok((_, MessageKind::CancelRequest)) => {}
                    Ok((_, MessageKind::CloseConnection)) => self.close_in_order(),
                    Err(ReadError::WouldBlock) => break,
                    Ok(_) | Err(_) => {
                        self.break_off();
                        break;
                    }
                }
            }
            drop(inbox);
            self.hand_over();
        }
        self.is_open()
    }

    /// Notes that a call begins at `now_ns`; whether the last one began more than `rest_ns` before.
    #[inline]
    pub fn rested(&self, now_ns: u64, rest_ns: u64) -> bool {
        let before = self.used_at.load(Ordering::Relaxed);
        self.used_at.store(now_ns, Ordering::Relaxed);
        now_ns.saturating_sub(before) >= rest_ns
    }

    /// Delivers a reply that a reader other than a waiter read.
    pub fn deliver(&self, arrived: Arrived, message: &mut Buffer) {
        self.slots.deliver(arrived, message, &self.pool);
    }

    /// The peer announced that it closes: nothing more is sent, waiting calls learn that they were not processed.
    pub fn close_in_order(&self) {
        // Also where it broke already: what is read from the stream is older than the break, and tells more.
        self.state.store(CLOSED_BY_PEER, Ordering::Release);
        self.stream.shutdown();
        self.slots.wake_all();
    }

    /// Gives the connection up: both directions end, everybody who waits is woken.
    pub fn break_off(&self) {
        let _ = self.state.compare_exchange(OPEN, BROKEN, Ordering::AcqRel, Ordering::Acquire);
        self.stream.shutdown();
        self.slots.wake_all();
    }

    fn note(&self, read: &Result<Arrived, ReadError>) {
        match read {
            // A peer that broke the protocol is told so first, by whoever reads.
            Ok(_) | Err(ReadError::TimedOut | ReadError::WouldBlock | ReadError::Protocol(_)) => {}
            Err(_) => self.break_off(),
        }
    }

    /// Lets another waiter read.
    #[inline]
    fn hand_over(&self) {
        fence(Ordering::SeqCst);
        if self.slots.any_waiting() {
            self.slots.wake_one();
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Connection { side, stream, .. } = self;
        f.debug_struct("Connection").field("side", side).field("peer", &stream.peer()).finish_non_exhaustive()
    }
}
