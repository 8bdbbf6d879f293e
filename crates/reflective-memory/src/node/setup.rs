//! Areas and tickets: what the servants do.

use super::Shared;
use super::doorbells::Doorbell;
use super::tables::{Agent, AreaEntry, Replica, Ticket, What};
use crate::Error;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{Area, Description, ReaderQoS, State as IdlState, Statistics, WriterQoS};
use crate::memory::{Geometry, Segment, State};
use crate::session_socket::{self, Kind};
use isorb_rt::Errno;
use isorb_rt::time::Deadline;
use rustix::fd::AsFd;
use rustix::net::RecvFlags;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Shared {
    pub fn create_area(&self, session: u64, what: Area) -> Result<(), Error> {
        let geometry = geometry_of(&what)?;
        let limits = &self.config.limits;
        {
            let mut tables = self.tables.lock();
            tables.is_session(session)?;
            if let Some(there) = tables.area_called(&what.name) {
                return Err(Error::AreaExists(crate::idl::AreaExists { what: there.clone() }));
            }
            let areas = tables.areas.len() + tables.making.len();
            if areas >= limits.areas {
                return Err(Error::wrong_size("the number of areas", areas + 1, limits.areas));
            }
            let bytes = tables.bytes.saturating_add(geometry.total_bytes());
            if bytes > limits.bytes {
                return Err(Error::wrong_size("the memory of this node", bytes, limits.bytes));
            }
            // Whoever asks for the same name while the coordinator takes its time comes too late.
            tables.making.insert(what.name.clone(), what.clone());
            tables.told.changed();
            tables.bytes = bytes;
        }
        fail_point(FailPoint::CreateAsked);
        let made = self.register_and_make(&what, geometry);
        let mut tables = self.tables.lock();
        tables.making.remove(&what.name);
        if made.is_err() {
            tables.told.changed();
        }
        match made {
            Ok(segment) => {
                let promised = WriterQoS::default();
                let entry =
                    AreaEntry { what, segment, writer: None, promised, adopted_from: None, unasked: false };
                tables.areas.insert(entry.what.name.clone(), entry);
            }
            Err(error) => {
                tables.bytes = tables.bytes.saturating_sub(geometry.total_bytes());
                return Err(error);
            }
        }
        fail_point(FailPoint::Created);
        Ok(())
    }

    fn register_and_make(&self, what: &Area, geometry: Geometry) -> Result<Segment, Error> {
        if let Some(coordinator) = &self.coordinator {
            // It may think that we hold an area of this name still.
            if self.tables.lock().told.owes() {
                self.register().map_err(|error| self.unanswered("the coordinator", error))?;
            }
            coordinator.call(|glob| glob.register_area(&self.config.name, what)).map_err(|error| {
                if !matches!(error, Error::AreaExists(_)) {
                    // It may have heard us, though we did not hear it.
                    self.tables.lock().told.failed();
                }
                match self.unanswered("the coordinator", error) {
                    Error::UnknownNode(_) => {
                        Error::unavailable("the coordinator has just been restarted; try again")
                    }
                    other => other,
                }
            })?;
        }
        fail_point(FailPoint::CreateRegistered);
        Segment::create(&what.name, geometry).map_err(|error| {
            self.unregister(&what.name);
            error.into()
        })
    }

    pub fn destroy_area(&self, session: u64, name: &str) -> Result<(), Error> {
        let (entry, channels) = {
            let mut tables = self.tables.lock();
            tables.is_session(session)?;
            tables.take_area(name).ok_or_else(|| Error::unknown_area(name))?
        };
        fail_point(FailPoint::DestroyTaken);
        entry.segment.set_state(State::Destroyed)?;
        fail_point(FailPoint::DestroyTold);
        // Their readers hear it from the heartbeat that says so; then the agents go. Nobody waits for that here.
        let told = Duration::from_nanos(self.config.dispatcher.scheduler.heartbeat_ns * 3 / 2);
        let told = Deadline::after(told);
        self.tables.lock().leaving.extend(channels.into_iter().map(|channel| (told, channel)));
        self.unregister(name);
        fail_point(FailPoint::DestroyEnded);
        Ok(())
    }

    /// Ends the agents of areas that were destroyed, once their readers have heard of it.
    pub(super) fn end_leaving(&self) {
        let gone: Vec<_> = self.tables.lock().leaving.extract_if(.., |(told, _)| told.is_past()).collect();
        for (_, channel) in gone {
            self.end(channel);
        }
    }

    pub fn map_writer(&self, session: u64, name: &str, qos: WriterQoS) -> Result<u64, Error> {
        let mut tables = self.tables.lock();
        let entry = tables.areas.get(name).ok_or_else(|| Error::unknown_area(name))?;
        let (asked, limit) = (qos.size as usize, entry.what.size as usize);
        if asked > limit {
            return Err(Error::wrong_size("the writer's largest value", asked, limit));
        }
        self.keeps_what_was_admitted(&tables, name, largest(&qos, limit))?;
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
            if let Some(Ticket { what: What::Writer(doorbell), .. }) = tables.tickets.remove(&ticket) {
                self.forget_doorbell(doorbell.number());
            }
        }
        let doorbell = Doorbell::new(tables.number())?;
        let ticket = self.ticket(&mut tables, session, name, What::Writer(doorbell.clone()))?;
        let Some(entry) = tables.areas.get_mut(name) else { return Err(Error::unknown_area(name)) };
        entry.writer = Some(ticket);
        entry.promised = qos;
        fail_point(FailPoint::WriterEntered);
        let segment = entry.segment.clone();
        let welcome = || {
            segment.set_period(qos.period)?;
            let descriptor = segment.writable_fd()?;
            // Before it can write.
            self.move_doorbells(&tables, name, &doorbell)?;
            let descriptors = [descriptor.as_fd(), doorbell.as_fd()];
            self.hand_over(&tables, session, ticket, name, Kind::Segment, &descriptors)
        };
        if let Err(error) = welcome() {
            tables.tickets.remove(&ticket);
            if let Some(entry) = tables.areas.get_mut(name) {
                entry.writer = None;
            }
            self.forget_doorbell(doorbell.number());
            return Err(error);
        }
        fail_point(FailPoint::WriterHandedOver);
        Ok(ticket)
    }

    /// Guaranteed readers elsewhere were admitted with values that an earlier writer promised; a later one may not write larger ones.
    fn keeps_what_was_admitted(&self, tables: &super::Tables, name: &str, size: usize) -> Result<(), Error> {
        let of_it = tables.channels.values().filter(|channel| channel.area == name);
        match of_it.filter_map(|channel| channel.grant.as_ref()).map(|grant| grant.size).min() {
            Some(admitted) if size > admitted => Err(Error::wrong_size(
                "the writer's largest value, with its guaranteed readers,",
                size,
                admitted,
            )),
            _ => Ok(()),
        }
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
                // Nothing to be admitted: what is written is there.
                let descriptor = segment.read_only_fd()?;
                let ticket = self.ticket(&mut tables, session, name, What::Local)?;
                fail_point(FailPoint::ReaderEntered);
                let given =
                    self.hand_over(&tables, session, ticket, name, Kind::Segment, &[descriptor.as_fd()]);
                given.inspect_err(|_| drop(tables.tickets.remove(&ticket)))?;
                fail_point(FailPoint::ReaderHandedOver);
                return Ok(ticket);
            }
        }
        let known = self.shared_replica(name, &qos);
        let replica = match known {
            Some(replica) => replica,
            None => Arc::new(self.open_replica(name, qos, qos.through, self.locate(name)?, None)?),
        };
        let entered = self.enter_replica(session, name, &replica);
        if entered.is_err() {
            self.close_unused(replica);
        }
        entered
    }

    /// A ticket for a replica that is kept until here.
    fn enter_replica(&self, session: u64, name: &str, replica: &Arc<Replica>) -> Result<u64, Error> {
        let mut tables = self.tables.lock();
        replica.entering.fetch_sub(1, Ordering::AcqRel);
        let descriptor = replica.segment.read_only_fd()?;
        let ticket = self.ticket(&mut tables, session, name, What::Replica(replica.clone()))?;
        let given = self.hand_over(&tables, session, ticket, name, Kind::Replica, &[descriptor.as_fd()]);
        given.inspect_err(|_| drop(tables.tickets.remove(&ticket)))?;
        fail_point(FailPoint::ReplicaHandedOver);
        Ok(ticket)
    }

    pub fn detach(&self, session: u64, ticket: u64) -> Result<(), Error> {
        let ended = {
            let mut tables = self.tables.lock();
            self.check(&tables, session, ticket)?;
            tables.tickets.remove(&ticket).ok_or_else(|| Error::unknown_handle(ticket))?
        };
        self.ended(ticket, ended);
        fail_point(FailPoint::Detached);
        Ok(())
    }

    /// A writer or reader is gone.
    pub(super) fn ended(&self, number: u64, ticket: Ticket) {
        match ticket.what {
            What::Writer(doorbell) => {
                self.forget_doorbell(doorbell.number());
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
        let replica = {
            let tables = self.tables.lock();
            self.check(&tables, session, ticket)?;
            match tables.tickets.get(&ticket).map(|ticket| &ticket.what) {
                Some(What::Replica(replica)) => {
                    replica.stopped.store(!running, Ordering::Release);
                    replica.clone()
                }
                Some(_) => return Err(Error::unavailable("this is no channel from another node")),
                None => return Err(Error::unknown_handle(ticket)),
            }
        };
        self.run(&replica, running)
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
            && let Some(stats) = self.receive_stats(replica)
        {
            let c = &stats.counters;
            statistics.lost = c.not_complete();
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
        let dispatcher = channel as usize % self.dispatchers.len();
        let (address, (second_host, second_port)) =
            (self.published(dispatcher), self.published_second(dispatcher));
        Ok(Description {
            what: entry.what.clone(),
            identity: entry.segment.identity(),
            writer: entry.promised,
            host: address.ip().to_string(),
            port: address.port(),
            second_host,
            second_port,
        })
    }

    pub(super) fn ticket(
        &self,
        tables: &mut super::Tables,
        session: u64,
        area: &str,
        what: What,
    ) -> Result<u64, Error> {
        tables.is_session(session)?;
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

    pub(super) fn check(&self, tables: &super::Tables, session: u64, ticket: u64) -> Result<(), Error> {
        match tables.tickets.get(&ticket) {
            Some(entry) if entry.session == session => Ok(()),
            _ => Err(Error::unknown_handle(ticket)),
        }
    }

    pub(super) fn hand_over(
        &self,
        tables: &super::Tables,
        session: u64,
        ticket: u64,
        name: &str,
        kind: Kind,
        descriptors: &[rustix::fd::BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let Some(session) = tables.sessions.get(&session) else {
            return Err(Error::unavailable("there is no such session"));
        };
        Ok(session_socket::send(&*session.socket, kind, ticket, name, descriptors)?)
    }

    /// This doorbell rings for all pushes of an area.
    pub(super) fn move_doorbells(
        &self,
        tables: &super::Tables,
        name: &str,
        doorbell: &Doorbell,
    ) -> Result<(), Errno> {
        for channel in tables.channels.values().filter(|channel| channel.area == name) {
            if let Agent::Datagrams { dispatcher, key } = channel.agent {
                self.dispatchers[dispatcher].hear(key, doorbell)?;
            }
        }
        Ok(())
    }

    /// Its writer is gone. The process may keep its end, and as long as it does the kernel would let it ring.
    pub(super) fn forget_doorbell(&self, number: u64) {
        self.dispatchers.iter().for_each(|dispatcher| dispatcher.forget_doorbell(number));
    }

    pub(super) fn least_used(&self) -> usize {
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

/// Bytes of the largest value of a writer that promised this, in an area of `size` bytes.
pub(crate) fn largest(promised: &WriterQoS, size: usize) -> usize {
    match promised.size as usize {
        0 => size,
        promised => promised.min(size),
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

pub(crate) fn memory_state(state: IdlState) -> State {
    match state {
        IdlState::StateOpen => State::Open,
        IdlState::StateStopped => State::Stopped,
        IdlState::StateStale => State::Stale,
        IdlState::StateDestroyed => State::Destroyed,
        IdlState::StateMoved => State::Moved,
        IdlState::StateWriterGone => State::WriterGone,
    }
}
