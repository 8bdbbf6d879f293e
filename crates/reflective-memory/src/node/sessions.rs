//! Sessions: one local socket a process. Its end is the end of what the process had.

use super::Shared;
use super::adopt::HandBack;
use super::tables::{Session, Ticket, What};
use crate::fail_points::{FailPoint, fail_point};
use crate::memory::State;
use crate::session_socket::{self, Kind};
use isorb_rt::Errno;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::Deadline;
use rustix::fd::OwnedFd;
use rustix::net::{UCred, sockopt::socket_peercred};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

/// The listener's token; sessions are numbered from 1.
const LISTENER: u64 = 0;

impl Shared {
    /// Serves sessions until the server stops. Calls nobody: whoever hangs delays neither the news of a process's end nor a newcomer.
    pub(super) fn serve_sessions(self: Arc<Self>, listener: OwnedFd, queue: SyncSender<HandBack>) {
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
                        let _ = session_socket::accept(&listener).and_then(|socket| self.welcome(socket));
                    }
                    session => self.heard(session, &queue),
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
            tables.sessions.insert(number, Session { socket: socket.clone(), process, hands_back: false });
            number
        };
        let greet = || {
            self.poller.add(&*socket, number, Interest::READ, Trigger::Level)?;
            let reference = self.lib_comm.get().map_or("", String::as_str);
            fail_point(FailPoint::Welcomed);
            session_socket::send(&*socket, Kind::Hello, number, reference, &[])
        };
        let greeted = greet();
        if greeted.is_err() {
            self.tables.lock().sessions.remove(&number);
        }
        greeted
    }

    fn heard(self: &Arc<Self>, session: u64, queue: &SyncSender<HandBack>) {
        let Some(socket) = self.tables.lock().sessions.get(&session).map(|session| session.socket.clone())
        else {
            return;
        };
        match session_socket::receive(&*socket) {
            Ok(Some(message)) if message.kind == Kind::HandBack => self.handed_back(session, message, queue),
            // Anything else is the end: of the process, or of our patience with it.
            _ => {
                let _ = self.poller.delete(&*socket);
                self.left(session);
            }
        }
    }

    fn left(self: &Arc<Self>, session: u64) {
        fail_point(FailPoint::SessionLeft);
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
            let _ = super::named("memory-close", tell);
        }
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
