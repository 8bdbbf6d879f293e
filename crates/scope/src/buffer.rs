//! Owned blocks for messages that outgrow a region, from a bounded pool.

use crate::AddressSpace;
use crate::reserved::Reserved;
use crate::retained::{LARGEST, Retained, class_of, from_heap, to_heap};
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// An owned, initialised, 8-aligned block of bytes. Dropping it returns it to its pool, or to the
/// heap or the system when the pool is full of its class.
pub struct Buffer {
    block: Block,
    pool: Option<Arc<BufferPool>>,
}

/// The memory of a [`Buffer`]: its owner has the first `words`.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub first: NonNull<u64>,
    pub words: usize,
    /// Words that it may have at this address. More than `words` in address space only.
    pub most: usize,
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
        Buffer { block: from_heap(bytes.div_ceil(8)), pool: None }
    }

    /// Takes the buffer apart: its memory, its pool. Nothing is returned to the pool until
    /// [`Buffer::from_parts`] has put it together again.
    pub(crate) fn into_parts(mut self) -> (Block, Option<Arc<BufferPool>>) {
        let parts = (self.block, self.pool.take());
        core::mem::forget(self);
        parts
    }

    /// Undoes [`Buffer::into_parts`].
    ///
    /// # Safety
    /// The parts are those of one block, and its memory is no longer used.
    pub(crate) unsafe fn from_parts(block: Block, pool: Option<Arc<BufferPool>>) -> Buffer {
        Buffer { block, pool }
    }

    /// Its pool.
    pub fn pool(&self) -> Option<&Arc<BufferPool>> {
        self.pool.as_ref()
    }

    /// Size in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.words * 8
    }

    /// The size that it can [grow](Self::grow) to, in bytes, if its pool has so much.
    #[inline]
    pub fn capacity_in_place(&self) -> usize {
        self.block.most * 8
    }

    /// Makes it at least `bytes` long without moving it; the pool counts the growth. False if its
    /// address space is shorter, the pool's limit would be passed, or the system has no memory.
    ///
    /// # Real-time
    /// Nothing if it is long enough already. Else a system call in address space that was not used
    /// before; no octet is copied, and pages come when they are first written.
    pub fn grow(&mut self, bytes: usize) -> bool {
        bytes <= self.capacity() || self.pool.as_ref().is_some_and(|pool| pool.grow(&mut self.block, bytes))
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: u64s are initialised bytes; the length in bytes is 8 times that in words.
        unsafe { core::slice::from_raw_parts(self.block.first.as_ptr().cast(), self.capacity()) }
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; every bit pattern is a u64.
        unsafe { core::slice::from_raw_parts_mut(self.block.first.as_ptr().cast(), self.capacity()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.pool.take() {
            Some(pool) => pool.give(self.block),
            // SAFETY: `unpooled` made it.
            None => unsafe { to_heap(self.block) },
        }
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({} bytes)", self.capacity())
    }
}

/// Lends [`Buffer`]s, and takes them back. There are two kinds of pools.
///
/// A pool from [`BufferPool::new`] takes blocks from the heap and retains returned ones by size
/// class, so that steady traffic allocates nothing. It is bounded twice: at most `limit` bytes are
/// out at a time, and at most eight blocks a class are retained, of which the large ones only up to
/// `retain` bytes in all. [`BufferPool::with_address_space`] makes the same pool with blocks that
/// grow in place, if they are longer than 128 KiB.
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

impl BufferPool {
    /// A pool that lends at most `limit` bytes at a time and retains at most `retain` bytes for
    /// reuse.
    pub fn new(limit: usize, retain: usize) -> Arc<BufferPool> {
        BufferPool::with_blocks(limit, Retained::new(retain, None))
    }

    /// As [`BufferPool::new`]; blocks of more than 128 KiB lie in address space from `space`. One
    /// from [`take_growing`](Self::take_growing) occupies memory, and counts towards `limit`, only
    /// as far as it has [grown](Buffer::grow).
    pub fn with_address_space(
        limit: usize,
        retain: usize,
        space: &'static dyn AddressSpace,
    ) -> Arc<BufferPool> {
        BufferPool::with_blocks(limit, Retained::new(retain, Some(space)))
    }

    fn with_blocks(limit: usize, retained: Retained) -> Arc<BufferPool> {
        Arc::new(BufferPool { out: AtomicUsize::new(0), limit, blocks: Blocks::Retained(retained) })
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
        let block = match &self.blocks {
            Blocks::Reserved(reserved) => {
                let (first, words) = reserved.take(bytes)?;
                self.out.fetch_add(words * 8, Ordering::Relaxed);
                Block { first, words, most: words }
            }
            Blocks::Retained(retained) => {
                let (class, size) = class_of(bytes)?;
                self.count(size, || {
                    let mut block = retained.take(class).or_else(|| retained.fresh(size, size))?;
                    let whole = retained.commit(&mut block, size);
                    if !whole {
                        retained.give(block);
                    }
                    whole.then_some(block)
                })?
            }
        };
        Some(Buffer { block, pool: Some(self.clone()) })
    }

    /// A returned block of the class of `bytes`, if the pool has retained one: its memory is
    /// committed already. In address space it may be shorter than `bytes`, and
    /// [grows](Buffer::grow). Also `None` when the pool's limit would be passed. A reserved pool
    /// lends as [`take`](Self::take) does.
    ///
    /// # Real-time
    /// Lock-free, at most eight exchanges; never allocates. A block that is lent no more because of
    /// the limit is retained again, or released.
    pub fn take_retained(self: &Arc<Self>, bytes: usize) -> Option<Buffer> {
        let Blocks::Retained(retained) = &self.blocks else { return self.take(bytes) };
        let (class, _) = class_of(bytes)?;
        let block = retained.take(class)?;
        if self.count(block.words * 8, || Some(())).is_none() {
            retained.give(block);
            return None;
        }
        Some(Buffer { block, pool: Some(self.clone()) })
    }

    /// A block of at least `first` bytes that [grows](Buffer::grow) to `bytes` in place, where the
    /// pool has address space for blocks of that size. Else a block of `first` bytes, as
    /// [`take`](Self::take) lends it.
    ///
    /// # Real-time
    /// Two system calls in address space; its pages come when they are first written.
    pub fn take_growing(self: &Arc<Self>, bytes: usize, first: usize) -> Option<Buffer> {
        if let Blocks::Retained(retained) = &self.blocks
            && let Some((_, size)) = class_of(bytes)
            && let Some(committed) = retained.step(size, first)
            && let Some(block) = self.count(committed, || retained.fresh(size, committed))
        {
            return Some(Buffer { block, pool: Some(self.clone()) });
        }
        self.take(first)
    }

    /// Lends `bytes` by `take`, or takes them off the account again.
    fn count<T>(&self, bytes: usize, take: impl FnOnce() -> Option<T>) -> Option<T> {
        let lent = self.out.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit;
        let taken = if lent { take() } else { None };
        if taken.is_none() {
            self.out.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    #[cold]
    fn grow(&self, block: &mut Block, bytes: usize) -> bool {
        let Blocks::Retained(retained) = &self.blocks else { return false };
        let Some(to) = retained.step(block.most * 8, bytes) else { return false };
        self.count(to - block.words * 8, || retained.commit(block, to).then_some(())).is_some()
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
            Blocks::Retained(_) => self.limit.min(LARGEST),
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

    fn give(&self, block: Block) {
        self.out.fetch_sub(block.words * 8, Ordering::Relaxed);
        match &self.blocks {
            Blocks::Reserved(reserved) => reserved.give(block.first),
            Blocks::Retained(retained) => retained.give(block),
        }
    }
}

impl core::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BufferPool").field("out", &self.out()).field("limit", &self.limit).finish()
    }
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
        assert_eq!(retained.bytes(), 0, "8 KiB blocks pass the retention limit of 4 KiB");
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
            for (i, block) in all.iter().enumerate() {
                // As a whole: Miri takes minutes for them one by one.
                assert_eq!(block.bytes(), alloc::vec![i as u8; block.capacity()]);
            }
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
