use std::sync::Arc;
use std::thread;

use super::*;
use crate::testing::{in_thread, may_be_real_time};

fn mutex(ceiling: u8) -> CeilingMutex<()> {
    CeilingMutex::new(ceiling, ()).unwrap()
}

fn class() -> SchedClass {
    SchedClass::current().unwrap()
}

#[test]
fn one_at_a_time() {
    let m = Arc::new(CeilingMutex::new(5, (0u64, 0u64)).unwrap());
    let real_time = may_be_real_time();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let m = m.clone();
            thread::spawn(move || {
                // Raised and ordinary ones alike.
                if real_time && number % 2 == 0 {
                    SchedClass::Fifo(1 + number).set_current().unwrap();
                }
                for _ in 0..2_000 {
                    let mut g = m.lock().unwrap();
                    assert_eq!(g.0, g.1);
                    g.0 += 1;
                    g.1 += 1;
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*m.lock().unwrap(), (8_000, 8_000));
    assert_eq!(Arc::into_inner(m).unwrap().into_inner(), (8_000, 8_000));
}

#[test]
fn an_ordinary_thread_is_excluded_and_no_more() {
    in_thread(|| {
        let m = mutex(7);
        let held = m.lock().unwrap();
        assert_eq!(class(), SchedClass::Other);
        assert_eq!(m.lock().unwrap_err(), CeilingError::Lock(LockError::Deadlock));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(m.try_lock().unwrap_err(), CeilingError::Lock(LockError::WouldBlock));
                m.lock_until(Deadline::PAST).map(drop).unwrap_err()
            });
            assert_eq!(other.join().unwrap(), CeilingError::Lock(LockError::TimedOut));
        });
        drop(held);
        drop(m.try_lock().unwrap());
    });
}

#[test]
fn a_ceiling_is_a_native_priority() {
    for ceiling in [0, 100, 255] {
        assert_eq!(CeilingMutex::new(ceiling, ()).unwrap_err(), SchedError::OutOfRange);
    }
    assert_eq!((mutex(1).ceiling(), mutex(99).ceiling()), (1, 99));
}

#[test]
fn the_holder_runs_at_the_ceiling() {
    if !may_be_real_time() {
        return;
    }
    in_thread(|| {
        let m = mutex(7);
        for own in [SchedClass::Fifo(3), SchedClass::Rr(7), SchedClass::Rr(2), SchedClass::Fifo(7)] {
            own.set_current().unwrap();
            let held = m.lock().unwrap();
            assert_eq!(class().native_priority(), Some(7));
            assert_eq!(matches!(class(), SchedClass::Rr(_)), matches!(own, SchedClass::Rr(_)));
            // A second lock fails, and leaves the ceiling of the first.
            assert_eq!(m.try_lock().unwrap_err(), CeilingError::Lock(LockError::Deadlock));
            assert_eq!(class().native_priority(), Some(7));
            drop(held);
            assert_eq!(class(), own);
        }
    });
}

#[test]
fn a_thread_without_the_lock_comes_down_again() {
    if !may_be_real_time() {
        return;
    }
    let m = mutex(7);
    let _held = m.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            SchedClass::Fifo(3).set_current().unwrap();
            assert_eq!(m.try_lock().unwrap_err(), CeilingError::Lock(LockError::WouldBlock));
            assert_eq!(class(), SchedClass::Fifo(3));
        });
    });
}

#[test]
fn a_thread_above_the_ceiling_is_refused() {
    if !may_be_real_time() {
        return;
    }
    in_thread(|| {
        let m = mutex(7);
        SchedClass::Fifo(8).set_current().unwrap();
        let refused = CeilingError::AboveCeiling { class: SchedClass::Fifo(8), ceiling: 7 };
        assert_eq!(m.lock().unwrap_err(), refused);
        assert_eq!(m.try_lock().unwrap_err(), refused);
        assert!(refused.to_string().contains("SCHED_FIFO 8) is above the mutex's ceiling of 7"), "{refused}");
        assert_eq!(class(), SchedClass::Fifo(8));
        SchedClass::Fifo(7).set_current().unwrap();
        drop(m.lock().unwrap());
    });
}

#[test]
fn locks_nest_and_are_released_in_any_order() {
    if !may_be_real_time() {
        return;
    }
    in_thread(|| {
        let (low, high, other) = (mutex(5), mutex(9), mutex(9));
        SchedClass::Fifo(3).set_current().unwrap();
        let a = low.lock().unwrap();
        let b = high.lock().unwrap();
        assert_eq!(class(), SchedClass::Fifo(9));
        drop(b);
        assert_eq!(class(), SchedClass::Fifo(5));
        drop(a);
        assert_eq!(class(), SchedClass::Fifo(3));

        // The thread's own priority counts against a lower ceiling, not the ceiling that it runs
        // at.
        let a = high.lock().unwrap();
        let b = low.lock().unwrap();
        let c = other.lock().unwrap();
        assert_eq!(class(), SchedClass::Fifo(9));
        drop(a);
        assert_eq!(class(), SchedClass::Fifo(9), "another lock has that ceiling");
        drop(c);
        assert_eq!(class(), SchedClass::Fifo(5));
        drop(b);
        assert_eq!(class(), SchedClass::Fifo(3));
    });
}

#[test]
fn a_class_from_elsewhere_stays() {
    if !may_be_real_time() {
        return;
    }
    in_thread(|| {
        let (low, high) = (mutex(5), mutex(9));
        SchedClass::Fifo(3).set_current().unwrap();
        let held = low.lock().unwrap();
        SchedClass::Fifo(1).set_current().unwrap();
        let inner = high.lock().unwrap();
        assert_eq!(class(), SchedClass::Fifo(9));
        drop(inner);
        assert_eq!(class(), SchedClass::Fifo(5), "the outer one's ceiling");
        SchedClass::Other.set_current().unwrap();
        drop(held);
        assert_eq!(class(), SchedClass::Other, "demoted");
        SchedClass::Fifo(2).set_current().unwrap();
        drop(low.lock().unwrap());
        assert_eq!(class(), SchedClass::Fifo(2), "nothing is left of it");
    });
}

#[test]
fn a_panic_unlocks_and_lowers() {
    if !may_be_real_time() {
        return;
    }
    in_thread(|| {
        let m = mutex(7);
        SchedClass::Fifo(3).set_current().unwrap();
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = m.lock().unwrap();
            panic!("on purpose");
        }));
        assert_eq!(class(), SchedClass::Fifo(3));
        drop(m.lock().unwrap());
    });
}
