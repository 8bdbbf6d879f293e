//! The names that generated code uses, re-exported together.
//!
//! Programs need little of this by name; `docs/reference/idl-to-rust.md` shows how the pieces fit.

pub use crate::deferred::Deferred;
pub use crate::interface::{Interface, Operation, Operations, operation_hash};
pub use crate::invoke::{Pending, PendingCall, Reply, call_scope};
pub use crate::object::Object;
pub use crate::reference::{IsA, RefArg, Reference};
pub use crate::servant::{Outcome, Serves};
pub use crate::upcall::Upcall;
pub use crate::value::{
    AbstractBase, CustomMarshal, Link, Part, Shared, Value, ValueBase, ValueState, decode_abstract,
    decode_value, encode_abstract, read_array,
};
pub use crate::value_type::ValueType;
pub use crate::{Result, SystemException};
pub use isorb_any::{Any, AnyValue, HandleCode, Kind as AnyKind, Label as AnyLabel, TypeCode};
pub use isorb_cdr::{
    Arg, Decode, Decoder, Encode, Encoder, Error as CdrError, ErrorKind as CdrErrorKind, Fixed, Handle, Idl,
    Item, Lent, LongDouble, Plain, Result as CdrResult, SeqArg, ValueObject, WString,
};
pub use isorb_scope::{Full, Scope};

/// The error of a skeleton for an operation index that its interface does not have; impossible
/// through [`Operations::find`].
#[cold]
pub fn bad_operation() -> SystemException {
    isorb_giop::Kind::BadOperation.into()
}

/// A value as a base of its type.
///
/// # Panics
/// For a type that is no base of it: generated code names bases only.
pub fn widen<B: Value>(value: &impl Value) -> B {
    match value.cast() {
        Some(base) => base,
        None => unreachable!("{} is no base of the value", B::value_type().id()),
    }
}

/// The conversions and texts of a generated error enum: `operation_error!(HeldError,
/// [Gone(super::Gone)])`.
///
/// Both texts are those of the exception inside, so that a `main` that returns the error prints a
/// sentence.
#[macro_export]
macro_rules! operation_error {
    ($name:ident, [$($variant:ident($exception:ty)),* $(,)?]) => {
        $crate::operation_error!(@ $name, [
            $($variant($exception),)*
            System($crate::generated::SystemException),
        ]);
    };
    (@ $name:ident, [$($variant:ident($exception:ty)),* $(,)?]) => {
        $(
            impl ::core::convert::From<$exception> for $name {
                fn from(exception: $exception) -> Self {
                    Self::$variant(exception)
                }
            }
        )*
        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self {
                    $(Self::$variant(exception) => ::core::fmt::Debug::fmt(exception, f),)*
                }
            }
        }
        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self {
                    $(Self::$variant(exception) => ::core::fmt::Display::fmt(exception, f),)*
                }
            }
        }
        impl ::core::error::Error for $name {}
    };
}
