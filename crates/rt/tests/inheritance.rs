//! Priority inheritance at work: on one processor, a low thread has the lock, a high one wants it,
//! and a middling one keeps the processor busy.
//!
//! What is asserted is an order of events, not a time: did the high thread get its lock while the
//! middling one was still busy? With inheritance it must, without it cannot; the same scene with
//! std's lock shows that the test can tell.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, current_cpus};
use isorb_rt::sync::{Parker, PiCondvar, PiMutex};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};

const MS: u64 = 1_000_000;
/// How long the middling thread is busy at most; less than the share that the kernel leaves to
/// real-time threads.
const BUSY: u64 = 300 * MS;

/// A lock and a condition of either kind.
trait Lock: Send + Sync + 'static {
    fn new() -> Self;
    /// Calls `f` with the lock held; with `notify`, after waking the waiter.
    fn with(&self, notify: bool, f: impl FnOnce());
    /// Waits for the notification; says `f` when the lock is held and the wait begins.
    fn wait(&self, f: impl FnOnce());
}

struct Pi(PiMutex<bool>, PiCondvar);

impl Lock for Pi {
    fn new() -> Self {
        Pi(PiMutex::new(false), PiCondvar::new())
    }
    fn with(&self, notify: bool, f: impl FnOnce()) {
        let mut guard = self.0.lock();
        *guard = notify;
        if notify {
            self.1.notify_one(&self.0);
        }
        f();
    }
    fn wait(&self, f: impl FnOnce()) {
        let mut guard = self.0.lock();
        f();
        self.1.wait_while(&mut guard, Deadline::NONE, |notified| !*notified);
    }
}

struct Std(Mutex<bool>, Condvar);

impl Lock for Std {
    fn new() -> Self {
        Std(Mutex::new(false), Condvar::new())
    }
    fn with(&self, notify: bool, f: impl FnOnce()) {
        let mut guard = self.0.lock().unwrap();
        *guard = notify;
        if notify {
            self.1.notify_one();
        }
        f();
    }
    fn wait(&self, f: impl FnOnce()) {
        let guard = self.0.lock().unwrap();
        f();
        drop(self.1.wait_while(guard, |notified| !*notified).unwrap());
    }
}

#[derive(Default)]
struct Scene {
    low_has_lock: AtomicBool,
    high_wants_lock: AtomicBool,
    low_may_finish: AtomicBool,
    high_had_lock: AtomicBool,
    middle_goes: Parker,
}

/// Whether the high thread got its lock while the middle one was busy. All threads run on `cpu`.
/// The directing thread is the most urgent, so the others run only while it sleeps.
fn high_overtook<L: Lock>(cpu: usize, through_condition: bool) -> bool {
    let (scene, lock) = (Arc::new(Scene::default()), Arc::new(L::new()));
    let thread = move |name: &str, priority| {
        ThreadSpec::new(name).class(SchedClass::Fifo(priority)).cpus(Cpus::one(cpu)).stack_size(256 * 1024)
    };

    let (s, l) = (scene.clone(), lock.clone());
    let high = move || {
        if through_condition {
            l.wait(|| s.high_wants_lock.store(true, SeqCst));
        } else {
            s.high_wants_lock.store(true, SeqCst);
            l.with(false, || ());
        }
        s.high_had_lock.store(true, SeqCst);
    };
    let (s, l) = (scene.clone(), lock.clone());
    let low = move || {
        l.with(through_condition, || {
            s.low_has_lock.store(true, SeqCst);
            spin_until(&s.low_may_finish, 2_000 * MS);
            // Some work that is left to do under the lock.
            let start = thread_cpu_ns();
            let end = now_ns() + 2_000 * MS;
            while thread_cpu_ns() - start < 2 * MS && now_ns() < end {}
        });
    };
    let s = scene.clone();
    let middle = move || {
        s.middle_goes.park_until(Deadline::NONE);
        spin_until(&s.high_had_lock, BUSY)
    };

    let s = scene.clone();
    let director = thread("director", 40).spawn(move || {
        let middle = thread("middle", 20).spawn(middle).unwrap();
        let (low, high) = if through_condition {
            let high = thread("high", 30).spawn(high).unwrap();
            sleep_until_set(&s.high_wants_lock);
            let low = thread("low", 10).spawn(low).unwrap();
            sleep_until_set(&s.low_has_lock);
            (low, high)
        } else {
            let low = thread("low", 10).spawn(low).unwrap();
            sleep_until_set(&s.low_has_lock);
            let high = thread("high", 30).spawn(high).unwrap();
            sleep_until_set(&s.high_wants_lock);
            (low, high)
        };
        // The high thread goes from its flag to the kernel's queue without a pause, being above the
        // other two.
        sleep_until(Deadline::after(Duration::from_millis(2)));
        s.low_may_finish.store(true, SeqCst);
        s.middle_goes.unpark();
        let overtook = middle.join().unwrap();
        low.join().unwrap();
        high.join().unwrap();
        overtook
    });
    director.unwrap().join().unwrap()
}

/// Keeps the processor until `flag` is set or `at_most` nanoseconds have passed; says whether it
/// was set.
fn spin_until(flag: &AtomicBool, at_most: u64) -> bool {
    let end = now_ns() + at_most;
    while !flag.load(SeqCst) && now_ns() < end {}
    flag.load(SeqCst)
}

fn sleep_until_set(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        sleep_until(Deadline::after(Duration::from_millis(1)));
    }
}

#[test]
fn a_waiter_lends_its_priority() {
    // Whatever goes wrong, the process ends, real-time threads and all.
    // SAFETY: alarm has no preconditions.
    unsafe { libc::alarm(60) };
    if ThreadSpec::new("probe").class(SchedClass::Fifo(40)).spawn(|| ()).is_err() {
        println!("skipped: no right to real-time scheduling here");
        return;
    }
    let cpu = current_cpus().unwrap().iter().last().unwrap();
    for through_condition in [false, true] {
        assert!(
            high_overtook::<Pi>(cpu, through_condition),
            "inheritance, through_condition: {through_condition}"
        );
        assert!(!high_overtook::<Std>(cpu, through_condition), "std, through_condition: {through_condition}");
    }
}
