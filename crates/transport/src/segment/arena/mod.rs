//! The arena beside a ring: memory in which large messages lie, instead of streaming through.
//!
//! Each side owns an arena that it writes and its peer can only read. A message, or a long part of
//! one, lies there and travels through the ring as an *entry*: where it lies, how long it is,
//! and the number of the message. The receiver copies it out of the arena to where it is parsed,
//! and releases it by the same number. Or it reads it there ([`LentPart`]) and releases it later.
//!
//! ```text
//!   sender                                          receiver
//!   Arena ── loan ──► program fills it
//!   ring ◄── one octet, entry ───────►  ring        reads the arena, then
//!   chunk is free again ◄── number ───────────────  releases it
//! ```
//!
//! The peer's values are not trusted. An entry that does not lie in the arena ends the
//! connection. A released number is only compared with the expected one, so no peer frees memory
//! that it was not told of, and none frees it twice. A peer that never releases fills its own
//! arena, and the sender is told so. When a process dies, its mappings go with it.

mod chunks;
mod loan;
#[allow(unsafe_code)]
mod memory;
mod part;

#[cfg(loom)]
pub(super) use chunks::Chunks;
pub use loan::Loan;
pub(super) use memory::MOST;
pub use part::LentPart;

use super::medium::{ArenaWord, ReceiveSegment};
use super::memory::OwnSegment;
use chunks::CHUNKS;
#[cfg(not(loom))]
use chunks::Chunks;
use isorb_rt::sync::PiMutex;
use memory::Mapping;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Messages that may refer to an arena at a time.
pub(super) const ENTRIES: u32 = 32;

/// The arena in which one side of a connection lends to its peer.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    chunks: PiMutex<Chunks>,
    /// Where the peer releases messages.
    own: Arc<OwnSegment>,
    sent: AtomicU64,
    refused: AtomicU64,
    copied: AtomicU64,
}

/// A part of a message that lies in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lent {
    pub at: u32,
    pub octets: u32,
    pub number: u32,
}

/// What an arena has done so far, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaCounts {
    /// Octets that it has.
    pub capacity: usize,
    /// Octets of it that occupy memory. They do so until the connection ends.
    pub committed: usize,
    /// Octets that a program fills or the peer has not released.
    pub in_use: usize,
    /// Parts of messages that were sent from where they lie.
    pub sent: u64,
    /// Loans that were refused.
    pub refused: u64,
    /// Parts of messages that were copied all the same, because their send must not wait.
    pub copied: u64,
    /// Parts of the peer's messages that were read in the peer's arena.
    pub read_in_place: u64,
    /// Octets of the peer's arena that this side has not released, because they are read there.
    pub held: usize,
}

/// Why an arena lends no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoanError {
    /// The whole arena is shorter.
    TooLong {
        /// Octets that the loan would have.
        octets: usize,
        /// Octets of the arena.
        capacity: usize,
    },
    /// Other loans, and messages that the peer has not released, occupy it.
    Full {
        /// Octets that the loan would have.
        octets: usize,
        /// Octets of the arena.
        capacity: usize,
        /// Octets that are not free.
        in_use: usize,
        /// Loans and messages that occupy them, at most 64.
        parts: usize,
    },
    /// The operating system has no memory for it.
    NoMemory {
        /// Octets that the loan would have.
        octets: usize,
    },
}

impl fmt::Display for LoanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LoanError::TooLong { octets, capacity } => {
                write!(
                    f,
                    "a loan of {octets} octets is longer than the arena, which has {capacity} (segment_arena_bytes)"
                )
            }
            LoanError::Full { octets, capacity, in_use, parts } => write!(
                f,
                "no room for a loan of {octets} octets: {in_use} of {capacity} octets (segment_arena_bytes) are in use, by \
                 {parts} loans and unreleased messages of at most {CHUNKS}"
            ),
            LoanError::NoMemory { octets } => {
                write!(f, "the system has no memory for a loan of {octets} octets")
            }
        }
    }
}

impl std::error::Error for LoanError {}

impl Arena {
    /// The arena of a connection. The peer releases messages in `own`.
    pub(super) fn new(offered: OfferedArena, own: Arc<OwnSegment>) -> Arc<Arena> {
        let chunks = PiMutex::new(Chunks::new(offered.0.capacity()));
        let count = || AtomicU64::new(0);
        Arc::new(Arena { mapping: offered.0, chunks, own, sent: count(), refused: count(), copied: count() })
    }

    /// Lends `octets` of the arena to the program. They hold zeros, or octets of an earlier message
    /// of this connection.
    ///
    /// # Errors
    /// [`LoanError`], which is counted.
    ///
    /// # Real-time
    /// One PI lock for a short section. Where memory of the arena is used for the first time, one
    /// system call that touches its pages. Allocates nothing from the heap.
    pub fn loan(self: &Arc<Self>, octets: usize) -> Result<Loan, LoanError> {
        let taken = self.take(octets);
        match taken {
            Ok((at, len)) => Ok(Loan::new(self.clone(), at, len)),
            Err(error) => {
                self.refused.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    /// Lends octets that have pages.
    fn take(&self, octets: usize) -> Result<(u32, u32), LoanError> {
        let capacity = self.mapping.capacity() as usize;
        let (at, len) = {
            let len = u32::try_from(octets).ok().filter(|_| octets <= capacity);
            let Some(len) = len else { return Err(LoanError::TooLong { octets, capacity }) };
            let mut chunks = self.chunks.lock();
            // First, so that memory is used again before more of the arena is touched.
            chunks.reclaim(|slot| self.own.load_arena(ArenaWord::Released(slot)));
            let Some(at) = chunks.take(len) else {
                let (in_use, parts) = chunks.in_use();
                return Err(LoanError::Full { octets, capacity, in_use: in_use as usize, parts });
            };
            (at, len)
        };
        if self.mapping.populate(at + len).is_err() {
            self.give_back(at);
            return Err(LoanError::NoMemory { octets });
        }
        Ok((at, len))
    }

    fn give_back(&self, at: u32) {
        self.chunks.lock().give_back(at);
    }

    /// Counts octets of the arena that their sender copies, because it must not wait for the peer.
    /// Returns how often that was so before.
    pub fn count_copied(&self) -> u64 {
        self.copied.fetch_add(1, Relaxed)
    }

    /// Whether these octets lie in the arena.
    ///
    /// # Real-time
    /// Two comparisons.
    #[inline]
    pub fn contains(&self, octets: &[u8]) -> bool {
        self.mapping.find(octets).is_some()
    }

    /// Records that a message refers to octets that lie in the arena. `Ok(None)` if they lie
    /// elsewhere, an error if all entries are in use.
    pub(super) fn refer(&self, octets: &[u8]) -> Result<Option<Lent>, Exhausted> {
        let Some(at) = self.mapping.find(octets) else { return Ok(None) };
        let octets = octets.len() as u32;
        let mut chunks = self.chunks.lock();
        if self.lacks_entry(&mut chunks) {
            return Err(Exhausted);
        }
        // A slice of the arena lies in a loan, from which it was borrowed.
        let number = chunks.send(at, octets);
        drop(chunks);
        self.sent.fetch_add(u64::from(number.is_some()), Relaxed);
        Ok(number.map(|number| Lent { at, octets, number }))
    }

    /// Whether the peer has to release a message before another can refer to the arena.
    pub(super) fn is_exhausted(&self) -> bool {
        self.lacks_entry(&mut self.chunks.lock())
    }

    fn lacks_entry(&self, chunks: &mut Chunks) -> bool {
        chunks.is_exhausted() && {
            chunks.reclaim(|slot| self.own.load_arena(ArenaWord::Released(slot)));
            chunks.is_exhausted()
        }
    }

    /// Takes back the message that was recorded last and not sent.
    pub(super) fn take_back(&self) {
        self.sent.fetch_sub(1, Relaxed);
        self.chunks.lock().unsend();
    }

    /// Whether a message that the peer has not released refers to the chunk at `at`.
    fn is_sent(&self, at: u32) -> bool {
        let mut chunks = self.chunks.lock();
        chunks.is_sent(at) && {
            chunks.reclaim(|slot| self.own.load_arena(ArenaWord::Released(slot)));
            chunks.is_sent(at)
        }
    }

    /// What it has done so far, and holds now.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    pub fn counts(&self) -> ArenaCounts {
        let in_use = {
            let mut chunks = self.chunks.lock();
            chunks.reclaim(|slot| self.own.load_arena(ArenaWord::Released(slot)));
            chunks.in_use().0 as usize
        };
        let (read_in_place, held) = self.own.peers_arena().map_or((0, 0), PeersArena::counts);
        ArenaCounts {
            read_in_place,
            held,
            capacity: self.mapping.capacity() as usize,
            committed: self.mapping.populated() as usize,
            in_use,
            sent: self.sent.load(Relaxed),
            refused: self.refused.load(Relaxed),
            copied: self.copied.load(Relaxed),
        }
    }
}

/// All entries of an arena are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// An arena, and the descriptor of its file goes to the peer.
#[derive(Debug)]
pub(super) struct OfferedArena(Mapping);

/// Makes an arena; `None` if `octets` is 0, or the kernel cannot keep the peer from writing.
pub(super) fn offer(octets: usize) -> io::Result<Option<(OfferedArena, OwnedFd)>> {
    if octets == 0 {
        return Ok(None);
    }
    Ok(memory::create(octets)?.map(|(mapping, fd)| (OfferedArena(mapping), fd)))
}

/// The arena in which the peer lends, mapped for reading.
#[derive(Debug)]
pub(super) struct PeersArena {
    mapping: Mapping,
    read_in_place: AtomicU64,
    held: AtomicUsize,
}

impl PeersArena {
    /// Maps the arena behind a descriptor that the peer sent.
    pub fn attach(fd: &OwnedFd, most: usize) -> io::Result<PeersArena> {
        let mapping = memory::attach(fd, most)?;
        Ok(PeersArena { mapping, read_in_place: AtomicU64::new(0), held: AtomicUsize::new(0) })
    }

    /// Whether these octets can be read: they lie in the arena, and there is memory for them.
    #[inline]
    pub fn admits(&self, at: u32, octets: u32) -> bool {
        let end = at.checked_add(octets).filter(|end| *end <= self.mapping.capacity());
        end.is_some_and(|end| self.mapping.populate(end).is_ok())
    }

    #[inline]
    pub fn read(&self, at: u32, into: &mut [u8]) {
        self.mapping.read(at, into);
    }

    /// Parts that were read in place, and octets that are held.
    fn counts(&self) -> (u64, usize) {
        (self.read_in_place.load(Relaxed), self.held.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
