//! Conversions between the types of the interface and of the graph.

use crate::rtec_scheduler::{Criticality_t, Dependency_Type_t, Importance_t, Info_Type_t};
use isorb::{Kind, SystemException};
use isorb_sched::graph::{self, Call, Graph};
use isorb_sched::schedule::{Anomaly, Severity};
use isorb_sched::{Criticality, Importance, Nanos};

pub(crate) fn handle(place: usize) -> i32 {
    i32::try_from(place + 1).unwrap_or(0)
}

pub(crate) fn place(handle: i32) -> Option<usize> {
    usize::try_from(handle).ok()?.checked_sub(1)
}

pub(crate) fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) fn negative(what: &str, number: i32) -> SystemException {
    SystemException::from(Kind::BadParam).detail(format!("a {what} of {number} is none"))
}

pub(crate) fn call(kind: Dependency_Type_t) -> Call {
    match kind {
        Dependency_Type_t::OneWayCall => Call::OneWay,
        Dependency_Type_t::TwoWayCall => Call::TwoWay,
    }
}

pub(crate) fn kind(kind: Info_Type_t) -> graph::Kind {
    match kind {
        Info_Type_t::Operation => graph::Kind::Operation,
        Info_Type_t::Conjunction => graph::Kind::Conjunction,
        Info_Type_t::Disjunction => graph::Kind::Disjunction,
        Info_Type_t::RemoteDependant => graph::Kind::RemoteDependant,
    }
}

pub(crate) fn criticality_of(criticality: Criticality_t) -> Criticality {
    match criticality {
        Criticality_t::VeryLowCriticality => Criticality::VeryLow,
        Criticality_t::LowCriticality => Criticality::Low,
        Criticality_t::MediumCriticality => Criticality::Medium,
        Criticality_t::HighCriticality => Criticality::High,
        Criticality_t::VeryHighCriticality => Criticality::VeryHigh,
    }
}

pub(crate) fn importance_of(importance: Importance_t) -> Importance {
    match importance {
        Importance_t::VeryLowImportance => Importance::VeryLow,
        Importance_t::LowImportance => Importance::Low,
        Importance_t::MediumImportance => Importance::Medium,
        Importance_t::HighImportance => Importance::High,
        Importance_t::VeryHighImportance => Importance::VeryHigh,
    }
}

/// The cost of an operation that declared none.
const LEAST_COST: Nanos = Nanos::new(100);

/// Programs of TAO register consumers without costs. Those that only others release count as the
/// least cost that the interface can express, since the analysis has no job without a cost. Returns
/// a warning for each.
pub(crate) fn count_zero_costs(graph: &mut Graph) -> Vec<Anomaly> {
    let Ok(costs) = graph.costs() else { return Vec::new() };
    let mut warnings = Vec::new();
    for (place, cost) in costs.into_iter().enumerate() {
        let Some(operation) = graph.get_mut(place) else { continue };
        let is_released = operation.dependencies.iter().any(|of| of.call == Call::OneWay);
        let has_clock = !operation.period.is_zero();
        if cost.is_zero() && is_released && !has_clock && operation.kind == graph::Kind::Operation {
            operation.worst = LEAST_COST;
            let description =
                format!("{}: its worst-case cost is zero, and counts as {LEAST_COST}", operation.name);
            warnings.push(Anomaly { severity: Severity::Warning, description });
        }
    }
    warnings
}
