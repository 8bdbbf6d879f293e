//! Opens connections to remote consumers and suppliers, so that no thread that pushes or connects
//! waits for a peer that does not answer.

use super::backoff;
use isorb::{Kind, Result, SystemException};
use isorb_rt::log::{info, warn};
use isorb_rt::sched::ThreadSpec;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A peer without a connection.
pub(super) trait Bindable: Send + Sync {
    /// Opens it. May wait for the peer for up to the push time-out. An error is followed by another
    /// attempt, after a delay.
    fn bind(&self) -> Result<()>;

    /// Where it is, for the log.
    fn address(&self) -> String;
}

/// The most threads: peers that do not answer, each for the push time-out.
const MAX_THREADS: usize = 16;

/// Peers to bind, and the threads that do: one that stays, and more while all of them wait.
pub(super) struct Binder(Arc<Shared>);

struct Shared {
    timeout: Duration,
    state: PiMutex<State>,
    changed: PiCondvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    /// Jobs that were added since the start.
    added: u64,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    stopped: bool,
}

struct Job {
    peer: Weak<dyn Bindable>,
    failures: u32,
    /// The log has that it cannot be bound.
    reported: bool,
    /// In nanoseconds.
    due: u64,
}

impl State {
    fn add(&mut self, job: Job) {
        self.jobs.push(job);
        self.added += 1;
    }
}

impl Binder {
    /// A binder for peers that may take this time.
    pub fn start(timeout: Duration) -> Result<Binder> {
        let shared = Arc::new(Shared { timeout, state: PiMutex::default(), changed: PiCondvar::new() });
        let binder = Binder(shared);
        binder.0.state.lock().threads = 1;
        binder.0.start_thread(true)?;
        Ok(binder)
    }

    /// Has a peer bound soon.
    pub fn put(&self, peer: Weak<dyn Bindable>) {
        let mut state = self.0.state.lock();
        state.add(Job { peer, failures: 0, reported: false, due: now_ns() });
        let more = state.idle == 0 && state.threads < MAX_THREADS;
        state.threads += usize::from(more);
        drop(state);
        self.0.changed.notify_one(&self.0.state);
        if more && self.0.start_thread(false).is_err() {
            // The other threads do it later.
            self.0.state.lock().threads -= 1;
        }
    }
}

impl Shared {
    fn start_thread(self: &Arc<Self>, stays: bool) -> Result<()> {
        let shared = self.clone();
        ThreadSpec::inheriting("event-binder")
            .spawn_supervised(move || shared.run(stays))
            .map(drop)
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))
    }

    fn run(&self, stays: bool) {
        while let Some(mut job) = self.next(stays) {
            let Some(peer) = job.peer.upgrade() else { continue };
            if let Err(exception) = peer.bind() {
                // Without a descriptor for a connection, the peer is not to blame.
                job.failures = if exception.is_shortage() { 1 } else { job.failures + 1 };
                let delay = backoff::delay(self.timeout, job.failures);
                job.due = now_ns().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
                if !std::mem::replace(&mut job.reported, true) {
                    let address = peer.address();
                    warn(
                        "isorb::event",
                        format_args!("{address}: cannot be reached, and is tried again: {exception}"),
                    );
                }
                self.state.lock().add(job);
                // This thread may end, and the one that stays does not know of the job.
                self.changed.notify_one(&self.state);
            } else if job.reported {
                info("isorb::event", format_args!("{}: can be reached again", peer.address()));
            }
        }
    }

    /// The next job that is due: one that has failed the least, so that new peers do not wait
    /// behind those that do not answer. `None` if the thread is to end.
    fn next(&self, stays: bool) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            let now = now_ns();
            let due = state.jobs.iter().enumerate().filter(|(_, job)| job.due <= now);
            if let Some((at, _)) = due.min_by_key(|(_, job)| (job.failures, job.due)) {
                return Some(state.jobs.swap_remove(at));
            }
            if !stays {
                state.threads -= 1;
                return None;
            }
            let until = state.jobs.iter().map(|job| job.due).min();
            state.idle += 1;
            let known = state.added;
            let until = until.map_or(Deadline::NONE, Deadline::at_ns);
            self.changed.wait_while(&mut state, until, |state| !state.stopped && state.added == known);
            state.idle -= 1;
        }
    }
}

impl Drop for Binder {
    fn drop(&mut self) {
        self.0.state.lock().stopped = true;
        self.0.changed.notify_all(&self.0.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_testkit::wait_until;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Each attempt to bind it waits for its outcome.
    struct Peer {
        begun: AtomicU32,
        outcomes: Mutex<Receiver<Result<()>>>,
    }

    impl Bindable for Peer {
        fn bind(&self) -> Result<()> {
            self.begun.fetch_add(1, SeqCst);
            self.outcomes.lock().unwrap().recv().unwrap()
        }

        fn address(&self) -> String {
            "here".into()
        }
    }

    fn peer() -> (Arc<Peer>, Sender<Result<()>>) {
        let (end, outcomes) = channel();
        (Arc::new(Peer { begun: AtomicU32::new(0), outcomes: outcomes.into() }), end)
    }

    #[test]
    fn a_peer_is_tried_again_when_the_thread_that_tried_it_ends() {
        let binder = Binder::start(Duration::from_millis(1)).unwrap();
        let waits = || binder.0.state.lock().idle == 1;
        wait_until("its thread waits", waits);
        let ((first, end_first), (second, end_second)) = (peer(), peer());
        for peer in [&first, &second] {
            let weak: Weak<dyn Bindable> = Arc::downgrade(&(peer.clone() as Arc<dyn Bindable>));
            binder.put(weak);
            wait_until("it is tried", || peer.begun.load(SeqCst) == 1);
        }
        // One of the two threads ends when it has nothing to do: here the one that stays waits
        // without a job first.
        end_first.send(Ok(())).unwrap();
        wait_until("the one that stays waits", waits);
        end_second.send(Err(Kind::Transient.into())).unwrap();
        wait_until("it is tried again", || second.begun.load(SeqCst) == 2);
        end_second.send(Ok(())).unwrap();
    }
}
