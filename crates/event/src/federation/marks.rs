//! How packets of each level are marked for the network.

use super::Levels;
use isorb_rt::priority::{NetworkPriority, NetworkPriorityMapping, Priority};

/// The code points of six classes above best effort: AF11, then the class selectors, then expedited
/// forwarding (RFC 2597, RFC 2474, RFC 3246). CS1 is left out: many networks treat it as less than
/// best effort (RFC 3662).
const CODE_POINTS: [u8; 7] = [0, 10, 16, 24, 32, 40, 46];

/// Marks packets by the level of their priority: the least urgent level is best effort, the most
/// urgent one expedited forwarding, and the queue priorities of the interface rise with them from 0
/// to 6, which need no right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelMarks {
    levels: Levels,
}

impl LevelMarks {
    /// The marks of these levels.
    pub fn new(levels: &Levels) -> LevelMarks {
        LevelMarks { levels: levels.clone() }
    }

    /// The mark of a level.
    ///
    /// # Real-time
    /// Arithmetic.
    pub fn of(&self, level: u8) -> NetworkPriority {
        let last = self.levels.begins().len() - 1;
        let top = CODE_POINTS.len() - 1;
        // A single level is as urgent as all.
        let class = (usize::from(level).min(last) * top).checked_div(last).unwrap_or(top);
        NetworkPriority { dscp: CODE_POINTS[class], queue: class as u8 }
    }
}

impl NetworkPriorityMapping for LevelMarks {
    fn to_network(&self, corba: Priority) -> Option<NetworkPriority> {
        Some(self.of(self.levels.of(corba)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn marks_rise_with_the_levels() {
        let of = |levels: &Levels| -> Vec<(u8, u8)> {
            let marks = LevelMarks::new(levels);
            (0..levels.begins().len()).map(|level| marks.of(level as u8)).map(|m| (m.dscp, m.queue)).collect()
        };
        assert_eq!(of(&Levels::default()), [(0, 0), (16, 2), (32, 4), (46, 6)]);
        assert_eq!(of(&Levels::one()), [(46, 6)]);
        let at = |n: i16| Priority::new(n).unwrap();
        let eight = Levels::new(&(0..8).map(at).collect::<Vec<_>>()).unwrap();
        let all = of(&eight);
        assert!(all.is_sorted() && all[0] == (0, 0) && all[7] == (46, 6) && all.iter().all(|m| m.0 != 8));
        let marks = LevelMarks::new(&Levels::default());
        assert_eq!(marks.to_network(at(8_200)), Some(NetworkPriority { dscp: 16, queue: 2 }));
    }
}
