//! Response times under fixed priorities: the fixed points on which the rest of this crate is
//! built.
//!
//! For a job of the task under analysis that becomes ready at `a` after the start of a busy period
//! of its level, the time at which it is done is the least `w` with
//!
//! ```text
//! preemptive       w = B + own jobs + equals ready by a + sum over more urgent tasks ceil((w + J) / T) C
//! not preemptive   s = B + own earlier jobs + equals ready by a + sum over more urgent tasks (floor((s + J) / T) + 1) C,   w = s + C
//! ```
//!
//! and its response, counted from its arrival, is J + w - a. The first job of a busy period need
//! not be the worst one where the deadline exceeds the period, and never need be without
//! preemption, so every job of the busy period is looked at (Tindell, Burns and Wellings 1994 for
//! jitter and deadlines beyond the period; George, Rivierre and Spuri 1996 for equal priorities in
//! order of arrival and for what cannot be preempted; Davis, Burns, Bril and Lukkien 2007 for why
//! the first job is not enough).

use crate::arrival::Arrivals;
use crate::demand::{Queue, UnprovenDeadline};
use crate::load::{Load, Utilisation};
use crate::{Nanos, Task};

/// When a running job can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preemption {
    /// At any time.
    #[default]
    Full,
    /// At the end of its current section ([`Task::section`]): between packets of a message, at
    /// `yield_now`.
    Deferred,
    /// Never: a link, a single-threaded dispatcher.
    None,
}

impl Preemption {
    /// How long a job of this task may delay a more urgent one that becomes ready while it runs.
    pub(crate) fn hold(self, task: &Task) -> u64 {
        // The job began at least one nanosecond before.
        match self {
            Preemption::Full => 0,
            Preemption::Deferred => task.longest_section().ns().saturating_sub(1),
            Preemption::None => task.cost.ns().saturating_sub(1),
        }
    }
}

/// How much computing an analysis may take; a term is one evaluation of one more urgent task's
/// demand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TermLimit {
    terms: u64,
}

impl TermLimit {
    pub fn new(terms: u64) -> TermLimit {
        TermLimit { terms }
    }

    pub fn spend(&mut self, terms: usize, reached: u64) -> Result<(), Stop> {
        match self.terms.checked_sub(terms as u64 + 1) {
            Some(left) => {
                self.terms = left;
                Ok(())
            }
            None => Err(Stop::Undecided(reached)),
        }
    }
}

/// Why there is no bound within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The response is at least this, which is over the limit.
    Over(u64),
    /// Tasks of this urgency and above use more than the whole resource: responses grow without
    /// bound.
    Unbounded,
    /// The effort is used up; the response is at least this.
    Undecided(u64),
    /// Another member of the level is late, by this much, so that nothing is known of this one.
    Beside {
        /// That member, by its index in the level.
        member: usize,
        /// How late it is.
        late: u64,
    },
}

/// A task among those that are at least as urgent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level<'a> {
    /// The more urgent tasks.
    pub above: &'a [Load],
    /// Their utilisation, rounded down.
    pub above_utilisation: Utilisation,
    /// The tasks of equal priority, without the task itself.
    pub equal: [&'a [Load]; 2],
    /// The task.
    pub own: Load,
    /// B, with the time for which less urgent tasks may hold the resource.
    pub blocking: u64,
    /// A lower bound of the time at which the first job is done, or begins if it runs without
    /// preemption: the start of its fixed point.
    pub from: u64,
    /// A lower bound of the length of a busy period.
    pub busy_from: u64,
    /// Whether a job that has begun is not preempted.
    pub runs_through: bool,
    /// The curve of the level, if it has several members in order of arrival and everything is
    /// preemptible.
    pub arrivals: Option<&'a Arrivals<'a>>,
    /// The queue of the level, if it is not served in order of arrival.
    pub queue: Option<&'a Queue<'a>>,
}

/// The result for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Its longest response.
    pub response: u64,
    /// When the first job of a busy period is done, or begins if it runs without preemption.
    /// Further tasks only make it later.
    pub first: u64,
    /// The length of a busy period, if it was computed. Further tasks only make it longer.
    pub busy: u64,
}

/// With more breakpoints than this, tasks of equal priority count as more urgent: safe, but not
/// exact.
const BREAKPOINTS: u64 = 2048;

impl Level<'_> {
    /// The longest response, from arrival to completion. Stops as soon as it exceeds `limit`.
    pub fn response(&self, limit: u64, effort: &mut TermLimit) -> Result<Times, Stop> {
        let above =
            MoreUrgentTasks { loads: self.above, equal: [&[], &[]], utilisation: self.above_utilisation };
        let all = self.arrivals.map_or_else(
            || {
                let own = above.utilisation.plus(self.own.utilisation());
                self.equals().fold(own, |sum, load| sum.plus(load.utilisation()))
            },
            |arrivals| arrivals.all,
        );
        if all > Utilisation::ONE {
            return Err(Stop::Unbounded);
        }
        if self.never_rests(all) {
            return Err(Stop::Undecided(0));
        }
        if let Some(queue) = self.queue {
            return self.queued(queue, limit, effort);
        }
        if !self.has_equals() && !self.runs_through {
            return self.alone(&above, limit, effort);
        }
        if let Some(arrivals) = self.arrivals
            && let Some(times) = arrivals.response(self, limit, BREAKPOINTS, effort)?
        {
            return Ok(times);
        }
        let busy = self.busy_period(all, effort)?;
        let span = busy.saturating_add(self.own.jitter);
        let breakpoints =
            self.equals().fold(span / self.own.period, |sum, load| sum.saturating_add(span / load.period));
        if self.has_equals() && breakpoints > BREAKPOINTS {
            let urgent = MoreUrgentTasks {
                equal: self.equal,
                utilisation: all.minus(self.own.utilisation()),
                ..above
            };
            return self.jobs(&urgent, busy, limit, effort);
        }
        let Times { response: mut worst, first, .. } = self.jobs(&above, busy, limit, effort)?;
        for equal in self.equals() {
            for k in equal.jitter.div_ceil(equal.period).. {
                let ready = equal.period.saturating_mul(k).saturating_sub(equal.jitter);
                if ready >= span {
                    break;
                }
                let (response, _) = self.job(&above, ready, 0, limit, effort)?;
                worst = worst.max(response);
            }
        }
        Ok(Times { response: worst, first, busy })
    }

    /// Whether all work of this level is done `within` a time of the start of any busy period, by
    /// one sum. Then every response is within that time and the jitter.
    pub fn settles(&self, within: u64, effort: &mut TermLimit) -> Result<bool, Stop> {
        effort.spend(self.above.len() + self.equals().count(), 0)?;
        let base = self.blocking.saturating_add(self.own.demand_before(within));
        let sum = |sum: u64, load: &Load| sum.saturating_add(load.demand_before(within));
        Ok(self.equals().fold(self.above.iter().fold(base, sum), sum) <= within)
    }

    /// Whether the resource is used completely and something besides delays the level. Then a busy
    /// period does not end. (Shares are rounded down, each by less than one unit.)
    pub fn never_rests(&self, all: Utilisation) -> bool {
        let tasks = self.above.len() + self.equals().count() + 1;
        let delayed = |load: &Load| load.jitter > 0;
        all.nearly_one(tasks)
            && (self.blocking > 0
                || delayed(&self.own)
                || self.above.iter().any(delayed)
                || self.equals().any(delayed))
    }

    /// In a level that is not served in order of arrival the bound is the deadline, or there is
    /// none.
    fn queued(&self, queue: &Queue<'_>, limit: u64, effort: &mut TermLimit) -> Result<Times, Stop> {
        match queue.in_time(effort) {
            Ok(()) => Ok(Times { response: limit, first: 0, busy: 0 }),
            Err(UnprovenDeadline { member, stop: Stop::Over(late) }) if member == self.equal[0].len() => {
                Err(Stop::Over(limit.saturating_add(late)))
            }
            Err(UnprovenDeadline { member, stop: Stop::Over(late) }) => Err(Stop::Beside { member, late }),
            Err(UnprovenDeadline { stop, .. }) => Err(stop),
        }
    }

    /// No other task is as urgent, and everything is preemptible: a busy period ends where no next
    /// job is ready.
    fn alone(&self, above: &MoreUrgentTasks<'_>, limit: u64, effort: &mut TermLimit) -> Result<Times, Stop> {
        let mut times = Times { response: 0, first: 0, busy: 0 };
        let mut done = self.from;
        for q in 0_u64.. {
            let arrival = q.saturating_mul(self.own.period);
            let base = self.blocking.saturating_add((q + 1).saturating_mul(self.own.cost));
            let timeout = limit.saturating_add(arrival).saturating_sub(self.own.jitter);
            done = above
                .fixed_point(base, done, timeout, Load::demand_before, effort)
                .map_err(|stop| stop.since(arrival, self.own.jitter))?;
            if q == 0 {
                times.first = done;
            }
            times.response = times.response.max(self.own.jitter.saturating_add(done).saturating_sub(arrival));
            if done.saturating_add(self.own.jitter) <= arrival.saturating_add(self.own.period) {
                break;
            }
        }
        Ok(times)
    }

    /// Every own job of a busy period that starts when the first is ready.
    fn jobs(
        &self,
        above: &MoreUrgentTasks<'_>,
        busy: u64,
        limit: u64,
        effort: &mut TermLimit,
    ) -> Result<Times, Stop> {
        let mut times = Times { response: 0, first: 0, busy };
        let mut from = self.from;
        for q in 0..self.own.jobs_before(busy).max(1) {
            let (response, reached) =
                self.job(above, q.saturating_mul(self.own.period), from, limit, effort)?;
            if q == 0 {
                times.first = reached;
            }
            from = reached;
            times.response = times.response.max(response);
        }
        Ok(times)
    }

    /// The response of the own job that is ready at `ready`, with the full jitter, and its fixed
    /// point.
    fn job(
        &self,
        above: &MoreUrgentTasks<'_>,
        ready: u64,
        from: u64,
        limit: u64,
        effort: &mut TermLimit,
    ) -> Result<(u64, u64), Stop> {
        let earlier = ready / self.own.period;
        let among_equals = if above.equal.iter().all(|part| part.is_empty()) {
            effort.spend(self.equal[0].len() + self.equal[1].len(), 0)?;
            self.equals().fold(0_u64, |sum, load| sum.saturating_add(load.demand_until(ready)))
        } else {
            0
        };
        let base =
            self.blocking.saturating_add(among_equals).saturating_add(earlier.saturating_mul(self.own.cost));
        let timeout = limit.saturating_add(ready).saturating_sub(self.own.jitter);
        let response = |reached: u64, rest: u64| {
            (reached.saturating_add(rest).saturating_add(self.own.jitter).saturating_sub(ready), reached)
        };
        if self.runs_through {
            let timeout = timeout.saturating_sub(self.own.cost);
            let start = above.fixed_point(base, from, timeout, Load::demand_until, effort);
            start
                .map(|start| response(start, self.own.cost))
                .map_err(|stop| stop.later(self.own.cost).since(ready, self.own.jitter))
        } else {
            let base = base.saturating_add(self.own.cost);
            let done = above.fixed_point(base, from, timeout, Load::demand_before, effort);
            done.map(|done| response(done, 0)).map_err(|stop| stop.since(ready, self.own.jitter))
        }
    }

    /// The longest time during which this level always has work.
    pub fn busy_period(&self, all: Utilisation, effort: &mut TermLimit) -> Result<u64, Stop> {
        let own = [self.own];
        let demand = MoreUrgentTasks {
            loads: self.above,
            equal: self.equal,
            utilisation: all.minus(self.own.utilisation()),
        };
        let mut busy = self.busy_from.max(1);
        loop {
            let base = self.blocking.saturating_add(own[0].demand_before(busy));
            // The loop ends: the demand is met at some point, or the sums saturate.
            let next = demand
                .fixed_point(base, busy, u64::MAX, Load::demand_before, effort)
                .map_err(Stop::without_response)?;
            if next == busy {
                return Ok(busy);
            }
            busy = next;
        }
    }

    fn equals(&self) -> impl Iterator<Item = &Load> {
        self.equal.iter().flat_map(|part| part.iter())
    }

    fn has_equals(&self) -> bool {
        self.equal.iter().any(|part| !part.is_empty())
    }
}

impl Stop {
    pub fn since(self, ready: u64, jitter: u64) -> Stop {
        self.map(|time| time.saturating_add(jitter).saturating_sub(ready))
    }

    fn later(self, by: u64) -> Stop {
        self.map(|time| time.saturating_add(by))
    }

    /// A busy period that was cut short gives no response.
    fn without_response(self) -> Stop {
        self.map(|_| 0)
    }

    pub fn map(self, change: impl Fn(u64) -> u64) -> Stop {
        match self {
            Stop::Over(time) => Stop::Over(change(time)),
            Stop::Undecided(time) => Stop::Undecided(change(time)),
            Stop::Unbounded | Stop::Beside { .. } => self,
        }
    }
}

/// The tasks that go first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MoreUrgentTasks<'a> {
    pub loads: &'a [Load],
    /// Tasks of equal priority, if they count as more urgent.
    pub equal: [&'a [Load]; 2],
    pub utilisation: Utilisation,
}

impl MoreUrgentTasks<'_> {
    /// The least `w` with `w = base + sum of demand(w)`, known to be at least `from`.
    pub fn fixed_point(
        &self,
        base: u64,
        from: u64,
        limit: u64,
        demand: impl Fn(&Load, u64) -> u64,
        effort: &mut TermLimit,
    ) -> Result<u64, Stop> {
        // Demand grows at least as fast as the utilisation, so the solution is not before the time
        // at which that line meets w.
        let line = self.utilisation.left_takes(base).ok_or(Stop::Unbounded)?;
        let mut time = base.max(from).max(line);
        let terms = self.loads.len() + self.equal[0].len() + self.equal[1].len();
        loop {
            if time > limit {
                return Err(Stop::Over(time));
            }
            effort.spend(terms, time)?;
            let sum = |sum: u64, load: &Load| sum.saturating_add(demand(load, time));
            let next = self.loads.iter().fold(base, sum);
            let next = self.equal.iter().flat_map(|part| part.iter()).fold(next, sum);
            if next <= time {
                return Ok(time);
            }
            time = next;
        }
    }
}

/// The result about a task's longest response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// No response takes longer. With distinct priorities and full preemption some response takes
    /// as long.
    Bounded(Nanos),
    /// Some response takes at least this long, over the deadline.
    Over(Nanos),
    /// The tasks of this urgency and above use more than the whole resource.
    Unbounded,
    /// The effort is used up, or another task of the level is late. Some response may take this
    /// long or longer.
    Undecided(Nanos),
}

impl Response {
    pub(crate) fn of(result: Result<Times, Stop>) -> Response {
        match result {
            Ok(times) => Response::Bounded(Nanos::new(times.response)),
            Err(Stop::Over(time)) => Response::Over(Nanos::new(time)),
            Err(Stop::Unbounded) => Response::Unbounded,
            Err(Stop::Undecided(time)) => Response::Undecided(Nanos::new(time)),
            Err(Stop::Beside { .. }) => Response::Undecided(Nanos::ZERO),
        }
    }

    /// The bound, where there is one.
    #[must_use]
    pub fn bound(self) -> Option<Nanos> {
        match self {
            Response::Bounded(time) => Some(time),
            _ => None,
        }
    }

    /// Whether every response is known to be within `deadline`.
    #[must_use]
    pub fn within(self, deadline: Nanos) -> bool {
        self.bound().is_some_and(|time| time <= deadline)
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Response::Bounded(time) => f.pad(&time.to_string()),
            Response::Over(time) => f.pad(&format!(">= {time}")),
            Response::Unbounded => f.pad("unbounded"),
            Response::Undecided(time) => f.pad(&format!("undecided (>= {time})")),
        }
    }
}
