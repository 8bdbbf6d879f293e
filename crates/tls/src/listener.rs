//! Accepting connections after their handshake.

use crate::context::Context;
use crate::handshake_thread::HandshakeThread;
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
const MAX_WAITING: usize = 128;

/// The first failed handshakes are logged; the others are only counted.
const MAX_LOGGED: u64 = 100;

/// Connections after their handshake, which wait to be accepted.
#[derive(Debug)]
pub(crate) struct Queue {
    ready: PiMutex<VecDeque<Box<dyn Stream>>>,
    /// Counts the connections, for pollers.
    ready_fd: OwnedFd,
    closed: AtomicBool,
    failed: AtomicU64,
    limit: OnceLock<ConnectionLimit>,
}

impl Queue {
    fn new() -> io::Result<Queue> {
        let ready_fd = eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Queue {
            ready: PiMutex::new(VecDeque::new()),
            ready_fd,
            closed: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            limit: OnceLock::new(),
        })
    }

    /// How many handshakes there may be, at least one: the limit less the connections that wait to
    /// be accepted.
    pub fn allowed_handshakes(&self) -> usize {
        let Some(limit) = self.limit.get() else { return usize::MAX };
        // A connection that is accepted between the two is counted twice, which is safe.
        let waiting = self.ready.lock().len();
        limit.left().saturating_sub(waiting).max(1)
    }

    /// Adds a connection; closes it if too many wait.
    pub fn put(&self, stream: Box<dyn Stream>) {
        {
            let mut ready = self.ready.lock();
            if ready.len() >= MAX_WAITING {
                return self.report(format_args!(
                    "{}: closed, since the server does not accept connections",
                    stream.peer()
                ));
            }
            ready.push_back(stream);
        }
        self.signal();
    }

    /// Whether the listener is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Logs a client that was not accepted.
    pub fn report(&self, text: fmt::Arguments<'_>) {
        let before = self.failed.fetch_add(1, Ordering::Relaxed);
        if before < MAX_LOGGED {
            isorb_rt::log::warn("isorb::tls", text);
        }
    }

    fn signal(&self) {
        // Fails when the counter is full, after 2^64 connections.
        let _ = rustix::io::write(&self.ready_fd, &1u64.to_ne_bytes());
    }

    fn take(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            // One count is one connection.
            match rustix::io::read(&self.ready_fd, &mut [0u8; 8]) {
                Ok(_) => {
                    if let Some(stream) = self.ready.lock().pop_front() {
                        return Ok(stream);
                    }
                }
                Err(rustix::io::Errno::AGAIN) if wait == Wait::Block => {
                    wait_ready(&self.ready_fd, Interest::READ, Deadline::NONE)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Listens; handshakes run on a separate thread.
#[derive(Debug)]
pub(crate) struct TlsListener {
    listener: Arc<dyn Listener>,
    queue: Arc<Queue>,
    poller: Arc<Poller>,
    thread: PiMutex<Option<Thread<()>>>,
}

impl TlsListener {
    pub fn new(listener: Box<dyn Listener>, context: Arc<Context>) -> io::Result<TlsListener> {
        let (listener, queue): (Arc<dyn Listener>, _) = (Arc::from(listener), Arc::new(Queue::new()?));
        let poller = Arc::new(Poller::new()?);
        let body = HandshakeThread {
            listener: listener.clone(),
            context,
            queue: queue.clone(),
            poller: poller.clone(),
        };
        // Of the ordinary class: it would inherit the class of a real-time thread that listens.
        let spec = ThreadSpec::new("isorb-tls").class(SchedClass::Other);
        let thread = spec.spawn(move || body.run()).map_err(io::Error::other)?;
        Ok(TlsListener { listener, queue, poller, thread: PiMutex::new(Some(thread)) })
    }
}

impl Listener for TlsListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        self.queue.take(wait)
    }

    fn address(&self) -> &str {
        self.listener.address()
    }

    fn close(&self) {
        self.queue.closed.store(true, Ordering::Release);
        self.poller.wake_for_good();
        self.listener.close();
        self.queue.signal();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // An error means that it panicked, which was printed.
            let _ = thread.join();
        }
        self.queue.ready.lock().clear();
    }

    fn set_limit(&self, limit: ConnectionLimit) {
        // The first one is used.
        let _ = self.queue.limit.set(limit);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.queue.ready_fd.as_fd()
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.close();
    }
}
