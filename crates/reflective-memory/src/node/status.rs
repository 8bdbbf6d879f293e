//! The status of a node's server, for tools.

use super::areas::table::AttachmentKind;
use super::channels::table::{Agent, PushChannel};
use super::dispatcher::Dispatcher;
use super::{Node, NodeServer};
use crate::agents::{Guarantee, PushStats, ReceiveStats, Recorded};
use crate::idl::DataType;
use crate::memory::{Segment, State};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// A node's server at one moment.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The node's name.
    pub name: String,
    /// Processes with a session.
    pub sessions: usize,
    /// Bytes of all segments that the server made, and their limit.
    pub bytes: (usize, usize),
    /// Guaranteed channels that were admitted here, at either end.
    pub guaranteed: usize,
    /// The shares of the dispatching processor that are admitted and that may be admitted, as parts
    /// of 1.
    pub cpu: (f64, f64),
    /// The shares of the link that are admitted and that may be admitted, as parts of 1.
    pub link: (f64, f64),
    /// How often a doorbell made a push agent check its area.
    pub looks: u64,
    /// Writers' areas that were handed back and refused: too many of one process, a limit was
    /// reached, or another node has the name.
    pub refused_back: u64,
    /// Failed attempts to accept a session because no descriptors were left.
    pub accept_failures: u64,
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
    /// The type of its values.
    pub data: DataType,
    /// The latest value and the state.
    pub value: ValueStatus,
    /// Whether it has a writer.
    pub has_writer: bool,
    /// The period that its writer promised, in nanoseconds; 0 for none.
    pub period_ns: u64,
    /// Readers on this node.
    pub readers: usize,
    /// The nodes that it is pushed to, in order of their names, and whether each channel is
    /// guaranteed.
    pub pushed_to: Vec<(String, bool)>,
}

/// A channel's end at the reader's node.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// Its number, the same as long as it has readers. An area has a replica for each kind of
    /// reader.
    pub id: u64,
    /// The area's name.
    pub name: String,
    /// Bytes of the largest value.
    pub size: usize,
    /// The latest value that arrived, and the state.
    pub value: ValueStatus,
    /// Readers that share it.
    pub readers: usize,
    /// Whether it was admitted with a guarantee.
    pub guaranteed: bool,
    /// Whether it is guaranteed, and one of its nodes has no real-time class or no measured costs.
    pub soft: bool,
    /// The deadline that its readers requested, in nanoseconds; 0 for none.
    pub deadline_ns: u64,
    /// The counts of its receive agent.
    pub counts: Option<ReceiveStats>,
    /// Whether its values arrive as datagrams; if not, as calls of the ORB.
    pub datagrams: bool,
    /// The handle of the channel at the writer's node.
    pub handle: u64,
}

/// What can be seen of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueStatus {
    /// The number of the latest value; 0 for none.
    pub sequence: u64,
    /// How old it is, in nanoseconds; none where there is none, or it could not be read while the
    /// writer wrote on.
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
    /// The counts of its push agent.
    pub counts: PushStats,
}

impl NodeServer {
    /// The channels by which this node pushes, with what they were admitted for and what they did;
    /// at most `limit`, in no order. On the ORB's paths there are counts of pushes, of those that
    /// missed the deadline and of calls that failed (`refused`), and the longest response.
    ///
    /// # Real-time
    /// As [`status`](Self::status).
    pub fn pushes(&self, limit: usize) -> Vec<PushStatus> {
        let channels = &self.node.channels;
        let table = channels.lock();
        let of = |channel: &PushChannel| {
            let counts = match &channel.agent {
                Agent::Datagrams { dispatcher, key, .. } => {
                    channels.dispatchers()[*dispatcher].push_stats(*key)?
                }
                Agent::Orb { control, .. } => control.stats(),
                Agent::Member { .. } => return None,
            };
            Some(PushStatus {
                area: channel.area.clone(),
                node: channel.to.node.clone(),
                guarantee: channel.grant.map(|grant| grant.guarantee),
                counts,
            })
        };
        table.pushes().filter_map(of).take(limit).collect()
    }

    /// From now on keeps the last `records` records of what push agents do, for each dispatching
    /// thread; 0 for none. Takes the memory.
    pub fn record(&self, records: usize) {
        self.node.channels.dispatchers().iter().for_each(|dispatcher| dispatcher.record(records));
    }

    /// What was recorded, a dispatching thread each. Agents are called by their areas and the nodes
    /// that they push to.
    ///
    /// # Real-time
    /// A control path: a dispatching thread may wait (with priority inheritance) while its records
    /// are copied.
    pub fn recorded(&self) -> Vec<Recorded> {
        let channels = &self.node.channels;
        let mut all: Vec<Recorded> = (channels.dispatchers().iter().enumerate())
            .map(|(number, dispatcher)| Recorded {
                track: dispatcher.recorded(&format!("memory-disp-{number}")),
                agents: Vec::new(),
            })
            .collect();
        let table = channels.lock();
        for channel in table.pushes() {
            if let Some((dispatcher, key)) = channel.push() {
                all[dispatcher].agents.push((key.number(), channel.name()));
            }
        }
        for (number, recorded) in all.iter_mut().enumerate() {
            let seen = recorded.seen();
            let ended = table.ended(number).filter(|(agent, _)| seen.contains(agent));
            recorded.agents.extend(ended.map(|(agent, name)| (agent, name.clone())));
        }
        all
    }

    /// What the server knows and counts at this moment, of at most so many areas and as many
    /// replicas (those that come first by name), and how many of both were left out.
    ///
    /// # Real-time
    /// A control path: allocates, and takes the locks that set-up takes. A dispatching thread is
    /// waited for as long as it looks after its agents, and may wait (with priority inheritance)
    /// for one agent's counters to be copied.
    pub fn status(&self, limit: usize) -> (NodeStatus, usize) {
        self.node.status(limit)
    }
}

impl Node {
    /// See [`NodeServer::status`].
    pub fn status(&self, limit: usize) -> (NodeStatus, usize) {
        let channels = &self.channels;
        let (guaranteed, cpu, link) = {
            let admission = channels.admission();
            let (cpu, link) = admission.utilisation();
            (admission.len(), cpu.fraction(), link.fraction())
        };
        let mut replicas = channels.replicas();
        replicas.sort_by(|(id, name, ..), (other_id, other, ..)| (name, id.0).cmp(&(other, other_id.0)));
        let left_out = replicas.len().saturating_sub(limit);
        let replicas = replicas.into_iter().take(limit).map(|(id, name, replica, readers)| ReplicaStatus {
            id: id.0,
            name,
            size: replica.segment.geometry().size(),
            value: ValueStatus::of(&replica.segment),
            readers,
            guaranteed: replica.grant.is_some(),
            soft: replica.soft,
            deadline_ns: replica.qos.deadline,
            counts: channels.receive_stats(&replica),
            datagrams: replica.datagrams,
            handle: replica.handle,
        });
        let replicas = replicas.collect();
        let mut pushed: HashMap<String, Vec<(String, bool)>> = HashMap::new();
        for channel in channels.lock().pushes() {
            let to = (channel.to.node.clone(), channel.grant.is_some());
            pushed.entry(channel.area.clone()).or_default().push(to);
        }
        let table = self.areas.lock();
        let mut readers: HashMap<&str, usize> = HashMap::new();
        for attachment in table.attachments() {
            if let AttachmentKind::Reader = attachment.kind {
                *readers.entry(&attachment.area).or_default() += 1;
            }
        }
        let mut entries: Vec<_> = table.areas().collect();
        entries.sort_by_key(|entry| &entry.what.name);
        let left_out = left_out + entries.len().saturating_sub(limit);
        let areas = entries.into_iter().take(limit).map(|entry| {
            let name = &entry.what.name;
            let mut pushed_to = pushed.remove(name).unwrap_or_default();
            pushed_to.sort();
            AreaStatus {
                name: name.clone(),
                size: entry.what.size,
                histories: entry.what.histories,
                data: entry.what.data.clone(),
                value: ValueStatus::of(&entry.segment),
                has_writer: entry.writer.is_some(),
                period_ns: entry.promised.period,
                readers: readers.get(name.as_str()).copied().unwrap_or(0),
                pushed_to,
            }
        });
        let config = channels.config();
        let status = NodeStatus {
            name: config.name.clone(),
            sessions: table.counts().1,
            bytes: (table.bytes(), config.limits.bytes),
            guaranteed,
            cpu: (cpu, config.admission.cpu_share),
            link: (link, config.admission.link_share),
            looks: channels.dispatchers().iter().map(Dispatcher::checks).sum(),
            refused_back: table.refused_back(),
            accept_failures: self.accept_failures.load(Ordering::Relaxed),
            areas: areas.collect(),
            replicas,
        };
        (status, left_out)
    }
}
