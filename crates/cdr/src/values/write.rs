//! Writing values.

use super::{CHUNKED, INDIRECTION, LIST_OF_IDS, NULL, ONE_ID, VALUE_TAG, ValueLimits, ValueObject};
use crate::encoder::Counted;
use crate::{Encoder, ErrorKind};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use isorb_scope::LazyBox;

/// The values of a message so far.
#[derive(Default)]
pub(crate) struct WrittenValues {
    /// The position of the tag, by identity.
    values: BTreeMap<u64, usize>,
    ids: BTreeMap<String, usize>,
    /// Values that are kept until the message is written, so that no other takes their address.
    kept: Vec<Arc<dyn ValueObject>>,
    /// How many chunked values are open.
    level: i32,
    depth: u32,
    chunk: Option<OpenChunk>,
}

impl fmt::Debug for WrittenValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenValues").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

/// A chunk; its size is patched when it ends.
struct OpenChunk {
    /// The length of the buffer before the size and its padding.
    before: usize,
    size: Counted,
}

/// A value with the state still to be written; for [`Encoder::end_value`].
#[derive(Debug)]
#[must_use]
pub struct WrittenValue {
    chunked: bool,
}

impl Encoder<'_> {
    /// Writes a value, null for `None`; an indirection where the message has it already.
    ///
    /// An encoder refuses values that are nested more deeply than [`ValueLimits::DEFAULT`], with
    /// [`ErrorKind::ValueDepth`].
    ///
    /// # Real-time
    /// Allocates the table of the message's values; the state is copied, never lent.
    pub fn value(&mut self, object: Option<&dyn ValueObject>) {
        let Some(object) = object else { return self.put(NULL) };
        let identity = core::ptr::from_ref(object).cast::<()>().addr() as u64;
        if self.value_again(identity) {
            return;
        }
        let open = self.begin_value(identity, object.ids(), object.is_chunked());
        if self.error().is_none() {
            self.without_lending(|e| object.encode_object(e));
        }
        self.end_value(open);
    }

    /// As [`value`](Self::value), and keeps the value until the message is written: for one that
    /// the argument does not keep alive.
    pub fn value_kept(&mut self, object: &Arc<dyn ValueObject>) {
        self.value(Some(&**object));
        if let Some(values) = self.values.get_mut() {
            values.kept.push(object.clone());
        }
    }

    /// Whether the message has values that are not null.
    pub fn has_values(&self) -> bool {
        self.values.get().is_some()
    }

    /// Whether it writes the state of a value in chunks.
    pub fn is_in_chunk(&self) -> bool {
        self.values.get().is_some_and(|values| values.level > 0)
    }

    /// Writes an indirection to the value with this identity, if the message has it. Identities
    /// are addresses, or those of [`Decoder::value_identity`](crate::Decoder::value_identity).
    pub fn value_again(&mut self, identity: u64) -> bool {
        let at = self.values.get().and_then(|values| values.values.get(&identity)).copied();
        let Some(at) = at else { return false };
        self.indirection(at);
        true
    }

    /// Writes the tag and the repository ids of a value; its state is to follow. `ids` are its
    /// type and the bases to which it may be truncated; none leaves the type to the reader.
    ///
    /// # Real-time
    /// Allocates the table of the message's values.
    pub fn begin_value(&mut self, identity: u64, ids: &[&str], chunked: bool) -> WrittenValue {
        self.end_chunk();
        let values = self.values.get_or_default();
        // What is inside a chunked value is chunked too.
        let chunked = chunked || values.level > 0;
        values.depth += 1;
        if values.depth > ValueLimits::DEFAULT.depth {
            self.fail(ErrorKind::ValueDepth);
            return WrittenValue { chunked };
        }
        values.level += i32::from(chunked);
        let kind = match ids {
            [] => 0,
            [_] => ONE_ID,
            _ => LIST_OF_IDS,
        };
        self.put(VALUE_TAG | kind | if chunked { CHUNKED } else { 0 });
        let at = self.position() - size_of::<u32>();
        self.note_value(|values| values.values.insert(identity, at));
        if kind == LIST_OF_IDS {
            self.count(ids.len());
        }
        ids.iter().for_each(|id| self.value_id(id));
        if chunked {
            self.begin_chunk();
        }
        WrittenValue { chunked }
    }

    /// Ends the state of a value.
    pub fn end_value(&mut self, open: WrittenValue) {
        self.end_chunk();
        let Some(values) = self.values.get_mut() else { return };
        values.depth = values.depth.saturating_sub(1);
        if open.chunked {
            let level = values.level;
            values.level -= 1;
            self.put(-level);
            if level > 1 {
                self.begin_chunk();
            }
        }
    }

    fn note_value<T>(&mut self, note: impl FnOnce(&mut WrittenValues) -> T) {
        if self.error().is_none()
            && let Some(values) = self.values.get_mut()
        {
            note(values);
        }
    }

    /// A repository id, or an indirection to its first mention.
    fn value_id(&mut self, id: &str) {
        let at = self.values.get().and_then(|values| values.ids.get(id)).copied();
        if let Some(at) = at {
            return self.indirection(at);
        }
        self.align(size_of::<u32>());
        let at = self.position();
        self.string(id);
        self.note_value(|values| values.ids.insert(String::from(id), at));
    }

    fn indirection(&mut self, at: usize) {
        self.put(INDIRECTION);
        match i32::try_from(self.position() - at) {
            Ok(distance) => self.put(-distance),
            Err(_) => self.fail(ErrorKind::TooLarge),
        }
    }

    fn begin_chunk(&mut self) {
        let before = self.buffered();
        let size = self.begin_counted();
        // After an error there is no size to patch.
        self.note_value(|values| values.chunk = Some(OpenChunk { before, size }));
    }

    /// Patches the size of the open chunk, or takes the chunk back if it is empty.
    fn end_chunk(&mut self) {
        let Some(chunk) = self.values.get_mut().and_then(|values| values.chunk.take()) else { return };
        if self.position() == chunk.size.start() {
            self.take_back(chunk.before);
        } else {
            self.end_counted(chunk.size);
        }
    }

    /// A table of its own for what `write` writes: an encapsulation.
    pub(crate) fn with_own_values(&mut self, write: impl FnOnce(&mut Self)) {
        let outer: LazyBox<WrittenValues> = self.values.take();
        write(self);
        self.values = outer;
    }
}
