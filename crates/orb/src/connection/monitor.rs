//! Monitors of connections that this ORB opened: their room to send, and their end.
//!
//! A oneway call with [`SyncScope::None`](crate::SyncScope::None) never waits for its peer. Octets
//! that the socket does not take stay in the outbox. A monitor sends them when there is room, and
//! notifies the watchers of the connection. There is one monitor, with one thread, for each
//! scheduling class of the threads that keep octets, so that the rest of a message goes out at the
//! priority at which it was begun.

use super::outbox::{self, SendError};
use super::{Connection, LOG};
use crate::log::warn;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Is notified of a connection that it uses. See
/// [`Object::open_connection`](crate::Object::open_connection).
pub trait ConnectionWatcher: Send + Sync {
    /// The connection has room for another request, or has `ended`. Comes once for an end, and
    /// perhaps more often than necessary for room. Must not wait.
    fn changed(&self, ended: bool);
}

/// The monitors of an ORB, by scheduling class.
#[derive(Default)]
pub(crate) struct ConnectionMonitors(PiMutex<Vec<Arc<Monitor>>>);

struct Monitor {
    class: SchedClass,
    poller: Arc<Poller>,
    next: AtomicU64,
    connections: PiMutex<HashMap<u64, Arc<Connection>>>,
}

impl ConnectionMonitors {
    /// Monitors a connection from now on, at the priority of the calling thread, unless it is
    /// monitored. Returns false if the system has no thread or descriptor.
    ///
    /// # Real-time
    /// Once for each connection: allocates, and starts a thread for the first of a class.
    #[cold]
    pub fn add(&self, connection: &Arc<Connection>) -> bool {
        if connection.is_monitored() {
            return true;
        }
        let class = SchedClass::current().unwrap_or_default();
        let mut monitors = self.0.lock();
        let known = monitors.iter().find(|monitor| monitor.class == class).cloned();
        let monitor = match known {
            Some(monitor) => monitor,
            None => match Monitor::start(class) {
                Ok(monitor) => {
                    monitors.push(monitor.clone());
                    monitor
                }
                Err(error) => {
                    warn(LOG, format_args!("{}: cannot be monitored: {error}", connection.peer()));
                    return false;
                }
            },
        };
        drop(monitors);
        monitor.add(connection)
    }
}

impl Drop for ConnectionMonitors {
    fn drop(&mut self) {
        for monitor in self.0.lock().drain(..) {
            monitor.poller.wake_for_good();
        }
    }
}

impl Monitor {
    fn start(class: SchedClass) -> Result<Arc<Monitor>, Box<dyn std::error::Error>> {
        let poller = Arc::new(Poller::new()?);
        let monitor =
            Arc::new(Monitor { class, poller, next: AtomicU64::new(0), connections: PiMutex::default() });
        let running = monitor.clone();
        ThreadSpec::new("isorb-monitor").class(class).spawn_supervised(move || running.run())?;
        Ok(monitor)
    }

    /// Returns false if the system does not watch it: the connection is not monitored then.
    fn add(&self, connection: &Arc<Connection>) -> bool {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        connection.stream().watched();
        // Under the lock, so that threads of one class come one after the other, and the monitor
        // finds the connection of an event.
        let mut connections = self.connections.lock();
        if connection.is_monitored() {
            return true;
        }
        if let Err(error) = self.poller.add(connection.stream().fd(), token, Interest::BOTH, Trigger::Edge) {
            drop(connections);
            let peer = connection.peer();
            let settings = "fs.epoll.max_user_watches, memory";
            warn(LOG, format_args!("{peer}: cannot be monitored: {error} ({settings})"));
            return false;
        }
        if connection.monitored_by(&self.poller, token) {
            connections.insert(token, connection.clone());
        } else {
            // A thread of another class was faster.
            let _ = self.poller.delete(connection.stream().fd());
        }
        true
    }

    fn run(&self) {
        let mut events = Events::<32>::new();
        loop {
            // Fails in no known case; without a poller there is nothing to do.
            let Ok(ready) = self.poller.wait(&mut events, Deadline::NONE) else { return };
            for event in ready {
                if event.token == Poller::WAKE {
                    self.connections.lock().clear();
                    return;
                }
                let connection = self.connections.lock().get(&event.token).cloned();
                let Some(connection) = connection else { continue };
                if !self.serve(&connection, event.token, event.readable || event.closed) {
                    let _ = self.poller.delete(connection.stream().fd());
                    let gone = self.connections.lock().remove(&event.token);
                    drop(gone);
                }
            }
        }
    }

    /// Sends what was kept, and reads what has arrived. Returns false for a connection that has
    /// ended.
    fn serve(&self, connection: &Connection, token: u64, readable: bool) -> bool {
        // Without kept octets, room is not reported: a unix socket would report it for each message
        // that the peer reads.
        let quiet = || _ = self.poller.modify(connection.stream().fd(), token, Interest::READ, Trigger::Edge);
        let flushed = connection.flush_then(quiet);
        if readable && flushed.is_ok() {
            // The end of the stream, or a reply that no caller awaits.
            connection.still_open();
        }
        connection.is_open()
    }
}

impl Connection {
    pub fn is_monitored(&self) -> bool {
        self.monitor.get().is_some()
    }

    /// Sets the poller of its monitor. Returns false if it has one.
    fn monitored_by(&self, poller: &Arc<Poller>, token: u64) -> bool {
        self.monitor.set((poller.clone(), token)).is_ok()
    }

    /// Has its monitor notified of room to send.
    #[cold]
    pub fn request_room(&self) {
        if let Some((poller, token)) = self.monitor.get() {
            // If there is room by now, that is an event, too.
            let _ = poller.modify(self.stream.fd(), *token, Interest::BOTH, Trigger::Edge);
        }
    }

    /// As [`flush`](Self::flush) for a monitor. When nothing is left it calls `quiet` before
    /// another thread can keep octets, and notifies the watchers.
    fn flush_then(&self, quiet: impl FnOnce()) -> Result<(), SendError> {
        let mut outbox = self.outbox.lock();
        let sent = outbox::flush(&mut outbox, &*self.stream);
        if sent == Ok(true) {
            quiet();
        }
        drop(outbox);
        match sent {
            Ok(true) => self.notify(false),
            Ok(false) => {}
            Err(_) => self.break_off(),
        }
        sent.map(drop)
    }

    /// Notifies `watcher` of room to send, after an [`offer`](Self::offer) that kept octets or sent
    /// nothing, and of the connection's end.
    pub fn add_watcher(&self, watcher: Weak<dyn ConnectionWatcher>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&watcher));
        watchers.push(watcher);
        drop(watchers);
        if !self.is_open() {
            self.notify_end();
        }
    }

    #[cold]
    pub(super) fn notify(&self, ended: bool) {
        // Called without the lock.
        let watchers: Vec<_> = self.watchers.lock().iter().filter_map(Weak::upgrade).collect();
        watchers.iter().for_each(|watcher| watcher.changed(ended));
    }

    pub(super) fn notify_end(&self) {
        let watchers = std::mem::take(&mut *self.watchers.lock());
        watchers.iter().filter_map(Weak::upgrade).for_each(|watcher| watcher.changed(true));
    }
}

#[cfg(test)]
mod tests {
    use super::super::still::connection_to;
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_connection_that_cannot_be_watched_is_not_monitored() {
        let monitors = ConnectionMonitors::default();
        // No file can be watched, as no socket beyond fs.epoll.max_user_watches.
        let unwatched = connection_to(std::fs::File::open("/proc/self/exe").unwrap().into());
        for _ in 0..2 {
            assert!(!monitors.add(&unwatched));
            assert!(!unwatched.is_monitored());
        }
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let watched = connection_to(OwnedFd::from(near));
        assert!(monitors.add(&watched) && monitors.add(&watched) && watched.is_monitored());
        assert_eq!(monitors.0.lock()[0].connections.lock().len(), 1);
    }
}
