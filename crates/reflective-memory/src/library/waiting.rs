//! Set-up that waits for servers and areas, so that programs may be started in any order.

use super::{AreaReader, AreaWriter, Library};
use crate::Error;
use crate::idl::{Area, ReaderQoS, WriterQoS};
use isorb::Orb;
use isorb_rt::log::warn;
use isorb_rt::time::Deadline;
use std::path::PathBuf;
use std::time::Duration;

/// The interval of attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Repeats an attempt while its error [is temporary](Error::is_temporary), until `limit` has
/// passed. Reports once what it waits for.
///
/// # Errors
/// The last error of the attempt.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let (end, mut is_reported) = (Deadline::after(limit), false);
    loop {
        match attempt() {
            Err(error) if error.is_temporary() && !end.is_past() => {
                if !std::mem::replace(&mut is_reported, true) {
                    warn("isorb::memory", format_args!("waiting for {what}: {error}"));
                }
                std::thread::sleep(end.remaining().map_or(PAUSE, |left| left.min(PAUSE)));
            }
            result => return result,
        }
    }
}

impl Library {
    /// As [`connect`](Self::connect), and waits up to `limit` for a server.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_within(orb: &Orb, socket: impl Into<PathBuf>, limit: Duration) -> Result<Library, Error> {
        let socket = socket.into();
        let what = format!("the server at {}", socket.display());
        wait_for(&what, limit, || Library::connect(orb, &socket))
    }

    /// Opens an area of this node, or creates it. True if it was created.
    ///
    /// # Errors
    /// `AreaExists` where the area has another size or other histories, or is on another node;
    /// `WrongSize`, `Unavailable`.
    pub fn open_or_create(&self, what: &Area) -> Result<bool, Error> {
        match self.create_area(what) {
            Ok(()) => Ok(true),
            Err(Error::AreaExists(known)) if known.what == *what && self.list_areas()?.contains(what) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens or creates an area and becomes its writer. Waits up to `limit` for the coordinator.
    ///
    /// # Errors
    /// As [`open_or_create`](Self::open_or_create) and [`map_writer`](Self::map_writer).
    pub fn writer_within(&self, what: &Area, qos: WriterQoS, limit: Duration) -> Result<AreaWriter, Error> {
        wait_for(&format!("the area {}", what.name), limit, || {
            self.open_or_create(what)?;
            self.map_writer(&what.name, qos)
        })
    }

    /// As [`attach_reader`](Self::attach_reader), and waits up to `limit` for the area and its
    /// node.
    ///
    /// # Errors
    /// As [`attach_reader`](Self::attach_reader).
    pub fn reader_within(&self, name: &str, qos: ReaderQoS, limit: Duration) -> Result<AreaReader, Error> {
        wait_for(&format!("the area {name}"), limit, || self.attach_reader(name, qos))
    }
}
