//! Sensitivity: by how much costs and rates may grow.

use crate::Nanos;
use crate::graph::{Graph, OperationId};
use crate::schedule::{Config, ScheduleError};
use std::fmt;

/// A factor, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(pub u64);

impl Factor {
    /// The factor one.
    pub const ONE: Factor = Factor(1000);
    /// The largest factor that is tried.
    pub const MOST: Factor = Factor(1_000_000);

    fn of(self, time: Nanos) -> Nanos {
        scaled(time, self.0, 1000)
    }

    fn faster(self, time: Nanos) -> Nanos {
        scaled(time, 1000, self.0.max(1))
    }
}

fn scaled(time: Nanos, by: u64, over: u64) -> Nanos {
    let scaled = u128::from(time.ns()) * u128::from(by) / u128::from(over);
    let least = u64::from(!time.is_zero());
    Nanos::new(u64::try_from(scaled).unwrap_or(u64::MAX).max(least))
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Factor(0) => "never".to_string(),
            Factor::MOST => "any".to_string(),
            Factor(thousandths) => format!("x{}.{:02}", thousandths / 1000, thousandths % 1000 / 10),
        };
        f.pad(&text)
    }
}

/// The quantity to scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaledQuantity {
    /// The cost of every operation: how much slower the processor may be.
    Costs,
    /// The cost of one operation.
    Cost(OperationId),
    /// Every rate, and deadlines that follow the period: how much higher the load may be.
    Rates,
}

impl Graph {
    /// The largest factor, to a thousandth, with which every deadline is met. Below one if they are
    /// not met unscaled, and zero if nothing helps. The search assumes that less work never makes
    /// matters worse.
    ///
    /// # Errors
    /// [`ScheduleError`] of the unscaled graph.
    ///
    /// # Real-time
    /// Off line: about twenty schedules.
    pub fn margin(&self, config: &Config, of: ScaledQuantity) -> Result<Factor, ScheduleError> {
        self.schedule(config.clone())?;
        let holds = |factor: u64| {
            // A cost over its deadline is part of the answer, not an error.
            self.with(of, Factor(factor))
                .schedule(config.clone())
                .is_ok_and(|schedule| schedule.schedulable())
        };
        let (mut good, mut bad) = (0, Factor::ONE.0);
        while bad < Factor::MOST.0 && holds(bad) {
            (good, bad) = (bad, (bad * 2).min(Factor::MOST.0));
        }
        if bad == Factor::MOST.0 && holds(bad) {
            return Ok(Factor::MOST);
        }
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if holds(middle) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Ok(Factor(good))
    }

    fn with(&self, of: ScaledQuantity, factor: Factor) -> Graph {
        let mut graph = self.clone();
        for id in 0..graph.operations().len() {
            let Some(operation) = graph.get_mut(id) else { continue };
            match of {
                ScaledQuantity::Rates => operation.period = factor.faster(operation.period),
                ScaledQuantity::Cost(one) if one != id => {}
                ScaledQuantity::Costs | ScaledQuantity::Cost(_) => {
                    operation.worst = factor.of(operation.worst);
                    operation.cached = factor.of(operation.cached);
                    operation.section = operation.section.map(|section| factor.of(section));
                    if of == ScaledQuantity::Costs {
                        operation.holds.iter_mut().for_each(|(_, time)| *time = factor.of(*time));
                    }
                }
            }
        }
        graph
    }
}
