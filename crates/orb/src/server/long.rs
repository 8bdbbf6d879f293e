//! Replies that no datagram holds: the client hears that instead of nothing.

use super::dispatch::{deliver, write_exception};
use crate::SystemException;
use crate::connection::{Connection, SendError};
use isorb_cdr::{Encoder, Message, Order, Text, Version};
use isorb_giop::message::{self, ReplyStatus};
use isorb_giop::{Completion, Header, Kind, MessageKind};

/// Sends IMP_LIMIT in place of a reply, where that was refused for its length.
#[inline]
pub(super) fn instead(connection: &Connection, sent: Option<SendError>, message: &Message<'_>) {
    if sent == Some(SendError::TooLong) {
        // Of earlier versions the request's id lies elsewhere: their clients wait until their time is up.
        let told = request_id(message).map(|id| tell(connection, id));
        if told.is_none() {
            crate::log::note(format_args!("{}: a reply is longer than a datagram", connection.peer()));
        }
    }
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
fn tell(connection: &Connection, id: u32) {
    let exception = SystemException::new(Kind::ImpLimit, 0, Completion::Yes);
    let mut e = Encoder::new(Vec::new(), Text::fallback(Version::V1_2));
    let status_at = message::write_reply(&mut e, id, ReplyStatus::NoException, &[]);
    let head = e.position();
    write_exception(&mut e, status_at, head, &exception);
    deliver(&mut e, &mut |message| _ = connection.send_or_keep(message));
}
