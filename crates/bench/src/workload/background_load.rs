//! Other programs that want the processor as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};

use crate::experiments::{BenchError, Context};
use crate::load::work;

/// Threads of the ordinary class that keep the processor background which contenders share, until
/// this is dropped.
pub struct BackgroundLoad {
    end: Arc<AtomicBool>,
    threads: Vec<Thread<()>>,
}

impl BackgroundLoad {
    /// So many of them.
    pub fn start(cx: &Context<'_>, threads: u32) -> Result<BackgroundLoad, BenchError> {
        let mut background = BackgroundLoad { end: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for _ in 0..threads {
            let end = background.end.clone();
            let spec = ThreadSpec::new("background").class(SchedClass::Other).cpus(Cpus::one(cx.cpu()));
            let thread = spec.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    work(100);
                }
            });
            background.threads.push(thread.map_err(BenchError::Thread)?);
        }
        Ok(background)
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // There is nothing in it that could panic.
            let _ = thread.join();
        }
    }
}
