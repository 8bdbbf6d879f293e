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
use isorb_rt::time::{Deadline, now_ns, sleep_until};
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
/// The pause after the system refused to wait.
const RETRY_NS: u64 = 100 * MS;

/// The target of this module's log records.
const LOG: &str = "isorb::memory";

/// The threads that call other processes for the session thread.
pub(in crate::node) struct Workers {
    pub hand_backs: SyncSender<ReturnedArea>,
    pub coordinator: SyncSender<()>,
    pub pings: SyncSender<()>,
}

impl Node {
    /// Serves sessions and timers until the server stops. It calls no other process, so none delays
    /// the news of a process's end or a new session.
    ///
    /// Where the system refuses to wait, which takes memory of the kernel, it is tried again: a
    /// server without this thread would look alive to libraries and nodes, and serve none.
    pub(in crate::node) fn serve_sessions(self: Arc<Self>, listener: &Listener, workers: &Workers) {
        let now = now_ns();
        self.timers.set(Timer::FindDeadWriters, now + SECOND_NS);
        self.timers.set(Timer::CallCoordinator, now + SECOND_NS);
        self.timers.set(Timer::PingReaders, now + PING_NS);
        self.timers.set(Timer::ReopenSilent, now + REOPEN_NS);
        while !self.is_stopped() {
            if let Err(error) = self.serve_until_failure(listener, workers) {
                self.sessions_failed(error);
                sleep_until(Deadline::at_ns(now_ns() + RETRY_NS));
            }
        }
    }

    fn serve_until_failure(self: &Arc<Self>, listener: &Listener, workers: &Workers) -> Result<(), Errno> {
        if !self.accept_exhausted.load(Ordering::Relaxed) {
            self.watch(listener)?;
        }
        let mut events = Events::<32>::new();
        while !self.is_stopped() {
            while let Some(timer) = self.timers.pop_due(now_ns()) {
                self.timer_expired(timer, listener, workers);
            }
            let ready = self.timers.wait(&mut events)?;
            if self.sessions_fail.swap(false, Ordering::Relaxed) {
                let socket = self.config.socket.display();
                isorb_rt::log::info(LOG, format_args!("{socket}: sessions are served again"));
            }
            for event in ready {
                match event.token {
                    Poller::WAKE => {}
                    LISTENER => self.accept(listener),
                    session => self.receive(session, &workers.hand_backs),
                }
            }
        }
        Ok(())
    }

    fn sessions_failed(&self, error: Errno) {
        if !self.sessions_fail.swap(true, Ordering::Relaxed) {
            isorb_rt::log::error(
                LOG,
                format_args!(
                    "{}: no session is served and no timer of the node: {error}; tried again ten times a second, and the \
                     server is not ready meanwhile",
                    self.config.socket.display()
                ),
            );
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

    pub(in crate::node) fn watch(&self, listener: &Listener) -> Result<(), Errno> {
        match self.timers.poller.add(listener, LISTENER, Interest::READ, Trigger::Level) {
            // By the thread that this one replaces after a panic.
            Err(Errno::EXIST) => Ok(()),
            watched => watched,
        }
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
                        LOG,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use crate::node::{NodeServer, ServerConfig};
    use isorb_testkit::{RunningOrb, TempFolder, wait_until};

    #[test]
    fn sessions_are_served_again_when_the_system_lets_the_thread_wait() {
        let (folder, orb, app) = (TempFolder::new(), RunningOrb::new(), RunningOrb::new());
        let socket = folder.file("socket");
        let server = NodeServer::start(&orb, ServerConfig::new("near", &socket), None).unwrap();
        assert!(server.is_serving());
        let timers = &server.node.timers;
        timers.is_broken.store(true, Ordering::Relaxed);
        timers.poller.wake();
        wait_until("it is known", || !server.is_serving());
        timers.is_broken.store(false, Ordering::Relaxed);
        wait_until("sessions are served", || server.is_serving());
        Library::connect(&app, &socket).unwrap();
    }

    /// The listener is watched already, by the thread that panicked.
    #[test]
    fn a_thread_that_replaces_another_watches_the_same_listener() {
        let (folder, orb) = (TempFolder::new(), RunningOrb::new());
        let server = NodeServer::start(&orb, ServerConfig::new("near", folder.file("socket")), None).unwrap();
        Library::connect(&RunningOrb::new(), folder.file("socket")).unwrap();
        assert_eq!(server.node.watch(&server.listener), Ok(()));
    }
}
