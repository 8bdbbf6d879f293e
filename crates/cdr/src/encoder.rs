//! Writing values in CDR, in this machine's byte order.

use crate::values::WrittenValues;
use crate::{Error, ErrorKind, Narrow, Order, Plain, Result, Text, Version, Wide, wide};
use alloc::vec::Vec;
use isorb_scope::LazyBox;
use zerocopy::IntoBytes;

/// Plain slices of at least this many bytes are lent to the message instead of copied into it.
pub const LEND_FROM: usize = 4096;

/// The number of slices that a message may lend; further ones are copied.
const LENT_SLICES: usize = 4;

/// Writes a message: a buffer that is reused from call to call, and slices lent by the caller for
/// as long as `'v`.
///
/// Alignment counts from the first byte of the buffer, or of the innermost encapsulation. Errors
/// are sticky: the encoder keeps the first one, ignores further writes, and reports it in
/// [`Encoder::finish`].
#[derive(Debug)]
pub struct Encoder<'v> {
    message: Message<'v>,
    /// Where the innermost encapsulation starts, as a position in the message.
    origin: usize,
    text: Text,
    limit: usize,
    /// The end of the writable space: the limit, or the start after an error.
    end: usize,
    error: Option<Error>,
    /// The values so far, if there are any.
    pub(crate) values: LazyBox<WrittenValues>,
}

impl<'v> Encoder<'v> {
    /// As [`new`](Self::new), but the first `octets` octets of `buffer` stay as the beginning of
    /// the message.
    #[inline(always)]
    pub fn resume(mut buffer: Vec<u8>, octets: usize, text: Text) -> Encoder<'v> {
        buffer.truncate(octets);
        Encoder {
            message: Message { buffer, lent: [None; LENT_SLICES], lent_count: 0, lent_bytes: 0 },
            origin: 0,
            text,
            limit: u32::MAX as usize,
            end: u32::MAX as usize,
            error: None,
            values: LazyBox::new(),
        }
    }

    /// An encoder that reuses the capacity of `buffer`; its contents are discarded.
    #[inline(always)]
    pub fn new(buffer: Vec<u8>, text: Text) -> Encoder<'v> {
        Encoder::resume(buffer, 0, text)
    }

    /// Refuses messages of more than `bytes` bytes with [`ErrorKind::TooLarge`].
    #[inline]
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
        self.end = if self.error.is_none() { bytes } else { 0 };
    }

    /// The version and code sets in use.
    pub fn text(&self) -> Text {
        self.text
    }

    /// Changes the version and code sets, as between a message's header and its body.
    pub fn set_text(&mut self, text: Text) {
        self.text = text;
    }

    /// Bytes written so far, lent ones included.
    #[inline]
    pub fn position(&self) -> usize {
        self.message.len()
    }

    /// Bytes written since the origin of alignment: the start of the message or of the innermost
    /// encapsulation.
    #[inline]
    pub fn offset(&self) -> usize {
        self.position() - self.origin
    }

    /// Records an error, unless there is one already.
    #[cold]
    pub fn fail(&mut self, kind: ErrorKind) {
        let at = self.position();
        self.error.get_or_insert(Error::new(kind, at));
        self.end = 0;
    }

    /// The error so far.
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// Pads with zero octets to a multiple of `alignment` (a power of two).
    #[inline(always)]
    pub fn align(&mut self, alignment: usize) {
        let gap = (self.position() - self.origin).wrapping_neg() & (alignment - 1);
        if gap != 0 {
            // Eight octets, of which some are taken back: one store, where a few octets would need
            // a call.
            let padded = self.message.buffer.len() + (gap & 7);
            self.message.buffer.extend_from_slice(&[0; 8]);
            self.message.buffer.truncate(padded);
        }
    }

    /// Writes a plain value, aligned.
    #[inline]
    pub fn put<T: Plain>(&mut self, value: T) {
        self.align(T::ALIGN);
        if self.room(size_of::<T>()) {
            self.message.buffer.extend_from_slice(value.as_bytes());
        }
    }

    /// Writes octets unchanged, without a count.
    #[inline(always)]
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.room(bytes.len()) {
            self.message.buffer.extend_from_slice(bytes);
        }
    }

    /// Writes octets unchanged, without a count; long slices are lent instead of copied.
    pub fn raw_lent(&mut self, bytes: &'v [u8]) {
        if bytes.len() < LEND_FROM || self.message.lent_count == LENT_SLICES {
            return self.raw(bytes);
        }
        if self.room(bytes.len()) {
            self.message.lent[self.message.lent_count] = Some((self.message.buffer.len(), bytes));
            self.message.lent_count += 1;
            self.message.lent_bytes += bytes.len();
        }
    }

    /// Writes the count of a sequence.
    #[inline]
    pub fn count(&mut self, n: usize) {
        match u32::try_from(n) {
            Ok(n) => self.put(n),
            Err(_) => self.fail(ErrorKind::TooLarge),
        }
    }

    /// Writes a sequence of plain values: one copy, or none where it is lent.
    pub fn plain_seq<T: Plain>(&mut self, items: &'v [T]) {
        self.count(items.len());
        self.plain_array(items);
    }

    /// Writes an array of plain values.
    pub fn plain_array<T: Plain>(&mut self, items: &'v [T]) {
        if !items.is_empty() {
            self.align(T::ALIGN);
            self.raw_lent(items.as_bytes());
        }
    }

    /// Refuses more than `bound` elements with [`ErrorKind::Bound`].
    pub fn check_bound(&mut self, n: usize, bound: u32) {
        if n > bound as usize {
            self.fail(ErrorKind::Bound);
        }
    }

    /// Writes a `string` (clause 9.3.2.7: count with terminator, octets, zero).
    pub fn string(&mut self, s: &str) {
        let bytes = s.as_bytes();
        if self.text.narrow == Narrow::Latin1 && !s.is_ascii() {
            return self.latin1(s);
        }
        if bytes.contains(&0) {
            return self.fail(ErrorKind::Text);
        }
        self.terminated(bytes);
    }

    /// Writes octets without a zero as a string: their count with the terminator, the octets, zero.
    #[inline]
    pub fn terminated(&mut self, octets: &[u8]) {
        let Ok(count) = u32::try_from(octets.len() + 1) else { return self.fail(ErrorKind::TooLarge) };
        self.align(4);
        let written = size_of::<u32>() + octets.len() + 1;
        if self.room(written) {
            let buffer = &mut self.message.buffer;
            buffer.reserve(written);
            buffer.extend_from_slice(count.as_bytes());
            buffer.extend_from_slice(octets);
            buffer.push(0);
        }
    }

    /// As [`terminated`](Self::terminated), followed by the count of an empty sequence.
    #[inline(always)]
    pub fn terminated_before_none(&mut self, octets: &[u8]) {
        let Ok(count) = u32::try_from(octets.len() + 1) else { return self.fail(ErrorKind::TooLarge) };
        self.align(4);
        // The terminator, padding and the second count are zeros.
        let end = (size_of::<u32>() + octets.len() + 4) & !3;
        let written = end + size_of::<u32>();
        if self.room(written) {
            let buffer = &mut self.message.buffer;
            let written = buffer.len() + written;
            buffer.reserve(size_of::<u32>() + octets.len() + 8);
            buffer.extend_from_slice(count.as_bytes());
            buffer.extend_from_slice(octets);
            // More than needed, then taken back: one store.
            buffer.extend_from_slice(&[0; 8]);
            buffer.truncate(written);
        }
    }

    fn latin1(&mut self, s: &str) {
        self.count(s.chars().count() + 1);
        for c in s.chars() {
            match u8::try_from(u32::from(c)) {
                Ok(octet @ 1..) => self.raw(&[octet]),
                _ => return self.fail(ErrorKind::Text),
            }
        }
        self.raw(&[0]);
    }

    /// Writes a `char`: one octet of the narrow code set.
    pub fn char(&mut self, c: char) {
        match u8::try_from(u32::from(c)) {
            Ok(octet) if octet < 0x80 || self.text.narrow == Narrow::Latin1 => self.raw(&[octet]),
            Ok(octet) if self.text.narrow != Narrow::Utf8 => {
                self.text.narrow = Narrow::HeldLatin1;
                self.raw(&[octet]);
            }
            _ => self.fail(ErrorKind::Text),
        }
    }

    /// Writes a `wchar` (clause 9.3.1.6). A character outside the basic plane is two code units,
    /// which only GIOP 1.2 can carry.
    pub fn wchar(&mut self, c: char) {
        if self.text.wide == Wide::None {
            return self.fail(ErrorKind::NoWideCodeSet);
        }
        let mut units = [0u16; 2];
        let units = wide::units_of(c, self.text.wide, &mut units);
        match self.text.version {
            Version::V1_0 => self.fail(ErrorKind::NoWideCodeSet),
            Version::V1_1 => match units {
                [unit] => self.put(*unit),
                _ => self.fail(ErrorKind::Text),
            },
            Version::V1_2 => {
                let mark = byte_order_mark(c);
                self.raw(&[(2 * units.len() + mark.len()) as u8]);
                self.raw(mark);
                for unit in units {
                    self.raw(&unit.to_be_bytes());
                }
            }
        }
    }

    /// Writes a `wstring` (clause 9.3.2.7). In GIOP 1.2: counted octets of big-endian UTF-16, with
    /// a byte order mark only if the text begins with a unit that looks like one. In GIOP 1.1:
    /// counted and terminated code units in the message's byte order.
    pub fn wstring(&mut self, s: &str) {
        if self.text.wide == Wide::None {
            return self.fail(ErrorKind::NoWideCodeSet);
        }
        let form = self.text.wide;
        let mut units = 0;
        wide::for_each_unit(s, form, |_| units += 1);
        match self.text.version {
            Version::V1_0 => self.fail(ErrorKind::NoWideCodeSet),
            Version::V1_1 => {
                self.count(units + 1);
                wide::for_each_unit(s, form, |unit| self.put(unit));
                self.put(0u16);
            }
            Version::V1_2 => {
                let mark = s.chars().next().map_or(&[][..], byte_order_mark);
                self.count(2 * units + mark.len());
                self.raw(mark);
                wide::for_each_unit(s, form, |unit| self.raw(&unit.to_be_bytes()));
            }
        }
    }

    /// Writes an encapsulation (clause 9.3.3): counted octets that begin with their byte order and
    /// restart alignment.
    pub fn encapsulation(&mut self, write: impl FnOnce(&mut Self)) {
        let count_at = self.begin_counted();
        let start = self.position();
        let outer = core::mem::replace(&mut self.origin, start);
        self.raw(&[Order::NATIVE.flag()]);
        self.with_own_values(write);
        self.origin = outer;
        self.end_counted(count_at);
    }

    /// Writes a count that is patched later; the value is for [`Encoder::end_counted`].
    pub fn begin_counted(&mut self) -> Counted {
        self.put(0u32);
        Counted { at: self.message.buffer.len().saturating_sub(4), from: self.position() }
    }

    /// Patches the count with the number of octets written since.
    pub fn end_counted(&mut self, counted: Counted) {
        let octets = self.position() - counted.from;
        match u32::try_from(octets) {
            Ok(octets) => self.patch(counted.at, octets),
            Err(_) => self.fail(ErrorKind::TooLarge),
        }
    }

    /// Overwrites an aligned `unsigned long` at this offset of the message, written before any
    /// slice was lent.
    #[inline]
    pub fn patch(&mut self, at: usize, value: u32) {
        if let Some(place) = self.message.buffer.get_mut(at..at + 4) {
            place.copy_from_slice(value.as_bytes());
        }
    }

    /// Drops everything after `position` octets, errors included; only copied octets can be
    /// dropped.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.message.lent_bytes = 0;
        self.message.lent_count = 0;
        self.message.buffer.truncate(position);
        self.error = None;
        self.values = LazyBox::new();
        self.end = self.limit;
    }

    /// Octets in the buffer, lent ones not included.
    pub(crate) fn buffered(&self) -> usize {
        self.message.buffer.len()
    }

    /// Takes back the last octets of the buffer; nothing was lent behind them.
    pub(crate) fn take_back(&mut self, buffered: usize) {
        self.message.buffer.truncate(buffered);
    }

    /// Calls `write` with an encoder that goes on here but copies everything, so that it can write
    /// what does not live as long as the message.
    pub(crate) fn without_lending<'s>(&mut self, write: impl FnOnce(&mut Encoder<'s>)) {
        let message = Message {
            buffer: core::mem::take(&mut self.message.buffer),
            lent: [None; LENT_SLICES],
            lent_count: LENT_SLICES,
            lent_bytes: self.message.lent_bytes,
        };
        let Encoder { origin, text, limit, end, error, .. } = *self;
        let mut inner = Encoder { message, origin, text, limit, end, error, values: self.values.take() };
        write(&mut inner);
        self.message.buffer = inner.message.buffer;
        (self.text, self.end, self.error) = (inner.text, inner.end, inner.error);
        self.values = inner.values;
    }

    /// The message.
    ///
    /// # Errors
    /// The first error of any write.
    #[inline]
    pub fn finish(self) -> Result<Message<'v>, (Error, Vec<u8>)> {
        match self.error {
            Some(error) => Err((error, self.message.buffer)),
            None => Ok(self.message),
        }
    }

    /// The message in place, which saves moving it; call [`into_buffer`](Self::into_buffer) after
    /// sending.
    ///
    /// # Errors
    /// The first error of any write.
    #[inline]
    pub fn finished(&mut self) -> Result<&mut Message<'v>> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(&mut self.message),
        }
    }

    /// The buffer, for the next message.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.message.buffer
    }

    /// The message as one vector, copied.
    ///
    /// # Errors
    /// The first error of any write.
    ///
    /// # Real-time
    /// Allocates; for tests, references and stored values.
    pub fn flatten(self) -> Result<Vec<u8>> {
        let message = self.finish().map_err(|(error, _)| error)?;
        let mut bytes = Vec::with_capacity(message.len());
        message.pieces().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(bytes)
    }

    /// Whether so many bytes can be written: there is room, and no error so far.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> bool {
        let room = self.position().saturating_add(bytes) <= self.end;
        if !room {
            self.fail(ErrorKind::TooLarge);
        }
        room
    }
}

/// The byte order mark that must precede text beginning with `c`, so that its first unit is not
/// taken for one.
fn byte_order_mark(c: char) -> &'static [u8] {
    if matches!(c, '\u{feff}' | '\u{fffe}') { &[0xfe, 0xff] } else { &[] }
}

/// A count that is patched when its octets are written.
#[derive(Debug)]
#[must_use]
pub struct Counted {
    at: usize,
    from: usize,
}

impl Counted {
    /// The position of the first octet that is counted.
    pub(crate) fn start(&self) -> usize {
        self.from
    }
}

/// A finished message: the buffer and the slices lent into it.
#[derive(Debug)]
pub struct Message<'v> {
    buffer: Vec<u8>,
    /// The offset in the buffer, and the slice. Options, because an array of them takes fewer
    /// stores for each message.
    lent: [Option<(usize, &'v [u8])>; LENT_SLICES],
    lent_count: usize,
    lent_bytes: usize,
}

impl<'v> Message<'v> {
    /// Most pieces that a message has.
    pub const MAX_PIECES: usize = 2 * LENT_SLICES + 1;

    /// Length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a message has a header")]
    pub fn len(&self) -> usize {
        self.buffer.len() + self.lent_bytes
    }

    /// The bytes, when nothing was lent.
    #[inline]
    pub fn contiguous(&self) -> Option<&[u8]> {
        (self.lent_count == 0).then_some(&self.buffer)
    }

    /// The header's bytes, to patch its size.
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The pieces in order, none empty, at most [`Message::MAX_PIECES`].
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let lent = self.lent[..self.lent_count].iter().flatten();
        let starts = core::iter::once(0).chain(lent.clone().map(|(at, _)| *at));
        let ends = lent.clone().map(|(at, _)| *at).chain(core::iter::once(self.buffer.len()));
        let between = starts.zip(ends).map(|(start, end)| &self.buffer[start..end]);
        let after = lent.map(|(_, piece)| *piece).chain(core::iter::once(&[][..]));
        between.zip(after).flat_map(|(own, lent)| [own, lent]).filter(|piece| !piece.is_empty())
    }

    /// The buffer, for the next message.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}
