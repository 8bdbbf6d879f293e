//! An allocator that counts, to show that a path allocates nothing.
//!
//! A test binary installs it and asks for the allocations of a piece of work:
//!
//! ```
//! use isorb_rt::alloc_count::{CountingAllocator, allocations_during};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let mut values = Vec::with_capacity(8);
//! assert_eq!(allocations_during(|| values.push(1)), 0);
//! assert!(allocations_during(|| drop(Box::new(1))) > 0);
//! ```
//!
//! Where the count is not zero, [`trap_allocations`] shows which code allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting calls that may take memory: allocations and reallocations.
/// Freeing is not counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

static PROCESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Plain data without destructors, so that the allocator may use them at any time.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    static TRAP: Cell<bool> = const { Cell::new(false) };
}

/// Allocations of this thread since it started.
pub fn thread_allocations() -> u64 {
    THREAD.get()
}

/// Allocations of all threads since the process started.
pub fn process_allocations() -> u64 {
    PROCESS.load(Ordering::Relaxed)
}

/// Calls `f` and says how often this thread allocated meanwhile. What other threads do is not
/// counted; compare [`process_allocations`] for that. Without [`CountingAllocator`] installed it is
/// always 0, so a test first checks that something counts.
pub fn allocations_during<R>(f: impl FnOnce() -> R) -> u64 {
    let before = thread_allocations();
    let result = f();
    let count = thread_allocations() - before;
    drop(result);
    count
}

/// Calls `f`; if this thread allocates meanwhile, prints where and aborts the process. For finding
/// what [`allocations_during`] has counted.
pub fn trap_allocations<R>(f: impl FnOnce() -> R) -> R {
    let _trap = AllocationTrap::arm();
    f()
}

/// While it lives, an allocation of this thread prints where it happened and aborts the process.
#[derive(Debug)]
pub struct AllocationTrap {
    before: bool,
    /// It stays on its thread.
    here: PhantomData<*const ()>,
}

impl AllocationTrap {
    /// Arms the trap of the calling thread.
    pub fn arm() -> AllocationTrap {
        AllocationTrap { before: TRAP.replace(true), here: PhantomData }
    }
}

impl Drop for AllocationTrap {
    fn drop(&mut self) {
        TRAP.set(self.before);
    }
}

/// Whether [`CountingAllocator`] is the allocator of this process.
pub fn is_installed() -> bool {
    allocations_during(|| drop(std::hint::black_box(Box::new(0u64)))) > 0
}

// SAFETY: everything is left to the system's allocator; counting touches no memory of the
// allocator, cannot unwind and does not allocate, but for the trap, which is taken out before it
// does and never returns.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the promises of GlobalAlloc::alloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, new_size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[inline]
fn count(size: usize) {
    PROCESS.fetch_add(1, Ordering::Relaxed);
    // A thread that is ending may allocate after its thread-locals; it is counted for the process
    // only.
    let _ = THREAD.try_with(|n| n.set(n.get() + 1));
    if TRAP.try_with(|t| t.replace(false)).unwrap_or(false) {
        trapped(size);
    }
}

#[cold]
fn trapped(size: usize) -> ! {
    eprintln!("isorb-rt: {size} bytes allocated where nothing may be:\n{}", Backtrace::force_capture());
    std::process::abort();
}
