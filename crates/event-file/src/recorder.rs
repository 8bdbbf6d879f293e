//! Writes a recording from a thread of its own, which no event waits for.

use crate::format::{Loss, LossCause, Record, RecordedEvent, Totals, event_length, header, write};
use isorb_rt::sched::{Thread, ThreadSpec};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{SystemTime, UNIX_EPOCH};

/// How long the thread collects events before it writes them.
const COLLECT_NS: u64 = 2_000_000;
/// The most types and sources with losses of their own, until these are written.
const MAX_LOSSES: usize = 1024;
/// Room in the buffer for the records of such losses.
const LOSS_ROOM: usize = 64;

/// How a recorder works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecorderOptions {
    /// Octets of events that may wait for the disk. Twice as much memory is allocated. Events
    /// beyond are lost and counted.
    pub buffer: usize,
}

impl Default for RecorderOptions {
    /// 32 MiB.
    fn default() -> Self {
        RecorderOptions { buffer: 32 << 20 }
    }
}

/// The counts of a recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordingCounts {
    /// Events in the file.
    pub events: u64,
    /// Octets of their payloads, lost ones included.
    pub octets: u64,
    /// Events that were lost on their way to the recorder.
    pub lost_on_the_way: u64,
    /// Events that did not fit into the buffer.
    pub buffer_full: u64,
    /// Events that the disk did not take.
    pub not_written: u64,
    /// Events that came, or were noticed as lost, when the recording had ended. They are no part
    /// of it, and not among the lost ones.
    pub after_end: u64,
}

impl RecordingCounts {
    /// Events that are not in the file, for all causes.
    pub fn lost(&self) -> u64 {
        self.lost_on_the_way.saturating_add(self.buffer_full).saturating_add(self.not_written)
    }
}

/// Records events into a file.
///
/// Events are copied into a bounded buffer, and a thread writes them. If the disk is full or fails,
/// the events of that time are counted, the first such error is logged, and the file stays whole;
/// when the disk takes events again the file tells of the gap.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: PiMutex<Option<Thread<()>>>,
}

struct Shared {
    path: PathBuf,
    start: u64,
    buffer: usize,
    state: PiMutex<State>,
    /// The file does not take events.
    failed: AtomicBool,
    stopped: AtomicBool,
    wake: Parker,
}

/// Losses by cause, type and source.
type Losses = BTreeMap<(u8, i32, i32), u64>;

struct State {
    /// Records that wait for the thread.
    records: Vec<u8>,
    /// The events in them.
    events: u64,
    losses: Losses,
    counts: RecordingCounts,
    /// The recording has ended. Under the lock, so that an event is either before the end, and
    /// written, or behind it, and counted.
    ended: bool,
}

impl Recorder {
    /// Creates the file, in place of one that is there.
    ///
    /// # Errors
    /// The file cannot be created, or the thread not started.
    pub fn create(path: impl AsRef<Path>, options: RecorderOptions) -> io::Result<Recorder> {
        let path = path.as_ref().to_owned();
        let mut file = File::create(&path)?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = header(u64::try_from(started.as_nanos()).unwrap_or(u64::MAX));
        file.write_all(&header)?;
        let room = || -> io::Result<Vec<u8>> {
            let mut records = Vec::new();
            records.try_reserve_exact(options.buffer).map_err(|_| io::ErrorKind::OutOfMemory)?;
            Ok(records)
        };
        let state = State {
            records: room()?,
            events: 0,
            losses: Losses::new(),
            counts: RecordingCounts::default(),
            ended: false,
        };
        let shared = Arc::new(Shared {
            path,
            start: now_ns(),
            buffer: options.buffer,
            state: PiMutex::new(state),
            failed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            wake: Parker::new(),
        });
        let output = Output { file, written: header.len() as u64, spare: room()?, losses: Losses::new() };
        let of = shared.clone();
        let thread = ThreadSpec::inheriting("event-recorder")
            .spawn(move || output.run(&of))
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Recorder { shared, thread: PiMutex::new(Some(thread)) })
    }

    /// Records an event; `at_ns` is set to the present time. An event behind the end of the
    /// recording is counted in [`RecordingCounts::after_end`].
    ///
    /// # Real-time
    /// Does not allocate, except for the first loss of a type and source while the buffer is full.
    /// One PI lock, for a copy of the data and its checksum. Wakes the thread if it has nothing to
    /// do.
    pub fn record(&self, event: &RecordedEvent<'_>) {
        let mut state = self.shared.state.lock();
        // Under the lock, so that times ascend in the file.
        let at_ns = self.now();
        if state.ended {
            state.counts.after_end += 1;
            return;
        }
        state.counts.octets += (event.octets.len() + event.any.len()) as u64;
        let length = event_length(event).filter(|length| {
            state.records.len().saturating_add(*length).saturating_add(LOSS_ROOM) <= self.shared.buffer
        });
        if length.is_none() {
            state.counts.buffer_full += 1;
            return state.lose(LossCause::BufferFull, event.event_type, event.source, 1);
        }
        let was_empty = state.records.is_empty();
        write(&mut state.records, &Record::Event(RecordedEvent { at_ns, ..*event }));
        state.events += 1;
        drop(state);
        if was_empty {
            self.shared.wake.unpark();
        }
    }

    /// Records that events of this type and source were lost on their way. A loss behind the end of
    /// the recording is counted in [`RecordingCounts::after_end`].
    ///
    /// # Real-time
    /// As [`record`](Self::record); allocates for the first loss of a type and source.
    pub fn record_loss(&self, event_type: i32, source: i32, count: u64) {
        let mut state = self.shared.state.lock();
        if state.ended {
            state.counts.after_end = state.counts.after_end.saturating_add(count);
            return;
        }
        state.counts.lost_on_the_way = state.counts.lost_on_the_way.saturating_add(count);
        state.lose(LossCause::OnTheWay, event_type, source, count);
        drop(state);
        self.shared.wake.unpark();
    }

    /// Takes back the loss of one event of this type and source: it has come late. Where the loss
    /// is in the file already its record stays, and the sums at the end are without it.
    ///
    /// # Real-time
    /// One PI lock for a short section. Frees memory where it was the only loss of its type and
    /// source.
    pub fn record_late(&self, event_type: i32, source: i32) {
        let mut state = self.shared.state.lock();
        if !state.ended {
            state.take_back(event_type, source);
        }
    }

    /// The counts so far. Events that wait for the disk are not in them.
    pub fn counts(&self) -> RecordingCounts {
        self.shared.state.lock().counts
    }

    /// Nanoseconds from the start of the recording.
    fn now(&self) -> u64 {
        now_ns().saturating_sub(self.shared.start)
    }

    /// Writes what waits, and the end of the recording. Later events are not recorded.
    ///
    /// # Errors
    /// The disk did not take the end. What was written before is whole.
    pub fn finish(&self) -> io::Result<RecordingCounts> {
        self.stop();
        match self.shared.failed.load(Acquire) {
            false => Ok(self.counts()),
            true => Err(io::Error::other(format!(
                "{}: the disk did not take the end of the recording; {} events are not in it",
                self.shared.path.display(),
                self.counts().not_written
            ))),
        }
    }

    fn stop(&self) {
        self.shared.state.lock().ended = true;
        self.shared.stopped.store(true, Release);
        self.shared.wake.unpark();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl State {
    fn lose(&mut self, cause: LossCause, event_type: i32, source: i32, count: u64) {
        add(&mut self.losses, (cause as u8, event_type, source), count);
    }

    /// Takes back the loss of one event on its way.
    fn take_back(&mut self, event_type: i32, source: i32) {
        self.counts.lost_on_the_way = self.counts.lost_on_the_way.saturating_sub(1);
        let key = (LossCause::OnTheWay as u8, event_type, source);
        if let Some(count) = self.losses.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.losses.remove(&key);
            }
        }
    }
}

/// Adds to the losses. When there are too many types and sources, new ones are added up as type and
/// source 0.
fn add(losses: &mut Losses, (cause, event_type, source): (u8, i32, i32), count: u64) {
    let key = (cause, event_type, source);
    let key = if losses.len() < MAX_LOSSES || losses.contains_key(&key) { key } else { (cause, 0, 0) };
    let sum = losses.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

/// The thread's side.
struct Output {
    file: File,
    /// The length of the file up to the last whole record.
    written: u64,
    /// The other buffer.
    spare: Vec<u8>,
    /// Losses that are not in the file yet.
    losses: Losses,
}

impl Output {
    fn run(mut self, shared: &Shared) {
        loop {
            let stopped = shared.stopped.load(Acquire);
            if !stopped {
                shared.wake.park_until(Deadline::NONE);
                // Larger writes cost less. An event waits no longer for it.
                if !shared.stopped.load(Acquire) {
                    sleep_until(Deadline::at_ns(now_ns() + COLLECT_NS));
                }
            }
            while self.write_waiting(shared) {}
            if stopped {
                self.write_end(shared);
                return;
            }
        }
    }

    /// Writes what waits. Returns false if there was nothing.
    fn write_waiting(&mut self, shared: &Shared) -> bool {
        let mut state = shared.state.lock();
        if state.records.is_empty() && state.losses.is_empty() {
            return false;
        }
        std::mem::swap(&mut state.records, &mut self.spare);
        let events = std::mem::take(&mut state.events);
        let lost = std::mem::take(&mut state.losses);
        drop(state);
        lost.into_iter().for_each(|(key, count)| add(&mut self.losses, key, count));
        // Losses of an earlier failure come first: they tell of the gap before these events.
        let told = self.tell_losses(shared);
        let written = told.and_then(|()| {
            let records = std::mem::take(&mut self.spare);
            let written = self.append(&records);
            self.spare = records;
            written
        });
        self.spare.clear();
        match written {
            Ok(()) => {
                shared.state.lock().counts.events += events;
                if shared.failed.swap(false, AcqRel) {
                    isorb_rt::log::info(
                        "isorb::event",
                        format_args!("{}: the disk takes events again", shared.path.display()),
                    );
                }
            }
            Err(error) => {
                shared.state.lock().counts.not_written += events;
                if events > 0 {
                    add(&mut self.losses, (LossCause::NotWritten as u8, 0, 0), events);
                }
                shared.report(&error);
            }
        }
        true
    }

    fn tell_losses(&mut self, shared: &Shared) -> io::Result<()> {
        if self.losses.is_empty() {
            return Ok(());
        }
        let at_ns = now_ns().saturating_sub(shared.start);
        let mut records = Vec::new();
        for ((cause, event_type, source), count) in &self.losses {
            let (event_type, source, count) = (*event_type, *source, *count);
            let cause = match cause {
                1 => LossCause::OnTheWay,
                2 => LossCause::BufferFull,
                _ => LossCause::NotWritten,
            };
            write(&mut records, &Record::Loss(Loss { cause, event_type, source, count, at_ns }));
        }
        self.append(&records)?;
        self.losses.clear();
        Ok(())
    }

    fn write_end(&mut self, shared: &Shared) {
        let RecordingCounts { events, .. } = shared.state.lock().counts;
        let lost = shared.state.lock().counts.lost();
        let at_ns = now_ns().saturating_sub(shared.start);
        let mut record = Vec::new();
        write(&mut record, &Record::End(Totals { at_ns, events, lost }));
        let ended =
            self.tell_losses(shared).and_then(|()| self.append(&record)).and_then(|()| self.file.sync_data());
        match ended {
            Ok(()) => shared.failed.store(false, Release),
            Err(error) => shared.report(&error),
        }
    }

    /// Appends whole records, all or none.
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        match self.file.write_all(records) {
            Ok(()) => {
                self.written += records.len() as u64;
                Ok(())
            }
            Err(error) => {
                // What was written of them is taken back, so that the file ends with a whole
                // record. If not even that works, readers skip it.
                let _ = self.file.set_len(self.written);
                let _ = self.file.seek(SeekFrom::Start(self.written));
                Err(error)
            }
        }
    }
}

impl Shared {
    /// Logs the first error of a row.
    fn report(&self, error: &io::Error) {
        if !self.failed.swap(true, Relaxed) {
            isorb_rt::log::warn(
                "isorb::event",
                format_args!(
                    "{}: {error}: events are not recorded and counted until the disk takes them again",
                    self.path.display()
                ),
            );
        }
    }
}
