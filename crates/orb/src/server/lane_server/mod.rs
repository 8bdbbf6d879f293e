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

mod accept;
mod queue;
mod run;

use super::LOG;
use super::buffered::{BufferedRequest, OwnedSource, Source};
use super::lane::{Lane, Member};
use super::reply::{refuse_over_limit, reject};
use super::thread_lane::{Admission, Buffering, ThreadLane};
use crate::Orb;
use crate::buffers::{CallBuffers, LANE_SMALL, LaneBlocks, LaneMemory};
use crate::connection::{Arrived, Claim, PeerLimit};
use crate::log::warn;
use crate::sched::thread::{self, ThreadPlan};
use crate::sched::{Setup, prepare_listener};
use isorb_rt::sched::SpawnError;
use isorb_rt::sync::Turn;
use isorb_rt::time::Deadline;
use isorb_scope::Buffer;
use isorb_transport::Listener;
use queue::RequestQueue;
use run::{Permit, refuse, run, unfit};
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
    queue: RequestQueue,
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

impl LaneServer {
    pub fn new(endpoints: LaneEndpoints) -> LaneServer {
        let LaneEndpoints { threads, acceptors, lenders, plan, memory, idle_timeout, max_connections } =
            endpoints;
        let accepting = Turn::new();
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
            queue: RequestQueue::new(),
        }
    }

    pub fn acceptors(&self) -> &[Acceptor] {
        &self.acceptors
    }

    /// Sets the properties of the sockets that are accepted from now on. The first POA's setting
    /// stays.
    pub fn set_socket_setup(&self, setup: Setup) {
        if self.setup.set(setup).is_err() {
            return;
        }
        let Some(setup) = self.setup.get() else { return };
        self.acceptors.iter().for_each(|at| prepare_listener(&*at.listener, at.tag, setup));
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

    /// Runs the request in `buffers.block`, hands it to another thread, or refuses it.
    pub fn serve(
        &self,
        lane: &Arc<Lane>,
        orb: &Orb,
        source: Source<'_>,
        mut arrived: Arrived,
        buffers: &mut CallBuffers,
    ) {
        if !self.threads.config().counts_permits() {
            run(&self.blocks().pool, orb, source, arrived, buffers, None);
            return;
        }
        // Before a thread or a block of the lane is spent on it.
        let mut claim = match source {
            Source::Member(member) => match member.connection().claim_request(&arrived) {
                Ok(claim) => claim,
                Err(limit) => return over_limit(member, orb, arrived, limit, buffers),
            },
            _ => None,
        };
        let admitted = match self.threads.admit() {
            Admission::Run => true,
            Admission::RunAndGrow => self.grow(lane, orb),
            Admission::Full => false,
            Admission::Closed => return,
        };
        if !admitted {
            let mut spare = self.spare(arrived.len);
            if self.borrow(source, arrived, buffers, (&mut spare, &mut claim)) {
                return;
            }
            // Before the lock of `threads`, since this takes locks of POAs.
            let priority = match self.threads.config().buffer {
                Some(_) => orb.handler().request_priority(orb, arrived, buffers),
                None => None,
            };
            let buffering = match spare {
                Some(spare) => self.threads.buffer(arrived.len, priority, || {
                    BufferedRequest::new(source, arrived, &mut buffers.block, spare, claim.take(), None)
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
        Claim::hand_on(claim, &mut arrived);
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

    /// Has a thread of a lane of lower priority run the request. Takes the spare block and the
    /// claim then.
    fn borrow(
        &self,
        source: Source<'_>,
        arrived: Arrived,
        buffers: &mut CallBuffers,
        (spare, claim): (&mut Option<Buffer>, &mut Option<Claim>),
    ) -> bool {
        spare.is_some()
            && self.lenders.iter().any(|lender| {
                let Some(server) = lender.server() else { return false };
                let plan = Some(self.plan.clone());
                let lent = server.threads.borrow_thread(
                    || {
                        let spare = spare.take().unwrap_or_else(|| Buffer::unpooled(0));
                        BufferedRequest::new(source, arrived, &mut buffers.block, spare, claim.take(), plan)
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
        let BufferedRequest { source, mut arrived, block, claim, .. } = buffered;
        buffers.block = block;
        Claim::hand_on(claim, &mut arrived);
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
        if let Some(statistics) = orb.statistics() {
            statistics.refuse();
        }
        let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
        let answered = reject(orb, Some(connection), first, buffers, &unfit(too_long), &mut send).is_ok();
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

/// Answers a request that its client's limits refuse.
#[cold]
fn over_limit(member: &Member, orb: &Orb, arrived: Arrived, limit: PeerLimit, buffers: &mut CallBuffers) {
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
    if refuse_over_limit(orb, connection, arrived, limit, buffers, &mut send).is_err() {
        connection.break_off();
    }
    buffers.trim();
}
