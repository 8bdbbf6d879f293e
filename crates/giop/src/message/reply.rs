//! Reply (clause 9.4.3).

use super::{ServiceContext, ServiceContexts, contexts, write_header};
use crate::{Header, MessageKind};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Result, Version};

/// What a reply's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReplyStatus {
    /// The result, then out and inout arguments.
    NoException = 0,
    /// A user exception: its repository id and members.
    UserException = 1,
    /// A [`SystemException`](crate::SystemException).
    SystemException = 2,
    /// A reference to send this and later requests to.
    LocationForward = 3,
    /// A reference that replaces the old one for good (GIOP 1.2).
    LocationForwardPerm = 4,
    /// A short: the kind of [`Target`](super::Target) to send again with (GIOP 1.2).
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

/// The header of a reply, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'m> {
    /// Id of the request.
    pub id: u32,
    /// What the body is.
    pub status: ReplyStatus,
    /// Service contexts.
    pub contexts: ServiceContexts<'m>,
}

impl<'m> Reply<'m> {
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

/// Writes the message header and the reply header in the version of the encoder's text; then
/// [`begin_body`](super::begin_body). The encoder must be at position 0. Gives the offset of the status, for
/// [`Encoder::patch`].
///
/// # Real-time
/// Linear in the header's length; allocates only when the encoder's buffer is too small.
pub fn write_reply(
    e: &mut Encoder<'_>,
    id: u32,
    status: ReplyStatus,
    contexts: &[ServiceContext<'_>],
) -> usize {
    if e.text().version >= Version::V1_2 {
        // What has a fixed length, in one piece.
        let mut fixed = [0; 20];
        fixed[..Header::LEN].copy_from_slice(&Header::new(Version::V1_2, MessageKind::Reply).write());
        fixed[12..16].copy_from_slice(&id.to_ne_bytes());
        fixed[16..].copy_from_slice(&(status as u32).to_ne_bytes());
        e.raw(&fixed);
        contexts::write(e, contexts);
        Header::LEN + 4
    } else {
        write_header(e, MessageKind::Reply);
        contexts::write(e, contexts);
        e.put(id);
        e.put(status as u32);
        e.position().saturating_sub(4)
    }
}
