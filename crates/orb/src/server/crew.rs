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
//! No request of the wire is known here, so that all this is tested without one.

use isorb_rt::sched::ThreadId;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::VecDeque;

/// How many requests, and how many bytes of them, a lane keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub requests: usize,
    pub bytes: usize,
}

/// What a crew is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub static_threads: u32,
    pub dynamic_threads: u32,
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
pub(crate) struct Crew<T> {
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
    kept: VecDeque<(T, usize)>,
    kept_bytes: usize,
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
pub(crate) enum Admission {
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
pub(crate) enum Kept {
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
    pub fn new(rules: Rules) -> Crew<T> {
        let requests = rules.room.map_or(0, |room| room.requests);
        let most = rules.most_threads();
        Crew {
            rules,
            state: PiMutex::new(State {
                running: 0,
                dynamic: 0,
                kept: VecDeque::with_capacity(requests),
                kept_bytes: 0,
                errands: VecDeque::with_capacity(if rules.lends { most } else { 0 }),
                seats: Vec::with_capacity(if rules.lends { most } else { 0 }),
                peak: 0,
                ready: 0,
                closed: false,
            }),
            freed: PiCondvar::new(),
        }
    }

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

    /// Keeps a request of so many bytes for whoever has a place next.
    pub fn keep(&self, bytes: usize, request: impl FnOnce() -> T) -> Kept {
        let Some(room) = self.rules.room else { return Kept::NoBuffer };
        let mut state = self.state.lock();
        // After it was found full, somebody may have left.
        if state.running < self.rules.static_threads + state.dynamic {
            state.take();
            return Kept::Run;
        }
        if state.closed || state.kept.len() >= room.requests || bytes > room.bytes - state.kept_bytes {
            return Kept::Overflow;
        }
        state.kept_bytes += bytes;
        state.kept.push_back((request(), bytes));
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

    /// The caller's request is over. The oldest of those kept is next in its place; if there is none, the place is free.
    pub fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        if let Some((request, bytes)) = state.kept.pop_front() {
            state.kept_bytes -= bytes;
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
    pub fn close(&self) -> (VecDeque<(T, usize)>, VecDeque<T>) {
        let mut state = self.state.lock();
        state.closed = true;
        state.kept_bytes = 0;
        let left = (std::mem::take(&mut state.kept), std::mem::take(&mut state.errands));
        drop(state);
        self.freed.notify_all(&self.state);
        left
    }

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
            kept_bytes: state.kept_bytes,
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
pub(crate) struct Census {
    pub running: u32,
    pub dynamic: u32,
    pub kept: usize,
    pub kept_bytes: usize,
    pub peak: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { requests: 2, bytes: 100 };

    fn crew(rules: Rules) -> Crew<u32> {
        Crew::new(rules)
    }

    #[test]
    fn places_grow_to_the_limit_and_shrink_again() {
        let crew = crew(Rules { static_threads: 1, dynamic_threads: 2, ..Rules::default() });
        assert_eq!((crew.rules().initial_threads(), crew.rules().most_threads()), (2, 4));
        assert_eq!(crew.admit(), Admission::Run);
        assert!(!crew.retire(), "static threads stay");
        assert_eq!(crew.admit(), Admission::RunAndGrow);
        assert_eq!(crew.admit(), Admission::RunAndGrow);
        crew.did_not_grow();
        assert_eq!(crew.census().dynamic, 1);
        assert_eq!(crew.admit(), Admission::RunAndGrow);
        assert_eq!(crew.admit(), Admission::Full);
        assert!(!crew.retire(), "all are busy");
        assert_eq!(crew.next(), None);
        assert!(crew.retire());
        assert_eq!(crew.admit(), Admission::RunAndGrow, "and grows again");
        assert_eq!(crew.census().peak, 3);
    }

    #[test]
    fn the_buffer_is_bounded_twice() {
        let crew = crew(Rules { static_threads: 1, room: Some(ROOM), ..Rules::default() });
        assert_eq!(crew.admit(), Admission::Run);
        assert_eq!(crew.admit(), Admission::Full);
        assert_eq!(crew.keep(60, || 1), Kept::Buffered);
        assert_eq!(crew.keep(60, || 2), Kept::Overflow, "too many bytes");
        assert_eq!(crew.keep(40, || 3), Kept::Buffered);
        assert_eq!(crew.keep(0, || 4), Kept::Overflow, "too many requests");
        assert!(!crew.leave_unless_kept(), "the place goes to one that is kept");
        assert_eq!(crew.next(), Some(1), "the oldest first");
        assert_eq!(crew.keep(60, || 5), Kept::Buffered);
        assert_eq!((crew.next(), crew.next()), (Some(3), Some(5)));
        assert_eq!(crew.next(), None);
        assert_eq!(crew.keep(60, || 6), Kept::Run, "there is a place again");
        assert!(crew.leave_unless_kept());
        assert_eq!(crew.admit(), Admission::Run);
        let census = Census { running: 1, peak: 1, ..Census::default() };
        assert_eq!(crew.census(), census);
    }

    #[test]
    fn without_a_buffer_a_thread_waits_for_a_place() {
        let crew = std::sync::Arc::new(crew(Rules { static_threads: 1, borrows: true, ..Rules::default() }));
        assert_eq!(crew.admit(), Admission::Run);
        assert_eq!(crew.keep(1, || 1), Kept::NoBuffer);
        let other = crew.clone();
        let waiter = std::thread::spawn(move || (other.wait_for_place(), other.wait_for_place()));
        crew.leave();
        // The first wait has its place or will have; the second is for ever, until the end.
        while crew.census().running == 0 {
            std::thread::yield_now();
        }
        crew.close();
        assert_eq!(waiter.join().unwrap(), (true, false));
        assert_eq!(crew.admit(), Admission::Closed);
    }

    #[test]
    fn places_are_lent_with_idle_threads_raised() {
        let crew = crew(Rules { static_threads: 2, lends: true, ..Rules::default() });
        let seat = crew.sit();
        assert!(seat.is_some());
        let mut raised = Vec::new();
        assert!(crew.lend(|| 7, |thread| raised.push(thread)));
        assert!(raised.is_empty(), "busy threads are left alone");
        crew.rest(seat);
        assert!(crew.lend(|| 8, |thread| raised.push(thread)));
        assert_eq!(raised, [seat.unwrap()]);
        assert!(!crew.lend(|| 9, |_| ()), "no place is left");
        assert_eq!(crew.admit(), Admission::Full, "for its own requests neither");
        assert!(crew.rise(seat));
        assert!(!crew.rise(seat), "told once");
        assert_eq!(crew.errand(), (Some(7), true));
        assert_eq!(crew.errand(), (Some(8), false));
        assert_eq!(crew.next(), None);
        assert_eq!(crew.admit(), Admission::Run);
        crew.stand(seat);
        let (kept, errands) = crew.close();
        assert!(kept.is_empty() && errands.is_empty());
        assert!(!crew.lend(|| 1, |_| ()));
    }

    #[test]
    fn lanes_that_can_do_nothing_have_no_lookout() {
        let rules = Rules { static_threads: 3, ..Rules::default() };
        assert_eq!((rules.initial_threads(), rules.counts()), (3, false));
        let rules = Rules { static_threads: 3, lends: true, ..Rules::default() };
        assert_eq!((rules.initial_threads(), rules.counts()), (3, true));
        let rules = Rules { static_threads: 3, room: Some(ROOM), ..Rules::default() };
        assert_eq!((rules.initial_threads(), rules.counts()), (4, true));
    }
}
