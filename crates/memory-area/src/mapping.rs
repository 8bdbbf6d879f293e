//! A segment in this process's memory: the only unsafe code of this crate.

use crate::geometry::{Geometry, HEAD_BYTES};
use crate::head::Head;
use crate::ring::Ring;
use core::ptr::NonNull;
use isorb_rt::Errno;
use isorb_rt::sync::atomic::AtomicU64;
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// May the process write into the mapping?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A mapped segment. Holding one proves that the memory is there, as long as it is sealed against
/// shrinking, and that it is `bytes` long. It proves nothing about what stands in it, which other
/// processes change at will.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    access: Access,
}

// SAFETY: the memory is shared by all threads of all processes anyway; it is reached through atomic
// words only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of the file, with all of its pages present. The caller has checked that the
    /// file is as long and is sealed against shrinking: otherwise an access could end the process
    /// with SIGBUS (which is no undefined behaviour, but no way to treat a reader either).
    pub fn new(file: impl AsFd, bytes: usize, access: Access) -> Result<Mapping, Errno> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address the kernel chooses; no memory of this process is
        // touched.
        let start = unsafe { mmap(core::ptr::null_mut(), bytes, protection, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Mapping { start, bytes, access })
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// The head. Storing into it ends the process with SIGSEGV where the mapping is read-only;
    /// [`Access`] is checked before a writer is made.
    pub fn head(&self) -> &Head {
        const { assert!(size_of::<Head>() <= HEAD_BYTES) };
        assert!(self.bytes >= HEAD_BYTES);
        // SAFETY: the mapping begins at a page, so it is aligned for `Head`; it is at least
        // HEAD_BYTES long and lives as long as `self`. `Head` is atomics and padding only: every
        // bit pattern is valid, and changes by other processes are what atomics are for.
        unsafe { self.start.cast::<Head>().as_ref() }
    }

    /// Everything after the head as atomic words.
    pub fn words(&self) -> &[AtomicU64] {
        assert!(self.bytes >= HEAD_BYTES);
        let count = (self.bytes - HEAD_BYTES) / 8;
        // SAFETY: HEAD_BYTES is a multiple of 8 and lies within the mapping (asserted), `count`
        // words fit into the rest, and the mapping lives as long as `self`. Every bit pattern is a
        // valid AtomicU64.
        unsafe {
            let first = self.start.add(HEAD_BYTES).cast::<AtomicU64>();
            core::slice::from_raw_parts(first.as_ptr(), count)
        }
    }

    /// The area. The geometry must have been checked against the length of the mapping.
    pub fn ring(&self, geometry: Geometry) -> Ring<'_> {
        Ring { head: self.head(), words: self.words(), geometry }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's; all references into it borrowed from `self` and are
        // gone. It fails only for a range that is none of ours.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

const _: () = assert!(HEAD_BYTES.is_multiple_of(8));
