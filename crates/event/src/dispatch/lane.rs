//! Ready consumers in order, and the threads that wait for them.

use super::ReadyConsumer;
use isorb_rt::queue::{Full, PriorityQueue};
use isorb_rt::sync::atomic::AtomicBool;
use isorb_rt::sync::atomic::Ordering::{Acquire, Release};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use std::cmp::Reverse;

/// The most priority levels of a channel.
pub(crate) const MAX_LEVELS: usize = 64;

/// How long after its backoff a consumer is checked again, if the channel's clock is slower.
const RETRY_NS: u64 = 1_000_000;

/// The room of a queue before [`Lane::reserve`].
const FIRST_CAPACITY: usize = 16;

/// A queue of ready consumers for a range of levels: the most urgent level first, then by key, then
/// in order of arrival.
pub(crate) struct Lane {
    first_level: u8,
    levels: u8,
    state: PiMutex<State>,
    /// One for each thread of the lane.
    parkers: Box<[Parker]>,
    /// A copy of the flag in the state, to be read without the lock.
    closed: AtomicBool,
}

struct State {
    /// By level, counted from the lane's first, and key.
    ready: PriorityQueue<(Reverse<u8>, u64), ReadyConsumer>,
    /// Consumers in backoff, by its end on the monotonic clock.
    backoff: PriorityQueue<u64, ReadyConsumer>,
    /// The waiting threads, by number.
    idle: Vec<usize>,
    closed: bool,
}

impl Lane {
    /// A lane for `levels` levels from `first_level` on, served by `threads` threads.
    pub(crate) fn new(first_level: u8, levels: usize, threads: usize) -> Lane {
        let state = State {
            ready: PriorityQueue::with_capacity(FIRST_CAPACITY),
            backoff: PriorityQueue::with_capacity(FIRST_CAPACITY),
            idle: Vec::with_capacity(threads),
            closed: false,
        };
        let parkers = (0..threads).map(|_| Parker::new()).collect();
        Lane {
            first_level,
            levels: levels.clamp(1, MAX_LEVELS) as u8,
            state: PiMutex::new(state),
            parkers,
            closed: AtomicBool::new(false),
        }
    }

    /// Makes room for the tokens of `consumers` consumers. If there is no memory now, a later push
    /// tries again.
    pub(crate) fn reserve(&self, consumers: usize) {
        let mut state = self.state.lock();
        let _ = state.ready.grow_to(consumers);
        let _ = state.backoff.grow_to(consumers);
    }

    /// Queues a consumer, and wakes a thread if one waits.
    ///
    /// # Errors
    /// The consumer comes back if the lane is closed.
    pub(crate) fn put(&self, consumer: ReadyConsumer) -> Result<(), ReadyConsumer> {
        let (key, backoff) = (self.key(&consumer), consumer.backoff_left());
        let mut state = self.state.lock();
        if state.closed {
            return Err(consumer);
        }
        if backoff == 0 {
            push(&mut state.ready, key, consumer)?;
        } else {
            // Wake a waiting thread in this case too: it may have to wait for a shorter time.
            push(&mut state.backoff, now_ns().saturating_add(backoff), consumer)?;
        }
        let idle = state.idle.pop();
        drop(state);
        if let Some(thread) = idle {
            self.parkers[thread].unpark();
        }
        Ok(())
    }

    fn key(&self, consumer: &ReadyConsumer) -> (Reverse<u8>, u64) {
        let level = consumer.level().saturating_sub(self.first_level).min(self.levels - 1);
        (Reverse(level), consumer.key())
    }

    /// Takes the most urgent consumer if its level is above this one.
    pub(crate) fn take_above(&self, level: Option<u8>) -> Option<ReadyConsumer> {
        let mut state = self.state.lock();
        self.end_backoffs(&mut state);
        let ((Reverse(highest), _), _) = state.ready.peek()?;
        if level.is_some_and(|level| highest + self.first_level <= level) {
            return None;
        }
        state.ready.pop().map(|(_, consumer)| consumer)
    }

    /// Waits as thread number `thread` for the most urgent consumer. `None` once the lane is closed
    /// and empty.
    pub(crate) fn wait(&self, thread: usize) -> Option<ReadyConsumer> {
        loop {
            let mut state = self.state.lock();
            let until = self.end_backoffs(&mut state);
            if let Some((_, consumer)) = state.ready.pop() {
                // The thread may have found it without being woken, so it is no longer waiting.
                state.idle.retain(|idle| *idle != thread);
                return Some(consumer);
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

    /// Queues the consumers with an ended backoff; all of them once the lane is closed, since
    /// another dispatcher takes over. Returns when the next backoff ends.
    fn end_backoffs(&self, state: &mut State) -> Deadline {
        while let Some((until, next)) = state.backoff.peek() {
            // The channel's clock decides. If it is slower than the system's, check again a little
            // later.
            let left = next.backoff_left();
            if !state.closed && left != 0 {
                return Deadline::at_ns(until.max(now_ns() + RETRY_NS.min(left)));
            }
            let Some((_, consumer)) = state.backoff.pop() else {
                break;
            };
            let key = self.key(&consumer);
            if let Err(consumer) = push(&mut state.ready, key, consumer) {
                // No memory: keep it in backoff. The entry that was popped left room for it.
                let retry = now_ns() + RETRY_NS;
                let _ = state.backoff.push(retry, consumer);
                return Deadline::at_ns(retry);
            }
        }
        Deadline::NONE
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

/// Pushes an entry; grows a queue that was not reserved for so many.
fn push<K: Copy + Ord>(
    queue: &mut PriorityQueue<K, ReadyConsumer>,
    key: K,
    consumer: ReadyConsumer,
) -> Result<(), ReadyConsumer> {
    let Err(Full(consumer)) = queue.push(key, consumer) else {
        return Ok(());
    };
    let _ = queue.grow_to(queue.capacity() * 2);
    queue.push(key, consumer).map(drop).map_err(|Full(consumer)| consumer)
}
