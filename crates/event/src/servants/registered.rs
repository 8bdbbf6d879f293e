//! Consumers that are operations of a schedule: admitted by the handle with which they connect.

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

/// Admits consumers as operations of a schedule that is compiled elsewhere: in a file, or by an
/// `RtecScheduler::Scheduler`.
///
/// A consumer names its operation by a handle ([`Quality::rt_info`], `rt_info` of TAO's
/// `ConsumerQOS`). It gets the priority, deadline and worst case of the schedule, if the schedule
/// shows that all registered operations and all connected consumers meet their deadlines. Otherwise
/// it is refused with the numbers. Each operation has at most one consumer. A consumer without a
/// handle has no promise and gets the least urgent priority.
///
/// Later registrations may change the levels of connected consumers. The channel applies the
/// changes when the next consumer connects.
///
/// On several processors ([`of_file_on`](Self::of_file_on)) each operation has its processor, by
/// worst fit over the whole file, and the channel dispatches its consumer there.
///
/// # Real-time
/// A remote scheduler is asked when a consumer connects: two calls for each registered operation,
/// and their analysis. Events cost nothing.
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
    /// The connected consumers, by admission number.
    connected: BTreeMap<u64, ConnectedOperation>,
    /// The channel's levels, the least urgent first; empty until it asks for them.
    served: Vec<Priority>,
    /// Counts the requests to the scheduler, and the request that the current placements answer.
    tickets: u64,
    active: u64,
}

#[derive(Debug, Clone, Copy)]
struct ConnectedOperation {
    handle: i32,
    placement: Placement,
    processor: Option<usize>,
}

/// Why a channel cannot have the levels of a schedule.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LevelsError {
    /// The scheduler cannot be asked, or has no schedule.
    Fetch(FetchError),
    /// There are more levels than a channel can have.
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
    /// The operations of a schedule file. Handles count from 1. `preemption` is that of the
    /// channel's dispatching.
    ///
    /// # Errors
    /// [`FileError`] for a file that cannot be scheduled.
    pub fn of_file(file: &ScheduleFile, preemption: Preemption) -> Result<RegisteredOperations, FileError> {
        let compiled = Compiled::of_file(file, preemption)?;
        Ok(RegisteredOperations { source: Source::Fixed(Box::new(compiled)), state: PiMutex::default() })
    }

    /// As [`of_file`](Self::of_file), on several processors, with full pre-emption on each. The
    /// channel needs as many [`processors`](crate::ChannelBuilder::processors) in the same order;
    /// `processors` are their numbers, for sentences.
    ///
    /// # Errors
    /// [`FileError`] for operations that cannot be scheduled even by themselves. Those that no
    /// processor has room for are [`unplaced`](Self::unplaced), and their consumers are refused.
    pub fn of_file_on(file: &ScheduleFile, processors: &[usize]) -> Result<RegisteredOperations, FileError> {
        let compiled = Compiled::of_file_on(file, Preemption::Full, processors)?;
        Ok(RegisteredOperations { source: Source::Fixed(Box::new(compiled)), state: PiMutex::default() })
    }

    /// A sentence for each group of operations that no processor has room for.
    pub fn unplaced(&self) -> Vec<String> {
        match &self.source {
            Source::Fixed(compiled) => compiled.unplaced().into_iter().map(str::to_owned).collect(),
            Source::Asked { .. } => Vec::new(),
        }
    }

    /// The operations that are registered with a scheduler when a consumer connects. If the
    /// scheduler has no current schedule it is told to compute one: with the priorities that
    /// [`levels`](Self::levels) found, or with these if it found none. `preemption` is that of the
    /// channel's dispatching.
    pub fn of_scheduler(
        scheduler: SchedulerRef,
        priorities: RangeInclusive<u16>,
        preemption: Preemption,
    ) -> RegisteredOperations {
        let source = Source::Asked { scheduler, priorities, preemption };
        RegisteredOperations { source, state: PiMutex::default() }
    }

    /// The levels that a channel needs: those of the file, or of the scheduler's current schedule.
    /// For a scheduler, levels below its most urgent priority are added until there are `count`,
    /// for later registrations. The least urgent level is for consumers that are no operations.
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

/// How often a schedule is read again because another consumer read a newer one meanwhile.
const TRIES: u32 = 8;

impl RunTimeScheduler for RegisteredOperations {
    fn admit(&self, _: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        if q.rt_info == 0 {
            return Ok((Placement::least_urgent(q), 0));
        }
        for _ in 0..TRIES {
            let mut state = self.state.lock();
            state.tickets += 1;
            let ticket = state.tickets;
            drop(state);
            // Without the lock: the scheduler may be remote.
            let compiled = self.compiled().map_err(|why| NotAdmitted(why.to_string()))?;
            let mut state = self.state.lock();
            if ticket > state.active {
                let admitted = state.admit(&compiled, q.rt_info)?;
                state.active = ticket;
                return Ok(admitted);
            }
        }
        Err(NotAdmitted("too many consumers connect at the same time; try again".into()))
    }

    fn has_operations(&self) -> bool {
        true
    }

    fn processor(&self, number: u64) -> Option<usize> {
        self.state.lock().connected.get(&number)?.processor
    }

    fn leave(&self, number: u64) {
        self.state.lock().connected.remove(&number);
    }

    fn placements(&self) -> Vec<(u64, Placement)> {
        let state = self.state.lock();
        state.connected.iter().map(|(number, operation)| (*number, operation.placement)).collect()
    }
}

impl State {
    /// The priorities of the levels that operations use.
    fn range(&self) -> Option<RangeInclusive<u16>> {
        let number = |priority: &Priority| priority.get().unsigned_abs();
        let first = self.served.iter().find(|priority| **priority > Priority::MIN)?;
        Some(number(first)..=self.served.last().map(number)?)
    }

    /// Admits the consumer of this handle, and updates the placements of all others to this
    /// schedule.
    fn admit(&mut self, compiled: &Compiled, handle: i32) -> Result<(Placement, u64), NotAdmitted> {
        let refused = |why: NoPromise| NotAdmitted(why.to_string());
        let promise = compiled.promise(handle).map_err(refused)?;
        let name = &promise.operation;
        let no = |why: String| NotAdmitted(format!("{name} cannot be admitted: {why}"));
        if self.connected.values().any(|operation| operation.handle == handle) {
            return Err(no("another consumer is connected as this operation".into()));
        }
        let placement = self.placed(&promise).map_err(no)?;
        let mut moved = self.connected.clone();
        for operation in moved.values_mut() {
            let theirs = compiled.promise(operation.handle).map_err(|why| no(broken(&why)))?;
            operation.placement = self.placed(&theirs).map_err(no)?;
        }
        self.connected = moved;
        self.next += 1;
        let processor = promise.processor;
        self.connected.insert(self.next, ConnectedOperation { handle, placement, processor });
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

/// The reason why a connected consumer would lose its promise.
fn broken(why: &NoPromise) -> String {
    match why {
        NoPromise::Late { name, why } => format!("{name}, which is connected, would be late: {why}"),
        gone => gone.to_string(),
    }
}
