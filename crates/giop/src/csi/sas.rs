//! The messages of the security attribute service, each in a service context of its own (clause
//! 10.2.2).

use super::{bounded, bounded_count};
use crate::cursor::Cursor;
use crate::octets::{encapsulated, put_octets};
use alloc::vec::Vec;
use isorb_cdr::{ErrorKind, Result};

const ESTABLISH_CONTEXT: u16 = 0;
const COMPLETE_ESTABLISH_CONTEXT: u16 = 1;
const CONTEXT_ERROR: u16 = 4;
const MESSAGE_IN_CONTEXT: u16 = 5;

/// A message (`SASContextBody`). Context 0 is for one request only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SasMessage<'a> {
    /// With a request: the client's security context.
    Establish(EstablishContext<'a>),
    /// With a reply: the server has accepted it.
    Complete {
        /// The client's number for the context.
        id: u64,
        /// Whether the server keeps it.
        stateful: bool,
        /// The last token of the authentication; none with GSSUP.
        token: &'a [u8],
    },
    /// With an exception: the server has refused it.
    Error(ContextError<'a>),
    /// With a request: a context that was established before.
    InContext {
        /// The client's number for it.
        id: u64,
        /// Whether the server may forget it.
        discard: bool,
    },
}

/// A client's security context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstablishContext<'a> {
    /// The client's number for the context; 0 for this request only.
    pub id: u64,
    /// Privileges.
    pub authorization: Vec<Authorization<'a>>,
    /// The principal that the client speaks for.
    pub identity: IdentityToken<'a>,
    /// The token by which the client authenticates itself; may be empty.
    pub token: &'a [u8],
}

/// An element of an authorization token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorization<'a> {
    /// Its type.
    pub kind: u32,
    /// Its octets.
    pub element: &'a [u8],
}

/// The principal that a client speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityToken<'a> {
    /// Itself.
    Absent,
    /// None.
    Anonymous,
    /// A principal by an exported name.
    PrincipalName(&'a [u8]),
    /// A principal by a chain of certificates.
    CertificateChain(&'a [u8]),
    /// A principal by an X.501 name.
    DistinguishedName(&'a [u8]),
    /// Another type of token.
    Other(u32, &'a [u8]),
}

/// Why a context was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextError<'a> {
    /// The client's number for the context.
    pub id: u64,
    /// What is wrong: one of the constants.
    pub major: i32,
    /// More about it; 1 with the constants.
    pub minor: i32,
    /// A token of the mechanism, may be empty.
    pub token: &'a [u8],
}

impl ContextError<'_> {
    /// The token does not prove what it says.
    pub const INVALID_EVIDENCE: i32 = 1;
    /// The mechanism is not known.
    pub const INVALID_MECHANISM: i32 = 2;
    /// The client may not speak for this principal.
    pub const CONFLICTING_EVIDENCE: i32 = 3;
    /// The server has no such context.
    pub const NO_CONTEXT: i32 = 4;
}

impl<'a> IdentityToken<'a> {
    /// The type of a principal name, as a bit.
    pub const PRINCIPAL_NAME: u32 = 2;
    /// The type of an anonymous client, as a bit.
    pub const ANONYMOUS: u32 = 1;

    fn read(c: &mut Cursor<'a>) -> Result<IdentityToken<'a>> {
        Ok(match c.u32()? {
            0 => {
                c.u8()?;
                IdentityToken::Absent
            }
            Self::ANONYMOUS => {
                c.u8()?;
                IdentityToken::Anonymous
            }
            Self::PRINCIPAL_NAME => IdentityToken::PrincipalName(bounded(c)?),
            4 => IdentityToken::CertificateChain(bounded(c)?),
            8 => IdentityToken::DistinguishedName(bounded(c)?),
            kind => IdentityToken::Other(kind, bounded(c)?),
        })
    }

    fn write(&self, e: &mut isorb_cdr::Encoder<'_>) {
        let (kind, octets) = match *self {
            IdentityToken::Absent => (0, None),
            IdentityToken::Anonymous => (Self::ANONYMOUS, None),
            IdentityToken::PrincipalName(name) => (Self::PRINCIPAL_NAME, Some(name)),
            IdentityToken::CertificateChain(chain) => (4, Some(chain)),
            IdentityToken::DistinguishedName(name) => (8, Some(name)),
            IdentityToken::Other(kind, octets) => (kind, Some(octets)),
        };
        e.put(kind);
        match octets {
            None => e.put(1u8),
            Some(octets) => put_octets(e, octets),
        }
    }
}

impl<'a> SasMessage<'a> {
    /// Reads the octets of a service context.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`]: malformed octets, a token beyond [`MAX_TOKEN`](super::MAX_TOKEN), more
    /// privileges than [`MAX_LIST`](super::MAX_LIST), [`ErrorKind::Value`] for an unknown message.
    ///
    /// # Real-time
    /// Allocates only for privileges.
    pub fn read(data: &'a [u8]) -> Result<SasMessage<'a>> {
        let c = &mut Cursor::encapsulation(data)?;
        Ok(match c.u16()? {
            ESTABLISH_CONTEXT => {
                let id = c.u64()?;
                let count = bounded_count(c, 8)?;
                let element = |_| Ok(Authorization { kind: c.u32()?, element: bounded(c)? });
                let authorization = (0..count).map(element).collect::<Result<_>>()?;
                let identity = IdentityToken::read(c)?;
                SasMessage::Establish(EstablishContext { id, authorization, identity, token: bounded(c)? })
            }
            COMPLETE_ESTABLISH_CONTEXT => {
                SasMessage::Complete { id: c.u64()?, stateful: c.u8()? != 0, token: bounded(c)? }
            }
            CONTEXT_ERROR => SasMessage::Error(ContextError {
                id: c.u64()?,
                major: c.u32()?.cast_signed(),
                minor: c.u32()?.cast_signed(),
                token: bounded(c)?,
            }),
            MESSAGE_IN_CONTEXT => SasMessage::InContext { id: c.u64()?, discard: c.u8()? != 0 },
            _ => return Err(c.error(ErrorKind::Value)),
        })
    }

    /// The octets of the service context.
    ///
    /// # Errors
    /// [`isorb_cdr::Error`] for more octets than a message may have.
    pub fn write(&self) -> Result<Vec<u8>> {
        encapsulated(|e| match self {
            SasMessage::Establish(EstablishContext { id, authorization, identity, token }) => {
                e.put(ESTABLISH_CONTEXT);
                e.put(*id);
                e.count(authorization.len());
                for Authorization { kind, element } in authorization {
                    e.put(*kind);
                    put_octets(e, element);
                }
                identity.write(e);
                put_octets(e, token);
            }
            SasMessage::Complete { id, stateful, token } => {
                e.put(COMPLETE_ESTABLISH_CONTEXT);
                e.put(*id);
                e.put(u8::from(*stateful));
                put_octets(e, token);
            }
            SasMessage::Error(ContextError { id, major, minor, token }) => {
                e.put(CONTEXT_ERROR);
                e.put(*id);
                e.put(*major);
                e.put(*minor);
                put_octets(e, token);
            }
            SasMessage::InContext { id, discard } => {
                e.put(MESSAGE_IN_CONTEXT);
                e.put(*id);
                e.put(u8::from(*discard));
            }
        })
    }
}
