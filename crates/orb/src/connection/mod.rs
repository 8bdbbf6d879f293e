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

mod idle;
mod inbox;
mod outbox;
mod reading;
mod slots;
mod table;

pub(crate) use idle::{GRACE_NS, IdleLimits};
pub(crate) use inbox::{Arrived, Inbox, ReadError};
pub(crate) use outbox::SendError;
pub(crate) use slots::{Slot, Slots};
pub(crate) use table::ConnectionTable;

use crate::buffers::{CallBuffers, with_buffers};
use crate::policy::Timeout;
use idle::Activity;
use isorb_cdr::{Message, Narrow, Text, Version, Wide};
use isorb_giop::MessageKind;
use isorb_giop::context::PriorityRange;
use isorb_rt::net::{Interest, Poller, Trigger};
use isorb_rt::sync::{LockError, PiGuard, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Capabilities, Stream, Wait};
use outbox::{Outbox, SendTimeout};
use std::hint::cold_path;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use table::BufferAccount;

/// Limits of a connection, from the ORB's configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest message, in bytes, either way.
    pub message: usize,
    /// Messages longer than this go out in fragments; 0 for never.
    pub fragment: usize,
    /// How long a send may block on a peer that does not read.
    pub send_timeout: Option<Duration>,
    /// How long a message that has begun may take to arrive.
    pub message_timeout: Option<Duration>,
}

/// Which side opened the connection; request ids of the two sides differ in their low bit (clause 9.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Connector,
    Acceptor,
}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    lossy: bool,
    /// Whether a reply may be waited for in vain, without that anybody says so.
    unsure: bool,
    pollable: bool,
    side: Side,
    outbox: PiMutex<Outbox>,
    inbox: PiMutex<Inbox>,
    slots: Slots,
    state: AtomicU8,
    /// Calls that chose this connection and have not returned.
    pub in_flight: AtomicU32,
    /// When the newest call began, in nanoseconds.
    used_at: AtomicU64,
    /// What was heard of the peer.
    activity: Activity,
    /// Requests of the peer that are being served.
    serving: AtomicU32,
    /// Agreed code sets: 0 none yet, else 1 + bits of [`encode_text`].
    code_sets: AtomicU8,
    /// The peer agreed to take requests over this connection too.
    pub bidirectional: AtomicBool,
    /// The peer knows which band of priorities the connection is for.
    pub band_agreed: AtomicBool,
    /// The band that the peer said it is for; low and high end, or [`NO_BAND`].
    band: AtomicU32,
    /// An event was left alone because a caller held the inbox.
    missed: AtomicBool,
    /// The poller of its lane, and its token there.
    watch: PiMutex<Option<(Arc<Poller>, u64)>>,
    /// Number of the lane that it was moved to because of its band. Other readers release it.
    pub lane: OnceLock<u64>,
    pool: Arc<BufferPool>,
    account: Arc<BufferAccount>,
    limits: Limits,
    send_timeout: Timeout,
}

/// No band has negative ends.
const NO_BAND: u32 = u32::MAX;

/// What was read instead of the reply that a call waits for, and the inbox, still held.
type Instead<'c> = (PiGuard<'c, Inbox>, Result<Arrived, ReadError>);

const OPEN: u8 = 0;
/// The peer said CloseConnection: what it has not answered it has not processed.
const CLOSED_BY_PEER: u8 = 1;
const BROKEN: u8 = 2;
/// This side closes: requests that run are answered, others are not taken.
const CLOSING: u8 = 3;

/// How long those who close connections wait for the clients to read what was kept.
const ORDERLY_CLOSE: Duration = Duration::from_secs(1);

impl Connection {
    /// `roll` has the connections that give way when the pool runs low.
    pub fn new(
        stream: Box<dyn Stream>,
        side: Side,
        limits: Limits,
        pool: Arc<BufferPool>,
        table: &Arc<ConnectionTable>,
    ) -> Connection {
        let account = BufferAccount::new(table, &pool);
        let lossy = stream.is_lossy();
        // What comes in datagrams is whole, or lost: fragments would be lost one by one.
        let limits = if lossy { Limits { fragment: 0, ..limits } } else { limits };
        Connection {
            stream,
            lossy,
            unsure: lossy,
            pollable: true,
            side,
            outbox: PiMutex::new(Outbox::new(account.clone())),
            inbox: PiMutex::new(Inbox::new(&pool, limits.message, limits.message_timeout, account.clone())),
            slots: Slots::new(side),
            state: AtomicU8::new(OPEN),
            in_flight: AtomicU32::new(0),
            used_at: AtomicU64::new(now_ns()),
            activity: Activity::default(),
            serving: AtomicU32::new(0),
            code_sets: AtomicU8::new(0),
            bidirectional: AtomicBool::new(false),
            band_agreed: AtomicBool::new(false),
            band: AtomicU32::new(NO_BAND),
            missed: AtomicBool::new(false),
            watch: PiMutex::default(),
            lane: OnceLock::new(),
            pool,
            account,
            limits,
            send_timeout: limits.send_timeout.into(),
        }
    }

    pub fn peer(&self) -> &str {
        self.stream.peer()
    }

    pub fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// As the transport can that it goes over.
    pub fn of(mut self, transport: Capabilities) -> Connection {
        self.unsure |= !(transport.notices_death && transport.reliable);
        self.pollable = transport.pollable;
        self
    }

    /// Whether a reply may stay away for ever: messages get lost, or a peer dies unnoticed.
    #[inline]
    pub fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Whether a lane can watch it.
    pub fn is_pollable(&self) -> bool {
        self.pollable
    }

    /// Whether messages on it may get lost, each by itself.
    #[inline]
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// What it holds of the pool for messages on their way.
    pub fn account(&self) -> &BufferAccount {
        &self.account
    }

    /// When it is to be given up if nothing happens until then, in nanoseconds: for connections that nobody blocks on.
    #[inline]
    pub fn abandoned_at(&self) -> Option<u64> {
        self.account.abandoned_at(self.limits.message_timeout, self.limits.send_timeout)
    }

    /// Gives it up, since it has not got on in time.
    pub fn abandon(&self) {
        crate::log::note(format_args!(
            "{}: broken off; a message that had begun did not arrive, or a reply was not read, in time (message_timeout_ms, send_timeout_ms)",
            self.peer()
        ));
        self.break_off();
    }

    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) == OPEN
    }

    /// Whether what is served is still answered: also while the connection closes in order.
    #[inline]
    pub fn takes_replies(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), OPEN | CLOSING)
    }

    /// Counts a request as being served, as long as the result lives; `None` when the connection closes, and the peer is or
    /// will be told that the request was not processed.
    #[inline(always)]
    pub fn serving(&self) -> Option<Serving<'_>> {
        self.mark_used();
        self.serving.fetch_add(1, Ordering::SeqCst);
        let serving = Serving(self);
        // In one order with `close`: either it sees the request, or the request sees that it closes.
        (self.state.load(Ordering::SeqCst) == OPEN).then_some(serving)
    }

    /// Closes in order (clause 9.4.6): requests that run are answered first, by whoever runs them. What the peer has not made room
    /// for is lost.
    ///
    /// # Real-time
    /// Does not wait. Some system calls.
    pub fn close(&self) {
        if self.begin_to_close() && !self.has_left() {
            self.leave();
        }
    }

    /// Closes all of these in order, as [`close`](Self::close) does, and waits for the peers to read what was kept for them:
    /// [`FAREWELL`] at most, for all together.
    pub fn close_all(connections: &[Arc<Connection>]) {
        let by = Deadline::after(ORDERLY_CLOSE);
        // Nobody calls any more while others are waited for.
        let mut left: Vec<_> = connections.iter().filter(|one| one.begin_to_close()).collect();
        left.retain(|one| !one.has_left());
        left.iter().for_each(|one| one.close_by(by));
    }

    fn begin_to_close(&self) -> bool {
        self.state.compare_exchange(OPEN, CLOSING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Ends it where nothing keeps it: whether there is no more to do, as where a request runs, whose thread ends it.
    fn has_left(&self) -> bool {
        if self.serving.load(Ordering::SeqCst) != 0 {
            return true;
        }
        let flushed = self.outbox.try_lock().map(|mut outbox| outbox::flush(&mut outbox, &*self.stream));
        let done = !matches!(flushed, Ok(Ok(false)) | Err(_));
        if done {
            self.leave();
        }
        done
    }

    /// Whether it closes as soon as the requests that run are answered.
    pub fn is_closing(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSING
    }

    /// Ends it when the peer has read what was kept, or at `by`.
    #[cold]
    fn close_by(&self, by: Deadline) {
        // Who sends holds the lock for as long as the peer does not read.
        if self.is_closing()
            && let Ok(mut outbox) = self.outbox.lock_until(by)
        {
            // A lane's client may not have read its replies yet.
            outbox::flush_by(&mut outbox, &*self.stream, by);
        }
        self.leave();
    }

    fn leave(&self) {
        if self.state.compare_exchange(CLOSING, BROKEN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.send_control(&isorb_giop::message::close_connection(Version::V1_0));
            self.stream.shutdown();
            self.slots.wake_all();
        }
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

    /// Takes note of the band of priorities that the peer uses the connection for.
    pub fn set_band(&self, band: PriorityRange) {
        let bits = u32::from(band.low.cast_unsigned()) << 16 | u32::from(band.high.cast_unsigned());
        self.band.store(bits, Ordering::Release);
    }

    /// The band of priorities that the peer uses the connection for, if it said one.
    pub fn band(&self) -> Option<PriorityRange> {
        let bits = self.band.load(Ordering::Acquire);
        let band =
            PriorityRange { low: ((bits >> 16) as u16).cast_signed(), high: (bits as u16).cast_signed() };
        (bits != NO_BAND).then_some(band)
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
        let patience = SendTimeout { deadline: Deadline::NONE, each: self.send_timeout };
        let sent = self.send_in(message, patience);
        if sent == Err(SendError::NotSent) {
            cold_path();
            // Nobody is left to hear that it was not sent.
            self.break_off();
        }
        sent
    }

    /// As [`Connection::send`], for a call that waits until `deadline` in all, and `timeout` from its start. When that passes
    /// before anything was sent, the connection stays good for others, unless its stream keeps what it refuses.
    ///
    /// # Real-time
    /// As [`Connection::send`], and bounded by the deadline besides. One more system call where calls with different time-outs
    /// share a connection.
    pub fn send_by(
        &self,
        message: &Message<'_>,
        deadline: Deadline,
        timeout: Timeout,
    ) -> Result<(), SendError> {
        let sent = self.send_in(message, SendTimeout { deadline, each: timeout.min(self.send_timeout) });
        if sent == Err(SendError::NotSent) {
            self.not_sent(deadline);
        }
        sent
    }

    /// Keeps the connection for others where all the time was used up before anything was sent.
    #[cold]
    fn not_sent(&self, deadline: Deadline) {
        if !deadline.is_past() {
            self.break_off();
        }
    }

    /// The usual case: nothing waits before the message, nobody else sends, and the socket takes it all.
    #[inline(always)]
    fn send_in(&self, message: &Message<'_>, patience: SendTimeout) -> Result<(), SendError> {
        let fragment = self.limits.fragment;
        if self.takes_replies()
            && let Some(octets) = message.contiguous()
            // A fragment is a multiple of eight octets long.
            && (fragment == 0 || octets.len() <= fragment & !7)
            && let Ok(mut outbox) = self.outbox.try_lock()
            && outbox.is_ready(patience.each)
        {
            let first = self.stream.send(&[IoSlice::new(octets)], Wait::Block);
            if matches!(first, Ok(sent) if sent == octets.len()) {
                return Ok(());
            }
            cold_path();
            let sent = outbox::go_on(&mut outbox, &*self.stream, octets, first, patience);
            drop(outbox);
            return self.note_sent(sent);
        }
        cold_path();
        self.send_any(message, patience)
    }

    #[inline(never)]
    fn send_any(&self, message: &Message<'_>, patience: SendTimeout) -> Result<(), SendError> {
        if !self.takes_replies() {
            return Err(SendError::Closed);
        }
        let mut outbox = match self.outbox.lock_until(patience.deadline) {
            Ok(outbox) => outbox,
            Err(LockError::TimedOut) => return Err(SendError::NotSent),
            // The kernel knows no such lock with a deadline.
            Err(_) => self.outbox.lock(),
        };
        let sent = outbox::send(&mut outbox, &*self.stream, message, self.limits.fragment, patience);
        drop(outbox);
        self.note_sent(sent)
    }

    fn note_sent(&self, sent: Result<(), SendError>) -> Result<(), SendError> {
        if !matches!(sent, Ok(()) | Err(SendError::NotSent | SendError::TooLong)) {
            self.break_off();
        }
        sent
    }

    /// Sends a short whole message of the protocol's own, such as CloseConnection, as far as that is possible without waiting.
    pub fn send_control(&self, message: &[u8]) {
        if let Ok(mut outbox) = self.outbox.try_lock() {
            let sent = outbox::put_bytes(&mut outbox, &*self.stream, message);
            drop(outbox);
            if sent.is_err() {
                self.break_off();
            }
        }
    }

    /// Tells the peer that nobody waits for a reply any more.
    #[cold]
    pub fn cancel(&self, version: Version, id: u32) {
        self.send_control(&isorb_giop::message::cancel_request(version, id));
    }

    /// Sends a message without waiting for the peer: what the socket does not take is kept, up to one message's limit.
    /// `Ok(true)` when nothing is left to send.
    pub fn send_or_keep(&self, message: &Message<'_>) -> Result<bool, SendError> {
        if !self.takes_replies() {
            return Err(SendError::Closed);
        }
        let mut outbox = self.outbox.lock();
        let limits = &self.limits;
        let sent = outbox::send_or_keep(&mut outbox, &*self.stream, message, limits.fragment, limits.message);
        if sent == Err(SendError::TooLong) {
            return sent;
        }
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

    /// Notes that a call begins at `now_ns`; whether the last one began more than `rest_ns` before.
    #[inline]
    pub fn rested(&self, now_ns: u64, rest_ns: u64) -> bool {
        let before = self.used_at.load(Ordering::Relaxed);
        self.used_at.store(now_ns, Ordering::Relaxed);
        now_ns.saturating_sub(before) >= rest_ns
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
        for state in [OPEN, CLOSING] {
            let _ = self.state.compare_exchange(state, BROKEN, Ordering::AcqRel, Ordering::Acquire);
        }
        self.stream.shutdown();
        self.slots.wake_all();
    }

    /// Returns what a broken connection holds of the pool, as far as no thread is about to do that by itself.
    pub fn discard(&self) {
        if let Ok(mut inbox) = self.inbox.try_lock() {
            inbox.discard(&self.pool);
        }
        if let Ok(mut outbox) = self.outbox.try_lock() {
            outbox.clear();
        }
    }

    /// Takes note of the end of the connection while the inbox is held. Who reads next after CloseConnection finds the end of
    /// the stream, and must know that it was an orderly one.
    #[inline]
    fn note(&self, read: &Result<Arrived, ReadError>) {
        if !matches!(read, Ok(arrived) if arrived.header.kind != MessageKind::CloseConnection) {
            self.note_end(read);
        }
    }

    #[cold]
    fn note_end(&self, read: &Result<Arrived, ReadError>) {
        match read {
            Ok(_) => self.close_in_order(),
            // A peer that broke the protocol is told so first, by whoever reads.
            Err(ReadError::TimedOut | ReadError::WouldBlock | ReadError::Protocol(_)) => {}
            Err(_) => self.break_off(),
        }
    }

    /// Lets another waiter read, and the lane if it came by meanwhile.
    #[inline(always)]
    fn hand_over(&self) {
        self.slots.hand_over();
        if self.missed.load(Ordering::Relaxed) {
            self.report_again();
        }
    }

    /// Has the poller of the connection's lane report what there is, though it was reported before.
    #[cold]
    pub fn report(&self) {
        if let Some((poller, token)) = &*self.watch.lock() {
            // What can be written to is ready, so there is an event, whether or not more has arrived.
            let _ = poller.modify(self.stream.fd(), *token, Interest::BOTH, Trigger::Edge);
        }
    }

    #[cold]
    fn report_again(&self) {
        if self.missed.swap(false, Ordering::SeqCst) {
            self.report();
        }
    }
}

/// A request that is being served.
pub(crate) struct Serving<'a>(&'a Connection);

impl Drop for Serving<'_> {
    #[inline]
    fn drop(&mut self) {
        let connection = self.0;
        if connection.serving.fetch_sub(1, Ordering::SeqCst) == 1
            && connection.state.load(Ordering::SeqCst) == CLOSING
        {
            cold_path();
            connection.close_by(Deadline::after(ORDERLY_CLOSE));
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Connection { side, stream, .. } = self;
        f.debug_struct("Connection").field("side", side).field("peer", &stream.peer()).finish_non_exhaustive()
    }
}
