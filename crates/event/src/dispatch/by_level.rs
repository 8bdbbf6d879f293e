//! Native priorities for levels that stand close together.

use isorb_rt::priority::{Priority, PriorityMapping};
use isorb_rt::sched::NativeRange;

/// Gives each level of a channel a native priority of its own, evenly spread over the native ones. Schedulers number levels one by
/// one (99, 98, 97), and where CORBA priorities are spread over all native ones ([`Linear`](isorb_rt::priority::Linear)) such
/// neighbours share one: then none of them pre-empts the others, which the schedule's verdict takes for granted.
#[derive(Clone, Debug)]
pub struct ByLevel {
    levels: Box<[Priority]>,
    native: NativeRange,
}

impl ByLevel {
    /// For these levels, the least urgent first. With more of them than native priorities, neighbours share.
    pub fn new(levels: &[Priority], native: NativeRange) -> ByLevel {
        ByLevel { levels: levels.into(), native }
    }

    fn of_level(&self, at: usize) -> Option<u8> {
        let NativeRange { min, max } = self.native;
        let span = usize::from(max.checked_sub(min)?);
        let top = self.levels.len().saturating_sub(1).max(1);
        u8::try_from(usize::from(min) + span * at.min(top) / top).ok()
    }
}

impl PriorityMapping for ByLevel {
    /// That of the level which serves the priority: the most urgent one that is not above it, or the lowest.
    fn to_native(&self, corba: Priority) -> Option<u8> {
        self.of_level(self.levels.partition_point(|level| *level <= corba).saturating_sub(1))
    }

    /// The most urgent level whose native priority is not above `native`.
    fn to_corba(&self, native: u8) -> Option<Priority> {
        let served = |at: &usize| self.of_level(*at).is_some_and(|of| of <= native);
        let at = (0..self.levels.len()).rev().find(served).filter(|_| self.native.contains(native))?;
        self.levels.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_rt::priority::Linear;

    #[test]
    fn neighbours_have_native_priorities_of_their_own() {
        let native = NativeRange { min: 1, max: 99 };
        let level = |number| Priority::new(number).unwrap();
        let levels: Vec<Priority> = std::iter::once(0).chain(84..=99).map(level).collect();
        let mapping = ByLevel::new(&levels, native);
        let natives: Vec<u8> = levels.iter().map(|level| mapping.to_native(*level).unwrap()).collect();
        assert!(natives.windows(2).all(|pair| pair[0] < pair[1]), "{natives:?}");
        assert_eq!((natives[0], natives[16]), (1, 99));
        // What it is for.
        let shared: Vec<u8> = levels.iter().map(|level| Linear(native).to_native(*level).unwrap()).collect();
        assert!(shared.windows(2).all(|pair| pair[0] == pair[1]), "{shared:?}");
        for (level, native) in levels.iter().zip(&natives) {
            assert_eq!(mapping.to_corba(*native), Some(*level));
        }
        assert_eq!((mapping.to_native(level(50)), mapping.to_native(level(32_767))), (Some(1), Some(99)));
        assert_eq!((mapping.to_corba(0), mapping.to_corba(natives[3] + 1)), (None, Some(levels[3])));
        assert_eq!(ByLevel::new(&[level(7)], native).to_native(level(7)), Some(1));
        let most: Vec<Priority> = (0..64).map(level).collect();
        let natives: Vec<_> =
            most.iter().map(|level| ByLevel::new(&most, native).to_native(*level)).collect();
        assert!(natives.windows(2).all(|pair| pair[0] < pair[1]), "{natives:?}");
    }
}
