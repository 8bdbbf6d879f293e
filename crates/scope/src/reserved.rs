//! Blocks of fixed sizes in memory that is allocated once.

use crate::IndexPool;
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;

/// Alignment of the memory and of every block: a page.
const PAGE: usize = 4096;

/// The blocks of a pool that never grows, in one piece of memory.
pub(crate) struct Reserved {
    first: NonNull<u64>,
    layout: Layout,
    /// The smallest blocks first.
    classes: Box<[Class]>,
}

/// Blocks of one size.
struct Class {
    /// Size of a block in bytes.
    size: usize,
    /// Offset of the first block in bytes.
    at: usize,
    free: IndexPool,
}

// SAFETY: the memory is reached through blocks only, and the index pools lend each to one holder.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

impl Reserved {
    /// Reserves blocks, given as sizes in bytes with their numbers, and writes every page of them.
    /// `None` if there is not enough memory.
    pub fn new(blocks: &[(usize, usize)]) -> Option<Reserved> {
        let mut sorted: Vec<_> = blocks.iter().filter(|(size, count)| *size > 0 && *count > 0).collect();
        sorted.sort_unstable();
        let mut total = 0usize;
        let mut classes = Vec::with_capacity(sorted.len());
        for (size, count) in sorted {
            let size = size.checked_next_multiple_of(PAGE)?;
            let at = total;
            total = total.checked_add(size.checked_mul(*count)?)?;
            classes.push(Class { size, at, free: IndexPool::new(*count) });
        }
        let layout = Layout::from_size_align(total.max(PAGE), PAGE).ok()?;
        // SAFETY: the layout has a size, a page at least.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        for page in (0..layout.size()).step_by(PAGE) {
            // SAFETY: inside of the memory, which is no block yet. Volatile, so that each page is
            // written although it is known to be zero.
            unsafe { first.add(page).write_volatile(0) };
        }
        Some(Reserved { first: first.cast(), layout, classes: classes.into() })
    }

    /// The smallest free block of at least `bytes` bytes: its first word and its length in words.
    pub fn take(&self, bytes: usize) -> Option<(NonNull<u64>, usize)> {
        self.classes.iter().filter(|class| class.size >= bytes).find_map(|class| {
            let index = class.free.take()?;
            // SAFETY: the offset of a block of this class, inside of the memory.
            let first = unsafe { self.first.byte_add(class.at + index * class.size) };
            Some((first, class.size / 8))
        })
    }

    /// Takes a block back.
    pub fn give(&self, first: NonNull<u64>) {
        let at = first.addr().get() - self.first.addr().get();
        // The last class that begins at or before the block.
        if let Some(class) = self.classes.iter().rev().find(|class| class.at <= at) {
            class.free.give((at - class.at) / class.size);
        }
    }

    /// Size of the largest block in bytes.
    pub fn largest(&self) -> usize {
        self.classes.last().map_or(0, |class| class.size)
    }

    /// How many blocks of at least `bytes` bytes are free.
    pub fn available(&self, bytes: usize) -> usize {
        self.classes.iter().filter(|class| class.size >= bytes).map(|class| class.free.available()).sum()
    }

    /// Where the memory begins, and its length in bytes.
    pub fn range(&self) -> (NonNull<u64>, usize) {
        (self.first, self.layout.size())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. Blocks that are lent hold the pool, so none
        // is.
        unsafe { dealloc(self.first.as_ptr().cast(), self.layout) }
    }
}
