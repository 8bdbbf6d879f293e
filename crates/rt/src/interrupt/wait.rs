//! The handshake between who waits and who interrupts.

use super::Signal;
use crate::sync::PiMutex;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::futex::thread_id;

/// Nobody waits.
const AWAKE: u64 = 0;
/// Somebody waits, and is being sent the signal.
const INTERRUPTING: u64 = 1;
/// In the time of who waits: was sent the signal. Times are even.
const SIGNALLED: u64 = 1;

/// Where one thread at a time says that it waits in a system call, and until when.
#[derive(Debug)]
pub struct InterruptibleWait {
    until: AtomicU64,
    /// Who waits; only meant while somebody does.
    thread: AtomicU32,
}

/// Interrupts waits.
#[derive(Debug)]
pub struct Interrupter {
    signal: Signal,
    /// Held while a signal is sent.
    at_work: PiMutex<()>,
}

/// Whether signals reach a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// They do.
    Open,
    /// One is there, and waits for the thread to run.
    Pending,
    /// They do not: the thread blocks the signal, or the process has it ignored, or the system does not say.
    Shut,
}

impl InterruptibleWait {
    /// Nobody waits.
    pub fn new() -> InterruptibleWait {
        InterruptibleWait { until: AtomicU64::new(AWAKE), thread: AtomicU32::new(0) }
    }

    /// Says that this thread is about to wait, and until when it wants to be left alone, in nanoseconds on the monotonic clock; a full fence
    /// for what it stored before. Until [`end`](Self::end) it may make no other call that must not be interrupted.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one exchange, and system calls the first time in a thread.
    #[inline]
    pub fn begin(&self, interrupter: &Interrupter, until: u64) {
        interrupter.signal.unblock();
        self.announce(thread_id(), until);
    }

    #[inline]
    pub(super) fn announce(&self, thread: u32, until: u64) {
        self.thread.store(thread, Relaxed);
        self.until.swap((until & !SIGNALLED).max(INTERRUPTING + 1), SeqCst);
    }

    /// Says that this thread waits no more. After it, no signal of the interrupter's is on its way to the thread.
    ///
    /// # Real-time
    /// Does not allocate; one exchange. Where it was interrupted, or is being: two system calls, of which one may wait for one of the
    /// interrupter, who has this thread's priority meanwhile.
    #[inline]
    pub fn end(&self, interrupter: &Interrupter) {
        if self.leave() {
            interrupter.settle(|| interrupter.signal.receive());
        }
    }

    /// Takes the statement back; whether there is or was a signal.
    #[inline]
    pub(super) fn leave(&self) -> bool {
        self.until.swap(AWAKE, AcqRel) & SIGNALLED != 0
    }

    /// Until when somebody waits, to a nanosecond; `None` when nobody does.
    #[inline]
    pub fn until(&self) -> Option<u64> {
        match self.until.load(Relaxed) {
            AWAKE => None,
            until => Some(until & !SIGNALLED),
        }
    }
}

impl Default for InterruptibleWait {
    fn default() -> Self {
        InterruptibleWait::new()
    }
}

impl Interrupter {
    /// One that sends that signal.
    pub fn new(signal: Signal) -> Interrupter {
        Interrupter { signal, at_work: PiMutex::new(()) }
    }

    /// What it sends.
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Sends the signal to who waits there; whether somebody did. That the wait has ended by it is not said: the thread may have been about to
    /// begin, or have the signal blocked. One thread at a time calls this.
    ///
    /// # Real-time
    /// Does not allocate; a system call, and at most two more for the lock.
    pub fn interrupt(&self, wait: &InterruptibleWait) -> bool {
        self.interrupt_by(wait, |thread| {
            self.signal.send(thread);
        })
    }

    /// What becomes of signals to who waits there. To be asked when some had no effect.
    ///
    /// # Real-time
    /// Allocates, and reads a file of `/proc`.
    pub fn reach(&self, wait: &InterruptibleWait) -> Reach {
        let thread = wait.thread.load(Relaxed);
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
        let bit = 1u64 << (self.signal.number() - 1);
        let has = |set| {
            let of = status.lines().find_map(|line| line.strip_prefix(set))?;
            Some(u64::from_str_radix(of.trim(), 16).ok()? & bit != 0)
        };
        match (has("SigBlk:"), has("SigIgn:"), has("SigPnd:")) {
            (Some(false), Some(false), Some(true)) => Reach::Pending,
            (Some(false), Some(false), _) => Reach::Open,
            _ => Reach::Shut,
        }
    }

    pub(super) fn interrupt_by(&self, wait: &InterruptibleWait, send: impl FnOnce(u32)) -> bool {
        let seen = wait.until.load(Relaxed);
        if seen == AWAKE {
            return false;
        }
        // First, so that who finds itself being interrupted finds the lock held, or all done.
        let at_work = self.at_work.lock();
        if wait.until.compare_exchange(seen, INTERRUPTING, Acquire, Relaxed).is_err() {
            return false;
        }
        send(wait.thread.load(Relaxed));
        // Fails where the thread has left meanwhile; it waits for the lock.
        let _ = wait.until.compare_exchange(INTERRUPTING, seen | SIGNALLED, Release, Relaxed);
        drop(at_work);
        true
    }

    /// Waits until nobody sends, and receives what was sent.
    #[cold]
    pub(super) fn settle(&self, receive: impl FnOnce()) {
        drop(self.at_work.lock());
        receive();
    }
}
