//! The scene of a priority inversion: less urgent threads have what an urgent one wants, and a
//! thread in between computes.
//!
//! ```text
//!   low     has it ───────────── would give it up ······················ gives it up
//!   middle         computes ────────────────────────────────────────────┤
//!   urgent           wants it ··········································· has it       without inheritance
//!   urgent           wants it ────────────────── has it                                with it
//! ```

use std::sync::{Arc, Mutex};
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::{BenchError, Context};
use crate::load::work;

/// Native priorities.
pub const LOW: u8 = 10;
pub const MIDDLE: u8 = 20;
pub const URGENT: u8 = 30;

/// A lock.
pub trait Lock: Default + Send + Sync + 'static {
    /// Calls `f` with the lock held.
    fn with(&self, f: impl FnOnce());
}

impl Lock for PiMutex<()> {
    fn with(&self, f: impl FnOnce()) {
        let _held = self.lock();
        f();
    }
}

impl Lock for Mutex<()> {
    fn with(&self, f: impl FnOnce()) {
        // No thread panics while it holds the lock.
        let _held = self.lock();
        f();
    }
}

/// What a thread of a scene does at its priority.
pub type Call = Arc<dyn Fn(u8) -> Result<(), BenchError> + Send + Sync>;

/// A thread has the lock until so long after it wanted it, as if it waited for a reply.
pub fn with_lock<L: Lock>(held: Duration) -> Call {
    let lock = L::default();
    Arc::new(move |_| {
        let reply = Deadline::after(held);
        lock.with(|| sleep_until(reply));
        Ok(())
    })
}

/// All threads share a processor.
#[derive(Clone, Copy)]
pub struct Scene {
    /// Less urgent threads.
    pub lows: u32,
    /// How long a thread has what it wants. The others come in while the first has it.
    pub served: Duration,
    /// Before the scene.
    pub pause: Duration,
}

impl Scene {
    /// How long the urgent call takes, in nanoseconds. Without work in between it is a rehearsal.
    pub fn play(self, cx: &Context<'_>, computing: i32, call: Call) -> Result<u64, BenchError> {
        std::thread::sleep(self.pause);
        let start = now_ns() + 20_000_000;
        let spawn = |native: u8, after: Duration, f: Box<dyn FnOnce() -> Result<(), BenchError> + Send>| {
            let spec = ThreadSpec::new("inversion").class(SchedClass::Fifo(native)).cpus(Cpus::one(cx.cpu()));
            spec.spawn(move || {
                sleep_until(Deadline::at_ns(start + after.as_nanos() as u64));
                let begun = now_ns();
                f().map(|()| now_ns() - begun)
            })
        };
        let calls = |native| {
            let call = call.clone();
            Box::new(move || call(native))
        };
        let lows = (0..self.lows).map(|_| spawn(LOW, Duration::ZERO, calls(LOW)));
        let mut others = lows.collect::<Result<Vec<_>, _>>()?;
        let compute = move || {
            work(computing);
            Ok(())
        };
        others.push(spawn(MIDDLE, self.served / 10, Box::new(compute))?);
        let urgent = joined(spawn(URGENT, self.served / 5, calls(URGENT))?);
        others.into_iter().try_for_each(|other| joined(other).map(drop))?;
        urgent
    }
}

fn joined(thread: Thread<Result<u64, BenchError>>) -> Result<u64, BenchError> {
    let panicked = || BenchError::Io(std::io::Error::other("a thread of a scene panicked"));
    thread.join().map_err(|_| panicked())?
}
