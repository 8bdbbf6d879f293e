//! The writer and the reader of an application.

use super::Library;
use super::follow::FollowingReader;
use super::notify::{EventSink, Notifier};
use super::session::Session;
use super::typed::Decoding;
use crate::Error;
use crate::idl::{DataType, EventQoS, ReaderQoS, Statistics, WriterQoS};
use crate::memory::{
    Cells, Lease, ReadError, Reader, Sample, Segment, Signals, Source, State, TooLarge, View, WaitError,
    Writer,
};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use rustix::fd::OwnedFd;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A writer or reader of this process at its server.
pub(super) struct Attachment {
    pub session: Arc<Session>,
    pub name: String,
    pub role: Role,
    pub ticket: AtomicU64,
    pub segment: PiMutex<Segment>,
    /// Counts replacements of the segment.
    pub moves: AtomicU64,
    /// Notified of a replacement, with `segment`.
    pub moved: PiCondvar,
    /// The segment is the writer's own; else it is a replica.
    pub local: bool,
    /// The type of the area's values.
    pub data: DataType,
    /// The doorbell that a writer rings while other nodes read its area.
    doorbell: PiMutex<Option<OwnedFd>>,
    /// Counts stale values that a reader of the writer's own segment found.
    pub stale: AtomicU64,
}

/// The memory of the server's descriptor, mapped.
pub(super) struct Mapped {
    pub segment: Segment,
    pub doorbell: Option<OwnedFd>,
    /// The segment is the writer's own; else it is a replica.
    pub local: bool,
    /// The type of the area's values.
    pub data: DataType,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Writer { qos: WriterQoS },
    Reader { qos: ReaderQoS },
}

impl Attachment {
    pub fn new(session: Arc<Session>, name: &str, ticket: u64, memory: Mapped, role: Role) -> Attachment {
        let Mapped { segment, doorbell, local, data } = memory;
        Attachment {
            session,
            name: name.into(),
            role,
            ticket: AtomicU64::new(ticket),
            segment: PiMutex::new(segment),
            moves: AtomicU64::new(0),
            moved: PiCondvar::new(),
            local,
            data,
            doorbell: PiMutex::new(doorbell),
            stale: AtomicU64::new(0),
        }
    }

    /// The server answered the writer that handed its area back: with a ticket, or 0 for a refusal,
    /// and with a doorbell. The writer rings at once, because values since the adoption had no
    /// doorbell.
    pub fn is_writer_of(&self, ticket: u64, doorbell: Option<OwnedFd>) {
        self.ticket.store(ticket, Ordering::Release);
        *self.doorbell.lock() = doorbell;
        self.ring();
    }

    /// The server did not take the area back.
    pub fn is_refused(&self) -> bool {
        matches!(self.role, Role::Writer { .. }) && self.ticket() == 0
    }

    /// Notifies the server of a new value.
    ///
    /// # Real-time
    /// Takes a lock that is contended only while the server changes; one system call.
    fn ring(&self) {
        if let Some(doorbell) = &*self.doorbell.lock() {
            // The counter cannot be full: it takes 2^64 - 2 values.
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Waits until the segment was replaced more than `moves` times, or until `end`.
    pub fn await_move(&self, moves: u64, end: Deadline) {
        let mut segment = self.segment.lock();
        while self.moves.load(Ordering::Acquire) == moves && !end.is_past() {
            let _ = self.moved.wait_until(&mut segment, end);
        }
    }

    fn library(&self) -> Library {
        Library { session: self.session.clone() }
    }

    fn ticket(&self) -> u64 {
        self.ticket.load(Ordering::Acquire)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // A server that ended has no attachments any more.
        if let Some((server, session)) = self.session.server_now() {
            let _ = server.detach(session, self.ticket());
        }
    }
}

/// The writer of an area: of octets, or of values of `T`
/// ([`Library::typed_writer`](Library::typed_writer)).
pub struct AreaWriter<T: ?Sized = [u8]> {
    pub(super) writer: Writer,
    /// Bytes of the largest value that the writer promised.
    pub(super) largest: usize,
    pub(super) attachment: Arc<Attachment>,
    /// Memory in which values of a type are encoded.
    pub(super) buffer: Vec<u8>,
    pub(super) values: PhantomData<fn(&T)>,
}

impl AreaWriter {
    pub(super) fn new(writer: Writer, attachment: Arc<Attachment>) -> AreaWriter {
        let size = writer.geometry().size();
        let largest = match attachment.role {
            Role::Writer { qos } => crate::node::largest(&qos, size),
            Role::Reader { .. } => size,
        };
        AreaWriter { writer, largest, attachment, buffer: Vec::new(), values: PhantomData }
    }

    /// Writes a value. Readers of this node can read it when this returns; agents push it to other
    /// nodes. Gives its number.
    ///
    /// # Errors
    /// When it is larger than the promised size, or than the area's.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. A copy and a system call; another one where other nodes read
    /// the area.
    #[inline]
    pub fn write(&mut self, value: &[u8]) -> Result<u64, TooLarge> {
        self.check(value.len())?;
        let number = self.writer.write(value)?;
        self.ring();
        Ok(number)
    }

    /// Lets `fill` write a value of `len` bytes in place.
    ///
    /// # Errors
    /// When it is larger than the promised size, or than the area's.
    ///
    /// # Real-time
    /// As [`write`](Self::write), without the copy.
    pub fn write_with(&mut self, len: usize, fill: impl FnOnce(&Cells<'_>)) -> Result<u64, TooLarge> {
        self.check(len)?;
        let number = self.writer.write_with(len, fill)?;
        self.ring();
        Ok(number)
    }
}

impl AreaWriter {
    /// Writes a value that another writer wrote at `written_ns`.
    pub(super) fn restore(&mut self, value: &[u8], written_ns: u64, source: Source) -> Result<(), Error> {
        let size = self.writer.geometry().size();
        let too_large = || Error::wrong_size("the stored value", value.len(), size);
        self.writer.draft().put(0, value).map_err(|_| too_large())?;
        self.writer.publish_as(value.len(), written_ns, source).map_err(|_| too_large())?;
        self.ring();
        Ok(())
    }
}

impl<T: ?Sized> AreaWriter<T> {
    /// Bytes of the largest value that it may write: the promised size, or the area's.
    pub fn size(&self) -> usize {
        self.largest
    }

    #[inline]
    pub(super) fn check(&self, len: usize) -> Result<(), TooLarge> {
        if len > self.largest { Err(TooLarge { len, limit: self.largest }) } else { Ok(()) }
    }

    /// The type of the area's values.
    pub fn data_type(&self) -> &DataType {
        &self.attachment.data
    }

    /// The number of this writer among the area's writers, from 1.
    pub fn epoch(&self) -> u64 {
        self.writer.epoch()
    }

    /// The number of the last value; 0 for none.
    pub fn sequence(&self) -> u64 {
        self.writer.sequence()
    }

    /// The server's counts.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.attachment.library().statistics(self.attachment.ticket())
    }

    /// Whether a server serves this writer. False while there is no server, and where a restarted
    /// one refused the area: another node has the name, or a limit is reached. Values then reach
    /// the processes that have the area mapped, and no other node. The library offers the area
    /// again every second.
    pub fn is_served(&self) -> bool {
        !self.attachment.is_refused() && self.attachment.session.server_now().is_some()
    }

    /// Whether values are pushed to other nodes by datagrams. Only then a write makes a system call
    /// for them.
    pub fn rings(&self) -> bool {
        self.writer.wants_doorbell()
    }

    #[inline]
    pub(super) fn ring(&self) {
        if self.rings() {
            self.attachment.ring();
        }
    }
}

/// A reader of an area: of octets, or of values of `T`
/// ([`Library::typed_reader`](Library::typed_reader)).
pub struct AreaReader<T: ?Sized = [u8]> {
    pub(super) place: FollowingReader,
    pub(super) attachment: Arc<Attachment>,
    /// The time of the value that this reader reported as stale. In the writer's own memory the
    /// reader itself checks the age; in a replica the server does.
    pub(super) reported_stale: Option<u64>,
    /// Memory in which values of a type are decoded.
    pub(super) decoding: Option<Box<Decoding>>,
    pub(super) values: PhantomData<fn() -> T>,
}

impl AreaReader {
    pub(super) fn new(attachment: Arc<Attachment>) -> Result<AreaReader, Error> {
        let segment = attachment.segment.lock();
        let moves = attachment.moves.load(Ordering::Acquire);
        let place = FollowingReader::new(segment.reader()?, moves);
        drop(segment);
        Ok(AreaReader { place, attachment, reported_stale: None, decoding: None, values: PhantomData })
    }

    /// Another reader of the same attachment, which has read nothing yet.
    pub(super) fn again(&self) -> Result<AreaReader, Error> {
        self.handle().reader()
    }
}

impl<T: ?Sized> AreaReader<T> {
    /// The operations that are possible while another thread reads.
    pub(super) fn handle(&self) -> ReaderHandle {
        ReaderHandle(self.attachment.clone())
    }

    /// The area's name.
    pub fn name(&self) -> &str {
        &self.attachment.name
    }

    /// Whether there is a value that this reader has not read.
    ///
    /// # Real-time
    /// Two loads.
    #[inline]
    pub fn has_new(&mut self) -> bool {
        self.reader().has_new()
    }

    /// Waits for a value that this reader has not read.
    ///
    /// # Errors
    /// [`WaitError`]; a change of the area's state ends the wait once.
    ///
    /// # Real-time
    /// Does not allocate; sleeps on the memory itself.
    pub fn wait(&mut self, limit: Duration) -> Result<(), WaitError> {
        let end = Deadline::after(limit);
        if !self.watches_age() {
            return self.place.wait(&self.attachment, end);
        }
        if self.reported_stale.is_some() && !self.is_stale() {
            self.reported_stale = None;
            if !self.reader().has_new() {
                return Err(WaitError::Changed(State::Open));
            }
        }
        // Each value is reported as stale once, also one that arrived and aged since the last wait.
        let written_ns = self.reader().written_ns();
        let is_reported = self.reported_stale.is_some() && self.reported_stale == written_ns;
        let stale_at = if is_reported { None } else { self.stale_at() };
        let until = stale_at.map_or(end, |at| Deadline::at_ns(at).min(end));
        match self.place.wait(&self.attachment, until) {
            Err(WaitError::TimedOut) if !is_reported && self.report_stale() => {
                Err(WaitError::Changed(State::Stale))
            }
            other => other,
        }
    }

    /// Counts the latest value as stale, once, where this reader itself checks the age. True if it
    /// was counted now.
    pub(super) fn report_stale(&mut self) -> bool {
        if !self.watches_age() || !self.is_stale() {
            return false;
        }
        let written_ns = self.reader().written_ns();
        if self.reported_stale.is_some() && self.reported_stale == written_ns {
            return false;
        }
        self.reported_stale = written_ns;
        self.attachment.stale.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Adds what announces the changes of this area, for a thread that waits for several. It looks
    /// again at the time that is returned: then the state may change without an announcement.
    pub(super) fn add_to(&mut self, signals: &mut Signals) -> Deadline {
        let look = self.place.add_to(&self.attachment, signals);
        match self.state() {
            Some(State::Open) if self.watches_age() => {
                self.stale_at().map_or(look, |at| Deadline::at_ns(at).min(look))
            }
            _ => look,
        }
    }

    /// Whether this reader itself checks the age of values.
    fn watches_age(&self) -> bool {
        self.attachment.local && matches!(self.attachment.role, Role::Reader { qos } if qos.deadline > 0)
    }

    /// The time from which the latest value is stale.
    fn stale_at(&mut self) -> Option<u64> {
        let Role::Reader { qos } = self.attachment.role else { return None };
        let interval = crate::node::interval(&qos, self.reader().period_ns());
        Some(self.reader().written_ns()?.saturating_add(qos.deadline).saturating_add(interval))
    }

    fn is_stale(&mut self) -> bool {
        self.stale_at().is_some_and(|at| Deadline::at_ns(at).is_past())
    }

    /// The area's state; `None` when its memory is corrupted. [`State::Stale`] when the latest
    /// value is older than this reader's deadline and the values' period together.
    pub fn state(&mut self) -> Option<State> {
        match self.place.state(&self.attachment) {
            Some(State::Open) if self.watches_age() && self.is_stale() => Some(State::Stale),
            state => state,
        }
    }

    /// Pushes changes of the area as events, by a thread of ordinary priority, until the notifier
    /// is dropped. This reader may be dropped before.
    ///
    /// # Errors
    /// `WrongSize` where this library has reached its limit of notifiers; `Unavailable`.
    pub fn notify(&self, sink: impl EventSink, what: EventQoS) -> Result<Notifier, Error> {
        self.handle().notify(sink, what)
    }

    /// Bytes of the largest value.
    pub fn size(&self) -> usize {
        self.place.size()
    }

    /// Starts or stops the channel from another node.
    ///
    /// # Errors
    /// `Unavailable`, also where the area is of this node.
    pub fn set_running(&self, running: bool) -> Result<(), Error> {
        self.handle().set_running(running)
    }

    /// The server's counts.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.handle().statistics()
    }

    /// The type of the area's values.
    pub fn data_type(&self) -> &DataType {
        &self.attachment.data
    }

    #[inline]
    fn reader(&mut self) -> &mut Reader {
        self.place.follow(&self.attachment)
    }
}

impl AreaReader {
    /// Copies the latest value, new or not.
    ///
    /// # Errors
    /// [`ReadError`].
    ///
    /// # Real-time
    /// As [`Reader::latest`].
    #[inline]
    pub fn latest(&mut self, out: &mut [u8]) -> Result<Sample, ReadError> {
        self.place.latest(&self.attachment, out)
    }

    /// Reads the latest value in place; see [`Reader::read_with`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_with<T>(&mut self, look: impl FnMut(View<'_>) -> T) -> Result<(T, Sample), ReadError> {
        self.place.read_with(&self.attachment, look)
    }

    /// Leases the latest value; see [`Reader::lease`]. The lease outlives this reader.
    ///
    /// # Errors
    /// [`ReadError`].
    ///
    /// # Real-time
    /// As [`Reader::lease`].
    pub fn lease(&mut self) -> Result<Lease, ReadError> {
        self.place.lease(&self.attachment)
    }

    /// Copies the oldest unread value that the area still keeps.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn next(&mut self, out: &mut [u8]) -> Result<Option<Sample>, ReadError> {
        self.place.next(&self.attachment, out)
    }

    /// Copies the value that came `back` values before the latest.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn history(&mut self, back: usize, out: &mut [u8]) -> Result<Sample, ReadError> {
        self.reader().history(back, out)
    }
}

/// A reader's attachment, without its position in the memory.
pub(super) struct ReaderHandle(Arc<Attachment>);

impl ReaderHandle {
    /// Another reader of the attachment, which has read nothing yet.
    fn reader(&self) -> Result<AreaReader, Error> {
        AreaReader::new(self.0.clone())
    }

    /// See [`AreaReader::notify`].
    pub fn notify(&self, sink: impl EventSink, what: EventQoS) -> Result<Notifier, Error> {
        Notifier::start(self.reader()?, Box::new(sink), what, self.0.session.notifiers())
    }

    /// See [`AreaReader::set_running`].
    pub fn set_running(&self, running: bool) -> Result<(), Error> {
        let (server, session) = self.0.session.server()?;
        Ok(server.set_running(session, self.0.ticket(), running)?)
    }

    /// See [`AreaReader::statistics`].
    pub fn statistics(&self) -> Result<Statistics, Error> {
        let mut statistics = self.0.library().statistics(self.0.ticket())?;
        statistics.stale += self.0.stale.load(Ordering::Relaxed);
        Ok(statistics)
    }
}

impl fmt::Debug for ReaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReaderHandle").field(&self.0.name).finish()
    }
}

impl<T: ?Sized> fmt::Debug for AreaWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AreaWriter").field("name", &self.attachment.name).finish_non_exhaustive()
    }
}

impl<T: ?Sized> fmt::Debug for AreaReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AreaReader").field("name", &self.attachment.name).finish_non_exhaustive()
    }
}
