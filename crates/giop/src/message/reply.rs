//! Reply (clause 9.4.3).

use super::{ServiceContext, ServiceContexts, contexts, write_header};
use crate::context::{RT_CORBA_PRIORITY, rt_corba_priority};
use crate::{Header, MessageKind};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Order, Result, Text, Version};
use isorb_scope::Scope;

/// The kind of a reply's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReplyStatus {
    /// The result, then out and inout arguments.
    NoException = 0,
    /// A user exception: its repository id and members.
    UserException = 1,
    /// A [`SystemException`](crate::SystemException).
    SystemException = 2,
    /// A reference for this and later requests.
    LocationForward = 3,
    /// A reference that replaces the old one for good (GIOP 1.2).
    LocationForwardPerm = 4,
    /// A short: the kind of [`Target`](super::Target) for the next attempt (GIOP 1.2).
    NeedsAddressingMode = 5,
}

impl ReplyStatus {
    const ALL: [ReplyStatus; 6] = [
        ReplyStatus::NoException,
        ReplyStatus::UserException,
        ReplyStatus::SystemException,
        ReplyStatus::LocationForward,
        ReplyStatus::LocationForwardPerm,
        ReplyStatus::NeedsAddressingMode,
    ];
}

/// Offsets in a reply of GIOP 1.2.
const ID_AT: usize = Header::LEN;
const STATUS_AT: usize = ID_AT + 4;
/// The number of service contexts.
const CONTEXTS_AT: usize = STATUS_AT + 4;
/// The body, without contexts.
const BODY_AT: usize = CONTEXTS_AT + 4;

/// The header of an ordinary reply: well-formed GIOP 1.2 without service contexts, as nearly all
/// replies are. Its length is fixed.
#[derive(Clone, Copy, Debug)]
pub struct OrdinaryReply {
    /// Id of the request.
    pub id: u32,
    /// The kind of the body.
    pub status: ReplyStatus,
}

impl OrdinaryReply {
    /// Offset of the status in the message.
    pub const STATUS_AT: usize = STATUS_AT;
    /// Offset of the body in the message.
    pub const BODY_AT: usize = BODY_AT;

    /// Adds a service context to a reply of GIOP 1.2 that is written up to its body and has none.
    ///
    /// # Real-time
    /// The cost of writing the context.
    #[cold]
    pub fn add_context(e: &mut Encoder<'_>, context: ServiceContext<'_>) {
        e.patch(CONTEXTS_AT, 1);
        contexts::write_each(e, &[context]);
    }

    /// Examines a whole message; `None` for a reply that is not ordinary, which [`Reply::open`]
    /// reads or rejects.
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    #[inline(always)]
    pub fn find(message: &[u8], header: &Header) -> Option<OrdinaryReply> {
        if header.version != Version::V1_2 || header.fragment_boundaries != 0 {
            return None;
        }
        let (head, _) = message.split_first_chunk::<BODY_AT>()?;
        let (id, rest) = head[ID_AT..].split_first_chunk()?;
        let (status, contexts) = rest.split_first_chunk()?;
        let (mut id, mut status) = (u32::from_ne_bytes(*id), u32::from_ne_bytes(*status));
        if *contexts != [0; 4] {
            return None;
        }
        if header.order.is_foreign() {
            (id, status) = (id.swap_bytes(), status.swap_bytes());
        }
        let status = *ReplyStatus::ALL.get(status as usize)?;
        Some(OrdinaryReply { id, status })
    }

    /// The start of the results in a whole reply of GIOP 1.2 without an exception, with any service
    /// contexts. `None` for any other reply, which [`Reply::open`] reads or rejects.
    ///
    /// # Real-time
    /// Linear in the number of contexts, allocates nothing.
    #[inline(never)]
    pub fn results_behind_contexts(message: &[u8], header: &Header) -> Option<usize> {
        if header.version != Version::V1_2 || header.fragment_boundaries != 0 {
            return None;
        }
        let (head, _) = message.split_first_chunk::<BODY_AT>()?;
        let (status, count) = head[STATUS_AT..].split_first_chunk::<4>()?;
        let count = u32::from_ne_bytes(*count.first_chunk()?);
        let count = if header.order.is_foreign() { count.swap_bytes() } else { count };
        // NO_EXCEPTION is zero in either byte order.
        if *status != [0; 4] {
            return None;
        }
        let ends = ServiceContexts::end(message, (BODY_AT, header.order), count as usize, |_| true)?;
        Some(((ends + 7) & !7).min(message.len()))
    }

    /// A decoder on the octets of a body, which may have moved away from the header to an 8-aligned
    /// address.
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    #[inline(always)]
    pub fn body<'m>(body: &'m mut [u8], order: Order, text: Text, scope: &'m Scope<'m>) -> Decoder<'m> {
        Decoder::behind(BODY_AT, body, order, text, scope)
    }
}

/// The header of a reply, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'m> {
    /// Id of the request.
    pub id: u32,
    /// The kind of the body.
    pub status: ReplyStatus,
    /// Service contexts.
    pub contexts: ServiceContexts<'m>,
}

impl<'m> Reply<'m> {
    /// Reads the header of a reply in a whole message: the reply, and a decoder at its body. The
    /// result is that of [`start_whole`](super::start_whole), [`Reply::read`] and
    /// [`body`](super::body), in fewer steps for an ordinary message.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a malformed header.
    ///
    /// # Real-time
    /// Linear in the header's length; allocates nothing and needs no scope.
    pub fn open(
        message: &'m mut [u8],
        header: &Header,
        scope: &'m Scope<'m>,
    ) -> Result<(Reply<'m>, Decoder<'m>)> {
        let Some(OrdinaryReply { id, status }) = OrdinaryReply::find(message, header) else {
            return Reply::open_any(message, header, scope);
        };
        let (_, rest) = message.split_at_mut(OrdinaryReply::BODY_AT);
        let d = OrdinaryReply::body(rest, header.order, Text::fallback(header.version), scope);
        Ok((Reply { id, status, contexts: ServiceContexts::EMPTY }, d))
    }

    #[cold]
    #[inline(never)]
    fn open_any(
        message: &'m mut [u8],
        header: &Header,
        scope: &'m Scope<'m>,
    ) -> Result<(Reply<'m>, Decoder<'m>)> {
        let mut d = super::start_whole(message, header, scope);
        let reply = Reply::read(&mut d)?;
        super::body(&mut d);
        Ok((reply, d))
    }

    /// Reads the header of a reply; [`body`](super::body) comes next.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a malformed header.
    ///
    /// # Real-time
    /// Linear in the header's length; allocates nothing and needs no scope.
    #[inline(always)]
    pub fn read(d: &mut Decoder<'m>) -> Result<Reply<'m>> {
        if d.text().version >= Version::V1_2 {
            let [id, status] = d.get::<[u32; 2]>()?;
            let status = known(d, status)?;
            Ok(Reply { id, status, contexts: ServiceContexts::read(d)? })
        } else {
            let contexts = ServiceContexts::read(d)?;
            let id = d.get()?;
            let status = d.get()?;
            Ok(Reply { id, status: known(d, status)?, contexts })
        }
    }
}

#[inline]
fn known(d: &Decoder<'_>, status: u32) -> Result<ReplyStatus> {
    // The last two exist in GIOP 1.2 only.
    let known = if d.text().version >= Version::V1_2 { 6 } else { 4 };
    match ReplyStatus::ALL[..known].get(status as usize) {
        Some(status) => Ok(*status),
        None => Err(d.error(ErrorKind::Value)),
    }
}

/// Writes the message header and the reply header in the version of the encoder's text; then comes
/// [`begin_body`](super::begin_body). The encoder must be at position 0. Returns the offset of the
/// status, for [`Encoder::patch`].
///
/// # Real-time
/// Linear in the header's length; allocates only when the encoder's buffer is too small.
#[inline(always)]
pub fn write_reply(
    e: &mut Encoder<'_>,
    id: u32,
    status: ReplyStatus,
    contexts: &[ServiceContext<'_>],
) -> usize {
    if e.text().version >= Version::V1_2 && contexts.is_empty() {
        // A header of fixed length, written in one piece.
        let mut fixed = [0; BODY_AT];
        fixed[..ID_AT].copy_from_slice(const { &Header::new(Version::V1_2, MessageKind::Reply).write() });
        fixed[ID_AT..STATUS_AT].copy_from_slice(&id.to_ne_bytes());
        fixed[STATUS_AT..CONTEXTS_AT].copy_from_slice(&(status as u32).to_ne_bytes());
        e.raw(&fixed);
        return STATUS_AT;
    }
    write_reply_any(e, id, status, contexts)
}

/// As [`write_reply`], in GIOP 1.2 with the priority of its request as the only context (RT-CORBA
/// 1.2, priority models).
///
/// # Real-time
/// O(1); allocates only when the encoder's buffer is too small.
#[inline]
pub fn write_prioritised_reply(e: &mut Encoder<'_>, id: u32, status: ReplyStatus, priority: i16) -> usize {
    let number = |fixed: &mut [u8; PRIORITISED_REPLY], at: usize, number: u32| {
        fixed[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    };
    let data = rt_corba_priority(priority);
    let mut fixed = [0; PRIORITISED_REPLY];
    fixed[..ID_AT].copy_from_slice(const { &Header::new(Version::V1_2, MessageKind::Reply).write() });
    number(&mut fixed, ID_AT, id);
    number(&mut fixed, STATUS_AT, status as u32);
    number(&mut fixed, CONTEXTS_AT, 1);
    number(&mut fixed, BODY_AT, RT_CORBA_PRIORITY);
    number(&mut fixed, BODY_AT + 4, data.len() as u32);
    fixed[BODY_AT + 8..].copy_from_slice(&data);
    e.raw(&fixed);
    STATUS_AT
}

/// Length of a reply header with a priority and no other context; the body, if any, is aligned
/// behind it.
const PRIORITISED_REPLY: usize = BODY_AT + 8 + 4;

fn write_reply_any(
    e: &mut Encoder<'_>,
    id: u32,
    status: ReplyStatus,
    contexts: &[ServiceContext<'_>],
) -> usize {
    if e.text().version >= Version::V1_2 {
        write_header(e, MessageKind::Reply);
        e.put(id);
        e.put(status as u32);
        contexts::write(e, contexts);
        STATUS_AT
    } else {
        write_header(e, MessageKind::Reply);
        contexts::write(e, contexts);
        e.put(id);
        e.put(status as u32);
        e.position().saturating_sub(4)
    }
}
