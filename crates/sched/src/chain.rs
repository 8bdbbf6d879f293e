//! Chains: operations that release each other, let in as a whole or not at all.
//!
//! Each operation of a chain has until a point of its own, counted from the arrival that set the chain off, and its successor is taken to be
//! released as late as that. So whoever is admitted later may delay an operation up to its point and no further, and need not look at what
//! comes behind it: the end-to-end deadlines hold as long as the single ones do.
//!
//! The time to a deadline is first shared out in proportion to what the operations cost, which leaves each some of the slack; where
//! that does not fit, each point is set to the response that was found, which leaves the slack at the end.

use crate::graph::{Graph, GraphError, OperationId, Stream};
use crate::{Connected, Nanos, Order, QueueConfig, Refusal, RuntimeScheduler, Task};
use std::fmt;

/// Rounds of handing responses on before giving up.
const ROUNDS: usize = 64;

/// An operation of an admitted graph, for one of the streams that release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Which.
    pub operation: OperationId,
    /// What it was admitted as. The deadline in it counts from the arrival that set the chain off.
    pub connected: Connected,
    /// How long after that arrival it is released at the latest.
    pub released: Nanos,
}

impl Stage {
    /// How long it has from its own release.
    #[must_use]
    pub fn own_deadline(&self) -> Nanos {
        self.connected.dispatch.deadline.minus(self.released)
    }
}

/// Why a graph was not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphRefusal {
    /// It is none.
    Graph(GraphError),
    /// With it, a task would miss its deadline.
    Refused {
        /// The operations, in the order in which they release each other.
        chain: Vec<String>,
        /// Which one failed, and by which numbers.
        refusal: Box<Refusal>,
    },
    /// The plan serves queues by deadline or laxity; these count from an event's own arrival, so they say nothing of a chain.
    Order {
        /// The operation that would be in such a queue.
        task: String,
    },
}

impl fmt::Display for GraphRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphRefusal::Graph(error) => error.fmt(f),
            GraphRefusal::Refused { chain, refusal } => {
                write!(f, "{} cannot be admitted as a whole: {refusal}", chain.join(" -> "))
            }
            GraphRefusal::Order { task } => write!(
                f,
                "{task}: a chain needs queues in order of arrival (rate or deadline monotonic, or declared priorities)"
            ),
        }
    }
}

impl std::error::Error for GraphRefusal {}

impl From<GraphError> for GraphRefusal {
    fn from(error: GraphError) -> GraphRefusal {
        GraphRefusal::Graph(error)
    }
}

/// A task of the graph before it is admitted.
struct Link {
    operation: OperationId,
    stream: Stream,
    task: Task,
    queue: QueueConfig,
    /// What releases it: places, and how much longer it may wait for each.
    after: Vec<(usize, Nanos)>,
    /// Whether it releases others.
    hands_on: bool,
}

impl RuntimeScheduler {
    /// Lets all operations of a graph in, if they and everybody that is connected meet their deadlines; those of the graph count from the
    /// arrival that sets a chain off. The tasks of one operation are in one queue, the most urgent that the plan has for any of them.
    ///
    /// # Errors
    /// [`GraphRefusal`]; nothing has changed then.
    pub fn connect_graph(&mut self, graph: &Graph) -> Result<Vec<Stage>, GraphRefusal> {
        let links = self.links(graph)?;
        if let Some(link) = links.iter().find(|link| link.queue.order != Order::Arrival) {
            return Err(GraphRefusal::Order { task: link.task.name.clone() });
        }
        let points = shared_out(&links);
        let admitted = match self.admit(&links, |place, _| points[place]) {
            Ok(admitted) => Ok(admitted),
            Err(_) => self.admit_tightly(&links),
        };
        let admitted = admitted.map_err(|refusal| {
            let order = graph.order().unwrap_or_default();
            let names = order.into_iter().filter_map(|id| Some(graph.get(id)?.name.clone()));
            GraphRefusal::Refused { chain: names.collect(), refusal }
        })?;
        Ok(links
            .iter()
            .zip(admitted)
            .map(|(link, (connected, released))| Stage { operation: link.operation, connected, released })
            .collect())
    }

    fn links(&self, graph: &Graph) -> Result<Vec<Link>, GraphError> {
        let costs = graph.costs()?;
        let streams = graph.streams()?;
        let mut links = Vec::new();
        // In this order each comes after all that release it.
        for id in graph.order()? {
            let Some(operation) = graph.get(id).filter(|_| !graph.only_joins(id, &costs)) else { continue };
            for stream in &streams[id] {
                let name = match streams[id].len() {
                    1 => operation.name.clone(),
                    _ => format!("{} by {}", operation.name, graph.operations()[stream.origin].name),
                };
                let task = Task {
                    deadline: operation.deadline.unwrap_or(stream.period),
                    jitter: stream.wait,
                    blocking: operation.blocking,
                    section: operation.section,
                    priority: operation.priority,
                    criticality: operation.criticality,
                    importance: operation.importance,
                    ..Task::new(name, costs[id].times(u64::from(stream.times)), stream.period)
                };
                let queue = self.queue_of(&task);
                let (stream, after) = (stream.clone(), Vec::new());
                links.push(Link { operation: id, stream, task, queue, after, hands_on: false });
            }
        }
        connect(&mut links);
        Ok(links)
    }

    /// Admits one after the other, each until the point that `point` says after a release that is as late as its predecessors may be.
    /// Takes back what was admitted where one is refused.
    fn admit(
        &mut self,
        links: &[Link],
        point: impl Fn(usize, &Link) -> Nanos,
    ) -> Result<Vec<(Connected, Nanos)>, Box<Refusal>> {
        let points: Vec<Nanos> = links.iter().enumerate().map(|(place, link)| point(place, link)).collect();
        let releases: Vec<Nanos> = links
            .iter()
            .map(|link| {
                let late = link.after.iter().map(|(before, wait)| points[*before].plus(*wait)).max();
                link.stream.wait.plus(late.unwrap_or_default())
            })
            .collect();
        self.admit_each(links, &points, &releases)
    }

    fn admit_each(
        &mut self,
        links: &[Link],
        points: &[Nanos],
        releases: &[Nanos],
    ) -> Result<Vec<(Connected, Nanos)>, Box<Refusal>> {
        let mut admitted: Vec<(Connected, Nanos)> = Vec::with_capacity(links.len());
        for ((link, deadline), jitter) in links.iter().zip(points).zip(releases) {
            let task = link.task.clone().deadline(*deadline).jitter(*jitter);
            match self.connect_at(task, link.queue) {
                Ok(connected) => admitted.push((connected, *jitter)),
                Err(refusal) => {
                    self.take_back(&admitted);
                    return Err(refusal);
                }
            }
        }
        // Those that came later made the first ones' responses longer.
        for (connected, _) in &mut admitted {
            connected.response = self.response(connected.id).unwrap_or(connected.response);
        }
        Ok(admitted)
    }

    /// As [`admit`](Self::admit), each until the response that it has with all the others, found by handing responses on until they do not
    /// change (Tindell and Clark 1994).
    fn admit_tightly(&mut self, links: &[Link]) -> Result<Vec<(Connected, Nanos)>, Box<Refusal>> {
        let whole: Vec<Nanos> = links.iter().map(|link| link.task.deadline).collect();
        let mut releases: Vec<Nanos> = links.iter().map(|link| link.stream.wait).collect();
        for _ in 0..ROUNDS {
            let admitted = self.admit_each(links, &whole, &releases)?;
            self.take_back(&admitted);
            let responses: Vec<Nanos> = admitted.iter().map(|(connected, _)| connected.response).collect();
            let later = |(link, release): (&Link, &Nanos)| {
                let late = link.after.iter().map(|(before, wait)| responses[*before].plus(*wait)).max();
                link.stream.wait.plus(late.unwrap_or_default()).max(*release)
            };
            let next: Vec<Nanos> = links.iter().zip(&releases).map(later).collect();
            if next == releases {
                break;
            }
            releases = next;
        }
        let responses: Vec<Nanos> = {
            let admitted = self.admit_each(links, &whole, &releases)?;
            self.take_back(&admitted);
            admitted.iter().map(|(connected, _)| connected.response).collect()
        };
        // Rounds that were not enough are found out here: a point is then before the response.
        self.admit(links, |place, link| if link.hands_on { responses[place] } else { link.task.deadline })
    }

    fn take_back(&mut self, admitted: &[(Connected, Nanos)]) {
        for (connected, _) in admitted.iter().rev() {
            self.disconnect(connected.id);
        }
    }
}

/// Finds out who releases whom, and puts the tasks of one operation into one queue.
fn connect(links: &mut [Link]) {
    let place = |links: &[Link], from: OperationId, origin: OperationId| {
        links.iter().position(|link| link.operation == from && link.stream.origin == origin)
    };
    for at in 0..links.len() {
        let Link { operation, stream, .. } = &links[at];
        let own = (stream.from != *operation).then_some((stream.from, stream.origin, Nanos::ZERO));
        let faster = stream.faster.iter().map(|faster| (faster.from, faster.origin, faster.period));
        let after: Vec<(usize, Nanos)> = own
            .into_iter()
            .chain(faster)
            .filter_map(|(from, origin, wait)| Some((place(links, from, origin)?, wait)))
            .collect();
        after.iter().for_each(|(before, _)| links[*before].hands_on = true);
        links[at].after = after;
        let operation = links[at].operation;
        let siblings = links.iter().filter(|link| link.operation == operation);
        if let Some(queue) = siblings.map(|link| link.queue).min_by_key(|queue| queue.level) {
            links[at].queue = queue;
        }
    }
}

/// Until when each has time: what hands on, in proportion to the cost of the longest way to it and through it.
fn shared_out(links: &[Link]) -> Vec<Nanos> {
    let mut head: Vec<Nanos> = Vec::with_capacity(links.len());
    for link in links {
        let before = link.after.iter().map(|(before, _)| head[*before]).max().unwrap_or_default();
        head.push(before.plus(link.task.cost));
    }
    let mut points: Vec<Nanos> = links.iter().map(|link| link.task.deadline).collect();
    // From the end on: what comes after decides.
    let mut tail = vec![Nanos::ZERO; links.len()];
    let mut limit = points.clone();
    for at in (0..links.len()).rev() {
        if links[at].hands_on {
            let through = head[at].plus(tail[at]).ns().max(1);
            let share = u128::from(limit[at].ns()) * u128::from(head[at].ns()) / u128::from(through);
            let share = Nanos::new(u64::try_from(share).unwrap_or(u64::MAX));
            points[at] = share.min(links[at].task.deadline);
        }
        for (before, wait) in &links[at].after {
            let behind = tail[at].plus(links[at].task.cost);
            tail[*before] = tail[*before].max(behind);
            // The waits of a conjunction are nobody's to share out.
            let left = limit[at].minus(links[at].stream.wait).minus(*wait);
            limit[*before] = limit[*before].min(left);
        }
    }
    points
}

#[cfg(test)]
mod tests;
