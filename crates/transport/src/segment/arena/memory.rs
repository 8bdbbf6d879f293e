//! The memory of an arena: a memfd that one process writes and the other can only read.
//!
//! The owner maps it, then seals it against size changes and against **later** writers. So its
//! descriptor gives the peer no way to write, and the owner may lend its program ordinary slices.
//! The owner can still write while the peer reads. Therefore the peer never makes a reference to
//! the octets: it copies them out.
//!
//! Pages exist once they were touched. [`Mapping::populate`] touches them by a system call that
//! fails where there is no memory. A plain access would end the process then.

use super::super::memory::copy;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

const PAGE: u32 = 4096;
/// The longest arena.
pub(crate) const MOST: usize = 1 << 30;
/// What a peer's arena must have: the pages that were populated once stay.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL).union(SealFlags::FUTURE_WRITE);
const TMPFS: i64 = 0x0102_1994;

/// An arena, mapped for writing by its owner and for reading by the peer.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    capacity: u32,
    access: Advice,
    /// The octets from the start on that have pages.
    populated: AtomicU32,
}

// SAFETY: the mapping belongs to no thread. The peer's octets are only copied; the own ones are
// borrowed through a loan, which one thread at a time can write.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Makes an arena of `octets`, rounded up to whole pages. `None` for a kernel without the seal that
/// keeps the peer from writing.
pub(super) fn create(octets: usize) -> io::Result<Option<(Mapping, OwnedFd)>> {
    let capacity = octets.min(MOST).next_multiple_of(PAGE as usize);
    let fd = rustix::fs::memfd_create("isorb-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, capacity as u64)?;
    let mapping = Mapping::new(&fd, capacity, Advice::LinuxPopulateWrite)?;
    match rustix::fs::fcntl_add_seals(&fd, SEALS) {
        Err(Errno::INVAL) => Ok(None),
        sealed => {
            sealed?;
            Ok(Some((mapping, fd)))
        }
    }
}

/// Maps the arena of a peer, of at most `most` octets, for reading.
///
/// # Errors
/// `InvalidData` if it differs from what [`create`] makes.
pub(super) fn attach(fd: &OwnedFd, most: usize) -> io::Result<Mapping> {
    let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if !rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS)) {
        return wrong("the peer's arena is not sealed: the peer could truncate it under the mapping");
    }
    if rustix::fs::fstatfs(fd.as_fd())?.f_type as i64 != TMPFS {
        return wrong("the peer's arena is not ordinary shared memory");
    }
    let size = rustix::fs::fstat(fd)?.st_size;
    let Ok(capacity) = usize::try_from(size) else { return wrong("the peer's arena has no size") };
    if capacity == 0 || !capacity.is_multiple_of(PAGE as usize) {
        return wrong("the peer's arena is not of whole pages");
    }
    if capacity > most {
        let sentence = format!(
            "the peer's arena has {capacity} octets, and this side accepts {most} (segment_arena_bytes)"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
    }
    Mapping::new(fd, capacity, Advice::LinuxPopulateRead)
}

impl Mapping {
    fn new(fd: &OwnedFd, capacity: usize, access: Advice) -> io::Result<Mapping> {
        let prot = match access {
            Advice::LinuxPopulateWrite => ProtFlags::READ | ProtFlags::WRITE,
            _ => ProtFlags::READ,
        };
        // SAFETY: a fresh mapping at an address that the kernel chooses touches no memory of this
        // process.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), capacity, prot, MapFlags::SHARED, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, capacity: capacity as u32, access, populated: AtomicU32::new(0) })
    }

    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The octets from the start on that have pages.
    pub fn populated(&self) -> u32 {
        self.populated.load(Acquire)
    }

    /// Makes the pages of the first `end` octets exist.
    ///
    /// # Errors
    /// The operating system has no memory for them.
    ///
    /// # Real-time
    /// Nothing if they exist already. Else one system call, which takes time for each new page.
    #[inline]
    pub fn populate(&self, end: u32) -> io::Result<()> {
        if end <= self.populated() { Ok(()) } else { self.populate_more(end) }
    }

    #[cold]
    fn populate_more(&self, end: u32) -> io::Result<()> {
        let from = self.populated();
        let end = end.next_multiple_of(PAGE).min(self.capacity);
        let len = end.saturating_sub(from) as usize;
        loop {
            // SAFETY: the range lies within the mapping, and this advice changes no octet.
            let advised = unsafe {
                let start = self.base.as_ptr().add(from as usize);
                rustix::mm::madvise(start.cast(), len, self.access)
            };
            match advised {
                Err(Errno::INTR) => continue,
                // Kernels before 5.14 do not know the advice. The first access touches the pages.
                Ok(()) | Err(Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.populated.fetch_max(end, AcqRel);
        Ok(())
    }

    /// Whether these octets lie in the mapping, and where.
    #[inline]
    pub fn find(&self, octets: &[u8]) -> Option<u32> {
        let at = octets.as_ptr().addr().checked_sub(self.base.as_ptr().addr())?;
        (at < self.capacity as usize && octets.len() <= self.capacity as usize - at).then_some(at as u32)
    }

    /// A pointer to `n` octets at `at`.
    ///
    /// # Panics
    /// If they do not lie within the arena. No value from the peer can cause it.
    #[inline]
    pub fn octets(&self, at: u32, n: usize) -> NonNull<[u8]> {
        assert!(at as usize + n <= self.capacity as usize, "within the arena");
        // SAFETY: within the mapping, as just checked.
        let start = unsafe { self.base.add(at as usize) };
        NonNull::slice_from_raw_parts(start, n)
    }

    /// Copies octets out.
    ///
    /// # Panics
    /// As [`octets`](Self::octets).
    #[inline]
    pub fn read(&self, at: u32, into: &mut [u8]) {
        let from = self.octets(at, into.len());
        // SAFETY: the source lies within the mapping; the copy reads it in a way that no concurrent
        // write of another process makes undefined, and `into` is private.
        unsafe { copy(from.cast().as_ptr(), into.as_mut_ptr(), into.len()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, nothing refers to it any more, and it is
        // unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.capacity as usize) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_arena_has_one_writer() {
        let (own, fd) = create(5000).unwrap().unwrap();
        assert_eq!((own.capacity(), own.populated()), (8192, 0));
        let peers = attach(&fd, 8192).unwrap();
        own.populate(10).unwrap();
        assert_eq!(own.populated(), 4096);
        // SAFETY: nothing else refers to the mapping.
        unsafe { own.octets(4000, 5).as_mut() }.copy_from_slice(b"lent!");
        let mut into = [0; 5];
        peers.populate(8192).unwrap();
        peers.read(4000, &mut into);
        assert_eq!(&into, b"lent!");
        // The peer's descriptor gives it no way to write, and none to take pages away.
        assert_eq!(rustix::io::pwrite(&fd, b"x", 0).unwrap_err(), Errno::PERM);
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert_eq!(rustix::fs::fallocate(&fd, punch, 0, 4096).unwrap_err(), Errno::PERM);
        // SAFETY: the mapping is refused.
        let mapped = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED, &fd, 0)
        };
        assert_eq!(mapped.unwrap_err(), Errno::PERM);
        // SAFETY: the start of the mapping, of which no reference exists; it stays as it is.
        let made = unsafe {
            rustix::mm::mprotect(peers.base.as_ptr().cast(), 4096, rustix::mm::MprotectFlags::WRITE)
        };
        assert_eq!(made.unwrap_err(), Errno::ACCESS);
    }

    #[test]
    fn octets_are_found_where_they_lie() {
        let (own, _fd) = create(4096).unwrap().unwrap();
        // SAFETY: nothing writes the mapping.
        let octets = unsafe { own.octets(0, 4096).as_ref() };
        for (slice, at) in [(octets, Some(0)), (&octets[7..9], Some(7)), (&octets[4095..], Some(4095))] {
            assert_eq!(own.find(slice), at);
        }
        assert_eq!(own.find(&octets[4096..]), None);
        assert_eq!(own.find(&[0; 4]), None);
    }

    #[test]
    fn memory_that_a_peer_could_take_away_is_refused() {
        let memfd = |octets, seals| {
            let fd =
                rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            rustix::fs::ftruncate(&fd, octets).unwrap();
            rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
            fd
        };
        let refused = |fd: &OwnedFd| attach(fd, 1 << 20).unwrap_err().kind() == io::ErrorKind::InvalidData;
        assert!(attach(&memfd(4096, SEALS), 1 << 20).is_ok());
        for seal in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL, SealFlags::FUTURE_WRITE] {
            assert!(refused(&memfd(4096, SEALS.difference(seal))), "{seal:?}");
        }
        for octets in [0, 1, 4095, 4097, (1 << 20) + 4096, 1 << 40] {
            assert!(refused(&memfd(octets, SEALS)), "{octets}");
        }
        assert!(refused(&UnixStream::pair().unwrap().0.into()), "a socket");
        assert!(refused(&std::fs::File::open("/proc/self/exe").unwrap().into()), "a file");
    }
}
