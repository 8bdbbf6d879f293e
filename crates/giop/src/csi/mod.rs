//! CSIv2, the Common Secure Interoperability protocol (CORBA 3.3 part 2, clause 10): what a server
//! publishes about the security of an object, and what travels with requests and replies.
//!
//! | form | where | type |
//! |---|---|---|
//! | TAG_CSI_SEC_MECH_LIST | component of a reference | [`SecMechList`] |
//! | SecurityAttributeService | service context | [`SasMessage`] |
//! | user name and password | client authentication token | [`gssup::InitialToken`] |
//!
//! Tokens are bounded by [`MAX_TOKEN`], and lists by [`MAX_LIST`].

pub mod gssup;
mod mechanism;
mod sas;

pub use gssup::{ExportedName, GSSUP_OID};
pub use mechanism::{AsContext, CompoundSecMech, SasContext, SecMechList, TransportMech};
pub use sas::{Authorization, ContextError, EstablishContext, IdentityToken, SasMessage};

/// Limit of a token or name, in octets.
pub const MAX_TOKEN: usize = 8 << 10;
/// Limit of the elements of a list.
pub const MAX_LIST: usize = 64;

/// Association options, as bits (clause 10.5.1.2).
pub mod options {
    /// Messages may be unprotected.
    pub const NO_PROTECTION: u16 = 1;
    /// Changes of messages are detected.
    pub const INTEGRITY: u16 = 2;
    /// Messages are encrypted.
    pub const CONFIDENTIALITY: u16 = 4;
    /// The server proves its identity.
    pub const ESTABLISH_TRUST_IN_TARGET: u16 = 32;
    /// The client proves its identity.
    pub const ESTABLISH_TRUST_IN_CLIENT: u16 = 64;
    /// A client may speak for another principal.
    pub const IDENTITY_ASSERTION: u16 = 1024;
    /// A client may pass on the right to speak for it.
    pub const DELEGATION_BY_CLIENT: u16 = 2048;
}

use crate::cursor::Cursor;
use isorb_cdr::{ErrorKind, Result};

/// Octets of bounded length.
fn bounded<'a>(c: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let octets = c.octets()?;
    if octets.len() > MAX_TOKEN { Err(c.error(ErrorKind::Length)) } else { Ok(octets) }
}

/// A bounded number of elements of at least `min_wire` octets.
fn bounded_count(c: &mut Cursor<'_>, min_wire: usize) -> Result<usize> {
    let count = c.count(min_wire)?;
    if count > MAX_LIST { Err(c.error(ErrorKind::Length)) } else { Ok(count) }
}

#[cfg(test)]
mod tests;
