//! A value that is replaced while it is read.

use core::fmt;
use core::ops::Deref;

use super::PiMutex;
use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use super::atomic::{AtomicU32, AtomicU64};
use super::cell::UnsafeCell;
use super::futex::thread_id;
use crate::time::{Deadline, now_ns, sleep_until};

/// The version's number is above, how many readers entered it below.
const SHIFT: u32 = 56;
const ENTERED: u64 = (1 << SHIFT) - 1;

/// A value that many threads read without a lock while one replaces it as a whole: tables that
/// every request looks at and an administrator changes now and then.
///
/// A reader sees one version from [`read`](Self::read) to the drop of the guard, whatever is put in
/// its place meanwhile; nested reads are fine, and a reader may itself replace the value. Replaced
/// versions are dropped by writers, never by readers. There is room for a fixed number of versions:
/// a writer is refused only while readers hold all others.
///
/// A read is one atomic addition, which returns the current version and counts its reader in one
/// step, so it never repeats. Leaving is another one, except for the first thread that leaves a
/// version: it counts by itself, without. A reader that is pre-empted delays only the drop of its
/// version.
///
/// ```
/// let table = isorb_rt::sync::Snapshot::new(4, vec![1, 2]);
/// let before = table.read();
/// table.replace(vec![3]).unwrap();
/// assert_eq!((before.len(), table.read().len()), (2, 1));
/// ```
pub struct Snapshot<T> {
    current: AtomicU64,
    versions: Box<[Version<T>]>,
    writer: PiMutex<Writer>,
}

struct Version<T> {
    left: LeftCount,
    value: UnsafeCell<Option<T>>,
}

/// How many readers have left a version.
struct LeftCount {
    /// The first thread that left; 0 before.
    owner: AtomicU32,
    /// How often that thread has.
    by_owner: AtomicU64,
    /// How often others have.
    by_others: AtomicU64,
}

impl LeftCount {
    fn new() -> LeftCount {
        LeftCount { owner: AtomicU32::new(0), by_owner: AtomicU64::new(0), by_others: AtomicU64::new(0) }
    }

    /// Starts again for another version; no reader may enter it before.
    fn reset(&self) {
        self.owner.store(0, Relaxed);
        self.by_owner.store(0, Relaxed);
        self.by_others.store(0, Relaxed);
    }

    /// Counts a reader. All that it did with the value comes before.
    #[inline]
    fn add(&self) {
        let me = thread_id();
        if self.owner.load(Relaxed) == me {
            // No other thread writes it. One that got this thread's number after its end sees what
            // it wrote: the kernel gives a number out again only then.
            self.by_owner.store(self.by_owner.load(Relaxed) + 1, Release);
        } else {
            self.add_as_other(me);
        }
    }

    fn add_as_other(&self, me: u32) {
        if self.owner.compare_exchange(0, me, Relaxed, Relaxed).is_ok() {
            self.by_owner.store(1, Release);
        } else {
            self.by_others.fetch_add(1, Release);
        }
    }

    /// Both only grow, so the sum is never too high.
    fn sum(&self) -> u64 {
        self.by_owner.load(Acquire) + self.by_others.load(Acquire)
    }
}

struct Writer {
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    Current,
    /// Replaced, after this many readers had entered.
    Retired(u64),
}

/// Readers hold all other versions. The new value is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy<T>(pub T);

// SAFETY: readers share `&T` between threads, and the value is dropped by whichever thread writes
// next.
unsafe impl<T: Send + Sync> Sync for Snapshot<T> {}
// SAFETY: as for the values themselves.
unsafe impl<T: Send> Send for Snapshot<T> {}

impl<T> Snapshot<T> {
    /// Starts with `value`, and has room for `versions` versions, the current one included.
    ///
    /// # Panics
    /// If `versions` is not 2 to 256.
    pub fn new(versions: usize, value: T) -> Self {
        assert!((2..=256).contains(&versions), "a snapshot has 2 to 256 versions");
        let mut slots = vec![Slot::Free; versions].into_boxed_slice();
        slots[0] = Slot::Current;
        let mut value = Some(value);
        let version = |_| Version { left: LeftCount::new(), value: UnsafeCell::new(value.take()) };
        Snapshot {
            current: AtomicU64::new(0),
            versions: (0..versions).map(version).collect(),
            writer: PiMutex::new(Writer { slots }),
        }
    }

    /// The current version.
    ///
    /// # Real-time
    /// Neither allocates nor blocks, whatever writers do: one atomic addition, and at most two more
    /// atomic operations when the guard is dropped.
    #[inline]
    pub fn read(&self) -> SnapshotGuard<'_, T> {
        let seen = self.current.fetch_add(1, Acquire);
        let version = &self.versions[(seen >> SHIFT) as usize];
        // SAFETY: a writer wrote the value before it made the version current, and takes it out
        // again only after as many readers left the version as had entered it when it was replaced;
        // this one has entered and not left.
        let value = version.value.with(|value| unsafe { (*value).as_ref() });
        match value {
            Some(value) => SnapshotGuard { left: &version.left, value },
            None => unreachable!("a current version has a value"),
        }
    }

    /// Replaces the current value by `value`, for reads from now on. Drops what no reader holds
    /// any more.
    ///
    /// # Errors
    /// [`Busy`], with the value, while readers hold every other version.
    ///
    /// # Real-time
    /// For the administrating side: takes a lock that no reader takes, and runs destructors.
    pub fn replace(&self, value: T) -> Result<(), Busy<T>> {
        let mut writer = self.writer.lock();
        self.reclaim(&mut writer);
        let Some(free) = writer.slots.iter().position(|slot| *slot == Slot::Free) else {
            return Err(Busy(value));
        };
        let version = &self.versions[free];
        // SAFETY: a free version is not current, and all readers that it ever had have left; the
        // lock keeps writers out.
        version.value.with_mut(|slot| unsafe { *slot = Some(value) });
        version.left.reset();
        let before = self.current.swap((free as u64) << SHIFT, AcqRel);
        writer.slots[free] = Slot::Current;
        writer.slots[(before >> SHIFT) as usize] = Slot::Retired(before & ENTERED);
        self.reclaim(&mut writer);
        Ok(())
    }

    /// Drops the replaced versions that no reader holds any more. Says whether there are none left.
    pub fn collect(&self) -> bool {
        self.reclaim(&mut self.writer.lock())
    }

    /// Waits until no reader holds a replaced version: all readers see the current one then.
    /// `false` when the deadline passed. A thread that holds a guard of an older version itself
    /// waits in vain.
    ///
    /// # Real-time
    /// Blocks, looking every half millisecond. For the administrating side.
    pub fn settle(&self, deadline: Deadline) -> bool {
        while !self.collect() {
            if deadline.is_past() {
                return false;
            }
            sleep_until(Deadline::at_ns(now_ns() + 500_000).earlier(deadline));
        }
        true
    }

    fn reclaim(&self, writer: &mut Writer) -> bool {
        let mut none = true;
        for (version, slot) in self.versions.iter().zip(writer.slots.iter_mut()) {
            if let Slot::Retired(entered) = *slot {
                if version.left.sum() == entered {
                    // SAFETY: no reader can enter a version that is not current, and all that had
                    // entered left.
                    version.value.with_mut(|value| unsafe { *value = None });
                    *slot = Slot::Free;
                } else {
                    none = false;
                }
            }
        }
        none
    }
}

impl<T: fmt::Debug> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&*self.read()).finish()
    }
}

/// One version of a [`Snapshot`]'s value.
#[must_use = "the version is held until this is dropped"]
pub struct SnapshotGuard<'a, T> {
    left: &'a LeftCount,
    value: &'a T,
}

impl<T> Deref for SnapshotGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for SnapshotGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.left.add();
    }
}

impl<T: fmt::Debug> fmt::Debug for SnapshotGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_reader_keeps_its_version_and_a_writer_drops_it() {
        let first = Arc::new(1);
        let s = Snapshot::new(3, first.clone());
        let guard = s.read();
        s.replace(Arc::new(2)).unwrap();
        assert_eq!((**guard, **s.read()), (1, 2));
        assert!(!s.collect());
        assert_eq!(Arc::strong_count(&first), 2);
        drop(guard);
        assert!(s.settle(Deadline::NONE));
        assert_eq!(Arc::strong_count(&first), 1);
    }

    #[test]
    fn no_place_while_readers_hold_all() {
        let s = Snapshot::new(2, 1);
        let one = s.read();
        s.replace(2).unwrap();
        let two = s.read();
        assert_eq!(s.replace(3), Err(Busy(3)));
        assert!(!s.settle(Deadline::PAST));
        drop(one);
        s.replace(3).unwrap();
        assert_eq!((*two, *s.read()), (2, 3));
    }

    /// The guards of one thread may be dropped by another.
    #[test]
    fn each_reader_that_leaves_counts_once() {
        let s = Snapshot::new(2, 1);
        for _ in 0..3 {
            let [here, there, first] = [s.read(), s.read(), s.read()];
            drop(first);
            let kept = s.read();
            thread::scope(|scope| {
                scope.spawn(|| drop(there));
                scope.spawn(|| drop(s.read()));
            });
            s.replace(*kept + 1).unwrap();
            assert_eq!(s.replace(0), Err(Busy(0)));
            drop(here);
            assert!(!s.collect(), "one is left");
            drop(kept);
            assert!(s.collect());
        }
        assert_eq!(*s.read(), 4);
    }

    #[test]
    fn versions_are_whole() {
        const LAST: u64 = if cfg!(miri) { 30 } else { 2_000 };
        let s = Arc::new(Snapshot::new(4, (0u64, 0u64)));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let s = s.clone();
                thread::spawn(move || {
                    let mut last = 0;
                    while last < LAST {
                        let pair = s.read();
                        assert_eq!(pair.0, pair.1);
                        assert!(pair.0 >= last);
                        last = pair.0;
                    }
                })
            })
            .collect();
        for i in 1..=LAST {
            while s.replace((i, i)).is_err() {
                thread::yield_now();
            }
        }
        readers.into_iter().for_each(|t| t.join().unwrap());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Loom sees a race where a writer takes a value from under a reader, and where a reader sees a
    /// half-made one.
    #[test]
    fn loom_snapshot_readers_and_a_writer() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let s = Arc::new(Snapshot::new(2, 1));
            let r = Arc::clone(&s);
            let reader = thread::spawn(move || {
                let a = *r.read();
                let b = *r.read();
                assert!(a <= b, "versions go forward");
            });
            let mut expected = 1;
            for value in [2, 3] {
                if s.replace(value).is_ok() {
                    expected = value;
                }
            }
            assert_eq!(*s.read(), expected);
            reader.join().unwrap();
            assert!(s.collect());
        });
    }

    /// Two threads leave a version, one of them as its owner, while a third replaces it: it is
    /// dropped after the last one.
    #[test]
    fn loom_snapshot_is_left_by_its_owner_and_another() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let s = Arc::new(Snapshot::new(2, 1));
            let readers = [0, 1].map(|_| {
                let r = Arc::clone(&s);
                thread::spawn(move || {
                    assert!((1..=2).contains(&*r.read()));
                    assert!((1..=2).contains(&*r.read()));
                })
            });
            let _ = s.replace(2);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            assert!(s.collect());
            assert_eq!(*s.read(), 2);
        });
    }
}
