//! Many handshakes at a time, on one thread of ordinary priority.
//!
//! A client that sends nothing occupies a slot for as long as a handshake may take, and delays no
//! other client. If all slots are taken, a new client replaces the one that has owed its first
//! message for longest, or the one with the longest handshake. Only while all of them are new do
//! further clients wait in the socket's backlog.

use crate::context::Context;
use crate::handshake::{Handshake, Progress};
use crate::listener::Queue;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::{Deadline, now_ns};
use isorb_transport::{Listener, Wait};
use rustls::ServerConnection;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Handshakes at a time.
const SLOTS: usize = 128;
/// A client that has not sent the whole of its first message after so long may be replaced. It
/// sends that at once, so that it comes with the end of the connect, from however far away.
const HELLO_GRACE_NS: u64 = 20_000_000;
/// A handshake that has taken so long may be replaced.
const GRACE_NS: u64 = 1_000_000_000;
/// Between two attempts at a call that the kernel refused.
const RETRY: Duration = Duration::from_millis(20);
/// The token of the listening socket. Smaller ones are slots.
const LISTENER: u64 = SLOTS as u64;

struct Pending {
    handshake: Handshake,
    /// When the client connected, in nanoseconds.
    since: u64,
    until: Deadline,
}

impl Pending {
    /// From when on another client may replace this one, in nanoseconds.
    fn replaceable_from(&self) -> u64 {
        self.since + if self.handshake.has_answered() { GRACE_NS } else { HELLO_GRACE_NS }
    }
}

type Slots = [Option<Pending>; SLOTS];

/// The slot for the next client, and from when on it may have it, in nanoseconds. At most `allowed`
/// slots are used.
fn next_slot(slots: &Slots, allowed: usize) -> (u64, usize) {
    let full = slots.iter().flatten().count() >= allowed;
    let usable = slots.iter().zip(0..).filter(|(pending, _)| !full || pending.is_some());
    let from = |(pending, slot): (&Option<Pending>, _)| {
        (pending.as_ref().map_or(0, Pending::replaceable_from), slot)
    };
    // There is at least one.
    usable.map(from).min().unwrap_or_default()
}

/// The body of the thread `isorb-tls`.
pub(crate) struct HandshakeThread {
    pub listener: Arc<dyn Listener>,
    pub context: Arc<Context>,
    pub queue: Arc<Queue>,
    pub poller: Arc<Poller>,
}

impl HandshakeThread {
    /// Does handshakes until the poller is woken for good.
    pub fn run(self) {
        let mut slots: Slots = [const { None }; SLOTS];
        let mut events = Events::<16>::new();
        // The listening socket is level-triggered, and watched only while a client may have a slot.
        let mut watched = false;
        loop {
            let deadlines = slots.iter().flatten().map(|pending| pending.until);
            let mut until = deadlines.fold(Deadline::NONE, Deadline::earlier);
            if !watched {
                until = until.earlier(Deadline::at_ns(self.next_slot(&slots).0));
            }
            let ready = match self.poller.wait(&mut events, until) {
                Ok(ready) => ready,
                // No such error is known. If there is one, it must not occupy the processor.
                Err(error) => {
                    self.queue.report(format_args!("waiting for clients failed: {error}"));
                    std::thread::sleep(RETRY);
                    if self.queue.is_closed() {
                        return;
                    }
                    continue;
                }
            };
            for event in ready {
                match event.token {
                    Poller::WAKE => return,
                    LISTENER => self.accept(&mut slots),
                    slot => self.advance(&mut slots, slot as usize),
                }
            }
            for slot in &mut slots {
                if let Some(pending) = slot.take_if(|pending| pending.until.is_past()) {
                    self.abandon(pending, "no handshake in time");
                }
            }
            let free = self.next_slot(&slots).0 <= now_ns();
            if free != watched {
                let fd = self.listener.fd();
                let changed = match free {
                    true => self.poller.add(fd, LISTENER, Interest::READ, Trigger::Level),
                    false => self.poller.delete(fd),
                };
                match changed {
                    Ok(()) => watched = free,
                    // No memory, for example. The next round tries again.
                    Err(error) => {
                        let text = format_args!("the listening socket cannot be watched now: {error}");
                        self.queue.report(text);
                        std::thread::sleep(RETRY);
                    }
                }
            }
        }
    }

    /// The limit of connections is that of handshakes too.
    fn next_slot(&self, slots: &Slots) -> (u64, usize) {
        next_slot(slots, self.queue.allowed_handshakes())
    }

    fn accept(&self, slots: &mut Slots) {
        let now = now_ns();
        let (from, slot) = self.next_slot(slots);
        if from > now {
            return;
        }
        let stream = match self.listener.accept(Wait::No) {
            Ok(stream) => stream,
            // The client has left, or no descriptor is free. The next client makes another event.
            Err(error) => {
                use io::ErrorKind::{ConnectionAborted, NotConnected, WouldBlock};
                if !matches!(error.kind(), WouldBlock | NotConnected | ConnectionAborted) {
                    std::thread::sleep(RETRY);
                }
                return;
            }
        };
        let (roles, stale) = self.context.current();
        if let Some(error) = stale {
            let text = format_args!("{error}; the previous certificates stay in use");
            isorb_rt::log::warn("isorb::tls", text);
        }
        let Some(server) = roles.server else { return };
        let tls = match ServerConnection::new(server) {
            Ok(tls) => tls,
            Err(error) => return self.queue.report(format_args!("{}: {error}", stream.peer())),
        };
        if let Some(pending) = slots[slot].take() {
            self.abandon(pending, "replaced by another client, since its handshake was not done");
        }
        let until = Deadline::after(self.context.config().handshake_timeout);
        if self.poller.add(stream.fd(), slot as u64, Interest::BOTH, Trigger::Edge).is_ok() {
            slots[slot] = Some(Pending { handshake: Handshake::new(stream, tls.into()), since: now, until });
            self.advance(slots, slot);
        }
    }

    fn advance(&self, slots: &mut Slots, slot: usize) {
        let Some(Pending { handshake, since, until }) = slots.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let peer = handshake.stream().peer().to_owned();
        match handshake.advance() {
            Ok(Progress::Pending(handshake)) => slots[slot] = Some(Pending { handshake, since, until }),
            Ok(Progress::Done(stream)) => {
                let _ = self.poller.delete(isorb_transport::Stream::fd(&stream));
                self.queue.put(Box::new(stream));
            }
            // Its descriptor is closed, and no longer watched.
            Err(error) => self.queue.report(format_args!("{peer}: {error}")),
        }
    }

    fn abandon(&self, pending: Pending, reason: &str) {
        let stream = pending.handshake.stream();
        self.queue.report(format_args!("{}: {reason}", stream.peer()));
        let _ = self.poller.delete(stream.fd());
    }
}
