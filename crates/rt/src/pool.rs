//! A bounded pool of indices.

pub use isorb_scope::IndexPool;

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
        const ROUNDS: usize = if cfg!(miri) { 6 } else { 2_000 };
        let pool = IndexPool::new(THREADS * 33);
        let held: Vec<_> = (0..pool.capacity()).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    for round in 0..ROUNDS {
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
