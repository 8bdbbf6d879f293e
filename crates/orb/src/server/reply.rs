//! Replies that no servant gives, and how a reply leaves.

use super::{LOG, apply_contexts};
use crate::buffers::CallBuffers;
use crate::connection::{Arrived, Connection, PeerLimit, SendError};
use crate::log::warn;
use crate::orb_core::SendReply;
use crate::{Orb, SystemException};
use isorb_cdr::{Encoder, Message, Order, Text, Version};
use isorb_giop::message::{self, OrdinaryReply, ReplyStatus, Request, Response, ServiceContext};
use isorb_giop::{Completion, Header, Kind, MessageKind, ProtocolError, minor};
use std::sync::Arc;

/// Sends IMP_LIMIT in place of a reply that no datagram holds.
#[inline]
pub(crate) fn replace_too_long(connection: &Connection, sent: Option<SendError>, message: &Message<'_>) {
    if sent == Some(SendError::TooLong) {
        // Earlier versions have the request's id elsewhere; their clients wait for their time-out.
        let sent = request_id(message).map(|id| send_too_long(connection, id));
        if sent.is_none() {
            warn(LOG, format_args!("{}: a reply is longer than a datagram", connection.peer()));
        }
    }
}

/// Answers a request with an exception before its object is looked up. What the request says about
/// its `connection` holds for those that follow.
///
/// # Errors
/// [`ProtocolError`] when it is no request.
#[cold]
pub(super) fn reject(
    orb: &Orb,
    connection: Option<&Arc<Connection>>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    exception: &SystemException,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    reject_with(orb, connection, arrived, buffers, (exception, &[]), send)
}

/// Refuses a request of a client that has as much at this server as one client may. An answer to
/// GIOP 1.2 says so. A oneway is counted only.
///
/// # Errors
/// [`ProtocolError`] when it is no request, or its header is longer than the octets that are here.
#[cold]
pub(crate) fn refuse_over_limit(
    orb: &Orb,
    connection: &Arc<Connection>,
    arrived: Arrived,
    limit: PeerLimit,
    buffers: &mut CallBuffers,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    if let Some(statistics) = orb.statistics() {
        statistics.refuse();
    }
    if !buffers.lent.is_empty() {
        buffers.lent.fill(&mut buffers.block.bytes_mut()[..arrived.len], connection.stream());
        buffers.lent.clear();
    }
    let detail = connection.count_refusal(limit);
    let exception = SystemException::new(Kind::ImpLimit, minor::IMP_LIMIT_PEER, Completion::No);
    reject_with(orb, Some(connection), arrived, buffers, (&exception, detail), send)
}

/// As [`reject`], with the octets of a service context that has the exception's detail.
#[cold]
fn reject_with(
    orb: &Orb,
    connection: Option<&Arc<Connection>>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    (exception, detail): (&SystemException, &[u8]),
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let CallBuffers { region, encode, block, .. } = buffers;
    let scope = region.enter();
    let mut d = message::start_whole(&mut block.bytes_mut()[..arrived.len], &arrived.header, &scope);
    let request = Request::read(&mut d)?;
    let text = match connection {
        Some(connection) => {
            // An error of theirs is not what the request is refused for.
            drop(apply_contexts(orb, connection, &request, arrived.header.version)?);
            connection.text(arrived.header.version)
        }
        None => Text::DEFAULT,
    };
    if request.response == Response::None {
        return Ok(());
    }
    let mut e = Encoder::new(encode.take(), text);
    e.set_limit(orb.config().message_limit);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, &[]);
    let mut head = e.position();
    if !detail.is_empty() && head == OrdinaryReply::BODY_AT && e.text().version >= Version::V1_2 {
        let context = ServiceContext { id: isorb_giop::context::EXCEPTION_DETAIL_MESSAGE, data: detail };
        OrdinaryReply::add_context(&mut e, context);
        head = e.position();
    }
    write_exception(&mut e, status_at, head, exception);
    deliver(&mut e, send);
    encode.put_back(e.into_buffer());
    Ok(())
}

#[cold]
pub(crate) fn write_exception(
    e: &mut Encoder<'_>,
    status_at: usize,
    head: usize,
    exception: &SystemException,
) {
    e.truncate(head);
    e.patch(status_at, ReplyStatus::SystemException as u32);
    let body = message::begin_body(e);
    exception.encode(e);
    message::end_body(e, body);
}

/// Most characters of a detail in a reply.
const LONGEST_DETAIL: usize = 1000;

/// As [`write_exception`], with the exception's detail as a service context
/// (ExceptionDetailMessage), if the reply may be `detailed`, since no interceptor sees it, and has
/// no other context.
#[cold]
pub(crate) fn write_detailed_exception(
    e: &mut Encoder<'_>,
    (status, head): (usize, usize),
    detailed: bool,
    exception: &SystemException,
) {
    let plain = detailed && head == OrdinaryReply::BODY_AT && e.text().version >= isorb_cdr::Version::V1_2;
    let detail = exception.detail.as_deref().filter(|_| plain).map(|detail| {
        let end = detail.char_indices().nth(LONGEST_DETAIL).map_or(detail.len(), |(at, _)| at);
        isorb_giop::context::exception_detail(&detail[..end])
    });
    let Some(Ok(data)) = detail else { return write_exception(e, status, head, exception) };
    e.truncate(head);
    let context = ServiceContext { id: isorb_giop::context::EXCEPTION_DETAIL_MESSAGE, data: &data };
    OrdinaryReply::add_context(e, context);
    let behind = e.position();
    write_exception(e, status, behind, exception);
}

#[inline(always)]
pub(crate) fn deliver(e: &mut Encoder<'_>, send: &mut dyn FnMut(&Message<'_>)) {
    let finished = e.finished().and_then(|message| {
        message::finish_header(message)?;
        Ok(message)
    });
    match finished {
        Ok(message) => send(message),
        Err(error) => not_written(error),
    }
}

#[cold]
fn not_written(error: isorb_cdr::Error) {
    warn(LOG, format_args!("a reply could not be written: {error}"));
}

/// The id of the request that a reply of GIOP 1.2 answers.
fn request_id(message: &Message<'_>) -> Option<u32> {
    let head = message.pieces().next()?;
    let header = Header::parse(head.first_chunk()?).ok()?;
    let id = *head.get(Header::LEN..)?.first_chunk()?;
    let id = if header.order == Order::Little { u32::from_le_bytes(id) } else { u32::from_be_bytes(id) };
    (header.kind == MessageKind::Reply && header.version == Version::V1_2).then_some(id)
}

#[cold]
fn send_too_long(connection: &Connection, id: u32) {
    let exception = SystemException::new(Kind::ImpLimit, 0, Completion::Yes);
    let mut e = Encoder::new(Vec::new(), Text::fallback(Version::V1_2));
    let status_at = message::write_reply(&mut e, id, ReplyStatus::NoException, &[]);
    let head = e.position();
    write_exception(&mut e, status_at, head, &exception);
    deliver(&mut e, &mut |message| _ = connection.send_or_keep(message));
}
