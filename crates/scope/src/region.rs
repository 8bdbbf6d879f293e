//! The memory that a scope is entered in.

use crate::{BufferPool, Scope};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use core::mem::MaybeUninit;

/// A fixed block of memory, 8-aligned, that is entered as a [`Scope`] again and again.
///
/// The block is allocated once in [`Region::new`] (or lent by [`Region::from_static`]) and never
/// grows. A value that does not fit is refused, or, in a region made by [`Region::with_overflow`],
/// goes to blocks of a bounded pool that are returned when the scope is left.
pub struct Region {
    memory: Memory,
    overflow: Option<Arc<BufferPool>>,
    peak: usize,
}

enum Memory {
    Owned(Box<[MaybeUninit<u64>]>),
    Static(&'static mut [MaybeUninit<u64>]),
}

impl Region {
    /// A region of `bytes` bytes, rounded up to a multiple of 8.
    ///
    /// # Real-time
    /// Allocates: call it at start. Touch the pages with [`Region::prefault`] where a page fault
    /// would hurt later.
    pub fn new(bytes: usize) -> Region {
        let memory = Memory::Owned(vec![MaybeUninit::uninit(); bytes.div_ceil(8)].into());
        Region { memory, overflow: None, peak: 0 }
    }

    /// A region that takes blocks from `pool` for values that do not fit, each at least twice as
    /// long as the one before.
    ///
    /// # Real-time
    /// As [`Region::new`]. A scope that stays within `bytes` never touches the pool.
    pub fn with_overflow(bytes: usize, pool: Arc<BufferPool>) -> Region {
        Region { overflow: Some(pool), ..Region::new(bytes) }
    }

    /// A region over memory that lives for ever, for programs without a heap.
    pub fn from_static(memory: &'static mut [MaybeUninit<u64>]) -> Region {
        Region { memory: Memory::Static(memory), overflow: None, peak: 0 }
    }

    /// Enters the region. The exclusive borrow proves that no value of an earlier scope is still in
    /// use.
    ///
    /// # Real-time
    /// O(1), does not allocate or block.
    pub fn enter(&mut self) -> Scope<'_> {
        let Region { memory, overflow, peak } = self;
        let block: &mut [MaybeUninit<u64>] = match memory {
            Memory::Owned(block) => block,
            Memory::Static(block) => block,
        };
        Scope::over(block, overflow.as_ref(), peak)
    }

    /// Writes every page once, so that no later use takes a page fault.
    pub fn prefault(&mut self) {
        match &mut self.memory {
            Memory::Owned(block) => block.fill(MaybeUninit::new(0)),
            Memory::Static(block) => block.fill(MaybeUninit::new(0)),
        }
    }

    /// Address and length in bytes of its memory, for locking its pages.
    pub fn range(&self) -> (usize, usize) {
        let address = match &self.memory {
            Memory::Owned(block) => block.as_ptr().addr(),
            Memory::Static(block) => block.as_ptr().addr(),
        };
        (address, self.capacity())
    }

    /// Size in bytes.
    pub fn capacity(&self) -> usize {
        8 * match &self.memory {
            Memory::Owned(block) => block.len(),
            Memory::Static(block) => block.len(),
        }
    }

    /// The most bytes that any scope of this region has used, as known when the scope was left.
    pub fn peak(&self) -> usize {
        self.peak
    }
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region").field("capacity", &self.capacity()).field("peak", &self.peak).finish()
    }
}
