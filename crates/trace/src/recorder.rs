//! The recorder: a ring of fixed-size records for each thread.
//!
//! Each thread writes to a ring of its own without a lock and without formatting. The newest
//! records overwrite the oldest. A [snapshot](Recorder::snapshot) leaves out records that are
//! overwritten while it reads.

use crate::processors::{OccupiedSlot, ProcessorTable, RunStart};
use crate::record::{Record, RecordKind, Track};
use crate::ring::Ring;
use isorb_rt::pool::IndexPool;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The sizes of a [`Recorder`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecorderLimits {
    /// Threads that may write; 0 for a recorder that is always off.
    pub threads: usize,
    /// Records of each thread, rounded up to a power of two.
    pub records: usize,
    /// Processors with a slot in the table of runs.
    pub processors: usize,
    /// Priority levels.
    pub levels: usize,
}

/// The rings of all threads, and the table of running consumers that detects pre-emptions.
pub struct Recorder {
    id: u64,
    on: AtomicBool,
    free: IndexPool,
    rings: Box<[Arc<Ring>]>,
    processors: ProcessorTable,
    lost: AtomicU64,
}

/// A run that [`Recorder::begin`] recorded, to be passed to [`Recorder::end`].
#[derive(Debug)]
pub struct OpenRun {
    begun_at: u64,
    slot: Option<OccupiedSlot>,
}

static IDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The calling thread's ring in each recorder that it has written to.
    static OWN_RINGS: RefCell<Vec<OwnRing>> = const { RefCell::new(Vec::new()) };
}

/// A thread's ring in one recorder.
struct OwnRing {
    recorder: u64,
    number: usize,
    ring: Arc<Ring>,
    /// Counts the runs that this thread has begun.
    turn: u16,
    /// Runs of this thread that have begun and not ended.
    depth: u16,
}

impl Recorder {
    /// A recorder of these sizes. All memory is allocated here.
    pub fn new(limits: RecorderLimits, on: bool) -> Recorder {
        let RecorderLimits { threads, records, processors, levels } = limits;
        let size = records.next_power_of_two();
        Recorder {
            id: IDS.fetch_add(1, Relaxed),
            on: AtomicBool::new(on && threads > 0),
            free: IndexPool::new(threads),
            rings: (0..threads).map(|_| Arc::new(Ring::new(size))).collect(),
            processors: ProcessorTable::new(if threads > 0 { processors } else { 0 }, levels),
            lost: AtomicU64::new(0),
        }
    }

    /// Returns true while records are taken.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Starts or stops recording.
    pub fn switch(&self, on: bool) {
        self.on.store(on && !self.rings.is_empty(), Relaxed);
    }

    /// Records that were lost because more threads wrote than there are rings.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Writes a record if the recorder is on.
    ///
    /// # Real-time
    /// Neither allocates nor blocks, except for a thread's first record: that takes a ring and
    /// copies the thread's name.
    #[inline]
    pub fn record(&self, record: Record) {
        if self.is_on() {
            self.write(record);
        }
    }

    fn write(&self, record: Record) {
        self.with_own_ring(|own| own.ring.write(record));
    }

    /// Records that a consumer begins to run, after the [`RecordKind::Preempt`] of the consumer
    /// that loses the processor to it, if any. `record` is its [`RecordKind::Begin`].
    ///
    /// # Real-time
    /// As [`record`](Self::record), and reads one slot of this processor for each less urgent
    /// level.
    #[inline]
    pub fn begin(&self, record: Record) -> Option<OpenRun> {
        if self.is_on() { self.write_begin(record) } else { None }
    }

    fn write_begin(&self, record: Record) -> Option<OpenRun> {
        self.with_own_ring(|own| {
            let Record { at, level, id, .. } = record;
            own.turn = own.turn.wrapping_add(1);
            let ring = u16::try_from(own.number).ok().filter(|ring| *ring < u16::MAX);
            let nested = own.depth > 0;
            let slot = ring.and_then(|ring| {
                self.processors.enter(current_cpu(), RunStart { ring, turn: own.turn, nested, id, level })
            });
            own.depth += 1;
            if let Some(preempted) = slot.as_ref().and_then(|slot| slot.preempted) {
                let (a, b) = (u64::from(level), u64::from(id));
                let kind = RecordKind::Preempt;
                own.ring.write(Record { at, kind, level: preempted.level, id: preempted.id, a, b });
            }
            own.ring.write(record);
            OpenRun { begun_at: at, slot }
        })
    }

    /// Records that a consumer returned. `record` is its [`RecordKind::End`].
    ///
    /// # Real-time
    /// As [`record`](Self::record).
    #[inline]
    pub fn end(&self, run: Option<OpenRun>, record: Record) {
        match run {
            Some(run) => self.write_end(run, record),
            None => self.record(record),
        }
    }

    fn write_end(&self, run: OpenRun, mut record: Record) {
        self.with_own_ring(|own| {
            own.depth = own.depth.saturating_sub(1);
            let moved = run.slot.as_ref().is_some_and(|slot| slot.cpu() != current_cpu());
            record.b |= u64::from(moved) << 1;
            // The run leaves its slot even if the recorder was switched off meanwhile.
            let preempted = run.slot.and_then(|slot| self.processors.leave(slot));
            if !self.is_on() {
                return;
            }
            own.ring.write(record);
            // After a move to another processor it is unknown how long the pre-emption lasted.
            if let Some(preempted) = preempted.filter(|_| !moved) {
                own.ring.write(Record {
                    kind: RecordKind::Resume,
                    level: preempted.level,
                    id: preempted.id,
                    a: record.at.saturating_sub(run.begun_at),
                    b: record.id.into(),
                    ..record
                });
            }
        });
    }

    /// Calls `with` with the calling thread's ring; counts a lost record if no ring is free for it.
    fn with_own_ring<T>(&self, with: impl FnOnce(&mut OwnRing) -> T) -> Option<T> {
        OWN_RINGS.with(|rings| {
            let mut rings = rings.borrow_mut();
            if let Some(own) = rings.iter_mut().find(|own| own.recorder == self.id) {
                return Some(with(own));
            }
            match self.take_ring() {
                Some(own) => {
                    rings.push(own);
                    rings.last_mut().map(with)
                }
                None => {
                    self.lost.fetch_add(1, Relaxed);
                    None
                }
            }
        })
    }

    /// Takes a ring for the calling thread. The ring keeps the thread's records after the thread
    /// ends.
    #[cold]
    fn take_ring(&self) -> Option<OwnRing> {
        let number = self.free.take()?;
        let ring = self.rings[number].clone();
        ring.set_thread(std::thread::current().name().unwrap_or("unnamed"));
        Some(OwnRing { recorder: self.id, number, ring, turn: 0, depth: 0 })
    }

    /// A copy of all records.
    ///
    /// # Real-time
    /// Allocates. Threads that write are not disturbed.
    pub fn snapshot(&self) -> Vec<Track> {
        self.rings.iter().filter(|ring| !ring.is_empty()).map(|ring| ring.read()).collect()
    }
}

/// The processor that runs this thread. A loom model has only processor 0.
#[inline]
fn current_cpu() -> usize {
    #[cfg(not(loom))]
    return isorb_rt::sched::current_cpu();
    #[cfg(loom)]
    0
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("on", &self.is_on()).field("rings", &self.rings.len()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn record(n: u64) -> Record {
        Record { at: n, kind: RecordKind::Begin, level: 3, id: 7, a: n * 2, b: n * 3 }
    }

    fn recorder(records: usize, on: bool) -> Arc<Recorder> {
        Arc::new(Recorder::new(RecorderLimits { threads: 1, records, processors: 1, levels: 4 }, on))
    }

    #[test]
    fn newest_records_are_kept() {
        let recorder = recorder(4, true);
        (1..=6).for_each(|n| recorder.record(record(n)));
        let tracks = recorder.snapshot();
        assert_eq!(tracks.len(), 1);
        assert_eq!(tracks[0].overwritten, 2);
        assert_eq!(tracks[0].records, (3..=6).map(record).collect::<Vec<_>>());
    }

    #[test]
    fn records_nothing_while_off_and_counts_losses_of_threads_without_a_ring() {
        let recorder = recorder(4, false);
        recorder.record(record(1));
        assert!(recorder.snapshot().is_empty());
        recorder.switch(true);
        recorder.record(record(2));
        let other = recorder.clone();
        std::thread::spawn(move || other.record(record(3))).join().unwrap();
        assert_eq!((recorder.lost(), recorder.snapshot()[0].records.len()), (1, 1));
    }

    #[test]
    fn a_reader_sees_no_torn_record() {
        let recorder = recorder(8, true);
        let writer = recorder.clone();
        let t = std::thread::spawn(move || (1..200_000).for_each(|n| writer.record(record(n))));
        while !t.is_finished() {
            for track in recorder.snapshot() {
                for r in &track.records {
                    assert_eq!(*r, record(r.at));
                }
                assert!(track.records.windows(2).all(|w| w[0].at + 1 == w[1].at));
            }
        }
        t.join().unwrap();
    }
}
