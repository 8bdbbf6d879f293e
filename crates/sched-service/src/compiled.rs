//! A compiled schedule for a dispatcher: the queue of an operation's events, and whether its
//! deadlines are met.
//!
//! It comes from a schedule file, or from an `RtecScheduler::Scheduler` in another process, which
//! returns priorities only. The verdict is computed here in both cases.

use crate::convert::{call, count_zero_costs, criticality_of, importance_of, kind, place};
use crate::rtec_scheduler::scheduler::{
    ComputeSchedulingError, DispatchConfigurationError, GetError, LastScheduledPriorityError, PriorityError,
};
use crate::rtec_scheduler::{Dispatching_Type_t, RT_Info, RT_Info_Enabled_Type_t, SchedulerRef};
use isorb::SystemException;
use isorb_sched::file::{FileError, ScheduleFile};
use isorb_sched::graph::{Dependency, Graph, Operation};
use isorb_sched::schedule::{Config, Schedule, ScheduleError, Severity};
use isorb_sched::{Dispatch, Nanos, Order, Policy, Preemption};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

/// The greatest number of operations that are read from a scheduler.
const MOST: i32 = 4096;

/// Operations and the queues of their events.
#[derive(Debug, Clone)]
pub struct Compiled {
    graph: Graph,
    /// By processor.
    parts: Vec<Part>,
    /// By place in the graph, for several processors.
    located: Vec<Located>,
    /// Thread priority, sub-priority and level of each operation by a scheduler. Empty for a
    /// schedule file.
    assigned: Vec<Assigned>,
    /// Operations with one event a period.
    paced: Vec<bool>,
    /// By handle, less one: the place in the graph. Operations that are disabled have none.
    places: Vec<Option<usize>>,
}

/// A processor, and the schedule of the operations there: by their places in the whole graph, in
/// this order. Empty for the whole graph.
#[derive(Debug, Clone)]
struct Part {
    processor: Option<usize>,
    operations: Vec<usize>,
    schedule: Option<Schedule>,
}

/// Where an operation is.
#[derive(Debug, Clone)]
enum Located {
    /// In this part.
    Part(usize),
    /// No processor has room for it.
    Nowhere(String),
}

impl Part {
    fn whole(schedule: Schedule) -> Vec<Part> {
        vec![Part { processor: None, operations: Vec::new(), schedule: Some(schedule) }]
    }

    /// The index of an operation in this schedule.
    fn index_of(&self, place: usize) -> Option<usize> {
        match self.operations.is_empty() {
            true => Some(place),
            false => self.operations.binary_search(&place).ok(),
        }
    }
}

/// The guarantee of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Its name.
    pub operation: String,
    /// The queue of its events. The deadline in it counts from them.
    pub dispatch: Dispatch,
    /// The processor that it was placed on, by its place among those of
    /// [`Compiled::of_file_on`].
    pub processor: Option<usize>,
    /// The shortest time between arrivals, each of which causes one of its events after
    /// [`Dispatch::released`] at the latest. `None` if several streams reach the operation or an
    /// arrival causes more events: no single period holds for all of them then.
    pub period: Option<Nanos>,
}

/// Why an operation has no guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPromise {
    /// No operation has this handle.
    Unknown(i32),
    /// The operation with this handle is disabled at its scheduler.
    Disabled(i32),
    /// The operation is called, joins streams or runs elsewhere.
    NoEvents(String),
    /// The operation would be late, or the whole schedule does not hold.
    Late {
        /// The operation, or its task.
        name: String,
        /// The sentence with the numbers.
        why: String,
    },
    /// No processor has room for the operation and those that stay with it: the sentence with the
    /// reason of each.
    Unplaced(String),
}

impl fmt::Display for NoPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPromise::Unknown(handle) => write!(f, "no operation is registered as {handle}"),
            NoPromise::Disabled(handle) => {
                write!(f, "operation {handle} is disabled at its scheduler (set_rt_info_enable_state)")
            }
            NoPromise::NoEvents(name) => {
                write!(f, "{name} has no events of its own: it is called, joins others or runs elsewhere")
            }
            NoPromise::Late { name, why } => write!(f, "{name} cannot be admitted: {why}"),
            NoPromise::Unplaced(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for NoPromise {}

/// Why there is no schedule from a scheduler.
#[derive(Debug, Clone, PartialEq)]
pub enum FetchError {
    /// The scheduler cannot be reached, or failed.
    System(SystemException),
    /// Its operations cannot be scheduled: a sentence with the names and numbers.
    Unschedulable(String),
    /// The scheduler has more operations than are read.
    TooMany,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::System(error) => write!(f, "the scheduler cannot be asked: {error}"),
            FetchError::Unschedulable(why) => f.write_str(why),
            FetchError::TooMany => write!(f, "more than {MOST} operations are registered"),
        }
    }
}

impl std::error::Error for FetchError {}

impl From<SystemException> for FetchError {
    fn from(error: SystemException) -> FetchError {
        FetchError::System(error)
    }
}

impl From<ScheduleError> for FetchError {
    fn from(error: ScheduleError) -> FetchError {
        FetchError::Unschedulable(error.to_string())
    }
}

impl Compiled {
    /// Compiles a schedule file for a dispatcher with this preemption. Handles count its operations
    /// from 1.
    ///
    /// # Errors
    /// As [`ScheduleFile::compile`].
    pub fn of_file(file: &ScheduleFile, preemption: Preemption) -> Result<Compiled, FileError> {
        let mut file = file.clone();
        (file.config.preemption, file.config.one_thread_per_level) = (preemption, true);
        let schedule = file.compile()?;
        let paced = paced(&file.graph);
        let places = (0..file.graph.operations().len()).map(Some).collect();
        let (parts, located, assigned) = (Part::whole(schedule), Vec::new(), Vec::new());
        Ok(Compiled { graph: file.graph, parts, located, assigned, paced, places })
    }

    /// As [`of_file`](Self::of_file), on several processors by worst fit: operations that release
    /// or call each other, or share a resource, are on one. `processors` are their numbers in
    /// sentences.
    ///
    /// Operations that no processor has room for have no promise; the others are scheduled without
    /// them.
    ///
    /// # Errors
    /// [`FileError`] for a group of operations that cannot be scheduled even by itself.
    pub fn of_file_on(
        file: &ScheduleFile,
        preemption: Preemption,
        processors: &[usize],
    ) -> Result<Compiled, FileError> {
        let config = Config { preemption, one_thread_per_level: true, ..file.config.clone() };
        let graph = file.graph.clone();
        let partition = graph.partition(&config, processors.len()).map_err(|fault| file.at(&fault))?;
        let count = graph.operations().len();
        let mut located = vec![Located::Nowhere(String::new()); count];
        for refused in &partition.refused {
            for operation in &refused.operations {
                if let Some(place) = graph.lookup(operation) {
                    located[place] = Located::Nowhere(refused.sentence(processors));
                }
            }
        }
        let mut parts = Vec::with_capacity(processors.len());
        for (number, processor) in partition.processors.into_iter().enumerate() {
            for place in &processor.operations {
                located[*place] = Located::Part(number);
            }
            let (operations, schedule) = (processor.operations, processor.schedule);
            parts.push(Part { processor: Some(number), operations, schedule });
        }
        let (paced, places) = (paced(&graph), (0..count).map(Some).collect());
        Ok(Compiled { graph, parts, located, assigned: Vec::new(), paced, places })
    }

    /// The sentences about operations that no processor has room for, each once.
    #[must_use]
    pub fn unplaced(&self) -> BTreeSet<&str> {
        let mut sentences = BTreeSet::new();
        for located in &self.located {
            if let Located::Nowhere(sentence) = located {
                sentences.insert(&**sentence);
            }
        }
        sentences
    }

    /// Compiles the operations of a scheduler for a dispatcher with this preemption. If the
    /// scheduler's schedule is out of date, it computes it with these priorities. Handles are
    /// assumed to count from 1.
    ///
    /// # Errors
    /// [`FetchError`].
    ///
    /// # Real-time
    /// Two calls for each operation, and analyses. For start and connecting.
    pub fn fetch(
        scheduler: &SchedulerRef,
        priorities: RangeInclusive<u16>,
        preemption: Preemption,
    ) -> Result<Compiled, FetchError> {
        let infos = registered(scheduler)?;
        let last = match scheduler.last_scheduled_priority() {
            Err(LastScheduledPriorityError::NOT_SCHEDULED(_)) if !infos.is_empty() => {
                compute(scheduler, priorities)?
            }
            Err(LastScheduledPriorityError::NOT_SCHEDULED(_)) => -1,
            Err(LastScheduledPriorityError::System(error)) => return Err(error.into()),
            Err(error) => return Err(FetchError::Unschedulable(failed(&error))),
            Ok(last) => last,
        };
        let order = order(scheduler, last)?;
        let mut assigned = Vec::with_capacity(infos.len());
        for info in &infos {
            assigned.push(assignment_of(scheduler, info.handle)?);
        }
        let policy = match order {
            Order::Arrival => Policy::Declared,
            Order::Deadline => Policy::EarliestDeadline,
            Order::Laxity if last > 0 => Policy::MaximumUrgency,
            Order::Laxity => Policy::MinimumLaxity,
        };
        let (graph, assigned, places) = graph(&infos, &assigned)?;
        let config = Config { policy, preemption, one_thread_per_level: true, ..Config::default() };
        let parts = Part::whole(graph.schedule(config)?);
        let paced = paced(&graph);
        Ok(Compiled { graph, parts, located: Vec::new(), assigned, paced, places })
    }

    /// The priorities of the queues' threads in ascending order.
    #[must_use]
    pub fn thread_priorities(&self) -> Vec<u16> {
        let assigned = self.assigned.iter().flatten().map(|(priority, _, _)| *priority);
        let schedules = self.parts.iter().filter_map(|part| part.schedule.as_ref());
        let queues = schedules.flat_map(|schedule| &schedule.queues).map(|queue| queue.thread_priority);
        let all: BTreeSet<u16> = if self.assigned.is_empty() { queues.collect() } else { assigned.collect() };
        all.into_iter().collect()
    }

    /// The guarantee of the operation with this handle.
    ///
    /// # Errors
    /// [`NoPromise`]: there is no such operation, it has no events of its own, or it would be late.
    pub fn promise(&self, handle: i32) -> Result<Promise, NoPromise> {
        let there = place(handle).and_then(|place| self.places.get(place).copied());
        let place = there.ok_or(NoPromise::Unknown(handle))?.ok_or(NoPromise::Disabled(handle))?;
        let operation = &self.graph.operations()[place];
        let part = match self.located.get(place) {
            None => self.parts.first(),
            Some(Located::Part(number)) => self.parts.get(*number),
            Some(Located::Nowhere(sentence)) => return Err(NoPromise::Unplaced(sentence.clone())),
        };
        let no_events = || NoPromise::NoEvents(operation.name.clone());
        let part = part.ok_or_else(no_events)?;
        let (schedule, index) = part.schedule.as_ref().zip(part.index_of(place)).ok_or_else(no_events)?;
        let fatal = schedule.anomalies.iter().find(|anomaly| anomaly.severity == Severity::Fatal);
        if let Some(fatal) = fatal {
            return Err(NoPromise::Late { name: operation.name.clone(), why: fatal.description.clone() });
        }
        let mut tasks = schedule.of(index).peekable();
        if tasks.peek().is_none() {
            return Err(no_events());
        }
        let mut promise: Option<Promise> = None;
        for (scheduled, verdict) in tasks {
            let task = &scheduled.task;
            if !verdict.met() {
                let why = format!("its response is {}, its deadline {}", verdict.response, verdict.deadline);
                return Err(NoPromise::Late { name: task.name.clone(), why });
            }
            let (thread_priority, static_subpriority, level) =
                self.assigned.get(place).copied().flatten().unwrap_or((
                    scheduled.queue.thread_priority,
                    u8::try_from(scheduled.static_subpriority).unwrap_or(u8::MAX),
                    scheduled.queue.level,
                ));
            let dispatch = Dispatch {
                level,
                thread_priority,
                order: scheduled.queue.order,
                static_subpriority,
                deadline: task.deadline,
                released: task.jitter,
                cost: task.cost,
            };
            match &mut promise {
                None => {
                    let operation = operation.name.clone();
                    let one = self.paced.get(place).is_some_and(|paced| *paced);
                    let period = one.then_some(task.period);
                    let processor = part.processor;
                    promise = Some(Promise { operation, dispatch, processor, period });
                }
                // An operation that several streams release must meet its deadline for each.
                Some(known) => {
                    known.dispatch.cost = known.dispatch.cost.max(dispatch.cost);
                    if dispatch.own_deadline() < known.dispatch.own_deadline() {
                        known.dispatch = Dispatch { cost: known.dispatch.cost, ..dispatch };
                    }
                }
            }
        }
        promise.ok_or_else(no_events)
    }
}

fn paced(graph: &Graph) -> Vec<bool> {
    // It has been scheduled, so that it has streams.
    let streams = graph.streams().unwrap_or_default();
    streams.iter().map(|streams| matches!(&streams[..], [only] if only.times == 1)).collect()
}

fn failed(error: &dyn fmt::Display) -> String {
    format!("the scheduler has no schedule: {error}")
}

/// All registered operations, by handle.
fn registered(scheduler: &SchedulerRef) -> Result<Vec<RT_Info>, FetchError> {
    let mut infos = Vec::new();
    for handle in 1..=MOST {
        match scheduler.get(handle) {
            Ok(info) => infos.push(info),
            Err(GetError::UNKNOWN_TASK(_)) => return Ok(infos),
            Err(GetError::System(error)) => return Err(error.into()),
            Err(error) => return Err(FetchError::Unschedulable(failed(&error))),
        }
    }
    Err(FetchError::TooMany)
}

/// The least urgent level after computing.
fn compute(scheduler: &SchedulerRef, priorities: RangeInclusive<u16>) -> Result<i32, FetchError> {
    let (first, last) = (i32::from(*priorities.start()), i32::from(*priorities.end()));
    let (_, _, queues, anomalies) = scheduler.compute_scheduling(first, last).map_err(|error| match error {
        ComputeSchedulingError::System(error) => FetchError::System(error),
        ComputeSchedulingError::INSUFFICIENT_THREAD_PRIORITY_LEVELS(_) => FetchError::Unschedulable(format!(
            "the operations need more levels of urgency than the {} priorities from {first} to {last}",
            priorities.len()
        )),
        error => FetchError::Unschedulable(failed(&error)),
    })?;
    match queues.iter().map(|queue| queue.preemption_priority).max() {
        Some(last) => Ok(last),
        None => {
            let assigned: Vec<&str> = anomalies.iter().map(|anomaly| &*anomaly.description).collect();
            Err(FetchError::Unschedulable(assigned.join("; ")))
        }
    }
}

/// The order of the queues: that of the first that is not served in order of arrival.
fn order(scheduler: &SchedulerRef, last: i32) -> Result<Order, FetchError> {
    for level in 0..=last.min(MOST) {
        match scheduler.dispatch_configuration(level) {
            Ok((_, Dispatching_Type_t::DeadlineDispatching)) => return Ok(Order::Deadline),
            Ok((_, Dispatching_Type_t::LaxityDispatching)) => return Ok(Order::Laxity),
            Ok((_, Dispatching_Type_t::StaticDispatching)) => {}
            Err(DispatchConfigurationError::System(error)) => return Err(error.into()),
            // The operation changed meanwhile.
            Err(_) => return Ok(Order::Arrival),
        }
    }
    Ok(Order::Arrival)
}

fn assignment_of(scheduler: &SchedulerRef, handle: i32) -> Result<Assigned, FetchError> {
    match scheduler.priority(handle) {
        Ok((priority, sub, level)) => Ok(Some((
            u16::try_from(priority).unwrap_or(0).min(32767),
            u8::try_from(sub).unwrap_or(u8::MAX),
            u32::try_from(level).unwrap_or(u32::MAX),
        ))),
        Err(PriorityError::System(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Thread priority, sub-priority and level of an operation, if its scheduler gave it one.
type Assigned = Option<(u16, u8, u32)>;

type EnabledGraph = (Graph, Vec<Assigned>, Vec<Option<usize>>);

/// The graph of the enabled operations, with the scheduler's levels as declared priorities, what is
/// assigned to each of them, and their places by handle.
///
/// `RT_Info::enabled` alone does not say that an operation is disabled: TAO does not set it.
fn graph(infos: &[RT_Info], assigned: &[Assigned]) -> Result<EnabledGraph, FetchError> {
    let mut count = 0;
    let places: Vec<Option<usize>> = infos
        .iter()
        .zip(assigned)
        .map(|(info, assigned)| {
            let is_on = info.enabled != RT_Info_Enabled_Type_t::RtInfoDisabled as u32 || assigned.is_some();
            count += usize::from(is_on);
            is_on.then(|| count - 1)
        })
        .collect();
    let (mut graph, mut kept) = (Graph::new(), Vec::new());
    for ((info, assigned), _) in infos.iter().zip(assigned).zip(&places).filter(|(_, place)| place.is_some())
    {
        let mut dependencies = Vec::with_capacity(info.dependencies.len());
        for on in &info.dependencies {
            let there = place(on.rt_info).and_then(|place| places.get(place));
            let Some(there) = there else {
                let why = format!("{}: it depends on an unknown operation", info.entry_point);
                return Err(FetchError::Unschedulable(why));
            };
            let times = u32::try_from(on.number_of_calls).unwrap_or(1);
            if let Some(on_place) = there {
                dependencies.push(Dependency { on: *on_place, call: call(on.dependency_type), times });
            }
        }
        let operation = Operation {
            kind: kind(info.info_type),
            worst: Nanos::from_100ns(info.worst_case_execution_time),
            typical: Nanos::from_100ns(info.typical_execution_time),
            cached: Nanos::from_100ns(info.cached_execution_time),
            period: Nanos::from_100ns(u64::try_from(info.period).unwrap_or(0)),
            priority: assigned.map_or(0, |(_, _, level)| u32::MAX - level),
            criticality: criticality_of(info.criticality),
            importance: importance_of(info.importance),
            dependencies,
            ..Operation::new(&*info.entry_point)
        };
        graph.add(operation).map_err(|error| FetchError::Unschedulable(error.to_string()))?;
        kept.push(*assigned);
    }
    // The scheduler has warned of them.
    let _ = count_zero_costs(&mut graph);
    Ok((graph, kept, places))
}
