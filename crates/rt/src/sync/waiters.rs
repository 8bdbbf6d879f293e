//! Many threads that wait for what one of them fetches.

use core::fmt;

use super::Parker;
use super::atomic::Ordering::{Relaxed, SeqCst};
use super::atomic::{AtomicBool, AtomicU32, fence};
use crate::time::Deadline;

/// Threads that wait while one of them, who holds a lock, works for all: the first caller on a shared connection reads the
/// replies of the others.
///
/// The holder [`wake`](Self::wake)s those for whom it has something. When it lets go of the lock it calls
/// [`hand_over`](Self::hand_over), so that another takes its place. Who finds the lock taken [`announce`](Self::announce)s itself, *tries the
/// lock once more*, and only then [`park`](Announced::park)s: a holder that leaves in between sees the announcement, or the
/// second try finds the lock free. Who was woken and takes no place at the lock must call `hand_over` too, since it cannot know
/// what it was woken for.
pub struct Waiters {
    waiting: AtomicU32,
    places: Box<[Place]>,
}

#[derive(Default)]
struct Place {
    parked: AtomicBool,
    parker: Parker,
}

impl Waiters {
    /// Room for `places` threads.
    pub fn new(places: usize) -> Self {
        let places = (0..places).map(|_| Place::default()).collect();
        Waiters { waiting: AtomicU32::new(0), places }
    }

    /// Says that the thread at `place` is about to park, until the result is dropped.
    ///
    /// # Panics
    /// If there is no such place.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; two atomic operations and a fence.
    pub fn announce(&self, place: usize) -> Announced<'_> {
        let place = &self.places[place];
        self.waiting.fetch_add(1, SeqCst);
        place.parked.store(true, SeqCst);
        fence(SeqCst);
        Announced { waiters: self, place }
    }

    /// Wakes the thread at `place`, or lets its next [`park`](Announced::park) return at once.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one system call if the thread is parked.
    pub fn wake(&self, place: usize) {
        self.places[place].parker.unpark();
    }

    /// Forgets a wake that the last user of `place` did not take.
    #[inline]
    pub fn reset(&self, place: usize) {
        self.places[place].parker.reset();
    }

    /// Wakes one that waits, if there is one. Call it after letting go of the lock.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. A fence and a load when nobody waits, else it looks at each place once, and makes one
    /// system call.
    #[inline]
    pub fn hand_over(&self) {
        fence(SeqCst);
        if self.waiting.load(Relaxed) != 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        if let Some(place) = self.places.iter().find(|place| place.parked.load(SeqCst)) {
            place.parker.unpark();
        }
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("waiting", &self.waiting.load(Relaxed)).finish_non_exhaustive()
    }
}

/// A thread that is about to park.
#[must_use = "the announcement ends when this is dropped"]
pub struct Announced<'a> {
    waiters: &'a Waiters,
    place: &'a Place,
}

impl Announced<'_> {
    /// Parks until woken; `false` when the deadline passed.
    ///
    /// # Real-time
    /// Does not allocate. Blocks until woken or the deadline.
    pub fn park(&self, deadline: Deadline) -> bool {
        self.place.parker.park_until(deadline)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.place.parked.store(false, SeqCst);
        self.waiters.waiting.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for Announced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announced").finish_non_exhaustive()
    }
}
