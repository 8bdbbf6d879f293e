//! The inversion: a low thread holds the lock, a high one wants it, and one in between wants the
//! processor.
//!
//! ```text
//!   low   lock, wake high      wake hog ·········work, unlock
//!   high                 wants it ···························has it     without inheritance: the hog's work, and then low's
//!   hog                                 work·
//! ```

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;

use crate::experiments::{BenchError, Context};
use crate::load::work;
use crate::workload::calibrate_work;

/// How long the low thread holds the lock, in milliseconds.
pub const HELD_MS: f64 = 2.0;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(5);

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

/// Loops of work: while the lock is held, and in a millisecond.
#[derive(Clone, Copy, Debug)]
pub struct WorkAmount {
    held: i32,
    unit: f64,
}

impl WorkAmount {
    /// On the processor that contenders share.
    pub fn calibrate(cx: &Context<'_>) -> Result<WorkAmount, BenchError> {
        let unit = calibrate_work(cx)?;
        Ok(WorkAmount { held: (HELD_MS * unit).round() as i32, unit })
    }
}

/// How long the high thread waits for the lock while the one in between has `hog_ms` of work, so
/// many times.
pub fn waits<L: Lock>(
    cx: &Context<'_>,
    amount: WorkAmount,
    hog_ms: u32,
    times: u32,
) -> Result<Vec<u64>, BenchError> {
    let hog = (f64::from(hog_ms) * amount.unit).round() as i32;
    let one = |_| {
        // The kernel stops real-time threads that leave nothing to others.
        std::thread::sleep(PAUSE);
        once::<L>(cx, amount, hog)
    };
    (0..times).map(one).collect()
}

fn once<L: Lock>(cx: &Context<'_>, amount: WorkAmount, hog: i32) -> Result<u64, BenchError> {
    let lock = Arc::new(L::default());
    let top = cx.fifo.unwrap_or(3);
    let spawn = |below: u8, f: Box<dyn FnOnce() -> u64 + Send>| {
        let class = SchedClass::Fifo(top.saturating_sub(below).max(1));
        let spec = ThreadSpec::new("inversion").class(class).cpus(Cpus::one(cx.cpu()));
        spec.spawn(f).map_err(BenchError::Thread)
    };
    // A woken thread is more urgent than the low one and runs first: no clock decides on the order.
    let (wake_high, high_wakes) = sync_channel::<()>(1);
    let (wake_hog, hog_wakes) = sync_channel::<()>(1);
    let for_high = lock.clone();
    let high = spawn(
        0,
        Box::new(move || {
            let _ = high_wakes.recv();
            let begun = now_ns();
            let mut has = begun;
            for_high.with(|| has = now_ns());
            has - begun
        }),
    )?;
    let hog = spawn(
        1,
        Box::new(move || {
            let _ = hog_wakes.recv();
            work(hog);
            0
        }),
    )?;
    let low = spawn(
        2,
        Box::new(move || {
            lock.with(|| {
                let _ = wake_high.send(());
                let _ = wake_hog.send(());
                work(amount.held);
            });
            0
        }),
    )?;
    let waited = high.join();
    for other in [low, hog] {
        // Neither can panic.
        let _ = other.join();
    }
    Ok(waited.unwrap_or_default())
}
