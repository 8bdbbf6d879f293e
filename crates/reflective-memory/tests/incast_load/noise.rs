//! How late ordinary threads woke up, second by second: what a busy machine does to every thread,
//! those of the servers as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread of the probe sleeps. A delay that is shorter says nothing about deadlines.
const STEP: Duration = Duration::from_millis(5);

/// Threads that sleep and note how late they wake up, until this is dropped.
pub struct Probe {
    start: Instant,
    /// The worst of each second, in nanoseconds.
    seconds: Arc<Vec<AtomicU64>>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Probe {
    /// For a run of so many seconds. Two threads a processor: where one of them runs in time,
    /// others may not.
    pub fn start(seconds: u64) -> Probe {
        let start = Instant::now();
        let seconds: Arc<Vec<AtomicU64>> = Arc::new((0..seconds + 60).map(|_| AtomicU64::new(0)).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        let threads = (0..count)
            .map(|_| {
                let (seconds, stop) = (seconds.clone(), stop.clone());
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Acquire) {
                        let before = start.elapsed();
                        std::thread::sleep(STEP);
                        let (now, late) = (start.elapsed(), start.elapsed().saturating_sub(before + STEP));
                        // A delay belongs to each second that it touched.
                        for second in before.as_secs()..=now.as_secs() {
                            if let Some(worst) = seconds.get(second as usize) {
                                worst.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
                            }
                        }
                    }
                })
            })
            .collect();
        Probe { start, seconds, stop, threads }
    }

    /// The worst delay from a time until now, whole seconds of both included.
    pub fn since(&self, from: Instant) -> Duration {
        let first = from.saturating_duration_since(self.start).as_secs() as usize;
        let last = self.start.elapsed().as_secs() as usize;
        let range = first.min(self.seconds.len())..(last + 1).min(self.seconds.len());
        let worst = self.seconds[range].iter().map(|worst| worst.load(Ordering::Relaxed)).max();
        Duration::from_nanos(worst.unwrap_or(0))
    }

    /// In how many of the first `seconds` a thread was later than `limit`, and the worst delay.
    pub fn noisy(&self, seconds: u64, limit: Duration) -> (u64, Duration) {
        let all = self.seconds.iter().take(seconds as usize).map(|worst| worst.load(Ordering::Relaxed));
        let noisy = all.clone().filter(|worst| Duration::from_nanos(*worst) > limit).count();
        (noisy as u64, Duration::from_nanos(all.max().unwrap_or(0)))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
