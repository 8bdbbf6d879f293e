//! Owned blocks for messages that outgrow a region, from a bounded pool.

use crate::reserved::Reserved;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use core::ptr::{NonNull, slice_from_raw_parts_mut};
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
    first: NonNull<u64>,
    words: usize,
    pool: Option<Arc<BufferPool>>,
}

// SAFETY: a block has one owner, and its words are plain data.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared borrow only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A block of at least `bytes` bytes that belongs to no pool.
    ///
    /// # Real-time
    /// Allocates, unless `bytes` is 0.
    pub fn unpooled(bytes: usize) -> Buffer {
        let (first, words) = from_heap(bytes.div_ceil(8));
        Buffer { first, words, pool: None }
    }

    /// Takes the block apart: its first word, its length in words, its pool. Nothing is returned to
    /// the pool until [`Buffer::from_parts`] has put it together again.
    pub(crate) fn into_parts(mut self) -> (*mut u64, usize, Option<Arc<BufferPool>>) {
        let parts = (self.first.as_ptr(), self.words, self.pool.take());
        core::mem::forget(self);
        parts
    }

    /// Undoes [`Buffer::into_parts`].
    ///
    /// # Safety
    /// The parts are those of one block, and its memory is no longer used.
    pub(crate) unsafe fn from_parts(first: *mut u64, words: usize, pool: Option<Arc<BufferPool>>) -> Buffer {
        // SAFETY: the first word of a block.
        Buffer { first: unsafe { NonNull::new_unchecked(first) }, words, pool }
    }

    /// Its pool.
    pub fn pool(&self) -> Option<&Arc<BufferPool>> {
        self.pool.as_ref()
    }

    /// Size in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.words * 8
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: u64s are initialised bytes; the length in bytes is 8 times that in words.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr().cast(), self.words * 8) }
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; every bit pattern is a u64.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr().cast(), self.words * 8) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.pool.take() {
            Some(pool) => pool.give(self.first, self.words),
            // SAFETY: `unpooled` made it.
            None => unsafe { to_heap(self.first, self.words) },
        }
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({} bytes)", self.capacity())
    }
}

fn from_heap(words: usize) -> (NonNull<u64>, usize) {
    let block: Box<[u64]> = vec![0; words].into();
    // A box is not null.
    let first = NonNull::from(Box::leak(block)).cast();
    (first, words)
}

/// # Safety
/// The block came from [`from_heap`] with this length, and has no other owner.
unsafe fn to_heap(first: NonNull<u64>, words: usize) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(first.as_ptr(), words)) });
}

/// Lends [`Buffer`]s, and takes them back. There are two kinds of pools.
///
/// A pool from [`BufferPool::new`] takes blocks from the heap and retains returned ones by size
/// class, so that steady traffic allocates nothing. It is bounded twice: at most `limit` bytes are
/// out at a time, and at most eight blocks a class are retained, of which the large ones only up to
/// `retain` bytes in all.
///
/// A pool from [`BufferPool::reserved`] has a fixed number of blocks of each of its sizes. It
/// touches the heap only when it is made and when it is dropped.
pub struct BufferPool {
    out: AtomicUsize,
    limit: usize,
    blocks: Blocks,
}

#[expect(clippy::large_enum_variant, reason = "it lies behind the pool's Arc in any case")]
enum Blocks {
    Retained(Retained),
    Reserved(Reserved),
}

/// Returned blocks, by class.
struct Retained {
    classes: [[AtomicPtr<u64>; PER_CLASS]; CLASSES],
    bytes: AtomicUsize,
    most: usize,
}

impl BufferPool {
    /// A pool that lends at most `limit` bytes at a time and retains at most `retain` bytes for
    /// reuse.
    pub fn new(limit: usize, retain: usize) -> Arc<BufferPool> {
        let blocks = Blocks::Retained(Retained {
            classes: [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; PER_CLASS] }; CLASSES],
            bytes: AtomicUsize::new(0),
            most: retain,
        });
        Arc::new(BufferPool { out: AtomicUsize::new(0), limit, blocks })
    }

    /// A pool with these blocks, given as sizes in bytes with their numbers. Sizes are rounded up
    /// to whole pages, and every page is written. `None` if there is not enough memory.
    ///
    /// ```
    /// let pool = isorb_scope::BufferPool::reserved(&[(4096, 1), (65_536, 2)]).unwrap();
    /// let blocks = [pool.take(100).unwrap(), pool.take(100).unwrap(), pool.take(50_000).unwrap()];
    /// assert_eq!(blocks.map(|block| block.capacity()), [4096, 65_536, 65_536]);
    /// assert!(pool.take(1 << 20).is_none());
    /// ```
    ///
    /// # Real-time
    /// Allocates and faults the pages in: for start-up. [`take`](Self::take) and the return of a
    /// block neither allocate nor block afterwards.
    pub fn reserved(blocks: &[(usize, usize)]) -> Option<Arc<BufferPool>> {
        let reserved = Reserved::new(blocks)?;
        let limit = reserved.range().1;
        Some(Arc::new(BufferPool { out: AtomicUsize::new(0), limit, blocks: Blocks::Reserved(reserved) }))
    }

    /// A block of at least `bytes` bytes; `None` when the pool's limit would be passed, or none of
    /// the reserved blocks is free and large enough.
    ///
    /// # Real-time
    /// Lock-free, at most eight exchanges; allocates only when no block of the class is retained.
    /// A reserved pool never allocates; it reads one word for each 64 blocks.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Buffer> {
        let (first, words) = match &self.blocks {
            Blocks::Reserved(reserved) => {
                let (first, words) = reserved.take(bytes)?;
                self.out.fetch_add(words * 8, Ordering::Relaxed);
                (first, words)
            }
            Blocks::Retained(retained) => {
                let (class, size) = class_of(bytes)?;
                if self.out.fetch_add(size, Ordering::Relaxed) + size > self.limit {
                    self.out.fetch_sub(size, Ordering::Relaxed);
                    return None;
                }
                retained.take(class, size).unwrap_or_else(|| from_heap(size / 8))
            }
        };
        Some(Buffer { first, words, pool: Some(self.clone()) })
    }

    /// A returned block of at least `bytes` bytes, if the pool has retained one: its memory is
    /// committed already. Also `None` when the pool's limit would be passed. A reserved pool lends
    /// as [`take`](Self::take) does.
    ///
    /// # Real-time
    /// Lock-free, at most eight exchanges; never allocates.
    pub fn take_retained(self: &Arc<Self>, bytes: usize) -> Option<Buffer> {
        let Blocks::Retained(retained) = &self.blocks else { return self.take(bytes) };
        let (class, size) = class_of(bytes)?;
        let lent = self.out.fetch_add(size, Ordering::Relaxed) + size <= self.limit;
        let block = if lent { retained.take(class, size) } else { None };
        let Some((first, words)) = block else {
            self.out.fetch_sub(size, Ordering::Relaxed);
            return None;
        };
        Some(Buffer { first, words, pool: Some(self.clone()) })
    }

    /// Bytes that are lent out now.
    pub fn out(&self) -> usize {
        self.out.load(Ordering::Relaxed)
    }

    /// Bytes that may be lent out at a time.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether its blocks were reserved when it was made.
    #[inline]
    pub fn is_reserved(&self) -> bool {
        matches!(self.blocks, Blocks::Reserved(_))
    }

    /// Size of the largest block that it can lend, in bytes.
    pub fn largest(&self) -> usize {
        match &self.blocks {
            Blocks::Reserved(reserved) => reserved.largest(),
            Blocks::Retained(_) => self.limit.min(SMALLEST << (CLASSES - 1)),
        }
    }

    /// How many reserved blocks of at least `bytes` bytes are free; 0 in a pool of the other kind.
    pub fn available(&self, bytes: usize) -> usize {
        match &self.blocks {
            Blocks::Reserved(reserved) => reserved.available(bytes),
            Blocks::Retained(_) => 0,
        }
    }

    /// Address and length in bytes of the reserved memory, for locking its pages.
    pub fn reserved_range(&self) -> Option<(usize, usize)> {
        match &self.blocks {
            Blocks::Reserved(reserved) => {
                let (first, bytes) = reserved.range();
                Some((first.addr().get(), bytes))
            }
            Blocks::Retained(_) => None,
        }
    }

    fn give(&self, first: NonNull<u64>, words: usize) {
        self.out.fetch_sub(words * 8, Ordering::Relaxed);
        match &self.blocks {
            Blocks::Reserved(reserved) => reserved.give(first),
            Blocks::Retained(retained) => retained.give(first, words),
        }
    }
}

impl Retained {
    /// A retained block of the class.
    fn take(&self, class: usize, size: usize) -> Option<(NonNull<u64>, usize)> {
        self.classes[class].iter().find_map(|slot| {
            if slot.load(Ordering::Relaxed).is_null() {
                return None;
            }
            // The swap took it out, so it is ours alone.
            let first = NonNull::new(slot.swap(core::ptr::null_mut(), Ordering::Acquire))?;
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            Some((first, size / 8))
        })
    }

    /// Retains a block, or returns it to the heap.
    fn give(&self, first: NonNull<u64>, words: usize) {
        let size = words * 8;
        let kept = class_of(size).is_some_and(|(class, _)| {
            let fits = self.bytes.fetch_add(size, Ordering::Relaxed) + size <= self.most;
            let empty = core::ptr::null_mut();
            let stored = fits
                && self.classes[class].iter().any(|slot| {
                    slot.compare_exchange(empty, first.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
                });
            if !stored {
                self.bytes.fetch_sub(size, Ordering::Relaxed);
            }
            stored
        });
        if !kept {
            // SAFETY: `take` got it from the heap with this length, and it was stored nowhere.
            unsafe { to_heap(first, words) }
        }
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        for (class, slots) in self.classes.iter_mut().enumerate() {
            for first in slots.iter_mut().filter_map(|slot| NonNull::new(*slot.get_mut())) {
                // SAFETY: as in `give`; the pool is being dropped, so no other thread can take it.
                unsafe { to_heap(first, (SMALLEST << class) / 8) }
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
        let again = pool.take_retained(8192).unwrap();
        assert_eq!(again.bytes().as_ptr(), first);
        assert!(pool.take_retained(8192).is_none(), "it retained one");
        assert_eq!(pool.out(), 8192);
        assert!(again.bytes().as_ptr().cast::<u64>().is_aligned());
    }

    #[test]
    fn both_bounds_hold() {
        let pool = BufferPool::new(16384, 4096);
        let a = pool.take(8192).unwrap();
        let b = pool.take(8192).unwrap();
        assert!(pool.take(1).is_none());
        drop((a, b));
        let Blocks::Retained(retained) = &pool.blocks else { panic!() };
        let bytes = retained.bytes.load(Ordering::Relaxed);
        assert_eq!(bytes, 0, "8 KiB blocks pass the retention limit of 4 KiB");
        assert!(pool.take(usize::MAX).is_none());
        assert_eq!(pool.out(), 0);
    }

    #[test]
    fn reserved_blocks_are_lent_once_and_come_back() {
        let pool = BufferPool::reserved(&[(300_000, 2), (4096, 3), (5, 0), (0, 5)]).unwrap();
        assert_eq!((pool.largest(), pool.limit()), (303_104, 3 * 4096 + 2 * 303_104));
        for _ in 0..3 {
            let mut all: alloc::vec::Vec<Buffer> = (0..5).map(|_| pool.take(7).unwrap()).collect();
            assert!(pool.take(0).is_none());
            let sizes = all.iter().map(Buffer::capacity).collect::<alloc::vec::Vec<_>>();
            assert_eq!(sizes, [4096, 4096, 4096, 303_104, 303_104]);
            for (i, block) in all.iter_mut().enumerate() {
                block.bytes_mut().fill(i as u8);
            }
            assert!(all.iter().enumerate().all(|(i, block)| block.bytes().iter().all(|b| *b == i as u8)));
            all.remove(3);
            assert_eq!((pool.available(4097), pool.available(303_105)), (1, 0));
            assert!(pool.take(400_000).is_none());
        }
        assert_eq!((pool.out(), pool.available(0)), (0, 5));
        // A block outlives the last handle of its pool.
        let last = pool.take(1).unwrap();
        drop(pool);
        assert_eq!(last.bytes().len(), 4096);
        assert!(BufferPool::reserved(&[(usize::MAX - 10, 1)]).is_none());
        assert!(BufferPool::reserved(&[(1 << 40, usize::MAX)]).is_none());
    }
}
