//! A value that one thread at a time uses, without waiting, by a number that expires.

use core::fmt;
use core::ops::{Deref, DerefMut};

use super::atomic::AtomicU64;
use super::atomic::Ordering::{Acquire, Relaxed, Release};
use super::cell::UnsafeCell;

/// The mark of a use, in the lowest bit; the generation is above it.
const IN_USE: u64 = 1;

/// A slot of a table of handles: one thread at a time uses its value, and only with the slot's
/// present generation. A thread that meets another one is told so; it never waits.
///
/// Generation and mark lie in one word. So a use is one compare-exchange at its begin and one store
/// at its end, and that a handle is of this generation cannot become untrue meanwhile. A lock needs
/// an exchange at the end as well, because it may have waiters.
///
/// ```
/// use isorb_rt::sync::{ExclusiveSlot, SlotError};
///
/// let slot = ExclusiveSlot::new(7);
/// let one = slot.try_use(1).unwrap();
/// assert_eq!(slot.try_use(1).unwrap_err(), SlotError::InUse);
/// assert_eq!(one.expire(), 2);
/// assert_eq!(slot.try_use(1).unwrap_err(), SlotError::Expired);
/// assert_eq!(*slot.try_use(2).unwrap(), 7);
/// ```
pub struct ExclusiveSlot<T> {
    state: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, of which there is one at a time; so sharing
// the slot moves the value between threads at most.
unsafe impl<T: Send> Sync for ExclusiveSlot<T> {}
// SAFETY: as for the value itself.
unsafe impl<T: Send> Send for ExclusiveSlot<T> {}

/// Why a slot cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotError {
    /// Another thread uses the value now, or this one does.
    InUse,
    /// The slot has another generation.
    Expired,
}

impl<T> ExclusiveSlot<T> {
    /// A slot of generation 1, not in use.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        ExclusiveSlot { state: AtomicU64::new(free(1)), value: UnsafeCell::new(value) }
    }

    /// A slot of generation 1, not in use.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        ExclusiveSlot { state: AtomicU64::new(free(1)), value: UnsafeCell::new(value) }
    }

    /// The present generation, which another thread may end meanwhile.
    pub fn generation(&self) -> u32 {
        (self.state.load(Relaxed) >> 1) as u32
    }

    /// The value, if the slot has this generation and no thread uses it.
    ///
    /// # Errors
    /// [`SlotError`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one compare-exchange, and one store when the guard is dropped.
    #[inline(always)]
    pub fn try_use(&self, generation: u32) -> Result<SlotGuard<'_, T>, SlotError> {
        let free = free(generation);
        match self.state.compare_exchange(free, free | IN_USE, Acquire, Relaxed) {
            Ok(_) => Ok(SlotGuard { slot: self, free }),
            Err(found) if found == free | IN_USE => Err(SlotError::InUse),
            Err(_) => Err(SlotError::Expired),
        }
    }
}

impl<T> fmt::Debug for ExclusiveSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExclusiveSlot").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

const fn free(generation: u32) -> u64 {
    (generation as u64) << 1
}

/// The right to use the value of an [`ExclusiveSlot`], until it is dropped.
#[must_use = "dropping the guard ends the use at once"]
pub struct SlotGuard<'a, T> {
    slot: &'a ExclusiveSlot<T>,
    /// The word when the use has ended.
    free: u64,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: Sync> Sync for SlotGuard<'_, T> {}

impl<T> SlotGuard<'_, T> {
    /// Ends the use and the generation: numbers of the former one are refused from now on. The new
    /// generation; 0 follows the last one.
    pub fn expire(mut self) -> u32 {
        let next = ((self.free >> 1) as u32).wrapping_add(1);
        self.free = free(next);
        next
    }
}

impl<T> Deref for SlotGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: no other guard exists while this one does, so nothing changes the value.
        unsafe { &*self.slot.value.with(|value| value) }
    }
}

impl<T> DerefMut for SlotGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other guard exists while this one does, and it is borrowed exclusively.
        unsafe { &mut *self.slot.value.with_mut(|value| value) }
    }
}

impl<T> Drop for SlotGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // No other thread writes the word during a use.
        self.slot.state.store(self.free, Release);
    }
}

impl<T> fmt::Debug for SlotGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotGuard").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_the_use() {
        let slot = ExclusiveSlot::new(1);
        let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut value = slot.try_use(1).unwrap();
            *value += 1;
            panic!("in the middle");
        }));
        assert!(used.is_err());
        assert_eq!(*slot.try_use(1).unwrap(), 2);
    }

    /// Miri runs it too, and reports two threads that use the value at a time.
    #[test]
    fn one_thread_at_a_time_uses_the_value() {
        const USES: u32 = if cfg!(miri) { 12 } else { 20_000 };
        let slot = ExclusiveSlot::new((0, 0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut left = USES;
                    while left > 0 {
                        let Ok(mut used) = slot.try_use(slot.generation()) else {
                            std::thread::yield_now();
                            continue;
                        };
                        used.0 += 1;
                        used.1 += 1;
                        assert_eq!(used.0, used.1);
                        left -= 1;
                        if left.is_multiple_of(4) {
                            used.expire();
                        }
                    }
                });
            }
        });
        let generations = 3 * USES / 4;
        assert_eq!(*slot.try_use(1 + generations).unwrap(), (3 * USES, 3 * USES));
    }

    #[test]
    fn the_last_generation_is_followed_by_0() {
        let slot = ExclusiveSlot::new(());
        slot.state.store(free(u32::MAX), Relaxed);
        assert_eq!(slot.try_use(u32::MAX).unwrap().expire(), 0);
        assert_eq!(slot.try_use(u32::MAX).unwrap_err(), SlotError::Expired);
        assert_eq!(slot.generation(), 0);
    }
}
