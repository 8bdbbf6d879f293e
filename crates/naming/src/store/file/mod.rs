//! A store in a file. The process can be killed at any time without losing acknowledged operations.
//!
//! Three tables of an [`isorb_store::Database`]. Each operation is a transaction of its own that is
//! on disk before it is acknowledged, so after `kill -9` or a loss of power the file holds all
//! operations that were acknowledged, and of the one that was under way all or nothing. While the
//! disk is full names are resolved, but not bound.

mod schema;

use super::{Capacity, Entries, Fault, Mode, OpenError, Refusal, Store};
use crate::binding::{Binding, ContextId};
use isorb_giop::NameComponent;
use isorb_store::Database;
use isorb_store::redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, WriteTransaction};
use schema::{BINDINGS, CONTEXTS, LAST_KEY, META, Names, STAMP_KEY};
use std::ops::Bound;
use std::path::Path;

/// A store in a file.
#[derive(Debug)]
pub struct FileStore {
    database: Database<Names>,
    stamp: u64,
    capacity: Capacity,
}

impl FileStore {
    /// Opens a store, or creates one if there is no file.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<FileStore, OpenError> {
        FileStore::open_with_capacity(path, Capacity::default())
    }

    /// The same with limits.
    ///
    /// # Errors
    /// As [`FileStore::open`].
    pub fn open_with_capacity(path: impl AsRef<Path>, capacity: Capacity) -> Result<FileStore, OpenError> {
        FileStore::of(Database::open(path, Names)?, capacity)
    }

    /// A store in memory with the names of a file that has these octets, and zeros behind them up
    /// to `length`.
    ///
    /// # Errors
    /// Those of [`Database::from_octets`].
    pub fn from_octets(octets: Vec<u8>, length: u64) -> Result<FileStore, OpenError> {
        FileStore::of(Database::from_octets(octets, length, Names)?, Capacity::default())
    }

    fn of(database: Database<Names>, capacity: Capacity) -> Result<FileStore, OpenError> {
        let stamp = database.read(|transaction| schema::number(transaction, STAMP_KEY))?;
        Ok(FileStore { database, stamp, capacity })
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
        self.database.read(|transaction| Ok(transaction.open_table(CONTEXTS)?.get(context.0)?.is_some()))
    }

    fn lookup(&self, context: ContextId, name: &NameComponent) -> Result<Binding, Refusal> {
        self.database.read(|transaction| {
            let Some(found) = transaction.open_table(BINDINGS)?.get(key(context, name))? else {
                check_context(&transaction.open_table(CONTEXTS)?, context)?;
                return Err(Refusal::Unbound);
            };
            Binding::from_octets(found.value()).ok_or(CORRUPT)
        })
    }

    fn bind(
        &self,
        context: ContextId,
        name: &NameComponent,
        binding: &Binding,
        mode: Mode,
    ) -> Result<(), Refusal> {
        self.database.write(|transaction| self.put(transaction, context, name, binding, mode))
    }

    fn unbind(&self, context: ContextId, name: &NameComponent) -> Result<(), Refusal> {
        self.database.write(|transaction| {
            check_context(&transaction.open_table(CONTEXTS)?, context)?;
            let mut bindings = transaction.open_table(BINDINGS)?;
            let removed = bindings.remove(key(context, name))?;
            removed.map(drop).ok_or(Refusal::Unbound)
        })
    }

    fn create(&self) -> Result<ContextId, Refusal> {
        self.database.write(|transaction| self.make(transaction))
    }

    fn create_bound(&self, context: ContextId, name: &NameComponent) -> Result<ContextId, Refusal> {
        self.database.write(|transaction| {
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
        self.database.write(|transaction| {
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
        self.database.read(|transaction| list(transaction, context, after, limit))
    }
}

fn list(
    transaction: &ReadTransaction,
    context: ContextId,
    after: Option<&NameComponent>,
    limit: usize,
) -> Result<Entries, Refusal> {
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

fn key(context: ContextId, name: &NameComponent) -> (u64, &str, &str) {
    (context.0, &name.id, &name.kind)
}

fn check_context(contexts: &impl ReadableTable<u64, ()>, context: ContextId) -> Result<(), Refusal> {
    contexts.get(context.0)?.map(drop).ok_or(Refusal::NoContext)
}

const CORRUPT: Refusal = Refusal::Failed(Fault::Corrupt);

isorb_store::store_error! { Refusal }
