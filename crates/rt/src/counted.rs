//! A bounded pool of values that are written once and then shared.

use core::fmt;
use core::ops::{Deref, DerefMut};
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
        Some(Unique(Counted { shared: self.shared.clone(), index }))
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
        self.0.shared.slots[self.0.index].value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: fmt::Debug> fmt::Debug for Unique<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A share of a value of a [`CountedPool`].
pub struct Counted<T> {
    shared: Arc<Slots<T>>,
    index: usize,
}

impl<T> Counted<T> {
    /// Whether both are shares of one value.
    #[inline]
    pub fn same(a: &Self, b: &Self) -> bool {
        a.index == b.index && Arc::ptr_eq(&a.shared, &b.shared)
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: while there are shares no `Unique` of the slot exists, so no thread writes.
        self.shared.slots[self.index].value.with(|value| unsafe { &*value })
    }
}

impl<T> Clone for Counted<T> {
    /// # Real-time
    /// Neither allocates nor blocks; two atomic additions.
    #[inline]
    fn clone(&self) -> Self {
        self.shared.slots[self.index].shares.fetch_add(1, Relaxed);
        Counted { shared: self.shared.clone(), index: self.index }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        if self.shared.slots[self.index].shares.fetch_sub(1, AcqRel) == 1 {
            self.shared.free.give(self.index);
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
}
