//! A segment: a sealed memory file with one area in it, as the process that owns it or was handed
//! it sees it.

use crate::error::{AttachError, ClaimError};
use crate::geometry::{Geometry, HEAD_BYTES};
use crate::head::{Head, MAGIC, State};
use crate::mapping::{Access, Mapping};
use crate::reader::Reader;
use crate::writer::Writer;
use isorb_rt::Errno;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals,
    fcntl_getfl, flock, fstat, ftruncate, memfd_create, open,
};
use rustix::io::pread;
use std::sync::Arc;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A memory area in a file that has no name, which is passed on as a descriptor.
///
/// The owner (a node server, or the only process of a small system) creates it. Others get a
/// descriptor of one of two kinds: [`writable_fd`](Self::writable_fd) for the writer, and
/// [`read_only_fd`](Self::read_only_fd) for readers, which the kernel refuses to map for writing.
/// The area lives as long as any process holds it.
#[derive(Clone, Debug)]
pub struct Segment {
    file: Arc<OwnedFd>,
    mapping: Arc<Mapping>,
    geometry: Geometry,
}

impl Segment {
    /// Creates an area. The name appears in `/proc` and need not be unique.
    ///
    /// # Errors
    /// What the system says, which is mostly that there is no memory (NOMEM) or no descriptor
    /// (MFILE) left.
    ///
    /// # Real-time
    /// Allocates, and touches every page of the segment. For set-up.
    pub fn create(name: &str, geometry: Geometry) -> Result<Segment, AttachError> {
        // The kernel takes 249 bytes without zero.
        let short: String = name.chars().filter(|c| *c != '\0').take(60).collect();
        let file = memfd_create(
            format!("isorb-memory:{short}"),
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::NOEXEC_SEAL,
        )
        // Kernels before 6.3 do not know the flag.
        .or_else(|_| {
            memfd_create(format!("isorb-memory:{short}"), MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        })?;
        // Other users can reach the file through /proc; they get it by being handed it only.
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        ftruncate(&file, geometry.total_bytes() as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let mapping = Mapping::new(&file, geometry.total_bytes(), Access::Write)?;
        mapping.head().identity.store(isorb_rt::random_u64(), Relaxed);
        mapping.head().describe(geometry);
        Ok(Segment { file: Arc::new(file), mapping: Arc::new(mapping), geometry })
    }

    /// Attaches a segment that another process handed over, for writing if the descriptor allows
    /// it.
    ///
    /// # Errors
    /// When the descriptor is no sealed memory file with an area in it.
    ///
    /// # Real-time
    /// Touches every page of the segment, after the checks of [`inspect`](Self::inspect). For
    /// set-up.
    pub fn attach(file: OwnedFd) -> Result<Segment, AttachError> {
        let geometry = Segment::inspect(&file)?;
        let access = match fcntl_getfl(&file)? & OFlags::ACCMODE {
            OFlags::RDWR => Access::Write,
            _ => Access::Read,
        };
        let mapping = Mapping::new(&file, geometry.total_bytes(), access)?;
        Ok(Segment { file: Arc::new(file), mapping: Arc::new(mapping), geometry })
    }

    /// The geometry of the area in a file that another process handed over. Nothing is mapped, and
    /// no page is touched: a file can claim any size, and its pages are charged to the process that
    /// touches them.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn inspect(file: impl AsFd) -> Result<Geometry, AttachError> {
        // A file without the seals could be truncated by its sender during a read. Only files in
        // memory have seals.
        let seals = fcntl_get_seals(&file).map_err(|_| AttachError::NotSealed)?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(AttachError::NotSealed);
        }
        let status = fstat(&file)?;
        let bytes = usize::try_from(status.st_size).map_err(|_| AttachError::Damaged)?;
        let mut head = [0; HEAD_BYTES];
        if bytes < HEAD_BYTES || pread(&file, &mut head, 0)? < HEAD_BYTES {
            return Err(AttachError::NotAnArea);
        }
        let [magic, size, histories] = Head::described(&head);
        if magic != MAGIC {
            return Err(AttachError::NotAnArea);
        }
        let number = |word: u64| usize::try_from(word).map_err(|_| AttachError::Damaged);
        let geometry = Geometry::new(number(size)?, number(histories)?).map_err(|_| AttachError::Damaged)?;
        // Every page of an area is present from its creation on.
        let present = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512);
        if geometry.total_bytes() != bytes || present < bytes as u64 {
            return Err(AttachError::Damaged);
        }
        Ok(geometry)
    }

    /// Size and histories.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// A number that no other area has, from when it was made: tells an area from a later one of
    /// the same name. A replica has that of the area that it [stands for](Self::set_identity). The
    /// area's writer may have written over it.
    ///
    /// # Real-time
    /// One load.
    pub fn identity(&self) -> u64 {
        self.mapping.head().identity.load(Relaxed)
    }

    /// May this process write into it?
    pub fn is_writable(&self) -> bool {
        self.mapping.access() == Access::Write
    }

    /// The state, unless it is damaged.
    pub fn state(&self) -> Option<State> {
        self.mapping.head().state()
    }

    /// Sets the state for all readers. For the owner, which sees more than writer and readers, such
    /// as the writer's death.
    ///
    /// # Errors
    /// ACCESS when this process may not write into the segment.
    ///
    /// # Real-time
    /// Does not block; one system call.
    pub fn set_state(&self, state: State) -> Result<(), Errno> {
        if !self.is_writable() {
            return Err(Errno::ACCESS);
        }
        self.mapping.head().set_state(state);
        Ok(())
    }

    /// Whether the writer is to ring ([`Writer::wants_doorbell`]) after each value. A value for
    /// which it does not ring yet can be read when this returns.
    ///
    /// # Errors
    /// ACCESS when this process may not write into the segment.
    pub fn set_doorbell(&self, wanted: bool) -> Result<(), Errno> {
        if !self.is_writable() {
            return Err(Errno::ACCESS);
        }
        self.mapping.head().set_doorbell(wanted);
        Ok(())
    }

    /// Says that it stands for the area with this number, as a replica does.
    ///
    /// # Errors
    /// ACCESS when this process may not write into the segment.
    pub fn set_identity(&self, identity: u64) -> Result<(), Errno> {
        if !self.is_writable() {
            return Err(Errno::ACCESS);
        }
        self.mapping.head().identity.store(identity, Relaxed);
        Ok(())
    }

    /// Records the period that the writer promised, from which readers derive the greatest age of a
    /// value.
    ///
    /// # Errors
    /// ACCESS when this process may not write into the segment.
    pub fn set_period(&self, period_ns: u64) -> Result<(), Errno> {
        if !self.is_writable() {
            return Err(Errno::ACCESS);
        }
        self.mapping.head().period.store(period_ns, Relaxed);
        Ok(())
    }

    /// Becomes the writer.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] as long as there is another; ACCESS when the segment was attached for
    /// reading.
    pub fn writer(&self) -> Result<Writer, ClaimError> {
        if !self.is_writable() {
            return Err(Errno::ACCESS.into());
        }
        // The claim is a lock of an open file, and this one's may be shared with the process that
        // handed it over.
        Writer::claim(self.writable_fd()?, self.mapping.clone(), self.geometry)
    }

    /// A new reader, which has seen nothing yet.
    ///
    /// # Errors
    /// None at present; the signature leaves room for a limit.
    pub fn reader(&self) -> Result<Reader, AttachError> {
        Ok(Reader::new(self.mapping.clone(), self.geometry))
    }

    /// A descriptor for the writer's process.
    ///
    /// # Errors
    /// What opening it again ends in; ACCESS where the segment belongs to another user.
    pub fn writable_fd(&self) -> Result<OwnedFd, Errno> {
        self.reopen(OFlags::RDWR)
    }

    /// The same area for writing, where this process may open the file for that: a reader of the
    /// server's user hands the area back with a descriptor that is for reading only.
    ///
    /// # Errors
    /// ACCESS where the segment belongs to another user.
    pub fn for_writing(&self) -> Result<Segment, AttachError> {
        Segment::attach(self.writable_fd()?)
    }

    /// Is there a process that writes? One that becomes the writer at the very moment of the
    /// question may be refused.
    ///
    /// # Errors
    /// What opening the file again ends in.
    pub fn has_writer(&self) -> Result<bool, Errno> {
        match flock(self.read_only_fd()?, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// A descriptor for readers' processes.
    ///
    /// # Errors
    /// What opening it again ends in.
    pub fn read_only_fd(&self) -> Result<OwnedFd, Errno> {
        self.reopen(OFlags::RDONLY)
    }

    /// The file itself, to be handed back to a server that was restarted.
    pub fn as_fd(&self) -> impl AsFd + '_ {
        self.file.as_fd()
    }

    /// Do both stand for the same memory?
    pub fn same_file(&self, other: &Segment) -> bool {
        self.is_file(&*other.file)
    }

    /// Does the descriptor stand for this segment's memory?
    pub fn is_file(&self, file: impl AsFd) -> bool {
        match (fstat(&*self.file), fstat(file)) {
            (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
            _ => false,
        }
    }

    fn reopen(&self, how: OFlags) -> Result<OwnedFd, Errno> {
        open(format!("/proc/self/fd/{}", self.file.as_raw_fd()), how | OFlags::CLOEXEC, Mode::empty())
    }
}

#[cfg(test)]
impl Segment {
    /// What a hostile process with a writable mapping does.
    pub(crate) fn scribble(&self, at: usize, what: u64, order: isorb_rt::sync::atomic::Ordering) {
        let head = self.mapping.head();
        let words = self.mapping.words();
        match at % 8 {
            0 => head.hot.latest.store(what, order),
            1 => head.hot.signal.store(what as u32, order),
            2 => head.state.store(what as u32 % 8, order),
            3 => head.size.store(what, order),
            _ => words[(at / 8) % words.len()].store(what, order),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A sealed file of `bytes` without pages, but for the head that it is given.
    fn sparse(bytes: u64, head: &[u64]) -> OwnedFd {
        let file = memfd_create("sparse", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
        rustix::io::pwrite(&file, &head, 0).unwrap();
        fcntl_add_seals(&file, SEALS).unwrap();
        file
    }

    #[test]
    fn a_file_without_pages_is_refused_before_a_page_is_touched() {
        let geometry = Geometry::new(32 << 20, 1).unwrap();
        let bytes = geometry.total_bytes() as u64;
        let described = [MAGIC, geometry.size() as u64, geometry.histories() as u64];
        for (head, error) in [
            (&[][..], AttachError::NotAnArea),
            (&described, AttachError::Damaged),
            (&[MAGIC, 9], AttachError::Damaged),
        ] {
            let file = sparse(bytes, head);
            let (copy, before) = (file.try_clone().unwrap(), fstat(&file).unwrap().st_blocks);
            assert_eq!(Segment::attach(file).unwrap_err(), error, "{head:?}");
            assert_eq!(fstat(&copy).unwrap().st_blocks, before, "{head:?}: a page was touched");
        }
        // The same area with its pages.
        let area = Segment::create("whole", geometry).unwrap();
        assert_eq!(Segment::inspect(area.as_fd()), Ok(geometry));
    }
}
