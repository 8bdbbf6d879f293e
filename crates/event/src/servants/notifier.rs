//! Notifies a remote observer of changes, on a thread of its own.

use super::backoff::Backoff;
use isorb::{Kind, Result, SystemException};
use isorb_rt::sched::ThreadSpec;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// The most queued changes. Each is complete, so dropping the oldest loses nothing.
const MAX_WAITING: usize = 16;

/// A bounded queue of changes, and the thread that sends them. The thread ends when this is
/// dropped.
pub(super) struct Notifier<T>(Arc<NotifierQueue<T>>);

struct NotifierQueue<T> {
    waiting: PiMutex<VecDeque<T>>,
    filled: PiCondvar,
    stopped: AtomicBool,
}

impl<T: Send + 'static> Notifier<T> {
    /// Starts the thread. `notify` takes at most `timeout`. A change that fails is sent again after
    /// a growing delay.
    pub fn start(
        name: &str,
        timeout: Duration,
        notify: impl Fn(&T) -> Result<()> + Send + 'static,
    ) -> Result<Notifier<T>> {
        let queue = Arc::new(NotifierQueue {
            waiting: PiMutex::new(VecDeque::with_capacity(MAX_WAITING)),
            filled: PiCondvar::new(),
            stopped: AtomicBool::new(false),
        });
        let mine = queue.clone();
        ThreadSpec::inheriting(name)
            .spawn_supervised(move || mine.run(&notify, &Backoff::new(timeout)))
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        Ok(Notifier(queue))
    }
}

impl<T> Notifier<T> {
    /// Queues a change; drops the oldest if the queue is full.
    pub fn put(&self, change: T) {
        let mut waiting = self.0.waiting.lock();
        let oldest = if waiting.len() >= MAX_WAITING { waiting.pop_front() } else { None };
        waiting.push_back(change);
        drop(waiting);
        drop(oldest);
        self.0.filled.notify_one(&self.0.waiting);
    }
}

impl<T> NotifierQueue<T> {
    fn run(&self, notify: &dyn Fn(&T) -> Result<()>, backoff: &Backoff) {
        while let Some(change) = self.next() {
            match notify(&change) {
                Ok(()) => backoff.record(None),
                Err(_) => {
                    // An immediate error would be followed by an immediate retry.
                    backoff.record(Some(Kind::Timeout));
                    let until = Deadline::after(backoff.delay());
                    let mut waiting = self.waiting.lock();
                    self.filled.wait_while(&mut waiting, until, |_| !self.stopped.load(Acquire));
                    if waiting.len() < MAX_WAITING {
                        waiting.push_front(change);
                    }
                }
            }
        }
    }

    fn next(&self) -> Option<T> {
        let mut waiting = self.waiting.lock();
        let nothing = |waiting: &mut VecDeque<T>| waiting.is_empty() && !self.stopped.load(Acquire);
        self.filled.wait_while(&mut waiting, Deadline::NONE, nothing);
        if self.stopped.load(Acquire) { None } else { waiting.pop_front() }
    }
}

impl<T> Drop for Notifier<T> {
    fn drop(&mut self) {
        self.0.stopped.store(true, Release);
        // With the lock taken, a thread that is about to wait has seen the flag or is woken.
        drop(self.0.waiting.lock());
        self.0.filled.notify_all(&self.0.waiting);
    }
}
