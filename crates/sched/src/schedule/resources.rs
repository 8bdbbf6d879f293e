//! Blocking by shared resources under the priority ceiling protocol.

use super::{Schedule, ScheduleError};
use crate::demand::Order;
use crate::graph::{Call, Graph, Kind, OperationId};
use crate::links::Links;
use crate::{Nanos, QueueConfig, Task};

impl Graph {
    /// Adds to each task's blocking the longest time for which one less urgent task may hold a
    /// resource that this task or a more urgent one uses. Under a ceiling protocol it waits at most
    /// once for that time (Sha, Rajkumar and Lehoczky 1990; for deadlines Baker 1991, with the
    /// order of relative deadlines). Returns the ceiling of each resource, by index.
    pub(crate) fn block(
        &self,
        tasks: &mut [Task],
        links: &Links,
        queues: &[QueueConfig],
    ) -> Result<Vec<Option<u32>>, ScheduleError> {
        // A lower value is more urgent.
        let urgency = |place: usize, tasks: &[Task]| {
            let inside = match queues[place].order {
                Order::Arrival => 0,
                Order::Deadline | Order::Laxity => tasks[place].deadline.minus(tasks[place].jitter).ns(),
            };
            (queues[place].level, inside)
        };
        let held: Vec<_> = links.all.iter().map(|link| self.held(link.operation)).collect();
        let holds = |place: usize| &held[place];
        let mut priorities: Vec<Option<u32>> =
            self.resources.iter().map(|resource| resource.ceiling).collect();
        let mut ceilings: Vec<Option<(u32, u64)>> = vec![None; self.resources.len()];
        for place in 0..tasks.len() {
            for (resource, _) in holds(place) {
                let mine = urgency(place, tasks);
                if let Some(ceiling) = ceilings.get_mut(*resource) {
                    *ceiling = Some(ceiling.map_or(mine, |ceiling| ceiling.min(mine)));
                }
                let declared = self.resources.get(*resource).and_then(|resource| resource.ceiling);
                let priority = u32::from(queues[place].thread_priority);
                if let Some(ceiling) = declared.filter(|ceiling| *ceiling < priority) {
                    return Err(ScheduleError::Ceiling {
                        resource: self.resources[*resource].name.clone(),
                        ceiling,
                        task: tasks[place].name.clone(),
                        priority,
                    });
                }
                if let Some(ceiling) = priorities.get_mut(*resource) {
                    *ceiling = Some(ceiling.map_or(priority, |ceiling| ceiling.max(priority)));
                }
            }
        }
        let blocking: Vec<Nanos> = (0..tasks.len())
            .map(|place| {
                let mine = urgency(place, tasks);
                (0..tasks.len())
                    .filter(|other| urgency(*other, tasks) > mine)
                    .flat_map(|other| holds(other).iter().copied())
                    .filter(|(resource, _)| {
                        ceilings.get(*resource).copied().flatten().is_some_and(|c| c <= mine)
                    })
                    .map(|(_, time)| time)
                    .max()
                    .unwrap_or_default()
            })
            .collect();
        for (task, blocking) in tasks.iter_mut().zip(blocking) {
            task.blocking = task.blocking.plus(blocking);
        }
        Ok(priorities)
    }

    /// The resources that an operation holds, with those of the operations that it calls, which run
    /// on its thread.
    fn held(&self, operation: OperationId) -> Vec<(usize, Nanos)> {
        let mut reached = vec![operation];
        let mut next = 0;
        while let Some(id) = reached.get(next) {
            let calls = self.operations()[*id].dependencies.iter().filter(|on| on.call == Call::TwoWay);
            let new: Vec<_> = calls.map(|on| on.on).filter(|on| !reached.contains(on)).collect();
            reached.extend(new);
            next += 1;
        }
        let here = reached.iter().map(|id| &self.operations()[*id]);
        here.filter(|operation| operation.kind != Kind::RemoteDependant)
            .flat_map(|operation| operation.holds.iter().copied())
            .collect()
    }
}

impl Schedule {
    /// The CORBA priority at which holders of a resource must run, by its index in
    /// [`Graph::resources`]: the declared ceiling, otherwise the priority of its most urgent user.
    /// `None` if there is no such resource, or it has neither a user nor a declared ceiling.
    #[must_use]
    pub fn ceiling(&self, resource: usize) -> Option<u32> {
        self.ceilings.get(resource).copied().flatten()
    }
}
