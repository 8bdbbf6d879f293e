//! Errors in values on the wire.

use core::fmt;
use isorb_scope::Full;

/// The reason why bytes are not a valid value, or a value cannot become bytes. The ORB maps each
/// kind to a standard system exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The error.
    pub kind: ErrorKind,
    /// The error's offset in the message (or encapsulation), in bytes.
    pub at: u32,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message ends inside a value.
    Truncated,
    /// A length or count is larger than the rest of the message, or an illegal zero.
    Length,
    /// A string does not end in its zero octet, or has one inside.
    Terminator,
    /// A boolean that is neither 0 nor 1, an unknown enumerator, or a union without a member for
    /// its discriminator.
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
    /// Values of this type cannot be sent: a local object, a native, an abstract value without
    /// run-time support.
    NotRemotable,
    /// A malformed type code, or one with an indirection to no type.
    TypeCode,
    /// A value of a type that is unknown and cannot be truncated.
    ValueType,
    /// Values nested in values more deeply than [`ValueLimits::depth`](crate::ValueLimits).
    ValueDepth,
    /// More values than [`ValueLimits::count`](crate::ValueLimits).
    ValueCount,
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
            ErrorKind::ValueType => "there is no factory for a value's type, and none for a base of it",
            ErrorKind::ValueDepth => "values are nested in each other more deeply than `value_depth` allows",
            ErrorKind::ValueCount => "the message has more values than `values_per_message` allows",
        };
        write!(f, "{what} (at byte {})", self.at)
    }
}

impl core::error::Error for Error {}
