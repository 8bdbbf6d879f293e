//! From the octets of a request to its reply.

mod answer;
mod bands;
mod cache;
mod core;
mod find;
#[cfg(feature = "miop")]
mod group_thread;
#[cfg(feature = "miop")]
mod groups;
mod interfaces;
#[cfg(feature = "miop")]
mod joined;
mod servant;

pub(crate) use self::core::ServerCore;
#[cfg(feature = "miop")]
pub(crate) use groups::Groups;
pub(crate) use interfaces::InterfaceDefinitions;

use crate::binding::{Overrides, set_thread_overrides};
use crate::buffers::{CallBuffers, with_buffers};
use crate::connection::{self, Arrived, Connection, NotServed};
use crate::deferred::ReplyAddress;
use crate::hot::hot;
use crate::interceptor::{ReplyOffsets, Serving, forget_thread_slots};
use crate::orb_core::SendReply;
use crate::poa::{Refusal, RequestPriority, UpcallTarget, with_wait_deadline, write_refusal};
use crate::server::{Next, apply_contexts, deliver, refuse, refuse_over_limit};
use crate::statistics::Ended;
use crate::upcall::Request as UpcallRequest;
use crate::{Caller, Orb, Result};
use answer::answer_early;
use cache::CachedRequest;
use find::{enter, find, locate};
use isorb_cdr::{Decoder, Encoder, Message, Text, Version};
use isorb_giop::message::{
    self, OperationName, ReplyStatus, Request, RequestOffsets, Response, ServiceContexts,
};
use isorb_giop::{Kind, MessageKind, ProtocolError};
use isorb_rt::priority::Priority;
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::{Buffer, Scope};
use servant::{DeclaredOperation, apply_priority, call_servant, look_up, upcall_priority};
use std::cell::Cell;
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Handles a message that a thread read from a connection; it lies in `buffers.block`.
#[inline]
fn handle(
    server: &ServerCore,
    orb: &Orb,
    connection: &Arc<Connection>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    send: &mut SendReply<'_>,
) -> Next {
    let handled = match arrived.header.kind {
        MessageKind::Request => request(server, orb, Some(connection), arrived, buffers, send),
        _ => {
            if !buffers.lent.is_empty() {
                buffers.lent.fill(&mut buffers.block.bytes_mut()[..arrived.len], connection.stream());
                buffers.lent.clear();
            }
            match other_message(server, orb, connection, arrived, buffers, send) {
                Some(handled) => handled,
                None => return Next::Break(()),
            }
        }
    };
    match handled {
        Ok(()) if connection.takes_replies() => Next::Continue(()),
        Ok(()) => Next::Break(()),
        Err(error) => {
            cold_path();
            refuse(connection, error);
            Next::Break(())
        }
    }
}

/// Handles a message that is not a request; `None` when it is the connection's last.
#[cold]
fn other_message(
    server: &ServerCore,
    orb: &Orb,
    connection: &Arc<Connection>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    send: &mut SendReply<'_>,
) -> Option<Result<(), ProtocolError>> {
    Some(match arrived.header.kind {
        MessageKind::Request => Ok(()),
        MessageKind::LocateRequest => {
            connection.mark_used();
            locate(server, orb, connection, arrived, buffers, send)
        }
        // The reading thread has delivered it.
        MessageKind::Reply | MessageKind::LocateReply => Ok(()),
        // The request runs already, or was answered; clause 9.4.4 allows a reply all the same.
        MessageKind::CancelRequest => Ok(()),
        MessageKind::CloseConnection => {
            connection.close_in_order();
            return None;
        }
        MessageKind::MessageError => return None,
        MessageKind::Fragment => Err(ProtocolError::FragmentOrder),
    })
}

/// Handles a message that is not a reply, read by a thread that waits for the reply to a call: the
/// end of the connection, or a request of the peer.
pub(crate) fn handle_while_waiting(
    orb: &Orb,
    connection: &Arc<Connection>,
    arrived: Arrived,
    block: &mut Buffer,
) {
    let next: Result<Next> = match arrived.header.kind {
        MessageKind::Request | MessageKind::LocateRequest
            if !connection.bidirectional.load(Ordering::Acquire) =>
        {
            refuse(connection, ProtocolError::Unexpected(arrived.header.kind));
            Ok(Next::Break(()))
        }
        _ => with_buffers(orb.pool(), |buffers| {
            std::mem::swap(&mut buffers.block, block);
            let mut send = |message: &Message<'_>| _ = connection.send(message);
            let serve = || handle(orb.server(), orb, connection, arrived, buffers, &mut send);
            let next = with_wait_deadline(Deadline::NONE, serve);
            std::mem::swap(&mut buffers.block, block);
            Ok(next)
        }),
    };
    if next != Ok(Next::Continue(())) {
        connection.break_off();
    }
}

/// Allocates what the calling thread would allocate with its first request, and forgets what
/// servants of earlier connections set for the calls of their thread.
fn prepare_thread() {
    set_thread_overrides(Overrides::default());
    forget_thread_slots();
    crate::poa::warm_up();
    cache::warm_up();
}

/// Serves the request in `buffers.block` and hands its reply, if one is expected, to `send`, while
/// the servant's results are still borrowed.
///
/// # Errors
/// [`ProtocolError`] when it is no request, and the connection cannot go on.
///
/// # Real-time
/// Allocates nothing by itself: the message is read where it lies, views and upcall data go to the
/// region, the reply to the buffer of this thread.
pub(crate) fn request(
    server: &ServerCore,
    orb: &Orb,
    connection: Option<&Arc<Connection>>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let mut running = None;
    if let Some(connection) = connection {
        match connection.serving(&arrived) {
            Ok(serving) => running = Some(serving),
            Err(NotServed::Closing) => {
                cold_path();
                return Ok(());
            }
            Err(NotServed::OverLimit(limit)) => {
                cold_path();
                return refuse_over_limit(orb, connection, arrived, limit, buffers, send);
            }
        }
    }
    let caller = connection.map_or(Caller::PROCESS, |connection| Caller::peer(connection));
    let origin = Origin { connection, caller, text: Text::HELD };
    if !buffers.lent.is_empty() {
        cold_path();
        return request_with_lent(server, orb, origin, arrived, buffers, running, send);
    }
    dispatch::<false>(server, orb, origin, arrived, buffers, running, send)
}

/// As [`request`], for a message of which parts lie in memory of the peer.
#[inline(never)]
fn request_with_lent(
    server: &ServerCore,
    orb: &Orb,
    origin: Origin<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    running: Option<connection::Serving<'_>>,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let served = dispatch::<true>(server, orb, origin, arrived, buffers, running, send);
    buffers.lent.clear();
    served
}

/// As [`request`], for a request that came over no connection and gets no reply, with text in these
/// code sets.
///
/// # Errors
/// As [`request`].
#[cfg(feature = "miop")]
fn unanswered(
    server: &ServerCore,
    orb: &Orb,
    text: Text,
    arrived: Arrived,
    buffers: &mut CallBuffers,
) -> Result<(), ProtocolError> {
    let origin = Origin { connection: None, caller: Caller::GROUP, text };
    dispatch::<false>(server, orb, origin, arrived, buffers, None, &mut |_| {})
}

/// Where a request came from.
#[derive(Clone, Copy)]
struct Origin<'c> {
    connection: Option<&'c Arc<Connection>>,
    caller: Caller<'c>,
    /// The encoding of its text, if there is no connection.
    text: Text,
}

impl Origin<'_> {
    #[inline(always)]
    fn text(&self, version: Version) -> Text {
        self.connection.map_or(self.text, |connection| connection.text(version))
    }
}

/// A request with its target.
struct Incoming<'u> {
    id: u32,
    response: Response,
    contexts: ServiceContexts<'u>,
    arguments: Decoder<'u>,
    text: Text,
    operation: DeclaredOperation,
    target: Result<UpcallTarget<'u>, Refused>,
    #[cfg(feature = "interceptors")]
    caller: Caller<'u>,
}

/// Why a request gets no upcall.
enum Refused {
    /// The client named the object by a profile that is not IIOP, and is asked for the key (clause
    /// 9.4.3.1).
    NeedsKey,
    Refusal(Refusal),
}

/// A request that was parsed in full, and its interceptors.
struct Parsed<'u> {
    request: Request<'u>,
    interceptors: Option<Serving<'u>>,
}

/// From a request to its reply, in four steps:
///
/// 1. The target. The [cache](cache) knows it if the thread has served a request with the same
///    header, and the object is still active. Otherwise [`resolve`] parses and looks up.
/// 2. The header of the reply.
/// 3. The upcall, at the priority of the request where the POA has one; or the refusal.
/// 4. The reply leaves, unless the servant gives another one later.
///
/// Messages with `LENT` parts have a copy of this function, so that others pay nothing for them.
#[inline(always)]
fn dispatch<const LENT: bool>(
    server: &ServerCore,
    orb: &Orb,
    origin: Origin<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    mut running: Option<connection::Serving<'_>>,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let CallBuffers { region, encode, block, lent, .. } = buffers;
    let bytes = &mut block.bytes_mut()[..arrived.len];
    // Parts of the message that are not in it. The header must lie before the first of them.
    let lent = if LENT { origin.connection.map(|connection| (&*lent, connection.stream())) } else { None };
    let readable = lent.and_then(|(lent, _)| lent.begin()).unwrap_or(bytes.len()).min(bytes.len());
    let counted = orb.statistics().map(|statistics| (statistics, now_ns()));
    // Interceptors see every request as it came.
    let cached = match server.interceptors.server() {
        None => cache::find(server, origin.connection, &bytes[..readable], &arrived.header),
        Some(_) => None,
    };
    let scope = region.enter();
    let target;
    let upcall;
    let ended;
    let mut parsed = None;
    #[cfg_attr(not(feature = "interceptors"), allow(unused_mut))]
    let mut caller = origin.caller;
    let (id, response, contexts, arguments, text, operation) = match hot(cached) {
        Some(CachedRequest { offsets, object, operation }) => {
            let RequestOffsets { id, response, contexts, body_at } = offsets;
            if let Some(connection) = origin.connection {
                connection.mark_found();
            }
            let in_place = lent.filter(|(lent, stream)| {
                let in_place = body_at <= readable
                    && object.servant().interface().operations.reads_in_place(operation.0);
                if !in_place {
                    lent.fill(bytes, *stream);
                }
                in_place
            });
            // The offset was found in this message.
            let (head, body) = bytes.split_at_mut(body_at.min(bytes.len()));
            let (order, text) = (arrived.header.order, origin.text(arrived.header.version));
            let contexts = contexts.of(head, order);
            let mut arguments = Decoder::behind(body_at, body, order, text, &scope).with_context(orb);
            if let Some((lent, _)) = in_place {
                cold_path();
                arguments = arguments.with_lent(lent);
            }
            target = Ok(object.enter(OperationName::from(operation.1)));
            (id, response, contexts, arguments, text, Some(operation))
        }
        None => {
            cold_path();
            if let Some((lent, stream)) = lent {
                lent.fill(bytes, stream);
            }
            let Some((incoming, rest)) = resolve(server, orb, origin, arrived, bytes, &scope, send)? else {
                return Ok(());
            };
            parsed = Some(rest);
            target = incoming.target;
            #[cfg(feature = "interceptors")]
            {
                caller = incoming.caller;
            }
            let Incoming { id, response, contexts, arguments, text, operation, .. } = incoming;
            (id, response, contexts, arguments, text, operation)
        }
    };
    let limit = orb.config().message_limit.min(encode.limit);
    let mut e = Encoder::new(encode.take(), text);
    e.set_limit(limit);
    let status = message::write_reply(&mut e, id, ReplyStatus::NoException, &[]);
    let mut offsets =
        ReplyOffsets { status, head: e.position(), detailed: server.interceptors.server().is_none() };
    let deferred = match &target {
        Ok(target) => {
            let mut priority = None;
            if target.rt().is_some() {
                cold_path();
                let interceptors = parsed.as_mut().and_then(|parsed| parsed.interceptors.as_mut());
                priority = upcall_priority(orb, target, (id, &contexts), interceptors, &mut e, &mut offsets);
            }
            upcall = UpcallRequest {
                scope: &scope,
                orb,
                operation: match (operation, &parsed) {
                    (Some((_, name)), _) => name,
                    // An operation that is no text is not declared by any interface.
                    (None, Some(parsed)) => parsed.request.operation.text().unwrap_or_default(),
                    (None, None) => "",
                },
                object_id: target.object_id(),
                poa: Some(target.poa()),
                contexts,
                caller,
                guard: server.guard.as_deref(),
                refused: Cell::new(false),
                reply: ReplyAddress {
                    connection: origin.connection,
                    id,
                    expected: response == Response::Target,
                    version: arrived.header.version,
                    echo: match priority {
                        Some(Ok(RequestPriority { echo, .. })) => echo,
                        _ => None,
                    },
                },
                deferred: Cell::new(false),
            };
            ended = call_servant(target, operation, &upcall, arguments, &mut e, offsets, |servant| {
                if let Some(Parsed { request, interceptors }) = &mut parsed {
                    cold_path();
                    if let (None, Some(connection)) = (operation, origin.connection) {
                        bands::bind(orb, connection, request, target)?;
                    }
                    if let Some(interceptors) = interceptors {
                        interceptors.reach(servant, target)?;
                    }
                }
                if priority.is_some() { apply_priority(orb, target, priority, operation) } else { Ok(None) }
            });
            upcall.deferred.get()
        }
        Err(refused) => {
            refused.write(&mut e, offsets);
            ended = Ended::Refused;
            false
        }
    };
    if deferred
        && response == Response::Target
        && let Some(running) = &mut running
    {
        running.leave_to_deferred();
    }
    if let Some((lent, stream)) = lent {
        cold_path();
        // Before the reply: its client may fill the memory again.
        lent.release(stream);
    }
    if let Some((statistics, began)) = counted {
        let interface = target.as_ref().ok().map(|target| target.servant().interface());
        statistics.record(interface.zip(operation.map(|(index, _)| index)), ended, began);
    }
    if let Some(Parsed { interceptors: Some(interceptors), .. }) = parsed {
        cold_path();
        if deferred {
            interceptors.finish_deferred();
            encode.put_back(e.into_buffer());
            return Ok(());
        }
        interceptors.finish(e, offsets, encode, send);
        return Ok(());
    }
    if response == Response::Target && !deferred {
        deliver(&mut e, send);
    }
    // Before the target is released: a thread that waits for the end of the upcall may close the
    // connection next.
    drop(running);
    encode.put_back(e.into_buffer());
    Ok(())
}

impl Refused {
    /// Notifies the observers of unknown targets, if the client learns nothing from a reply.
    #[cold]
    fn report(&self, server: &ServerCore, connection: &Arc<Connection>, request: &Request<'_>) {
        let Refused::Refusal(Refusal::Exception(exception)) = self else { return };
        if request.response == Response::None
            && exception.kind == Kind::ObjectNotExist
            && server
                .report_unknown_target(request.operation.text().unwrap_or_default(), Caller::peer(connection))
            && connection.found_nothing()
        {
            connection.break_off();
        }
    }

    #[cold]
    fn write(&self, e: &mut Encoder<'_>, offsets: ReplyOffsets) {
        match self {
            Refused::Refusal(refusal) => write_refusal(e, offsets.status, offsets.head, refusal),
            Refused::NeedsKey => {
                e.patch(offsets.status, ReplyStatus::NeedsAddressingMode as u32);
                let body = message::begin_body(e);
                e.put(0u16);
                message::end_body(e, body);
            }
        }
    }
}

/// The target of a request that the cache does not know: of any version, with any address of the
/// object, any policies of its POA, service contexts about the connection, and interceptors. `None`
/// when the request was answered already.
#[inline(never)]
fn resolve<'u>(
    server: &'u ServerCore,
    orb: &'u Orb,
    origin: Origin<'u>,
    arrived: Arrived,
    bytes: &'u mut [u8],
    scope: &'u Scope<'u>,
    send: &mut SendReply<'_>,
) -> Result<Option<(Incoming<'u>, Parsed<'u>)>, ProtocolError> {
    let (request, mut arguments) = Request::open(bytes, &arrived.header, scope)?;
    arguments.set_context(orb);
    let mut acceptable = Ok(());
    if let Some(connection) = origin.connection
        && !request.contexts.is_empty()
    {
        acceptable = apply_contexts(orb, connection, &request, arrived.header.version)?;
    }
    let text = origin.text(arrived.header.version);
    arguments.set_text(text);
    let mut interceptors = match server.interceptors.server() {
        Some(chain) => Some(chain.serve(orb, &request, origin.caller)?),
        None => None,
    };
    let mut started = match &mut interceptors {
        Some(serving) if acceptable.is_ok() && request.target.key().is_some() => serving.start(),
        _ => Ok(()),
    };
    #[cfg(feature = "interceptors")]
    let caller = match &interceptors {
        Some(serving) if started.is_ok() => {
            serving.caller(origin.connection, scope).unwrap_or_else(|exception| {
                started = Err(exception.into());
                origin.caller
            })
        }
        _ => origin.caller,
    };
    if request.response == Response::Server && started.is_ok() {
        if interceptors.is_some() {
            // The ending points see a refusal, which is answered after them.
            started = request.target.key().map_or(Ok(()), |key| find(server, orb, key));
        }
        if started.is_ok() {
            let contexts = interceptors.as_mut().map_or_else(Vec::new, Serving::answer_early);
            let found = answer_early(server, orb, &request, text, &contexts, send);
            if !found && interceptors.is_none() {
                return Ok(None);
            }
        }
    }
    let target = match (acceptable, request.target.key()) {
        (Err(exception), _) => Err(Refused::Refusal(exception.into())),
        (Ok(()), None) => Err(Refused::NeedsKey),
        (Ok(()), Some(key)) => {
            let entered = started.and_then(|()| enter(server, orb, key, request.operation, scope));
            entered.map_err(Refused::Refusal)
        }
    };
    if let Some(connection) = origin.connection {
        match &target {
            Ok(_) => connection.mark_found(),
            Err(refused) => refused.report(server, connection, &request),
        }
    }
    let operation = target.as_ref().ok().and_then(|target| look_up(target, &request));
    let Request { id, response, contexts, .. } = request;
    let incoming = Incoming {
        id,
        response,
        contexts,
        arguments,
        text,
        operation,
        target,
        #[cfg(feature = "interceptors")]
        caller,
    };
    Ok(Some((incoming, Parsed { request, interceptors })))
}

/// The priority at which the request in `buffers.block` will run, as far as it is known before its
/// upcall.
fn request_priority(
    server: &ServerCore,
    orb: &Orb,
    arrived: Arrived,
    buffers: &mut CallBuffers,
) -> Option<Priority> {
    let CallBuffers { region, block, .. } = buffers;
    let scope = region.enter();
    let (request, _) = Request::open(&mut block.bytes_mut()[..arrived.len], &arrived.header, &scope).ok()?;
    server.registry.request_priority(orb, request.target.key()?, &request.contexts)
}
