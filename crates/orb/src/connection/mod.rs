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

mod ending;
mod eviction;
mod idle;
mod inbox;
mod lent;
mod monitor;
mod outbox;
mod peer_account;
mod pending;
mod pending_request;
mod reading;
mod sending;
mod slots;
#[cfg(test)]
mod still;
mod table;

pub(crate) use ending::{DeferredRequest, NotServed, Serving};
pub(crate) use idle::{IdleLimits, Idleness};
pub(crate) use inbox::{Arrived, Inbox, ReadError};
pub(crate) use lent::LentReply;
pub(crate) use monitor::ConnectionMonitors;
pub use monitor::ConnectionWatcher;
pub(crate) use outbox::SendError;
pub(crate) use peer_account::{Claim, PeerLimit, PeerLimits};
pub(crate) use pending_request::{PendingRequest, Reader};
pub(crate) use slots::{NoSlot, Slot, SlotLimits, Slots};
pub(crate) use table::{AdmissionLimits, ConnectionTable};

use crate::buffers::{CallBuffers, LaneBlocks, with_buffers};
use crate::caller::CallerState;
use crate::log::warn;
use crate::policy::Timeout;
use idle::Activity;
use isorb_cdr::{Narrow, Text, Version, Wide};
use isorb_giop::context::PriorityRange;
use isorb_rt::atomic_enum;
use isorb_rt::net::{Interest, Poller, Trigger};
use isorb_rt::sync::{AtomicEnum, PiGuard, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Capabilities, Stream};
use outbox::Outbox;
use peer_account::PeerAccount;
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
    /// What a client holds over all of its connections.
    pub peer: PeerLimits,
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
    /// Both directions of the stream have ended.
    shut_down: AtomicBool,
    /// Calls that chose this connection and have not returned.
    pub in_flight: AtomicU32,
    /// When the newest call began, in nanoseconds.
    used_at: AtomicU64,
    /// Whether the peer has sent requests.
    activity: Activity,
    caller: CallerState,
    /// Requests of the peer that run.
    serving: AtomicU32,
    /// Those of them that are answered after their upcall.
    deferred: AtomicU32,
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
    /// What its client holds, if that is limited.
    client: Option<Arc<PeerAccount>>,
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

impl Connection {
    /// `table` has the connections that are evicted when the pool runs low.
    pub fn new(
        stream: Box<dyn Stream>,
        side: Side,
        limits: Limits,
        pool: Arc<BufferPool>,
        table: &Arc<ConnectionTable>,
    ) -> Connection {
        let client = match side {
            Side::Acceptor => table.peer_account(&stream.identity(), limits.peer),
            Side::Connector => None,
        };
        let account = BufferAccount::new(table, &pool, client.clone());
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
            shut_down: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            used_at: AtomicU64::new(now_ns()),
            activity: Activity::default(),
            caller,
            serving: AtomicU32::new(0),
            deferred: AtomicU32::new(0),
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
            client,
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

    /// Holds a message block only while a message has arrived in part. The reader has one.
    pub fn keep_no_block(&self) {
        self.inbox.lock().keep_no_block();
    }

    /// Takes message blocks from a lane from now on. The first lane stays.
    pub fn use_lane(&self, blocks: &Arc<LaneBlocks>) {
        self.account.use_lane(blocks);
        if blocks.own {
            self.inbox.lock().use_lane(blocks.pool.clone());
        }
    }

    /// Counts a request for its client, until it runs. `None` without a limit.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn claim_request(&self, arrived: &Arrived) -> Result<Option<Claim>, PeerLimit> {
        self.client.as_ref().map(|client| Claim::of(client, arrived)).transpose()
    }

    /// Counts and logs a request that its client's limits refuse. Returns the octets of a service
    /// context with the reason.
    #[cold]
    pub fn count_refusal(&self, limit: PeerLimit) -> &[u8] {
        self.account.count_refusal();
        let Some(client) = &self.client else { return &[] };
        let (why, count, detail) = client.refuse(limit);
        if let Some(why) = why {
            let peer = self.peer();
            warn(LOG, format_args!("{peer}: a request is refused: {why}; {count} of this client so far"));
        }
        detail
    }

    /// The blocks that it holds.
    pub fn account(&self) -> &BufferAccount {
        &self.account
    }

    pub fn is_open(&self) -> bool {
        self.state.is(State::Open, Ordering::Acquire)
    }

    /// Whether replies are still sent: also while the connection closes in order.
    #[inline]
    pub fn takes_replies(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), State::Open | State::Closing)
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

    /// Records that a call begins at `now_ns`; whether the last one began more than `idle_ns`
    /// before.
    #[inline]
    pub fn was_idle(&self, now_ns: u64, idle_ns: u64) -> bool {
        let before = self.used_at.load(Ordering::Relaxed);
        self.used_at.store(now_ns, Ordering::Relaxed);
        now_ns.saturating_sub(before) >= idle_ns
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

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Connection { side, stream, .. } = self;
        f.debug_struct("Connection").field("side", side).field("peer", &stream.peer()).finish_non_exhaustive()
    }
}
