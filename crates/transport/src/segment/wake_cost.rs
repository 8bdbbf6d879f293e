//! What it costs on this machine that a sleeping thread is woken from another processor.
//!
//! The first use of segments starts the measurement on ordinary threads of its own, so that no call
//! waits for it. Until it is done, [`ASSUMED_NS`] holds.

use isorb_rt::sched::{Cpus, ThreadSpec, current_cpus, set_current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Before it is measured.
const ASSUMED_NS: u64 = 50_000;
/// The bounds of what is believed: a busy machine delays some wake-ups by milliseconds.
const RANGE_NS: (u64, u64) = (10_000, 100_000);
/// Wake-ups that are measured.
const ROUNDS: usize = 21;
/// So long the sleeper sleeps before it is woken: an idle processor takes longer to wake up.
const PAUSE: Duration = Duration::from_micros(200);
const STACK: usize = 64 << 10;

static COST_NS: AtomicU64 = AtomicU64::new(ASSUMED_NS);

/// The cost in nanoseconds, 10,000 to 100,000.
///
/// # Real-time
/// One load.
#[inline]
pub(super) fn wake_cost_ns() -> u64 {
    COST_NS.load(Relaxed)
}

/// Starts the measurement, once in a process. On one processor nothing spins, so there is nothing
/// to measure.
pub(super) fn measure_once() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.load(Relaxed) || STARTED.swap(true, Relaxed) {
        return;
    }
    let Ok(cpus) = current_cpus() else { return };
    let mut cpus = cpus.iter();
    let (Some(one), Some(other)) = (cpus.next(), cpus.next()) else { return };
    let spec = ThreadSpec::new("isorb-wake-cost").stack_size(STACK);
    // Without a thread for it the assumption stays.
    let _ = spec.cpus(Cpus::one(one)).spawn(move || measure(other));
}

/// Wakes a thread on the processor `other` again and again, and keeps the upper quartile.
fn measure(other: usize) {
    let woken = Arc::new(Wake { sent: AtomicU64::new(0), took: AtomicU64::new(0) });
    let sleeper = woken.clone();
    let sleeper = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let _ = set_current_cpus(&Cpus::one(other));
        (0..ROUNDS).for_each(|_| sleeper.sleep());
    });
    let Ok(sleeper) = sleeper else { return };
    let mut costs = [0; ROUNDS];
    for cost in &mut costs {
        sleep_until(Deadline::after(PAUSE));
        woken.sent.store(now_ns(), Release);
        sleeper.thread().unpark();
        while woken.took.load(Acquire) == 0 {
            sleep_until(Deadline::after(PAUSE));
        }
        *cost = woken.took.swap(0, Relaxed);
    }
    let _ = sleeper.join();
    costs.sort_unstable();
    COST_NS.store(believed(costs[ROUNDS * 3 / 4]), Relaxed);
}

fn believed(measured: u64) -> u64 {
    measured.clamp(RANGE_NS.0, RANGE_NS.1)
}

/// One wake-up at a time.
struct Wake {
    /// When it was sent; 0 for none.
    sent: AtomicU64,
    /// How long it took; 0 while it is under way.
    took: AtomicU64,
}

impl Wake {
    fn sleep(&self) {
        let sent = loop {
            match self.sent.swap(0, Acquire) {
                0 => std::thread::park(),
                sent => break sent,
            }
        };
        self.took.store(now_ns().saturating_sub(sent).max(1), Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_believed_within_bounds() {
        assert_eq!([1, 30_000, 4_000_000].map(believed), [10_000, 30_000, 100_000]);
        assert!((RANGE_NS.0..=RANGE_NS.1).contains(&ASSUMED_NS));
    }

    #[test]
    fn each_wake_up_is_measured_once() {
        let processor = current_cpus().unwrap().iter().last().unwrap();
        measure(processor);
        assert!((RANGE_NS.0..=RANGE_NS.1).contains(&wake_cost_ns()));
    }
}
