//! The records of a log, in a file or in memory.
//!
//! Each operation is a transaction of its own, which is on disk before it is acknowledged. While
//! the disk is full records are read, but not written.

mod error;
mod record;
mod schema;

pub use error::{Fault, OpenError, Refusal};
pub use record::{Entry, Time};

use isorb_store::redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};
use isorb_store::{Database, Schema};
use record::size_of;
use schema::{
    FULL, HALT, LOCKED, LOST, MAX_SIZE, META, NEXT, OCTETS, RECORDS, Records, SET_BACKS, STAMP, number,
};
use std::path::Path;

/// What a full log does with a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullAction {
    /// Loses the oldest records for it.
    Wrap,
    /// Discards it.
    Halt,
}

/// The settings of a new log. One that exists keeps those that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most octets of all records: their texts, and 30 for each.
    pub max_size: u64,
    /// What happens then.
    pub full_action: FullAction,
}

impl Default for Settings {
    /// 64 MiB, then the oldest records are lost.
    fn default() -> Settings {
        Settings { max_size: 64 << 20, full_action: FullAction::Wrap }
    }
}

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The settings now.
    pub settings: Settings,
    /// Octets of all records.
    pub size: u64,
    /// Number of records.
    pub records: u64,
    /// Whether the log halts and had no space for the newest record.
    pub full: bool,
    /// Whether an administrator has locked the log.
    pub locked: bool,
    /// Records that were lost because the log was full, since it was made.
    pub lost: u64,
}

/// What became of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// How many of them were written: the first ones. The others had no space.
    pub written: usize,
    /// Older records that were lost for them.
    pub lost: u64,
    /// Octets of all records afterwards.
    pub size: u64,
    /// The settings.
    pub settings: Settings,
}

/// Records that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What was made of each record.
    pub records: Vec<T>,
    /// The number of the record to go on with.
    pub next: u64,
}

/// The records of a log.
///
/// # Real-time
/// Not for real-time lanes: it allocates, takes locks, and waits for its disk.
pub struct LogStore {
    database: Database<Records>,
    settings: Settings,
    is_file: bool,
}

impl LogStore {
    /// Opens a store, or creates one with these settings if there is no file.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open(path: impl AsRef<Path>, settings: Settings) -> Result<LogStore, OpenError> {
        Ok(LogStore { database: Database::open(path, Records(settings))?, settings, is_file: true })
    }

    /// A store in memory.
    ///
    /// # Errors
    /// None is known.
    pub fn memory(settings: Settings) -> Result<LogStore, OpenError> {
        Ok(LogStore { database: Database::in_memory(Records(settings))?, settings, is_file: false })
    }

    /// A store in memory with the records of a file that has these octets, and zeros behind them
    /// up to `length`.
    ///
    /// # Errors
    /// Those of [`Database::from_octets`].
    pub fn from_octets(octets: Vec<u8>, length: u64, settings: Settings) -> Result<LogStore, OpenError> {
        let database = Database::from_octets(octets, length, Records(settings))?;
        Ok(LogStore { database, settings, is_file: false })
    }

    /// A number that distinguishes this log from other ones, and from those that the file had
    /// before.
    ///
    /// # Errors
    /// [`Refusal::Failed`], as all operations.
    pub fn stamp(&self) -> Result<u64, Refusal> {
        self.database.read(|transaction| Ok(number(transaction, STAMP)?))
    }

    /// The fault that suspends writes. After the disk's pause this attempts to resume them.
    pub fn suspended(&self) -> Option<Fault> {
        self.database.suspended()?;
        // A client may wait for the log to be enabled before it writes.
        let _ = self.database.write(|_| Ok::<_, Fault>(()));
        self.database.suspended()
    }

    /// The state of the log.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn status(&self) -> Result<Status, Refusal> {
        self.database.read(|transaction| {
            let halts = number(transaction, HALT)? != 0;
            let full_action = if halts { FullAction::Halt } else { FullAction::Wrap };
            Ok(Status {
                settings: Settings { max_size: number(transaction, MAX_SIZE)?, full_action },
                size: number(transaction, OCTETS)?,
                records: transaction.open_table(RECORDS)?.len()?,
                full: halts && number(transaction, FULL)? != 0,
                locked: number(transaction, LOCKED)? != 0,
                lost: number(transaction, LOST)?,
            })
        })
    }

    /// Writes records with the time `now`, in one transaction: all of them, or the first ones that
    /// have space in a log that halts.
    ///
    /// # Errors
    /// [`Refusal::Locked`]; [`Refusal::LargerThanLog`], and nothing is written;
    /// [`Refusal::Full`] if nothing is written, as with the records before.
    pub fn append(&self, now: Time, entries: &[Entry<'_>]) -> Result<Appended, Refusal> {
        self.database.write(|transaction| {
            let mut meta = transaction.open_table(META)?;
            if get(&meta, LOCKED)? != 0 {
                return Err(Refusal::Locked);
            }
            let max_size = get(&meta, MAX_SIZE)?;
            let halts = get(&meta, HALT)? != 0;
            let (mut next, mut size, mut lost) = (get(&meta, NEXT)?, get(&meta, OCTETS)?, 0);
            let mut written = 0;
            let mut records = transaction.open_table(RECORDS)?;
            let mut set_backs = transaction.open_table(SET_BACKS)?;
            if let Some((_, last)) = records.last()?
                && now < Entry::from_octets(last.value()).ok_or(CORRUPT)?.0
            {
                set_backs.insert(next, ())?;
            }
            for entry in entries {
                let octets = entry.to_octets(now);
                let own = size_of(&octets);
                if own > max_size {
                    return Err(Refusal::LargerThanLog { octets: own, max_size });
                }
                if halts && size + own > max_size {
                    break;
                }
                while size + own > max_size {
                    let oldest = lose_oldest(&mut records, &mut set_backs)?;
                    size = size.checked_sub(oldest).ok_or(CORRUPT)?;
                    lost += 1;
                }
                records.insert(next, &*octets)?;
                next = next.checked_add(1).ok_or(CORRUPT)?;
                size += own;
                written += 1;
            }
            let full = u64::from(written < entries.len());
            if written == 0 && full != 0 && get(&meta, FULL)? != 0 {
                // Nothing changes, and the disk need not be waited for.
                return Err(Refusal::Full { max_size });
            }
            meta.insert(FULL, full)?;
            meta.insert(NEXT, next)?;
            meta.insert(OCTETS, size)?;
            let before = get(&meta, LOST)?;
            meta.insert(LOST, before.saturating_add(lost))?;
            let full_action = if halts { FullAction::Halt } else { FullAction::Wrap };
            Ok(Appended { written, lost, size, settings: Settings { max_size, full_action } })
        })
    }

    /// The first record of this time or later; the next one to be written if there is none.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn first_at(&self, time: Time) -> Result<u64, Refusal> {
        self.database.read(|transaction| {
            let records = transaction.open_table(RECORDS)?;
            let next = number(transaction, NEXT)?;
            let time_of = |id: u64| -> Result<Time, Refusal> {
                let record = records.get(id)?.ok_or(CORRUPT)?;
                Ok(Entry::from_octets(record.value()).ok_or(CORRUPT)?.0)
            };
            let Some(first) = records.first()?.map(|(id, _)| id.value()) else { return Ok(next) };
            // Times ascend from one set-back of the clock to the next.
            let mut begin = first;
            let set_backs = transaction.open_table(SET_BACKS)?;
            let mut ends = Vec::new();
            for set_back in set_backs.range(first + 1..)? {
                ends.push(set_back?.0.value());
            }
            ends.push(next);
            for end in ends {
                if time_of(end - 1)? >= time {
                    return partition(begin, end - 1, |id| Ok(time_of(id)? < time));
                }
                begin = end;
            }
            Ok(next)
        })
    }

    /// At most `limit` of the records that `wanted` wants, from a number on, with at most `octets`
    /// of text if there are several. `make` makes of each what the page has.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn read<T>(
        &self,
        from: u64,
        limit: usize,
        octets: usize,
        wanted: &dyn Fn(&Entry<'_>) -> bool,
        make: &dyn Fn(u64, Time, &Entry<'_>) -> T,
    ) -> Result<Page<T>, Refusal> {
        self.database.read(|transaction| {
            let mut page = Page { records: Vec::new(), next: from.max(number(transaction, NEXT)?) };
            let mut left = octets;
            for record in transaction.open_table(RECORDS)?.range(from..)? {
                let (id, octets) = record?;
                let (time, entry) = Entry::from_octets(octets.value()).ok_or(CORRUPT)?;
                if !wanted(&entry) {
                    continue;
                }
                let fits = entry.text() <= left || page.records.is_empty();
                if page.records.len() >= limit || !fits {
                    page.next = id.value();
                    break;
                }
                left = left.saturating_sub(entry.text());
                page.records.push(make(id.value(), time, &entry));
            }
            Ok(page)
        })
    }

    /// Sets the greatest size, in octets.
    ///
    /// # Errors
    /// [`Refusal::BelowCurrentSize`].
    pub fn set_max_size(&self, size: u64) -> Result<(), Refusal> {
        self.database.write(|transaction| {
            let mut meta = transaction.open_table(META)?;
            let current = get(&meta, OCTETS)?;
            if size < current.max(1) {
                return Err(Refusal::BelowCurrentSize { size, current });
            }
            meta.insert(MAX_SIZE, size)?;
            meta.insert(FULL, 0)?;
            Ok(())
        })
    }

    /// Sets what a full log does.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn set_full_action(&self, action: FullAction) -> Result<(), Refusal> {
        self.set(HALT, u64::from(action == FullAction::Halt))
    }

    /// Locks the log, or unlocks it.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn set_locked(&self, locked: bool) -> Result<(), Refusal> {
        self.set(LOCKED, u64::from(locked))
    }

    /// Removes all records. The numbers of later ones go on.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn clear(&self) -> Result<(), Refusal> {
        self.database.write(|transaction| {
            remove_records(transaction)?;
            let mut meta = transaction.open_table(META)?;
            meta.insert(OCTETS, 0)?;
            meta.insert(FULL, 0)?;
            Ok(())
        })
    }

    /// Ends the log: what is in the file then is a new one, without records, with other settings
    /// and another stamp.
    ///
    /// # Errors
    /// As [`stamp`](Self::stamp).
    pub fn destroy(&self) -> Result<(), Refusal> {
        self.database.write(|transaction| {
            remove_records(transaction)?;
            Records(self.settings).create(transaction).map_err(Fault::from)?;
            Ok(())
        })
    }

    fn set(&self, key: &str, value: u64) -> Result<(), Refusal> {
        self.database.write(|transaction| {
            transaction.open_table(META)?.insert(key, value)?;
            Ok(())
        })
    }
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("is_file", &self.is_file).finish_non_exhaustive()
    }
}

/// A number of the open table [`META`].
fn get(meta: &impl ReadableTable<&'static str, u64>, key: &str) -> Result<u64, Refusal> {
    Ok(meta.get(key)?.ok_or(CORRUPT)?.value())
}

/// Removes the oldest record. Returns its octets.
fn lose_oldest(
    records: &mut Table<'_, u64, &'static [u8]>,
    set_backs: &mut Table<'_, u64, ()>,
) -> Result<u64, Refusal> {
    let (id, size) = {
        let (id, octets) = records.pop_first()?.ok_or(CORRUPT)?;
        (id.value(), size_of(octets.value()))
    };
    set_backs.remove(id)?;
    Ok(size)
}

fn remove_records(transaction: &WriteTransaction) -> Result<(), Refusal> {
    transaction.delete_table(RECORDS)?;
    transaction.delete_table(SET_BACKS)?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(SET_BACKS)?;
    Ok(())
}

/// The first number from `begin` on that is not `before`; all up to `last` are ordered so, and
/// `last` is not.
fn partition(
    mut begin: u64,
    mut last: u64,
    before: impl Fn(u64) -> Result<bool, Refusal>,
) -> Result<u64, Refusal> {
    while begin < last {
        let middle = begin + (last - begin) / 2;
        if before(middle)? {
            begin = middle + 1;
        } else {
            last = middle;
        }
    }
    Ok(begin)
}

const CORRUPT: Refusal = Refusal::Failed(Fault::Corrupt);

#[cfg(test)]
mod tests;
