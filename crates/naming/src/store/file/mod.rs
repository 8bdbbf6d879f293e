//! A store in a file. The process can be killed at any time without losing acknowledged operations.
//!
//! One redb file, three tables. Each operation is a transaction of its own that is on disk before
//! it is acknowledged, so after `kill -9` or a loss of power the file holds all operations that
//! were acknowledged, and of the one that was under way all or nothing.

mod open;

use super::{Capacity, Entries, Fault, Mode, OpenError, Refusal, Store};
use crate::binding::{Binding, ContextId};
use isorb_giop::NameComponent;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Numbers by name: [`FORMAT_KEY`], [`STAMP_KEY`], [`LAST_KEY`].
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("isorb-naming");
/// The contexts that exist.
const CONTEXTS: TableDefinition<'_, u64, ()> = TableDefinition::new("contexts");
/// Context, id, kind to [`Binding::to_octets`]. The order of the keys is the order of listings.
const BINDINGS: TableDefinition<'_, (u64, &str, &str), &[u8]> = TableDefinition::new("bindings");

const FORMAT_KEY: &str = "format";
const STAMP_KEY: &str = "stamp";
/// The number of the newest context.
const LAST_KEY: &str = "last";

/// The layout of the tables above.
const FORMAT: u64 = 1;

/// The cache of the database in octets.
const CACHE: usize = 16 << 20;

/// A store in a file.
#[derive(Debug)]
pub struct FileStore {
    database: Database,
    stamp: u64,
    capacity: Capacity,
}

impl FileStore {
    /// Opens a store, or creates one if there is no file.
    ///
    /// The whole file is read, checked and written anew (which also frees the space of removed
    /// bindings), in time proportional to its size.
    ///
    /// # Errors
    /// [`OpenError`]; a file that is not a store is not changed.
    pub fn open(path: impl AsRef<Path>) -> Result<FileStore, OpenError> {
        FileStore::open_with_capacity(path, Capacity::default())
    }

    /// The same with limits.
    ///
    /// # Errors
    /// As [`FileStore::open`].
    pub fn open_with_capacity(path: impl AsRef<Path>, capacity: Capacity) -> Result<FileStore, OpenError> {
        let (database, stamp) = open::open(path.as_ref())?;
        Ok(FileStore { database, stamp, capacity })
    }

    /// Runs one operation. When it returns, the operation is on disk or has no effect.
    fn write<T>(&self, run: impl FnOnce(&WriteTransaction) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let operation = || {
            let transaction = begin(&self.database)?;
            match run(&transaction) {
                Ok(value) => {
                    transaction.commit()?;
                    Ok(value)
                }
                Err(refusal) => {
                    transaction.abort()?;
                    Err(refusal)
                }
            }
        };
        // Faults that the check cannot see may show when a page is reused.
        catch_unwind(AssertUnwindSafe(operation)).unwrap_or(Err(CORRUPT))
    }

    fn make(&self, transaction: &WriteTransaction) -> Result<ContextId, Refusal> {
        let mut contexts = transaction.open_table(CONTEXTS)?;
        if contexts.len()? >= self.capacity.contexts {
            return Err(Refusal::Full);
        }
        let mut meta = transaction.open_table(META)?;
        let last = meta.get(LAST_KEY)?.ok_or(CORRUPT)?.value();
        let id = last.checked_add(1).ok_or(Refusal::Full)?;
        meta.insert(LAST_KEY, id)?;
        contexts.insert(id, ())?;
        Ok(ContextId(id))
    }

    fn put(
        &self,
        transaction: &WriteTransaction,
        context: ContextId,
        name: &NameComponent,
        binding: &Binding,
        mode: Mode,
    ) -> Result<(), Refusal> {
        check_context(&transaction.open_table(CONTEXTS)?, context)?;
        let mut bindings = transaction.open_table(BINDINGS)?;
        let old = match bindings.get(key(context, name))? {
            Some(old) => Some(Binding::from_octets(old.value()).ok_or(CORRUPT)?),
            None => None,
        };
        match (old, mode) {
            (Some(_), Mode::New) => return Err(Refusal::AlreadyBound),
            (Some(old), Mode::Replace) if old.kind != binding.kind => return Err(Refusal::OtherKind),
            (None, _) if bindings.len()? >= self.capacity.bindings => return Err(Refusal::Full),
            _ => {}
        }
        bindings.insert(key(context, name), &*binding.to_octets())?;
        Ok(())
    }
}

impl Store for FileStore {
    fn stamp(&self) -> u64 {
        self.stamp
    }

    fn contains(&self, context: ContextId) -> Result<bool, Refusal> {
        let contexts = self.database.begin_read()?.open_table(CONTEXTS)?;
        Ok(contexts.get(context.0)?.is_some())
    }

    fn lookup(&self, context: ContextId, name: &NameComponent) -> Result<Binding, Refusal> {
        let transaction = self.database.begin_read()?;
        let found = transaction.open_table(BINDINGS)?.get(key(context, name))?;
        match found {
            Some(found) => Binding::from_octets(found.value()).ok_or(CORRUPT),
            None => {
                check_context(&transaction.open_table(CONTEXTS)?, context)?;
                Err(Refusal::Unbound)
            }
        }
    }

    fn bind(
        &self,
        context: ContextId,
        name: &NameComponent,
        binding: &Binding,
        mode: Mode,
    ) -> Result<(), Refusal> {
        self.write(|transaction| self.put(transaction, context, name, binding, mode))
    }

    fn unbind(&self, context: ContextId, name: &NameComponent) -> Result<(), Refusal> {
        self.write(|transaction| {
            check_context(&transaction.open_table(CONTEXTS)?, context)?;
            let mut bindings = transaction.open_table(BINDINGS)?;
            let removed = bindings.remove(key(context, name))?;
            removed.map(drop).ok_or(Refusal::Unbound)
        })
    }

    fn create(&self) -> Result<ContextId, Refusal> {
        self.write(|transaction| self.make(transaction))
    }

    fn create_bound(&self, context: ContextId, name: &NameComponent) -> Result<ContextId, Refusal> {
        self.write(|transaction| {
            // Before there is a new one, which could have the same number.
            check_context(&transaction.open_table(CONTEXTS)?, context)?;
            let id = self.make(transaction);
            // The refusal does not depend on whether there is space.
            let binding = Binding::context(id.unwrap_or(ContextId::ROOT));
            self.put(transaction, context, name, &binding, Mode::New)?;
            id
        })
    }

    fn destroy(&self, context: ContextId) -> Result<(), Refusal> {
        self.write(|transaction| {
            let mut contexts = transaction.open_table(CONTEXTS)?;
            check_context(&contexts, context)?;
            let bindings = transaction.open_table(BINDINGS)?;
            if let Some(first) = bindings.range((context.0, "", "")..)?.next()
                && first?.0.value().0 == context.0
            {
                return Err(Refusal::NotEmpty);
            }
            contexts.remove(context.0)?;
            Ok(())
        })
    }

    fn list(
        &self,
        context: ContextId,
        after: Option<&NameComponent>,
        limit: usize,
    ) -> Result<Entries, Refusal> {
        let transaction = self.database.begin_read()?;
        check_context(&transaction.open_table(CONTEXTS)?, context)?;
        let bindings = transaction.open_table(BINDINGS)?;
        let first = match after {
            Some(after) => Bound::Excluded(key(context, after)),
            None => Bound::Included((context.0, "", "")),
        };
        let mut entries = Entries::new();
        for entry in bindings.range((first, Bound::Unbounded))?.take(limit) {
            let (key, value) = entry?;
            let (owner, id, kind) = key.value();
            if owner != context.0 {
                break;
            }
            let binding = Binding::from_octets(value.value()).ok_or(CORRUPT)?;
            entries.push((NameComponent::new(id, kind), binding.kind));
        }
        Ok(entries)
    }
}

fn key(context: ContextId, name: &NameComponent) -> (u64, &str, &str) {
    (context.0, &name.id, &name.kind)
}

fn check_context(contexts: &impl ReadableTable<u64, ()>, context: ContextId) -> Result<(), Refusal> {
    contexts.get(context.0)?.map(drop).ok_or(Refusal::NoContext)
}

fn begin(database: &Database) -> Result<WriteTransaction, Refusal> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

const CORRUPT: Refusal = Refusal::Failed(Fault::Corrupt);

impl From<redb::Error> for Refusal {
    fn from(error: redb::Error) -> Refusal {
        Refusal::Failed(match error {
            redb::Error::Io(error) => Fault::Io(error.kind()),
            redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => {
                Fault::Stopped
            }
            // Other errors mean a missing or changed table, since no other process writes to the
            // file.
            _ => Fault::Corrupt,
        })
    }
}

macro_rules! refusals {
    ($($error:ident)*) => {
        $(impl From<redb::$error> for Refusal {
            fn from(error: redb::$error) -> Refusal {
                redb::Error::from(error).into()
            }
        })*
    };
}
refusals! { StorageError TableError TransactionError CommitError SetDurabilityError }
