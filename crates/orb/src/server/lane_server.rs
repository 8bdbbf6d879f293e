//! The server of a thread pool's lane: its acceptors, its threads and their priority, and what it
//! does with a request while all its threads are busy.
//!
//! ```text
//!   poller ─► a thread reads the request and releases the connection ─► permit? ─► runs it, then buffered ones
//!                                                                        └ none: grow, borrow, buffer, refuse or wait
//! ```
//!
//! Requests to groups come from the thread that receives them
//! ([`LaneServer::queue_group_request`]), those of this process from their callers
//! ([`LaneServer::queue_local_call`]). A thread of the lane takes them from a queue, the most
//! urgent first, and then they take the same path.

use super::buffered::{BufferedRequest, OwnedSource, Source};
use super::endpoint::{accepted_connection, is_fault_of_peer};
use super::lane::{Lane, Member};
use super::local::{LocalTicket, no_block, waiting_in};
use super::reply::reject;
use super::thread_lane::{Admission, Buffering, ThreadLane};
use super::{LOG, Next, guarded};
use crate::buffers::{CallBuffers, LANE_SMALL, LaneBlocks, LaneMemory, with_buffers};
use crate::connection::{AdmissionLimits, Arrived};
use crate::log::warn;
use crate::sched::thread::{self, ThreadPlan};
use crate::sched::{Setup, prepare};
use crate::{Orb, Result, SystemException};
use isorb_cdr::Text;
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::priority::Priority;
use isorb_rt::queue::PriorityQueue;
use isorb_rt::sched::{SchedClass, SpawnError};
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, BufferPool};
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
    /// Requests to groups and from this process that wait for a thread.
    queue: PiMutex<RequestQueue>,
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

/// Requests that no socket keeps until a thread is free, the highest priority first.
struct RequestQueue {
    requests: PriorityQueue<Reverse<Option<Priority>>, BufferedRequest>,
    closed: bool,
}

/// Most requests to groups and from this process that wait at a lane.
const MOST_QUEUED: usize = 128;

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
        let accepting = Turn::new();
        let requests = PriorityQueue::with_capacity(MOST_QUEUED);
        let queue = PiMutex::new(RequestQueue { requests, closed: false });
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
            queue,
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
        CallBuffers::with_memory(&self.memory)
    }

    /// The number of the lane.
    pub fn number(&self) -> u64 {
        self.plan.lane
    }

    /// The memory of the lane.
    pub fn memory(&self) -> &LaneMemory {
        &self.memory
    }

    /// The message blocks of the lane.
    pub fn blocks(&self) -> &Arc<LaneBlocks> {
        &self.memory.blocks
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
        self.plan.spec().spawn_supervised(move || {
            thread::started_at(plan.pool, plan.priority, plan.class);
            thread::set_lane(plan.lane);
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
            // Also where an acceptor of the program panics.
            let retry = RetryAccept { server: self, lane };
            // An event does not name the acceptor, so all are tried.
            let all = self.acceptors.iter().map(|acceptor| self.accept_at(acceptor, lane, orb));
            let failed = all.fold(false, |failed, fails| failed | fails);
            if failed {
                return;
            }
            std::mem::forget(retry);
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
                    connection.use_lane(self.blocks());
                    let full = !lane.has_room(orb, self.max_connections)
                        || !orb.accepted().admit(&connection, AdmissionLimits::NONE);
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
            run(&self.blocks().pool, orb, source, arrived, buffers, None);
            return;
        }
        let admitted = match self.threads.admit() {
            Admission::Run => true,
            Admission::RunAndGrow => self.grow(lane, orb),
            Admission::Full => false,
            Admission::Closed => return,
        };
        if !admitted {
            let mut spare = self.spare(arrived.len);
            if self.borrow(source, arrived, buffers, &mut spare) {
                return;
            }
            // Before the lock of `threads`, since this takes locks of POAs.
            let priority = match self.threads.config().buffer {
                Some(_) => orb.handler().request_priority(orb, arrived, buffers),
                None => None,
            };
            let buffering = match spare {
                Some(spare) => self.threads.buffer(arrived.len, priority, || {
                    BufferedRequest::new(source, arrived, &mut buffers.block, spare, None)
                }),
                None if self.threads.config().buffer.is_some() => Buffering::Overflow,
                None => Buffering::NoBuffer,
            };
            match buffering {
                Buffering::Buffered => return,
                Buffering::Overflow => {
                    refuse(&self.blocks().pool, orb, source, arrived, buffers);
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
        run(&self.blocks().pool, orb, source, arrived, buffers, Some(&permit));
        while let Some(buffered) = permit.next() {
            if let Source::Member(member) = source {
                member.leave_to_others();
            }
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

    /// Has a thread of a lane of lower priority run the request. Takes the spare block then.
    fn borrow(
        &self,
        source: Source<'_>,
        arrived: Arrived,
        buffers: &mut CallBuffers,
        spare: &mut Option<Buffer>,
    ) -> bool {
        spare.is_some()
            && self.lenders.iter().any(|lender| {
                let Some(server) = lender.server() else { return false };
                let plan = Some(self.plan.clone());
                let lent = server.threads.borrow_thread(
                    || {
                        let spare = spare.take().unwrap_or_else(|| Buffer::unpooled(0));
                        BufferedRequest::new(source, arrived, &mut buffers.block, spare, plan)
                    },
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

    /// A block for a request of `len` octets that waits, or for the thread that leaves its own to
    /// the request.
    fn spare(&self, len: usize) -> Option<Buffer> {
        let blocks = self.blocks();
        if len <= LANE_SMALL {
            return blocks.pool.take(len);
        }
        blocks.pool.take(blocks.receives).or_else(|| blocks.pool.take(0))
    }

    /// Has a thread of the lane run the request to a group that lies in `octets`. `false` when the
    /// queue is full or the lane has no block; the request is lost, as a datagram would be.
    ///
    /// # Real-time
    /// A PI lock and a system call; a block of the lane, and one copy.
    #[cfg(feature = "miop")]
    pub fn queue_group_request(
        &self,
        lane: &Lane,
        (text, priority): (isorb_cdr::Text, Option<Priority>),
        arrived: Arrived,
        octets: &[u8],
    ) -> bool {
        let Some(mut block) = self.blocks().pool.take(octets.len()) else { return false };
        block.bytes_mut()[..octets.len()].copy_from_slice(octets);
        let source = Source::Group(text).to_owned_source();
        let request = BufferedRequest { source, arrived, block, plan: None };
        self.queue(lane, priority, request)
    }

    /// Has a thread of the lane run a request of this process, and reply to the ticket if there is
    /// one. `raise` is the class that idle threads need for it, if theirs is lower.
    ///
    /// # Errors
    /// IMP_LIMIT or NO_RESOURCES without a message block for it; TRANSIENT when the queue is full
    /// or the lane closed.
    ///
    /// # Real-time
    /// A PI lock and a system call; a block of the lane, and one copy.
    pub fn queue_local_call(
        &self,
        lane: &Lane,
        message: &isorb_cdr::Message<'_>,
        ticket: Option<LocalTicket>,
        priority: Option<Priority>,
        raise: Option<SchedClass>,
    ) -> Result<()> {
        let (blocks, len) = (self.blocks(), message.len());
        let Some(mut block) = blocks.pool.take(len) else {
            let too_long = len > blocks.pool.largest();
            self.log_refusal("this process", len, too_long);
            return Err(unfit(too_long));
        };
        let mut at = 0;
        for piece in message.pieces() {
            block.bytes_mut()[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        let arrived = Arrived::of_local(&block.bytes()[..len])?;
        let waits = ticket.is_some();
        let mut request = BufferedRequest { source: OwnedSource::Local(ticket), arrived, block, plan: None };
        // A thread of the lane may wait for the request that makes this call. A oneway holds up no
        // thread, and that request may end before it.
        if waits && let Some(waiting) = waiting_in(self.number()) {
            match waiting.nest(request) {
                None => return Ok(()),
                Some(returned) => request = returned,
            }
        }
        if let Some(class) = raise {
            self.threads.raise_idle(|thread| _ = thread.set_class(class));
        }
        if self.queue(lane, priority, request) { Ok(()) } else { Err(full()) }
    }

    /// `false` when the queue is full or closed.
    fn queue(&self, lane: &Lane, priority: Option<Priority>, request: BufferedRequest) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed {
            return false;
        }
        let pushed = queue.requests.push(Reverse(priority), request);
        drop(queue);
        lane.wake();
        pushed.is_ok()
    }

    /// Runs a nested call on a thread of the lane that waits for a call of its own.
    pub fn run_nested(orb: &Orb, request: BufferedRequest) {
        let BufferedRequest { source, arrived, block, .. } = request;
        // Its block is one of the lane.
        let pool = block.pool().unwrap_or(orb.pool()).clone();
        let served = with_buffers(orb.pool(), |buffers| {
            let own = std::mem::replace(&mut buffers.block, block);
            run(&pool, orb, source.as_source(), arrived, buffers, None);
            buffers.block = own;
            Ok::<_, SystemException>(())
        });
        // Too deeply nested: its caller learns that there is no reply.
        drop(served);
    }

    /// Closes the queue and returns the requests in it.
    pub fn close_queue(&self) -> Vec<BufferedRequest> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        std::iter::from_fn(|| queue.requests.pop()).map(|(_, request)| request).collect()
    }

    /// Runs a request of a lane that borrows this thread, or one of the queue.
    pub fn run_other(&self, lane: &Arc<Lane>, orb: &Orb, buffers: &mut CallBuffers, raised: bool) {
        let (borrowed, more) = self.threads.borrowed_request();
        let Some(buffered) = borrowed else {
            let (request, more) = {
                let mut queue = self.queue.lock();
                (queue.requests.pop(), !queue.requests.is_empty())
            };
            if more {
                lane.wake();
            }
            if let Some((_, BufferedRequest { source, arrived, block, .. })) = request {
                buffers.block = block;
                self.serve(lane, orb, source.as_source(), arrived, buffers);
                buffers.trim();
            }
            if raised {
                self.back_to_own_priority();
            }
            return;
        };
        if more || !self.queue.lock().requests.is_empty() {
            lane.wake();
        }
        if let Some(plan) = &buffered.plan {
            thread::reassert(plan.priority, plan.class);
            thread::set_lane(plan.lane);
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
        thread::set_lane(self.plan.lane);
    }

    fn run_buffered(
        &self,
        orb: &Orb,
        buffered: BufferedRequest,
        buffers: &mut CallBuffers,
        permit: &Permit<'_>,
    ) {
        // The thread's own block returns to its pool.
        let BufferedRequest { source, arrived, block, .. } = buffered;
        buffers.block = block;
        run(&self.blocks().pool, orb, source.as_source(), arrived, buffers, Some(permit));
        // A thread of another lane does not come back, and any thread may have further ones.
        if let OwnedSource::Member(member) = &source {
            member.leave_to_others();
        }
    }

    /// Refuses a request for which the lane has no message block; its first octets lie in
    /// `buffers.block`. `false` when it cannot be answered.
    #[cold]
    pub fn refuse_unfit(
        &self,
        member: &Member,
        orb: &Orb,
        first: Arrived,
        too_long: bool,
        buffers: &mut CallBuffers,
    ) -> bool {
        let connection = member.connection();
        self.log_refusal(connection.peer(), first.header.total(), too_long);
        let text = connection.text(first.header.version);
        let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
        let answered = reject(orb, text, first, buffers, &unfit(too_long), &mut send).is_ok();
        if !answered {
            connection.close();
        }
        answered
    }

    fn log_refusal(&self, peer: &str, octets: usize, too_long: bool) {
        let blocks = self.blocks();
        if blocks.refuses() {
            let why = if too_long { "is longer than the blocks" } else { "finds no free block" };
            let name = &blocks.name;
            warn(
                LOG,
                format_args!(
                    "{peer}: a request of {octets} octets is refused; it {why} of {name} (messages)"
                ),
            );
        }
    }
}

/// Has a thread accept again after a failure: when a connection ends, when the next client
/// connects, or after a pause.
struct RetryAccept<'s> {
    server: &'s LaneServer,
    lane: &'s Lane,
}

impl Drop for RetryAccept<'_> {
    fn drop(&mut self) {
        while !self.server.accepting.pass() {}
        if !self.server.threads.is_closed() {
            self.lane.retry_accept();
        }
    }
}

/// No message block of the lane takes a request.
fn unfit(too_long: bool) -> SystemException {
    match too_long {
        true => SystemException::new(Kind::ImpLimit, minor::IMP_LIMIT_LANE, Completion::No),
        false => no_block(),
    }
}

/// The lane's threads are busy, and no more requests may wait.
fn full() -> SystemException {
    SystemException::new(Kind::Transient, minor::TRANSIENT_DISCARDED, Completion::No)
        .detail("the lane's threads are busy and its request buffer is full (request buffering of its pool)")
}

/// Runs a request and sends its reply. A failure ends the connection.
fn run(
    pool: &Arc<BufferPool>,
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
        Source::Local(ticket) => run_local(ticket, pool, orb, arrived, buffers, permit),
    }
}

/// Runs a request of this process, unless its caller has gone.
fn run_local(
    ticket: Option<&LocalTicket>,
    pool: &Arc<BufferPool>,
    orb: &Orb,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    permit: Option<&Permit<'_>>,
) {
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Some(permit) = permit {
            permit.release_before_reply();
        }
        if let Some(ticket) = ticket {
            ticket.reply(message, pool);
        }
    };
    let mut handle = |deadline| {
        let _ = guarded(|| {
            orb.handler().handle_local(orb, deadline, arrived, buffers, &mut send);
            Next::Continue(())
        });
        buffers.trim();
    };
    match ticket {
        Some(ticket) => ticket.run(handle),
        None => handle(Deadline::NONE),
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
        member.about_to_reply();
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
fn refuse(
    pool: &Arc<BufferPool>,
    orb: &Orb,
    source: Source<'_>,
    arrived: Arrived,
    buffers: &mut CallBuffers,
) {
    match source {
        Source::Member(member) => refuse_of(member, orb, arrived, buffers),
        Source::Local(ticket) => {
            let mut send = |message: &isorb_cdr::Message<'_>| {
                if let Some(ticket) = ticket {
                    ticket.reply(message, pool);
                }
            };
            // This process made the request, so it can be read.
            let _ = reject(orb, Text::DEFAULT, arrived, buffers, &full(), &mut send);
        }
        #[cfg(feature = "miop")]
        Source::Group(_) => orb.transports().groups().counts.overrun(),
    }
}

fn refuse_of(member: &Member, orb: &Orb, arrived: Arrived, buffers: &mut CallBuffers) {
    let connection = member.connection();
    let text = connection.text(arrived.header.version);
    let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
    if reject(orb, text, arrived, buffers, &full(), &mut send).is_err() {
        connection.break_off();
    }
}
