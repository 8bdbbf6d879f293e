//! The demand-bound test: whether work that is served in order of deadline, or of laxity, is done in time.
//!
//! In every span `t` the jobs that arrive in it and are due in it must fit, with what may hold them up and what more urgent levels
//! take. A job is due at its deadline, or, where the order is by laxity, at the latest time at which it may begin. The
//! spans to look at are those that end where some job is due, within the longest busy period; going from the longest down, a
//! span whose work is done early lets the test skip to that time (QPA: Zhang and Burns 2009). What holds work up grows as the spans get shorter, so
//! the skipping stops where it changes.
//!
//! Where a queue counts from arrivals, jobs of a task are due a period apart. Where it counts from readiness, the first may have been late by
//! its jitter and the next not, so that they are due by as much closer together: the count of jobs in a span is that of arrivals in a span
//! longer by the jitter.

use crate::load::{Load, Utilisation};
use crate::response::{Above, Effort, Level, Stop};
use std::cell::Cell;

/// The order in which tasks of one level are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// In the order in which they became ready.
    #[default]
    Arrival,
    /// The nearest deadline first.
    Deadline,
    /// The least laxity first: what is left to the deadline when the cost is taken off.
    Laxity,
}

/// The members of a level that is not served in order of arrival.
#[derive(Debug)]
pub(crate) struct Queue<'a> {
    pub above: &'a [Load],
    pub above_utilisation: Utilisation,
    pub members: &'a [Load],
    pub order: Order,
    /// One a member, sorted by `due`.
    pub waits: Vec<Wait>,
    /// How long a less urgent level may hold the resource.
    pub hold_below: u64,
    pub memo: Cell<Option<Result<(), Late>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub member: usize,
    /// When the first job is due, counted from the start of a busy period at which it is ready, late by its whole jitter.
    pub due: u64,
    /// How much sooner than a period after it the next one may be due.
    pub lead: u64,
    /// B as declared.
    pub blocking: u64,
    /// How long it may hold up a member that is due earlier.
    pub hold: u64,
}

impl Wait {
    /// Jobs of this member that are due by `end`, which is not before the first is.
    fn jobs_by(&self, end: u64, load: &Load) -> u64 {
        load.whole_periods((end - self.due).saturating_add(self.lead)).saturating_add(1)
    }

    /// The last time up to `end` at which one is due.
    fn last_by(&self, end: u64, load: &Load) -> u64 {
        let periods = load.whole_periods((end - self.due).saturating_add(self.lead));
        self.due.saturating_add((periods.saturating_mul(load.period)).saturating_sub(self.lead))
    }
}

/// Why a level is not shown to be in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late {
    /// Whose job is late.
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

    /// Whether every job of every member is in time; computed once. The stop of a [`Late`] carries by how much it is late.
    pub fn in_time(&self, effort: &mut Effort) -> Result<(), Late> {
        let result = self.memo.get().unwrap_or_else(|| self.test(effort));
        self.memo.set(Some(result));
        result
    }

    fn test(&self, effort: &mut Effort) -> Result<(), Late> {
        let (Some(first), Some(own)) = (self.waits.first(), self.members.first()) else { return Ok(()) };
        let somebody = |stop| Late { member: first.member, stop };
        let all = self.members.iter().fold(self.above_utilisation, |sum, load| sum.plus(load.utilisation()));
        if all > Utilisation::ONE {
            return Err(somebody(Stop::Unbounded));
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
            return Err(somebody(Stop::Undecided(0)));
        }
        let busy = level.busy_period(all, effort).map_err(somebody)?;
        let constant = self.longest_hold(0) <= self.hold_below;
        let mut span = self.last_due(busy);
        while let Some(end) = span {
            effort.spend(self.members.len(), 0).map_err(somebody)?;
            let grace = self.grace();
            let done = self.done(end, end.saturating_add(grace), effort).map_err(|stop| match stop {
                Stop::Over(done) => Late {
                    member: self.due_at(end),
                    stop: Stop::Over(done.saturating_sub(grace).saturating_sub(end)),
                },
                stop => somebody(stop),
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

    /// When all that is due by `end` is done, at most.
    fn done(&self, end: u64, limit: u64, effort: &mut Effort) -> Result<u64, Stop> {
        let due = self.waits.partition_point(|wait| wait.due <= end);
        let blocking = self.waits[..due].iter().map(|wait| wait.blocking).max().unwrap_or(0);
        let hold = self.longest_hold(due).max(self.hold_below);
        let base = self.waits[..due].iter().fold(blocking.saturating_add(hold), |sum, wait| {
            let load = &self.members[wait.member];
            sum.saturating_add(wait.jobs_by(end, load).saturating_mul(load.cost))
        });
        let above = Above { loads: self.above, equal: [&[], &[]], utilisation: self.above_utilisation };
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

    /// A job that begins by the time at which it is due is done a cost later.
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
