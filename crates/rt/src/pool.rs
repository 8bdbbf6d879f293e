//! A bounded pool of indices.

use core::fmt;

use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU64, AtomicUsize};

const BITS: usize = u64::BITS as usize;

/// Lends out the numbers below a limit, each to one holder at a time: indices of buffers, regions
/// and slots in an array. The lowest free number is lent first, which keeps the hot ones in the
/// cache.
///
/// Lock-free: a thread that is pre-empted in the middle of a call delays no other thread, whatever
/// its priority. There is no list, so no ABA problem. Writes to a slot before [`give`](Self::give)
/// are visible after the next [`take`](Self::take).
///
/// ```
/// let pool = isorb_rt::pool::IndexPool::new(2);
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
    free: Box<[AtomicU64]>,
    capacity: usize,
}

impl IndexPool {
    /// A pool of the numbers below `capacity`.
    pub fn new(capacity: usize) -> Self {
        let free = (0..capacity.div_ceil(BITS)).map(|word| {
            let bits = (capacity - word * BITS).min(BITS);
            AtomicU64::new(u64::MAX >> (BITS - bits))
        });
        IndexPool { permits: AtomicUsize::new(capacity), free: free.collect(), capacity }
    }

    /// A number without another holder, until it is given back; `None` if all are lent.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. Reads one word for each 64 numbers, and again only if another
    /// thread took a number meanwhile.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn all_numbers_are_lent_once() {
        for capacity in [0, 1, 63, 64, 65, 200] {
            let pool = IndexPool::new(capacity);
            let taken: HashSet<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!(taken, (0..capacity).collect());
            assert_eq!(pool.available(), 0);
            taken.into_iter().for_each(|i| pool.give(i));
            assert_eq!(pool.available(), capacity);
        }
    }

    #[test]
    fn numbers_that_are_not_lent_cannot_be_given() {
        let pool = IndexPool::new(3);
        let give = |i| catch_unwind(AssertUnwindSafe(|| pool.give(i)));
        assert!(give(0).is_err());
        assert!(give(3).is_err());
        assert!(give(usize::MAX).is_err());
        assert_eq!(pool.take(), Some(0));
        assert!(give(0).is_ok());
        assert_eq!(pool.available(), 3);
    }

    #[test]
    fn threads_never_share_a_number_nor_miss_a_free_one() {
        // As many numbers as the threads need at once, so no take may fail.
        const THREADS: usize = 4;
        let pool = IndexPool::new(THREADS * 33);
        let held: Vec<_> = (0..pool.capacity()).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    for round in 0..2_000 {
                        let mine: Vec<_> = (0..1 + round % 33).map(|_| pool.take().unwrap()).collect();
                        for &i in &mine {
                            assert!(!held[i].swap(true, Ordering::Relaxed));
                        }
                        for i in mine {
                            held[i].store(false, Ordering::Relaxed);
                            pool.give(i);
                        }
                    }
                });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::sync::cell::UnsafeCell;

    /// Two threads and two numbers: neither is ever refused, and loom sees a data race if they
    /// share one or if a number's next holder does not see what the last one wrote.
    fn lend(rounds: usize) {
        let s = Arc::new((IndexPool::new(2), [UnsafeCell::new(0), UnsafeCell::new(0)]));
        let work = move |s: &(IndexPool, [UnsafeCell<usize>; 2])| {
            for _ in 0..rounds {
                let i = s.0.take().expect("one for each");
                // SAFETY: the pool lent the number to this thread only; the test checks that.
                s.1[i].with_mut(|p| unsafe { *p += 1 });
                s.0.give(i);
            }
        };
        let t = Arc::clone(&s);
        let other = thread::spawn(move || work(&t));
        work(&s);
        other.join().unwrap();
        // SAFETY: no other thread is left.
        let sum: usize = s.1.iter().map(|c| c.with(|p| unsafe { *p })).sum();
        assert_eq!((sum, s.0.available()), (2 * rounds, 2));
    }

    #[test]
    fn loom_pool_lends_exclusively() {
        loom::model(|| lend(1));
    }

    /// More rounds are too many interleavings; those with few pre-emptions.
    #[test]
    fn loom_pool_lends_exclusively_again() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| lend(2));
    }

    #[test]
    fn loom_pool_of_one_refuses_the_second() {
        loom::model(|| {
            let pool = Arc::new(IndexPool::new(1));
            let p = Arc::clone(&pool);
            let t = thread::spawn(move || p.take());
            let (mine, theirs) = (pool.take(), t.join().unwrap());
            assert!(matches!((mine, theirs), (Some(0), None) | (None, Some(0))));
        });
    }
}
