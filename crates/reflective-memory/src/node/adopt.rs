//! Areas that outlived the server that made them: processes hand them back.
//!
//! The coordinator is asked whether another node has the name meanwhile. It may hang, so a thread of its own does that, and the one that
//! hears of processes' ends waits for nobody. Where the coordinator does not answer, areas are taken back without its word.

use super::Shared;
use super::doorbells::Doorbell;
use super::setup::geometry_of;
use super::tables::{AreaEntry, Ticket, What};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{Area, WriterQoS};
use crate::memory::Segment;
use crate::session_socket::{self, Kind, Message, ONLY_READ};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::Pid;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// An area that a process hands back.
pub(super) struct HandBack {
    session: u64,
    process: Pid,
    socket: Arc<OwnedFd>,
    message: Message,
}

/// From the sessions to the thread that takes back. A session has one of them under way at most.
pub(super) fn queue(sessions: usize) -> (SyncSender<HandBack>, Receiver<HandBack>) {
    sync_channel(sessions.max(1))
}

impl Shared {
    /// Calls nobody. Who hands back a second one before the first is answered is refused.
    pub(super) fn handed_back(&self, session: u64, message: Message, queue: &SyncSender<HandBack>) {
        let (socket, process) = {
            let mut tables = self.tables.lock();
            let Some(entry) = tables.sessions.get_mut(&session) else { return };
            let (socket, process) = (entry.socket.clone(), entry.process);
            if std::mem::replace(&mut entry.hands_back, true) {
                tables.refused_back += u64::from(message.number != ONLY_READ);
                drop(tables);
                let _ = session_socket::send(&*socket, Kind::Adopted, 0, "", &[]);
                return;
            }
            (socket, process)
        };
        if let Err(refused) = queue.try_send(HandBack { session, process, socket, message }) {
            use std::sync::mpsc::TrySendError::{Disconnected, Full};
            let (Full(refused) | Disconnected(refused)) = refused;
            self.answer(&refused, None);
        }
    }

    /// Takes back what processes hand back until the server stops.
    pub(super) fn take_back(&self, queue: &Receiver<HandBack>) {
        for mut handed in queue {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let taken = self.adopt(&mut handed);
            self.answer(&handed, taken);
        }
    }

    fn answer(&self, handed: &HandBack, taken: Option<(u64, Doorbell)>) {
        let (ticket, doorbell) = taken.unzip();
        {
            let mut tables = self.tables.lock();
            if let Some(session) = tables.sessions.get_mut(&handed.session) {
                session.hands_back = false;
            }
            tables.refused_back += u64::from(handed.message.number != ONLY_READ && ticket.is_none());
        }
        let doorbell = doorbell.as_ref().map(AsFd::as_fd);
        let _ = session_socket::send(
            &*handed.socket,
            Kind::Adopted,
            ticket.unwrap_or(0),
            "",
            doorbell.as_slice(),
        );
    }

    /// Takes an area back that a server before us made. Gives the writer's new ticket and doorbell; none to those who only read.
    fn adopt(&self, handed: &mut HandBack) -> Option<(u64, Doorbell)> {
        fail_point(FailPoint::AdoptBegun);
        let (session, process, message) = (handed.session, handed.process, &mut handed.message);
        let mut segment = Segment::attach(message.descriptor.take()?).ok()?;
        // A reader's descriptor is for reading; this process is of the same user and may open the file anew.
        if !segment.is_writable() {
            segment = segment.for_writing().ok()?;
        }
        // One that was destroyed, or has become another, does not come back.
        if segment.state()?.is_final() {
            return None;
        }
        let geometry = segment.geometry();
        let (size, name) = message.text.split_once(' ')?;
        let size = size.parse().ok()?;
        let what = Area {
            name: name.into(),
            size: u32::try_from(geometry.size()).ok()?,
            histories: geometry.histories() as u32,
        };
        geometry_of(&what).ok()?;
        let is_known = {
            let tables = self.tables.lock();
            let limits = &self.config.limits;
            let fits = tables.areas.len() < limits.areas
                && tables.bytes + geometry.total_bytes() <= limits.bytes
                && tables.handed_back_by(process) < limits.handed_back;
            match tables.areas.get(&what.name) {
                Some(entry) if entry.segment.same_file(&segment) => true,
                Some(_) => return None,
                None if fits && !tables.making.contains_key(&what.name) => false,
                None => return None,
            }
        };
        let unasked = !is_known && self.ask_for(&what)?;
        fail_point(FailPoint::AdoptRegistered);
        let mut tables = self.tables.lock();
        let ticket = tables.number();
        let doorbell = Doorbell::new(tables.number()).ok()?;
        let name = what.name.clone();
        // Another may have made one of this name meanwhile.
        let is_same = tables.areas.get(&name).map(|entry| entry.segment.same_file(&segment));
        match is_same {
            Some(true) => {}
            None if !tables.making.contains_key(&name) => {
                tables.bytes += geometry.total_bytes();
                tables.told.changed();
                // The pushes for which its writer rang ended with that server.
                let _ = segment.set_doorbell(false);
            }
            Some(false) | None => return None,
        }
        let is_here = tables.sessions.contains_key(&session);
        let entry = tables.areas.entry(name.clone()).or_insert(AreaEntry {
            what,
            segment,
            writer: None,
            promised: WriterQoS::default(),
            adopted_from: Some(process),
            unasked,
        });
        // That a writer's process ended before this is seen by the watch.
        if message.number == ONLY_READ || entry.writer.is_some() || !is_here {
            return None;
        }
        entry.writer = Some(ticket);
        entry.promised = WriterQoS { period: message.number, size };
        let _ = entry.segment.set_period(message.number);
        let what = What::Writer(doorbell.clone());
        tables.tickets.insert(ticket, Ticket { session, area: name.clone(), what });
        // Who cannot hear it hears of the values when they are pushed again.
        let _ = self.move_doorbells(&tables, &name, &doorbell);
        fail_point(FailPoint::Adopted);
        Some((ticket, doorbell))
    }

    /// May the area be this node's? None: it is another's; true: the coordinator was not asked, or did not answer, and is told later.
    fn ask_for(&self, what: &Area) -> Option<bool> {
        let Some(coordinator) = &self.coordinator else { return Some(false) };
        // One that is silent would be waited for once an area.
        if !self.tables.lock().told.is_silent() {
            match coordinator.call(|glob| glob.register_area(&self.config.name, what)) {
                Ok(()) => return Some(false),
                Err(crate::Error::AreaExists(_)) => return None,
                Err(_) => {}
            }
        }
        self.tables.lock().told.failed();
        Some(true)
    }

    /// Another node has the name of an area that was taken back without the coordinator's word. Who has it mapped goes on; its writer is told.
    pub(super) fn withdraw(&self, name: &str) {
        let channels = {
            let mut tables = self.tables.lock();
            let Some((entry, channels)) = tables.take_area(name) else { return };
            if let Some(ticket) = entry.writer.and_then(|ticket| tables.tickets.remove(&ticket)) {
                tables.refused_back += 1;
                if let What::Writer(doorbell) = &ticket.what {
                    self.forget_doorbell(doorbell.number());
                }
                if let Some(session) = tables.sessions.get(&ticket.session) {
                    let _ = session_socket::send(&*session.socket, Kind::Withdrawn, 0, name, &[]);
                }
            }
            channels
        };
        for channel in channels {
            self.end(channel);
        }
    }
}
