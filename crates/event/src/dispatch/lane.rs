//! Ready consumers in order, and the threads that wait for them.

use super::ReadyConsumer;
use isorb_rt::sync::atomic::AtomicBool;
use isorb_rt::sync::atomic::Ordering::{Acquire, Release};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The most priority levels of a channel.
pub(crate) const MAX_LEVELS: usize = 64;

/// How long after its backoff a consumer is checked again, if the channel's clock is slower.
const RETRY_NS: u64 = 1_000_000;

/// A queue of ready consumers for a range of levels: the most urgent level first, then by key, then
/// in order of arrival.
pub(crate) struct Lane {
    first_level: u8,
    state: PiMutex<State>,
    /// One for each thread of the lane.
    parkers: Box<[Parker]>,
    /// A copy of the flag in the state, to be read without the lock.
    closed: AtomicBool,
}

struct State {
    levels: Box<[BinaryHeap<Reverse<Entry>>]>,
    /// Bit n: level n is not empty.
    ready: u64,
    order: u64,
    /// Consumers in backoff, the first to end on top.
    resting: BinaryHeap<Reverse<Resting>>,
    /// The waiting threads, by number.
    idle: Vec<usize>,
    closed: bool,
}

struct Resting {
    /// On the monotonic clock.
    until: u64,
    order: u64,
    work: ReadyConsumer,
}

struct Entry {
    key: u64,
    order: u64,
    work: ReadyConsumer,
}

impl Lane {
    /// A lane for `levels` levels from `first_level` on, served by `threads` threads.
    pub(crate) fn new(first_level: u8, levels: usize, threads: usize) -> Lane {
        let state = State {
            levels: (0..levels.clamp(1, MAX_LEVELS)).map(|_| BinaryHeap::new()).collect(),
            ready: 0,
            order: 0,
            resting: BinaryHeap::new(),
            idle: Vec::with_capacity(threads),
            closed: false,
        };
        let parkers = (0..threads).map(|_| Parker::new()).collect();
        Lane { first_level, state: PiMutex::new(state), parkers, closed: AtomicBool::new(false) }
    }

    pub(crate) fn reserve(&self, consumers: usize) {
        let mut state = self.state.lock();
        for heap in &mut state.levels {
            heap.reserve(consumers.saturating_sub(heap.len()));
        }
        let resting = state.resting.len();
        state.resting.reserve(consumers.saturating_sub(resting));
    }

    /// Queues a consumer, and wakes a thread if one waits.
    pub(crate) fn put(&self, work: ReadyConsumer) -> Result<(), ReadyConsumer> {
        let (key, rest) = (work.key(), work.backoff_left());
        let mut state = self.state.lock();
        if state.closed {
            return Err(work);
        }
        if rest == 0 {
            state.put(self.first_level, key, work);
        } else {
            // Wake a waiting thread in this case too: it may have to wait for a shorter time.
            state.order += 1;
            let (until, order) = (now_ns().saturating_add(rest), state.order);
            state.resting.push(Reverse(Resting { until, order, work }));
        }
        let idle = state.idle.pop();
        drop(state);
        if let Some(thread) = idle {
            self.parkers[thread].unpark();
        }
        Ok(())
    }

    /// Takes the most urgent consumer if its level is above this one.
    pub(crate) fn take_above(&self, level: Option<u8>) -> Option<ReadyConsumer> {
        let mut state = self.state.lock();
        state.wake_rested(self.first_level);
        let highest = state.ready.checked_ilog2()? as u8;
        if level.is_some_and(|level| highest + self.first_level <= level) {
            return None;
        }
        state.take()
    }

    /// Waits as thread number `thread` for the most urgent consumer. `None` once the lane is closed
    /// and empty.
    pub(crate) fn wait(&self, thread: usize) -> Option<ReadyConsumer> {
        loop {
            let mut state = self.state.lock();
            let until = state.wake_rested(self.first_level);
            if let Some(work) = state.take() {
                // The thread may have found it without being woken, so it is no longer waiting.
                state.idle.retain(|idle| *idle != thread);
                return Some(work);
            }
            if state.closed {
                return None;
            }
            if !state.idle.contains(&thread) {
                state.idle.push(thread);
            }
            drop(state);
            self.parkers[thread].park_until(until);
        }
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.closed.store(true, Release);
        self.parkers.iter().for_each(Parker::unpark);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }
}

impl State {
    fn put(&mut self, first_level: u8, key: u64, work: ReadyConsumer) {
        let level = (work.level().saturating_sub(first_level) as usize).min(self.levels.len() - 1);
        self.order += 1;
        let order = self.order;
        self.levels[level].push(Reverse(Entry { key, order, work }));
        self.ready |= 1 << level;
    }

    /// Queues the consumers with an ended backoff; all of them once the lane is closed, since
    /// another dispatcher takes over. Returns when the next backoff ends.
    fn wake_rested(&mut self, first_level: u8) -> Deadline {
        while let Some(Reverse(next)) = self.resting.peek() {
            // The channel's clock decides. If it is slower than the system's, check again a little
            // later.
            let left = next.work.backoff_left();
            if !self.closed && left != 0 {
                return Deadline::at_ns(next.until.max(now_ns() + RETRY_NS.min(left)));
            }
            if let Some(Reverse(rested)) = self.resting.pop() {
                self.put(first_level, rested.work.key(), rested.work);
            }
        }
        Deadline::NONE
    }

    fn take(&mut self) -> Option<ReadyConsumer> {
        let level = self.ready.checked_ilog2()? as usize;
        let Reverse(entry) = self.levels[level].pop()?;
        if self.levels[level].is_empty() {
            self.ready &= !(1 << level);
        }
        Some(entry.work)
    }
}

impl Ord for Resting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.until, self.order).cmp(&(other.until, other.order))
    }
}

impl PartialOrd for Resting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Resting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Resting {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.key, self.order).cmp(&(other.key, other.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
