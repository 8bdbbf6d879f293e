//! The interface of TAO 1.x: shorter results, and no exception for an unknown name.

use super::{Attributes, SchedulerService, views};
use crate::convert::handle;
use crate::rtec_scheduler::{
    Criticality_t, Dependency_Type_t, Dispatching_Type_t, Importance_t, Info_Type_t,
    Scheduling_Anomaly_SetView,
};
use crate::rtec_scheduler_tao1::scheduler::*;
use crate::rtec_scheduler_tao1::{
    Config_Info, Config_Info_SetView, Dependency_Info, RT_Info_SetView, RT_InfoView, Scheduler,
};
use isorb::{Result, Upcall};
use std::sync::Arc;

/// The members that TAO 1.x has.
fn info<'u>(cx: Upcall<'u>, info: &crate::rtec_scheduler::RT_InfoView<'u>) -> Result<RT_InfoView<'u>> {
    let dependencies: Vec<Dependency_Info> = info
        .dependencies
        .iter()
        .map(|one| Dependency_Info {
            dependency_type: one.dependency_type,
            number_of_calls: one.number_of_calls,
            rt_info: one.rt_info,
        })
        .collect();
    Ok(RT_InfoView {
        entry_point: info.entry_point,
        handle: info.handle,
        worst_case_execution_time: info.worst_case_execution_time,
        typical_execution_time: info.typical_execution_time,
        cached_execution_time: info.cached_execution_time,
        period: info.period,
        criticality: info.criticality,
        importance: info.importance,
        quantum: info.quantum,
        threads: info.threads,
        dependencies: cx.slice(&dependencies)?,
        priority: info.priority,
        preemption_subpriority: info.preemption_subpriority,
        preemption_priority: info.preemption_priority,
        info_type: info.info_type,
        volatile_token: 0,
    })
}

/// The servant of TAO 1.x's interface. It shows the operations of a [`SchedulerService`].
#[derive(Debug, Clone)]
pub struct Tao1Scheduler(Arc<SchedulerService>);

impl Tao1Scheduler {
    /// The older interface of this service.
    #[must_use]
    pub fn new(service: Arc<SchedulerService>) -> Tao1Scheduler {
        Tao1Scheduler(service)
    }
}

impl Scheduler for Tao1Scheduler {
    fn create(&self, _: Upcall<'_>, entry_point: &str) -> Result<i32, CreateError> {
        self.0.register(entry_point)
    }

    fn lookup(&self, _: Upcall<'_>, entry_point: &str) -> Result<i32> {
        Ok(self.0.state.lock().named(entry_point).map_or(0, handle))
    }

    fn get<'u>(&'u self, cx: Upcall<'u>, handle: i32) -> Result<RT_InfoView<'u>, GetError> {
        let state = self.0.state.lock();
        let place = state.place(handle)?;
        Ok(info(cx, &views::info(cx, &state, place)?)?)
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
        let attributes = Attributes::new(
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
        self.0.change(handle, |operation| {
            attributes.apply(operation);
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
        self.0.depend(handle, dependency, number_of_calls, dependency_type)
    }

    fn priority(&self, _: Upcall<'_>, handle: i32) -> Result<(i32, i32, i32), PriorityError> {
        self.0.priorities_of(|state| state.place(handle))
    }

    fn entry_point_priority(
        &self,
        _: Upcall<'_>,
        entry_point: &str,
    ) -> Result<(i32, i32, i32), EntryPointPriorityError> {
        self.0.priorities_of(|state| state.named(entry_point))
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
        let (state, anomalies) =
            self.0.compute::<ComputeSchedulingError>(minimum_priority, maximum_priority)?;
        let infos: Result<Vec<_>> = views::infos(cx, &state)?.iter().map(|one| info(cx, one)).collect();
        let configs: Vec<Config_Info> = state
            .queues()
            .iter()
            .map(|queue| Config_Info {
                preemption_priority: queue.level,
                thread_priority: queue.thread_priority,
                dispatching_type: queue.dispatching,
            })
            .collect();
        Ok((cx.slice(&infos?)?, cx.slice(&configs)?, views::anomalies(cx, &anomalies)?))
    }

    fn dispatch_configuration(
        &self,
        _: Upcall<'_>,
        p_priority: i32,
    ) -> Result<(i32, Dispatching_Type_t), DispatchConfigurationError> {
        self.0.dispatching_of(p_priority)
    }

    fn last_scheduled_priority(&self, _: Upcall<'_>) -> Result<i32, LastScheduledPriorityError> {
        self.0.last_priority()
    }
}
