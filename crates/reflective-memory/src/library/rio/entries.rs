//! The writers, readers and notifiers of a RIO, by handle.

use crate::Error;
use crate::library::attached::ReaderHandle;
use crate::library::{AreaReader, AreaWriter, Notifier};
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Release;

/// The most entries of one RIO.
const ENTRIES: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Entries(PiMutex<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<u64, Arc<Entry>>,
    last: u64,
}

#[derive(Debug)]
pub(super) enum Entry {
    Writer(PiMutex<AreaWriter>),
    Reader(Reader),
    Events(PiMutex<Notifier>),
}

/// A reader. A call that waits for a value locks `state`; other calls do not need it.
#[derive(Debug)]
pub(super) struct Reader {
    /// The reader, and memory for one value.
    pub state: PiMutex<(AreaReader, Vec<u8>)>,
    pub handle: ReaderHandle,
    pub detached: AtomicBool,
}

impl Entry {
    pub fn writer(writer: AreaWriter) -> Entry {
        Entry::Writer(PiMutex::new(writer))
    }

    pub fn reader(reader: AreaReader) -> Entry {
        let value = vec![0; reader.size()];
        let handle = reader.handle();
        Entry::Reader(Reader {
            state: PiMutex::new((reader, value)),
            handle,
            detached: AtomicBool::new(false),
        })
    }

    pub fn events(notifier: Notifier) -> Entry {
        Entry::Events(PiMutex::new(notifier))
    }
}

impl Entries {
    /// Gives its handle.
    pub fn enter(&self, entry: Entry) -> Result<u64, Error> {
        let mut table = self.0.lock();
        if table.entries.len() >= ENTRIES {
            drop(table);
            return Err(Error::Limit { resource: "writers and readers of this RIO", limit: ENTRIES });
        }
        table.last += 1;
        let handle = table.last;
        table.entries.insert(handle, Arc::new(entry));
        Ok(handle)
    }

    pub fn find(&self, which: u64) -> Result<Arc<Entry>, Error> {
        self.0.lock().entries.get(&which).cloned().ok_or_else(|| Error::unknown_handle(which))
    }

    /// Removes an entry. A call that waits on it keeps it, and ends soon.
    pub fn remove(&self, which: u64) -> Result<(), Error> {
        let entry = self.0.lock().entries.remove(&which).ok_or_else(|| Error::unknown_handle(which))?;
        if let Entry::Reader(reader) = &*entry {
            reader.detached.store(true, Release);
        }
        Ok(())
    }
}
