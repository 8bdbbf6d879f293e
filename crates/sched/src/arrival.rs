//! Response times of a level that is served in order of arrival, for all members at once.
//!
//! A job that becomes ready at `a` waits for all jobs of its level that are ready by then. This
//! demand has the same steps for all members, so the level has one curve: for each step, the time
//! `W(a)` at which all demand up to `a` is served. A member's own job ends no later than that, and
//! exactly then if its jitter allows a job at `a`. So `J + W(a) - a` bounds its response at each
//! step. Only steps with a bound above the longest response found so far are computed for the
//! member itself, usually none.

use crate::load::{Load, Utilisation};
use crate::response::{Level, MoreUrgentTasks, Stop, TermLimit, Times};
use std::cell::OnceCell;

/// A level in order of arrival, preemptible by more urgent levels.
#[derive(Debug)]
pub(crate) struct Arrivals<'a> {
    pub above: MoreUrgentTasks<'a>,
    pub members: &'a [Load],
    /// The longest blocking of a member.
    pub blocking: u64,
    /// A lower bound of the time at which all demand at the start is served.
    pub from: u64,
    /// A lower bound of the length of a busy period.
    pub busy_from: u64,
    /// The longest allowed time from readiness to completion of all members.
    pub latest: u64,
    /// The demand of the members and of the more urgent tasks.
    pub all: Utilisation,
    curve: OnceCell<Option<Curve>>,
}

#[derive(Debug)]
struct Curve {
    busy: u64,
    /// In order of time, the first at 0.
    points: Vec<Point>,
    /// The steps, those with the largest `W(a) - a` first.
    worst_first: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    ready: u64,
    /// The demand of the members until then.
    demand: u64,
    /// `W`; the greatest time if it exceeds the limits of all members.
    done: u64,
}

impl Point {
    fn after(&self) -> u64 {
        self.done.saturating_sub(self.ready)
    }
}

impl<'a> Arrivals<'a> {
    pub fn new(above: MoreUrgentTasks<'a>, members: &'a [Load]) -> Arrivals<'a> {
        let all = members.iter().fold(above.utilisation, |sum, load| sum.plus(load.utilisation()));
        Arrivals {
            above,
            members,
            blocking: 0,
            from: 0,
            busy_from: 0,
            latest: 0,
            all,
            curve: OnceCell::new(),
        }
    }

    /// The longest response of a member of `level`; `None` if there are too many steps.
    pub fn response(
        &self,
        level: &Level<'_>,
        limit: u64,
        points: u64,
        effort: &mut TermLimit,
    ) -> Result<Option<Times>, Stop> {
        let curve = match self.curve.get() {
            Some(curve) => curve,
            None => {
                let curve = self.look(points, effort)?;
                self.curve.get_or_init(|| curve)
            }
        };
        let Some(curve) = curve else { return Ok(None) };
        let own = level.own;
        let at = |ready: u64, point: &Point, effort: &mut TermLimit| {
            let most = own.demand_until(ready);
            let requested = (ready / own.period).saturating_add(1).saturating_mul(own.cost);
            if requested == most && level.blocking == self.blocking && point.done < u64::MAX {
                return Ok(point.done);
            }
            let base =
                level.blocking.saturating_add(point.demand.saturating_sub(most)).saturating_add(requested);
            let timeout = limit.saturating_add(ready).saturating_sub(own.jitter);
            let from = if ready == 0 { level.from } else { 0 };
            self.above
                .fixed_point(base, from, timeout, Load::demand_before, effort)
                .map_err(|stop| stop.since(ready, own.jitter))
        };
        let mut times = Times { response: 0, first: 0, busy: curve.busy };
        let mut saw = |ready: u64, done: u64| {
            times.response = times.response.max(done.saturating_add(own.jitter).saturating_sub(ready));
            if times.response > limit { Err(Stop::Over(times.response)) } else { Ok(times.response) }
        };
        let first = at(0, &curve.points[0], effort)?;
        let mut worst = saw(0, first)?;
        let matters = |after: u64, worst: u64| after == u64::MAX || after.saturating_add(own.jitter) > worst;
        let span = curve.busy.saturating_add(own.jitter);
        for point in curve.worst_first.iter().map(|index| &curve.points[*index]) {
            effort.spend(0, worst)?;
            if !matters(point.after(), worst) {
                break;
            }
            if point.ready < span {
                worst = saw(point.ready, at(point.ready, point, effort)?)?;
            }
        }
        // Its own jobs come at whole periods, whatever its jitter.
        for q in 1..own.jobs_before(curve.busy) {
            effort.spend(0, worst)?;
            let ready = own.period.saturating_mul(q);
            let index = curve.points.partition_point(|point| point.ready <= ready) - 1;
            let point = &curve.points[index];
            if point.done == u64::MAX || matters(point.done.saturating_sub(ready), worst) {
                worst = saw(ready, at(ready, point, effort)?)?;
            }
        }
        Ok(Some(Times { first, ..times }))
    }

    fn look(&self, most: u64, effort: &mut TermLimit) -> Result<Option<Curve>, Stop> {
        let busy = self.busy_period(effort)?;
        let jitter = self.members.iter().map(|load| load.jitter).max().unwrap_or(0);
        let span = busy.saturating_add(jitter);
        let count = self.members.iter().fold(0_u64, |sum, load| sum.saturating_add(span / load.period));
        if count > most {
            return Ok(None);
        }
        let mut steps = Vec::new();
        for load in self.members {
            for k in load.jitter / load.period + 1.. {
                let ready = load.period.saturating_mul(k).saturating_sub(load.jitter);
                if ready >= span {
                    break;
                }
                steps.push((ready, load.cost));
            }
        }
        steps.sort_unstable();
        effort.spend(self.members.len() + steps.len(), 0)?;
        let demand = self.members.iter().fold(0_u64, |sum, load| sum.saturating_add(load.demand_until(0)));
        let mut points = vec![Point { ready: 0, demand, done: 0 }];
        for (ready, cost) in steps {
            let last = points[points.len() - 1];
            let demand = last.demand.saturating_add(cost);
            if last.ready == ready {
                points.pop();
            }
            points.push(Point { ready, demand, done: 0 });
        }
        let mut from = self.from;
        for point in &mut points {
            let base = self.blocking.saturating_add(point.demand);
            let timeout = self.latest.saturating_add(point.ready);
            point.done = match self.above.fixed_point(base, from, timeout, Load::demand_before, effort) {
                Ok(done) => {
                    from = done;
                    done
                }
                Err(Stop::Over(_)) => u64::MAX,
                Err(stop) => return Err(stop),
            };
        }
        let mut worst_first: Vec<usize> = (0..points.len()).collect();
        worst_first.sort_by_key(|index| {
            let point = &points[*index];
            std::cmp::Reverse(if point.done == u64::MAX { u64::MAX } else { point.after() })
        });
        Ok(Some(Curve { busy, points, worst_first }))
    }

    /// The longest time during which this level always has work.
    fn busy_period(&self, effort: &mut TermLimit) -> Result<u64, Stop> {
        // The line of all tasks but one, since together they may demand the whole resource.
        let one = self.members.first().map_or(Utilisation::default(), Load::utilisation);
        let demand =
            MoreUrgentTasks { equal: [self.members, &[]], utilisation: self.all.minus(one), ..self.above };
        let from = self.busy_from.max(1);
        demand
            .fixed_point(self.blocking, from, u64::MAX, Load::demand_before, effort)
            .map_err(|stop| stop.map(|_| 0))
    }
}

#[cfg(test)]
mod tests {
    use crate::demand::Order;
    use crate::response::{Level, Preemption, Stop, TermLimit, Times};
    use crate::table::Table;
    use crate::{Nanos, Task};
    use proptest::prelude::*;

    fn task() -> impl Strategy<Value = (u64, Task)> {
        let numbers = (0_u64..3, 1_u64..12, 8_u64..120, 0_u64..150, 0_u64..9, 20_u64..400);
        numbers.prop_map(|(level, cost, period, jitter, blocking, deadline)| {
            let ns = Nanos::new;
            let task = Task::new("t", ns(cost), ns(period)).deadline(ns(deadline));
            (level, task.jitter(ns(jitter)).blocking(ns(blocking)))
        })
    }

    fn all(table: &Table, together: bool) -> Vec<Result<Times, Stop>> {
        let mut found = Vec::new();
        table.levels(0..table.len(), |rank, level| {
            let level = Level { arrivals: level.arrivals.filter(|_| together), ..*level };
            found.push(level.response(table.entry(rank).deadline, &mut TermLimit::new(1 << 30)));
            true
        });
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        #[test]
        fn together_as_each_by_itself(
            tasks in prop::collection::vec(task(), 2..12),
            same in prop::bool::ANY,
            sections in prop::bool::ANY,
        ) {
            let preemption = if sections { Preemption::Deferred } else { Preemption::Full };
            let mut table = Table::new(preemption, false, 16);
            let mut grown = table.clone();
            for (level, task) in &tasks {
                let level = if same { 0 } else { *level };
                table.insert(level, Order::Arrival, task);
                // The other method starts each search at the results of the previous one.
                grown.insert(level, Order::Arrival, task);
                for (rank, result) in all(&grown, true).into_iter().enumerate() {
                    if let Ok(times) = result {
                        grown.learn(rank, times);
                    }
                }
            }
            let (fast, warm, slow) = (all(&table, true), all(&grown, true), all(&table, false));
            for rank in 0..table.len() {
                match (fast[rank], slow[rank]) {
                    (Ok(fast), Ok(slow)) => {
                        prop_assert_eq!((fast.response, fast.first), (slow.response, slow.first));
                        prop_assert_eq!(warm[rank].map(|times| times.response), Ok(slow.response));
                    }
                    (Err(Stop::Over(_)), Err(Stop::Over(_))) => {
                        prop_assert!(matches!(warm[rank], Err(Stop::Over(_))));
                    }
                    (fast, slow) => prop_assert_eq!(fast, slow),
                }
            }
        }
    }
}
