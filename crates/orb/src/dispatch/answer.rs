//! Replies that no servant gives.

use super::ServerCore;
use super::find::find;
use crate::interceptor::ReplyOffsets;
use crate::orb_core::SendReply;
use crate::poa::write_refusal;
use crate::server::{deliver, write_exception};
use crate::{Orb, SystemException};
use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, OrdinaryReply, ReplyStatus, Request, ServiceContext};

/// Answers before the upcall whether the object was found, and returns it. The upcall's result is
/// not sent.
#[cold]
pub(super) fn answer_early(
    server: &ServerCore,
    orb: &Orb,
    request: &Request<'_>,
    text: Text,
    contexts: &[ServiceContext<'_>],
    send: &mut SendReply<'_>,
) -> bool {
    let found = request.target.key().map_or(Ok(()), |key| find(server, orb, key));
    let mut e = Encoder::new(Vec::new(), text);
    let status_at = message::write_reply(&mut e, request.id, ReplyStatus::NoException, contexts);
    let head = e.position();
    if let Err(refusal) = &found {
        write_refusal(&mut e, status_at, head, refusal);
    }
    deliver(&mut e, send);
    found.is_ok()
}

/// Most characters of a detail in a reply.
const LONGEST_DETAIL: usize = 1000;

/// As [`write_exception`], with the exception's detail as a service context
/// (ExceptionDetailMessage), if the reply has no other context and no interceptor sees it.
#[cold]
pub(super) fn write_detailed_exception(
    e: &mut Encoder<'_>,
    offsets: ReplyOffsets,
    exception: &SystemException,
) {
    let ReplyOffsets { status, head, detailed } = offsets;
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
