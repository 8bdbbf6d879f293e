//! Segments in shared memory: a sealed memfd that both processes map.
//!
//! The unsafe code of the ring: mappings, and copies between them and private memory (that of the
//! arenas is in [`arena`](super::arena)). A [`Mapping`] proves that its octets stay mapped and
//! readable as long as it lives, since the file was sealed against shrinking before it was mapped.
//! It proves nothing about their values: the other process may write them at any time. No reference
//! to payload is ever made; words are atomics.

use super::arena::{Arena, OfferedArena, PeersArena};
use super::medium::{ArenaWord, Field, PeerSegment, ReceiveSegment, Word};
use isorb_rt::time::Deadline;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;
use std::hint::cold_path;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The words lie before the payload, on a page of their own.
const WORDS: usize = 4096;
/// Smallest and largest payload.
pub(crate) const LEAST: usize = 4 << 10;
pub(crate) const MOST: usize = 1 << 30;
/// The seals that make it safe to touch a mapping of a file that another process holds.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// The file system of an ordinary memfd. With huge pages a page may be missing when it is touched.
const TMPFS: i64 = 0x0102_1994;
/// From this length on, copies leave the choice of instructions to the processor.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LONG: usize = 256;

/// A whole segment, mapped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    capacity: u32,
}

// SAFETY: the mapping belongs to no thread; all access to it is by atomics, or by copies that
// assume nothing about concurrent writes of other threads or processes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `fd`, which is sealed and `WORDS + capacity` octets long.
    fn new(fd: &OwnedFd, capacity: usize) -> io::Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address that the kernel chooses touches no memory of this
        // process.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), WORDS + capacity, prot, flags, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, capacity: capacity as u32 })
    }

    #[inline]
    fn word(&self, word: Word) -> &AtomicU32 {
        // Words that one thread writes together share a cache line. Words of the reader and of the
        // writer do not.
        let offset = match word {
            Word::Head => 0,
            Word::Closed => 4,
            Word::Processor => 8,
            Word::Credit => 128,
            Word::Reader => 256,
            Word::Writer => 384,
        };
        // SAFETY: the offset is a multiple of 4 within the first page of the mapping, which is
        // page-aligned and lives as long as `self`. An atomic allows the peer's concurrent writes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// # Panics
    /// If the slot is none of the 32. No value from the peer can cause it.
    #[inline]
    fn arena_word(&self, word: ArenaWord) -> &AtomicU32 {
        let offset = match word {
            // Not on the line of the head. The receiver reads the number of the next entry with
            // each head, and would wait for the line once more whenever the sender publishes a
            // piece.
            ArenaWord::Entry(slot, field) => {
                let field = match field {
                    Field::Stands => 0,
                    Field::At => 4,
                    Field::Octets => 8,
                    Field::Number => 12,
                };
                512 + 16 * slot as usize + field
            }
            ArenaWord::Released(slot) => 1024 + 4 * slot as usize,
            ArenaWord::Releases => 2304,
        };
        assert!(offset < WORDS && offset.is_multiple_of(4), "a word of the first page");
        // SAFETY: as above; the offset was just checked.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// A pointer to `n` octets of payload at `at`.
    ///
    /// # Panics
    /// If they do not lie within the payload. No value from the peer can cause it.
    #[inline]
    fn payload(&self, at: u32, n: usize) -> *mut u8 {
        assert!(at as usize + n <= self.capacity as usize, "within the segment");
        // SAFETY: within the mapping, as just checked; payload follows the words.
        unsafe { self.base.as_ptr().add(WORDS + at as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, nothing refers to it any more, and it is
        // unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), WORDS + self.capacity as usize) };
    }
}

/// The own receive segment.
#[derive(Debug)]
pub struct OwnSegment {
    mapping: Mapping,
    /// The arena of the peer, which sends descriptors through this segment.
    peers_arena: Option<PeersArena>,
}

impl OwnSegment {
    /// A segment of `capacity` octets for a medium that writes into it by other means than a
    /// mapping of the peer's.
    ///
    /// # Errors
    /// `InvalidInput` if the capacity is no power of two from 4 KiB to 1 GiB; the error of the
    /// operating system.
    ///
    /// # Real-time
    /// Maps memory and touches all of it.
    pub fn new(capacity: usize) -> io::Result<OwnSegment> {
        if !capacity.is_power_of_two() || !(LEAST..=MOST).contains(&capacity) {
            let sentence =
                format!("a segment of {capacity} octets; it takes a power of two from 4 KiB to 1 GiB");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        Ok(create(capacity)?.0)
    }

    /// The octets that the medium writes, which stay mapped as long as this lives. Their values may
    /// change at any time.
    pub fn payload(&self) -> NonNull<[u8]> {
        let start = self.mapping.payload(0, self.mapping.capacity as usize);
        // SAFETY: a pointer into a mapping, behind its words, is not null.
        let start = unsafe { NonNull::new_unchecked(start) };
        NonNull::slice_from_raw_parts(start, self.mapping.capacity as usize)
    }

    /// Writes octets of the payload, for a medium that sends them from here.
    ///
    /// # Panics
    /// If they do not lie within the capacity.
    pub fn write(&self, at: u32, bytes: &[u8]) {
        // SAFETY: the target lies within the mapping, of which this process holds no reference but
        // atomics of other octets; `bytes` is private.
        unsafe { copy(bytes.as_ptr(), self.mapping.payload(at, bytes.len()), bytes.len()) }
    }

    /// Sets a word that the peer has sent, after the payload that it sent before (release).
    pub fn store(&self, word: Word, value: u32) {
        self.mapping.word(word).store(value, Release);
    }

    /// The arena of the peer.
    pub(super) fn peers_arena(&self) -> Option<&PeersArena> {
        self.peers_arena.as_ref()
    }

    /// Adds the arena of the peer, before anything is received.
    pub(super) fn with_peers_arena(self, peers_arena: Option<PeersArena>) -> OwnSegment {
        OwnSegment { peers_arena, ..self }
    }
}

/// The peer's receive segment, and the socket that rings its doorbell.
#[derive(Debug)]
pub struct Peers {
    mapping: Mapping,
    doorbell: Arc<OwnedFd>,
    arena: Option<Arc<Arena>>,
}

impl Peers {
    /// Adds the arena of this side, before anything is sent.
    pub(super) fn with_arena(self, arena: Option<OfferedArena>, own: &Arc<OwnSegment>) -> Peers {
        Peers { arena: arena.map(|offered| Arena::new(offered, own.clone())), ..self }
    }
}

/// Makes a segment of `capacity` octets, a power of two, and the descriptor with which the peer
/// maps it.
pub(crate) fn create(capacity: usize) -> io::Result<(OwnSegment, OwnedFd)> {
    assert!(capacity.is_power_of_two() && (LEAST..=MOST).contains(&capacity));
    let fd = rustix::fs::memfd_create("isorb-segment", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, (WORDS + capacity) as u64)?;
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok((OwnSegment { mapping: Mapping::new(&fd, capacity)?, peers_arena: None }, fd))
}

/// Maps the segment of a peer, of at most `most` octets.
///
/// # Errors
/// `InvalidData` if it differs from what [`create`] makes: not sealed, another kind of memory,
/// another size.
pub(crate) fn attach(fd: OwnedFd, capacity: u32, most: usize, doorbell: Arc<OwnedFd>) -> io::Result<Peers> {
    let capacity = capacity as usize;
    let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if !capacity.is_power_of_two() || !(LEAST..=most).contains(&capacity) {
        return wrong("the peer's segment is larger than this side accepts, or no segment");
    }
    // Only a memfd has seals, so this also refuses other files. Once SEAL is there, no seal can go.
    if !rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SEALS)) {
        return wrong("the peer's segment is not sealed: the peer could truncate it under the mapping");
    }
    if rustix::fs::fstatfs(fd.as_fd())?.f_type as i64 != TMPFS {
        return wrong("the peer's segment is not ordinary shared memory");
    }
    if rustix::fs::fstat(&fd)?.st_size != (WORDS + capacity) as i64 {
        return wrong("the peer's segment has another size than its hello says");
    }
    Ok(Peers { mapping: Mapping::new(&fd, capacity)?, doorbell, arena: None })
}

impl ReceiveSegment for Arc<OwnSegment> {
    #[inline]
    fn capacity(&self) -> u32 {
        self.mapping.capacity
    }

    #[inline]
    fn load(&self, word: Word) -> u32 {
        self.mapping.word(word).load(Acquire)
    }

    #[inline]
    fn read(&self, at: u32, into: &mut [u8]) {
        // SAFETY: the source lies within the mapping; the copy reads it in a way that no concurrent
        // write of another process makes undefined, and `into` is private.
        unsafe { copy(self.mapping.payload(at, into.len()), into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn load_arena(&self, word: ArenaWord) -> u32 {
        self.mapping.arena_word(word).load(Acquire)
    }

    fn admits(&self, at: u32, octets: u32) -> bool {
        self.peers_arena.as_ref().is_some_and(|arena| arena.admits(at, octets))
    }

    fn read_arena(&self, at: u32, into: &mut [u8]) {
        if let Some(arena) = &self.peers_arena {
            arena.read(at, into);
        }
    }

    fn sleep_arena(&self, word: ArenaWord, seen: u32, deadline: Deadline) {
        sleep_on(self.mapping.arena_word(word), seen, deadline);
    }

    fn wake_own_arena(&self, word: ArenaWord) -> bool {
        wake_all(self.mapping.arena_word(word))
    }

    fn sleep(&self, word: Word, seen: u32, deadline: Deadline) {
        sleep_on(self.mapping.word(word), seen, deadline);
    }

    fn wake_own(&self, word: Word) -> bool {
        wake_all(self.mapping.word(word))
    }
}

#[inline]
fn sleep_on(word: &AtomicU32, seen: u32, deadline: Deadline) {
    let at = deadline.as_ns().map(|ns| {
        // The timeout monitor keeps the time of nearly all sleeps.
        cold_path();
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
    });
    // Not private: the peer wakes through its own mapping. After any outcome the caller checks
    // again.
    let _ = futex::wait_bitset(word, Flags::empty(), seen, at.as_ref(), NonZeroU32::MAX);
}

/// Wakes all threads that sleep on a word; whether there were any.
fn wake_all(word: &AtomicU32) -> bool {
    futex::wake(word, Flags::empty(), i32::MAX as u32).is_ok_and(|woken| woken > 0)
}

impl PeerSegment for Peers {
    #[inline]
    fn capacity(&self) -> u32 {
        self.mapping.capacity
    }

    #[inline]
    fn write(&self, at: u32, bytes: &[u8]) {
        // SAFETY: the target lies within the mapping, to which this process holds no reference but
        // atomics of other octets; `bytes` is private.
        unsafe { copy(bytes.as_ptr(), self.mapping.payload(at, bytes.len()), bytes.len()) }
    }

    #[inline]
    fn store(&self, word: Word, value: u32) {
        self.mapping.word(word).store(value, Release);
    }

    fn store_arena(&self, word: ArenaWord, value: u32) {
        self.mapping.arena_word(word).store(value, Release);
    }

    #[inline]
    fn arena(&self) -> Option<&Arc<Arena>> {
        self.arena.as_ref()
    }

    #[inline]
    fn fence(&self) -> bool {
        full_fence();
        true
    }

    fn wake(&self, word: Word) {
        wake_all(self.mapping.word(word));
    }

    fn wake_arena(&self, word: ArenaWord) {
        wake_all(self.mapping.arena_word(word));
    }

    fn ring_doorbell(&self) {
        // The owner of a full doorbell has been woken already.
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&*self.doorbell, &[0], flags);
    }
}

/// Orders earlier stores before later loads.
#[inline]
fn full_fence() {
    // The compiler's fence, `mfence`, takes four times as long as a locked instruction, which
    // orders ordinary memory as well.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: adds 0 to the top of the own stack; without `nomem`, so the compiler keeps the order
    // too.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// A number without alignment.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T: Copy>(T);

/// Copies where one side is shared with another process, by accesses that the compiler neither
/// omits nor repeats. Where the last access overlaps the one before, an octet is read and written
/// twice, and the last value stays. So the private side holds one value afterwards, whatever the
/// other process writes.
///
/// # Safety
/// `from` is readable and `to` writable for `n` octets, and they do not overlap.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if n >= LONG {
        // SAFETY: the caller's promise; the direction flag is clear by the calling convention.
        unsafe {
            std::arch::asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags));
        }
        return;
    }
    // SAFETY: all accesses lie within `n` octets from each pointer, and none needs alignment.
    unsafe {
        match n {
            16.. => {
                let mut i = 0;
                while i + 16 < n {
                    copy_sixteen(from, to, i);
                    i += 16;
                }
                copy_sixteen(from, to, n - 16);
            }
            _ => copy_few(from, to, n),
        }
    }
}

/// As [`copy`] for less than sixteen octets. Hardly any message is so short.
///
/// # Safety
/// As [`copy`].
#[cold]
unsafe fn copy_few(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: all accesses lie within `n` octets from each pointer, and none needs alignment.
    unsafe {
        match n {
            8.. => {
                copy_one::<u64>(from, to, 0);
                copy_one::<u64>(from, to, n - 8);
            }
            4..8 => {
                copy_one::<u32>(from, to, 0);
                copy_one::<u32>(from, to, n - 4);
            }
            _ => {
                for i in 0..n {
                    copy_one::<u8>(from, to, i);
                }
            }
        }
    }
}

/// As [`copy`], sixteen octets from `at` on.
///
/// # Safety
/// Sixteen octets at `at` from both pointers are readable and writable, respectively.
#[inline(always)]
unsafe fn copy_sixteen(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller's promise; neither instruction needs alignment, and they change only `one`
    // and the octets at `to`.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("movups {one}, [{from}]", "movups [{to}], {one}", one = out(xmm_reg) _,
            from = in(reg) from.add(at), to = in(reg) to.add(at), options(nostack, preserves_flags));
    }
    // SAFETY: the caller's promise.
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    unsafe {
        copy_one::<u64>(from, to, at);
        copy_one::<u64>(from, to, at + 8);
    }
}

/// As [`copy`], one number.
///
/// # Safety
/// The octets of a `T` at `at` from both pointers are readable and writable, respectively.
#[inline(always)]
unsafe fn copy_one<T: Copy>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller's promise; the type needs no alignment.
    unsafe {
        let one = from.add(at).cast::<Unaligned<T>>().read_volatile();
        to.add(at).cast::<Unaligned<T>>().write_volatile(one);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn doorbell() -> Arc<OwnedFd> {
        Arc::new(UnixStream::pair().unwrap().0.into())
    }

    #[test]
    fn copies_are_exact_at_every_length_and_offset() {
        let from: Vec<u8> = (0..1000u32).map(|i| ((i * 31) >> 2) as u8).collect();
        for n in (0..40).chain([255, 256, 257, 900]).step_by(if cfg!(miri) { 3 } else { 1 }) {
            for offset in (0..9).step_by(if cfg!(miri) { 5 } else { 1 }) {
                let mut to = vec![0xee; 1000];
                // SAFETY: both vectors are 1000 octets long.
                unsafe { copy(from.as_ptr().add(offset), to.as_mut_ptr().add(3), n) };
                assert_eq!(to[3..3 + n], from[offset..offset + n]);
                assert!(to[..3].iter().chain(&to[3 + n..]).all(|octet| *octet == 0xee));
            }
        }
    }

    #[test]
    fn both_mappings_are_the_same_memory() {
        let (own, fd) = create(LEAST).unwrap();
        let own = Arc::new(own);
        let peers = attach(fd, LEAST as u32, LEAST, doorbell()).unwrap();
        peers.write(LEAST as u32 - 3, b"xyz");
        peers.store(Word::Head, 7);
        assert_eq!(own.load(Word::Head), 7);
        let mut end = [0; 3];
        own.read(LEAST as u32 - 3, &mut end);
        assert_eq!(&end, b"xyz");
        for word in [Word::Closed, Word::Processor, Word::Credit, Word::Reader, Word::Writer] {
            assert_eq!(own.load(word), 0);
        }
        own.sleep(Word::Head, 8, Deadline::NONE);
        own.sleep(Word::Head, 7, Deadline::PAST);
    }

    #[test]
    fn a_segment_of_its_own_takes_what_another_medium_brings() {
        for capacity in [0, 4095, 5000, 2 << 30] {
            assert_eq!(
                OwnSegment::new(capacity).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{capacity}"
            );
        }
        let own = Arc::new(OwnSegment::new(LEAST).unwrap());
        assert_eq!(own.payload().len(), LEAST);
        own.write(LEAST as u32 - 3, b"xyz");
        own.store(Word::Credit, 9);
        let mut end = [0; 3];
        own.read(LEAST as u32 - 3, &mut end);
        assert_eq!((&end, own.load(Word::Credit), own.load(Word::Head)), (b"xyz", 9, 0));
    }

    #[test]
    fn copies_take_exactly_the_given_octets() {
        let from: Vec<u8> = (0..600).map(|i| (i % 251) as u8 + 1).collect();
        for n in (0..=300).step_by(if cfg!(miri) { 23 } else { 1 }) {
            for at in (0..9).step_by(if cfg!(miri) { 5 } else { 1 }) {
                let mut to = [0; 400];
                // SAFETY: both are longer, and they are different.
                unsafe { copy(from[at..].as_ptr(), to[50..].as_mut_ptr(), n) };
                assert_eq!(to[50..50 + n], from[at..at + n], "{n} octets");
                assert!(to[..50].iter().chain(&to[50 + n..]).all(|octet| *octet == 0), "{n} octets");
            }
        }
    }

    #[test]
    fn memory_that_a_peer_could_truncate_is_refused() {
        let refused = |fd: OwnedFd, capacity: u32| {
            attach(fd, capacity, 1 << 20, doorbell()).unwrap_err().kind() == io::ErrorKind::InvalidData
        };
        let memfd = |flags, len| {
            let fd = rustix::fs::memfd_create("test", flags).unwrap();
            rustix::fs::ftruncate(&fd, len).unwrap();
            fd
        };
        let sealable = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let right = (WORDS + LEAST) as u64;
        assert!(refused(memfd(sealable, right), LEAST as u32), "no seals");
        let partly = memfd(sealable, right);
        rustix::fs::fcntl_add_seals(&partly, SealFlags::GROW | SealFlags::SEAL).unwrap();
        assert!(refused(partly, LEAST as u32), "it can shrink");
        let short = memfd(sealable, right - 1);
        rustix::fs::fcntl_add_seals(&short, SEALS).unwrap();
        assert!(refused(short, LEAST as u32), "too short");
        assert!(refused(UnixStream::pair().unwrap().0.into(), LEAST as u32), "a socket");
        assert!(refused(std::fs::File::open("/proc/self/exe").unwrap().into(), LEAST as u32), "a file");
        for capacity in [0, 1, 5000, 2 << 20, u32::MAX] {
            assert!(refused(create(LEAST).unwrap().1, capacity), "{capacity}");
        }
        // A file that cannot be written cannot be mapped for writing.
        let frozen = memfd(sealable, right);
        rustix::fs::fcntl_add_seals(&frozen, SEALS | SealFlags::WRITE).unwrap();
        assert!(attach(frozen, LEAST as u32, LEAST, doorbell()).is_err());
    }
}
