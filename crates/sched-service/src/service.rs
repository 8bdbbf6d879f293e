//! The servant of `RtecScheduler::Scheduler`.

use crate::convert::{call, criticality_of, handle, importance_of, kind, negative, number, place};
use crate::rtec_scheduler::scheduler::{
    AddDependencyError, ComputeSchedulingError, CreateError, DispatchConfigurationError,
    EntryPointPriorityError, GetError, LastScheduledPriorityError, PriorityError, RemoveDependencyError,
    ResetError, SetError,
};
use crate::rtec_scheduler::{
    Anomaly_Severity, Config_Info, Config_Info_SetView, Criticality_t, DUPLICATE_NAME, Dependency_Info,
    Dependency_Type_t, Dispatching_Type_t, INSUFFICIENT_THREAD_PRIORITY_LEVELS, Importance_t, Info_Type_t,
    NOT_SCHEDULED, RT_Info_SetView, RT_InfoView, Scheduler, Scheduling_Anomaly_SetView,
    Scheduling_AnomalyView, UNKNOWN_PRIORITY_LEVEL, UNKNOWN_TASK,
};
use isorb::{Kind, Result, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use isorb_sched::file::{FileError, ScheduleFile};
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::schedule::{Anomaly, Config, Schedule, ScheduleError, Severity};
use isorb_sched::{Criticality, Importance, Nanos, Order, graph};
use std::fmt;

/// `RtecScheduler::Scheduler`: records operations, and schedules them as its configuration says.
///
/// Handles are numbers from 1; 0 is no operation. A change of an operation invalidates the
/// schedule: priorities are NOT_SCHEDULED until `compute_scheduling` is called again. An operation
/// that several streams release has the priorities of the most urgent one. An operation that is
/// only called, or only joins streams, runs at its callers' priorities and is NOT_SCHEDULED.
pub struct SchedulerService {
    config: Config,
    limit: usize,
    state: PiMutex<State>,
    record: Option<Box<Record>>,
}

/// Receives the registered operations.
type Record = dyn Fn(&ScheduleFile) + Send + Sync;

#[derive(Debug, Default)]
struct State {
    graph: Graph,
    schedule: Option<Schedule>,
}

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
        SchedulerService { config, limit, state: PiMutex::new(State { graph, schedule: None }), record: None }
    }

    /// A service with the operations of a schedule file, and their priorities.
    ///
    /// # Errors
    /// [`FileError`] for a file that cannot be scheduled, or with a utilisation over one. Missed
    /// deadlines are no error.
    pub fn of_file(file: &ScheduleFile, limit: usize) -> Result<SchedulerService, FileError> {
        let service = SchedulerService::with_graph(file.config.clone(), limit, file.graph.clone());
        service.state.lock().schedule = Some(file.compile()?);
        Ok(service)
    }

    /// Calls `record` with the registered operations at each `compute_scheduling`, even if they
    /// cannot be scheduled: the result of a configuration run. It is called with the service's lock
    /// held, on the caller's thread of the server.
    #[must_use]
    pub fn recording(self, record: impl Fn(&ScheduleFile) + Send + Sync + 'static) -> SchedulerService {
        SchedulerService { record: Some(Box::new(record)), ..self }
    }

    /// The last computed schedule, if nothing has changed since.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        self.state.lock().schedule.clone()
    }

    /// The registered operations.
    #[must_use]
    pub fn graph(&self) -> Graph {
        self.state.lock().graph.clone()
    }

    /// Changes an operation, which invalidates the schedule.
    fn change<E: From<UNKNOWN_TASK>>(
        &self,
        handle: i32,
        change: impl FnOnce(&mut Operation) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.state.lock();
        let operation = place(handle).and_then(|place| state.graph.get_mut(place)).ok_or(UNKNOWN_TASK {})?;
        change(operation)?;
        state.schedule = None;
        Ok(())
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

impl Scheduler for SchedulerService {
    fn create(&self, _: Upcall<'_>, entry_point: &str) -> Result<i32, CreateError> {
        let mut state = self.state.lock();
        if state.graph.operations().len() >= self.limit {
            let full = format!("{} operations are registered, and no more may be", self.limit);
            return Err(SystemException::from(Kind::ImpLimit).detail(full).into());
        }
        state.schedule = None;
        match state.graph.add(Operation::new(entry_point)) {
            Ok(place) => Ok(handle(place)),
            Err(_) => Err(DUPLICATE_NAME {}.into()),
        }
    }

    fn lookup(&self, _: Upcall<'_>, entry_point: &str) -> Result<i32> {
        Ok(self.state.lock().graph.lookup(entry_point).map_or(0, handle))
    }

    fn get<'u>(&'u self, cx: Upcall<'u>, handle: i32) -> Result<RT_InfoView<'u>, GetError> {
        let state = self.state.lock();
        let place = place(handle).filter(|place| state.graph.get(*place).is_some()).ok_or(UNKNOWN_TASK {})?;
        Ok(info(cx, &state, place)?)
    }

    fn set(
        &self,
        _: Upcall<'_>,
        handle: i32,
        criticality: Criticality_t,
        wc_time: u64,
        typical_time: u64,
        cached_time: u64,
        period: i32,
        importance: Importance_t,
        quantum: u64,
        threads: i32,
        info_type: Info_Type_t,
    ) -> Result<(), SetError> {
        let period = u64::try_from(period).map_err(|_| negative("period", period))?;
        let threads = u32::try_from(threads).map_err(|_| negative("number of threads", threads))?;
        self.change(handle, |operation| {
            operation.kind = kind(info_type);
            operation.worst = Nanos::from_100ns(wc_time);
            operation.typical = Nanos::from_100ns(typical_time);
            operation.cached = Nanos::from_100ns(cached_time);
            operation.period = Nanos::from_100ns(period);
            operation.criticality = criticality_of(criticality);
            operation.importance = importance_of(importance);
            operation.quantum = Nanos::from_100ns(quantum);
            operation.threads = threads;
            Ok(())
        })
    }

    fn reset(
        &self,
        cx: Upcall<'_>,
        handle: i32,
        criticality: Criticality_t,
        wc_time: u64,
        typical_time: u64,
        cached_time: u64,
        period: i32,
        importance: Importance_t,
        quantum: u64,
        threads: i32,
        info_type: Info_Type_t,
    ) -> Result<(), ResetError> {
        self.set(
            cx,
            handle,
            criticality,
            wc_time,
            typical_time,
            cached_time,
            period,
            importance,
            quantum,
            threads,
            info_type,
        )?;
        self.change(handle, |operation| {
            operation.dependencies.clear();
            Ok(())
        })
    }

    fn add_dependency(
        &self,
        _: Upcall<'_>,
        handle: i32,
        dependency: i32,
        number_of_calls: i32,
        dependency_type: Dependency_Type_t,
    ) -> Result<(), AddDependencyError> {
        let times =
            u32::try_from(number_of_calls).map_err(|_| negative("number of calls", number_of_calls))?;
        let there = self.state.lock().graph.operations().len();
        let on = place(dependency).filter(|on| *on < there).ok_or(UNKNOWN_TASK {})?;
        let limit = self.limit;
        self.change(handle, |operation| {
            if operation.dependencies.len() >= limit {
                return Err(SystemException::from(Kind::ImpLimit).into());
            }
            operation.dependencies.push(Dependency { on, call: call(dependency_type), times });
            Ok(())
        })
    }

    fn remove_dependency(
        &self,
        _: Upcall<'_>,
        handle: i32,
        dependency: i32,
        number_of_calls: i32,
        dependency_type: Dependency_Type_t,
    ) -> Result<(), RemoveDependencyError> {
        self.change(handle, |operation| {
            let gone = operation.dependencies.iter().position(|other| {
                place(dependency) == Some(other.on)
                    && other.call == call(dependency_type)
                    && i64::from(other.times) == i64::from(number_of_calls)
            });
            operation.dependencies.remove(gone.ok_or(UNKNOWN_TASK {})?);
            Ok(())
        })
    }

    fn priority(&self, _: Upcall<'_>, handle: i32) -> Result<(i32, i32, i32), PriorityError> {
        let state = self.state.lock();
        let place = place(handle).filter(|place| state.graph.get(*place).is_some()).ok_or(UNKNOWN_TASK {})?;
        Ok(state.priorities(place).ok_or(NOT_SCHEDULED {})?)
    }

    fn entry_point_priority(
        &self,
        _: Upcall<'_>,
        entry_point: &str,
    ) -> Result<(i32, i32, i32), EntryPointPriorityError> {
        let state = self.state.lock();
        let place = state.graph.lookup(entry_point).ok_or(UNKNOWN_TASK {})?;
        Ok(state.priorities(place).ok_or(NOT_SCHEDULED {})?)
    }

    fn compute_scheduling<'u>(
        &'u self,
        cx: Upcall<'u>,
        minimum_priority: i32,
        maximum_priority: i32,
    ) -> Result<
        (RT_Info_SetView<'u>, Config_Info_SetView<'u>, Scheduling_Anomaly_SetView<'u>),
        ComputeSchedulingError,
    > {
        let priority = |number: i32| u16::try_from(number).ok().filter(|number| *number <= 32767);
        let (Some(first), Some(last)) = (priority(minimum_priority), priority(maximum_priority)) else {
            return Err(INSUFFICIENT_THREAD_PRIORITY_LEVELS {}.into());
        };
        let mut state = self.state.lock();
        let config = Config { priorities: first..=last, ..self.config.clone() };
        state.schedule = None;
        if let Some(record) = &self.record {
            record(&ScheduleFile::of("recorded", config.clone(), state.graph.clone()));
        }
        let anomalies = match state.graph.schedule(config) {
            Ok(mut schedule) => {
                let anomalies = std::mem::take(&mut schedule.anomalies);
                let fatal = anomalies.iter().any(|anomaly| anomaly.severity == Severity::Fatal);
                state.schedule = Some(schedule).filter(|_| !fatal);
                anomalies
            }
            Err(ScheduleError::Plan(_)) => return Err(INSUFFICIENT_THREAD_PRIORITY_LEVELS {}.into()),
            // The interface has no exception that names the fault, but anomalies.
            Err(error) => vec![Anomaly { severity: Severity::Fatal, description: error.to_string() }],
        };
        let infos: Result<Vec<RT_InfoView<'u>>> =
            (0..state.graph.operations().len()).map(|place| info(cx, &state, place)).collect();
        let configs: Vec<Config_Info> = state.queues().collect();
        let anomalies: Result<Vec<Scheduling_AnomalyView<'u>>> =
            anomalies.iter().map(|anomaly| told(cx, anomaly)).collect();
        Ok((cx.slice(&infos?)?, cx.slice(&configs)?, cx.slice(&anomalies?)?))
    }

    fn dispatch_configuration(
        &self,
        _: Upcall<'_>,
        p_priority: i32,
    ) -> Result<(i32, Dispatching_Type_t), DispatchConfigurationError> {
        let state = self.state.lock();
        if state.schedule.is_none() {
            return Err(NOT_SCHEDULED {}.into());
        }
        let queue = state.queues().find(|queue| queue.preemption_priority == p_priority);
        let queue = queue.ok_or(UNKNOWN_PRIORITY_LEVEL {})?;
        Ok((queue.thread_priority, queue.dispatching_type))
    }

    fn last_scheduled_priority(&self, _: Upcall<'_>) -> Result<i32, LastScheduledPriorityError> {
        let state = self.state.lock();
        let last = state.queues().map(|queue| queue.preemption_priority).max();
        Ok(last.ok_or(NOT_SCHEDULED {})?)
    }
}

impl State {
    /// Thread priority, sub-priority and level of an operation's most urgent task.
    fn priorities(&self, place: usize) -> Option<(i32, i32, i32)> {
        let schedule = self.schedule.as_ref()?;
        let (task, _) = schedule.of(place).min_by_key(|(task, _)| task.queue.level)?;
        Some((
            i32::from(task.queue.thread_priority),
            number(task.static_subpriority),
            number(task.queue.level),
        ))
    }

    fn queues(&self) -> impl Iterator<Item = Config_Info> {
        self.schedule.iter().flat_map(|schedule| &schedule.queues).map(|queue| Config_Info {
            preemption_priority: number(queue.level),
            thread_priority: i32::from(queue.thread_priority),
            dispatching_type: match queue.order {
                Order::Arrival => Dispatching_Type_t::StaticDispatching,
                Order::Deadline => Dispatching_Type_t::DeadlineDispatching,
                Order::Laxity => Dispatching_Type_t::LaxityDispatching,
            },
        })
    }
}

/// An operation in the interface's form. Priorities that are not computed are 0.
fn info<'u>(cx: Upcall<'u>, state: &State, place: usize) -> Result<RT_InfoView<'u>> {
    let operation = &state.graph.operations()[place];
    let (priority, preemption_subpriority, preemption_priority) = state.priorities(place).unwrap_or_default();
    let dependencies: Vec<Dependency_Info> = operation
        .dependencies
        .iter()
        .map(|dependency| Dependency_Info {
            dependency_type: match dependency.call {
                Call::OneWay => Dependency_Type_t::OneWayCall,
                Call::TwoWay => Dependency_Type_t::TwoWayCall,
            },
            number_of_calls: number(dependency.times),
            rt_info: handle(dependency.on),
        })
        .collect();
    Ok(RT_InfoView {
        entry_point: cx.str(&operation.name)?,
        handle: handle(place),
        worst_case_execution_time: operation.worst.as_100ns(),
        typical_execution_time: operation.typical.as_100ns(),
        cached_execution_time: operation.cached.as_100ns(),
        period: i32::try_from(operation.period.as_100ns()).unwrap_or(i32::MAX),
        criticality: match operation.criticality {
            Criticality::VeryLow => Criticality_t::VeryLowCriticality,
            Criticality::Low => Criticality_t::LowCriticality,
            Criticality::Medium => Criticality_t::MediumCriticality,
            Criticality::High => Criticality_t::HighCriticality,
            Criticality::VeryHigh => Criticality_t::VeryHighCriticality,
        },
        importance: match operation.importance {
            Importance::VeryLow => Importance_t::VeryLowImportance,
            Importance::Low => Importance_t::LowImportance,
            Importance::Medium => Importance_t::MediumImportance,
            Importance::High => Importance_t::HighImportance,
            Importance::VeryHigh => Importance_t::VeryHighImportance,
        },
        quantum: operation.quantum.as_100ns(),
        threads: number(operation.threads),
        dependencies: cx.slice(&dependencies)?,
        priority,
        preemption_subpriority,
        preemption_priority,
        info_type: match operation.kind {
            graph::Kind::Operation => Info_Type_t::Operation,
            graph::Kind::Conjunction => Info_Type_t::Conjunction,
            graph::Kind::Disjunction => Info_Type_t::Disjunction,
            graph::Kind::RemoteDependant => Info_Type_t::RemoteDependant,
        },
        volatile_token: 0,
    })
}

fn told<'u>(cx: Upcall<'u>, anomaly: &Anomaly) -> Result<Scheduling_AnomalyView<'u>> {
    Ok(Scheduling_AnomalyView {
        description: cx.str(&anomaly.description)?,
        severity: match anomaly.severity {
            Severity::Fatal => Anomaly_Severity::AnomalyFatal,
            Severity::Error => Anomaly_Severity::AnomalyError,
            Severity::Warning => Anomaly_Severity::AnomalyWarning,
        },
    })
}
