//! The threads of a lane: which of them may run requests, and what happens to requests while all of
//! them are busy.
//!
//! A lane has *permits*: one for each static thread, and one for each dynamic thread that exists.
//! The thread that read a request runs it, with a permit. When all permits are taken:
//! 1. the lane starts a dynamic thread, while it may;
//! 2. else it borrows a permit and a thread from a lane of lower priority
//!    ([`ThreadLane::borrow_thread`]; RT-CORBA 1.2, thread pools);
//! 3. else it buffers the request, if the pool buffers requests, or refuses it when the buffer is
//!    full;
//! 4. else its thread waits for a permit, and later requests wait in the sockets.
//!
//! A thread must be free to read a request while all permits are taken. A lane for which 1, 2 or 3
//! applies therefore has one thread more than permits. It is an ordinary thread of the lane:
//! any thread without a request to run reads.
//!
//! Buffered requests run in the order of their priorities. Those of a lane mostly have the same
//! one; those of a pool without lanes need not.
//!
//! This module knows no messages, so the loom tests run it in all interleavings.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use isorb_rt::priority::Priority;
use isorb_rt::queue::PriorityQueue;
use isorb_rt::sched::ThreadId;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Limits of the request buffer of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferLimits {
    /// Most requests.
    pub requests: usize,
    /// Most bytes of all of them.
    pub bytes: usize,
}

/// The configuration of a [`ThreadLane`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneConfig {
    /// Threads that always exist.
    pub static_threads: u32,
    /// Most threads that are started on demand.
    pub dynamic_threads: u32,
    /// The buffer for requests that wait for a permit; `None` buffers none.
    pub buffer: Option<BufferLimits>,
    /// Whether this lane borrows threads from lanes of lower priority.
    pub borrows: bool,
    /// Whether lanes of higher priority borrow threads from this one.
    pub lends: bool,
    /// Whether idle threads are raised for a request that is more urgent than they are: those of a
    /// pool without lanes.
    pub raises: bool,
}

impl LaneConfig {
    /// Whether a thread must read requests while all permits are taken.
    pub fn has_reader(&self) -> bool {
        self.dynamic_threads > 0 || self.buffer.is_some() || self.borrows
    }

    /// Threads that the lane starts with.
    pub fn initial_threads(&self) -> u32 {
        self.static_threads + u32::from(self.has_reader())
    }

    /// Most threads that it can have.
    pub fn max_threads(&self) -> usize {
        (self.initial_threads() + self.dynamic_threads) as usize
    }

    /// Whether it is known which threads are idle.
    fn tracks(&self) -> bool {
        self.lends || self.raises
    }

    /// Whether permits must be counted at all.
    pub fn counts_permits(&self) -> bool {
        self.has_reader() || self.lends
    }
}

/// The permits, the workers and the request buffer of a lane. `T` is a request that was read.
pub(crate) struct ThreadLane<T> {
    config: LaneConfig,
    state: PiMutex<State<T>>,
    /// A permit was released, a worker registered, or the lane closed.
    changed: PiCondvar,
}

struct State<T> {
    /// Permits that are taken, those of borrowed threads included.
    running: u32,
    /// Dynamic threads that exist.
    dynamic: u32,
    /// Buffered requests with their lengths. Those without a priority come last.
    buffer: PriorityQueue<Reverse<Option<Priority>>, (usize, T)>,
    buffered_bytes: usize,
    /// Requests of lanes of higher priority for threads of this one. Each has its permit.
    borrowed: VecDeque<T>,
    workers: Vec<Worker>,
    /// Most permits that were taken at a time.
    peak: u32,
    /// Threads that have registered so far.
    registered: u32,
    closed: bool,
}

/// A thread of a lane that lends.
#[derive(Clone, Copy, Debug)]
struct Worker {
    thread: ThreadId,
    idle: bool,
    /// A borrowing lane raised its priority while it was idle.
    raised: bool,
}

/// The result of [`ThreadLane::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The caller has a permit.
    Run,
    /// As `Run`, but the caller first starts a dynamic thread, which is counted already.
    RunAndGrow,
    /// All permits are taken.
    Full,
    /// The lane is closed.
    Closed,
}

/// The result of [`ThreadLane::buffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffering {
    /// The request is in the buffer.
    Buffered,
    /// A permit was released meanwhile. The caller has it, and the request too.
    Run,
    /// The buffer is full.
    Overflow,
    /// This lane buffers no requests.
    NoBuffer,
}

impl<T> ThreadLane<T> {
    /// A lane without threads and requests.
    pub fn new(config: LaneConfig) -> ThreadLane<T> {
        let threads = if config.tracks() { config.max_threads() } else { 0 };
        let state = State {
            running: 0,
            dynamic: 0,
            buffer: PriorityQueue::with_capacity(config.buffer.map_or(0, |limits| limits.requests)),
            buffered_bytes: 0,
            borrowed: VecDeque::with_capacity(threads),
            workers: Vec::with_capacity(threads),
            peak: 0,
            registered: 0,
            closed: false,
        };
        ThreadLane { config, state: PiMutex::new(state), changed: PiCondvar::new() }
    }

    /// Its configuration.
    pub fn config(&self) -> &LaneConfig {
        &self.config
    }

    /// Requests a permit.
    pub fn admit(&self) -> Admission {
        let mut state = self.state.lock();
        if state.closed {
            return Admission::Closed;
        }
        if state.has_permit(&self.config) {
            state.take_permit();
            return Admission::Run;
        }
        if state.dynamic < self.config.dynamic_threads {
            state.dynamic += 1;
            state.take_permit();
            return Admission::RunAndGrow;
        }
        Admission::Full
    }

    /// The dynamic thread of [`Admission::RunAndGrow`] could not be started: takes back the thread
    /// and the permit.
    pub fn abandon_growth(&self) {
        let mut state = self.state.lock();
        state.dynamic -= 1;
        state.running -= 1;
    }

    /// Buffers a request of `bytes` bytes for the next thread that has a permit: the most urgent
    /// first, equally urgent ones in order of arrival.
    ///
    /// # Real-time
    /// Allocates nothing. Takes a PI lock for O(log n) and for `request`.
    pub fn buffer(&self, bytes: usize, priority: Option<Priority>, request: impl FnOnce() -> T) -> Buffering {
        let Some(limits) = self.config.buffer else {
            return Buffering::NoBuffer;
        };
        let mut state = self.state.lock();
        // A thread may have released its permit since the caller was refused one.
        if state.has_permit(&self.config) {
            state.take_permit();
            return Buffering::Run;
        }
        let has_room = state.buffer.len() < limits.requests && bytes <= limits.bytes - state.buffered_bytes;
        if state.closed || !has_room || state.buffer.push(Reverse(priority), (bytes, request())).is_err() {
            return Buffering::Overflow;
        }
        state.buffered_bytes += bytes;
        Buffering::Buffered
    }

    /// Waits for a permit; `false` when the lane closes.
    pub fn wait_for_permit(&self) -> bool {
        let mut state = self.state.lock();
        let taken = |state: &mut State<T>| !state.has_permit(&self.config) && !state.closed;
        self.changed.wait_while(&mut state, Deadline::NONE, taken);
        if state.closed {
            return false;
        }
        state.take_permit();
        true
    }

    /// The caller's request is done. Returns the most urgent buffered request, for which the caller
    /// keeps its permit, or releases the permit.
    pub fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        if let Some(request) = state.pop() {
            return Some(request);
        }
        state.running -= 1;
        drop(state);
        self.changed.notify_one(&self.state);
        None
    }

    /// Releases the caller's permit and returns true, unless a request is buffered, for which the
    /// caller keeps it.
    pub fn release_unless_buffered(&self) -> bool {
        let mut state = self.state.lock();
        if !state.buffer.is_empty() {
            return false;
        }
        state.running -= 1;
        drop(state);
        self.changed.notify_one(&self.state);
        true
    }

    /// Releases the permit of a request that ended in a panic. Buffered requests wait for the next
    /// thread that finishes.
    pub fn release(&self) {
        self.state.lock().running -= 1;
        self.changed.notify_one(&self.state);
    }

    /// Borrows a permit and an idle thread of this lane for `request`; the caller then wakes a
    /// thread.
    ///
    /// `raise` raises the priority of every idle thread first, since it is not known which of them
    /// will wake up. The others return to their own priority before they do anything else.
    pub fn borrow_thread(&self, request: impl FnOnce() -> T, mut raise: impl FnMut(ThreadId)) -> bool {
        let mut state = self.state.lock();
        if state.closed || !state.has_permit(&self.config) {
            return false;
        }
        state.take_permit();
        state.borrowed.push_back(request());
        state.raise_idle(&mut raise);
        true
    }

    /// Raises the priority of every idle thread by `raise`, before one of them is woken. The others
    /// return to their own priority before they do anything else.
    pub fn raise_idle(&self, mut raise: impl FnMut(ThreadId)) {
        self.state.lock().raise_idle(&mut raise);
    }

    /// The next request of another lane, and whether there are more, for which other threads are to
    /// be woken.
    pub fn borrowed_request(&self) -> (Option<T>, bool) {
        let mut state = self.state.lock();
        let request = state.borrowed.pop_front();
        (request, !state.borrowed.is_empty())
    }

    /// Waits until this many threads have registered.
    pub fn wait_until_registered(&self, threads: u32) {
        let mut state = self.state.lock();
        let missing = |state: &mut State<T>| state.registered < threads && !state.closed;
        self.changed.wait_while(&mut state, Deadline::NONE, missing);
    }

    /// Registers the calling thread, which has all that it needs. In a lane that lends, the result
    /// identifies it.
    pub fn register(&self) -> Option<ThreadId> {
        let thread = ThreadId::current();
        let mut state = self.state.lock();
        state.registered += 1;
        if self.config.tracks() {
            state.workers.push(Worker { thread, idle: false, raised: false });
        }
        drop(state);
        self.changed.notify_all(&self.state);
        self.config.tracks().then_some(thread)
    }

    /// Removes a thread of the lane.
    pub fn deregister(&self, worker: Option<ThreadId>) {
        if let Some(thread) = worker {
            self.state.lock().workers.retain(|worker| worker.thread != thread);
        }
    }

    /// Marks the thread as idle: it is about to wait.
    pub fn set_idle(&self, worker: Option<ThreadId>) {
        self.mark(worker, true);
    }

    /// Marks the thread as busy. Returns whether its priority was raised while it was idle.
    pub fn set_busy(&self, worker: Option<ThreadId>) -> bool {
        self.mark(worker, false)
    }

    fn mark(&self, worker: Option<ThreadId>, idle: bool) -> bool {
        let Some(thread) = worker else { return false };
        let mut state = self.state.lock();
        let Some(worker) = state.workers.iter_mut().find(|worker| worker.thread == thread) else {
            return false;
        };
        worker.idle = idle;
        std::mem::take(&mut worker.raised)
    }

    /// Whether an idle thread of the lane may end, since there are dynamic threads. It is no longer
    /// counted then.
    pub fn retire(&self) -> bool {
        let mut state = self.state.lock();
        let spare = state.dynamic > 0 && state.has_permit(&self.config);
        if spare {
            state.dynamic -= 1;
        }
        spare
    }

    /// Ends all waits and returns the requests that were waiting.
    pub fn close(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.closed = true;
        let mut left: Vec<T> = std::iter::from_fn(|| state.pop()).collect();
        left.extend(std::mem::take(&mut state.borrowed));
        drop(state);
        self.changed.notify_all(&self.state);
        left
    }

    /// Whether the lane is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// The current counts.
    pub fn status(&self) -> ThreadStatus {
        let state = self.state.lock();
        ThreadStatus {
            running: state.running,
            dynamic: state.dynamic,
            buffered: state.buffer.len(),
            buffered_bytes: state.buffered_bytes,
            peak: state.peak,
        }
    }
}

impl<T> State<T> {
    fn has_permit(&self, config: &LaneConfig) -> bool {
        self.running < config.static_threads + self.dynamic
    }

    fn raise_idle(&mut self, raise: &mut impl FnMut(ThreadId)) {
        for worker in self.workers.iter_mut().filter(|worker| worker.idle) {
            raise(worker.thread);
            worker.raised = true;
        }
    }

    fn take_permit(&mut self) {
        self.running += 1;
        self.peak = self.peak.max(self.running);
    }

    fn pop(&mut self) -> Option<T> {
        let (_, (bytes, request)) = self.buffer.pop()?;
        self.buffered_bytes -= bytes;
        Some(request)
    }
}

/// Counts of a [`ThreadLane`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadStatus {
    /// Permits that are taken.
    pub running: u32,
    /// Dynamic threads that exist.
    pub dynamic: u32,
    /// Requests in the buffer.
    pub buffered: usize,
    /// Bytes of these.
    pub buffered_bytes: usize,
    /// Most permits that were taken at a time.
    pub peak: u32,
}
