//! Which task releases which, and how the end-to-end time of a chain is shared among its tasks.
//!
//! Each task has an intermediate deadline, counted from the arrival that started its chain. Its
//! successor is assumed to be released as late as that. An intermediate deadline lies between the
//! earliest time, by which the costs so far can be done, and the latest, which leaves the
//! successors their costs. Its position between them is the ratio of the weights so far to all
//! weights of the chain. So each task of every path has at least its own cost, whatever the
//! weights, and the last task has the whole deadline.

use crate::graph::{Graph, GraphError, MOST_RELEASES, OperationId, Stream};
use crate::{Nanos, Task};

/// An operation for one of the streams that release it.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub operation: OperationId,
    pub stream: Stream,
    /// Its deadline counts from the arrival that started the chain; its jitter is its own.
    pub task: Task,
    /// Its predecessors by index, and how long it may have to wait for them to begin.
    pub after: Vec<(usize, Nanos)>,
    /// The predecessor that releases it run by run.
    pub lead: Option<usize>,
    /// Whether it has successors.
    pub hands_on: bool,
}

/// All links of a graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// The tasks, in the order of operations.
    pub all: Vec<Link>,
    /// Their indices in an order in which each follows its predecessors.
    pub order: Vec<usize>,
}

impl Links {
    pub fn of(graph: &Graph) -> Result<Links, GraphError> {
        let costs = graph.costs()?;
        let mut links = Links::default();
        let mut first = Vec::with_capacity(graph.operations().len());
        for (id, streams) in graph.streams()?.into_iter().enumerate() {
            first.push(links.all.len());
            if graph.only_joins(id, &costs) {
                continue;
            }
            let names = names(graph, id, &streams);
            links.all.extend(streams.into_iter().zip(names).map(|(stream, name)| Link {
                operation: id,
                task: task(graph, id, &stream, costs[id], name),
                stream,
                after: Vec::new(),
                lead: None,
                hands_on: false,
            }));
        }
        first.push(links.all.len());
        for id in graph.order()? {
            links.order.extend(first[id]..first[id + 1]);
        }
        links.connect(&first).map_err(|(operation, streams)| {
            let name = graph.operations()[operation].name.clone();
            GraphError::TooMany { name, streams }
        })?;
        Ok(links)
    }

    /// Finds the predecessors of each task; `first` has the index of the first task of each
    /// operation. Where several paths lead from one clock to an operation, its streams are alike:
    /// the n-th follows the n-th, and may have to wait for any. If there are too many, the result
    /// is the operation and the number of its streams.
    fn connect(&mut self, first: &[usize]) -> Result<(), (OperationId, usize)> {
        let mut room = MOST_RELEASES;
        for at in 0..self.all.len() {
            let all = &self.all;
            let Link { operation, stream, .. } = &all[at];
            let alike = |from: OperationId, origin: OperationId| {
                let of_it = first[from]..first[from + 1];
                of_it.filter(move |place| all[*place].stream.origin == origin)
            };
            let mut after = Vec::new();
            let mut lead = None;
            if stream.from != *operation {
                let leads: Vec<usize> = alike(stream.from, stream.origin).collect();
                let same =
                    |link: &&Link| (link.stream.from, link.stream.origin) == (stream.from, stream.origin);
                let number = all[first[*operation]..at].iter().filter(same).count();
                lead = leads.get(number % leads.len().max(1)).copied();
                after.extend(leads.into_iter().map(|lead| (lead, Nanos::ZERO)));
            }
            for faster in &stream.faster {
                after.extend(alike(faster.from, faster.origin).map(|place| (place, faster.period)));
            }
            for (before, _) in &after {
                self.all[*before].hands_on = true;
            }
            let operation = self.all[at].operation;
            let streams = first[operation + 1] - first[operation];
            room = room.checked_sub(after.len()).ok_or((operation, streams))?;
            (self.all[at].after, self.all[at].lead) = (after, lead);
        }
        Ok(())
    }

    /// Whether any task releases another.
    pub fn any(&self) -> bool {
        self.all.iter().any(|link| link.hands_on)
    }

    /// How late each task is released if its predecessors use their whole time.
    pub fn releases(&self, points: &[Nanos]) -> Vec<Nanos> {
        let late = |link: &Link| link.after.iter().map(|(before, wait)| points[*before].plus(*wait)).max();
        self.all.iter().map(|link| link.stream.wait.plus(late(link).unwrap_or_default())).collect()
    }

    /// When each task can be done at the earliest: at the end of its predecessors, and its own cost
    /// later.
    pub fn earliest(&self) -> Vec<Nanos> {
        let mut earliest = vec![Nanos::ZERO; self.all.len()];
        for at in &self.order {
            let link = &self.all[*at];
            let released = link.after.iter().map(|(before, wait)| earliest[*before].plus(*wait)).max();
            earliest[*at] = released.unwrap_or_default().plus(link.stream.wait).plus(link.task.cost);
        }
        earliest
    }

    /// When each task must be done at the latest so that its successors meet their deadlines.
    fn latest(&self) -> Vec<Nanos> {
        let mut latest: Vec<Nanos> = self.all.iter().map(|link| link.task.deadline).collect();
        for at in self.order.iter().rev() {
            let link = &self.all[*at];
            let begun = latest[*at].minus(link.task.cost).minus(link.stream.wait);
            for (before, wait) in &link.after {
                latest[*before] = latest[*before].min(begun.minus(*wait));
            }
        }
        latest
    }

    /// The intermediate deadlines with these weights.
    pub fn points(&self, weights: &[u64]) -> Vec<Nanos> {
        let (mut head, mut tail) = (vec![0_u64; self.all.len()], vec![0_u64; self.all.len()]);
        for at in &self.order {
            let before = self.all[*at].after.iter().map(|(before, _)| head[*before]).max().unwrap_or(0);
            head[*at] = before.saturating_add(weights[*at]);
        }
        for at in self.order.iter().rev() {
            let behind = tail[*at].saturating_add(weights[*at]);
            for (before, _) in &self.all[*at].after {
                tail[*before] = tail[*before].max(behind);
            }
        }
        let part = |(at, (earliest, latest)): (usize, (Nanos, Nanos))| {
            let through = u128::from(head[at].saturating_add(tail[at]).max(1));
            let share = u128::from(latest.minus(earliest).ns()) * u128::from(head[at]) / through;
            earliest.min(latest).plus(Nanos::new(u64::try_from(share).unwrap_or(u64::MAX)))
        };
        self.earliest().into_iter().zip(self.latest()).enumerate().map(part).collect()
    }

    /// Intermediate deadlines that give all tasks of an operation the same time from their release,
    /// the shortest of theirs. A dispatcher knows operations, not the arrivals that started them.
    fn even(&self, points: &[Nanos]) -> Vec<Nanos> {
        let own: Vec<Nanos> =
            points.iter().zip(self.releases(points)).map(|(point, released)| point.minus(released)).collect();
        let mut shortest = std::collections::BTreeMap::new();
        for (link, own) in self.all.iter().zip(own) {
            let known = shortest.entry(link.operation).or_insert(own);
            *known = own.min(*known);
        }
        let mut points = points.to_vec();
        for at in &self.order {
            let link = &self.all[*at];
            let late = link.after.iter().map(|(before, wait)| points[*before].plus(*wait)).max();
            points[*at] = link
                .stream
                .wait
                .plus(late.unwrap_or_default())
                .plus(shortest[&link.operation])
                .min(points[*at]);
        }
        points
    }

    /// Weights to try one after the other.
    pub fn shares(&self) -> Shares<'_> {
        let costs = self.all.iter().map(|link| link.task.cost.ns()).collect();
        Shares { links: self, weights: costs, round: 0 }
    }
}

/// Ways to share the time; the next one depends on what failed with the last.
#[derive(Debug)]
pub(crate) struct Shares<'a> {
    links: &'a Links,
    weights: Vec<u64>,
    round: usize,
}

/// The number of ways: slack in proportion to costs, in equal parts, and then more of it for the
/// task that was late.
const ROUNDS: usize = 10;

impl Shares<'_> {
    /// Like [`next`](Self::next), with the same time for all tasks of an operation.
    pub fn next_even(&mut self, late: Option<usize>) -> Option<Vec<Nanos>> {
        let points = self.next(late)?;
        Some(self.links.even(&points))
    }

    /// The intermediate deadlines of the next way; `late` was late with the last one.
    pub fn next(&mut self, late: Option<usize>) -> Option<Vec<Nanos>> {
        match (self.round, late) {
            (0, _) => {}
            // Without successors there is nothing to share.
            (1, _) if self.links.any() => self.weights.fill(1 << 20),
            (2..ROUNDS, Some(late)) if self.links.any() => {
                self.weights[late] = self.weights[late].saturating_mul(2);
            }
            _ => return None,
        }
        self.round += 1;
        Some(self.links.points(&self.weights))
    }
}

/// The names of an operation's tasks: the operation, with the clock if there are several, and with
/// a number if these are alike.
fn names(graph: &Graph, id: OperationId, streams: &[Stream]) -> Vec<String> {
    let name = |id: OperationId| &graph.operations()[id].name;
    if streams.len() == 1 {
        return vec![name(id).clone()];
    }
    let full = |(at, stream): (usize, &Stream)| {
        let origin = stream.origin;
        match streams[..at].iter().filter(|other| other.origin == origin).count() {
            0 => format!("{} by {}", name(id), name(origin)),
            before => format!("{} by {} ({})", name(id), name(origin), before + 1),
        }
    };
    streams.iter().enumerate().map(full).collect()
}

fn task(graph: &Graph, id: OperationId, stream: &Stream, cost: Nanos, name: String) -> Task {
    let operation = &graph.operations()[id];
    Task {
        deadline: operation.deadline.unwrap_or(stream.period),
        jitter: stream.wait,
        blocking: operation.blocking,
        section: operation.section,
        offset: operation.offset,
        priority: operation.priority,
        criticality: operation.criticality,
        importance: operation.importance,
        ..Task::new(name, cost.times(u64::from(stream.times)), stream.period)
    }
}
