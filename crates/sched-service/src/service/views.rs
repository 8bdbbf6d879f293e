//! What the operations of TAO 2.x's interface return.

use super::state::{Enabled, State};
use crate::convert::{handle, number};
use crate::rtec_scheduler::{
    Anomaly_Severity, Config_InfoView, Criticality_t, Dependency_Info, Dependency_Type_t, Importance_t,
    Info_Type_t, RT_InfoView, Scheduling_AnomalyView,
};
use isorb::{Result, Upcall};
use isorb_sched::graph::{Call, Dependency};
use isorb_sched::schedule::{Anomaly, Severity};
use isorb_sched::{Criticality, Importance, graph};

/// An operation in the interface's form. Priorities that are not computed are 0. Of its
/// dependencies it has those that are enabled.
pub(super) fn info<'u>(cx: Upcall<'u>, state: &State, place: usize) -> Result<RT_InfoView<'u>> {
    let operation = &state.graph.operations()[place];
    let (priority, preemption_subpriority, preemption_priority) = state.priorities(place).unwrap_or_default();
    let dependencies: Vec<Dependency_Info> = operation
        .dependencies
        .iter()
        .filter(|dependency| state.dependency_enabled(place, dependency) != Enabled::No)
        .map(|one| Dependency_Info { rt_info: handle(one.on), ..dependency(state, place, one) })
        .collect();
    Ok(RT_InfoView {
        entry_point: cx.str(&operation.name)?,
        handle: handle(place),
        worst_case_execution_time: operation.worst.as_100ns(),
        typical_execution_time: operation.typical.as_100ns(),
        cached_execution_time: operation.cached.as_100ns(),
        period: i32::try_from(operation.period.as_100ns()).unwrap_or(i32::MAX),
        criticality: criticality(operation.criticality),
        importance: importance(operation.importance),
        quantum: operation.quantum.as_100ns(),
        threads: number(operation.threads),
        dependencies: cx.slice(&dependencies)?,
        priority,
        preemption_subpriority,
        preemption_priority,
        info_type: info_type(operation.kind),
        enabled: wire(state.enabled(place)),
        volatile_token: 0,
    })
}

pub(super) fn infos<'u>(cx: Upcall<'u>, state: &State) -> Result<&'u [RT_InfoView<'u>]> {
    let infos: Result<Vec<RT_InfoView<'u>>> =
        (0..state.graph.operations().len()).map(|place| info(cx, state, place)).collect();
    cx.slice(&infos?)
}

/// All dependencies, also those that are disabled.
pub(super) fn dependencies<'u>(cx: Upcall<'u>, state: &State) -> Result<&'u [Dependency_Info]> {
    let all = state.graph.operations().iter().enumerate().flat_map(|(place, operation)| {
        operation.dependencies.iter().map(move |one| dependency(state, place, one))
    });
    cx.slice(&all.collect::<Vec<_>>())
}

fn dependency(state: &State, place: usize, dependency: &Dependency) -> Dependency_Info {
    Dependency_Info {
        dependency_type: dependency_type(dependency.call),
        number_of_calls: number(dependency.times),
        rt_info: handle(place),
        rt_info_depended_on: handle(dependency.on),
        enabled: wire(state.dependency_enabled(place, dependency)),
    }
}

pub(super) fn configs<'u>(cx: Upcall<'u>, state: &State) -> Result<&'u [Config_InfoView<'u>]> {
    let configs: Result<Vec<Config_InfoView<'u>>> = state
        .queues()
        .iter()
        .map(|queue| {
            Ok(Config_InfoView {
                preemption_priority: queue.level,
                thread_priority: queue.thread_priority,
                dispatching_type: queue.dispatching,
                timer_periods: cx.slice(&queue.timer_periods)?,
            })
        })
        .collect();
    cx.slice(&configs?)
}

pub(super) fn anomalies<'u>(
    cx: Upcall<'u>,
    anomalies: &[Anomaly],
) -> Result<&'u [Scheduling_AnomalyView<'u>]> {
    let views: Result<Vec<Scheduling_AnomalyView<'u>>> = anomalies
        .iter()
        .map(|anomaly| {
            Ok(Scheduling_AnomalyView {
                description: cx.str(&anomaly.description)?,
                severity: match anomaly.severity {
                    Severity::Fatal => Anomaly_Severity::AnomalyFatal,
                    Severity::Error => Anomaly_Severity::AnomalyError,
                    Severity::Warning => Anomaly_Severity::AnomalyWarning,
                },
            })
        })
        .collect();
    cx.slice(&views?)
}

/// The number of a `Dependency_Enabled_Type_t` and of a `RT_Info_Enabled_Type_t`.
fn wire(enabled: Enabled) -> u32 {
    match enabled {
        Enabled::No => 0,
        Enabled::Yes => 1,
        Enabled::NonVolatile => 2,
    }
}

pub(super) fn dependency_type(call: Call) -> Dependency_Type_t {
    match call {
        Call::OneWay => Dependency_Type_t::OneWayCall,
        Call::TwoWay => Dependency_Type_t::TwoWayCall,
    }
}

pub(super) fn criticality(criticality: Criticality) -> Criticality_t {
    match criticality {
        Criticality::VeryLow => Criticality_t::VeryLowCriticality,
        Criticality::Low => Criticality_t::LowCriticality,
        Criticality::Medium => Criticality_t::MediumCriticality,
        Criticality::High => Criticality_t::HighCriticality,
        Criticality::VeryHigh => Criticality_t::VeryHighCriticality,
    }
}

pub(super) fn importance(importance: Importance) -> Importance_t {
    match importance {
        Importance::VeryLow => Importance_t::VeryLowImportance,
        Importance::Low => Importance_t::LowImportance,
        Importance::Medium => Importance_t::MediumImportance,
        Importance::High => Importance_t::HighImportance,
        Importance::VeryHigh => Importance_t::VeryHighImportance,
    }
}

pub(super) fn info_type(kind: graph::Kind) -> Info_Type_t {
    match kind {
        graph::Kind::Operation => Info_Type_t::Operation,
        graph::Kind::Conjunction => Info_Type_t::Conjunction,
        graph::Kind::Disjunction => Info_Type_t::Disjunction,
        graph::Kind::RemoteDependant => Info_Type_t::RemoteDependant,
    }
}
