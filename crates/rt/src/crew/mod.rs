//! Who of a lane may run requests, and what becomes of those that come while all who may do.
//!
//! A lane has *places*: as many as it has static threads, and one for each dynamic thread that exists. A request is run by the
//! thread that read it, in a place. When there is none left, the lane grows by a dynamic thread while it may; else a less urgent lane
//! lends one of its places and a thread ([`Crew::lend`]); else the request is kept, if the pool buffers requests, or refused when the
//! buffer is full; else its thread waits for a place, and what comes after it waits in the sockets.
//!
//! To see a request while all places are taken, somebody must be free to read it. Lanes that can do anything about it have one thread
//! more than places, the *lookout*. It is not a thread of its own kind: whoever has no request to run is it.
//!
//! What is kept is run in the order of its priorities. A lane's own requests mostly have one; those of a pool without lanes need not.
//!
//! No request of the wire is known here, so that all this is tested without one: in all interleavings by `loom_tests`.

mod buffer;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::priority::Priority;
use crate::sched::ThreadId;
use crate::sync::{PiCondvar, PiMutex};
use crate::time::Deadline;
use buffer::Buffer;
use std::collections::VecDeque;

/// How many requests, and how many bytes of them, a lane keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Most requests.
    pub requests: usize,
    /// Most bytes of all of them.
    pub bytes: usize,
}

/// What a crew is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Threads that are always there.
    pub static_threads: u32,
    /// Most threads that come when they are needed.
    pub dynamic_threads: u32,
    /// Of requests that wait for a place; `None` keeps none.
    pub room: Option<Room>,
    /// Whether less urgent lanes lend to this one.
    pub borrows: bool,
    /// Whether this one lends to more urgent ones.
    pub lends: bool,
}

impl Rules {
    /// Whether somebody must see requests while all places are taken.
    pub fn lookout(&self) -> bool {
        self.dynamic_threads > 0 || self.room.is_some() || self.borrows
    }

    /// Threads that the lane starts with.
    pub fn initial_threads(&self) -> u32 {
        self.static_threads + u32::from(self.lookout())
    }

    /// Most threads that it can have.
    fn most_threads(&self) -> usize {
        (self.initial_threads() + self.dynamic_threads) as usize
    }

    /// Whether places must be counted at all.
    pub fn counts(&self) -> bool {
        self.lookout() || self.lends
    }
}

/// The accounts of a lane. `T` is a request that was read.
pub struct Crew<T> {
    rules: Rules,
    state: PiMutex<State<T>>,
    /// A place became free, or there will be none any more.
    freed: PiCondvar,
}

struct State<T> {
    /// Places that are taken, lent ones included.
    running: u32,
    /// Dynamic threads that exist.
    dynamic: u32,
    kept: Buffer<T>,
    /// Requests of more urgent lanes that threads of this one are to run; each has its place.
    errands: VecDeque<T>,
    seats: Vec<Seat>,
    /// Most places that were taken at a time.
    peak: u32,
    /// Threads that were ever ready to serve.
    ready: u32,
    closed: bool,
}

/// A thread of the lane, where the lane lends.
#[derive(Clone, Copy, Debug)]
struct Seat {
    thread: ThreadId,
    idle: bool,
    /// Made more urgent by a lane that borrows, while it was idle.
    raised: bool,
}

/// What [`Crew::admit`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// There was a place, which is the caller's now.
    Run,
    /// As `Run`; the caller starts a dynamic thread first, which exists in the accounts already.
    RunAndGrow,
    /// All places are taken.
    Full,
    /// The lane ends.
    Closed,
}

/// What [`Crew::keep`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is in the buffer.
    Buffered,
    /// A place became free meanwhile, which is the caller's now; the request is the caller's as well.
    Run,
    /// There is a buffer, and no room in it.
    Overflow,
    /// This lane keeps no requests.
    NoBuffer,
}

impl<T> Crew<T> {
    /// Nobody and nothing yet.
    pub fn new(rules: Rules) -> Crew<T> {
        let most = rules.most_threads();
        Crew {
            rules,
            state: PiMutex::new(State {
                running: 0,
                dynamic: 0,
                kept: Buffer::new(rules.room.unwrap_or(Room { requests: 0, bytes: 0 })),
                errands: VecDeque::with_capacity(if rules.lends { most } else { 0 }),
                seats: Vec::with_capacity(if rules.lends { most } else { 0 }),
                peak: 0,
                ready: 0,
                closed: false,
            }),
            freed: PiCondvar::new(),
        }
    }

    /// What it is made of.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Asks for a place.
    pub fn admit(&self) -> Admission {
        let mut state = self.state.lock();
        if state.closed {
            return Admission::Closed;
        }
        if state.running < self.rules.static_threads + state.dynamic {
            state.take();
            return Admission::Run;
        }
        if state.dynamic < self.rules.dynamic_threads {
            state.dynamic += 1;
            state.take();
            return Admission::RunAndGrow;
        }
        Admission::Full
    }

    /// The dynamic thread of [`Admission::RunAndGrow`] could not be started: neither it nor the place exist.
    pub fn did_not_grow(&self) {
        let mut state = self.state.lock();
        state.dynamic -= 1;
        state.running -= 1;
    }

    /// Keeps a request of so many bytes for whoever has a place next: the most urgent first, of equally urgent ones the one that came
    /// first, and those behind that have no priority.
    ///
    /// # Real-time
    /// Allocates nothing; a PI lock, held for a number of steps that is logarithmic in how many there are, and for `request`.
    pub fn keep(&self, bytes: usize, urgency: Option<Priority>, request: impl FnOnce() -> T) -> Kept {
        if self.rules.room.is_none() {
            return Kept::NoBuffer;
        }
        let mut state = self.state.lock();
        // After it was found full, somebody may have left.
        if state.running < self.rules.static_threads + state.dynamic {
            state.take();
            return Kept::Run;
        }
        if state.closed || !state.kept.has_room(bytes) {
            return Kept::Overflow;
        }
        state.kept.push(bytes, urgency, request());
        Kept::Buffered
    }

    /// Waits for a place; `false` when the lane ends.
    pub fn wait_for_place(&self) -> bool {
        let mut state = self.state.lock();
        while state.running >= self.rules.static_threads + state.dynamic && !state.closed {
            self.freed.wait_until(&mut state, Deadline::NONE);
        }
        if state.closed {
            return false;
        }
        state.take();
        true
    }

    /// The caller's request is over. The most urgent of those kept is next in its place; if there is none, the place is free.
    pub fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        if let Some(request) = state.kept.pop() {
            return Some(request);
        }
        state.running -= 1;
        drop(state);
        self.freed.notify_one(&self.state);
        None
    }

    /// Frees the caller's place, unless a request is kept, which is to have it next: then it is the caller's still.
    pub fn leave_unless_kept(&self) -> bool {
        let mut state = self.state.lock();
        if !state.kept.is_empty() {
            return false;
        }
        state.running -= 1;
        drop(state);
        self.freed.notify_one(&self.state);
        true
    }

    /// The caller's request ended in a panic: the place is free, and what is kept waits for the next to be.
    pub fn leave(&self) {
        self.state.lock().running -= 1;
        self.freed.notify_one(&self.state);
    }

    /// Lends a place and a thread, if one is idle: the request is an errand for it. Every idle thread is raised first, since nobody
    /// knows which of them will be woken; those that were not go back before they do anything else. The caller wakes one.
    pub fn lend(&self, request: impl FnOnce() -> T, mut raise: impl FnMut(ThreadId)) -> bool {
        let mut state = self.state.lock();
        if state.closed || state.running >= self.rules.static_threads + state.dynamic {
            return false;
        }
        state.take();
        state.errands.push_back(request());
        for seat in &mut state.seats {
            if seat.idle {
                raise(seat.thread);
                seat.raised = true;
            }
        }
        true
    }

    /// The next errand, and whether there are more, for which others are to be woken.
    pub fn errand(&self) -> (Option<T>, bool) {
        let mut state = self.state.lock();
        let errand = state.errands.pop_front();
        (errand, !state.errands.is_empty())
    }

    /// Waits until this many threads are ready.
    pub fn await_ready(&self, threads: u32) {
        let mut state = self.state.lock();
        self.freed.wait_while(&mut state, Deadline::NONE, |state| state.ready < threads && !state.closed);
    }

    /// The calling thread belongs to the lane from now on, and has all it needs.
    pub fn sit(&self) -> Option<ThreadId> {
        let thread = ThreadId::current();
        let mut state = self.state.lock();
        state.ready += 1;
        if self.rules.lends {
            state.seats.push(Seat { thread, idle: false, raised: false });
        }
        drop(state);
        self.freed.notify_all(&self.state);
        self.rules.lends.then_some(thread)
    }

    /// It does not any more.
    pub fn stand(&self, seat: Option<ThreadId>) {
        if let Some(thread) = seat {
            self.state.lock().seats.retain(|seat| seat.thread != thread);
        }
    }

    /// The thread has nothing to do.
    pub fn rest(&self, seat: Option<ThreadId>) {
        self.idle(seat, true);
    }

    /// It may have. Says whether it was raised meanwhile.
    pub fn rise(&self, seat: Option<ThreadId>) -> bool {
        self.idle(seat, false)
    }

    fn idle(&self, seat: Option<ThreadId>, idle: bool) -> bool {
        let Some(thread) = seat else { return false };
        let mut state = self.state.lock();
        let Some(seat) = state.seats.iter_mut().find(|seat| seat.thread == thread) else { return false };
        seat.idle = idle;
        std::mem::take(&mut seat.raised)
    }

    /// Whether an idle thread of the lane may end, since the lane has more than its static ones. It is out of the accounts then.
    pub fn retire(&self) -> bool {
        let mut state = self.state.lock();
        let spare = state.dynamic > 0 && state.running < self.rules.static_threads + state.dynamic;
        if spare {
            state.dynamic -= 1;
        }
        spare
    }

    /// Ends all waits; what was kept is given back, to be let go.
    pub fn close(&self) -> (Vec<T>, VecDeque<T>) {
        let mut state = self.state.lock();
        state.closed = true;
        let left = (state.kept.take_all(), std::mem::take(&mut state.errands));
        drop(state);
        self.freed.notify_all(&self.state);
        left
    }

    /// Whether the lane ends.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// What goes on.
    pub fn census(&self) -> Census {
        let state = self.state.lock();
        Census {
            running: state.running,
            dynamic: state.dynamic,
            kept: state.kept.len(),
            kept_bytes: state.kept.bytes(),
            peak: state.peak,
        }
    }
}

impl<T> State<T> {
    fn take(&mut self) {
        self.running += 1;
        self.peak = self.peak.max(self.running);
    }
}

/// What goes on in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Places that are taken.
    pub running: u32,
    /// Dynamic threads that exist.
    pub dynamic: u32,
    /// Requests that wait for a place.
    pub kept: usize,
    /// Bytes of these.
    pub kept_bytes: usize,
    /// Most places that were taken at a time.
    pub peak: u32,
}
