//! The protocol between one writer and its readers, over atomic words wherever they lie.
//!
//! Buffer marks: `2n - 1` while value `n` is being written, `2n` when it is complete. The pattern
//! is that of a sequence lock, one a buffer (H. Boehm, "Can seqlocks get along with programming
//! language memory models?", 2012): the data are atomic words, a release fence stands between the
//! mark and them, an acquire fence between them and the second look at the mark.

use crate::fail_points::{FailPoint, fail_point};
use crate::geometry::{Geometry, SLOT_HEAD};
use crate::head::{Head, load_acquire};
use crate::words::{Cells, View};
use isorb_rt::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use isorb_rt::sync::atomic::{AtomicU64, fence};

/// No honest writer gets this far (at a value a nanosecond, after 73 years); it keeps the marks
/// from overflowing.
pub(crate) const MAX_SEQUENCE: u64 = 1 << 61;

/// An area's head and buffers.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'m> {
    pub head: &'m Head,
    /// All buffers, one after the other.
    pub words: &'m [AtomicU64],
    /// As it was when the segment was attached, never read again.
    pub geometry: Geometry,
}

/// What stands beside a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub len: usize,
    pub written_ns: u64,
    /// How far `written_ns` may be wrong; 0 where the value was written on this node.
    pub bound_ns: u64,
    pub epoch: u64,
    /// The number that the value has where it was first written.
    pub source: u64,
}

/// Why an attempt to read failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Miss {
    /// The buffer holds a later value, or is about to.
    Overwritten,
    Damaged,
}

impl<'m> Ring<'m> {
    fn slot(&self, n: u64) -> &'m [AtomicU64] {
        let stride = self.geometry.slot_words();
        let index = (n % self.geometry.buffers() as u64) as usize;
        &self.words[index * stride..(index + 1) * stride]
    }

    /// The sequence number of the last complete value; 0 for none.
    #[inline]
    pub fn latest(&self) -> u64 {
        load_acquire(&self.head.hot.latest)
    }

    /// Marks the buffer of value `n` as under way, and gives it to the writer. May be called again
    /// for the same `n`.
    pub fn open(&self, n: u64) -> Cells<'m> {
        let slot = self.slot(n);
        fail_point(FailPoint::MarkUnderWay);
        slot[0].store(2 * n - 1, Relaxed);
        // A thread that sees a word of the value, and then executes a fence, sees the mark as well.
        fence(Release);
        fail_point(FailPoint::Fill);
        Cells::new(&slot[SLOT_HEAD..], self.geometry.size())
    }

    /// Completes value `n`, which was opened and filled.
    pub fn publish(&self, n: u64, stamp: Stamp) {
        let slot = self.slot(n);
        fail_point(FailPoint::FillMore);
        slot[1].store(stamp.len as u64, Relaxed);
        slot[2].store(stamp.written_ns, Relaxed);
        slot[3].store(stamp.epoch, Relaxed);
        slot[4].store(stamp.source, Relaxed);
        slot[5].store(stamp.bound_ns, Relaxed);
        fail_point(FailPoint::MarkComplete);
        slot[0].store(2 * n, Release);
        fail_point(FailPoint::Name);
        self.head.hot.latest.store(n, Release);
        fail_point(FailPoint::Announce);
    }

    /// Where a new writer goes on: the last complete value, which is named if its writer died
    /// before it could.
    pub fn recover(&self) -> u64 {
        let latest = self.latest();
        if latest >= MAX_SEQUENCE {
            // Nothing that can be trusted. Start over; readers see the sequence go back and say so.
            self.head.hot.latest.store(0, Release);
            return 0;
        }
        let next = latest + 1;
        if load_acquire(&self.slot(next)[0]) == 2 * next {
            self.head.hot.latest.store(next, Release);
            return next;
        }
        latest
    }

    /// One attempt at value `n`, which must have been the latest at some time. What `look` returns
    /// is one value's, whole.
    #[inline]
    pub fn read<T>(&self, n: u64, look: impl FnOnce(View<'m>) -> T) -> Result<(T, Stamp), Miss> {
        let slot = self.slot(n);
        fail_point(FailPoint::ReadMark);
        let mark = load_acquire(&slot[0]);
        if mark != 2 * n {
            return Err(if mark > 2 * n { Miss::Overwritten } else { Miss::Damaged });
        }
        let len = slot[1].load(Relaxed);
        let written_ns = slot[2].load(Relaxed);
        let epoch = slot[3].load(Relaxed);
        let source = slot[4].load(Relaxed);
        let bound_ns = slot[5].load(Relaxed);
        let fits = len <= self.geometry.size() as u64;
        let len = if fits { len as usize } else { 0 };
        fail_point(FailPoint::Copy);
        let seen = look(View::new(&slot[SLOT_HEAD..], len));
        fail_point(FailPoint::Compare);
        fence(Acquire);
        if slot[0].load(Relaxed) != mark {
            return Err(Miss::Overwritten);
        }
        if !fits {
            return Err(Miss::Damaged);
        }
        Ok((seen, Stamp { len, written_ns, bound_ns, epoch, source }))
    }

    /// The octets of value `n`, which was read before. They may be those of a later one by now.
    #[cfg(not(loom))]
    pub fn view(&self, n: u64, len: usize) -> View<'m> {
        View::new(&self.slot(n)[SLOT_HEAD..], len.min(self.geometry.size()))
    }

    /// Does the buffer of value `n` still hold it? Then all that was loaded from it before is its.
    #[cfg(not(loom))]
    #[inline]
    pub fn holds(&self, n: u64) -> bool {
        fence(Acquire);
        self.slot(n)[0].load(Relaxed) == 2 * n
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// One writer and two readers over plain memory: what is read is whole, and never older than
    /// what the same thread has read before. Miri runs it too, in other orders for each seed, and
    /// hands out old words where the order of memory allows it.
    #[test]
    fn readers_see_whole_values_that_go_forward() {
        const VALUES: u64 = if cfg!(miri) { 40 } else { 100_000 };
        let geometry = Geometry::new(24, 1).unwrap();
        let words: Vec<_> =
            (0..geometry.buffers() * geometry.slot_words()).map(|_| AtomicU64::new(0)).collect();
        let head = Head::new();
        let ring = Ring { head: &head, words: &words, geometry };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut last = 0;
                    while last < VALUES {
                        let latest = ring.latest();
                        assert!(latest >= last);
                        if latest == 0 {
                            std::thread::yield_now();
                            continue;
                        }
                        let look =
                            |view: View<'_>| [0, 8, 16].map(|at| u64::from_ne_bytes(view.bytes(at).unwrap()));
                        match ring.read(latest, look) {
                            Ok((seen, stamp)) => {
                                assert_eq!((seen, stamp.written_ns, stamp.len), ([latest; 3], latest, 24));
                                last = latest;
                            }
                            Err(miss) => assert_eq!(miss, Miss::Overwritten, "the writer was faster"),
                        }
                        std::thread::yield_now();
                    }
                });
            }
            for n in 1..=VALUES {
                let cells = ring.open(n);
                [0, 8, 16].iter().for_each(|at| cells.put(*at, &n.to_ne_bytes()).unwrap());
                ring.publish(n, Stamp { len: 24, written_ns: n, bound_ns: 0, epoch: 1, source: n });
            }
        });
    }
}
