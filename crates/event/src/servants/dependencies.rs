//! A configuration run: which operations of suppliers release which of consumers.

use crate::filter::{Filter, OperationFilters};
use crate::placement::{NotAdmitted, Placement, Quality, RunTimeScheduler};
use crate::supplier::Publication;
use isorb_rt::sync::{PiGuard, PiMutex};
use isorb_sched_service::rtec_scheduler::{Dependency_Type_t, SchedulerRef};
use std::collections::BTreeSet;

/// The most registrations of consumers, and of suppliers, that a run compares.
const MOST: usize = 4096;

/// Tells a scheduler which operations of consumers depend on which of suppliers, as they connect: a
/// consumer's operation is released by a supplier's if an event that the supplier publishes may
/// pass its filter. For a configuration run; the handles are `rt_info` of both.
///
/// What disconnects stays, since the run is to find all that may be there together. No consumer is
/// refused: there is no schedule yet.
///
/// # Real-time
/// For connecting, not for events: allocates, and calls the scheduler once for each dependency that
/// is new, without a lock.
#[derive(Debug)]
pub struct DependencyRecorder {
    scheduler: SchedulerRef,
    state: PiMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    consumers: Vec<(i32, Vec<Filter>)>,
    suppliers: Vec<PublishedBy>,
    /// Consumer and supplier of each dependency that was found.
    known: BTreeSet<(i32, i32)>,
    /// The dependencies that the scheduler does not know yet: consumer, supplier, events of a run.
    unsent: Vec<(i32, i32, i32)>,
    /// The limit was reached, which was logged.
    full: bool,
}

/// A publication of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PublishedBy {
    pub rt_info: i32,
    /// Events of one run.
    pub calls: i32,
    pub publication: Publication,
}

impl DependencyRecorder {
    /// Records in this scheduler.
    pub fn new(scheduler: SchedulerRef) -> DependencyRecorder {
        DependencyRecorder { scheduler, state: PiMutex::default() }
    }

    pub(super) fn consumer(&self, groups: &[OperationFilters]) {
        let mut state = self.state.lock();
        for OperationFilters { operations, filters } in groups {
            for operation in operations {
                let one = (*operation, filters.clone());
                let count = state.consumers.len();
                if !state.consumers.contains(&one) && state.has_room(count) {
                    let State { suppliers, known, unsent, .. } = &mut *state;
                    unsent.extend(suppliers.iter().filter_map(|supplier| found(&one, supplier, known)));
                    state.consumers.push(one);
                }
            }
        }
        self.send(state);
    }

    pub(super) fn supplier(&self, published: &[PublishedBy]) {
        let mut state = self.state.lock();
        for one in published.iter().filter(|one| one.rt_info != 0) {
            let count = state.suppliers.len();
            if !state.suppliers.contains(one) && state.has_room(count) {
                let State { consumers, known, unsent, .. } = &mut *state;
                unsent.extend(consumers.iter().filter_map(|consumer| found(consumer, one, known)));
                state.suppliers.push(*one);
            }
        }
        self.send(state);
    }

    /// Tells the scheduler what it does not know yet, without the lock. What fails is tried again
    /// with the next connection.
    fn send(&self, mut state: PiGuard<'_, State>) {
        let unsent = std::mem::take(&mut state.unsent);
        drop(state);
        for (consumer, supplier, calls) in unsent {
            let one_way = Dependency_Type_t::OneWayCall;
            if let Err(error) = self.scheduler.add_dependency(consumer, supplier, calls, one_way) {
                isorb_rt::log::warn(
                    "isorb::event",
                    format_args!(
                        "operation {consumer} depends on {supplier}, which could not be recorded: {error}"
                    ),
                );
                self.state.lock().unsent.push((consumer, supplier, calls));
            }
        }
    }
}

impl State {
    fn has_room(&mut self, count: usize) -> bool {
        let fits = count < MOST;
        if !fits && !std::mem::replace(&mut self.full, true) {
            isorb_rt::log::warn(
                "isorb::event",
                format_args!(
                    "a configuration run compares {MOST} registrations of consumers and as many publications; those \
                     beyond are not recorded"
                ),
            );
        }
        fits
    }
}

/// A dependency that was not known: the supplier publishes what may pass the consumer's filters.
fn found(
    (consumer, filters): &(i32, Vec<Filter>),
    supplier: &PublishedBy,
    known: &mut BTreeSet<(i32, i32)>,
) -> Option<(i32, i32, i32)> {
    let pair = (*consumer, supplier.rt_info);
    let releases = pair.0 != pair.1 && filters.iter().any(|filter| supplier.publication.may_pass(filter));
    (releases && known.insert(pair)).then_some((pair.0, pair.1, supplier.calls.max(1)))
}

/// Admits every consumer, at the least urgent priority: the scheduler of a configuration run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unscheduled;

impl RunTimeScheduler for Unscheduled {
    fn admit(&self, _: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        Ok((Placement::least_urgent(q), 0))
    }

    fn leave(&self, _: u64) {}
}
