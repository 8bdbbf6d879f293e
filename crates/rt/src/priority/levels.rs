//! A mapping for a few priorities that must not fall together.

use super::{Linear, Priority, PriorityMapping};
use crate::sched::NativeRange;

/// As [`Linear`], but each of some levels has a native priority of its own.
///
/// Under [`Linear`], 330 adjacent CORBA priorities share a native one, and the levels of a schedule
/// mostly are adjacent. Here they differ. A priority between two levels is between them natively,
/// or at the lower one.
///
/// ```
/// use isorb_rt::{priority::{Levels, Linear, Priority, PriorityMapping}, sched::NativeRange};
///
/// let range = NativeRange { min: 1, max: 99 };
/// let [fast, slow] = [99, 98].map(|level| Priority::new(level).unwrap());
/// assert_eq!(Linear(range).to_native(fast), Linear(range).to_native(slow));
/// let levels = Levels::new(range, &[slow, fast]).unwrap();
/// assert!(levels.to_native(fast) > levels.to_native(slow));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levels {
    range: NativeRange,
    /// Levels and their native priorities, both ascending.
    levels: Box<[(Priority, u8)]>,
}

impl Levels {
    /// For these levels, in any order; `None` where there are more of them than native priorities.
    pub fn new(range: NativeRange, levels: &[Priority]) -> Option<Levels> {
        let mut levels = levels.to_vec();
        levels.sort_unstable();
        levels.dedup();
        let count = usize::from(range.max.checked_sub(range.min)?) + 1;
        if levels.len() > count {
            return None;
        }
        let linear = Linear(range);
        let mut next = range.min;
        let natives = levels.iter().rev().enumerate().rev().map(|(above, level)| {
            // Those above need room, too.
            let native = linear.to_native(*level).unwrap_or(next).max(next).min(range.max - above as u8);
            next = native.saturating_add(1);
            (*level, native)
        });
        Some(Levels { range, levels: natives.collect() })
    }
}

impl PriorityMapping for Levels {
    fn to_native(&self, corba: Priority) -> Option<u8> {
        let NativeRange { min, max } = self.range;
        let above = self.levels.partition_point(|(level, _)| *level <= corba);
        let least = above.checked_sub(1).map_or(min, |i| self.levels[i].1);
        let most = self.levels.get(above).map_or(max, |(_, native)| native.saturating_sub(1));
        // Where the lowest level has the lowest native priority, those below share it.
        Linear(self.range).to_native(corba).map(|native| native.max(least).min(most.max(min)))
    }

    /// The least CORBA priority that maps to `native`.
    fn to_corba(&self, native: u8) -> Option<Priority> {
        if !self.range.contains(native) {
            return None;
        }
        let (mut low, mut high) = (0, i16::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.to_native(Priority(middle))? < native { low = middle + 1 } else { high = middle }
        }
        Some(Priority(low))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::conforms;
    use super::*;

    fn levels(of: &[i16]) -> Vec<Priority> {
        of.iter().map(|level| Priority::new(*level).unwrap()).collect()
    }

    #[test]
    fn levels_differ_wherever_they_are() {
        let full = NativeRange { min: 1, max: 99 };
        let narrow = NativeRange { min: 10, max: 13 };
        let single = NativeRange { min: 5, max: 5 };
        let all: Vec<i16> = (0..99).collect();
        let top: Vec<i16> = (0..99).map(|n| i16::MAX - n).collect();
        for (range, of) in [
            (full, &[0, 98, 99][..]),
            (full, &[299, 300]),
            (full, &[0, 8_192, 16_384, 24_576]),
            (full, &[32_765, 32_766, 32_767]),
            (full, &[]),
            (full, &all),
            (full, &top),
            (narrow, &[7, 3, 5, 32_767]),
            (narrow, &[0, 1, 32_767]),
            (single, &[20_000]),
            (single, &[0]),
        ] {
            let mapping = Levels::new(range, &levels(of)).unwrap();
            conforms(&mapping, range);
            let mut natives: Vec<u8> =
                levels(of).into_iter().map(|level| mapping.to_native(level).unwrap()).collect();
            natives.sort_unstable();
            natives.dedup();
            assert_eq!(natives.len(), of.len(), "{of:?}");
        }
    }

    #[test]
    fn where_levels_are_far_apart_it_is_linear() {
        let range = NativeRange { min: 1, max: 99 };
        let apart = levels(&[0, 8_192, 16_384, 24_576]);
        let mapping = Levels::new(range, &apart).unwrap();
        for corba in 0..=i16::MAX {
            let corba = Priority::new(corba).unwrap();
            let (native, linear) =
                (mapping.to_native(corba).unwrap(), Linear(range).to_native(corba).unwrap());
            // Just below a level it is below it.
            assert!(native == linear || (native + 1 == linear && !apart.contains(&corba)), "{corba:?}");
        }
    }

    #[test]
    fn more_levels_than_native_priorities_are_refused() {
        assert_eq!(Levels::new(NativeRange { min: 1, max: 2 }, &levels(&[1, 2, 3])), None);
        assert_eq!(Levels::new(NativeRange { min: 2, max: 1 }, &levels(&[1])), None);
        assert!(Levels::new(NativeRange { min: 1, max: 2 }, &levels(&[1, 2, 2])).is_some());
    }
}
