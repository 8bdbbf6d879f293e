//! Threads that start with their class and processors, or not at all.

use core::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use rustix::io::Errno;

use super::affinity::{Cpus, set_current_cpus};
use super::class::{SchedClass, SchedError};
use super::memory::prefault_stack;
use super::supervision::{LOG, reported, supervise};
use crate::log;
use crate::sync::futex::thread_id;
use crate::sync::{Parker, PiMutex};
use crate::time::Deadline;

/// A thread to be started: its class, processors and memory.
///
/// ```
/// use isorb_rt::sched::{SchedClass, ThreadSpec};
///
/// let lane = ThreadSpec::new("lane-0").class(SchedClass::Other).prefault(64 * 1024).spawn(|| 6 * 7)?;
/// assert_eq!(lane.join().unwrap(), 42);
/// # Ok::<(), isorb_rt::sched::SpawnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThreadSpec {
    name: String,
    class: SchedClass,
    cpus: Option<Cpus>,
    stack_size: usize,
    prefault: usize,
}

/// Why a thread did not start. Its function was not called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The system has no thread or no stack left, or the name contains a zero byte (`INVAL`).
    Create(Errno),
    /// The processors were refused.
    Cpus(SchedError),
    /// The class was refused.
    Class(SchedClass, SchedError),
}

impl ThreadSpec {
    /// A thread of class `Other` on whatever processors its creator has, with 2 MiB of stack. Tools
    /// show the first 15 bytes of the name.
    pub fn new(name: impl Into<String>) -> Self {
        ThreadSpec {
            name: name.into(),
            class: SchedClass::Other,
            cpus: None,
            stack_size: 2 * 1024 * 1024,
            prefault: 0,
        }
    }

    /// A thread of the caller's class, as the standard library starts one.
    pub fn inheriting(name: impl Into<String>) -> Self {
        ThreadSpec::new(name).class(SchedClass::current().unwrap_or_default())
    }

    /// Its scheduling class. It does not depend on the creator's: an `Other` thread of a real-time
    /// creator is ordinary.
    #[must_use]
    pub fn class(mut self, class: SchedClass) -> Self {
        self.class = class;
        self
    }

    /// The processors that it may run on.
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Its stack in bytes; the system rounds up, and has a minimum.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// How much of the stack is touched before the function is called (see [`prefault_stack`]).
    #[must_use]
    pub fn prefault(mut self, bytes: usize) -> Self {
        self.prefault = bytes;
        self
    }

    /// Starts the thread, waits until it has its class, processors and stack, and lets it call `f`.
    /// If `f` panics, the thread ends with a log record.
    ///
    /// # Errors
    /// [`SpawnError`]; the thread has ended then, and `f` was dropped without being called.
    ///
    /// # Real-time
    /// Allocates and blocks. For start-up.
    pub fn spawn<R: Send + 'static>(
        self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Thread<R>, SpawnError> {
        let report = Arc::new(Report::default());
        let reporter = Reporter(report.clone());
        let builder = self.builder()?;
        let body = move || {
            let outcome = self.apply_to_current().map(|()| thread_id());
            let is_set_up = outcome.is_ok();
            reporter.send(outcome);
            drop(reporter);
            is_set_up.then(|| reported(f))
        };
        let handle = builder.spawn(body).map_err(|e| SpawnError::Create(errno(&e)))?;
        match report.wait() {
            Ok(id) => Ok(Thread { handle, id }),
            Err(error) => {
                // The thread is ending, and has not panicked.
                let _ = handle.join();
                Err(error)
            }
        }
    }

    /// As [`spawn`](Self::spawn), but does not wait for the new thread to be scheduled. If it is
    /// refused its class or its processors, it drops `f` and ends with a log record.
    ///
    /// # Errors
    /// [`SpawnError::Create`].
    ///
    /// # Real-time
    /// Allocates, and makes system calls. Does not wait.
    pub fn start(self, f: impl FnOnce() + Send + 'static) -> Result<(), SpawnError> {
        let builder = self.builder()?;
        let body = move || match self.apply_to_current() {
            Ok(()) => reported(f),
            Err(error) => log::error(LOG, format_args!("the thread {} has ended: {error}", self.name)),
        };
        builder.spawn(body).map(drop).map_err(|e| SpawnError::Create(errno(&e)))
    }

    fn builder(&self) -> Result<Builder, SpawnError> {
        if self.name.contains('\0') {
            return Err(SpawnError::Create(Errno::INVAL));
        }
        Ok(Builder::new().name(self.name.clone()).stack_size(self.stack_size))
    }

    /// As [`spawn`](Self::spawn), for a thread that its program needs. If `f` panics, the thread is
    /// replaced: it calls `f` again, with its class and processors ([`OnPanic`](super::OnPanic) has
    /// the exceptions).
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    ///
    /// # Real-time
    /// As [`spawn`](Self::spawn). A replacement allocates nothing; it costs the panic, two log
    /// records and two system calls.
    pub fn spawn_supervised(self, mut f: impl FnMut() + Send + 'static) -> Result<Thread<()>, SpawnError> {
        let spec = self.clone();
        let mut begun = false;
        let body = move || {
            if std::mem::replace(&mut begun, true) {
                // Restores the thread after the panic. A class that is refused now was granted
                // before.
                let _ = spec.apply_to_current();
            }
            f();
        };
        self.spawn(move || supervise(body))
    }

    fn apply_to_current(&self) -> Result<(), SpawnError> {
        // Processors first: a thread with a reservation may not be confined, which the error of the
        // class reports.
        if let Some(cpus) = &self.cpus {
            set_current_cpus(cpus).map_err(SpawnError::Cpus)?;
        }
        self.class.set_current().map_err(|e| SpawnError::Class(self.class, e))?;
        prefault_stack(self.prefault);
        Ok(())
    }
}

/// What a thread that starts says to the one that starts it. A channel of the standard library has
/// ten times as much code.
#[derive(Default)]
struct Report {
    outcome: PiMutex<Option<Result<u32, SpawnError>>>,
    sent: Parker,
}

impl Report {
    fn wait(&self) -> Result<u32, SpawnError> {
        loop {
            if let Some(outcome) = self.outcome.lock().take() {
                return outcome;
            }
            self.sent.park_until(Deadline::NONE);
        }
    }
}

/// The end of the thread that starts.
struct Reporter(Arc<Report>);

impl Reporter {
    fn send(&self, outcome: Result<u32, SpawnError>) {
        *self.0.outcome.lock() = Some(outcome);
        self.0.sent.unpark();
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // The thread unwinds before its report, which no code there does.
        if std::thread::panicking() {
            self.send(Err(SpawnError::Create(Errno::AGAIN)));
        }
    }
}

/// A thread that [`ThreadSpec::spawn`] started. Dropping this leaves it running.
#[derive(Debug)]
pub struct Thread<R> {
    handle: JoinHandle<Option<R>>,
    id: u32,
}

impl<R> Thread<R> {
    /// Waits for the function's result; the panic's payload if it panicked.
    ///
    /// # Errors
    /// The payload of the panic, as in the standard library.
    pub fn join(self) -> std::thread::Result<R> {
        // There is a result, since `spawn` returns no thread that could not be set up.
        self.handle.join().map(|result| result.expect("a thread that was handed out ran its function"))
    }

    /// Whether the function has returned.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// The system's id of the thread, as tools show it.
    pub fn native_id(&self) -> u32 {
        self.id
    }

    /// Its present class.
    ///
    /// # Errors
    /// [`SchedError::NoThread`] once it has ended.
    pub fn class(&self) -> Result<SchedClass, SchedError> {
        SchedClass::get(self.id as i32)
    }

    /// Changes its class from outside.
    ///
    /// # Errors
    /// [`SchedError`].
    pub fn set_class(&self, class: SchedClass) -> Result<(), SchedError> {
        class.set(self.id as i32)
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Create(e) => write!(f, "the system cannot create a thread: {e}"),
            SpawnError::Cpus(e) => write!(f, "a new thread was refused its processors: {e}"),
            SpawnError::Class(class, e) => write!(f, "a new thread was refused {class}: {e}"),
        }
    }
}

impl std::error::Error for SpawnError {}

fn errno(e: &io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::AGAIN)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::super::panic_counts;
    use super::*;
    use crate::sched::current_cpus;
    use crate::testing::{in_thread, may_be_real_time};

    #[test]
    fn a_supervised_thread_begins_again_as_it_was() {
        let before = panic_counts();
        let (report, seen) = mpsc::channel();
        let mut runs = 0;
        let body = move || {
            runs += 1;
            let name = std::thread::current().name().map(str::to_owned);
            report.send((runs, name, thread_id(), SchedClass::current().unwrap())).unwrap();
            assert!(runs > 1, "on purpose");
        };
        let thread = ThreadSpec::new("again").spawn_supervised(body).unwrap();
        let id = thread.native_id();
        thread.join().unwrap();
        let expected = |run| (run, Some("again".to_owned()), id, SchedClass::Other);
        assert_eq!(seen.iter().collect::<Vec<_>>(), [1, 2].map(expected));
        let after = panic_counts();
        assert!(after.panics > before.panics && after.replaced > before.replaced, "{after:?}");
    }

    #[test]
    fn a_thread_is_what_its_spec_says_when_its_function_starts() {
        let cpu = current_cpus().unwrap().iter().next().unwrap();
        let class = if may_be_real_time() { SchedClass::Fifo(5) } else { SchedClass::Other };
        let t = ThreadSpec::new("lane-7")
            .class(class)
            .cpus(Cpus::one(cpu))
            .stack_size(256 * 1024)
            .prefault(128 * 1024)
            .spawn(|| {
                let name = std::thread::current().name().map(str::to_owned);
                (name, SchedClass::current().unwrap(), current_cpus().unwrap())
            })
            .unwrap();
        assert_eq!(t.join().unwrap(), (Some("lane-7".to_owned()), class, Cpus::one(cpu)));
    }

    #[test]
    fn a_refused_thread_does_not_run_its_function() {
        let ran = Arc::new(AtomicBool::new(false));
        let flag = ran.clone();
        let error = ThreadSpec::new("x")
            .class(SchedClass::Fifo(0))
            .spawn(move || flag.store(true, Ordering::Relaxed))
            .unwrap_err();
        assert!(matches!(error, SpawnError::Class(SchedClass::Fifo(0), _)), "{error}");
        let flag = ran.clone();
        let error = ThreadSpec::new("x")
            .cpus(Cpus::none())
            .spawn(move || flag.store(true, Ordering::Relaxed))
            .unwrap_err();
        assert_eq!(error, SpawnError::Cpus(SchedError::OutOfRange));
        assert!(!ran.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&ran), 1, "the functions were dropped");
        assert!(matches!(ThreadSpec::new("a\0b").spawn(|| ()), Err(SpawnError::Create(Errno::INVAL))));
    }

    #[test]
    fn a_thread_that_is_started_runs_its_function_or_drops_it() {
        let (report, seen) = mpsc::channel();
        let body = move || {
            report.send((std::thread::current().name().map(str::to_owned), SchedClass::current())).unwrap();
        };
        ThreadSpec::new("started").start(body).unwrap();
        assert_eq!(seen.recv(), Ok((Some("started".to_owned()), Ok(SchedClass::Other))));
        let (report, seen) = mpsc::channel();
        ThreadSpec::new("x").cpus(Cpus::none()).start(move || report.send(()).unwrap()).unwrap();
        assert_eq!(seen.recv(), Err(mpsc::RecvError));
        assert_eq!(ThreadSpec::new("a\0b").start(|| ()), Err(SpawnError::Create(Errno::INVAL)));
    }

    #[test]
    fn an_ordinary_thread_of_a_real_time_creator_is_ordinary() {
        if !may_be_real_time() {
            return;
        }
        in_thread(|| {
            SchedClass::Fifo(2).set_current().unwrap();
            let t = ThreadSpec::new("x").spawn(|| SchedClass::current().unwrap()).unwrap();
            assert_eq!(t.join().unwrap(), SchedClass::Other);
        });
    }

    #[test]
    fn a_class_can_be_changed_from_outside() {
        let end = Arc::new(Parker::new());
        let wait = end.clone();
        let t = ThreadSpec::new("x").spawn(move || wait.park_until(Deadline::NONE)).unwrap();
        assert_eq!(t.class(), Ok(SchedClass::Other));
        if may_be_real_time() {
            t.set_class(SchedClass::Rr(4)).unwrap();
            assert_eq!(t.class(), Ok(SchedClass::Rr(4)));
        }
        end.unpark();
        assert!(t.join().unwrap());
    }

    #[test]
    fn a_panic_comes_out_of_join() {
        let t: Thread<()> = ThreadSpec::new("x").spawn(|| panic!("on purpose")).unwrap();
        let payload = t.join().unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
    }
}
