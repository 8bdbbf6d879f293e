//! ConsumerAdminServant that are operations of a schedule: admitted and placed by the handle that they connect with.

use crate::dispatch::MAX_LEVELS;
use crate::placement::{NotAdmitted, Placement, Quality, RunTimeScheduler};
use crate::scheduled::{priority, sub_priority};
use isorb_rt::priority::Priority;
use isorb_rt::sync::PiMutex;
use isorb_sched::Preemption;
use isorb_sched::file::{FileError, ScheduleFile};
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use isorb_sched_service::{Compiled, FetchError, NoPromise, Promise};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Admits consumers as operations of a schedule that is compiled elsewhere: in a file, or by an `RtecScheduler::Scheduler`.
///
/// A consumer says which operation it is by the handle ([`Quality::rt_info`], `rt_info` of TAO's `ConsumerQOS`). It gets the priority,
/// the deadline and the worst case that the schedule has for it, if the schedule shows that it will be in time with everything that is
/// registered, and so will all that are connected; it is refused with the numbers if not. Each operation is one consumer's. One without a
/// handle is promised nothing: it is put at the least urgent priority, where it takes what is left.
///
/// What is registered later may move the levels of those that are connected. They move with the schedule whenever somebody connects.
///
/// # Real-time
/// A scheduler elsewhere is asked whenever a consumer connects: two calls an operation that is registered, and their analysis. Events
/// cost it nothing.
#[derive(Debug)]
pub struct RegisteredOperations {
    source: Source,
    state: PiMutex<State>,
}

#[derive(Debug)]
enum Source {
    Fixed(Box<Compiled>),
    Asked { scheduler: SchedulerRef, priorities: RangeInclusive<u16>, preemption: Preemption },
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Those who are connected, by the number under which they leave.
    taken: BTreeMap<u64, Taken>,
    /// Where the channel serves them, the least urgent first; empty where it has not asked.
    served: Vec<Priority>,
    /// Counts who asked the scheduler, and of whose answer the places are.
    asked: u64,
    active: u64,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    handle: i32,
    placement: Placement,
}

/// A channel cannot have the levels that a schedule needs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LevelsError {
    /// The scheduler cannot be asked, or has no schedule.
    Fetch(FetchError),
    /// RemoteEnd are more levels than a channel can have.
    TooMany {
        /// Levels of the schedule.
        levels: usize,
    },
}

impl fmt::Display for LevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LevelsError::Fetch(error) => error.fmt(f),
            LevelsError::TooMany { levels } => write!(
                f,
                "the schedule has {levels} levels of urgency, and a channel serves {} and those without a promise: give fewer different \
                 periods, deadlines or priorities, or take the policy edf or mlf (one level) or muf (five)",
                MAX_LEVELS - 1
            ),
        }
    }
}

impl std::error::Error for LevelsError {}

impl From<FetchError> for LevelsError {
    fn from(error: FetchError) -> LevelsError {
        LevelsError::Fetch(error)
    }
}

impl RegisteredOperations {
    /// Those of a schedule file, whose handles count from 1. `preemption` is how the channel dispatches.
    ///
    /// # Errors
    /// [`FileError`] for a file that cannot be scheduled.
    pub fn of_file(file: &ScheduleFile, preemption: Preemption) -> Result<RegisteredOperations, FileError> {
        let compiled = Compiled::of_file(file, preemption)?;
        Ok(RegisteredOperations { source: Source::Fixed(Box::new(compiled)), state: PiMutex::default() })
    }

    /// Those that are registered with a scheduler when they connect. Where it has no schedule since something changed it is told to compute one:
    /// with the priorities of the one that [`levels`](Self::levels) met, or with these where it met none. `preemption` is how the
    /// channel dispatches.
    pub fn of_scheduler(
        scheduler: SchedulerRef,
        priorities: RangeInclusive<u16>,
        preemption: Preemption,
    ) -> RegisteredOperations {
        let source = Source::Asked { scheduler, priorities, preemption };
        RegisteredOperations { source, state: PiMutex::default() }
    }

    /// The levels that a channel needs: those of a file; those of a scheduler's schedule as it is now, and more below its most urgent priority
    /// until there are `count` in all, for what is registered later. The least urgent of all is for those that are no operations.
    ///
    /// # Errors
    /// [`LevelsError`].
    pub fn levels(&self, count: usize) -> Result<Vec<Priority>, LevelsError> {
        let (known, first, last, count) = match &self.source {
            Source::Fixed(compiled) => (compiled.thread_priorities(), 0, 0, 0),
            Source::Asked { priorities, .. } => {
                let known = self.compiled()?.thread_priorities();
                let last = known.last().copied().unwrap_or(*priorities.end());
                let first = known.first().map_or(*priorities.start(), |first| *priorities.start().min(first));
                (known, first, last, count)
            }
        };
        let mut all: BTreeSet<u16> = known.into_iter().collect();
        let there = all.iter().filter(|priority| **priority > 0).count();
        if there >= MAX_LEVELS {
            return Err(LevelsError::TooMany { levels: there });
        }
        all.insert(0);
        for spare in (first.max(1)..=last).rev() {
            if all.len() >= count.min(MAX_LEVELS) {
                break;
            }
            all.insert(spare);
        }
        let levels: Vec<Priority> = all.into_iter().map(priority).collect();
        self.state.lock().served.clone_from(&levels);
        Ok(levels)
    }

    fn compiled(&self) -> Result<Compiled, FetchError> {
        match &self.source {
            Source::Fixed(compiled) => Ok((**compiled).clone()),
            Source::Asked { scheduler, priorities, preemption } => {
                let range = self.state.lock().range();
                Compiled::fetch(scheduler, range.unwrap_or_else(|| priorities.clone()), *preemption)
            }
        }
    }
}

/// So often a schedule is read again that somebody else has read anew meanwhile.
const TRIES: u32 = 8;

impl RunTimeScheduler for RegisteredOperations {
    fn admit(&self, _: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        if q.rt_info == 0 {
            return Ok((Placement::least_urgent(q), 0));
        }
        for _ in 0..TRIES {
            let mut state = self.state.lock();
            state.asked += 1;
            let ticket = state.asked;
            drop(state);
            // Not with the lock held: it is elsewhere.
            let compiled = self.compiled().map_err(|why| NotAdmitted(why.to_string()))?;
            let mut state = self.state.lock();
            if ticket > state.active {
                let admitted = state.take(&compiled, q.rt_info)?;
                state.active = ticket;
                return Ok(admitted);
            }
        }
        Err(NotAdmitted("the schedule is read by too many who connect at once; try again".into()))
    }

    fn leave(&self, number: u64) {
        self.state.lock().taken.remove(&number);
    }

    fn placements(&self) -> Vec<(u64, Placement)> {
        let state = self.state.lock();
        state.taken.iter().map(|(number, taken)| (*number, taken.placement)).collect()
    }
}

impl State {
    /// The priorities of the levels that are operations'.
    fn range(&self) -> Option<RangeInclusive<u16>> {
        let number = |priority: &Priority| priority.get().unsigned_abs();
        let first = self.served.iter().find(|priority| **priority > Priority::MIN)?;
        Some(number(first)..=self.served.last().map(number)?)
    }

    /// A place and a number for the consumer of this handle, and the places of all others as this schedule has them.
    fn take(&mut self, compiled: &Compiled, handle: i32) -> Result<(Placement, u64), NotAdmitted> {
        let refused = |why: NoPromise| NotAdmitted(why.to_string());
        let promise = compiled.promise(handle).map_err(refused)?;
        let name = &promise.operation;
        let no = |why: String| NotAdmitted(format!("{name} cannot be admitted: {why}"));
        if self.taken.values().any(|taken| taken.handle == handle) {
            return Err(no("another consumer is connected as this operation".into()));
        }
        let placement = self.placed(&promise).map_err(no)?;
        let mut moved = self.taken.clone();
        for taken in moved.values_mut() {
            let theirs = compiled.promise(taken.handle).map_err(|why| no(broken(&why)))?;
            taken.placement = self.placed(&theirs).map_err(no)?;
        }
        self.taken = moved;
        self.next += 1;
        self.taken.insert(self.next, Taken { handle, placement });
        Ok((placement, self.next))
    }

    fn placed(&self, promise: &Promise) -> Result<Placement, String> {
        let dispatch = promise.dispatch;
        let priority = priority(dispatch.thread_priority);
        if let Some(range) = self.range().filter(|_| !self.served.contains(&priority)) {
            let (first, last, name) = (range.start(), range.end(), &promise.operation);
            return Err(format!(
                "the scheduler puts {name} at priority {}, where this channel has no level: it serves {first} to {last}. Have the schedule \
                 computed with these, or start the channel when it is (or with --priorities and --levels that fit it)",
                priority.get()
            ));
        }
        Ok(Placement {
            priority,
            sub_priority: sub_priority(&dispatch),
            deadline: Some(Duration::from_nanos(dispatch.own_deadline().ns())),
            worst_case: Some(Duration::from_nanos(dispatch.cost.ns())),
            period: promise.period.map(|period| Duration::from_nanos(period.ns())),
            jitter: Duration::from_nanos(dispatch.released.ns()),
        })
    }
}

/// What was promised to somebody who is connected would be so no more.
fn broken(why: &NoPromise) -> String {
    match why {
        NoPromise::Late { name, why } => format!("{name}, which is connected, would be late: {why}"),
        gone => gone.to_string(),
    }
}
