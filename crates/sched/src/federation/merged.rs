//! One graph of all channels and links.

use super::{FederationError, MESSAGE_OVERHEAD, Site, Topology};
use crate::Nanos;
use crate::graph::{Call, Dependency, Graph, Kind, Operation, OperationId, Resource};
use std::collections::{BTreeMap, VecDeque};

/// What executes an operation of the merged graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Executor {
    /// A channel's dispatching: an operation of its own schedule.
    Channel(usize),
    /// A gateway of a channel, at a level.
    Gateway(usize, u8),
    /// A link, at a level.
    Link(usize, u8),
    /// Nothing: time that passes without a queue.
    Delay,
}

/// The graph, and what executes each operation.
#[derive(Debug)]
pub(super) struct Merged {
    pub graph: Graph,
    pub executors: Vec<Executor>,
    /// The first operation of each channel.
    first: Vec<OperationId>,
    /// The event of each message.
    pub messages: BTreeMap<OperationId, usize>,
}

/// An event at a channel that it has reached, at one level.
type Reached = BTreeMap<(u8, Vec<usize>), OperationId>;

impl Merged {
    /// Merges with the level that an event has for a target.
    pub fn of(topology: &Topology, level: &dyn Fn(usize, usize) -> u8) -> Result<Merged, FederationError> {
        let mut merged =
            Merged { graph: Graph::new(), executors: vec![], first: vec![], messages: BTreeMap::new() };
        for (at, channel) in topology.channels.iter().enumerate() {
            let (first, resources) = (merged.graph.operations().len(), merged.graph.resources.len());
            merged.first.push(first);
            for resource in &channel.graph.resources {
                let name = format!("{}/{}", channel.name, resource.name);
                merged.graph.resources.push(Resource { name, ..resource.clone() });
            }
            for operation in channel.graph.operations() {
                let moved = |on: &Dependency| Dependency { on: on.on + first, ..*on };
                merged.add(
                    &channel.name,
                    Operation {
                        name: format!("{}/{}", channel.name, operation.name),
                        dependencies: operation.dependencies.iter().map(moved).collect(),
                        holds: operation.holds.iter().map(|(at, time)| (at + resources, *time)).collect(),
                        ..operation.clone()
                    },
                    Executor::Channel(at),
                )?;
            }
        }
        for event in 0..topology.events.len() {
            let mut reached = Reached::new();
            for target in 0..topology.events[event].to.len() {
                merged.route(topology, (event, target), level(event, target), &mut reached)?;
            }
        }
        Ok(merged)
    }

    /// The operation of the merged graph.
    pub fn at(&self, site: Site) -> OperationId {
        self.first[site.channel] + site.operation
    }

    /// The first operation of a channel.
    pub fn first(&self, channel: usize) -> OperationId {
        self.first[channel]
    }

    fn add(
        &mut self,
        about: &str,
        operation: Operation,
        executor: Executor,
    ) -> Result<OperationId, FederationError> {
        self.executors.push(executor);
        self.graph.add(operation).map_err(|error| FederationError::new(about, error.to_string()))
    }

    /// Adds what an event passes on its way to a consumer, as far as no other consumer has it.
    fn route(
        &mut self,
        topology: &Topology,
        (event, target): (usize, usize),
        level: u8,
        reached: &mut Reached,
    ) -> Result<(), FederationError> {
        let of = &topology.events[event];
        let to = of.to[target];
        let links = topology.path(event, to)?;
        let mut last = self.at(of.from);
        let mut times = of.times.max(1);
        for (hop, link) in links.iter().enumerate() {
            let passed = (level, links[..=hop].to_vec());
            last = match reached.get(&passed) {
                Some(known) => *known,
                None => {
                    let next = self.hop(topology, event, (*link, level), hop, (last, times))?;
                    reached.insert(passed, next);
                    next
                }
            };
            times = 1;
        }
        let consumer = self.at(to);
        if let Some(consumer) = self.graph.get_mut(consumer) {
            if consumer.kind == Kind::RemoteDependant {
                // It stands for this event in the channel's own schedule.
                (consumer.period, consumer.jitter) = (Nanos::ZERO, Nanos::ZERO);
            }
            consumer.dependencies.push(Dependency { on: last, call: Call::OneWay, times });
        }
        Ok(())
    }

    /// One link with its gateways; returns what the event is released by at the other channel.
    fn hop(
        &mut self,
        topology: &Topology,
        event: usize,
        (link, level): (usize, u8),
        hop: usize,
        (before, times): (OperationId, u32),
    ) -> Result<OperationId, FederationError> {
        let (of, link_at) = (&topology.events[event], link);
        let link = &topology.links[link];
        let after = |on, times| vec![Dependency { on, call: Call::OneWay, times }];
        let name =
            |what: &str| format!("{} {what} {} at level {level} (hop {})", of.name, link.name, hop + 1);
        let (mut last, mut times) = (before, times);
        let gateway = |channel: usize| topology.channels[channel].gateway;
        let work = |name: String, cost: Nanos, dependencies: Vec<Dependency>| Operation {
            worst: cost,
            deadline: Some(Nanos::LONGEST),
            dependencies,
            ..Operation::new(name)
        };
        if !gateway(link.from).is_zero() {
            let forward = work(name("to"), gateway(link.from), after(last, times));
            last = self.add(&of.name, forward, Executor::Gateway(link.from, level))?;
            times = 1;
        }
        let octets = of.octets.saturating_add(MESSAGE_OVERHEAD);
        let task = link.wire.message("", octets, Nanos::LONGEST);
        let message =
            Operation { section: task.section, ..work(name("over"), task.cost, after(last, times)) };
        last = self.add(&of.name, message, Executor::Link(link_at, level))?;
        self.messages.insert(last, event);
        let delay = Operation {
            kind: Kind::RemoteDependant,
            worst: link.delay.plus(link.clock_error),
            dependencies: after(last, 1),
            ..Operation::new(name("after"))
        };
        last = self.add(&of.name, delay, Executor::Delay)?;
        if !gateway(link.to).is_zero() {
            let receive = work(name("from"), gateway(link.to), after(last, 1));
            last = self.add(&of.name, receive, Executor::Gateway(link.to, level))?;
        }
        Ok(last)
    }
}

impl Topology {
    /// The links from an event's channel to a consumer's.
    fn path(&self, event: usize, to: Site) -> Result<Vec<usize>, FederationError> {
        let of = &self.events[event];
        let name = |channel: usize| &self.channels[channel].name;
        let (from, to) = (of.from.channel, to.channel);
        if from == to {
            let message = format!(
                "its supplier and its consumer are both at {}: name the one in `after` of the other in its schedule",
                name(from)
            );
            return Err(FederationError::new(&of.name, message));
        }
        let none = |message| FederationError::new(&of.name, message);
        if of.over.is_empty() {
            return self
                .shortest(from, to)
                .ok_or_else(|| none(format!("no links lead from {} to {}", name(from), name(to))));
        }
        let mut path = Vec::new();
        let mut at = from;
        for link in &of.over {
            if at == to {
                break;
            }
            let next = &self.links[*link];
            if next.from != at {
                return Err(none(format!(
                    "link {} begins at {}, not at {}",
                    next.name,
                    name(next.from),
                    name(at)
                )));
            }
            path.push(*link);
            at = next.to;
        }
        if at == to {
            Ok(path)
        } else {
            Err(none(format!("its links end at {}, not at {}", name(at), name(to))))
        }
    }

    /// The path with the fewest links, the first of equals.
    fn shortest(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut by: Vec<Option<usize>> = vec![None; self.channels.len()];
        let mut next = VecDeque::from([from]);
        while let Some(at) = next.pop_front() {
            for (link, leads) in self.links.iter().enumerate().filter(|(_, link)| link.from == at) {
                if leads.to != from && by[leads.to].is_none() {
                    by[leads.to] = Some(link);
                    next.push_back(leads.to);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        while at != from {
            let link = by[at]?;
            path.push(link);
            at = self.links[link].from;
        }
        path.reverse();
        Some(path)
    }
}
