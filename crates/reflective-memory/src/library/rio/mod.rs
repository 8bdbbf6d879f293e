//! RIO: the library as a CORBA object in the application's own process.

mod entries;
mod name;

use super::{AreaReader, Library, RemoteChannel};
use crate::Error;
use crate::error::CallerError;
use crate::idl::{
    AreaView, EventQoS, Lost, NoValueYet, OctetsView, Overwritten, RIO, RIORef, ReaderQoS,
    Sample as IdlSample, Statistics, TimedOut, WriterQoS, rio,
};
use crate::memory::{ReadError, Sample, State, WaitError};
use crate::node::{idl_state, owned_area};
use entries::{Entries, Entry, Reader};
use isorb::{Orb, Result, Upcall};
use isorb_access::may_administer;
use isorb_event::servants::stamped::rtec_event_channel_admin::EventChannelRef;
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

/// The servant. One a process; calls from the process itself are function calls, other processes'
/// come by GIOP with the data.
#[derive(Debug)]
pub struct Rio {
    library: Library,
    entries: Entries,
}

/// The limit of an unbounded wait, because the waiting thread is the ORB's.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The interval at which a waiting call checks whether its reader was detached.
const DETACHED_AFTER: Duration = Duration::from_millis(200);

impl Rio {
    /// Activates the object below the root POA and binds it in the ORB's naming service, if there
    /// is one, as `crm-HOST-PROCESS-START`. A former binding of this process is replaced. Names of
    /// ended processes of this host are removed, because a killed process cannot remove its own.
    ///
    /// # Errors
    /// The ORB's errors. A naming service that is configured and cannot be reached is an error.
    pub fn activate(orb: &Orb, library: &Library) -> std::result::Result<(RIORef, String), Error> {
        let servant = Arc::new(Rio { library: library.clone(), entries: Entries::default() });
        let object: RIORef = orb.root_poa()?.activate(servant).map_err(Error::setup)?;
        let name = name::of_this_process();
        if orb.config().init_refs.contains_key("NameService") {
            let naming = isorb_naming::Naming::initial(orb)?;
            naming.bind(&name, &object)?;
            name::sweep(&naming);
        }
        Ok((object, name))
    }

    fn read<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        timeout: u64,
        get: impl FnOnce(&mut Reading<'_>, &mut [u8]) -> std::result::Result<Sample, Failure>,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadLatestError> {
        let unknown = || rio::ReadLatestError::from(crate::idl::UnknownHandle { which });
        let entry = self.entries.find(which).map_err(|_| unknown())?;
        let Entry::Reader(reader) = &*entry else { return Err(unknown()) };
        let until = Deadline::at_ns(now_ns().saturating_add(timeout.min(LONGEST_WAIT.as_nanos() as u64)));
        // Another call on this handle may be waiting for a value.
        let Ok(mut state) = reader.state.lock_until(until) else {
            return Err(Failure::TimedOut.raise(idl_state(None)));
        };
        let (area, value) = &mut *state;
        match get(&mut Reading { area, reader, until }, value) {
            Ok(sample) => Ok((cx.slice(&value[..sample.len])?, idl_sample(&sample))),
            Err(Failure::Detached) => Err(unknown()),
            Err(failure) => Err(failure.raise(idl_state(area.state()))),
        }
    }
}

pub(super) fn idl_sample(sample: &Sample) -> IdlSample {
    IdlSample {
        number: sample.sequence,
        source: sample.source,
        writer: sample.epoch,
        age: sample.age_ns(),
        age_bound: sample.age_bound_ns().unwrap_or(u64::MAX),
        missed: sample.missed,
    }
}

/// Why a read gave no value.
enum Failure {
    Read(ReadError),
    TimedOut,
    Final(State),
    /// Another call detached the reader.
    Detached,
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
            Failure::Detached => Lost { now, reason: "the reader was detached".into() }.into(),
            Failure::Final(state) => Lost { now, reason: format!("the area is {state}") }.into(),
        }
    }
}

/// One read.
struct Reading<'r> {
    area: &'r mut AreaReader,
    reader: &'r Reader,
    until: Deadline,
}

impl Reading<'_> {
    /// Waits for a value that was not read; a change of state that is not final does not end the
    /// wait.
    fn wait(&mut self) -> std::result::Result<(), Failure> {
        loop {
            if self.reader.detached.load(Acquire) {
                return Err(Failure::Detached);
            }
            let left = self.until.remaining().map_or(DETACHED_AFTER, |left| left.min(DETACHED_AFTER));
            match self.area.wait(left) {
                Ok(()) => return Ok(()),
                Err(WaitError::Changed(state)) if state.is_final() => return Err(Failure::Final(state)),
                Err(WaitError::Changed(_) | WaitError::TimedOut) if !self.until.is_past() => {}
                Err(WaitError::Changed(_) | WaitError::TimedOut) => return Err(Failure::TimedOut),
                Err(WaitError::Damaged) => return Err(ReadError::Damaged.into()),
            }
        }
    }
}

impl RIO for Rio {
    fn create_area(&self, cx: Upcall<'_>, what: AreaView<'_>) -> Result<(), rio::CreateAreaError> {
        may_administer(cx)?;
        Ok(self.library.create_area(&owned_area(&what))?)
    }

    fn destroy_area(&self, cx: Upcall<'_>, name: &str) -> Result<(), rio::DestroyAreaError> {
        may_administer(cx)?;
        Ok(self.library.destroy_area(name)?)
    }

    fn map_writer(&self, cx: Upcall<'_>, name: &str, qos: WriterQoS) -> Result<u64, rio::MapWriterError> {
        may_administer(cx)?;
        Ok(self.entries.enter(Entry::writer(self.library.map_writer(name, qos)?))?)
    }

    fn attach_reader(
        &self,
        cx: Upcall<'_>,
        name: &str,
        qos: ReaderQoS,
    ) -> Result<u64, rio::AttachReaderError> {
        may_administer(cx)?;
        Ok(self.entries.enter(Entry::reader(self.library.attach_reader(name, qos)?))?)
    }

    fn detach(&self, cx: Upcall<'_>, which: u64) -> Result<(), rio::DetachError> {
        may_administer(cx)?;
        Ok(self.entries.remove(which)?)
    }

    fn write(&self, cx: Upcall<'_>, which: u64, data: OctetsView<'_>) -> Result<u64, rio::WriteError> {
        may_administer(cx)?;
        let entry = self.entries.find(which)?;
        let Entry::Writer(writer) = &*entry else { return Err(Error::unknown_handle(which).into()) };
        Ok(writer
            .lock()
            .write(data)
            .map_err(|error| Error::wrong_size("the value", error.len, error.limit))?)
    }

    fn read_latest<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        max_age: u64,
        timeout: u64,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadLatestError> {
        may_administer(cx)?;
        self.read(cx, which, timeout, |reading, value| {
            let good = |sample: &Sample| max_age == 0 || sample.max_age_ns() <= max_age;
            match reading.area.latest(value) {
                Ok(sample) if good(&sample) => return Ok(sample),
                Ok(_) => {}
                Err(ReadError::Empty) if timeout > 0 => {}
                Err(error) => return Err(error.into()),
            }
            reading.wait()?;
            let sample = reading.area.latest(value)?;
            if good(&sample) { Ok(sample) } else { Err(Failure::TimedOut) }
        })
    }

    fn read_next<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        timeout: u64,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadNextError> {
        may_administer(cx)?;
        self.read(cx, which, timeout, |reading, value| {
            if let Some(sample) = reading.area.next(value)? {
                return Ok(sample);
            }
            reading.wait()?;
            reading.area.next(value)?.ok_or(Failure::TimedOut)
        })
    }

    fn read_history<'u>(
        &'u self,
        cx: Upcall<'u>,
        which: u64,
        back: u32,
    ) -> Result<(OctetsView<'u>, IdlSample), rio::ReadHistoryError> {
        may_administer(cx)?;
        // It waits only for another call on this handle.
        self.read(cx, which, 0, |reading, value| Ok(reading.area.history(back as usize, value)?))
    }

    fn start(&self, cx: Upcall<'_>, which: u64) -> Result<(), rio::StartError> {
        may_administer(cx)?;
        Ok(self.set_running(which, true)?)
    }

    fn stop(&self, cx: Upcall<'_>, which: u64) -> Result<(), rio::StopError> {
        may_administer(cx)?;
        Ok(self.set_running(which, false)?)
    }

    fn get_statistics(&self, cx: Upcall<'_>, which: u64) -> Result<Statistics, rio::GetStatisticsError> {
        may_administer(cx)?;
        Ok(match &*self.entries.find(which)? {
            Entry::Writer(writer) => writer.lock().statistics()?,
            Entry::Reader(reader) => reader.handle.statistics()?,
            Entry::Events(notifier) => notifier.lock().statistics()?,
        })
    }

    fn notify(
        &self,
        cx: Upcall<'_>,
        reader: u64,
        channel: Option<&EventChannelRef>,
        what: EventQoS,
    ) -> Result<u64, rio::NotifyError> {
        may_administer(cx)?;
        let entry = self.entries.find(reader)?;
        let Entry::Reader(reading) = &*entry else { return Err(Error::unknown_handle(reader).into()) };
        let channel = channel.ok_or(Error::Caller(CallerError::NilReference("the event channel")))?;
        let remote = RemoteChannel::connect(channel)?;
        let notifier = reading.handle.notify(remote, what)?;
        Ok(self.entries.enter(Entry::events(notifier))?)
    }
}

impl Rio {
    fn set_running(&self, which: u64, running: bool) -> std::result::Result<(), Error> {
        match &*self.entries.find(which)? {
            Entry::Reader(reader) => reader.handle.set_running(running),
            _ => Err(CallerError::NotAReader.into()),
        }
    }
}
