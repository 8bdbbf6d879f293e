//! Shared by this crate's tests.

use std::thread;

use crate::sched::SchedClass;

/// Runs `f` on a thread of its own, so that what it does to itself does not outlive the test.
pub(crate) fn in_thread<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    match thread::spawn(f).join() {
        Ok(r) => r,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Has this process the right to real-time scheduling? Says so on the test's output if not.
pub(crate) fn may_be_real_time() -> bool {
    let may = in_thread(|| SchedClass::Fifo(1).set_current().is_ok());
    if !may {
        println!("skipped: no right to real-time scheduling here");
    }
    may
}
