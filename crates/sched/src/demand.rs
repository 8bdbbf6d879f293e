//! The demand-bound test for levels served in order of deadline or of laxity.
//!
//! In every interval `t`, the jobs that arrive in it and are due in it must fit, with blocking and
//! with the demand of more urgent levels. A job is due at its deadline or, if the order is by
//! laxity, at the latest time at which it may begin. The test looks at intervals that end when a
//! job is due, within the longest busy period. It starts with the longest. Where the demand of an
//! interval is served early, it skips to that time (QPA: Zhang and Burns 2009). Blocking grows as
//! intervals become shorter, so it skips at most to the point where blocking changes.
//!
//! If a queue counts from arrivals, jobs of a task are due a period apart. If it counts from
//! readiness, the first job may have been late by its jitter and the next one not, so that they are
//! due closer together. The number of jobs in an interval is then the number of arrivals in an
//! interval longer by the jitter.

use crate::load::{Load, Utilisation};
use crate::response::{Level, MoreUrgentTasks, Stop, TermLimit};
use std::cell::Cell;

/// The order in which tasks of one level are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// In the order in which they became ready.
    #[default]
    Arrival,
    /// The nearest deadline first.
    Deadline,
    /// The least laxity first: the time to the deadline less the cost.
    Laxity,
}

/// A level that is not served in order of arrival.
#[derive(Debug)]
pub(crate) struct Queue<'a> {
    pub above: &'a [Load],
    pub above_utilisation: Utilisation,
    pub members: &'a [Load],
    pub order: Order,
    /// One for each member, sorted by `due`.
    pub waits: Vec<Wait>,
    /// How long a less urgent level may hold the resource.
    pub hold_below: u64,
    pub memo: Cell<Option<Result<(), UnprovenDeadline>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub member: usize,
    /// When the first job is due, counted from the start of a busy period at which it is ready,
    /// with its whole jitter.
    pub due: u64,
    /// How much sooner than a period later the next job may be due.
    pub lead: u64,
    /// Its declared blocking.
    pub blocking: u64,
    /// How long it may delay a member that is due earlier.
    pub hold: u64,
}

impl Wait {
    /// The number of jobs of this member that are due by `end`, which is not before the first is
    /// due.
    fn jobs_by(&self, end: u64, load: &Load) -> u64 {
        load.whole_periods((end - self.due).saturating_add(self.lead)).saturating_add(1)
    }

    /// The last time up to `end` at which a job is due.
    fn last_by(&self, end: u64, load: &Load) -> u64 {
        let periods = load.whole_periods((end - self.due).saturating_add(self.lead));
        self.due.saturating_add((periods.saturating_mul(load.period)).saturating_sub(self.lead))
    }
}

/// Why a level is not shown to meet its deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnprovenDeadline {
    /// The member with a late job.
    pub member: usize,
    pub stop: Stop,
}

impl<'a> Queue<'a> {
    pub fn new(
        above: &'a [Load],
        above_utilisation: Utilisation,
        members: &'a [Load],
        order: Order,
        mut waits: Vec<Wait>,
        hold_below: u64,
    ) -> Queue<'a> {
        waits.sort_by_key(|wait| wait.due);
        Queue { above, above_utilisation, members, order, waits, hold_below, memo: Cell::new(None) }
    }

    /// Whether all jobs of all members meet their deadlines, computed once. The stop of an
    /// [`UnprovenDeadline`] says by how much a job is late.
    pub fn in_time(&self, effort: &mut TermLimit) -> Result<(), UnprovenDeadline> {
        let result = self.memo.get().unwrap_or_else(|| self.test(effort));
        self.memo.set(Some(result));
        result
    }

    fn test(&self, effort: &mut TermLimit) -> Result<(), UnprovenDeadline> {
        let (Some(first), Some(own)) = (self.waits.first(), self.members.first()) else { return Ok(()) };
        let late = |stop| UnprovenDeadline { member: first.member, stop };
        let all = self.members.iter().fold(self.above_utilisation, |sum, load| sum.plus(load.utilisation()));
        if all > Utilisation::ONE {
            return Err(late(Stop::Unbounded));
        }
        let blocking = self.longest_blocking().saturating_add(self.longest_hold(0).max(self.hold_below));
        let level = Level {
            above: self.above,
            above_utilisation: self.above_utilisation,
            equal: [&self.members[1..], &[]],
            own: *own,
            blocking,
            from: 0,
            busy_from: 0,
            runs_through: false,
            arrivals: None,
            queue: None,
        };
        if level.never_rests(all) {
            return Err(late(Stop::Undecided(0)));
        }
        let busy = level.busy_period(all, effort).map_err(late)?;
        let constant = self.longest_hold(0) <= self.hold_below;
        let mut span = self.last_due(busy);
        while let Some(end) = span {
            effort.spend(self.members.len(), 0).map_err(late)?;
            let grace = self.grace();
            let done = self.done(end, end.saturating_add(grace), effort).map_err(|stop| match stop {
                Stop::Over(done) => UnprovenDeadline {
                    member: self.due_at(end),
                    stop: Stop::Over(done.saturating_sub(grace).saturating_sub(end)),
                },
                stop => late(stop),
            })?;
            let skip = done.saturating_sub(grace).min(end);
            let known = self.waits.partition_point(|wait| wait.due <= end);
            let same_hold_from = if constant { 0 } else { self.waits[known - 1].due };
            span = if skip < same_hold_from {
                self.last_due(same_hold_from)
            } else {
                self.last_due(skip.saturating_add(u64::from(skip < end)))
            };
        }
        Ok(())
    }

    /// An upper bound of the time at which all jobs due by `end` are done.
    fn done(&self, end: u64, limit: u64, effort: &mut TermLimit) -> Result<u64, Stop> {
        let due = self.waits.partition_point(|wait| wait.due <= end);
        let blocking = self.waits[..due].iter().map(|wait| wait.blocking).max().unwrap_or(0);
        let hold = self.longest_hold(due).max(self.hold_below);
        let base = self.waits[..due].iter().fold(blocking.saturating_add(hold), |sum, wait| {
            let load = &self.members[wait.member];
            sum.saturating_add(wait.jobs_by(end, load).saturating_mul(load.cost))
        });
        let above =
            MoreUrgentTasks { loads: self.above, equal: [&[], &[]], utilisation: self.above_utilisation };
        above.fixed_point(base, 0, limit, Load::demand_before, effort)
    }

    /// The last time before `end` at which a job is due.
    fn last_due(&self, end: u64) -> Option<u64> {
        self.waits
            .iter()
            .filter(|wait| wait.due < end)
            .map(|wait| wait.last_by(end - 1, &self.members[wait.member]))
            .max()
    }

    /// A member with a job that is due then.
    fn due_at(&self, end: u64) -> usize {
        let due = |wait: &&Wait| wait.due <= end && wait.last_by(end, &self.members[wait.member]) == end;
        self.waits.iter().find(due).or(self.waits.first()).map_or(0, |wait| wait.member)
    }

    /// A job that begins when it is due ends a cost later.
    fn grace(&self) -> u64 {
        match self.order {
            Order::Laxity => self.members.iter().map(|load| load.cost).min().unwrap_or(0),
            Order::Arrival | Order::Deadline => 0,
        }
    }

    fn longest_blocking(&self) -> u64 {
        self.waits.iter().map(|wait| wait.blocking).max().unwrap_or(0)
    }

    fn longest_hold(&self, from: usize) -> u64 {
        self.waits[from..].iter().map(|wait| wait.hold).max().unwrap_or(0)
    }
}
