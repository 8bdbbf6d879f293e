//! A bounded pool of values that are written once and then shared.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;

use crate::pool::IndexPool;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::sync::cell::UnsafeCell;

/// Lends out values that are made beforehand. A caller takes a value, writes to it and shares it.
/// The value returns to the pool, unchanged, when the last share is dropped. So an event in many
/// queues is copied once and reference-counted.
///
/// ```
/// let pool = isorb_rt::counted::CountedPool::new(1, |_| [0u8; 4]);
/// let mut value = pool.take().unwrap();
/// value[0] = 7;
/// let shared = value.share();
/// let other = shared.clone();
/// drop(shared);
/// assert_eq!((other[0], pool.take().is_none()), (7, true));
/// drop(other);
/// assert!(pool.take().is_some());
/// ```
pub struct CountedPool<T> {
    shared: Arc<Slots<T>>,
}

struct Slots<T> {
    free: IndexPool,
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    shares: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: a slot that is lent has one `Unique` (which may be sent between threads) or shares, which
// give out `&T`.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}
// SAFETY: as for the values themselves.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> CountedPool<T> {
    /// A pool of `capacity` values, made here from their numbers.
    pub fn new(capacity: usize, mut make: impl FnMut(usize) -> T) -> Self {
        let slot = |i| Slot { shares: AtomicU32::new(0), value: UnsafeCell::new(make(i)) };
        let slots = (0..capacity).map(slot).collect();
        CountedPool { shared: Arc::new(Slots { free: IndexPool::new(capacity), slots }) }
    }

    /// A value with no other owner; `None` if all are lent.
    ///
    /// # Real-time
    /// As [`IndexPool::take`].
    pub fn take(&self) -> Option<Unique<T>> {
        let index = self.shared.free.take()?;
        self.shared.slots[index].shares.store(1, Relaxed);
        // The shares of a slot count for one handle of the pool, which the last one drops.
        let shared = Arc::into_raw(self.shared.clone());
        // SAFETY: the pointer of an `Arc` is not null.
        Some(Unique(Counted { shared: unsafe { NonNull::new_unchecked(shared.cast_mut()) }, index }))
    }

    /// How many are free now.
    pub fn available(&self) -> usize {
        self.shared.free.available()
    }

    /// How many there are.
    pub fn capacity(&self) -> usize {
        self.shared.free.capacity()
    }
}

impl<T> Clone for CountedPool<T> {
    /// Another handle of the same pool.
    fn clone(&self) -> Self {
        CountedPool { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for CountedPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.free.fmt(f)
    }
}

/// A value of a [`CountedPool`] that may still be written to.
pub struct Unique<T>(Counted<T>);

impl<T> Unique<T> {
    /// Makes the value read-only, so that it can be cloned.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    #[inline]
    pub fn share(self) -> Counted<T> {
        self.0
    }

    /// Makes the value read-only, with two shares: an atomic operation less than a share and its
    /// clone.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    #[inline]
    pub fn share_twice(self) -> [Counted<T>; 2] {
        let Unique(first) = self;
        // Its only share is here, so no other thread reads or writes the count.
        first.slot().shares.store(2, Relaxed);
        let second = Counted { shared: first.shared, index: first.index };
        [first, second]
    }
}

impl<T> Deref for Unique<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unique<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the pool lent the slot to this handle, and its count is the only one until it is
        // shared, and `&mut self` says that no other reference exists.
        self.0.slot().value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: fmt::Debug> fmt::Debug for Unique<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A share of a value of a [`CountedPool`].
pub struct Counted<T> {
    /// The pool. It lives as long as a slot has shares: they count for one handle of it.
    shared: NonNull<Slots<T>>,
    index: usize,
}

// SAFETY: a share gives out `&T` to any thread, and drops the pool with its values where it is the
// last one.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// Whether both are shares of one value.
    #[inline]
    pub fn same(a: &Self, b: &Self) -> bool {
        a.index == b.index && a.shared == b.shared
    }

    #[inline]
    fn slots(&self) -> &Slots<T> {
        // SAFETY: the slot has this share, so the pool lives.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    fn slot(&self) -> &Slot<T> {
        &self.slots().slots[self.index]
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: while there are shares no `Unique` of the slot exists, so no thread writes.
        self.slot().value.with(|value| unsafe { &*value })
    }
}

impl<T> Clone for Counted<T> {
    /// # Real-time
    /// Neither allocates nor blocks; one atomic addition.
    #[inline]
    fn clone(&self) -> Self {
        self.slot().shares.fetch_add(1, Relaxed);
        Counted { shared: self.shared, index: self.index }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        if self.slot().shares.fetch_sub(1, AcqRel) == 1 {
            self.slots().free.give(self.index);
            // SAFETY: from `Arc::into_raw` in `take`, and this was the last share of the slot, so
            // nothing uses the pointer any more.
            drop(unsafe { Arc::from_raw(self.shared.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_with_the_last_share() {
        let pool = CountedPool::new(2, |i| i);
        let (mut a, b) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        *a = 9;
        let a = a.share();
        let c = a.clone();
        assert!(Counted::same(&a, &c));
        drop((a, b));
        assert_eq!((pool.available(), *c), (1, 9));
        drop(c);
        assert_eq!((pool.available(), pool.capacity()), (2, 2));
    }

    #[test]
    fn two_shares_are_those_of_a_share_and_its_clone() {
        let pool = CountedPool::new(1, |i| i);
        let mut value = pool.take().unwrap();
        *value = 9;
        let [a, b] = value.share_twice();
        assert!(Counted::same(&a, &b) && *b == 9);
        let c = b.clone();
        drop((a, b));
        assert_eq!((pool.available(), *c), (0, 9));
        drop(c);
        assert_eq!(pool.available(), 1);
    }

    #[test]
    fn shares_outlive_the_pool() {
        let value = Arc::new(());
        let pool = CountedPool::new(2, |_| value.clone());
        let [a, b] = pool.take().unwrap().share_twice();
        let other = pool.take().unwrap().share();
        drop((pool, a));
        assert_eq!(Arc::strong_count(&value), 3, "two shares live");
        drop(other);
        assert_eq!(Arc::strong_count(&*b), 3);
        drop(b);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    /// Miri runs it too, and reports a value that is taken while another thread reads it.
    #[test]
    fn threads_take_share_and_drop_values() {
        const ROUNDS: usize = if cfg!(miri) { 8 } else { 5_000 };
        let pool = CountedPool::new(2, |_| 0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let pool = pool.clone();
                let (sent, shares) = std::sync::mpsc::channel::<(usize, Counted<usize>)>();
                scope.spawn(move || shares.iter().for_each(|(number, share)| assert_eq!(*share, number)));
                scope.spawn(move || {
                    for number in (0..ROUNDS).map(|round| thread + 10 * round) {
                        let mut value = loop {
                            match pool.take() {
                                Some(value) => break value,
                                None => std::thread::yield_now(),
                            }
                        };
                        *value = number;
                        let [own, other] = value.share_twice();
                        sent.send((number, other)).unwrap();
                        assert_eq!(*own.clone(), number);
                    }
                });
            }
        });
        assert_eq!(pool.available(), 2);
    }

    #[test]
    fn the_pool_ends_with_its_last_handle() {
        let value = Arc::new(());
        let pool = CountedPool::new(1, |_| value.clone());
        let share = pool.take().unwrap().share();
        drop(pool);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(share);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;

    /// One slot: all reads of the last holders must happen before the next holder takes it.
    #[test]
    fn loom_counted_last_share_gives_back() {
        loom::model(|| {
            let pool = CountedPool::new(1, |_| 0);
            let mut value = pool.take().unwrap();
            *value = 1;
            let share = value.share();
            let other = share.clone();
            let t = thread::spawn(move || assert_eq!(*other, 1));
            assert_eq!(*share, 1);
            drop(share);
            if let Some(mut next) = pool.take() {
                *next = 2;
            }
            t.join().unwrap();
            assert_eq!(pool.available(), 1);
        });
    }

    /// Two shares of two threads, without a handle of the pool: the last one drops the pool, after
    /// the reads of the other.
    #[test]
    fn loom_counted_last_share_drops_the_pool() {
        loom::model(|| {
            let pool = CountedPool::new(1, |_| 0);
            let mut value = pool.take().unwrap();
            *value = 1;
            let [one, other] = value.share_twice();
            drop(pool);
            let t = thread::spawn(move || {
                assert_eq!(*other, 1);
                drop(other);
            });
            assert_eq!(*one, 1);
            drop(one);
            t.join().unwrap();
        });
    }
}
