//! Accepting, where the handshake is done already.

use crate::context::Context;
use crate::greeter::Greeter;
use isorb_rt::net::{Interest, Poller, wait_ready};
use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use isorb_transport::{ConnectionLimit, Listener, Stream, Wait};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Connections that may wait to be accepted.
const WAITING: usize = 128;

/// Failed handshakes of which a line is written; the others are only counted.
const LINES: u64 = 100;

/// Connections that were greeted, for who accepts them.
#[derive(Debug)]
pub(crate) struct Queue {
    ready: PiMutex<VecDeque<Box<dyn Stream>>>,
    /// Counts them, for pollers.
    bell: OwnedFd,
    closed: AtomicBool,
    failed: AtomicU64,
    room: OnceLock<ConnectionLimit>,
}

impl Queue {
    fn new() -> io::Result<Queue> {
        let bell = eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Queue {
            ready: PiMutex::new(VecDeque::new()),
            bell,
            closed: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            room: OnceLock::new(),
        })
    }

    /// How many handshakes there may be, at least one: what there is room for, less the connections that wait to be accepted.
    pub fn places(&self) -> usize {
        let Some(room) = self.room.get() else { return usize::MAX };
        // Who was accepted between the two is counted twice, not never.
        let waiting = self.ready.lock().len();
        room.left().saturating_sub(waiting).max(1)
    }

    /// Hands a connection over; closes it when as many wait as may.
    pub fn put(&self, stream: Box<dyn Stream>) {
        {
            let mut ready = self.ready.lock();
            if ready.len() >= WAITING {
                return self.note(format_args!("{}: nobody accepts connections", stream.peer()));
            }
            ready.push_back(stream);
        }
        self.ring();
    }

    /// Whether nobody accepts any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes note of a client that did not get in.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let before = self.failed.fetch_add(1, Ordering::Relaxed);
        if before < LINES {
            eprintln!("isorb-tls: {what}");
        }
    }

    fn ring(&self) {
        // It fails when the counter is full; nobody can have made so many connections.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn take(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            // One count is one connection.
            match rustix::io::read(&self.bell, &mut [0u8; 8]) {
                Ok(_) => {
                    if let Some(stream) = self.ready.lock().pop_front() {
                        return Ok(stream);
                    }
                }
                Err(rustix::io::Errno::AGAIN) if wait == Wait::Block => {
                    wait_ready(&self.bell, Interest::READ, Deadline::NONE)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Listens, and greets in a thread of its own.
#[derive(Debug)]
pub(crate) struct TlsListener {
    door: Arc<dyn Listener>,
    queue: Arc<Queue>,
    poller: Arc<Poller>,
    greeter: PiMutex<Option<Thread<()>>>,
}

impl TlsListener {
    pub fn new(door: Box<dyn Listener>, context: Arc<Context>) -> io::Result<TlsListener> {
        let (door, queue): (Arc<dyn Listener>, _) = (Arc::from(door), Arc::new(Queue::new()?));
        let poller = Arc::new(Poller::new()?);
        let greeter = Greeter { door: door.clone(), context, queue: queue.clone(), poller: poller.clone() };
        // Of the ordinary class, whoever listens: a thread would inherit the class of a real-time one.
        let spec = ThreadSpec::new("isorb-tls").class(SchedClass::Other);
        let thread = spec.spawn(move || greeter.run()).map_err(io::Error::other)?;
        Ok(TlsListener { door, queue, poller, greeter: PiMutex::new(Some(thread)) })
    }
}

impl Listener for TlsListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        self.queue.take(wait)
    }

    fn address(&self) -> &str {
        self.door.address()
    }

    fn close(&self) {
        self.queue.closed.store(true, Ordering::Release);
        self.poller.wake_for_good();
        self.door.close();
        self.queue.ring();
        let greeter = self.greeter.lock().take();
        if let Some(greeter) = greeter {
            // It can only have panicked, and has said so.
            let _ = greeter.join();
        }
        self.queue.ready.lock().clear();
    }

    fn set_limit(&self, limit: ConnectionLimit) {
        // The first stays.
        let _ = self.queue.room.set(limit);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.queue.bell.as_fd()
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.close();
    }
}
