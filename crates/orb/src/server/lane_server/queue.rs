//! Requests that no socket keeps until a thread of the lane is free: those to groups and those of
//! this process.

#[cfg(feature = "miop")]
use super::super::buffered::Source;
use super::super::buffered::{BufferedRequest, OwnedSource};
use super::super::lane::Lane;
use super::super::local::{LocalTicket, waiting_in};
use super::LaneServer;
use super::run::{Permit, full, run, unfit};
use crate::buffers::{CallBuffers, with_buffers};
use crate::connection::Arrived;
use crate::sched::thread;
use crate::{Orb, Result, SystemException};
use isorb_rt::priority::Priority;
use isorb_rt::queue::PriorityQueue;
use isorb_rt::sched::SchedClass;
use isorb_rt::sync::PiMutex;
use std::cmp::Reverse;
use std::sync::Arc;

/// Most requests to groups and from this process that wait at a lane.
const MOST_QUEUED: usize = 128;

/// The waiting requests of a lane, the highest priority first.
pub(super) struct RequestQueue(PiMutex<Waiting>);

struct Waiting {
    requests: PriorityQueue<Reverse<Option<Priority>>, BufferedRequest>,
    closed: bool,
}

impl RequestQueue {
    pub fn new() -> RequestQueue {
        let requests = PriorityQueue::with_capacity(MOST_QUEUED);
        RequestQueue(PiMutex::new(Waiting { requests, closed: false }))
    }

    /// `false` when the queue is full or closed.
    fn push(&self, priority: Option<Priority>, request: BufferedRequest) -> bool {
        let mut waiting = self.0.lock();
        !waiting.closed && waiting.requests.push(Reverse(priority), request).is_ok()
    }

    /// The most urgent request, and whether others wait.
    fn pop(&self) -> (Option<BufferedRequest>, bool) {
        let mut waiting = self.0.lock();
        let request = waiting.requests.pop().map(|(_, request)| request);
        (request, !waiting.requests.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.0.lock().requests.is_empty()
    }

    /// Closes the queue and returns the requests in it.
    fn close(&self) -> Vec<BufferedRequest> {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        std::iter::from_fn(|| waiting.requests.pop()).map(|(_, request)| request).collect()
    }
}

impl LaneServer {
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
        let request = BufferedRequest { source, arrived, block, claim: None, plan: None };
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
        let mut request =
            BufferedRequest { source: OwnedSource::Local(ticket), arrived, block, claim: None, plan: None };
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
        let pushed = self.queue.push(priority, request);
        lane.wake();
        pushed
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
        self.queue.close()
    }

    /// Runs a request of a lane that borrows this thread, or one of the queue.
    pub fn run_other(&self, lane: &Arc<Lane>, orb: &Orb, buffers: &mut CallBuffers, raised: bool) {
        let (borrowed, more) = self.threads.borrowed_request();
        let Some(buffered) = borrowed else {
            let (request, more) = self.queue.pop();
            if more {
                lane.wake();
            }
            if let Some(BufferedRequest { source, arrived, block, .. }) = request {
                buffers.block = block;
                self.serve(lane, orb, source.as_source(), arrived, buffers);
                buffers.trim();
            }
            if raised {
                self.back_to_own_priority();
            }
            return;
        };
        if more || !self.queue.is_empty() {
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
}
