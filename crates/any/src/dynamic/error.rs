//! The reasons why a `DynAny` refuses.

use super::MAX_COMPONENTS;
use core::fmt;
use isorb_cdr::Error;

/// The exceptions of the module `DynamicAny`, and the errors of octets and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DynAnyError {
    /// `TypeMismatch`: the value is of another type, or the kind has no such operation.
    TypeMismatch,
    /// `InvalidValue`: there is no current component, or the value is out of the bounds of the
    /// type.
    InvalidValue,
    /// `InconsistentTypeCode`: no value of the type can be made (native and local types, incomplete
    /// type codes), or none that is not null (abstract valuetypes, custom marshalling).
    InconsistentTypeCode,
    /// More components than [`MAX_COMPONENTS`].
    TooLarge,
    /// Octets that are no value of the type.
    Octets(Error),
}

impl fmt::Display for DynAnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DynAnyError::TypeMismatch => f.write_str("the value is of another type (TypeMismatch)"),
            DynAnyError::InvalidValue => {
                f.write_str("there is no current component, or the value breaks a bound (InvalidValue)")
            }
            DynAnyError::InconsistentTypeCode => {
                f.write_str("values of this type cannot be made (InconsistentTypeCode)")
            }
            DynAnyError::TooLarge => {
                write!(f, "the value has more components than MAX_COMPONENTS, {MAX_COMPONENTS}")
            }
            DynAnyError::Octets(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DynAnyError {}

impl From<Error> for DynAnyError {
    fn from(error: Error) -> DynAnyError {
        DynAnyError::Octets(error)
    }
}
