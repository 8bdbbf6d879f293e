//! Errors of a peer in whole messages, and the response to each.

use crate::MessageKind;
use core::fmt;

/// A breach of the protocol by the peer. [`ProtocolError::answer`] is the connection's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The message does not begin with the octets `GIOP`.
    Magic([u8; 4]),
    /// A version that this ORB does not speak.
    Version {
        /// Major version.
        major: u8,
        /// Minor version.
        minor: u8,
    },
    /// A message type that does not exist in the message's version.
    Kind(u8),
    /// A message of a kind without fragments announces some.
    NotFragmentable(MessageKind),
    /// The message is larger than the limit.
    TooLarge {
        /// Its size without the header, in bytes.
        size: u32,
    },
    /// The message's own header or body is malformed.
    Malformed(isorb_cdr::Error),
    /// A message that this side never receives.
    Unexpected(MessageKind),
    /// In GIOP 1.1, a fragment without a message before it, or another message between the
    /// fragments of one.
    FragmentOrder,
    /// In GIOP 1.2, a message with fragments to follow has a length, header included, that is not a
    /// multiple of 8.
    FragmentLength(u32),
    /// A second message with the request id of an incomplete one.
    FragmentId(u32),
    /// More fragmented messages, or bytes in them, than the assembler keeps.
    FragmentLimit,
}

/// The last message to a peer that broke the protocol, before the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A MessageError message (clause 9.4.8), then the end of the connection.
    MessageError,
    /// Nothing: the connection ends.
    Close,
}

impl ProtocolError {
    /// The response to the peer. Clause 9.4.8: MessageError answers an unknown version or type and
    /// a malformed header. A message above our own limits is not malformed, so the connection just
    /// ends.
    pub const fn answer(self) -> Answer {
        match self {
            ProtocolError::FragmentLimit => Answer::Close,
            _ => Answer::MessageError,
        }
    }
}

impl From<isorb_cdr::Error> for ProtocolError {
    fn from(error: isorb_cdr::Error) -> ProtocolError {
        ProtocolError::Malformed(error)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::Magic(bytes) => write!(
                f,
                "the message begins with \"{}\" instead of \"GIOP\": is the peer an ORB, and is TLS set up on both sides?",
                bytes.escape_ascii()
            ),
            ProtocolError::Version { major, minor } => {
                write!(f, "GIOP {major}.{minor} is not spoken here: 1.0, 1.1 and 1.2 are")
            }
            ProtocolError::Kind(kind) => {
                write!(f, "message type {kind} does not exist in the message's version")
            }
            ProtocolError::NotFragmentable(kind) => write!(f, "{kind} may not have fragments in its version"),
            ProtocolError::TooLarge { size } => {
                write!(f, "a message of {size} bytes is larger than the limit")
            }
            ProtocolError::Malformed(error) => write!(f, "malformed message: {error}"),
            ProtocolError::Unexpected(kind) => write!(f, "{kind} comes from the wrong side"),
            ProtocolError::FragmentOrder => f.write_str("fragments of GIOP 1.1 out of order"),
            ProtocolError::FragmentLength(size) => {
                write!(f, "a fragment of {size} bytes, not a multiple of 8, is not the last one")
            }
            ProtocolError::FragmentId(id) => write!(f, "a second fragmented message with request id {id}"),
            ProtocolError::FragmentLimit => {
                f.write_str("too many or too large fragmented messages at a time")
            }
        }
    }
}

impl core::error::Error for ProtocolError {}
