//! The readers' ends of channels: replicas, and the agents that fill them.

use super::admit::interval;
use super::push::wrong_channel;
use super::rejoin::RejoinAttempts;
use super::table::Replica;
use super::{Channels, ReplicaId, address};
use crate::Error;
use crate::admission::Sender;
use crate::agents::{ReceiveAgent, ReceiveSpec, ReceiveStats, SecondPath, VisibleValue};
use crate::error::{CallerError, PeerError};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{
    CRM_CommRef, DataType, Mode as IdlMode, Offer, Path, RAW_OCTETS, ReaderQoS, State as IdlState,
};
use crate::memory::{Geometry, MAX_HISTORIES, Sample, Segment, Writer};
use crate::node::areas::memory_state;
use crate::node::failover::FailoverRef;
use crate::node::orb_path::{BeatTimes, Target};
use crate::node::receive_sockets::ReceiveSocket;
use crate::node::secret;
use crate::wire::Channel;
use isorb_rt::clock_sync::{OffsetEstimator, RoundTrips};
use isorb_rt::time::now_ns;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A channel that is being opened.
struct OpenRequest<'a> {
    name: &'a str,
    /// The dispatching thread of its datagrams.
    dispatcher: usize,
    qos: ReaderQoS,
    server: &'a FailoverRef<CRM_CommRef>,
    channel: Channel,
    target: Writer,
    fresh_ns: Option<u64>,
    /// The deadline of a guaranteed channel.
    deadline_ns: Option<u64>,
    /// The value of the same area that the replica holds.
    shown: Option<VisibleValue>,
    clock: RoundTrips,
}

/// A channel that was opened.
struct OpenChannel {
    dispatcher: usize,
    datagrams: bool,
    channel: u32,
    group: Option<IpAddr>,
    handle: u64,
}

impl Channels {
    /// Gives a reader of this node its replica: a shared one, or a new one of an area of another
    /// node.
    pub fn attach(&self, name: &str, qos: ReaderQoS) -> Result<(ReplicaId, Segment, DataType), Error> {
        let shared = self.lock().share_replica(name, &qos).transpose()?;
        if let Some((id, replica)) = shared {
            return Ok((id, replica.segment.clone(), replica.what.data.clone()));
        }
        let replica = self.open_replica(name, qos, qos.through, self.locate(name)?, None)?;
        let (segment, data) = (replica.segment.clone(), replica.what.data.clone());
        Ok((self.lock().insert_replica(name, replica), segment, data))
    }

    /// A reader left. The last one closes the replica.
    pub fn release(&self, id: ReplicaId) {
        let unused = self.lock().release_replica(id);
        if let Some(replica) = unused {
            self.close_replica(&replica);
        }
    }

    /// Stops or starts a replica for all of its readers.
    pub fn set_replica_running(&self, id: ReplicaId, running: bool) -> Result<(), Error> {
        let replica = {
            let table = self.lock();
            let replica = table.replica(id).ok_or(CallerError::NotRemote)?;
            replica.stopped.store(!running, Ordering::Release);
            replica.clone()
        };
        self.run(&replica, running)
    }

    /// The segment of a replica, and its counts.
    pub fn replica_statistics(&self, id: ReplicaId) -> Option<(Segment, Option<ReceiveStats>)> {
        let table = self.lock();
        let replica = table.replica(id)?;
        Some((replica.segment.clone(), self.receive_stats(replica)))
    }

    /// Opens the reader's end by this path: a replica and an agent that fills it. With `before`,
    /// the agent goes on filling the replica of a channel that fell silent.
    pub(super) fn open_replica(
        &self,
        name: &str,
        qos: ReaderQoS,
        through: Path,
        server: FailoverRef<CRM_CommRef>,
        before: Option<&Replica>,
    ) -> Result<Replica, Error> {
        let (expected, qos) = (qos.type_hash, ReaderQoS { type_hash: RAW_OCTETS, ..qos });
        let requested = ReaderQoS { through, ..qos };
        // The first round trip by which the clocks are compared.
        let (mut clock, asked_ns) = (RoundTrips::default(), now_ns());
        let described = server.call(|server| server.describe(name, 0));
        let described =
            described.map_err(|error| self.link.no_answer(&format!("the node of {name}"), error))?;
        let answered_ns = now_ns();
        clock.answered(asked_ns, described.clock, answered_ns);
        clock.arrived(described.clock, answered_ns);
        fail_point(FailPoint::ReplicaDescribed);
        described.what.check_type(expected)?;
        if before.is_some_and(|before| before.what.data != described.what.data) {
            return Err(PeerError::Retyped.into());
        }
        let size = described.what.size as usize;
        let histories = qos.histories as usize;
        let geometry = Geometry::new(size, histories)
            .map_err(|error| Error::wrong_size(&error.to_string(), histories, MAX_HISTORIES))?;
        let segment = match before.map(|before| &before.segment) {
            Some(segment) if segment.geometry() == geometry => segment.clone(),
            Some(_) => return Err(PeerError::Resized.into()),
            None => Segment::create(name, geometry)?,
        };
        // Readers of an earlier replica see whether it belonged to the same area.
        segment.set_identity(described.identity)?;
        let (fragment, parity) = (self.config.fragment, usize::from(qos.parity));
        let channel = Channel { id: 0, epoch: secret() as u32, token: secret(), size, fragment, parity };
        let _opening = self.handles.opening();
        let from = Sender { node: &described.node, link_bits_per_s: described.link };
        let dispatcher = self.least_used();
        let grant = self.admit(name, &channel, &requested, described.writer, Some(from), dispatcher)?;
        if grant.is_some() {
            self.limit_best_effort();
            // Pushes of this node have less time to wait now.
            self.refresh_promotions();
        }
        let opened = segment.writer().map_err(Error::from).and_then(|target| {
            let interval = interval(&qos, described.writer.period);
            let fresh_ns = (qos.deadline > 0).then(|| qos.deadline.saturating_add(interval));
            let deadline_ns = grant.map(|grant| grant.guarantee.deadline_ns);
            let same_area = before.filter(|before| before.identity == described.identity);
            let shown = same_area.and_then(|_| latest(&segment));
            let server = &server;
            let request = OpenRequest {
                name,
                dispatcher,
                qos: requested,
                server,
                channel,
                target,
                fresh_ns,
                deadline_ns,
                shown,
                clock,
            };
            match through {
                Path::PathUdp => self.open_datagrams(request),
                Path::PathMulticast => self.open_group(request),
                Path::PathOrb | Path::PathOneway => self.open_calls(request),
            }
        });
        let opened = opened.inspect_err(|_| self.release_receive(grant.as_ref()))?;
        self.handles.add(opened.handle);
        let is_assured = described.assured && self.unassured().is_none();
        fail_point(FailPoint::ReplicaOpened);
        let stopped = before.is_some_and(|before| before.stopped.load(Ordering::Acquire));
        let replica = Replica {
            qos,
            identity: described.identity,
            what: described.what,
            segment,
            dispatcher: opened.dispatcher,
            datagrams: opened.datagrams,
            channel: opened.channel,
            group: opened.group,
            server,
            handle: opened.handle,
            grant,
            soft: grant.is_some() && !is_assured,
            stopped: AtomicBool::new(stopped),
            closed: AtomicBool::new(false),
            earlier: before.and_then(total),
            ended: OnceLock::new(),
            unseen: OnceLock::new(),
            rejoins: RejoinAttempts::after(before.map(|before| &before.rejoins), now_ns()),
        };
        if stopped {
            // A new channel runs. If this call is lost, the channel most likely is, and the next
            // one is stopped.
            let _ = self.run(&replica, false);
        }
        Ok(replica)
    }

    /// Stops or starts a channel.
    pub(super) fn run(&self, replica: &Replica, running: bool) -> Result<(), Error> {
        if replica.group.is_some() {
            // The other members of the group go on.
            self.dispatchers[replica.dispatcher].set_receiving(replica.channel, running);
            return Ok(());
        }
        replica.server.call(|server| server.set_running(replica.handle, running))
    }

    fn open_datagrams(&self, request: OpenRequest<'_>) -> Result<OpenChannel, Error> {
        let OpenRequest { name, dispatcher: number, qos, server, mut channel, .. } = request;
        let OpenRequest { target, fresh_ns, deadline_ns, shown, clock, .. } = request;
        let dispatcher = &self.dispatchers[number];
        let socket = deadline_ns.map(|_| dispatcher.open_receive_socket()).transpose()?;
        let own_ports = socket.as_ref().map_or([0; 2], ReceiveSocket::ports);
        // The number is reserved, because the writer's node may take long and others are opened
        // meanwhile.
        channel.id = dispatcher.reserve()?;
        let credit = dispatcher.first_credit(&channel);
        let agent = (|| {
            let far = server.call(|server| server.describe(name, channel.id))?;
            let peer = address(&far.host, far.port)?;
            let second = match dispatcher.second_address() {
                Some(_) if far.second_port > 0 => {
                    Some(self.second_path(address(&far.second_host, far.second_port)?))
                }
                _ => None,
            };
            let silence_ns = self.config.silence.as_nanos() as u64;
            let spec =
                ReceiveSpec { channel, peer, target, fresh_ns, silence_ns, second, deadline_ns, clock };
            Ok(match deadline_ns {
                Some(_) => agent(spec, shown)?,
                None => agent(spec, shown)?.credit(credit),
            })
        })();
        let agent = agent.inspect_err(|_: &Error| dispatcher.unreserve(channel.id))?;
        dispatcher.add_receive(agent, socket)?;
        let me = self.link.server();
        let ports = (number, own_ports);
        let opened = self.request_channel(name, qos, (server, me), ports, &channel, (0, credit));
        let handle = opened.inspect_err(|_| {
            self.remove_receive(number, channel.id, true);
        })?;
        Ok(OpenChannel { dispatcher: number, datagrams: true, channel: channel.id, group: None, handle })
    }

    fn open_calls(&self, request: OpenRequest<'_>) -> Result<OpenChannel, Error> {
        let OpenRequest { name, qos, server, mut channel, target, fresh_ns, shown, clock, .. } = request;
        // The pushes of a guaranteed channel go to the lane.
        let lane = request.deadline_ns.map(|_| self.lane.open()).transpose()?;
        let me = lane.as_ref().or(self.link.server());
        let target = Target {
            token: channel.token,
            writer: target,
            fresh_ns,
            silence: self.config.silence,
            each: qos.how == IdlMode::PushOnWrite,
            shown,
            clock,
        };
        channel.id = self.orb_replicas.add(target, now_ns());
        let after = shown.map_or(0, |shown| shown.sequence);
        let ports = (0, [0; 2]);
        let opened = self.request_channel(name, qos, (server, me), ports, &channel, (after, u64::MAX));
        let handle = opened.inspect_err(|_| {
            self.remove_receive(0, channel.id, false);
        })?;
        Ok(OpenChannel { dispatcher: 0, datagrams: false, channel: channel.id, group: None, handle })
    }

    /// Joins the group that the writer's node pushes to.
    fn open_group(&self, request: OpenRequest<'_>) -> Result<OpenChannel, Error> {
        let OpenRequest { name, dispatcher: number, qos, server, channel, .. } = request;
        let OpenRequest { target, fresh_ns, deadline_ns, shown, clock, .. } = request;
        let dispatcher = &self.dispatchers[number];
        let groups = dispatcher.groups().ok_or(CallerError::NoMulticast)?;
        let (node, incarnation, me) = (&self.config.name, self.link.incarnation(), self.link.server());
        let group = server.call(|server| server.join_group(name, qos, node, incarnation, me))?;
        let joined = (|| {
            let peer = address(&group.host, group.port)?;
            let to = address(&group.group_host, group.group_port)?;
            let channel = Channel {
                id: group.channel,
                epoch: group.epoch,
                token: group.token,
                fragment: group.fragment as usize,
                ..channel
            };
            let silence_ns = self.config.silence.as_nanos() as u64;
            let second = None;
            let spec =
                ReceiveSpec { channel, peer, target, fresh_ns, silence_ns, second, deadline_ns, clock };
            let agent = agent(spec, shown)?;
            let channel = if deadline_ns.is_some() {
                dispatcher.join(agent, Some(ReceiveSocket::of(groups.open_guaranteed(to)?)))?
            } else {
                groups.join(to)?;
                dispatcher.join(agent.credit_of_group(), None).inspect_err(|_| groups.leave(to.ip()))?
            };
            fail_point(FailPoint::GroupJoined);
            fail_point(FailPoint::ReplicaReady);
            Ok((channel, to.ip()))
        })();
        let handle = group.which;
        match joined {
            Ok((channel, ip)) => {
                // The other members have the latest value already.
                let _ = server.call(|server| server.set_running(handle, true));
                Ok(OpenChannel { dispatcher: number, datagrams: true, channel, group: Some(ip), handle })
            }
            Err(error) => {
                let _ = server.call(|server| server.close_channel(handle));
                Err(error)
            }
        }
    }

    /// Asks the writer's node to push, by calls to `me`. Gives the handle of the writer's end.
    fn request_channel(
        &self,
        name: &str,
        qos: ReaderQoS,
        (server, me): (&FailoverRef<CRM_CommRef>, Option<&CRM_CommRef>),
        (dispatcher, [own_port, second_own_port]): (usize, [u16; 2]),
        channel: &Channel,
        (after, credit): (u64, u64),
    ) -> Result<u64, Error> {
        let to = self.published(dispatcher);
        let (second_host, second_port) = self.published_second(dispatcher);
        let offer = Offer {
            node: self.config.name.clone(),
            incarnation: self.link.incarnation(),
            host: to.ip().to_string(),
            port: to.port(),
            channel: channel.id,
            epoch: channel.epoch,
            token: channel.token,
            fragment: channel.fragment as u32,
            second_host,
            second_port,
            own_port,
            second_own_port,
            after,
            credit,
        };
        fail_point(FailPoint::ReplicaReady);
        server.call(|server| server.open_channel(name, qos, &offer, me))
    }

    /// A path has failed before its node counts as dead: after two thirds of the silence.
    fn second_path(&self, peer: SocketAddr) -> SecondPath {
        SecondPath { peer, after_ns: self.config.silence.as_nanos() as u64 / 3 * 2 }
    }

    fn least_used(&self) -> usize {
        self.lock().least_used_dispatcher(self.dispatchers.len())
    }

    /// The server of the node that holds an area. Calls to it have a time-out.
    pub(super) fn locate(&self, name: &str) -> Result<FailoverRef<CRM_CommRef>, Error> {
        let (node, server) = self.link.locate(name)?;
        Ok(self.server(&node, &server))
    }

    /// The counts of a replica and of those that it replaced.
    pub fn receive_stats(&self, replica: &Replica) -> Option<ReceiveStats> {
        if replica.closed.load(Ordering::Acquire) {
            return replica.ended.get().copied();
        }
        let now = match replica.datagrams {
            true => self.dispatchers[replica.dispatcher].receive_stats(replica.channel),
            false => self.orb_replicas.stats(replica.channel),
        };
        now.map(|now| with_earlier(replica, now))
    }

    pub(super) fn is_silent(&self, replica: &Replica) -> bool {
        replica.closed.load(Ordering::Acquire)
            || self.receive_stats(replica).is_none_or(|stats| stats.is_silent)
    }

    pub(super) fn close_replica(&self, replica: &Replica) {
        if self.end_replica(replica) {
            // The writer's node may be gone; then there is nothing to close.
            let _ = replica.server.call(|server| server.close_channel(replica.handle));
        }
    }

    /// Ends the reader's end. False if it has ended before.
    pub(super) fn end_replica(&self, replica: &Replica) -> bool {
        if replica.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.handles.remove(replica.handle);
        fail_point(FailPoint::ReplicaForgotten);
        if let Some(last) = self.remove_receive(replica.dispatcher, replica.channel, replica.datagrams) {
            let _ = replica.ended.set(with_earlier(replica, last));
        }
        // A guaranteed channel leaves its group when its socket closes.
        if let (Some(group), None, Some(groups)) =
            (replica.group, replica.grant, self.dispatchers[replica.dispatcher].groups())
        {
            groups.leave(group);
        }
        if replica.group.is_some() {
            fail_point(FailPoint::GroupForgotten);
        }
        self.release_receive(replica.grant.as_ref());
        true
    }

    fn remove_receive(&self, dispatcher: usize, channel: u32, datagrams: bool) -> Option<ReceiveStats> {
        match datagrams {
            true => self.dispatchers[dispatcher].remove_receive(channel),
            false => self.orb_replicas.remove(channel),
        }
    }

    /// A heartbeat of a channel on the ORB's path. Gives the number of the last push that arrived.
    pub fn beat(&self, channel: u32, token: u64, far: IdlState, times: BeatTimes) -> Option<u64> {
        self.orb_replicas.beat(channel, token, memory_state(far), times, now_ns())
    }

    /// All replicas, with their areas and the number of their readers.
    pub fn replicas(&self) -> Vec<(ReplicaId, String, Arc<Replica>, usize)> {
        let table = self.lock();
        let entries = table.replicas();
        entries.map(|(id, entry)| (id, entry.area.clone(), entry.replica.clone(), entry.readers)).collect()
    }
}

fn agent(spec: ReceiveSpec, shown: Option<VisibleValue>) -> Result<ReceiveAgent, Error> {
    let agent = ReceiveAgent::new(spec).map_err(wrong_channel)?;
    Ok(match shown {
        Some(shown) => agent.goes_on_from(shown),
        None => agent,
    })
}

/// The value that a replica holds.
fn latest(segment: &Segment) -> Option<VisibleValue> {
    let ((), sample) = segment.reader().ok()?.read_with(|_| ()).ok()?;
    let Sample { source: sequence, epoch, written_ns, bound_ns, .. } = sample;
    Some(VisibleValue { sequence, epoch, written_ns, bound_ns })
}

fn with_earlier(replica: &Replica, now: ReceiveStats) -> ReceiveStats {
    match &replica.earlier {
        Some(earlier) => now.after(earlier),
        None => now,
    }
}

/// All counts of a closed replica, with the pushes that did not arrive.
fn total(replica: &Replica) -> Option<ReceiveStats> {
    let mut all = *replica.ended.get()?;
    let unseen = replica.unseen.get().copied().unwrap_or(0);
    all.counters.lost = all.counters.lost.saturating_add(unseen);
    Some(all)
}
