//! Scheduling policies: the order between tasks, and the order of equally urgent ones.

use crate::{Nanos, Order, Task};
use std::fmt;
use std::str::FromStr;

/// A scheduling policy. It assigns each task a level (the *preemption priority*; level 0 goes first
/// and preempts the others) and defines the order of the jobs of a level (the *sub-priority*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Rate monotonic: a level for each period, the shortest first.
    #[default]
    RateMonotonic,
    /// Deadline monotonic: a level for each time from readiness to deadline, the shortest first.
    DeadlineMonotonic,
    /// Earliest deadline first: one level, ordered by deadline.
    EarliestDeadline,
    /// Minimum laxity first: one level, ordered by laxity.
    MinimumLaxity,
    /// Maximum urgency first: a level for each criticality, ordered by laxity, so that under
    /// overload the less critical tasks are late first.
    MaximumUrgency,
    /// By criticality, then by rate: a level for each pair of them.
    Criticality,
    /// The priorities that the tasks declare: a level for each.
    Declared,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 7] = [
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
        Policy::EarliestDeadline,
        Policy::MinimumLaxity,
        Policy::MaximumUrgency,
        Policy::Criticality,
        Policy::Declared,
    ];

    /// Its name in files: `rms`, `dm`, `edf`, `mlf`, `muf`, `criticality`, `declared`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::RateMonotonic => "rms",
            Policy::DeadlineMonotonic => "dm",
            Policy::EarliestDeadline => "edf",
            Policy::MinimumLaxity => "mlf",
            Policy::MaximumUrgency => "muf",
            Policy::Criticality => "criticality",
            Policy::Declared => "declared",
        }
    }

    /// How jobs of one level are ordered.
    #[must_use]
    pub fn order(self) -> Order {
        match self {
            Policy::EarliestDeadline => Order::Deadline,
            Policy::MinimumLaxity | Policy::MaximumUrgency => Order::Laxity,
            Policy::RateMonotonic | Policy::DeadlineMonotonic | Policy::Criticality | Policy::Declared => {
                Order::Arrival
            }
        }
    }

    /// The rank of a task: a lower rank is more urgent, and equal ranks share a level.
    #[must_use]
    pub fn rank(self, task: &Task) -> Rank {
        let critical = u64::from(u8::MAX - task.criticality as u8);
        match self {
            Policy::RateMonotonic => Rank(0, task.period.ns()),
            Policy::DeadlineMonotonic => Rank(0, task.deadline.minus(task.jitter).ns()),
            Policy::EarliestDeadline | Policy::MinimumLaxity => Rank(0, 0),
            Policy::MaximumUrgency => Rank(critical, 0),
            Policy::Criticality => Rank(critical, task.period.ns()),
            Policy::Declared => Rank(0, u64::from(u32::MAX - task.priority)),
        }
    }

    /// The distinct ranks of `tasks`, the most urgent first. The n-th rank is level n.
    #[must_use]
    pub fn ranks(self, tasks: &[Task]) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = tasks.iter().map(|task| self.rank(task)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The greatest rank of a task with such a deadline or period, for levels that are set up
    /// before their tasks are known.
    #[must_use]
    pub fn up_to(self, span: Nanos) -> Rank {
        Rank(0, span.ns())
    }
}

/// The rank of a task. Opaque: ranks can be compared, and a lower one is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u64, u64);

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownPolicy)
    }
}

/// There is no policy of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy is one of")?;
        Policy::ALL
            .into_iter()
            .enumerate()
            .try_for_each(|(index, policy)| write!(f, "{} {policy}", if index == 0 { "" } else { "," }))
    }
}

impl std::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Criticality;

    #[test]
    fn the_order_of_priorities() {
        let ms = Nanos::from_ms;
        let slow =
            Task::new("slow", ms(1), ms(100)).deadline(ms(5)).criticality(Criticality::High).priority(7);
        let fast = Task::new("fast", ms(1), ms(10)).criticality(Criticality::Low).priority(8);
        for (policy, slow_first) in [
            (Policy::RateMonotonic, Some(false)),
            (Policy::DeadlineMonotonic, Some(true)),
            (Policy::EarliestDeadline, None),
            (Policy::MinimumLaxity, None),
            (Policy::MaximumUrgency, Some(true)),
            (Policy::Criticality, Some(true)),
            (Policy::Declared, Some(false)),
        ] {
            let (slow, fast) = (policy.rank(&slow), policy.rank(&fast));
            assert_eq!((slow != fast).then_some(slow < fast), slow_first, "{policy}");
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!(
            "fifo"
                .parse::<Policy>()
                .unwrap_err()
                .to_string()
                .ends_with("one of rms, dm, edf, mlf, muf, criticality, declared")
        );
    }
}
