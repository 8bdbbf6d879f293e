//! The responses on every processor and link, in alternation with the jitter that they cause.

use super::merged::{Executor, Merged};
use super::{FederationError, Marking, Topology};
use crate::demand::Order;
use crate::links::Links;
use crate::schedule::ScheduleError;
use crate::{Nanos, Plan, Preemption, QueueConfig, Response, Task, Utilisation, analyse};
use std::collections::BTreeMap;

/// The greatest number of rounds in which responses become jitter. A circle of channels with little
/// time left needs many.
const ROUNDS: usize = 256;

/// The tasks of the merged graph, and the queue of each.
pub(super) struct Queues {
    pub links: Links,
    pub queues: Vec<QueueConfig>,
}

/// The processors and links that are analysed by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Processor(usize),
    Link(usize),
}

fn resource(executor: Executor) -> Option<Resource> {
    match executor {
        Executor::Channel(at) | Executor::Gateway(at, _) => Some(Resource::Processor(at)),
        Executor::Link(at, _) => Some(Resource::Link(at)),
        Executor::Delay => None,
    }
}

impl Queues {
    pub fn of(topology: &Topology, merged: &Merged) -> Result<Queues, FederationError> {
        let wrong = |error: ScheduleError| {
            let about = error.name().unwrap_or("federation").to_string();
            FederationError::new(about, without_name(&error))
        };
        let links = Links::of(&merged.graph).map_err(|error| wrong(error.into()))?;
        let executor = |task: usize| merged.executors[links.all[task].operation];
        let mut queues: Vec<Option<QueueConfig>> = vec![None; links.all.len()];
        for (at, channel) in topology.channels.iter().enumerate() {
            let own: Vec<usize> =
                (0..queues.len()).filter(|task| executor(*task) == Executor::Channel(at)).collect();
            if own.is_empty() {
                continue;
            }
            if let Ok(schedule) = channel.graph.schedule(channel.config.clone()) {
                // As the channel itself computes them when it runs.
                let mut before = BTreeMap::new();
                for task in own {
                    let operation = links.all[task].operation - merged.first(at);
                    let nth = before.entry(operation).and_modify(|nth| *nth += 1).or_insert(0_usize);
                    let known: Vec<_> = schedule.of(operation).map(|(of, _)| of.queue).collect();
                    queues[task] = known.get(*nth).or(known.last()).copied();
                }
                continue;
            }
            let tasks: Vec<Task> = own.iter().map(|task| links.all[*task].task.clone()).collect();
            let plan = Plan::for_tasks(channel.config.policy, &tasks, channel.config.priorities.clone())
                .map_err(|error| FederationError::new(&channel.name, error.to_string()))?;
            own.iter().zip(&tasks).for_each(|(task, of)| queues[*task] = Some(plan.queue_of(of)));
        }
        let queue = |(task, known): (usize, Option<QueueConfig>)| {
            let priority = match (executor(task), known) {
                (_, Some(queue)) => queue.thread_priority,
                (Executor::Link(link, _), _) if topology.links[link].marking != Marking::Marked => 0,
                (Executor::Link(_, level) | Executor::Gateway(_, level), _) => {
                    topology.levels[usize::from(level)]
                }
                _ => 0,
            };
            // One scale for all threads of a processor, the channel's and the gateways'.
            let level = u32::from(u16::MAX - priority);
            QueueConfig { level, thread_priority: priority, order: Order::Arrival }
        };
        let queues = queues.into_iter().enumerate().map(queue).collect();
        let found = Queues { links, queues };
        found.tasks().iter().try_for_each(Task::check).map_err(|error| wrong(error.into()))?;
        Ok(found)
    }

    /// The most urgent priority at which each event is consumed, by event and target.
    pub fn consumers(&self, topology: &Topology, merged: &Merged) -> Vec<Vec<u16>> {
        let operations = merged.graph.operations();
        let priority = |operation: usize| {
            let released_by = |id: usize| operations[id].dependencies.iter().any(|on| on.on == operation);
            let of = |task: &usize| {
                let id = self.links.all[*task].operation;
                id == operation || operations[operation].worst.is_zero() && released_by(id)
            };
            let tasks = (0..self.queues.len()).filter(of);
            tasks.map(|task| self.queues[task].thread_priority).max().unwrap_or(0)
        };
        let of_event = |event: &super::RemoteEvent| {
            event.to.iter().map(|site| priority(merged.at(*site))).collect::<Vec<_>>()
        };
        topology.events.iter().map(of_event).collect()
    }

    /// The tasks without deadlines: the report compares responses with these.
    fn tasks(&self) -> Vec<Task> {
        let endless = |link: &crate::links::Link| link.task.clone().deadline(Nanos::LONGEST);
        self.links.all.iter().map(endless).collect()
    }
}

/// What became of every task.
pub(super) struct Responses<'a> {
    pub queues: &'a Queues,
    /// From the creation of the event that began its chain.
    pub worst: Vec<Response>,
    /// The tasks with their jitter.
    pub tasks: Vec<Task>,
    /// The tasks without a bound, because their jitter has none.
    beyond: Vec<bool>,
    pub processors: BTreeMap<usize, Utilisation>,
    pub wires: BTreeMap<usize, Utilisation>,
}

impl<'a> Responses<'a> {
    pub fn of(
        topology: &Topology,
        merged: &Merged,
        queues: &'a Queues,
    ) -> Result<Responses<'a>, FederationError> {
        let links = &queues.links;
        let mut tasks = queues.tasks();
        block(topology, merged, queues, &mut tasks)?;
        let mut members: BTreeMap<Resource, Vec<usize>> = BTreeMap::new();
        for (task, link) in links.all.iter().enumerate() {
            if let Some(resource) = resource(merged.executors[link.operation]) {
                members.entry(resource).or_default().push(task);
            }
        }
        let mut responses = Responses {
            queues,
            worst: vec![Response::Bounded(Nanos::ZERO); tasks.len()],
            beyond: vec![false; tasks.len()],
            tasks,
            processors: BTreeMap::new(),
            wires: BTreeMap::new(),
        };
        for round in 0.. {
            for (resource, members) in &members {
                responses.analyse(topology, *resource, members)?;
            }
            responses.lose(&members);
            // What still grows after so many rounds has no bound.
            if !responses.hand_on(round < ROUNDS) {
                break;
            }
        }
        Ok(responses)
    }

    /// Analyses one processor or link.
    fn analyse(
        &mut self,
        topology: &Topology,
        resource: Resource,
        members: &[usize],
    ) -> Result<(), FederationError> {
        let (preemption, one_thread) = match resource {
            Resource::Processor(at) => {
                let config = &topology.channels[at].config;
                (config.preemption, config.one_thread_per_level)
            }
            Resource::Link(_) => (Preemption::Deferred, true),
        };
        let tasks: Vec<Task> = members.iter().map(|task| self.tasks[*task].clone()).collect();
        let levels: Vec<_> =
            members.iter().map(|task| (self.queues.queues[*task].level, Order::Arrival)).collect();
        let analysis = analyse(&tasks, &levels, preemption, one_thread)
            .map_err(|error| FederationError::new(&error.task, error.fault.to_string()))?;
        for (task, verdict) in members.iter().zip(&analysis.verdicts) {
            self.worst[*task] = verdict.response;
        }
        match resource {
            Resource::Processor(at) => self.processors.insert(at, analysis.utilisation),
            Resource::Link(at) => self.wires.insert(at, analysis.utilisation),
        };
        Ok(())
    }

    /// Takes the bound from what follows a task without one, and from everything that is not more
    /// urgent than such a follower, since its jitter is not known.
    fn lose(&mut self, members: &BTreeMap<Resource, Vec<usize>>) {
        let links = &self.queues.links;
        loop {
            let lost = |task: usize| self.worst[task].bound().is_none();
            let follows = |task: usize| {
                self.beyond[task] || links.all[task].after.iter().any(|(before, _)| lost(*before))
            };
            let mut found = Vec::new();
            for members in members.values() {
                let level = |task: &usize| self.queues.queues[*task].level;
                let unknown = members.iter().filter(|task| follows(**task)).map(level).min();
                let Some(unknown) = unknown else { continue };
                found.extend(members.iter().copied().filter(|task| level(task) >= unknown && !lost(*task)));
            }
            if found.is_empty() {
                return;
            }
            found.into_iter().for_each(|task| self.worst[task] = Response::Unbounded);
        }
    }

    /// Makes responses the jitter of what they release, or without `grow` gives up those that
    /// change; false where nothing changed.
    fn hand_on(&mut self, grow: bool) -> bool {
        let mut changed = false;
        for (task, link) in self.queues.links.all.iter().enumerate() {
            let bound = |(before, wait): &(usize, Nanos)| Some(self.worst[*before].bound()?.plus(*wait));
            let late = link.after.iter().map(bound).collect::<Option<Vec<_>>>();
            let Some(late) = late else { continue };
            let jitter = link.stream.wait.plus(late.into_iter().max().unwrap_or_default());
            let of = &mut self.tasks[task];
            if jitter <= of.jitter || self.beyond[task] {
                continue;
            }
            changed = true;
            if grow && jitter.plus(of.cost) <= Nanos::LONGEST {
                of.jitter = jitter;
            } else {
                self.beyond[task] = true;
            }
        }
        changed
    }
}

/// Adds what blocks a task besides its own queue: holders of resources, and other traffic.
fn block(
    topology: &Topology,
    merged: &Merged,
    queues: &Queues,
    tasks: &mut [Task],
) -> Result<(), FederationError> {
    let links = &queues.links;
    let executor = |task: usize| merged.executors[links.all[task].operation];
    for at in 0..topology.channels.len() {
        let here = |task: usize| resource(executor(task)) == Some(Resource::Processor(at));
        // Tasks elsewhere are less urgent than any here, so that their resources block nothing.
        let local = |(task, queue): (usize, &QueueConfig)| match here(task) {
            true => *queue,
            false => QueueConfig { level: u32::MAX, ..*queue },
        };
        let local: Vec<QueueConfig> = queues.queues.iter().enumerate().map(local).collect();
        let mut blocked = tasks.to_vec();
        merged.graph.block(&mut blocked, links, &local).map_err(|error| {
            FederationError::new(error.name().unwrap_or("federation").to_string(), error.to_string())
        })?;
        (0..tasks.len()).filter(|task| here(*task)).for_each(|task| tasks[task] = blocked[task].clone());
    }
    for (task, of) in tasks.iter_mut().enumerate() {
        if let Executor::Link(link, _) = executor(task) {
            let link = &topology.links[link];
            let other = match link.marking {
                Marking::Marked => link.wire.packet_octets,
                Marking::Unmarked(queue) => queue.unwrap_or(u64::MAX),
            };
            of.blocking = of.blocking.plus(link.wire.time_of(other)).min(Nanos::LONGEST);
        }
    }
    Ok(())
}

/// The sentence of an error without the name that it begins with.
fn without_name(error: &ScheduleError) -> String {
    let text = error.to_string();
    let rest = error.name().and_then(|name| text.strip_prefix(name)?.strip_prefix(": "));
    rest.unwrap_or(&text).to_string()
}
