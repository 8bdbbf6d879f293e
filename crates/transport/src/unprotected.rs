//! Why a protected connection did not come about, though somebody was there.

use std::error::Error;
use std::fmt;
use std::io;

/// What an error of [`Transport::connect`](crate::Transport::connect) carries where a peer was reached and the connection would not be what was
/// asked for. A client that took this for "nobody is there" would go on to an address without protection, and whoever can spoil a
/// handshake could choose that for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unprotected {
    /// One side does not take the other for whom it should be, or they have no protection in common; and why.
    Untrusted(String),
    /// The peer left, or said nothing, before that was settled; and how.
    Unfinished(String),
}

impl Unprotected {
    /// What an error carries, if it does.
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
