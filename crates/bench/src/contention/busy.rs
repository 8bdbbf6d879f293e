//! Other programs that want the processor as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isorb_rt::sched::{Cpus, SchedClass, Thread, ThreadSpec};

use crate::experiments::{BenchError, Context};
use crate::load::work;

/// Threads of the ordinary class that keep the processor busy which contenders share, until this is dropped.
pub struct Busy {
    end: Arc<AtomicBool>,
    threads: Vec<Thread<()>>,
}

impl Busy {
    /// So many of them.
    pub fn start(cx: &Context<'_>, threads: u32) -> Result<Busy, BenchError> {
        let mut busy = Busy { end: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for _ in 0..threads {
            let end = busy.end.clone();
            let spec = ThreadSpec::new("busy").class(SchedClass::Other).cpus(Cpus::one(cx.cpu()));
            let thread = spec.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    work(100);
                }
            });
            busy.threads.push(thread.map_err(BenchError::Thread)?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // There is nothing in it that could panic.
            let _ = thread.join();
        }
    }
}
