//! The thread lane in every interleaving: no permit is taken twice, no request is lost or run
//! twice, borrowed threads learn of their priority, all waits end. Each thread here does what the
//! server of a lane does.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Three threads have too many interleavings; those with two pre-emptions find the faults.
fn with_two_preemptions(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

/// A lane and the effects of its requests.
struct Lane {
    threads: ThreadLane<u32>,
    /// Runs, counted without synchronisation: with one permit no thread may miss the count of the
    /// last.
    runs: AtomicU32,
    /// Four bits for each request, in which runs are counted.
    served: AtomicU32,
    refused: AtomicU32,
    /// Requests that run now.
    inside: AtomicU32,
}

impl Lane {
    fn new(config: LaneConfig) -> Arc<Lane> {
        Arc::new(Lane {
            threads: ThreadLane::new(config),
            runs: AtomicU32::new(0),
            served: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            inside: AtomicU32::new(0),
        })
    }

    fn permits(&self) -> u32 {
        self.threads.config().static_threads + self.threads.config().dynamic_threads
    }

    fn run(&self, request: u32) {
        let before = self.inside.fetch_add(1, Ordering::Relaxed);
        assert!(before < self.permits(), "more requests run than there are permits");
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs + 1, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.served.fetch_add(1 << (4 * request), Ordering::Relaxed);
    }

    /// As a lane serves a request that one of its threads read.
    fn serve(&self, request: u32) {
        match self.threads.admit() {
            Admission::Run | Admission::RunAndGrow => {}
            Admission::Closed => return self.refuse(request),
            Admission::Full => match self.threads.buffer(1, None, || request) {
                Buffering::Buffered => return,
                Buffering::Overflow => return self.refuse(request),
                Buffering::Run => {}
                Buffering::NoBuffer => {
                    if !self.threads.wait_for_permit() {
                        return self.refuse(request);
                    }
                }
            },
        }
        self.run(request);
        self.finish();
    }

    /// After a request that ran: its permit is released when its reply is sent, unless a request is
    /// buffered.
    fn finish(&self) {
        if self.threads.release_unless_buffered() {
            return;
        }
        while let Some(request) = self.threads.next() {
            self.run(request);
        }
    }

    fn refuse(&self, request: u32) {
        self.refused.fetch_add(1 << (4 * request), Ordering::SeqCst);
    }

    /// Asserts that each of the requests was served or refused, once.
    fn settled(&self, requests: u32) {
        let all = (0..requests).fold(0, |all, request| all | 1 << (4 * request));
        let (served, refused) = (self.served.load(Ordering::SeqCst), self.refused.load(Ordering::SeqCst));
        assert_eq!(served + refused, all, "served {served:x}, refused {refused:x}");
        if self.permits() == 1 {
            assert_eq!(self.runs.load(Ordering::Relaxed), served.count_ones(), "two ran at a time");
        }
        let status = self.threads.status();
        assert_eq!((status.running, status.buffered, status.buffered_bytes), (0, 0, 0));
    }
}

fn one_thread() -> LaneConfig {
    LaneConfig { static_threads: 1, ..LaneConfig::default() }
}

/// Serves request 0 on this thread and the others each on its own thread.
fn together(lane: &Arc<Lane>, requests: u32) {
    let others: Vec<_> = (1..requests)
        .map(|request| {
            let lane = lane.clone();
            thread::spawn(move || lane.serve(request))
        })
        .collect();
    lane.serve(0);
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn loom_a_permit_belongs_to_one_thread() {
    with_two_preemptions(|| {
        let lane = Lane::new(one_thread());
        together(&lane, 3);
        lane.settled(3);
        assert_eq!(lane.refused.load(Ordering::SeqCst), 0, "all wait for a permit");
    });
}

#[test]
fn loom_buffered_requests_are_not_lost() {
    with_two_preemptions(|| {
        let lane =
            Lane::new(LaneConfig { buffer: Some(BufferLimits { requests: 1, bytes: 10 }), ..one_thread() });
        together(&lane, 3);
        lane.settled(3);
    });
}

#[test]
fn loom_a_lane_grows_to_its_limit() {
    with_two_preemptions(|| {
        let lane = Lane::new(LaneConfig { dynamic_threads: 1, ..one_thread() });
        let other = lane.clone();
        // An idle dynamic thread may end at any time, but no permit that is taken ends with it.
        let idle = thread::spawn(move || {
            other.threads.retire();
        });
        together(&lane, 2);
        idle.join().unwrap();
        lane.settled(2);
        let status = lane.threads.status();
        assert!(status.dynamic <= 1 && status.peak <= 2, "{status:?}");
    });
}

#[test]
fn loom_a_thread_that_cannot_be_started_releases_its_permit() {
    with_two_preemptions(|| {
        let lane = Lane::new(LaneConfig { dynamic_threads: 1, ..one_thread() });
        let other = lane.clone();
        let fails = thread::spawn(move || {
            if other.threads.admit() == Admission::RunAndGrow {
                other.threads.abandon_growth();
            } else {
                other.finish();
            }
        });
        lane.serve(0);
        fails.join().unwrap();
        lane.settled(1);
    });
}

#[test]
fn loom_closing_ends_a_wait_for_a_permit() {
    with_two_preemptions(|| {
        let lane = Lane::new(one_thread());
        assert_eq!(lane.threads.admit(), Admission::Run);
        let other = lane.clone();
        let waits = thread::spawn(move || other.serve(0));
        lane.threads.close();
        // Without a permit only the close ends the wait.
        waits.join().unwrap();
        assert_eq!((lane.served.load(Ordering::SeqCst), lane.refused.load(Ordering::SeqCst)), (0, 1));
    });
}

#[test]
fn loom_closing_returns_requests_that_were_not_run() {
    with_two_preemptions(|| {
        let lane =
            Lane::new(LaneConfig { buffer: Some(BufferLimits { requests: 2, bytes: 10 }), ..one_thread() });
        let other = lane.clone();
        let ends = thread::spawn(move || {
            other.threads.close().into_iter().for_each(|request| other.refuse(request));
        });
        together(&lane, 2);
        ends.join().unwrap();
        lane.settled(2);
    });
}

#[test]
fn loom_a_borrowed_permit_has_one_owner_and_its_thread_learns_of_it() {
    with_two_preemptions(|| {
        let lane = Lane::new(LaneConfig { lends: true, ..one_thread() });
        let (own, borrower) = (lane.clone(), lane.clone());
        let own = thread::spawn(move || {
            let worker = own.threads.register();
            own.threads.set_idle(worker);
            // Here it would wait for events. A request of its own may wake it after it was raised.
            let raised = own.threads.set_busy(worker);
            own.serve(0);
            raised
        });
        let borrower_thread = thread::spawn(move || {
            let mut raised = 0;
            let borrowed = borrower.threads.borrow_thread(|| 1, |_| raised += 1);
            if !borrowed {
                borrower.refuse(1);
                return (false, 0);
            }
            // The thread that is woken: no other has taken the request.
            let (request, more) = borrower.threads.borrowed_request();
            assert_eq!((request, more), (Some(1), false));
            borrower.run(1);
            borrower.finish();
            (true, raised)
        });
        let learned = own.join().unwrap();
        let (borrowed, raised) = borrower_thread.join().unwrap();
        assert!(borrowed || raised == 0);
        // A thread that was raised while it was idle has learned of it.
        assert_eq!(learned, raised == 1);
        lane.settled(2);
    });
}

#[test]
fn loom_a_lane_waits_for_all_its_threads() {
    with_two_preemptions(|| {
        let lane = Lane::new(one_thread());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let lane = lane.clone();
                thread::spawn(move || {
                    lane.threads.register();
                })
            })
            .collect();
        lane.threads.wait_until_registered(2);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
