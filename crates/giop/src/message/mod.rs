//! The headers of each message in each version: read in place, written in front of a body.
//!
//! Reading starts with [`start`] on the whole message (alignment counts from its first byte),
//! continues with the reader of the message's kind and ends with [`body`]. Writing starts with
//! [`write_request`] or [`write_reply`], continues with [`begin_body`], the values and
//! [`end_body`], and ends with [`finish_header`] on the finished message.

mod contexts;
mod control;
mod locate;
mod operation;
mod reply;
mod request;
mod target;

pub use contexts::{ServiceContext, ServiceContextIter, ServiceContexts};
pub use control::{cancel_request, close_connection, message_error, read_cancel};
pub use locate::{LocateReply, LocateRequest, LocateStatus, write_locate_reply, write_locate_request};
pub use operation::OperationName;
pub use reply::{OrdinaryReply, Reply, ReplyStatus, write_prioritised_reply, write_reply};
pub use request::{
    Addressed, CachedHeader, ContextOffsets, OrdinaryRequest, Request, RequestHead, RequestOffsets, Response,
    write_request, write_request_to,
};
pub use target::{RawProfile, Target};

use crate::{Header, MessageKind};
use core::hint::cold_path;
use isorb_cdr::{Decoder, Encoder, Error, ErrorKind, Message, Result, Text, Version};
use isorb_scope::Scope;

/// A decoder on a whole message, behind the twelve octets that `header` was parsed from. Text is
/// read as before code sets were negotiated; [`Decoder::set_text`] changes that for the body.
///
/// # Errors
/// [`ErrorKind::Truncated`] when the message is shorter than a header.
///
/// # Real-time
/// O(1), allocates nothing.
pub fn start<'m>(message: &'m mut [u8], header: &Header, scope: &'m Scope<'m>) -> Result<Decoder<'m>> {
    match message.len() {
        0..Header::LEN => Err(Error::new(ErrorKind::Truncated, 0)),
        _ => Ok(start_whole(message, header, scope)),
    }
}

/// As [`start`], for a message that is known to contain its header; a shorter one reads as if it
/// ended there.
///
/// # Real-time
/// O(1), allocates nothing.
#[inline]
pub fn start_whole<'m>(message: &'m mut [u8], header: &Header, scope: &'m Scope<'m>) -> Decoder<'m> {
    let text = Text::fallback(header.version);
    if header.fragment_boundaries != 0 {
        return start_with_fragment_boundaries(message, header, text, scope);
    }
    let mut d = Decoder::new(message, header.order, text, scope);
    d.skip(Header::LEN);
    d
}

#[cold]
fn start_with_fragment_boundaries<'m>(
    message: &'m mut [u8],
    header: &Header,
    text: Text,
    scope: &'m Scope<'m>,
) -> Decoder<'m> {
    let (message, boundaries) = split_boundaries(message, header);
    let mut d = Decoder::new(message, header.order, text, scope);
    d.skip(Header::LEN);
    if boundaries.is_empty() { d } else { d.with_fragment_boundaries(boundaries) }
}

/// Separates a message from its fragment boundaries, which follow it.
fn split_boundaries<'m>(message: &'m mut [u8], header: &Header) -> (&'m mut [u8], &'m [[u8; 4]]) {
    let trailer = header.fragment_boundaries as usize * 4;
    match message.len().checked_sub(trailer) {
        Some(length) if trailer > 0 => {
            let (message, trailer) = message.split_at_mut(length);
            (message, trailer.as_chunks().0)
        }
        _ => (message, &[]),
    }
}

/// Skips to the body of a Request or Reply: in GIOP 1.2 it is 8-aligned unless it is empty (clause
/// 9.4.2.3).
#[inline]
pub fn body(d: &mut Decoder<'_>) {
    if d.text().version >= Version::V1_2 {
        d.align_body(8);
    }
}

/// The start of a body.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct BodyStart {
    unpadded: usize,
    padded: usize,
}

/// Aligns for the body of a Request or Reply.
#[inline(always)]
pub fn begin_body(e: &mut Encoder<'_>) -> BodyStart {
    let unpadded = e.position();
    if e.text().version >= Version::V1_2 {
        e.align(8);
    }
    BodyStart { unpadded, padded: e.position() }
}

/// Takes the padding back if the body is empty.
#[inline(always)]
pub fn end_body(e: &mut Encoder<'_>, start: BodyStart) {
    if e.position() == start.padded && start.padded != start.unpadded && e.error().is_none() {
        e.truncate(start.unpadded);
    }
}

/// Patches the size of a finished message.
///
/// # Errors
/// [`ErrorKind::TooLarge`] when it is 4 GiB or more.
#[inline(always)]
pub fn finish_header(message: &mut Message<'_>) -> Result<()> {
    let size = message.len().saturating_sub(Header::LEN);
    let Ok(size) = u32::try_from(size) else {
        cold_path();
        return Err(Error::new(ErrorKind::TooLarge, size));
    };
    if let Some(place) = message.head_mut().get_mut(Header::SIZE_AT..Header::LEN) {
        place.copy_from_slice(&size.to_ne_bytes());
    }
    Ok(())
}

/// Writes a header; its size is patched later.
fn write_header(e: &mut Encoder<'_>, kind: MessageKind) {
    e.raw(&Header::new(e.text().version, kind).write());
}

/// A sequence of octets, borrowed.
#[inline(always)]
fn octets<'m>(d: &mut Decoder<'m>) -> Result<&'m [u8]> {
    let n = d.count(1)?;
    Ok(d.take(n)?)
}

#[cfg(test)]
mod tests;
