//! The demand of a task in a window of time, with integers only.

use crate::{Nanos, Task};
use std::fmt;

/// A share of the resource, in units of 2^-40. Sums of rounded-down shares never exceed the true
/// sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Utilisation(u64);

impl Utilisation {
    const BITS: u32 = 40;
    /// The whole resource.
    pub const ONE: Utilisation = Utilisation(1 << Utilisation::BITS);

    /// `cost` every `period`, rounded down.
    #[must_use]
    pub fn of(cost: Nanos, period: Nanos) -> Utilisation {
        let scaled = (u128::from(cost.ns()) << Utilisation::BITS) / u128::from(period.ns().max(1));
        Utilisation(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The sum over `tasks`, each rounded down.
    #[must_use]
    pub fn sum(tasks: &[Task]) -> Utilisation {
        tasks
            .iter()
            .fold(Utilisation::default(), |sum, task| sum.plus(Utilisation::of(task.cost, task.period)))
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Utilisation) -> Utilisation {
        Utilisation(self.0.saturating_add(other.0))
    }

    pub(crate) fn minus(self, other: Utilisation) -> Utilisation {
        Utilisation(self.0.saturating_sub(other.0))
    }

    /// A fraction of the resource. A value that is not from 0 to 1 is the whole resource.
    #[must_use]
    pub fn from_fraction(fraction: f64) -> Utilisation {
        if !(0.0..=1.0).contains(&fraction) {
            return Utilisation::ONE;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 2^40"
        )]
        let share = (fraction * Utilisation::ONE.0 as f64) as u64;
        Utilisation(share)
    }

    /// Whether a sum of this many shares, each rounded down, may stand for the whole resource.
    pub(crate) fn nearly_one(self, shares: usize) -> bool {
        self.0.saturating_add(shares as u64) >= Utilisation::ONE.0
    }

    /// As a fraction, for people.
    #[must_use]
    pub fn fraction(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "for display only")]
        let fraction = self.0 as f64 / Utilisation::ONE.0 as f64;
        fraction
    }

    /// How long `work` takes with the rest of the resource, rounded down; `None` if there is no
    /// rest.
    pub(crate) fn left_takes(self, work: u64) -> Option<u64> {
        let left = Utilisation::ONE.0.checked_sub(self.0).filter(|left| *left > 0)?;
        let time = (u128::from(work) << Utilisation::BITS) / u128::from(left);
        Some(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Utilisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} %", self.fraction() * 100.0))
    }
}

/// A recurring demand: at most `1 + (t + J) / T` jobs of C each in a window of length t.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub cost: u64,
    pub period: u64,
    pub jitter: u64,
    /// 2^64 / period, rounded down: a product instead of a division in the innermost loop of every
    /// analysis.
    reciprocal: u64,
}

impl Load {
    pub fn of(task: &Task) -> Load {
        Load::new(task.cost.ns(), task.period.ns(), task.jitter.ns())
    }

    /// `period` is not zero, since every task was checked.
    pub fn new(cost: u64, period: u64, jitter: u64) -> Load {
        let period = period.max(1);
        let reciprocal = u64::try_from((1_u128 << 64) / u128::from(period)).unwrap_or(u64::MAX);
        Load { cost, period, jitter, reciprocal }
    }

    /// Whole periods in `time`.
    pub fn whole_periods(&self, time: u64) -> u64 {
        // The estimate is exact or one too small, since the reciprocal is less than one unit too
        // small.
        let estimate = ((u128::from(time) * u128::from(self.reciprocal)) >> 64) as u64;
        estimate + u64::from(time - estimate * self.period >= self.period)
    }

    /// The number of jobs that are ready before `time`, in a window that begins with the latest
    /// release of the first.
    pub fn jobs_before(&self, time: u64) -> u64 {
        match time.saturating_add(self.jitter) {
            0 => 0,
            window => self.whole_periods(window - 1) + 1,
        }
    }

    /// The number of jobs that are ready at `time` or before.
    pub fn jobs_until(&self, time: u64) -> u64 {
        self.whole_periods(time.saturating_add(self.jitter)).saturating_add(1)
    }

    pub fn demand_before(&self, time: u64) -> u64 {
        self.jobs_before(time).saturating_mul(self.cost)
    }

    pub fn demand_until(&self, time: u64) -> u64 {
        self.jobs_until(time).saturating_mul(self.cost)
    }

    pub fn utilisation(&self) -> Utilisation {
        Utilisation::of(Nanos::new(self.cost), Nanos::new(self.period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares() {
        let third = Utilisation::of(Nanos::new(1), Nanos::new(3));
        assert!(third.plus(third).plus(third) < Utilisation::ONE);
        assert_eq!(third.to_string(), "33.3 %");
        let half = Utilisation::of(Nanos::new(1), Nanos::new(2));
        assert_eq!(half.left_takes(10), Some(20));
        assert_eq!(Utilisation::ONE.left_takes(10), None);
        assert_eq!(Utilisation::of(Nanos::MAX, Nanos::new(1)), Utilisation(u64::MAX));
    }

    proptest! {
        #[test]
        fn products_count_as_divisions_do(
            period in prop_oneof![1_u64..100, 1_u64..u64::MAX],
            time in prop_oneof![0_u64..1000, any::<u64>()],
            jitter in prop_oneof![Just(0_u64), 0_u64..1000],
        ) {
            let load = Load::new(1, period, jitter);
            let window = time.saturating_add(jitter);
            prop_assert_eq!(u128::from(load.jobs_before(time)), u128::from(window).div_ceil(u128::from(period)));
            prop_assert_eq!(load.whole_periods(window), window / period);
        }
    }
}
