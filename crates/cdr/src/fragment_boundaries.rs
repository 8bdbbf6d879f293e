//! Messages from fragments of GIOP 1.1, in which alignment restarts at some offsets.
//!
//! Clause 9.4.9: the data of a fragment is aligned relative to the fragment, with its header of
//! twelve octets, not to the message. No primitive is split between two fragments; octets continue
//! across a boundary without a gap. The decoder holds only the part before the next boundary, so
//! messages without boundaries, nearly all, pay nothing. A message with [lent](crate::Lent) parts
//! is read in the same way: the decoder ends before the next part.

use crate::lent_tail::{LentOctets, LentTail};
use crate::{Decoder, ErrorKind, Plain, Result};
use alloc::vec;
use zerocopy::IntoBytes;

/// Offset of the first octet behind a fragment's header, from which its alignment counts.
const FRAGMENT_DATA: usize = 12;

/// The message behind the next fragment boundary, or from the next lent part on. A message has not
/// both.
pub(crate) struct FragmentTail<'m> {
    pub bytes: &'m mut [u8],
    /// Its offset in the message.
    at: usize,
    /// The boundaries behind it.
    boundaries: &'m [[u8; 4]],
    /// The lent parts of the message, if it has any.
    pub lent: Option<LentTail<'m>>,
}

impl FragmentTail<'_> {
    /// Nothing: the message has no further boundary.
    #[inline]
    pub fn nothing() -> Self {
        FragmentTail { bytes: &mut [], at: 0, boundaries: &[], lent: None }
    }
}

impl<'m> Decoder<'m> {
    /// Reads a message with fragment boundaries at these offsets (ascending, each a native `u32`),
    /// none of which is behind the decoder.
    pub fn with_fragment_boundaries(mut self, boundaries: &'m [[u8; 4]]) -> Decoder<'m> {
        let bytes = core::mem::take(&mut self.rest);
        self.tail = FragmentTail { bytes, at: self.position, boundaries, lent: None };
        let position = self.position;
        self.next_fragment();
        self.position = position;
        self
    }

    /// Whether the message has boundaries, or lent parts, so that it is not in one piece.
    pub(crate) fn is_fragmented(&self) -> bool {
        self.tail.at != 0 || self.tail.lent.is_some()
    }

    /// Continues behind the next boundary, in a chunked value in the next chunk; `false` at the end
    /// of the message. The rest before the boundary is skipped.
    fn next_fragment(&mut self) -> bool {
        if self.chunked() {
            return self.next_chunk();
        }
        if let Some(found) = self.next_lent() {
            return found;
        }
        let FragmentTail { bytes, at, boundaries, .. } = &mut self.tail;
        if bytes.is_empty() {
            return false;
        }
        let length = match boundaries.split_first() {
            Some((boundary, more)) => {
                *boundaries = more;
                (u32::from_ne_bytes(*boundary) as usize).saturating_sub(*at).min(bytes.len())
            }
            None => bytes.len(),
        };
        let (fragment, rest) = core::mem::take(bytes).split_at_mut(length);
        *bytes = rest;
        *at += length;
        self.rest = fragment;
        self.position = FRAGMENT_DATA;
        true
    }

    /// Finds a primitive that is not before the next boundary: aligned, with its `size` octets in
    /// one fragment.
    #[cold]
    pub(crate) fn align_across_fragments(&mut self, alignment: usize, size: usize) -> Result<()> {
        while self.next_fragment() {
            let gap = self.position.wrapping_neg() & (alignment - 1);
            if gap + size <= self.rest.len() {
                self.take(gap)?;
                return Ok(());
            }
        }
        Err(self.error(ErrorKind::Truncated))
    }

    /// The octets of a value that is not entirely before the next boundary. A value longer than its
    /// alignment is a structure or an array; its octets continue across the boundary.
    #[cold]
    pub(crate) fn get_across_fragments(&mut self, alignment: usize, size: usize) -> Result<&'m mut [u8]> {
        // A lent part may begin and end anywhere.
        let joins = self.tail.lent.is_some();
        if !joins && (size <= alignment || (self.chunked() && self.rest.is_empty())) {
            self.align_across_fragments(alignment, size)?;
        }
        self.take(size)
    }

    /// Values aligned to eight that continue behind a boundary: four octets of padding come before
    /// the first one there. (Values of smaller alignment have none, because a fragment's data
    /// begins at twelve.)
    #[cold]
    pub(crate) fn plain_array_across_fragments<T: Plain>(&mut self, n: usize) -> Result<&'m [T]> {
        if n.checked_mul(size_of::<T>()).is_none_or(|length| length > self.remaining()) {
            return Err(self.error(ErrorKind::Truncated));
        }
        if self.rest.is_empty() && self.next_lent() == Some(true) {
            return self.plain_array(n);
        }
        let scope = self.scope;
        Ok(scope.fill(n, |_| self.get::<T>())?)
    }

    /// Joins octets on both sides of a boundary. They are on the heap until the scope is left,
    /// because they may be larger than the scope.
    #[cold]
    pub(crate) fn take_across_fragments(&mut self, n: usize) -> Result<&'m mut [u8]> {
        if n > self.remaining() {
            return Err(self.error(ErrorKind::Truncated));
        }
        let next = self.rest.is_empty()
            && if self.chunked() { self.next_chunk() } else { self.next_lent() == Some(true) };
        if next && n <= self.rest.len() {
            return self.take(n);
        }
        let joined = self.scope.keep(vec![0u64; n.div_ceil(8)])?;
        let joined = &mut joined.as_mut_bytes()[..n];
        let mut done = 0;
        while done < n {
            let part = self.take((n - done).min(self.rest.len()))?;
            joined[done..done + part.len()].copy_from_slice(part);
            done += part.len();
            if done < n && !self.next_fragment() {
                return Err(self.error(ErrorKind::Truncated));
            }
        }
        Ok(joined)
    }
}

impl<'m> Decoder<'m> {
    /// Reads a message of which these parts lie elsewhere, none of them behind the decoder.
    pub fn with_lent(mut self, octets: &'m dyn LentOctets) -> Decoder<'m> {
        if let Some((at, _)) = octets.part(0) {
            let bytes = core::mem::take(&mut self.rest);
            let (rest, tail) = bytes.split_at_mut(at.saturating_sub(self.position).min(bytes.len()));
            let at = self.position + rest.len();
            (self.rest, self.tail.bytes) = (rest, tail);
            self.tail.lent = Some(LentTail { octets, next: 0, at });
        }
        self
    }

    /// Continues in the next lent part, which is filled, or behind it; `None` if the message has no
    /// lent parts, `Some(false)` at its end.
    fn next_lent(&mut self) -> Option<bool> {
        let mut lent = self.tail.lent?;
        let bytes = core::mem::take(&mut self.tail.bytes);
        if bytes.is_empty() {
            return Some(false);
        }
        // The end of this decoder, for a part that another has filled.
        let part = lent.octets.part(lent.next).map(|(at, octets)| (at.saturating_sub(lent.at), octets));
        let length = match part {
            Some((0, octets)) => octets.min(bytes.len()),
            Some((before, _)) => before.min(bytes.len()),
            None => bytes.len(),
        };
        let (here, behind) = bytes.split_at_mut(length);
        if let Some((0, _)) = part {
            lent.octets.fill(lent.next, here);
            lent.next += 1;
        }
        self.position = lent.at;
        lent.at += length;
        (self.rest, self.tail.bytes, self.tail.lent) = (here, behind, Some(lent));
        Some(true)
    }

    /// Takes the next part without filling it, if it has exactly these octets and begins here.
    pub(crate) fn claim_lent(&mut self, octets: usize) -> Option<(&'m dyn LentOctets, usize)> {
        let lent = self.tail.lent.filter(|_| self.rest.is_empty())?;
        if lent.octets.part(lent.next) != Some((lent.at, octets)) || octets > self.tail.bytes.len() {
            return None;
        }
        let i = lent.next;
        lent.octets.claim(i);
        let (_, behind) = core::mem::take(&mut self.tail.bytes).split_at_mut(octets);
        let at = lent.at + octets;
        let ahead = lent.octets.part(i + 1).map_or(behind.len(), |(next, _)| next.saturating_sub(at));
        let (rest, tail) = behind.split_at_mut(ahead.min(behind.len()));
        self.position = at;
        self.tail.lent = Some(LentTail { octets: lent.octets, next: i + 1, at: at + rest.len() });
        (self.rest, self.tail.bytes) = (rest, tail);
        Some((lent.octets, i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, Text, Version, Wide};
    use alloc::vec::Vec;
    use isorb_scope::Region;

    const TEXT: Text = Text { wide: Wide::Utf16, ..Text::fallback(Version::V1_1) };

    /// Octets of a big-endian message in several fragments, read by `read`; the first begins at
    /// offset 0.
    fn read<T>(fragments: &[&[u8]], read: impl FnOnce(&mut Decoder<'_>) -> T) -> T {
        let mut bytes = fragments.concat();
        let mut boundaries = Vec::new();
        let mut at = 0;
        for fragment in &fragments[..fragments.len() - 1] {
            at += fragment.len() as u32;
            boundaries.push(at.to_ne_bytes());
        }
        let mut region = Region::new(256);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes, Order::Big, TEXT, &scope).with_fragment_boundaries(&boundaries);
        read(&mut d)
    }

    #[test]
    fn alignment_counts_from_each_fragment() {
        // A second fragment begins at 12: a double there is behind four octets of padding.
        read(&[b"\0\0\0\x01", b"\0\0\0\0\x3f\xf0\0\0\0\0\0\0\x07"], |d| {
            assert_eq!((d.get(), d.remaining()), (Ok(1u32), 13));
            assert_eq!(d.get(), Ok(1.0f64));
            assert_eq!((d.get(), d.remaining()), (Ok(7u8), 0));
            assert_eq!(d.get::<u8>().unwrap_err().kind, ErrorKind::Truncated);
        });
        // A long at 12 has no padding, wherever the first fragment ended; the rest of that one was
        // padding.
        read(&[b"\x01\0\0", b"\0\0\0\x02"], |d| {
            assert_eq!((d.get(), d.get()), (Ok(1u8), Ok(2u32)));
        });
        read(&[b"\x01", b"\0\0\0\x02", b"\0\x03"], |d| {
            assert_eq!((d.get(), d.get(), d.get()), (Ok(1u8), Ok(2u32), Ok(3u16)));
        });
    }

    #[test]
    fn octets_go_on() {
        read(&[b"\0\0\0\x06he", b"ll", b"o\0\0\0\x05"], |d| {
            assert_eq!(d.string(), Ok("hello"));
            // The last fragment begins at 12, so its third octet is at 14.
            assert_eq!((d.get(), d.get()), (Ok(0u16), Ok(5u8)));
        });
        read(&[b"\0\0\0\x02\0\x01\0", b"\x02"], |d| assert_eq!(d.plain_seq::<u16>(), Ok(&[1, 2][..])));
        read(&[b"\0\0\0\x03\0h", b"\0i\0\0"], |d| assert_eq!(d.wstring(), Ok("hi")));
        read(&[b"\0\0\0\x09ab", b"c"], |d| assert_eq!(d.string().unwrap_err().kind, ErrorKind::Length));
    }

    #[test]
    fn a_structure_is_cut_between_its_members() {
        // omniORB writes `struct Point { long x; long y; }` member by member.
        read(&[b"\0\0\0\x09\0\0\0\x01", b"\0\0\0\x02\0\0\0\x03"], |d| {
            assert_eq!((d.get(), d.get::<[i32; 2]>(), d.get()), (Ok(9u32), Ok([1, 2]), Ok(3u32)));
        });
    }

    #[test]
    fn doubles_continue_after_padding() {
        let one = 1.0f64.to_be_bytes();
        let first = [&[0, 0, 0, 2, 0, 0, 0, 0], &one[..]].concat();
        let second = [&[0, 0, 0, 0], &one[..], &[7]].concat();
        read(&[&first, &second], |d| {
            assert_eq!((d.plain_seq::<f64>(), d.get()), (Ok(&[1.0, 1.0][..]), Ok(7u8)));
        });
        read(&[&first, &[0, 0, 0, 0]], |d| {
            assert_eq!(d.plain_seq::<f64>().unwrap_err().kind, ErrorKind::Truncated);
        });
    }

    #[test]
    fn many_small_frames_need_no_stack() {
        // Miri takes minutes for more.
        let many = if cfg!(miri) { 1_000 } else { 100_000 };
        let fragments: Vec<&[u8]> = (0..many).map(|_| &b"\0"[..]).collect();
        read(&fragments, |d| assert_eq!(d.get::<u64>().unwrap_err().kind, ErrorKind::Truncated));
        read(&fragments, |d| assert_eq!(d.take(many).map(|taken| taken.len()), Ok(many)));
    }
}
