//! Consumers with a queue and a placement for each of their registrations.
//!
//! Each group of registrations is a connection of its own, so that an urgent event waits for no
//! event of a less urgent registration: neither in the consumer's queue nor for the thread that
//! serves it.

use crate::admin::{ConsumerQos, Registrations};
use crate::core::Core;
use crate::error::ConnectError;
use crate::filter::{Compiled, Filter, MAX_TERMS};
use crate::modules::ModuleSet;
use crate::placement::{NotAdmitted, Placement, Quality, RunTimeScheduler};
use isorb_rt::priority::Priority;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// An admission: the placement of the most urgent operation, and the numbers of all.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    pub placement: Option<Placement>,
    pub numbers: Vec<u64>,
}

impl Admitted {
    /// Admits each operation, or none.
    pub(crate) fn admit(
        scheduler: &dyn RunTimeScheduler,
        qos: &ConsumerQos,
        further: &[i32],
    ) -> Result<Admitted, NotAdmitted> {
        let mut admitted = Admitted::default();
        for rt_info in std::iter::once(qos.quality.rt_info).chain(further.iter().copied()) {
            let quality = Quality { rt_info, ..qos.quality.clone() };
            match scheduler.admit(&qos.name, &quality) {
                Ok((placement, number)) => {
                    admitted.numbers.push(number);
                    let earlier = admitted.placement.replace(placement);
                    if let Some(earlier) = earlier.filter(|earlier| rank(earlier) >= rank(&placement)) {
                        admitted.placement = Some(earlier);
                    }
                }
                Err(refused) => {
                    admitted.leave(scheduler);
                    return Err(refused);
                }
            }
        }
        Ok(admitted)
    }

    pub(crate) fn leave(&self, scheduler: &dyn RunTimeScheduler) {
        self.numbers.iter().for_each(|number| scheduler.leave(*number));
    }
}

/// More is more urgent.
pub(crate) fn rank(placement: &Placement) -> (Priority, Reverse<Duration>) {
    (placement.priority, Reverse(placement.deadline.unwrap_or(Duration::MAX)))
}

impl<M: ModuleSet> Core<M> {
    /// Connects the registrations of one consumer: all or none. Returns their numbers.
    pub(crate) fn connect_each(self: &Arc<Self>, all: Vec<Registrations>) -> Result<Vec<u32>, ConnectError> {
        self.sweep_before_connecting();
        let mut admissions: Vec<Admitted> = Vec::with_capacity(all.len());
        for one in &all {
            match Admitted::admit(&*self.scheduler, &one.qos, &one.operations) {
                Ok(admitted) => admissions.push(admitted),
                Err(refused) => {
                    admissions.iter().for_each(|admitted| admitted.leave(&*self.scheduler));
                    return Err(refused.into());
                }
            }
        }
        let mut entering: Vec<(usize, Registrations, Admitted)> = all
            .into_iter()
            .zip(admissions)
            .enumerate()
            .map(|(at, (one, admitted))| (at, one, admitted))
            .collect();
        entering.sort_by_key(|(_, _, admitted)| Reverse(admitted.placement.as_ref().map(rank)));
        let mut ids = vec![0; entering.len()];
        let mut urgent: Vec<Filter> = Vec::new();
        let mut failed = None;
        for (at, one, admitted) in entering {
            let mut qos = one.qos;
            let own: Vec<Filter> = qos.filters.iter().flat_map(single_events).cloned().collect();
            qos.filters = qos.filters.into_iter().map(|filter| without(filter, &urgent)).collect();
            urgent.extend(own);
            // After a failure only the admissions are given back.
            if failed.is_some() {
                admitted.leave(&*self.scheduler);
                continue;
            }
            match self.connect_admitted(one.consumer, qos, admitted) {
                Ok(id) => ids[at] = id,
                Err(error) => failed = Some(error),
            }
        }
        let Some(error) = failed else { return Ok(ids) };
        ids.into_iter().filter(|id| *id != 0).for_each(|id| self.disconnect(id, false));
        Err(error)
    }
}

/// The terms of a registration each of which is met by one event.
fn single_events(filter: &Filter) -> Vec<&Filter> {
    if !is_plain(filter) {
        return Vec::new();
    }
    let is_event = |filter: &&Filter| !matches!(filter, Filter::Interval(_) | Filter::Deadline(_));
    match filter {
        Filter::Disjunction(terms) => terms.iter().flat_map(single_events).collect(),
        filter => [filter].into_iter().filter(is_event).collect(),
    }
}

fn is_plain(filter: &Filter) -> bool {
    Compiled::new(filter).is_ok_and(|compiled| compiled.plain)
}

/// A registration without the events that a more urgent one takes: each is pushed once. A
/// conjunction is left as it is, since it may need the event for another one.
fn without(filter: Filter, urgent: &[Filter]) -> Filter {
    if !is_plain(&filter) {
        return filter;
    }
    match filter {
        Filter::Interval(_) | Filter::Deadline(_) => filter,
        Filter::Disjunction(terms) => {
            Filter::Disjunction(terms.into_iter().map(|term| without(term, urgent)).collect())
        }
        filter => {
            let taken: Vec<Filter> =
                urgent.iter().filter(|other| may_meet(other, &filter)).cloned().collect();
            if taken.is_empty() {
                return filter;
            }
            let none_of = |some: &[Filter]| Filter::Not(Box::new(Filter::Disjunction(some.to_vec())));
            Filter::LogicalAnd(std::iter::once(filter).chain(taken.chunks(MAX_TERMS).map(none_of)).collect())
        }
    }
}

/// Whether one event may pass both. Never wrongly false.
fn may_meet(one: &Filter, other: &Filter) -> bool {
    let meet = |a: i32, b: i32| a == 0 || b == 0 || a == b;
    match (one, other) {
        (
            Filter::Event { event_type, source },
            Filter::Event { event_type: other_type, source: other_source },
        ) => meet(*event_type, *other_type) && meet(*source, *other_source),
        _ => true,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_taken_is_excluded() {
        let of = Filter::of;
        let urgent = [of(20, 1), of(21, 0)];
        assert_eq!(without(of(22, 0), &urgent), of(22, 0));
        assert_eq!(without(of(20, 2), &urgent), of(20, 2));
        let none_of = |taken: &[Filter]| Filter::Not(Box::new(Filter::Disjunction(taken.to_vec())));
        let expected = Filter::LogicalAnd(vec![of(20, 0), none_of(&urgent[..1])]);
        assert_eq!(without(of(20, 0), &urgent), expected);
        let all = without(Filter::any_of([Filter::Everything, of(30, 0)]), &urgent);
        let everything = Filter::LogicalAnd(vec![Filter::Everything, none_of(&urgent)]);
        assert_eq!(all, Filter::any_of([everything, of(30, 0)]));
        // A conjunction keeps its events, and takes none from others.
        let both = Filter::all_of([of(20, 1), of(30, 0)]);
        assert_eq!(without(both.clone(), &urgent), both);
        assert!(single_events(&both).is_empty());
        // More than one group may hold.
        let many: Vec<Filter> = (0..100).map(|n| of(100 + n, 0)).collect();
        assert!(without(Filter::Everything, &many).check().is_ok());
    }
}
