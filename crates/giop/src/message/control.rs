//! Messages without a body: CancelRequest, CloseConnection, MessageError (clauses 9.4.4, 9.4.7,
//! 9.4.8).

use crate::{Header, MessageKind};
use isorb_cdr::{Decoder, Result, Version};

/// A complete CancelRequest.
pub fn cancel_request(version: Version, id: u32) -> [u8; Header::LEN + 4] {
    let header = Header { size: 4, ..Header::new(version, MessageKind::CancelRequest) };
    let mut message = [0; Header::LEN + 4];
    message[..Header::LEN].copy_from_slice(&header.write());
    message[Header::LEN..].copy_from_slice(&id.to_ne_bytes());
    message
}

/// The request id in a CancelRequest.
///
/// # Errors
/// [`isorb_cdr::ErrorKind::Truncated`].
pub fn read_cancel(d: &mut Decoder<'_>) -> Result<u32> {
    d.get()
}

/// A complete CloseConnection.
pub const fn close_connection(version: Version) -> [u8; Header::LEN] {
    Header::new(version, MessageKind::CloseConnection).write()
}

/// A complete MessageError. Its version is our highest one if the peer's is unknown.
pub const fn message_error(version: Version) -> [u8; Header::LEN] {
    Header::new(version, MessageKind::MessageError).write()
}
