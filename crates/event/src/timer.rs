//! Timers: a heap and a thread for each priority level that has any.
//!
//! So a time-out is handled at the priority of its consumer, and timers of background tasks never
//! delay those of urgent ones (TAO event service paper, section 4.2.5).

use crate::correlation::Registration;
use crate::counters::count;
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use isorb_rt::timers::TimerHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

pub(crate) struct Timers {
    bands: Box<[Band]>,
    capacity: usize,
    stopped: AtomicBool,
}

struct Band {
    heap: PiMutex<TimerHeap<Entry>>,
    parker: Parker,
    has_thread: AtomicBool,
}

struct Entry {
    registration: Arc<Registration>,
    leaf: usize,
}

/// A timer that expired.
pub(crate) struct ExpiredTimer {
    pub registration: Arc<Registration>,
    pub leaf: usize,
    /// When it was due.
    pub at: u64,
}

/// All timers are in use.
#[derive(Debug)]
pub(crate) struct NoTimer;

impl Timers {
    pub(crate) fn new(levels: usize, capacity: usize) -> Timers {
        let band = |_| Band {
            heap: PiMutex::new(TimerHeap::with_capacity(0)),
            parker: Parker::new(),
            has_thread: AtomicBool::new(false),
        };
        Timers { bands: (0..levels).map(band).collect(), capacity, stopped: AtomicBool::new(false) }
    }

    fn band(&self, registration: &Registration) -> usize {
        (registration.connection().level() as usize).min(self.bands.len() - 1)
    }

    /// EventListPool all timers of a registration, or none. Says in which band, and whether that
    /// has no thread yet.
    pub(crate) fn arm(
        &self,
        registration: &Arc<Registration>,
        now: u64,
    ) -> Result<Option<(usize, bool)>, NoTimer> {
        if registration.timer_leaves().next().is_none() {
            return Ok(None);
        }
        let number = self.band(registration);
        let band = &self.bands[number];
        let mut heap = band.heap.lock();
        if heap.capacity() == 0 {
            *heap = TimerHeap::with_capacity(self.capacity);
        }
        if heap.capacity() - heap.len() < registration.timer_leaves().count() {
            return Err(NoTimer);
        }
        registration.set_satisfied(now);
        let mut set = registration.timers.lock();
        for (leaf, timer) in registration.timer_leaves() {
            let entry = Entry { registration: registration.clone(), leaf };
            if let Ok(handle) = heap.push(now.saturating_add(timer.period_ns), entry) {
                set.push((number, handle));
            }
        }
        drop((set, heap));
        band.parker.unpark();
        Ok(Some((number, !band.has_thread.swap(true, AcqRel))))
    }

    /// Records that the band's thread did not start.
    pub(crate) fn has_no_thread(&self, band: usize) {
        self.bands[band].has_thread.store(false, Release);
    }

    /// Removes the timers of a registration.
    pub(crate) fn disarm(&self, registration: &Registration) {
        for (number, band) in self.bands.iter().enumerate() {
            // The same lock order as in `next_due`.
            let mut heap = band.heap.lock();
            let mut set = registration.timers.lock();
            let mut entries = Vec::new();
            set.retain(|(of, handle)| {
                if *of == number {
                    entries.extend(heap.remove(*handle));
                }
                *of != number
            });
            drop((set, heap));
        }
    }

    /// Takes the next timer of a band that is due at `now`, and arms it again.
    ///
    /// # Real-time
    /// Does not allocate. Takes the band's lock; O(log n).
    pub(crate) fn next_due(&self, band: usize, now: u64) -> Option<ExpiredTimer> {
        let mut heap = self.bands[band].heap.lock();
        loop {
            let (at, entry) = heap.pop_due(now)?;
            let registration = entry.registration.clone();
            let leaf = entry.leaf;
            let mut set = registration.timers.lock();
            // Its handle is invalid after expiry; that of its successor replaces it.
            let (Some(timer), false) = (registration.timer(leaf), registration.connection().is_gone()) else {
                continue;
            };
            let (next, fires) = if timer.deadline {
                let until = registration.satisfied_at().saturating_add(timer.period_ns);
                if until > now { (until, false) } else { (now.saturating_add(timer.period_ns), true) }
            } else {
                let late = now.saturating_sub(at) / timer.period_ns;
                if late != 0 && !registration.checks_instances() {
                    registration.connection().counters.late_intervals.fetch_add(late, Relaxed);
                }
                (at.saturating_add(timer.period_ns.saturating_mul(late + 1)), true)
            };
            if fires && timer.deadline {
                registration.set_satisfied(now);
            }
            let handle = heap.push(next, entry);
            set.retain(|(of, old)| *of != band || heap.contains(*old));
            if let Ok(handle) = handle {
                set.push((band, handle));
            }
            drop(set);
            if fires {
                if !registration.checks_instances() {
                    count(&registration.connection().counters.timeouts);
                }
                return Some(ExpiredTimer { registration, leaf, at });
            }
        }
    }

    /// The body of a band's thread: calls `fire` for expired timers until the channel stops. `now`
    /// reads the clock.
    pub(crate) fn drive(
        &self,
        band: usize,
        now: impl Fn() -> u64,
        mut fire: impl FnMut(ExpiredTimer) -> bool,
    ) {
        while !self.stopped.load(Acquire) {
            let next = self.bands[band].heap.lock().next_at();
            let deadline = next.map_or(Deadline::NONE, Deadline::at_ns);
            self.bands[band].parker.park_until(deadline);
            while let Some(due) = self.next_due(band, now()) {
                if !fire(due) {
                    return;
                }
            }
        }
    }

    pub(crate) fn bands(&self) -> usize {
        self.bands.len()
    }

    /// When the next timer of any band expires.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.bands.iter().filter_map(|band| band.heap.lock().next_at()).min()
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Release);
        self.bands.iter().for_each(|band| band.parker.unpark());
    }
}
