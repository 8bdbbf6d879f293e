//! What can go wrong, as the IDL's exceptions, and how they come to each operation.

use crate::idl::{
    AreaExists, NotAdmitted, Unavailable, UnknownArea, UnknownHandle, UnknownNode, WriterExists, WrongSize,
    crm_comm, glob_comm, lib_comm, rio,
};
use core::fmt;
use isorb::{Kind, SystemException};

/// Why something could not be set up. The variants are the exceptions of `ReflectiveMemory.idl`.
#[derive(Clone, Debug)]
pub enum Error {
    /// No node has such an area.
    UnknownArea(UnknownArea),
    /// The name is taken.
    AreaExists(AreaExists),
    /// The area has a writer, which lives.
    WriterExists(WriterExists),
    /// A number is larger than it may be.
    WrongSize(WrongSize),
    /// The timing cannot be guaranteed.
    NotAdmitted(NotAdmitted),
    /// What the handle stood for is gone.
    UnknownHandle(UnknownHandle),
    /// The coordinator does not know the node.
    UnknownNode(UnknownNode),
    /// A part of the system cannot be reached, or does not take this.
    Unavailable(Unavailable),
    /// The call itself failed.
    System(SystemException),
}

impl Error {
    pub(crate) fn unavailable(reason: impl fmt::Display) -> Error {
        Error::Unavailable(Unavailable { reason: reason.to_string() })
    }

    pub(crate) fn unknown_area(name: &str) -> Error {
        Error::UnknownArea(UnknownArea { name: name.into() })
    }

    pub(crate) fn unknown_handle(which: u64) -> Error {
        Error::UnknownHandle(UnknownHandle { which })
    }

    pub(crate) fn wrong_size(what: &str, asked: usize, limit: usize) -> Error {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).into();
        Error::WrongSize(WrongSize { what: what.into(), asked: number(asked), limit: number(limit) })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownArea(e) => write!(f, "there is no area {}", e.name),
            Error::AreaExists(e) => {
                write!(
                    f,
                    "there is an area {} ({} bytes, {} histories)",
                    e.what.name, e.what.size, e.what.histories
                )
            }
            Error::WriterExists(e) => write!(f, "{} has a writer", e.name),
            Error::WrongSize(e) => write!(f, "{} is {}, the limit is {}", e.what, e.asked, e.limit),
            Error::NotAdmitted(e) => f.write_str(&e.reason),
            Error::UnknownHandle(e) => write!(f, "there is nothing with handle {}", e.which),
            Error::UnknownNode(e) => write!(f, "there is no node {}", e.name),
            Error::Unavailable(e) => f.write_str(&e.reason),
            Error::System(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<SystemException> for Error {
    fn from(error: SystemException) -> Error {
        Error::System(error)
    }
}

impl From<crate::memory::AttachError> for Error {
    fn from(error: crate::memory::AttachError) -> Error {
        Error::unavailable(error)
    }
}

impl From<isorb_rt::Errno> for Error {
    fn from(error: isorb_rt::Errno) -> Error {
        Error::unavailable(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::unavailable(error)
    }
}

/// What an operation cannot raise becomes a system exception with the text.
fn foreign(error: &Error) -> SystemException {
    SystemException::from(Kind::Internal).detail(error.to_string())
}

macro_rules! operations {
    ($($module:ident :: $error:ident { $($variant:ident)* })*) => {$(
        impl From<Error> for $module::$error {
            fn from(error: Error) -> Self {
                match error {
                    $(Error::$variant(exception) => exception.into(),)*
                    Error::System(exception) => exception.into(),
                    #[allow(unreachable_patterns)]
                    other => foreign(&other).into(),
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
    rio::MapWriterError { UnknownArea WriterExists WrongSize Unavailable }
    rio::AttachReaderError { UnknownArea WrongSize NotAdmitted Unavailable }
    rio::DetachError { UnknownHandle Unavailable }
    rio::WriteError { UnknownHandle WrongSize }
    rio::NotifyError { UnknownHandle WrongSize Unavailable }
    lib_comm::CreateAreaError { AreaExists WrongSize Unavailable }
    lib_comm::DestroyAreaError { UnknownArea Unavailable }
    lib_comm::MapWriterError { UnknownArea WriterExists WrongSize Unavailable }
    lib_comm::AttachReaderError { UnknownArea WrongSize NotAdmitted Unavailable }
    lib_comm::DetachError { UnknownHandle Unavailable }
    crm_comm::DescribeError { UnknownArea }
    crm_comm::OpenChannelError { UnknownArea WrongSize NotAdmitted Unavailable }
    crm_comm::CloseChannelError { UnknownHandle }
    glob_comm::RegisterNodeError { Unavailable }
    glob_comm::AliveError { UnknownNode }
    glob_comm::RegisterAreaError { AreaExists UnknownNode }
    glob_comm::LocateError { UnknownArea }
}
