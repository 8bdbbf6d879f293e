//! Values on the wire (CORBA 3.3 part 2, clause 9.3.4): tags, repository ids, chunks, sharing.
//!
//! An encoder and a decoder keep the table of one message (or encapsulation): where each value and
//! each repository id begins, so that the second mention of it is an indirection. The table is made
//! by the first value that is not null; a message without values pays nothing.
//!
//! The state of a value is written and read by the type's own code, with the same calls as
//! everything else. In a chunked value the decoder ends at the chunk's last octet, as it ends at a
//! fragment boundary, and looks for the next chunk only there.

mod read;
mod write;

pub(crate) use read::Table as ReadTable;
pub use read::{OpenValue, ValueStart};
pub use write::WrittenValue;
pub(crate) use write::WrittenValues;

use crate::Encoder;
use alloc::sync::Arc;
use core::any::Any;

/// The tag of a null value.
const NULL: u32 = 0;
/// The tag of an indirection, of values and of repository ids.
const INDIRECTION: u32 = 0xffff_ffff;
/// The first value tag; smaller counts are sizes of chunks.
const VALUE_TAG: u32 = 0x7fff_ff00;
/// In a value tag: the URL of a code base follows.
const CODE_BASE: u32 = 1;
/// In a value tag: the repository ids. None, one, or a list.
const IDS: u32 = 6;
const ONE_ID: u32 = 2;
const LIST_OF_IDS: u32 = 6;
/// In a value tag: the state is in chunks.
const CHUNKED: u32 = 8;

/// How much of values a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLimits {
    /// How deeply values may be nested in each other: each level takes stack.
    pub depth: u32,
    /// How many values a message may have that are not null and not an indirection.
    pub count: u32,
}

impl ValueLimits {
    /// The limits of an encoder, and of a decoder without others.
    pub const DEFAULT: ValueLimits = ValueLimits { depth: 256, count: 100_000 };
}

impl Default for ValueLimits {
    fn default() -> ValueLimits {
        ValueLimits::DEFAULT
    }
}

/// The object behind a value: its state, of an unknown Rust type.
///
/// Generated code implements it for the state of each valuetype.
pub trait ValueObject: Any + Send + Sync {
    /// The repository id of its type, then those of the bases to which it may be truncated.
    fn ids(&self) -> &'static [&'static str];

    /// Whether its state must be in chunks: types with custom marshalling, and truncatable ones.
    fn is_chunked(&self) -> bool;

    /// Writes the state, inherited members first.
    fn encode_object<'v>(&'v self, e: &mut Encoder<'v>);

    /// Puts itself into `slot` if it is an `Option<Arc<dyn Part>>` of a trait that it implements.
    fn cast(self: Arc<Self>, slot: &mut dyn Any);
}

/// Something that waits for a value which is still being read: the other end of a cycle.
pub trait AwaitsValue: Send + Sync {
    /// Takes the value; false if it has the wrong type.
    fn value_is_read(&self, object: &Arc<dyn ValueObject>) -> bool;
}
