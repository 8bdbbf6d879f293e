//! The owner of the node's areas: it creates and destroys them, attaches writers and local readers,
//! and adopts areas that processes hand back.

mod hand_back;
pub(super) mod sessions;
pub(super) mod table;

pub(super) use hand_back::{ReturnedArea, queue};
use table::{AreaTable, AttachmentKind};

use super::channels::ReplicaId;
use super::config::Limits;
use super::doorbells::Doorbell;
use crate::Error;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{Area, DataType, ReaderQoS, State as IdlState, WriterQoS};
use crate::memory::{Geometry, GeometryError, Segment, State};
use crate::session_socket::{self, Kind};
use isorb_rt::sync::{PiGuard, PiMutex};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::RecvFlags;

/// The areas of a node. Lock order: areas, channels, dispatching threads.
#[derive(Debug)]
pub(super) struct Areas {
    table: PiMutex<AreaTable>,
}

/// A push agent's view of an area.
pub(super) struct Source {
    pub segment: Segment,
    pub promised: WriterQoS,
    pub what: Area,
}

impl Areas {
    pub fn new(limits: Limits) -> Areas {
        Areas { table: PiMutex::new(AreaTable::new(limits)) }
    }

    pub fn lock(&self) -> PiGuard<'_, AreaTable> {
        self.table.lock()
    }

    /// The segment of an area, and its writer's promise.
    pub fn source(&self, name: &str) -> Result<Source, Error> {
        let table = self.lock();
        let entry = table.area(name)?;
        Ok(Source { segment: entry.segment.clone(), promised: entry.promised, what: entry.what.clone() })
    }

    /// Creates an area: reserves its name, registers it, creates its segment.
    pub fn create(
        &self,
        session: u64,
        what: Area,
        register: impl FnOnce(&Area) -> Result<(), Error>,
        unregister: impl FnOnce(&str),
    ) -> Result<(), Error> {
        let geometry = geometry_of(&what)?;
        what.check_data()?;
        self.lock().reserve(session, &what, geometry)?;
        fail_point(FailPoint::CreateAsked);
        let created = register(&what).and_then(|()| {
            fail_point(FailPoint::CreateRegistered);
            Segment::create(&what.name, geometry).map_err(|error| {
                unregister(&what.name);
                error.into()
            })
        });
        match created {
            Ok(segment) => self.lock().commit(what, segment),
            Err(error) => {
                self.lock().cancel(&what.name, geometry);
                return Err(error);
            }
        }
        fail_point(FailPoint::Created);
        Ok(())
    }

    /// Gives the descriptor of an area of this node to a reader. None where the area is not here.
    pub fn attach_reader(&self, session: u64, name: &str, qos: &ReaderQoS) -> Result<Option<u64>, Error> {
        let mut table = self.lock();
        let Ok(entry) = table.area(name) else { return Ok(None) };
        entry.what.check_type(qos.type_hash)?;
        let (histories, limit) = (qos.histories as usize, entry.segment.geometry().histories());
        if histories > limit {
            return Err(Error::wrong_size("the number of histories", histories, limit));
        }
        // A local reader needs no admission: a written value is there at once.
        let (descriptor, data) = (entry.segment.read_only_fd()?, entry.what.data.to_text());
        let ticket = table.attach(session, name, AttachmentKind::Reader)?;
        fail_point(FailPoint::ReaderEntered);
        hand_over(&mut table, session, ticket, &data, Kind::Segment, &[descriptor.as_fd()])?;
        fail_point(FailPoint::ReaderHandedOver);
        Ok(Some(ticket))
    }

    /// Gives the descriptor of a replica to a reader.
    pub fn attach_remote(
        &self,
        session: u64,
        name: &str,
        replica: ReplicaId,
        segment: &Segment,
        data: &DataType,
    ) -> Result<u64, Error> {
        let descriptor = segment.read_only_fd()?;
        let mut table = self.lock();
        let ticket = table.attach(session, name, AttachmentKind::Remote(replica))?;
        hand_over(&mut table, session, ticket, &data.to_text(), Kind::Replica, &[descriptor.as_fd()])?;
        fail_point(FailPoint::ReplicaHandedOver);
        Ok(ticket)
    }

    /// A writer's attachment has ended.
    pub fn writer_ended(&self, ticket: u64, area: &str) {
        if let Some(segment) = self.lock().writer_ended(ticket, area) {
            let _ = segment.set_state(State::WriterGone);
        }
    }

    /// Adopted areas of which the writer ended while no server could notice it.
    pub fn find_dead_writers(&self) {
        for entry in
            self.lock().areas().filter(|entry| entry.adopted_from.is_some() && entry.writer.is_none())
        {
            let segment = &entry.segment;
            if segment.state() == Some(State::Open) && segment.has_writer() == Ok(false) {
                let _ = segment.set_state(State::WriterGone);
            }
        }
    }
}

/// Sends descriptors to an attachment that was just entered, and takes it out again where that
/// fails.
pub(super) fn hand_over(
    table: &mut AreaTable,
    session: u64,
    ticket: u64,
    data: &str,
    kind: Kind,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    let socket = table.session(session)?.socket.clone();
    session_socket::send(&*socket, kind, ticket, data, descriptors).map_err(|error| {
        table.remove_attachment(ticket);
        Error::os("the session's socket", error)
    })
}

/// Has the process at the other end of a session's socket ended? The kernel may know it before the
/// server.
pub(super) fn has_ended(socket: &impl AsFd) -> bool {
    rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)
        .is_ok_and(|(_, octets)| octets == 0)
}

/// A writer's descriptors: its memory and the doorbell that it rings.
pub(super) fn hand_over_writer(
    table: &mut AreaTable,
    session: u64,
    ticket: u64,
    name: &str,
    doorbell: &Doorbell,
) -> Result<(), Error> {
    let entry = table.area(name)?;
    let (descriptor, data) = (entry.segment.writable_fd()?, entry.what.data.to_text());
    hand_over(table, session, ticket, &data, Kind::Segment, &[descriptor.as_fd(), doorbell.as_fd()])
}

/// Bytes of the largest value of a writer with this promise, in an area of `size` bytes.
pub(crate) fn largest(promised: &WriterQoS, size: usize) -> usize {
    match promised.size as usize {
        0 => size,
        promised => promised.min(size),
    }
}

pub(crate) fn geometry_of(what: &Area) -> Result<Geometry, Error> {
    Geometry::new(what.size as usize, what.histories as usize).map_err(|error| match error {
        GeometryError::Size { requested, limit } => Error::wrong_size("the size", requested, limit),
        GeometryError::Histories { requested, limit } => {
            Error::wrong_size("the number of histories", requested, limit)
        }
        GeometryError::Total { requested, limit } => Error::wrong_size("the segment", requested, limit),
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
