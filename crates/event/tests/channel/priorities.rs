//! Who runs first on one processor: with real-time threads, and with controls that must fail.

use crate::common::*;
use isorb_event::{Channel, Config, Event, Filter, Priority, Quality, Strategy, ThreadSetup};
use isorb_rt::sched::{Cpus, SchedClass, current_cpus, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A low consumer computes for 30 ms. Ten milliseconds into that, an event comes for a high one. When does it run: before the
/// low one is through?
fn high_runs_before_low_is_through(strategy: Strategy, fifo: bool) -> bool {
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let setup = if fifo { ThreadSetup::fifo() } else { ThreadSetup::default() };
    let config = Config { threads: setup.on(Cpus::one(cpu)), own_threads: false, ..Config::with(strategy) };
    let channel = Channel::new(config).unwrap();
    let (low_began, low_ended, high_began) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (began, ended, high) = (low_began.clone(), low_ended.clone(), high_began.clone());
    let low = move |_: &[Event<'_>]| {
        began.store(now_ns(), Ordering::SeqCst);
        let work = isorb_rt::time::thread_cpu_ns() + 30_000_000;
        while isorb_rt::time::thread_cpu_ns() < work {}
        ended.store(now_ns(), Ordering::SeqCst);
    };
    let high = move |_: &[Event<'_>]| high.store(now_ns(), Ordering::SeqCst);
    let at = |priority| Quality { priority, ..Quality::default() };
    let admin = channel.for_consumers();
    let _l = admin.connect(Arc::new(low), wants(Filter::of(20, 0)).quality(at(Priority::MIN))).unwrap();
    let _h = admin.connect(Arc::new(high), wants(Filter::of(21, 0)).quality(at(Priority::MAX))).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    // The supplier is more urgent than both where it may be, so that it is never kept from pushing.
    std::thread::scope(|s| {
        s.spawn(|| {
            set_current_cpus(&Cpus::one(cpu)).unwrap();
            if fifo {
                SchedClass::Fifo(99).set_current().unwrap();
            }
            supplier.push(&event(20, 0, 0));
            if strategy != Strategy::Direct {
                while low_began.load(Ordering::SeqCst) == 0 {
                    sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
                }
                sleep_until(Deadline::at_ns(now_ns() + 10_000_000));
            }
            supplier.push(&event(21, 0, 0));
        });
    });
    while high_began.load(Ordering::SeqCst) == 0 || low_ended.load(Ordering::SeqCst) == 0 {
        sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
    }
    channel.destroy();
    high_began.load(Ordering::SeqCst) < low_ended.load(Ordering::SeqCst)
}

#[test]
fn the_urgent_consumer_runs_first() {
    let may = std::thread::spawn(|| SchedClass::Fifo(1).set_current().is_ok()).join().unwrap();
    if !may {
        println!("skipped: no right to real-time scheduling here");
        return;
    }
    assert!(high_runs_before_low_is_through(Strategy::Threads { per_level: 1 }, true));
    // The controls: without threads of their own, and without dispatching, the low consumer is through first.
    assert!(!high_runs_before_low_is_through(Strategy::SingleThreaded, true));
    assert!(!high_runs_before_low_is_through(Strategy::Direct, true));
}
