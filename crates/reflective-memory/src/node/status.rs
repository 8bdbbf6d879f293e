//! What a server knows and counts, for tools.

use super::dispatcher::Dispatcher;
use super::tables::{Agent, Channel, Replica, What};
use super::{NodeServer, Shared};
use crate::agents::{Guarantee, PushStats, ReceiveStats, Recorded};
use crate::memory::{Segment, State};
use std::collections::HashMap;
use std::sync::Arc;

/// A node's server at one moment.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The node's name.
    pub name: String,
    /// Processes with a session.
    pub sessions: usize,
    /// Bytes of all segments that the server made, and how many there may be.
    pub bytes: (usize, usize),
    /// Guaranteed channels that were admitted here, at either end.
    pub guaranteed: usize,
    /// What is given away to them of the dispatching processor and of the link, and what may be: parts of 1.
    pub cpu: (f64, f64),
    /// See `cpu`.
    pub link: (f64, f64),
    /// How often a push agent looked for a value because its area's writer rang.
    pub looks: u64,
    /// Writers' areas that were handed back and not taken: too many of one process, no room, or another's by now.
    pub refused_back: u64,
    /// The areas of this node, by name.
    pub areas: Vec<AreaStatus>,
    /// The areas of other nodes that are read here, by name.
    pub replicas: Vec<ReplicaStatus>,
}

/// An area of this node.
#[derive(Clone, Debug)]
pub struct AreaStatus {
    /// Its name.
    pub name: String,
    /// Bytes of the largest value.
    pub size: u32,
    /// Values that it keeps.
    pub histories: u32,
    /// The latest value and the state.
    pub value: ValueStatus,
    /// Has it a writer?
    pub has_writer: bool,
    /// What its writer promised, in nanoseconds; 0 for nothing.
    pub period_ns: u64,
    /// Readers on this node.
    pub readers: usize,
    /// Where it is pushed to: the nodes' names, in order, with each whether the channel is guaranteed.
    pub pushed_to: Vec<(String, bool)>,
}

/// A channel's end at the reader's node.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// The area's name.
    pub name: String,
    /// Bytes of the largest value.
    pub size: usize,
    /// The latest value that arrived, and the state.
    pub value: ValueStatus,
    /// Readers that share it.
    pub readers: usize,
    /// Was it admitted with a guarantee?
    pub guaranteed: bool,
    /// What its readers asked for, in nanoseconds; 0 for nothing.
    pub deadline_ns: u64,
    /// What was counted.
    pub counts: Option<ReceiveStats>,
    /// Does it come as datagrams? If not, on the ORB's path.
    pub datagrams: bool,
    /// What the writer's node calls the channel.
    pub handle: u64,
}

/// What can be seen of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueStatus {
    /// The number of the latest value; 0 for none.
    pub sequence: u64,
    /// How old it is, in nanoseconds; none where there is none, or it could not be read while the writer wrote on.
    pub age_ns: Option<u64>,
    /// The state, unless the memory cannot be trusted.
    pub state: Option<State>,
}

impl ValueStatus {
    fn of(segment: &Segment) -> ValueStatus {
        let sample = segment.reader().ok().and_then(|mut reader| reader.read_with(|_| ()).ok());
        let sequence = || segment.reader().map_or(0, |reader| reader.sequence());
        ValueStatus {
            sequence: sample.as_ref().map_or_else(sequence, |(_, sample)| sample.sequence),
            age_ns: sample.map(|(_, sample)| sample.age_ns()),
            state: segment.state(),
        }
    }
}

/// A channel's end at the writer's node.
#[derive(Clone, Debug)]
pub struct PushStatus {
    /// The area's name.
    pub area: String,
    /// The reader's node.
    pub node: String,
    /// What was admitted; none for best effort.
    pub guarantee: Option<Guarantee>,
    /// What was counted.
    pub counts: PushStats,
}

impl NodeServer {
    /// The channels by which this node pushes datagrams, with what they were admitted for and what they did; at most `limit`, in no order.
    ///
    /// # Real-time
    /// As [`status`](Self::status).
    pub fn pushes(&self, limit: usize) -> Vec<PushStatus> {
        let shared = &self.shared;
        let tables = shared.tables.lock();
        let of = |channel: &Channel| match channel.agent {
            Agent::Datagrams { dispatcher, key } => Some(PushStatus {
                area: channel.area.clone(),
                node: channel.to.node.clone(),
                guarantee: channel.grant.map(|grant| grant.guarantee),
                counts: shared.dispatchers[dispatcher].push_stats(key)?,
            }),
            Agent::Orb { .. } | Agent::Member { .. } => None,
        };
        tables.channels.values().filter_map(of).take(limit).collect()
    }

    /// From now on keeps the last `records` records of what push agents do, for each dispatching thread; 0 for none. Takes the memory.
    pub fn record(&self, records: usize) {
        self.shared.dispatchers.iter().for_each(|dispatcher| dispatcher.record(records));
    }

    /// What was recorded, a dispatching thread each. Agents are called by their areas and the nodes that they push to.
    ///
    /// # Real-time
    /// A control path: a dispatching thread may wait (with priority inheritance) while its records are copied.
    pub fn recorded(&self) -> Vec<Recorded> {
        let shared = &self.shared;
        let mut all: Vec<Recorded> = (shared.dispatchers.iter().enumerate())
            .map(|(number, dispatcher)| Recorded {
                track: dispatcher.recorded(&format!("memory-disp-{number}")),
                agents: Vec::new(),
            })
            .collect();
        let tables = shared.tables.lock();
        for channel in tables.channels.values() {
            if let Agent::Datagrams { dispatcher, key, .. } = &channel.agent {
                all[*dispatcher].agents.push((key.number(), channel.name()));
            }
        }
        for (number, recorded) in all.iter_mut().enumerate() {
            let seen = recorded.seen();
            let closed = tables
                .closed
                .iter()
                .filter(|(dispatcher, agent, _)| *dispatcher == number && seen.contains(agent));
            recorded.agents.extend(closed.map(|(_, agent, name)| (*agent, name.clone())));
        }
        all
    }

    /// What the server knows and counts at this moment, of at most so many areas and as many replicas (those that come first by
    /// name), and how many of both were left out.
    ///
    /// # Real-time
    /// A control path: allocates, and takes the locks that set-up takes. A dispatching thread is waited for as long as it looks after
    /// its agents, and may wait (with priority inheritance) for one agent's counters to be copied.
    pub fn status(&self, limit: usize) -> (NodeStatus, usize) {
        self.shared.status(limit)
    }
}

impl Shared {
    /// See [`NodeServer::status`].
    pub fn status(&self, limit: usize) -> (NodeStatus, usize) {
        let shared = self;
        let (guaranteed, cpu, link) = {
            let admission = shared.admission.lock();
            let (cpu, link) = admission.utilisation();
            (admission.len(), cpu.fraction(), link.fraction())
        };
        let mut areas = Vec::new();
        let mut replicas = Vec::new();
        let (sessions, bytes, refused_back, left_out) = {
            let tables = shared.tables.lock();
            let mut readers: HashMap<&str, usize> = HashMap::new();
            let mut remote: HashMap<*const Replica, (&str, &Arc<Replica>, usize)> = HashMap::new();
            for ticket in tables.tickets.values() {
                match &ticket.what {
                    What::Writer(_) => {}
                    What::Local => *readers.entry(&ticket.area).or_default() += 1,
                    What::Replica(replica) => {
                        remote.entry(Arc::as_ptr(replica)).or_insert((&ticket.area, replica, 0)).2 += 1;
                    }
                }
            }
            let mut pushed: HashMap<&str, Vec<(String, bool)>> = HashMap::new();
            for channel in tables.channels.values() {
                let to = (channel.to.node.clone(), channel.grant.is_some());
                pushed.entry(&channel.area).or_default().push(to);
            }
            let mut entries: Vec<_> = tables.areas.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            let mut remote: Vec<_> = remote.into_values().collect();
            remote.sort_by_key(|(name, replica, _)| (*name, replica.handle));
            let left_out = entries.len().saturating_sub(limit) + remote.len().saturating_sub(limit);
            areas.extend(entries.into_iter().take(limit).map(|(name, entry)| {
                let mut pushed_to = pushed.remove(name.as_str()).unwrap_or_default();
                pushed_to.sort();
                AreaStatus {
                    name: name.clone(),
                    size: entry.what.size,
                    histories: entry.what.histories,
                    value: ValueStatus::of(&entry.segment),
                    has_writer: entry.writer.is_some(),
                    period_ns: entry.promised.period,
                    readers: readers.get(name.as_str()).copied().unwrap_or(0),
                    pushed_to,
                }
            }));
            // Under the tables' lock: a replica that somebody else holds at the moment its last reader leaves would not be closed.
            replicas.extend(remote.into_iter().take(limit).map(|(name, replica, readers)| ReplicaStatus {
                name: name.to_owned(),
                size: replica.segment.geometry().size(),
                value: ValueStatus::of(&replica.segment),
                readers,
                guaranteed: replica.grant.is_some(),
                deadline_ns: replica.qos.deadline,
                counts: shared.receive_stats(replica),
                datagrams: replica.datagrams,
                handle: replica.handle,
            }));
            (tables.sessions.len(), tables.bytes, tables.refused_back, left_out)
        };
        let config = &shared.config;
        let status = NodeStatus {
            name: config.name.clone(),
            sessions,
            bytes: (bytes, config.limits.bytes),
            guaranteed,
            cpu: (cpu, config.admission.cpu_share),
            link: (link, config.admission.link_share),
            refused_back,
            looks: shared.dispatchers.iter().map(Dispatcher::looks).sum(),
            areas,
            replicas,
        };
        (status, left_out)
    }
}
