//! Holding the areas of a node, so that they outlive its server even when nobody else uses them.

use super::{AreaReader, Library};
use crate::Error;
use crate::idl::{Mode, Path, ReaderQoS};
use std::collections::BTreeMap;

/// A reader of every area of its node, for nothing but to hand it back to the next server. Its process should be another than the
/// server's (`isorb memory-holder`).
#[derive(Debug)]
pub struct Holder {
    library: Library,
    held: BTreeMap<String, AreaReader>,
}

impl Holder {
    /// A holder that has nothing yet.
    pub fn new(library: &Library) -> Holder {
        Holder { library: library.clone(), held: BTreeMap::new() }
    }

    /// Takes hold of what has been made and lets go of what was destroyed; gives the number of areas held. To be called again and again: an
    /// area that comes and loses its server between two calls is lost if nobody uses it.
    ///
    /// # Errors
    /// `Unavailable` while there is no server; what is held stays held.
    pub fn look(&mut self) -> Result<usize, Error> {
        self.held.retain(|_, reader| !reader.state().is_some_and(|state| state.is_final()));
        for area in self.library.list_areas()? {
            if !self.held.contains_key(&area.name) {
                match self.library.attach_reader(&area.name, HOLD) {
                    Ok(reader) => drop(self.held.insert(area.name, reader)),
                    // Destroyed since it was listed.
                    Err(Error::UnknownArea(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(self.held.len())
    }
}

const HOLD: ReaderQoS = ReaderQoS {
    how: Mode::PushOnWrite,
    period: 0,
    deadline: 0,
    histories: 0,
    guaranteed: false,
    through: Path::PathUdp,
    parity: 0,
};
