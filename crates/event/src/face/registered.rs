//! Consumers that are operations of a schedule: admitted and placed by the handle that they connect with.

use crate::placement::{NotAdmitted, Placement, Quality, RunTimeScheduler};
use crate::scheduled::{priority, sub_priority};
use isorb_rt::priority::Priority;
use isorb_rt::sync::PiMutex;
use isorb_sched::Preemption;
use isorb_sched::file::{FileError, ScheduleFile};
use isorb_sched_service::rtec_scheduler::SchedulerRef;
use isorb_sched_service::{Compiled, FetchError};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Admits consumers as operations of a schedule that is compiled elsewhere: in a file, or by an `RtecScheduler::Scheduler`.
///
/// A consumer says which operation it is by the handle ([`Quality::rt_info`], `rt_info` of TAO's `ConsumerQOS`). It gets the priority,
/// the deadline and the worst case that the schedule has for it, if the schedule shows that it will be in time with everything that is
/// registered, and is refused with the numbers if not. Each operation is one consumer's. One without a handle is promised nothing:
/// it is put at the least urgent priority, where it takes what is left.
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
    /// Handles, by the number under which their consumers leave.
    taken: BTreeMap<u64, i32>,
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

    /// Those that are registered with a scheduler when they connect. Where it has no schedule since something changed it is told to compute one with
    /// these priorities. `preemption` is how the channel dispatches.
    pub fn of_scheduler(
        scheduler: SchedulerRef,
        priorities: RangeInclusive<u16>,
        preemption: Preemption,
    ) -> RegisteredOperations {
        let source = Source::Asked { scheduler, priorities, preemption };
        RegisteredOperations { source, state: PiMutex::default() }
    }

    /// The levels that a channel needs for the schedule as it is now, and the least urgent of all below them for those that are no
    /// operations of it.
    ///
    /// # Errors
    /// [`FetchError`] where the scheduler cannot be asked.
    pub fn levels(&self) -> Result<Vec<Priority>, FetchError> {
        let known = match &self.source {
            Source::Fixed(compiled) => compiled.thread_priorities(),
            Source::Asked { .. } => self.compiled()?.thread_priorities(),
        };
        let mut levels: Vec<Priority> = known.into_iter().map(priority).collect();
        levels.push(Priority::MIN);
        levels.sort_unstable();
        levels.dedup();
        Ok(levels)
    }

    fn compiled(&self) -> Result<Compiled, FetchError> {
        match &self.source {
            Source::Fixed(compiled) => Ok((**compiled).clone()),
            Source::Asked { scheduler, priorities, preemption } => {
                Compiled::fetch(scheduler, priorities.clone(), *preemption)
            }
        }
    }

    /// A number for the consumer of this handle, if nobody has it.
    fn take(&self, handle: i32, operation: &str) -> Result<u64, NotAdmitted> {
        let mut state = self.state.lock();
        if state.taken.values().any(|taken| *taken == handle) {
            return Err(NotAdmitted(format!(
                "{operation} cannot be admitted: another consumer is connected as this operation"
            )));
        }
        state.next += 1;
        let number = state.next;
        state.taken.insert(number, handle);
        Ok(number)
    }
}

impl RunTimeScheduler for RegisteredOperations {
    fn admit(&self, _: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        if q.rt_info == 0 {
            let (priority, sub_priority) = (Priority::MIN, q.sub_priority);
            return Ok((
                Placement { priority, sub_priority, deadline: q.deadline, worst_case: q.worst_case },
                0,
            ));
        }
        let refused = |why: &dyn std::fmt::Display| NotAdmitted(why.to_string());
        let promise = match &self.source {
            Source::Fixed(compiled) => compiled.promise(q.rt_info),
            // Not with the lock held: it is elsewhere.
            Source::Asked { .. } => self.compiled().map_err(|why| refused(&why))?.promise(q.rt_info),
        };
        let promise = promise.map_err(|why| refused(&why))?;
        let number = self.take(q.rt_info, &promise.operation)?;
        let dispatch = promise.dispatch;
        let placement = Placement {
            priority: priority(dispatch.thread_priority),
            sub_priority: sub_priority(&dispatch),
            deadline: Some(Duration::from_nanos(dispatch.own_deadline().ns())),
            worst_case: Some(Duration::from_nanos(dispatch.cost.ns())),
        };
        Ok((placement, number))
    }

    fn leave(&self, number: u64) {
        self.state.lock().taken.remove(&number);
    }
}
