//! Readers of all areas with names that match a pattern.

use super::{AreaReader, Library};
use crate::Error;
use crate::idl::{Placement, ReaderQoS};
use crate::memory::{Signals, State};
use isorb_rt::log::warn;
use isorb_rt::time::Deadline;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The interval at which a set that is waited on looks for new areas.
const REFRESH: Duration = Duration::from_secs(1);
/// The pause after a search without an answer, which takes as long as the server waits for one.
const RETRY: Duration = Duration::from_secs(10);

/// Readers of all areas, of any node, with names that match a pattern. Areas that are made later
/// join, and destroyed ones leave.
///
/// ```no_run
/// # use isorb_reflective_memory::{Library, idl::ReaderQoS};
/// # use std::time::Duration;
/// # fn show(library: &Library) -> Result<(), Box<dyn std::error::Error>> {
/// let mut plants = library.attach_matching("plant/*", ReaderQoS::on_write().any_type())?;
/// let mut octets = vec![0; 1 << 16];
/// while let Some(reader) = plants.wait(Duration::from_secs(1)) {
///     let sample = reader.latest(&mut octets)?;
///     println!("{}: {} octets", reader.name(), sample.len);
/// }
/// # Ok(())
/// # }
/// ```
pub struct AreaSet {
    library: Library,
    pattern: String,
    qos: ReaderQoS,
    limit: u32,
    readers: BTreeMap<String, AreaReader>,
    /// What a thread that waits sleeps on.
    signals: Signals,
    refused: BTreeMap<String, Error>,
    is_reported: bool,
    /// The area that was given last; the next one is served first.
    last: String,
    refresh: Deadline,
}

impl Library {
    /// Attaches readers to all areas of all nodes with names that match: `*` stands for any
    /// characters, `?` for one. There may be none yet. At most 1,000; see [`AreaSet::limit`].
    ///
    /// # Errors
    /// `Unavailable` without a server. An area that refuses the reader is in
    /// [`AreaSet::refused`] instead.
    pub fn attach_matching(&self, pattern: &str, qos: ReaderQoS) -> Result<AreaSet, Error> {
        let mut set = AreaSet {
            library: self.clone(),
            pattern: pattern.into(),
            qos,
            limit: 1_000,
            readers: BTreeMap::new(),
            signals: Signals::new(),
            refused: BTreeMap::new(),
            is_reported: false,
            last: String::new(),
            refresh: Deadline::PAST,
        };
        set.refresh()?;
        Ok(set)
    }

    /// At most `limit` areas of all nodes with names that match a pattern, in the order of their
    /// names.
    ///
    /// # Errors
    /// `Unavailable`, also where the coordinator does not answer.
    pub fn find_areas(&self, pattern: &str, limit: u32) -> Result<Vec<Placement>, Error> {
        Ok(self.session.server()?.0.find_areas(pattern, limit)?)
    }
}

impl AreaSet {
    /// Reads at most so many areas, those that come first by name.
    pub fn limit(&mut self, areas: u32) {
        self.limit = areas;
    }

    /// Attaches readers to areas that are new, tries those again that refused it, and removes
    /// destroyed ones. [`wait`](Self::wait) does so once a second.
    ///
    /// # Errors
    /// `Unavailable`; the readers stay.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.refresh = Deadline::after(REFRESH);
        self.readers.retain(|_, reader| reader.state() != Some(State::Destroyed));
        let found = self.library.find_areas(&self.pattern, self.limit)?;
        if found.len() >= self.limit as usize && !std::mem::replace(&mut self.is_reported, true) {
            let (pattern, limit) = (&self.pattern, self.limit);
            warn(
                "isorb::memory",
                format_args!(
                    "{limit} areas match {pattern}, which is the limit (AreaSet::limit); others are not read"
                ),
            );
        }
        self.refused.retain(|name, _| found.iter().any(|place| place.what.name == *name));
        for Placement { what, .. } in found {
            if self.readers.contains_key(&what.name) || self.readers.len() >= self.limit as usize {
                continue;
            }
            match self.library.attach_reader(&what.name, self.qos) {
                Ok(reader) => {
                    self.refused.remove(&what.name);
                    self.readers.insert(what.name, reader);
                }
                Err(error) => drop(self.refused.insert(what.name, error)),
            }
        }
        Ok(())
    }

    /// A reader with a value that it has not read, each in turn. Waits up to `limit`; `None` if
    /// there is none by then. The caller reads the value. While the server is away, the areas that
    /// are attached go on.
    ///
    /// # Real-time
    /// Not for real-time threads: calls the server once a second, which may wait for the
    /// coordinator and for other nodes. Between, sleeps on the memory of all areas at once, and a
    /// value of any of them wakes it; with more than 128 areas, and before Linux 5.16, it also
    /// looks each 5 ms. Each look is linear in the areas.
    pub fn wait(&mut self, limit: Duration) -> Option<&mut AreaReader> {
        let end = Deadline::after(limit);
        loop {
            if self.refresh.is_past() && self.refresh().is_err() {
                self.refresh = Deadline::after(RETRY);
            }
            let (mut new, mut look) = (self.next_new(), end.min(self.refresh));
            if new.is_none() && !end.is_past() {
                self.signals.clear();
                let readers = self.readers.values_mut();
                look = readers.map(|reader| reader.add_to(&mut self.signals)).fold(look, Deadline::min);
                // A value that came before its area was added announces itself no more.
                new = self.next_new();
            }
            if let Some(name) = new {
                self.last.clone_from(&name);
                return self.readers.get_mut(&name);
            }
            if end.is_past() {
                return None;
            }
            self.signals.sleep(look);
        }
    }

    /// The first area with a new value after the one that was given last.
    fn next_new(&mut self) -> Option<String> {
        let mut first = None;
        for (name, reader) in &mut self.readers {
            if (first.is_none() || *name > self.last) && reader.has_new() {
                if *name > self.last {
                    return Some(name.clone());
                }
                first = Some(name.clone());
            }
        }
        first
    }

    /// All readers, by the names of their areas.
    pub fn readers(&mut self) -> impl Iterator<Item = &mut AreaReader> {
        self.readers.values_mut()
    }

    /// Areas that match and refused the reader, with the reason.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.refused.iter().map(|(name, error)| (&**name, error))
    }
}

impl fmt::Debug for AreaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers = self.readers.len();
        f.debug_struct("AreaSet")
            .field("pattern", &self.pattern)
            .field("readers", &readers)
            .finish_non_exhaustive()
    }
}
