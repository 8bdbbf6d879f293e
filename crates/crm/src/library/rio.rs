//! RIO: the library as a CORBA object in the application's own process.

use super::{AreaReader, AreaWriter, Library, Notifier, RemoteChannel};
use crate::Error;
use crate::idl::{
    AreaView, EventQoS, Lost, NoValueYet, OctetsView, Overwritten, RIO, RIORef, ReaderQoS,
    Sample as IdlSample, Statistics, TimedOut, WriterQoS, rio,
};
use crate::memory::{ReadError, Sample, State, WaitError};
use crate::node::{idl_state, owned_area};
use isorb::{Orb, Result, Upcall};
use isorb_event::face::stamped::rtec_event_channel_admin::EventChannelRef;
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The servant. One a process; calls from the process itself are function calls, other processes' come by GIOP with the data.
#[derive(Debug)]
pub struct Rio {
    library: Library,
    table: PiMutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<u64, Arc<PiMutex<Entry>>>,
    last: u64,
}

#[derive(Debug)]
enum Entry {
    Writer(AreaWriter),
    /// With memory for one value.
    Reader(AreaReader, Vec<u8>),
    Events(Notifier),
}

/// At most so many writers and readers of one RIO.
const ENTRIES: usize = 65_536;
/// A wait that was asked for without bound ends after this all the same: the caller's thread is the ORB's.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Rio {
    /// Activates the object below the root POA and binds it in the ORB's naming service, if there is one, as
    /// `crm-HOST-PROCESS-START`.
    ///
    /// # Errors
    /// What the ORB says. A naming service that is configured and cannot be reached is an error.
    pub fn activate(orb: &Orb, library: &Library) -> std::result::Result<(RIORef, String), Error> {
        let servant = Arc::new(Rio { library: library.clone(), table: PiMutex::new(Table::default()) });
        let object: RIORef = orb.root_poa()?.activate(servant).map_err(Error::unavailable)?;
        let name = process_name();
        if orb.config().init_refs.contains_key("NameService") {
            orb.naming()?.bind(&name, &object)?;
        }
        Ok((object, name))
    }

    fn enter(&self, entry: Entry) -> std::result::Result<u64, Error> {
        let mut table = self.table.lock();
        if table.entries.len() >= ENTRIES {
            return Err(Error::unavailable("this RIO has as many writers and readers as it may"));
        }
        table.last += 1;
        let handle = table.last;
        table.entries.insert(handle, Arc::new(PiMutex::new(entry)));
        Ok(handle)
    }

    fn entry(&self, which: u64) -> std::result::Result<Arc<PiMutex<Entry>>, Error> {
        self.table.lock().entries.get(&which).cloned().ok_or_else(|| Error::unknown_handle(which))
    }

    fn read<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        get: impl FnOnce(&mut AreaReader, &mut [u8]) -> std::result::Result<Sample, Failure>,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadLatestError> {
        let unknown = || rio::ReadLatestError::from(crate::idl::UnknownHandle { which });
        let entry = self.entry(which).map_err(|_| unknown())?;
        let mut entry = entry.lock();
        let Entry::Reader(reader, value) = &mut *entry else { return Err(unknown()) };
        match get(reader, value) {
            Ok(sample) => Ok((cx.slice(&value[..sample.len])?, idl_sample(&sample))),
            Err(failure) => Err(failure.raise(idl_state(reader.state()))),
        }
    }
}

/// Host, process and the time at which it started: a number that is given out again after a process ended names another object.
fn process_name() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().replace(['/', '.', '\\'], "-");
    format!("crm-{host}-{}-{}", std::process::id(), start_of_process())
}

/// Field 22 of /proc/self/stat, after the name in parentheses (proc(5)).
fn start_of_process() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_ascii_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

pub(super) fn idl_sample(sample: &Sample) -> IdlSample {
    IdlSample {
        number: sample.sequence,
        source: sample.source,
        writer: sample.epoch,
        age: sample.age_ns(),
        missed: sample.missed,
    }
}

/// Why a read gave no value.
enum Failure {
    Read(ReadError),
    TimedOut,
    Final(State),
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Failure::Read(error)
    }
}

impl Failure {
    fn raise(self, now: crate::idl::State) -> rio::ReadLatestError {
        match self {
            Failure::Read(ReadError::Empty) => NoValueYet {}.into(),
            Failure::Read(ReadError::Gone | ReadError::Lapped) => Overwritten {}.into(),
            Failure::Read(error) => Lost { now, reason: error.to_string() }.into(),
            Failure::TimedOut => TimedOut { now }.into(),
            Failure::Final(state) => Lost { now, reason: format!("the area is {state}") }.into(),
        }
    }
}

/// Waits for a value that was not read; a change of state that is not final does not end the wait.
fn wait(reader: &mut AreaReader, patience_ns: u64) -> std::result::Result<(), Failure> {
    let deadline = now_ns().saturating_add(patience_ns.min(LONGEST_WAIT.as_nanos() as u64));
    loop {
        let left = Duration::from_nanos(deadline.saturating_sub(now_ns()));
        match reader.wait(left) {
            Ok(()) => return Ok(()),
            Err(WaitError::Changed(state)) if state.is_final() => return Err(Failure::Final(state)),
            Err(WaitError::Changed(_)) if !Deadline::at_ns(deadline).is_past() => {}
            Err(WaitError::Changed(_) | WaitError::TimedOut) => return Err(Failure::TimedOut),
            Err(WaitError::Damaged) => return Err(ReadError::Damaged.into()),
        }
    }
}

impl RIO for Rio {
    fn create_area(&self, _: Upcall<'_>, what: AreaView<'_>) -> Result<(), rio::CreateAreaError> {
        Ok(self.library.create_area(&owned_area(&what))?)
    }

    fn destroy_area(&self, _: Upcall<'_>, name: &str) -> Result<(), rio::DestroyAreaError> {
        Ok(self.library.destroy_area(name)?)
    }

    fn map_writer(&self, _: Upcall<'_>, name: &str, qos: WriterQoS) -> Result<u64, rio::MapWriterError> {
        Ok(self.enter(Entry::Writer(self.library.map_writer(name, qos)?))?)
    }

    fn attach_reader(
        &self,
        _: Upcall<'_>,
        name: &str,
        qos: ReaderQoS,
    ) -> Result<u64, rio::AttachReaderError> {
        let reader = self.library.attach_reader(name, qos)?;
        let value = vec![0; reader.size()];
        Ok(self.enter(Entry::Reader(reader, value))?)
    }

    fn detach(&self, _: Upcall<'_>, which: u64) -> Result<(), rio::DetachError> {
        let entry = self.table.lock().entries.remove(&which);
        Ok(entry.map(drop).ok_or_else(|| Error::unknown_handle(which))?)
    }

    fn write(&self, _: Upcall<'_>, which: u64, data: OctetsView<'_>) -> Result<u64, rio::WriteError> {
        let entry = self.entry(which)?;
        let mut entry = entry.lock();
        let Entry::Writer(writer) = &mut *entry else { return Err(Error::unknown_handle(which).into()) };
        Ok(writer.write(data).map_err(|error| Error::wrong_size("the value", error.len, error.limit))?)
    }

    fn read_latest<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        max_age: u64,
        patience: u64,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadLatestError> {
        self.read(cx, which, |reader, value| {
            let good = |sample: &Sample| max_age == 0 || sample.age_ns() <= max_age;
            match reader.latest(value) {
                Ok(sample) if good(&sample) => return Ok(sample),
                Ok(_) => {}
                Err(ReadError::Empty) if patience > 0 => {}
                Err(error) => return Err(error.into()),
            }
            wait(reader, patience)?;
            let sample = reader.latest(value)?;
            if good(&sample) { Ok(sample) } else { Err(Failure::TimedOut) }
        })
    }

    fn read_next<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        patience: u64,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadNextError> {
        self.read(cx, which, |reader, value| {
            if let Some(sample) = reader.next(value)? {
                return Ok(sample);
            }
            wait(reader, patience)?;
            reader.next(value)?.ok_or(Failure::TimedOut)
        })
    }

    fn read_history<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        back: u32,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadHistoryError> {
        self.read(cx, which, |reader, value| Ok(reader.history(back as usize, value)?))
    }

    fn start(&self, _: Upcall<'_>, which: u64) -> Result<(), rio::StartError> {
        Ok(self.set_running(which, true)?)
    }

    fn stop(&self, _: Upcall<'_>, which: u64) -> Result<(), rio::StopError> {
        Ok(self.set_running(which, false)?)
    }

    fn get_statistics(&self, _: Upcall<'_>, which: u64) -> Result<Statistics, rio::GetStatisticsError> {
        let entry = self.entry(which)?;
        let entry = entry.lock();
        Ok(match &*entry {
            Entry::Writer(writer) => writer.statistics()?,
            Entry::Reader(reader, _) => reader.statistics()?,
            Entry::Events(notifier) => notifier.statistics()?,
        })
    }

    fn notify(
        &self,
        _: Upcall<'_>,
        reader: u64,
        channel: Option<&EventChannelRef>,
        what: EventQoS,
    ) -> Result<u64, rio::NotifyError> {
        let entry = self.entry(reader)?;
        let channel = channel.ok_or_else(|| Error::unavailable("the event channel is nil"))?;
        let remote = RemoteChannel::connect(channel)?;
        let notifier = match &*entry.lock() {
            Entry::Reader(reader, _) => reader.notify(remote, what)?,
            _ => return Err(Error::unknown_handle(reader).into()),
        };
        Ok(self.enter(Entry::Events(notifier))?)
    }
}

impl Rio {
    fn set_running(&self, which: u64, running: bool) -> std::result::Result<(), Error> {
        let entry = self.entry(which)?;
        let entry = entry.lock();
        match &*entry {
            Entry::Reader(reader, _) => reader.set_running(running),
            _ => Err(Error::unavailable("only a reader has a channel of its own")),
        }
    }
}
