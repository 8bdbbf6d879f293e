//! The interface of TAO 2.x.

use super::state::{Enabled, State};
use super::{Attributes, SchedulerService, views};
use crate::convert::{call, handle};
use crate::rtec_base::Dependency_Enabled_Type_t;
use crate::rtec_scheduler::scheduler::*;
use crate::rtec_scheduler::{
    Config_Info_SetView, Criticality_t, Dependency_SetView, Dependency_Type_t, Dispatching_Type_t,
    Importance_t, Info_Type_t, NOT_SCHEDULED, RT_Info_Enable_State_Pair_SetView, RT_Info_Enabled_Type_t,
    RT_Info_SetView, RT_InfoView, Scheduler, Scheduling_Anomaly_SetView, UNKNOWN_TASK,
};
use isorb::{Kind, Result, SystemException, Upcall};

impl From<Dependency_Enabled_Type_t> for Enabled {
    fn from(enabled: Dependency_Enabled_Type_t) -> Enabled {
        match enabled {
            Dependency_Enabled_Type_t::DependencyDisabled => Enabled::No,
            Dependency_Enabled_Type_t::DependencyEnabled => Enabled::Yes,
            Dependency_Enabled_Type_t::DependencyNonVolatile => Enabled::NonVolatile,
        }
    }
}

impl From<RT_Info_Enabled_Type_t> for Enabled {
    fn from(enabled: RT_Info_Enabled_Type_t) -> Enabled {
        match enabled {
            RT_Info_Enabled_Type_t::RtInfoDisabled => Enabled::No,
            RT_Info_Enabled_Type_t::RtInfoEnabled => Enabled::Yes,
            RT_Info_Enabled_Type_t::RtInfoNonVolatile => Enabled::NonVolatile,
        }
    }
}

impl SchedulerService {
    /// Applies `change` to the operation of each of these, with its attributes: to all or to none.
    fn each<E: From<UNKNOWN_TASK> + From<SystemException>>(
        &self,
        infos: RT_Info_SetView<'_>,
        before: impl FnOnce(&mut State),
        change: impl Fn(&mut State, usize),
    ) -> Result<(), E> {
        let mut state = self.state.lock();
        let mut read = Vec::with_capacity(infos.len());
        for info in infos {
            let attributes = Attributes::new(
                info.criticality,
                info.worst_case_execution_time,
                info.typical_execution_time,
                info.cached_execution_time,
                info.period,
                info.importance,
                info.quantum,
                info.threads,
                info.info_type,
            )?;
            read.push((state.place(info.handle)?, attributes));
        }
        before(&mut state);
        state.planned = None;
        for (place, attributes) in read {
            change(&mut state, place);
            if let Some(operation) = state.graph.get_mut(place) {
                attributes.apply(operation);
            }
        }
        Ok(())
    }
}

impl Scheduler for SchedulerService {
    fn create(&self, _: Upcall<'_>, entry_point: &str) -> Result<i32, CreateError> {
        self.register(entry_point)
    }

    fn lookup(&self, _: Upcall<'_>, entry_point: &str) -> Result<i32, LookupError> {
        Ok(handle(self.state.lock().named(entry_point)?))
    }

    fn get<'u>(&'u self, cx: Upcall<'u>, handle: i32) -> Result<RT_InfoView<'u>, GetError> {
        let state = self.state.lock();
        let place = state.place(handle)?;
        Ok(views::info(cx, &state, place)?)
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
        self.change(handle, |operation| {
            attributes.apply(operation);
            Ok(())
        })
    }

    fn reset(
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
    ) -> Result<(), ResetError> {
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
        let mut state = self.state.lock();
        let place = state.place(handle)?;
        state.clear_dependencies(place);
        if let Some(operation) = state.graph.get_mut(place) {
            attributes.apply(operation);
        }
        Ok(())
    }

    fn set_seq(&self, _: Upcall<'_>, infos: RT_Info_SetView<'_>) -> Result<(), SetSeqError> {
        self.each(infos, |_| {}, |_, _| {})
    }

    fn reset_seq(&self, _: Upcall<'_>, infos: RT_Info_SetView<'_>) -> Result<(), ResetSeqError> {
        self.each(infos, |_| {}, State::clear_dependencies)
    }

    fn replace_seq(&self, _: Upcall<'_>, infos: RT_Info_SetView<'_>) -> Result<(), ReplaceSeqError> {
        let clear_all = |state: &mut State| {
            (0..state.graph.operations().len()).for_each(|place| state.clear(place));
        };
        self.each(infos, clear_all, |_, _| {})
    }

    fn add_dependency(
        &self,
        _: Upcall<'_>,
        handle: i32,
        dependency: i32,
        number_of_calls: i32,
        dependency_type: Dependency_Type_t,
    ) -> Result<(), AddDependencyError> {
        self.depend(handle, dependency, number_of_calls, dependency_type)
    }

    fn remove_dependency(
        &self,
        _: Upcall<'_>,
        handle: i32,
        dependency: i32,
        number_of_calls: i32,
        dependency_type: Dependency_Type_t,
    ) -> Result<(), RemoveDependencyError> {
        let mut state = self.state.lock();
        let call = call(dependency_type);
        let (owner, at) = state.dependency(handle, dependency, number_of_calls, call)?;
        state.remove_dependency(owner, at);
        Ok(())
    }

    fn set_dependency_enable_state(
        &self,
        _: Upcall<'_>,
        handle: i32,
        dependency: i32,
        number_of_calls: i32,
        dependency_type: Dependency_Type_t,
        enabled: Dependency_Enabled_Type_t,
    ) -> Result<(), SetDependencyEnableStateError> {
        let mut state = self.state.lock();
        let call = call(dependency_type);
        let (owner, at) = state.dependency(handle, dependency, number_of_calls, call)?;
        let dependency = state.graph.operations()[owner].dependencies[at];
        state.enable_dependency(owner, &dependency, enabled.into());
        Ok(())
    }

    fn set_dependency_enable_state_seq(
        &self,
        _: Upcall<'_>,
        dependencies: Dependency_SetView<'_>,
    ) -> Result<(), SetDependencyEnableStateSeqError> {
        let mut state = self.state.lock();
        let mut read = Vec::with_capacity(dependencies.len());
        for one in dependencies {
            let enabled = match one.enabled {
                0 => Enabled::No,
                1 => Enabled::Yes,
                2 => Enabled::NonVolatile,
                other => {
                    let detail = format!("{other} is no Dependency_Enabled_Type_t");
                    return Err(SystemException::from(Kind::BadParam).detail(detail).into());
                }
            };
            let call = call(one.dependency_type);
            let found = state.dependency(one.rt_info, one.rt_info_depended_on, one.number_of_calls, call)?;
            read.push((found, enabled));
        }
        for ((owner, at), enabled) in read {
            let dependency = state.graph.operations()[owner].dependencies[at];
            state.enable_dependency(owner, &dependency, enabled);
        }
        Ok(())
    }

    fn set_rt_info_enable_state(
        &self,
        _: Upcall<'_>,
        handle: i32,
        enabled: RT_Info_Enabled_Type_t,
    ) -> Result<(), SetRtInfoEnableStateError> {
        let mut state = self.state.lock();
        let place = state.place(handle)?;
        state.enable(place, enabled.into());
        Ok(())
    }

    fn set_rt_info_enable_state_seq(
        &self,
        _: Upcall<'_>,
        pair_set: RT_Info_Enable_State_Pair_SetView<'_>,
    ) -> Result<(), SetRtInfoEnableStateSeqError> {
        let mut state = self.state.lock();
        let places: Result<Vec<_>, UNKNOWN_TASK> =
            pair_set.iter().map(|pair| Ok((state.place(pair.handle)?, pair.enabled))).collect();
        for (place, enabled) in places? {
            state.enable(place, enabled.into());
        }
        Ok(())
    }

    fn priority(&self, _: Upcall<'_>, handle: i32) -> Result<(i32, i32, i32), PriorityError> {
        self.priorities_of(|state| state.place(handle))
    }

    fn entry_point_priority(
        &self,
        _: Upcall<'_>,
        entry_point: &str,
    ) -> Result<(i32, i32, i32), EntryPointPriorityError> {
        self.priorities_of(|state| state.named(entry_point))
    }

    fn compute_scheduling<'u>(
        &'u self,
        cx: Upcall<'u>,
        minimum_priority: i32,
        maximum_priority: i32,
    ) -> Result<
        (
            RT_Info_SetView<'u>,
            Dependency_SetView<'u>,
            Config_Info_SetView<'u>,
            Scheduling_Anomaly_SetView<'u>,
        ),
        ComputeSchedulingError,
    > {
        let (state, anomalies) =
            self.compute::<ComputeSchedulingError>(minimum_priority, maximum_priority)?;
        Ok((
            views::infos(cx, &state)?,
            views::dependencies(cx, &state)?,
            views::configs(cx, &state)?,
            views::anomalies(cx, &anomalies)?,
        ))
    }

    fn recompute_scheduling<'u>(
        &'u self,
        cx: Upcall<'u>,
        minimum_priority: i32,
        maximum_priority: i32,
    ) -> Result<Scheduling_Anomaly_SetView<'u>, RecomputeSchedulingError> {
        let (_state, anomalies) =
            self.compute::<RecomputeSchedulingError>(minimum_priority, maximum_priority)?;
        Ok(views::anomalies(cx, &anomalies)?)
    }

    fn get_rt_info_set<'u>(&'u self, cx: Upcall<'u>) -> Result<RT_Info_SetView<'u>, GetRtInfoSetError> {
        Ok(views::infos(cx, &self.state.lock())?)
    }

    fn get_dependency_set<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Dependency_SetView<'u>, GetDependencySetError> {
        Ok(views::dependencies(cx, &self.state.lock())?)
    }

    fn get_config_info_set<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Config_Info_SetView<'u>, GetConfigInfoSetError> {
        Ok(views::configs(cx, &self.state.lock())?)
    }

    fn dispatch_configuration(
        &self,
        _: Upcall<'_>,
        p_priority: i32,
    ) -> Result<(i32, Dispatching_Type_t), DispatchConfigurationError> {
        self.dispatching_of(p_priority)
    }

    fn last_scheduled_priority(&self, _: Upcall<'_>) -> Result<i32, LastScheduledPriorityError> {
        self.last_priority()
    }

    fn get_config_infos<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Config_Info_SetView<'u>, GetConfigInfosError> {
        let state = self.state.lock();
        if state.planned.is_none() {
            return Err(NOT_SCHEDULED {}.into());
        }
        Ok(views::configs(cx, &state)?)
    }
}
