//! Memory that is resident before it is used.

use core::hint::black_box;
use core::ptr;

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlock, mlockall, munlockall};

/// How [`lock_memory`] treats pages that were not touched yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryLock {
    /// Makes every page resident now, and those of later mappings when they are made: no page fault
    /// from then on. The process takes the memory that it has reserved, each thread's whole stack
    /// included.
    All,
    /// Keeps resident what has been touched: the first touch faults, none after it. Fits a small
    /// process that touches what it needs at start ([`prefault_stack`]).
    OnFault,
}

/// Locks the pages of the process, present and future, so that they are never written to disk or
/// dropped.
///
/// Without `CAP_IPC_LOCK`, the limit `RLIMIT_MEMLOCK` holds for later mappings too: one beyond it
/// fails, as an allocation or as the start of a thread. [`RealTime`](super::RealTime) insists on no
/// limit for this reason.
///
/// # Errors
/// `PERM` (the limit is 0), `NOMEM` or `AGAIN` (the limit or the memory does not suffice).
///
/// # Real-time
/// Blocks until the pages are there. For start-up.
pub fn lock_memory(lock: MemoryLock) -> Result<(), Errno> {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    mlockall(match lock {
        MemoryLock::All => flags,
        MemoryLock::OnFault => flags | MlockAllFlags::ONFAULT,
    })
}

/// Undoes [`lock_memory`].
///
/// # Errors
/// `PERM`, where a sandbox forbids the call.
pub fn unlock_memory() -> Result<(), Errno> {
    munlockall()
}

/// Locks the pages that these bytes lie in: they are read in now, and stay in memory until they are
/// unmapped.
///
/// # Errors
/// `NOMEM` (beyond `RLIMIT_MEMLOCK`, or not mapped), `PERM` (the limit is 0), `AGAIN`.
///
/// # Real-time
/// Blocks until the pages are there. For start-up.
pub fn lock_range(address: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the call changes no octet, and the kernel checks the range.
    unsafe { mlock(ptr::without_provenance_mut(address), bytes) }
}

/// Touches the next `bytes` of the calling thread's stack, or what is left of it but for a reserve,
/// so that using them later does not fault. Says how many bytes it touched.
///
/// # Real-time
/// Faults the pages in, so takes a microsecond a page or so. For a thread's start.
pub fn prefault_stack(bytes: usize) -> usize {
    let mark = 0u8;
    let here = (&raw const mark) as usize;
    let left = stack_bottom().map_or(0, |bottom| here.saturating_sub(bottom));
    let bytes = bytes.min(left.saturating_sub(STACK_RESERVE));
    touch(here - bytes);
    bytes
}

/// The reserve: the frames of this module, and the guard pages at the end of the stack.
const STACK_RESERVE: usize = 64 * 1024;
const PAGE: usize = 4096;

/// Recurses until the frame lies below `until`, writing each page on the way.
#[inline(never)]
fn touch(until: usize) {
    let mut frame = [0u8; PAGE];
    // SAFETY: writes a local variable. Volatile, so that the frame is there and the page is
    // written.
    unsafe { ptr::write_volatile(&raw mut frame[0], 1) };
    if (&raw const frame) as usize > until {
        touch(until);
    }
    // After the call, so that the compiler does not turn it into a jump.
    black_box(&mut frame);
}

/// The lowest address of the calling thread's stack.
fn stack_bottom() -> Option<usize> {
    // SAFETY: the structure is plain data that pthread_getattr_np fills; what it may have allocated
    // is freed by pthread_attr_destroy; getstack writes the two variables it is given.
    unsafe {
        let mut attr: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attr) != 0 {
            return None;
        }
        let (mut bottom, mut size) = (ptr::null_mut(), 0);
        let r = libc::pthread_attr_getstack(&attr, &mut bottom, &mut size);
        libc::pthread_attr_destroy(&mut attr);
        (r == 0).then_some(bottom as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_stack_is_resident_afterwards() {
        const ASK: usize = 512 * 1024;
        std::thread::Builder::new()
            .stack_size(1024 * 1024)
            .spawn(|| {
                let done = prefault_stack(ASK);
                assert_eq!(done, ASK);
                let before = minor_faults();
                touch((&raw const before) as usize - ASK / 2);
                assert_eq!(minor_faults(), before, "no page of it faults a second time");
                // More than the stack: prefaulting stops before the guard. (The library may reuse a
                // larger stack of another thread.)
                assert!(prefault_stack(usize::MAX) > ASK);
            })
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn memory_is_locked_where_that_is_allowed() {
        match lock_memory(MemoryLock::OnFault) {
            Ok(()) => {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let locked = status.lines().find(|l| l.starts_with("VmLck:")).unwrap();
                assert!(!locked.contains(" 0 kB"), "{locked}");
                unlock_memory().unwrap();
            }
            Err(e) => println!("skipped: memory may not be locked here: {e}"),
        }
    }

    #[test]
    fn a_range_is_locked_where_that_is_allowed() {
        let memory = vec![1u8; 64 << 10];
        match lock_range(memory.as_ptr().addr(), memory.len()) {
            Ok(()) => assert!(memory.iter().all(|octet| *octet == 1)),
            Err(e) => println!("skipped: memory may not be locked here: {e}"),
        }
        assert_eq!(lock_range(PAGE, PAGE), Err(Errno::NOMEM), "no page there");
    }

    fn minor_faults() -> i64 {
        // SAFETY: getrusage fills the plain structure it is given.
        unsafe {
            let mut usage: libc::rusage = core::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
            usage.ru_minflt
        }
    }
}
