//! One attempt of a call: one request and its reply.

use super::binding::{PriorityBinding, local_priority};
use super::pending::SentRequest;
use super::reply::{Failure, Outcome, copy_body, copy_octets, copy_to_scope, take_message};
use super::unsent::{Unsent, endless, not_announced, wide_text};
use crate::buffers::{CallBuffers, HeaderId, with_buffers};
use crate::connection::{Arrived, Connection, LentReply, NoSlot};
use crate::interceptor::{Exchange, join};
use crate::lent::LentParts;
#[cfg(not(loom))]
use crate::loan;
use crate::object::{Addressing, Locality, Target};
use crate::peer::{Lease, LeaseRequest, Peer};
use crate::poa::with_wait_deadline;
use crate::policy::{Effective, Rebind, Timeout};
use crate::server::{Lane, LaneServer, LocalCall, OwnCallGuard, Unanswered};
use crate::{Object, Orb, Result, SystemException, dispatch};
use isorb_cdr::{Encoder, Message, Order, Text, Version};
use isorb_giop::context::{self, CodeSets, rt_corba_priority};
use isorb_giop::message::{
    self, Addressed, OrdinaryReply, ReplyStatus, RequestHead, Response, ServiceContext,
};
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::priority::Priority;
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, Scope};
use std::cell::Cell;
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A call that has begun.
pub(super) struct Call<'c, 'a> {
    pub orb: &'c Orb,
    pub object: &'c Object,
    pub operation: &'static str,
    pub response: Response,
    /// Whether it may wait for the peer: false for oneways with SYNC_NONE.
    pub waits: bool,
    pub arguments: &'c dyn Fn(&mut Encoder<'a>),
    /// In nanoseconds.
    pub began: u64,
    pub deadline: Deadline,
    pub timeout: Timeout,
    /// A connection was closed during this call, so the next one is checked first.
    pub wary: Cell<bool>,
    /// This is not the first attempt.
    pub retries: Cell<bool>,
    /// Service contexts of the interceptors, if there are any.
    pub exchange: Option<&'c Exchange>,
    /// The call is only begun, and its reply is awaited later.
    pub sent_request: Option<&'c SentRequest>,
    /// Whether results are read where the server lent them.
    pub in_place: bool,
    /// Where the body of the last request begins, in octets.
    pub body_at: Cell<usize>,
}

/// Whether the process has loans, one of which may be among the arguments.
#[inline(always)]
fn has_loans() -> bool {
    #[cfg(not(loom))]
    return loan::any();
    #[cfg(loom)]
    false
}

/// The connection of the loan in a message, if that is another one.
#[cold]
fn loan_elsewhere(message: &Message<'_>, connection: &Arc<Connection>) -> Result<Option<Arc<Connection>>> {
    #[cfg(not(loom))]
    return Ok(loan::connection_of(message)?.filter(|other| !Arc::ptr_eq(other, connection)));
    #[cfg(loom)]
    {
        let _ = (message, connection);
        Ok(None)
    }
}

/// A call that goes over no connection takes no loans.
fn refuse_loans(message: &Message<'_>) -> Result<()> {
    #[cfg(not(loom))]
    if cfg!(feature = "segments") && loan::any() && loan::connection_of(message)?.is_some() {
        return Err(loan::elsewhere("a call inside this ORB takes no loan"));
    }
    let _ = message;
    Ok(())
}

/// A reply, in the caller's scope.
pub(super) enum Answer<'s> {
    /// Results without service contexts: the octets of the body, their byte order and text.
    Results(&'s mut [u8], Order, Text),
    /// Any other reply, unread.
    Any(Arrived, &'s mut [u8], Text),
    /// The same, with the parts of it that lie in memory of the server.
    Lent(Arrived, &'s mut [u8], Text, &'s LentReply),
}

/// The service contexts that the ORB adds for a request's priority, encoded.
#[derive(Clone, Copy, Default)]
pub(super) struct RtContexts {
    pub priority: Option<[u8; 4]>,
    pub band: Option<[u8; 6]>,
}

impl RtContexts {
    /// The service context of a call's priority.
    fn priority(priority: Option<Priority>) -> RtContexts {
        RtContexts { priority: priority.map(|priority| rt_corba_priority(priority.get())), band: None }
    }
}

impl<'a> Call<'_, 'a> {
    /// The same call with service contexts of interceptors.
    pub fn with<'e>(&'e self, exchange: &'e Exchange) -> Call<'e, 'a> {
        let Call {
            orb,
            object,
            operation,
            response,
            waits,
            arguments,
            began,
            deadline,
            timeout,
            sent_request,
            ..
        } = *self;
        let (wary, retries, body_at) = (self.wary.clone(), self.retries.clone(), Cell::new(0));
        let exchange = Some(exchange);
        Call {
            orb,
            object,
            operation,
            response,
            waits,
            arguments,
            began,
            deadline,
            timeout,
            wary,
            retries,
            exchange,
            sent_request,
            // Interceptors see whole replies.
            in_place: false,
            body_at,
        }
    }

    /// A call that was begun before. Its thread waits from now on.
    pub fn waiting<'e>(
        object: &'e Object,
        operation: &'static str,
        arguments: &'e dyn Fn(&mut Encoder<'a>),
        (began, deadline, timeout): (u64, Deadline, Timeout),
    ) -> Call<'e, 'a> {
        Call {
            orb: object.orb(),
            object,
            operation,
            response: Response::Target,
            waits: true,
            arguments,
            began,
            deadline,
            timeout,
            wary: Cell::new(false),
            retries: Cell::new(true),
            exchange: None,
            sent_request: None,
            in_place: false,
            body_at: Cell::new(0),
        }
    }

    /// One request and the outcome in its reply.
    #[cold]
    pub fn attempt_outcome<'s>(
        &self,
        target: &Target,
        scope: &'s Scope<'s>,
        policies: Effective,
    ) -> Result<Outcome<'s>, Failure> {
        match self.attempt(target, scope, policies)? {
            Some(answer) => self.outcome(answer, scope),
            None => Ok(Outcome::Done),
        }
    }

    /// One request and its reply.
    #[inline(always)]
    pub fn attempt<'s>(
        &self,
        target: &Target,
        scope: &'s Scope<'s>,
        policies: Effective,
    ) -> Result<Option<Answer<'s>>, Failure> {
        match &target.locality {
            Locality::Remote(peer) if !self.object.needs_plan(target) => {
                self.remote(target, peer, scope, policies, RtContexts::default())
            }
            Locality::Remote(peer) => {
                cold_path();
                self.remote_by_priority(target, peer, scope, policies)
            }
            Locality::Local => {
                cold_path();
                self.collocated(target, scope)
            }
            #[cfg(feature = "miop")]
            Locality::Group(group) => {
                cold_path();
                self.to_group(target, group, scope, policies)
            }
        }
    }

    /// The connection of a loan among the arguments.
    #[cold]
    fn lease_of_loan(&self, peer: &Peer, connection: &Arc<Connection>) -> Result<Lease, Failure> {
        #[cfg(not(loom))]
        if let Some(lease) = peer.lease_of_loan(connection).map_err(Failure::Final)? {
            return Ok(lease);
        }
        let _ = (peer, connection);
        Err(Failure::OnLoan(connection.clone()).into_exception().into())
    }

    /// A call to all members of a group, or to the object that replies for them.
    #[cfg(feature = "miop")]
    #[inline(never)]
    fn to_group<'s>(
        &self,
        target: &Target,
        group: &crate::group::GroupTarget,
        scope: &'s Scope<'s>,
        policies: Effective,
    ) -> Result<Option<Answer<'s>>, Failure> {
        if self.response == Response::None {
            let priority = super::binding::group_priority(self.object, target.facts.as_deref())?;
            return self.remote(target, &group.peer, scope, policies, RtContexts::priority(priority));
        }
        let target = group.answering().map_err(Failure::Final)?;
        self.attempt(&target, scope, policies)
    }

    /// A remote call with a connection and context that depend on its priority.
    #[inline(never)]
    fn remote_by_priority<'s>(
        &self,
        target: &Target,
        peer: &Arc<Peer>,
        scope: &'s Scope<'s>,
        policies: Effective,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let way = PriorityBinding::find(self.object, target, peer)?;
        let (peer, priority) = way.choose()?;
        self.remote(target, peer, scope, policies, RtContexts::priority(priority))
    }

    #[inline(never)]
    fn collocated<'s>(&self, target: &Target, scope: &'s Scope<'s>) -> Result<Option<Answer<'s>>, Failure> {
        let facts = target.facts.as_deref();
        let priority = facts.map_or(Ok(None), |facts| local_priority(self.object, facts))?;
        let server = self.orb.server();
        if server.resources.pools.any()
            && let Some((pool, runs_at)) = server.registry.pool_of_local_call(self.orb, &target.key, priority)
            && let Some(lane) = pool.lane_of_local_call(runs_at)
        {
            let at = (pool.has_lanes, runs_at);
            return self.through_lane(target, scope, priority, lane.lane(), at);
        }
        self.local(target, scope, priority)
    }

    /// A call to an object of this ORB that a lane of a thread pool serves.
    #[inline(never)]
    fn through_lane<'s>(
        &self,
        target: &Target,
        scope: &'s Scope<'s>,
        sent: Option<Priority>,
        lane: &Arc<Lane>,
        (has_lanes, runs_at): (bool, Option<Priority>),
    ) -> Result<Option<Answer<'s>>, Failure> {
        let Some(server) = lane.server() else { return self.local(target, scope, sent) };
        let priorities = &self.orb.sched().priorities;
        let raise = match runs_at {
            Some(priority) if !has_lanes && priorities.are_schedulable() => Some(priorities.class(priority)?),
            _ => None,
        };
        let waits = self.response != Response::None;
        let (call, ticket) = waits.then(|| LocalCall::begin(self.deadline)).unzip();
        with_buffers(self.orb.pool(), |buffers| {
            let mut e = Encoder::new(buffers.encode.take(), Text::HELD);
            let contexts = (None, None, RtContexts::priority(sent));
            let message = self.encode_with_contexts(&mut e, (target, None), 0, contexts, scope)?;
            refuse_loans(message)?;
            let queued = server.queue_local_call(lane, message, ticket, runs_at, raise);
            buffers.encode.put_back(e.into_buffer());
            queued.map_err(Failure::Final)
        })?;
        let Some(call) = call else { return Ok(None) };
        self.await_local(call, scope)
    }

    /// Waits for the reply to a call inside the process.
    fn await_local<'s>(
        &self,
        call: Arc<LocalCall>,
        scope: &'s Scope<'s>,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let serve = |request| LaneServer::run_nested(self.orb, request);
        let reply = call.wait(serve, |reply| copy_octets(reply, scope, self.orb.pool()));
        match reply {
            Ok(bytes) => {
                let bytes = bytes?;
                let arrived = Arrived::of_local(bytes)?;
                Ok(Some(Answer::Any(arrived, bytes, Text::HELD)))
            }
            Err(Unanswered::Failed(exception)) => Err(Failure::Final(exception)),
            Err(Unanswered::TimedOut { begun }) => {
                let completed = if begun { Completion::Maybe } else { Completion::No };
                Err(Failure::Final(self.timed_out("this ORB's object").completed(completed)))
            }
        }
    }

    /// A remote call.
    #[inline(always)]
    fn remote<'s>(
        &self,
        target: &Target,
        peer: &Peer,
        scope: &'s Scope<'s>,
        policies: Effective,
        contexts: RtContexts,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let reconnect = policies.rebind != Rebind::NoReconnect;
        let Call { began, deadline, timeout, .. } = *self;
        let only_open = !self.waits && !reconnect;
        let request = LeaseRequest { began, deadline, timeout, reconnect, only_open, wary: self.wary.get() };
        let connection = match peer.lease(self.orb.connector(), request) {
            Ok(connection) => connection,
            Err(exception) => {
                cold_path();
                return Err(Failure::Unreachable(exception));
            }
        };
        // A call that waited before has less than the whole time-out left.
        let timeout =
            if connection.waited || self.retries.get() { Timeout::until(deadline) } else { timeout };
        if let Some(band) = peer.setup().band
            && !connection.band_agreed.load(Ordering::Acquire)
        {
            cold_path();
            if only_open {
                return Err(Failure::Unreachable(not_announced()));
            }
            self.bind_band(target, &connection, band)?;
        }
        let outcome = self.on_connection(target, &connection, scope, timeout, contexts);
        // Not a `match`, which would move the outcome of every call.
        if !cfg!(feature = "segments") || !matches!(outcome, Err(Failure::OnLoan(_))) {
            return outcome;
        }
        cold_path();
        let Err(Failure::OnLoan(other)) = outcome else { return outcome };
        drop(connection);
        let connection = self.lease_of_loan(peer, &other)?;
        self.on_connection(target, &connection, scope, timeout, contexts)
    }

    /// One request over a connection, and its reply.
    #[inline(never)]
    pub fn on_connection<'s>(
        &self,
        target: &Target,
        connection: &Arc<Connection>,
        scope: &'s Scope<'s>,
        timeout: Timeout,
        contexts: RtContexts,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let deadline = self.deadline;
        if connection.is_unsure() && self.response != Response::None && timeout == Timeout::NONE {
            return Err(Failure::Final(endless(connection.peer())));
        }
        if let Some(sent_request) = self.sent_request {
            cold_path();
            return self.begin_on(sent_request, target, connection, scope, timeout, contexts);
        }
        let slot = match connection.claim() {
            Some(slot) => slot,
            None => {
                cold_path();
                let claimed = match self.waits {
                    true => connection.claim_queued(deadline),
                    false => Err(NoSlot::Full),
                };
                claimed.map_err(|why| self.no_slot(why, connection.peer()))?
            }
        };
        with_buffers(connection.pool(), |buffers| {
            self.send_request(target, connection, scope, timeout, contexts, slot.id(), buffers)?;
            if self.response == Response::None {
                return Ok(None);
            }
            let mut other = |arrived: Arrived, block: &mut Buffer| {
                dispatch::handle_while_waiting(self.orb, connection, arrived, block);
            };
            let block = &mut buffers.block;
            let lent = if self.in_place { Some(&mut buffers.lent) } else { None };
            let arrived = match connection.await_next_reply(&slot, deadline, timeout, block, lent) {
                Ok(arrived) => arrived,
                Err(begun) => {
                    cold_path();
                    match connection.await_reply(&slot, deadline, timeout, block, begun, &mut other) {
                        Ok(arrived) => arrived,
                        Err(error) => return Err(self.read_failure(error, connection, slot.id(), target)),
                    }
                }
            };
            let text = connection.text(arrived.header.version);
            if !buffers.lent.is_empty() {
                cold_path();
                let parts = std::mem::take(&mut buffers.lent);
                return self.lent_reply((arrived, parts, text), connection, scope, block).map(Some);
            }
            let message = &block.bytes()[..arrived.len];
            if let Some(reply) = OrdinaryReply::find(message, &arrived.header)
                && reply.status == ReplyStatus::NoException
                && self.exchange.is_none()
                && let Some(body) = copy_body(scope, &message[OrdinaryReply::BODY_AT..])
            {
                return Ok(Some(Answer::Results(body, arrived.header.order, text)));
            }
            cold_path();
            // Only interceptors use the contexts of a reply.
            if contexts.priority.is_some()
                && self.exchange.is_none()
                && let Some(body_at) = OrdinaryReply::results_behind_contexts(message, &arrived.header)
                && let Some(body) = copy_body(scope, message.get(body_at..).unwrap_or_default())
            {
                return Ok(Some(Answer::Results(body, arrived.header.order, text)));
            }
            let bytes = take_message(scope, block, arrived.len, connection.pool())
                .map_err(|exception| exception.completed(Completion::Maybe))?;
            Ok(Some(Answer::Any(arrived, bytes, text)))
        })
    }

    /// A reply of which parts lie in memory of the server.
    #[cold]
    fn lent_reply<'s>(
        &self,
        (arrived, parts, text): (Arrived, LentParts, Text),
        connection: &Arc<Connection>,
        scope: &'s Scope<'s>,
        block: &mut Buffer,
    ) -> Result<Answer<'s>, Failure> {
        let lent = LentReply { parts, connection: connection.clone() };
        let message = &mut block.bytes_mut()[..arrived.len];
        // The header must lie before the first part.
        let begin = lent.parts.begin().filter(|at| {
            self.exchange.is_none()
                && *at >= OrdinaryReply::BODY_AT
                && OrdinaryReply::find(&message[..*at], &arrived.header).is_some()
        });
        if begin.is_none() {
            lent.parts.fill(message, connection.stream());
        }
        let take = move || -> Result<Answer<'s>> {
            let bytes = take_message(scope, block, arrived.len, connection.pool())?;
            // Left before the message, so that the parts are released first.
            Ok(if begin.is_some() {
                Answer::Lent(arrived, bytes, text, scope.keep(lent)?)
            } else {
                Answer::Any(arrived, bytes, text)
            })
        };
        take().map_err(|exception| Failure::Final(exception.completed(Completion::Maybe)))
    }

    /// Sends one request.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one part of an attempt, which has them all")]
    pub(super) fn send_request<'s>(
        &self,
        target: &Target,
        connection: &Arc<Connection>,
        scope: &'s Scope<'s>,
        timeout: Timeout,
        contexts: RtContexts,
        id: u32,
        buffers: &mut CallBuffers,
    ) -> Result<(), Failure> {
        let lossy = connection.is_lossy();
        let announce = target.code_sets.filter(|_| lossy || connection.code_sets().is_none());
        let text = match announce {
            Some((narrow, wide)) => {
                cold_path();
                Text { version: target.version, narrow, wide }
            }
            None => connection.text(target.version),
        };
        let listen_points = match target.version {
            Version::V1_2 if !lossy && self.orb.config().bidirectional => {
                cold_path();
                self.orb.server().offer_bidirectional(self.orb, connection)
            }
            _ => None,
        };
        // A request without contexts other than its priority has the header of the one before
        // it.
        let plain = announce.is_none() && listen_points.is_none() && contexts.band.is_none();
        let plain = plain && self.exchange.is_none();
        let header = HeaderId::request(target.number, self.operation, contexts.priority.is_some());
        let (buffer, begun) = if plain {
            buffers.encode.take_with(header)
        } else {
            cold_path();
            (buffers.encode.take(), 0)
        };
        let mut e = Encoder::resume(buffer, begun, text);
        let mut head = 0;
        let encoded = if plain {
            match &contexts.priority {
                None => self.encode(&mut e, target, id, &[], &mut head),
                Some(data) => {
                    cold_path();
                    self.encode_with_priority(&mut e, target, id, data, &mut head)
                }
            }
        } else {
            cold_path();
            let code_sets = announce.map(|_| CodeSets::of(text));
            let contexts = (code_sets, listen_points, contexts);
            self.encode_with_contexts(&mut e, (target, Some(connection)), id, contexts, scope)
        };
        let misplaced = match &encoded {
            Ok(message) if cfg!(feature = "segments") && has_loans() => loan_elsewhere(message, connection),
            _ => Ok(None),
        };
        let sent = match encoded {
            _ if !matches!(misplaced, Ok(None)) => Ok(()),
            Ok(message) if self.waits => {
                if let Some(sent_request) = self.sent_request {
                    sent_request.keep(message, self.body_at.get(), text, connection);
                }
                connection.send_by(message, self.deadline, timeout).map_err(Unsent::Send)
            }
            Ok(message) => {
                cold_path();
                self.offer(connection, message).map_err(Unsent::Send)
            }
            Err(exception) => {
                cold_path();
                Err(Unsent::Made(exception))
            }
        };
        buffers.encode.put_back(e.into_buffer());
        if head != 0 {
            buffers.encode.set_header(header, head);
        }
        if let Some(other) = misplaced? {
            cold_path();
            return Err(Failure::OnLoan(other));
        }
        if let Err(why) = sent {
            return Err(self.not_sent(why, connection));
        }
        if announce.is_some() {
            cold_path();
            connection.set_code_sets(text.narrow, text.wide);
        }
        Ok(())
    }

    /// A call to an object of this ORB, with the same messages, dispatcher and time-out, but no
    /// connection.
    #[inline(never)]
    fn local<'s>(
        &self,
        target: &Target,
        scope: &'s Scope<'s>,
        priority: Option<Priority>,
    ) -> Result<Option<Answer<'s>>, Failure> {
        let pool = self.orb.pool();
        with_buffers(pool, |buffers| {
            let mut e = Encoder::new(buffers.encode.take(), Text::HELD);
            let message = self.encode_with_contexts(
                &mut e,
                (target, None),
                0,
                (None, None, RtContexts::priority(priority)),
                scope,
            )?;
            refuse_loans(message)?;
            let len = message.len();
            if buffers.block.capacity() < len {
                buffers.block = pool
                    .take(len)
                    .ok_or(SystemException::from(Kind::NoMemory).minor(minor::NO_MEMORY_POOL))?;
            }
            let mut at = 0;
            for piece in message.pieces() {
                buffers.block.bytes_mut()[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
            buffers.encode.put_back(e.into_buffer());
            let arrived = Arrived::of_local(&buffers.block.bytes()[..len])?;
            let mut reply: Option<Result<&'s mut [u8]>> = None;
            let own = OwnCallGuard::begin();
            let served = with_wait_deadline(self.deadline, || {
                dispatch::request(self.orb.server(), self.orb, None, arrived, buffers, &mut |message| {
                    reply = Some(copy_to_scope(message, scope, pool));
                })
            });
            buffers.trim();
            served.map_err(|error| SystemException::from(Kind::Marshal).detail(error.to_string()))?;
            match reply {
                Some(bytes) => {
                    let bytes = bytes?;
                    // As over a connection, a late reply is dropped. An exception says more than
                    // TIMEOUT.
                    let status = bytes.get(OrdinaryReply::STATUS_AT..OrdinaryReply::STATUS_AT + 4);
                    let refused = status == Some(&(ReplyStatus::SystemException as u32).to_ne_bytes());
                    if self.deadline.is_past() && !refused {
                        return Err(Failure::Final(self.timed_out("this ORB's object")));
                    }
                    let arrived = Arrived::of_local(bytes)?;
                    Ok(Some(Answer::Any(arrived, bytes, Text::HELD)))
                }
                None => match own.deferred() {
                    Some(call) => self.await_local(call, scope),
                    None => Ok(None),
                },
            }
        })
    }

    /// Encodes a request with service contexts: the first of a connection, which announces code
    /// sets and listen points, and requests with contexts of interceptors.
    #[cold]
    fn encode_with_contexts<'e>(
        &self,
        e: &'e mut Encoder<'a>,
        (target, connection): (&Target, Option<&Connection>),
        id: u32,
        (code_sets, listen_points, own): (Option<CodeSets>, Option<Vec<u8>>, RtContexts),
        scope: &Scope<'_>,
    ) -> Result<&'e Message<'a>> {
        let code_sets = code_sets.map(CodeSets::write);
        let code_sets = code_sets.as_ref().map(|data| ServiceContext { id: context::CODE_SETS, data });
        let listen_points =
            listen_points.as_ref().map(|data| ServiceContext { id: context::BI_DIR_IIOP, data });
        let priority =
            own.priority.as_ref().map(|data| ServiceContext { id: context::RT_CORBA_PRIORITY, data });
        let band =
            own.band.as_ref().map(|data| ServiceContext { id: context::RT_CORBA_PRIORITY_RANGE, data });
        let mut contexts = [ServiceContext { id: 0, data: &[] }; 4];
        let mut n = 0;
        // Listen points come first: TAO with its code set library reads only the first context that
        // it knows.
        for context in listen_points.into_iter().chain(code_sets).chain(priority).chain(band) {
            contexts[n] = context;
            n += 1;
        }
        let contexts = join(&contexts[..n], self.exchange.map(|exchange| &exchange.request), scope)?;
        #[cfg(feature = "interceptors")]
        let confidential = self.exchange.and_then(|exchange| exchange.confidential(connection));
        #[cfg(feature = "interceptors")]
        let contexts = join(contexts, confidential, scope)?;
        #[cfg(not(feature = "interceptors"))]
        let _ = connection;
        self.encode(e, target, id, contexts, &mut 0)
    }

    /// Encodes a request with its priority and no other service context.
    #[inline(never)]
    fn encode_with_priority<'e>(
        &self,
        e: &'e mut Encoder<'a>,
        target: &Target,
        id: u32,
        data: &[u8; 4],
        head: &mut usize,
    ) -> Result<&'e Message<'a>> {
        if let Some(at) = e.position().checked_sub(data.len()) {
            // The header is there; it ends with the priority, which has four octets.
            e.patch(at, u32::from_ne_bytes(*data));
        }
        let context = ServiceContext { id: context::RT_CORBA_PRIORITY, data };
        self.encode(e, target, id, &[context], head)
    }

    #[inline(always)]
    fn encode<'e>(
        &self,
        e: &'e mut Encoder<'a>,
        target: &Target,
        id: u32,
        contexts: &[ServiceContext<'_>],
        head: &mut usize,
    ) -> Result<&'e Message<'a>> {
        e.set_limit(self.orb.config().message_limit);
        let begun = e.position() != 0;
        let mut head_ends = 0;
        match (target.addressing.load(Ordering::Relaxed), &target.head) {
            (Addressing::Key, _) if begun => {
                RequestHead::renew(e, id, self.response);
                head_ends = e.position();
            }
            (Addressing::Key, Some(head)) => {
                cold_path();
                head.write(e, id, self.response, self.operation, contexts);
                head_ends = e.position();
            }
            (Addressing::Key, None) => {
                cold_path();
                message::write_request(e, id, self.response, &target.key, self.operation, contexts);
            }
            (addressing, _) => self.encode_readdressed(e, target, id, addressing, contexts),
        }
        let body = message::begin_body(e);
        if self.sent_request.is_some() {
            cold_path();
            self.body_at.set(e.position());
        }
        (self.arguments)(e);
        message::end_body(e, body);
        let message = match e.finished() {
            Ok(message) => message,
            Err(error) => return Err(wide_text(error, target)),
        };
        if let Err(error) = message::finish_header(message) {
            cold_path();
            return Err(error.into());
        }
        *head = head_ends;
        Ok(message)
    }

    /// Encodes a request with the kind of address that the server asked for.
    #[cold]
    fn encode_readdressed(
        &self,
        e: &mut Encoder<'a>,
        target: &Target,
        id: u32,
        addressing: Addressing,
        contexts: &[ServiceContext<'_>],
    ) {
        // The header of another request.
        e.truncate(0);
        let iiop = target.ior.profiles.iter().position(|profile| profile.tag == TAG_INTERNET_IOP);
        let selected = iiop.unwrap_or(0);
        let address = match addressing {
            Addressing::Profile => Addressed::Profile(&target.ior.profiles[selected]),
            _ => Addressed::Reference { ior: &target.ior, selected: selected as u32 },
        };
        message::write_request_to(e, id, self.response, address, self.operation, contexts);
    }
}
