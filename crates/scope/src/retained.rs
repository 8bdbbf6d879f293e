//! Returned blocks by size class, and the origin of new ones: the heap, or address space.

use crate::AddressSpace;
use crate::buffer::Block;
use alloc::boxed::Box;
use alloc::vec;
use core::ptr::{NonNull, slice_from_raw_parts_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Smallest class: 4 KiB. Class `i` holds blocks of `4096 << i` bytes.
const SMALLEST: usize = 4096;
/// 4 KiB to 64 MiB.
const CLASSES: usize = 15;
/// Size of the blocks of the last class.
pub(crate) const LARGEST: usize = SMALLEST << (CLASSES - 1);
/// Blocks of one class that a pool retains.
const PER_CLASS: usize = 8;
/// Classes from this size lie in address space, where the pool has any.
const GROWING: usize = 256 << 10;
/// Blocks grow by multiples of this: the largest page of any processor that Linux runs on.
const STEP: usize = 64 << 10;

/// Returned blocks, by class.
pub(crate) struct Retained {
    classes: [[AtomicPtr<u64>; PER_CLASS]; CLASSES],
    /// Bytes of the retained blocks, as far as they have grown.
    bytes: AtomicUsize,
    most: usize,
    space: Option<&'static dyn AddressSpace>,
}

impl Retained {
    pub fn new(most: usize, space: Option<&'static dyn AddressSpace>) -> Retained {
        let classes = [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; PER_CLASS] }; CLASSES];
        Retained { classes, bytes: AtomicUsize::new(0), most, space }
    }

    /// Bytes that are retained now.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The address space of blocks of `size` bytes, a class.
    fn space(&self, size: usize) -> Option<&'static dyn AddressSpace> {
        self.space.filter(|_| size >= GROWING)
    }

    /// The size of a growing block of the class that is to have `bytes` bytes: whole steps. `None`
    /// for blocks that do not grow, or are shorter.
    pub fn step(&self, size: usize, bytes: usize) -> Option<usize> {
        self.space(size)?;
        bytes.checked_next_multiple_of(STEP).filter(|bytes| *bytes <= size)
    }

    /// A retained block of the class. In address space it has its length from before.
    pub fn take(&self, class: usize) -> Option<Block> {
        let first = self.classes[class].iter().find_map(|slot| {
            if slot.load(Ordering::Relaxed).is_null() {
                return None;
            }
            // The swap took it out, so it is ours alone.
            NonNull::new(slot.swap(core::ptr::null_mut(), Ordering::Acquire))
        })?;
        // SAFETY: stored by `give` in the slots of this class.
        let block = unsafe { self.stored(first, class) };
        self.bytes.fetch_sub(block.words * 8, Ordering::Relaxed);
        Some(block)
    }

    /// # Safety
    /// `give` stored the block with this first word in a slot of this class, and it has no owner.
    unsafe fn stored(&self, first: NonNull<u64>, class: usize) -> Block {
        let most = (SMALLEST << class) / 8;
        let words = match self.space(most * 8) {
            // SAFETY: `give` wrote the length there.
            Some(_) => unsafe { first.read() as usize },
            None => most,
        };
        Block { first, words, most }
    }

    /// A new block of `size` bytes, a class, of which the first `committed` bytes are there.
    pub fn fresh(&self, size: usize, committed: usize) -> Option<Block> {
        let Some(space) = self.space(size) else { return Some(from_heap(size / 8)) };
        let first = space.reserve(size)?;
        let mut block = Block { first, words: 0, most: size / 8 };
        if !self.commit(&mut block, committed) {
            // SAFETY: reserved above with this length, and not used.
            unsafe { space.release(first, size) };
            return None;
        }
        Some(block)
    }

    /// Makes a block `bytes` long, a multiple of the step, unless it is longer already. A block
    /// that stays too short stays as it is.
    pub fn commit(&self, block: &mut Block, bytes: usize) -> bool {
        let present = block.words * 8;
        if bytes <= present {
            return true;
        }
        let Some(space) = self.space(block.most * 8).filter(|_| bytes <= block.most * 8) else {
            return false;
        };
        // SAFETY: inside of a block that this space reserved, behind what is in use.
        let done = unsafe { space.commit(block.first.byte_add(present), bytes - present) };
        if done {
            block.words = bytes / 8;
        }
        done
    }

    /// Retains a block, or returns it to the heap or the system.
    pub fn give(&self, block: Block) {
        let size = block.words * 8;
        let class = class_of(block.most * 8).map(|(class, _)| class);
        let kept = class.is_some_and(|class| {
            let fits = self.bytes.fetch_add(size, Ordering::Relaxed) + size <= self.most;
            if fits && self.space(block.most * 8).is_some() {
                // SAFETY: the first word of a block without another owner.
                unsafe { block.first.write(block.words as u64) };
            }
            let empty = core::ptr::null_mut();
            let store = |slot: &AtomicPtr<u64>| {
                slot.compare_exchange(empty, block.first.as_ptr(), Ordering::Release, Ordering::Relaxed)
                    .is_ok()
            };
            let stored = fits && self.classes[class].iter().any(store);
            if !stored {
                self.bytes.fetch_sub(size, Ordering::Relaxed);
            }
            stored
        });
        if !kept {
            // SAFETY: it is one of `fresh`, and was stored nowhere.
            unsafe { self.release(block) }
        }
    }

    /// # Safety
    /// The block is one of [`Retained::fresh`], and has no other owner.
    unsafe fn release(&self, block: Block) {
        match self.space(block.most * 8) {
            // SAFETY: as the caller promises.
            Some(space) => unsafe { space.release(block.first, block.most * 8) },
            // SAFETY: as the caller promises; a block of the heap does not grow.
            None => unsafe { to_heap(block) },
        }
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while let Some(block) = self.take(class) {
                // SAFETY: as in `give`; it was taken out.
                unsafe { self.release(block) }
            }
        }
    }
}

pub(crate) fn class_of(bytes: usize) -> Option<(usize, usize)> {
    let size = bytes.max(SMALLEST).checked_next_power_of_two()?;
    let class = (size / SMALLEST).trailing_zeros() as usize;
    (class < CLASSES).then_some((class, size))
}

pub(crate) fn from_heap(words: usize) -> Block {
    let block: Box<[u64]> = vec![0; words].into();
    // A box is not null.
    let first = NonNull::from(Box::leak(block)).cast();
    Block { first, words, most: words }
}

/// # Safety
/// The block came from [`from_heap`], and has no other owner.
pub(crate) unsafe fn to_heap(block: Block) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(block.first.as_ptr(), block.words)) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferPool;
    use alloc::alloc::{Layout, alloc_zeroed, dealloc};

    /// Memory of the heap as address space; says how much of it is committed.
    #[derive(Default)]
    struct Recorded {
        reserved: AtomicUsize,
        committed: AtomicUsize,
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 4096).unwrap()
    }

    // SAFETY: the heap gives memory to one owner, and it is accessible at once.
    unsafe impl AddressSpace for Recorded {
        fn reserve(&self, bytes: usize) -> Option<NonNull<u64>> {
            self.reserved.fetch_add(bytes, Ordering::Relaxed);
            // SAFETY: not of size 0.
            NonNull::new(unsafe { alloc_zeroed(layout(bytes)) }).map(NonNull::cast)
        }
        unsafe fn commit(&self, _: NonNull<u64>, bytes: usize) -> bool {
            self.committed.fetch_add(bytes, Ordering::Relaxed);
            true
        }
        unsafe fn release(&self, first: NonNull<u64>, bytes: usize) {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            // SAFETY: from `reserve`, with this length.
            unsafe { dealloc(first.as_ptr().cast(), layout(bytes)) };
        }
    }

    #[test]
    fn a_block_grows_in_place_and_counts_as_far_as_it_has_grown() {
        let space: &'static Recorded = Box::leak(Box::default());
        let pool = BufferPool::with_address_space(2 << 20, 1 << 20, space);
        let mut block = pool.take_growing(3 << 20, 100_000).unwrap();
        let at = block.bytes().as_ptr();
        assert_eq!((block.capacity(), block.capacity_in_place()), (128 << 10, 4 << 20));
        block.bytes_mut().fill(7);
        for bytes in [128 << 10, 200_000, 1 << 20] {
            assert!(block.grow(bytes) && block.capacity() >= bytes);
            assert_eq!((block.bytes().as_ptr(), pool.out()), (at, block.capacity()));
            assert_eq!(space.committed.load(Ordering::Relaxed), block.capacity());
        }
        assert_eq!(block.bytes()[..128 << 10], vec![7; 128 << 10]);
        assert!(!block.grow((2 << 20) + 1), "the limit of the pool");
        assert!(!block.grow((4 << 20) + 1), "the end of the address space");
        assert_eq!((pool.out(), block.capacity()), (1 << 20, 1 << 20));
        // It comes back with its length, and another one does not fit the retention limit.
        let other = pool.take_growing(3 << 20, 1).unwrap();
        drop((block, other));
        assert_eq!((pool.out(), space.reserved.load(Ordering::Relaxed)), (0, 4 << 20));
        let again = pool.take_retained(4 << 20).unwrap();
        assert_eq!((again.bytes().as_ptr(), again.capacity(), pool.out()), (at, 1 << 20, 1 << 20));
        assert!(pool.take_retained(4 << 20).is_none());
        drop(again);
        // A whole block takes the retained one, and the rest of it.
        let pool_of_8 = BufferPool::with_address_space(8 << 20, 8 << 20, space);
        drop(pool_of_8.take_growing(1 << 20, 1).unwrap());
        assert_eq!(pool_of_8.take(600_000).unwrap().capacity(), 1 << 20);
        drop((pool, pool_of_8));
        assert_eq!(space.reserved.load(Ordering::Relaxed), 0, "everything is released");
    }

    #[test]
    fn a_retained_block_beyond_the_limit_is_not_lent() {
        let space: &'static Recorded = Box::leak(Box::default());
        let pool = BufferPool::with_address_space(1 << 20, 1 << 20, space);
        drop(pool.take(1 << 20).unwrap());
        let small = pool.take_growing(8192, 100).unwrap();
        assert_eq!((small.capacity(), small.capacity_in_place()), (4096, 4096), "of the heap");
        assert!(pool.take_retained(1 << 20).is_none() && pool.take(1 << 20).is_none());
        assert_eq!(pool.out(), 4096);
        drop(small);
        assert!(pool.take_retained(1 << 20).is_some());
    }
}
