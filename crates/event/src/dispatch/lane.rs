//! Consumers that have work, in order, and threads that wait for them.

use super::Work;
use isorb_rt::sync::atomic::AtomicBool;
use isorb_rt::sync::atomic::Ordering::{Acquire, Release};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The most levels of priority.
pub(crate) const MAX_LEVELS: usize = 64;

/// One queue of tokens for a range of levels, the most urgent level first, then by key, then in order of arrival.
pub(crate) struct Lane {
    first_level: u8,
    state: PiMutex<State>,
    /// One a thread of the lane.
    parkers: Box<[Parker]>,
    /// As in the state, for a look without the lock.
    closed: AtomicBool,
}

struct State {
    levels: Box<[BinaryHeap<Reverse<Entry>>]>,
    /// Bit n: level n has something.
    ready: u64,
    order: u64,
    /// Threads that wait, by number.
    idle: Vec<usize>,
    closed: bool,
}

struct Entry {
    key: u64,
    order: u64,
    work: Work,
}

impl Lane {
    /// For `levels` levels from `first_level` on, served by `threads` threads.
    pub(crate) fn new(first_level: u8, levels: usize, threads: usize) -> Lane {
        let state = State {
            levels: (0..levels.clamp(1, MAX_LEVELS)).map(|_| BinaryHeap::new()).collect(),
            ready: 0,
            order: 0,
            idle: Vec::with_capacity(threads),
            closed: false,
        };
        let parkers = (0..threads).map(|_| Parker::new()).collect();
        Lane { first_level, state: PiMutex::new(state), parkers, closed: AtomicBool::new(false) }
    }

    pub(crate) fn reserve(&self, consumers: usize) {
        for heap in &mut self.state.lock().levels {
            heap.reserve(consumers.saturating_sub(heap.len()));
        }
    }

    /// Puts a token in, and wakes a thread if one waits.
    pub(crate) fn put(&self, work: Work) -> Result<(), Work> {
        let key = work.key();
        let mut state = self.state.lock();
        if state.closed {
            return Err(work);
        }
        let level = (work.level().saturating_sub(self.first_level) as usize).min(state.levels.len() - 1);
        state.order += 1;
        let order = state.order;
        state.levels[level].push(Reverse(Entry { key, order, work }));
        state.ready |= 1 << level;
        let idle = state.idle.pop();
        drop(state);
        if let Some(thread) = idle {
            self.parkers[thread].unpark();
        }
        Ok(())
    }

    /// The most urgent token, if its level is above this one.
    pub(crate) fn take_above(&self, level: Option<u8>) -> Option<Work> {
        let mut state = self.state.lock();
        let highest = state.ready.checked_ilog2()? as u8;
        if level.is_some_and(|level| highest + self.first_level <= level) {
            return None;
        }
        state.take()
    }

    /// For thread number `thread`: the most urgent token, waited for. `None` once the lane is closed and empty.
    pub(crate) fn wait(&self, thread: usize) -> Option<Work> {
        loop {
            let mut state = self.state.lock();
            if let Some(work) = state.take() {
                // It may have come without being woken; then nobody must think that it waits.
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
            self.parkers[thread].park_until(Deadline::NONE);
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
    fn take(&mut self) -> Option<Work> {
        let level = self.ready.checked_ilog2()? as usize;
        let Reverse(entry) = self.levels[level].pop()?;
        if self.levels[level].is_empty() {
            self.ready &= !(1 << level);
        }
        Some(entry.work)
    }
}

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
