//! What happened, in time: a ring of fixed-size records a thread.
//!
//! Threads write to rings of their own, without a lock, without formatting; the newest records overwrite the oldest. Whoever
//! wants to look takes a [`Snapshot`](Trace::snapshot), which leaves out what was overwritten while it was read.

mod processors;
mod ring;

use isorb_rt::pool::IndexPool;
use processors::{Beginner, Entered, Processors};
use ring::Ring;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum What {
    /// A supplier pushed an event. `a`: type and source (upper and lower half).
    Push = 1,
    /// An event was put into a consumer's queue. `a`: how many wait there.
    Queue = 2,
    /// A consumer began to run. `a`: how long its oldest event waited, in nanoseconds.
    Begin = 3,
    /// It returned. `a`: how long it ran, in nanoseconds; `b`: 1 where it failed, and 2 more where its thread has changed its processor
    /// since it began, so that the records do not tell when it was pre-empted.
    End = 4,
    /// A running consumer lost the processor to a more urgent one that began on it, on another thread or, by its consent, on its own. The more
    /// urgent one's thread writes this; it cannot know whether the other one had work to do in this moment, or waited for something. `a`: the
    /// more urgent one's level; `b`: its number.
    Preempt = 5,
    /// It returned after its deadline. `a`: how late, in nanoseconds; `b`: the deadline.
    Miss = 6,
    /// A time-out fell due. `a`: how late it was noticed, in nanoseconds; `b`: 1 for a deadline time-out.
    Timeout = 7,
    /// A consumer used more processor time than it declared. `a`: used, `b`: declared, in nanoseconds.
    Overrun = 8,
    /// An event was lost to a limit. `a`: which (0 its queue, 1 the pool of copies, 2 larger than a slot, 3 skipped after an overrun).
    Drop = 9,
    /// The more urgent consumer returned, and the pre-empted one has the processor again, unless another one takes it in this moment. The more
    /// urgent one's thread writes this, if the pre-empted one has not returned meanwhile (on another processor). `a`: how long it was
    /// pre-empted, in nanoseconds; `b`: the more urgent one's number.
    Resume = 10,
}

impl What {
    /// What a record's code says, as `self as u8` gives it; `None` for a code that nothing has.
    pub fn from_code(code: u8) -> Option<What> {
        use What::*;
        [Push, Queue, Begin, End, Preempt, Miss, Timeout, Overrun, Drop, Resume]
            .into_iter()
            .find(|w| *w as u8 == code)
    }
}

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// When, in nanoseconds of the channel's clock.
    pub at: u64,
    /// What.
    pub what: What,
    /// The level of priority of the consumer, counted from the least urgent.
    pub level: u8,
    /// The consumer (or, for a push, the supplier), as its proxy numbers it.
    pub who: u32,
    /// See [`What`].
    pub a: u64,
    /// See [`What`].
    pub b: u64,
}

/// The records of one thread, the oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Track {
    /// The thread's name.
    pub thread: String,
    /// How many older records were overwritten.
    pub overwritten: u64,
    /// What is left.
    pub records: Vec<Record>,
}

/// The rings of a channel.
pub struct Trace {
    id: u64,
    on: AtomicBool,
    free: IndexPool,
    rings: Box<[Arc<Ring>]>,
    processors: Processors,
    lost: AtomicU64,
}

/// A run that has begun, and is to be ended by [`Trace::end`].
#[derive(Debug)]
pub(crate) struct Run {
    /// When it began.
    at: u64,
    entered: Option<Entered>,
}

static IDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static MINE: RefCell<Vec<Mine>> = const { RefCell::new(Vec::new()) };
}

/// A thread's part in a trace.
struct Mine {
    id: u64,
    /// Which ring it has, and that ring.
    number: usize,
    ring: Arc<Ring>,
    /// Runs that it has begun, and those of them that have not ended.
    turn: u16,
    depth: u16,
}

impl Trace {
    /// Rings for so many threads, of so many records each (rounded up to a power of two), and places for the levels of each of so many
    /// processors. All memory is taken here.
    pub(crate) fn new(threads: usize, records: usize, cpus: usize, levels: usize, on: bool) -> Trace {
        let size = records.next_power_of_two();
        Trace {
            id: IDS.fetch_add(1, Relaxed),
            on: AtomicBool::new(on && threads > 0),
            free: IndexPool::new(threads),
            rings: (0..threads).map(|_| Arc::new(Ring::new(size))).collect(),
            processors: Processors::new(if threads > 0 { cpus } else { 0 }, levels),
            lost: AtomicU64::new(0),
        }
    }

    /// Is anything recorded?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Begins or stops to record.
    pub fn switch(&self, on: bool) {
        self.on.store(on && !self.rings.is_empty(), Relaxed);
    }

    /// Records that were lost since more threads took part than there are rings.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Writes a record, if records are wanted.
    ///
    /// # Real-time
    /// Neither allocates nor blocks, but for a thread's first record, which takes a ring and copies the thread's name.
    #[inline]
    pub(crate) fn record(&self, record: Record) {
        if self.is_on() {
            self.write(record);
        }
    }

    fn write(&self, record: Record) {
        self.with_own(|mine| mine.ring.write(record));
    }

    /// A consumer begins to run; if that takes the processor from another one, this is said first. `record` is its [`What::Begin`].
    ///
    /// # Real-time
    /// As [`record`](Self::record), and a look at each less urgent level's place of this processor.
    #[inline]
    pub(crate) fn begin(&self, record: Record) -> Option<Run> {
        if self.is_on() { self.write_begin(record) } else { None }
    }

    fn write_begin(&self, record: Record) -> Option<Run> {
        self.with_own(|mine| {
            let Record { at, level, who, .. } = record;
            mine.turn = mine.turn.wrapping_add(1);
            let ring = u16::try_from(mine.number).ok().filter(|ring| *ring < u16::MAX);
            let nested = mine.depth > 0;
            let entered = ring.and_then(|ring| {
                self.processors.enter(here(), Beginner { ring, turn: mine.turn, nested, who, level })
            });
            mine.depth += 1;
            if let Some(victim) = entered.as_ref().and_then(|entered| entered.victim) {
                let by = (u64::from(level), u64::from(who));
                let what = What::Preempt;
                mine.ring.write(Record { at, what, level: victim.level, who: victim.who, a: by.0, b: by.1 });
            }
            mine.ring.write(record);
            Run { at, entered }
        })
    }

    /// It has returned. `record` is its [`What::End`].
    ///
    /// # Real-time
    /// As [`record`](Self::record).
    #[inline]
    pub(crate) fn end(&self, run: Option<Run>, record: Record) {
        match run {
            Some(run) => self.write_end(run, record),
            None => self.record(record),
        }
    }

    fn write_end(&self, run: Run, mut record: Record) {
        self.with_own(|mine| {
            mine.depth = mine.depth.saturating_sub(1);
            let moved = run.entered.as_ref().is_some_and(|entered| entered.moved(here()));
            record.b |= u64::from(moved) << 1;
            let victim = run.entered.and_then(|entered| self.processors.leave(entered));
            // Where it was switched off meanwhile, the run has left its place all the same.
            if !self.is_on() {
                return;
            }
            mine.ring.write(record);
            if let Some(victim) = victim.filter(|_| !moved) {
                mine.ring.write(Record {
                    what: What::Resume,
                    level: victim.level,
                    who: victim.who,
                    a: record.at.saturating_sub(run.at),
                    b: record.who.into(),
                    ..record
                });
            }
        });
    }

    /// With the calling thread's part; counts a loss where there is no ring left for it.
    fn with_own<T>(&self, with: impl FnOnce(&mut Mine) -> T) -> Option<T> {
        MINE.with(|mine| {
            let mut mine = mine.borrow_mut();
            if let Some(mine) = mine.iter_mut().find(|mine| mine.id == self.id) {
                return Some(with(mine));
            }
            match self.enrol() {
                Some(own) => {
                    mine.push(own);
                    mine.last_mut().map(with)
                }
                None => {
                    self.lost.fetch_add(1, Relaxed);
                    None
                }
            }
        })
    }

    /// A ring for this thread. It keeps it to its end, and the ring keeps the thread's records after it.
    #[cold]
    fn enrol(&self) -> Option<Mine> {
        let number = self.free.take()?;
        let ring = self.rings[number].clone();
        ring.name(std::thread::current().name().unwrap_or("unnamed"));
        Some(Mine { id: self.id, number, ring, turn: 0, depth: 0 })
    }

    /// What the rings hold at this moment.
    ///
    /// # Real-time
    /// Allocates; disturbs no thread that writes.
    pub fn snapshot(&self) -> Vec<Track> {
        self.rings.iter().filter(|ring| !ring.is_empty()).map(|ring| ring.read()).collect()
    }
}

/// The processor that this thread is on. A model has none.
#[inline]
fn here() -> usize {
    #[cfg(not(loom))]
    return isorb_rt::sched::current_cpu();
    #[cfg(loom)]
    0
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("on", &self.is_on()).field("rings", &self.rings.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64) -> Record {
        Record { at: n, what: What::Begin, level: 3, who: 7, a: n * 2, b: n * 3 }
    }

    #[test]
    fn the_newest_are_kept() {
        let trace = Trace::new(1, 4, 1, 4, true);
        (1..=6).for_each(|n| trace.record(record(n)));
        let tracks = trace.snapshot();
        assert_eq!(tracks.len(), 1);
        assert_eq!(tracks[0].overwritten, 2);
        assert_eq!(tracks[0].records, (3..=6).map(record).collect::<Vec<_>>());
    }

    #[test]
    fn off_and_too_many_threads() {
        let trace = Arc::new(Trace::new(1, 4, 1, 4, false));
        trace.record(record(1));
        assert!(trace.snapshot().is_empty());
        trace.switch(true);
        trace.record(record(2));
        let other = trace.clone();
        std::thread::spawn(move || other.record(record(3))).join().unwrap();
        assert_eq!((trace.lost(), trace.snapshot()[0].records.len()), (1, 1));
    }

    #[test]
    fn a_reader_sees_no_torn_record() {
        let trace = Arc::new(Trace::new(1, 8, 1, 4, true));
        let writer = trace.clone();
        let t = std::thread::spawn(move || (1..200_000).for_each(|n| writer.record(record(n))));
        while !t.is_finished() {
            for track in trace.snapshot() {
                for r in &track.records {
                    assert_eq!(*r, record(r.at));
                }
                assert!(track.records.windows(2).all(|w| w[0].at + 1 == w[1].at));
            }
        }
        t.join().unwrap();
    }
}
