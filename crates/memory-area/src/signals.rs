//! One sleep for several areas.

use crate::head::load_acquire_32;
use crate::mapping::Mapping;
use crate::reader::Reader;
use core::fmt;
use isorb_rt::Errno;
use isorb_rt::time::{Deadline, NS_PER_S, now_ns};
use rustix::thread::futex::{Timespec, Wait, WaitFlags, WaitvFlags, waitv};
use std::sync::Arc;
use std::time::Duration;

/// The interval of looks where the kernel cannot wait for all areas at once.
const CHECK: Duration = Duration::from_millis(5);

/// What several areas had announced when they were [added](Self::add). A thread adds the readers,
/// looks whether they have what it wants, and sleeps if they have not: whatever is announced after
/// the addition ends the sleep.
///
/// ```
/// # use isorb_memory_area::{Geometry, Segment, Signals};
/// # use isorb_rt::time::Deadline;
/// # let areas = [Segment::create("a", Geometry::new(8, 1)?)?, Segment::create("b", Geometry::new(8, 1)?)?];
/// # let mut readers = areas.iter().map(|area| area.reader()).collect::<Result<Vec<_>, _>>()?;
/// # let mut writer = areas[1].writer()?;
/// # std::thread::spawn(move || writer.write(b"value"));
/// let mut signals = Signals::new();
/// while !readers.iter().any(|reader| reader.has_new()) {
///     signals.clear();
///     readers.iter().for_each(|reader| signals.add(reader));
///     if !readers.iter().any(|reader| reader.has_new()) {
///         signals.sleep(Deadline::NONE);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Signals {
    seen: Vec<(Arc<Mapping>, u32)>,
}

impl Signals {
    /// The most areas that the kernel waits for at once (`FUTEX_WAITV_MAX`).
    pub const MOST: usize = 128;

    /// Of no area.
    pub const fn new() -> Signals {
        Signals { seen: Vec::new() }
    }

    /// Removes all areas, and keeps the memory for as many.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// Adds a reader's area.
    ///
    /// # Real-time
    /// A load; allocates where there are more areas than ever before.
    pub fn add(&mut self, reader: &Reader) {
        let mapping = reader.mapping().clone();
        let seen = load_acquire_32(&mapping.head().hot.signal);
        self.seen.push((mapping, seen));
    }

    /// Sleeps until one of the areas has announced a value or a change of its state since it was
    /// added, or until the deadline. May end for no reason.
    ///
    /// # Real-time
    /// Does not allocate; one system call, `futex_waitv` of Linux 5.16. Where the kernel has none
    /// or forbids it, and for more than [`MOST`](Self::MOST) areas, the sleep ends after 5 ms at
    /// the latest, and the caller looks.
    pub fn sleep(&self, deadline: Deadline) {
        let mut waits = [Wait::new(); Signals::MOST];
        let sleepers = waits.iter_mut().zip(&self.seen);
        let count = sleepers
            .map(|(wait, (mapping, seen))| {
                wait.val = u64::from(*seen);
                wait.uaddr = core::ptr::from_ref(&mapping.head().hot.signal)
                    .cast_mut()
                    .cast::<core::ffi::c_void>()
                    .into();
                // Not private: writers are other processes.
                wait.flags = WaitFlags::SIZE_U32;
            })
            .count();
        let check = Deadline::after(CHECK).min(deadline);
        let until = if self.seen.len() > Signals::MOST { check } else { deadline };
        let at =
            until.as_ns().map(|ns| Timespec { tv_sec: (ns / NS_PER_S) as _, tv_nsec: (ns % NS_PER_S) as _ });
        let clock = rustix::thread::ClockId::Monotonic;
        match waitv(&waits[..count], WaitvFlags::empty(), at.as_ref(), clock) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            // No areas, no such call, or memory that is gone: without a pause the caller spins.
            Err(_) => {
                let until = if count == 0 { until } else { check };
                let left =
                    until.as_ns().map_or(CHECK, |ns| Duration::from_nanos(ns.saturating_sub(now_ns())));
                std::thread::sleep(left);
            }
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("areas", &self.seen.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, Segment};

    fn areas(count: usize) -> Vec<Segment> {
        (0..count).map(|_| Segment::create("test", Geometry::new(8, 1).unwrap()).unwrap()).collect()
    }

    fn added(readers: &[Reader]) -> Signals {
        let mut signals = Signals::new();
        readers.iter().for_each(|reader| signals.add(reader));
        signals
    }

    #[test]
    fn a_value_of_any_area_ends_the_sleep() {
        for count in [1, 3, Signals::MOST, Signals::MOST + 2] {
            let areas = areas(count);
            let readers: Vec<_> = areas.iter().map(|area| area.reader().unwrap()).collect();
            for written in [0, count / 2, count - 1] {
                let signals = added(&readers);
                let mut writer = areas[written].writer().unwrap();
                let before = readers[written].sequence();
                std::thread::scope(|scope| {
                    scope.spawn(move || writer.write(b"new").unwrap());
                    // Without an end: only the value ends it.
                    while readers[written].sequence() == before {
                        signals.sleep(Deadline::NONE);
                    }
                });
            }
        }
    }

    #[test]
    fn what_was_announced_before_the_sleep_ends_it() {
        let areas = areas(2);
        let readers: Vec<_> = areas.iter().map(|area| area.reader().unwrap()).collect();
        let signals = added(&readers);
        areas[1].writer().unwrap().write(b"new").unwrap();
        signals.sleep(Deadline::NONE);
        areas[0].set_state(crate::State::Stopped).unwrap();
        signals.sleep(Deadline::NONE);
    }

    #[test]
    fn a_sleep_ends_at_its_deadline_with_areas_and_without() {
        for count in [0, 2, Signals::MOST + 1] {
            let areas = areas(count);
            let readers: Vec<_> = areas.iter().map(|area| area.reader().unwrap()).collect();
            let (signals, end) = (added(&readers), Deadline::after(Duration::from_millis(20)));
            while !end.is_past() {
                signals.sleep(end);
            }
        }
    }
}
