//! The priority ceiling at work: on one processor, a low thread has the lock and wakes a middling
//! and a high one.
//!
//! The test asserts an order of events, not a time. With the ceiling the middle thread is last,
//! whichever is woken first. With inheritance alone it is last only if the high thread waits for
//! the lock already, and with std's lock never.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, current_cpus};
use isorb_rt::sync::{CeilingMutex, Parker, PiMutex};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};

const MS: u64 = 1_000_000;
const LOW: u8 = 10;
const MIDDLE: u8 = 20;
const HIGH: u8 = 30;

/// A lock of some kind.
trait Lock: Send + Sync + 'static {
    fn new() -> Self;
    fn with(&self, f: impl FnOnce());
}

impl Lock for CeilingMutex<()> {
    fn new() -> Self {
        CeilingMutex::new(HIGH, ()).unwrap()
    }
    fn with(&self, f: impl FnOnce()) {
        let _held = self.lock().unwrap();
        f();
    }
}

impl Lock for PiMutex<()> {
    fn new() -> Self {
        PiMutex::new(())
    }
    fn with(&self, f: impl FnOnce()) {
        let _held = self.lock();
        f();
    }
}

impl Lock for Mutex<()> {
    fn new() -> Self {
        Mutex::new(())
    }
    fn with(&self, f: impl FnOnce()) {
        let _held = self.lock().unwrap();
        f();
    }
}

#[derive(Default)]
struct Actor {
    ready: AtomicBool,
    goes: Parker,
}

impl Actor {
    fn wait(&self) {
        self.ready.store(true, SeqCst);
        self.goes.park_until(Deadline::NONE);
    }
}

#[derive(Default)]
struct Scene {
    middle: Actor,
    high: Actor,
    /// The threads in the order in which they were done. No thread waits for this lock: its holder
    /// is the most urgent that runs.
    done: PiMutex<Vec<&'static str>>,
}

/// The threads that are done first, second and last.
fn order<L: Lock>(cpu: usize, high_is_woken_first: bool) -> Vec<&'static str> {
    let (scene, lock) = (Arc::new(Scene::default()), Arc::new(L::new()));
    let thread = |name: &str, priority| {
        ThreadSpec::new(name).class(SchedClass::Fifo(priority)).cpus(Cpus::one(cpu)).stack_size(256 * 1024)
    };
    let s = scene.clone();
    let middle = thread("middle", MIDDLE).spawn(move || {
        s.middle.wait();
        s.done.lock().push("middle");
    });
    let (s, l) = (scene.clone(), lock.clone());
    let high = thread("high", HIGH).spawn(move || {
        s.high.wait();
        l.with(|| s.done.lock().push("high"));
    });
    // Ready, they go on to wait without a pause as far as the low thread can see, which is below
    // both.
    for actor in [&scene.middle, &scene.high] {
        while !actor.ready.load(SeqCst) {
            sleep_until(Deadline::after(Duration::from_millis(1)));
        }
    }
    let s = scene.clone();
    let low = thread("low", LOW).spawn(move || {
        lock.with(|| {
            let woken = if high_is_woken_first { [&s.high, &s.middle] } else { [&s.middle, &s.high] };
            for actor in woken {
                actor.goes.unpark();
                work();
            }
            s.done.lock().push("low");
        });
    });
    for thread in [middle, high, low] {
        thread.unwrap().join().unwrap();
    }
    scene.done.lock().clone()
}

/// Some work under the lock.
fn work() {
    let start = thread_cpu_ns();
    let end = now_ns() + 2_000 * MS;
    while thread_cpu_ns() - start < 2 * MS && now_ns() < end {}
}

#[test]
fn a_thread_below_the_ceiling_does_not_come_between() {
    // Whatever goes wrong, the process ends, real-time threads and all.
    // SAFETY: alarm has no preconditions.
    unsafe { libc::alarm(60) };
    if ThreadSpec::new("probe").class(SchedClass::Fifo(HIGH)).spawn(|| ()).is_err() {
        println!("skipped: no right to real-time scheduling here");
        return;
    }
    let cpu = current_cpus().unwrap().iter().last().unwrap();
    let (held_back, between) = (["low", "high", "middle"], ["middle", "low", "high"]);
    for high_is_woken_first in [false, true] {
        assert_eq!(order::<CeilingMutex<()>>(cpu, high_is_woken_first), held_back, "{high_is_woken_first}");
        assert_eq!(order::<Mutex<()>>(cpu, high_is_woken_first), between, "std, {high_is_woken_first}");
    }
    assert_eq!(order::<PiMutex<()>>(cpu, true), held_back, "inheritance, the high one waits");
    assert_eq!(order::<PiMutex<()>>(cpu, false), between, "inheritance, no thread waits yet");
}
