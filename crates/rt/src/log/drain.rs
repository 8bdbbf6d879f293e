//! The rings of the process, and the thread that empties them into the sink.
//!
//! ```text
//!   thread ── text ──► ring 0 ┐
//!   thread ── text ──► ring 1 ├─► isorb-log: the oldest record first ──► sink
//!   thread ── text ──► ring 2 ┘        sleeps while there is none
//! ```

use core::cell::Cell;
use core::fmt::{self, Write as _};
use core::mem::MaybeUninit;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::Once;
use std::time::Duration;

use super::record::Record;
use super::ring::{Ring, Slot, Written};
use super::sink::deliver;
use super::sites::{Admitted, MOST_PER_SECOND, Sites};
use super::{Counts, Level, clock_ns};
use crate::sched::SchedClass;
use crate::sync::{AtomicEnum, Parker};
use crate::time::{Deadline, now_ns, sleep_until};

/// As many threads can write a record at the same time.
const RINGS: usize = 16;
/// Records of one ring that wait for the sink.
const RECORDS: usize = 16;
/// How long a process that ends waits for its sink.
const AT_EXIT: Duration = Duration::from_millis(500);
/// The first failure to start the thread is followed by a pause.
const RETRY_NS: u64 = 1_000_000_000;
/// The stack of the thread. Sinks of the program run on it.
const STACK: usize = 512 * 1024;

static POOL: [Ring<RECORDS>; RINGS] = [const { Ring::new() }; RINGS];
static SITES: Sites = Sites::new();
static WAKE: Parker = Parker::new();

/// The thread that empties the rings.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Thread {
    None,
    Starting,
    Running,
}

crate::atomic_enum!(Thread: None, Starting, Running);

static THREAD: AtomicEnum<Thread> = AtomicEnum::new();
static RETRY_AT: AtomicU64 = AtomicU64::new(0);
/// How often the thread has found the rings empty.
static PASSES: AtomicU64 = AtomicU64::new(0);
/// Whether the process ends, so that suppressed records are reported at once.
static ENDS: AtomicBool = AtomicBool::new(false);

static WRITTEN: AtomicU64 = AtomicU64::new(0);
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);
/// Records that found no ring, or that the sink did not take.
static LOST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Without a destructor, so that records can be written in the destructors of others.
    static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
    static IS_DRAIN: Cell<bool> = const { Cell::new(false) };
}

/// Writes a record into a ring, unless its call site has written too many in this second.
pub(super) fn write(
    level: Level,
    target: &'static str,
    site: &'static Location<'static>,
    text: fmt::Arguments<'_>,
) {
    let time_ns = clock_ns();
    match SITES.admit(site, time_ns / 1_000_000_000) {
        Admitted::Yes => {
            push(|slot| {
                slot.begin(time_ns, level, target);
                // A text that does not fit is cut off. An argument that fails to format leaves
                // what came before.
                let _ = slot.write_fmt(text);
            });
        }
        Admitted::FirstSuppressed => drop(SUPPRESSED.fetch_add(1, Relaxed)),
        Admitted::Suppressed => {
            SUPPRESSED.fetch_add(1, Relaxed);
            return;
        }
    }
    // Also for a suppressed record: the thread reports it in the next second.
    wake();
}

/// Writes into the ring of this thread, or into another one while a thread writes to that.
fn push(fill: impl FnOnce(&mut Slot)) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let home = match HOME.get() {
        usize::MAX => {
            let home = NEXT.fetch_add(1, Relaxed) % RINGS;
            HOME.set(home);
            home
        }
        home => home,
    };
    let mut fill = Some(fill);
    let mut write = |ring: &Ring<RECORDS>| {
        ring.write(|slot| {
            if let Some(fill) = fill.take() {
                fill(slot);
            }
        })
    };
    if (home..home + RINGS).all(|ring| write(&POOL[ring % RINGS]) == Written::Taken) {
        LOST.fetch_add(1, Relaxed);
    }
}

/// Waits until the thread has passed all earlier records to the sink, and has reported the dropped
/// ones; at most for `timeout`. Returns whether it has.
pub(super) fn flush(timeout: Duration) -> bool {
    let until = Deadline::after(timeout);
    let marks = POOL.each_ref().map(Ring::written);
    let is_drained = || POOL.iter().zip(marks).all(|(ring, mark)| ring.is_read_to(mark));
    if is_drained() && !THREAD.is(Thread::Running, Acquire) {
        return true;
    }
    // The pass after the present one begins after this call.
    let pass = PASSES.load(Acquire) + 2;
    let mut pause_ns = 20_000;
    while !(is_drained() && PASSES.load(Acquire) >= pass) {
        // The thread that drains would wait for itself.
        if IS_DRAIN.get() || until.is_past() {
            return false;
        }
        wake();
        sleep_until(Deadline::at_ns(now_ns() + pause_ns).earlier(until));
        pause_ns = (pause_ns * 2).min(5_000_000);
    }
    true
}

fn wake() {
    WAKE.unpark();
    prepare();
}

/// Starts the thread if there is none.
pub(super) fn prepare() {
    if !THREAD.is(Thread::Running, Acquire) {
        start_thread();
    }
}

pub(super) fn counts() -> Counts {
    let (written, suppressed) = (WRITTEN.load(Relaxed), SUPPRESSED.load(Relaxed));
    Counts { written, suppressed, dropped: dropped() }
}

fn dropped() -> u64 {
    LOST.load(Relaxed) + POOL.iter().map(Ring::dropped).sum::<u64>()
}

/// Whether this is the thread that drains.
pub(crate) fn is_drain_thread() -> bool {
    IS_DRAIN.get()
}

/// Starts the thread, unless there is one, or starting it failed a moment ago.
#[cold]
fn start_thread() {
    static HANDLERS: Once = Once::new();
    if now_ns() < RETRY_AT.load(Relaxed) || !THREAD.change(Thread::None, Thread::Starting, AcqRel) {
        return;
    }
    let started = create_thread();
    if !started {
        RETRY_AT.store(now_ns() + RETRY_NS, Relaxed);
    }
    THREAD.store(if started { Thread::Running } else { Thread::None }, Release);
    HANDLERS.call_once(|| {
        // SAFETY: both are functions that live as long as the program. The first waits for a
        // bounded time; all that the second does are stores to atomics.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

/// Creates the thread with all signals blocked, and does not wait for it.
fn create_thread() -> bool {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `sigfillset` initialises the set. The second call initialises `before`, which the
    // third restores.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let thread = std::thread::Builder::new().name("isorb-log".into()).stack_size(STACK).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        thread.is_ok()
    }
}

fn run() {
    IS_DRAIN.set(true);
    // The creator may be a real-time thread, and confined to a processor that such threads occupy.
    let _ = SchedClass::Other.set_current();
    if let Ok(cpus) = rustix::thread::sched_getaffinity(Some(rustix::process::getpid())) {
        let _ = rustix::thread::sched_setaffinity(None, &cpus);
    }
    let mut drain = Drain::default();
    loop {
        while drain.write_oldest() {}
        if !drain.fails {
            drain.write_dropped();
        }
        let second = if ENDS.load(Relaxed) { u64::MAX } else { clock_ns() / 1_000_000_000 };
        SITES.report(second, |site, count| drain.write_suppressed(site, count));
        PASSES.fetch_add(1, Release);
        let next =
            if SITES.any_suppressed() { Deadline::after(Duration::from_secs(1)) } else { Deadline::NONE };
        WAKE.park_until(next);
    }
}

/// What the thread knows of the sink.
#[derive(Default)]
struct Drain {
    /// Dropped records that were reported to the sink.
    message: u64,
    /// The sink has not taken the latest record.
    fails: bool,
}

impl Drain {
    /// Writes the oldest record of all rings to the sink; false if there is none.
    fn write_oldest(&mut self) -> bool {
        let oldest = POOL.iter().filter_map(|ring| Some((ring.oldest_ns()?, ring)));
        let Some((_, ring)) = oldest.min_by_key(|(time_ns, _)| *time_ns) else { return false };
        ring.read(|slot| {
            let (level, time_ns) = (slot.level, slot.time_ns);
            self.fails = !deliver(&Record { time_ns, level, target: slot.target(), text: slot.text() });
        });
        (if self.fails { &LOST } else { &WRITTEN }).fetch_add(1, Relaxed);
        if !self.fails {
            self.write_dropped();
        }
        true
    }

    /// Says once how many records were dropped, when the sink works again.
    fn write_dropped(&mut self) {
        let dropped = dropped();
        let count = dropped - self.message;
        if count > 0
            && self.write_line(format_args!(
                "records dropped: {count} (standard error, or the program's sink, was too slow or failed)"
            ))
        {
            self.message = dropped;
        }
    }

    fn write_suppressed(&mut self, site: &'static Location<'static>, count: u64) {
        let folder = site.file().rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
        let (file, line) = (&site.file()[folder..], site.line());
        self.write_line(format_args!(
            "records suppressed: {count} like that of {file}:{line} (a call site writes {MOST_PER_SECOND} a second)"
        ));
    }

    fn write_line(&mut self, text: fmt::Arguments<'_>) -> bool {
        let (time_ns, text) = (clock_ns(), text.to_string());
        self.fails = !deliver(&Record { time_ns, level: Level::Warn, target: "isorb::log", text: &text });
        !self.fails
    }
}

extern "C" fn at_exit() {
    ENDS.store(true, Relaxed);
    flush(AT_EXIT);
}

/// The child of a fork has the parent's memory but not its threads. The parent writes what lies in
/// the rings.
extern "C" fn in_child() {
    POOL.iter().for_each(Ring::reset);
    RETRY_AT.store(0, Relaxed);
    IS_DRAIN.set(false);
    THREAD.store(Thread::None, Release);
}
