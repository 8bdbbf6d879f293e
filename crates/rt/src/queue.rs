//! A bounded queue with priority bands.

use core::fmt;
use std::collections::VecDeque;

use crate::sync::{PiCondvar, PiMutex};
use crate::time::Deadline;

/// What a push does when its band is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// Waits for room until the push's deadline, then gives the value back.
    Block,
    /// Takes the value in and hands out the band's oldest.
    DropOldest,
    /// Hands the value out again: it counts as dropped.
    DropNewest,
    /// Gives the value back as an error.
    Refuse,
}

/// A queue between any number of threads, in bands of priority. A pop takes from the most urgent band that has
/// something (the highest number), within a band in order of arrival. Each band has its own limit, so a flood in one
/// takes no room from another.
///
/// The threads share a [`PiMutex`], so a low thread that is pre-empted with the queue in its hands is lent the priority
/// of whoever waits for it. (A queue without a lock would have the high thread spin on the low one's unfinished step.)
/// Values are dropped by the threads that push and pop, never under the lock.
///
/// ```
/// use isorb_rt::{queue::{BandQueue, Overflow, Pushed}, time::Deadline};
///
/// let queue = BandQueue::new(&[1, 4], Overflow::DropOldest);
/// queue.push(0, "log", Deadline::NONE)?;
/// queue.push(1, "alarm", Deadline::NONE)?;
/// assert_eq!(queue.push(0, "newer log", Deadline::NONE)?, Pushed::Displaced("log"));
/// assert_eq!(queue.pop(Deadline::NONE), Ok((1, "alarm")));
/// assert_eq!(queue.pop(Deadline::NONE), Ok((0, "newer log")));
/// # Ok::<(), isorb_rt::queue::PushError<&str>>(())
/// ```
pub struct BandQueue<T> {
    state: PiMutex<State<T>>,
    filled: PiCondvar,
    /// One a band: who waits for room in a low band is not to be woken for room in a high one.
    room: Box<[PiCondvar]>,
    overflow: Overflow,
}

struct State<T> {
    bands: Box<[Band<T>]>,
    /// Bit n: band n has something.
    ready: u64,
    dropped: u64,
    closed: bool,
}

struct Band<T> {
    values: VecDeque<T>,
    /// The limit; the deque may have room for more.
    capacity: usize,
}

/// What became of a value that was pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed<T> {
    /// It is in the queue.
    Queued,
    /// It is in the queue, and this one no longer is ([`Overflow::DropOldest`]).
    Displaced(T),
    /// It is not ([`Overflow::DropNewest`]).
    Dropped(T),
}

/// Why a value was not taken in; it is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushError<T> {
    /// The band is full ([`Overflow::Refuse`]), or was until the deadline ([`Overflow::Block`]).
    Full(T),
    /// The queue is closed.
    Closed(T),
}

/// Why nothing was popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PopError {
    /// The queue was empty until the deadline.
    TimedOut,
    /// The queue is closed, and empty.
    Closed,
}

impl<T> BandQueue<T> {
    /// The most bands that a queue can have.
    pub const MAX_BANDS: usize = u64::BITS as usize;

    /// A queue with one band for each of `capacities`, the least urgent first. All its memory is taken here.
    ///
    /// # Panics
    /// If there are no bands, or more than [`MAX_BANDS`](Self::MAX_BANDS), or one of capacity 0.
    pub fn new(capacities: &[usize], overflow: Overflow) -> Self {
        assert!((1..=Self::MAX_BANDS).contains(&capacities.len()), "a queue has 1 to 64 bands");
        assert!(!capacities.contains(&0), "a band holds at least one value");
        let bands =
            capacities.iter().map(|&capacity| Band { values: VecDeque::with_capacity(capacity), capacity });
        let state = State { bands: bands.collect(), ready: 0, dropped: 0, closed: false };
        BandQueue {
            state: PiMutex::new(state),
            filled: PiCondvar::new(),
            room: capacities.iter().map(|_| PiCondvar::new()).collect(),
            overflow,
        }
    }

    /// Puts `value` into `band`. `deadline` matters to [`Overflow::Block`] only.
    ///
    /// # Errors
    /// [`PushError`], with the value.
    ///
    /// # Panics
    /// If there is no such band.
    ///
    /// # Real-time
    /// Does not allocate. Takes the queue's lock for O(1); blocks until `deadline` under [`Overflow::Block`]; at most
    /// one system call to wake a popper.
    pub fn push(&self, band: usize, value: T, deadline: Deadline) -> Result<Pushed<T>, PushError<T>> {
        let mut state = self.state.lock();
        if self.overflow == Overflow::Block {
            self.room[band].wait_while(&mut state, deadline, |s| !s.closed && s.bands[band].is_full());
        }
        if state.closed {
            return Err(PushError::Closed(value));
        }
        let mut pushed = Pushed::Queued;
        if state.bands[band].is_full() {
            match self.overflow {
                Overflow::Block | Overflow::Refuse => return Err(PushError::Full(value)),
                Overflow::DropNewest => {
                    state.dropped += 1;
                    return Ok(Pushed::Dropped(value));
                }
                Overflow::DropOldest => {
                    state.dropped += 1;
                    if let Some(oldest) = state.bands[band].values.pop_front() {
                        pushed = Pushed::Displaced(oldest);
                    }
                }
            }
        }
        state.bands[band].values.push_back(value);
        state.ready |= 1 << band;
        drop(state);
        self.filled.notify_one(&self.state);
        Ok(pushed)
    }

    /// Takes the most urgent value, and says its band; waits for one until `deadline`.
    ///
    /// # Errors
    /// [`PopError`].
    ///
    /// # Real-time
    /// Does not allocate. Takes the queue's lock for O(1); blocks until `deadline`; at most one system call to wake a
    /// pusher.
    pub fn pop(&self, deadline: Deadline) -> Result<(usize, T), PopError> {
        let mut state = self.state.lock();
        self.filled.wait_while(&mut state, deadline, |s| !s.closed && s.ready == 0);
        let Some((band, value)) = state.take() else {
            return Err(if state.closed { PopError::Closed } else { PopError::TimedOut });
        };
        drop(state);
        if self.overflow == Overflow::Block {
            self.room[band].notify_one(&self.state);
        }
        Ok((band, value))
    }

    /// Takes no more in. Who waits to push is refused; who pops gets what is left, then [`PopError::Closed`].
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all(&self.state);
        self.room.iter().for_each(|room| room.notify_all(&self.state));
    }

    /// How many values there are at this moment, in all bands.
    pub fn len(&self) -> usize {
        self.state.lock().bands.iter().map(|b| b.values.len()).sum()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.state.lock().ready == 0
    }

    /// How many values were displaced or dropped so far.
    pub fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<(usize, T)> {
        let band = self.ready.checked_ilog2()? as usize;
        let value = self.bands[band].values.pop_front()?;
        if self.bands[band].values.is_empty() {
            self.ready &= !(1 << band);
        }
        Some((band, value))
    }
}

impl<T> Band<T> {
    fn is_full(&self) -> bool {
        self.values.len() >= self.capacity
    }
}

impl<T> fmt::Debug for BandQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BandQueue")
            .field("bands", &self.room.len())
            .field("overflow", &self.overflow)
            .finish()
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "the queue's band is full",
            PushError::Closed(_) => "the queue is closed",
        })
    }
}

impl<T: fmt::Debug> std::error::Error for PushError<T> {}

impl fmt::Display for PopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PopError::TimedOut => "the queue was empty until the deadline",
            PopError::Closed => "the queue is closed and empty",
        })
    }
}

impl std::error::Error for PopError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn filled(overflow: Overflow) -> BandQueue<u32> {
        let q = BandQueue::new(&[2, 2], overflow);
        for v in [1, 2] {
            assert_eq!(q.push(0, v, Deadline::PAST), Ok(Pushed::Queued));
        }
        q
    }

    fn drained(q: &BandQueue<u32>) -> Vec<(usize, u32)> {
        std::iter::from_fn(|| q.pop(Deadline::PAST).ok()).collect()
    }

    #[test]
    fn urgent_first_then_in_order() {
        let q = filled(Overflow::Refuse);
        q.push(1, 3, Deadline::PAST).unwrap();
        q.push(1, 4, Deadline::PAST).unwrap();
        assert_eq!(q.len(), 4);
        assert_eq!(drained(&q), [(1, 3), (1, 4), (0, 1), (0, 2)]);
        assert!(q.is_empty());
        assert_eq!(q.pop(Deadline::after(Duration::from_millis(2))), Err(PopError::TimedOut));
    }

    #[test]
    fn a_full_band_does_what_its_policy_says() {
        let q = filled(Overflow::Refuse);
        assert_eq!(q.push(0, 3, Deadline::NONE), Err(PushError::Full(3)));
        assert_eq!(q.push(1, 4, Deadline::NONE), Ok(Pushed::Queued), "the other band has room");
        assert_eq!(drained(&q), [(1, 4), (0, 1), (0, 2)]);

        let q = filled(Overflow::DropOldest);
        assert_eq!(q.push(0, 3, Deadline::NONE), Ok(Pushed::Displaced(1)));
        assert_eq!((drained(&q), q.dropped()), (vec![(0, 2), (0, 3)], 1));

        let q = filled(Overflow::DropNewest);
        assert_eq!(q.push(0, 3, Deadline::NONE), Ok(Pushed::Dropped(3)));
        assert_eq!((drained(&q), q.dropped()), (vec![(0, 1), (0, 2)], 1));

        let q = filled(Overflow::Block);
        assert_eq!(q.push(0, 3, Deadline::after(Duration::from_millis(2))), Err(PushError::Full(3)));
        assert_eq!((drained(&q), q.dropped()), (vec![(0, 1), (0, 2)], 0));
    }

    #[test]
    fn a_blocked_push_goes_on_when_there_is_room() {
        let q = Arc::new(filled(Overflow::Block));
        let p = q.clone();
        let t = thread::spawn(move || p.push(0, 3, Deadline::after(Duration::from_secs(60))));
        assert_eq!(q.pop(Deadline::NONE), Ok((0, 1)));
        assert_eq!(t.join().unwrap(), Ok(Pushed::Queued));
        assert_eq!(drained(&q), [(0, 2), (0, 3)]);
    }

    #[test]
    fn closing_ends_all_waits_and_loses_nothing() {
        let q = Arc::new(filled(Overflow::Block));
        let p = q.clone();
        let pusher = thread::spawn(move || p.push(0, 3, Deadline::NONE));
        let e = Arc::new(BandQueue::<u32>::new(&[1], Overflow::Block));
        let p = e.clone();
        let popper = thread::spawn(move || p.pop(Deadline::NONE));
        thread::sleep(Duration::from_millis(5));
        q.close();
        e.close();
        assert_eq!(pusher.join().unwrap(), Err(PushError::Closed(3)));
        assert_eq!(popper.join().unwrap(), Err(PopError::Closed));
        assert_eq!(drained(&q), [(0, 1), (0, 2)]);
        assert_eq!(q.pop(Deadline::NONE), Err(PopError::Closed));
    }

    #[test]
    fn every_value_is_popped_once() {
        const EACH: u64 = 5_000;
        let q = Arc::new(BandQueue::new(&[3, 1, 7], Overflow::Block));
        let poppers: Vec<_> = (0..2)
            .map(|_| {
                let q = q.clone();
                thread::spawn(move || {
                    let (mut count, mut sum) = (0, 0);
                    while let Ok((_, value)) = q.pop(Deadline::NONE) {
                        count += 1;
                        sum += value;
                    }
                    (count, sum)
                })
            })
            .collect();
        let pushers: Vec<_> = (0..3)
            .map(|band| {
                let q = q.clone();
                thread::spawn(move || {
                    (1..=EACH).for_each(|v| assert!(q.push(band, v, Deadline::NONE) == Ok(Pushed::Queued)));
                })
            })
            .collect();
        pushers.into_iter().for_each(|t| t.join().unwrap());
        q.close();
        let (count, sum) =
            poppers.into_iter().map(|t| t.join().unwrap()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        assert_eq!((count, sum), (3 * EACH, 3 * EACH * (EACH + 1) / 2));
    }

    #[test]
    #[should_panic(expected = "1 to 64 bands")]
    fn too_many_bands() {
        BandQueue::<()>::new(&[1; 65], Overflow::Refuse);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A band of one, so that the pusher waits for the popper and the popper for the pusher.
    #[test]
    fn loom_queue_hands_over_in_order_and_closes() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let queue = Arc::new(BandQueue::new(&[1], Overflow::Block));
            let q = Arc::clone(&queue);
            let pusher = thread::spawn(move || {
                for value in [1, 2] {
                    assert_eq!(q.push(0, value, Deadline::NONE), Ok(Pushed::Queued));
                }
                q.close();
            });
            assert_eq!(queue.pop(Deadline::NONE), Ok((0, 1)));
            assert_eq!(queue.pop(Deadline::NONE), Ok((0, 2)));
            assert_eq!(queue.pop(Deadline::NONE), Err(PopError::Closed));
            pusher.join().unwrap();
        });
    }
}
