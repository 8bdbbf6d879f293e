//! The reader's end of channels between nodes: replicas, and what fills them.

use super::channels::interval;
use super::failover::FailoverRef;
use super::orb_path::Target;
use super::receive_sockets::ReceiveSocket;
use super::rejoin::Trials;
use super::tables::{Replica, What};
use super::{Shared, secret};
use crate::Error;
use crate::agents::{ReceiveAgent, ReceiveSpec, ReceiveStats, SecondPath, Shown};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{CRM_CommRef, Mode as IdlMode, Offer, Path, ReaderQoS};
use crate::memory::{Geometry, Segment, Writer};
use crate::wire::Channel;
use isorb_rt::time::now_ns;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A channel that is being opened.
struct Opening<'a> {
    name: &'a str,
    qos: ReaderQoS,
    server: &'a FailoverRef<CRM_CommRef>,
    channel: Channel,
    target: Writer,
    fresh_ns: Option<u64>,
    /// How urgent it is, where it was admitted.
    deadline_ns: Option<u64>,
    /// What the replica has of the same area.
    shown: Option<Shown>,
}

/// What came of it.
struct Opened {
    dispatcher: usize,
    datagrams: bool,
    channel: u32,
    group: Option<IpAddr>,
    handle: u64,
}

impl Shared {
    /// The reader's end: a replica, and an agent that fills it `through` this path.
    /// With `before`, the replica that was filled until the writer's node fell silent goes on to be filled.
    pub(super) fn open_replica(
        &self,
        name: &str,
        qos: ReaderQoS,
        through: Path,
        server: FailoverRef<CRM_CommRef>,
        before: Option<&Replica>,
    ) -> Result<Replica, Error> {
        let asked = ReaderQoS { through, ..qos };
        let unanswered = |error| self.unanswered(&format!("the node of {name}"), error);
        let first = server.call(|server| server.describe(name, 0)).map_err(unanswered)?;
        fail_point(FailPoint::ReplicaDescribed);
        let size = first.what.size as usize;
        let geometry = Geometry::new(size, qos.histories as usize).map_err(|error| {
            Error::wrong_size(&error.to_string(), qos.histories as usize, crate::memory::MAX_HISTORIES)
        })?;
        let segment = match before.map(|before| &before.segment) {
            Some(segment) if segment.geometry() == geometry => segment.clone(),
            Some(_) => return Err(Error::unavailable("the area has another size now")),
            None => Segment::create(name, geometry)?,
        };
        // Readers who had another replica see whether it was of the same area.
        segment.set_identity(first.identity)?;
        let (fragment, parity) = (self.config.fragment, usize::from(qos.parity));
        let channel = Channel { id: 0, epoch: secret() as u32, token: secret(), size, fragment, parity };
        let grant = self.admit(name, &channel, &asked, first.writer, false)?;
        let writer = segment.writer().map_err(Error::unavailable);
        let opened = writer.and_then(|target| {
            let interval = interval(&qos, first.writer.period);
            let fresh_ns = (qos.deadline > 0).then(|| qos.deadline.saturating_add(interval));
            let deadline_ns = grant.map(|grant| grant.guarantee.deadline_ns);
            let shown =
                before.filter(|before| before.identity == first.identity).and_then(|_| latest(&segment));
            let opening =
                Opening { name, qos: asked, server: &server, channel, target, fresh_ns, deadline_ns, shown };
            match through {
                Path::PathUdp => self.open_datagrams(opening),
                Path::PathMulticast => self.open_group(opening),
                Path::PathOrb | Path::PathOneway => self.open_calls(opening),
            }
        });
        match opened {
            Ok(opened) => {
                fail_point(FailPoint::ReplicaOpened);
                let Opened { dispatcher, datagrams, channel, group, handle } = opened;
                let (closed, entering) = (AtomicBool::new(false), AtomicUsize::new(1));
                let earlier = before.and_then(all_counted);
                let stopped = before.is_some_and(|before| before.stopped.load(Ordering::Acquire));
                let replica = Replica {
                    qos,
                    segment,
                    identity: first.identity,
                    dispatcher,
                    datagrams,
                    channel,
                    group,
                    server,
                    handle,
                    grant,
                    stopped: AtomicBool::new(stopped),
                    closed,
                    earlier,
                    ended: OnceLock::new(),
                    unseen: OnceLock::new(),
                    entering,
                    trials: Trials::after(before.map(|before| &before.trials), now_ns()),
                };
                if stopped {
                    // A new channel runs. Where the call is lost, so is the channel, most likely, and the next one is stopped.
                    let _ = self.run(&replica, false);
                }
                Ok(replica)
            }
            Err(error) => {
                self.give_back(grant.as_ref());
                Err(error)
            }
        }
    }

    /// Stops a channel, or has it run again.
    pub(super) fn run(&self, replica: &Replica, running: bool) -> Result<(), Error> {
        if replica.group.is_some() {
            // The others of the group go on.
            self.dispatchers[replica.dispatcher].set_receiving(replica.channel, running);
            return Ok(());
        }
        replica.server.call(|server| server.set_running(replica.handle, running))
    }

    fn open_datagrams(&self, opening: Opening<'_>) -> Result<Opened, Error> {
        let Opening { name, qos, server, mut channel, target, fresh_ns, deadline_ns, shown } = opening;
        let dispatcher = self.least_used();
        let receive_socket =
            deadline_ns.map(|_| self.dispatchers[dispatcher].open_receive_socket()).transpose()?;
        let own_ports = receive_socket.as_ref().map_or([0; 2], ReceiveSocket::ports);
        let place = &self.dispatchers[dispatcher];
        // The writer's node may take its time; others are opened meanwhile.
        channel.id = place.reserve().map_err(Error::unavailable)?;
        let made = (|| {
            let far = server.call(|server| server.describe(name, channel.id))?;
            let peer = address(&far.host, far.port)?;
            let second = match place.second_address().is_some() && far.second_port > 0 {
                true => Some(self.second_path(address(&far.second_host, far.second_port)?)),
                false => None,
            };
            let silence_ns = self.config.silence.as_nanos() as u64;
            let spec = ReceiveSpec { channel, peer, target, fresh_ns, silence_ns, second, deadline_ns };
            agent(spec, shown)
        })();
        let agent = made.inspect_err(|_| place.unreserve(channel.id))?;
        place.add_receive(agent, receive_socket)?;
        let opened = self.ask_for_channel(name, qos, server, (dispatcher, own_ports), &channel, 0);
        let handle = opened.inspect_err(|_| {
            self.remove_receive(dispatcher, channel.id, true);
        })?;
        Ok(Opened { dispatcher, datagrams: true, channel: channel.id, group: None, handle })
    }

    fn open_calls(&self, opening: Opening<'_>) -> Result<Opened, Error> {
        let Opening { name, qos, server, mut channel, target, fresh_ns, shown, .. } = opening;
        let target = Target {
            token: channel.token,
            writer: target,
            fresh_ns,
            silence: self.config.silence,
            each: qos.how == IdlMode::PushOnWrite,
            shown,
        };
        channel.id = self.orb_replicas.add(target, now_ns());
        let after = shown.map_or(0, |shown| shown.sequence);
        let opened = self.ask_for_channel(name, qos, server, (0, [0; 2]), &channel, after);
        let handle = opened.inspect_err(|_| {
            self.remove_receive(0, channel.id, false);
        })?;
        Ok(Opened { dispatcher: 0, datagrams: false, channel: channel.id, group: None, handle })
    }

    /// Joins what the writer's node sends to several.
    fn open_group(&self, opening: Opening<'_>) -> Result<Opened, Error> {
        let Opening { name, qos, server, channel, target, fresh_ns, deadline_ns, shown } = opening;
        let dispatcher = self.least_used();
        let groups = self.dispatchers[dispatcher].groups().ok_or_else(no_multicast)?;
        let group = server.call(|server| {
            server.join_group(name, qos, &self.config.name, self.incarnation, self.me.get())
        })?;
        let joined = (|| {
            let (peer, to) =
                (address(&group.host, group.port)?, address(&group.group_host, group.group_port)?);
            let channel = Channel {
                id: group.channel,
                epoch: group.epoch,
                token: group.token,
                fragment: group.fragment as usize,
                ..channel
            };
            let silence_ns = self.config.silence.as_nanos() as u64;
            let second = None;
            let spec = ReceiveSpec { channel, peer, target, fresh_ns, silence_ns, second, deadline_ns };
            let agent = agent(spec, shown)?;
            let place = &self.dispatchers[dispatcher];
            let channel = if deadline_ns.is_some() {
                place.join(agent, Some(ReceiveSocket::of(groups.own(to)?)))?
            } else {
                groups.join(to)?;
                place.join(agent, None).inspect_err(|_| groups.leave(to.ip()))?
            };
            fail_point(FailPoint::GroupJoined);
            fail_point(FailPoint::ReplicaReady);
            Ok((channel, to.ip()))
        })();
        match joined {
            Ok((channel, ip)) => {
                // The others have the latest value.
                let _ = server.call(|server| server.set_running(group.which, true));
                let handle = group.which;
                Ok(Opened { dispatcher, datagrams: true, channel, group: Some(ip), handle })
            }
            Err(error) => {
                let _ = server.call(|server| server.close_channel(group.which));
                Err(error)
            }
        }
    }

    /// Gives what the writer's node calls the channel.
    fn ask_for_channel(
        &self,
        name: &str,
        qos: ReaderQoS,
        server: &FailoverRef<CRM_CommRef>,
        (dispatcher, [own_port, second_own_port]): (usize, [u16; 2]),
        channel: &Channel,
        after: u64,
    ) -> Result<u64, Error> {
        let to = self.published(dispatcher);
        let (second_host, second_port) = self.published_second(dispatcher);
        let offer = Offer {
            node: self.config.name.clone(),
            incarnation: self.incarnation,
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
        };
        fail_point(FailPoint::ReplicaReady);
        server.call(|server| server.open_channel(name, qos, &offer, self.me.get()))
    }

    /// A path has failed before its node counts as dead: in two thirds of that time.
    fn second_path(&self, peer: SocketAddr) -> SecondPath {
        SecondPath { peer, after_ns: self.config.silence.as_nanos() as u64 / 3 * 2 }
    }

    /// The server of the node that holds an area; whoever calls it gets an answer in time, or none.
    pub(super) fn locate(&self, name: &str) -> Result<FailoverRef<CRM_CommRef>, Error> {
        let coordinator = self.coordinator.as_ref().ok_or_else(|| Error::unknown_area(name))?;
        let found = coordinator.call(|glob| glob.locate(name));
        let node = found.map_err(|error| self.unanswered("the coordinator", error))?;
        let server = node.server.filter(|_| node.name != self.config.name);
        Ok(self.ways(&node.name, &server.ok_or_else(|| Error::unknown_area(name))?))
    }

    /// A replica of this area with these wishes that another reader of this node has. It stays until the caller has entered a ticket for it.
    pub(super) fn shared_replica(&self, name: &str, qos: &ReaderQoS) -> Option<Arc<Replica>> {
        let tables = self.tables.lock();
        tables.tickets.values().filter(|ticket| ticket.area == name).find_map(|ticket| match &ticket.what {
            What::Replica(replica) if replica.qos == *qos => {
                replica.entering.fetch_add(1, Ordering::AcqRel);
                Some(replica.clone())
            }
            _ => None,
        })
    }

    /// Closes a replica unless another reader has it, too. Tickets are taken out and entered under the tables' lock.
    pub(super) fn close_unused(&self, replica: Arc<Replica>) {
        let used = {
            let tables = self.tables.lock();
            replica.entering.load(Ordering::Acquire) > 0
                || tables.tickets.values().any(|ticket| ticket.is_for(&replica))
        };
        if !used {
            self.close_replica(&replica);
        }
    }

    /// What was counted at this end.
    pub(super) fn receive_stats(&self, replica: &Replica) -> Option<ReceiveStats> {
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
        if !self.forget(replica) {
            return;
        }
        // The writer's node may be gone, which is why we are here.
        let _ = replica.server.call(|server| server.close_channel(replica.handle));
    }

    /// Ends this end of a channel; false if it was ended before.
    pub(super) fn forget(&self, replica: &Replica) -> bool {
        if replica.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        fail_point(FailPoint::ReplicaForgotten);
        if let Some(last) = self.remove_receive(replica.dispatcher, replica.channel, replica.datagrams) {
            let _ = replica.ended.set(with_earlier(replica, last));
        }
        // A guaranteed channel has left its group with its socket.
        if let (Some(group), None, Some(groups)) =
            (replica.group, replica.grant, self.dispatchers[replica.dispatcher].groups())
        {
            groups.leave(group);
        }
        if replica.group.is_some() {
            fail_point(FailPoint::GroupForgotten);
        }
        self.give_back(replica.grant.as_ref());
        true
    }

    pub(super) fn remove_receive(
        &self,
        dispatcher: usize,
        channel: u32,
        datagrams: bool,
    ) -> Option<ReceiveStats> {
        match datagrams {
            true => self.dispatchers[dispatcher].remove_receive(channel),
            false => self.orb_replicas.remove(channel),
        }
    }
}

fn agent(spec: ReceiveSpec, shown: Option<Shown>) -> Result<ReceiveAgent, Error> {
    let agent =
        ReceiveAgent::new(spec).map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
    Ok(match shown {
        Some(shown) => agent.goes_on_from(shown),
        None => agent,
    })
}

/// The value that a replica has.
fn latest(segment: &Segment) -> Option<Shown> {
    let ((), sample) = segment.reader().ok()?.read_with(|_| ()).ok()?;
    Some(Shown { sequence: sample.source, epoch: sample.epoch, written_ns: sample.written_ns })
}

fn with_earlier(replica: &Replica, now: ReceiveStats) -> ReceiveStats {
    match &replica.earlier {
        Some(earlier) => now.after(earlier),
        None => now,
    }
}

/// What a replica that is closed counted, and what it did not see.
fn all_counted(replica: &Replica) -> Option<ReceiveStats> {
    let mut all = *replica.ended.get()?;
    let unseen = replica.unseen.get().copied().unwrap_or(0);
    all.counters.lost = all.counters.lost.saturating_add(unseen);
    Some(all)
}

/// An address that another node named.
pub(super) fn address(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let host: IpAddr =
        host.parse().map_err(|_| Error::unavailable(format_args!("a node names {host} as its address")))?;
    Ok(SocketAddr::new(host, port))
}

pub(super) fn no_multicast() -> Error {
    Error::unavailable("this node takes no part in multicast: its server was started without a group")
}
