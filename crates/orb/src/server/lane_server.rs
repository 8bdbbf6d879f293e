//! The server of a thread pool's lane: its acceptors, its threads and their priority, and what it
//! does with a request while all its threads are busy.
//!
//! ```text
//!   poller ─► a thread reads the request and releases the connection ─► permit? ─► runs it, then buffered ones
//!                                                                        └ none: grow, borrow, buffer, refuse or wait
//! ```
//!
//! Requests to groups come from the thread that receives them ([`LaneServer::queue_group_request`])
//! and then take the same path.

use super::buffered::{BufferedRequest, Source};
use super::endpoint::{accepted_connection, is_fault_of_peer};
use super::lane::{Lane, Member};
use super::reply::reject;
use super::thread_lane::{Admission, Buffering, ThreadLane};
use super::{LOG, guarded};
use crate::buffers::{CallBuffers, LaneMemory};
use crate::connection::Arrived;
use crate::log::warn;
use crate::sched::thread::{self, ThreadPlan};
use crate::sched::{Setup, prepare};
use crate::{Orb, Result, SystemException};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::priority::Priority;
use isorb_rt::queue::PriorityQueue;
use isorb_rt::sched::SpawnError;
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::Deadline;
use isorb_scope::Buffer;
use isorb_transport::{Listener, Wait};
use std::cell::Cell;
use std::cmp::Reverse;
use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a lane of a thread pool has beside its connections.
pub(crate) struct LaneServer {
    pub threads: ThreadLane<BufferedRequest>,
    acceptors: Vec<Acceptor>,
    accepting: Turn,
    /// Lanes of lower priority that lend threads to this one, the nearest first.
    lenders: Vec<Arc<Lane>>,
    plan: ThreadPlan,
    memory: LaneMemory,
    idle_timeout: Duration,
    max_connections: usize,
    /// Properties of its clients' sockets, from a POA's server protocol policy.
    setup: OnceLock<Setup>,
    /// Empty blocks, for the threads that left theirs to buffered requests.
    spare: PiMutex<Vec<Buffer>>,
    /// Requests to groups that wait for a thread, the highest priority first.
    group_requests: PiMutex<PriorityQueue<Reverse<Option<Priority>>, BufferedRequest>>,
}

/// Accepts connections by one transport.
pub(crate) struct Acceptor {
    pub listener: Box<dyn Listener>,
    /// The transport's profile tag.
    pub tag: u32,
}

/// What a [`LaneServer`] is made of.
pub(crate) struct LaneEndpoints {
    pub threads: ThreadLane<BufferedRequest>,
    pub acceptors: Vec<Acceptor>,
    pub lenders: Vec<Arc<Lane>>,
    pub plan: ThreadPlan,
    pub memory: LaneMemory,
    pub idle_timeout: Duration,
    pub max_connections: usize,
}

/// Most blocks that are allocated in advance for a lane that buffers requests.
const MOST_SPARE: usize = 64;
const SPARE_BYTES: usize = 4096;

/// Most requests to groups that wait at a lane.
const MOST_GROUP_REQUESTS: usize = if cfg!(feature = "miop") { 64 } else { 0 };

/// A request's permit. It is released also when the request ends in a panic.
struct Permit<'s> {
    server: &'s LaneServer,
    held: Cell<bool>,
}

impl<'s> Permit<'s> {
    fn of(server: &'s LaneServer) -> Permit<'s> {
        Permit { server, held: Cell::new(true) }
    }

    /// Releases the permit before the reply is sent, unless a buffered request needs it. The client
    /// may call again before this thread is back, and must not find the lane busy with a request
    /// that was answered.
    fn release_before_reply(&self) {
        if self.held.get() && self.server.threads.release_unless_buffered() {
            self.held.set(false);
        }
    }

    /// The next buffered request, under the same permit.
    fn next(&self) -> Option<BufferedRequest> {
        if !self.held.get() {
            return None;
        }
        let next = self.server.threads.next();
        self.held.set(next.is_some());
        next
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.held.get() {
            self.server.threads.release();
        }
    }
}

impl LaneServer {
    pub fn new(endpoints: LaneEndpoints) -> LaneServer {
        let LaneEndpoints { threads, acceptors, lenders, plan, memory, idle_timeout, max_connections } =
            endpoints;
        let spare = threads.config().buffer.map_or(0, |limits| limits.requests.min(MOST_SPARE));
        let spare = (0..spare).map(|_| Buffer::unpooled(SPARE_BYTES)).collect();
        let (accepting, spare) = (Turn::new(), PiMutex::new(spare));
        let group_requests = PiMutex::new(PriorityQueue::with_capacity(MOST_GROUP_REQUESTS));
        LaneServer {
            threads,
            acceptors,
            accepting,
            lenders,
            plan,
            memory,
            idle_timeout,
            max_connections,
            setup: OnceLock::new(),
            spare,
            group_requests,
        }
    }

    pub fn acceptors(&self) -> &[Acceptor] {
        &self.acceptors
    }

    /// Sets the properties of the sockets that are accepted from now on. The first POA's setting
    /// stays.
    pub fn set_socket_setup(&self, setup: Setup) {
        let _ = self.setup.set(setup);
    }

    /// The memory of a thread of the lane, allocated before its first request.
    pub fn buffers(&self, orb: &Orb) -> CallBuffers {
        orb.handler().prepare_thread();
        crate::buffers::warm_up(orb.pool());
        CallBuffers::with_memory(orb.pool(), self.memory)
    }

    /// Whether several threads may serve one connection, so that a thread releases the connection
    /// before it runs a request.
    pub fn shares(&self) -> bool {
        let config = self.threads.config();
        config.counts_permits() || config.static_threads > 1
    }

    /// Until when an idle thread waits.
    pub fn idle_deadline(&self) -> Deadline {
        match self.threads.config().dynamic_threads {
            0 => Deadline::NONE,
            _ => Deadline::after(self.idle_timeout),
        }
    }

    /// Starts a thread of the lane.
    pub fn start_thread(&self, lane: &Arc<Lane>, orb: &Orb) -> Result<(), SpawnError> {
        let (lane, orb, plan) = (lane.clone(), orb.clone(), self.plan.clone());
        self.plan.spec().spawn(move || {
            thread::started_at(plan.pool, plan.priority, plan.class);
            lane.run(&orb);
        })?;
        Ok(())
    }

    /// Accepts the connections that wait. One thread at a time does so; the others go on.
    pub fn accept(&self, lane: &Lane, orb: &Orb) {
        if !self.accepting.take() {
            return;
        }
        loop {
            // An event does not name the acceptor, so all are tried.
            let all = self.acceptors.iter().map(|acceptor| self.accept_at(acceptor, lane, orb));
            let failed = all.fold(false, |failed, fails| failed | fails);
            if failed {
                // A thread tries again when a connection ends, when the next client connects, or
                // after a pause.
                while !self.accepting.pass() {}
                if !self.threads.is_closed() {
                    lane.retry_accept();
                }
                return;
            }
            if self.accepting.pass() {
                return;
            }
        }
    }

    /// Accepts the connections that wait at one acceptor; `true` when it failed before the last
    /// one.
    fn accept_at(&self, acceptor: &Acceptor, lane: &Lane, orb: &Orb) -> bool {
        loop {
            match acceptor.listener.accept(Wait::No) {
                Ok(stream) => {
                    if let Some(setup) = self.setup.get()
                        && let Err(exception) = prepare(&*stream, acceptor.tag, setup)
                    {
                        warn(LOG, format_args!("{}: refused by a lane: {exception}", stream.peer()));
                        continue;
                    }
                    let connection = Arc::new(accepted_connection(orb, acceptor.tag, stream));
                    let full = !lane.has_room(orb, self.max_connections)
                        || !orb.accepted().admit(&connection, usize::MAX);
                    if full || self.threads.is_closed() || lane.add(connection.clone()).is_err() {
                        warn(
                            LOG,
                            format_args!("{}: refused, the lane has max_connections", connection.peer()),
                        );
                        connection.close();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // A closed acceptor may report refused clients for ever.
                Err(error) if is_fault_of_peer(&error) && !self.threads.is_closed() => {
                    warn(LOG, format_args!("accept: {error}"));
                }
                Err(error) => {
                    if !self.threads.is_closed() {
                        warn(LOG, format_args!("accept: {error}"));
                    }
                    return true;
                }
            }
        }
    }

    /// Runs the request in `buffers.block`, hands it to another thread, or refuses it.
    pub fn serve(
        &self,
        lane: &Arc<Lane>,
        orb: &Orb,
        source: Source<'_>,
        arrived: Arrived,
        buffers: &mut CallBuffers,
    ) {
        if !self.threads.config().counts_permits() {
            run(orb, source, arrived, buffers, None);
            return;
        }
        let admitted = match self.threads.admit() {
            Admission::Run => true,
            Admission::RunAndGrow => self.grow(lane, orb),
            Admission::Full => false,
            Admission::Closed => return,
        };
        if !admitted {
            if self.borrow(orb, source, arrived, buffers) {
                return;
            }
            // Before the lock of `threads`, since this takes locks of POAs.
            let priority = match self.threads.config().buffer {
                Some(_) => orb.handler().request_priority(orb, arrived, buffers),
                None => None,
            };
            let buffered = |block: &mut Buffer| self.buffered(orb, source, arrived, block, None);
            match self.threads.buffer(arrived.len, priority, || buffered(&mut buffers.block)) {
                Buffering::Buffered => return,
                Buffering::Overflow => {
                    refuse(orb, source, arrived, buffers);
                    return;
                }
                Buffering::Run => {}
                Buffering::NoBuffer => {
                    if !self.threads.wait_for_permit() {
                        return;
                    }
                }
            }
        }
        let permit = Permit::of(self);
        run(orb, source, arrived, buffers, Some(&permit));
        while let Some(buffered) = permit.next() {
            self.run_buffered(orb, buffered, buffers, &permit);
        }
    }

    fn grow(&self, lane: &Arc<Lane>, orb: &Orb) -> bool {
        match self.start_thread(lane, orb) {
            Ok(()) => true,
            Err(error) => {
                warn(LOG, format_args!("no dynamic thread: {error}"));
                self.threads.abandon_growth();
                false
            }
        }
    }

    /// Has a thread of a lane of lower priority run the request.
    fn borrow(&self, orb: &Orb, source: Source<'_>, arrived: Arrived, buffers: &mut CallBuffers) -> bool {
        self.lenders.iter().any(|lender| {
            let Some(server) = lender.server() else { return false };
            let plan = Some(self.plan.clone());
            let lent = server.threads.borrow_thread(
                || self.buffered(orb, source, arrived, &mut buffers.block, plan),
                |thread| {
                    // If the system refuses, the thread raises itself when it runs.
                    let _ = thread.set_class(self.plan.class);
                },
            );
            if lent {
                lender.wake();
            }
            lent
        })
    }

    /// Has a thread of the lane run the request to a group that lies in `block`, which gets an
    /// empty block. `false` when the queue is full; the request is lost, as a datagram would be.
    ///
    /// # Real-time
    /// Two PI locks and a system call; a block from the pool.
    #[cfg(feature = "miop")]
    pub fn queue_group_request(
        &self,
        lane: &Lane,
        orb: &Orb,
        (text, priority): (isorb_cdr::Text, Option<Priority>),
        arrived: Arrived,
        block: &mut Buffer,
    ) -> bool {
        let mut queue = self.group_requests.lock();
        if queue.len() == queue.capacity() {
            return false;
        }
        let request = self.buffered(orb, Source::Group(text), arrived, block, None);
        let queued = queue.push(Reverse(priority), request).is_ok();
        drop(queue);
        lane.wake();
        queued
    }

    /// Runs a request of a lane that borrows this thread, or a request to a group.
    pub fn run_other(&self, lane: &Arc<Lane>, orb: &Orb, buffers: &mut CallBuffers, raised: bool) {
        let (borrowed, more) = self.threads.borrowed_request();
        let Some(buffered) = borrowed else {
            if raised {
                self.back_to_own_priority();
            }
            let (request, more) = {
                let mut queue = self.group_requests.lock();
                (queue.pop(), !queue.is_empty())
            };
            if more {
                lane.wake();
            }
            if let Some((_, BufferedRequest { source, arrived, block, .. })) = request {
                self.take_block(block, buffers);
                self.serve(lane, orb, source.as_source(), arrived, buffers);
            }
            return;
        };
        if more || !self.group_requests.lock().is_empty() {
            lane.wake();
        }
        if let Some(plan) = &buffered.plan {
            thread::reassert(plan.priority, plan.class);
        }
        let permit = Permit::of(self);
        self.run_buffered(orb, buffered, buffers, &permit);
        self.back_to_own_priority();
        // Under the lent permit, the requests that this lane buffered meanwhile.
        while let Some(buffered) = permit.next() {
            self.run_buffered(orb, buffered, buffers, &permit);
        }
    }

    /// Lowers the calling thread after a lane that borrowed it had raised it.
    pub fn back_to_own_priority(&self) {
        thread::reassert(self.plan.priority, self.plan.class);
    }

    /// Moves a request out of a thread's block, which becomes an empty one.
    fn buffered(
        &self,
        orb: &Orb,
        source: Source<'_>,
        arrived: Arrived,
        block: &mut Buffer,
        plan: Option<ThreadPlan>,
    ) -> BufferedRequest {
        let spare = self.spare.lock().pop();
        let empty =
            spare.or_else(|| orb.pool().take(SPARE_BYTES)).unwrap_or_else(|| Buffer::unpooled(SPARE_BYTES));
        let block = std::mem::replace(block, empty);
        BufferedRequest { source: source.to_owned_source(), arrived, block, plan }
    }

    fn run_buffered(
        &self,
        orb: &Orb,
        buffered: BufferedRequest,
        buffers: &mut CallBuffers,
        permit: &Permit<'_>,
    ) {
        let BufferedRequest { source, arrived, block, .. } = buffered;
        self.take_block(block, buffers);
        run(orb, source.as_source(), arrived, buffers, Some(permit));
    }

    /// Gives the thread a block. Its former block is kept for another request.
    fn take_block(&self, block: Buffer, buffers: &mut CallBuffers) {
        let empty = std::mem::replace(&mut buffers.block, block);
        let mut spare = self.spare.lock();
        if spare.len() < spare.capacity() {
            spare.push(empty);
        }
    }
}

/// Runs a request and sends its reply. A failure ends the connection.
fn run(
    orb: &Orb,
    source: Source<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    permit: Option<&Permit<'_>>,
) {
    match source {
        Source::Member(member) => run_of(member, orb, arrived, buffers, permit),
        #[cfg(feature = "miop")]
        Source::Group(text) => orb.handler().handle_group_request(orb, text, arrived, buffers),
    }
}

#[inline(always)]
fn run_of(
    member: &Member,
    orb: &Orb,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    permit: Option<&Permit<'_>>,
) {
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Some(permit) = permit {
            permit.release_before_reply();
        }
        member.send(message);
    };
    let next = guarded(|| orb.handler().handle(orb, connection, arrived, buffers, &mut send));
    if next.is_break() {
        connection.break_off();
    }
    buffers.trim();
}

/// Refuses a request for which the lane's buffer has no room.
#[cold]
fn refuse(orb: &Orb, source: Source<'_>, arrived: Arrived, buffers: &mut CallBuffers) {
    match source {
        Source::Member(member) => refuse_of(member, orb, arrived, buffers),
        #[cfg(feature = "miop")]
        Source::Group(_) => orb.transports().groups().counts.overrun(),
    }
}

fn refuse_of(member: &Member, orb: &Orb, arrived: Arrived, buffers: &mut CallBuffers) {
    let full = SystemException::new(Kind::Transient, minor::TRANSIENT_DISCARDED, Completion::No)
        .detail("the lane's threads are busy and its request buffer is full (request buffering of its pool)");
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
    if reject(orb, connection, arrived, buffers, &full, &mut send).is_err() {
        connection.break_off();
    }
}
