//! The reply to a call.

use super::attempt::{Answer, Call};
use super::unsent::no_slot;
use crate::buffers::MAX_RETAINED_BLOCK;
use crate::connection::{Arrived, Connection, ReadError};
use crate::object::Target;
use crate::server::refuse;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Decoder, Message, Order, Text};
use isorb_giop::message::{self, OrdinaryReply, ReplyStatus};
use isorb_giop::{Completion, Ior, Kind, minor};
use isorb_scope::{Buffer, BufferPool, Scope};
use std::any::Any;
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Replies up to this length are copied into the caller's scope; longer ones are kept there as
/// blocks.
const COPY_UP_TO: usize = 2048;

/// The reply to a call, before the results are read.
#[derive(Debug)]
pub enum Reply<'s> {
    /// A decoder at the results.
    Results(Decoder<'s>),
    /// The repository id of a user exception, and a decoder at its members.
    Exception(&'s str, Decoder<'s>),
}

impl<'s> Reply<'s> {
    /// Reads the results of an operation without `raises`.
    ///
    /// # Errors
    /// MARSHAL and the like for malformed results, UNKNOWN for a user exception that the operation
    /// does not raise.
    pub fn results<T>(self, read: impl FnOnce(&mut Decoder<'s>) -> isorb_cdr::Result<T>) -> Result<T> {
        self.raises(read, |_, _| Ok(None::<SystemException>))
    }

    /// Reads the results or one of the exceptions that `known` knows.
    ///
    /// # Errors
    /// As [`Reply::results`], and what `known` gives.
    pub fn raises<T, E: From<SystemException>>(
        self,
        read: impl FnOnce(&mut Decoder<'s>) -> isorb_cdr::Result<T>,
        known: impl FnOnce(&str, &mut Decoder<'s>) -> isorb_cdr::Result<Option<E>>,
    ) -> Result<T, E> {
        let in_reply = |error, scope: &Scope<'_>| {
            SystemException::from(error).completed(Completion::Yes).in_scope(scope)
        };
        match self {
            Reply::Results(mut d) => match read(&mut d) {
                Ok(results) => Ok(results),
                Err(error) => {
                    cold_path();
                    Err(in_reply(error, d.scope()).into())
                }
            },
            Reply::Exception(id, mut d) => {
                cold_path();
                match known(id, &mut d) {
                    Ok(Some(exception)) => Err(exception),
                    Ok(None) => Err(unlisted(id).into()),
                    Err(error) => Err(in_reply(error, d.scope()).into()),
                }
            }
        }
    }
}

#[cold]
fn unlisted(id: &str) -> SystemException {
    SystemException::new(Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION, Completion::Maybe)
        .detail(format!("the peer raised {id}, which the operation does not list"))
}

/// The outcome of one attempt.
pub(crate) enum Outcome<'s> {
    Reply(Reply<'s>),
    /// The object is elsewhere; permanently if true.
    Forward(Ior, bool),
    /// The server wants the object named in another way (clause 9.4.3.1).
    Readdress(u16),
    Done,
}

/// Why one attempt failed.
pub(crate) enum Failure {
    /// The request was not processed, and another connection may succeed.
    NotProcessed(SystemException),
    /// There is no connection.
    Unreachable(SystemException),
    /// Nothing was sent, because a loan among the arguments is of this connection.
    OnLoan(Arc<Connection>),
    Final(SystemException),
}

impl Failure {
    /// The caller's exception, if there is no other attempt.
    pub fn into_exception(self) -> SystemException {
        match self {
            Failure::NotProcessed(exception)
            | Failure::Unreachable(exception)
            | Failure::Final(exception) => exception,
            Failure::OnLoan(connection) => SystemException::from(Kind::BadParam)
                .detail(format!(
                    "the loan among the arguments was made for another server, {}; make the loan for the \
                     reference that is called, or pass a copy",
                    connection.peer()
                ))
                .completed(Completion::No),
        }
    }
}

impl From<SystemException> for Failure {
    fn from(exception: SystemException) -> Failure {
        Failure::Final(exception)
    }
}

impl From<isorb_cdr::Error> for Failure {
    /// The exception for a malformed reply: the request was processed, or may have been.
    fn from(error: isorb_cdr::Error) -> Failure {
        Failure::Final(SystemException::from(error).completed(Completion::Maybe))
    }
}

impl Call<'_, '_> {
    /// Reads the header of a reply; the decoder is at its body.
    fn open<'s>(
        &self,
        (arrived, bytes, text): (Arrived, &'s mut [u8], Text),
        scope: &'s Scope<'s>,
    ) -> Result<(message::Reply<'s>, Decoder<'s>)> {
        let (reply, mut d) = message::Reply::open(bytes, &arrived.header, scope)?;
        d.set_text(text);
        self.lend_orb(&mut d, scope)?;
        Ok((reply, d))
    }

    /// A decoder at the results of a successful call.
    #[inline(always)]
    pub fn results<'s>(
        &self,
        (body, order, text): (&'s mut [u8], Order, Text),
        scope: &'s Scope<'s>,
    ) -> Result<Decoder<'s>> {
        let context: Option<&dyn Any> = if body.is_empty() { None } else { Some(self.lent_orb(scope)?) };
        Ok(OrdinaryReply::body(body, order, text, scope).read_as(text, context))
    }

    /// References among the results belong to this ORB.
    fn lend_orb<'s>(&self, d: &mut Decoder<'s>, scope: &'s Scope<'s>) -> Result<()> {
        if d.remaining() > 0 {
            d.set_context(self.lent_orb(scope)?);
        }
        Ok(())
    }

    /// The ORB, as long as the results live.
    fn lent_orb<'s>(&self, scope: &'s Scope<'s>) -> Result<&'s Orb> {
        let kept = scope.keep(self.orb.clone());
        Ok(kept.map_err(|full| SystemException::from(full).completed(Completion::Maybe))?)
    }

    #[cold]
    pub fn outcome<'s>(&self, answer: Answer<'s>, scope: &'s Scope<'s>) -> Result<Outcome<'s>, Failure> {
        let answer = match answer {
            Answer::Results(body, order, text) => {
                return Ok(Outcome::Reply(Reply::Results(self.results((body, order, text), scope)?)));
            }
            Answer::Any(arrived, bytes, text) => ((arrived, bytes, text), None),
            Answer::Lent(arrived, bytes, text, lent) => ((arrived, bytes, text), Some(lent)),
        };
        let (answer, lent) = answer;
        let (reply, mut d) = self.open(answer, scope)?;
        if let Some(lent) = lent {
            d = d.with_lent(&lent.parts);
        }
        if let Some(exchange) = self.exchange {
            exchange.note(&reply.contexts);
        }
        self.other_reply(reply, d)
    }

    /// The outcome in a reply, results or another.
    #[cold]
    pub fn other_reply<'s>(
        &self,
        reply: message::Reply<'_>,
        mut d: Decoder<'s>,
    ) -> Result<Outcome<'s>, Failure> {
        match reply.status {
            ReplyStatus::NoException => Ok(Outcome::Reply(Reply::Results(d))),
            ReplyStatus::UserException => {
                let id = d.string()?;
                Ok(Outcome::Reply(Reply::Exception(id, d)))
            }
            ReplyStatus::SystemException => {
                let mut exception = SystemException::decode(&mut d)?;
                if let Some(detail) = reply.contexts.get(isorb_giop::context::EXCEPTION_DETAIL_MESSAGE)
                    && let Ok(text) = isorb_giop::context::read_exception_detail(detail)
                {
                    exception = exception.detail(text);
                }
                Err(Failure::Final(exception))
            }
            ReplyStatus::LocationForward => Ok(Outcome::Forward(Ior::decode(&mut d)?, false)),
            ReplyStatus::LocationForwardPerm => Ok(Outcome::Forward(Ior::decode(&mut d)?, true)),
            ReplyStatus::NeedsAddressingMode => Ok(Outcome::Readdress(d.get()?)),
        }
    }

    #[cold]
    pub fn read_failure(
        &self,
        error: ReadError,
        connection: &Connection,
        id: u32,
        target: &Target,
    ) -> Failure {
        match error {
            ReadError::TimedOut => {
                if target.cancel {
                    connection.cancel(target.version, id);
                }
                Failure::Final(self.timed_out_on(connection))
            }
            ReadError::ClosedInOrder => Failure::NotProcessed(
                SystemException::from(Kind::Transient).minor(minor::TRANSIENT_CLOSED).detail(format!(
                    "{} closed the connection before it took {}",
                    connection.peer(),
                    self.operation
                )),
            ),
            ReadError::Protocol(error) => {
                refuse(connection, error);
                connection.break_off();
                let sentence = format!("{}: {error}", connection.peer());
                Failure::Final(lost(connection.peer(), Completion::Maybe).detail(sentence))
            }
            ReadError::NoMemory => Failure::Final(
                SystemException::from(Kind::NoMemory)
                    .minor(minor::NO_MEMORY_POOL)
                    .completed(Completion::Maybe),
            ),
            // The request was sent.
            ReadError::NoSlot => Failure::Final(no_slot(connection.peer()).completed(Completion::Maybe)),
            _ => Failure::Final(lost(connection.peer(), Completion::Maybe)),
        }
    }

    /// Names the setting where the call may have waited for others of its connection.
    #[cold]
    fn timed_out_on(&self, connection: &Connection) -> SystemException {
        let mut late = self.timed_out(connection.peer());
        let calls = connection.in_flight.load(Ordering::Relaxed);
        if calls > 1 {
            let sentence = late.detail.take().unwrap_or_default();
            late = late.detail(format!(
                "{sentence}; {calls} calls share the connection, and a server without lanes serves them one by \
                 one: raise connections_per_server"
            ));
        }
        late
    }

    #[cold]
    pub fn timed_out(&self, peer: &str) -> SystemException {
        let limit = self.timeout.duration().unwrap_or_default();
        SystemException::from(Kind::Timeout)
            .completed(Completion::Maybe)
            .detail(format!("{peer} did not answer {} within {limit:?}", self.operation))
    }
}

#[cold]
pub(super) fn lost(peer: &str, completed: Completion) -> SystemException {
    SystemException::new(Kind::CommFailure, minor::COMM_FAILURE_LOST, completed)
        .detail(format!("the connection to {peer} was lost"))
}

/// Moves a message from a thread's block to the caller's scope. A short one is copied, a long one
/// keeps its block.
pub(super) fn take_message<'s>(
    scope: &'s Scope<'s>,
    block: &mut Buffer,
    len: usize,
    pool: &Arc<BufferPool>,
) -> Result<&'s mut [u8]> {
    if len <= COPY_UP_TO && scope.left() > 2 * len {
        return Ok(scope.aligned_copy(&block.bytes()[..len])?);
    }
    // As long as this one, so that a next reply of its length is received whole by one system call,
    // where it stays.
    let usual =
        if pool.is_reserved() || block.capacity() > MAX_RETAINED_BLOCK { 4096 } else { block.capacity() };
    let fresh = pool.take(usual).or_else(|| pool.take(4096));
    let fresh = fresh.ok_or(SystemException::from(Kind::NoMemory).minor(minor::NO_MEMORY_POOL))?;
    let kept = scope.keep(std::mem::replace(block, fresh))?;
    Ok(&mut kept.bytes_mut()[..len])
}

/// Copies a short body of a reply, with the alignment that it had behind its header.
#[inline(always)]
pub(super) fn copy_body<'s>(scope: &'s Scope<'s>, body: &[u8]) -> Option<&'s mut [u8]> {
    if body.is_empty() {
        return Some(&mut []);
    }
    if body.len() > COPY_UP_TO || scope.left() <= 2 * body.len() {
        return None;
    }
    scope.aligned_copy(body).ok()
}

pub(super) fn copy_to_scope<'s>(
    message: &Message<'_>,
    scope: &'s Scope<'s>,
    pool: &Arc<BufferPool>,
) -> Result<&'s mut [u8]> {
    let bytes = room(message.len(), scope, pool)?;
    let mut at = 0;
    for piece in message.pieces() {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Ok(bytes)
}

pub(super) fn copy_octets<'s>(
    octets: &[u8],
    scope: &'s Scope<'s>,
    pool: &Arc<BufferPool>,
) -> Result<&'s mut [u8]> {
    let bytes = room(octets.len(), scope, pool)?;
    bytes.copy_from_slice(octets);
    Ok(bytes)
}

/// Room in the scope: in its region if there is enough, else in a block.
fn room<'s>(len: usize, scope: &'s Scope<'s>, pool: &Arc<BufferPool>) -> Result<&'s mut [u8]> {
    if len <= COPY_UP_TO && scope.left() > 2 * len {
        return Ok(scope.bytes_mut(len)?);
    }
    let block = pool.take(len).ok_or(SystemException::from(Kind::NoMemory).minor(minor::NO_MEMORY_POOL))?;
    Ok(&mut scope.keep(block)?.bytes_mut()[..len])
}
