//! The library of an application: the session with its node's server, and the mapped memory.
//!
//! Set-up is a few calls to the server. Values are then written and read in mapped memory without
//! any call. [`AreaWriter`] and [`AreaReader`] work while the server is being restarted, and hand
//! their segments back to the next one.
//!
//! ```no_run
//! use isorb_reflective_memory::idl::{Area, ReaderQoS, WriterQoS};
//! use isorb_reflective_memory::{Library, node::default_socket};
//! use std::time::Duration;
//!
//! let orb = isorb::Orb::init(std::env::args())?;
//! let library = Library::connect(&orb, default_socket())?;
//! library.open_or_create(&Area::new("plant/1", 1024, 3))?;
//! let mut writer = library.map_writer("plant/1", WriterQoS::every(Duration::from_millis(10)))?;
//! writer.write(b"pressure 3.2 bar")?;
//!
//! // Here, in another process, or on another node:
//! let qos = ReaderQoS::on_write().guaranteed(Duration::from_millis(5));
//! let mut reader = library.attach_reader("plant/1", qos)?;
//! let mut value = vec![0; reader.size()];
//! reader.wait(Duration::from_millis(100))?;
//! let sample = reader.latest(&mut value)?;
//! println!("{} bytes, {} ns old", sample.len, sample.age_ns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod area_set;
mod attached;
mod follow;
mod holder;
mod notify;
mod rio;
mod session;
mod set_up;
mod strongest;
mod typed;
mod value_store;
mod waiting;

pub use area_set::AreaSet;
pub use attached::{AreaReader, AreaWriter};
pub use holder::Holder;
pub use notify::{EventSink, Notice, NoticeCounts, Notifier, RemoteChannel};
pub use rio::Rio;
pub use strongest::{Shown, StrongestReader};
pub use typed::ValueError;
pub use value_store::ValueStore;
pub use waiting::wait_for;

use crate::Error;
use crate::idl::{Area, Lib_CommRef, NodeReport, ReaderQoS, Statistics, WriterQoS};
use crate::memory::Segment;
use attached::{Attachment, Mapped, Role};
use isorb::Orb;
use session::{Memory, Session};
use set_up::Call;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long set-up waits for a server that is being restarted, and for a descriptor that the server
/// has sent.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A process's session with its node's server. Clones share it.
#[derive(Clone, Debug)]
pub struct Library {
    session: Arc<Session>,
}

impl Library {
    /// Connects to the server at `socket`, and later to each server that replaces it.
    ///
    /// A thread of ordinary priority keeps the session. No value ever waits for it.
    ///
    /// # Errors
    /// When there is no server.
    pub fn connect(orb: &Orb, socket: impl Into<PathBuf>) -> Result<Library, Error> {
        Ok(Library { session: Session::connect(orb, socket.into())? })
    }

    /// Makes an area on this node.
    ///
    /// # Errors
    /// `AreaExists` where any node has one of this name, `WrongSize`, `Unavailable`.
    pub fn create_area(&self, what: &Area) -> Result<(), Error> {
        let (server, session) = self.session.server()?;
        Ok(server.create_area(session, what)?)
    }

    /// Ends an area. Its readers keep the last value, and see the state `Destroyed`.
    ///
    /// # Errors
    /// `UnknownArea`, `Unavailable`.
    pub fn destroy_area(&self, name: &str) -> Result<(), Error> {
        let (server, session) = self.session.server()?;
        Ok(server.destroy_area(session, name)?)
    }

    /// Becomes the writer of an area of this node.
    ///
    /// # Errors
    /// `UnknownArea`, `WriterExists`, `WrongSize` (more than the area takes, or than its guaranteed
    /// readers were admitted with), `Unavailable`.
    pub fn map_writer(&self, name: &str, qos: WriterQoS) -> Result<AreaWriter, Error> {
        let (server, session) = self.session.server()?;
        // Among them may be the writer that an earlier attempt entered.
        self.session.detach_orphans(&server, session);
        let _call = Call::begin(&self.session);
        let ticket = server.map_writer(session, name, qos)?;
        let memory = self.mapped(&server, session, ticket)?;
        let writer = memory.segment.writer().map_err(|error| match error {
            crate::memory::ClaimError::Taken => {
                Error::WriterExists(crate::idl::WriterExists { name: name.into() })
            }
            crate::memory::ClaimError::Attach(error) => error.into(),
        });
        let writer = match writer {
            Ok(writer) => writer,
            Err(error) => {
                let _ = server.detach(session, ticket);
                return Err(error);
            }
        };
        let role = Role::Writer { qos };
        Ok(AreaWriter::new(writer, self.enter(name, ticket, memory, role)))
    }

    /// Becomes a reader of an area of any node.
    ///
    /// # Errors
    /// `UnknownArea`, `WrongSize`, `NotAdmitted` with the numbers, `Unavailable`.
    pub fn attach_reader(&self, name: &str, qos: ReaderQoS) -> Result<AreaReader, Error> {
        let (server, session) = self.session.server()?;
        let _call = Call::begin(&self.session);
        let ticket = server.attach_reader(session, name, qos)?;
        let mut memory = self.mapped(&server, session, ticket)?;
        memory.segment = self.session.share(name, memory.segment);
        AreaReader::new(self.enter(name, ticket, memory, Role::Reader { qos }))
    }

    /// The areas of this node.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn list_areas(&self) -> Result<Vec<Area>, Error> {
        Ok(self.session.server()?.0.list_areas()?)
    }

    /// The status of this node: writers and readers of its areas, areas of other nodes that are
    /// read here, ages, losses. It covers at most `limit` areas, and as many replicas.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn report(&self, limit: u32) -> Result<NodeReport, Error> {
        Ok(self.session.server()?.0.report(limit)?)
    }

    fn enter(&self, name: &str, ticket: u64, memory: Mapped, role: Role) -> Arc<Attachment> {
        let attachment = Arc::new(Attachment::new(self.session.clone(), name, ticket, memory, role));
        self.session.keep(&attachment);
        attachment
    }

    /// The memory of a ticket.
    fn mapped(&self, server: &Lib_CommRef, session: u64, ticket: u64) -> Result<Mapped, Error> {
        let mapped = self.session.descriptor(ticket).and_then(|memory| {
            let Memory { file, doorbell, local, data } = memory;
            Ok(Mapped { segment: Segment::attach(file)?, doorbell, local, data })
        });
        if mapped.is_err() {
            let _ = server.detach(session, ticket);
        }
        mapped
    }

    fn statistics(&self, ticket: u64) -> Result<Statistics, Error> {
        let (server, session) = self.session.server()?;
        Ok(server.get_statistics(session, ticket)?)
    }
}
