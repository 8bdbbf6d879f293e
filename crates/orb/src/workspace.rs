//! What a thread needs to make or serve one call, kept from call to call.
//!
//! A call nested in another (a servant that calls out, a call back while waiting) takes the next set; each thread has as
//! many as its deepest nesting so far, up to a bound, so that the steady state allocates nothing.

use crate::server::Seen;
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
/// An encoding buffer that grew beyond this is given back after the call.
const STAY: usize = 2 << 20;

/// Memory for one call or upcall.
pub(crate) struct Work {
    pub region: Region,
    pub encode: Encode,
    pub block: Buffer,
    pub seen: Box<Seen>,
}

/// What the upcalls of a lane may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A region of so many bytes for each thread.
    Region(usize),
    /// The heap, up to so many bytes for each thread.
    Heap(usize),
}

impl Work {
    pub fn new(pool: &Arc<BufferPool>) -> Work {
        let block = pool.take(4096).unwrap_or_else(|| Buffer::unpooled(4096));
        let region = Region::with_overflow(REGION, pool.clone());
        Work { region, encode: Encode::default(), block, seen: Box::default() }
    }

    /// For a thread of a lane: a region that was touched already and does not grow, or none at all.
    pub fn with_memory(pool: &Arc<BufferPool>, memory: Memory) -> Work {
        let region = match memory {
            Memory::Region(bytes) => {
                let mut region = Region::new(bytes);
                region.prefault();
                region
            }
            // Nothing fits, and the pool retains nothing, so that all of it comes from the heap and goes back.
            Memory::Heap(limit) => Region::with_overflow(0, BufferPool::new(limit, 0)),
        };
        let mut work = Work { region, ..Work::new(pool) };
        work.encode.put_back(Vec::with_capacity(REPLY));
        work
    }

    /// Gives a block that a large message left behind back to its pool, so that a thread which rests does not keep it.
    #[inline(always)]
    pub fn trim(&mut self) {
        if self.block.capacity() > crate::connection::STAY {
            cold_path();
            self.block = Buffer::unpooled(0);
        }
    }
}

/// The buffer that messages are written to, kept from message to message, and what the last one began with. A message that
/// begins with the same is written behind it.
pub(crate) struct Encode {
    buffer: Vec<u8>,
    begins: Beginning,
    /// Length of the beginning in octets.
    octets: usize,
}

/// What a message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Beginning {
    /// Number of the target of a request; 0 for none.
    target: u64,
    /// Where the name of its operation lies, which is a static, and its length.
    name: (usize, usize),
}

impl Beginning {
    const UNKNOWN: Beginning = Beginning { target: 0, name: (0, 0) };
    /// The header of a reply of GIOP 1.2 without service contexts.
    pub const REPLY: Beginning = Beginning { target: 0, name: (1, 0) };

    /// Added to the length of a name that a priority follows; no text is so long.
    const fn priority(follows: bool) -> usize {
        (follows as usize) << (usize::BITS - 1)
    }

    /// The header of a request of GIOP 1.2 by key, to a target with this number, without service contexts or with that of a
    /// priority.
    #[inline(always)]
    pub fn request(target: u64, operation: &'static str, priority: bool) -> Beginning {
        Beginning { target, name: (operation.as_ptr().addr(), operation.len() | Self::priority(priority)) }
    }
}

impl Default for Encode {
    fn default() -> Encode {
        Encode { buffer: Vec::with_capacity(1024), begins: Beginning::UNKNOWN, octets: 0 }
    }
}

impl Encode {
    /// The buffer, for any message.
    #[inline(always)]
    pub fn take(&mut self) -> Vec<u8> {
        self.begins = Beginning::UNKNOWN;
        std::mem::take(&mut self.buffer)
    }

    /// The buffer for a message that begins so, and how many octets of it are there already.
    #[inline(always)]
    pub fn take_for(&mut self, beginning: Beginning) -> (Vec<u8>, usize) {
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
    pub fn begins(&mut self, beginning: Beginning, octets: usize) {
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
struct Shelf {
    work: Cell<Option<Box<Work>>>,
    region: Cell<Option<Box<Region>>>,
    nesting: Cell<usize>,
    more: RefCell<More>,
}

/// Of threads whose calls were nested.
struct More {
    #[expect(
        clippy::vec_box,
        reason = "each call takes one out and puts it back: a pointer moves, not the set"
    )]
    work: Vec<Box<Work>>,
    #[expect(clippy::vec_box, reason = "as above")]
    regions: Vec<Box<Region>>,
}

thread_local! {
    static SHELF: Shelf = const {
        Shelf {
            work: Cell::new(None),
            region: Cell::new(None),
            nesting: Cell::new(0),
            more: RefCell::new(More { work: Vec::new(), regions: Vec::new() }),
        }
    };
}

/// Runs `f` with a set of this thread.
///
/// # Errors
/// IMP_LIMIT when calls are nested too deeply.
#[inline(always)]
pub(crate) fn with_work<T, E: From<SystemException>>(
    pool: &Arc<BufferPool>,
    f: impl FnOnce(&mut Work) -> Result<T, E>,
) -> Result<T, E> {
    let Some(work) = enter(|shelf| shelf.work.take()) else { return Err(too_deep().into()) };
    let nested = Nested;
    let work = match work {
        Some(work) => work,
        None => another_work(pool),
    };
    std::mem::forget(nested);
    // Put back by a destructor, so that the result is made where it is handed up; it is large.
    let mut lent = Lent(Some(work));
    match &mut lent.0 {
        Some(work) => f(work),
        None => Err(too_deep().into()),
    }
}

/// A set that a call has, and its level of nesting.
struct Lent(Option<Box<Work>>);

impl Drop for Lent {
    #[inline(always)]
    fn drop(&mut self) {
        // Where the thread ends already, the set goes with it.
        let _ = SHELF.try_with(|shelf| {
            shelf.nesting.set(shelf.nesting.get() - 1);
            if let Some(other) = shelf.work.replace(self.0.take()) {
                put_aside(|more| more.work.push(other));
            }
        });
    }
}

/// Makes what this thread's first call, made by a servant, would make.
pub(crate) fn warm_up(pool: &Arc<BufferPool>) {
    SHELF.with(|shelf| {
        let (work, region) = (shelf.work.take(), shelf.region.take());
        shelf.work.set(Some(work.unwrap_or_else(|| Box::new(Work::new(pool)))));
        shelf.region.set(Some(region.unwrap_or_else(another_region)));
    });
}

#[cold]
fn another_work(pool: &Arc<BufferPool>) -> Box<Work> {
    let known = SHELF.with(|shelf| shelf.more.borrow_mut().work.pop());
    known.unwrap_or_else(|| Box::new(Work::new(pool)))
}

#[cold]
fn another_region() -> Box<Region> {
    let known = SHELF.with(|shelf| shelf.more.borrow_mut().regions.pop());
    known.unwrap_or_else(|| Box::new(Region::with_overflow(REGION, results())))
}

#[cold]
fn put_aside(put: impl FnOnce(&mut More)) {
    SHELF.with(|shelf| put(&mut shelf.more.borrow_mut()));
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
    let Some(region) = enter(|shelf| shelf.region.take()) else { return Err(too_deep().into()) };
    let nested = Nested;
    let mut region = match region {
        Some(region) => region,
        None => another_region(),
    };
    let result = {
        let scope = region.enter();
        f(&scope)
    };
    nested.leave(|shelf| {
        if let Some(other) = shelf.region.replace(Some(region)) {
            put_aside(|more| more.regions.push(other));
        }
    });
    result
}

/// `None` when calls are nested too deeply.
#[inline(always)]
fn enter<T>(take: impl FnOnce(&Shelf) -> T) -> Option<T> {
    SHELF.with(|shelf| {
        let nesting = shelf.nesting.get();
        if nesting == 2 * MAX_NESTING {
            cold_path();
            return None;
        }
        shelf.nesting.set(nesting + 1);
        Some(take(shelf))
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
    fn leave(self, give: impl FnOnce(&Shelf)) {
        std::mem::forget(self);
        SHELF.with(|shelf| {
            shelf.nesting.set(shelf.nesting.get() - 1);
            give(shelf);
        });
    }
}

impl Drop for Nested {
    #[cold]
    fn drop(&mut self) {
        SHELF.with(|shelf| shelf.nesting.set(shelf.nesting.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_kept_for_the_same_only() {
        let (ping, pong) = (Beginning::request(1, "ping", false), Beginning::request(1, "pong", false));
        let mut encode = Encode::default();
        assert_eq!(encode.take_for(ping), (Vec::new(), 0));
        encode.put_back(b"head of ping, arguments".to_vec());
        encode.begins(ping, 12);
        let (buffer, octets) = encode.take_for(ping);
        assert_eq!(&buffer[..octets], b"head of ping");
        // While it is out, nothing is known of what will be put back.
        encode.put_back(buffer);
        assert_eq!(encode.take_for(ping).1, 0);
        for other in [
            pong,
            Beginning::request(2, "ping", false),
            Beginning::request(1, "ping", true),
            Beginning::REPLY,
        ] {
            encode.put_back(b"head of ping".to_vec());
            encode.begins(ping, 12);
            assert_eq!(encode.take_for(other).1, 0, "{other:?}");
        }
        encode.put_back(b"head of ping".to_vec());
        encode.begins(ping, 12);
        drop(encode.take());
        assert_eq!(encode.take_for(ping).1, 0);
        // A buffer that grew very large was not kept.
        encode.put_back(Vec::with_capacity(STAY + 1));
        encode.begins(ping, 12);
        assert_eq!(encode.take_for(ping).1, 0);
    }
}
