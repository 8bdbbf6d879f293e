//! The memory that a thread needs to make or serve one call, kept from call to call.
//!
//! A nested call (by a servant, or a request that is served while a call waits) takes another set
//! of buffers. Each thread keeps as many sets as its deepest nesting so far, up to a bound, so that
//! the steady state allocates nothing.

use crate::lent::LentParts;
use crate::{Result, SystemException};
use isorb_giop::{Kind, minor};
use isorb_rt::priority::Priority;
use isorb_rt::sched::lock_range;
use isorb_rt::sync::PiOnceLock;
use isorb_scope::{Buffer, BufferPool, Region, Scope};
use std::cell::{Cell, RefCell};
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Deepest nesting of calls on one thread.
pub(crate) const MAX_NESTING: usize = 64;
/// Octets of the region of an upcall, and of the results of a call with owned results.
pub(crate) const REGION: usize = 16 << 10;
/// Message blocks up to this size stay with the connection and the threads that read it. Larger
/// ones go back to the pool, so that one large message does not occupy memory for ever.
pub(crate) const MAX_RETAINED_BLOCK: usize = 128 << 10;
/// An encoding buffer that grew beyond this is freed after the call.
const MAX_RETAINED: usize = 2 << 20;

/// Memory for one call or upcall.
pub(crate) struct CallBuffers {
    pub region: Region,
    pub encode: MessageBuffer,
    pub block: Buffer,
    /// Parts of the message in the block that lie in memory of the peer.
    pub lent: LentParts,
    /// Of a thread of a lane with message blocks of its own.
    lane: Option<Arc<LaneBlocks>>,
}

/// The message blocks of a lane, and what became of messages for want of them.
#[derive(Debug)]
pub(crate) struct LaneBlocks {
    pub pool: Arc<BufferPool>,
    /// Of the lane. A connection without a lane is less urgent than one with any.
    pub priority: Priority,
    /// For log records: the lane, and the blocks that it declared.
    pub name: Box<str>,
    /// Whether the blocks are reserved for this lane. Else the pool is the ORB's.
    pub own: bool,
    /// Octets of the block that each thread receives to; 0 for any.
    pub receives: usize,
    /// Messages that were refused because no block was large enough, or none free.
    pub refused: AtomicU64,
    /// Connections that were closed because others needed their blocks.
    pub evicted: AtomicU64,
    /// Upcalls that allocated in a lane without the heap.
    pub heap_upcalls: AtomicU64,
}

/// Octets of the smallest block of a lane.
pub(crate) const LANE_SMALL: usize = 4096;
/// Most octets of the block that a lane's thread receives to: 64 KiB and a page for the header. A
/// longer message goes on in a declared block.
pub(crate) const LANE_RECEIVES: usize = (64 << 10) + 4096;
/// Octets of a reply that a thread of a lane without message blocks of its own writes before its
/// buffer grows. Large slices are lent, not written.
const REPLY: usize = 16 << 10;

impl LaneBlocks {
    /// Counts a refused message; whether it is to be logged. The first one is, the second, the
    /// fourth and so on.
    pub fn refuses(&self) -> bool {
        (self.refused.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two()
    }

    /// Octets of the longest message that it takes, if its blocks are its own.
    fn longest(&self) -> Option<usize> {
        self.own.then(|| self.pool.largest())
    }
}

/// The memory of a lane's threads.
#[derive(Clone, Debug)]
pub(crate) struct LaneMemory {
    pub upcall: LaneUpcalls,
    pub blocks: Arc<LaneBlocks>,
    /// Whether its pages are locked.
    pub locked: bool,
}

/// The memory of a lane's upcalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneUpcalls {
    /// A region of this many octets for each thread.
    Region(usize),
    /// The heap, up to this many octets for each thread.
    Heap(usize),
}

impl LaneMemory {
    /// Locks pages, as far as the system permits it. The lane reported a refusal when it was made.
    fn lock(&self, (address, bytes): (usize, usize)) {
        if self.locked {
            let _ = lock_range(address, bytes);
        }
    }
}

impl CallBuffers {
    pub fn new(pool: &Arc<BufferPool>) -> CallBuffers {
        let block = pool.take(4096).unwrap_or_else(|| Buffer::unpooled(4096));
        let region = Region::with_overflow(REGION, pool.clone());
        CallBuffers {
            region,
            encode: MessageBuffer::default(),
            block,
            lent: LentParts::default(),
            lane: None,
        }
    }

    /// For a thread of a lane: with a region that is in memory already and does not grow, or with
    /// none. In a lane with message blocks of its own, the buffer for replies is as long as its
    /// longest message and does not grow either.
    pub fn with_memory(memory: &LaneMemory) -> CallBuffers {
        let region = match memory.upcall {
            LaneUpcalls::Region(bytes) => {
                let mut region = Region::new(bytes);
                region.prefault();
                memory.lock(region.range());
                region
            }
            // Nothing fits the region and the pool retains nothing, so each block comes from the
            // heap.
            LaneUpcalls::Heap(limit) => Region::with_overflow(0, BufferPool::new(limit, 0)),
        };
        let longest = memory.blocks.longest();
        // Written, so that its pages are there.
        let mut reply = vec![1; longest.unwrap_or(REPLY)];
        reply.clear();
        memory.lock((reply.as_ptr().addr(), reply.capacity()));
        let mut encode = MessageBuffer::default();
        encode.limit = longest.unwrap_or(usize::MAX);
        encode.max_retained = encode.max_retained.max(reply.capacity());
        encode.put_back(reply);
        let blocks = &memory.blocks;
        let lane = blocks.own.then(|| blocks.clone());
        let block = match &lane {
            Some(_) => Buffer::unpooled(0),
            None => blocks.pool.take(4096).unwrap_or_else(|| Buffer::unpooled(4096)),
        };
        let mut buffers = CallBuffers { region, encode, block, lent: LentParts::default(), lane };
        buffers.trim();
        buffers
    }

    /// Returns the block of a large message to its pool, so that an idle thread does not keep it. A
    /// lane's thread takes another of the lane's blocks to receive to.
    #[inline(always)]
    pub fn trim(&mut self) {
        let least = self.lane.as_ref().map_or(0, |lane| lane.receives);
        if !(least..=MAX_RETAINED_BLOCK).contains(&self.block.capacity()) {
            cold_path();
            self.replace_block();
        }
    }

    #[inline(never)]
    fn replace_block(&mut self) {
        self.block = Buffer::unpooled(0);
        if let Some(lane) = &self.lane
            && let Some(block) = lane.pool.take(lane.receives).or_else(|| lane.pool.take(0))
        {
            self.block = block;
        }
    }
}

/// The buffer that messages are written to, kept from message to message. It knows the header of
/// the last request, so that the next request of the same operation to the same target is written
/// behind that header. This saves 162 of 2,186 user-space instructions of a void call over TCP
/// (callgrind).
pub(crate) struct MessageBuffer {
    buffer: Vec<u8>,
    header: HeaderId,
    /// Length of the header in octets.
    octets: usize,
    /// Octets of the longest message that may be written.
    pub limit: usize,
    /// A buffer that grew beyond this is freed after the call.
    max_retained: usize,
}

/// Identifies the header of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeaderId {
    /// Number of the target of a request; 0 for none.
    target: u64,
    /// Address and length of the name of its operation, which is a static.
    name: (usize, usize),
}

impl HeaderId {
    const UNKNOWN: HeaderId = HeaderId { target: 0, name: (0, 0) };

    /// A bit in the length: the header has the context of a priority.
    const fn priority(follows: bool) -> usize {
        (follows as usize) << (usize::BITS - 1)
    }

    /// The header of a GIOP 1.2 request by key to the target with this number, without service
    /// contexts or with that of a priority.
    #[inline(always)]
    pub fn request(target: u64, operation: &'static str, priority: bool) -> HeaderId {
        HeaderId { target, name: (operation.as_ptr().addr(), operation.len() | Self::priority(priority)) }
    }
}

impl Default for MessageBuffer {
    fn default() -> MessageBuffer {
        let (buffer, header) = (Vec::with_capacity(1024), HeaderId::UNKNOWN);
        MessageBuffer { buffer, header, octets: 0, limit: usize::MAX, max_retained: MAX_RETAINED }
    }
}

impl MessageBuffer {
    /// Takes the buffer for any message.
    #[inline(always)]
    pub fn take(&mut self) -> Vec<u8> {
        self.header = HeaderId::UNKNOWN;
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer for a request with this header; also returns how many octets of the header
    /// it has.
    #[inline(always)]
    pub fn take_with(&mut self, header: HeaderId) -> (Vec<u8>, usize) {
        let octets = if self.header == header { self.octets } else { 0 };
        (self.take(), octets)
    }

    /// Puts the buffer back for the next message, unless it grew very large.
    #[inline(always)]
    pub fn put_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > self.max_retained {
            return drop_large(buffer);
        }
        self.buffer = buffer;
    }

    /// Declares that the first octets of the buffer, which was put back, are this header.
    #[inline(always)]
    pub fn set_header(&mut self, header: HeaderId, octets: usize) {
        if octets <= self.buffer.len() {
            (self.header, self.octets) = (header, octets);
        }
    }
}

#[cold]
fn drop_large(buffer: Vec<u8>) {
    drop(buffer);
}

/// The buffers of a thread. Taking or putting back the next ones, mostly the only ones, moves one
/// pointer.
struct ThreadBuffers {
    buffers: Cell<Option<Box<CallBuffers>>>,
    region: Cell<Option<Box<Region>>>,
    nesting: Cell<usize>,
    nested: RefCell<NestedBuffers>,
}

/// The further buffers of a thread with nested calls.
struct NestedBuffers {
    #[expect(
        clippy::vec_box,
        reason = "each call takes one out and puts it back: a pointer moves, not the set"
    )]
    buffers: Vec<Box<CallBuffers>>,
    #[expect(clippy::vec_box, reason = "as above")]
    regions: Vec<Box<Region>>,
}

thread_local! {
    static THREAD_BUFFERS: ThreadBuffers = const {
        ThreadBuffers {
            buffers: Cell::new(None),
            region: Cell::new(None),
            nesting: Cell::new(0),
            nested: RefCell::new(NestedBuffers { buffers: Vec::new(), regions: Vec::new() }),
        }
    };
}

/// Runs `f` with buffers of this thread.
///
/// # Errors
/// IMP_LIMIT when calls are nested too deeply.
#[inline(always)]
pub(crate) fn with_buffers<T, E: From<SystemException>>(
    pool: &Arc<BufferPool>,
    f: impl FnOnce(&mut CallBuffers) -> Result<T, E>,
) -> Result<T, E> {
    let Some(buffers) = enter(|ready| ready.buffers.take()) else { return Err(too_deep().into()) };
    let nested = Nested;
    let buffers = match buffers {
        Some(buffers) => buffers,
        None => another_set(pool),
    };
    std::mem::forget(nested);
    // Put back by a destructor, so that the large result is made in the caller's frame.
    let mut lent = Borrowed(Some(buffers));
    match &mut lent.0 {
        Some(buffers) => f(buffers),
        None => Err(too_deep().into()),
    }
}

/// Buffers in use by a call, and its level of nesting.
struct Borrowed(Option<Box<CallBuffers>>);

impl Drop for Borrowed {
    #[inline(always)]
    fn drop(&mut self) {
        // A thread that ends has dropped its buffers.
        let _ = THREAD_BUFFERS.try_with(|ready| {
            ready.nesting.set(ready.nesting.get() - 1);
            if let Some(other) = ready.buffers.replace(self.0.take()) {
                put_aside(|nested| nested.buffers.push(other));
            }
        });
    }
}

/// Allocates what the first call by a servant on this thread would allocate.
pub(crate) fn warm_up(pool: &Arc<BufferPool>) {
    THREAD_BUFFERS.with(|ready| {
        let (buffers, region) = (ready.buffers.take(), ready.region.take());
        ready.buffers.set(Some(buffers.unwrap_or_else(|| Box::new(CallBuffers::new(pool)))));
        ready.region.set(Some(region.unwrap_or_else(another_region)));
    });
}

#[cold]
fn another_set(pool: &Arc<BufferPool>) -> Box<CallBuffers> {
    let known = THREAD_BUFFERS.with(|ready| ready.nested.borrow_mut().buffers.pop());
    known.unwrap_or_else(|| Box::new(CallBuffers::new(pool)))
}

#[cold]
fn another_region() -> Box<Region> {
    let known = THREAD_BUFFERS.with(|ready| ready.nested.borrow_mut().regions.pop());
    known.unwrap_or_else(|| Box::new(Region::with_overflow(REGION, results())))
}

#[cold]
fn put_aside(put: impl FnOnce(&mut NestedBuffers)) {
    THREAD_BUFFERS.with(|ready| put(&mut ready.nested.borrow_mut()));
}

/// The pool for results that exceed a region. There is one in the process, since the scope is
/// entered before the called ORB is known.
fn results() -> Arc<BufferPool> {
    static RESULTS: PiOnceLock<Arc<BufferPool>> = PiOnceLock::new();
    RESULTS.get_or_init(|| BufferPool::new(256 << 20, 16 << 20)).clone()
}

/// Runs `f` with a scope of this thread, for results that are copied out afterwards.
#[inline(always)]
pub(crate) fn with_scope<T, E: From<SystemException>>(
    f: impl for<'s> FnOnce(&'s Scope<'s>) -> Result<T, E>,
) -> Result<T, E> {
    let Some(region) = enter(|ready| ready.region.take()) else { return Err(too_deep().into()) };
    let nested = Nested;
    let mut region = match region {
        Some(region) => region,
        None => another_region(),
    };
    let result = {
        let scope = region.enter();
        f(&scope)
    };
    nested.leave(|ready| {
        if let Some(other) = ready.region.replace(Some(region)) {
            put_aside(|nested| nested.regions.push(other));
        }
    });
    result
}

/// `None` when calls are nested too deeply.
#[inline(always)]
fn enter<T>(take: impl FnOnce(&ThreadBuffers) -> T) -> Option<T> {
    THREAD_BUFFERS.with(|ready| {
        let nesting = ready.nesting.get();
        if nesting == 2 * MAX_NESTING {
            cold_path();
            return None;
        }
        ready.nesting.set(nesting + 1);
        Some(take(ready))
    })
}

#[cold]
fn too_deep() -> SystemException {
    SystemException::from(Kind::ImpLimit)
        .minor(minor::IMP_LIMIT_NESTING)
        .detail("calls are nested too deeply on one thread: does a call back call back?")
}

/// One level of nesting. A panic, such as a servant's, ends it, too; the borrowed buffers are lost
/// then.
struct Nested;

impl Nested {
    #[inline(always)]
    fn leave(self, give: impl FnOnce(&ThreadBuffers)) {
        std::mem::forget(self);
        THREAD_BUFFERS.with(|ready| {
            ready.nesting.set(ready.nesting.get() - 1);
            give(ready);
        });
    }
}

impl Drop for Nested {
    #[cold]
    fn drop(&mut self) {
        THREAD_BUFFERS.with(|ready| ready.nesting.set(ready.nesting.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_kept_for_the_same_operation_only() {
        let (ping, pong) = (HeaderId::request(1, "ping", false), HeaderId::request(1, "pong", false));
        let mut encode = MessageBuffer::default();
        assert_eq!(encode.take_with(ping), (Vec::new(), 0));
        encode.put_back(b"head of ping, arguments".to_vec());
        encode.set_header(ping, 12);
        let (buffer, octets) = encode.take_with(ping);
        assert_eq!(&buffer[..octets], b"head of ping");
        // Nothing is known of the buffer while it is taken.
        encode.put_back(buffer);
        assert_eq!(encode.take_with(ping).1, 0);
        for other in [pong, HeaderId::request(2, "ping", false), HeaderId::request(1, "ping", true)] {
            encode.put_back(b"head of ping".to_vec());
            encode.set_header(ping, 12);
            assert_eq!(encode.take_with(other).1, 0, "{other:?}");
        }
        encode.put_back(b"head of ping".to_vec());
        encode.set_header(ping, 12);
        drop(encode.take());
        assert_eq!(encode.take_with(ping).1, 0);
        // A buffer that grew very large was not kept.
        encode.put_back(Vec::with_capacity(MAX_RETAINED + 1));
        encode.set_header(ping, 12);
        assert_eq!(encode.take_with(ping).1, 0);
    }
}
