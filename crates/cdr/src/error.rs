//! What can be wrong with a value on the wire.

use core::fmt;
use isorb_scope::Full;

/// Why bytes are not the value they should be, or a value cannot become bytes. The ORB maps each kind to a standard
/// system exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Offset in the message (or encapsulation) at which it was noticed, in bytes.
    pub at: u32,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message ends inside a value.
    Truncated,
    /// A length or count is larger than what is left, or zero where that is not allowed.
    Length,
    /// A string does not end in its zero octet, or has one inside.
    Terminator,
    /// A boolean that is neither 0 nor 1, an unknown enumerator, or a union without a member for its discriminator.
    Value,
    /// More elements or characters than the IDL bound allows.
    Bound,
    /// Values nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    Depth,
    /// Text that its code set cannot express.
    Text,
    /// A wide character or string where no wide code set exists (GIOP 1.0) or none was negotiated.
    NoWideCodeSet,
    /// The scope has no room for the value.
    Full,
    /// The message would pass the size limit.
    TooLarge,
    /// A value of this type cannot be sent: a local object, a native, an abstract value without run-time.
    NotRemotable,
    /// A type code that is malformed, or whose indirection points nowhere.
    TypeCode,
}

impl Error {
    /// An error of a kind at an offset.
    pub const fn new(kind: ErrorKind, at: usize) -> Error {
        Error { kind, at: if at > u32::MAX as usize { u32::MAX } else { at as u32 } }
    }
}

impl From<Full> for Error {
    fn from(_: Full) -> Error {
        Error::new(ErrorKind::Full, 0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::Truncated => "the message ends inside a value",
            ErrorKind::Length => "a length does not fit the bytes that are left",
            ErrorKind::Terminator => "a string is not terminated properly",
            ErrorKind::Value => "a boolean, enumerator or discriminator has no such value",
            ErrorKind::Bound => "a bounded string or sequence is longer than its bound",
            ErrorKind::Depth => "values are nested too deeply",
            ErrorKind::Text => "text cannot be expressed in the code set in use",
            ErrorKind::NoWideCodeSet => "wide text without a wide code set",
            ErrorKind::Full => "the scope is full",
            ErrorKind::TooLarge => "the message is larger than its limit",
            ErrorKind::NotRemotable => "a value of this type cannot be sent",
            ErrorKind::TypeCode => "a type code is malformed",
        };
        write!(f, "{what} (at byte {})", self.at)
    }
}

impl core::error::Error for Error {}
