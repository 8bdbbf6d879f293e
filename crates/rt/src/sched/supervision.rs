//! Supervision of threads: panics become log records, and threads are replaced.
//!
//! A panic on a thread of [`ThreadSpec::spawn`](super::ThreadSpec::spawn) is a log record, with the
//! thread, the place and the message. The standard library's hook would write it to standard error
//! under a lock, where a full pipe stops the thread. A thread of
//! [`ThreadSpec::spawn_supervised`](super::ThreadSpec::spawn_supervised) is replaced besides: its
//! function begins again, on the same stack, with the same name, class and processors.

use core::any::Any;
use core::cell::Cell;
use core::str::FromStr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU64};
use core::time::Duration;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::Once;

use crate::log;
use crate::time::{Deadline, now_ns, sleep_until};

/// The target of the records.
pub(super) const LOG: &str = "isorb::threads";
/// A second panic within this time ends the process, or is followed by [`PAUSE`].
const SOON_NS: u64 = 1_000_000_000;
const PAUSE: Duration = Duration::from_millis(100);
/// How long a process that ends waits for its last log record to be written.
const LAST_RECORD: Duration = Duration::from_secs(1);

/// What happens when the function of a supervised thread panics.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum OnPanic {
    /// It begins again. A second panic of the thread within a second ends the process.
    #[default]
    Replace = 0,
    /// It begins again, after a second panic within a second with a pause of 100 ms.
    AlwaysReplace = 1,
    /// The process ends.
    Abort = 2,
}

/// The panics on supervised threads, and on all others of a `ThreadSpec`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PanicCounts {
    /// Panics, those of servants and others that were caught included.
    pub panics: u64,
    /// Threads that were replaced.
    pub replaced: u64,
    /// Threads that ended because nothing replaces them.
    pub ended: u64,
}

static ON_PANIC: AtomicU8 = AtomicU8::new(OnPanic::Replace as u8);
static PANICS: AtomicU64 = AtomicU64::new(0);
static REPLACED: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static REPORTS: Cell<bool> = const { Cell::new(false) };
}

impl OnPanic {
    /// Applies to all supervised threads of the process from now on.
    pub fn set(self) {
        ON_PANIC.store(self as u8, Relaxed);
    }

    /// The present setting.
    pub fn current() -> OnPanic {
        match ON_PANIC.load(Relaxed) {
            1 => OnPanic::AlwaysReplace,
            2 => OnPanic::Abort,
            _ => OnPanic::Replace,
        }
    }
}

impl FromStr for OnPanic {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<OnPanic, &'static str> {
        match name {
            "replace" => Ok(OnPanic::Replace),
            "always-replace" => Ok(OnPanic::AlwaysReplace),
            "abort" => Ok(OnPanic::Abort),
            _ => Err("thread_panic is replace, always-replace or abort"),
        }
    }
}

/// The panics of this process so far.
pub fn panic_counts() -> PanicCounts {
    let [panics, replaced, ended] = [&PANICS, &REPLACED, &ENDED].map(|count| count.load(Relaxed));
    PanicCounts { panics, replaced, ended }
}

/// Runs the body of a thread with panics as log records. A panic goes on to the caller.
pub(super) fn reported<R>(body: impl FnOnce() -> R) -> R {
    report_panics();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        ENDED.fetch_add(1, Relaxed);
        log::error(LOG, format_args!("the thread {} has ended by a panic", Name::of_this_thread()));
        resume_unwind(payload)
    })
}

/// Runs the body of a thread, and again whenever it panics.
pub(super) fn supervise(mut body: impl FnMut()) {
    report_panics();
    let mut last_ns = None;
    while let Err(payload) = catch_unwind(AssertUnwindSafe(&mut body)) {
        // A payload may panic in its turn.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        let now = now_ns();
        let again = last_ns.is_some_and(|last| now - last < SOON_NS);
        match OnPanic::current() {
            OnPanic::Abort => abort("the first one ends the process (thread_panic)"),
            OnPanic::Replace if again => {
                abort("the second one within a second ends the process (thread_panic)")
            }
            OnPanic::AlwaysReplace if again => sleep_until(Deadline::after(PAUSE)),
            _ => {}
        }
        last_ns = Some(now);
        REPLACED.fetch_add(1, Relaxed);
        log::warn(LOG, format_args!("the thread {} is replaced after a panic", Name::of_this_thread()));
    }
}

fn abort(why: &str) -> ! {
    log::error(LOG, format_args!("the thread {} has panicked; {why}", Name::of_this_thread()));
    log::flush(LAST_RECORD);
    std::process::abort();
}

/// Makes panics of the calling thread log records.
fn report_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| if REPORTS.get() { report(panic) } else { before(panic) }));
    });
    REPORTS.set(true);
}

fn report(panic: &PanicHookInfo<'_>) {
    PANICS.fetch_add(1, Relaxed);
    // A sink that panics must not fill the rings with that.
    if !log::is_drain_thread() {
        let text = message(panic.payload());
        let name = Name::of_this_thread();
        match panic.location() {
            Some(place) => log::error(LOG, format_args!("the thread {name} panicked at {place}: {text}")),
            None => log::error(LOG, format_args!("the thread {name} panicked: {text}")),
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a value that is no text")
}

/// The name of a thread as the kernel has it, without memory of the heap.
struct Name([u8; 16]);

impl Name {
    fn of_this_thread() -> Name {
        let mut name = [0; 16];
        // SAFETY: the kernel writes 16 octets at most.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        Name(name)
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let end = self.0.iter().position(|octet| *octet == 0).unwrap_or(self.0.len());
        f.write_str(core::str::from_utf8(&self.0[..end]).unwrap_or("?"))
    }
}
