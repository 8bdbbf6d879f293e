//! What a thread needs to make or serve one call, kept from call to call.
//!
//! A call nested in another (a servant that calls out, a call back while waiting) takes the next set; each thread has as
//! many as its deepest nesting so far, up to a bound, so that the steady state allocates nothing.

use crate::{Result, SystemException};
use isorb_giop::{Kind, minor};
use isorb_scope::{Buffer, BufferPool, Region, Scope};
use std::cell::{Cell, RefCell};
use std::hint::cold_path;
use std::sync::{Arc, OnceLock};

/// Deepest nesting of calls on one thread: a call, the call back it causes, the call that makes, and so on.
pub(crate) const MAX_NESTING: usize = 64;
/// Region of an upcall, and of the results of a call that gives owned values, in bytes.
pub(crate) const REGION: usize = 16 << 10;
/// What a lane's thread can write of a reply before its buffer grows, in bytes; large slices are lent and not written.
const REPLY: usize = 16 << 10;
/// Message blocks up to this size stay with the connection and the threads that read it. Larger ones
/// go back to the pool, so that one large message does not occupy memory for ever.
pub(crate) const BLOCK_STAYS: usize = 128 << 10;
/// An encoding buffer that grew beyond this is given back after the call.
const STAY: usize = 2 << 20;

/// Memory for one call or upcall.
pub(crate) struct CallBuffers {
    pub region: Region,
    pub encode: MessageBuffer,
    pub block: Buffer,
}

/// What the upcalls of a lane may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneMemory {
    /// A region of so many bytes for each thread.
    Region(usize),
    /// The heap, up to so many bytes for each thread.
    Heap(usize),
}

impl CallBuffers {
    pub fn new(pool: &Arc<BufferPool>) -> CallBuffers {
        let block = pool.take(4096).unwrap_or_else(|| Buffer::unpooled(4096));
        let region = Region::with_overflow(REGION, pool.clone());
        CallBuffers { region, encode: MessageBuffer::default(), block }
    }

    /// For a thread of a lane: a region that was touched already and does not grow, or none at all.
    pub fn with_memory(pool: &Arc<BufferPool>, memory: LaneMemory) -> CallBuffers {
        let region = match memory {
            LaneMemory::Region(bytes) => {
                let mut region = Region::new(bytes);
                region.prefault();
                region
            }
            // Nothing fits, and the pool retains nothing, so that all of it comes from the heap and goes back.
            LaneMemory::Heap(limit) => Region::with_overflow(0, BufferPool::new(limit, 0)),
        };
        let mut buffers = CallBuffers { region, ..CallBuffers::new(pool) };
        buffers.encode.put_back(Vec::with_capacity(REPLY));
        buffers
    }

    /// Gives a block that a large message left behind back to its pool, so that a thread which rests does not keep it.
    #[inline(always)]
    pub fn trim(&mut self) {
        if self.block.capacity() > BLOCK_STAYS {
            cold_path();
            self.block = Buffer::unpooled(0);
        }
    }
}

/// The buffer that messages are written to, kept from message to message, and what the last one began with. A message that
/// begins with the same is written behind it.
pub(crate) struct MessageBuffer {
    buffer: Vec<u8>,
    begins: CachedHeader,
    /// Length of the beginning in octets.
    octets: usize,
}

/// What a message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CachedHeader {
    /// Number of the target of a request; 0 for none.
    target: u64,
    /// Where the name of its operation lies, which is a static, and its length.
    name: (usize, usize),
}

impl CachedHeader {
    const UNKNOWN: CachedHeader = CachedHeader { target: 0, name: (0, 0) };
    /// The header of a reply of GIOP 1.2 without service contexts.
    pub const REPLY: CachedHeader = CachedHeader { target: 0, name: (1, 0) };

    /// Added to the length of a name that a priority follows; no text is so long.
    const fn priority(follows: bool) -> usize {
        (follows as usize) << (usize::BITS - 1)
    }

    /// The header of a request of GIOP 1.2 by key, to a target with this number, without service contexts or with that of a
    /// priority.
    #[inline(always)]
    pub fn request(target: u64, operation: &'static str, priority: bool) -> CachedHeader {
        CachedHeader { target, name: (operation.as_ptr().addr(), operation.len() | Self::priority(priority)) }
    }
}

impl Default for MessageBuffer {
    fn default() -> MessageBuffer {
        MessageBuffer { buffer: Vec::with_capacity(1024), begins: CachedHeader::UNKNOWN, octets: 0 }
    }
}

impl MessageBuffer {
    /// The buffer, for any message.
    #[inline(always)]
    pub fn take(&mut self) -> Vec<u8> {
        self.begins = CachedHeader::UNKNOWN;
        std::mem::take(&mut self.buffer)
    }

    /// The buffer for a message that begins so, and how many octets of it are there already.
    #[inline(always)]
    pub fn take_with(&mut self, beginning: CachedHeader) -> (Vec<u8>, usize) {
        let octets = if self.begins == beginning { self.octets } else { 0 };
        (self.take(), octets)
    }

    /// Keeps the buffer for the next message unless it grew very large.
    #[inline(always)]
    pub fn put_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > STAY {
            return drop_large(buffer);
        }
        self.buffer = buffer;
    }

    /// Says what the buffer that was put back begins with, in its first so many octets.
    #[inline(always)]
    pub fn set_header(&mut self, beginning: CachedHeader, octets: usize) {
        if octets <= self.buffer.len() {
            (self.begins, self.octets) = (beginning, octets);
        }
    }
}

#[cold]
fn drop_large(buffer: Vec<u8>) {
    drop(buffer);
}

/// What lies ready on a thread. The sets that are used next, which mostly are the only ones, are taken and put back with a
/// pointer's move each.
struct ThreadBuffers {
    buffers: Cell<Option<Box<CallBuffers>>>,
    region: Cell<Option<Box<Region>>>,
    nesting: Cell<usize>,
    nested: RefCell<NestedBuffers>,
}

/// Of threads whose calls were nested.
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

/// Runs `f` with a set of this thread.
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
    // Put back by a destructor, so that the result is made where it is handed up; it is large.
    let mut lent = Borrowed(Some(buffers));
    match &mut lent.0 {
        Some(buffers) => f(buffers),
        None => Err(too_deep().into()),
    }
}

/// A set that a call has, and its level of nesting.
struct Borrowed(Option<Box<CallBuffers>>);

impl Drop for Borrowed {
    #[inline(always)]
    fn drop(&mut self) {
        // Where the thread ends already, the set goes with it.
        let _ = THREAD_BUFFERS.try_with(|ready| {
            ready.nesting.set(ready.nesting.get() - 1);
            if let Some(other) = ready.buffers.replace(self.0.take()) {
                put_aside(|nested| nested.buffers.push(other));
            }
        });
    }
}

/// Makes what this thread's first call, made by a servant, would make.
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

/// Where results go that are too long for a region. One for the process, since the scope is entered before it is known which
/// ORB is called.
fn results() -> Arc<BufferPool> {
    static RESULTS: OnceLock<Arc<BufferPool>> = OnceLock::new();
    RESULTS.get_or_init(|| BufferPool::new(256 << 20, 16 << 20)).clone()
}

/// Runs `f` with a scope of this thread, for results that are then copied out.
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

/// One level of nesting. A panic that passes through, as a servant's may, ends it too; what was lent is lost then.
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
    fn a_beginning_is_kept_for_the_same_only() {
        let (ping, pong) = (CachedHeader::request(1, "ping", false), CachedHeader::request(1, "pong", false));
        let mut encode = MessageBuffer::default();
        assert_eq!(encode.take_with(ping), (Vec::new(), 0));
        encode.put_back(b"head of ping, arguments".to_vec());
        encode.set_header(ping, 12);
        let (buffer, octets) = encode.take_with(ping);
        assert_eq!(&buffer[..octets], b"head of ping");
        // While it is out, nothing is known of what will be put back.
        encode.put_back(buffer);
        assert_eq!(encode.take_with(ping).1, 0);
        for other in [
            pong,
            CachedHeader::request(2, "ping", false),
            CachedHeader::request(1, "ping", true),
            CachedHeader::REPLY,
        ] {
            encode.put_back(b"head of ping".to_vec());
            encode.set_header(ping, 12);
            assert_eq!(encode.take_with(other).1, 0, "{other:?}");
        }
        encode.put_back(b"head of ping".to_vec());
        encode.set_header(ping, 12);
        drop(encode.take());
        assert_eq!(encode.take_with(ping).1, 0);
        // A buffer that grew very large was not kept.
        encode.put_back(Vec::with_capacity(STAY + 1));
        encode.set_header(ping, 12);
        assert_eq!(encode.take_with(ping).1, 0);
    }
}
