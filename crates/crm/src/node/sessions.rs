//! Sessions: one local socket a process. Its end is the end of what the process had.

use super::Shared;
use super::bells::Bell;
use super::setup::geometry_of;
use super::tables::{AreaEntry, Session, Ticket, What};
use crate::idl::{Area, WriterQoS};
use crate::memory::{Segment, State};
use crate::passing::{self, Kind, Message, ONLY_READ};
use crate::steps::{Step, step};
use isorb_rt::Errno;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::Deadline;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{UCred, sockopt::socket_peercred};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The listener's token; sessions are numbered from 1.
const LISTENER: u64 = 0;

impl Shared {
    /// Serves sessions until the server stops.
    pub fn serve_sessions(self: Arc<Self>, listener: OwnedFd) {
        if self.poller.add(&listener, LISTENER, Interest::READ, Trigger::Level).is_err() {
            return;
        }
        let mut events = Events::<32>::new();
        while !self.stop.load(Ordering::Acquire) {
            let Ok(ready) = self.poller.wait(&mut events, Deadline::NONE) else { return };
            for event in ready {
                match event.token {
                    Poller::WAKE => {}
                    LISTENER => {
                        // Who gives up at once, or is not allowed, is no reason to end.
                        let _ = passing::accept(&listener).and_then(|socket| self.welcome(socket));
                    }
                    session => self.heard(session),
                }
            }
        }
    }

    fn welcome(&self, socket: OwnedFd) -> Result<(), Errno> {
        let UCred { uid: peer, pid: process, .. } = socket_peercred(&socket)?;
        if peer != rustix::process::geteuid() && !peer.is_root() {
            return Err(Errno::ACCESS);
        }
        let socket = Arc::new(socket);
        let number = {
            let mut tables = self.tables.lock();
            if tables.sessions.len() >= self.config.limits.sessions {
                return Err(Errno::MFILE);
            }
            let number = tables.session_number();
            tables.sessions.insert(number, Session { socket: socket.clone(), process });
            number
        };
        let greet = || {
            self.poller.add(&*socket, number, Interest::READ, Trigger::Level)?;
            let reference = self.lib_comm.get().map_or("", String::as_str);
            step(Step::Welcomed);
            passing::send(&*socket, Kind::Hello, number, reference, &[])
        };
        let greeted = greet();
        if greeted.is_err() {
            self.tables.lock().sessions.remove(&number);
        }
        greeted
    }

    fn heard(self: &Arc<Self>, session: u64) {
        let Some(socket) = self.tables.lock().sessions.get(&session).map(|session| session.socket.clone())
        else {
            return;
        };
        match passing::receive(&*socket) {
            Ok(Some(message)) if message.kind == Kind::HandBack => {
                let is_writer = message.number != ONLY_READ;
                let (ticket, bell) = self.adopt(session, message).unzip();
                self.tables.lock().refused_back += u64::from(is_writer && ticket.is_none());
                let bell = bell.as_ref().map(AsFd::as_fd);
                let _ = passing::send(&*socket, Kind::Adopted, ticket.unwrap_or(0), "", bell.as_slice());
            }
            // Anything else is the end: of the process, or of our patience with it.
            _ => {
                let _ = self.poller.delete(&*socket);
                self.left(session);
            }
        }
    }

    fn left(self: &Arc<Self>, session: u64) {
        step(Step::SessionLeft);
        let ended: Vec<(u64, Ticket)> = {
            let mut tables = self.tables.lock();
            tables.sessions.remove(&session);
            let tickets: Vec<u64> = tables
                .tickets
                .iter()
                .filter(|(_, ticket)| ticket.session == session)
                .map(|(number, _)| *number)
                .collect();
            tickets.into_iter().filter_map(|number| Some((number, tables.tickets.remove(&number)?))).collect()
        };
        let (replicas, others): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|(_, ticket)| matches!(ticket.what, What::Replica(_)));
        others.into_iter().for_each(|(number, ticket)| self.ended(number, ticket));
        if !replicas.is_empty() {
            // Other nodes are told from another thread: one that hangs must not delay the news of the next death.
            let shared = self.clone();
            let tell = move || replicas.into_iter().for_each(|(number, ticket)| shared.ended(number, ticket));
            let _ = super::named("crm-farewell", tell);
        }
    }

    /// Takes an area back that a server before us made. Gives the writer's new ticket and bell; none to those who only read.
    fn adopt(&self, session: u64, message: Message) -> Option<(u64, Bell)> {
        step(Step::AdoptBegun);
        let mut segment = Segment::attach(message.descriptor?).ok()?;
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
        let known = {
            let tables = self.tables.lock();
            let limits = &self.config.limits;
            let fits = tables.areas.len() < limits.areas
                && tables.bytes + geometry.total_bytes() <= limits.bytes
                && tables.handed_back_by(session) < limits.handed_back;
            match tables.areas.get(&what.name) {
                Some(entry) if entry.segment.same_file(&segment) => true,
                Some(_) => return None,
                None if fits && !tables.making.contains_key(&what.name) => false,
                None => return None,
            }
        };
        if !known && let Some(coordinator) = &self.coordinator {
            // If the coordinator does not answer, it hears of the area with the node's next registration.
            if let Err(error) = coordinator.call(|glob| glob.register_area(&self.config.name, &what))
                && matches!(error, crate::Error::AreaExists(_))
            {
                return None;
            }
        }
        step(Step::AdoptRegistered);
        let mut tables = self.tables.lock();
        let ticket = tables.number();
        let bell = Bell::new(tables.number()).ok()?;
        let name = what.name.clone();
        // Another may have made one of this name meanwhile.
        let is_same = tables.areas.get(&name).map(|entry| entry.segment.same_file(&segment));
        match is_same {
            Some(true) => {}
            None if !tables.making.contains_key(&name) => {
                tables.bytes += geometry.total_bytes();
                // The pushes for which its writer rang ended with that server.
                let _ = segment.set_bell(false);
            }
            Some(false) | None => return None,
        }
        let adopted_from = tables.sessions.get(&session).map(|session| session.process);
        let entry = tables.areas.entry(name.clone()).or_insert(AreaEntry {
            what,
            segment,
            writer: None,
            promised: WriterQoS::default(),
            adopted_from,
        });
        if message.number == ONLY_READ {
            return None;
        }
        if entry.writer.is_some() {
            return None;
        }
        entry.writer = Some(ticket);
        entry.promised = WriterQoS { period: message.number, size };
        let _ = entry.segment.set_period(message.number);
        let what = What::Writer(bell.clone());
        tables.tickets.insert(ticket, Ticket { session, area: name.clone(), what });
        // Who cannot hear it hears of the values when they are pushed again.
        let _ = self.move_bells(&tables, &name, &bell);
        step(Step::Adopted);
        Some((ticket, bell))
    }

    /// Areas that were handed back by readers, and whose writer ended while there was no server to notice it.
    pub(super) fn look_for_dead_writers(&self) {
        let tables = self.tables.lock();
        for entry in
            tables.areas.values().filter(|entry| entry.adopted_from.is_some() && entry.writer.is_none())
        {
            let segment = &entry.segment;
            if segment.state() == Some(State::Open) && segment.has_writer() == Ok(false) {
                let _ = segment.set_state(State::WriterGone);
            }
        }
    }
}
