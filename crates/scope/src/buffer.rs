//! Owned blocks for messages that outgrow a region, from a bounded pool.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Smallest class: 4 KiB. Class `i` holds blocks of `4096 << i` bytes.
const SMALLEST: usize = 4096;
/// 4 KiB to 64 MiB.
const CLASSES: usize = 15;
/// Blocks of one class that a pool retains.
const PER_CLASS: usize = 8;

/// An owned, initialised, 8-aligned block of bytes. Dropping it returns it to its pool, or to the
/// heap when the pool is full of its class.
pub struct Buffer {
    words: Box<[u64]>,
    pool: Option<Arc<BufferPool>>,
}

impl Buffer {
    /// A block of at least `bytes` bytes that belongs to no pool.
    ///
    /// # Real-time
    /// Allocates.
    pub fn unpooled(bytes: usize) -> Buffer {
        Buffer { words: vec![0; bytes.div_ceil(8)].into(), pool: None }
    }

    /// Takes the block apart: its first word, its length in words, its pool. Nothing is returned to
    /// the pool until [`Buffer::from_parts`] has put it together again.
    pub(crate) fn into_parts(mut self) -> (*mut u64, usize, Option<Arc<BufferPool>>) {
        let pool = self.pool.take();
        let words = core::mem::take(&mut self.words);
        let n = words.len();
        (Box::into_raw(words).cast(), n, pool)
    }

    /// Undoes [`Buffer::into_parts`].
    ///
    /// # Safety
    /// The parts are those of one block, and its memory is no longer used.
    pub(crate) unsafe fn from_parts(first: *mut u64, n: usize, pool: Option<Arc<BufferPool>>) -> Buffer {
        // SAFETY: `into_parts` took these from a box of n words.
        let words = unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(first, n)) };
        Buffer { words, pool }
    }

    /// Size in bytes.
    pub fn capacity(&self) -> usize {
        self.words.len() * 8
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: u64s are initialised bytes; the length in bytes is 8 times that in words.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 8) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; every bit pattern is a u64.
        unsafe { core::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.words.len() * 8) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give(core::mem::take(&mut self.words));
        }
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({} bytes)", self.capacity())
    }
}

/// Retains returned [`Buffer`]s by size class, so that steady traffic of any size allocates
/// nothing.
///
/// Bounded twice: at most `limit` bytes are out at a time, and at most eight blocks a class are
/// retained, of which the large ones only up to `retain` bytes in all.
pub struct BufferPool {
    classes: [[AtomicPtr<u64>; PER_CLASS]; CLASSES],
    out: AtomicUsize,
    retained: AtomicUsize,
    limit: usize,
    retain: usize,
}

impl BufferPool {
    /// A pool that lends at most `limit` bytes at a time and retains at most `retain` bytes for
    /// reuse.
    pub fn new(limit: usize, retain: usize) -> Arc<BufferPool> {
        Arc::new(BufferPool {
            classes: [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; PER_CLASS] }; CLASSES],
            out: AtomicUsize::new(0),
            retained: AtomicUsize::new(0),
            limit,
            retain,
        })
    }

    /// A block of at least `bytes` bytes; `None` when the pool's limit would be passed.
    ///
    /// # Real-time
    /// Lock-free, at most eight exchanges; allocates only when no block of the class is retained.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Buffer> {
        let (class, size) = class_of(bytes)?;
        if self.out.fetch_add(size, Ordering::Relaxed) + size > self.limit {
            self.out.fetch_sub(size, Ordering::Relaxed);
            return None;
        }
        for slot in &self.classes[class] {
            if slot.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let block = slot.swap(core::ptr::null_mut(), Ordering::Acquire);
            if !block.is_null() {
                self.retained.fetch_sub(size, Ordering::Relaxed);
                // SAFETY: `give` stored a box of exactly size/8 words here; the swap took it out,
                // so it is ours alone.
                let words = unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(block, size / 8)) };
                return Some(Buffer { words, pool: Some(self.clone()) });
            }
        }
        Some(Buffer { words: vec![0; size / 8].into(), pool: Some(self.clone()) })
    }

    /// Bytes that are lent out now.
    pub fn out(&self) -> usize {
        self.out.load(Ordering::Relaxed)
    }

    /// Bytes that may be lent out at a time.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn give(&self, words: Box<[u64]>) {
        let size = words.len() * 8;
        self.out.fetch_sub(size, Ordering::Relaxed);
        let Some((class, _)) = class_of(size) else { return };
        if self.retained.fetch_add(size, Ordering::Relaxed) + size > self.retain {
            self.retained.fetch_sub(size, Ordering::Relaxed);
            return;
        }
        let block = Box::into_raw(words).cast::<u64>();
        for slot in &self.classes[class] {
            let empty = core::ptr::null_mut();
            if slot.compare_exchange(empty, block, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
        }
        self.retained.fetch_sub(size, Ordering::Relaxed);
        // SAFETY: the block came from Box::into_raw above, with the same length, and was stored
        // nowhere.
        drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(block, size / 8)) });
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        for (class, slots) in self.classes.iter_mut().enumerate() {
            for slot in slots {
                let block = *slot.get_mut();
                if !block.is_null() {
                    let words = (SMALLEST << class) / 8;
                    // SAFETY: as in `take`; the pool is being dropped, so no other thread can take
                    // it.
                    drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(block, words)) });
                }
            }
        }
    }
}

impl core::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BufferPool").field("out", &self.out()).field("limit", &self.limit).finish()
    }
}

fn class_of(bytes: usize) -> Option<(usize, usize)> {
    let size = bytes.max(SMALLEST).checked_next_power_of_two()?;
    let class = (size / SMALLEST).trailing_zeros() as usize;
    (class < CLASSES).then_some((class, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back() {
        let pool = BufferPool::new(1 << 20, 1 << 20);
        let first = {
            let mut b = pool.take(5000).unwrap();
            assert_eq!(b.capacity(), 8192);
            b.bytes_mut()[0] = 7;
            b.bytes().as_ptr()
        };
        assert_eq!(pool.out(), 0);
        let again = pool.take(8192).unwrap();
        assert_eq!(again.bytes().as_ptr(), first);
        assert!(again.bytes().as_ptr().cast::<u64>().is_aligned());
    }

    #[test]
    fn both_bounds_hold() {
        let pool = BufferPool::new(16384, 4096);
        let a = pool.take(8192).unwrap();
        let b = pool.take(8192).unwrap();
        assert!(pool.take(1).is_none());
        drop((a, b));
        assert_eq!(
            pool.retained.load(Ordering::Relaxed),
            0,
            "8 KiB blocks pass the retention limit of 4 KiB"
        );
        assert!(pool.take(usize::MAX).is_none());
        assert_eq!(pool.out(), 0);
    }
}
