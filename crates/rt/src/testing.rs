//! Shared by this crate's tests.

use std::thread;

use crate::sched::{SchedClass, ThreadId};

/// Runs `f` on a new thread, so that changes to the thread do not outlive the test.
pub(crate) fn in_thread<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    match thread::spawn(f).join() {
        Ok(r) => r,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Whether a thread of this process sleeps in the kernel, as far as the kernel reports it.
pub(crate) fn sleeps(thread: ThreadId) -> bool {
    // After the name, which ends with the last bracket, comes the state.
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.get())).unwrap();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
}

/// Has this process the right to real-time scheduling? Says so on the test's output if not.
pub(crate) fn may_be_real_time() -> bool {
    let may = in_thread(|| SchedClass::Fifo(1).set_current().is_ok());
    if !may {
        println!("skipped: no right to real-time scheduling here");
    }
    may
}
