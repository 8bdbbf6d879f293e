//! Bytes of a value as atomic words.
//!
//! Each access is a relaxed load or store of a whole word: the other side may access the same word
//! at the same time, and whether what was read is one value is decided afterwards, by the mark of
//! the buffer.

use core::fmt;
use isorb_rt::sync::atomic::AtomicU64;
use isorb_rt::sync::atomic::Ordering::Relaxed;

/// A range that lies outside a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfBounds {
    /// Where the range begins.
    pub offset: usize,
    /// Bytes of the range.
    pub len: usize,
    /// Bytes of the value.
    pub limit: usize,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} in a value of {}", self.len, self.offset, self.limit)
    }
}

impl core::error::Error for OutOfBounds {}

/// A value in the area, to be looked at in place.
///
/// The writer may come round while it is looked at. What is read here is therefore a guess until
/// the function that was given the view has returned and the buffer's mark has been compared; each
/// byte is defined, but they need not belong together. Do not act on them inside the function.
#[derive(Clone, Copy)]
pub struct View<'a> {
    words: &'a [AtomicU64],
    len: usize,
}

impl<'a> View<'a> {
    /// `len` is cut to what the words hold.
    pub(crate) fn new(words: &'a [AtomicU64], len: usize) -> View<'a> {
        View { words, len: len.min(words.len() * 8) }
    }

    #[cfg(not(loom))]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    /// Bytes of the value.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is it a value without bytes?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the bytes from `offset` on.
    ///
    /// # Errors
    /// When the range lies outside the value.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    #[inline]
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        check(offset, out.len(), self.len)?;
        load(self.words, offset, out);
        Ok(())
    }

    /// `N` bytes from `offset` on, to make a number of.
    ///
    /// # Errors
    /// When the range lies outside the value.
    pub fn bytes<const N: usize>(&self, offset: usize) -> Result<[u8; N], OutOfBounds> {
        let mut out = [0; N];
        self.copy_to(offset, &mut out)?;
        Ok(out)
    }
}

/// The buffer that is being written. It holds what was there some values ago until it is written
/// over.
pub struct Cells<'a> {
    words: &'a [AtomicU64],
    len: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(words: &'a [AtomicU64], len: usize) -> Cells<'a> {
        Cells { words, len: len.min(words.len() * 8) }
    }

    /// Bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is there no byte?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes bytes from `offset` on.
    ///
    /// # Errors
    /// When the range lies outside the value; nothing is written then.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    #[inline]
    pub fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        check(offset, bytes.len(), self.len)?;
        store(self.words, offset, bytes);
        Ok(())
    }

    /// Reads back.
    ///
    /// # Errors
    /// When the range lies outside the value.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        check(offset, out.len(), self.len)?;
        load(self.words, offset, out);
        Ok(())
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("len", &self.len).finish_non_exhaustive()
    }
}

impl fmt::Debug for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cells").field("len", &self.len).finish_non_exhaustive()
    }
}

#[inline]
fn check(offset: usize, len: usize, limit: usize) -> Result<(), OutOfBounds> {
    match offset.checked_add(len) {
        Some(end) if end <= limit => Ok(()),
        _ => Err(OutOfBounds { offset, len, limit }),
    }
}

/// Copies out. The range has been checked.
#[inline]
fn load(words: &[AtomicU64], offset: usize, out: &mut [u8]) {
    let (mut word, within) = (offset / 8, offset % 8);
    let mut out = out;
    if within != 0 {
        let (first, rest) = out.split_at_mut(out.len().min(8 - within));
        first.copy_from_slice(&words[word].load(Relaxed).to_ne_bytes()[within..within + first.len()]);
        (out, word) = (rest, word + 1);
    }
    let whole = out.len() / 8;
    let (body, tail) = out.split_at_mut(whole * 8);
    for (chunk, from) in body.chunks_exact_mut(8).zip(&words[word..word + whole]) {
        chunk.copy_from_slice(&from.load(Relaxed).to_ne_bytes());
    }
    if !tail.is_empty() {
        let last = words[word + whole].load(Relaxed).to_ne_bytes();
        tail.copy_from_slice(&last[..tail.len()]);
    }
}

/// Copies in. The range has been checked; only the writer changes these words.
#[inline]
fn store(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    let (mut word, within) = (offset / 8, offset % 8);
    let mut bytes = bytes;
    if within != 0 {
        let (first, rest) = bytes.split_at(bytes.len().min(8 - within));
        merge(&words[word], within, first);
        (bytes, word) = (rest, word + 1);
    }
    let whole = bytes.len() / 8;
    let (body, tail) = bytes.split_at(whole * 8);
    for (chunk, to) in body.as_chunks::<8>().0.iter().zip(&words[word..word + whole]) {
        to.store(u64::from_ne_bytes(*chunk), Relaxed);
    }
    if !tail.is_empty() {
        merge(&words[word + whole], 0, tail);
    }
}

fn merge(word: &AtomicU64, within: usize, bytes: &[u8]) {
    let mut old = word.load(Relaxed).to_ne_bytes();
    old[within..within + bytes.len()].copy_from_slice(bytes);
    word.store(u64::from_ne_bytes(old), Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_keep_what_bytes_would(
            steps in prop::collection::vec((0usize..70, prop::collection::vec(any::<u8>(), 0..40)), 0..30),
            (from, count) in (0usize..70, 0usize..70),
        ) {
            let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
            let mut oracle = [0u8; 61];
            let cells = Cells::new(&words, oracle.len());
            for (offset, bytes) in steps {
                let fits = offset + bytes.len() <= oracle.len();
                prop_assert_eq!(cells.put(offset, &bytes).is_ok(), fits);
                if fits {
                    oracle[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            let mut out = vec![0xaa; count];
            let fits = from + count <= oracle.len();
            prop_assert_eq!(View::new(&words, oracle.len()).copy_to(from, &mut out).is_ok(), fits);
            if fits {
                prop_assert_eq!(&out[..], &oracle[from..from + count]);
            }
        }
    }

    #[test]
    fn a_range_that_overflows_is_out_of_bounds() {
        let words = [AtomicU64::new(0)];
        let view = View::new(&words, 8);
        assert!(view.copy_to(usize::MAX, &mut [0; 2]).is_err());
        assert_eq!(view.bytes::<2>(7), Err(OutOfBounds { offset: 7, len: 2, limit: 8 }));
        assert_eq!(View::new(&words, 1000).len(), 8);
    }
}
