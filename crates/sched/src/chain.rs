//! Chains: operations that release each other and are admitted as a whole or not at all.
//!
//! Each operation of a chain has an intermediate deadline, counted from the arrival that started
//! the chain. Its successor is assumed to be released as late as that ([`crate::links`]). A task
//! that is admitted later may delay an operation up to its intermediate deadline, and its admission
//! need not look at the successors: the end-to-end deadlines hold as long as the intermediate ones
//! do.
//!
//! At first the time to a deadline is shared in proportion to the costs. If this is not schedulable
//! in order of arrival, each intermediate deadline is set to the response found, which leaves the
//! slack at the end. In queues by deadline or laxity a response is only known to be within its
//! deadline. There the time is shared in equal parts, then again with more for the operation that
//! was late.

use crate::graph::{Graph, GraphError, OperationId};
use crate::links::Links;
use crate::{
    Connected, Fault, Nanos, Nearest, Order, QueueConfig, Reason, Refusal, RuntimeScheduler, TaskError,
};
use std::fmt;

/// The greatest number of rounds in which responses become jitter.
const ROUNDS: usize = 64;

/// An operation of an admitted graph, for one of the streams that release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The operation.
    pub operation: OperationId,
    /// Its admitted task. The task's deadline counts from the arrival that started the chain.
    pub connected: Connected,
    /// How long after that arrival it is released at the latest.
    pub released: Nanos,
}

impl Stage {
    /// Its time from its own release.
    #[must_use]
    pub fn own_deadline(&self) -> Nanos {
        self.connected.dispatch.own_deadline()
    }
}

/// Why a graph was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphRefusal {
    /// The graph is invalid.
    Graph(GraphError),
    /// A task would miss its deadline with the graph.
    Refused {
        /// The operations in the order in which they release each other.
        chain: Vec<String>,
        /// The operation that failed, and the numbers.
        refusal: Box<Refusal>,
    },
}

impl fmt::Display for GraphRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphRefusal::Graph(error) => error.fmt(f),
            GraphRefusal::Refused { chain, refusal } => {
                write!(f, "{} cannot be admitted as a whole: {refusal}", chain.join(" -> "))
            }
        }
    }
}

impl std::error::Error for GraphRefusal {}

impl From<GraphError> for GraphRefusal {
    fn from(error: GraphError) -> GraphRefusal {
        GraphRefusal::Graph(error)
    }
}

/// Tasks by their index among the links, in the order of their admission.
type Admitted = Vec<(usize, Connected)>;

impl RuntimeScheduler {
    /// Admits all operations of a graph if they and all connected tasks meet their deadlines;
    /// deadlines of the graph count from the arrival that starts a chain. All tasks of an operation
    /// are in one queue, the most urgent one that the plan has for any of them.
    ///
    /// # Errors
    /// [`GraphRefusal`]; nothing has changed then.
    pub fn connect_graph(&mut self, graph: &Graph) -> Result<Vec<Stage>, GraphRefusal> {
        let links = Links::of(graph)?;
        let admitted = impossible(&links).map_or_else(|| self.admit_links(&links), Err);
        let admitted = admitted.map_err(|refusal| {
            let order = graph.order().unwrap_or_default();
            let names = order.into_iter().filter_map(|id| Some(graph.get(id)?.name.clone()));
            GraphRefusal::Refused { chain: names.collect(), refusal }
        })?;
        let stage = |(place, connected): (usize, Connected)| Stage {
            operation: links.all[place].operation,
            connected,
            released: connected.dispatch.released,
        };
        Ok(admitted.into_iter().map(stage).collect())
    }

    fn admit_links(&mut self, links: &Links) -> Result<Admitted, Box<Refusal>> {
        let queues = self.queues_of(links);
        if queues.iter().all(|queue| queue.order == Order::Arrival) {
            let points = links.shares().next(None).unwrap_or_default();
            return match self.admit(links, &queues, &points) {
                Ok(admitted) => Ok(admitted),
                Err(_) => self.admit_tightly(links, &queues),
            };
        }
        let (mut shares, mut late, mut refused) = (links.shares(), None, None);
        while let Some(points) = shares.next_even(late) {
            match self.admit(links, &queues, &points) {
                Ok(admitted) => return Ok(admitted),
                Err(refusal) => {
                    late = match &refusal.reason {
                        Reason::Deadline { victim, .. } => {
                            links.all.iter().position(|link| link.task.name == *victim)
                        }
                        _ => links.all.iter().position(|link| link.task.name == refusal.task),
                    };
                    // The first refusal is the easiest to understand.
                    refused.get_or_insert(refusal);
                }
            }
        }
        refused.map_or(Ok(Vec::new()), Err)
    }

    /// The queue of each task. Tasks of one operation share the most urgent of theirs.
    fn queues_of(&self, links: &Links) -> Vec<QueueConfig> {
        let own: Vec<QueueConfig> = links.all.iter().map(|link| self.queue_of(&link.task)).collect();
        let shared = |at: usize| {
            let siblings = links.all.iter().zip(&own);
            let siblings = siblings.filter(|(link, _)| link.operation == links.all[at].operation);
            siblings.map(|(_, queue)| *queue).min_by_key(|queue| queue.level).unwrap_or(own[at])
        };
        (0..own.len()).map(shared).collect()
    }

    /// Admits one task after the other, each with its intermediate deadline after a release as late
    /// as its predecessors allow.
    fn admit(
        &mut self,
        links: &Links,
        queues: &[QueueConfig],
        points: &[Nanos],
    ) -> Result<Admitted, Box<Refusal>> {
        self.admit_each(links, queues, points, &links.releases(points))
    }

    /// Removes the admitted tasks if one is refused.
    fn admit_each(
        &mut self,
        links: &Links,
        queues: &[QueueConfig],
        points: &[Nanos],
        releases: &[Nanos],
    ) -> Result<Admitted, Box<Refusal>> {
        let mut admitted: Admitted = Vec::with_capacity(links.all.len());
        for place in &links.order {
            let task = links.all[*place].task.clone().deadline(points[*place]).jitter(releases[*place]);
            match self.connect_at(task, queues[*place]) {
                Ok(connected) => admitted.push((*place, connected)),
                Err(refusal) => {
                    self.take_back(&admitted);
                    return Err(refusal);
                }
            }
        }
        // Later admissions made the first responses longer.
        for (_, connected) in &mut admitted {
            connected.response = self.response(connected.id).unwrap_or(connected.response);
        }
        Ok(admitted)
    }

    /// Like [`admit`](Self::admit), with the response of each task as its intermediate deadline.
    /// Responses become jitter of the successors until they do not change (Tindell and Clark 1994).
    fn admit_tightly(&mut self, links: &Links, queues: &[QueueConfig]) -> Result<Admitted, Box<Refusal>> {
        let whole: Vec<Nanos> = links.all.iter().map(|link| link.task.deadline).collect();
        let mut releases: Vec<Nanos> = links.all.iter().map(|link| link.stream.wait).collect();
        for _ in 0..ROUNDS {
            let responses = self.responses(links, queues, &whole, &releases)?;
            let later = links.releases(&responses).into_iter().zip(&releases);
            let next: Vec<Nanos> = later.map(|(later, release)| later.max(*release)).collect();
            if next == releases {
                break;
            }
            releases = next;
        }
        let responses = self.responses(links, queues, &whole, &releases)?;
        // If the rounds did not suffice, an intermediate deadline is before its response.
        let point = |(link, response): (&crate::links::Link, Nanos)| {
            if link.hands_on { response } else { link.task.deadline }
        };
        let points: Vec<Nanos> = links.all.iter().zip(responses).map(point).collect();
        self.admit(links, queues, &points)
    }

    /// The response of each task with all others. Nothing is admitted afterwards.
    fn responses(
        &mut self,
        links: &Links,
        queues: &[QueueConfig],
        points: &[Nanos],
        releases: &[Nanos],
    ) -> Result<Vec<Nanos>, Box<Refusal>> {
        let admitted = self.admit_each(links, queues, points, releases)?;
        self.take_back(&admitted);
        let mut responses = vec![Nanos::ZERO; links.all.len()];
        for (place, connected) in admitted {
            responses[place] = connected.response;
        }
        Ok(responses)
    }

    fn take_back(&mut self, admitted: &[(usize, Connected)]) {
        for (_, connected) in admitted.iter().rev() {
            self.disconnect(connected.id);
        }
    }
}

/// A chain that would be late without other tasks.
fn impossible(links: &Links) -> Option<Box<Refusal>> {
    let late = links.all.iter().zip(links.earliest()).find(|(link, done)| link.task.deadline < *done);
    let (link, done) = late?;
    let (deadline, cost) = (link.task.deadline, link.task.cost);
    let fault = Fault::ImpossibleDeadline { deadline, cost, jitter: done.minus(cost) };
    let task = link.task.name.clone();
    let reason = Reason::Impossible(TaskError { task: task.clone(), fault });
    Some(Box::new(Refusal { task, reason, nearest: Nearest::default() }))
}

#[cfg(test)]
mod tests;
