//! The state machine of the channels owner: the writers' and the readers' ends of the channels
//! between nodes. It does no I/O; its caller starts and stops agents and calls other servers.

use super::super::failover::FailoverRef;
use super::super::orb_path::PushControl;
use super::rejoin::RejoinAttempts;
use crate::Error;
use crate::admission::Grant;
use crate::agents::{PushKey, ReceiveStats};
use crate::idl::{Area, CRM_CommRef, RAW_OCTETS, ReaderQoS};
use crate::memory::Segment;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Names of ended push agents that are kept for records of them.
const ENDED: usize = 4096;

#[derive(Debug, Default)]
pub(in crate::node) struct ChannelTable {
    /// Writers' ends, by handle.
    pushes: HashMap<u64, PushChannel>,
    groups: Vec<Group>,
    /// Writers' ends of destroyed areas, with the time at which they end: their readers have
    /// received the heartbeat that says so by then.
    closing: Vec<(u64, PushChannel)>,
    /// Ended push agents: dispatching thread, number, name.
    ended: VecDeque<(usize, u32, String)>,
    replicas: HashMap<ReplicaId, ReplicaEntry>,
    last: u64,
}

/// Stands for the readers of this node that share a replica. It stays when the replica is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::node) struct ReplicaId(pub u64);

#[derive(Debug)]
pub(in crate::node) struct ReplicaEntry {
    pub area: String,
    pub replica: Arc<Replica>,
    pub readers: usize,
}

/// The reader's end of a channel.
#[derive(Debug)]
pub(in crate::node) struct Replica {
    /// Without the type that a reader expects: readers share the replica once that is checked.
    pub qos: ReaderQoS,
    /// The area as its node described it.
    pub what: Area,
    pub segment: Segment,
    /// The identity of the writer's area.
    pub identity: u64,
    pub dispatcher: usize,
    /// False on the ORB's path.
    pub datagrams: bool,
    pub channel: u32,
    /// The group that it has joined.
    pub group: Option<IpAddr>,
    pub server: FailoverRef<CRM_CommRef>,
    /// The handle of the writer's end.
    pub handle: u64,
    pub grant: Option<Grant>,
    /// One of the nodes does not assure the guarantee.
    pub soft: bool,
    /// Its readers stopped it. Changed under the table's lock.
    pub stopped: AtomicBool,
    /// The channel's number may belong to another channel by now.
    pub closed: AtomicBool,
    /// Counts of the replicas that this one replaced.
    pub earlier: Option<ReceiveStats>,
    /// Counts at the time of closing.
    pub ended: OnceLock<ReceiveStats>,
    /// Pushes of the writer's node that did not arrive.
    pub unseen: OnceLock<u64>,
    /// Attempts to rejoin the group that its readers asked for.
    pub rejoins: RejoinAttempts,
}

/// The writer's end of a channel.
#[derive(Debug)]
pub(in crate::node) struct PushChannel {
    pub area: String,
    pub to: Destination,
    /// The server of the reader's node, and its incarnation.
    pub reader: Option<FailoverRef<CRM_CommRef>>,
    pub incarnation: u64,
    pub grant: Option<Grant>,
    pub agent: Agent,
}

/// A channel to several nodes.
#[derive(Clone, Debug)]
pub(in crate::node) struct Group {
    pub area: String,
    pub qos: ReaderQoS,
    /// The channel that pushes.
    pub handle: u64,
    pub to: SocketAddr,
    pub channel: crate::wire::Channel,
}

/// A channel that is opened again has the destination of the former one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::node) struct Destination {
    pub node: String,
    pub port: u16,
    /// Datagrams and calls number their channels separately.
    pub datagrams: bool,
    pub channel: u32,
}

#[derive(Debug)]
pub(in crate::node) enum Agent {
    Datagrams {
        dispatcher: usize,
        key: PushKey,
        source: Segment,
    },
    /// One node of a group, for which the channel with this handle pushes.
    Member {
        group: u64,
    },
    /// A thread that pushes by calls.
    Orb {
        control: Arc<PushControl>,
        /// Octets of its values where it is best effort, as admission counts them.
        best_effort: Option<usize>,
    },
}

impl PushChannel {
    /// The name in records.
    pub fn name(&self) -> String {
        format!("{} to {}", self.area, self.to.node)
    }

    /// The dispatching thread and the agent, on the datagram paths.
    pub fn push(&self) -> Option<(usize, PushKey)> {
        match self.agent {
            Agent::Datagrams { dispatcher, key, .. } => Some((dispatcher, key)),
            _ => None,
        }
    }

    fn is_member_of(&self, handle: u64) -> bool {
        matches!(self.agent, Agent::Member { group } if group == handle)
    }
}

impl ChannelTable {
    // Writers' ends.

    /// Enters a channel and gives its handle, which cannot be guessed: it allows to stop and close
    /// it.
    pub fn insert(&mut self, channel: PushChannel) -> u64 {
        let handle = loop {
            let handle = crate::node::secret();
            if handle != 0 && !self.pushes.contains_key(&handle) {
                break handle;
            }
        };
        self.pushes.insert(handle, channel);
        handle
    }

    pub fn push(&self, handle: u64) -> Option<&PushChannel> {
        self.pushes.get(&handle)
    }

    pub fn pushes(&self) -> impl Iterator<Item = &PushChannel> {
        self.pushes.values()
    }

    /// All channels with their handles.
    pub fn handles(&self) -> impl Iterator<Item = (u64, &PushChannel)> {
        self.pushes.iter().map(|(handle, channel)| (*handle, channel))
    }

    pub fn remove(&mut self, handle: u64) -> Option<PushChannel> {
        self.pushes.remove(&handle)
    }

    pub fn remove_if(&mut self, condition: impl Fn(&PushChannel) -> bool) -> Vec<PushChannel> {
        self.pushes.extract_if(|_, channel| condition(channel)).map(|(_, channel)| channel).collect()
    }

    /// Removes all channels of an area.
    pub fn remove_area(&mut self, area: &str) -> Vec<PushChannel> {
        self.groups.retain(|group| group.area != area);
        self.remove_if(|channel| channel.area == area)
    }

    pub fn count(&self) -> usize {
        self.pushes.len()
    }

    pub fn pushes_datagrams_of(&self, area: &str) -> bool {
        self.pushes.values().any(|channel| channel.area == area && channel.push().is_some())
    }

    /// Bytes of the largest value that the guaranteed readers of an area were admitted with.
    pub fn admitted_size(&self, area: &str) -> Option<usize> {
        let channels = self.pushes.values().filter(|channel| channel.area == area);
        channels.filter_map(|channel| channel.grant.as_ref()).map(|grant| grant.size).min()
    }

    /// Ends these channels at `at_ns`.
    pub fn close_at(&mut self, at_ns: u64, channels: Vec<PushChannel>) {
        self.closing.extend(channels.into_iter().map(|channel| (at_ns, channel)));
    }

    /// The channels that are to end by now, and the time of the next ones.
    pub fn due(&mut self, now_ns: u64) -> (Vec<PushChannel>, Option<u64>) {
        let due = self.closing.extract_if(.., |(at, _)| *at <= now_ns).map(|(_, channel)| channel).collect();
        (due, self.closing.iter().map(|(at, _)| *at).min())
    }

    /// Keeps the name of an ended channel for as long as there may be records of it.
    pub fn remember_name(&mut self, channel: &PushChannel) {
        if let Some((dispatcher, key)) = channel.push() {
            if self.ended.len() == ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back((dispatcher, key.number(), channel.name()));
        }
    }

    /// Ended push agents of a dispatching thread: number and name.
    pub fn ended(&self, dispatcher: usize) -> impl Iterator<Item = (u32, &String)> {
        let own = self.ended.iter().filter(move |(other, ..)| *other == dispatcher);
        own.map(|(_, agent, name)| (*agent, name))
    }

    // Groups.

    pub fn group(&self, area: &str, qos: &ReaderQoS) -> Option<Group> {
        self.groups.iter().find(|group| group.area == area && group.qos == *qos).cloned()
    }

    pub fn add_group(&mut self, group: Group) {
        self.groups.push(group);
    }

    /// Removes an earlier membership of a node, which did not receive the answer.
    pub fn remove_member(&mut self, group: u64, node: &str) {
        self.pushes.retain(|_, channel| channel.to.node != node || !channel.is_member_of(group));
    }

    /// Removes a group without members and gives the channel that pushes to it.
    pub fn remove_unused_group(&mut self, group: u64) -> Option<PushChannel> {
        if self.pushes.values().any(|channel| channel.is_member_of(group)) {
            return None;
        }
        self.groups.retain(|other| other.handle != group);
        self.pushes.remove(&group)
    }

    // Readers' ends.

    /// Adds a reader to the replica of this area with these requirements, if there is one.
    pub fn share_replica(
        &mut self,
        area: &str,
        qos: &ReaderQoS,
    ) -> Option<Result<(ReplicaId, Arc<Replica>), Error>> {
        let any = ReaderQoS { type_hash: RAW_OCTETS, ..*qos };
        let shared = |entry: &ReplicaEntry| entry.area == area && entry.replica.qos == any;
        let (id, entry) = self.replicas.iter_mut().find(|(_, entry)| shared(entry))?;
        if let Err(error) = entry.replica.what.check_type(qos.type_hash) {
            return Some(Err(error));
        }
        entry.readers += 1;
        Some(Ok((*id, entry.replica.clone())))
    }

    /// Enters a new replica with one reader.
    pub fn insert_replica(&mut self, area: &str, replica: Replica) -> ReplicaId {
        let id = ReplicaId(self.number());
        let entry = ReplicaEntry { area: area.into(), replica: Arc::new(replica), readers: 1 };
        self.replicas.insert(id, entry);
        id
    }

    pub fn replica(&self, id: ReplicaId) -> Option<&Arc<Replica>> {
        self.replicas.get(&id).map(|entry| &entry.replica)
    }

    pub fn replicas(&self) -> impl Iterator<Item = (ReplicaId, &ReplicaEntry)> {
        self.replicas.iter().map(|(id, entry)| (*id, entry))
    }

    /// A reader left. Gives the replica if it was the last one.
    pub fn release_replica(&mut self, id: ReplicaId) -> Option<Arc<Replica>> {
        let entry = self.replicas.get_mut(&id)?;
        entry.readers -= 1;
        if entry.readers > 0 {
            return None;
        }
        self.replicas.remove(&id).map(|entry| entry.replica)
    }

    /// The readers go over to another replica. Says whether they stopped or started the former one
    /// since the new one was opened. Gives the new one back where all readers have left.
    pub fn replace_replica(&mut self, id: ReplicaId, new: &Arc<Replica>) -> Option<bool> {
        let entry = self.replicas.get_mut(&id)?;
        let stopped = entry.replica.stopped.load(Ordering::Acquire);
        entry.replica = new.clone();
        Some(new.stopped.swap(stopped, Ordering::AcqRel) != stopped)
    }

    /// The dispatching thread, of `count`, with the fewest readers.
    pub fn least_used_dispatcher(&self, count: usize) -> usize {
        let mut readers = vec![0; count];
        for entry in self.replicas.values() {
            readers[entry.replica.dispatcher] += entry.readers;
        }
        (0..count).min_by_key(|dispatcher| readers[*dispatcher]).unwrap_or(0)
    }

    /// A number that was not given out before.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(area: &str, node: &str, agent: Agent) -> PushChannel {
        let to = Destination { node: node.into(), port: 1, datagrams: false, channel: 7 };
        PushChannel { area: area.into(), to, reader: None, incarnation: 1, grant: None, agent }
    }

    fn orb(area: &str, node: &str) -> PushChannel {
        channel(area, node, Agent::Orb { control: Arc::default(), best_effort: None })
    }

    #[test]
    fn a_channel_is_found_by_its_handle_only() {
        let mut table = ChannelTable::default();
        let (one, other) = (table.insert(orb("a", "x")), table.insert(orb("a", "y")));
        assert!(one != other && one != 0 && table.push(one ^ 1).is_none());
        assert_eq!(table.remove(one).map(|channel| channel.to.node), Some("x".into()));
        assert!(table.remove(one).is_none());
        assert_eq!(
            (table.count(), table.pushes_datagrams_of("a"), table.admitted_size("a")),
            (1, false, None)
        );
    }

    #[test]
    fn channels_of_a_destroyed_area_end_when_their_time_has_come() {
        let mut table = ChannelTable::default();
        for (area, node) in [("a", "x"), ("a", "y"), ("b", "x")] {
            table.insert(orb(area, node));
        }
        let channels = table.remove_area("a");
        assert_eq!((channels.len(), table.count()), (2, 1));
        table.close_at(50, channels);
        let later = table.remove_area("b");
        table.close_at(70, later);
        assert!(matches!(table.due(49), (due, Some(50)) if due.is_empty()));
        assert!(matches!(table.due(50), (due, Some(70)) if due.len() == 2));
        assert!(matches!(table.due(100), (due, None) if due.len() == 1));
    }

    #[test]
    fn a_group_ends_with_its_last_member() {
        let mut table = ChannelTable::default();
        let handle = table.insert(orb("a", "group"));
        let (qos, to) = (ReaderQoS::on_write(), SocketAddr::from(([239, 0, 0, 1], 5)));
        let shared = crate::wire::Channel { id: 1, epoch: 1, token: 1, size: 8, fragment: 8, parity: 0 };
        table.add_group(Group { area: "a".into(), qos, handle, to, channel: shared });
        let members =
            ["x", "y"].map(|node| table.insert(channel("a", node, Agent::Member { group: handle })));
        // A member that asks again, because the answer was lost, counts once.
        table.remove_member(handle, "y");
        let again = table.insert(channel("a", "y", Agent::Member { group: handle }));
        assert_eq!(table.count(), 3);
        assert!(table.push(members[1]).is_none() && table.group("a", &qos.parity(3)).is_none());
        for member in [members[0], again] {
            assert!(table.remove_unused_group(handle).is_none() && table.group("a", &qos).is_some());
            table.remove(member);
        }
        assert!(table.remove_unused_group(handle).is_some() && table.group("a", &qos).is_none());
    }
}
