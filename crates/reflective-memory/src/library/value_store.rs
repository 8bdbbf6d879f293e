//! The last values of areas in a file, for the time after a reboot.
//!
//! Areas are memory, and end with the last process that has them. A store keeps the latest value of
//! each area of its node that matches its patterns, and makes the areas again. It belongs beside
//! the holder, in another process than the server (`isorb memory-holder --store`).

mod record;

use super::{AreaReader, Library};
use crate::Error;
use crate::idl::{Area, ReaderQoS, WriterQoS};
use crate::memory::{ReadError, Sample, Source, State};
use crate::pattern::matches;
use isorb_rt::log::warn;
use isorb_rt::time::now_ns;
use isorb_store::redb::{ReadableTable, TableDefinition};
use isorb_store::{Database, Fault};
use record::{Record, Values};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values-1");

/// Last values in a file. Each save is one transaction, on disk before it returns; a damaged file
/// is refused, and never changed.
pub struct ValueStore {
    database: Database<Values>,
    patterns: Vec<String>,
    /// Octets of all values.
    limit: u64,
    areas: BTreeMap<String, Stored>,
    is_reported: bool,
}

/// An area of which the latest value is stored.
struct Stored {
    reader: AreaReader,
    what: Area,
    /// Writer and number of the value in the file, and its octets.
    saved: Option<(u64, u64)>,
    octets: u64,
}

impl ValueStore {
    /// Opens the file, or makes it, for areas of which the names match one of the patterns (`*`,
    /// `?`). `limit`: octets of all values; areas beyond it are not stored, and the log says so
    /// once.
    ///
    /// # Errors
    /// [`Error::Setup`] with the reason of the store: the file is damaged, of another program, in
    /// use, or cannot be written.
    pub fn open(path: impl AsRef<Path>, patterns: Vec<String>, limit: u64) -> Result<ValueStore, Error> {
        let database = Database::open(path, Values).map_err(Error::setup)?;
        Ok(ValueStore { database, patterns, limit, areas: BTreeMap::new(), is_reported: false })
    }

    /// Makes the stored areas again that this node does not have, with their last values. An area
    /// that has a value or a writer keeps what it has. Gives the number of values that were
    /// restored.
    ///
    /// The state of a restored area is `WriterGone` until a writer comes. The age of its value is
    /// that of the clock of the day, and at least that: [`Sample::age_bound_ns`] is `None`. A value
    /// cannot be older than the machine runs.
    ///
    /// # Errors
    /// `Unavailable` without a server, and [`Error::Setup`] where the file cannot be read. An area
    /// that cannot be made, because its name is taken for another size or on another node, is left
    /// out, and the log says why.
    pub fn restore(&mut self, library: &Library) -> Result<usize, Error> {
        let names = self.database.read(|transaction| {
            let values = transaction.open_table(VALUES)?;
            let names = values.iter()?.map(|entry| Ok(entry?.0.value().to_owned()));
            names.collect::<Result<Vec<String>, Fault>>()
        });
        let mut restored = 0;
        for name in names.map_err(Error::setup)?.into_iter().filter(|name| self.wants(name)) {
            let record = self.database.read(|transaction| {
                let values = transaction.open_table(VALUES)?;
                Ok::<_, Fault>(values.get(&*name)?.map(|record| record.value().to_vec()))
            });
            let record = record.map_err(Error::setup)?;
            let Some(record) = record.as_deref().and_then(Record::read) else { continue };
            match put_back(library, &name, &record) {
                Ok(is_restored) => restored += usize::from(is_restored),
                Err(error) if error.is_temporary() => return Err(error),
                Err(error) => {
                    warn("isorb::memory", format_args!("the stored value of {name} is not restored: {error}"))
                }
            }
        }
        Ok(restored)
    }

    /// Stores the latest values that are new since the last call. Gives their number. Call it
    /// repeatedly: a value is lost with the machine if it came after the last call.
    ///
    /// # Errors
    /// `Unavailable` without a server, and [`Error::Setup`] where the file cannot be written; the
    /// next call tries again.
    pub fn save(&mut self, library: &Library) -> Result<usize, Error> {
        self.find(library)?;
        let used: u64 = self.areas.values().map(|stored| stored.octets).sum();
        let (mut used, mut new) = (used, Vec::new());
        for (name, stored) in &mut self.areas {
            if !stored.reader.has_new() && stored.saved.is_some() {
                continue;
            }
            let mut value = vec![0; stored.reader.size()];
            let sample = match stored.reader.latest(&mut value) {
                Ok(sample) => sample,
                Err(ReadError::Empty | ReadError::Lapped) => continue,
                Err(error) => return Err(Error::setup(error)),
            };
            if used - stored.octets + sample.len as u64 > self.limit {
                if !std::mem::replace(&mut self.is_reported, true) {
                    let limit = self.limit;
                    warn(
                        "isorb::memory",
                        format_args!(
                            "the values of {name} and others are not stored: all stored values have {limit} octets at most (--store-limit)"
                        ),
                    );
                }
                continue;
            }
            used = used - stored.octets + sample.len as u64;
            stored.octets = sample.len as u64;
            value.truncate(sample.len);
            new.push((
                name.clone(),
                Record { written: day_of(&sample), what: &stored.what, value: value.into() }.write(),
                sample,
            ));
        }
        let gone = self.destroyed();
        if new.is_empty() && gone.is_empty() {
            return Ok(0);
        }
        let written = self.database.write(|transaction| {
            let mut values = transaction.open_table(VALUES)?;
            for (name, record, _) in &new {
                values.insert(&**name, &**record)?;
            }
            for name in &gone {
                values.remove(&**name)?;
            }
            Ok::<_, Fault>(())
        });
        if let Err(fault) = written {
            // They are new for the next call.
            for (name, ..) in &new {
                if let Some(stored) = self.areas.get_mut(name) {
                    stored.saved = None;
                }
            }
            return Err(Error::setup(fault));
        }
        gone.iter().for_each(|name| drop(self.areas.remove(name)));
        for (name, _, sample) in &new {
            if let Some(stored) = self.areas.get_mut(name) {
                stored.saved = Some((sample.epoch, sample.sequence));
            }
        }
        Ok(new.len())
    }

    fn wants(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, name))
    }

    /// Attaches readers to the areas of the node that are new.
    fn find(&mut self, library: &Library) -> Result<(), Error> {
        for what in library.list_areas()? {
            if !self.wants(&what.name) || self.areas.contains_key(&what.name) {
                continue;
            }
            match library.attach_reader(&what.name, ReaderQoS::on_write().histories(0).any_type()) {
                Ok(reader) => {
                    let stored = Stored { reader, what: what.clone(), saved: None, octets: 0 };
                    self.areas.insert(what.name, stored);
                }
                // Destroyed since it was listed.
                Err(Error::UnknownArea(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Areas that were destroyed; a server that restarts destroys none.
    fn destroyed(&mut self) -> Vec<String> {
        let gone = |(name, stored): (&String, &mut Stored)| {
            (stored.reader.state() == Some(State::Destroyed)).then(|| name.clone())
        };
        self.areas.iter_mut().filter_map(gone).collect()
    }
}

/// True if the area had no value.
fn put_back(library: &Library, name: &str, record: &Record<'_, Area>) -> Result<bool, Error> {
    library.open_or_create(&Area { name: name.into(), ..record.what.clone() })?;
    let mut reader = library.attach_reader(name, ReaderQoS::on_write().histories(0).any_type())?;
    if reader.latest(&mut vec![0; reader.size()]) != Err(ReadError::Empty) {
        return Ok(false);
    }
    let mut writer = match library.map_writer(name, WriterQoS { period: 0, size: 0, type_hash: 0 }.any_type())
    {
        Ok(writer) => writer,
        // Its values are newer than the stored one.
        Err(Error::WriterExists(_)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let age = day().saturating_sub(record.written);
    let source = Source { sequence: writer.sequence() + 1, epoch: writer.epoch(), bound_ns: u64::MAX };
    writer.restore(&record.value, now_ns().saturating_sub(age), source)?;
    Ok(true)
}

/// Nanoseconds since 1970 by the clock of the day.
fn day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// When a value was written, by the clock of the day.
fn day_of(sample: &Sample) -> u64 {
    day().saturating_sub(sample.age_ns())
}

impl fmt::Debug for ValueStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueStore").field("areas", &self.areas.len()).finish_non_exhaustive()
    }
}
