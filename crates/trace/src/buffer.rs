//! A ring of records for code that one thread runs at a time.

use crate::record::{Record, Track};

/// A ring of records; the newest overwrite the oldest. An empty one (of size 0) records nothing.
#[derive(Debug, Default)]
pub struct RecordBuffer {
    records: Vec<Record>,
    size: usize,
    count: u64,
}

impl RecordBuffer {
    /// A ring of `size` records. All memory is allocated here.
    pub fn new(size: usize) -> RecordBuffer {
        RecordBuffer { records: Vec::with_capacity(size), size, count: 0 }
    }

    /// Returns true if records are kept.
    pub fn is_on(&self) -> bool {
        self.size > 0
    }

    /// Adds a record.
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub fn add(&mut self, record: Record) {
        if self.records.len() < self.size {
            self.records.push(record);
        } else if let Some(slot) = self.records.get_mut((self.count % self.size.max(1) as u64) as usize) {
            *slot = record;
        }
        self.count += u64::from(self.is_on());
    }

    /// The time of the last record; 0 before the first.
    pub fn latest(&self) -> u64 {
        let last = (self.count.max(1) - 1) % self.size.max(1) as u64;
        self.records.get(last as usize).map_or(0, |record| record.at)
    }

    /// A copy of the records as those of a thread with this name.
    pub fn track(&self, thread: &str) -> Track {
        let overwritten = self.count - self.records.len() as u64;
        let oldest = if overwritten > 0 { (self.count % self.size as u64) as usize } else { 0 };
        let mut records = self.records.clone();
        records.rotate_left(oldest);
        Track { thread: thread.to_owned(), overwritten, records }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::record::RecordKind;

    #[test]
    fn newest_records_stay() {
        let mut buffer = RecordBuffer::new(3);
        for at in 0..5 {
            buffer.add(Record { at, kind: RecordKind::Push, level: 0, id: 0, a: 0, b: 0 });
        }
        let track = buffer.track("agents");
        let times: Vec<u64> = track.records.iter().map(|record| record.at).collect();
        assert_eq!((times, track.overwritten, buffer.latest()), (vec![2, 3, 4], 2, 4));
        let mut none = RecordBuffer::default();
        none.add(track.records[0]);
        assert!(!none.is_on() && none.latest() == 0 && none.track("x").records.is_empty());
    }
}
