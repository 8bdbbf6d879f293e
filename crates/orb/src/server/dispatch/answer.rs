//! Replies that no servant gave, and how any reply leaves.

use super::find::find;
use crate::connection::{Arrived, Connection};
use crate::interceptor::Places;
use crate::poa::Refusal;
use crate::workspace::Work;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Encoder, Message, Text};
use isorb_giop::ProtocolError;
use isorb_giop::message::{self, OrdinaryReply, ReplyStatus, Request, Response, ServiceContext};

/// Answers a request with an exception, without looking for its object.
///
/// # Errors
/// As [`request`].
#[cold]
pub(in crate::server) fn turn_away(
    orb: &Orb,
    connection: &Connection,
    arrived: Arrived,
    work: &mut Work,
    exception: &SystemException,
    send: &mut dyn FnMut(&Message<'_>),
) -> Result<(), ProtocolError> {
    let Work { region, encode, block, .. } = work;
    let scope = region.enter();
    let mut d = message::start_whole(&mut block.bytes_mut()[..arrived.len], &arrived.header, &scope);
    let request = Request::read(&mut d)?;
    if request.response == Response::None {
        return Ok(());
    }
    let mut e = Encoder::new(encode.take(), connection.text(arrived.header.version));
    e.set_limit(orb.config().message_limit);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, &[]);
    let head = e.position();
    write_exception(&mut e, status_at, head, exception);
    deliver(&mut e, send);
    encode.put_back(e.into_buffer());
    Ok(())
}

/// Answers whether the object was found before the servant runs, and says it; what the servant then does, nobody hears.
#[cold]
pub(super) fn answer_early(
    orb: &Orb,
    request: &Request<'_>,
    text: Text,
    contexts: &[ServiceContext<'_>],
    send: &mut dyn FnMut(&Message<'_>),
) -> bool {
    let found = request.target.key().map_or(Ok(()), |key| find(orb, key));
    let mut e = Encoder::new(Vec::new(), text);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, contexts);
    let head = e.position();
    if let Err(refusal) = &found {
        write_refusal(&mut e, status_at, head, refusal);
    }
    deliver(&mut e, send);
    found.is_ok()
}

#[cold]
pub(crate) fn write_refusal(e: &mut Encoder<'_>, status_at: usize, head: usize, refusal: &Refusal) {
    match refusal {
        Refusal::Exception(exception) => write_exception(e, status_at, head, exception),
        Refusal::Forward { to, permanent } => {
            e.truncate(head);
            // Forwarding for good came with GIOP 1.2.
            let for_good = *permanent && e.text().version >= isorb_cdr::Version::V1_2;
            let status =
                if for_good { ReplyStatus::LocationForwardPerm } else { ReplyStatus::LocationForward };
            e.patch(status_at, status as u32);
            let body = message::begin_body(e);
            to.ior().encode(e);
            message::end_body(e, body);
        }
    }
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

/// The most characters of a detail that go over the wire.
const LONGEST_DETAIL: usize = 1000;

/// As [`write_exception`], with the exception's detail as a service context (ExceptionDetailMessage), where the reply has no other and
/// nobody looks at it on its way.
#[cold]
pub(super) fn write_told_exception(e: &mut Encoder<'_>, places: Places, exception: &SystemException) {
    let Places { status, head, tells } = places;
    let plain = tells && head == OrdinaryReply::BODY_AT && e.text().version >= isorb_cdr::Version::V1_2;
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
    crate::log::note(format_args!("a reply could not be written: {error}"));
}
