//! CORBA priorities, and how they become native ones.
//!
//! A [`Priority`] means the same on every machine (Real-Time CORBA, "CORBA Priority"); a
//! [`PriorityMapping`] turns it into what this machine's scheduler knows, and the user can replace
//! it. Four come with the crate: [`Linear`] spreads all CORBA priorities over the native range,
//! [`Levels`] does so but for some that must differ, [`Continuous`] counts up from its lower end,
//! [`Direct`] takes the number as it is. What it means to the network, a [`NetworkPriorityMapping`]
//! says.

mod levels;
mod network;

use core::fmt;

pub use levels::Levels;
pub use network::{ClassSelectors, NetworkPriority, NetworkPriorityMapping, Unmarked};

use crate::sched::NativeRange;

/// `RTCORBA::Priority`: 0 to 32767, higher is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Priority(i16);

impl Priority {
    /// Least urgent (`RTCORBA::minPriority`).
    pub const MIN: Priority = Priority(0);
    /// Most urgent (`RTCORBA::maxPriority`).
    pub const MAX: Priority = Priority(i16::MAX);

    /// The priority with this number; `None` if it is negative.
    #[inline]
    pub const fn new(value: i16) -> Option<Priority> {
        if value >= 0 { Some(Priority(value)) } else { None }
    }

    /// Its number.
    #[inline]
    pub const fn get(self) -> i16 {
        self.0
    }
}

impl TryFrom<i16> for Priority {
    type Error = OutOfRange;

    fn try_from(value: i16) -> Result<Self, OutOfRange> {
        Priority::new(value).ok_or(OutOfRange)
    }
}

impl From<Priority> for i16 {
    fn from(p: Priority) -> i16 {
        p.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that is no CORBA priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a CORBA priority is 0 to 32767")
    }
}

impl std::error::Error for OutOfRange {}

/// Turns CORBA priorities into native ones and back (`RTCORBA::PriorityMapping`).
///
/// Higher must stay higher: `to_native` and `to_corba` are monotonic where they are defined, and a
/// native priority that `to_native` yields comes back from `to_corba`.
///
/// # Real-time
/// Called on the path of every request that changes a priority: implementations neither allocate
/// nor block.
pub trait PriorityMapping: Send + Sync {
    /// The native priority, or `None` where this mapping has none (`DATA_CONVERSION`).
    fn to_native(&self, corba: Priority) -> Option<u8>;

    /// The CORBA priority, or `None` where this mapping has none.
    fn to_corba(&self, native: u8) -> Option<Priority>;
}

/// Spreads 0 to 32767 evenly over the native range; many CORBA priorities share a native one.
///
/// ```
/// use isorb_rt::{priority::{Linear, Priority, PriorityMapping}, sched::NativeRange};
///
/// let linear = Linear(NativeRange { min: 1, max: 99 });
/// assert_eq!(linear.to_native(Priority::MIN), Some(1));
/// assert_eq!(linear.to_native(Priority::MAX), Some(99));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Linear(pub NativeRange);

impl PriorityMapping for Linear {
    #[inline]
    fn to_native(&self, corba: Priority) -> Option<u8> {
        let NativeRange { min, max } = self.0;
        let span = u32::from(max.checked_sub(min)?);
        Some(min + (span * corba.0 as u32 / i16::MAX as u32) as u8)
    }

    /// The least CORBA priority that maps to `native`; hence rounds up.
    #[inline]
    fn to_corba(&self, native: u8) -> Option<Priority> {
        let NativeRange { min, max } = self.0;
        if !self.0.contains(native) {
            return None;
        }
        let (above, span) = (u32::from(native - min), u32::from(max - min));
        if span == 0 {
            return Some(Priority::MIN);
        }
        Some(Priority((above * i16::MAX as u32).div_ceil(span) as i16))
    }
}

/// CORBA priority 0 is the lower end of the native range, and one more is one more; numbers past
/// the upper end have no native priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Continuous(pub NativeRange);

impl PriorityMapping for Continuous {
    #[inline]
    fn to_native(&self, corba: Priority) -> Option<u8> {
        let native = u8::try_from(corba.0).ok()?.checked_add(self.0.min)?;
        (native <= self.0.max).then_some(native)
    }

    #[inline]
    fn to_corba(&self, native: u8) -> Option<Priority> {
        self.0.contains(native).then(|| Priority((native - self.0.min).into()))
    }
}

/// The CORBA priority is the native priority, where the range has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Direct(pub NativeRange);

impl PriorityMapping for Direct {
    #[inline]
    fn to_native(&self, corba: Priority) -> Option<u8> {
        u8::try_from(corba.0).ok().filter(|&native| self.0.contains(native))
    }

    #[inline]
    fn to_corba(&self, native: u8) -> Option<Priority> {
        self.0.contains(native).then_some(Priority(native.into()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const RANGE: NativeRange = NativeRange { min: 10, max: 40 };

    fn p(value: i16) -> Priority {
        Priority::new(value).unwrap()
    }

    /// What the trait asks of every mapping, over all inputs.
    pub(super) fn conforms(mapping: &dyn PriorityMapping, range: NativeRange) {
        let mut last = None;
        for value in 0..=i16::MAX {
            if let Some(native) = mapping.to_native(p(value)) {
                assert!(range.contains(native));
                assert!(last <= Some(native), "monotonic");
                last = Some(native);
            }
        }
        let mut last = None;
        for native in 0..=u8::MAX {
            let corba = mapping.to_corba(native);
            assert_eq!(corba.is_some(), range.contains(native));
            if let Some(corba) = corba {
                assert_eq!(mapping.to_native(corba), Some(native), "comes back");
                assert!(last < Some(corba), "monotonic");
                last = Some(corba);
            }
        }
    }

    #[test]
    fn mappings_conform() {
        for range in [RANGE, NativeRange { min: 1, max: 99 }, NativeRange { min: 5, max: 5 }] {
            conforms(&Linear(range), range);
            conforms(&Continuous(range), range);
            conforms(&Direct(range), range);
        }
    }

    #[test]
    fn linear_covers_both_ends_and_rounds_back_up() {
        let m = Linear(RANGE);
        assert_eq!(m.to_native(Priority::MIN), Some(10));
        assert_eq!(m.to_native(p(1092)), Some(10));
        assert_eq!(m.to_native(p(1093)), Some(11));
        assert_eq!(m.to_corba(11), Some(p(1093)));
        assert_eq!(m.to_native(p(32766)), Some(39));
        assert_eq!(m.to_native(Priority::MAX), Some(40));
    }

    #[test]
    fn continuous_ends_with_the_range() {
        let m = Continuous(RANGE);
        assert_eq!(m.to_native(p(0)), Some(10));
        assert_eq!(m.to_native(p(30)), Some(40));
        assert_eq!(m.to_native(p(31)), None);
        assert_eq!(m.to_native(Priority::MAX), None);
        assert_eq!(m.to_corba(9), None);
    }

    #[test]
    fn direct_is_checked() {
        let m = Direct(RANGE);
        assert_eq!(m.to_native(p(10)), Some(10));
        assert_eq!(m.to_native(p(9)), None);
        assert_eq!(m.to_native(p(256 + 20)), None);
        assert_eq!(m.to_corba(41), None);
    }

    #[test]
    fn negative_numbers_are_no_priorities() {
        assert_eq!(Priority::new(-1), None);
        assert_eq!(Priority::try_from(i16::MIN), Err(OutOfRange));
        assert!(Priority::MIN < Priority::MAX);
    }
}
