//! The session thread: it serves one local socket a process and all timers of the node. The end of
//! a socket is the end of the process's attachments.

use super::ReturnedArea;
use super::table::{Attachment, AttachmentKind};
use crate::fail_points::{FailPoint, fail_point};
use crate::node::Node;
use crate::node::timers::Timer;
use crate::session_socket::{self, Kind, Listener};
use isorb_rt::Errno;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::now_ns;
use rustix::fd::OwnedFd;
use rustix::net::{UCred, sockopt::socket_peercred};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

/// The listener's token. Sessions have theirs from 1 on.
const LISTENER: u64 = 0;

const MS: u64 = 1_000_000;
/// The interval of calls to the coordinator, and of the search for dead writers.
const SECOND_NS: u64 = 1000 * MS;
const PING_NS: u64 = 2000 * MS;
const REOPEN_NS: u64 = 500 * MS;
/// The pause in accepting sessions after the descriptors were exhausted.
const ACCEPT_BACKOFF_NS: u64 = 100 * MS;

/// The threads that call other processes for the session thread.
pub(in crate::node) struct Workers {
    pub hand_backs: SyncSender<ReturnedArea>,
    pub coordinator: SyncSender<()>,
    pub pings: SyncSender<()>,
}

impl Node {
    /// Serves sessions and timers until the server stops. It calls no other process, so none delays
    /// the news of a process's end or a new session.
    pub(in crate::node) fn serve_sessions(self: Arc<Self>, listener: &Listener, workers: &Workers) {
        if self.watch(listener).is_err() {
            return;
        }
        let now = now_ns();
        self.timers.set(Timer::FindDeadWriters, now + SECOND_NS);
        self.timers.set(Timer::CallCoordinator, now + SECOND_NS);
        self.timers.set(Timer::PingReaders, now + PING_NS);
        self.timers.set(Timer::ReopenSilent, now + REOPEN_NS);
        let mut events = Events::<32>::new();
        while !self.is_stopped() {
            while let Some(timer) = self.timers.pop_due(now_ns()) {
                self.timer_expired(timer, listener, workers);
            }
            let Ok(ready) = self.timers.poller.wait(&mut events, self.timers.next()) else { return };
            for event in ready {
                match event.token {
                    Poller::WAKE => {}
                    LISTENER => self.accept(listener),
                    session => self.receive(session, &workers.hand_backs),
                }
            }
        }
    }

    fn timer_expired(self: &Arc<Self>, timer: Timer, listener: &Listener, workers: &Workers) {
        let now = now_ns();
        let again = match timer {
            Timer::EndDestroyed => self.channels.end_due(now),
            Timer::CheckReplicas => self.channels.orb_replicas.check(now),
            Timer::FindDeadWriters => {
                self.areas.find_dead_writers();
                Some(now + SECOND_NS)
            }
            // A worker that is still busy skips a round.
            Timer::CallCoordinator => {
                let _ = workers.coordinator.try_send(());
                Some(now + SECOND_NS)
            }
            Timer::PingReaders => {
                let _ = workers.pings.try_send(());
                Some(now + PING_NS)
            }
            Timer::ReopenSilent => {
                self.channels.reopen_silent();
                Some(now + REOPEN_NS)
            }
            Timer::ResumeAccept => match self.watch(listener) {
                Ok(()) => None,
                Err(_) => Some(now + ACCEPT_BACKOFF_NS),
            },
        };
        if let Some(at) = again {
            self.timers.set(timer, at);
        }
    }

    fn watch(&self, listener: &Listener) -> Result<(), Errno> {
        self.timers.poller.add(listener, LISTENER, Interest::READ, Trigger::Level)
    }

    fn accept(&self, listener: &Listener) {
        match listener.accept() {
            Ok(socket) => {
                self.accept_exhausted.store(false, Ordering::Relaxed);
                // A process that is refused, or has ended already, is no reason to stop.
                let _ = self.open_session(socket);
            }
            // The connection stays in the listener's queue, which would be reported again at once.
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                self.accept_failures.fetch_add(1, Ordering::Relaxed);
                let _ = self.timers.poller.delete(listener);
                self.timers.set(Timer::ResumeAccept, now_ns() + ACCEPT_BACKOFF_NS);
                if !self.accept_exhausted.swap(true, Ordering::Relaxed) {
                    isorb_rt::log::warn(
                        "isorb::memory",
                        format_args!(
                            "{}: no session can be accepted: {error}; new processes wait. Raise the limit of open files (ulimit -n, LimitNOFILE)",
                            self.config.socket.display()
                        ),
                    );
                }
            }
            Err(_) => {}
        }
    }

    fn open_session(&self, socket: OwnedFd) -> Result<(), Errno> {
        let UCred { uid: peer, pid: process, .. } = socket_peercred(&socket)?;
        if peer != rustix::process::geteuid() && !peer.is_root() {
            return Err(Errno::ACCESS);
        }
        let socket = Arc::new(socket);
        let number = self.areas.lock().open_session(socket.clone(), process).ok_or(Errno::MFILE)?;
        let welcomed = (|| {
            self.timers.poller.add(&*socket, number, Interest::READ, Trigger::Level)?;
            let reference = self.lib_comm.get().map_or("", String::as_str);
            fail_point(FailPoint::Welcomed);
            session_socket::send(&*socket, Kind::Hello, number, reference, &[])
        })();
        welcomed.inspect_err(|_| drop(self.areas.lock().close_session(number)))
    }

    fn receive(self: &Arc<Self>, session: u64, hand_backs: &SyncSender<ReturnedArea>) {
        let socket = self.areas.lock().session(session).map(|session| session.socket.clone());
        let Ok(socket) = socket else { return };
        match session_socket::receive(&*socket) {
            Ok(Some(message)) if message.kind == Kind::HandBack => {
                self.request_hand_back(session, message, hand_backs);
            }
            // The process has ended, or does not keep to the protocol.
            _ => {
                let _ = self.timers.poller.delete(&*socket);
                self.close_session(session);
            }
        }
    }

    fn close_session(self: &Arc<Self>, session: u64) {
        fail_point(FailPoint::SessionLeft);
        let ended = self.areas.lock().close_session(session);
        let (remote, local): (Vec<(u64, Attachment)>, Vec<_>) =
            ended.into_iter().partition(|(_, ended)| matches!(ended.kind, AttachmentKind::Remote(_)));
        local.into_iter().for_each(|(ticket, attachment)| self.attachment_ended(ticket, attachment));
        if !remote.is_empty() {
            // Closing a channel calls another node, which may hang.
            let node = self.clone();
            let close =
                move || remote.into_iter().for_each(|(ticket, ended)| node.attachment_ended(ticket, ended));
            let _ = crate::node::spawn("memory-close", close);
        }
    }
}
