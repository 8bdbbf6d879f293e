//! A ring of records: one thread at a time writes, one thread reads, and neither waits.

use core::fmt;
use core::mem::MaybeUninit;

use super::Level;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::cell::UnsafeCell;

/// The longest text of a record in octets. The rest of a longer text is cut off.
pub const MAX_TEXT: usize = 976;

/// A record as it lies in a ring. A new one consists of zeros only, so that the rings of a process
/// without records occupy no memory.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    pub level: Level,
    target: Option<&'static str>,
    len: u16,
    text: [MaybeUninit<u8>; MAX_TEXT],
}

impl Slot {
    const EMPTY: Slot =
        Slot { time_ns: 0, level: Level::Error, target: None, len: 0, text: [MaybeUninit::new(0); MAX_TEXT] };

    /// Begins a record without text.
    pub fn begin(&mut self, time_ns: u64, level: Level, target: &'static str) {
        (self.time_ns, self.level, self.target, self.len) = (time_ns, level, Some(target), 0);
    }

    pub fn target(&self) -> &'static str {
        self.target.unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        let text = &self.text[..usize::from(self.len)];
        // SAFETY: `write_str` alone sets `len`, behind whole characters that it has written.
        unsafe { core::str::from_utf8_unchecked(text.assume_init_ref()) }
    }
}

impl fmt::Write for Slot {
    /// Appends the characters that fit.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let begin = usize::from(self.len);
        let fits = &text[..text.floor_char_boundary(MAX_TEXT - begin)];
        self.text[begin..begin + fits.len()].write_copy_of_slice(fits.as_bytes());
        self.len += fits.len() as u16;
        if fits.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// A ring of `N` records.
///
/// A thread that writes holds the ring's permit meanwhile; a thread that finds it taken goes to
/// another ring. So a writer that is pre-empted keeps one ring and delays no other thread.
pub(super) struct Ring<const N: usize> {
    slots: [UnsafeCell<Slot>; N],
    /// Records that were read.
    head: AtomicU32,
    /// Records that were written.
    tail: AtomicU32,
    /// Whether a thread holds the permit to write.
    taken: AtomicBool,
    /// Records for which there was no room.
    dropped: AtomicU64,
}

// SAFETY: the holder of the permit alone writes slots from `tail` on; the one reader alone reads
// those from `head` to `tail`. Each hands slots to the other by a release store of its counter.
unsafe impl<const N: usize> Sync for Ring<N> {}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Yes,
    /// The ring is full. The record is counted as dropped.
    Dropped,
    /// Another thread writes to this ring.
    Taken,
}

impl<const N: usize> Ring<N> {
    #[cfg(not(loom))]
    pub const fn new() -> Ring<N> {
        Ring {
            slots: [const { UnsafeCell::new(Slot::EMPTY) }; N],
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }

    #[cfg(loom)]
    pub fn new() -> Ring<N> {
        Ring {
            slots: core::array::from_fn(|_| UnsafeCell::new(Slot::EMPTY)),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }

    /// Appends a record that `fill` writes. A panic of `fill` appends none.
    ///
    /// # Real-time
    /// Neither allocates nor waits: an exchange, and a store for each of two counters.
    pub fn write(&self, fill: impl FnOnce(&mut Slot)) -> Written {
        if self.taken.swap(true, Acquire) {
            return Written::Taken;
        }
        let _permit = Permit(&self.taken);
        let tail = self.tail.load(Relaxed);
        if tail.wrapping_sub(self.head.load(Acquire)) as usize >= N {
            self.dropped.fetch_add(1, Relaxed);
            return Written::Dropped;
        }
        // SAFETY: the permit keeps other writers out, and the reader does not read from `tail` on.
        self.slots[tail as usize % N].with_mut(|slot| fill(unsafe { &mut *slot }));
        self.tail.store(tail.wrapping_add(1), Release);
        Written::Yes
    }

    /// The time of the oldest record. For the one reader.
    pub fn oldest_ns(&self) -> Option<u64> {
        // SAFETY: as in `oldest`.
        self.oldest().map(|slot| slot.with(|slot| unsafe { (*slot).time_ns }))
    }

    /// Reads the oldest record and then removes it; `None` if there is none. For the one reader.
    pub fn read<R>(&self, read: impl FnOnce(&Slot) -> R) -> Option<R> {
        let slot = self.oldest()?;
        // SAFETY: as in `oldest`.
        let result = slot.with(|slot| read(unsafe { &*slot }));
        self.head.store(self.head.load(Relaxed).wrapping_add(1), Release);
        Some(result)
    }

    /// The slot of the oldest record. No thread writes to it before `head` has passed it, which the
    /// reader alone moves.
    fn oldest(&self) -> Option<&UnsafeCell<Slot>> {
        let head = self.head.load(Relaxed);
        (self.tail.load(Acquire) != head).then(|| &self.slots[head as usize % N])
    }

    /// How many records were written so far.
    pub fn written(&self) -> u32 {
        self.tail.load(Acquire)
    }

    /// Whether the first `count` records were read.
    pub fn is_read_to(&self, count: u32) -> bool {
        self.head.load(Acquire).wrapping_sub(count) as i32 >= 0
    }

    /// How many records were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Empties the ring in the child of a fork, which has none of the other threads.
    #[cfg(not(loom))]
    pub fn reset(&self) {
        self.head.store(self.tail.load(Relaxed), Relaxed);
        self.taken.store(false, Relaxed);
    }
}

/// The permit to write to a ring.
struct Permit<'r>(&'r AtomicBool);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::fmt::Write as _;

    fn write<const N: usize>(ring: &Ring<N>, text: &str) -> Written {
        ring.write(|slot| {
            slot.begin(1, Level::Warn, "t");
            let _ = slot.write_str(text);
        })
    }

    #[test]
    fn a_full_ring_keeps_its_records_and_counts_the_others() {
        let ring = Ring::<2>::new();
        let written: Vec<_> = ["a", "b", "c"].iter().map(|text| write(&ring, text)).collect();
        assert_eq!(written, [Written::Yes, Written::Yes, Written::Dropped]);
        let read = || ring.read(|slot| slot.text().to_owned());
        assert_eq!(read().as_deref(), Some("a"));
        assert_eq!(write(&ring, "d"), Written::Yes);
        assert_eq!([read(), read(), read()], [Some("b".into()), Some("d".into()), None]);
        assert_eq!((ring.dropped(), ring.written(), ring.is_read_to(3)), (1, 3, true));
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let ring = Ring::<1>::new();
        write(&ring, &("x".repeat(MAX_TEXT - 1) + "ä and more"));
        assert_eq!(ring.read(|slot| slot.text().to_owned()), Some("x".repeat(MAX_TEXT - 1)));
    }

    /// Miri runs it too, in other orders for each seed.
    #[test]
    fn records_of_several_writers_are_read_once_and_whole_or_counted() {
        const WRITERS: u64 = 3;
        const EACH: u64 = if cfg!(miri) { 6 } else { 20_000 };
        let ring = Ring::<4>::new();
        let mut seen = [0; WRITERS as usize];
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let ring = &ring;
                    let record = move |number: u64| {
                        ring.write(|slot| {
                            slot.begin(number, Level::Warn, "t");
                            let _ = write!(slot, "{writer}/{number}");
                        })
                    };
                    scope.spawn(move || (1..=EACH).filter(|n| record(*n) == Written::Yes).count())
                })
                .collect();
            let mut read = 0;
            let mut read_all = || {
                while ring
                    .read(|slot| {
                        let (writer, number) = slot.text().split_once('/').unwrap();
                        assert_eq!(number, slot.time_ns.to_string());
                        let last = &mut seen[writer.parse::<usize>().unwrap()];
                        assert!(slot.time_ns > *last, "in the order of their writer");
                        (*last, read) = (slot.time_ns, read + 1);
                    })
                    .is_some()
                {}
            };
            while !writers.iter().all(|writer| writer.is_finished()) {
                read_all();
                std::thread::yield_now();
            }
            read_all();
            let written: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
            assert_eq!((read, ring.written() as usize), (written, written));
        });
    }

    #[test]
    fn a_writer_that_panics_or_writes_again_leaves_the_ring_usable() {
        let ring = Ring::<2>::new();
        let panics = std::panic::AssertUnwindSafe(|| ring.write(|_| panic!("in a Display")));
        assert!(std::panic::catch_unwind(panics).is_err());
        ring.write(|_| assert_eq!(write(&ring, "nested"), Written::Taken));
        assert_eq!(write(&ring, "a"), Written::Yes);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use core::fmt::Write as _;
    use loom::sync::Arc;
    use loom::thread;

    /// Two writers and the reader: each record that was written is read once, in the order of its
    /// writer and whole; the others are counted.
    #[test]
    fn loom_records_are_read_once_and_whole_or_counted() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let ring = Arc::new(Ring::<2>::new());
            let write = |ring: &Ring<2>, number: u64| {
                let written = ring.write(|slot| {
                    slot.begin(number, Level::Warn, "t");
                    let _ = write!(slot, "{number}");
                });
                u32::from(written == Written::Yes)
            };
            let writers = [10, 20].map(|first| {
                let ring = ring.clone();
                thread::spawn(move || write(&ring, first) + write(&ring, first + 1))
            });
            let mut seen = Vec::new();
            let read = |seen: &mut Vec<u64>| {
                ring.read(|slot| {
                    assert_eq!(slot.text(), slot.time_ns.to_string());
                    seen.push(slot.time_ns);
                })
            };
            read(&mut seen);
            read(&mut seen);
            let written: u32 = writers.map(|writer| writer.join().unwrap()).iter().sum();
            while read(&mut seen).is_some() {}
            assert_eq!((seen.len() as u32, ring.written()), (written, written));
            for first in [10, 20] {
                let own: Vec<_> = seen.iter().filter(|number| **number / 10 == first / 10).collect();
                assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
            }
        });
    }
}
