//! Replies that servants give after the upcall (TAO's asynchronous method handling).

use crate::buffers::with_buffers;
use crate::connection::{Connection, DeferredRequest, SendError};
use crate::log::warn;
use crate::poa::{Poa, request_deadline};
use crate::servant::Outcome;
use crate::server::{
    LocalTicket, defer_local_call, deliver, replace_too_long, write_detailed_exception, write_exception,
};
use crate::upcall::Request;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Encoder, Message, Text, Version};
use isorb_giop::message::{self, ReplyStatus, ServiceContext};
use isorb_giop::{Completion, Kind, context, minor};
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the reply to a request goes.
#[derive(Clone, Copy)]
pub(crate) struct ReplyAddress<'u> {
    /// None for a request of this process, or to a group.
    pub connection: Option<&'u Arc<Connection>>,
    pub id: u32,
    pub expected: bool,
    pub version: Version,
    /// The priority that the reply carries.
    pub echo: Option<i16>,
}

/// The right to reply to a request after its upcall has returned, from
/// [`Upcall::defer`](crate::Upcall::defer). It may be used on any thread.
///
/// Dropping it without a reply sends NO_RESPONSE with minor code
/// [`NO_RESPONSE_DEFERRED`](minor::NO_RESPONSE_DEFERRED), COMPLETED_MAYBE, as TAO does. This is
/// logged and counted.
///
/// ```
/// # use isorb::{Deferred, Upcall};
/// struct Lamp { waiting: std::sync::Mutex<Vec<Deferred>> }
///
/// impl Lamp {
///     fn describe<'u>(&'u self, cx: Upcall<'u>) -> isorb::Result<&'u str> {
///         let later = cx.defer()?;
///         self.waiting.lock().unwrap().push(later);
///         Err(Deferred::LATER)
///     }
/// }
/// ```
#[must_use = "dropping it without a reply sends NO_RESPONSE"]
pub struct Deferred {
    orb: Orb,
    poa: Option<Poa>,
    /// None for a request without a reply, and after the reply.
    client: Option<Client>,
    id: u32,
    text: Text,
    echo: Option<i16>,
    priority: Option<Priority>,
}

enum Client {
    Peer(DeferredRequest),
    Process(LocalTicket),
}

impl Deferred {
    /// What an operation returns that replies later. It is not sent. A client gets it, as
    /// NO_RESPONSE, only from an operation that returns it without having deferred its reply.
    pub const LATER: SystemException =
        SystemException::new(Kind::NoResponse, minor::NO_RESPONSE_DEFERRED, Completion::Maybe);

    pub(crate) fn new(request: &Request<'_>) -> Result<Deferred> {
        let (orb, reply) = (request.orb, &request.reply);
        let config = orb.config();
        let mut deferred = Deferred {
            orb: orb.clone(),
            poa: None,
            client: None,
            id: reply.id,
            text: reply.connection.map_or(Text::HELD, |connection| connection.text(reply.version)),
            echo: reply.echo,
            priority: crate::sched::thread::priority(),
        };
        if let Some(poa) = request.poa {
            if !poa.begin_deferred(config.deferred_replies_per_poa) {
                return Err(full("the objects of the POA", "deferred_replies_per_poa"));
            }
            deferred.poa = Some(poa.clone());
        }
        if reply.expected {
            deferred.client = Some(match reply.connection {
                Some(connection) => {
                    let request = connection.defer(config.deferred_replies_per_connection);
                    let none = || full("the connection", "deferred_replies_per_connection");
                    Client::Peer(request.ok_or_else(none)?)
                }
                None => Client::Process(defer_local_call(request_deadline())),
            });
        }
        Ok(deferred)
    }

    /// The CORBA priority of the request, if its POA has priorities. The reply carries it where the
    /// client propagated its own. The thread that replies keeps its priority: raise it to this one
    /// where the reply is as urgent as the request.
    pub fn priority(&self) -> Option<Priority> {
        self.priority
    }

    /// Whether a reply would reach a client: it expects one, its connection stands, and a caller of
    /// this process has not reached its time-out.
    ///
    /// # Real-time
    /// Reads memory.
    pub fn is_awaited(&self) -> bool {
        match &self.client {
            Some(Client::Peer(request)) => request.connection().takes_replies(),
            Some(Client::Process(ticket)) => ticket.is_pending(),
            None => false,
        }
    }

    /// Replies with what `write` writes: the results, or a user exception's repository id and
    /// members. An exception of `write` becomes the reply. Generated code has a function
    /// `reply_…` for each operation, which calls this.
    ///
    /// # Errors
    /// COMM_FAILURE when the connection is gone; TIMEOUT when a caller of this process waits no
    /// more; MARSHAL or IMP_LIMIT when the results cannot be written or sent. The client gets an
    /// exception then, if it can. A oneway has no reply: nothing is written, and that is no error.
    ///
    /// # Real-time
    /// Allocates nothing after the first reply of a thread. One PI lock and one system call, at the
    /// priority of the thread that replies; blocks on a client that does not read, for
    /// `send_timeout_ms` at most.
    pub fn reply<'a>(mut self, write: impl FnOnce(&mut Encoder<'a>) -> Result<Outcome>) -> Result<()> {
        let orb = self.orb.clone();
        with_buffers(orb.pool(), |buffers| {
            let mut e = Encoder::new(buffers.encode.take(), self.text);
            e.set_limit(orb.config().message_limit.min(buffers.encode.limit));
            let sent = self.reply_by(&mut e, write);
            buffers.encode.put_back(e.into_buffer());
            sent
        })
    }

    /// Replies with a system exception.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    ///
    /// # Real-time
    /// As [`reply`](Self::reply).
    pub fn raise(self, exception: &SystemException) -> Result<()> {
        self.reply(|_| Err(exception.clone()))
    }

    fn reply_by<'a>(
        &mut self,
        e: &mut Encoder<'a>,
        write: impl FnOnce(&mut Encoder<'a>) -> Result<Outcome>,
    ) -> Result<()> {
        if self.client.is_none() {
            return Ok(());
        }
        let (status, head) = self.write_header(e);
        let detailed = self.orb.server().interceptors.server().is_none();
        let raise = |e: &mut Encoder<'a>, exception: &SystemException| {
            write_detailed_exception(e, (status, head), detailed, exception);
        };
        let body = message::begin_body(e);
        let outcome = write(e);
        let mut unwritten = None;
        match (outcome, e.error()) {
            (Ok(outcome), None) => {
                if outcome == Outcome::Exception {
                    e.patch(status, ReplyStatus::UserException as u32);
                }
                message::end_body(e, body);
            }
            (Err(exception), _) => raise(e, &exception),
            (Ok(_), Some(error)) => {
                let exception = SystemException::from(error).completed(Completion::Yes);
                raise(e, &exception);
                unwritten = Some(exception);
            }
        }
        self.send(e)?;
        unwritten.map_or(Ok(()), Err)
    }

    /// The header of a reply. Returns the offset of its status, and its end.
    fn write_header(&self, e: &mut Encoder<'_>) -> (usize, usize) {
        let none = ReplyStatus::NoException;
        let status = match self.echo {
            Some(priority) if self.text.version >= Version::V1_2 => {
                message::write_prioritised_reply(e, self.id, none, priority)
            }
            Some(priority) => {
                let data = context::rt_corba_priority(priority);
                let context = ServiceContext { id: context::RT_CORBA_PRIORITY, data: &data };
                message::write_reply(e, self.id, none, &[context])
            }
            None => message::write_reply(e, self.id, none, &[]),
        };
        (status, e.position())
    }

    fn send(&mut self, e: &mut Encoder<'_>) -> Result<()> {
        let Some(client) = self.client.take() else { return Ok(()) };
        let pool = self.orb.pool();
        let mut result = Err(SystemException::from(Kind::Marshal));
        deliver(e, &mut |message| result = client.send(message, pool));
        result
    }

    /// Tells the client that there is no reply.
    #[cold]
    fn abandon(&mut self) {
        static ABANDONED: AtomicU64 = AtomicU64::new(0);
        if self.is_awaited() {
            let count = ABANDONED.fetch_add(1, Ordering::Relaxed) + 1;
            if count.is_power_of_two() {
                warn(
                    "isorb::dispatch",
                    format_args!(
                        "a servant deferred its reply and dropped it: NO_RESPONSE for the client; {count} such \
                         requests"
                    ),
                );
            }
        }
        // Not the buffers of the thread, which may be ending.
        let mut e = Encoder::new(Vec::new(), self.text);
        let (status, head) = self.write_header(&mut e);
        write_exception(&mut e, status, head, &Deferred::LATER);
        // A client that is gone needs none.
        _ = self.send(&mut e);
    }
}

impl Client {
    fn send(&self, message: &Message<'_>, pool: &Arc<isorb_scope::BufferPool>) -> Result<()> {
        let connection = match self {
            Client::Process(ticket) => {
                if !ticket.is_pending() {
                    return Err(SystemException::new(Kind::Timeout, minor::TIMEOUT_CALL, Completion::Yes)
                        .detail("the caller of this process does not wait for the reply any more"));
                }
                ticket.reply(message, pool);
                return Ok(());
            }
            Client::Peer(request) => request.connection(),
        };
        let sent = connection.send(message).err();
        replace_too_long(connection, sent, message);
        match sent {
            None => Ok(()),
            Some(SendError::TooLong) => Err(SystemException::new(Kind::ImpLimit, 0, Completion::Yes)
                .detail("the reply is longer than a datagram")),
            Some(_) => {
                Err(SystemException::new(Kind::CommFailure, minor::COMM_FAILURE_LOST, Completion::Yes)
                    .detail(format!(
                        "{}: the reply was not sent: the client is gone or does not read",
                        connection.peer()
                    )))
            }
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if self.client.is_some() {
            self.abandon();
        }
        if let Some(poa) = &self.poa {
            poa.end_deferred();
        }
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cold]
pub(crate) fn deferred_before() -> SystemException {
    SystemException::from(Kind::BadInvOrder).detail("the reply to this request was deferred before")
}

#[cold]
fn full(owner: &str, setting: &str) -> SystemException {
    SystemException::new(Kind::ImpLimit, minor::IMP_LIMIT_DEFERRED, Completion::No)
        .detail(format!("{owner} has as many deferred replies as may be ({setting})"))
}
