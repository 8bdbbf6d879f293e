//! `TypeCode` and `Any` (CORBA 3.3 part 1, clause 8.11; part 2, clause 9.3.5): types as values, and
//! values that carry their types.
//!
//! An [`Any`] holds its value as octets in CDR, so that a program can store it and pass it on
//! without knowing the type. The readers of values by type code ([`copy_value`], [`walk`]) are
//! driven and bounded by the octets. This crate does *not* change values in place (`DynAny`), and
//! does not interpret object references: it copies them.
//!
//! ```text
//!   T: AnyValue ──Any::new──► Any { TypeCode, octets } ──get::<T>──► T
//!                               │        ▲
//!   message (any byte order, ───┘        └── copy_value: walks the type code, re-encodes
//!   code set, alignment) ◄── Encode ─────────┘
//!                               └── walk ─► events ─► text, JSON
//! ```
//!
//! ```
//! use isorb_any::{Any, TypeCode};
//! let any = Any::new(&vec![1i32, 2, 3]).unwrap();
//! assert_eq!(any.get::<Vec<i32>>(), Some(vec![1, 2, 3]));
//! assert_eq!(any.get::<String>(), None);
//! assert_eq!(any.to_string(), "[1, 2, 3]");
//! assert_eq!(any.type_code().to_string(), "sequence<long>");
//! ```
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod any;
mod codec;
mod compact;
mod construct;
mod copy;
mod dynamic;
mod error;
#[cfg(feature = "json")]
mod from_json;
mod graph;
mod json;
mod kind;
mod print;
mod read;
mod same;
mod typecode;
mod value_types;
mod values;
mod walk;
mod write;

pub use any::Any;
pub use codec::{Codec, CodecError, ENCODING_CDR_ENCAPS, Encoding, UnknownEncoding};
pub use construct::MAX_NODES;
pub use copy::copy_value;
pub use dynamic::{DynAny, DynAnyError, MAX_COMPONENTS};
pub use error::{BuildError, TypeCodeError};
#[cfg(feature = "json")]
pub use from_json::JsonError;
pub use kind::Kind;
pub use typecode::{Identity, Label, TypeCode, modifier, visibility};
pub use values::{AnyValue, HandleCode};
pub use walk::{Event, Stopped, Visitor, WalkError, walk};

#[cfg(test)]
mod tests;
