//! Several processors: which operations run where, by worst fit.
//!
//! Operations that release or call each other, or share a resource, stay on one processor: then the
//! analysis of one processor holds for each, and no job waits for another processor. These groups
//! are placed in the order of their demand, the greatest first, each on the processor with the
//! least demand where all deadlines still hold.

use crate::Utilisation;
use crate::graph::{Dependency, Graph, GraphError, Operation, OperationId};
use crate::schedule::{Config, Schedule, ScheduleError, Severity};
use std::fmt;

/// The operations of a graph on processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The processors, by number.
    pub processors: Vec<Processor>,
    /// The groups that no processor has room for.
    pub refused: Vec<Unplaced>,
}

/// What runs on a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// Its operations, by their index in the whole graph.
    pub operations: Vec<OperationId>,
    /// Their schedule, with indices among these operations. `None` for a processor without any.
    pub schedule: Option<Schedule>,
}

/// Operations that no processor has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unplaced {
    /// Their names.
    pub operations: Vec<String>,
    /// For each processor, what would be late there, or why there is no schedule.
    pub reasons: Vec<String>,
}

impl Unplaced {
    /// The sentence, with the processors by these names. Those without a name have their numbers.
    #[must_use]
    pub fn sentence(&self, processors: &[usize]) -> String {
        let (operations, count) = (self.operations.join(", "), self.reasons.len());
        let mut text = match count {
            1 => format!("{operations} cannot be admitted"),
            _ => format!("{operations} cannot be admitted on any of {count} processors"),
        };
        for (number, reason) in self.reasons.iter().enumerate() {
            let separator = if number == 0 { ':' } else { ';' };
            let processor = processors.get(number).copied().unwrap_or(number);
            text.push_str(&format!("{separator} on processor {processor}, {reason}"));
        }
        text
    }
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(&[]))
    }
}

impl Partition {
    /// Whether all operations are placed. Their deadlines hold then.
    #[must_use]
    pub fn schedulable(&self) -> bool {
        self.refused.is_empty()
    }

    /// The processor of an operation.
    #[must_use]
    pub fn processor_of(&self, operation: OperationId) -> Option<usize> {
        self.processors.iter().position(|processor| processor.operations.contains(&operation))
    }
}

impl Graph {
    /// Places the operations on `processors` processors, and schedules each with `config`.
    ///
    /// # Errors
    /// [`ScheduleError`] if a group cannot be scheduled even by itself, other than by missed
    /// deadlines or too much demand: these are [`Partition::refused`].
    ///
    /// # Real-time
    /// Off line: an analysis for each group and processor.
    pub fn partition(&self, config: &Config, processors: usize) -> Result<Partition, ScheduleError> {
        let mut groups: Vec<(Utilisation, Vec<OperationId>)> = Vec::new();
        for operations in self.groups()? {
            let alone = self.part(&operations)?.schedule(config.clone())?;
            groups.push((alone.analysis.utilisation, operations));
        }
        // Equals in the order of the file.
        groups.sort_by_key(|(demand, _)| std::cmp::Reverse(*demand));
        let mut placed = vec![Processor { operations: Vec::new(), schedule: None }; processors];
        let mut refused = Vec::new();
        for (_, group) in groups {
            let demand = |processor: &Processor| processor.schedule.as_ref().map(|s| s.analysis.utilisation);
            let mut order: Vec<usize> = (0..processors).collect();
            order.sort_by_key(|number| demand(&placed[*number]));
            let mut reasons = vec![String::new(); processors];
            let mut found = None;
            for number in order {
                let mut operations: Vec<OperationId> =
                    placed[number].operations.iter().chain(&group).copied().collect();
                operations.sort_unstable();
                match self.part(&operations)?.schedule(config.clone()) {
                    Ok(schedule) => match fault(&schedule) {
                        None => {
                            found = Some((number, Processor { operations, schedule: Some(schedule) }));
                            break;
                        }
                        Some(reason) => reasons[number] = reason,
                    },
                    Err(error) => reasons[number] = error.to_string(),
                }
            }
            match found {
                Some((number, processor)) => placed[number] = processor,
                None => {
                    let name = |id: &OperationId| self.operations()[*id].name.clone();
                    refused.push(Unplaced { operations: group.iter().map(name).collect(), reasons });
                }
            }
        }
        Ok(Partition { processors: placed, refused })
    }

    /// The operations that must be on one processor, by the first of each group.
    fn groups(&self) -> Result<Vec<Vec<OperationId>>, GraphError> {
        // Finds dependencies on operations that do not exist.
        self.order()?;
        let count = self.operations().len();
        let mut group: Vec<usize> = (0..count).collect();
        let mut users: Vec<Option<OperationId>> = vec![None; self.resources.len()];
        let mut union = |a: OperationId, b: OperationId| {
            let (a, b) = (root(&mut group, a), root(&mut group, b));
            group[a.max(b)] = a.min(b);
        };
        for (id, operation) in self.operations().iter().enumerate() {
            operation.dependencies.iter().for_each(|dependency| union(id, dependency.on));
            for (resource, _) in &operation.holds {
                match users.get_mut(*resource) {
                    Some(Some(user)) => union(id, *user),
                    Some(none) => *none = Some(id),
                    None => {}
                }
            }
        }
        let mut groups: Vec<Vec<OperationId>> = vec![Vec::new(); count];
        for id in 0..count {
            groups[root(&mut group, id)].push(id);
        }
        groups.retain(|group| !group.is_empty());
        Ok(groups)
    }

    /// The graph of these operations, which has all that they depend on.
    fn part(&self, operations: &[OperationId]) -> Result<Graph, GraphError> {
        let mut part = Graph::new();
        part.resources.clone_from(&self.resources);
        for id in operations {
            let operation = &self.operations()[*id];
            let moved = |dependency: &Dependency| {
                let on = operations.binary_search(&dependency.on);
                let unknown = GraphError::Unknown { name: operation.name.clone() };
                on.map(|on| Dependency { on, ..*dependency }).map_err(|_| unknown)
            };
            let dependencies = operation.dependencies.iter().map(moved).collect::<Result<_, _>>()?;
            part.add(Operation { dependencies, ..operation.clone() })?;
        }
        Ok(part)
    }
}

/// The group of an operation: its least member. Shortens the path to it.
fn root(group: &mut [usize], of: usize) -> usize {
    let mut at = of;
    while group[at] != at {
        group[at] = group[group[at]];
        at = group[at];
    }
    at
}

/// Why a schedule does not hold.
fn fault(schedule: &Schedule) -> Option<String> {
    let worst = schedule.anomalies.iter().max_by_key(|anomaly| anomaly.severity)?;
    (worst.severity > Severity::Warning).then(|| worst.description.clone())
}
