//! Memory that is reserved as addresses first, and occupied later.

use core::ptr::{NonNull, null_mut};

use isorb_scope::AddressSpace;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The address space of the process, for blocks that grow without being moved
/// ([`isorb_scope::BufferPool::with_address_space`]).
///
/// Reserved ranges take no memory, whatever the kernel's policy of overcommitment. Committed pages
/// come when they are first written. In a process that has locked its memory with
/// [`MemoryLock::All`](super::MemoryLock::All) they come when they are committed, and reserved
/// ranges count towards `RLIMIT_MEMLOCK`.
///
/// # Real-time
/// Each method is one system call that takes the lock of the process' memory map.
#[derive(Debug)]
pub struct ProcessAddressSpace;

// SAFETY: an anonymous private mapping belongs to the process alone, begins at a page, is zero at
// first, and can be used where `commit` has changed its protection.
unsafe impl AddressSpace for ProcessAddressSpace {
    fn reserve(&self, bytes: usize) -> Option<NonNull<u64>> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let first = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags) };
        NonNull::new(first.ok()?.cast())
    }

    unsafe fn commit(&self, first: NonNull<u64>, bytes: usize) -> bool {
        let protection = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: pages of a mapping of ours, as the caller promises; access is only added.
        unsafe { mprotect(first.as_ptr().cast(), bytes, protection) }.is_ok()
    }

    unsafe fn release(&self, first: NonNull<u64>, bytes: usize) {
        // SAFETY: a whole mapping of ours that is no longer used, as the caller promises. Only a
        // range that is no mapping would be refused.
        let _ = unsafe { munmap(first.as_ptr().cast(), bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use isorb_scope::BufferPool;

    /// How many of the bytes lie in memory, in whole pages.
    fn resident(first: *const u8, bytes: usize) -> usize {
        // SAFETY: sysconf reads a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut pages = vec![0u8; bytes.div_ceil(page)];
        // SAFETY: the vector has one octet for each page, and the range begins at a page.
        let failed = unsafe { libc::mincore(first.cast_mut().cast(), bytes, pages.as_mut_ptr()) };
        assert_eq!(failed, 0);
        page * pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn memory_comes_with_the_octets_and_not_with_the_reservation() {
        const MOST: usize = 64 << 20;
        let pool = BufferPool::with_address_space(1 << 30, 0, &ProcessAddressSpace);
        // More than this machine has, and more than the pool lends.
        let mut blocks: Vec<_> = (0..1000).map(|_| pool.take_growing(MOST, 1).unwrap()).collect();
        let step = blocks[0].capacity();
        assert_eq!(pool.out(), 1000 * step);
        let block = &mut blocks[7];
        let at = block.bytes().as_ptr();
        assert_eq!(resident(at, MOST), 0);
        let mut written = 0;
        while block.grow(written + 1) && written < 8 << 20 {
            assert!(block.bytes()[written..].iter().all(|octet| *octet == 0));
            let end = block.capacity();
            block.bytes_mut()[written..end].fill(1);
            written = end;
            assert_eq!((block.bytes().as_ptr(), resident(at, MOST)), (at, written));
        }
        assert_eq!((written, pool.out()), (8 << 20, 999 * step + block.capacity()));
        drop(blocks);
        assert_eq!(pool.out(), 0);
    }
}
