//! Errors, sorted by fault, and their mapping to the exceptions of `ReflectiveMemory.idl`.

use crate::agents::SchedulerError;
use crate::idl::{
    AreaExists, NotAdmitted, Unavailable, UnknownArea, UnknownHandle, UnknownNode, WriterExists, WrongSize,
    WrongType, crm_comm, glob_comm, lib_comm, rio,
};
use crate::memory::{AttachError, ClaimError};
use core::fmt;
use isorb::{Kind, SystemException};
use isorb_rt::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why an operation failed.
///
/// The first variants are exceptions of the IDL, raised here or by another process. The others
/// arose in this process and keep their cause; a caller in another process sees them as
/// `Unavailable` with the same sentence.
#[derive(Clone, Debug)]
pub enum Error {
    /// No node has such an area.
    UnknownArea(UnknownArea),
    /// The name is taken.
    AreaExists(AreaExists),
    /// The area has a live writer.
    WriterExists(WriterExists),
    /// A number exceeds its limit.
    WrongSize(WrongSize),
    /// The area has another type than was expected.
    WrongType(WrongType),
    /// The timing cannot be guaranteed.
    NotAdmitted(NotAdmitted),
    /// The handle's channel or attachment is gone.
    UnknownHandle(UnknownHandle),
    /// The coordinator does not know the node.
    UnknownNode(UnknownNode),
    /// Another process could not do it, for the reason it gave.
    Unavailable(Unavailable),
    /// The call itself failed.
    System(SystemException),
    /// The caller's fault: the request makes no sense in this state or configuration.
    Caller(CallerError),
    /// The fault of another process.
    Peer(PeerError),
    /// A configured limit is reached.
    Limit {
        /// The limited resource, in the plural.
        resource: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The operating system refused a call.
    Os(OsError),
    /// A memory segment cannot be attached or written.
    Memory(ClaimError),
    /// The agents of a dispatching thread take no more.
    Agents(SchedulerError),
    /// The ORB or a thread could not be set up.
    Setup(Arc<dyn std::error::Error + Send + Sync>),
}

/// A request that makes no sense in the present state or configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallerError {
    /// The session has ended, or never existed.
    NoSession,
    /// The attachment is not a reader of another node's area.
    NotRemote,
    /// The operation is for readers.
    NotAReader,
    /// A group is joined with `join_group`; it cannot be opened.
    GroupOpened,
    /// The server was started without a multicast group.
    NoMulticast,
    /// A reference that the operation needs is nil.
    NilReference(&'static str),
    /// The area's name cannot be encoded.
    Name,
    /// The texts of a type cannot be those of one.
    DataType,
    /// The configured silence is out of range.
    Silence {
        /// The configured value.
        given: Duration,
        /// Two heartbeats.
        least: Duration,
        /// The upper bound.
        most: Duration,
    },
    /// The socket's path holds a file that the server must not remove.
    SocketPath {
        /// The path.
        path: PathBuf,
        /// The kind or owner of the file.
        reason: &'static str,
    },
    /// The default socket's folder can be written by other users.
    SharedFolder {
        /// The folder.
        folder: PathBuf,
    },
}

/// A failure of another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerError {
    /// It did not answer in time.
    NoAnswer {
        /// The process.
        peer: String,
        /// The time that it had.
        within: Duration,
    },
    /// It closed the connection, or the session.
    Ended(String),
    /// It sent something that the protocol does not allow.
    Protocol(&'static str),
    /// It reported a network address that is not one.
    Address(String),
    /// The area was replaced by one of another size.
    Resized,
    /// The area was replaced by one of another type.
    Retyped,
    /// The coordinator has been restarted and does not know this node yet.
    Restarted,
    /// A consumer had no room for an event.
    Full,
    /// The server runs as a user that this process does not trust.
    WrongUser {
        /// The server's socket.
        socket: PathBuf,
        /// The user that the server runs as.
        uid: u32,
    },
}

/// A call that the operating system refused.
#[derive(Clone, Debug)]
pub struct OsError {
    /// The object of the call.
    pub what: String,
    /// The system's error.
    pub source: Arc<io::Error>,
}

impl Error {
    pub(crate) fn unknown_area(name: &str) -> Error {
        Error::UnknownArea(UnknownArea { name: name.into(), node: String::new() })
    }

    pub(crate) fn unknown_handle(which: u64) -> Error {
        Error::UnknownHandle(UnknownHandle { which })
    }

    pub(crate) fn wrong_size(what: &str, requested: usize, limit: usize) -> Error {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).into();
        Error::WrongSize(WrongSize { what: what.into(), requested: number(requested), limit: number(limit) })
    }

    pub(crate) fn setup(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Setup(Arc::new(error))
    }

    pub(crate) fn os(what: impl Into<String>, error: impl Into<io::Error>) -> Error {
        Error::Os(OsError { what: what.into(), source: Arc::new(error.into()) })
    }

    pub(crate) fn file(path: &Path, error: impl Into<io::Error>) -> Error {
        Error::os(path.display().to_string(), error)
    }

    /// Is a part of the system missing that may come: the server, the coordinator, the area or its
    /// node? Then another attempt may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::UnknownArea(error) => error.node.is_empty(),
            Error::Unavailable(error) => error.temporary,
            Error::Peer(error) => {
                matches!(error, PeerError::NoAnswer { .. } | PeerError::Ended(_) | PeerError::Restarted)
            }
            Error::System(error) => {
                matches!(
                    error.kind,
                    Kind::Transient | Kind::CommFailure | Kind::Timeout | Kind::ObjectNotExist
                )
            }
            Error::Os(error) => {
                matches!(error.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
            }
            _ => false,
        }
    }

    /// The same error as the IDL knows it.
    fn into_exception(self) -> Error {
        match self {
            Error::Caller(_)
            | Error::Peer(_)
            | Error::Limit { .. }
            | Error::Os(_)
            | Error::Memory(_)
            | Error::Agents(_)
            | Error::Setup(_) => {
                let temporary = self.is_temporary();
                Error::Unavailable(Unavailable { reason: self.to_string(), temporary })
            }
            exception => exception,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownArea(e) if e.node.is_empty() => write!(f, "there is no area {}", e.name),
            Error::UnknownArea(e) => write!(
                f,
                "the area {} is on the node {node}; use the socket of that node's server to write or destroy it",
                e.name,
                node = e.node
            ),
            Error::AreaExists(AreaExists { what }) => {
                write!(
                    f,
                    "there is an area {} ({} bytes, {} histories)",
                    what.name, what.size, what.histories
                )
            }
            Error::WriterExists(e) => write!(f, "{} has a writer", e.name),
            Error::WrongSize(e) => write!(f, "{} is {}, the limit is {}", e.what, e.requested, e.limit),
            Error::WrongType(e) => write!(f, "the type of {}: {}", e.name, e.reason),
            Error::NotAdmitted(e) => f.write_str(&e.reason),
            Error::UnknownHandle(e) => write!(f, "nothing has the handle {}", e.which),
            Error::UnknownNode(e) => write!(f, "there is no node {}", e.name),
            Error::Unavailable(e) => f.write_str(&e.reason),
            Error::System(e) => e.fmt(f),
            Error::Caller(e) => e.fmt(f),
            Error::Peer(e) => e.fmt(f),
            Error::Limit { resource, limit } => write!(f, "there are {limit} {resource}, which is the limit"),
            Error::Os(e) => write!(f, "{}: {}", e.what, e.source),
            Error::Memory(e) => e.fmt(f),
            Error::Agents(e) => e.fmt(f),
            Error::Setup(e) => e.fmt(f),
        }
    }
}

impl fmt::Display for CallerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallerError::NoSession => f.write_str("the session has ended; connect to the server again"),
            CallerError::NotRemote => f.write_str("this attachment does not read an area of another node"),
            CallerError::NotAReader => f.write_str("only a reader has a channel of its own"),
            CallerError::GroupOpened => {
                f.write_str("a multicast group is joined with join_group, not opened")
            }
            CallerError::NoMulticast => {
                f.write_str("this node takes no part in multicast: its server was started without a group")
            }
            CallerError::NilReference(what) => write!(f, "{what} is nil"),
            CallerError::Name => f.write_str("the area's name cannot be encoded"),
            CallerError::DataType => f.write_str(
                "the type of an area has an id, a hash and texts without zero octets, or none of them; DataType::of makes it",
            ),
            CallerError::Silence { given, least, most } => write!(
                f,
                "a silence of {given:?} after which a node counts as dead: give {least:?} at least, two heartbeats, and {most:?} at most"
            ),
            CallerError::SocketPath { path, reason } => write!(
                f,
                "{} is {reason}, which the server does not remove; choose another path with --socket, or remove it",
                path.display()
            ),
            CallerError::SharedFolder { folder } => write!(
                f,
                "{} is not a folder that only this user can write to, so the default socket is not safe there; correct its owner and mode, or set XDG_RUNTIME_DIR or ISORB_MEMORY_SOCKET",
                folder.display()
            ),
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerError::NoAnswer { peer, within } => write!(f, "{peer} did not answer within {within:?}"),
            PeerError::Ended(peer) => write!(f, "{peer} closed the connection"),
            PeerError::Protocol(reason) => f.write_str(reason),
            PeerError::Address(address) => write!(f, "a node reports {address} as its address"),
            PeerError::Resized => f.write_str("the area has another size now"),
            PeerError::Retyped => f.write_str("the area has another type now"),
            PeerError::Restarted => f.write_str("the coordinator has just been restarted; try again"),
            PeerError::Full => f.write_str("a consumer had no room"),
            PeerError::WrongUser { socket, uid } => write!(
                f,
                "the server at {} runs as user {uid}, and this process trusts its own user and root only; use another socket, or set ISORB_MEMORY_SERVER_UID={uid}",
                socket.display()
            ),
        }
    }
}

impl std::error::Error for CallerError {}
impl std::error::Error for PeerError {}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os(error) => Some(&*error.source),
            Error::Memory(error) => Some(error),
            Error::Agents(error) => Some(error),
            Error::Setup(error) => Some(&**error),
            _ => None,
        }
    }
}

macro_rules! causes {
    ($($cause:ty, $error:ident => $made:expr;)*) => {$(
        impl From<$cause> for Error {
            fn from($error: $cause) -> Error {
                $made
            }
        }
    )*};
}

causes! {
    SystemException, error => Error::System(error);
    CallerError, error => Error::Caller(error);
    PeerError, error => Error::Peer(error);
    AttachError, error => Error::Memory(error.into());
    ClaimError, error => Error::Memory(error);
    SchedulerError, error => Error::Agents(error);
    Errno, error => Error::os("the operating system refused a call", error);
    io::Error, error => Error::os("the operating system refused a call", error);
}

/// An error that an operation does not declare travels as a system exception with its sentence.
fn undeclared(error: &Error) -> SystemException {
    SystemException::from(Kind::Internal).detail(error.to_string())
}

macro_rules! operations {
    ($($module:ident :: $error:ident { $($variant:ident)* })*) => {$(
        impl From<Error> for $module::$error {
            fn from(error: Error) -> Self {
                match error.into_exception() {
                    $(Error::$variant(exception) => exception.into(),)*
                    Error::System(exception) => exception.into(),
                    #[allow(unreachable_patterns)]
                    other => undeclared(&other).into(),
                }
            }
        }

        impl From<$module::$error> for Error {
            fn from(error: $module::$error) -> Self {
                match error {
                    $($module::$error::$variant(exception) => Error::$variant(exception),)*
                    $module::$error::System(exception) => Error::System(exception),
                }
            }
        }
    )*};
}

operations! {
    rio::CreateAreaError { AreaExists WrongSize Unavailable }
    rio::DestroyAreaError { UnknownArea Unavailable }
    rio::MapWriterError { UnknownArea WriterExists WrongSize WrongType Unavailable }
    rio::AttachReaderError { UnknownArea WrongSize WrongType NotAdmitted Unavailable }
    rio::DetachError { UnknownHandle Unavailable }
    rio::WriteError { UnknownHandle WrongSize }
    rio::NotifyError { UnknownHandle WrongSize Unavailable }
    lib_comm::CreateAreaError { AreaExists WrongSize Unavailable }
    lib_comm::DestroyAreaError { UnknownArea Unavailable }
    lib_comm::MapWriterError { UnknownArea WriterExists WrongSize WrongType Unavailable }
    lib_comm::AttachReaderError { UnknownArea WrongSize WrongType NotAdmitted Unavailable }
    lib_comm::DetachError { UnknownHandle Unavailable }
    lib_comm::FindAreasError { Unavailable }
    crm_comm::DescribeError { UnknownArea }
    crm_comm::OpenChannelError { UnknownArea WrongSize WrongType NotAdmitted Unavailable }
    crm_comm::CloseChannelError { UnknownHandle }
    glob_comm::RegisterNodeError { Unavailable }
    glob_comm::AliveError { UnknownNode }
    glob_comm::RegisterAreaError { AreaExists UnknownNode }
    glob_comm::LocateError { UnknownArea }
}
