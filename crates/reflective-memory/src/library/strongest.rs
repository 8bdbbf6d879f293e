//! A reader of several areas of one type that follows the strongest living writer.
//!
//! An area has one writer. Redundant writers, such as a sensor and its spare, have an area each.
//! The reader shows the area of the greatest strength with a living writer, as exclusive ownership
//! does in DDS.

use super::{AreaReader, Library};
use crate::Error;
use crate::idl::{DataType, ReaderQoS, WrongType};
use crate::memory::{Signals, State, WaitError};
use isorb_any::AnyValue;
use isorb_rt::time::Deadline;
use std::fmt;
use std::time::Duration;

/// The interval at which a thread that waits tries to attach areas that are missing.
const ATTACH: Duration = Duration::from_secs(1);

type Attach<T> = Box<dyn Fn(&Library, &str) -> Result<AreaReader<T>, Error> + Send>;

/// A reader of several areas of one type: it shows that of the strongest living writer. A writer
/// lives while its area is open; not one with values that are stale for this reader's deadline.
pub struct StrongestReader<T: ?Sized = [u8]> {
    library: Library,
    /// Strongest first; equals in the order of the call.
    candidates: Vec<Candidate<T>>,
    /// What a thread that waits sleeps on.
    signals: Signals,
    attach: Attach<T>,
    /// The candidate that was given last.
    shown: Option<usize>,
    /// How often another area was shown than before.
    changes: u64,
    next_attempt: Deadline,
}

struct Candidate<T: ?Sized> {
    name: String,
    strength: i32,
    /// None while the area or its node is missing.
    reader: Option<AreaReader<T>>,
}

/// Why a wait ended without a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The area that is shown has a value that was not read.
    Value,
    /// Another area is shown than before, or none where no writer lives.
    Changed,
}

impl Library {
    /// A reader of several areas of octets, given with their strengths; the greatest is shown.
    /// Areas that are missing join when they are there.
    ///
    /// # Errors
    /// `WrongType` where two of them have different types; the other errors of
    /// [`attach_reader`](Self::attach_reader) that are not temporary.
    pub fn strongest_reader(&self, areas: &[(&str, i32)], qos: ReaderQoS) -> Result<StrongestReader, Error> {
        StrongestReader::new(self, areas, Box::new(move |library, name| library.attach_reader(name, qos)))
    }

    /// As [`strongest_reader`](Self::strongest_reader), for values of `T`.
    ///
    /// # Errors
    /// As [`typed_reader`](Self::typed_reader), where that is not temporary.
    pub fn typed_strongest_reader<T: AnyValue>(
        &self,
        areas: &[(&str, i32)],
        qos: ReaderQoS,
    ) -> Result<StrongestReader<T>, Error> {
        StrongestReader::new(self, areas, Box::new(move |library, name| library.typed_reader(name, qos)))
    }
}

impl<T: ?Sized> StrongestReader<T> {
    fn new(library: &Library, areas: &[(&str, i32)], attach: Attach<T>) -> Result<StrongestReader<T>, Error> {
        let candidate = |(name, strength): &(&str, i32)| Candidate {
            name: (*name).into(),
            strength: *strength,
            reader: None,
        };
        let mut candidates: Vec<_> = areas.iter().map(candidate).collect();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.strength));
        let mut reader = StrongestReader {
            library: library.clone(),
            candidates,
            signals: Signals::new(),
            attach,
            shown: None,
            changes: 0,
            next_attempt: Deadline::PAST,
        };
        reader.attach_missing()?;
        Ok(reader)
    }

    /// Attaches areas that were missing. [`wait`](Self::wait) does so once a second.
    ///
    /// # Errors
    /// Those that are not temporary, such as `WrongType`.
    pub fn attach_missing(&mut self) -> Result<(), Error> {
        self.next_attempt = Deadline::after(ATTACH);
        for index in 0..self.candidates.len() {
            let candidate = &mut self.candidates[index];
            let is_gone = |reader: &mut AreaReader<T>| reader.state() == Some(State::Destroyed);
            if candidate.reader.as_mut().is_some_and(is_gone) {
                candidate.reader = None;
            }
            if candidate.reader.is_some() {
                continue;
            }
            match (self.attach)(&self.library, &candidate.name) {
                Ok(reader) => {
                    self.check_type(&reader)?;
                    self.candidates[index].reader = Some(reader);
                }
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All areas have one type.
    fn check_type(&self, new: &AreaReader<T>) -> Result<(), Error> {
        let known = self.candidates.iter().find_map(|candidate| candidate.reader.as_ref());
        let is_other = |data: &&DataType| data.hash != new.data_type().hash;
        match known.map(AreaReader::data_type).filter(is_other) {
            None => Ok(()),
            Some(expected) => {
                let (name, has) = (new.name().to_owned(), new.data_type().clone());
                let reason = has.difference(expected);
                Err(Error::WrongType(WrongType { name, has, reason }))
            }
        }
    }

    /// The reader of the strongest living writer's area, by which the value is read. `None` while
    /// no writer lives: [`any`](Self::any) has the last values then.
    pub fn current(&mut self) -> Option<&mut AreaReader<T>> {
        self.choose();
        self.candidates[self.shown?].reader.as_mut()
    }

    /// The reader of one area, living or not; `None` where it is not attached.
    pub fn any(&mut self, area: &str) -> Option<&mut AreaReader<T>> {
        self.candidates.iter_mut().find(|candidate| candidate.name == area)?.reader.as_mut()
    }

    /// The name and strength of the area that is shown.
    pub fn shown(&self) -> Option<(&str, i32)> {
        let candidate = &self.candidates[self.shown?];
        Some((&candidate.name, candidate.strength))
    }

    /// How often another area was shown than before, also none.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Waits for a value of the area that is shown, or until another one is. Either ends the wait
    /// at once.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`].
    ///
    /// # Real-time
    /// Not for real-time threads where an area is missing: it calls the server once a second then.
    /// Sleeps on the memory of all areas at once; with more than 128, and before Linux 5.16, it
    /// also looks each 5 ms.
    pub fn wait(&mut self, limit: Duration) -> Result<Shown, WaitError> {
        let end = Deadline::after(limit);
        loop {
            if self.next_attempt.is_past() {
                // A type that was changed is refused, and its area stays missing.
                let _ = self.attach_missing();
            }
            self.signals.clear();
            let readers = self.candidates.iter_mut().filter_map(|candidate| candidate.reader.as_mut());
            let until = end.min(self.next_attempt);
            let until = readers.map(|reader| reader.add_to(&mut self.signals)).fold(until, Deadline::min);
            if let Some(reader) = self.shown.and_then(|shown| self.candidates[shown].reader.as_mut()) {
                reader.report_stale();
            }
            if self.choose() {
                return Ok(Shown::Changed);
            }
            if self
                .shown
                .and_then(|shown| self.candidates[shown].reader.as_mut())
                .is_some_and(AreaReader::has_new)
            {
                return Ok(Shown::Value);
            }
            if end.is_past() {
                return Err(WaitError::TimedOut);
            }
            self.signals.sleep(until);
        }
    }

    /// Finds the strongest living writer. True if that is another one than before.
    fn choose(&mut self) -> bool {
        let lives = |candidate: &mut Candidate<T>| {
            candidate.reader.as_mut().is_some_and(|reader| reader.state() == Some(State::Open))
        };
        let strongest = (0..self.candidates.len()).find(|index| lives(&mut self.candidates[*index]));
        let is_other = strongest != self.shown;
        self.shown = strongest;
        self.changes += u64::from(is_other);
        is_other
    }
}

impl<T: ?Sized> fmt::Debug for StrongestReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrongestReader").field("shown", &self.shown()).finish_non_exhaustive()
    }
}
