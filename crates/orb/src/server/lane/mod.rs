//! A fixed number of threads for all connections of an endpoint.
//!
//! All threads wait on one poller, edge-triggered; the kernel chooses the thread that gets an
//! event. A connection has one owner at a time. A thread that gets an event of an owned connection
//! leaves it to the owner, which looks once more before it releases the connection. Before it
//! waits, a thread polls the rings of connections over segments ([`RingWatch`]).
//!
//! A lane of a thread pool has a [`LaneServer`] beside. It accepts its own connections, and a
//! thread releases the connection before it runs a request, so that others can read the next one.

mod member;

pub(crate) use member::Member;

use super::guarded;
use super::lane_server::{Acceptor, LaneServer};
use super::ring_watch::{Ready, RingWatch};
use crate::buffers::CallBuffers;
use crate::connection::{Connection, Idleness};
use crate::{Orb, SystemException};
use isorb_giop::Kind;
use isorb_rt::net::{Event, Events, Interest, Poller, Trigger};
use isorb_rt::sched::ThreadId;
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Lane {
    /// Differs between all lanes of the process.
    number: u64,
    poller: Arc<Poller>,
    /// When to look for stalled members, in nanoseconds; `NEVER` while none is stalled.
    review_at: AtomicU64,
    /// Whether clients may wait that could not be accepted for want of a descriptor or of memory.
    accept_again: AtomicBool,
    /// Before this time no member can be evicted for a new one, in nanoseconds.
    evicts_from: AtomicU64,
    members: PiMutex<Members>,
    rings: RingWatch<Member>,
    server: Option<LaneServer>,
    /// No thread is to wait any more.
    closed: AtomicBool,
}

/// Pause before the lane accepts again after a failure.
const ACCEPT_PAUSE_NS: u64 = 20_000_000;
/// Nanoseconds between two walks over the connections of a full lane, all in use.
const EVICTION_PAUSE_NS: u64 = 10_000_000;

/// Idle connections that a full lane looks at for a newcomer: those of clients that have just sent
/// a request stay.
const EVICTION_TRIES: usize = 4;

/// The order of evictions: how idle, since when, and the place in the lane.
type IdleOrder = ((Idleness, u64), usize);

/// No time.
const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct Members {
    slots: Vec<(u32, Option<Arc<Member>>)>,
    free: Vec<usize>,
}

/// The token of the acceptors. No connection has it, since there are not that many.
const ACCEPTORS: u64 = u64::MAX - 1;

/// A number that no other lane of the process has; never 0.
pub(crate) fn next_lane_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Lane {
    /// A lane of one thread or of several.
    pub fn new(several: bool) -> std::io::Result<Lane> {
        Ok(Lane {
            number: next_lane_number(),
            poller: Arc::new(Poller::new()?),
            review_at: AtomicU64::new(NEVER),
            accept_again: AtomicBool::new(false),
            evicts_from: AtomicU64::new(0),
            members: PiMutex::default(),
            rings: RingWatch::new(several),
            server: None,
            closed: AtomicBool::new(false),
        })
    }

    /// A lane of a thread pool.
    pub fn with_server(server: LaneServer) -> std::io::Result<Lane> {
        let several = server.threads.config().max_threads() > 1;
        let lane = Lane { number: server.number(), server: Some(server), ..Lane::new(several)? };
        if let Some(server) = &lane.server {
            for acceptor in server.acceptors() {
                lane.poller.add(acceptor.listener.fd(), ACCEPTORS, Interest::READ, Trigger::Edge)?;
            }
        }
        Ok(lane)
    }

    pub fn server(&self) -> Option<&LaneServer> {
        self.server.as_ref()
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Adds a connection.
    pub fn add(&self, connection: Arc<Connection>) -> std::io::Result<()> {
        let (token, member) = {
            let mut members = self.members.lock();
            let place = members.free.pop().unwrap_or_else(|| {
                members.slots.push((0, None));
                members.slots.len() - 1
            });
            let token = u64::from(members.slots[place].0) << 32 | place as u64;
            let connection = connection.clone();
            let member = Arc::new(Member {
                connection,
                token,
                turn: Turn::new(),
                closed: AtomicBool::new(false),
                blocked: AtomicBool::new(false),
                owned: AtomicBool::new(false),
                shared: self.server.as_ref().is_some_and(LaneServer::shares),
            });
            members.slots[place].1 = Some(member.clone());
            (token, member)
        };
        connection.watched_by(&self.poller, token);
        connection.stream().watched();
        if let Some(ring) = connection.stream().polled() {
            self.rings.add(&member, ring);
        }
        let added = self.poller.add(connection.stream().fd(), token, Interest::BOTH, Trigger::Edge);
        if added.is_err() {
            self.remove(token);
        }
        Ok(added?)
    }

    /// Reads a connection with calls that were begun, one until `deadline`: for a lane of a client.
    ///
    /// # Errors
    /// NO_RESOURCES when the connection cannot be watched.
    ///
    /// # Real-time
    /// Allocates for the first call of a connection. Does not wait; makes a system call where no
    /// call ends earlier.
    pub fn watch(&self, connection: &Arc<Connection>, deadline: Deadline) -> crate::Result<()> {
        if connection.begin_watch() {
            self.add(connection.clone()).map_err(|error| {
                SystemException::from(Kind::NoResources)
                    .detail(format!("the client lane cannot watch {}: {error}", connection.peer()))
            })?;
        }
        if let Some(at) = deadline.as_ns()
            && at < self.review_at.fetch_min(at, Ordering::SeqCst)
        {
            self.poller.wake();
        }
        Ok(())
    }

    /// Whether a connection is in this lane.
    pub fn has(&self, connection: &Arc<Connection>) -> bool {
        let members = self.members.lock();
        let mut all = members.slots.iter().filter_map(|(_, member)| member.as_ref());
        all.any(|member| Arc::ptr_eq(&member.connection, connection))
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        let members = self.members.lock();
        members.slots.len() - members.free.len()
    }

    /// Whether the lane can take another connection, with at most `limit`. A full lane evicts the
    /// connection that has been idle for longest, whatever its client has sent before.
    ///
    /// # Real-time
    /// Allocates nothing. If the lane is full, one walk over the members under the lane's PI lock,
    /// and up to three more where the first ones have octets to be read.
    /// A walk that found no idle connection is not repeated for 10 ms, so that a storm of new
    /// connections does not delay the clients that are served.
    pub fn has_room(&self, orb: &Orb, limit: usize) -> bool {
        self.connections() < limit || self.evict_idle(orb)
    }

    #[cold]
    fn evict_idle(&self, orb: &Orb) -> bool {
        let now = now_ns();
        if now < self.evicts_from.load(Ordering::Relaxed) {
            return false;
        }
        let mut tried = None;
        for _ in 0..EVICTION_TRIES {
            let Some((order, member)) = self.longest_idle(now, tried) else {
                if tried.is_none() {
                    self.evicts_from.store(now.saturating_add(EVICTION_PAUSE_NS), Ordering::Relaxed);
                }
                return false;
            };
            if self.evict_if_quiet(orb, &member, now) {
                return true;
            }
            tried = Some(order);
        }
        false
    }

    /// The connection that has been idle for longest at `now`, of those behind `tried`.
    fn longest_idle(&self, now: u64, tried: Option<IdleOrder>) -> Option<(IdleOrder, Arc<Member>)> {
        let members = self.members.lock();
        let all = members.slots.iter().enumerate();
        let all = all.filter_map(|(place, (_, member))| Some((place, member.as_ref()?)));
        let idle =
            all.filter_map(|(place, member)| Some(((member.connection.idleness(now)?, place), member)));
        let left = idle.filter(|(order, _)| tried.is_none_or(|tried| *order > tried));
        left.min_by_key(|(order, _)| *order).map(|(order, member)| (order, member.clone()))
    }

    /// Evicts an idle connection, unless it has octets to be read.
    fn evict_if_quiet(&self, orb: &Orb, member: &Arc<Member>, now: u64) -> bool {
        // The thread that reads it now may have received a request.
        if !member.turn.take() {
            return false;
        }
        if member.connection.idleness(now).is_none() || member.connection.waits_to_be_read() {
            member.release(self, true);
            return false;
        }
        // The turn is kept, so that no thread reads it any more.
        orb.accepted().count_eviction(&member.connection);
        member.connection.close();
        self.drop_member(orb, member);
        true
    }

    /// Serves events until the lane is closed, or the thread is a dynamic one that was idle for its
    /// time-out.
    pub fn run(self: &Arc<Self>, orb: &Orb) {
        let server = self.server.as_ref();
        let mut buffers = server.map_or_else(|| CallBuffers::new(orb.pool()), |server| server.buffers(orb));
        let mut events = Events::<1>::new();
        let registered = server.map(|server| Registered { server, worker: server.threads.register() });
        let worker = registered.as_ref().and_then(|registered| registered.worker);
        loop {
            if self.review_at.load(Ordering::Relaxed) != NEVER {
                self.review(orb);
            }
            let idle_deadline = server.map_or(Deadline::NONE, LaneServer::idle_deadline);
            let review = Deadline::at_ns(self.review_at.load(Ordering::Relaxed));
            if let Some(server) = server {
                server.threads.set_idle(worker);
            }
            let work = self.wait(&mut events, idle_deadline.earlier(review));
            let raised = server.is_some_and(|server| server.threads.set_busy(worker));
            let event = match work {
                Ok(Some(Ready::Ring(member))) => {
                    if let (Some(server), true) = (server, raised) {
                        server.back_to_own_priority();
                    }
                    self.on_event(orb, &mut buffers, &member, false);
                    continue;
                }
                Ok(Some(Ready::Event(event))) => Some(event),
                Ok(None) => None,
                Err(_) => break,
            };
            match (event.map(|event| event.token), server) {
                (Some(Poller::WAKE), Some(server)) if !server.threads.is_closed() => {
                    server.run_other(self, orb, &mut buffers, raised);
                    continue;
                }
                (Some(Poller::WAKE), None) if !self.closed.load(Ordering::Acquire) => continue,
                (Some(Poller::WAKE), _) => break,
                (_, Some(server)) if raised => server.back_to_own_priority(),
                _ => {}
            }
            match (event, server) {
                (Some(event), Some(server)) if event.token == ACCEPTORS => server.accept(self, orb),
                (Some(event), _) => {
                    let Some(member) = self.member(event.token) else { continue };
                    if let Some(ring) = member.connection.stream().polled() {
                        ring.reported(event.closed);
                    }
                    self.on_event(orb, &mut buffers, &member, event.closed);
                }
                (None, Some(server)) if idle_deadline.is_past() && server.threads.retire() => break,
                (None, _) => {}
            }
        }
    }

    /// Polls the rings, then waits in the poller.
    fn wait(
        &self,
        events: &mut Events<1>,
        deadline: Deadline,
    ) -> std::io::Result<Option<Ready<Member, Event>>> {
        let mut failed = None;
        let polled = self.rings.poll(deadline, || match self.poller.wait(events, Deadline::PAST) {
            Ok(mut ready) => ready.next(),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        if polled.is_some() {
            return Ok(polled);
        }
        let event = self.poller.wait(events, deadline)?.next();
        self.rings.awake();
        Ok(event.map(Ready::Event))
    }

    /// Serves the messages of a connection that an event or its ring announced.
    fn on_event(self: &Arc<Self>, orb: &Orb, buffers: &mut CallBuffers, member: &Arc<Member>, closed: bool) {
        let next = guarded(|| member.on_event(self, orb, buffers, closed));
        if let Some(at) = member.connection.abandoned_at() {
            self.review_at.fetch_min(at, Ordering::Relaxed);
        }
        if next.is_break() {
            self.expel(orb, member);
        }
    }

    /// Wakes one thread, for a request that it has not read.
    pub fn wake(&self) {
        self.poller.wake();
    }

    fn drop_member(&self, orb: &Orb, member: &Member) {
        member.connection.break_off();
        let _ = self.poller.delete(member.connection.stream().fd());
        self.remove(member.token);
        orb.connection_ended(&member.connection);
    }

    /// Has a thread of the lane accept again, after those connections that are to be served.
    /// Returns false if that is not possible.
    #[cold]
    pub fn report_acceptor(&self, acceptor: &Acceptor) -> bool {
        self.poller.modify(acceptor.listener.fd(), ACCEPTORS, Interest::READ, Trigger::Edge).is_ok()
    }

    /// Has a thread of the lane accept again after a pause.
    #[cold]
    pub fn retry_accept(&self) {
        self.accept_again.store(true, Ordering::Relaxed);
        self.review_at.fetch_min(now_ns().saturating_add(ACCEPT_PAUSE_NS), Ordering::Relaxed);
    }

    fn expel(&self, orb: &Orb, member: &Member) {
        self.drop_member(orb, member);
        if let Some(server) = &self.server {
            // A client may have found the lane full, or the process without a descriptor.
            server.accept(self, orb);
        }
    }

    /// Stops accepting, closes all connections in order, ends all threads. For a lane of a thread
    /// pool.
    pub fn end(&self) {
        if let Some(server) = &self.server {
            // First, so that a thread with a failed acceptor knows the reason.
            let left = (server.threads.close(), server.close_queue());
            server.acceptors().iter().for_each(|acceptor| acceptor.listener.close());
            let connections: Vec<_> = {
                let members = self.members.lock();
                let all = members.slots.iter().filter_map(|(_, member)| member.as_ref());
                all.map(|member| member.connection.clone()).collect()
            };
            Connection::close_all(&connections);
            // After CloseConnection their clients know that these requests were not processed.
            drop(left);
        }
        self.close();
    }

    /// Breaks off the members that stalled for too long; since no thread blocks on one of them, no
    /// receive reports that. The broken connection is an event, by which it leaves the lane. Also
    /// accepts clients that had to wait.
    #[cold]
    fn review(&self, orb: &Orb) {
        let now = now_ns();
        if now < self.review_at.load(Ordering::Relaxed) {
            return;
        }
        self.review_at.store(NEVER, Ordering::Relaxed);
        let members: Vec<_> =
            self.members.lock().slots.iter().filter_map(|(_, member)| member.clone()).collect();
        for member in members {
            self.review_at.fetch_min(member.connection.expire_pending(now), Ordering::SeqCst);
            match member.connection.abandoned_at() {
                Some(at) if at <= now && member.connection.is_open() => member.connection.abandon(),
                Some(at) if at > now => {
                    self.review_at.fetch_min(at, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        if let Some(server) = &self.server
            && self.accept_again.swap(false, Ordering::Relaxed)
        {
            server.accept(self, orb);
        }
    }

    /// Ends all threads of the lane.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.poller.wake_for_good();
    }

    fn member(&self, token: u64) -> Option<Arc<Member>> {
        let members = self.members.lock();
        let (generation, member) = members.slots.get(token as u32 as usize)?;
        if u64::from(*generation) == token >> 32 { member.clone() } else { None }
    }

    fn remove(&self, token: u64) {
        let mut members = self.members.lock();
        let place = token as u32 as usize;
        if let Some((generation, member)) = members.slots.get_mut(place)
            && u64::from(*generation) == token >> 32
            && let Some(member) = member.take()
        {
            self.rings.remove(&member);
            *generation = generation.wrapping_add(1);
            members.free.push(place);
        }
    }
}

/// A thread that is registered with the server of its lane, until it returns or panics.
struct Registered<'s> {
    server: &'s LaneServer,
    worker: Option<ThreadId>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.server.threads.deregister(self.worker);
    }
}
