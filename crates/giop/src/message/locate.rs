//! LocateRequest and LocateReply (clauses 9.4.5 and 9.4.6).

use super::{Target, target, write_header};
use crate::MessageKind;
use isorb_cdr::{Decoder, Encoder, ErrorKind, Result, Version};

/// A LocateRequest: the client asks for an object's location.
#[derive(Clone, Copy, Debug)]
pub struct LocateRequest<'m> {
    /// Request id.
    pub id: u32,
    /// The object.
    pub target: Target<'m>,
}

impl<'m> LocateRequest<'m> {
    /// Reads the message after its header.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a malformed message.
    ///
    /// # Real-time
    /// Linear in the message's length; allocates nothing.
    pub fn read(d: &mut Decoder<'m>) -> Result<LocateRequest<'m>> {
        Ok(LocateRequest { id: d.get()?, target: Target::read(d)? })
    }
}

/// The location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LocateStatus {
    /// Unknown to the server.
    UnknownObject = 0,
    /// Here.
    ObjectHere = 1,
    /// Elsewhere: a reference follows.
    ObjectForward = 2,
    /// Elsewhere for good: a reference follows (GIOP 1.2).
    ObjectForwardPerm = 3,
    /// A system exception follows (GIOP 1.2).
    SystemException = 4,
    /// A short follows: the kind of [`Target`] to ask again with (GIOP 1.2).
    NeedsAddressingMode = 5,
}

impl LocateStatus {
    const ALL: [LocateStatus; 6] = [
        LocateStatus::UnknownObject,
        LocateStatus::ObjectHere,
        LocateStatus::ObjectForward,
        LocateStatus::ObjectForwardPerm,
        LocateStatus::SystemException,
        LocateStatus::NeedsAddressingMode,
    ];
}

/// A LocateReply. What follows it is not padded, in any version (clause 9.4.6.2).
#[derive(Clone, Copy, Debug)]
pub struct LocateReply {
    /// Request id.
    pub id: u32,
    /// Where the object is.
    pub status: LocateStatus,
}

impl LocateReply {
    /// Reads the message after its header.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for a malformed message.
    ///
    /// # Real-time
    /// O(1), allocates nothing.
    pub fn read(d: &mut Decoder<'_>) -> Result<LocateReply> {
        let id = d.get()?;
        let status = d.get::<u32>()?;
        let known = if d.text().version >= Version::V1_2 { 6 } else { 3 };
        match LocateStatus::ALL[..known].get(status as usize) {
            Some(status) => Ok(LocateReply { id, status: *status }),
            None => Err(d.error(ErrorKind::Value)),
        }
    }
}

/// Writes a whole LocateRequest.
pub fn write_locate_request(e: &mut Encoder<'_>, id: u32, key: &[u8]) {
    write_header(e, MessageKind::LocateRequest);
    e.put(id);
    target::write_key(e, key);
}

/// Writes the headers of a LocateReply; the data of its status follow without padding.
pub fn write_locate_reply(e: &mut Encoder<'_>, id: u32, status: LocateStatus) {
    write_header(e, MessageKind::LocateReply);
    e.put(id);
    e.put(status as u32);
}
