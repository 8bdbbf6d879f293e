//! One connection, used alike by the side that opened it and the side that accepted it.
//!
//! There is no reader thread. The first thread that waits for a reply takes the inbox (the leader
//! of TAO's leader/followers): it delivers the replies to others into their slots and hands the
//! inbox over when it has its own. A server's connection has a thread that always reads. With
//! bidirectional GIOP both kinds of threads meet on one connection, and the same rule holds.
//!
//! A call that is more urgent than the reader lends it its priority while it waits. The reader
//! finishes the message that it reads, then leaves the inbox to the most urgent call. So a call
//! waits for one message of a less urgent one, and for no thread between the two priorities.
//! [`isorb_rt::sync::Waiters`] says how.
//!
//! ```text
//!   call ──► Outbox (one lock, one send) ──► wire
//!   call ◄── Inbox (held by the first waiter) ◄── wire      Slots: the calls that wait, by request id
//! ```

mod begun;
mod idle;
mod inbox;
mod monitor;
mod outbox;
mod pending;
mod reading;
mod slots;
mod table;

pub(crate) use begun::{Begun, Reader};
pub(crate) use idle::IdleLimits;
pub(crate) use inbox::{Arrived, Inbox, ReadError};
pub(crate) use monitor::ConnectionMonitors;
pub use monitor::ConnectionWatcher;
pub(crate) use outbox::SendError;
pub(crate) use slots::{NoSlot, Slot, SlotLimits, Slots};
pub(crate) use table::{AdmissionLimits, ConnectionTable};

use crate::buffers::{CallBuffers, LaneBlocks, with_buffers};
use crate::caller::CallerState;
use crate::log::warn;
use crate::policy::Timeout;
use idle::Activity;
use isorb_cdr::{Message, Narrow, Text, Version, Wide};
use isorb_giop::MessageKind;
use isorb_giop::context::PriorityRange;
use isorb_rt::atomic_enum;
use isorb_rt::net::{Interest, Poller, Trigger};
use isorb_rt::sync::{AtomicEnum, LockError, PiGuard, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Capabilities, Stream, Wait};
use outbox::{Outbox, SendTimeout};
use std::hint::cold_path;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use table::BufferAccount;

/// The target of this module's log records.
const LOG: &str = "isorb::connection";

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
    /// How many calls wait for replies.
    pub slots: SlotLimits,
}

/// Which side opened the connection; request ids of the two sides differ in their low bit (clause
/// 9.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Connector,
    Acceptor,
}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    lossy: bool,
    /// Whether a reply may be lost without an error.
    unsure: bool,
    pollable: bool,
    side: Side,
    outbox: PiMutex<Outbox>,
    inbox: PiMutex<Inbox>,
    slots: Slots,
    state: AtomicEnum<State>,
    /// Calls that chose this connection and have not returned.
    pub in_flight: AtomicU32,
    /// When the newest call began, in nanoseconds.
    used_at: AtomicU64,
    /// Whether the peer has sent requests.
    activity: Activity,
    caller: CallerState,
    /// Requests of the peer that run.
    serving: AtomicU32,
    /// Agreed code sets: 0 none yet, else 1 + bits of [`encode_text`].
    code_sets: AtomicU8,
    /// The peer agreed to take requests over this connection too.
    pub bidirectional: AtomicBool,
    /// The peer knows the priority band of the connection.
    pub band_agreed: AtomicBool,
    /// The priority band that the peer announced: low and high end, or [`NO_BAND`].
    band: AtomicU32,
    /// A lane's thread ignored an event because a caller held the inbox.
    missed: AtomicBool,
    /// Notified of room to send, and of the connection's end.
    watchers: PiMutex<Vec<Weak<dyn ConnectionWatcher>>>,
    /// The poller of its monitor, and its token there.
    monitor: OnceLock<(Arc<Poller>, u64)>,
    /// The poller of its lane, and its token there.
    watch: PiMutex<Option<(Arc<Poller>, u64)>>,
    /// A client lane reads it.
    watched: AtomicBool,
    /// Number of the lane that it was moved to because of its band. Other readers release it.
    pub lane: OnceLock<u64>,
    account: Arc<BufferAccount>,
    limits: Limits,
    send_timeout: Timeout,
}

/// No band has negative ends.
const NO_BAND: u32 = u32::MAX;

/// The inbox, still held, and the message that was read instead of the awaited reply.
type OtherMessage<'c> = (PiGuard<'c, Inbox>, Result<Arrived, ReadError>);

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Open,
    /// This side closes in order: running requests are answered, others are not accepted.
    Closing,
    /// The peer sent CloseConnection: it has not processed unanswered requests.
    ClosedByPeer,
    Broken,
}

atomic_enum!(State: Open, Closing, ClosedByPeer, Broken);

/// How long an offer waits for a thread that sends.
const OFFER: Duration = Duration::from_millis(1);

/// How long an orderly close waits for clients to read kept replies.
const ORDERLY_CLOSE: Duration = Duration::from_secs(1);

impl Connection {
    /// `table` has the connections that are evicted when the pool runs low.
    pub fn new(
        stream: Box<dyn Stream>,
        side: Side,
        limits: Limits,
        pool: Arc<BufferPool>,
        table: &Arc<ConnectionTable>,
    ) -> Connection {
        let account = BufferAccount::new(table, &pool);
        let lossy = stream.capabilities().max_datagram.is_some();
        // A datagram arrives whole or not at all; fragments would be lost one by one.
        let limits = if lossy { Limits { fragment: 0, ..limits } } else { limits };
        let caller = match side {
            Side::Acceptor => CallerState::new(stream.identity()),
            Side::Connector => CallerState::default(),
        };
        Connection {
            stream,
            lossy,
            unsure: lossy,
            pollable: true,
            side,
            outbox: PiMutex::new(Outbox::new(account.clone())),
            inbox: PiMutex::new(Inbox::new(&pool, limits.message, limits.message_timeout, account.clone())),
            slots: Slots::new(side, limits.slots),
            state: AtomicEnum::new(),
            in_flight: AtomicU32::new(0),
            used_at: AtomicU64::new(now_ns()),
            activity: Activity::default(),
            caller,
            serving: AtomicU32::new(0),
            code_sets: AtomicU8::new(0),
            bidirectional: AtomicBool::new(false),
            band_agreed: AtomicBool::new(false),
            band: AtomicU32::new(NO_BAND),
            missed: AtomicBool::new(false),
            watchers: PiMutex::default(),
            monitor: OnceLock::new(),
            watch: PiMutex::default(),
            watched: AtomicBool::new(false),
            lane: OnceLock::new(),
            account,
            limits,
            send_timeout: limits.send_timeout.into(),
        }
    }

    pub fn peer(&self) -> &str {
        self.stream.peer()
    }

    /// The identity of the peer, if it opened the connection.
    #[inline]
    pub fn caller(&self) -> &CallerState {
        &self.caller
    }

    pub fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// Applies the capabilities of the underlying transport.
    pub fn with_capabilities(mut self, transport: Capabilities) -> Connection {
        self.unsure |= !(transport.notices_death && transport.reliable);
        self.pollable = transport.pollable;
        self
    }

    /// Whether a reply may never arrive without an error: messages get lost, or a peer dies
    /// unnoticed.
    #[inline]
    pub fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Whether a lane can watch it.
    pub fn is_pollable(&self) -> bool {
        self.pollable
    }

    /// Whether single messages on it may get lost.
    #[inline]
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    #[inline]
    pub fn pool(&self) -> &Arc<BufferPool> {
        self.account.pool()
    }

    /// Takes message blocks from a lane from now on. The first lane stays.
    pub fn use_lane(&self, blocks: &Arc<LaneBlocks>) {
        self.account.use_lane(blocks);
        if blocks.own {
            self.inbox.lock().use_lane(blocks.pool.clone());
        }
    }

    /// The blocks that it holds.
    pub fn account(&self) -> &BufferAccount {
        &self.account
    }

    /// When it is to be broken off unless it makes progress, in nanoseconds. For connections on
    /// which no thread blocks.
    #[inline]
    pub fn abandoned_at(&self) -> Option<u64> {
        self.account.abandoned_at(self.limits.message_timeout, self.limits.send_timeout)
    }

    /// Breaks it off, since it made no progress in time.
    pub fn abandon(&self) {
        let peer = self.peer();
        let why = "a message did not arrive whole, or a reply was not read, in time";
        warn(LOG, format_args!("{peer}: broken off; {why} (message_timeout_ms, send_timeout_ms)"));
        self.break_off();
    }

    pub fn is_open(&self) -> bool {
        self.state.is(State::Open, Ordering::Acquire)
    }

    /// Whether replies are still sent: also while the connection closes in order.
    #[inline]
    pub fn takes_replies(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), State::Open | State::Closing)
    }

    /// Counts a request as running, as long as the result lives. `None` when the connection closes;
    /// CloseConnection then tells the peer that the request was not processed.
    #[inline(always)]
    pub fn serving(&self) -> Option<Serving<'_>> {
        self.mark_used();
        self.serving.fetch_add(1, Ordering::SeqCst);
        let serving = Serving(self);
        // In one order with `close`: either it sees the request, or the request sees that it
        // closes.
        self.state.is(State::Open, Ordering::SeqCst).then_some(serving)
    }

    /// Closes in order (clause 9.4.6): the threads of running requests send their replies first.
    /// Kept octets for which the peer has no room are lost.
    ///
    /// # Real-time
    /// Does not wait. Some system calls.
    pub fn close(&self) {
        if self.begin_to_close() && !self.closed_at_once() {
            self.finish_close();
        }
    }

    /// Closes all of these in order, as [`close`](Self::close) does, and waits for the peers to
    /// read kept replies: for [`ORDERLY_CLOSE`] at most in all.
    pub fn close_all(connections: &[Arc<Connection>]) {
        let by = Deadline::after(ORDERLY_CLOSE);
        // All are closing before the first wait.
        let mut left: Vec<_> = connections.iter().filter(|one| one.begin_to_close()).collect();
        left.retain(|one| !one.closed_at_once());
        left.iter().for_each(|one| one.close_by(by));
    }

    fn begin_to_close(&self) -> bool {
        self.state.change(State::Open, State::Closing, Ordering::SeqCst)
    }

    /// Ends it if it has nothing to send; `true` when there is no more to do here. The thread of a
    /// running request ends the connection itself.
    fn closed_at_once(&self) -> bool {
        if self.serving.load(Ordering::SeqCst) != 0 {
            return true;
        }
        let flushed = self.outbox.try_lock().map(|mut outbox| outbox::flush(&mut outbox, &*self.stream));
        let done = !matches!(flushed, Ok(Ok(false)) | Err(_));
        if done {
            self.finish_close();
        }
        done
    }

    /// Whether it closes as soon as the requests that run are answered.
    pub fn is_closing(&self) -> bool {
        self.state.is(State::Closing, Ordering::Acquire)
    }

    /// Ends it when the peer has read the kept octets, or at `by`.
    #[cold]
    fn close_by(&self, by: Deadline) {
        // A sender holds the lock for as long as the peer does not read.
        if self.is_closing()
            && let Ok(mut outbox) = self.outbox.lock_until(by)
        {
            // A lane's client may not have read its replies yet.
            outbox::flush_by(&mut outbox, &*self.stream, by);
        }
        self.finish_close();
    }

    fn finish_close(&self) {
        if self.state.change(State::Closing, State::Broken, Ordering::AcqRel) {
            self.send_control(&isorb_giop::message::close_connection(Version::V1_0));
            self.stream.shutdown();
            self.slots.wake_all();
            self.notify_end();
        }
    }

    /// Whether the peer closed in order, so that a request without an answer was not processed.
    pub fn closed_in_order(&self) -> bool {
        self.state.is(State::ClosedByPeer, Ordering::Acquire)
    }

    /// The code sets agreed on this connection.
    pub fn code_sets(&self) -> Option<(Narrow, Wide)> {
        match self.code_sets.load(Ordering::Acquire) {
            0 => None,
            bits => Some((
                if bits & 2 == 0 { Narrow::Latin1 } else { Narrow::Utf8 },
                match bits & 12 {
                    0 => Wide::None,
                    4 => Wide::Utf16,
                    _ => Wide::Utf16Units,
                },
            )),
        }
    }

    /// Remembers the code sets that the first request announced.
    pub fn set_code_sets(&self, narrow: Narrow, wide: Wide) {
        let wide = match wide {
            Wide::None => 0,
            Wide::Utf16 => 4,
            Wide::Utf16Units => 8,
        };
        let bits = 1 | u8::from(narrow == Narrow::Utf8) << 1 | wide;
        self.code_sets.store(bits, Ordering::Release);
    }

    /// Records the priority band that the peer announced for this connection.
    pub fn set_band(&self, band: PriorityRange) {
        let bits = u32::from(band.low.cast_unsigned()) << 16 | u32::from(band.high.cast_unsigned());
        self.band.store(bits, Ordering::Release);
    }

    /// The priority band that the peer announced for this connection.
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

    /// Claims a slot in which a call waits for its reply.
    #[inline]
    pub fn claim(&self) -> Option<Slot<'_>> {
        self.slots.claim()
    }

    /// As [`claim`](Self::claim), and waits for a free slot.
    pub fn claim_queued(&self, deadline: Deadline) -> Result<Slot<'_>, NoSlot> {
        self.slots.claim_queued(deadline)
    }

    /// Whether it is in no lane yet: the caller adds it to one.
    pub fn begin_watch(&self) -> bool {
        !self.bidirectional.load(Ordering::Acquire) && !self.watched.swap(true, Ordering::AcqRel)
    }

    /// Whether the peer may send requests.
    #[inline]
    pub fn takes_requests(&self) -> bool {
        self.side == Side::Acceptor || self.bidirectional.load(Ordering::Acquire)
    }

    /// Sends a message, whole, waiting for the peer as long as the send time-out says.
    ///
    /// # Real-time
    /// One PI lock, one system call when the socket takes it all.
    pub fn send(&self, message: &Message<'_>) -> Result<(), SendError> {
        let within = SendTimeout { deadline: Deadline::NONE, each: self.send_timeout };
        let sent = self.send_in(message, within);
        if sent == Err(SendError::NotSent) {
            cold_path();
            // There is no caller to report it to.
            self.break_off();
        }
        sent
    }

    /// As [`Connection::send`], for a call that waits until `deadline` in all, and `timeout` from
    /// its start. When that passes before anything was sent, the connection stays good for others,
    /// unless its stream keeps what it refuses.
    ///
    /// # Real-time
    /// As [`Connection::send`], and bounded by the deadline besides. One more system call where
    /// calls with different time-outs share a connection.
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

    /// Keeps the connection for others if the deadline passed before anything was sent.
    #[cold]
    fn not_sent(&self, deadline: Deadline) {
        if !deadline.is_past() {
            self.break_off();
        }
    }

    /// The usual case: nothing waits to be sent, no other thread sends, and the socket takes it
    /// all.
    #[inline(always)]
    fn send_in(&self, message: &Message<'_>, within: SendTimeout) -> Result<(), SendError> {
        let fragment = self.limits.fragment;
        if self.takes_replies()
            && let Some(octets) = message.contiguous()
            // A fragment is a multiple of eight octets long.
            && (fragment == 0 || octets.len() <= fragment & !7)
            && let Ok(mut outbox) = self.outbox.try_lock()
            && outbox.is_ready(within.each)
        {
            let first = self.stream.send(&[IoSlice::new(octets)], Wait::Block);
            if matches!(first, Ok(sent) if sent == octets.len()) {
                return Ok(());
            }
            cold_path();
            let sent = outbox::go_on(&mut outbox, &*self.stream, octets, first, within);
            drop(outbox);
            return self.note_sent(sent);
        }
        cold_path();
        self.send_any(message, within)
    }

    #[inline(never)]
    fn send_any(&self, message: &Message<'_>, within: SendTimeout) -> Result<(), SendError> {
        if !self.takes_replies() {
            return Err(SendError::Closed);
        }
        let mut outbox = match self.outbox.lock_until(within.deadline) {
            Ok(outbox) => outbox,
            Err(LockError::TimedOut) => return Err(SendError::NotSent),
            // The kernel has no PI lock with a deadline.
            Err(_) => self.outbox.lock(),
        };
        let sent = outbox::send(&mut outbox, &*self.stream, message, self.limits.fragment, within);
        drop(outbox);
        self.note_sent(sent)
    }

    fn note_sent(&self, sent: Result<(), SendError>) -> Result<(), SendError> {
        if !matches!(sent, Ok(()) | Err(SendError::NotSent | SendError::TooLong)) {
            self.break_off();
        }
        sent
    }

    /// Sends a short whole message of the protocol's own, such as CloseConnection, as far as that
    /// is possible without waiting.
    pub fn send_control(&self, message: &[u8]) {
        if let Ok(mut outbox) = self.outbox.try_lock() {
            let sent = outbox::put_bytes(&mut outbox, &*self.stream, message);
            drop(outbox);
            if sent.is_err() {
                self.break_off();
            }
        }
    }

    /// Sends CancelRequest: the caller no longer waits for the reply.
    #[cold]
    pub fn cancel(&self, version: Version, id: u32) {
        self.send_control(&isorb_giop::message::cancel_request(version, id));
    }

    /// Sends a message without waiting for the peer. Octets that the socket does not take are kept,
    /// up to one message's limit. `Ok(true)` when nothing is left to send.
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

    /// Sends a request without waiting for the peer. Octets that the socket does not take are kept
    /// and `Ok(false)` says so. While octets of an earlier message wait, nothing is sent:
    /// [`SendError::NotSent`].
    ///
    /// # Real-time
    /// As [`Connection::send`], without its wait. Waits up to 1 ms for a thread that sends on the
    /// same connection.
    pub fn offer(&self, message: &Message<'_>) -> Result<bool, SendError> {
        if !self.is_open() {
            return Err(SendError::Closed);
        }
        let mut outbox = match self.outbox.lock_until(Deadline::after(OFFER)) {
            Ok(outbox) => outbox,
            Err(LockError::TimedOut) => return Err(SendError::NotSent),
            // The kernel has no PI lock with a deadline.
            Err(_) => self.outbox.lock(),
        };
        let limits = &self.limits;
        let sent = match outbox::flush(&mut outbox, &*self.stream) {
            Ok(true) => {
                outbox::send_or_keep(&mut outbox, &*self.stream, message, limits.fragment, limits.message)
            }
            Ok(false) => Err(SendError::NotSent),
            Err(error) => Err(error),
        };
        drop(outbox);
        self.note_sent(sent.map(drop))?;
        sent
    }

    /// As [`flush`](Self::flush) for a monitor. When nothing is left it calls `quiet` before
    /// another thread can keep octets, and notifies the watchers.
    fn flush_then(&self, quiet: impl FnOnce()) -> Result<(), SendError> {
        let mut outbox = self.outbox.lock();
        let sent = outbox::flush(&mut outbox, &*self.stream);
        if sent == Ok(true) {
            quiet();
        }
        drop(outbox);
        match sent {
            Ok(true) => self.notify(false),
            Ok(false) => {}
            Err(_) => self.break_off(),
        }
        sent.map(drop)
    }

    pub fn is_monitored(&self) -> bool {
        self.monitor.get().is_some()
    }

    /// Sets the poller of its monitor. Returns false if it has one.
    fn monitored_by(&self, poller: &Arc<Poller>, token: u64) -> bool {
        self.monitor.set((poller.clone(), token)).is_ok()
    }

    /// Has its monitor notified of room to send.
    #[cold]
    pub fn request_room(&self) {
        if let Some((poller, token)) = self.monitor.get() {
            // If there is room by now, that is an event, too.
            let _ = poller.modify(self.stream.fd(), *token, Interest::BOTH, Trigger::Edge);
        }
    }

    /// Notifies `watcher` of room to send, after an [`offer`](Self::offer) that kept octets or sent
    /// nothing, and of the connection's end.
    pub fn add_watcher(&self, watcher: Weak<dyn ConnectionWatcher>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&watcher));
        watchers.push(watcher);
        drop(watchers);
        if !self.is_open() {
            self.notify_end();
        }
    }

    #[cold]
    fn notify(&self, ended: bool) {
        // Called without the lock.
        let watchers: Vec<_> = self.watchers.lock().iter().filter_map(Weak::upgrade).collect();
        watchers.iter().for_each(|watcher| watcher.changed(ended));
    }

    fn notify_end(&self) {
        let watchers = std::mem::take(&mut *self.watchers.lock());
        watchers.iter().filter_map(Weak::upgrade).for_each(|watcher| watcher.changed(true));
    }

    /// Sends what [`Connection::send_or_keep`] kept; `Ok(true)` when nothing is left.
    pub fn flush(&self) -> Result<bool, SendError> {
        let sent = outbox::flush(&mut self.outbox.lock(), &*self.stream);
        if sent.is_err() {
            self.break_off();
        }
        sent
    }

    /// Records that a call begins at `now_ns`; whether the last one began more than `idle_ns`
    /// before.
    #[inline]
    pub fn was_idle(&self, now_ns: u64, idle_ns: u64) -> bool {
        let before = self.used_at.load(Ordering::Relaxed);
        self.used_at.store(now_ns, Ordering::Relaxed);
        now_ns.saturating_sub(before) >= idle_ns
    }

    /// The peer announced that it closes: nothing more is sent, and waiting calls learn that they
    /// were not processed.
    pub fn close_in_order(&self) {
        // Also if it is broken: the message is older than the break, and says more.
        self.state.store(State::ClosedByPeer, Ordering::Release);
        self.stream.shutdown();
        self.slots.wake_all();
        self.notify_end();
    }

    /// Ends both directions and wakes all waiting threads.
    pub fn break_off(&self) {
        for state in [State::Open, State::Closing] {
            self.state.change(state, State::Broken, Ordering::AcqRel);
        }
        self.stream.shutdown();
        self.slots.wake_all();
        self.notify_end();
    }

    /// Returns the blocks of a broken connection, unless a thread is about to.
    pub fn discard(&self) {
        if let Ok(mut inbox) = self.inbox.try_lock() {
            inbox.discard(self.pool());
            drop(inbox);
            self.hand_over();
        }
        if let Ok(mut outbox) = self.outbox.try_lock() {
            outbox.clear();
        }
    }

    /// Records the end of the connection while the inbox is held. The next reader after
    /// CloseConnection finds the end of the stream, and must know that the close was orderly.
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
            // The reading thread first sends MessageError.
            Err(ReadError::TimedOut | ReadError::WouldBlock | ReadError::Protocol(_)) => {}
            Err(_) => self.break_off(),
        }
    }

    /// Hands the inbox to another waiter, and has the lane's event reported again if it was missed.
    #[inline(always)]
    fn hand_over(&self) {
        self.slots.hand_over();
        if self.missed.load(Ordering::Relaxed) {
            self.report_again();
        }
    }

    /// Has the poller of the connection's lane report the socket's state once more.
    #[cold]
    pub fn report(&self) {
        if let Some((poller, token)) = &*self.watch.lock() {
            // The socket can be written to, so there is an event whether or not more has arrived.
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

/// A running request.
pub(crate) struct Serving<'a>(&'a Connection);

impl Drop for Serving<'_> {
    #[inline]
    fn drop(&mut self) {
        let connection = self.0;
        if connection.serving.fetch_sub(1, Ordering::SeqCst) == 1
            && connection.state.is(State::Closing, Ordering::SeqCst)
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
