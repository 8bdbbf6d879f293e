//! Databases in memory, from what a file would hold.

use crate::backend::Content;
use crate::guarded::Guarded;
use crate::open;
use crate::{Database, Fault, OpenError, Schema};
use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

impl<S: Schema> Database<S> {
    /// A new database that stays in memory.
    ///
    /// # Errors
    /// None is known.
    pub fn in_memory(schema: S) -> Result<Database<S>, OpenError> {
        let new = open::guard(|| {
            let new = empty()?;
            let transaction = open::begin(&new)?;
            schema.create(&transaction)?;
            transaction.commit().map_err(Fault::from)?;
            Ok::<_, OpenError>(new)
        })?;
        Ok(Database::opened("memory".into(), schema, new, no_file()?))
    }

    /// Opens what a file would hold that has these octets, and zeros behind them up to `length`.
    /// It is checked and copied as [`open`](Self::open) does it, and the copy stays in memory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn from_octets(octets: Vec<u8>, length: u64, schema: S) -> Result<Database<S>, OpenError> {
        let view = open::check(&Arc::new(Octets { octets, length }), &schema)?;
        let new = open::guard(|| {
            let new = empty()?;
            open::fill(&new, &view, &schema)?;
            Ok::<_, OpenError>(new)
        })?;
        Ok(Database::opened("memory".into(), schema, new, no_file()?))
    }
}

fn empty() -> Result<Guarded, OpenError> {
    Ok(open::builder().create_with_backend(Memory::default())?.into())
}

/// Memory has no faults after which a database would return to its file.
fn no_file() -> io::Result<Arc<File>> {
    static FILE: OnceLock<Arc<File>> = OnceLock::new();
    match FILE.get() {
        Some(file) => Ok(Arc::clone(file)),
        None => {
            let file = Arc::new(File::open("/dev/null")?);
            Ok(Arc::clone(FILE.get_or_init(|| file)))
        }
    }
}

/// Octets, and zeros behind them up to a length.
#[derive(Debug)]
struct Octets {
    octets: Vec<u8>,
    length: u64,
}

impl Content for Octets {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.length.saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let written = usize::try_from(offset).ok().and_then(|offset| self.octets.get(offset..));
        let written = written.unwrap_or_default();
        let from_octets = written.len().min(count);
        out[..from_octets].copy_from_slice(&written[..from_octets]);
        out[from_octets..count].fill(0);
        Ok(count)
    }
}

/// Memory in place of a file.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn octets(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The octets from `offset` on that an operation needs.
fn range(offset: u64, count: usize) -> io::Result<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(count)?));
    range.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.octets().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let octets = self.octets();
        let read = octets.get(range(offset, out.len())?).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(read);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut octets = self.octets();
        if octets.is_empty() {
            // The kernel's zeros, which take no time.
            *octets = vec![0; length];
        } else {
            octets.resize(length, 0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut octets = self.octets();
        let written = octets.get_mut(range(offset, data.len())?).ok_or(io::ErrorKind::UnexpectedEof)?;
        written.copy_from_slice(data);
        Ok(())
    }
}
