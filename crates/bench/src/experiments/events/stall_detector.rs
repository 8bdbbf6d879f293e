//! Detects that the processor was taken away from the thread with the top priority during a run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};
use isorb_rt::time::{Deadline, now_ns, sleep_until};

use super::super::{BenchError, Context};

/// Above all that is measured.
const PRIORITY: u8 = 80;
/// How often it looks, and at how much of the past.
const PERIOD: u64 = 2_000_000;
const WINDOW: u64 = 100_000_000;
/// The normal latency of a wake-up.
const FREE: u64 = 50_000;

/// A periodic thread above all others. It is late when the host or the kernel runs something else.
pub struct StallDetector {
    stop: Arc<AtomicBool>,
    thread: Thread<u64>,
}

impl StallDetector {
    /// On the processor that contenders share; `None` where real-time scheduling is not to be had.
    pub fn start(cx: &Context<'_>) -> Result<Option<StallDetector>, BenchError> {
        if cx.fifo.is_none() {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let spec = ThreadSpec::new("watch").class(SchedClass::Fifo(PRIORITY)).cpus(Cpus::one(cx.cpu()));
        let thread = spec.spawn(move || {
            let mut taken = Taken::default();
            let mut at = now_ns() + PERIOD;
            while !stopped.load(Relaxed) {
                sleep_until(Deadline::at_ns(at));
                let now = now_ns();
                taken.saw(at, now);
                at = now + PERIOD;
            }
            taken.worst
        });
        Ok(Some(StallDetector { stop, thread: thread.map_err(BenchError::Thread)? }))
    }

    /// The most that was taken away within a tenth of a second, in nanoseconds.
    pub fn end(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or(0)
    }
}

/// What was taken away within the last tenth of a second, and the most that it was.
#[derive(Default)]
struct Taken {
    seen: VecDeque<(u64, u64)>,
    within: u64,
    worst: u64,
}

impl Taken {
    fn saw(&mut self, due: u64, now: u64) {
        let late = now.saturating_sub(due);
        if late > FREE {
            self.seen.push_back((now, late));
            self.within += late;
        }
        while let Some(&(at, late)) = self.seen.front().filter(|(at, _)| at + WINDOW < now) {
            debug_assert!(at <= now);
            self.seen.pop_front();
            self.within -= late;
        }
        self.worst = self.worst.max(self.within);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_within_a_tenth_of_a_second_adds_up() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut taken = Taken::default();
        for (due, now) in [(10, 10), (20, 22), (50, 53), (140, 141), (300, 304)] {
            taken.saw(ms(due), ms(now));
        }
        taken.saw(ms(310), ms(310) + FREE);
        // 2 and 3 of the first tenth; 3 and 1 later; 4 alone.
        assert_eq!((taken.worst, taken.within), (ms(5), ms(4)));
    }
}
