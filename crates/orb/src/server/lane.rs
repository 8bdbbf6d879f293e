//! A fixed number of threads for all connections of an endpoint.
//!
//! All threads wait on one poller, edge-triggered; the kernel chooses the thread that gets an event. A connection has one
//! owner at a time: an event that finds it owned is left to the owner, who looks once more before it lets go. Nobody is
//! promoted, nothing is re-armed.
//!
//! A lane of a thread pool has a [`Station`] beside: it accepts its own connections, and lets a connection go before it runs a
//! request of it, so that other threads can read what comes next.

use super::parcel::Caller;
use super::station::Station;
use super::{Next, finish, guarded, on_message};
use crate::Orb;
use crate::connection::{Connection, GRACE_NS, ReadError};
use crate::workspace::Work;
use isorb_cdr::Message;
use isorb_giop::MessageKind;
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Lane {
    poller: Arc<Poller>,
    /// When to look for members that are to be given up, in nanoseconds; `NEVER` while all of them get on.
    review_at: AtomicU64,
    /// Whether somebody may wait at a door, who was not taken in for want of a descriptor or of memory.
    left_waiting: AtomicBool,
    /// Before this no member gives its place to another, in nanoseconds.
    yields_from: AtomicU64,
    members: PiMutex<Members>,
    station: Option<Station>,
}

/// How long a lane leaves its doors alone when there was no descriptor for those who wait there.
const DOOR_PAUSE_NS: u64 = 20_000_000;

/// As nanoseconds, no deadline.
const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct Members {
    places: Vec<(u32, Option<Arc<Member>>)>,
    free: Vec<usize>,
}

/// The token of a station's doors; no connection has it, since there are not that many.
const DOOR: u64 = u64::MAX - 1;

pub(crate) struct Member {
    connection: Arc<Connection>,
    token: u64,
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
            left_waiting: AtomicBool::new(false),
            yields_from: AtomicU64::new(0),
            members: PiMutex::default(),
            station: None,
        })
    }

    /// A lane of a thread pool.
    pub fn with_station(station: Station) -> std::io::Result<Lane> {
        let lane = Lane { station: Some(station), ..Lane::new()? };
        if let Some(station) = &lane.station {
            for door in station.doors() {
                lane.poller.add(door.listener.fd(), DOOR, Interest::READ, Trigger::Edge)?;
            }
        }
        Ok(lane)
    }

    pub fn station(&self) -> Option<&Station> {
        self.station.as_ref()
    }

    /// Takes a connection in.
    pub fn add(&self, connection: Arc<Connection>) -> std::io::Result<()> {
        let token = {
            let mut members = self.members.lock();
            let place = members.free.pop().unwrap_or_else(|| {
                members.places.push((0, None));
                members.places.len() - 1
            });
            let token = u64::from(members.places[place].0) << 32 | place as u64;
            let connection = connection.clone();
            members.places[place].1 = Some(Arc::new(Member {
                connection,
                token,
                turn: Turn::new(),
                closed: AtomicBool::new(false),
                stuffed: AtomicBool::new(false),
            }));
            token
        };
        connection.watched_by(&self.poller, token);
        connection.stream().watched();
        let added = self.poller.add(connection.stream().fd(), token, Interest::BOTH, Trigger::Edge);
        if added.is_err() {
            self.remove(token);
        }
        Ok(added?)
    }

    /// Whether a connection is in this lane.
    pub fn has(&self, connection: &Arc<Connection>) -> bool {
        let members = self.members.lock();
        let mut all = members.places.iter().filter_map(|(_, member)| member.as_ref());
        all.any(|member| Arc::ptr_eq(&member.connection, connection))
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        let members = self.members.lock();
        members.places.len() - members.free.len()
    }

    /// Whether there is a place for another connection among at most so many. Where all are taken, the one gives way that has been there
    /// for longest without sending a request, and longer than the grace, so that those who only connect do not keep others out.
    ///
    /// # Real-time
    /// Allocates nothing. Where all places are taken, one walk over the members under the lane's PI lock; none while it is known from the
    /// last walk that nobody's grace is over, so that a storm of newcomers costs those who are served no walk each.
    pub fn has_room(&self, orb: &Orb, limit: usize) -> bool {
        self.connections() < limit || self.makes_room(orb)
    }

    #[cold]
    fn makes_room(&self, orb: &Orb) -> bool {
        let now = now_ns();
        if now < self.yields_from.load(Ordering::Relaxed) {
            return false;
        }
        let silent = {
            let members = self.members.lock();
            let all = members.places.iter().filter_map(|(_, member)| member.as_ref());
            let silent = all.filter_map(|member| Some((member.connection.silent_since()?, member)));
            silent.min_by_key(|(since, _)| *since).map(|(since, member)| (since, member.clone()))
        };
        // Who comes from now on has a grace that ends later than that of all who are there.
        let over_at = silent.as_ref().map_or(now, |(since, _)| *since).saturating_add(GRACE_NS);
        let Some((_, member)) = silent.filter(|_| over_at <= now) else {
            self.yields_from.store(over_at, Ordering::Relaxed);
            return false;
        };
        // Who reads it now may have found its first request, and so may who has read it since.
        if !member.turn.take() {
            return false;
        }
        if member.connection.silent_since().is_none() || member.connection.waits_to_be_read() {
            member.let_go(self, true);
            return false;
        }
        // The turn is kept: nobody reads it any more.
        crate::log::note(format_args!(
            "{}: broken off for another; it has sent a lane no request (max_connections)",
            member.connection.peer()
        ));
        self.drop_member(orb, &member);
        true
    }

    /// Serves events until the lane is closed, or the thread is a dynamic one that was not needed for a while.
    pub fn run(self: &Arc<Self>, orb: &Orb) {
        let station = self.station.as_ref();
        let mut work = station.map_or_else(|| Work::new(orb.pool()), |station| station.work(orb.pool()));
        let mut events = Events::<1>::new();
        let worker = station.and_then(|station| station.threads.register());
        loop {
            if self.review_at.load(Ordering::Relaxed) != NEVER {
                self.review(orb);
            }
            let patience = station.map_or(Deadline::NONE, Station::patience);
            let review = Deadline::at_ns(self.review_at.load(Ordering::Relaxed));
            if let Some(station) = station {
                station.threads.set_idle(worker);
            }
            let waited = self.poller.wait(&mut events, patience.earlier(review));
            let raised = station.is_some_and(|station| station.threads.set_busy(worker));
            let Ok(mut ready) = waited else { break };
            let event = ready.next();
            match (event.map(|event| event.token), station) {
                (Some(Poller::WAKE), Some(station)) if !station.threads.is_closed() => {
                    station.errand(self, orb, &mut work, raised);
                    continue;
                }
                (Some(Poller::WAKE), _) => break,
                (_, Some(station)) if raised => station.back_to_own_priority(),
                _ => {}
            }
            match (event, station) {
                (Some(event), Some(station)) if event.token == DOOR => station.accept(self, orb),
                (Some(event), _) => {
                    let Some(member) = self.member(event.token) else { continue };
                    let next = guarded(|| member.on_event(self, orb, &mut work, event.closed));
                    if let Some(at) = member.connection.gives_up_at() {
                        self.review_at.fetch_min(at, Ordering::Relaxed);
                    }
                    if next == Next::Close {
                        self.expel(orb, &member);
                    }
                }
                (None, Some(station)) if patience.is_past() && station.threads.retire() => break,
                (None, _) => {}
            }
        }
        if let Some(station) = station {
            station.threads.deregister(worker);
        }
    }

    /// Wakes one thread, for an errand.
    pub fn wake(&self) {
        self.poller.wake();
    }

    fn drop_member(&self, orb: &Orb, member: &Member) {
        member.connection.break_off();
        let _ = self.poller.delete(member.connection.stream().fd());
        self.remove(member.token);
        orb.connection_ended(&member.connection);
    }

    /// Has a thread of the lane look at its doors in a moment, since somebody waits there who could not be taken in just now.
    #[cold]
    pub fn leave_waiting(&self) {
        self.left_waiting.store(true, Ordering::Relaxed);
        self.review_at.fetch_min(now_ns().saturating_add(DOOR_PAUSE_NS), Ordering::Relaxed);
    }

    fn expel(&self, orb: &Orb, member: &Member) {
        self.drop_member(orb, member);
        if let Some(station) = &self.station {
            // Somebody may have found the lane full, or the process without a descriptor.
            station.accept(self, orb);
        }
    }

    /// Stops accepting, closes all connections in order, ends all threads. For a lane with a station.
    pub fn end(&self) {
        if let Some(station) = &self.station {
            // First, so that a thread which sees a door closed knows why.
            let left = station.threads.close();
            station.doors().iter().for_each(|door| door.listener.close());
            let connections: Vec<_> = {
                let members = self.members.lock();
                let all = members.places.iter().filter_map(|(_, member)| member.as_ref());
                all.map(|member| member.connection.clone()).collect()
            };
            Connection::close_all(&connections);
            // Their clients were told just now that they were not processed.
            drop(left);
        }
        self.close();
    }

    /// Breaks off the members whose time is up: a lane blocks on none of them, so no receive of it ends by itself. What is broken
    /// off is an event, and goes the way of all that end. Lets those in who were left waiting at a door.
    #[cold]
    fn review(&self, orb: &Orb) {
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
        if let Some(station) = &self.station
            && self.left_waiting.swap(false, Ordering::Relaxed)
        {
            station.accept(self, orb);
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

/// What came of reading a connection.
enum Drained {
    Done,
    Close,
    /// The turn was passed on already.
    LetGo,
}

impl Member {
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends a reply as far as the peer takes it. When it cannot be sent, the connection breaks.
    pub fn send(&self, message: &Message<'_>) {
        let sent = self.connection.send_or_keep(message);
        super::long::instead(&self.connection, sent.err(), message);
        if sent == Ok(false) {
            self.stuffed.store(true, Ordering::SeqCst);
            // Where several threads are busy with the connection, the peer may have made room before that was known here, and the event
            // that said so found nothing to flush: have it reported once more.
            self.connection.report();
        }
    }

    fn on_event(self: &Arc<Self>, lane: &Arc<Lane>, orb: &Orb, work: &mut Work, closed: bool) -> Next {
        // Before the turn, so that an owner who misses this looks again.
        if closed {
            self.closed.store(true, Ordering::SeqCst);
        }
        if !self.turn.take() {
            return Next::Continue;
        }
        if self.has_left(lane) {
            return Next::Continue;
        }
        loop {
            match self.drain(lane, orb, work) {
                // Who closes keeps the turn, so that nobody reads any more.
                Drained::Close => return Next::Close,
                Drained::LetGo => return Next::Continue,
                Drained::Done if self.turn.pass() => return Next::Continue,
                Drained::Done => {}
            }
        }
    }

    /// Serves what has arrived, until the socket has no more or the peer does not take replies. A message with nothing
    /// behind it is taken for the last, which saves a receive that would find nothing: whatever comes later is another
    /// event. Only the end of the stream has to be looked for, once it was announced.
    fn drain(self: &Arc<Self>, lane: &Arc<Lane>, orb: &Orb, work: &mut Work) -> Drained {
        let connection = &self.connection;
        if self.stuffed.load(Ordering::Acquire) {
            match connection.flush() {
                Ok(true) => self.stuffed.store(false, Ordering::Release),
                Ok(false) => return Drained::Done,
                Err(_) => return Drained::Close,
            }
        }
        let sharing = lane.station.as_ref().filter(|station| station.shares());
        loop {
            let (read, last) = connection.read_arrived(&mut work.block, sharing.is_none());
            match read {
                Ok(arrived) => {
                    let done = last && !self.closed.load(Ordering::SeqCst);
                    if let Some(station) = sharing
                        && arrived.header.kind == MessageKind::Request
                    {
                        // While it waits for a place, its client is not one who says nothing.
                        connection.hear();
                        self.let_go(lane, !done);
                        station.serve(lane, orb, Caller::Member(self), arrived, work);
                        return Drained::LetGo;
                    }
                    let mut send = |message: &Message<'_>| self.send(message);
                    if on_message(orb, connection, arrived, work, &mut send) == Next::Close {
                        return Drained::Close;
                    }
                    work.trim();
                    if self.has_left(lane) {
                        return Drained::LetGo;
                    }
                    let done = last && !self.closed.load(Ordering::SeqCst);
                    if done || self.stuffed.load(Ordering::Acquire) {
                        return Drained::Done;
                    }
                }
                Err(ReadError::WouldBlock) => return Drained::Done,
                Err(error) => {
                    finish(connection, error);
                    return Drained::Close;
                }
            }
        }
    }

    /// Whether the connection was moved to another lane, which serves it from then on. The turn is kept: nobody reads here any more.
    fn has_left(&self, lane: &Arc<Lane>) -> bool {
        if self.connection.home.get().is_none_or(|home| std::ptr::eq(home.as_ptr(), Arc::as_ptr(lane))) {
            return false;
        }
        let _ = lane.poller.delete(self.connection.stream().fd());
        lane.remove(self.token);
        true
    }

    /// Leaves the connection to others. What may have arrived besides is reported again, to any thread.
    fn let_go(&self, lane: &Lane, mut more: bool) {
        while !self.turn.pass() {
            more = true;
        }
        if more {
            // What can be written to is ready, so there is an event, whether or not more has arrived.
            let fd = self.connection.stream().fd();
            let _ = lane.poller.modify(fd, self.token, Interest::BOTH, Trigger::Edge);
        }
    }
}
