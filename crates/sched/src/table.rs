//! Tasks as numbers, the most urgent first: what analysis and admission share.

use crate::load::{Load, Utilisation};
use crate::response::{Effort, Level, Preemption, Stop};
use crate::{Nanos, Task};
use std::ops::Range;

/// The numbers of a task that are not its [`Load`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// More is more urgent; equal levels are served in order of arrival.
    pub level: u64,
    pub deadline: u64,
    pub blocking: u64,
    /// How long it may hold up a more urgent one by running.
    pub hold: u64,
}

/// Loads lie apart from the rest, because they are what every step of a fixed point reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    loads: Vec<Load>,
    rows: Vec<Row>,
    runs_through: bool,
}

impl Table {
    pub fn new(preemption: Preemption, capacity: usize) -> Table {
        Table {
            loads: Vec::with_capacity(capacity),
            rows: Vec::with_capacity(capacity),
            runs_through: preemption == Preemption::None,
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, index: usize) -> &Row {
        &self.rows[index]
    }

    /// Puts a task behind its equals; where it is now.
    pub fn insert(&mut self, level: u64, task: &Task, preemption: Preemption) -> usize {
        let index = self.rows.partition_point(|row| row.level >= level);
        self.loads.insert(index, Load::of(task));
        self.rows.insert(
            index,
            Row {
                level,
                deadline: task.deadline.ns(),
                blocking: task.blocking.ns(),
                hold: preemption.hold(task),
            },
        );
        index
    }

    pub fn remove(&mut self, index: usize) {
        self.loads.remove(index);
        self.rows.remove(index);
    }

    /// The tasks as urgent as this one.
    pub fn equals(&self, index: usize) -> Range<usize> {
        let level = self.rows[index].level;
        let first = self.rows[..index].partition_point(|row| row.level > level);
        let end = index + self.rows[index..].partition_point(|row| row.level >= level);
        first..end
    }

    /// The longest hold of any task less urgent than each.
    pub fn holds_below(&self) -> Vec<u64> {
        let mut holds = vec![0; self.len()];
        let (mut below, mut here) = (0, 0);
        for index in (0..self.len()).rev() {
            if index + 1 < self.len() && self.rows[index].level != self.rows[index + 1].level {
                below = here;
            }
            holds[index] = below;
            here = here.max(self.rows[index].hold);
        }
        holds
    }

    /// What all tasks ask for, rounded down.
    pub fn utilisation(&self) -> Utilisation {
        self.loads.iter().fold(Utilisation::default(), |sum, load| sum.plus(load.utilisation()))
    }

    /// The blocking of a task: what it declares and what less urgent ones add.
    pub fn blocking(&self, index: usize, holds: &[u64]) -> u64 {
        self.rows[index].blocking.saturating_add(holds[index])
    }

    /// The longest response of each task of `range`, until `visit` answers false. `limit` is where a task's search ends.
    pub fn responses(
        &self,
        range: Range<usize>,
        limit: impl Fn(&Row) -> u64,
        effort: &mut Effort,
        mut visit: impl FnMut(usize, Result<u64, Stop>) -> bool,
    ) {
        let holds = self.holds_below();
        let mut group = 0..0;
        let mut above_utilisation = Utilisation::default();
        for index in 0..range.end {
            if index == group.end {
                for load in &self.loads[group.clone()] {
                    above_utilisation = above_utilisation.plus(load.utilisation());
                }
                group = self.equals(index);
            }
            if index < range.start {
                continue;
            }
            let level = Level {
                above: &self.loads[..group.start],
                above_utilisation,
                equal: [&self.loads[group.start..index], &self.loads[index + 1..group.end]],
                own: self.loads[index],
                blocking: self.blocking(index, &holds),
                runs_through: self.runs_through,
            };
            if !visit(index, level.response(limit(&self.rows[index]), effort)) {
                return;
            }
        }
    }

    /// A bound on each response that takes constant time a task, and is never too small: with every number of jobs
    /// taken as `1 + (t + J) / T`, the busy period of a level is at most `(B + sum (C + U J)) / (1 - sum U)`, and no
    /// response is longer than that and the task's own jitter. `visit` answers false to end.
    pub fn quick_bounds(&self, mut visit: impl FnMut(usize, Option<u64>) -> bool) {
        let holds = self.holds_below();
        let (mut demand, mut utilisation) = (0_u64, Utilisation::default());
        let mut end = 0;
        for index in 0..self.len() {
            if index == end {
                end = self.equals(index).end;
                for load in &self.loads[index..end] {
                    let share = Utilisation::above(Nanos::new(load.cost), Nanos::new(load.period));
                    let jitter = share.share_of(load.jitter).saturating_add(1);
                    demand = demand.saturating_add(load.cost).saturating_add(jitter);
                    utilisation = utilisation.plus(share);
                }
            }
            let work = demand.saturating_add(self.blocking(index, &holds));
            let bound =
                utilisation.left_takes(work, true).map(|busy| busy.saturating_add(self.loads[index].jitter));
            if !visit(index, bound) {
                return;
            }
        }
    }
}
