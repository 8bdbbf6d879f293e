//! What happened, in time: a ring of fixed-size records a thread.
//!
//! Threads write to rings of their own, without a lock, without formatting; the newest records overwrite the oldest. Whoever
//! wants to look takes a [`Snapshot`](Trace::snapshot), which leaves out what was overwritten while it was read.

mod ring;

use isorb_rt::pool::IndexPool;
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
    /// It returned. `a`: how long it ran, in nanoseconds; `b`: 1 where it failed.
    End = 4,
    /// A running consumer made way for a more urgent one. `a`: the more urgent one's level.
    Preempt = 5,
    /// It returned after its deadline. `a`: how late, in nanoseconds; `b`: the deadline.
    Miss = 6,
    /// A time-out fell due. `a`: how late it was noticed, in nanoseconds; `b`: 1 for a deadline time-out.
    Timeout = 7,
    /// A consumer used more processor time than it declared. `a`: used, `b`: declared, in nanoseconds.
    Overrun = 8,
    /// An event was lost to a limit. `a`: which (0 its queue, 1 the pool of copies, 2 larger than a slot, 3 skipped after an overrun).
    Drop = 9,
}

impl What {
    /// What a record's code says, as `self as u8` gives it; `None` for a code that nothing has.
    pub fn from_code(code: u8) -> Option<What> {
        use What::*;
        [Push, Queue, Begin, End, Preempt, Miss, Timeout, Overrun, Drop]
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
    lost: AtomicU64,
}

static IDS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static MINE: RefCell<Vec<Mine>> = const { RefCell::new(Vec::new()) };
}

struct Mine {
    id: u64,
    ring: Arc<Ring>,
}

impl Trace {
    /// Rings for so many threads, of so many records each (rounded up to a power of two). All memory is taken here.
    pub(crate) fn new(threads: usize, records: usize, on: bool) -> Trace {
        let size = records.next_power_of_two();
        Trace {
            id: IDS.fetch_add(1, Relaxed),
            on: AtomicBool::new(on && threads > 0),
            free: IndexPool::new(threads),
            rings: (0..threads).map(|_| Arc::new(Ring::new(size))).collect(),
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
        MINE.with(|mine| {
            let mut mine = mine.borrow_mut();
            let ring = match mine.iter().find(|m| m.id == self.id) {
                Some(mine) => &mine.ring,
                None => match self.enrol() {
                    Some(ring) => {
                        mine.push(Mine { id: self.id, ring });
                        &mine[mine.len() - 1].ring
                    }
                    None => {
                        self.lost.fetch_add(1, Relaxed);
                        return;
                    }
                },
            };
            ring.write(record);
        });
    }

    /// A ring for this thread. It keeps it to its end, and the ring keeps the thread's records after it.
    #[cold]
    fn enrol(&self) -> Option<Arc<Ring>> {
        let ring = self.rings[self.free.take()?].clone();
        ring.name(std::thread::current().name().unwrap_or("unnamed"));
        Some(ring)
    }

    /// What the rings hold at this moment.
    ///
    /// # Real-time
    /// Allocates; disturbs no thread that writes.
    pub fn snapshot(&self) -> Vec<Track> {
        self.rings.iter().filter(|ring| !ring.is_empty()).map(|ring| ring.read()).collect()
    }
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
        let trace = Trace::new(1, 4, true);
        (1..=6).for_each(|n| trace.record(record(n)));
        let tracks = trace.snapshot();
        assert_eq!(tracks.len(), 1);
        assert_eq!(tracks[0].overwritten, 2);
        assert_eq!(tracks[0].records, (3..=6).map(record).collect::<Vec<_>>());
    }

    #[test]
    fn off_and_too_many_threads() {
        let trace = Arc::new(Trace::new(1, 4, false));
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
        let trace = Arc::new(Trace::new(1, 8, true));
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
