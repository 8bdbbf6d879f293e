//! Memory that is reserved as addresses first, and occupied later.

use core::ptr::NonNull;

/// Ranges of addresses from the operating system, which this crate does not call: `isorb-rt` has
/// the one of Linux. A pool calls it only when no returned block serves.
///
/// # Real-time
/// Each method is a system call at least, and may wait for a lock of the system.
///
/// # Safety
/// A range from [`reserve`](Self::reserve) belongs to the caller alone until it is released, and
/// is aligned to 64 KiB or to a page, whichever is less. A committed part can be read and written
/// and is zero at first, until the range is released.
pub unsafe trait AddressSpace: Sync {
    /// Reserves `bytes` bytes of addresses, not to be used yet. `None` if the system refuses.
    fn reserve(&self, bytes: usize) -> Option<NonNull<u64>>;

    /// Makes `bytes` bytes from `first` usable; false if the system refuses.
    ///
    /// # Safety
    /// They lie in a range of `reserve`, and begin and end at multiples of 64 KiB from its start.
    unsafe fn commit(&self, first: NonNull<u64>, bytes: usize) -> bool;

    /// Returns a range with its memory.
    ///
    /// # Safety
    /// It was reserved here with this first word and this length, and is no longer used.
    unsafe fn release(&self, first: NonNull<u64>, bytes: usize);
}
