//! The user-space halves of the locks in every interleaving. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p isorb-rt --release --lib loom`.

use loom::sync::Arc;
use loom::thread;

use super::atomic::{AtomicU32, Ordering};
use super::cell::UnsafeCell;
use super::{EventCount, ExclusiveSlot, LockError, Parker, PiCondvar, PiMutex, SlotError, Turn, Waiters};
use crate::time::Deadline;

/// Three threads are too many interleavings; those with at most two pre-emptions are enough to find
/// what three threads can do that two cannot (a second waiter in the queue).
fn three_threads(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

fn exclude(others: usize) {
    let m = Arc::new(PiMutex::new(0));
    let threads: Vec<_> = (0..others)
        .map(|_| {
            let m = m.clone();
            thread::spawn(move || *m.lock() += 1)
        })
        .collect();
    *m.lock() += 1;
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*m.lock(), others + 1);
}

#[test]
fn loom_mutex_excludes() {
    loom::model(|| exclude(1));
}

#[test]
fn loom_mutex_excludes_three() {
    three_threads(|| exclude(2));
}

#[test]
fn loom_try_lock_excludes_and_does_not_wait() {
    loom::model(|| {
        let m = Arc::new(PiMutex::new(0));
        let n = m.clone();
        let t = thread::spawn(move || match n.try_lock() {
            Ok(mut g) => {
                *g += 1;
                1
            }
            Err(e) => {
                assert_eq!(e, LockError::WouldBlock);
                0
            }
        });
        {
            let mut g = m.lock();
            *g += 1;
            assert_eq!(m.try_lock().unwrap_err(), LockError::Deadlock);
        }
        let theirs = t.join().unwrap();
        assert_eq!(*m.lock(), 1 + theirs);
    });
}

#[test]
fn loom_event_count_loses_no_notification() {
    loom::model(|| {
        let s = Arc::new((PiMutex::new(0), EventCount::new()));
        let r = s.clone();
        let t = thread::spawn(move || {
            *r.0.lock() += 1;
            r.1.notify_one();
        });
        assert_eq!(*s.1.lock_while(&s.0, Deadline::NONE, |v| *v == 0), 1);
        t.join().unwrap();
    });
}

#[test]
fn loom_condition_loses_no_notification() {
    loom::model(|| {
        let s = Arc::new((PiMutex::new(0), PiCondvar::new()));
        let r = s.clone();
        let t = thread::spawn(move || {
            *r.0.lock() += 1;
            // Without the lock: the harder case.
            r.1.notify_one(&r.0);
        });
        let mut g = s.0.lock();
        assert!(s.1.wait_while(&mut g, Deadline::NONE, |v| *v == 0));
        assert_eq!(*g, 1);
        drop(g);
        t.join().unwrap();
    });
}

#[test]
fn loom_condition_wakes_all() {
    three_threads(|| {
        let s = Arc::new((PiMutex::new(false), PiCondvar::new()));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let r = s.clone();
                thread::spawn(move || {
                    let mut g = r.0.lock();
                    assert!(r.1.wait_while(&mut g, Deadline::NONE, |go| !*go));
                })
            })
            .collect();
        let mut g = s.0.lock();
        *g = true;
        s.1.notify_all(&s.0);
        drop(g);
        waiters.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn loom_parker_loses_no_token_and_publishes() {
    loom::model(|| {
        let s = Arc::new((Parker::new(), UnsafeCell::new(0)));
        let r = s.clone();
        let t = thread::spawn(move || {
            // SAFETY: the other thread reads after the token only; loom checks that.
            r.1.with_mut(|p| unsafe { *p = 5 });
            r.0.unpark();
        });
        assert!(s.0.park_until(Deadline::NONE));
        // SAFETY: as above.
        assert_eq!(s.1.with(|p| unsafe { *p }), 5);
        t.join().unwrap();
    });
}

#[test]
fn loom_parker_is_reused() {
    loom::model(|| {
        let s = Arc::new((Parker::new(), Parker::new(), AtomicU32::new(0)));
        let r = s.clone();
        let t = thread::spawn(move || {
            for _ in 0..2 {
                assert!(r.0.park_until(Deadline::NONE));
                r.2.fetch_add(1, Ordering::Relaxed);
                r.1.unpark();
            }
        });
        for i in 1..=2 {
            s.0.unpark();
            assert!(s.1.park_until(Deadline::NONE));
            assert_eq!(s.2.load(Ordering::Relaxed), i);
        }
        t.join().unwrap();
    });
}

/// Each thread brings work and does what there is if it is its turn. No work is left, and no two
/// work at once.
#[test]
fn loom_turn_leaves_no_work_and_excludes() {
    let bring = |s: &(Turn, AtomicU32, UnsafeCell<u32>)| {
        s.1.fetch_add(1, Ordering::Relaxed);
        if s.0.take() {
            loop {
                let work = s.1.swap(0, Ordering::Relaxed);
                // SAFETY: the owner of the turn is alone here; loom checks that.
                s.2.with_mut(|done| unsafe { *done += work });
                if s.0.pass() {
                    break;
                }
            }
        }
    };
    three_threads(move || {
        let s = Arc::new((Turn::new(), AtomicU32::new(0), UnsafeCell::new(0)));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let s = s.clone();
                thread::spawn(move || bring(&s))
            })
            .collect();
        bring(&s);
        others.into_iter().for_each(|t| t.join().unwrap());
        // SAFETY: no other thread is left.
        assert_eq!(s.2.with(|done| unsafe { *done }), 3);
    });
}

/// A connection: the replies in order of arrival, and the callers that another reader served.
struct Shared {
    arriving: PiMutex<Vec<usize>>,
    waiters: Waiters,
    delivered: Vec<AtomicU32>,
}

/// Waits for the reply of `me` as the ORB does. All threads but the first lend their priorities.
fn await_reply(s: &Shared, me: usize) {
    let mut held = None;
    loop {
        if held.is_none() {
            held = s.arriving.try_lock().ok();
        }
        if held.is_none() {
            let announced = s.waiters.announce(me);
            held = s.arriving.try_lock().ok();
            if held.is_none() {
                assert!(announced.park(&s.arriving, Deadline::NONE));
                drop(announced);
                if s.delivered[me].load(Ordering::Acquire) == 1 {
                    return s.waiters.hand_over();
                }
                continue;
            }
        }
        let Some(mut arriving) = held.take() else { continue };
        if s.delivered[me].load(Ordering::Acquire) == 1 {
            drop(arriving);
            return s.waiters.hand_over();
        }
        let caller = arriving.pop().expect("each reply is read once");
        if caller == me {
            drop(arriving);
            return s.waiters.hand_over();
        }
        s.delivered[caller].store(1, Ordering::Release);
        s.waiters.wake(caller);
        if !s.waiters.has_loans() {
            held = Some(arriving);
            continue;
        }
        let announced = s.waiters.announce(me);
        drop(arriving);
        s.waiters.hand_over();
        assert!(announced.park_behind(Deadline::NONE));
        drop(announced);
        if s.delivered[me].load(Ordering::Acquire) == 1 {
            return s.waiters.hand_over();
        }
    }
}

/// Every caller gets its reply, in whichever order they arrive; loom sees a deadlock if one is left
/// parked.
fn all_are_answered(replies: &[usize]) {
    let s = Arc::new(Shared {
        arriving: PiMutex::new(replies.to_vec()),
        waiters: Waiters::new(replies.len()),
        delivered: replies.iter().map(|_| AtomicU32::new(0)).collect(),
    });
    let others: Vec<_> = (1..replies.len())
        .map(|me| {
            let s = s.clone();
            thread::spawn(move || await_reply(&s, me))
        })
        .collect();
    await_reply(&s, 0);
    others.into_iter().for_each(|t| t.join().unwrap());
    assert!(s.arriving.lock().is_empty());
}

#[test]
fn loom_waiters_hand_over() {
    three_threads(|| all_are_answered(&[0, 1]));
    three_threads(|| all_are_answered(&[1, 0]));
}

#[test]
fn loom_waiters_hand_over_three() {
    three_threads(|| all_are_answered(&[0, 2, 1]));
    three_threads(|| all_are_answered(&[0, 1, 2]));
    three_threads(|| all_are_answered(&[2, 0, 1]));
}

/// Two threads use a slot by one number while a third ends its generation: each use sees what the
/// one before left, none comes after the end, and none waits.
#[test]
fn loom_slot_excludes_and_expires() {
    three_threads(|| {
        let slot = Arc::new(ExclusiveSlot::new(0));
        let user = |slot: Arc<ExclusiveSlot<i32>>| {
            move || match slot.try_use(1) {
                Ok(mut value) => {
                    assert!(*value >= 0, "used after the end");
                    *value += 1;
                    1
                }
                Err(SlotError::InUse | SlotError::Expired) => 0,
            }
        };
        let other = thread::spawn(user(slot.clone()));
        let end = slot.clone();
        let closes = thread::spawn(move || match end.try_use(1) {
            Ok(mut value) => {
                let uses = *value;
                *value = -1;
                assert_eq!(value.expire(), 2);
                Some(uses)
            }
            Err(error) => {
                assert_eq!(error, SlotError::InUse);
                None
            }
        });
        let mine = user(slot.clone())();
        let (uses, closed) = (mine + other.join().unwrap(), closes.join().unwrap());
        let now = match closed {
            Some(before) => {
                assert_eq!((before, slot.try_use(1).map(drop)), (uses, Err(SlotError::Expired)));
                slot.try_use(2)
            }
            None => slot.try_use(1),
        };
        assert_eq!(*now.unwrap(), closed.map_or(uses, |_| -1));
    });
}
