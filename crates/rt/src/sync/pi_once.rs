//! A value that is made once, on first use.

use std::sync::OnceLock;

#[cfg(not(loom))]
use super::PiMutex;

/// [`OnceLock`] for values that threads of different priorities may need first at the same time: the
/// thread that makes the value runs at the priority of the most urgent one that waits for it.
///
/// ```
/// static ANSWER: isorb_rt::sync::PiOnceLock<u32> = isorb_rt::sync::PiOnceLock::new();
/// assert_eq!(*ANSWER.get_or_init(|| 42), 42);
/// ```
#[derive(Debug)]
pub struct PiOnceLock<T> {
    value: OnceLock<T>,
    /// Models have no statics of this kind: their mutexes belong to one execution.
    #[cfg(not(loom))]
    making: PiMutex<()>,
}

impl<T> PiOnceLock<T> {
    /// Without a value.
    pub const fn new() -> Self {
        PiOnceLock {
            value: OnceLock::new(),
            #[cfg(not(loom))]
            making: PiMutex::new(()),
        }
    }

    /// The value, if it was made.
    ///
    /// # Real-time
    /// A load.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, which `make` makes if there is none.
    ///
    /// # Panics
    /// If `make` uses the same `PiOnceLock`.
    ///
    /// # Real-time
    /// A load once there is a value. Before that it takes a PI lock, and as long as `make`.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.init(make),
        }
    }

    #[cold]
    fn init(&self, make: impl FnOnce() -> T) -> &T {
        #[cfg(not(loom))]
        let _making = self.making.lock();
        // Only the thread with the lock makes a value, so none waits here.
        self.value.get_or_init(make)
    }
}

impl<T> Default for PiOnceLock<T> {
    fn default() -> Self {
        PiOnceLock::new()
    }
}
