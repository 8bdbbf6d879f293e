//! Errors of databases.

use redb::{DatabaseError, StorageError};
use std::fmt;
use std::io;

/// Why a read or a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Reading or writing the file failed.
    Io(io::ErrorKind),
    /// Reading or writing the file failed with this number of the system, which [`io::ErrorKind`]
    /// has no name for, such as EIO.
    Os(i32),
    /// The records read are not the records written.
    Corrupt,
    /// The database stopped after an earlier failure, and opens itself again.
    Stopped,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(io::ErrorKind::StorageFull) => f.write_str(
                "the disk of the store is full; reads go on, and writes resume when there is space",
            ),
            Fault::Io(io::ErrorKind::FileTooLarge) => f.write_str(
                "the process may write no larger file (ulimit -f, LimitFSIZE); reads go on, and writes resume when it may",
            ),
            Fault::Io(io::ErrorKind::TimedOut) => {
                f.write_str("no server of the store answers; reads and writes resume when one does")
            }
            Fault::Io(io::ErrorKind::ResourceBusy) => {
                f.write_str("another process has changed the record meanwhile; try again")
            }
            Fault::Io(kind) => write!(f, "the store's file cannot be read or written: {kind}"),
            Fault::Os(number) => {
                let error = io::Error::from_raw_os_error(*number);
                write!(f, "the store's file cannot be read or written: {error}")
            }
            Fault::Corrupt => f.write_str("the store's file is damaged"),
            Fault::Stopped => f.write_str("the store stopped after a failure; try again"),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Whether writes are suspended after it: the disk failed, not the records.
    pub(crate) fn suspends(self) -> bool {
        self != Fault::Corrupt
    }
}

/// An error that an operation on a database returns.
pub trait StoreError: From<Fault> {
    /// The fault, if the error is one.
    fn fault(&self) -> Option<Fault>;
}

/// Makes an enumeration with a variant `Failed(Fault)` the error of operations on a database: the
/// errors of redb and of the disk become `Failed`.
#[macro_export]
macro_rules! store_error {
    ($error:ident) => {
        impl $crate::StoreError for $error {
            fn fault(&self) -> Option<$crate::Fault> {
                match self {
                    $error::Failed(fault) => Some(*fault),
                    _ => None,
                }
            }
        }

        impl From<$crate::Fault> for $error {
            fn from(fault: $crate::Fault) -> $error {
                $error::Failed(fault)
            }
        }

        $crate::store_error! { $error: StorageError TableError TransactionError CommitError }
    };
    ($error:ident: $($of:ident)*) => {
        $(impl From<$crate::redb::$of> for $error {
            fn from(error: $crate::redb::$of) -> $error {
                $error::Failed(error.into())
            }
        })*
    };
}

impl StoreError for Fault {
    fn fault(&self) -> Option<Fault> {
        Some(*self)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        // The kind of all errors of the system without a name is that of EIO.
        let unnamed = io::Error::from(rustix::io::Errno::IO).kind();
        match error.raw_os_error() {
            Some(number) if error.kind() == unnamed => Fault::Os(number),
            _ => Fault::Io(error.kind()),
        }
    }
}

impl From<redb::Error> for Fault {
    fn from(error: redb::Error) -> Fault {
        match error {
            redb::Error::Io(error) => error.into(),
            redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => {
                Fault::Stopped
            }
            // Other errors mean a missing or changed table, since no other process writes to the
            // file.
            _ => Fault::Corrupt,
        }
    }
}

macro_rules! faults {
    ($($error:ident)*) => {
        $(impl From<redb::$error> for Fault {
            fn from(error: redb::$error) -> Fault {
                redb::Error::from(error).into()
            }
        })*
    };
}
faults! { StorageError TableError TransactionError CommitError SetDurabilityError }

/// Why a file cannot be opened as a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenError {
    /// The file cannot be opened, read or written.
    Io(io::ErrorKind),
    /// As [`Io`](OpenError::Io), with a number of the system that has no kind, such as EIO.
    Os(i32),
    /// Another process has it open.
    InUse,
    /// The user with this id owns it, and could change it at any time.
    Owner(u32),
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
            OpenError::Os(number) => write!(f, "{}", io::Error::from_raw_os_error(*number)),
            OpenError::InUse => f.write_str("another process has it open"),
            OpenError::Owner(user) => {
                write!(f, "it belongs to user {user}: choose another file, or change its owner")
            }
            OpenError::NotADatabase => f.write_str("it is no database: choose another file"),
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

impl OpenError {
    /// The fault of the disk, if the error is one.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            OpenError::Io(kind) => Some(Fault::Io(kind)),
            OpenError::Os(number) => Some(Fault::Os(number)),
            _ => None,
        }
    }
}

impl From<DatabaseError> for OpenError {
    fn from(error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse,
            DatabaseError::UpgradeRequired(version) => OpenError::Version(version.into()),
            DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => OpenError::NotADatabase,
                _ => Fault::from(error).into(),
            },
            _ => OpenError::Corrupt,
        }
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        match fault {
            Fault::Io(kind) => OpenError::Io(kind),
            Fault::Os(number) => OpenError::Os(number),
            Fault::Corrupt | Fault::Stopped => OpenError::Corrupt,
        }
    }
}

impl From<redb::Error> for OpenError {
    fn from(error: redb::Error) -> OpenError {
        Fault::from(error).into()
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        Fault::from(error).into()
    }
}
