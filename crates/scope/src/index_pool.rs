//! A bounded pool of indices.

use alloc::boxed::Box;
use core::fmt;
#[cfg(not(loom))]
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
#[cfg(loom)]
use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const BITS: usize = usize::BITS as usize;

/// Lends out the numbers below a limit, each to one holder at a time: indices of buffers, regions
/// and slots in an array. The lowest free number is lent first, which keeps the hot ones in the
/// cache.
///
/// Lock-free: a thread that is pre-empted in the middle of a call delays no other thread, whatever
/// its priority. There is no list, so no ABA problem. Writes to a slot before [`give`](Self::give)
/// are visible after the next [`take`](Self::take).
///
/// ```
/// let pool = isorb_scope::IndexPool::new(2);
/// let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
/// assert_eq!((a, b, pool.take()), (0, 1, None));
/// pool.give(a);
/// assert_eq!(pool.take(), Some(a));
/// ```
pub struct IndexPool {
    /// A permit for each free number. A thread with a permit will find a set bit, so `take` never
    /// fails just because numbers moved behind its search.
    permits: AtomicUsize,
    /// A set bit is a free number.
    free: Box<[AtomicUsize]>,
    capacity: usize,
}

impl IndexPool {
    /// A pool of the numbers below `capacity`.
    pub fn new(capacity: usize) -> Self {
        let free = (0..capacity.div_ceil(BITS)).map(|word| {
            let bits = (capacity - word * BITS).min(BITS);
            AtomicUsize::new(usize::MAX >> (BITS - bits))
        });
        IndexPool { permits: AtomicUsize::new(capacity), free: free.collect(), capacity }
    }

    /// A number without another holder, until it is given back; `None` if all are lent.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. Reads one machine word for each 64 numbers (32 on a machine of
    /// 32 bits), and again only if another thread took a number meanwhile.
    pub fn take(&self) -> Option<usize> {
        self.permits.fetch_update(Acquire, Relaxed, |free| free.checked_sub(1)).ok()?;
        loop {
            for (number, word) in self.free.iter().enumerate() {
                let mut seen = word.load(Relaxed);
                while seen != 0 {
                    let bit = seen & seen.wrapping_neg();
                    let before = word.fetch_and(!bit, AcqRel);
                    if before & bit != 0 {
                        return Some(number * BITS + bit.trailing_zeros() as usize);
                    }
                    seen = before & !bit;
                }
            }
            // Other threads took and gave numbers during the search.
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Gives a number back.
    ///
    /// # Panics
    /// If the number is not lent, or not below the capacity: the slot would get two holders.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; two atomic operations.
    pub fn give(&self, index: usize) {
        assert!(index < self.capacity, "number {index} is not from this pool of {}", self.capacity);
        let bit = 1 << (index % BITS);
        let before = self.free[index / BITS].fetch_or(bit, AcqRel);
        assert!(before & bit == 0, "number {index} was given back twice");
        self.permits.fetch_add(1, Release);
    }

    /// How many numbers there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many are free now.
    pub fn available(&self) -> usize {
        self.permits.load(Relaxed)
    }
}

impl fmt::Debug for IndexPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexPool")
            .field("available", &self.available())
            .field("capacity", &self.capacity)
            .finish()
    }
}
