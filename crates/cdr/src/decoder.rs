//! Reading values in CDR, in place.

use crate::fragment_boundaries::FragmentTail;
use crate::values::ReadTable;
use crate::{Decode, Error, ErrorKind, Narrow, Order, Plain, Result, Text, Version, Wide, wide};
use alloc::string::String;
use core::any::Any;
use isorb_scope::Scope;
use zerocopy::FromBytes;

/// The nesting limit of values: sequences, recursive structures, encapsulations, type codes.
pub const MAX_DEPTH: u8 = 64;

/// Reads one message or encapsulation from private memory.
///
/// It owns the bytes mutably: it corrects a foreign byte order in place, once, when it reads a
/// sequence. Values that cannot be read in place go to the scope.
pub struct Decoder<'m> {
    pub(crate) rest: &'m mut [u8],
    pub(crate) position: usize,
    foreign: bool,
    depth: u8,
    text: Text,
    pub(crate) scope: &'m Scope<'m>,
    context: Option<&'m dyn Any>,
    pub(crate) tail: FragmentTail<'m>,
    pub(crate) values: ReadTable<'m>,
}

impl<'m> Decoder<'m> {
    /// A decoder at the start of a message, which should lie at an 8-aligned address.
    #[inline]
    pub fn new(bytes: &'m mut [u8], order: Order, text: Text, scope: &'m Scope<'m>) -> Decoder<'m> {
        Decoder {
            rest: bytes,
            position: 0,
            foreign: order.is_foreign(),
            depth: MAX_DEPTH,
            text,
            scope,
            context: None,
            tail: FragmentTail::nothing(),
            values: ReadTable::new(),
        }
    }

    /// A decoder behind the first `position` octets of a message, which were read otherwise.
    #[inline(always)]
    pub fn behind(
        position: usize,
        rest: &'m mut [u8],
        order: Order,
        text: Text,
        scope: &'m Scope<'m>,
    ) -> Decoder<'m> {
        Decoder { position, ..Decoder::new(rest, order, text, scope) }
    }

    /// Sets a context for [`Handle`](crate::Handle)s, such as the ORB that they belong to.
    #[inline]
    pub fn with_context(mut self, context: &'m dyn Any) -> Decoder<'m> {
        self.context = Some(context);
        self
    }

    /// The same decoder with another text, and with a context if there is one.
    #[inline(always)]
    pub fn read_as(self, text: Text, context: Option<&'m dyn Any>) -> Decoder<'m> {
        Decoder { text, context, ..self }
    }

    /// As [`with_context`](Self::with_context), in place.
    #[inline]
    pub fn set_context(&mut self, context: &'m dyn Any) {
        self.context = Some(context);
    }

    /// The context.
    pub fn context(&self) -> Option<&'m dyn Any> {
        self.context
    }

    /// The scope for values that cannot be read in place.
    pub fn scope(&self) -> &'m Scope<'m> {
        self.scope
    }

    /// The version and code sets in use.
    pub fn text(&self) -> Text {
        self.text
    }

    /// Changes the version and code sets, as between a message's header and its body.
    pub fn set_text(&mut self, text: Text) {
        self.text = text;
    }

    /// Byte order of the bytes.
    pub fn order(&self) -> Order {
        let native = matches!(Order::NATIVE, Order::Little);
        if native != self.foreign { Order::Little } else { Order::Big }
    }

    /// Whether values of this type need no swap.
    pub(crate) fn is_native<T>(&self) -> bool {
        !self.foreign || size_of::<T>() == 1
    }

    /// Bytes read so far. Behind the first fragment boundary: the offset from which alignment
    /// counts.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.rest.len() + self.tail.bytes.len()
    }

    /// The bytes left, to look ahead; up to the next fragment boundary if there is one.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        self.rest
    }

    /// An error at the present position.
    #[cold]
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.position)
    }

    /// Takes `n` octets unchanged.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'m mut [u8]> {
        if n > self.rest.len() {
            return self.take_across_fragments(n);
        }
        let (taken, rest) = core::mem::take(&mut self.rest).split_at_mut(n);
        self.rest = rest;
        self.position += n;
        Ok(taken)
    }

    /// Skips `n` octets, or those before the next fragment boundary if they are fewer.
    #[inline]
    pub fn skip(&mut self, n: usize) {
        let n = n.min(self.rest.len());
        let (_, rest) = core::mem::take(&mut self.rest).split_at_mut(n);
        self.rest = rest;
        self.position += n;
    }

    /// Skips padding to a multiple of `alignment` (a power of two).
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn align(&mut self, alignment: usize) -> Result<()> {
        let gap = self.position.wrapping_neg() & (alignment - 1);
        if gap != 0 {
            if gap > self.rest.len() {
                return self.align_across_fragments(alignment, 0);
            }
            self.take(gap)?;
        }
        Ok(())
    }

    /// Skips padding as before a body in GIOP 1.2, where an empty body has none.
    pub fn align_body(&mut self, alignment: usize) {
        let gap = self.position.wrapping_neg() & (alignment - 1);
        self.skip(gap);
    }

    /// Reads a plain value, aligned.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn get<T: Plain>(&mut self) -> Result<T> {
        let gap = self.position.wrapping_neg() & (T::ALIGN - 1);
        let taken = gap + size_of::<T>();
        if taken > self.rest.len() {
            return self.get_across();
        }
        let (bytes, rest) = core::mem::take(&mut self.rest).split_at_mut(taken);
        self.rest = rest;
        self.position += taken;
        self.value(&bytes[gap..])
    }

    /// A plain value that may lie behind the next fragment boundary.
    #[cold]
    fn get_across<T: Plain>(&mut self) -> Result<T> {
        self.align(T::ALIGN)?;
        let size = size_of::<T>();
        let bytes = if size <= self.rest.len() {
            self.take(size)?
        } else {
            self.get_across_fragments(T::ALIGN, size)?
        };
        self.value(bytes)
    }

    #[inline]
    fn value<T: Plain>(&self, bytes: &[u8]) -> Result<T> {
        let Ok(mut value) = T::read_from_bytes(bytes) else { return Err(self.error(ErrorKind::Truncated)) };
        if self.foreign {
            value.swap();
        }
        Ok(value)
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for anything but 0 and 1.
    pub fn boolean(&mut self) -> Result<bool> {
        match self.get::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error(ErrorKind::Value)),
        }
    }

    /// Reads a count of elements that take at least `min_wire` octets each.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] when the remaining octets cannot hold so many.
    #[inline(always)]
    pub fn count(&mut self, min_wire: usize) -> Result<usize> {
        let n = self.get::<u32>()? as usize;
        if n > self.rest.len() / min_wire.max(1) && n > self.remaining() / min_wire.max(1) {
            return Err(self.error(ErrorKind::Length));
        }
        Ok(n)
    }

    /// Reads a sequence of plain values in place, or from the scope when it is not aligned in
    /// memory, as inside an encapsulation.
    ///
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::Full`].
    pub fn plain_seq<T: Plain>(&mut self) -> Result<&'m [T]> {
        let n = self.count(size_of::<T>())?;
        self.plain_array(n)
    }

    /// Reads `n` plain values, as [`Decoder::plain_seq`] does.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`], [`ErrorKind::Full`].
    pub fn plain_array<T: Plain>(&mut self, n: usize) -> Result<&'m [T]> {
        if n == 0 {
            return Ok(&[]);
        }
        self.align(T::ALIGN)?;
        let Some(length) = n.checked_mul(size_of::<T>()) else { return Err(self.error(ErrorKind::Length)) };
        if length > self.rest.len() && T::ALIGN == 8 {
            return self.plain_array_across_fragments(n);
        }
        let bytes = self.take(length)?;
        if bytes.as_ptr().addr().is_multiple_of(align_of::<T>()) {
            let Ok(items) = <[T]>::mut_from_bytes(bytes) else { return Err(self.error(ErrorKind::Length)) };
            if self.foreign && size_of::<T>() > 1 {
                items.iter_mut().for_each(T::swap);
            }
            return Ok(items);
        }
        let foreign = self.foreign;
        let here = self.error(ErrorKind::Truncated);
        let items = self.scope.fill(n, |i| {
            let mut value =
                T::read_from_bytes(&bytes[i * size_of::<T>()..][..size_of::<T>()]).map_err(|_| here)?;
            if foreign {
                value.swap();
            }
            Ok::<T, Error>(value)
        })?;
        Ok(items)
    }

    /// Reads a sequence of any other type in one pass, into an array of views in the scope.
    ///
    /// # Errors
    /// The errors of `read`; [`ErrorKind::Length`], [`ErrorKind::Full`], [`ErrorKind::Depth`].
    pub fn views<T: Copy>(
        &mut self,
        min_wire: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<&'m [T]> {
        let n = self.count(min_wire)?;
        self.nested(|d| {
            let scope = d.scope;
            Ok(&*scope.fill(n, |_| read(d))?)
        })
    }

    /// Reads one nesting level deeper.
    ///
    /// # Errors
    /// The errors of `read`; [`ErrorKind::Depth`].
    #[inline]
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let Some(depth) = self.depth.checked_sub(1) else { return Err(self.error(ErrorKind::Depth)) };
        self.depth = depth;
        let value = read(self);
        self.depth += 1;
        value
    }

    /// Refuses more than `bound` elements.
    ///
    /// # Errors
    /// [`ErrorKind::Bound`].
    pub fn check_bound(&self, n: usize, bound: u32) -> Result<()> {
        if n > bound as usize { Err(self.error(ErrorKind::Bound)) } else { Ok(()) }
    }

    /// Reads a `string`: in place where it is UTF-8 or ASCII, else transcoded into the scope.
    ///
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::Terminator`], [`ErrorKind::Text`], [`ErrorKind::Full`].
    pub fn string(&mut self) -> Result<&'m str> {
        let n = self.count(1)?;
        let bytes: &'m [u8] = self.take(n)?;
        // Some peers send an empty string without its terminator.
        let Some((last, text)) = bytes.split_last() else { return Ok("") };
        if *last != 0 || text.contains(&0) {
            return Err(self.error(ErrorKind::Terminator));
        }
        match self.text.narrow {
            Narrow::Latin1 if !text.is_ascii() => {
                self.scope.str_with(2 * text.len(), |out| Ok(latin1_to_utf8(text, out)))
            }
            _ => core::str::from_utf8(text).map_err(|_| self.error(ErrorKind::Text)),
        }
    }

    /// Reads a `char`.
    ///
    /// # Errors
    /// [`ErrorKind::Text`] for an octet that is not a character by itself.
    pub fn char(&mut self) -> Result<char> {
        let octet = self.get::<u8>()?;
        if octet >= 0x80 && self.text.narrow == Narrow::Utf8 {
            return Err(self.error(ErrorKind::Text));
        }
        Ok(char::from(octet))
    }

    /// Reads a `wchar`.
    ///
    /// # Errors
    /// [`ErrorKind::NoWideCodeSet`], [`ErrorKind::Text`].
    pub fn wchar(&mut self) -> Result<char> {
        if self.text.wide == Wide::None {
            return Err(self.error(ErrorKind::NoWideCodeSet));
        }
        match self.text.version {
            Version::V1_0 => Err(self.error(ErrorKind::NoWideCodeSet)),
            Version::V1_1 => {
                let unit = self.get::<u16>()?;
                wide::chars([unit].into_iter(), self.text.wide)
                    .next()
                    .flatten()
                    .ok_or(self.error(ErrorKind::Text))
            }
            Version::V1_2 => {
                let n = usize::from(self.get::<u8>()?);
                let bytes: &[u8] = self.take(n)?;
                let mut chars = wide::chars(units(bytes), self.text.wide);
                match (chars.next(), chars.next()) {
                    (Some(Some(c)), None) if n.is_multiple_of(2) => Ok(c),
                    _ => Err(self.error(ErrorKind::Text)),
                }
            }
        }
    }

    /// Reads a `wstring` into the scope.
    ///
    /// # Errors
    /// [`ErrorKind::NoWideCodeSet`], [`ErrorKind::Text`], [`ErrorKind::Terminator`],
    /// [`ErrorKind::Full`].
    pub fn wstring(&mut self) -> Result<&'m str> {
        if self.text.wide == Wide::None {
            return Err(self.error(ErrorKind::NoWideCodeSet));
        }
        match self.text.version {
            Version::V1_0 => Err(self.error(ErrorKind::NoWideCodeSet)),
            Version::V1_1 => {
                let n = self.count(2)?;
                let units = self.plain_array::<u16>(n)?;
                let Some((0, units)) = units.split_last() else {
                    return Err(self.error(ErrorKind::Terminator));
                };
                self.utf16(units.len(), units.iter().copied())
            }
            Version::V1_2 => {
                let n = self.count(1)?;
                let bytes: &'m [u8] = self.take(n)?;
                if !n.is_multiple_of(2) {
                    return Err(self.error(ErrorKind::Text));
                }
                self.utf16(n / 2, units(bytes))
            }
        }
    }

    /// Reads a `string` onto the heap: for large values, which would burden the scope.
    ///
    /// # Errors
    /// As [`Decoder::string`], but never [`ErrorKind::Full`].
    ///
    /// # Real-time
    /// Allocates.
    pub fn string_owned(&mut self) -> Result<String> {
        if self.text.narrow != Narrow::Latin1 {
            return self.string().map(String::from);
        }
        let n = self.count(1)?;
        let bytes: &[u8] = self.take(n)?;
        let Some((last, text)) = bytes.split_last() else { return Ok(String::new()) };
        if *last != 0 || text.contains(&0) {
            return Err(self.error(ErrorKind::Terminator));
        }
        Ok(text.iter().copied().map(char::from).collect())
    }

    /// Reads a `wstring` onto the heap, as [`Decoder::string_owned`] does.
    ///
    /// # Errors
    /// As [`Decoder::wstring`], but never [`ErrorKind::Full`].
    ///
    /// # Real-time
    /// Allocates.
    pub fn wstring_owned(&mut self) -> Result<String> {
        let text = self.error(ErrorKind::Text);
        if self.text.wide == Wide::None || self.text.version == Version::V1_0 {
            return Err(self.error(ErrorKind::NoWideCodeSet));
        }
        if self.text.version == Version::V1_1 {
            let n = self.count(2)?;
            let bytes: &[u8] = self.take(2 * n)?;
            let Some((bytes, [0, 0])) = bytes.split_last_chunk() else {
                return Err(self.error(ErrorKind::Terminator));
            };
            let little = self.order() == Order::Little;
            let units = bytes.chunks_exact(2).map(|unit| {
                let unit = [unit[0], unit[1]];
                if little { u16::from_le_bytes(unit) } else { u16::from_be_bytes(unit) }
            });
            return wide::chars(units, self.text.wide).collect::<Option<_>>().ok_or(text);
        }
        let n = self.count(1)?;
        let bytes: &[u8] = self.take(n)?;
        if !n.is_multiple_of(2) {
            return Err(text);
        }
        wide::chars(units(bytes), self.text.wide).collect::<Option<_>>().ok_or(text)
    }

    fn utf16(&mut self, n: usize, units: impl Iterator<Item = u16>) -> Result<&'m str> {
        let text = self.error(ErrorKind::Text);
        let wide = self.text.wide;
        // Three octets in UTF-8 are the most for one unit, four for a surrogate.
        let most = if wide == Wide::Utf16Units { 4 } else { 3 };
        self.scope.str_with(most * n, |out| {
            let mut at = 0;
            for c in wide::chars(units, wide) {
                let c = c.ok_or(text)?;
                at += c.encode_utf8(&mut out[at..]).len();
            }
            Ok(at)
        })
    }

    /// Reads an encapsulation: a decoder with a byte order and alignment of its own, one level
    /// deeper.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] (an encapsulation has at least its byte-order octet),
    /// [`ErrorKind::Depth`].
    pub fn encapsulation(&mut self) -> Result<Decoder<'m>> {
        let n = self.count(1)?;
        let Some(depth) = self.depth.checked_sub(1) else { return Err(self.error(ErrorKind::Depth)) };
        if n == 0 {
            return Err(self.error(ErrorKind::Length));
        }
        let bytes = self.take(n)?;
        let order = Order::from_flag(bytes[0]);
        Ok(Decoder {
            rest: &mut bytes[1..],
            position: 1,
            foreign: order.is_foreign(),
            depth,
            text: self.text,
            scope: self.scope,
            context: self.context,
            tail: FragmentTail::nothing(),
            values: ReadTable::new(),
        })
    }

    /// Reads a value of any type that can be read.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    #[inline]
    pub fn read<T: Decode<'m>>(&mut self) -> Result<T> {
        T::decode(self)
    }
}

impl core::fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Decoder { position, foreign, text, .. } = self;
        write!(f, "Decoder at {position}, {} left, foreign {foreign}, {text:?}", self.rest.len())
    }
}

/// UTF-16 code units of GIOP 1.2 text: big endian unless a byte order mark says otherwise (clause
/// 9.3.1.6).
fn units(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let (little, bytes) = match bytes {
        [0xfe, 0xff, rest @ ..] => (false, rest),
        [0xff, 0xfe, rest @ ..] => (true, rest),
        all => (false, all),
    };
    bytes.chunks_exact(2).map(move |unit| {
        let unit = [unit[0], unit[1]];
        if little { u16::from_le_bytes(unit) } else { u16::from_be_bytes(unit) }
    })
}

fn latin1_to_utf8(text: &[u8], out: &mut [u8]) -> usize {
    text.iter().fold(0, |at, octet| at + char::from(*octet).encode_utf8(&mut out[at..]).len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;
    use alloc::vec::Vec;
    use isorb_scope::Region;

    #[test]
    fn text_needs_no_scope_when_owned() {
        for (version, narrow) in
            [(Version::V1_1, Narrow::Latin1), (Version::V1_2, Narrow::Latin1), (Version::V1_2, Narrow::Utf8)]
        {
            let text = Text { version, narrow, wide: Wide::Utf16 };
            let mut e = Encoder::new(Vec::new(), text);
            e.string("gr\u{fc}n");
            e.wstring("\u{fc}\u{1f600}");
            let mut bytes = e.flatten().unwrap();
            let mut region = Region::new(0);
            let scope = region.enter();
            let mut d = Decoder::new(&mut bytes, Order::NATIVE, text, &scope);
            assert_eq!(d.string_owned().unwrap(), "gr\u{fc}n");
            assert_eq!(d.wstring_owned().unwrap(), "\u{fc}\u{1f600}");
        }
    }
}
