//! The main-thread model: requests wait for the main thread's permit.

use super::current::thread_token;
use super::errors::{DISCARDED, no};
use super::wait_deadline::TIMED_OUT;
use crate::Result;
use isorb_giop::{Kind, minor};
use isorb_rt::sync::{LockError, PiCondvar, PiLock, PiMutex};
use isorb_rt::time::Deadline;

/// The permit of the main-thread model. While the main thread is in `run_one`, it lends the permit
/// to one request at a time.
///
/// A request lives on the stack of the thread that read it, and only `unsafe` code could pass it to
/// another thread. So the request stays on its thread, and the main thread waits for it. The main
/// thread offers the permit when it enters `run_one`, so a request that comes later does not wait
/// until the main thread has a processor. A request that finds the permit taken lends its priority
/// to the thread that has it.
#[derive(Debug)]
pub(crate) struct MainThread {
    state: PiMutex<State>,
    /// Held by the thread with the permit.
    running: PiLock,
    /// The main thread waits here for requests, and for the permit's return.
    main: PiCondvar,
    /// Requests wait here.
    requests: PiCondvar,
    limit: u32,
}

#[derive(Debug, Default)]
struct State {
    waiting: u32,
    /// The main thread offers the permit, and no request has taken it yet.
    offered: bool,
    /// The thread with the permit.
    owner: Option<usize>,
    /// The thread that was last in `run_one`.
    main: Option<usize>,
    closed: bool,
}

/// The result of [`MainThread::run_one`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    /// A request ran.
    Served,
    /// No request came before the deadline.
    TimedOut,
    /// The ORB shut down.
    Closed,
}

impl MainThread {
    /// Default number of requests that may wait.
    pub const DEFAULT_LIMIT: u32 = 256;

    pub fn new(limit: u32) -> MainThread {
        MainThread {
            state: PiMutex::new(State { waiting: 0, offered: false, owner: None, main: None, closed: false }),
            running: PiLock::new(),
            main: PiCondvar::new(),
            requests: PiCondvar::new(),
            limit,
        }
    }

    /// For the main thread: lets a request run that comes until `deadline`, and waits for its end.
    ///
    /// # Real-time
    /// Allocates nothing. Blocks until the deadline, and beyond it while the request runs.
    pub fn run_one(&self, deadline: Deadline) -> RunOutcome {
        let mut state = self.state.lock();
        state.main = Some(thread_token());
        let busy = |state: &mut State| !state.closed && (state.offered || state.owner.is_some());
        let free = self.main.wait_while(&mut state, deadline, busy);
        if free && !state.closed {
            state.offered = true;
            self.requests.notify_one(&self.state);
            // A request that waits already takes it for certain.
            let until = if state.waiting > 0 { Deadline::NONE } else { deadline };
            self.main.wait_while(&mut state, until, |state| state.offered && !state.closed);
            if !std::mem::take(&mut state.offered) {
                self.main.wait_while(&mut state, Deadline::NONE, |state| state.owner.is_some());
                return RunOutcome::Served;
            }
        }
        if state.closed { RunOutcome::Closed } else { RunOutcome::TimedOut }
    }

    /// For a request: waits for the permit, the most urgent first. The thread with the permit gets
    /// it again; so does the main thread itself while no thread has it.
    ///
    /// # Errors
    /// TRANSIENT with minor code OMG|1 when too many requests wait; BAD_INV_ORDER with OMG|4 when
    /// the ORB shuts down meanwhile; TIMEOUT at the deadline.
    pub fn take(&self, deadline: Deadline) -> Result<MainThreadPermit<'_>> {
        let me = thread_token();
        let mut state = self.state.lock();
        if state.owner == Some(me) {
            return Ok(MainThreadPermit { queue: None });
        }
        if state.closed {
            return Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN));
        }
        if state.owner.is_none() && !state.offered && state.main == Some(me) {
            return Ok(self.lend(&mut state, me));
        }
        if state.waiting >= self.limit {
            return Err(DISCARDED);
        }
        state.waiting += 1;
        let mut late = false;
        while !state.offered && !state.closed && !late {
            if state.owner.is_none() {
                late = !self.requests.wait_until(&mut state, deadline) && deadline.is_past();
                continue;
            }
            drop(state);
            // Lends its priority to the thread with the permit.
            let waited = self.running.lock_until(deadline);
            if waited.is_ok() {
                let _ = self.running.unlock();
            }
            state = self.state.lock();
            late = waited == Err(LockError::TimedOut);
            if waited.is_err() && !late && state.owner.is_some() {
                // The kernel has no such wait, or sees a circle of locks.
                late = !self.requests.wait_until(&mut state, deadline) && deadline.is_past();
            }
        }
        state.waiting -= 1;
        if state.closed {
            return Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN));
        }
        if !state.offered {
            return Err(TIMED_OUT);
        }
        state.offered = false;
        Ok(self.lend(&mut state, me))
    }

    /// Gives the permit to the calling thread.
    fn lend(&self, state: &mut State, me: usize) -> MainThreadPermit<'_> {
        state.owner = Some(me);
        // At most for a moment, another thread that waited has it.
        let _ = self.running.lock_until(Deadline::NONE);
        MainThreadPermit { queue: Some(self) }
    }

    /// Ends all waiting, now and later.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.main.notify_all(&self.state);
        self.requests.notify_all(&self.state);
    }
}

/// The permit; dropping it returns it.
#[derive(Debug)]
pub(crate) struct MainThreadPermit<'q> {
    /// `None` inside of another permit of the same thread.
    queue: Option<&'q MainThread>,
}

impl Drop for MainThreadPermit<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue {
            queue.state.lock().owner = None;
            queue.main.notify_all(&queue.state);
            // Last, since it ends the loan of priority. A waiter never finds an owner without the
            // lock, because the state says first that there is none.
            let _ = queue.running.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    #[test]
    fn permits_are_exclusive_and_come_from_the_main_thread() {
        let queue = Arc::new(MainThread::new(16));
        let inside = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (queue, inside) = (queue.clone(), inside.clone());
                thread::spawn(move || {
                    for _ in 0..50 {
                        let turn = queue.take(Deadline::NONE).unwrap();
                        let again = queue.take(Deadline::NONE).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        drop(again);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                })
            })
            .collect();
        for _ in 0..150 {
            assert_eq!(queue.run_one(Deadline::NONE), RunOutcome::Served);
            assert_eq!(inside.load(Ordering::SeqCst), 0);
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(queue.run_one(Deadline::PAST), RunOutcome::TimedOut);
        drop(queue.take(Deadline::NONE).expect("the main thread waits for no other thread"));
    }

    #[test]
    fn waiting_is_bounded_and_ends() {
        let queue = Arc::new(MainThread::new(1));
        let waiter = thread::spawn({
            let queue = queue.clone();
            move || queue.take(Deadline::NONE).map(drop)
        });
        while queue.state.lock().waiting == 0 {
            thread::yield_now();
        }
        assert_eq!(queue.take(Deadline::NONE).map(drop), Err(DISCARDED));
        queue.close();
        assert_eq!(waiter.join().unwrap(), Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN)));
        assert_eq!(queue.run_one(Deadline::NONE), RunOutcome::Closed);
        assert!(queue.take(Deadline::NONE).is_err());
    }
}
