//! Messages in which alignment counts anew at some offsets: those that came in fragments of GIOP 1.1.
//!
//! Clause 9.4.9: what is in a fragment is aligned relative to the fragment, whose header has twelve octets, not relative to
//! the message; and no primitive is split between two. Octets go on across a seam as if there were none. The decoder holds
//! what lies before the next seam, so that messages without any, which is nearly all, pay nothing for this.

use crate::{Decoder, ErrorKind, Plain, Result};
use alloc::vec;
use zerocopy::IntoBytes;

/// Offset of the first octet behind a fragment's header, from which its alignment counts.
const FRAGMENT_DATA: usize = 12;

/// What lies behind the next seam.
pub(crate) struct Beyond<'m> {
    pub bytes: &'m mut [u8],
    /// Offset in the message at which it begins.
    at: usize,
    /// The seams behind that one.
    seams: &'m [[u8; 4]],
}

impl Beyond<'_> {
    /// Nothing: the message has no seam.
    #[inline]
    pub fn nothing() -> Self {
        Beyond { bytes: &mut [], at: 0, seams: &[] }
    }
}

impl<'m> Decoder<'m> {
    /// Reads a message with seams at these offsets (ascending, each a native `u32`), of which none is behind the decoder.
    pub fn with_seams(mut self, seams: &'m [[u8; 4]]) -> Decoder<'m> {
        let bytes = core::mem::take(&mut self.rest);
        self.beyond = Beyond { bytes, at: self.position, seams };
        let position = self.position;
        self.next_frame();
        self.position = position;
        self
    }

    /// Goes on behind the next seam; `false` at the end of the message. What is left before the seam is passed over.
    fn next_frame(&mut self) -> bool {
        let Beyond { bytes, at, seams } = &mut self.beyond;
        if bytes.is_empty() {
            return false;
        }
        let length = match seams.split_first() {
            Some((seam, more)) => {
                *seams = more;
                (u32::from_ne_bytes(*seam) as usize).saturating_sub(*at).min(bytes.len())
            }
            None => bytes.len(),
        };
        let (frame, rest) = core::mem::take(bytes).split_at_mut(length);
        *bytes = rest;
        *at += length;
        self.rest = frame;
        self.position = FRAGMENT_DATA;
        true
    }

    /// Finds the place of a primitive that does not lie before the next seam: aligned, and `size` octets of it in one frame.
    #[cold]
    pub(crate) fn align_beyond(&mut self, alignment: usize, size: usize) -> Result<()> {
        while self.next_frame() {
            let gap = self.position.wrapping_neg() & (alignment - 1);
            if gap + size <= self.rest.len() {
                self.take(gap)?;
                return Ok(());
            }
        }
        Err(self.error(ErrorKind::Truncated))
    }

    /// The octets of a value that does not lie before the next seam. One that is longer than its alignment is a structure or
    /// an array, whose octets go on across the seam.
    #[cold]
    pub(crate) fn get_beyond(&mut self, alignment: usize, size: usize) -> Result<&'m mut [u8]> {
        if size <= alignment {
            self.align_beyond(alignment, size)?;
        }
        self.take(size)
    }

    /// Values that align to eight, and go on behind a seam: there, four octets of padding come before the first. (Values that
    /// align to less have none, since a fragment's data begins at twelve.)
    #[cold]
    pub(crate) fn plain_array_beyond<T: Plain>(&mut self, n: usize) -> Result<&'m [T]> {
        if n.checked_mul(size_of::<T>()).is_none_or(|length| length > self.remaining()) {
            return Err(self.error(ErrorKind::Truncated));
        }
        let scope = self.scope;
        Ok(scope.fill(n, |_| self.get::<T>())?)
    }

    /// Joins octets on both sides of a seam; they go to the heap until the scope is left, since they may outgrow it.
    #[cold]
    pub(crate) fn take_beyond(&mut self, n: usize) -> Result<&'m mut [u8]> {
        if n > self.remaining() {
            return Err(self.error(ErrorKind::Truncated));
        }
        let joined = self.scope.keep(vec![0u64; n.div_ceil(8)])?;
        let joined = &mut joined.as_mut_bytes()[..n];
        let mut done = 0;
        while done < n {
            let part = self.take((n - done).min(self.rest.len()))?;
            joined[done..done + part.len()].copy_from_slice(part);
            done += part.len();
            if done < n && !self.next_frame() {
                return Err(self.error(ErrorKind::Truncated));
            }
        }
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, Text, Version, Wide};
    use alloc::vec::Vec;
    use isorb_scope::Region;

    const TEXT: Text = Text { wide: Wide::Utf16, ..Text::fallback(Version::V1_1) };

    /// Octets in two frames of a big-endian message, read by `read`; the first frame begins at offset 0.
    fn read<T>(frames: &[&[u8]], read: impl FnOnce(&mut Decoder<'_>) -> T) -> T {
        let mut bytes = frames.concat();
        let mut seams = Vec::new();
        let mut at = 0;
        for frame in &frames[..frames.len() - 1] {
            at += frame.len() as u32;
            seams.push(at.to_ne_bytes());
        }
        let mut region = Region::new(256);
        let scope = region.enter();
        let mut d = Decoder::new(&mut bytes, Order::Big, TEXT, &scope).with_seams(&seams);
        read(&mut d)
    }

    #[test]
    fn alignment_counts_from_each_fragment() {
        // A second frame begins at 12: a double there lies behind four octets of padding.
        read(&[b"\0\0\0\x01", b"\0\0\0\0\x3f\xf0\0\0\0\0\0\0\x07"], |d| {
            assert_eq!((d.get(), d.remaining()), (Ok(1u32), 13));
            assert_eq!(d.get(), Ok(1.0f64));
            assert_eq!((d.get(), d.remaining()), (Ok(7u8), 0));
            assert_eq!(d.get::<u8>().unwrap_err().kind, ErrorKind::Truncated);
        });
        // A long at 12 has none, wherever the first frame ended; what was left there was padding.
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
            // The last frame begins at 12, so that its third octet is at 14.
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
    fn doubles_go_on_behind_padding() {
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
        let frames: Vec<&[u8]> = (0..100_000).map(|_| &b"\0"[..]).collect();
        read(&frames, |d| assert_eq!(d.get::<u64>().unwrap_err().kind, ErrorKind::Truncated));
        read(&frames, |d| assert_eq!(d.take(100_000).map(|taken| taken.len()), Ok(100_000)));
    }
}
