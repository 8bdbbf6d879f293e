//! The state machine of the areas owner: areas, sessions and attachments. It does no I/O and reads
//! no clock. Its caller creates segments and doorbells, sends descriptors and calls other servers.

use super::super::channels::ReplicaId;
use super::super::config::Limits;
use super::super::doorbells::Doorbell;
use crate::Error;
use crate::error::CallerError;
use crate::idl::{Area, AreaExists, WriterExists, WriterQoS};
use crate::memory::{Geometry, Segment};
use rustix::fd::OwnedFd;
use rustix::process::Pid;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::node) struct AreaTable {
    limits: Limits,
    areas: HashMap<String, AreaEntry>,
    /// Areas that are being created: the coordinator is asked, and the name is taken.
    pending: HashMap<String, Area>,
    sessions: HashMap<u64, Session>,
    /// Writers and readers, by ticket.
    attachments: HashMap<u64, Attachment>,
    bytes: usize,
    /// Counts changes of the set of areas. A registration that was sent before a change may not
    /// include it.
    revision: u64,
    refused_back: u64,
    last: u64,
}

#[derive(Debug)]
pub(in crate::node) struct AreaEntry {
    pub what: Area,
    pub segment: Segment,
    /// The ticket of its writer.
    pub writer: Option<u64>,
    /// The writer's promise, kept when the writer is gone.
    pub promised: WriterQoS,
    /// The process that handed the area back, where an earlier server created it.
    pub adopted_from: Option<Pid>,
    /// The coordinator did not answer when the area was adopted; another node may have one of its
    /// name.
    pub unconfirmed: bool,
}

#[derive(Debug)]
pub(in crate::node) struct Session {
    pub socket: Arc<OwnedFd>,
    pub process: Pid,
    /// The adoption of an area that the session handed back is under way.
    pub hands_back: bool,
}

#[derive(Debug)]
pub(in crate::node) struct Attachment {
    pub session: u64,
    pub area: String,
    pub kind: AttachmentKind,
}

#[derive(Debug)]
pub(in crate::node) enum AttachmentKind {
    /// Writes, and rings this doorbell.
    Writer(Doorbell),
    /// Reads the writer's own segment.
    Reader,
    /// Reads a replica of another node's area.
    Remote(ReplicaId),
}

/// The answer to the question whether an area may be adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::node) enum Adoption {
    /// The same memory has been adopted already.
    Known,
    /// The name is free and there is room.
    Free,
    /// The name is taken, or a limit is reached.
    Refused,
}

/// An adopted area's data.
pub(in crate::node) struct Adopted {
    pub what: Area,
    pub segment: Segment,
    pub session: u64,
    pub process: Pid,
    /// The writer's promise; none from a process that only reads.
    pub writer: Option<WriterQoS>,
    pub unconfirmed: bool,
}

impl AreaTable {
    pub fn new(limits: Limits) -> AreaTable {
        AreaTable {
            limits,
            areas: HashMap::new(),
            pending: HashMap::new(),
            sessions: HashMap::new(),
            attachments: HashMap::new(),
            bytes: 0,
            revision: 0,
            refused_back: 0,
            last: 0,
        }
    }

    // Sessions.

    /// Gives the session's number, which cannot be guessed: it allows to act for the process. None
    /// where the limit is reached.
    pub fn open_session(&mut self, socket: Arc<OwnedFd>, process: Pid) -> Option<u64> {
        if self.sessions.len() >= self.limits.sessions {
            return None;
        }
        let number = loop {
            let number = crate::node::secret();
            if (1..u64::MAX).contains(&number) && !self.sessions.contains_key(&number) {
                break number;
            }
        };
        self.sessions.insert(number, Session { socket, process, hands_back: false });
        Some(number)
    }

    /// Ends a session and takes its attachments out.
    pub fn close_session(&mut self, session: u64) -> Vec<(u64, Attachment)> {
        self.sessions.remove(&session);
        self.attachments.extract_if(|_, attachment| attachment.session == session).collect()
    }

    pub fn close_all_sessions(&mut self) {
        self.sessions.clear();
    }

    pub fn session(&self, session: u64) -> Result<&Session, Error> {
        self.sessions.get(&session).ok_or(Error::Caller(CallerError::NoSession))
    }

    /// One area of a session is adopted at a time. False where one is under way, or the session is
    /// gone.
    pub fn begin_hand_back(&mut self, session: u64) -> bool {
        let entry = self.sessions.get_mut(&session);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.hands_back, true))
    }

    pub fn end_hand_back(&mut self, session: u64) {
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.hands_back = false;
        }
    }

    pub fn count_refused(&mut self) {
        self.refused_back += 1;
    }

    // Areas.

    /// Reserves the name and the memory of a new area until [`commit`](Self::commit) or
    /// [`cancel`](Self::cancel). A second request for the name is refused meanwhile.
    pub fn reserve(&mut self, session: u64, what: &Area, geometry: Geometry) -> Result<(), Error> {
        self.session(session)?;
        let known = self.areas.get(&what.name).map(|entry| &entry.what);
        if let Some(known) = known.or_else(|| self.pending.get(&what.name)) {
            return Err(Error::AreaExists(AreaExists { what: known.clone() }));
        }
        let areas = self.areas.len() + self.pending.len();
        if areas >= self.limits.areas {
            return Err(Error::wrong_size("the number of areas", areas + 1, self.limits.areas));
        }
        let bytes = self.bytes.saturating_add(geometry.total_bytes());
        if bytes > self.limits.bytes {
            return Err(Error::wrong_size("the memory of this node", bytes, self.limits.bytes));
        }
        self.pending.insert(what.name.clone(), what.clone());
        self.revision += 1;
        self.bytes = bytes;
        Ok(())
    }

    pub fn commit(&mut self, what: Area, segment: Segment) {
        self.pending.remove(&what.name);
        let promised = WriterQoS::default();
        let entry =
            AreaEntry { what, segment, writer: None, promised, adopted_from: None, unconfirmed: false };
        self.areas.insert(entry.what.name.clone(), entry);
    }

    pub fn cancel(&mut self, name: &str, geometry: Geometry) {
        self.pending.remove(name);
        self.revision += 1;
        self.bytes = self.bytes.saturating_sub(geometry.total_bytes());
    }

    pub fn remove(&mut self, name: &str) -> Option<AreaEntry> {
        let entry = self.areas.remove(name)?;
        self.bytes = self.bytes.saturating_sub(entry.segment.geometry().total_bytes());
        self.revision += 1;
        Some(entry)
    }

    pub fn area(&self, name: &str) -> Result<&AreaEntry, Error> {
        self.areas.get(name).ok_or_else(|| Error::unknown_area(name))
    }

    pub fn areas(&self) -> impl Iterator<Item = &AreaEntry> {
        self.areas.values()
    }

    /// The areas that a registration names, and the revision that it covers.
    pub fn to_register(&self) -> (Vec<Area>, u64) {
        let areas = self.areas.values().map(|entry| &entry.what).chain(self.pending.values());
        (areas.cloned().collect(), self.revision)
    }

    /// The coordinator has registered these areas. Gives the unconfirmed ones that another node
    /// has, which are to be withdrawn; none where the areas have changed since, and the answer may
    /// be out of date.
    pub fn confirm(
        &mut self,
        registered: &[Area],
        elsewhere: Vec<String>,
        revision: u64,
    ) -> Option<Vec<String>> {
        if self.revision != revision {
            return None;
        }
        let is_unconfirmed = |name: &String| self.areas.get(name).is_some_and(|entry| entry.unconfirmed);
        let withdrawn = elsewhere.into_iter().filter(is_unconfirmed).collect();
        for area in registered {
            if let Some(entry) = self.areas.get_mut(&area.name) {
                entry.unconfirmed = false;
            }
        }
        Some(withdrawn)
    }

    /// Is there room for this area of the process, and is its name free?
    pub fn can_adopt(&self, what: &Area, geometry: Geometry, file: &OwnedFd, process: Pid) -> Adoption {
        if let Some(entry) = self.areas.get(&what.name) {
            return if entry.segment.is_file(file) { Adoption::Known } else { Adoption::Refused };
        }
        let handed_back = self.areas.values().filter(|entry| entry.adopted_from == Some(process)).count();
        let fits = self.areas.len() < self.limits.areas
            && self.bytes.saturating_add(geometry.total_bytes()) <= self.limits.bytes
            && handed_back < self.limits.handed_back;
        match fits && !self.pending.contains_key(&what.name) {
            true => Adoption::Free,
            false => Adoption::Refused,
        }
    }

    /// Enters an adopted area, unless another was created under its name meanwhile. Gives the
    /// ticket of its writer, where the process is that and still has a session.
    pub fn adopt(&mut self, adopted: Adopted, doorbell: Doorbell) -> Option<u64> {
        let Adopted { what, segment, session, process, writer, unconfirmed } = adopted;
        let name = what.name.clone();
        match self.areas.get(&name).map(|entry| entry.segment.same_file(&segment)) {
            Some(true) => {}
            None if !self.pending.contains_key(&name) => {
                self.bytes += segment.geometry().total_bytes();
                self.revision += 1;
                // The pushes for which its writer rang ended with the earlier server.
                let _ = segment.set_doorbell(false);
            }
            Some(false) | None => return None,
        }
        let ticket = self.number();
        let has_session = self.sessions.contains_key(&session);
        let promised = WriterQoS::default();
        let entry = self.areas.entry(name.clone()).or_insert(AreaEntry {
            what,
            segment,
            writer: None,
            promised,
            adopted_from: Some(process),
            unconfirmed,
        });
        let promised = writer.filter(|_| entry.writer.is_none() && has_session)?;
        entry.writer = Some(ticket);
        entry.promised = promised;
        let _ = entry.segment.set_period(promised.period);
        let kind = AttachmentKind::Writer(doorbell);
        self.attachments.insert(ticket, Attachment { session, area: name, kind });
        Some(ticket)
    }

    // Attachments.

    /// Enters a writer or reader and gives its ticket.
    pub fn attach(&mut self, session: u64, area: &str, kind: AttachmentKind) -> Result<u64, Error> {
        self.session(session)?;
        let limit = self.limits.attachments;
        if self.attachments.len() >= limit {
            return Err(Error::Limit { resource: "attachments", limit });
        }
        let ticket = self.number();
        self.attachments.insert(ticket, Attachment { session, area: area.into(), kind });
        Ok(ticket)
    }

    /// Enters the writer of an area. The caller has removed the former one, if its process is gone.
    pub fn attach_writer(
        &mut self,
        session: u64,
        name: &str,
        qos: WriterQoS,
        doorbell: Doorbell,
    ) -> Result<u64, Error> {
        if self.area(name)?.writer.is_some() {
            return Err(Error::WriterExists(WriterExists { name: name.into() }));
        }
        let ticket = self.attach(session, name, AttachmentKind::Writer(doorbell))?;
        if let Some(entry) = self.areas.get_mut(name) {
            entry.writer = Some(ticket);
            entry.promised = qos;
        }
        Ok(ticket)
    }

    /// The socket of the process that writes an area; none where there is no writer, or its session
    /// ended.
    pub fn writers_socket(&self, name: &str) -> Option<Arc<OwnedFd>> {
        let writer = self.attachments.get(&self.areas.get(name)?.writer?)?;
        Some(self.sessions.get(&writer.session)?.socket.clone())
    }

    /// Takes the writer's attachment out of an area and gives the doorbell that it rang.
    pub fn remove_writer(&mut self, name: &str) -> Option<Doorbell> {
        let ticket = self.areas.get_mut(name)?.writer.take()?;
        match self.attachments.remove(&ticket)?.kind {
            AttachmentKind::Writer(doorbell) => Some(doorbell),
            _ => None,
        }
    }

    /// A writer's attachment ended: its area has no writer now. Gives the area's segment, unless
    /// another process is the writer by now.
    pub fn writer_ended(&mut self, ticket: u64, area: &str) -> Option<&Segment> {
        let entry = self.areas.get_mut(area).filter(|entry| entry.writer == Some(ticket))?;
        entry.writer = None;
        Some(&entry.segment)
    }

    /// An attachment of this session.
    pub fn attachment(&self, session: u64, ticket: u64) -> Result<&Attachment, Error> {
        let own = self.attachments.get(&ticket).filter(|attachment| attachment.session == session);
        own.ok_or_else(|| Error::unknown_handle(ticket))
    }

    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.values()
    }

    pub fn detach(&mut self, session: u64, ticket: u64) -> Result<Attachment, Error> {
        self.attachment(session, ticket)?;
        self.remove_attachment(ticket).ok_or_else(|| Error::unknown_handle(ticket))
    }

    pub fn remove_attachment(&mut self, ticket: u64) -> Option<Attachment> {
        self.attachments.remove(&ticket)
    }

    /// The doorbell that the writer of an area rings.
    pub fn doorbell_of(&self, area: &str) -> Option<&Doorbell> {
        match &self.attachments.get(&self.areas.get(area)?.writer?)?.kind {
            AttachmentKind::Writer(doorbell) => Some(doorbell),
            _ => None,
        }
    }

    // Numbers.

    /// Areas, sessions and attachments.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.areas.len(), self.sessions.len(), self.attachments.len())
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn refused_back(&self) -> u64 {
        self.refused_back
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
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn area(name: &str) -> (Area, Geometry) {
        (Area::new(name, 64, 1), Geometry::new(64, 1).unwrap())
    }

    fn segment(name: &str) -> Segment {
        Segment::create(name, area(name).1).unwrap()
    }

    fn table(limits: Limits) -> (AreaTable, u64, Pid) {
        let mut table = AreaTable::new(limits);
        let flags = SocketFlags::CLOEXEC;
        let (socket, _) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let process = rustix::process::getpid();
        let session = table.open_session(Arc::new(socket), process).unwrap();
        (table, session, process)
    }

    #[test]
    fn a_name_is_taken_while_its_area_is_created_and_memory_is_accounted() {
        let (what, geometry) = area("one");
        let limits = Limits { bytes: geometry.total_bytes(), ..Limits::default() };
        let (mut table, session, _) = table(limits);
        assert!(matches!(table.reserve(session + 1, &what, geometry), Err(Error::Caller(_))));
        table.reserve(session, &what, geometry).unwrap();
        assert!(matches!(table.reserve(session, &what, geometry), Err(Error::AreaExists(_))));
        let (other, _) = area("other");
        assert!(matches!(table.reserve(session, &other, geometry), Err(Error::WrongSize(_))));
        table.cancel("one", geometry);
        table.reserve(session, &other, geometry).unwrap();
        table.commit(other, segment("other"));
        assert_eq!((table.bytes(), table.counts()), (geometry.total_bytes(), (1, 1, 0)));
        assert!(table.remove("other").is_some() && table.bytes() == 0);
    }

    #[test]
    fn an_answer_of_the_coordinator_counts_for_the_areas_that_it_was_asked_about() {
        let (mut table, session, process) = table(Limits::default());
        let (what, _) = area("kept");
        let adopted =
            Adopted { what, segment: segment("kept"), session, process, writer: None, unconfirmed: true };
        assert_eq!(table.adopt(adopted, Doorbell::new(1).unwrap()), None, "it has no writer");
        let (registered, revision) = table.to_register();
        let (other, geometry) = area("other");
        table.reserve(session, &other, geometry).unwrap();
        assert_eq!(table.confirm(&registered, vec!["kept".into()], revision), None, "out of date");
        let (registered, revision) = table.to_register();
        assert_eq!(table.confirm(&registered, vec!["kept".into()], revision), Some(vec!["kept".into()]));
        assert_eq!(table.confirm(&registered, vec!["kept".into()], revision), Some(vec![]), "confirmed");
    }

    #[test]
    fn a_session_that_ends_takes_its_attachments_along() {
        let (mut table, session, _) = table(Limits { attachments: 2, ..Limits::default() });
        let (what, geometry) = area("one");
        table.reserve(session, &what, geometry).unwrap();
        table.commit(what, segment("one"));
        let writer =
            table.attach_writer(session, "one", WriterQoS::default(), Doorbell::new(1).unwrap()).unwrap();
        table.attach(session, "one", AttachmentKind::Reader).unwrap();
        let full = table.attach(session, "one", AttachmentKind::Reader);
        assert!(matches!(full, Err(Error::Limit { limit: 2, .. })));
        assert!(matches!(table.detach(session + 1, writer), Err(Error::UnknownHandle(_))));
        assert!(table.begin_hand_back(session) && !table.begin_hand_back(session), "one at a time");
        assert_eq!(table.close_session(session).len(), 2);
        assert!(table.writer_ended(writer, "one").is_some() && table.area("one").unwrap().writer.is_none());
    }
}
