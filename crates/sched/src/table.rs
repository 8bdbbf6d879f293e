//! Tasks as numbers, the most urgent first: shared by analysis and admission.

use crate::arrival::Arrivals;
use crate::demand::{Order, Queue, Wait};
use crate::load::{Load, Utilisation};
use crate::response::{Level, MoreUrgentTasks, Preemption, Stop, TermLimit, Times};
use crate::{Counted, Task};
use std::ops::Range;

/// The numbers of a task that are not its [`Load`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// A higher value is more urgent. Equal levels are served in order of arrival.
    pub level: u64,
    pub deadline: u64,
    pub blocking: u64,
    /// How long it may delay a more urgent task by running.
    pub hold: u64,
    /// How long it may delay a member of its own level that is due earlier.
    pub hold_inside: u64,
    /// The order of its level.
    pub order: Order,
    /// How much sooner than a period after the previous job a job may be due.
    pub lead: u64,
    /// A lower bound of [`Times::first`], computed before further tasks were added.
    pub first: u64,
    /// A lower bound of [`Times::busy`], likewise.
    pub busy: u64,
}

/// Loads are separate from the rest, since each step of a fixed point reads them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    loads: Vec<Load>,
    entries: Vec<Entry>,
    preemption: Preemption,
    /// Members of a level do not preempt each other.
    one_thread_per_level: bool,
}

impl Table {
    pub fn new(preemption: Preemption, one_thread_per_level: bool, capacity: usize) -> Table {
        Table {
            loads: Vec::with_capacity(capacity),
            entries: Vec::with_capacity(capacity),
            preemption,
            one_thread_per_level,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    /// Adds a task behind those of equal level, and returns its index.
    pub fn insert(&mut self, level: u64, order: Order, task: &Task) -> usize {
        let hold = self.preemption.hold(task);
        let index = self.entries.partition_point(|entry| entry.level >= level);
        self.loads.insert(index, Load::of(task));
        self.entries.insert(
            index,
            Entry {
                level,
                deadline: task.deadline.ns(),
                blocking: task.blocking.ns(),
                hold,
                hold_inside: if self.one_thread_per_level { task.cost.ns() - 1 } else { hold },
                order,
                lead: match task.counted {
                    Counted::FromArrival => 0,
                    Counted::FromReadiness => task.jitter.ns(),
                },
                first: 0,
                busy: 0,
            },
        );
        index
    }

    /// The rank of the last task of a level.
    pub fn behind_equals(&self, level: u64) -> usize {
        self.entries.partition_point(|entry| entry.level >= level).saturating_sub(1)
    }

    pub fn remove(&mut self, index: usize) {
        self.loads.remove(index);
        self.entries.remove(index);
    }

    /// The tasks of the same level.
    pub fn equals(&self, index: usize) -> Range<usize> {
        let level = self.entries[index].level;
        let first = self.entries[..index].partition_point(|entry| entry.level > level);
        let end = index + self.entries[index..].partition_point(|entry| entry.level >= level);
        first..end
    }

    /// For each task the longest hold of any less urgent task.
    pub fn holds_below(&self) -> Vec<u64> {
        let mut holds = vec![0; self.len()];
        let (mut below, mut here) = (0, 0);
        for index in (0..self.len()).rev() {
            if index + 1 < self.len() && self.entries[index].level != self.entries[index + 1].level {
                below = here;
            }
            holds[index] = below;
            here = here.max(self.entries[index].hold);
        }
        holds
    }

    /// The utilisation by all tasks, rounded down.
    pub fn utilisation(&self) -> Utilisation {
        self.loads.iter().fold(Utilisation::default(), |sum, load| sum.plus(load.utilisation()))
    }

    /// The blocking of a task: its declared blocking and that by less urgent tasks.
    pub fn blocking(&self, index: usize, holds: &[u64]) -> u64 {
        self.entries[index].blocking.saturating_add(holds[index])
    }

    /// Stores the results of a task as the start of the next search.
    pub fn learn(&mut self, index: usize, times: Times) {
        self.entries[index].first = times.first;
        self.entries[index].busy = times.busy;
    }

    /// Visits each task of `range` in its level, until `visit` returns false.
    pub fn levels(&self, range: Range<usize>, mut visit: impl FnMut(usize, &Level<'_>) -> bool) {
        let holds = self.holds_below();
        let mut above_utilisation = Utilisation::default();
        let mut start = 0;
        while start < range.end {
            let group = self.equals(start);
            let above = &self.loads[..group.start];
            let queue = (self.entries[start].order != Order::Arrival).then(|| {
                let members = &self.loads[group.clone()];
                let order = self.entries[start].order;
                Queue::new(above, above_utilisation, members, order, self.waits(group.clone()), holds[start])
            });
            let arrivals = self.arrivals(&group, above_utilisation, &holds);
            for index in group.start.max(range.start)..group.end.min(range.end) {
                let level = Level {
                    above,
                    above_utilisation,
                    equal: [&self.loads[group.start..index], &self.loads[index + 1..group.end]],
                    own: self.loads[index],
                    blocking: self.blocking(index, &holds),
                    from: self.entries[index].first,
                    busy_from: self.entries[index].busy,
                    runs_through: self.preemption == Preemption::None,
                    arrivals: arrivals.as_ref(),
                    queue: queue.as_ref(),
                };
                if !visit(index, &level) {
                    return;
                }
            }
            for load in &self.loads[group.clone()] {
                above_utilisation = above_utilisation.plus(load.utilisation());
            }
            start = group.end;
        }
    }

    fn arrivals(
        &self,
        group: &Range<usize>,
        above_utilisation: Utilisation,
        holds: &[u64],
    ) -> Option<Arrivals<'_>> {
        let runs_through = self.preemption == Preemption::None;
        if group.len() < 2 || runs_through || self.entries[group.start].order != Order::Arrival {
            return None;
        }
        let above = MoreUrgentTasks {
            loads: &self.loads[..group.start],
            equal: [&[], &[]],
            utilisation: above_utilisation,
        };
        let mut arrivals = Arrivals::new(above, &self.loads[group.clone()]);
        for index in group.clone() {
            let entry = &self.entries[index];
            arrivals.blocking = arrivals.blocking.max(self.blocking(index, holds));
            arrivals.from = arrivals.from.max(entry.first);
            arrivals.busy_from = arrivals.busy_from.max(entry.busy);
            arrivals.latest = arrivals.latest.max(entry.deadline.saturating_sub(self.loads[index].jitter));
        }
        Some(arrivals)
    }

    fn waits(&self, group: Range<usize>) -> Vec<Wait> {
        let wait = |(member, index): (usize, usize)| {
            let (entry, load) = (&self.entries[index], &self.loads[index]);
            let early = match entry.order {
                Order::Laxity => load.jitter + load.cost,
                Order::Arrival | Order::Deadline => load.jitter,
            };
            let due = entry.deadline.saturating_sub(early);
            Wait { member, due, lead: entry.lead, blocking: entry.blocking, hold: entry.hold_inside }
        };
        group.enumerate().map(wait).collect()
    }

    /// The longest response of each task of `range`, searched up to its deadline, until `visit`
    /// returns false.
    pub fn responses(
        &self,
        range: Range<usize>,
        effort: &mut TermLimit,
        mut visit: impl FnMut(usize, Result<Times, Stop>) -> bool,
    ) {
        let mut before: Option<(Urgent, Times)> = None;
        self.levels(range, |index, level| {
            let mut level = *level;
            let alone = level.equal.iter().all(|part| part.is_empty()) && level.queue.is_none();
            if let Some((urgent, times)) = before.filter(|_| alone) {
                level.from = level.from.max(no_earlier(&level, &urgent, times.first));
                let busy = times.busy.saturating_add(level.blocking).saturating_add(level.own.cost);
                if level.blocking.saturating_add(level.own.cost) >= urgent.blocking {
                    level.busy_from = level.busy_from.max(busy - urgent.blocking);
                }
            }
            let deadline = self.entries[index].deadline;
            let result = match level.response(deadline, effort) {
                // One more sum may still show that the deadline is met.
                Err(stop @ Stop::Undecided(_)) => {
                    let within = deadline.saturating_sub(level.own.jitter);
                    match level.settles(within, &mut TermLimit::new(u64::MAX)) {
                        Ok(true) => {
                            Ok(Times { response: deadline, first: level.from, busy: level.busy_from })
                        }
                        _ => Err(stop),
                    }
                }
                result => result,
            };
            let here = Urgent { blocking: level.blocking, cost: level.own.cost };
            before = result.ok().filter(|_| alone).map(|times| (here, times));
            visit(index, result)
        });
    }
}

/// What the analysis of the next less urgent task needs.
#[derive(Debug, Clone, Copy)]
struct Urgent {
    blocking: u64,
    cost: u64,
}

/// Where the first fixed point of a task may start, given that of the task before, for which it
/// waits, too.
fn no_earlier(level: &Level<'_>, urgent: &Urgent, first: u64) -> u64 {
    let job = if level.runs_through { urgent.cost } else { level.own.cost };
    match level.blocking.saturating_add(job).checked_sub(urgent.blocking) {
        Some(more) if level.runs_through || level.blocking >= urgent.blocking => first.saturating_add(more),
        _ => 0,
    }
}
