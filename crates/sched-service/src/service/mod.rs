//! The servant of `RtecScheduler::Scheduler`, in the versions of TAO 2.x and of TAO 1.x.
//!
//! The two versions have one repository id and the same requests, and differ in what `get` and
//! `compute_scheduling` return. Nothing in a request tells which one its client can read, so that
//! the reference decides: an object for each version shows the same operations.

mod computation;
mod state;
mod tao1;
mod tao2;
mod views;

use crate::convert::{call, criticality_of, handle, importance_of, kind, negative, place};
use crate::rtec_scheduler::{
    Criticality_t, DUPLICATE_NAME, Dependency_Type_t, Dispatching_Type_t, Importance_t, Info_Type_t,
    NOT_SCHEDULED, UNKNOWN_PRIORITY_LEVEL, UNKNOWN_TASK,
};
use isorb::{Kind, Result, SystemException};
use isorb_rt::sync::PiMutex;
use isorb_sched::Nanos;
use isorb_sched::file::{FileError, ScheduleFile};
use isorb_sched::graph::{Dependency, Graph, Operation};
use isorb_sched::schedule::{Config, Schedule};
use state::{Planned, State};
use std::fmt;
pub use tao1::Tao1Scheduler;

/// `RtecScheduler::Scheduler`: records operations, and schedules them as its configuration says.
///
/// Handles are numbers from 1; 0 is no operation. A change of an operation invalidates the
/// schedule: priorities are NOT_SCHEDULED until `compute_scheduling` is called again. An operation
/// that several streams release has the priorities of the most urgent one. An operation that is
/// only called, or only joins streams, runs at its callers' priorities and is NOT_SCHEDULED. So is
/// an operation that is disabled.
///
/// It has TAO 2.x's interface ([`rtec_scheduler`](crate::rtec_scheduler)). [`Tao1Scheduler`] gives
/// it TAO 1.x's.
pub struct SchedulerService {
    config: Config,
    limit: usize,
    state: PiMutex<State>,
    record: Option<Box<Record>>,
}

/// Receives the registered operations.
type Record = dyn Fn(&ScheduleFile) + Send + Sync;

impl SchedulerService {
    /// A service without operations, and for at most `limit`; `create` raises IMP_LIMIT beyond.
    /// `compute_scheduling` replaces the priorities of `config`.
    #[must_use]
    pub fn new(config: Config, limit: usize) -> SchedulerService {
        SchedulerService::with_graph(config, limit, Graph::new())
    }

    /// A service with operations that are not scheduled yet.
    #[must_use]
    pub fn with_graph(config: Config, limit: usize, graph: Graph) -> SchedulerService {
        SchedulerService { config, limit, state: PiMutex::new(State::new(graph)), record: None }
    }

    /// A service with the operations of a schedule file, and their priorities.
    ///
    /// # Errors
    /// [`FileError`] for a file that cannot be scheduled, or with a utilisation over one. Missed
    /// deadlines are no error.
    pub fn of_file(file: &ScheduleFile, limit: usize) -> Result<SchedulerService, FileError> {
        let service = SchedulerService::with_graph(file.config.clone(), limit, file.graph.clone());
        let schedule = file.compile()?;
        let places = (0..file.graph.operations().len()).map(Some).collect();
        service.state.lock().planned = Some(Planned { schedule, places });
        Ok(service)
    }

    /// Calls `record` with the registered operations at each `compute_scheduling`, even if they
    /// cannot be scheduled: the result of a configuration run. It is called with the service's lock
    /// held, on the caller's thread of the server.
    #[must_use]
    pub fn recording(self, record: impl Fn(&ScheduleFile) + Send + Sync + 'static) -> SchedulerService {
        SchedulerService { record: Some(Box::new(record)), ..self }
    }

    /// The last computed schedule, if nothing has changed since. Its operations are those that are
    /// enabled, in the order of their handles.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        self.state.lock().planned.as_ref().map(|planned| planned.schedule.clone())
    }

    /// The registered operations.
    #[must_use]
    pub fn graph(&self) -> Graph {
        self.state.lock().graph.clone()
    }

    fn register<E: From<SystemException> + From<DUPLICATE_NAME>>(&self, name: &str) -> Result<i32, E> {
        let mut state = self.state.lock();
        if state.graph.operations().len() >= self.limit {
            let full = format!("{} operations are registered, and no more may be", self.limit);
            return Err(SystemException::from(Kind::ImpLimit).detail(full).into());
        }
        state.planned = None;
        match state.graph.add(Operation::new(name)) {
            Ok(place) => Ok(handle(place)),
            Err(_) => Err(DUPLICATE_NAME {}.into()),
        }
    }

    /// Changes an operation, which invalidates the schedule.
    fn change<E: From<UNKNOWN_TASK>>(
        &self,
        handle: i32,
        change: impl FnOnce(&mut Operation) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.state.lock();
        let place = state.place(handle)?;
        let operation = state.graph.get_mut(place).ok_or(UNKNOWN_TASK {})?;
        change(operation)?;
        state.planned = None;
        Ok(())
    }

    fn depend<E: From<UNKNOWN_TASK> + From<SystemException>>(
        &self,
        handle: i32,
        dependency: i32,
        number_of_calls: i32,
        dependency_type: Dependency_Type_t,
    ) -> Result<(), E> {
        let times =
            u32::try_from(number_of_calls).map_err(|_| negative("number of calls", number_of_calls))?;
        let on = self.state.lock().place(dependency)?;
        let limit = self.limit;
        self.change(handle, |operation| {
            if operation.dependencies.len() >= limit {
                return Err(SystemException::from(Kind::ImpLimit).into());
            }
            operation.dependencies.push(Dependency { on, call: call(dependency_type), times });
            Ok(())
        })
    }

    /// The thread priority and the dispatching of a preemption priority.
    fn dispatching_of<E: From<NOT_SCHEDULED> + From<UNKNOWN_PRIORITY_LEVEL>>(
        &self,
        level: i32,
    ) -> Result<(i32, Dispatching_Type_t), E> {
        let state = self.state.lock();
        if state.planned.is_none() {
            return Err(NOT_SCHEDULED {}.into());
        }
        let queue = state.queues().into_iter().find(|queue| queue.level == level);
        let queue = queue.ok_or(UNKNOWN_PRIORITY_LEVEL {})?;
        Ok((queue.thread_priority, queue.dispatching))
    }

    /// The least urgent preemption priority.
    fn last_priority<E: From<NOT_SCHEDULED>>(&self) -> Result<i32, E> {
        let last = self.state.lock().queues().iter().map(|queue| queue.level).max();
        Ok(last.ok_or(NOT_SCHEDULED {})?)
    }

    fn priorities_of<E: From<UNKNOWN_TASK> + From<NOT_SCHEDULED>>(
        &self,
        find: impl FnOnce(&State) -> Result<usize, UNKNOWN_TASK>,
    ) -> Result<(i32, i32, i32), E> {
        let state = self.state.lock();
        let place = find(&state)?;
        Ok(state.priorities(place).ok_or(NOT_SCHEDULED {})?)
    }
}

/// What a client says of an operation.
#[derive(Clone, Copy)]
struct Attributes {
    criticality: Criticality_t,
    wc_time: u64,
    typical_time: u64,
    cached_time: u64,
    period: u64,
    importance: Importance_t,
    quantum: u64,
    threads: u32,
    info_type: Info_Type_t,
}

impl Attributes {
    /// # Errors
    /// BAD_PARAM: a period or a number of threads is negative.
    #[allow(clippy::too_many_arguments)]
    fn new(
        criticality: Criticality_t,
        wc_time: u64,
        typical_time: u64,
        cached_time: u64,
        period: i32,
        importance: Importance_t,
        quantum: u64,
        threads: i32,
        info_type: Info_Type_t,
    ) -> Result<Attributes> {
        let period = u64::try_from(period).map_err(|_| negative("period", period))?;
        let threads = u32::try_from(threads).map_err(|_| negative("number of threads", threads))?;
        Ok(Attributes {
            criticality,
            wc_time,
            typical_time,
            cached_time,
            period,
            importance,
            quantum,
            threads,
            info_type,
        })
    }

    fn apply(self, operation: &mut Operation) {
        operation.kind = kind(self.info_type);
        operation.worst = Nanos::from_100ns(self.wc_time);
        operation.typical = Nanos::from_100ns(self.typical_time);
        operation.cached = Nanos::from_100ns(self.cached_time);
        operation.period = Nanos::from_100ns(self.period);
        operation.criticality = criticality_of(self.criticality);
        operation.importance = importance_of(self.importance);
        operation.quantum = Nanos::from_100ns(self.quantum);
        operation.threads = self.threads;
    }
}

impl fmt::Debug for SchedulerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerService")
            .field("config", &self.config)
            .field("limit", &self.limit)
            .field("records", &self.record.is_some())
            .finish_non_exhaustive()
    }
}
