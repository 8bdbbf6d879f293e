//! The protocol state of a connection: request ids, calls that wait for a reply, and the
//! consequence of the connection's end for each call (clauses 9.4.7, 9.5 and 9.8).
//!
//! Sans I/O: the transport reports sent, received and lost messages, and this module derives the
//! consequences. It neither keeps messages nor waits.
//!
//! ```text
//!            begin ─► in flight ── sent ──► waiting ── reply ─► token to its caller
//!                        │                     │
//!   CloseConnection      │ not executed        │ not executed     (it answered all that it took)
//!   end without it       │ not executed        │ perhaps executed
//! ```

use crate::{Completion, Header, Kind, MessageKind, ProtocolError, SystemException, Version, minor};
use alloc::vec::Vec;

/// Which side of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opened the connection: a client. Its request ids are even.
    Connector,
    /// Accepted the connection: a server. The request ids of its call-backs are odd.
    Acceptor,
}

/// Why no request can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection is closing or gone: open another one.
    Closed,
    /// The table of waiting calls is full.
    Full,
    /// An acceptor may call only when bidirectional GIOP was agreed.
    NotBidirectional,
}

impl From<Refused> for SystemException {
    fn from(refused: Refused) -> SystemException {
        let (kind, minor) = match refused {
            Refused::Closed => (Kind::Transient, minor::TRANSIENT_CLOSED),
            Refused::Full => (Kind::ImpLimit, minor::IMP_LIMIT_PENDING),
            Refused::NotBidirectional => (Kind::NoPermission, minor::NO_PERMISSION_BIDIRECTIONAL),
        };
        SystemException::new(kind, minor, Completion::No)
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent CloseConnection: it will not execute what it has not answered.
    Orderly,
    /// The transport ended without CloseConnection.
    Lost,
    /// The peer sent MessageError: it could not read one of our messages.
    MessageError,
    /// The peer broke the protocol and we ended the connection.
    Protocol,
}

/// The error of a call that waited when its connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The peer did not execute the call. The client sends it once more on a new connection; if
    /// that fails too, the caller gets this exception (COMPLETED_NO).
    Retry(SystemException),
    /// The peer may have executed it: the caller gets this exception (COMPLETED_MAYBE).
    Fail(SystemException),
}

/// The kind of a received message, seen from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Request, LocateRequest or CancelRequest: for the server's part.
    Call,
    /// Reply or LocateReply: [`Connection::reply`] finds its caller.
    Answer,
    /// A fragment: for the [`Assembler`](crate::fragment::Assembler).
    Fragment,
    /// The connection has ended; see [`Connection::end`].
    End(End),
}

#[derive(Clone, Copy, Debug)]
struct Pending<T> {
    id: u32,
    sent: bool,
    token: T,
}

/// The protocol state of one connection. `T` identifies the waiting caller.
///
/// # Real-time
/// Every operation is O(1) except [`Connection::begin`] on a table that is nearly full and
/// [`Connection::end`], which are linear in the capacity. Nothing allocates after
/// [`Connection::new`].
#[derive(Debug)]
pub struct Connection<T> {
    role: Role,
    bidirectional: bool,
    next: u32,
    /// The slot of a call follows from its id; two pending calls never share a slot.
    pending: Vec<Option<Pending<T>>>,
    open: bool,
}

impl<T: Copy> Connection<T> {
    /// A connection on which at most `capacity` calls of this side wait at a time, rounded up to a
    /// power of two.
    pub fn new(role: Role, capacity: usize) -> Connection<T> {
        let next = match role {
            Role::Connector => 0,
            Role::Acceptor => 1,
        };
        Connection {
            role,
            bidirectional: false,
            next,
            pending: core::iter::repeat_n(None, capacity.max(1).next_power_of_two()).collect(),
            open: true,
        }
    }

    /// Both sides agreed to bidirectional GIOP: a BI_DIR_IIOP context was sent or received and
    /// policy allows it.
    pub fn set_bidirectional(&mut self) {
        self.bidirectional = true;
    }

    /// Whether both sides may call.
    pub fn is_bidirectional(&self) -> bool {
        self.bidirectional
    }

    /// Whether requests may begin.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether no call waits.
    pub fn is_idle(&self) -> bool {
        self.pending.iter().all(Option::is_none)
    }

    /// A request id for a call that waits for a reply.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn begin(&mut self, token: T) -> Result<u32, Refused> {
        for _ in 0..self.pending.len() {
            let id = self.oneway()?;
            let slot = self.slot(id);
            if self.pending[slot].is_none() {
                self.pending[slot] = Some(Pending { id, sent: false, token });
                return Ok(id);
            }
        }
        Err(Refused::Full)
    }

    /// A request id for a call that no reply follows.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn oneway(&mut self) -> Result<u32, Refused> {
        if !self.open {
            return Err(Refused::Closed);
        }
        if self.role == Role::Acceptor && !self.bidirectional {
            return Err(Refused::NotBidirectional);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(2);
        Ok(id)
    }

    /// The transport has begun to take the octets of a call. From now on the peer may execute the
    /// call.
    pub fn sent(&mut self, id: u32) {
        let slot = self.slot(id);
        if let Some(pending) = self.pending[slot].as_mut().filter(|pending| pending.id == id) {
            pending.sent = true;
        }
    }

    /// The caller that waits for this reply. `None` for an unknown id; the reply is then ignored.
    pub fn reply(&mut self, id: u32) -> Option<T> {
        let slot = self.slot(id);
        self.pending[slot].take_if(|pending| pending.id == id).map(|pending| pending.token)
    }

    /// The caller abandoned the call: a later reply is ignored. Returns false if no such call
    /// waited. If true, the client may send a CancelRequest.
    pub fn abandon(&mut self, id: u32) -> bool {
        self.reply(id).is_some()
    }

    /// The kind of a received message.
    ///
    /// # Errors
    /// [`ProtocolError::Unexpected`] for a message that this side never receives.
    pub fn received(&self, header: &Header) -> Result<Incoming, ProtocolError> {
        let both = self.bidirectional && header.version >= Version::V1_2;
        match header.kind {
            MessageKind::Request | MessageKind::LocateRequest | MessageKind::CancelRequest
                if both || self.role == Role::Acceptor =>
            {
                Ok(Incoming::Call)
            }
            MessageKind::Reply | MessageKind::LocateReply if both || self.role == Role::Connector => {
                Ok(Incoming::Answer)
            }
            MessageKind::Fragment => Ok(Incoming::Fragment),
            MessageKind::CloseConnection => Ok(Incoming::End(End::Orderly)),
            MessageKind::MessageError => Ok(Incoming::End(End::MessageError)),
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }

    /// The connection has ended: no request can begin, and every waiting call fails.
    pub fn end(&mut self, end: End) -> impl Iterator<Item = (u32, T, CallFailure)> {
        self.open = false;
        self.pending.iter_mut().filter_map(Option::take).map(move |pending| {
            let failure = call_failure(end, pending.sent);
            (pending.id, pending.token, failure)
        })
    }

    fn slot(&self, id: u32) -> usize {
        // The table's length is a power of two, so that ids find their slots in turn when they
        // wrap, too.
        (id >> 1) as usize & (self.pending.len() - 1)
    }
}

/// The error of a call after the end of its connection. After CloseConnection, and only then,
/// clause 9.5.1.1 lets a client repeat a call that may have left this side.
pub fn call_failure(end: End, sent: bool) -> CallFailure {
    let retry = SystemException::new(Kind::Transient, minor::TRANSIENT_CLOSED, Completion::No);
    let fail = |minor| CallFailure::Fail(SystemException::new(Kind::CommFailure, minor, Completion::Maybe));
    match (end, sent) {
        (End::Orderly, _) | (End::Lost, false) => CallFailure::Retry(retry),
        (End::Lost, true) => fail(minor::COMM_FAILURE_LOST),
        // Sending again does not help when one side cannot read the other.
        (End::MessageError, _) => fail(minor::COMM_FAILURE_MESSAGE_ERROR),
        (End::Protocol, _) => fail(minor::COMM_FAILURE_PROTOCOL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(capacity: usize) -> Connection<char> {
        Connection::new(Role::Connector, capacity)
    }

    fn header(version: Version, kind: MessageKind) -> Header {
        Header::new(version, kind)
    }

    /// Clause 9.8: even ids from the side that opened the connection, odd ones from the other.
    #[test]
    fn ids() {
        let mut c = client(4);
        assert_eq!([c.begin('a'), c.oneway(), c.begin('b')], [Ok(0), Ok(2), Ok(4)]);
        let mut s = Connection::new(Role::Acceptor, 4);
        assert_eq!(s.begin('x'), Err(Refused::NotBidirectional));
        s.set_bidirectional();
        assert_eq!([s.begin('x'), s.begin('y')], [Ok(1), Ok(3)]);
        assert_eq!(s.reply(3), Some('y'));
        assert_eq!(s.reply(3), None, "a second reply is ignored");
        assert_eq!(s.reply(2), None);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut c = client(2);
        let first = c.begin('a').unwrap();
        c.begin('b').unwrap();
        assert_eq!(c.begin('c'), Err(Refused::Full));
        assert_eq!(SystemException::from(Refused::Full).kind, Kind::ImpLimit);
        assert_eq!(c.reply(first), Some('a'));
        let again = c.begin('c').unwrap();
        assert_eq!(c.reply(again), Some('c'));
    }

    #[test]
    fn how_calls_end() {
        let calls = |end| {
            let mut c = client(4);
            c.begin('a').unwrap();
            let b = c.begin('b').unwrap();
            c.sent(b);
            let mut failures: alloc::vec::Vec<_> =
                c.end(end).map(|(_, token, failure)| (token, failure)).collect();
            failures.sort_by_key(|(token, _)| *token);
            assert!(c.is_idle() && !c.is_open());
            assert_eq!(c.begin('c'), Err(Refused::Closed));
            failures
        };
        let completed = |failure: &CallFailure| match failure {
            CallFailure::Retry(e) => (true, e.kind, e.completed),
            CallFailure::Fail(e) => (false, e.kind, e.completed),
        };
        let again = (true, Kind::Transient, Completion::No);
        let failed = (false, Kind::CommFailure, Completion::Maybe);
        for (end, expected) in [
            (End::Orderly, [again, again]),
            (End::Lost, [again, failed]),
            (End::MessageError, [failed, failed]),
            (End::Protocol, [failed, failed]),
        ] {
            let failures = calls(end);
            assert_eq!([completed(&failures[0].1), completed(&failures[1].1)], expected, "{end:?}");
        }
    }

    #[test]
    fn an_abandoned_call_has_no_failure() {
        let mut c = client(4);
        let id = c.begin('a').unwrap();
        assert!(c.abandon(id));
        assert!(!c.abandon(id));
        assert_eq!(c.reply(id), None);
        assert_eq!(c.end(End::Lost).count(), 0);
    }

    #[test]
    fn directions() {
        let mut c = client(1);
        let mut s = Connection::<char>::new(Role::Acceptor, 1);
        let request = header(Version::V1_2, MessageKind::Request);
        let reply = header(Version::V1_2, MessageKind::Reply);
        assert_eq!(c.received(&reply), Ok(Incoming::Answer));
        assert_eq!(s.received(&request), Ok(Incoming::Call));
        assert_eq!(c.received(&request), Err(ProtocolError::Unexpected(MessageKind::Request)));
        assert_eq!(s.received(&reply), Err(ProtocolError::Unexpected(MessageKind::Reply)));
        c.set_bidirectional();
        s.set_bidirectional();
        assert_eq!(c.received(&request), Ok(Incoming::Call));
        assert_eq!(s.received(&reply), Ok(Incoming::Answer));
        let old = header(Version::V1_1, MessageKind::Request);
        assert!(c.received(&old).is_err(), "bidirectional in 1.2 only");
        let close = header(Version::V1_0, MessageKind::CloseConnection);
        assert_eq!(s.received(&close), Ok(Incoming::End(End::Orderly)));
    }

    proptest! {
        /// Against a list: every reply finds its caller whatever the order and however ids wrap.
        #[test]
        fn replies_find_their_callers(steps in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..200)) {
            let mut c: Connection<u32> = Connection::new(Role::Connector, 5);
            c.next = u32::MAX - 21;
            let mut model: alloc::vec::Vec<(u32, u32)> = alloc::vec::Vec::new();
            for (token, (begin, index)) in (0u32..).zip(steps) {
                if begin {
                    match c.begin(token) {
                        Ok(id) => {
                            prop_assert!(model.iter().all(|(other, _)| *other != id));
                            prop_assert_eq!(id % 2, 0);
                            model.push((id, token));
                        }
                        Err(refused) => prop_assert_eq!((refused, model.len()), (Refused::Full, 8)),
                    }
                } else if !model.is_empty() {
                    let (id, token) = model.swap_remove(index.index(model.len()));
                    prop_assert_eq!(c.reply(id), Some(token));
                }
            }
        }
    }
}
