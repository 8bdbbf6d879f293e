//! Priority inheritance at work: on one processor, a low thread has the lock, a high one wants it,
//! and a middling one keeps the processor busy.
//!
//! What is asserted is an order of events, not a time: did the high thread get its lock while the
//! middling one was still busy? With inheritance it must, without it cannot; the same scene with
//! std's lock is the control: it must fail.
#![cfg(not(loom))]

mod older_kernel;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, current_cpus};
use isorb_rt::sync::{LockError, Parker, PiCondvar, PiLatch, PiMutex, PiOnceLock, Waiters};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};
use older_kernel::lose_lock_pi2;

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

/// A lock that one thread holds to work for all: the low thread has slot 0, the high one slot 1.
struct Shared(PiMutex<bool>, Waiters);

impl Shared {
    fn leave(&self, guard: isorb_rt::sync::PiGuard<'_, bool>) {
        drop(guard);
        self.1.hand_over();
    }
}

impl Lock for Shared {
    fn new() -> Self {
        Shared(PiMutex::new(false), Waiters::new(2))
    }
    fn with(&self, _: bool, f: impl FnOnce()) {
        if let Ok(guard) = self.0.try_lock() {
            f();
            return self.leave(guard);
        }
        loop {
            let announced = self.1.announce(1);
            if let Ok(guard) = self.0.try_lock() {
                drop(announced);
                return self.leave(guard);
            }
            assert!(announced.park(&self.0, Deadline::NONE));
        }
    }
    fn wait(&self, _: impl FnOnce()) {
        unreachable!("it is no condition");
    }
}

/// A value that the low thread makes and the high one needs.
struct Once(PiOnceLock<()>);

impl Lock for Once {
    fn new() -> Self {
        Once(PiOnceLock::new())
    }
    fn with(&self, _: bool, f: impl FnOnce()) {
        self.0.get_or_init(f);
    }
    fn wait(&self, _: impl FnOnce()) {
        unreachable!("it is no condition");
    }
}

/// What the low thread does, and the high one waits for.
struct Latch(OnceLock<PiLatch>);

impl Lock for Latch {
    fn new() -> Self {
        Latch(OnceLock::new())
    }
    fn with(&self, _: bool, f: impl FnOnce()) {
        match self.0.get() {
            Some(latch) => drop(latch.wait_until(Deadline::NONE)),
            None => {
                let latch = self.0.get_or_init(PiLatch::new);
                f();
                latch.open();
            }
        }
    }
    fn wait(&self, _: impl FnOnce()) {
        unreachable!("it is no condition");
    }
}

/// A lock with a deadline, on threads for which the kernel has only the first form of the call.
struct Older(PiMutex<()>);

impl Lock for Older {
    fn new() -> Self {
        Older(PiMutex::new(()))
    }
    fn with(&self, _: bool, f: impl FnOnce()) {
        lose_lock_pi2();
        let _guard = self.0.lock_until(Deadline::after(Duration::from_secs(60))).unwrap();
        f();
    }
    fn wait(&self, _: impl FnOnce()) {
        unreachable!("it is no condition");
    }
}

#[test]
fn a_kernel_before_5_14_has_locks_with_a_deadline() {
    let (held, latch) = (Arc::new(PiMutex::new(7)), Arc::new(PiLatch::new()));
    let guard = held.lock();
    let (lock, closed) = (held.clone(), latch.clone());
    let is_waiting = Arc::new(AtomicBool::new(false));
    let waiting = is_waiting.clone();
    let waiter = std::thread::spawn(move || {
        if !lose_lock_pi2() {
            println!("skipped: no filter for system calls here");
            return;
        }
        let at = now_ns() + 20 * MS;
        assert_eq!(lock.lock_until(Deadline::at_ns(at)).unwrap_err(), LockError::TimedOut);
        assert!(now_ns() >= at);
        assert_eq!(lock.lock_until(Deadline::PAST).unwrap_err(), LockError::TimedOut);
        let at = now_ns() + 20 * MS;
        assert!(!closed.wait_until(Deadline::at_ns(at)) && now_ns() >= at);
        waiting.store(true, SeqCst);
        // The point by the clock of the day of the last moment that the monotonic clock can say.
        assert_eq!(*lock.lock_until(Deadline::at_ns(u64::MAX - 1)).unwrap(), 7);
    });
    while !is_waiting.load(SeqCst) && !waiter.is_finished() {
        sleep_until(Deadline::after(Duration::from_millis(1)));
    }
    // Whether it sleeps by now or not, it gets the lock.
    sleep_until(Deadline::after(Duration::from_millis(5)));
    drop(guard);
    waiter.join().unwrap();
    latch.open();
}

#[test]
fn a_loan_ends_at_the_deadline_and_when_the_holder_leaves() {
    if ThreadSpec::new("probe").class(SchedClass::Fifo(40)).spawn(|| ()).is_err() {
        println!("skipped: no right to real-time scheduling here");
        return;
    }
    let shared = Arc::new(Shared::new());
    let held = shared.0.lock();
    let other = shared.clone();
    let waiter = ThreadSpec::new("waiter").class(SchedClass::Fifo(1)).spawn(move || {
        let announced = other.1.announce(1);
        let at = now_ns() + 5 * MS;
        assert!(!announced.park(&other.0, Deadline::at_ns(at)) && now_ns() >= at);
        // The loan of a thread that has left in time is gone, so the next is one of its own.
        announced.park(&other.0, Deadline::NONE)
    });
    let waiter = waiter.unwrap();
    while !shared.1.has_loans() {
        std::thread::yield_now();
    }
    sleep_until(Deadline::after(Duration::from_millis(20)));
    assert!(!waiter.is_finished(), "it lends again, as long as this thread holds the lock");
    shared.1.wake(1);
    assert!(waiter.join().unwrap());
    shared.leave(held);
    assert!(!shared.1.has_loans());
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
    assert!(high_overtook::<Shared>(cpu, false), "a waiter of a thread that works for all");
    assert!(high_overtook::<Latch>(cpu, false), "a latch");
    assert!(high_overtook::<Once>(cpu, false), "a value that is made on first use");
    for through_condition in [false, true] {
        assert!(
            high_overtook::<Pi>(cpu, through_condition),
            "inheritance, through_condition: {through_condition}"
        );
        assert!(!high_overtook::<Std>(cpu, through_condition), "std, through_condition: {through_condition}");
    }
    assert!(high_overtook::<Older>(cpu, false), "a lock with a deadline on a kernel before 5.14");
}
