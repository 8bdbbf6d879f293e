//! The state of a state machine in an atomic octet.

use core::fmt;
use core::marker::PhantomData;

use super::atomic::{AtomicU8, Ordering};

/// A field-less enumeration that fits an [`AtomicEnum`]; [`atomic_enum!`](crate::atomic_enum)
/// implements it.
pub trait AtomicState: Copy + PartialEq + fmt::Debug {
    /// The number of the state; 0 for the first.
    fn number(self) -> u8;
    /// The state with this number.
    ///
    /// # Panics
    /// No state has this number.
    fn from_number(number: u8) -> Self;
}

/// Implements [`AtomicState`](crate::sync::AtomicState) for an enumeration. All its values are
/// listed, beginning with the first one.
#[macro_export]
macro_rules! atomic_enum {
    ($state:ident: $($value:ident),+) => {
        impl $crate::sync::AtomicState for $state {
            #[inline(always)]
            fn number(self) -> u8 {
                match self { $($state::$value => $state::$value as u8),+ }
            }

            #[inline(always)]
            fn from_number(number: u8) -> $state {
                match number {
                    $(number if number == $state::$value as u8 => $state::$value,)+
                    _ => unreachable!("only states are stored"),
                }
            }
        }
    };
}

/// An enumeration that threads change without a lock. It begins as the first value.
///
/// ```
/// use isorb_rt::sync::{AtomicEnum, atomic::Ordering::Relaxed};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// enum Valve { Shut, Moves, Open }
/// isorb_rt::atomic_enum!(Valve: Shut, Moves, Open);
///
/// let valve = AtomicEnum::<Valve>::new();
/// assert!(valve.is(Valve::Shut, Relaxed));
/// assert!(valve.change(Valve::Shut, Valve::Moves, Relaxed));
/// assert!(!valve.change(Valve::Shut, Valve::Open, Relaxed), "it moves already");
/// assert_eq!(valve.load(Relaxed), Valve::Moves);
/// ```
///
/// # Real-time
/// Each method is one access to an atomic octet.
pub struct AtomicEnum<E> {
    number: AtomicU8,
    state: PhantomData<E>,
}

impl<E: AtomicState> AtomicEnum<E> {
    /// The first value.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        AtomicEnum { number: AtomicU8::new(0), state: PhantomData }
    }

    /// The first value.
    #[cfg(loom)]
    pub fn new() -> Self {
        AtomicEnum { number: AtomicU8::new(0), state: PhantomData }
    }

    /// The value.
    #[inline]
    pub fn load(&self, order: Ordering) -> E {
        E::from_number(self.number.load(order))
    }

    /// Whether it has this value.
    #[inline(always)]
    pub fn is(&self, state: E, order: Ordering) -> bool {
        self.number.load(order) == state.number()
    }

    /// Sets the value.
    #[inline(always)]
    pub fn store(&self, state: E, order: Ordering) {
        self.number.store(state.number(), order);
    }

    /// Sets the value, and returns the one before.
    #[inline]
    pub fn swap(&self, state: E, order: Ordering) -> E {
        E::from_number(self.number.swap(state.number(), order))
    }

    /// Changes one value to another. Returns whether it had the first one. `order` is that of a
    /// change; without one nothing is ordered.
    #[inline]
    pub fn change(&self, from: E, to: E, order: Ordering) -> bool {
        self.number.compare_exchange(from.number(), to.number(), order, Ordering::Relaxed).is_ok()
    }
}

impl<E: AtomicState> Default for AtomicEnum<E> {
    fn default() -> Self {
        AtomicEnum::new()
    }
}

impl<E: AtomicState> fmt::Debug for AtomicEnum<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}
