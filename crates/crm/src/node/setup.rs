//! Areas, tickets and channels: what the servants do.

use super::tables::{Agent, AreaEntry, Channel as Outgoing, Destination, Replica, Ticket, What};
use super::{Shared, secret};
use crate::Error;
use crate::admission::{Grant, Refused, Wish};
use crate::idl::{
    Area, CRM_CommRef, Description, Mode as IdlMode, NotAdmitted, Offer, OfferView, Path, ReaderQoS,
    State as IdlState, Statistics, WriterQoS,
};
use crate::memory::{Geometry, Segment, State};
use crate::passing::{self, Kind};
use crate::plane::{Guarantee, Mode, PushAgent, PushSpec, ReceiveAgent, ReceiveSpec};
use crate::wire::Channel;
use rustix::fd::AsFd;
use rustix::net::RecvFlags;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Shared {
    pub fn create_area(&self, what: Area) -> Result<(), Error> {
        let geometry = geometry_of(&what)?;
        let limits = &self.config.limits;
        {
            let tables = self.tables.lock();
            if let Some(entry) = tables.areas.get(&what.name) {
                return Err(Error::AreaExists(crate::idl::AreaExists { what: entry.what.clone() }));
            }
            if tables.areas.len() >= limits.areas {
                return Err(Error::wrong_size("the number of areas", tables.areas.len() + 1, limits.areas));
            }
            let bytes = tables.bytes.saturating_add(geometry.total_bytes());
            if bytes > limits.bytes {
                return Err(Error::wrong_size("the memory of this node", bytes, limits.bytes));
            }
        }
        if let Some(coordinator) = &self.coordinator {
            coordinator.register_area(&self.config.name, &what).map_err(|error| {
                match Error::from(error) {
                    Error::UnknownNode(_) => {
                        Error::unavailable("the coordinator has just been restarted; try again")
                    }
                    other => other,
                }
            })?;
        }
        let segment = Segment::create(&what.name, geometry)?;
        let mut tables = self.tables.lock();
        tables.bytes += geometry.total_bytes();
        tables.areas.insert(what.name.clone(), AreaEntry { what, segment, writer: None, period_ns: 0 });
        Ok(())
    }

    pub fn destroy_area(&self, name: &str) -> Result<(), Error> {
        let (entry, channels) = {
            let mut tables = self.tables.lock();
            let entry = tables.areas.remove(name).ok_or_else(|| Error::unknown_area(name))?;
            tables.bytes = tables.bytes.saturating_sub(entry.segment.geometry().total_bytes());
            let of_it: Vec<u64> =
                tables.channels.iter().filter(|(_, c)| c.area == name).map(|(handle, _)| *handle).collect();
            let channels: Vec<Outgoing> =
                of_it.iter().filter_map(|handle| tables.channels.remove(handle)).collect();
            (entry, channels)
        };
        entry.segment.set_state(State::Destroyed)?;
        // Their readers hear it from the heartbeat that says so; then the agents go.
        std::thread::sleep(std::time::Duration::from_nanos(
            self.config.dispatcher.plane.heartbeat_ns * 3 / 2,
        ));
        channels.into_iter().for_each(|channel| self.end(channel));
        if let Some(coordinator) = &self.coordinator {
            coordinator.unregister_area(&self.config.name, name)?;
        }
        Ok(())
    }

    pub fn map_writer(&self, session: u64, name: &str, qos: WriterQoS) -> Result<u64, Error> {
        let mut tables = self.tables.lock();
        let entry = tables.areas.get(name).ok_or_else(|| Error::unknown_area(name))?;
        if let Some(ticket) = entry.writer {
            let holder = tables.tickets.get(&ticket).map(|ticket| ticket.session);
            let socket =
                holder.and_then(|holder| tables.sessions.get(&holder)).map(|session| session.socket.clone());
            // A process that has just been killed may not have been noticed yet.
            let gone = socket.is_none_or(|socket| {
                rustix::net::recv(&*socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)
                    .is_ok_and(|(_, octets)| octets == 0)
            });
            if !gone {
                return Err(Error::WriterExists(crate::idl::WriterExists { name: name.into() }));
            }
            tables.tickets.remove(&ticket);
        }
        let ticket = self.ticket(&mut tables, session, name, What::Writer)?;
        let Some(entry) = tables.areas.get_mut(name) else { return Err(Error::unknown_area(name)) };
        entry.writer = Some(ticket);
        entry.period_ns = qos.period;
        let descriptor = entry.segment.writable_fd()?;
        self.hand_over(&tables, session, ticket, name, descriptor.as_fd())?;
        self.move_bells(&tables, name, session);
        Ok(ticket)
    }

    pub fn attach_reader(self: &Arc<Self>, session: u64, name: &str, qos: ReaderQoS) -> Result<u64, Error> {
        {
            let mut tables = self.tables.lock();
            if let Some(entry) = tables.areas.get(name) {
                let segment = entry.segment.clone();
                let histories = segment.geometry().histories();
                if qos.histories as usize > histories {
                    return Err(Error::wrong_size(
                        "the number of histories",
                        qos.histories as usize,
                        histories,
                    ));
                }
                let ticket = self.ticket(&mut tables, session, name, What::Local)?;
                let descriptor = segment.read_only_fd()?;
                self.hand_over(&tables, session, ticket, name, descriptor.as_fd())?;
                return Ok(ticket);
            }
        }
        let known = self.shared_replica(name, &qos);
        let replica = match known {
            Some(replica) => replica,
            None => Arc::new(self.open_replica(name, qos, self.locate(name)?, None)?),
        };
        let mut tables = self.tables.lock();
        let descriptor = replica.segment.read_only_fd()?;
        let ticket = match self.ticket(&mut tables, session, name, What::Replica(replica.clone())) {
            Ok(ticket) => ticket,
            Err(error) => {
                drop(tables);
                self.close_unused(replica);
                return Err(error);
            }
        };
        self.hand_over(&tables, session, ticket, name, descriptor.as_fd())?;
        Ok(ticket)
    }

    pub fn detach(&self, session: u64, ticket: u64) -> Result<(), Error> {
        let ended = {
            let mut tables = self.tables.lock();
            self.check(&tables, session, ticket)?;
            tables.tickets.remove(&ticket).ok_or_else(|| Error::unknown_handle(ticket))?
        };
        self.ended(ticket, ended);
        Ok(())
    }

    /// A writer or reader is gone.
    pub(super) fn ended(&self, number: u64, ticket: Ticket) {
        match ticket.what {
            What::Writer => {
                let mut tables = self.tables.lock();
                if let Some(entry) =
                    tables.areas.get_mut(&ticket.area).filter(|entry| entry.writer == Some(number))
                {
                    entry.writer = None;
                    let _ = entry.segment.set_state(State::WriterGone);
                }
            }
            What::Local => {}
            What::Replica(replica) => self.close_unused(replica),
        }
    }

    pub fn set_running(&self, session: u64, ticket: u64, running: bool) -> Result<(), Error> {
        let (server, handle) = {
            let tables = self.tables.lock();
            self.check(&tables, session, ticket)?;
            match tables.tickets.get(&ticket).map(|ticket| &ticket.what) {
                Some(What::Replica(replica)) => (replica.server.clone(), replica.handle),
                Some(_) => return Err(Error::unavailable("this is no channel from another node")),
                None => return Err(Error::unknown_handle(ticket)),
            }
        };
        server.set_running(handle, running).map_err(Error::from)
    }

    pub fn statistics(&self, session: u64, ticket: u64) -> Result<Statistics, Error> {
        let tables = self.tables.lock();
        self.check(&tables, session, ticket)?;
        let ticket = tables.tickets.get(&ticket).ok_or_else(|| Error::unknown_handle(ticket))?;
        let segment = match &ticket.what {
            What::Replica(replica) => replica.segment.clone(),
            _ => tables
                .areas
                .get(&ticket.area)
                .ok_or_else(|| Error::unknown_area(&ticket.area))?
                .segment
                .clone(),
        };
        let mut statistics = Statistics {
            now: idl_state(segment.state()),
            values: segment.reader()?.sequence(),
            lost: 0,
            recovered: 0,
            ignored: 0,
            stale: 0,
            silent: 0,
            worst_age: 0,
        };
        if let What::Replica(replica) = &ticket.what
            && replica.datagrams
            && let Some(stats) = self.dispatchers[replica.dispatcher].receive_stats(replica.channel)
        {
            let c = &stats.counters;
            statistics.lost = c.lost + c.incomplete;
            statistics.recovered = c.recovered;
            statistics.ignored = c.repeated + c.late + c.forged + c.other_epoch + c.malformed;
            statistics.stale = stats.stale;
            statistics.silent = stats.silent;
            statistics.worst_age = stats.worst_age_ns;
        }
        Ok(statistics)
    }

    pub fn describe(&self, name: &str, channel: u32) -> Result<Description, Error> {
        let tables = self.tables.lock();
        let entry = tables.areas.get(name).ok_or_else(|| Error::unknown_area(name))?;
        let address = self.published(channel as usize % self.dispatchers.len());
        Ok(Description {
            what: entry.what.clone(),
            writer: WriterQoS { period: entry.period_ns },
            host: address.ip().to_string(),
            port: address.port(),
        })
    }

    /// The reader's end: a replica, and an agent that fills it.
    /// With `before`, the replica that was filled until the writer's node fell silent goes on to be filled.
    fn open_replica(
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
            if datagrams {
                let _reserved = self.reserving.lock();
                channel.id = self.dispatchers[dispatcher].next_channel().map_err(Error::unavailable)?;
                let place = server.describe(name, channel.id)?;
                let host: IpAddr = place
                    .host
                    .parse()
                    .map_err(|_| Error::unavailable("the writer's node names no address"))?;
                let fresh_ns = (qos.deadline > 0).then(|| qos.deadline + interval(&qos, place.writer.period));
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
                channel.id = self.orb_replicas.add(channel.token, writer);
            }
            let to = self.published(dispatcher);
            let offer = Offer {
                node: self.config.name.clone(),
                host: to.ip().to_string(),
                port: to.port(),
                channel: channel.id,
                epoch: channel.epoch,
                token: channel.token,
                fragment: fragment as u32,
            };
            match server.open_channel(name, qos, &offer, Some(me)) {
                Ok(handle) => Ok(handle),
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
    fn locate(&self, name: &str) -> Result<CRM_CommRef, Error> {
        let coordinator = self.coordinator.as_ref().ok_or_else(|| Error::unknown_area(name))?;
        let node = coordinator.locate(name)?;
        node.server.filter(|_| node.name != self.config.name).ok_or_else(|| Error::unknown_area(name))
    }

    /// A replica of this area with these wishes that another reader of this node has.
    fn shared_replica(&self, name: &str, qos: &ReaderQoS) -> Option<Arc<Replica>> {
        let tables = self.tables.lock();
        tables.tickets.values().filter(|ticket| ticket.area == name).find_map(|ticket| match &ticket.what {
            What::Replica(replica) if replica.qos == *qos => Some(replica.clone()),
            _ => None,
        })
    }

    /// Closes a replica unless another reader has it, too. Tickets are taken out and entered under the tables' lock.
    fn close_unused(&self, replica: Arc<Replica>) {
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

    fn is_silent(&self, replica: &Replica) -> bool {
        replica.closed.load(Ordering::Acquire)
            || match replica.datagrams {
                true => self.dispatchers[replica.dispatcher]
                    .receive_stats(replica.channel)
                    .is_none_or(|stats| stats.is_silent),
                false => self.orb_replicas.is_gone(replica.channel),
            }
    }

    fn reopen(&self, name: &str, before: &Replica) -> Option<Replica> {
        // Its server must answer first: only then the memory is taken from the agent that fills it, and given to another.
        let server = self.locate(name).ok()?;
        server.describe(name, 0).ok()?;
        self.forget(before);
        self.open_replica(name, before.qos, server, Some(&before.segment)).ok()
    }

    fn close_replica(&self, replica: &Replica) {
        if !self.forget(replica) {
            return;
        }
        // The writer's node may be gone, which is why we are here.
        let _ = replica.server.close_channel(replica.handle);
    }

    /// Ends this end of a channel; false if it was ended before.
    fn forget(&self, replica: &Replica) -> bool {
        if replica.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.remove_receive(replica.dispatcher, replica.channel, replica.datagrams);
        self.give_back(replica.grant.as_ref());
        true
    }

    fn remove_receive(&self, dispatcher: usize, channel: u32, datagrams: bool) {
        if datagrams {
            self.dispatchers[dispatcher].remove_receive(channel);
        } else {
            self.orb_replicas.remove(channel);
        }
    }

    /// The writer's end: an agent that pushes.
    pub fn open_channel(
        &self,
        name: &str,
        qos: ReaderQoS,
        offer: &OfferView<'_>,
        reader: Option<&CRM_CommRef>,
    ) -> Result<u64, Error> {
        let (segment, period_ns, bell) = {
            let tables = self.tables.lock();
            let entry = tables.areas.get(name).ok_or_else(|| Error::unknown_area(name))?;
            let session =
                entry.writer.and_then(|ticket| tables.tickets.get(&ticket)).map_or(0, |t| t.session);
            (entry.segment.clone(), entry.period_ns, session)
        };
        let datagrams = qos.through == Path::PathUdp;
        let to = Destination { node: offer.node.into(), port: offer.port, datagrams, channel: offer.channel };
        let before = {
            let mut tables = self.tables.lock();
            let handle =
                tables.channels.iter().find(|(_, channel)| channel.to == to).map(|(handle, _)| *handle);
            handle.and_then(|handle| tables.channels.remove(&handle))
        };
        if let Some(before) = before {
            self.end(before);
        }
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
        let agent = match qos.through {
            Path::PathUdp => self.start_datagrams(&segment, channel, &qos, offer, grant.as_ref(), bell),
            Path::PathOrb => self.start_orb(&segment, channel, reader),
        };
        let agent = match agent {
            Ok(agent) => agent,
            Err(error) => {
                self.give_back(grant.as_ref());
                return Err(error);
            }
        };
        let mut tables = self.tables.lock();
        let handle = tables.number();
        tables.channels.insert(handle, Outgoing { area: name.into(), to, grant, agent });
        Ok(handle)
    }

    fn start_datagrams(
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
            mode: match qos.how {
                IdlMode::PushOnWrite => Mode::OnWrite,
                IdlMode::PeriodicPush => Mode::Periodic { period_ns: qos.period.max(MIN_PERIOD_NS) },
            },
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

    fn start_orb(
        &self,
        segment: &Segment,
        channel: Channel,
        reader: Option<&CRM_CommRef>,
    ) -> Result<Agent, Error> {
        let reader = reader.ok_or_else(|| Error::unavailable("the reader's node gave no reference"))?;
        let limit = self.config.limits.orb_channels;
        if self.orb_channels.fetch_add(1, Ordering::Relaxed) >= limit {
            self.orb_channels.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::wrong_size("the number of channels on the ORB's path", limit + 1, limit));
        }
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        super::orb_path::start(segment.reader()?, channel, reader.clone(), stop.clone(), running.clone())?;
        Ok(Agent::Orb { stop, running })
    }

    /// Bytes a second: a guaranteed push leaves within a quarter of its time, others may have the link.
    fn rate(&self, channel: &Channel, guarantee: Option<Guarantee>) -> u64 {
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

    pub fn close_channel(&self, handle: u64) -> Result<(), Error> {
        let channel =
            self.tables.lock().channels.remove(&handle).ok_or_else(|| Error::unknown_handle(handle))?;
        self.end(channel);
        Ok(())
    }

    pub fn run_channel(&self, handle: u64, run: bool) -> Result<(), Error> {
        let tables = self.tables.lock();
        match &tables.channels.get(&handle).ok_or_else(|| Error::unknown_handle(handle))?.agent {
            Agent::Datagrams { dispatcher, key } => {
                self.dispatchers[*dispatcher].set_running(*key, run);
            }
            Agent::Orb { running, .. } => running.store(run, Ordering::Release),
        }
        Ok(())
    }

    fn end(&self, channel: Outgoing) {
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
    fn admit(
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
        if qos.through == Path::PathOrb {
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

    fn give_back(&self, grant: Option<&Grant>) {
        if let Some(grant) = grant {
            self.admission.lock().release(grant);
        }
    }

    fn ticket(&self, tables: &mut super::Tables, session: u64, area: &str, what: What) -> Result<u64, Error> {
        if !tables.sessions.contains_key(&session) {
            return Err(Error::unavailable("there is no such session"));
        }
        let limit = self.config.limits.attachments;
        if tables.tickets.len() >= limit {
            return Err(Error::unavailable(format_args!(
                "there are {limit} attachments, and no more may be"
            )));
        }
        let ticket = tables.number();
        tables.tickets.insert(ticket, Ticket { session, area: area.into(), what });
        Ok(ticket)
    }

    fn check(&self, tables: &super::Tables, session: u64, ticket: u64) -> Result<(), Error> {
        match tables.tickets.get(&ticket) {
            Some(entry) if entry.session == session => Ok(()),
            _ => Err(Error::unknown_handle(ticket)),
        }
    }

    fn hand_over(
        &self,
        tables: &super::Tables,
        session: u64,
        ticket: u64,
        name: &str,
        descriptor: rustix::fd::BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let Some(session) = tables.sessions.get(&session) else {
            return Err(Error::unavailable("there is no such session"));
        };
        Ok(passing::send(&*session.socket, Kind::Segment, ticket, name, Some(descriptor))?)
    }

    /// The bell of this session rings for all pushes of an area.
    pub(super) fn move_bells(&self, tables: &super::Tables, name: &str, session: u64) {
        for (index, dispatcher) in self.dispatchers.iter().enumerate() {
            let keys: Vec<_> = tables
                .channels
                .values()
                .filter(|channel| channel.area == name)
                .filter_map(|channel| match channel.agent {
                    Agent::Datagrams { dispatcher, key } if dispatcher == index => Some(key),
                    _ => None,
                })
                .collect();
            if !keys.is_empty() {
                dispatcher.move_bell(&keys, session);
            }
        }
    }

    fn least_used(&self) -> usize {
        let tables = self.tables.lock();
        let mut used = vec![0_usize; self.dispatchers.len()];
        for ticket in tables.tickets.values() {
            if let What::Replica(replica) = &ticket.what {
                used[replica.dispatcher] += 1;
            }
        }
        used.iter().enumerate().min_by_key(|(_, count)| **count).map_or(0, |(index, _)| index)
    }
}

/// No push comes more often than this.
const MIN_PERIOD_NS: u64 = 50_000;

/// How far apart values are that a reader can expect.
fn interval(qos: &ReaderQoS, writer_period: u64) -> u64 {
    match qos.how {
        IdlMode::PushOnWrite => writer_period,
        IdlMode::PeriodicPush => qos.period.max(writer_period),
    }
}

pub(crate) fn geometry_of(what: &Area) -> Result<Geometry, Error> {
    use crate::memory::GeometryError;
    Geometry::new(what.size as usize, what.histories as usize).map_err(|error| match error {
        GeometryError::Size { asked, limit } => Error::wrong_size("the size", asked, limit),
        GeometryError::Histories { asked, limit } => {
            Error::wrong_size("the number of histories", asked, limit)
        }
        GeometryError::Total { asked, limit } => Error::wrong_size("the segment", asked, limit),
    })
}

pub(crate) fn idl_state(state: Option<State>) -> IdlState {
    match state {
        Some(State::Open) => IdlState::StateOpen,
        Some(State::Stopped) => IdlState::StateStopped,
        Some(State::Stale) => IdlState::StateStale,
        Some(State::Destroyed) => IdlState::StateDestroyed,
        Some(State::Moved) => IdlState::StateMoved,
        Some(State::WriterGone) | None => IdlState::StateWriterGone,
    }
}
