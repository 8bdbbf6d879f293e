//! Errors of stores.

use std::fmt;
use std::io;

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The context does not exist.
    NoContext,
    /// The name is not bound.
    Unbound,
    /// The name is bound.
    AlreadyBound,
    /// The name is bound as the other kind.
    OtherKind,
    /// The context has bindings.
    NotEmpty,
    /// The store is full.
    Full,
    /// The store is broken.
    Failed(Fault),
}

/// A fault of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Reading or writing failed.
    Io(io::ErrorKind),
    /// The data read are not the data written.
    Corrupt,
    /// An earlier failure left it unusable until it is opened again.
    Stopped,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoContext => f.write_str("the naming context does not exist"),
            Refusal::Unbound => f.write_str("the name is not bound"),
            Refusal::AlreadyBound => f.write_str("the name is bound already"),
            Refusal::OtherKind => f.write_str("the name is bound as the other kind"),
            Refusal::NotEmpty => f.write_str("the naming context has bindings"),
            Refusal::Full => f.write_str("the store holds as many contexts or bindings as it may"),
            Refusal::Failed(fault) => write!(f, "{fault}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(kind) => write!(f, "the store's file cannot be read or written: {kind}"),
            Fault::Corrupt => f.write_str("the store's file is damaged"),
            Fault::Stopped => {
                f.write_str("the store stopped after an earlier failure; start the service again")
            }
        }
    }
}

impl std::error::Error for Refusal {}
impl std::error::Error for Fault {}

/// Why a file cannot be opened as a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenError {
    /// The file cannot be opened, read or written.
    Io(io::ErrorKind),
    /// Another process has it open.
    InUse,
    /// It is not a database.
    NotADatabase,
    /// It is a database of another program.
    Foreign,
    /// It was written by another version of this program.
    Version(u64),
    /// Its content is damaged.
    Corrupt,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(io::ErrorKind::NotFound) => f.write_str("there is no such folder"),
            OpenError::Io(kind) => write!(f, "{kind}"),
            OpenError::InUse => f.write_str("another process has it open"),
            OpenError::NotADatabase => f.write_str("it is no naming store: choose another file"),
            OpenError::Foreign => f.write_str("it is the database of another program: choose another file"),
            OpenError::Version(version) => {
                write!(f, "it has format {version}, which this version of isorb does not know")
            }
            OpenError::Corrupt => {
                f.write_str("it is damaged: restore it from a copy, or choose another file")
            }
        }
    }
}

impl std::error::Error for OpenError {}
