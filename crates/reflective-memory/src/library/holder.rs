//! Holding the areas of a node, so that they outlive its server even without writers and readers.

use super::{AreaReader, Library};
use crate::Error;
use crate::idl::ReaderQoS;
use std::collections::BTreeMap;

/// A reader of every area of its node, which hands them back to the next server. It belongs in
/// another process than the server (`isorb memory-holder`).
#[derive(Debug)]
pub struct Holder {
    library: Library,
    held: BTreeMap<String, AreaReader>,
}

impl Holder {
    /// A holder without areas.
    pub fn new(library: &Library) -> Holder {
        Holder { library: library.clone(), held: BTreeMap::new() }
    }

    /// Attaches new areas and releases destroyed ones. Gives the number of areas held. Call it
    /// repeatedly: an unused area that is created and loses its server between two calls is lost.
    ///
    /// # Errors
    /// `Unavailable` while there is no server; the areas stay held.
    pub fn look(&mut self) -> Result<usize, Error> {
        self.held.retain(|_, reader| !reader.state().is_some_and(|state| state.is_final()));
        for area in self.library.list_areas()? {
            if !self.held.contains_key(&area.name) {
                let qos = ReaderQoS::on_write().histories(0).any_type();
                match self.library.attach_reader(&area.name, qos) {
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
