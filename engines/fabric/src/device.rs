//! A device, and the thread that reads its events and completions for all connections.

use crate::connection::{Connection, Outcome, of_context};
use crate::ffi::{self, Completion, Event, Info, Listening};
use crate::hello::Hello;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns};
use rustix::net::{SendFlags, Shutdown, send};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Clients of one listener that wait to be accepted. Further ones are refused.
const BACKLOG: usize = 128;
/// Connections' tokens in the poller begin here.
const FIRST: u64 = 2;
/// A descriptor of the device that stays silent does not delay anything by more than this.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The clients that wait at a listener.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The other end belongs to the listener.
    doorbell: OwnedFd,
    /// Octets that a client's segment may have.
    most: usize,
    waiting: PiMutex<VecDeque<(Info, Hello)>>,
}

impl Requests {
    pub fn new(doorbell: OwnedFd, most: usize) -> Requests {
        Requests { doorbell, most, waiting: PiMutex::new(VecDeque::new()) }
    }

    /// The client that waits longest.
    pub fn take(&self) -> Option<(Info, Hello)> {
        self.waiting.lock().pop_front()
    }

    /// Ends waits for clients.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.doorbell, Shutdown::Both);
    }

    /// Lets a client wait; gives it back if it cannot be accepted.
    fn add(&self, request: Info, message: &[u8]) -> Result<(), Info> {
        let Ok(hello) = Hello::decode(message, self.most) else { return Err(request) };
        let mut waiting = self.waiting.lock();
        if waiting.len() >= BACKLOG {
            return Err(request);
        }
        waiting.push_back((request, hello));
        drop(waiting);
        let _ = send(&self.doorbell, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        Ok(())
    }
}

#[derive(Default)]
struct Table {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
    endpoints: HashMap<usize, u64>,
    listeners: HashMap<usize, (Listening, Arc<Requests>)>,
    /// Listeners to be closed, and the threads that wait for it.
    closing: Vec<(usize, Sender<()>)>,
    /// Connections that the thread looks at again.
    unsettled: HashSet<u64>,
}

struct Device {
    raw: Arc<ffi::Device>,
    poller: Poller,
    spin: Duration,
    table: PiMutex<Table>,
    /// No connection will be opened any more.
    stop: AtomicBool,
}

/// A device that is open. Its thread ends after the last handle.
pub(crate) struct DeviceHandle {
    device: Arc<Device>,
    thread: OnceLock<Thread<()>>,
}

impl Debug for DeviceHandle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceHandle").finish_non_exhaustive()
    }
}

impl DeviceHandle {
    /// Opens the device of `info` and starts its thread.
    pub fn open(info: &Info, spin: Duration) -> io::Result<Arc<DeviceHandle>> {
        let raw = Arc::new(ffi::Device::open(info)?);
        let poller = Poller::new()?;
        for (token, fd) in raw.descriptors().into_iter().enumerate() {
            poller.add(fd, token as u64, Interest::READ, Trigger::Level)?;
        }
        let table = PiMutex::new(Table { next: FIRST, ..Table::default() });
        let device = Arc::new(Device { raw, poller, spin, table, stop: AtomicBool::new(false) });
        let running = device.clone();
        let thread = ThreadSpec::new("isorb-fabric")
            .spawn_supervised(move || running.run())
            .map_err(|error| io::Error::other(error.to_string()))?;
        let handle = DeviceHandle { device, thread: OnceLock::new() };
        let _ = handle.thread.set(thread);
        Ok(Arc::new(handle))
    }

    pub fn device(&self) -> &Arc<ffi::Device> {
        &self.device.raw
    }

    /// A thread must not wait for a less urgent one than itself.
    fn raise_to_this_thread(&self) {
        let native = |class: SchedClass| class.native_priority().unwrap_or(0);
        let Some(thread) = self.thread.get() else { return };
        if let (Ok(caller), Ok(running)) = (SchedClass::current(), thread.class())
            && native(caller) > native(running)
        {
            // The kernel refuses where this thread had no right to its class either.
            let _ = thread.set_class(caller);
        }
    }

    /// A new connection. `begin` connects or accepts its endpoint, and gets the hello for the peer.
    pub fn open_connection(
        self: &Arc<DeviceHandle>,
        info: &Info,
        bytes: usize,
        most: usize,
        peer: Option<Hello>,
        begin: impl FnOnce(&ffi::Endpoint, &[u8]) -> io::Result<()>,
    ) -> io::Result<(Arc<Connection>, OwnedFd)> {
        self.raise_to_this_thread();
        let mut table = self.device.table.lock();
        let id = table.next;
        let (connection, hello, socket) = Connection::new(id, self.clone(), info, bytes, most, peer)?;
        let connection = Arc::new(connection);
        table.next += 1;
        // The thread that reports events waits for the table.
        connection.with_endpoint(|endpoint| {
            begin(endpoint, &hello.encode())?;
            table.endpoints.insert(endpoint.id(), id);
            Ok(())
        })?;
        table.connections.insert(id, connection.clone());
        drop(table);
        self.device.poller.add(connection.doorbell(), id, Interest::END, Trigger::Edge)?;
        Ok((connection, socket))
    }

    /// Listens at the address of `info`; returns what names the listener, and the port.
    pub fn listen(&self, info: &Info, requests: Arc<Requests>) -> io::Result<(usize, String)> {
        self.raise_to_this_thread();
        let mut table = self.device.table.lock();
        let (listening, port) = Listening::open(&self.device.raw, info)?;
        let id = listening.id();
        table.listeners.insert(id, (listening, requests));
        Ok((id, port))
    }

    /// Has the device's thread close a listener; `Sender` is dropped when that is done.
    pub fn close_listener(&self, id: usize, done: Sender<()>) {
        self.device.table.lock().closing.push((id, done));
        self.device.poller.wake();
    }

    /// Has the device's thread look at a connection.
    pub fn tend_later(&self, id: u64) {
        self.device.table.lock().unsettled.insert(id);
        self.device.poller.wake();
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        self.device.stop.store(true, Ordering::Release);
        self.device.poller.wake();
    }
}

impl Device {
    fn run(&self) {
        let mut ready = Events::<32>::new();
        let mut last = now_ns();
        loop {
            if self.progress() {
                last = now_ns();
                continue;
            }
            let next = self.tend();
            if self.stop.load(Ordering::Acquire) && self.table.lock().connections.is_empty() {
                return;
            }
            if now_ns() - last < self.spin.as_nanos() as u64 {
                std::hint::spin_loop();
                continue;
            }
            if !self.raw.may_wait() {
                continue;
            }
            let next = next.earlier(Deadline::after(LONGEST_WAIT));
            let Ok(ready) = self.poller.wait(&mut ready, next) else { continue };
            for event in ready.filter(|event| event.closed && event.token != Poller::WAKE) {
                if let Some(connection) = self.connection(event.token) {
                    connection.ended();
                    self.table.lock().unsettled.insert(event.token);
                }
            }
        }
    }

    fn connection(&self, id: u64) -> Option<Arc<Connection>> {
        self.table.lock().connections.get(&id).cloned()
    }

    /// Handles what happened. Returns whether anything did.
    fn progress(&self) -> bool {
        let events: Vec<Event> = std::iter::from_fn(|| self.raw.event()).collect();
        let mut busy = !events.is_empty();
        // What arrived before an end is delivered before it, and after a beginning.
        let (ends, others): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|event| matches!(event, Event::Gone { .. }));
        others.into_iter().for_each(|event| self.handle(event));
        while let Some(completion) = self.raw.completion() {
            self.complete(completion);
            busy = true;
        }
        ends.into_iter().for_each(|event| self.handle(event));
        busy
    }

    fn complete(&self, Completion { context, received }: Completion) {
        const CANCELED: i32 = 125;
        let (id, slot) = of_context(context);
        let Some(connection) = self.connection(id) else { return };
        match (received, slot) {
            (Ok(length), Some(slot)) => connection.received(slot, length),
            (Ok(_), None) => {}
            // The end of the connection follows as an event.
            (Err(CANCELED), _) => return,
            (Err(number), _) => connection.fail(Some(ffi::error(number))),
        }
        self.table.lock().unsettled.insert(id);
    }

    fn handle(&self, event: Event) {
        let mut table = self.table.lock();
        let (endpoint, outcome) = match event {
            Event::Request { listening, request, hello } => {
                if let Some((listening, requests)) = table.listeners.get(&listening)
                    && let Err(request) = requests.add(request, &hello)
                {
                    listening.reject(request);
                }
                return;
            }
            Event::Connected { endpoint, hello } => (endpoint, Ok(hello)),
            Event::Gone { endpoint, failure } => (endpoint, Err(failure.map(ffi::error))),
        };
        let Some(&id) = table.endpoints.get(&endpoint) else { return };
        let Some(connection) = table.connections.get(&id).cloned() else { return };
        table.unsettled.insert(id);
        drop(table);
        match outcome {
            Ok(hello) => connection.connected(&hello),
            Err(failure) => connection.fail(failure),
        }
    }

    /// Closes what is to be closed, and looks at the connections that need it. Returns when to look
    /// again.
    fn tend(&self) -> Deadline {
        let mut table = self.table.lock();
        for (id, _done) in std::mem::take(&mut table.closing) {
            let Some((listening, requests)) = table.listeners.remove(&id) else { continue };
            while let Some((request, _)) = requests.take() {
                listening.reject(request);
            }
        }
        let unsettled: Vec<Arc<Connection>> = table
            .unsettled
            .drain()
            .collect::<Vec<_>>()
            .iter()
            .filter_map(|id| table.connections.get(id).cloned())
            .collect();
        drop(table);
        let mut next = Deadline::NONE;
        for connection in unsettled {
            match connection.tend() {
                Outcome::Settled => {}
                Outcome::Unsettled(until) => {
                    next = next.earlier(until);
                    self.table.lock().unsettled.insert(connection.id());
                }
                Outcome::Over => self.remove(&connection),
            }
        }
        next
    }

    fn remove(&self, connection: &Connection) {
        let mut table = self.table.lock();
        table.connections.remove(&connection.id());
        let _ = connection.with_endpoint(|endpoint| {
            table.endpoints.remove(&endpoint.id());
            Ok(())
        });
        drop(table);
        // It is not watched where the connection ended before it was begun.
        let _ = self.poller.delete(connection.doorbell());
        connection.close();
    }
}
