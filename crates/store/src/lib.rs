//! A database in one file, for services that keep registrations.
//!
//! [`Database`] is a [`redb`] database with a [`Schema`] of its own. It adds three properties:
//!
//! - **An acknowledged write survives** `kill -9` and a loss of power. Each write is one
//!   transaction that is on disk before it returns.
//! - **A fault of the disk suspends writes, not the service.** After ENOSPC, EIO or a file system
//!   that became read-only, reads go on. Writes are refused with the fault, and resume by
//!   themselves when the disk takes them again. The log says both once.
//! - **A damaged or foreign file** gives an [`OpenError`]. It is never changed, and never a panic.
//!
//! The file is private to its owner, and another user's file is refused.
//!
//! Where the size of files is limited (`RLIMIT_FSIZE`), a write beyond the limit is such a fault in
//! a program that handles or ignores SIGXFSZ, as `isorb` does. The signal ends other programs.
//!
//! ```
//! use isorb_store::{Database, Fault, OpenError, Schema, copy_table, redb};
//! use redb::{ReadTransaction, TableDefinition, WriteTransaction};
//!
//! const HEIGHTS: TableDefinition<'_, &str, u64> = TableDefinition::new("heights");
//!
//! struct Heights;
//!
//! impl Schema for Heights {
//!     fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
//!         transaction.open_table(HEIGHTS)?;
//!         Ok(())
//!     }
//!     fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
//!         transaction.open_table(HEIGHTS).map(drop).map_err(|_| OpenError::Foreign)
//!     }
//!     fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
//!         copy_table(from, into, HEIGHTS)
//!     }
//! }
//!
//! # let folder = isorb_testkit::TempFolder::new();
//! # let path = folder.file("heights.redb");
//! let database = Database::open(path, Heights).unwrap();
//! database
//!     .write(|transaction| {
//!         transaction.open_table(HEIGHTS)?.insert("Zugspitze", 2962)?;
//!         Ok::<_, Fault>(())
//!     })
//!     .unwrap();
//! ```
#![forbid(unsafe_code)]

mod backend;
#[cfg(test)]
mod damage;
mod database;
mod error;
mod guarded;
mod memory;
mod open;
mod pages;
#[cfg(test)]
mod tests;

pub use database::Database;
pub use error::{Fault, OpenError, StoreError};
pub use redb;

use redb::{Key, ReadTransaction, ReadableTable, TableDefinition, TableHandle, Value, WriteTransaction};

/// The tables of a database.
pub trait Schema: Send + Sync {
    /// Creates the tables of a new database.
    ///
    /// # Errors
    /// Those of the database.
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error>;

    /// Checks every record of an opened file.
    ///
    /// # Errors
    /// [`OpenError::Foreign`] without the tables, [`OpenError::Version`] for another layout,
    /// [`OpenError::Corrupt`] for a record that this schema never writes.
    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError>;

    /// Copies all records into new tables: [`copy_table`] for each table.
    ///
    /// # Errors
    /// Those of the database.
    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error>;
}

/// Why a file has no table of this name, which ends with the version of its layout, as in
/// `heights-1`: [`OpenError::Version`] where it has the table of another version, else
/// [`OpenError::Foreign`].
///
/// # Real-time
/// Reads the names of all tables; not for real-time lanes.
#[must_use]
pub fn missing_table(transaction: &ReadTransaction, name: &str) -> OpenError {
    let parts = |name: &str| {
        let (stem, version) = name.rsplit_once('-')?;
        Some((stem.to_owned(), version.parse::<u64>().ok()?))
    };
    let Some((stem, _)) = parts(name) else { return OpenError::Foreign };
    let tables = transaction.list_tables().into_iter().flatten();
    let other = tables.filter_map(|table| parts(table.name())).find(|(other, _)| *other == stem);
    other.map_or(OpenError::Foreign, |(_, version)| OpenError::Version(version))
}

/// Copies a table.
///
/// # Errors
/// Those of the database, such as a missing table.
pub fn copy_table<K: Key, V: Value>(
    from: &ReadTransaction,
    into: &WriteTransaction,
    table: TableDefinition<'_, K, V>,
) -> Result<(), redb::Error> {
    let mut copy = into.open_table(table)?;
    for record in from.open_table(table)?.iter()? {
        let (key, value) = record?;
        copy.insert(key.value(), value.value())?;
    }
    Ok(())
}
