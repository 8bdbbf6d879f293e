//! What makes a lane one of a thread pool: its own door, its threads, their priority, and what happens when all are busy.
//!
//! ```text
//!   poller ─► a thread reads the request, lets others read on ─► threads: a place? ─► runs it, then what was kept meanwhile
//!                                                                  └ none: grow, borrow, keep, refuse or wait
//! ```
//!
//! Requests to groups come in from whoever hears the group ([`Station::post`]), and go the same way from there.

use super::buffered::{BufferedRequest, Source};
use super::endpoint::{accepted_connection, is_fault_of_peer};
use super::group_queue::GroupRequestQueue;
use super::guarded;
use super::lane::{Lane, Member};
use super::reply::reject;
use super::thread_lane::{Admission, Buffering, ThreadLane};
use crate::buffers::{CallBuffers, LaneMemory};
use crate::connection::Arrived;
use crate::sched::thread::{self, ThreadPlan};
use crate::sched::{Setup, prepare};
use crate::{Orb, Result, SystemException};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::sched::SpawnError;
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::Deadline;
use isorb_scope::Buffer;
use isorb_transport::{Listener, Wait};
use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The pool's side of a lane.
pub(crate) struct LaneServer {
    pub threads: ThreadLane<BufferedRequest>,
    /// Where its clients connect.
    acceptors: Vec<Acceptor>,
    accepting: Turn,
    /// Less urgent lanes that lend to this one, the nearest first.
    lenders: Vec<Arc<Lane>>,
    plan: ThreadPlan,
    memory: LaneMemory,
    idle_timeout: Duration,
    max_connections: usize,
    /// What the sockets of its clients are told, where a POA's server protocol policy says anything.
    setup: OnceLock<Setup>,
    /// Blocks for requests to be kept in.
    spare: PiMutex<Vec<Buffer>>,
    group_requests: GroupRequestQueue<BufferedRequest>,
}

/// Where clients connect by one transport.
pub(crate) struct Acceptor {
    pub listener: Box<dyn Listener>,
    /// The transport's profile tag.
    pub tag: u32,
}

/// What a station is made of.
pub(crate) struct LaneEndpoints {
    pub threads: ThreadLane<BufferedRequest>,
    pub acceptors: Vec<Acceptor>,
    pub lenders: Vec<Arc<Lane>>,
    pub plan: ThreadPlan,
    pub memory: LaneMemory,
    pub idle_timeout: Duration,
    pub max_connections: usize,
}

/// Blocks that are made beforehand for a lane that keeps requests, at most.
const MOST_SPARE: usize = 64;
const SPARE_BYTES: usize = 4096;

/// Requests to groups that a lane has waiting, at most.
const MOST_GROUP_REQUESTS: usize = if cfg!(feature = "miop") { 64 } else { 0 };

/// A request's permit of the lane; given back also when the request ends in a panic.
struct Permit<'s> {
    server: &'s LaneServer,
    held: Cell<bool>,
}

impl<'s> Permit<'s> {
    fn of(server: &'s LaneServer) -> Permit<'s> {
        Permit { server, held: Cell::new(true) }
    }

    /// The upcall is over and its reply is about to be sent. Its client may call again before this thread is back, and must not find
    /// the lane busy with a request that was answered.
    fn answering(&self) {
        if self.held.get() && self.server.threads.release_unless_buffered() {
            self.held.set(false);
        }
    }

    /// The next of those that were kept, in the same place.
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
    pub fn new(blueprint: LaneEndpoints) -> LaneServer {
        let LaneEndpoints { threads, acceptors, lenders, plan, memory, idle_timeout, max_connections } =
            blueprint;
        let spare = threads.config().buffer.map_or(0, |limits| limits.requests.min(MOST_SPARE));
        let spare = (0..spare).map(|_| Buffer::unpooled(SPARE_BYTES)).collect();
        let (accepting, spare) = (Turn::new(), PiMutex::new(spare));
        let (setup, group_requests) = (OnceLock::new(), GroupRequestQueue::new(MOST_GROUP_REQUESTS));
        LaneServer {
            threads,
            acceptors,
            accepting,
            lenders,
            plan,
            memory,
            idle_timeout,
            max_connections,
            setup,
            spare,
            group_requests,
        }
    }

    pub fn acceptors(&self) -> &[Acceptor] {
        &self.acceptors
    }

    /// What the sockets of those who connect from now on are told. The first POA that says anything is heard.
    pub fn set_socket_setup(&self, setup: Setup) {
        let _ = self.setup.set(setup);
    }

    /// The memory of a thread of the lane, made before its first request.
    pub fn buffers(&self, orb: &Orb) -> CallBuffers {
        orb.handler().prepare_thread();
        crate::buffers::warm_up(orb.pool());
        CallBuffers::with_memory(orb.pool(), self.memory)
    }

    /// Whether several threads may be busy with one connection, so that a request is not run before others can read on.
    pub fn shares(&self) -> bool {
        let rules = self.threads.config();
        rules.counts_permits() || rules.static_threads > 1
    }

    /// How long an idle thread waits.
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

    /// Takes in those who connect; one thread at a time, others leave it to that one.
    pub fn accept(&self, lane: &Lane, orb: &Orb) {
        if !self.accepting.take() {
            return;
        }
        loop {
            // All of them are tried: each that comes is an event, and says not where.
            let all = self.acceptors.iter().map(|acceptor| self.accept_at(acceptor, lane, orb));
            let failed = all.fold(false, |failed, fails| failed | fails);
            if failed {
                // A connection of the lane that ends, the next to connect, or the time brings a thread here again.
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

    /// Takes in those who wait at a door; whether it was left before they were all in.
    fn accept_at(&self, acceptor: &Acceptor, lane: &Lane, orb: &Orb) -> bool {
        loop {
            match acceptor.listener.accept(Wait::No) {
                Ok(stream) => {
                    if let Some(setup) = self.setup.get()
                        && let Err(exception) = prepare(&*stream, acceptor.tag, setup)
                    {
                        crate::log::note(format_args!(
                            "{}: turned away by a lane: {exception}",
                            stream.peer()
                        ));
                        continue;
                    }
                    let connection = Arc::new(accepted_connection(orb, acceptor.tag, stream));
                    let full = !lane.has_room(orb, self.max_connections)
                        || !orb.accepted().admit(&connection, usize::MAX);
                    if full || self.threads.is_closed() || lane.add(connection.clone()).is_err() {
                        crate::log::note(format_args!("{}: turned away by a lane", connection.peer()));
                        connection.close();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // What is closed may go on to say that whoever comes is turned away.
                Err(error) if is_fault_of_peer(&error) && !self.threads.is_closed() => {
                    crate::log::note(format_args!("accept: {error}"));
                }
                Err(error) => {
                    if !self.threads.is_closed() {
                        crate::log::note(format_args!("accept: {error}"));
                    }
                    return true;
                }
            }
        }
    }

    /// Runs a request that lies in `work.block`, or sees to it that another thread does, or refuses it.
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
            // Before the lock of the threads is taken, since locks of POAs are.
            let urgency = match self.threads.config().buffer {
                Some(_) => orb.handler().request_priority(orb, arrived, buffers),
                None => None,
            };
            let buffered = |block: &mut Buffer| self.buffered(orb, source, arrived, block, None);
            match self.threads.buffer(arrived.len, urgency, || buffered(&mut buffers.block)) {
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
                crate::log::note(format_args!("no dynamic thread: {error}"));
                self.threads.abandon_growth();
                false
            }
        }
    }

    /// Has a thread of a less urgent lane run the request.
    fn borrow(&self, orb: &Orb, source: Source<'_>, arrived: Arrived, buffers: &mut CallBuffers) -> bool {
        self.lenders.iter().any(|lender| {
            let Some(server) = lender.server() else { return false };
            let plan = Some(self.plan.clone());
            let lent = server.threads.borrow_thread(
                || self.buffered(orb, source, arrived, &mut buffers.block, plan),
                |thread| {
                    // Refused means that the thread comes later, at its own priority, and raises itself.
                    let _ = thread.set_class(self.plan.class);
                },
            );
            if lent {
                lender.wake();
            }
            lent
        })
    }

    /// Has a thread of the lane run a request to a group that lies in `block`, which is another one then. `false` where too many wait
    /// already: it is lost.
    ///
    /// # Real-time
    /// Two PI locks and a system call; a block from the pool.
    #[cfg(feature = "miop")]
    pub fn queue_group_request(
        &self,
        lane: &Lane,
        orb: &Orb,
        (text, urgency): (isorb_cdr::Text, Option<isorb_rt::priority::Priority>),
        arrived: Arrived,
        block: &mut Buffer,
    ) -> bool {
        let kept = self
            .group_requests
            .put(urgency, || self.buffered(orb, Source::Group(text), arrived, block, None));
        if kept {
            lane.wake();
        }
        kept
    }

    /// Something to do for a more urgent lane, or for a group.
    pub fn run_borrowed(&self, lane: &Arc<Lane>, orb: &Orb, buffers: &mut CallBuffers, raised: bool) {
        let (borrowed, more) = self.threads.borrowed_request();
        let Some(buffered) = borrowed else {
            if raised {
                self.back_to_own_priority();
            }
            let group_requests = self.group_requests.take();
            if !self.group_requests.is_empty() {
                lane.wake();
            }
            if let Some(BufferedRequest { source, arrived, block, .. }) = group_requests {
                self.take_block(block, buffers);
                self.serve(lane, orb, source.as_source(), arrived, buffers);
            }
            return;
        };
        if more || !self.group_requests.is_empty() {
            lane.wake();
        }
        if let Some(plan) = &buffered.plan {
            thread::become_of(plan.priority, plan.class);
        }
        let permit = Permit::of(self);
        self.run_buffered(orb, buffered, buffers, &permit);
        self.back_to_own_priority();
        // In the lent place, those that this lane kept meanwhile.
        while let Some(buffered) = permit.next() {
            self.run_buffered(orb, buffered, buffers, &permit);
        }
    }

    /// After the thread was raised by a lane that borrows.
    pub fn back_to_own_priority(&self) {
        thread::become_of(self.plan.priority, self.plan.class);
    }

    /// Takes a request out of a thread's block, which gets an empty one instead.
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

    /// Makes a block the thread's own; the one that it had may serve another request.
    fn take_block(&self, block: Buffer, buffers: &mut CallBuffers) {
        let empty = std::mem::replace(&mut buffers.block, block);
        let mut spare = self.spare.lock();
        if spare.len() < spare.capacity() {
            spare.push(empty);
        }
    }
}

/// Runs a request and sends its reply. What goes wrong ends the connection, whose event then ends its membership.
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
            permit.answering();
        }
        member.send(message);
    };
    let next = guarded(|| orb.handler().handle(orb, connection, arrived, buffers, &mut send));
    if next.is_break() {
        connection.break_off();
    }
    buffers.trim();
}

/// The buffer is full.
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
        .detail("the lane's threads are busy and its request buffer is full");
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
    if reject(orb, connection, arrived, buffers, &full, &mut send).is_err() {
        connection.break_off();
    }
}
