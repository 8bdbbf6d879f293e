//! The counters of each process: its log records, and the panics of its threads.

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct ProcessCounts {
    /// Log records that standard error did not take in time.
    log_dropped: u64,
    /// Log records above the limit of their call site.
    log_suppressed: u64,
    /// Panics on threads of the ORB and of services, those of servants included.
    panics: u64,
    threads_replaced: u64,
    /// Threads that ended by a panic.
    threads_ended: u64,
}

impl ProcessCounts {
    pub fn now() -> ProcessCounts {
        let (log, threads) = (isorb_rt::log::counts(), isorb_rt::sched::panic_counts());
        ProcessCounts {
            log_dropped: log.dropped,
            log_suppressed: log.suppressed,
            panics: threads.panics,
            threads_replaced: threads.replaced,
            threads_ended: threads.ended,
        }
    }
}
