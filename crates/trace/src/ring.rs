//! The ring of one thread's records.

use crate::record::{Record, RecordKind, Track};
use isorb_rt::sync::PiMutex;
use isorb_rt::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use isorb_rt::sync::atomic::{AtomicU64, fence};

/// A ring that one thread writes. Any thread may read meanwhile; it leaves out the records that are
/// overwritten while it reads. A record is four words.
pub(crate) struct Ring {
    /// Records that the writer has begun.
    begun: AtomicU64,
    /// Records that are complete.
    whole: AtomicU64,
    words: Box<[[AtomicU64; 4]]>,
    /// The writer's name, written once for each thread.
    thread: PiMutex<String>,
}

impl Ring {
    /// A ring of `size` records, a power of two.
    pub(crate) fn new(size: usize) -> Ring {
        Ring {
            begun: AtomicU64::new(0),
            whole: AtomicU64::new(0),
            words: (0..size).map(|_| Default::default()).collect(),
            thread: PiMutex::new(String::new()),
        }
    }

    pub(crate) fn set_thread(&self, thread: &str) {
        *self.thread.lock() = thread.to_owned();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole.load(Acquire) == 0
    }

    #[inline]
    pub(crate) fn write(&self, r: Record) {
        let number = self.whole.load(Relaxed);
        let words = &self.words[number as usize & (self.words.len() - 1)];
        // A reader that sees any of the new words also sees that they were begun.
        self.begun.store(number + 1, Relaxed);
        fence(Release);
        words[0].store(r.at, Relaxed);
        words[1].store(r.kind as u64 | u64::from(r.level) << 8 | u64::from(r.id) << 32, Relaxed);
        words[2].store(r.a, Relaxed);
        words[3].store(r.b, Relaxed);
        self.whole.store(number + 1, Release);
    }

    pub(crate) fn read(&self) -> Track {
        let size = self.words.len() as u64;
        let end = self.whole.load(Acquire);
        let start = end.saturating_sub(size);
        let mut read: Vec<(u64, [u64; 4])> = (start..end)
            .map(|n| {
                let words = &self.words[(n % size) as usize];
                (n, [0, 1, 2, 3].map(|i| words[i].load(Relaxed)))
            })
            .collect();
        fence(Acquire);
        // Records that the writer has begun meanwhile overwrite the oldest ones.
        let valid = self.begun.load(Relaxed).saturating_sub(size);
        read.retain(|(number, _)| *number >= valid);
        let records = read.iter().filter_map(|(_, w)| {
            let kind = RecordKind::from_code(w[1] as u8)?;
            Some(Record {
                at: w[0],
                kind,
                level: (w[1] >> 8) as u8,
                id: (w[1] >> 32) as u32,
                a: w[2],
                b: w[3],
            })
        });
        let thread = self.thread.lock().clone();
        Track { thread, overwritten: valid.max(start), records: records.collect() }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn record(n: u64) -> Record {
        Record { at: n, kind: RecordKind::Begin, level: 3, id: 7, a: n * 2, b: n * 3 }
    }

    /// The writer goes round a full ring while a reader reads. The records read are whole, in order
    /// and without a gap, and the overwritten ones are counted.
    fn overwrites(more: u64, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || {
            let ring = Arc::new(Ring::new(2));
            (1..=2).for_each(|n| ring.write(record(n)));
            let written = ring.clone();
            let writer = thread::spawn(move || (3..3 + more).for_each(|n| written.write(record(n))));
            let track = ring.read();
            for (i, read) in track.records.iter().enumerate() {
                assert_eq!(*read, record(track.overwritten + 1 + i as u64));
            }
            writer.join().unwrap();
            let track = ring.read();
            assert_eq!((track.overwritten, track.records), (more, vec![record(more + 1), record(more + 2)]));
        });
    }

    #[test]
    fn loom_ring_reader_leaves_out_overwritten_records() {
        overwrites(1, 3);
    }

    #[test]
    fn loom_ring_reader_is_overtaken() {
        overwrites(2, 1);
    }
}
