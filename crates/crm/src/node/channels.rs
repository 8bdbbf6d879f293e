//! Channels between nodes: a replica and what fills it here, an agent that pushes there.

use super::orb_path::{OrbPush, Target};
use super::tables::{Agent, Channel as Outgoing, Destination, Replica, What};
use super::{Shared, secret};
use crate::Error;
use crate::admission::{Grant, Refused, Wish};
use crate::idl::{CRM_CommRef, Mode as IdlMode, NotAdmitted, Offer, OfferView, Path, ReaderQoS};
use crate::memory::{Geometry, Segment};
use crate::plane::{Guarantee, Mode, PushAgent, PushSpec, ReceiveAgent, ReceiveSpec, ReceiveStats};
use crate::steps::{Step, step};
use crate::wire::Channel;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Shared {
    /// The reader's end: a replica, and an agent that fills it.
    /// With `before`, the replica that was filled until the writer's node fell silent goes on to be filled.
    pub(super) fn open_replica(
        &self,
        name: &str,
        qos: ReaderQoS,
        server: CRM_CommRef,
        before: Option<&Segment>,
    ) -> Result<Replica, Error> {
        let Some(me) = self.me.get() else { return Err(Error::unavailable("the server is starting")) };
        let fragment = self.config.fragment;
        let datagrams = qos.through == Path::PathUdp;
        let first = server.describe(name, 0)?;
        step(Step::ReplicaDescribed);
        let size = first.what.size as usize;
        let geometry = Geometry::new(size, qos.histories as usize).map_err(|error| {
            Error::wrong_size(&error.to_string(), qos.histories as usize, crate::memory::MAX_HISTORIES)
        })?;
        let segment = match before {
            Some(segment) if segment.geometry() == geometry => segment.clone(),
            Some(_) => return Err(Error::unavailable("the area has another size now")),
            None => Segment::create(name, geometry)?,
        };
        let parity = usize::from(qos.parity);
        let mut channel = Channel { id: 0, epoch: secret() as u32, token: secret(), size, fragment, parity };
        let grant = self.admit(name, &channel, &qos, first.writer.period, false)?;
        let dispatcher = self.least_used();
        let opened = (|| {
            let writer = segment.writer().map_err(Error::unavailable)?;
            let fresh_ns = (qos.deadline > 0).then(|| qos.deadline + interval(&qos, first.writer.period));
            if datagrams {
                let _reserved = self.reserving.lock();
                channel.id = self.dispatchers[dispatcher].next_channel().map_err(Error::unavailable)?;
                let place = server.describe(name, channel.id)?;
                let host: IpAddr = place
                    .host
                    .parse()
                    .map_err(|_| Error::unavailable("the writer's node names no address"))?;
                let spec = ReceiveSpec {
                    channel,
                    peer: SocketAddr::new(host, place.port),
                    target: writer,
                    fresh_ns,
                    silence_ns: self.config.silence.as_nanos() as u64,
                };
                let agent = ReceiveAgent::new(spec)
                    .map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
                self.dispatchers[dispatcher].add_receive(agent).map_err(Error::unavailable)?;
            } else {
                channel.id = self.orb_replicas.add(Target {
                    token: channel.token,
                    writer,
                    fresh_ns,
                    silence: self.config.silence,
                    each: qos.how == IdlMode::PushOnWrite,
                });
            }
            let to = self.published(dispatcher);
            let offer = Offer {
                node: self.config.name.clone(),
                incarnation: self.incarnation,
                host: to.ip().to_string(),
                port: to.port(),
                channel: channel.id,
                epoch: channel.epoch,
                token: channel.token,
                fragment: fragment as u32,
            };
            step(Step::ReplicaReady);
            match server.open_channel(name, qos, &offer, Some(me)) {
                Ok(handle) => {
                    step(Step::ReplicaOpened);
                    Ok(handle)
                }
                Err(error) => {
                    self.remove_receive(dispatcher, channel.id, datagrams);
                    Err(Error::from(error))
                }
            }
        })();
        match opened {
            Ok(handle) => Ok(Replica {
                qos,
                segment,
                dispatcher,
                datagrams,
                channel: channel.id,
                server,
                handle,
                grant,
                closed: AtomicBool::new(false),
            }),
            Err(error) => {
                self.give_back(grant.as_ref());
                Err(error)
            }
        }
    }

    /// The server of the node that holds an area.
    pub(super) fn locate(&self, name: &str) -> Result<CRM_CommRef, Error> {
        let coordinator = self.coordinator.as_ref().ok_or_else(|| Error::unknown_area(name))?;
        let node = coordinator.locate(name)?;
        node.server.filter(|_| node.name != self.config.name).ok_or_else(|| Error::unknown_area(name))
    }

    /// A replica of this area with these wishes that another reader of this node has.
    pub(super) fn shared_replica(&self, name: &str, qos: &ReaderQoS) -> Option<Arc<Replica>> {
        let tables = self.tables.lock();
        tables.tickets.values().filter(|ticket| ticket.area == name).find_map(|ticket| match &ticket.what {
            What::Replica(replica) if replica.qos == *qos => Some(replica.clone()),
            _ => None,
        })
    }

    /// Closes a replica unless another reader has it, too. Tickets are taken out and entered under the tables' lock.
    pub(super) fn close_unused(&self, replica: Arc<Replica>) {
        let used = {
            let tables = self.tables.lock();
            // Somebody who is about to enter a ticket for it holds it, too.
            Arc::strong_count(&replica) > 1 || tables.tickets.values().any(|ticket| ticket.is_for(&replica))
        };
        if !used {
            self.close_replica(&replica);
        }
    }

    /// Opens channels anew whose writer's node was silent and is there again: its server was restarted, and knows nothing of them.
    pub(super) fn reopen_silent(&self) {
        let mut silent: Vec<(String, Arc<Replica>)> = Vec::new();
        for ticket in self.tables.lock().tickets.values() {
            if let What::Replica(replica) = &ticket.what
                && self.is_silent(replica)
                && !silent.iter().any(|(_, other)| Arc::ptr_eq(other, replica))
            {
                silent.push((ticket.area.clone(), replica.clone()));
            }
        }
        for (name, before) in silent {
            if !self.stop.load(Ordering::Acquire)
                && let Some(replica) = self.reopen(&name, &before)
            {
                let replica = Arc::new(replica);
                for ticket in self.tables.lock().tickets.values_mut() {
                    if ticket.is_for(&before) {
                        ticket.what = What::Replica(replica.clone());
                    }
                }
                self.close_unused(replica);
            }
            self.close_unused(before);
        }
    }

    /// What was counted at this end.
    pub(super) fn receive_stats(&self, replica: &Replica) -> Option<ReceiveStats> {
        match replica.datagrams {
            true => self.dispatchers[replica.dispatcher].receive_stats(replica.channel),
            false => self.orb_replicas.stats(replica.channel),
        }
    }

    pub(super) fn is_silent(&self, replica: &Replica) -> bool {
        replica.closed.load(Ordering::Acquire)
            || self.receive_stats(replica).is_none_or(|stats| stats.is_silent)
    }

    pub(super) fn reopen(&self, name: &str, before: &Replica) -> Option<Replica> {
        // Its server must answer first: only then the memory is taken from the agent that fills it, and given to another.
        let server = self.locate(name).ok()?;
        server.describe(name, 0).ok()?;
        self.forget(before);
        self.open_replica(name, before.qos, server, Some(&before.segment)).ok()
    }

    pub(super) fn close_replica(&self, replica: &Replica) {
        if !self.forget(replica) {
            return;
        }
        // The writer's node may be gone, which is why we are here.
        let _ = replica.server.close_channel(replica.handle);
    }

    /// Ends this end of a channel; false if it was ended before.
    pub(super) fn forget(&self, replica: &Replica) -> bool {
        if replica.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        step(Step::ReplicaForgotten);
        self.remove_receive(replica.dispatcher, replica.channel, replica.datagrams);
        self.give_back(replica.grant.as_ref());
        true
    }

    pub(super) fn remove_receive(&self, dispatcher: usize, channel: u32, datagrams: bool) {
        if datagrams {
            self.dispatchers[dispatcher].remove_receive(channel);
        } else {
            self.orb_replicas.remove(channel);
        }
    }

    /// The writer's end: an agent that pushes.
    pub(super) fn open_channel(
        &self,
        name: &str,
        qos: ReaderQoS,
        offer: &OfferView<'_>,
        reader: Option<&CRM_CommRef>,
    ) -> Result<u64, Error> {
        step(Step::ChannelAsked);
        let (segment, period_ns, bell) = {
            let tables = self.tables.lock();
            let entry = tables.areas.get(name).ok_or_else(|| Error::unknown_area(name))?;
            let session =
                entry.writer.and_then(|ticket| tables.tickets.get(&ticket)).map_or(0, |t| t.session);
            (entry.segment.clone(), entry.period_ns, session)
        };
        let datagrams = qos.through == Path::PathUdp;
        let to = Destination { node: offer.node.into(), port: offer.port, datagrams, channel: offer.channel };
        // What the same channel was before, and whatever an earlier server of that node had.
        self.end_channels(|channel| {
            channel.to == to || (channel.to.node == to.node && channel.incarnation != offer.incarnation)
        });
        step(Step::ChannelReplaced);
        let channel = Channel {
            id: offer.channel,
            epoch: offer.epoch,
            token: offer.token,
            size: segment.geometry().size(),
            fragment: offer.fragment as usize,
            parity: usize::from(qos.parity),
        };
        channel.check().map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
        let grant = self.admit(name, &channel, &qos, period_ns, true)?;
        if grant.is_some() {
            // Before its first push.
            self.refresh_promotions();
        }
        let agent = match qos.through {
            Path::PathUdp => self.start_datagrams(&segment, channel, &qos, offer, grant.as_ref(), bell),
            Path::PathOrb | Path::PathOneway => self.start_orb(&segment, channel, &qos, reader),
        };
        let agent = match agent {
            Ok(agent) => agent,
            Err(error) => {
                self.give_back(grant.as_ref());
                return Err(error);
            }
        };
        let handle = {
            let mut tables = self.tables.lock();
            let handle = tables.number();
            let (area, reader, incarnation) = (name.into(), reader.cloned(), offer.incarnation);
            tables.channels.insert(handle, Outgoing { area, to, reader, incarnation, grant, agent });
            handle
        };
        step(Step::ChannelStarted);
        if grant.is_some() {
            // Another may have been admitted before this one was in the table.
            self.refresh_promotions();
        }
        Ok(handle)
    }

    pub(super) fn start_datagrams(
        &self,
        segment: &Segment,
        channel: Channel,
        qos: &ReaderQoS,
        offer: &OfferView<'_>,
        grant: Option<&Grant>,
        bell: u64,
    ) -> Result<Agent, Error> {
        let host: IpAddr =
            offer.host.parse().map_err(|_| Error::unavailable("the reader's node names no address"))?;
        let guarantee = grant.map(|grant| grant.guarantee);
        let spec = PushSpec {
            channel,
            to: SocketAddr::new(host, offer.port),
            source: segment.reader()?,
            mode: mode(qos),
            guarantee,
            rate: self.rate(&channel, guarantee),
            burst: 4 * channel.fragment,
        };
        let agent =
            PushAgent::new(spec).map_err(|error| Error::wrong_size(error.what, error.asked, error.limit))?;
        let dispatcher = channel.id as usize % self.dispatchers.len();
        segment.set_bell(true)?;
        let key = self.dispatchers[dispatcher].add_push(agent, bell).map_err(Error::unavailable)?;
        Ok(Agent::Datagrams { dispatcher, key })
    }

    pub(super) fn start_orb(
        &self,
        segment: &Segment,
        channel: Channel,
        qos: &ReaderQoS,
        reader: Option<&CRM_CommRef>,
    ) -> Result<Agent, Error> {
        let reader = reader.ok_or_else(|| Error::unavailable("the reader's node gave no reference"))?;
        let limit = self.config.limits.orb_channels;
        if self.orb_channels.fetch_add(1, Ordering::Relaxed) >= limit {
            self.orb_channels.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::wrong_size("the number of channels on the ORB's path", limit + 1, limit));
        }
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let push = OrbPush {
            source: segment.reader()?,
            channel,
            reader: reader.clone(),
            mode: mode(qos),
            oneway: qos.through == Path::PathOneway,
            stop: stop.clone(),
            running: running.clone(),
        };
        push.start().inspect_err(|_| {
            self.orb_channels.fetch_sub(1, Ordering::Relaxed);
        })?;
        Ok(Agent::Orb { stop, running })
    }

    /// Bytes a second: a guaranteed push leaves within a quarter of its time, others may have the link.
    pub(super) fn rate(&self, channel: &Channel, guarantee: Option<Guarantee>) -> u64 {
        let link = self.config.admission.link_bits_per_s / 8;
        match guarantee {
            Some(guarantee) => {
                let bytes = channel.wire_bytes(channel.size) as u128;
                let rate = bytes * 4_000_000_000 / u128::from(guarantee.deadline_ns.max(1));
                u64::try_from(rate).unwrap_or(u64::MAX).min(link)
            }
            None => link,
        }
    }

    pub(super) fn close_channel(&self, handle: u64) -> Result<(), Error> {
        let channel =
            self.tables.lock().channels.remove(&handle).ok_or_else(|| Error::unknown_handle(handle))?;
        self.end(channel);
        step(Step::ChannelClosed);
        Ok(())
    }

    pub(super) fn run_channel(&self, handle: u64, run: bool) -> Result<(), Error> {
        let tables = self.tables.lock();
        match &tables.channels.get(&handle).ok_or_else(|| Error::unknown_handle(handle))?.agent {
            Agent::Datagrams { dispatcher, key } => {
                self.dispatchers[*dispatcher].set_running(*key, run);
            }
            Agent::Orb { running, .. } => running.store(run, Ordering::Release),
        }
        Ok(())
    }

    /// Ends all channels of which this is so.
    pub(super) fn end_channels(&self, so: impl Fn(&Outgoing) -> bool) {
        let ended: Vec<Outgoing> = {
            let mut tables = self.tables.lock();
            tables.channels.extract_if(|_, channel| so(channel)).map(|(_, channel)| channel).collect()
        };
        ended.into_iter().for_each(|channel| self.end(channel));
    }

    pub(super) fn end(&self, channel: Outgoing) {
        match channel.agent {
            Agent::Datagrams { dispatcher, key } => {
                self.dispatchers[dispatcher].remove_push(key);
            }
            Agent::Orb { stop, .. } => {
                stop.store(true, Ordering::Release);
                self.orb_channels.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.give_back(channel.grant.as_ref());
    }

    /// Admits one end of a guaranteed channel.
    pub(super) fn admit(
        &self,
        name: &str,
        channel: &Channel,
        qos: &ReaderQoS,
        writer_period: u64,
        pushes: bool,
    ) -> Result<Option<Grant>, Error> {
        if !qos.guaranteed {
            return Ok(None);
        }
        let refuse = |resource: &str, reason: String, period: Option<u64>, deadline: Option<u64>| {
            Error::NotAdmitted(NotAdmitted {
                resource: resource.into(),
                reason,
                nearest_period: period.unwrap_or(0),
                nearest_deadline: deadline.unwrap_or(0),
            })
        };
        if matches!(qos.through, Path::PathOrb | Path::PathOneway) {
            return Err(refuse("path", "the ORB's path guarantees no time".into(), None, None));
        }
        let period_ns = interval(qos, writer_period);
        if period_ns == 0 || qos.deadline == 0 {
            let reason = format!(
                "{name} cannot be guaranteed: its writer's period is {writer_period} ns, the deadline {} ns",
                qos.deadline
            );
            return Err(refuse("declaration", reason, None, None));
        }
        let wish = Wish { period_ns, deadline_ns: qos.deadline };
        let mut admission = self.admission.lock();
        let answer = if pushes {
            admission.admit_push(name, channel, wish)
        } else {
            admission.admit_receive(name, channel, wish)
        };
        answer.map(Some).map_err(|refused: Refused| {
            let (period, deadline) = (refused.nearest_period_ns, refused.nearest_deadline_ns);
            refuse(
                &refused.resource.to_string(),
                format!("node {}: {refused}", self.config.name),
                period,
                deadline,
            )
        })
    }

    /// Those who were admitted before take longer now, and have to be promoted sooner.
    fn refresh_promotions(&self) {
        let tables = self.tables.lock();
        let admission = self.admission.lock();
        for (number, dispatcher) in self.dispatchers.iter().enumerate() {
            let pushes =
                tables.channels.values().filter_map(|channel| match (&channel.agent, &channel.grant) {
                    (Agent::Datagrams { dispatcher, key }, Some(grant)) if *dispatcher == number => {
                        Some((*key, admission.promotion(grant)))
                    }
                    _ => None,
                });
            dispatcher.set_promotions(pushes);
        }
    }

    pub(super) fn give_back(&self, grant: Option<&Grant>) {
        if let Some(grant) = grant {
            self.admission.lock().release(grant);
        }
    }
}

/// No push comes more often than this.
const MIN_PERIOD_NS: u64 = 50_000;

fn mode(qos: &ReaderQoS) -> Mode {
    match qos.how {
        IdlMode::PushOnWrite => Mode::OnWrite,
        IdlMode::PeriodicPush => Mode::Periodic { period_ns: qos.period.max(MIN_PERIOD_NS) },
    }
}

/// How far apart values are that a reader can expect.
pub(crate) fn interval(qos: &ReaderQoS, writer_period: u64) -> u64 {
    match qos.how {
        IdlMode::PushOnWrite => writer_period,
        IdlMode::PeriodicPush => qos.period.max(writer_period),
    }
}
