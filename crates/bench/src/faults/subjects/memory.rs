//! Areas that are created, written and read through a node's server. Their values are in memory
//! that this process maps, and hands back to a server that replaces the first.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use isorb::Orb;
use isorb_reflective_memory::idl::{Area, ReaderQoS, WriterQoS};
use isorb_reflective_memory::{AreaWriter, Error, Library};

use super::{Client, Connected, text};

struct Areas {
    library: Library,
    writers: BTreeMap<u32, AreaWriter>,
}

pub(super) fn connect(orb: &Orb, socket: &Path) -> Connected {
    let library = Library::connect(orb, socket).map_err(text)?;
    Ok(Box::new(Areas { library, writers: BTreeMap::new() }))
}

fn name(number: u32) -> String {
    format!("a{number}")
}

impl Areas {
    /// Becomes the writer of an area, and writes its value.
    fn map(&mut self, number: u32) -> Result<(), Error> {
        match self.library.create_area(&Area::new(name(number), 64, 1)) {
            Ok(()) | Err(Error::AreaExists(_)) => {}
            Err(error) => return Err(error),
        }
        let mut writer = self.library.map_writer(&name(number), WriterQoS::every(Duration::ZERO))?;
        // The value is shorter than the area.
        let _ = writer.write(&number.to_be_bytes());
        self.writers.insert(number, writer);
        Ok(())
    }
}

impl Client for Areas {
    fn write(&mut self, number: u32) -> Result<(), String> {
        match self.writers.get_mut(&number) {
            Some(writer) => writer.write(&number.to_be_bytes()).map(drop).map_err(text),
            None => self.map(number).map_err(text),
        }
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        let mut reader = match self.library.attach_reader(&name(number), ReaderQoS::on_write()) {
            Ok(reader) => reader,
            Err(Error::UnknownArea(_)) => return Ok(false),
            Err(error) => return Err(text(error)),
        };
        let mut value = [0; 64];
        let sample = reader.latest(&mut value).map_err(text)?;
        Ok(value[..sample.len] == number.to_be_bytes())
    }

    fn remove(&mut self, number: u32) -> Result<(), String> {
        self.writers.remove(&number);
        self.library.destroy_area(&name(number)).map_err(text)
    }
}
