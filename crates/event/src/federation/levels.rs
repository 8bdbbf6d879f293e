//! Priority levels of a federation.

use isorb_rt::priority::Priority;

/// The priorities at which a federation's levels begin, the least urgent first. Events reach a
/// consumer at the level of its priority, separately from other levels on the whole path: each
/// level has its own requests, events, numbers and history. All members have the same number of
/// levels; each chooses where they begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levels(Vec<Priority>);

impl Levels {
    /// The most levels of a federation.
    pub const MAX: usize = 8;

    /// Levels that begin at these priorities. `None` unless they ascend and there are 1 to
    /// [`MAX`](Self::MAX).
    pub fn new(begins: &[Priority]) -> Option<Levels> {
        let ascend = begins.windows(2).all(|pair| pair[0] < pair[1]);
        (ascend && (1..=Levels::MAX).contains(&begins.len())).then(|| Levels(begins.to_vec()))
    }

    /// One level for all priorities.
    pub fn one() -> Levels {
        Levels(vec![Priority::MIN])
    }

    /// The level of a priority: the most urgent one that does not begin above it, or the least
    /// urgent.
    pub fn of(&self, priority: Priority) -> u8 {
        let below = self.0.iter().take_while(|begin| **begin <= priority).count();
        below.saturating_sub(1) as u8
    }

    /// The priorities at which they begin.
    pub fn begins(&self) -> &[Priority] {
        &self.0
    }
}

impl Default for Levels {
    /// Four levels that begin at 0, 8192, 16384 and 24576.
    fn default() -> Levels {
        Levels([0, 8_192, 16_384, 24_576].into_iter().filter_map(Priority::new).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_belongs_to_the_level_that_begins_below_it() {
        let at = |n| Priority::new(n).unwrap();
        let levels = Levels::default();
        let of: Vec<u8> = [0, 8_191, 8_192, 24_575, 24_576, 32_767].map(|n| levels.of(at(n))).into();
        assert_eq!(of, [0, 0, 1, 2, 3, 3]);
        assert_eq!(Levels::new(&[at(10), at(20)]).map(|levels| levels.of(at(5))), Some(0));
        assert_eq!(Levels::one().of(Priority::MAX), 0);
        assert!(Levels::new(&[]).is_none() && Levels::new(&[at(2), at(1)]).is_none());
        assert!(Levels::new(&(0..9).map(at).collect::<Vec<_>>()).is_none());
    }
}
