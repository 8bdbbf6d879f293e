//! Reading values.

use super::{
    AwaitsValue, CHUNKED, CODE_BASE, IDS, INDIRECTION, LIST_OF_IDS, NULL, ONE_ID, VALUE_TAG, ValueLimits,
    ValueObject,
};
use crate::{Decoder, ErrorKind, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use isorb_scope::LazyBox;

/// Most repository ids in the list of a value: as deep as truncatable types may be derived.
const MAX_IDS: usize = 256;

/// The values of a message so far. Positions ascend, because a message is read from front to back.
#[derive(Default)]
pub(crate) struct ReadValues<'m> {
    /// The decoder is in a value with chunks: what it holds ends with the chunk, and the tail is
    /// the message behind it.
    pub chunked: bool,
    /// How many chunked values are open.
    level: i32,
    depth: u32,
    limits: ValueLimits,
    values: Vec<(usize, Entry)>,
    ids: Vec<(usize, &'m str)>,
    lists: Vec<(usize, Vec<&'m str>)>,
    /// Distinguishes the values of this message from those of others; 0 until it is asked for.
    message: u32,
}

enum Entry {
    /// Being read; with those that wait for it.
    Open(Vec<Arc<dyn AwaitsValue>>),
    Read(Arc<dyn ValueObject>),
    /// Part of a truncated value, or of an `any`.
    Skipped,
}

/// What [`Decoder::begin_value`] finds.
#[derive(Debug)]
pub enum ValueStart<'m> {
    /// A null value.
    Null,
    /// The value with this number was read, or begun, before.
    Again(usize),
    /// A value; its state follows.
    New(OpenValue<'m>),
}

/// A value with the state still to be read; for [`Decoder::end_value`].
#[derive(Debug)]
#[must_use]
pub struct OpenValue<'m> {
    /// Its number in the message.
    pub number: usize,
    ids: Ids<'m>,
    chunked: bool,
    /// It began between two chunks of the value around it.
    between_chunks: bool,
}

#[derive(Debug)]
enum Ids<'m> {
    None,
    One(&'m str),
    List(Vec<&'m str>),
}

impl<'m> OpenValue<'m> {
    /// The repository ids of its type and of the bases to which it may be truncated; none where
    /// the type is that of the parameter.
    pub fn ids(&self) -> &[&'m str] {
        match &self.ids {
            Ids::None => &[],
            Ids::One(id) => core::slice::from_ref(id),
            Ids::List(ids) => ids,
        }
    }

    /// Whether what the reader does not know can be skipped.
    pub fn is_chunked(&self) -> bool {
        self.chunked
    }
}

impl<'m> Decoder<'m> {
    /// Reads the beginning of a value: its tag and repository ids, or an indirection. The URL of a
    /// code base is read and ignored.
    ///
    /// # Errors
    /// [`ErrorKind::ValueDepth`], [`ErrorKind::ValueCount`]; [`ErrorKind::Value`] for a tag that
    /// is none, and an indirection to no value; [`ErrorKind::NotRemotable`] in a message of GIOP
    /// 1.1 that came in fragments, where offsets have no meaning.
    ///
    /// # Real-time
    /// Allocates the table of the message's values.
    pub fn begin_value(&mut self, limits: ValueLimits) -> Result<ValueStart<'m>> {
        if self.is_fragmented() {
            return Err(self.error(ErrorKind::NotRemotable));
        }
        let mut between_chunks = self.chunked() && self.rest.is_empty() && !self.next_chunk();
        if between_chunks {
            self.leave_chunk();
        }
        let tag = self.get::<u32>()?;
        let at = self.position - size_of::<u32>();
        if tag == NULL || tag == INDIRECTION {
            let start = match tag {
                NULL => ValueStart::Null,
                _ => ValueStart::Again(self.value_before()?),
            };
            if between_chunks {
                self.resume_chunks();
            }
            return Ok(start);
        }
        self.values.get_or_default().limits = limits;
        let (number, ids) = self.value_head(tag, at)?;
        let chunked = tag & CHUNKED != 0;
        if chunked && self.chunked() {
            // A header that belongs outside of the chunk: it must be the last in it.
            if !self.rest.is_empty() {
                return Err(self.error(ErrorKind::Value));
            }
            self.leave_chunk();
            between_chunks = true;
        }
        let values = self.values.get_or_default();
        values.depth += 1;
        if values.depth > limits.depth {
            return Err(self.error(ErrorKind::ValueDepth));
        }
        if chunked {
            values.level += 1;
            self.resume_chunks();
        }
        Ok(ValueStart::New(OpenValue { number, ids, chunked, between_chunks }))
    }

    /// Ends the state of a value, and tells what waits for it. `complete` says that the state was
    /// read to its end: if not, what is left of it is skipped, which only a chunked value allows.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] for state that is left over; [`ErrorKind::Value`] when what waits for
    /// the value is of another type.
    pub fn end_value(
        &mut self,
        open: &OpenValue<'m>,
        complete: bool,
        object: &Arc<dyn ValueObject>,
    ) -> Result<()> {
        self.leave_value(open, complete)?;
        let values = self.values.get_or_default();
        if let Some((_, entry)) = values.values.get_mut(open.number)
            && let Entry::Open(waiting) = core::mem::replace(entry, Entry::Read(object.clone()))
            && !waiting.iter().all(|waiting| waiting.value_is_read(object))
        {
            return Err(self.error(ErrorKind::Value));
        }
        Ok(())
    }

    /// As [`end_value`](Self::end_value), for a reader that makes no object of the value: no typed
    /// link can lead to it.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] for state that is left over.
    pub fn end_value_octets(&mut self, open: &OpenValue<'m>, complete: bool) -> Result<()> {
        self.leave_value(open, complete)?;
        if let Some((_, entry)) = self.values.get_mut().and_then(|values| values.values.get_mut(open.number))
        {
            *entry = Entry::Skipped;
        }
        Ok(())
    }

    fn leave_value(&mut self, open: &OpenValue<'m>, complete: bool) -> Result<()> {
        if open.chunked {
            self.end_chunks(complete)?;
        } else if !complete {
            return Err(self.error(ErrorKind::ValueType));
        }
        if open.between_chunks {
            self.resume_chunks();
        }
        let values = self.values.get_or_default();
        values.depth = values.depth.saturating_sub(1);
        Ok(())
    }

    /// The identity of the value with this number, for [`Encoder::begin_value`]: no address, and
    /// no value of another message has it.
    ///
    /// [`Encoder::begin_value`]: crate::Encoder::begin_value
    pub fn value_identity(&mut self, number: usize) -> u64 {
        static MESSAGES: AtomicU32 = AtomicU32::new(0);
        let values = self.values.get_or_default();
        if values.message == 0 {
            values.message = MESSAGES.fetch_add(1, Ordering::Relaxed) | 1 << 31;
        }
        u64::from(values.message) << 32 | number as u64
    }

    /// A value that was read before; `None` if it is still being read.
    ///
    /// # Errors
    /// [`ErrorKind::ValueType`] if it has no object: it was skipped with the rest of a truncated
    /// value, or it lies in an `any`.
    pub fn value_read(&self, number: usize) -> Result<Option<Arc<dyn ValueObject>>> {
        match self.values.get().and_then(|values| values.values.get(number)) {
            Some((_, Entry::Read(object))) => Ok(Some(object.clone())),
            Some((_, Entry::Open(_))) => Ok(None),
            _ => Err(self.error(ErrorKind::ValueType)),
        }
    }

    /// Tells `waiting` when the value with this number, which is still being read, is complete.
    pub fn await_value(&mut self, number: usize, waiting: Arc<dyn AwaitsValue>) {
        if let Some(values) = self.values.get_mut()
            && let Some((_, Entry::Open(list))) = values.values.get_mut(number)
        {
            list.push(waiting);
        }
    }

    /// The rest of an indirection to a value: its number.
    fn value_before(&mut self) -> Result<usize> {
        let at = self.indirection_target()?;
        let values = self.values.get_or_default();
        values.values.binary_search_by_key(&at, |(at, _)| *at).map_err(|_| self.error(ErrorKind::Value))
    }

    /// The rest of an indirection: the position that it means.
    fn indirection_target(&mut self) -> Result<usize> {
        let offset = self.get::<i32>()?;
        let from = self.position - size_of::<u32>();
        let target = (offset < -4).then(|| from.checked_sub(offset.unsigned_abs() as usize)).flatten();
        target.ok_or(self.error(ErrorKind::Value))
    }

    /// What follows the tag of a value, up to its state.
    fn value_head(&mut self, tag: u32, at: usize) -> Result<(usize, Ids<'m>)> {
        let flags = tag & !VALUE_TAG;
        if tag < VALUE_TAG || tag & 0x8000_0000 != 0 || flags > (CODE_BASE | IDS | CHUNKED) {
            return Err(self.error(ErrorKind::Value));
        }
        let values = self.values.get_or_default();
        let number = values.values.len();
        if number >= values.limits.count as usize {
            return Err(self.error(ErrorKind::ValueCount));
        }
        values.values.push((at, Entry::Open(Vec::new())));
        if flags & CODE_BASE != 0 {
            self.value_id()?;
        }
        let ids = match flags & IDS {
            0 => Ids::None,
            ONE_ID => Ids::One(self.value_id()?),
            LIST_OF_IDS => Ids::List(self.value_ids()?),
            _ => return Err(self.error(ErrorKind::Value)),
        };
        Ok((number, ids))
    }

    /// A repository id or URL, or an indirection to one.
    fn value_id(&mut self) -> Result<&'m str> {
        self.align(size_of::<u32>())?;
        if self.rest.starts_with(&INDIRECTION.to_ne_bytes()) {
            self.skip(size_of::<u32>());
            let at = self.indirection_target()?;
            let values = self.values.get_or_default();
            let found = values.ids.binary_search_by_key(&at, |(at, _)| *at).map(|found| values.ids[found].1);
            return found.map_err(|_| self.error(ErrorKind::Value));
        }
        let at = self.position;
        let id = self.string()?;
        self.values.get_or_default().ids.push((at, id));
        Ok(id)
    }

    /// A list of repository ids, or an indirection to one.
    fn value_ids(&mut self) -> Result<Vec<&'m str>> {
        let n = self.get::<u32>()?;
        let at = self.position - size_of::<u32>();
        if n == INDIRECTION {
            let at = self.indirection_target()?;
            let values = self.values.get_or_default();
            let found = values.lists.iter().find(|(list, _)| *list == at).map(|(_, ids)| ids.clone());
            return found.ok_or(self.error(ErrorKind::Value));
        }
        if n as usize > MAX_IDS || n as usize > self.remaining() / size_of::<u32>() {
            return Err(self.error(ErrorKind::Length));
        }
        let ids = (0..n).map(|_| self.value_id()).collect::<Result<Vec<_>>>()?;
        self.values.get_or_default().lists.push((at, ids.clone()));
        Ok(ids)
    }

    #[inline]
    pub(crate) fn chunked(&self) -> bool {
        self.values.get().is_some_and(|values| values.chunked)
    }

    fn set_chunked(&mut self, chunked: bool) {
        if let Some(values) = self.values.get_mut() {
            values.chunked = chunked;
        }
    }

    /// The whole message again, behind the chunk.
    fn leave_chunk(&mut self) {
        self.rest = core::mem::take(&mut self.tail.bytes);
        self.set_chunked(false);
    }

    /// Goes on between two chunks.
    fn resume_chunks(&mut self) {
        self.tail.bytes = core::mem::take(&mut self.rest);
        self.set_chunked(true);
    }

    /// The next `long` without taking it.
    fn peek_long(&self, rest: &[u8]) -> Option<(usize, i32)> {
        let gap = self.position.wrapping_neg() & 3;
        let octets = *rest.get(gap..)?.first_chunk::<4>()?;
        let value = i32::from_ne_bytes(octets);
        Some((gap + 4, if self.order().is_foreign() { value.swap_bytes() } else { value }))
    }

    /// Enters the next chunk, if one comes next; the decoder is behind the last. End tags deeper
    /// than the value are passed over, as [`end_chunks`](Self::end_chunks) says.
    #[cold]
    pub(crate) fn next_chunk(&mut self) -> bool {
        let level = self.values.get().map_or(0, |values| values.level);
        let (taken, size) = loop {
            let Some((taken, tag)) = self.peek_long(self.tail.bytes) else { return false };
            if tag >= -level {
                break (taken, tag);
            }
            // TAO ends each level of inheritance with a tag of its own.
            self.position += taken;
            self.tail.bytes = &mut core::mem::take(&mut self.tail.bytes)[taken..];
        };
        let is_size = u32::try_from(size).is_ok_and(|size| size > 0 && size < VALUE_TAG);
        if !is_size || size as usize > self.tail.bytes.len() - taken {
            return false;
        }
        let (_, bytes) = core::mem::take(&mut self.tail.bytes).split_at_mut(taken);
        let (chunk, behind) = bytes.split_at_mut(size as usize);
        self.position += taken;
        self.rest = chunk;
        self.tail.bytes = behind;
        true
    }

    /// Reads to the end tag of the innermost chunked value. What is unknown is skipped unless the
    /// state is `complete`.
    ///
    /// An end tag also ends the values inside of its own, and the one that is read here ends with
    /// those around it where the tag is theirs. TAO gives each level of inheritance an end tag of
    /// its own, deeper than any value that is open: these are passed over.
    fn end_chunks(&mut self, complete: bool) -> Result<()> {
        let values = self.values.get_or_default();
        let level = values.level;
        values.level -= 1;
        let unread = self.rest.len();
        if unread > 0 && complete {
            return Err(self.error(ErrorKind::Length));
        }
        self.position += unread;
        self.leave_chunk();
        loop {
            let Some((taken, tag)) = self.peek_long(self.rest) else {
                return Err(self.error(ErrorKind::Truncated));
            };
            if tag < 0 && tag > -level {
                return Ok(());
            }
            self.skip(taken);
            match tag {
                tag if tag == -level => return Ok(()),
                ..0 => {}
                _ if complete => return Err(self.error(ErrorKind::Length)),
                0 => {}
                size if (size as u32) < VALUE_TAG => {
                    self.take(size as usize)?;
                }
                tag => self.skip_value(tag as u32)?,
            }
        }
    }

    /// The beginning of a value inside what is skipped; its chunks and end tag follow.
    fn skip_value(&mut self, tag: u32) -> Result<()> {
        if tag & CHUNKED == 0 {
            return Err(self.error(ErrorKind::Value));
        }
        let at = self.position - size_of::<u32>();
        let (number, _) = self.value_head(tag, at)?;
        if let Some((_, entry)) = self.values.get_mut().and_then(|values| values.values.get_mut(number)) {
            *entry = Entry::Skipped;
        }
        Ok(())
    }
}

/// The table of a decoder.
pub(crate) type Table<'m> = LazyBox<ReadValues<'m>>;
