//! A call, from the stub's arguments to the reply's results.

use crate::connection::{Arrived, ReadError, SendError};
use crate::interceptor::{Attempt, ClientChain, Exchange, join};
use crate::object::{Place, Target};
use crate::peer::{Peer, Wish};
use crate::policy::{Policies, Rebind, SyncScope};
use crate::workspace::{Work, with_scope, with_work};
use crate::{Object, Operation, Orb, Result, SystemException, server};
use isorb_cdr::{Decoder, Encoder, Message, Text, Version};
use isorb_giop::context::CodeSets;
use isorb_giop::message::{self, Addressed, ReplyStatus, Response, ServiceContext};
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{Completion, Ior, Kind, minor};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, Scope};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often one call follows forwards.
const MAX_FORWARDS: u32 = 16;
/// Replies up to this length are copied into the caller's scope; longer ones are kept there as blocks.
const COPY_UP_TO: usize = 2048;

/// What came back from a call, before the results are read.
#[derive(Debug)]
pub enum Reply<'s> {
    /// At the results.
    Results(Decoder<'s>),
    /// The repository id of a user exception, and at its members.
    Exception(&'s str, Decoder<'s>),
}

impl<'s> Reply<'s> {
    /// Reads the results of an operation without `raises`.
    ///
    /// # Errors
    /// MARSHAL and the like for malformed results, UNKNOWN for a user exception that nobody announced.
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
        let in_reply = |error| SystemException::from(error).completed(Completion::Yes);
        match self {
            Reply::Results(mut d) => read(&mut d).map_err(|error| in_reply(error).into()),
            Reply::Exception(id, mut d) => match known(id, &mut d) {
                Ok(Some(exception)) => Err(exception),
                Ok(None) => {
                    Err(SystemException::new(Kind::Unknown, minor::UNKNOWN_USER_EXCEPTION, Completion::Maybe)
                        .detail(format!("the peer raised {id}, which the operation does not list"))
                        .into())
                }
                Err(error) => Err(in_reply(error).into()),
            },
        }
    }
}

/// Runs `f` with a scope of the calling thread: what stubs use that give owned results.
///
/// # Errors
/// What `f` gives; IMP_LIMIT when calls are nested too deeply.
///
/// # Real-time
/// Allocates on a thread's first call of each depth of nesting only.
pub fn call_scope<T, E: From<SystemException>>(
    f: impl for<'s> FnOnce(&'s Scope<'s>) -> Result<T, E>,
) -> Result<T, E> {
    with_scope(f)
}

/// What one attempt gave.
pub(crate) enum Outcome<'s> {
    Reply(Reply<'s>),
    /// The object is elsewhere; for good if so said.
    Forward(Ior, bool),
    /// The server wants the object named in another way (clause 9.4.3.1).
    Readdress(u16),
    Done,
}

/// Why one attempt failed.
pub(crate) enum Failure {
    /// It certainly was not processed and another connection may do.
    NotProcessed(SystemException),
    /// No connection could be had.
    Unreachable(SystemException),
    Final(SystemException),
}

impl From<SystemException> for Failure {
    fn from(exception: SystemException) -> Failure {
        Failure::Final(exception)
    }
}

impl From<isorb_cdr::Error> for Failure {
    /// For what is wrong in a reply: the request was processed, or may have been.
    fn from(error: isorb_cdr::Error) -> Failure {
        Failure::Final(SystemException::from(error).completed(Completion::Maybe))
    }
}

struct Call<'c, 'a> {
    orb: &'c Orb,
    operation: &'c str,
    response: Response,
    arguments: &'c dyn Fn(&mut Encoder<'a>),
    deadline: Deadline,
    timeout: Option<Duration>,
    /// A connection was closed under this call.
    wary: Cell<bool>,
    /// It is not the first attempt.
    late: Cell<bool>,
    /// Contexts of interceptors, where there are any.
    exchange: Option<&'c Exchange>,
}

impl Object {
    /// Calls an operation and waits for its reply, which lies in `scope`.
    ///
    /// # Errors
    /// The system exception that the call ended in.
    ///
    /// # Real-time
    /// After a thread's and a connection's first calls: allocates nothing, one PI lock to choose the connection and one to
    /// send, one send and (on a connection of its own) one receive system call; waits as long as the round-trip time-out says.
    pub fn invoke<'s, 'a>(
        &self,
        operation: &Operation,
        scope: &'s Scope<'s>,
        arguments: &dyn Fn(&mut Encoder<'a>),
    ) -> Result<Reply<'s>> {
        let policies = self.effective_policies();
        let call = self.call(operation, Response::Target, arguments, &policies)?;
        if let Some(chain) = self.orb().interceptors().client() {
            let reply = self.intercepted(chain, &call, scope, &policies)?;
            return reply.ok_or(Kind::Internal.into());
        }
        let target = self.target()?;
        let outcome = match call.attempt(&target, scope, &policies) {
            // Opened here, not in a function further down, since results are large to hand up.
            Ok(Some(answer)) => {
                let Answer { arrived, bytes, text } = answer;
                let mut d = message::start_whole(bytes, &arrived.header, scope);
                let reply = call.open(&mut d, text, scope)?;
                if reply.status == ReplyStatus::NoException {
                    return Ok(Reply::Results(d));
                }
                call.other_reply(reply, d)
            }
            Ok(None) => Ok(Outcome::Done),
            Err(failure) => Err(failure),
        };
        let mut again = |target: &Arc<Target>, _: Progress| Ok(call.whole(target, scope, &policies));
        self.go_on(&call, target, outcome, &policies, &mut again)?.ok_or(Kind::Internal.into())
    }

    /// Sends a oneway call; returns as the sync scope says.
    ///
    /// # Errors
    /// What could be known by then.
    ///
    /// # Real-time
    /// As [`Object::invoke`], without the receive unless the sync scope asks for it.
    pub fn send<'a>(&self, operation: &Operation, arguments: &dyn Fn(&mut Encoder<'a>)) -> Result<()> {
        let policies = self.effective_policies();
        let response = match policies.sync_scope.unwrap_or_default() {
            SyncScope::None | SyncScope::WithTransport => Response::None,
            SyncScope::WithServer => Response::Server,
            SyncScope::WithTarget => Response::Target,
        };
        let call = self.call(operation, response, arguments, &policies)?;
        call_scope(|scope| {
            let reply = match self.orb().interceptors().client() {
                Some(chain) => self.intercepted(chain, &call, scope, &policies)?,
                None => {
                    let target = self.target()?;
                    let outcome = call.whole(&target, scope, &policies);
                    if let Ok(Outcome::Done) = outcome {
                        return Ok(());
                    }
                    let mut again =
                        |target: &Arc<Target>, _: Progress| Ok(call.whole(target, scope, &policies));
                    self.go_on(&call, target, outcome, &policies, &mut again)?
                }
            };
            reply.map_or(Ok(()), |reply| reply.results(|_| Ok(())))
        })
    }

    /// A call that starts now.
    #[inline(always)]
    fn call<'c, 'a>(
        &'c self,
        operation: &Operation,
        response: Response,
        arguments: &'c dyn Fn(&mut Encoder<'a>),
        policies: &Policies,
    ) -> Result<Call<'c, 'a>> {
        let orb = self.orb();
        orb.check_running()?;
        let timeout = policies.timeout();
        let deadline = Deadline::after_opt(timeout);
        let (wary, late) = (Cell::new(false), Cell::new(false));
        let operation = operation.name;
        Ok(Call { orb, operation, response, arguments, deadline, timeout, wary, late, exchange: None })
    }

    /// A call whose every attempt runs between the points of interceptors.
    #[cold]
    fn intercepted<'s>(
        &self,
        chain: &ClientChain,
        call: &Call<'_, '_>,
        scope: &'s Scope<'s>,
        policies: &Policies,
    ) -> Result<Option<Reply<'s>>> {
        let mut again = |target: &Arc<Target>, progress: Progress| {
            let attempt = Attempt {
                object: self,
                target,
                operation: call.operation,
                response: call.response,
                sync_scope: policies.sync_scope.unwrap_or_default(),
                retries: !progress.retried || target.forwarded(),
                refuses_forward: &|| refuse_forward(policies, progress.forwards + 1, call.operation),
            };
            chain.around(attempt, |exchange| call.with(exchange).whole(target, scope, policies))
        };
        let target = self.target()?;
        let outcome = again(&target, Progress::default())?;
        self.go_on(call, target, outcome, policies, &mut again)
    }

    /// After an attempt that was not the last: follows forwards, tries `again`.
    #[cold]
    fn go_on<'s>(
        &self,
        call: &Call<'_, '_>,
        mut target: Arc<Target>,
        mut attempt: Result<Outcome<'s>, Failure>,
        policies: &Policies,
        again: &mut Again<'_, 's>,
    ) -> Result<Option<Reply<'s>>> {
        let Progress { mut forwards, mut retried } = Progress::default();
        let mut readdressed = 0;
        call.late.set(true);
        loop {
            match attempt {
                Ok(Outcome::Reply(reply)) => return Ok(Some(reply)),
                Ok(Outcome::Done) => return Ok(None),
                Ok(Outcome::Forward(ior, permanent)) => {
                    forwards += 1;
                    if let Some(refusal) = refuse_forward(policies, forwards, call.operation) {
                        return Err(refusal);
                    }
                    self.forward(&ior, permanent)?;
                }
                Ok(Outcome::Readdress(way)) => {
                    let way = u8::try_from(way).unwrap_or(u8::MAX);
                    // Each way once: a server that likes none of them would ask for ever.
                    readdressed += 1;
                    if way > 2 || readdressed > 2 || target.ior.profiles.is_empty() {
                        return Err(SystemException::from(Kind::NoImplement)
                            .detail(format!("the server wants the object addressed in way {way}, again")));
                    }
                    target.addressing.store(way, Ordering::Relaxed);
                }
                Err(Failure::NotProcessed(exception)) => {
                    // Once more on a new connection; a forwarded object goes back to where it was first.
                    let went_back = self.forget_forward(&target);
                    if retried && !went_back {
                        return Err(exception);
                    }
                    retried = true;
                    call.wary.set(true);
                }
                Err(Failure::Unreachable(exception)) => {
                    if !self.forget_forward(&target) {
                        return Err(exception);
                    }
                    // It was forwarded there: back to who said so, who may know better by now.
                    forwards += 1;
                    if forwards > MAX_FORWARDS {
                        return Err(exception);
                    }
                }
                Err(Failure::Final(exception)) => {
                    if exception.kind != Kind::ObjectNotExist || !self.forget_forward(&target) {
                        return Err(exception);
                    }
                }
            }
            if call.deadline.is_past() {
                return Err(call.timed_out("the ORB"));
            }
            target = self.target()?;
            attempt = again(&target, Progress { forwards, retried })?;
        }
    }
}

/// Why a call does not follow its forward with this number.
fn refuse_forward(policies: &Policies, number: u32, operation: &str) -> Option<SystemException> {
    if policies.rebind.is_some_and(|rebind| rebind != Rebind::Transparent) {
        return Some(
            SystemException::from(Kind::Rebind)
                .detail("the object was forwarded, which the rebind policy forbids"),
        );
    }
    (number > MAX_FORWARDS).then(|| {
        SystemException::from(Kind::Transient)
            .minor(minor::TRANSIENT_FORWARDS)
            .detail(format!("{operation} was forwarded more than {MAX_FORWARDS} times"))
    })
}

/// How far a call has come that needs more than one attempt.
#[derive(Clone, Copy, Default)]
struct Progress {
    forwards: u32,
    retried: bool,
}

/// One more attempt; an error of its own is the end of the call.
type Again<'f, 's> = dyn FnMut(&Arc<Target>, Progress) -> Result<Result<Outcome<'s>, Failure>> + 'f;

/// A reply as it came, in the caller's scope.
struct Answer<'s> {
    arrived: Arrived,
    bytes: &'s mut [u8],
    text: Text,
}

impl<'a> Call<'_, 'a> {
    /// The same call with contexts of interceptors.
    fn with<'e>(&'e self, exchange: &'e Exchange) -> Call<'e, 'a> {
        let Call { orb, operation, response, arguments, deadline, timeout, .. } = *self;
        let (wary, late) = (self.wary.clone(), self.late.clone());
        Call { orb, operation, response, arguments, deadline, timeout, wary, late, exchange: Some(exchange) }
    }

    /// One request and what its reply says.
    #[cold]
    fn whole<'s>(
        &self,
        target: &Target,
        scope: &'s Scope<'s>,
        policies: &Policies,
    ) -> Result<Outcome<'s>, Failure> {
        match self.attempt(target, scope, policies)? {
            Some(answer) => self.outcome(answer, scope),
            None => Ok(Outcome::Done),
        }
    }

    /// One request and its reply.
    #[inline]
    fn attempt<'s>(
        &self,
        target: &Target,
        scope: &'s Scope<'s>,
        policies: &Policies,
    ) -> Result<Option<Answer<'s>>, Failure> {
        match &target.place {
            Place::Here => self.here(target, scope),
            Place::There(peer) => self.there(target, peer, scope, policies),
        }
    }

    /// A remote call.
    #[inline(never)]
    fn there<'s>(
        &self,
        target: &Target,
        peer: &Peer,
        scope: &'s Scope<'s>,
        policies: &Policies,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let reconnect = policies.rebind != Some(Rebind::NoReconnect);
        let Call { deadline, timeout, .. } = *self;
        let wish = Wish { deadline, timeout, reconnect, wary: self.wary.get() };
        let connection = peer.lease(self.orb, wish).map_err(Failure::Unreachable)?;
        // Less than all the time is left where some was spent on the way here.
        let timeout = if connection.waited || self.late.get() { deadline.remaining() } else { timeout };
        let Some(slot) = connection.claim() else {
            return Err(SystemException::from(Kind::ImpLimit).minor(minor::IMP_LIMIT_PENDING).into());
        };
        with_work(connection.pool(), |work| {
            let announce = target.code_sets.filter(|_| connection.code_sets().is_none());
            let text = match announce {
                Some((narrow, wide)) => Text { version: target.version, narrow, wide },
                None => connection.text(target.version),
            };
            let listen_points = match target.version {
                Version::V1_2 => self.orb.offer_bidirectional(&connection),
                _ => None,
            };
            let mut e = Encoder::new(std::mem::take(&mut work.encode), text);
            let encoded = if announce.is_none() && listen_points.is_none() && self.exchange.is_none() {
                self.encode(&mut e, target, slot.id(), &[])
            } else {
                let code_sets = announce.map(|_| CodeSets::of(text));
                self.introduce(&mut e, target, slot.id(), (code_sets, listen_points), scope)
            };
            let outcome = encoded.map(|message| connection.send_by(message, deadline, timeout));
            Work::put_back(&mut work.encode, e.into_buffer());
            match outcome? {
                Ok(()) => {}
                Err(SendError::NotSent) => {
                    return Err(Failure::Final(self.timed_out(connection.peer()).completed(Completion::No)));
                }
                Err(SendError::TimedOut) => {
                    return Err(Failure::Final(self.timed_out(connection.peer())));
                }
                Err(_) => return Err(Failure::NotProcessed(lost(connection.peer(), Completion::No))),
            }
            if announce.is_some() {
                connection.set_code_sets(text.narrow, text.wide);
            }
            if self.response == Response::None {
                return Ok(None);
            }
            let mut other = |arrived: Arrived, block: &mut Buffer| {
                server::off_path(self.orb, &connection, arrived, block);
            };
            let read = connection.await_reply(&slot, deadline, timeout, &mut work.block, &mut other);
            let arrived = match read {
                Ok(arrived) => arrived,
                Err(error) => {
                    return Err(self.read_failure(error, &connection, slot.id(), target));
                }
            };
            let bytes = take_message(scope, &mut work.block, arrived.len, connection.pool())
                .map_err(|exception| exception.completed(Completion::Maybe))?;
            let text = connection.text(arrived.header.version);
            Ok(Some(Answer { arrived, bytes, text }))
        })
    }

    /// A call to an object of this ORB: the same messages, the same dispatcher, no wire.
    #[inline(never)]
    fn here<'s>(&self, target: &Target, scope: &'s Scope<'s>) -> Result<Option<Answer<'s>>, Failure> {
        let pool = self.orb.pool();
        with_work(pool, |work| {
            let mut e = Encoder::new(std::mem::take(&mut work.encode), Text::DEFAULT);
            let message = self.introduce(&mut e, target, 0, (None, None), scope)?;
            let len = message.len();
            if work.block.capacity() < len {
                work.block = pool
                    .take(len)
                    .ok_or(SystemException::from(Kind::NoMemory).minor(minor::NO_MEMORY_POOL))?;
            }
            let mut at = 0;
            for piece in message.pieces() {
                work.block.bytes_mut()[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
            Work::put_back(&mut work.encode, e.into_buffer());
            let arrived = Arrived::of_local(&work.block.bytes()[..len])?;
            let mut reply: Option<Result<&'s mut [u8]>> = None;
            let served = server::request(self.orb, None, arrived, work, &mut |message| {
                reply = Some(copy_to_scope(message, scope, pool));
            });
            work.trim();
            served.map_err(|error| SystemException::from(Kind::Marshal).detail(error.to_string()))?;
            match reply {
                Some(bytes) => {
                    let bytes = bytes?;
                    let arrived = Arrived::of_local(bytes)?;
                    Ok(Some(Answer { arrived, bytes, text: Text::DEFAULT }))
                }
                None => Ok(None),
            }
        })
    }

    /// A request with service contexts: a connection's first, which says what later ones take for granted, and those to which
    /// interceptors added some.
    #[cold]
    fn introduce<'e>(
        &self,
        e: &'e mut Encoder<'a>,
        target: &Target,
        id: u32,
        (code_sets, listen_points): (Option<CodeSets>, Option<Vec<u8>>),
        scope: &Scope<'_>,
    ) -> Result<&'e Message<'a>> {
        let code_sets = code_sets.map(CodeSets::write);
        let code_sets =
            code_sets.as_ref().map(|data| ServiceContext { id: isorb_giop::context::CODE_SETS, data });
        let listen_points =
            listen_points.as_ref().map(|data| ServiceContext { id: isorb_giop::context::BI_DIR_IIOP, data });
        let mut contexts = [ServiceContext { id: 0, data: &[] }; 2];
        let mut n = 0;
        for context in code_sets.into_iter().chain(listen_points) {
            contexts[n] = context;
            n += 1;
        }
        let contexts = join(&contexts[..n], self.exchange.map(|exchange| &exchange.request), scope)?;
        self.encode(e, target, id, contexts)
    }

    fn encode<'e>(
        &self,
        e: &'e mut Encoder<'a>,
        target: &Target,
        id: u32,
        contexts: &[ServiceContext<'_>],
    ) -> Result<&'e Message<'a>> {
        e.set_limit(self.orb.config().message_limit);
        match (target.addressing.load(Ordering::Relaxed), &target.head) {
            (0, Some(head)) => head.write(e, id, self.response, self.operation, contexts),
            (0, None) => message::write_request(e, id, self.response, &target.key, self.operation, contexts),
            (way, _) => self.address_otherwise(e, target, id, way, contexts),
        }
        let body = message::begin_body(e);
        (self.arguments)(e);
        message::end_body(e, body);
        let message = e.finished().map_err(|error| wide_text(error, target))?;
        message::finish_header(message)?;
        Ok(message)
    }

    /// A request that names its object as the server asked for.
    #[cold]
    fn address_otherwise(
        &self,
        e: &mut Encoder<'a>,
        target: &Target,
        id: u32,
        way: u8,
        contexts: &[ServiceContext<'_>],
    ) {
        let iiop = target.ior.profiles.iter().position(|profile| profile.tag == TAG_INTERNET_IOP);
        let selected = iiop.unwrap_or(0);
        let address = match way {
            1 => Addressed::Profile(&target.ior.profiles[selected]),
            _ => Addressed::Reference { ior: &target.ior, selected: selected as u32 },
        };
        message::write_request_to(e, id, self.response, address, self.operation, contexts);
    }

    /// Reads the header of a reply; the decoder is at its body.
    #[inline(always)]
    fn open<'s>(&self, d: &mut Decoder<'s>, text: Text, scope: &'s Scope<'s>) -> Result<message::Reply<'s>> {
        let reply = message::Reply::read(d)?;
        d.set_text(text);
        message::body(d);
        if d.remaining() > 0 {
            // References among the results belong to this ORB.
            let orb = scope
                .keep(self.orb.clone())
                .map_err(|full| SystemException::from(full).completed(Completion::Maybe))?;
            d.set_context(orb);
        }
        Ok(reply)
    }

    #[cold]
    fn outcome<'s>(&self, answer: Answer<'s>, scope: &'s Scope<'s>) -> Result<Outcome<'s>, Failure> {
        let Answer { arrived, bytes, text } = answer;
        let mut d = message::start_whole(bytes, &arrived.header, scope);
        let reply = self.open(&mut d, text, scope)?;
        if let Some(exchange) = self.exchange {
            exchange.note(&reply.contexts);
        }
        self.other_reply(reply, d)
    }

    /// What a reply says, results or anything else.
    #[cold]
    fn other_reply<'s>(&self, reply: message::Reply<'_>, mut d: Decoder<'s>) -> Result<Outcome<'s>, Failure> {
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
    fn read_failure(
        &self,
        error: ReadError,
        connection: &crate::connection::Connection,
        id: u32,
        target: &Target,
    ) -> Failure {
        match error {
            ReadError::TimedOut => {
                if target.cancel {
                    connection.cancel(target.version, id);
                }
                Failure::Final(self.timed_out(connection.peer()))
            }
            ReadError::ClosedInOrder => Failure::NotProcessed(
                SystemException::from(Kind::Transient).minor(minor::TRANSIENT_CLOSED).detail(format!(
                    "{} closed the connection before it took {}",
                    connection.peer(),
                    self.operation
                )),
            ),
            ReadError::Protocol(error) => {
                server::refuse(connection, error);
                connection.break_off();
                let sentence = format!("{}: {error}", connection.peer());
                Failure::Final(lost(connection.peer(), Completion::Maybe).detail(sentence))
            }
            ReadError::NoMemory => Failure::Final(
                SystemException::from(Kind::NoMemory)
                    .minor(minor::NO_MEMORY_POOL)
                    .completed(Completion::Maybe),
            ),
            _ => Failure::Final(lost(connection.peer(), Completion::Maybe)),
        }
    }

    #[cold]
    fn timed_out(&self, peer: &str) -> SystemException {
        let limit = self.timeout.unwrap_or_default();
        SystemException::from(Kind::Timeout)
            .completed(Completion::Maybe)
            .detail(format!("{peer} did not answer {} within {limit:?}", self.operation))
    }
}

/// Wide text that the server named no code set for is the reference's fault (clause 7.10.2.6); in GIOP 1.0 there is none.
#[cold]
fn wide_text(error: isorb_cdr::Error, target: &Target) -> SystemException {
    if error.kind == isorb_cdr::ErrorKind::NoWideCodeSet && target.version > Version::V1_0 {
        return SystemException::from(Kind::InvObjref)
            .minor(minor::INV_OBJREF_WCHAR)
            .detail("the server's reference names no code set for wide text");
    }
    error.into()
}

#[cold]
fn lost(peer: &str, completed: Completion) -> SystemException {
    SystemException::new(Kind::CommFailure, minor::COMM_FAILURE_LOST, completed)
        .detail(format!("the connection to {peer} was lost"))
}

/// Gives a message that lies in a thread's block to the caller's scope: copied when it is short, else with its block.
fn take_message<'s>(
    scope: &'s Scope<'s>,
    block: &mut Buffer,
    len: usize,
    pool: &std::sync::Arc<isorb_scope::BufferPool>,
) -> Result<&'s mut [u8]> {
    if len <= COPY_UP_TO && scope.left() > 2 * len {
        return Ok(scope.aligned_copy(&block.bytes()[..len])?);
    }
    let fresh = pool.take(4096).ok_or(SystemException::from(Kind::NoMemory).minor(minor::NO_MEMORY_POOL))?;
    let kept = scope.keep(std::mem::replace(block, fresh))?;
    Ok(&mut kept.bytes_mut()[..len])
}

fn copy_to_scope<'s>(
    message: &Message<'_>,
    scope: &'s Scope<'s>,
    pool: &std::sync::Arc<isorb_scope::BufferPool>,
) -> Result<&'s mut [u8]> {
    let len = message.len();
    let bytes = if len <= COPY_UP_TO && scope.left() > 2 * len {
        scope.bytes_mut(len)?
    } else {
        let block =
            pool.take(len).ok_or(SystemException::from(Kind::NoMemory).minor(minor::NO_MEMORY_POOL))?;
        &mut scope.keep(block)?.bytes_mut()[..len]
    };
    let mut at = 0;
    for piece in message.pieces() {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Ok(bytes)
}
