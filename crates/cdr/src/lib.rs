//! Common Data Representation (CORBA 3.3 part 2, clause 9.3): values to bytes and back.
//!
//! This crate knows alignment, byte order and code sets; it knows no message, no socket and no
//! clock. Decoded values are *views*: they borrow from the message, or from a
//! [`Scope`] if bytes had to be swapped, moved or transcoded. Decoding
//! allocates nothing.
//!
//! ```text
//!  owned value ──&──┐                                    ┌──► view (borrows) ─Idl::from_view─► owned
//!  view ────────────┼─ Encode ─► Encoder ─► bytes ─► Decoder ─ Decode
//!  plain slice ─lent┘  (large slices are lent, not copied)
//! ```
//!
//! ```
//! use isorb_cdr::{Decode, Decoder, Encode, Encoder, Order, Text};
//! use isorb_scope::Region;
//! let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
//! ("t1", 21.5f64).encode(&mut e);
//! let mut bytes = e.flatten().unwrap();
//! let mut region = Region::new(256);
//! let scope = region.enter();
//! let mut d = Decoder::new(&mut bytes, Order::NATIVE, Text::DEFAULT, &scope);
//! assert_eq!(<(&str, f64)>::decode(&mut d).unwrap(), ("t1", 21.5));
//! ```
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod containers;
mod decoder;
mod encoder;
mod error;
mod fixed;
mod fragment_boundaries;
mod lent;
mod lent_tail;
mod plain;
mod primitives;
mod text;
mod traits;
mod values;
mod wide;

pub use decoder::{Decoder, MAX_DEPTH};
pub use encoder::{Encoder, LEND_FROM, Message};
pub use error::{Error, ErrorKind};
pub use fixed::{Fixed, LongDouble};
#[doc(hidden)]
pub use isorb_scope::{Full, Scope};
pub use lent::{Lent, LentIter};
pub use lent_tail::LentOctets;
pub use plain::Plain;
pub use text::{Narrow, Order, Text, Version, WString, Wide};
pub use traits::{Arg, Decode, Each, Encode, Handle, Idl, Item, SeqArg, each};
pub use values::{AwaitsValue, OpenValue, ValueLimits, ValueObject, ValueStart, WrittenValue};
pub use wide::{WChar, WStr};
pub use zerocopy;

/// The result of decoding.
pub type Result<T, E = Error> = core::result::Result<T, E>;
