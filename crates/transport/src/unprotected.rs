//! Errors of protected connections where a peer answered.

use std::error::Error;
use std::fmt;
use std::io;

/// The content of an error of [`Transport::connect`](crate::Transport::connect) where a peer
/// answered but the connection would not be protected. A client that took it for an absent peer
/// would go on to an address without protection, so an attacker could force that by disturbing a
/// handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unprotected {
    /// One side does not trust the other, or they support no common protection; with the reason.
    Untrusted(String),
    /// The peer closed or sent nothing before the handshake was done; with the reason.
    Unfinished(String),
}

impl Unprotected {
    /// The content of an error, if it is of this kind.
    pub fn of(error: &io::Error) -> Option<&Unprotected> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unprotected::Untrusted(why) | Unprotected::Unfinished(why) => f.write_str(why),
        }
    }
}

impl Error for Unprotected {}

impl From<Unprotected> for io::Error {
    fn from(unprotected: Unprotected) -> io::Error {
        let kind = match unprotected {
            Unprotected::Untrusted(_) => io::ErrorKind::PermissionDenied,
            Unprotected::Unfinished(_) => io::ErrorKind::ConnectionAborted,
        };
        io::Error::new(kind, unprotected)
    }
}
