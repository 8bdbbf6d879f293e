//! A crew in every interleaving: places are never taken twice, no request is lost or run twice, borrowed threads hear of it, all waits
//! end. Each thread here does what the station of a lane does (`server/station.rs` of `isorb`).

use super::*;
use crate::sync::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Three threads are too many interleavings; those with two pre-emptions find what matters.
fn few_preemptions(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

/// A lane, and what its requests do.
struct Lane {
    crew: Crew<u32>,
    /// One for each place: who is in a place writes it, and loom sees two who do at a time.
    place: UnsafeCell<u32>,
    /// Requests by number, a bit each, added so that one that is run twice shows.
    served: AtomicU32,
    refused: AtomicU32,
    /// How many run, where there are several places.
    inside: AtomicU32,
}

impl Lane {
    fn new(rules: Rules) -> Arc<Lane> {
        Arc::new(Lane {
            crew: Crew::new(rules),
            place: UnsafeCell::new(0),
            served: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            inside: AtomicU32::new(0),
        })
    }

    fn places(&self) -> u32 {
        self.crew.rules().static_threads + self.crew.rules().dynamic_threads
    }

    fn run(&self, request: u32) {
        let before = self.inside.fetch_add(1, Ordering::SeqCst);
        assert!(before < self.places(), "more run than there are places");
        if self.places() == 1 {
            // SAFETY: who has the only place is alone; loom checks that.
            self.place.with_mut(|place| unsafe { *place += 1 });
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.served.fetch_add(1 << (4 * request), Ordering::SeqCst);
    }

    /// As a station serves a request that one of its threads read.
    fn serve(&self, request: u32) {
        match self.crew.admit() {
            Admission::Run | Admission::RunAndGrow => {}
            Admission::Closed => return self.refuse(request),
            Admission::Full => match self.crew.keep(1, None, || request) {
                Kept::Buffered => return,
                Kept::Overflow => return self.refuse(request),
                Kept::Run => {}
                Kept::NoBuffer => {
                    if !self.crew.wait_for_place() {
                        return self.refuse(request);
                    }
                }
            },
        }
        self.run(request);
        self.finish();
    }

    /// After a request that ran: its place is free when its reply goes out, unless something waits for it.
    fn finish(&self) {
        if self.crew.leave_unless_kept() {
            return;
        }
        while let Some(request) = self.crew.next() {
            self.run(request);
        }
    }

    fn refuse(&self, request: u32) {
        self.refused.fetch_add(1 << (4 * request), Ordering::SeqCst);
    }

    /// That each of so many requests was served or refused, once.
    fn settled(&self, requests: u32) {
        let all = (0..requests).fold(0, |all, request| all | 1 << (4 * request));
        let (served, refused) = (self.served.load(Ordering::SeqCst), self.refused.load(Ordering::SeqCst));
        assert_eq!(served + refused, all, "served {served:x}, refused {refused:x}");
        let census = self.crew.census();
        assert_eq!((census.running, census.kept, census.kept_bytes), (0, 0, 0));
    }
}

fn rules() -> Rules {
    Rules { static_threads: 1, ..Rules::default() }
}

/// Runs `serve` for the requests 1 and on, each in a thread of its own, and for 0 in this one.
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
fn loom_a_place_is_one_threads() {
    few_preemptions(|| {
        let lane = Lane::new(rules());
        together(&lane, 3);
        lane.settled(3);
        assert_eq!(lane.refused.load(Ordering::SeqCst), 0, "all wait for a place");
    });
}

#[test]
fn loom_nothing_that_is_kept_is_forgotten() {
    few_preemptions(|| {
        let lane = Lane::new(Rules { room: Some(Room { requests: 1, bytes: 10 }), ..rules() });
        together(&lane, 3);
        lane.settled(3);
    });
}

#[test]
fn loom_a_lane_grows_to_its_limit() {
    few_preemptions(|| {
        let lane = Lane::new(Rules { dynamic_threads: 1, ..rules() });
        let other = lane.clone();
        // An idle dynamic thread may end at any time, and no place with it that somebody has.
        let idle = thread::spawn(move || {
            other.crew.retire();
        });
        together(&lane, 2);
        idle.join().unwrap();
        lane.settled(2);
        let census = lane.crew.census();
        assert!(census.dynamic <= 1 && census.peak <= 2, "{census:?}");
    });
}

#[test]
fn loom_a_thread_that_cannot_be_started_leaves_its_place() {
    few_preemptions(|| {
        let lane = Lane::new(Rules { dynamic_threads: 1, ..rules() });
        let other = lane.clone();
        let fails = thread::spawn(move || {
            if other.crew.admit() == Admission::RunAndGrow {
                other.crew.did_not_grow();
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
fn loom_who_waits_hears_of_the_end() {
    few_preemptions(|| {
        let lane = Lane::new(rules());
        assert_eq!(lane.crew.admit(), Admission::Run);
        let other = lane.clone();
        let waits = thread::spawn(move || other.serve(0));
        lane.crew.close();
        // Without a place for it, the end is all that it can hear of.
        waits.join().unwrap();
        assert_eq!((lane.served.load(Ordering::SeqCst), lane.refused.load(Ordering::SeqCst)), (0, 1));
    });
}

#[test]
fn loom_what_is_kept_at_the_end_is_given_back_or_was_run() {
    few_preemptions(|| {
        let lane = Lane::new(Rules { room: Some(Room { requests: 2, bytes: 10 }), ..rules() });
        let other = lane.clone();
        let ends = thread::spawn(move || {
            let (kept, errands) = other.crew.close();
            assert!(errands.is_empty());
            kept.into_iter().for_each(|request| other.refuse(request));
        });
        together(&lane, 2);
        ends.join().unwrap();
        lane.settled(2);
    });
}

#[test]
fn loom_a_place_is_lent_to_one_and_its_thread_hears_of_it() {
    few_preemptions(|| {
        let lane = Lane::new(Rules { lends: true, ..rules() });
        let (own, more_urgent) = (lane.clone(), lane.clone());
        let own = thread::spawn(move || {
            let seat = own.crew.sit();
            own.crew.rest(seat);
            // Here it would wait for events; one that is woken by a request of its own may have been raised before.
            let raised = own.crew.rise(seat);
            own.serve(0);
            raised
        });
        let borrows = thread::spawn(move || {
            let mut raised = 0;
            let lent = more_urgent.crew.lend(|| 1, |_| raised += 1);
            if !lent {
                more_urgent.refuse(1);
                return (false, 0);
            }
            // Whoever is woken for the errand: nobody else has taken it.
            let (errand, more) = more_urgent.crew.errand();
            assert_eq!((errand, more), (Some(1), false));
            more_urgent.run(1);
            more_urgent.finish();
            (true, raised)
        });
        let heard = own.join().unwrap();
        let (lent, raised) = borrows.join().unwrap();
        assert!(lent || raised == 0);
        // A thread that was raised while it was idle has heard of it.
        assert_eq!(heard, raised == 1);
        lane.settled(2);
    });
}

#[test]
fn loom_all_are_ready_before_the_lane_is() {
    few_preemptions(|| {
        let lane = Lane::new(rules());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let lane = lane.clone();
                thread::spawn(move || {
                    lane.crew.sit();
                })
            })
            .collect();
        lane.crew.await_ready(2);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
