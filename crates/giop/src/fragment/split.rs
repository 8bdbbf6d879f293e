//! Outbound fragments.

use crate::{Header, MessageKind};
use core::ops::Range;
use isorb_cdr::{Message, Order, Version};

/// Smallest length of a fragment from [`split`], in bytes, header included.
pub const MIN_FRAGMENT: usize = 32;

/// Length of a fragment's header and request id.
const FRAGMENT_HEAD: usize = Header::LEN + 4;

/// Cuts a finished message with its final size into messages of at most `max_fragment` bytes
/// (rounded down to a multiple of 8, at least [`MIN_FRAGMENT`]). `None` for a message that is short
/// enough, is not GIOP 1.2, or is of a kind without fragments: send it as it is.
///
/// # Real-time
/// Allocates nothing and copies no body.
pub fn split<'a>(message: &'a Message<'a>, max_fragment: usize) -> Option<Fragments<'a>> {
    let max = max_fragment.max(MIN_FRAGMENT) & !7;
    if message.len() <= max {
        return None;
    }
    // Header and request id were copied into the buffer, so they are in the first piece.
    let head = message.pieces().next()?;
    let header = Header::parse(head.first_chunk()?).ok()?;
    let id = *head.get(Header::LEN..)?.first_chunk::<4>()?;
    let kind = matches!(
        header.kind,
        MessageKind::Request | MessageKind::Reply | MessageKind::LocateRequest | MessageKind::LocateReply
    );
    (kind && header.version == Version::V1_2 && header.order == Order::NATIVE).then_some(Fragments {
        message,
        header,
        id,
        at: 0,
        max,
    })
}

/// The fragments of a message, in order.
#[derive(Debug)]
pub struct Fragments<'a> {
    message: &'a Message<'a>,
    header: Header,
    /// The request id in the message's byte order.
    id: [u8; 4],
    at: usize,
    max: usize,
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Fragment<'a>;

    fn next(&mut self) -> Option<Fragment<'a>> {
        let left = self.message.len().checked_sub(self.at).filter(|left| *left > 0)?;
        let first = self.at == 0;
        let head_length = if first { Header::LEN } else { FRAGMENT_HEAD };
        // The first fragment carries its own header.
        let body_at = if first { Header::LEN } else { self.at };
        let room = self.max - head_length;
        let more = left - (body_at - self.at) > room;
        let end = if more { body_at + room } else { self.message.len() };
        let kind = if first { self.header.kind } else { MessageKind::Fragment };
        let size = (head_length - Header::LEN + end - body_at) as u32;
        let header = Header { kind, more_fragments: more, size, ..self.header };
        let mut head = [0; FRAGMENT_HEAD];
        head[..Header::LEN].copy_from_slice(&header.write());
        head[Header::LEN..].copy_from_slice(&self.id);
        self.at = end;
        Some(Fragment { head, head_length, message: self.message, body: body_at..end })
    }
}

/// One fragment: its own octets, then a part of the message.
#[derive(Debug)]
pub struct Fragment<'a> {
    head: [u8; FRAGMENT_HEAD],
    head_length: usize,
    message: &'a Message<'a>,
    body: Range<usize>,
}

impl Fragment<'_> {
    /// The header, with the request id from the second fragment on.
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_length]
    }

    /// The rest, in order, at most [`Message::MAX_PIECES`].
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.message.pieces().filter_map(move |piece| {
            let start = self.body.start.saturating_sub(at).min(piece.len());
            let end = self.body.end.saturating_sub(at).min(piece.len());
            at += piece.len();
            piece.get(start..end).filter(|part| !part.is_empty())
        })
    }

    /// Length in bytes, header included.
    #[expect(clippy::len_without_is_empty, reason = "a fragment has a header")]
    pub fn len(&self) -> usize {
        self.head_length + self.body.len()
    }
}
