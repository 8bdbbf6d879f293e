//! The registered operations, which of them are enabled, and their schedule.

use super::place;
use crate::convert::{count_zero_costs, number};
use crate::rtec_scheduler::{Dispatching_Type_t, UNKNOWN_TASK};
use isorb_sched::Order;
use isorb_sched::graph::{Call, Dependency, Graph, Operation};
use isorb_sched::schedule::{Anomaly, Schedule};
use std::collections::BTreeMap;

/// Whether an operation or a dependency takes part in schedules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Enabled {
    No,
    #[default]
    Yes,
    /// As `Yes`; the service disables nothing by itself.
    NonVolatile,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub graph: Graph,
    /// The operations that are not plainly enabled, by place.
    operations: BTreeMap<usize, Enabled>,
    /// The dependencies that are not plainly enabled. Equal ones of an operation are one.
    dependencies: BTreeMap<(usize, DependencyKey), Enabled>,
    pub planned: Option<Planned>,
}

type DependencyKey = (usize, bool, u32);

fn key(dependency: &Dependency) -> DependencyKey {
    (dependency.on, dependency.call == Call::TwoWay, dependency.times)
}

/// A schedule of the enabled operations.
#[derive(Debug)]
pub(super) struct Planned {
    pub schedule: Schedule,
    /// By place among all operations: the place among the enabled ones.
    pub places: Vec<Option<usize>>,
}

/// A dispatching queue.
pub(super) struct QueueInfo {
    pub level: i32,
    pub thread_priority: i32,
    pub dispatching: Dispatching_Type_t,
    /// In units of 100 ns, ascending.
    pub timer_periods: Vec<i32>,
}

impl State {
    pub fn new(graph: Graph) -> State {
        State { graph, ..State::default() }
    }

    pub fn place(&self, handle: i32) -> Result<usize, UNKNOWN_TASK> {
        place(handle).filter(|place| self.graph.get(*place).is_some()).ok_or(UNKNOWN_TASK {})
    }

    pub fn named(&self, entry_point: &str) -> Result<usize, UNKNOWN_TASK> {
        self.graph.lookup(entry_point).ok_or(UNKNOWN_TASK {})
    }

    pub fn enabled(&self, place: usize) -> Enabled {
        self.operations.get(&place).copied().unwrap_or_default()
    }

    pub fn enable(&mut self, place: usize, enabled: Enabled) {
        self.planned = None;
        match enabled {
            Enabled::Yes => drop(self.operations.remove(&place)),
            other => drop(self.operations.insert(place, other)),
        }
    }

    pub fn dependency_enabled(&self, place: usize, dependency: &Dependency) -> Enabled {
        self.dependencies.get(&(place, key(dependency))).copied().unwrap_or_default()
    }

    pub fn enable_dependency(&mut self, place: usize, dependency: &Dependency, enabled: Enabled) {
        self.planned = None;
        match enabled {
            Enabled::Yes => drop(self.dependencies.remove(&(place, key(dependency)))),
            other => drop(self.dependencies.insert((place, key(dependency)), other)),
        }
    }

    /// Finds a dependency of an operation by the numbers of a client.
    pub fn dependency(
        &self,
        handle: i32,
        on: i32,
        number_of_calls: i32,
        call: Call,
    ) -> Result<(usize, usize), UNKNOWN_TASK> {
        let owner = self.place(handle)?;
        let matches = |other: &Dependency| {
            place(on) == Some(other.on)
                && other.call == call
                && i64::from(other.times) == i64::from(number_of_calls)
        };
        let dependencies = &self.graph.operations()[owner].dependencies;
        Ok((owner, dependencies.iter().position(matches).ok_or(UNKNOWN_TASK {})?))
    }

    /// Removes one dependency. Its state is forgotten with the last equal one.
    pub fn remove_dependency(&mut self, owner: usize, at: usize) {
        self.planned = None;
        let Some(operation) = self.graph.get_mut(owner) else { return };
        let gone = operation.dependencies.remove(at);
        if !operation.dependencies.contains(&gone) {
            self.dependencies.remove(&(owner, key(&gone)));
        }
    }

    /// Removes all dependencies of an operation, and their states.
    pub fn clear_dependencies(&mut self, owner: usize) {
        self.planned = None;
        if let Some(operation) = self.graph.get_mut(owner) {
            operation.dependencies.clear();
        }
        self.dependencies.retain(|(of, _), _| *of != owner);
    }

    /// Makes an operation as it was when it was created.
    pub fn clear(&mut self, owner: usize) {
        self.clear_dependencies(owner);
        self.operations.remove(&owner);
        if let Some(operation) = self.graph.get_mut(owner) {
            *operation = Operation::new(std::mem::take(&mut operation.name));
        }
    }

    /// The enabled operations with their enabled dependencies, the place of each among them, and
    /// what was changed to schedule them.
    pub fn effective(&self) -> (Graph, Vec<Option<usize>>, Vec<Anomaly>) {
        let mut count = 0;
        let operations = self.graph.operations();
        let places: Vec<Option<usize>> = (0..operations.len())
            .map(|place| {
                let is_on = self.enabled(place) != Enabled::No;
                count += usize::from(is_on);
                is_on.then(|| count - 1)
            })
            .collect();
        let mut graph = Graph::new();
        graph.resources.clone_from(&self.graph.resources);
        for (owner, operation) in operations.iter().enumerate() {
            if places[owner].is_none() {
                continue;
            }
            let dependencies = operation.dependencies.iter().filter_map(|dependency| {
                let on = places.get(dependency.on).copied().flatten()?;
                let is_on = self.dependency_enabled(owner, dependency) != Enabled::No;
                is_on.then_some(Dependency { on, ..*dependency })
            });
            let dependencies = dependencies.collect();
            // Its name is unique, since it is so among all.
            let _ = graph.add(Operation { dependencies, ..operation.clone() });
        }
        let changed = count_zero_costs(&mut graph);
        (graph, places, changed)
    }

    /// Thread priority, sub-priority and level of an operation's most urgent task.
    pub fn priorities(&self, place: usize) -> Option<(i32, i32, i32)> {
        let planned = self.planned.as_ref()?;
        let place = planned.places.get(place).copied().flatten()?;
        let (task, _) = planned.schedule.of(place).min_by_key(|(task, _)| task.queue.level)?;
        Some((
            i32::from(task.queue.thread_priority),
            number(task.static_subpriority),
            number(task.queue.level),
        ))
    }

    pub fn queues(&self) -> Vec<QueueInfo> {
        let Some(Planned { schedule, places }) = &self.planned else { return Vec::new() };
        let mut queues: Vec<QueueInfo> = schedule
            .queues
            .iter()
            .map(|queue| QueueInfo {
                level: number(queue.level),
                thread_priority: i32::from(queue.thread_priority),
                dispatching: match queue.order {
                    Order::Arrival => Dispatching_Type_t::StaticDispatching,
                    Order::Deadline => Dispatching_Type_t::DeadlineDispatching,
                    Order::Laxity => Dispatching_Type_t::LaxityDispatching,
                },
                timer_periods: Vec::new(),
            })
            .collect();
        for (operation, place) in self.graph.operations().iter().zip(places) {
            let Some(place) = place.filter(|_| !operation.period.is_zero()) else { continue };
            let period = i32::try_from(operation.period.as_100ns()).unwrap_or(i32::MAX);
            for (task, _) in schedule.of(place) {
                let level = number(task.queue.level);
                queues.iter_mut().filter(|queue| queue.level == level).for_each(|queue| {
                    queue.timer_periods.push(period);
                });
            }
        }
        for queue in &mut queues {
            queue.timer_periods.sort_unstable();
            queue.timer_periods.dedup();
        }
        queues
    }
}
