//! A request, from its octets to its reply.

mod answer;
mod bands;
mod cache;
mod core;
mod find;
#[cfg(feature = "miop")]
mod group_thread;
#[cfg(feature = "miop")]
mod groups;
#[cfg(feature = "miop")]
mod joined;
mod servant;

pub(crate) use self::core::ServerCore;
#[cfg(feature = "miop")]
pub(crate) use groups::Groups;

use crate::buffers::{CachedHeader, CallBuffers, with_buffers};
use crate::connection::{self, Arrived, Connection};
use crate::hot::hot;
use crate::interceptor::{ReplyOffsets, Serving};
use crate::orb_core::SendReply;
use crate::poa::{with_wait_deadline, write_refusal};
use crate::server::{Next, deliver, refuse, write_exception};
use crate::upcall::Request as UpcallRequest;
use crate::{Orb, Result};
use answer::answer_early;
use cache::Ordinary;
use find::{enter, find, locate};
use isorb_cdr::{Decoder, Encoder, Message, Text};
use isorb_giop::message::{self, OperationName, OrdinaryReply, ReplyStatus, Request, RequestPlace, Response};
use isorb_giop::{MessageKind, ProtocolError, context};
use isorb_rt::priority::Priority;
use isorb_rt::time::Deadline;
use isorb_scope::Buffer;
use servant::{apply_priority, call_at_priority, call_servant, look_up, upcall_priority};
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
        _ => match other_message(server, orb, connection, arrived, buffers, send) {
            Some(handled) => handled,
            None => return Next::Break(()),
        },
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
            locate(server, orb, arrived, buffers, send)
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
        _ => with_buffers(connection.pool(), |buffers| {
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

/// Allocates what the calling thread would allocate with its first request.
fn prepare_thread() {
    crate::poa::warm_up();
    cache::warm_up();
}

/// Serves the request that lies in `buffers.block` and hands its reply, if one is expected, to `send` while what it borrows
/// from is alive.
///
/// # Errors
/// [`ProtocolError`] when it is no request, and the connection cannot go on.
///
/// # Real-time
/// Allocates nothing by itself: the message is read where it lies, views and upcall data go to the region, the reply to the
/// buffer of this thread.
pub(crate) fn request(
    server: &ServerCore,
    orb: &Orb,
    connection: Option<&Arc<Connection>>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let mut serving = None;
    if let Some(connection) = connection {
        serving = connection.serving();
        if serving.is_none() {
            cold_path();
            return Ok(());
        }
    }
    let origin = Origin { connection, text: Text::DEFAULT };
    if at_once(server, orb, origin, arrived, buffers, &mut serving, send) {
        return Ok(());
    }
    cold_path();
    any_request(server, orb, origin, arrived, buffers, serving, send)
}

/// As [`request`], for one that came over no connection and is not answered, with text in these code sets.
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
    let origin = Origin { connection: None, text };
    let send = &mut |_: &Message<'_>| {};
    if at_once(server, orb, origin, arrived, buffers, &mut None, send) {
        return Ok(());
    }
    any_request(server, orb, origin, arrived, buffers, None, send)
}

/// Where a request came from.
#[derive(Clone, Copy)]
struct Origin<'c> {
    connection: Option<&'c Arc<Connection>>,
    /// Its text, where that is not the connection's.
    text: Text,
}

/// Serves a request if it is as nearly all are, and its object is active. `false`: it was not served, and nothing happened.
///
/// Nothing here meets what the rare cases give, so that what is known of the request stays in registers.
#[inline(always)]
fn at_once(
    server: &ServerCore,
    orb: &Orb,
    Origin { connection, text }: Origin<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    serving: &mut Option<connection::Serving<'_>>,
    send: &mut SendReply<'_>,
) -> bool {
    if server.interceptors.server().is_some() {
        cold_path();
        return false;
    }
    let CallBuffers { region, encode, block } = buffers;
    let bytes = &mut block.bytes_mut()[..arrived.len];
    let Some(request) = hot(cache::find(server, connection, bytes, &arrived.header)) else { return false };
    let Ordinary { place, found, operation } = request;
    let RequestPlace { id, response, contexts, body_at } = place;
    let scope = region.enter();
    let entered = found.enter(OperationName::from(operation.1));
    let text = connection.map_or(text, |connection| connection.text(arrived.header.version));
    // The place was found in this message.
    let (head, body) = bytes.split_at_mut(body_at.min(bytes.len()));
    let contexts = contexts.of(head, arrived.header.order);
    let d = Decoder::behind(body_at, body, arrived.header.order, text, &scope).with_context(orb);
    let (buffer, begun) = encode.take_with(CachedHeader::REPLY);
    let mut e = Encoder::resume(buffer, begun, text);
    e.set_limit(orb.config().message_limit);
    if begun == 0 {
        cold_path();
        message::write_reply(&mut e, id, ReplyStatus::NoException, &[]);
    } else {
        message::renew_reply(&mut e, id, ReplyStatus::NoException);
    }
    let ordinary = OrdinaryReply::BODY_AT;
    let mut offsets = ReplyOffsets { status: OrdinaryReply::STATUS_AT, head: ordinary, tells: true };
    let upcall = UpcallRequest {
        scope: &scope,
        orb,
        operation: operation.1,
        object_id: entered.object_id(),
        poa: Some(entered.poa()),
        contexts,
    };
    if entered.rt().is_none() {
        call_servant(&entered, Some(operation), &upcall, d, &mut e, offsets, |_| Ok(()));
    } else {
        cold_path();
        call_at_priority(&entered, Some(operation), &upcall, d, &mut e, &mut offsets, id);
    }
    if response == Response::Target {
        deliver(&mut e, send);
    }
    // Before the POA hears that the upcall has ended: who waits for that may close the connection next.
    drop(serving.take());
    let written = e.into_buffer();
    let plain = offsets.head == ordinary && OrdinaryReply::has_no_contexts(&written);
    encode.put_back(written);
    if plain {
        encode.set_header(CachedHeader::REPLY, ordinary);
    }
    true
}

/// As [`request`], in all cases: any version, way of naming the object and policies of its POA, service contexts that are about the
/// connection, interceptors, refusals.
#[inline(never)]
fn any_request(
    server: &ServerCore,
    orb: &Orb,
    Origin { connection, text }: Origin<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    serving: Option<connection::Serving<'_>>,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let CallBuffers { region, encode, block } = buffers;
    let scope = region.enter();
    let bytes = &mut block.bytes_mut()[..arrived.len];
    let (request, mut d) = Request::open(bytes, &arrived.header, &scope)?;
    d.set_context(orb);
    let version = arrived.header.version;
    let mut acceptable = Ok(());
    let text = match connection {
        Some(connection) => {
            if !request.contexts.is_empty() {
                acceptable = note_contexts(orb, connection, &request, version)?;
            }
            connection.text(version)
        }
        None => text,
    };
    d.set_text(text);

    let mut e = Encoder::new(encode.take(), text);
    e.set_limit(orb.config().message_limit);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, &[]);
    let head = e.position();
    let mut offsets = ReplyOffsets { status: status_at, head, tells: server.interceptors.server().is_none() };
    let entered;
    let upcall;
    let mut intercepted = match server.interceptors.server() {
        Some(chain) => Some(chain.serve(orb, &request)?),
        None => None,
    };
    let mut started = match &mut intercepted {
        Some(serving) if acceptable.is_ok() && request.target.key().is_some() => serving.start(),
        _ => Ok(()),
    };
    if intercepted.is_some() && request.response == Response::Server && started.is_ok() {
        // A refusal is for the ending points to see, and answered after them.
        started = request.target.key().map_or(Ok(()), |key| find(server, orb, key));
    }
    if request.response == Response::Server && started.is_ok() {
        let contexts = intercepted.as_mut().map_or_else(Vec::new, Serving::answer_early);
        let found = answer_early(server, orb, &request, text, &contexts, send);
        if !found && intercepted.is_none() {
            encode.put_back(e.into_buffer());
            return Ok(());
        }
    }

    match request.target.key() {
        _ if acceptable.is_err() => {
            if let Err(exception) = &acceptable {
                write_exception(&mut e, status_at, head, exception);
            }
        }
        None => {
            // A profile that is not IIOP: ask for the key (clause 9.4.3.1).
            e.patch(status_at, ReplyStatus::NeedsAddressingMode as u32);
            let body = message::begin_body(&mut e);
            e.put(0u16);
            message::end_body(&mut e, body);
        }
        Some(key) => match started.and_then(|()| enter(server, orb, key, request.operation, &scope)) {
            Err(refusal) => write_refusal(&mut e, status_at, head, &refusal),
            Ok(target) => {
                entered = target;
                let known = look_up(&entered, &request);
                let priority = upcall_priority(
                    orb,
                    &entered,
                    (request.id, &request.contexts),
                    intercepted.as_mut(),
                    &mut e,
                    &mut offsets,
                );
                upcall = UpcallRequest {
                    scope: &scope,
                    orb,
                    // What is no text is no operation of any object.
                    operation: match known {
                        Some((_, name)) => name,
                        None => request.operation.text().unwrap_or_default(),
                    },
                    object_id: entered.object_id(),
                    poa: Some(entered.poa()),
                    contexts: request.contexts,
                };
                call_servant(&entered, known, &upcall, d, &mut e, offsets, |servant| {
                    if let (None, Some(connection)) = (known, connection) {
                        bands::settle(orb, connection, &request, &entered)?;
                    }
                    if let Some(serving) = &mut intercepted {
                        serving.reach(servant, &entered)?;
                    }
                    apply_priority(orb, &entered, priority)
                });
            }
        },
    }
    if let Some(serving) = intercepted {
        serving.finish(e, offsets, encode, send);
        return Ok(());
    }
    if request.response == Response::Target {
        deliver(&mut e, send);
    }
    // As in `request`.
    drop(serving);
    encode.put_back(e.into_buffer());
    Ok(())
}

/// Contexts that change what is known of the connection: code sets, bidirectional listen points; whether a band of priorities can be read.
#[cold]
fn note_contexts(
    orb: &Orb,
    connection: &Arc<Connection>,
    request: &Request<'_>,
    version: isorb_cdr::Version,
) -> Result<Result<()>, ProtocolError> {
    if connection.code_sets().is_none()
        && let Some(data) = request.contexts.get(context::CODE_SETS)
    {
        match context::CodeSets::read(data)?.text(version) {
            Ok(text) => connection.set_code_sets(text.narrow, text.wide),
            Err(exception) => return Ok(Err(exception)),
        }
    }
    if let Some(data) = request.contexts.get(context::BI_DIR_IIOP) {
        orb.accept_bidirectional(connection, data);
    }
    if let Some(data) = request.contexts.get(context::RT_CORBA_PRIORITY_RANGE)
        && let Err(exception) = context::PriorityRange::read(data)
    {
        return Ok(Err(exception));
    }
    Ok(Ok(()))
}

/// The priority at which a request will run that lies in `buffers.block`, as far as that can be known before anybody serves it.
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
