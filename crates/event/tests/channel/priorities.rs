//! Which consumer finishes first on one processor: with real-time threads, and with controls that
//! must fail.

use crate::common::*;
use isorb_event::{Channel, Event, Filter, Priority, Quality, Strategy, ThreadSetup};
use isorb_rt::sched::{Cpus, SchedClass, current_cpus, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LOW: u64 = 30_000_000;
const HIGH: u64 = 60_000_000;

/// A consumer that computes for a time and records its begin and end.
fn computing(ns: u64) -> (impl Fn(&[Event<'_>]) + Send + Sync, Arc<[AtomicU64; 2]>) {
    let times = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let noted = times.clone();
    let consumer = move |_: &[Event<'_>]| {
        noted[0].store(now_ns(), Ordering::SeqCst);
        let until = thread_cpu_ns() + ns;
        while thread_cpu_ns() < until {}
        noted[1].store(now_ns(), Ordering::SeqCst);
    };
    (consumer, times)
}

/// A low consumer computes for 30 ms. After ten, an event arrives for a high one, which computes
/// for 60 ms. Returns whether the high one finishes first. Threads that share the processor fairly
/// would let the low one finish first, since it has less left.
fn high_is_through_before_low(strategy: Strategy, fifo: bool) -> bool {
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let setup = if fifo { ThreadSetup::fifo() } else { ThreadSetup::default() };
    let config = Channel::builder().strategy(strategy).threads(setup.on(Cpus::one(cpu))).own_threads(false);
    let channel = config.build().unwrap();
    let ((low, low_times), (high, high_times)) = (computing(LOW), computing(HIGH));
    let at = |priority| Quality { priority, ..Quality::default() };
    let admin = channel.for_consumers();
    let _l = admin.connect(Arc::new(low), wants(Filter::of(20, 0)).quality(at(Priority::MIN))).unwrap();
    let _h = admin.connect(Arc::new(high), wants(Filter::of(21, 0)).quality(at(Priority::MAX))).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    let of = |times: &[AtomicU64; 2], which: usize| times[which].load(Ordering::SeqCst);
    // The supplier has a higher priority than both where possible, so that it is never kept from
    // pushing.
    std::thread::scope(|s| {
        s.spawn(|| {
            set_current_cpus(&Cpus::one(cpu)).unwrap();
            if fifo {
                SchedClass::Fifo(99).set_current().unwrap();
            }
            supplier.push(&event(20, 0, 0));
            if strategy != Strategy::Direct {
                while of(&low_times, 0) == 0 {
                    sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
                }
                sleep_until(Deadline::at_ns(now_ns() + 10_000_000));
            }
            supplier.push(&event(21, 0, 0));
        });
    });
    while of(&high_times, 1) == 0 || of(&low_times, 1) == 0 {
        sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
    }
    channel.destroy();
    of(&high_times, 1) < of(&low_times, 1)
}

#[test]
fn the_urgent_consumer_finishes_first() {
    let may = std::thread::spawn(|| SchedClass::Fifo(1).set_current().is_ok()).join().unwrap();
    if !may {
        println!("SKIPPED: no right to real-time scheduling here");
        return;
    }
    let threads = Strategy::Threads { per_level: 1 };
    assert!(high_is_through_before_low(threads, true));
    // The controls, on the same processor: with ordinary threads, with one thread for both, and
    // without dispatching.
    assert!(!high_is_through_before_low(threads, false), "FIFO off");
    assert!(!high_is_through_before_low(Strategy::SingleThreaded, true), "a thread for both");
    assert!(!high_is_through_before_low(Strategy::Direct, true), "dispatching off");
}

/// A low consumer computes in its time-out until a high consumer's time-out arrives, or at most for
/// `limit`. Returns whether it arrived.
fn high_timer_fires_meanwhile(levels: &[i16], limit: Duration) -> bool {
    let cpu = current_cpus().unwrap().iter().next().unwrap();
    let levels = levels.iter().map(|level| Priority::new(*level).unwrap()).collect();
    let threads = ThreadSetup::fifo().on(Cpus::one(cpu));
    // Without dispatching: consumers run on the timer thread of their level.
    let channel = Channel::builder().threads(threads).levels(levels).build().unwrap();
    let (begun, came, end) =
        (AtomicBool::new(false), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (met, ended) = (came.clone(), end.clone());
    let low = move |_: &[Event<'_>]| {
        if begun.swap(true, Ordering::SeqCst) {
            return;
        }
        // The high consumer connects, and its timer expires within a period, while this computes.
        met.store(false, Ordering::SeqCst);
        let until = now_ns() + limit.as_nanos() as u64;
        while !met.load(Ordering::SeqCst) && now_ns() < until {}
        ended.store(if met.load(Ordering::SeqCst) { 1 } else { 2 }, Ordering::SeqCst);
    };
    let high = came.clone();
    let high = move |_: &[Event<'_>]| high.store(true, Ordering::SeqCst);
    let interval = wants(Filter::interval(Duration::from_millis(5)));
    let at = |priority| Quality { priority, ..Quality::default() };
    let admin = channel.for_consumers();
    let _h = admin.connect(Arc::new(high), interval.clone().quality(at(Priority::MAX))).unwrap();
    let _l = admin.connect(Arc::new(low), interval.quality(at(Priority::MIN))).unwrap();
    while end.load(Ordering::SeqCst) == 0 {
        sleep_until(Deadline::at_ns(now_ns() + 1_000_000));
    }
    channel.destroy();
    end.load(Ordering::SeqCst) == 1
}

#[test]
fn an_urgent_timer_fires_while_a_low_consumer_computes() {
    let may = std::thread::spawn(|| SchedClass::Fifo(1).set_current().is_ok()).join().unwrap();
    if !may {
        println!("SKIPPED: no right to real-time scheduling here");
        return;
    }
    assert!(high_timer_fires_meanwhile(&[0, 20_000], Duration::from_secs(60)));
    // The control: one level, with a timer thread that is busy with the low one.
    assert!(!high_timer_fires_meanwhile(&[0], Duration::from_millis(300)), "one level for both");
}
