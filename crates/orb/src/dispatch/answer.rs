//! Replies that no servant gives.

use super::ServerCore;
use super::find::find;
use crate::Orb;
use crate::orb_core::SendReply;
use crate::poa::write_refusal;
use crate::server::deliver;
use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, ReplyStatus, Request, ServiceContext};

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
