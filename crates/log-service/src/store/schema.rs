//! The tables of a store.

use super::record::size_of;
use super::{Entry, FullAction, Settings};
use isorb_store::redb::{self, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use isorb_store::{Fault, OpenError, Schema, copy_table, missing_table};

/// Numbers by name: the keys below.
pub const META: TableDefinition<'_, &str, u64> = TableDefinition::new("isorb-log-service-1");
/// Number of a record to its octets. The numbers have no gaps: a full log loses the oldest.
pub const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
/// The records with a time before that of the record before: the clock was set back.
pub const SET_BACKS: TableDefinition<'_, u64, ()> = TableDefinition::new("set-backs");

/// Distinguishes this log from those that the file had before.
pub const STAMP: &str = "stamp";
/// The number of the next record.
pub const NEXT: &str = "next";
/// Octets of all records.
pub const OCTETS: &str = "octets";
/// The most octets of all records.
pub const MAX_SIZE: &str = "max-size";
/// 1: a full log halts.
pub const HALT: &str = "halt";
/// 1: the newest record found no space in a log that halts.
pub const FULL: &str = "full";
/// 1: the log is locked.
pub const LOCKED: &str = "locked";
/// Records that were lost because the log was full.
pub const LOST: &str = "lost";

const KEYS: [&str; 8] = [STAMP, NEXT, OCTETS, MAX_SIZE, HALT, FULL, LOCKED, LOST];

/// The tables, and the settings of a new log.
pub struct Records(pub Settings);

impl Schema for Records {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let halt = self.0.full_action == FullAction::Halt;
        let mut meta = transaction.open_table(META)?;
        for (key, value) in [
            (STAMP, isorb_rt::random_u64()),
            (NEXT, 1),
            (OCTETS, 0),
            (MAX_SIZE, self.0.max_size),
            (HALT, u64::from(halt)),
            (FULL, 0),
            (LOCKED, 0),
            (LOST, 0),
        ] {
            meta.insert(key, value)?;
        }
        transaction.open_table(RECORDS)?;
        transaction.open_table(SET_BACKS)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        transaction.open_table(META).map_err(|_| missing_table(transaction, "isorb-log-service-1"))?;
        for key in KEYS {
            number(transaction, key)?;
        }
        let records = transaction.open_table(RECORDS).map_err(|_| OpenError::Corrupt)?;
        let set_backs = transaction.open_table(SET_BACKS).map_err(|_| OpenError::Corrupt)?;
        let (mut octets, mut last, mut before) = (0, None, None);
        for record in records.iter().map_err(Fault::from)? {
            let (key, value) = record.map_err(Fault::from)?;
            let (id, value) = (key.value(), value.value());
            let (time, _) = Entry::from_octets(value).ok_or(OpenError::Corrupt)?;
            let is_set_back = before.is_some_and(|before| time < before);
            if last.is_some_and(|last| id != last + 1)
                || (is_set_back && set_backs.get(id).map_err(Fault::from)?.is_none())
            {
                return Err(OpenError::Corrupt);
            }
            octets += size_of(value);
            (last, before) = (Some(id), Some(time));
        }
        let next = number(transaction, NEXT)?;
        let follows = last.is_none_or(|last| Some(next) == last.checked_add(1));
        match follows && octets == number(transaction, OCTETS)? {
            true => Ok(()),
            false => Err(OpenError::Corrupt),
        }
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, META)?;
        copy_table(from, into, RECORDS)?;
        copy_table(from, into, SET_BACKS)
    }
}

/// A number of [`META`].
pub fn number(transaction: &ReadTransaction, key: &str) -> Result<u64, Fault> {
    let value = transaction.open_table(META)?.get(key)?;
    value.map(|value| value.value()).ok_or(Fault::Corrupt)
}
