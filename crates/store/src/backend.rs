//! The file below a database, written to or only looked at.

use redb::StorageBackend;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

const CHUNK: u64 = 4096;

/// A locked file. The lock is the file's own: it is held until the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Disk(pub Arc<File>);

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        faults::check(false)?;
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        faults::check(true)?;
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        faults::check(true)?;
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        faults::check(true)?;
        self.0.write_all_at(data, offset)
    }
}

/// What a database is opened from: a file, or what it would hold.
pub trait Content: fmt::Debug + Send + Sync + 'static {
    fn length(&self) -> io::Result<u64>;

    /// Reads octets from `offset` on and says how many; none at the end.
    fn read(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads as many octets as `out` has.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and `UnexpectedEof` where there are fewer.
    fn read_exact(&self, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !out.is_empty() {
            match self.read(out, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    out = &mut out[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Content for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(out, offset)
    }
}

/// A file that is read, while its changes stay in memory.
///
/// Opening a database after a crash repairs it, and closing it writes as well. Both happen here
/// without space on the disk, and without trusting a list of free pages that may be damaged.
#[derive(Debug)]
pub struct View<C> {
    file: Arc<C>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// By number of the chunk.
    chunks: BTreeMap<u64, Box<[u8; CHUNK as usize]>>,
}

impl<C: Content> View<C> {
    /// A view of a file.
    pub fn new(file: Arc<C>) -> io::Result<View<C>> {
        let length = file.length()?;
        Ok(View { file, changes: Mutex::new(Changes { length, chunks: BTreeMap::new() }) })
    }

    /// Reads from the file; what lies beyond its end is zero.
    fn read_file(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        faults::check(false)?;
        while !out.is_empty() {
            match self.file.read(out, offset) {
                Ok(0) => {
                    out.fill(0);
                    return Ok(());
                }
                Ok(count) => {
                    out = &mut out[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn changes(&self) -> std::sync::MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of `length` octets from `offset` on: number of the chunk, range in it, offset in the
/// octets.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % CHUNK) as usize;
        let count = (CHUNK as usize - start).min(length - done);
        let part = (at / CHUNK, start..start + count, done);
        done += count;
        Some(part)
    })
}

impl<C: Content> StorageBackend for View<C> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > changes.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(offset, out)?;
        for (chunk, range, at) in parts(offset, out.len()) {
            if let Some(changed) = changes.chunks.get(&chunk) {
                out[at..at + range.len()].copy_from_slice(&changed[range]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.length = len;
        changes.chunks.retain(|chunk, _| chunk * CHUNK < len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        for (chunk, range, at) in parts(offset, data.len()) {
            let entry = match changes.chunks.entry(chunk) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let mut octets = Box::new([0; CHUNK as usize]);
                    self.read_file(chunk * CHUNK, &mut octets[..])?;
                    entry.insert(octets)
                }
            };
            let count = range.len();
            entry[range].copy_from_slice(&data[at..at + count]);
        }
        changes.length = changes.length.max(offset + data.len() as u64);
        Ok(())
    }
}

/// Faults that tests inject, for the thread that runs the operation.
#[cfg(not(test))]
mod faults {
    #[inline(always)]
    pub fn check(_writes: bool) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// Operations of this thread until one fails.
        static UNTIL: Cell<u32> = const { Cell::new(u32::MAX) };
        /// Whether the ones after it fail as well, and whether reads do.
        static STAYS: Cell<(bool, bool)> = const { Cell::new((false, false)) };
    }

    /// The operation after `until` others fails; all later ones too if it `stays`. Reads fail only
    /// with `reads`.
    pub fn inject(until: u32, stays: bool, reads: bool) {
        UNTIL.set(until);
        STAYS.set((stays, reads));
    }

    /// Ends the injection. Says whether a fault had been injected.
    pub fn clear() -> bool {
        STAYS.set((false, false));
        UNTIL.replace(u32::MAX) == 0
    }

    pub fn check(writes: bool) -> io::Result<()> {
        let (stays, reads) = STAYS.get();
        match UNTIL.get() {
            u32::MAX => Ok(()),
            _ if !writes && !reads => Ok(()),
            // The fault of a moment is over, and remembered as zero.
            0 if !stays => Ok(()),
            0 => Err(io::ErrorKind::StorageFull.into()),
            1 => {
                UNTIL.set(0);
                Err(io::ErrorKind::StorageFull.into())
            }
            until => {
                UNTIL.set(until - 1);
                Ok(())
            }
        }
    }
}
