//! Many handshakes at a time, in one thread of ordinary priority.
//!
//! A client that does not speak costs a place for as long as a handshake may take, and nobody else anything: where all places are taken,
//! who comes gets that of the one who has said nothing for longest, or whose handshake has taken longest. Only while all of them are new
//! do further clients wait in the socket's backlog.

use crate::context::Context;
use crate::handshake::{Handshake, Step};
use crate::listener::Queue;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::{Deadline, now_ns};
use isorb_transport::{Listener, Wait};
use rustls::ServerConnection;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Handshakes at a time.
const PLACES: usize = 128;
/// Who has said nothing for so long gives way to another: a client speaks first, at once.
const SILENT_GRACE_NS: u64 = 200_000_000;
/// Whose handshake has taken so long gives way to another.
const GRACE_NS: u64 = 1_000_000_000;
/// Between two attempts at what the system refused.
const AGAIN: Duration = Duration::from_millis(20);
/// Of the listening socket; the others are places.
const DOOR: u64 = PLACES as u64;

struct Guest {
    handshake: Handshake,
    /// When it came, in nanoseconds.
    since: u64,
    until: Deadline,
}

impl Guest {
    /// From when on it gives its place to another, in nanoseconds.
    fn yields_from(&self) -> u64 {
        self.since + if self.handshake.has_heard() { GRACE_NS } else { SILENT_GRACE_NS }
    }
}

type Guests = [Option<Guest>; PLACES];

/// From when on there is a place for another, in nanoseconds, and which, where no more than so many may be taken.
fn next_place(guests: &Guests, allowed: usize) -> (u64, usize) {
    let full = guests.iter().flatten().count() >= allowed;
    let places = guests.iter().zip(0..).filter(|(guest, _)| !full || guest.is_some());
    let places = places.map(|(guest, place)| (guest.as_ref().map_or(0, Guest::yields_from), place));
    // There are places.
    places.min().unwrap_or_default()
}

pub(crate) struct Greeter {
    pub door: Arc<dyn Listener>,
    pub context: Arc<Context>,
    pub queue: Arc<Queue>,
    pub poller: Arc<Poller>,
}

impl Greeter {
    /// Greets until the poller is woken for good.
    pub fn run(self) {
        let mut guests: Guests = [const { None }; PLACES];
        let mut events = Events::<16>::new();
        // Level-triggered, and watched only while there is a place for who comes. Tried again below where it fails.
        let mut open = false;
        loop {
            let mut until =
                guests.iter().flatten().fold(Deadline::NONE, |first, guest| first.earlier(guest.until));
            if !open {
                until = until.earlier(Deadline::at_ns(self.next_place(&guests).0));
            }
            let ready = match self.poller.wait(&mut events, until) {
                Ok(ready) => ready,
                // None is known. Should there be one, the door stays, and this thread does not take the processor.
                Err(error) => {
                    self.queue.note(format_args!("waiting for clients failed: {error}"));
                    std::thread::sleep(AGAIN);
                    if self.queue.is_closed() {
                        return;
                    }
                    continue;
                }
            };
            for event in ready {
                match event.token {
                    Poller::WAKE => return,
                    DOOR => self.welcome(&mut guests),
                    place => self.go_on(&mut guests, place as usize),
                }
            }
            for place in guests.iter_mut() {
                if place.as_ref().is_some_and(|guest| guest.until.is_past())
                    && let Some(guest) = place.take()
                {
                    let stream = guest.handshake.stream();
                    self.gone(stream.peer(), &"no handshake in time");
                    let _ = self.poller.delete(stream.fd());
                }
            }
            let free = self.next_place(&guests).0 <= now_ns();
            if free != open {
                let fd = self.door.fd();
                let changed = match free {
                    true => self.poller.add(fd, DOOR, Interest::READ, Trigger::Level),
                    false => self.poller.delete(fd),
                };
                match changed {
                    Ok(()) => open = free,
                    // Without memory for it, for one: the door is as it was, until the next attempt.
                    Err(error) => {
                        self.queue.note(format_args!("the door cannot be watched now: {error}"));
                        std::thread::sleep(AGAIN);
                    }
                }
            }
        }
    }

    /// Connections that there may be and handshakes have one limit.
    fn next_place(&self, guests: &Guests) -> (u64, usize) {
        next_place(guests, self.queue.places())
    }

    fn welcome(&self, guests: &mut Guests) {
        let now = now_ns();
        let (from, place) = self.next_place(guests);
        if from > now {
            return;
        }
        let stream = match self.door.accept(Wait::No) {
            Ok(stream) => stream,
            // Gone again, or no descriptor is left: whoever is next is told by the next event.
            Err(error) => {
                use io::ErrorKind::{ConnectionAborted, NotConnected, WouldBlock};
                if !matches!(error.kind(), WouldBlock | NotConnected | ConnectionAborted) {
                    std::thread::sleep(AGAIN);
                }
                return;
            }
        };
        let (roles, stale) = self.context.current();
        if let Some(error) = stale {
            eprintln!("isorb-tls: {error}; the certificates from before stay in use");
        }
        let Some(server) = roles.server else { return };
        let tls = match ServerConnection::new(server) {
            Ok(tls) => tls,
            Err(error) => return self.gone(stream.peer(), &error),
        };
        if let Some(guest) = guests[place].take() {
            let stream = guest.handshake.stream();
            self.gone(stream.peer(), &"gives its place to another, since its handshake was not done");
            let _ = self.poller.delete(stream.fd());
        }
        let until = Deadline::after(self.context.config().handshake_timeout);
        if self.poller.add(stream.fd(), place as u64, Interest::BOTH, Trigger::Edge).is_ok() {
            guests[place] = Some(Guest { handshake: Handshake::new(stream, tls.into()), since: now, until });
            self.go_on(guests, place);
        }
    }

    fn go_on(&self, guests: &mut Guests, place: usize) {
        let Some(Guest { handshake, since, until }) = guests.get_mut(place).and_then(Option::take) else {
            return;
        };
        let peer = handshake.stream().peer().to_owned();
        match handshake.step() {
            Ok(Step::Pending(handshake)) => guests[place] = Some(Guest { handshake, since, until }),
            Ok(Step::Done(stream)) => {
                let _ = self.poller.delete(isorb_transport::Stream::fd(&stream));
                self.queue.put(Box::new(stream));
            }
            // Its descriptor is closed, and no longer watched.
            Err(error) => self.gone(&peer, &error),
        }
    }

    fn gone(&self, peer: &str, why: &dyn std::fmt::Display) {
        self.queue.note(format_args!("{peer}: {why}"));
    }
}
