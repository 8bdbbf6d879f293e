//! A connection of a lane, and how the thread that owns it serves what has arrived.

use super::super::buffered::Source;
use super::super::reply::replace_too_long;
use super::super::ring_watch::{Ring, rearm};
use super::super::{Next, finish, refuse};
use super::Lane;
use crate::Orb;
use crate::buffers::CallBuffers;
use crate::connection::{Connection, ReadError};
use isorb_cdr::Message;
use isorb_giop::{MessageKind, ProtocolError};
use isorb_rt::net::{Interest, Trigger};
use isorb_rt::sync::Turn;
use isorb_transport::Polled;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Member {
    pub(super) connection: Arc<Connection>,
    pub(super) token: u64,
    pub(super) turn: Turn,
    /// The peer will send no more. Octets that it sent before may still be unread.
    pub(super) closed: AtomicBool,
    /// Part of a reply waits for the peer to read. No request is read meanwhile.
    pub(super) blocked: AtomicBool,
    /// A thread has the turn, so that no other needs to poll.
    pub(super) owned: AtomicBool,
    /// Whether its owner releases it before it runs a request.
    pub(super) shared: bool,
}

/// Messages of a connection that a thread serves before it looks after others. One that reports a
/// connection again for each message would make a system call more for each of a flood.
const TURN_MESSAGES: usize = 16;

/// The state of a connection after its messages were read.
enum AfterRead {
    Done,
    Close,
    /// This thread has released the connection already.
    Released,
}

impl Member {
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The thread is about to reply and will poll again soon, so the client need not make an event
    /// for its next request.
    pub fn about_to_reply(&self) {
        if self.shared
            && let Some(ring) = self.connection.stream().polled().filter(|ring| ring.is_polled())
        {
            ring.disarm();
        }
    }

    /// The thread that replied does something else first.
    pub fn leave_to_others(&self) {
        if self.shared && self.connection.stream().polled().is_some_and(|ring| ring.is_polled()) {
            rearm(self);
        }
    }

    /// Sends as much of a reply as the peer takes, and keeps the rest. A failure breaks the
    /// connection.
    pub fn send(&self, message: &Message<'_>) {
        let sent = self.connection.send_or_keep(message);
        replace_too_long(&self.connection, sent.err(), message);
        if sent == Ok(false) {
            self.blocked.store(true, Ordering::SeqCst);
            // With several threads on the connection, the event for new room may have come before
            // `blocked` was set. It is reported once more.
            self.connection.report();
        }
    }

    pub(super) fn on_event(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        orb: &Orb,
        buffers: &mut CallBuffers,
        closed: bool,
    ) -> Next {
        // Before the turn, so that an owner that misses this looks again.
        if closed {
            self.closed.store(true, Ordering::SeqCst);
        }
        if !self.turn.take() {
            return Next::Continue(());
        }
        self.owned.store(true, Ordering::SeqCst);
        if self.has_left(lane) {
            return Next::Continue(());
        }
        loop {
            match self.drain(lane, orb, buffers) {
                // The turn is kept, so that no thread reads the connection any more.
                AfterRead::Close => return Next::Break(()),
                AfterRead::Released => return Next::Continue(()),
                AfterRead::Done if self.pass() => return Next::Continue(()),
                AfterRead::Done => {}
            }
        }
    }

    /// Serves the messages that have arrived, until the socket is empty, the peer does not read its
    /// replies, or its turn is over: then other connections are served first. A message with
    /// nothing behind it counts as the last one, which saves a receive call: later octets cause
    /// another event. Only an announced end of the stream has to be read.
    fn drain(self: &Arc<Self>, lane: &Arc<Lane>, orb: &Orb, buffers: &mut CallBuffers) -> AfterRead {
        let connection = &self.connection;
        if self.blocked.load(Ordering::Acquire) {
            match connection.flush() {
                Ok(true) => self.blocked.store(false, Ordering::Release),
                Ok(false) => return AfterRead::Done,
                Err(_) => return AfterRead::Close,
            }
        }
        let sharing = lane.server.as_ref().filter(|server| server.shares());
        // What an earlier receive said is older than the event that brought this thread here.
        let mut exclusive = false;
        for _ in 0..TURN_MESSAGES {
            // A request that waits for a permit holds no memory of the peer.
            let lent = if sharing.is_none() { Some(&mut buffers.lent) } else { None };
            let (read, last) = connection.read_arrived(&mut buffers.block, exclusive, lent);
            exclusive = sharing.is_none();
            match read {
                Ok(arrived) => {
                    let done = last && !self.closed.load(Ordering::SeqCst);
                    if let Some(server) = sharing
                        && arrived.header.kind == MessageKind::Request
                    {
                        // A client with a request that waits for a permit is not idle.
                        connection.mark_used();
                        self.release(lane, !done);
                        server.serve(lane, orb, Source::Member(self), arrived, buffers);
                        return AfterRead::Released;
                    }
                    if !connection.takes_requests()
                        && matches!(arrived.header.kind, MessageKind::Request | MessageKind::LocateRequest)
                    {
                        refuse(connection, ProtocolError::Unexpected(arrived.header.kind));
                        return AfterRead::Close;
                    }
                    let mut send = |message: &Message<'_>| self.send(message);
                    if orb.handler().handle(orb, connection, arrived, buffers, &mut send).is_break() {
                        return AfterRead::Close;
                    }
                    buffers.trim();
                    if self.has_left(lane) {
                        return AfterRead::Released;
                    }
                    let done = last && !self.closed.load(Ordering::SeqCst);
                    if done || self.blocked.load(Ordering::Acquire) {
                        return AfterRead::Done;
                    }
                }
                Err(ReadError::TurnOver) => break,
                Err(ReadError::WouldBlock) => {
                    // The thread's block may have been left to a message that is not whole.
                    buffers.trim();
                    return AfterRead::Done;
                }
                Err(ReadError::Refused { first, too_long })
                    if lane
                        .server()
                        .is_some_and(|server| server.refuse_unfit(self, orb, first, too_long, buffers)) =>
                {
                    buffers.trim();
                }
                Err(error) => {
                    finish(connection, error);
                    return AfterRead::Close;
                }
            }
        }
        buffers.trim();
        self.release(lane, true);
        AfterRead::Released
    }

    /// Whether the connection was moved to another lane. Then the turn is kept, so that no thread
    /// of this lane reads it any more.
    fn has_left(&self, lane: &Arc<Lane>) -> bool {
        if self.connection.lane.get().is_none_or(|number| *number == lane.number) {
            return false;
        }
        let _ = lane.poller.delete(self.connection.stream().fd());
        lane.remove(self.token);
        true
    }

    /// Passes the turn on; `false` when another thread found something meanwhile.
    fn pass(&self) -> bool {
        // Before the turn: a thread that polls then may find it taken, and is noticed.
        self.owned.store(false, Ordering::SeqCst);
        let passed = self.turn.pass();
        if !passed {
            self.owned.store(true, Ordering::SeqCst);
        }
        passed
    }

    /// Releases the connection to other threads. With `more`, later octets are reported again.
    pub(super) fn release(&self, lane: &Lane, mut more: bool) {
        while !self.pass() {
            more = true;
        }
        let polled = self.connection.stream().polled().filter(|ring| ring.is_polled());
        if more || polled.is_some_and(|ring| !ring.arm()) {
            // The socket can be written to, so there is an event whether or not more has arrived.
            let fd = self.connection.stream().fd();
            let _ = lane.poller.modify(fd, self.token, Interest::BOTH, Trigger::Edge);
        }
    }
}

impl Ring for Member {
    fn ring(&self) -> Option<&dyn Polled> {
        let unread = self.owned.load(Ordering::SeqCst) || self.blocked.load(Ordering::Acquire);
        if unread { None } else { self.connection.stream().polled() }
    }

    fn leaves(&self) -> bool {
        self.connection.bidirectional.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        if let Some(ring) = self.connection.stream().polled() {
            ring.set_polled(false);
        }
        self.connection.report();
    }

    fn report(&self) {
        self.connection.report();
    }
}
