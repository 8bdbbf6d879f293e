//! What code made by the IDL compiler uses: one place that re-exports it all.
//!
//! Programs need little of this by name; `docs/reference/idl-to-rust.md` shows how the pieces fit.

pub use crate::interface::{Interface, Operation, Operations, operation_hash};
pub use crate::invoke::{Reply, call_scope};
pub use crate::object::Object;
pub use crate::reference::{IsA, RefArg, Reference};
pub use crate::servant::{Outcome, Serves};
pub use crate::upcall::Upcall;
pub use crate::value::{
    AbstractBase, Value, ValueBase, decode_abstract, decode_null, encode_abstract, encode_null,
};
pub use crate::{Result, SystemException};
pub use isorb_any::{Any, AnyValue, HandleCode, Kind as AnyKind, Label as AnyLabel, TypeCode};
pub use isorb_cdr::{
    Arg, Decode, Decoder, Encode, Encoder, Error as CdrError, ErrorKind as CdrErrorKind, Fixed, Handle, Idl,
    Item, LongDouble, Plain, Result as CdrResult, WString,
};
pub use isorb_scope::Scope;

/// What a skeleton answers for an operation index that its interface does not have; cannot happen through
/// [`Operations::find`].
#[cold]
pub fn bad_operation() -> SystemException {
    isorb_giop::Kind::BadOperation.into()
}
