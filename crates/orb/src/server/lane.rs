//! A fixed number of threads for all connections of an endpoint.
//!
//! All threads wait on one poller, edge-triggered; the kernel chooses the thread that gets an event. A connection has one
//! owner at a time: an event that finds it owned is left to the owner, who looks once more before it lets go. Nobody is
//! promoted, nothing is re-armed.

use super::{Next, finish, guarded, on_message};
use crate::Orb;
use crate::connection::{Connection, ReadError};
use crate::workspace::Work;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Lane {
    poller: Arc<Poller>,
    /// When to look for members that are to be given up, in nanoseconds; `NEVER` while all of them get on.
    review_at: AtomicU64,
    members: PiMutex<Members>,
}

/// As nanoseconds, no deadline.
const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct Members {
    places: Vec<(u32, Option<Arc<Member>>)>,
    free: Vec<usize>,
}

struct Member {
    connection: Arc<Connection>,
    turn: Turn,
    /// The peer will send no more; what it has sent may still be there.
    closed: AtomicBool,
    /// Part of a reply waits for the peer to read; no request is read meanwhile.
    stuffed: AtomicBool,
}

impl Lane {
    pub fn new() -> std::io::Result<Lane> {
        Ok(Lane {
            poller: Arc::new(Poller::new()?),
            review_at: AtomicU64::new(NEVER),
            members: PiMutex::default(),
        })
    }

    /// Takes a connection in.
    pub fn add(&self, connection: Arc<Connection>) -> std::io::Result<()> {
        let member = Arc::new(Member {
            connection,
            turn: Turn::new(),
            closed: AtomicBool::new(false),
            stuffed: AtomicBool::new(false),
        });
        let token = {
            let mut members = self.members.lock();
            let place = members.free.pop().unwrap_or_else(|| {
                members.places.push((0, None));
                members.places.len() - 1
            });
            members.places[place].1 = Some(member.clone());
            u64::from(members.places[place].0) << 32 | place as u64
        };
        member.connection.watched_by(&self.poller, token);
        member.connection.stream().watched();
        let added = self.poller.add(member.connection.stream().fd(), token, Interest::BOTH, Trigger::Edge);
        if added.is_err() {
            self.remove(token);
        }
        Ok(added?)
    }

    /// Serves events until the lane is closed.
    pub fn run(&self, orb: &Orb) {
        let mut work = Work::new(orb.pool());
        let mut events = Events::<1>::new();
        loop {
            if self.review_at.load(Ordering::Relaxed) != NEVER {
                self.review();
            }
            let deadline = Deadline::at_ns(self.review_at.load(Ordering::Relaxed));
            let Ok(ready) = self.poller.wait(&mut events, deadline) else { return };
            for event in ready {
                if event.token == Poller::WAKE {
                    return;
                }
                let Some(member) = self.member(event.token) else { continue };
                let next = guarded(|| member.on_event(orb, &mut work, event.closed));
                if let Some(at) = member.connection.gives_up_at() {
                    self.review_at.fetch_min(at, Ordering::Relaxed);
                }
                if next == Next::Close {
                    member.connection.break_off();
                    let _ = self.poller.delete(member.connection.stream().fd());
                    self.remove(event.token);
                    orb.connection_ended(&member.connection);
                }
            }
        }
    }

    /// Breaks off the members whose time is up: a lane blocks on none of them, so no receive of it ends by itself. What is broken
    /// off is an event, and goes the way of all that end.
    #[cold]
    fn review(&self) {
        let now = now_ns();
        if now < self.review_at.load(Ordering::Relaxed) {
            return;
        }
        self.review_at.store(NEVER, Ordering::Relaxed);
        let members: Vec<_> =
            self.members.lock().places.iter().filter_map(|(_, member)| member.clone()).collect();
        for member in members {
            match member.connection.gives_up_at() {
                Some(at) if at <= now && member.connection.is_open() => member.connection.give_up(),
                Some(at) if at > now => {
                    self.review_at.fetch_min(at, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }

    /// Ends all threads of the lane.
    pub fn close(&self) {
        self.poller.wake_for_good();
    }

    fn member(&self, token: u64) -> Option<Arc<Member>> {
        let members = self.members.lock();
        let (generation, member) = members.places.get(token as u32 as usize)?;
        if u64::from(*generation) == token >> 32 { member.clone() } else { None }
    }

    fn remove(&self, token: u64) {
        let mut members = self.members.lock();
        let place = token as u32 as usize;
        if let Some((generation, member)) = members.places.get_mut(place)
            && u64::from(*generation) == token >> 32
            && member.take().is_some()
        {
            *generation = generation.wrapping_add(1);
            members.free.push(place);
        }
    }
}

impl Member {
    fn on_event(&self, orb: &Orb, work: &mut Work, closed: bool) -> Next {
        // Before the turn, so that an owner who misses this looks again.
        if closed {
            self.closed.store(true, Ordering::SeqCst);
        }
        if !self.turn.take() {
            return Next::Continue;
        }
        loop {
            // Who closes keeps the turn, so that nobody reads any more.
            if self.drain(orb, work) == Next::Close {
                return Next::Close;
            }
            if self.turn.pass() {
                return Next::Continue;
            }
        }
    }

    /// Serves what has arrived, until the socket has no more or the peer does not take replies. A message with nothing
    /// behind it is taken for the last, which saves a receive that would find nothing: whatever comes later is another
    /// event. Only the end of the stream has to be looked for, once it was announced.
    fn drain(&self, orb: &Orb, work: &mut Work) -> Next {
        let connection = &self.connection;
        if self.stuffed.load(Ordering::Acquire) {
            match connection.flush() {
                Ok(true) => self.stuffed.store(false, Ordering::Release),
                Ok(false) => return Next::Continue,
                Err(_) => return Next::Close,
            }
        }
        loop {
            let (read, last) = connection.read_arrived(&mut work.block);
            match read {
                Ok(arrived) => {
                    let mut send = |message: &isorb_cdr::Message<'_>| {
                        if connection.send_or_keep(message) == Ok(false) {
                            self.stuffed.store(true, Ordering::Release);
                        }
                    };
                    if on_message(orb, connection, arrived, work, &mut send) == Next::Close {
                        return Next::Close;
                    }
                    work.trim();
                    let done = last && !self.closed.load(Ordering::SeqCst);
                    if done || self.stuffed.load(Ordering::Acquire) {
                        return Next::Continue;
                    }
                }
                Err(ReadError::WouldBlock) => return Next::Continue,
                Err(error) => {
                    finish(connection, error);
                    return Next::Close;
                }
            }
        }
    }
}
