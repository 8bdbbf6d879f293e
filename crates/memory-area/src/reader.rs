//! Readers.

use crate::error::{ReadError, WaitError};
use crate::fail_points::{FailPoint, fail_point};
use crate::geometry::Geometry;
use crate::head::State;
use crate::mapping::Mapping;
use crate::ring::{MAX_SEQUENCE, Miss, Ring, Stamp};
use crate::words::View;
use core::fmt;
use isorb_rt::clock_sync::DRIFT_PPM;
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;

/// How often a read starts over when the writer overtakes it.
const ATTEMPTS: usize = 32;

/// What is known about a value that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Its number, from 1. Consecutive values have consecutive numbers.
    pub sequence: u64,
    /// Bytes of it.
    pub len: usize,
    /// When it was written, nanoseconds on the clock of [`now_ns`]. For a value of another node
    /// this is an estimate, within [`bound_ns`](Self::bound_ns).
    pub written_ns: u64,
    /// How far `written_ns` may be wrong in either direction; 0 for a value of this node,
    /// [`u64::MAX`] where the other node has answered nothing yet.
    pub bound_ns: u64,
    /// Which writer wrote it, from 1; another number than the last time means that the writer was
    /// restarted.
    pub epoch: u64,
    /// Its number at the writer's node. In a replica some of the writer's values may never have
    /// arrived: these numbers have gaps then, [`sequence`](Self::sequence) has none.
    pub source: u64,
    /// Values that came between the last one that this reader read and this one, and that it did
    /// not read.
    pub missed: u64,
}

impl Sample {
    /// Nanoseconds since it was written; zero if the writer says that it was written in the future.
    pub fn age_ns(&self) -> u64 {
        now_ns().saturating_sub(self.written_ns)
    }

    /// How far [`age_ns`](Self::age_ns) may be wrong in either direction: the bound of the time of
    /// writing, and the drift of two clocks since. None where the bound is not known.
    pub fn age_bound_ns(&self) -> Option<u64> {
        match self.bound_ns {
            0 => Some(0),
            u64::MAX => None,
            bound => Some(bound.saturating_add(self.age_ns() / 1_000_000 * DRIFT_PPM + DRIFT_PPM)),
        }
    }

    /// The largest age that the value can have. Where the bound is not known, the age counts what
    /// the value took beyond the least one-way time between the nodes.
    pub fn max_age_ns(&self) -> u64 {
        self.age_ns().saturating_add(self.age_bound_ns().unwrap_or(0))
    }
}

/// A reader of an area. It writes nothing into the segment, so it disturbs no other process, alive
/// or killed.
#[derive(Clone)]
pub struct Reader {
    mapping: Arc<Mapping>,
    geometry: Geometry,
    seen: u64,
    reported: Option<State>,
}

impl Reader {
    pub(crate) fn new(mapping: Arc<Mapping>, geometry: Geometry) -> Reader {
        Reader { mapping, geometry, seen: 0, reported: None }
    }

    /// Is there a value that this reader has not read?
    ///
    /// # Real-time
    /// One load.
    #[inline]
    pub fn has_new(&self) -> bool {
        self.ring().latest() != self.seen
    }

    /// Copies the latest value, new or not.
    ///
    /// # Errors
    /// [`ReadError`]; in `BufferTooSmall` the value counts as not read.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. At most 32 copies, of which all but one fail only while the
    /// writer is faster than the copy.
    #[inline]
    pub fn latest(&mut self, out: &mut [u8]) -> Result<Sample, ReadError> {
        let (copied, n, stamp) = self.latest_with(|view| copy(view, out))?;
        copied?;
        Ok(self.accept(n, stamp))
    }

    /// Lets `look` see the latest value in place, without a copy. Whatever `look` returns is
    /// dropped, and `look` called again, when the writer overtook it.
    ///
    /// # Errors
    /// [`ReadError`].
    ///
    /// # Real-time
    /// As [`latest`](Self::latest), with `look` in the copy's place.
    pub fn read_with<T>(&mut self, look: impl FnMut(View<'_>) -> T) -> Result<(T, Sample), ReadError> {
        let (seen, n, stamp) = self.latest_with(look)?;
        Ok((seen, self.accept(n, stamp)))
    }

    /// Copies the oldest value that is still kept and that this reader has not read; `None` when
    /// there is none.
    ///
    /// # Errors
    /// [`ReadError`].
    ///
    /// # Real-time
    /// As [`latest`](Self::latest).
    pub fn next(&mut self, out: &mut [u8]) -> Result<Option<Sample>, ReadError> {
        for _ in 0..ATTEMPTS {
            let latest = self.named()?;
            if latest == self.seen {
                return Ok(None);
            }
            let oldest = latest.saturating_sub(self.geometry.histories() as u64).max(1);
            let n = oldest.max(self.seen + 1);
            match self.ring().read(n, |view| copy(view, out)) {
                Ok((copied, stamp)) => {
                    copied?;
                    return Ok(Some(self.accept(n, stamp)));
                }
                Err(Miss::Overwritten) => {}
                Err(Miss::Damaged) => return Err(ReadError::Damaged),
            }
        }
        Err(ReadError::Lapped)
    }

    /// Counts all values up to number `n` as read. A number that has not been written yet has no
    /// effect.
    ///
    /// # Real-time
    /// One load.
    pub fn skip_to(&mut self, n: u64) {
        if n <= self.sequence() {
            self.seen = self.seen.max(n);
        }
    }

    /// Continues after the values that another reader has read in a former segment of the same
    /// area. Values up to the number `source` at the writer's node count as read; retained later
    /// ones do not.
    ///
    /// # Real-time
    /// Checks each retained value at most; neither allocates nor blocks.
    pub fn continue_after(&mut self, source: u64) {
        let latest = match self.sequence() {
            n if n < MAX_SEQUENCE => n,
            // An invalid number, which the next read reports.
            _ => 0,
        };
        let oldest = latest.saturating_sub(self.geometry.histories() as u64).max(1);
        let is_read = |n: &u64| self.ring().read(*n, |_| ()).is_ok_and(|((), stamp)| stamp.source <= source);
        self.seen = match source {
            0 => 0,
            _ => (oldest..=latest).rev().find(is_read).unwrap_or(oldest - 1),
        };
    }

    /// Copies the value that was written `back` values before the latest. Does not count as reading
    /// it.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when the area keeps less, [`ReadError::Empty`] when so much has not been
    /// written yet.
    ///
    /// # Real-time
    /// As [`latest`](Self::latest).
    pub fn history(&mut self, back: usize, out: &mut [u8]) -> Result<Sample, ReadError> {
        if back > self.geometry.histories() {
            return Err(ReadError::Gone);
        }
        for _ in 0..ATTEMPTS {
            let latest = self.named()?;
            let n = latest.checked_sub(back as u64).filter(|n| *n > 0).ok_or(ReadError::Empty)?;
            match self.ring().read(n, |view| copy(view, out)) {
                Ok((copied, stamp)) => {
                    copied?;
                    return Ok(sample(n, stamp, 0));
                }
                Err(Miss::Overwritten) => {}
                Err(Miss::Damaged) => return Err(ReadError::Damaged),
            }
        }
        Err(ReadError::Lapped)
    }

    /// Sleeps until there is a value that this reader has not read.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] at the deadline; [`WaitError::Changed`] when the area's state
    /// changed since the last call, once a change, and always when it is final.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until a value, a change of state or the deadline; one load when
    /// there is a value. The writer is a process that runs at its own priority: there is nothing to
    /// inherit.
    pub fn wait(&mut self, deadline: Deadline) -> Result<(), WaitError> {
        let Reader { mapping, geometry, seen, reported } = self;
        let (head, ring) = (mapping.head(), mapping.ring(*geometry));
        let look = || {
            if ring.latest() != *seen {
                return Some(Ok(()));
            }
            let Some(state) = head.state() else { return Some(Err(WaitError::Damaged)) };
            let before = reported.replace(state).unwrap_or(State::Open);
            if state.is_final() || state != before {
                return Some(Err(WaitError::Changed(state)));
            }
            // The kernel does not check the deadline if the signal has changed already.
            deadline.is_past().then_some(Err(WaitError::TimedOut))
        };
        head.await_change(look, |seen| head.sleep(seen, deadline))
    }

    /// The area's state, unless it is damaged.
    pub fn state(&self) -> Option<State> {
        self.mapping.head().state()
    }

    /// When the latest value was written, on the clock of [`now_ns`]; `None` where there is none,
    /// or the writer is faster than the look. Does not count as reading it.
    ///
    /// # Real-time
    /// A few loads; at most 32 attempts.
    pub fn written_ns(&mut self) -> Option<u64> {
        self.latest_with(|_| ()).ok().map(|(_, _, stamp)| stamp.written_ns)
    }

    /// The number at the writer's node of the latest value; `None` where there is none, or the
    /// writer is faster than the look. Does not count as reading it.
    ///
    /// # Real-time
    /// As [`written_ns`](Self::written_ns).
    pub fn latest_source(&mut self) -> Option<u64> {
        self.latest_with(|_| ()).ok().map(|(_, _, stamp)| stamp.source)
    }

    /// See [`Segment::identity`](crate::Segment::identity).
    ///
    /// # Real-time
    /// One load.
    pub fn identity(&self) -> u64 {
        self.ring().head.identity.load(isorb_rt::sync::atomic::Ordering::Relaxed)
    }

    /// The promised time between two values in nanoseconds; 0 for none.
    ///
    /// # Real-time
    /// One load.
    pub fn period_ns(&self) -> u64 {
        self.ring().head.period.load(isorb_rt::sync::atomic::Ordering::Relaxed)
    }

    /// The sequence number of the last value that this reader read; 0 for none.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The sequence number of the latest value; 0 for none.
    pub fn sequence(&self) -> u64 {
        self.ring().latest()
    }

    /// Size and histories.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    fn ring(&self) -> Ring<'_> {
        self.mapping.ring(self.geometry)
    }

    /// The latest sequence number, if it can be one. One that went back, as after damage that a new
    /// writer found, is reported once; then the reader goes on from there.
    fn named(&mut self) -> Result<u64, ReadError> {
        fail_point(FailPoint::ReadLatest);
        let n = self.ring().latest();
        if n < self.seen || n >= MAX_SEQUENCE {
            self.seen = self.seen.min(n);
            return Err(ReadError::Damaged);
        }
        Ok(n)
    }

    #[inline]
    fn latest_with<T>(&mut self, mut look: impl FnMut(View<'_>) -> T) -> Result<(T, u64, Stamp), ReadError> {
        for _ in 0..ATTEMPTS {
            let n = self.named()?;
            if n == 0 {
                return Err(ReadError::Empty);
            }
            match self.ring().read(n, &mut look) {
                Ok((seen, stamp)) => return Ok((seen, n, stamp)),
                Err(Miss::Overwritten) => {}
                Err(Miss::Damaged) => return Err(ReadError::Damaged),
            }
        }
        Err(ReadError::Lapped)
    }

    fn accept(&mut self, n: u64, stamp: Stamp) -> Sample {
        let missed = n.saturating_sub(self.seen + 1);
        self.seen = n;
        sample(n, stamp, missed)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("seen", &self.seen)
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

#[inline]
fn copy(view: View<'_>, out: &mut [u8]) -> Result<(), ReadError> {
    let needed = view.len();
    let Some(out) = out.get_mut(..needed) else { return Err(ReadError::BufferTooSmall { needed }) };
    view.copy_to(0, out).map_err(|_| ReadError::Damaged)
}

fn sample(sequence: u64, stamp: Stamp, missed: u64) -> Sample {
    Sample {
        sequence,
        len: stamp.len,
        written_ns: stamp.written_ns,
        bound_ns: stamp.bound_ns,
        epoch: stamp.epoch,
        source: stamp.source,
        missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClaimError, Segment, TooLarge};
    use std::time::Duration;

    fn segment(size: usize, histories: usize) -> Segment {
        Segment::create("test", Geometry::new(size, histories).unwrap()).unwrap()
    }

    #[test]
    fn latest_next_and_history_read_what_was_written() {
        let segment = segment(16, 2);
        let (mut writer, mut reader) = (segment.writer().unwrap(), segment.reader().unwrap());
        let mut out = [0; 16];
        assert_eq!(reader.latest(&mut out), Err(ReadError::Empty));
        assert_eq!(reader.history(0, &mut out), Err(ReadError::Empty));
        assert_eq!(reader.next(&mut out), Ok(None));
        for n in 1..=7u8 {
            writer.write_at(&[n; 3], 1000 + u64::from(n)).unwrap();
        }
        let sample = reader.next(&mut out).unwrap().unwrap();
        assert_eq!((sample.sequence, sample.missed, sample.written_ns, sample.len), (5, 4, 1005, 3));
        assert_eq!(out[..4], [5, 5, 5, 0]);
        let sample = reader.latest(&mut out).unwrap();
        assert_eq!((sample.sequence, sample.missed, sample.epoch), (7, 1, 1));
        assert_eq!(reader.next(&mut out), Ok(None));
        assert!(!reader.has_new());
        assert_eq!(reader.history(2, &mut out).unwrap().sequence, 5);
        assert_eq!(reader.history(3, &mut out), Err(ReadError::Gone));
        assert_eq!(reader.history(0, &mut out[..2]), Err(ReadError::BufferTooSmall { needed: 3 }));
    }

    #[test]
    fn a_reader_goes_on_where_another_was() {
        let segment = segment(16, 3);
        let mut writer = segment.writer().unwrap();
        for n in 1..=5u8 {
            writer.write(&[n]).unwrap();
        }
        let (mut reader, mut out) = (segment.reader().unwrap(), [0; 16]);
        reader.skip_to(6);
        assert_eq!(reader.seen(), 0, "that is of another area");
        reader.skip_to(3);
        let sample = reader.next(&mut out).unwrap().unwrap();
        assert_eq!((sample.sequence, sample.missed, out[0]), (4, 0, 4));
        reader.skip_to(1);
        assert_eq!(reader.next(&mut out).unwrap().unwrap().sequence, 5);
        assert_ne!(segment.identity(), Segment::create("test", segment.geometry()).unwrap().identity());
    }

    #[test]
    fn a_reader_goes_on_where_another_was_in_another_segment() {
        let segment = segment(16, 3);
        let (mut writer, mut out) = (segment.writer().unwrap(), [0; 16]);
        let mut write = |source: u64| {
            writer.draft().put(0, &[source as u8]).unwrap();
            writer.publish_as(1, 0, crate::Source { sequence: source, epoch: 1, bound_ns: 0 }).unwrap();
        };
        let mut rest = |behind: u64| {
            let mut reader = segment.reader().unwrap();
            reader.continue_after(behind);
            let mut came = Vec::new();
            while let Some(sample) = reader.next(&mut out).unwrap() {
                came.push((sample.source, sample.missed));
            }
            came
        };
        assert_eq!(rest(7), [], "nothing has come");
        [5, 6, 8, 9].into_iter().for_each(&mut write);
        assert_eq!(rest(0), [(5, 0), (6, 0), (8, 0), (9, 0)]);
        assert_eq!(rest(4), [(5, 0), (6, 0), (8, 0), (9, 0)]);
        assert_eq!(rest(6), [(8, 0), (9, 0)]);
        assert_eq!(rest(7), [(8, 0), (9, 0)], "which never came here");
        assert_eq!((rest(9), rest(10)), (vec![], vec![]));
        [10, 11, 12].into_iter().for_each(&mut write);
        assert_eq!(rest(6), [(9, 0), (10, 0), (11, 0), (12, 0)], "what is not kept cannot be told");
        let mut reader = segment.reader().unwrap();
        assert_eq!((reader.latest_source(), reader.seen()), (Some(12), 0));
        segment.set_identity(77).unwrap();
        assert_eq!((reader.identity(), segment.identity()), (77, 77));
    }

    #[test]
    fn a_value_that_did_not_fit_is_still_new() {
        let segment = segment(16, 0);
        let (mut writer, mut reader) = (segment.writer().unwrap(), segment.reader().unwrap());
        writer.write(&[1; 9]).unwrap();
        assert_eq!(reader.latest(&mut [0; 8]), Err(ReadError::BufferTooSmall { needed: 9 }));
        assert!(reader.has_new());
        assert_eq!(writer.write(&[1; 17]), Err(TooLarge { len: 17, limit: 16 }));
        assert_eq!(writer.write_with(17, |_| ()), Err(TooLarge { len: 17, limit: 16 }));
        assert_eq!(reader.sequence(), 1);
    }

    #[test]
    fn there_is_one_writer_at_a_time() {
        let segment = segment(8, 0);
        let writer = segment.writer().unwrap();
        assert_eq!(segment.writer().unwrap_err(), ClaimError::Taken);
        drop(writer);
        let second = segment.writer().unwrap();
        assert_eq!(second.epoch(), 2);
    }

    #[test]
    fn readers_cannot_write_and_what_is_no_area_is_refused() {
        use crate::AttachError;
        let segment = segment(8, 0);
        let read_only = Segment::attach(segment.read_only_fd().unwrap()).unwrap();
        assert!(!read_only.is_writable() && read_only.same_file(&segment));
        assert!(matches!(read_only.writer(), Err(ClaimError::Attach(AttachError::System(_)))));
        assert!(read_only.set_state(State::Stale).is_err());
        assert!(Segment::attach(segment.writable_fd().unwrap()).unwrap().is_writable());

        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Segment::attach(null.into()).unwrap_err(), AttachError::NotSealed);
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
        let other = memfd_create("other", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&other, 4096).unwrap();
        fcntl_add_seals(&other, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        assert_eq!(Segment::attach(other).unwrap_err(), AttachError::NotAnArea);
    }

    #[test]
    fn pieces_show_only_when_published() {
        let segment = segment(16, 0);
        let (mut writer, mut reader) = (segment.writer().unwrap(), segment.reader().unwrap());
        writer.write(b"before").unwrap();
        writer.draft().put(4, b"efg").unwrap();
        let mut out = [0; 16];
        assert_eq!(reader.latest(&mut out).unwrap().sequence, 1);
        writer.draft().put(0, b"abcd").unwrap();
        assert_eq!(&out[..6], b"before");
        writer.publish(7, 5).unwrap();
        let (text, sample) = reader.read_with(|view| view.bytes::<7>(0)).unwrap();
        assert_eq!((&text.unwrap(), sample.written_ns), (b"abcdefgh"[..7].try_into().unwrap(), 5));
    }

    #[test]
    fn a_wait_ends_with_a_value_a_change_or_the_deadline() {
        let segment = segment(8, 0);
        let mut writer = segment.writer().unwrap();
        let mut reader = segment.reader().unwrap();
        assert_eq!(reader.wait(Deadline::PAST), Err(WaitError::TimedOut));
        let sleeper = std::thread::spawn(move || {
            reader.wait(Deadline::after(Duration::from_secs(60))).unwrap();
            assert_eq!(reader.latest(&mut [0; 8]).unwrap().sequence, 1);
            let gone = reader.wait(Deadline::after(Duration::from_secs(60)));
            (reader, gone)
        });
        writer.write(b"x").unwrap();
        // It may or may not sleep by now: the state is there either way.
        writer.set_state(State::WriterGone);
        let (mut reader, gone) = sleeper.join().unwrap();
        assert_eq!(gone, Err(WaitError::Changed(State::WriterGone)));
        assert_eq!(reader.wait(Deadline::PAST), Err(WaitError::TimedOut), "a change is told once");
        segment.set_state(State::Destroyed).unwrap();
        assert_eq!(reader.wait(Deadline::NONE), Err(WaitError::Changed(State::Destroyed)));
        assert_eq!(
            reader.wait(Deadline::NONE),
            Err(WaitError::Changed(State::Destroyed)),
            "a last one always"
        );
        assert_eq!(reader.latest(&mut [0; 8]).unwrap().sequence, 1);
    }
}
