//! A box that is seldom there.

use alloc::boxed::Box;
use core::fmt;
use core::hint::cold_path;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// A value on the heap, made when it is first asked for. The drop of an empty one is a comparison.
/// The drop of an `Option<Box<T>>` is a call as soon as the destructor of `T` is long.
pub struct LazyBox<T>(Option<NonNull<T>>, PhantomData<Box<T>>);

// SAFETY: it owns the value as a box does.
unsafe impl<T: Send> Send for LazyBox<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for LazyBox<T> {}

impl<T> LazyBox<T> {
    /// Without a value.
    #[inline(always)]
    pub const fn new() -> LazyBox<T> {
        LazyBox(None, PhantomData)
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the pointer came from a box, which belongs to this value until its drop.
        self.0.map(|value| unsafe { value.as_ref() })
    }

    /// The value, if there is one.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`, and this value is borrowed for writing.
        self.0.map(|mut value| unsafe { value.as_mut() })
    }

    /// Takes the value out.
    #[must_use]
    pub fn take(&mut self) -> LazyBox<T> {
        LazyBox(self.0.take(), PhantomData)
    }
}

impl<T: Default> LazyBox<T> {
    /// The value; a default one if there was none.
    ///
    /// # Real-time
    /// Allocates the first time.
    pub fn get_or_default(&mut self) -> &mut T {
        let value = self.0.get_or_insert_with(|| NonNull::from(Box::leak(Box::<T>::default())));
        // SAFETY: as in `get_mut`.
        unsafe { value.as_mut() }
    }
}

impl<T> Default for LazyBox<T> {
    fn default() -> LazyBox<T> {
        LazyBox::new()
    }
}

impl<T> Drop for LazyBox<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            cold_path();
            free(value);
        }
    }
}

#[cold]
#[inline(never)]
fn free<T>(value: NonNull<T>) {
    // SAFETY: the pointer came from a box, and its owner has just given it up.
    drop(unsafe { Box::from_raw(value.as_ptr()) });
}

impl<T: fmt::Debug> fmt::Debug for LazyBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;

    #[test]
    fn a_value_is_made_once_and_dropped_once() {
        let mut seldom = LazyBox::<Option<Rc<()>>>::new();
        assert!(seldom.get().is_none() && seldom.get_mut().is_none());
        let shared = Rc::new(());
        *seldom.get_or_default() = Some(shared.clone());
        assert!(seldom.get_or_default().is_some());
        let mut taken = seldom.take();
        assert!(seldom.get().is_none() && taken.get_mut().is_some());
        assert_eq!(Rc::strong_count(&shared), 2);
        seldom = taken;
        assert_eq!(Rc::strong_count(&shared), 2);
        drop(seldom);
        assert_eq!(Rc::strong_count(&shared), 1);
    }
}
