//! Log records: what a thread reports to an operator, without waiting for the operator's terminal.
//!
//! ```text
//! 2026-11-23T05:32:21.123456Z WARN isorb::connection: 10.0.0.7:4711: unknown message type 9; the connection is closed
//! ```
//!
//! A thread that writes a record formats its text into a ring of fixed-size records. The thread
//! `isorb-log` takes it from there to the [`Sink`]: standard error, unless the program sets another
//! one. That thread is an ordinary one. The first record starts it, or [`prepare`], so a quiet
//! process without real-time threads has none. A sink that is full, closed or slow delays no other
//! thread: records that find no room are counted, and [`DefaultSink`] says how many once it
//! works again.
//!
//! `ISORB_LOG` or [`set_levels`] say what is written: the least severe level (`off`, `error`,
//! `warn`, `info` or `debug`; the default is `info`), also for single targets:
//! `warn,isorb::server=debug`. A call site writes at most [`MOST_PER_SECOND`] records a second, so
//! that a hostile peer fills no disk. How many more there were is said in the next second.
//!
//! Records are for exceptional events, never for each request. A caller passes `format_args!`, so
//! the text is formatted only if it is written.

#[cfg(not(loom))]
mod drain;
mod levels;
mod record;
#[cfg_attr(loom, allow(dead_code, reason = "the models use the ring alone"))]
mod ring;
#[cfg_attr(loom, allow(dead_code, reason = "the models use the ring alone"))]
mod sink;
#[cfg_attr(loom, allow(dead_code, reason = "the models use the ring alone"))]
mod sites;

use core::fmt;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::time::Duration;

pub use levels::UnknownLevel;
pub use record::Record;
pub use ring::MAX_TEXT;
pub use sink::{DefaultSink, Sink, set_sink};
pub use sites::MOST_PER_SECOND;

use crate::sync::Snapshot;
use levels::Levels;

/// How severe a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// A part of the program does not work.
    Error,
    /// An unexpected event that the program handles: a faulty peer, a missing right.
    Warn,
    /// A normal event that an operator wants to know about.
    Info,
    /// For developers.
    Debug,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        })
    }
}

/// Writes a record of [`Level::Error`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
#[track_caller]
pub fn error(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Error, target, text);
}

/// Writes a record of [`Level::Warn`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
#[track_caller]
pub fn warn(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Warn, target, text);
}

/// Writes a record of [`Level::Info`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
#[track_caller]
pub fn info(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Info, target, text);
}

/// Writes a record of [`Level::Debug`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
#[track_caller]
pub fn debug(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Debug, target, text);
}

/// Writes a record, unless its level is disabled for its target or its call site has written too
/// many in this second. `target` names the part of the program (`"isorb::connection"`).
///
/// # Real-time
/// Neither blocks nor allocates, whatever the sink does. Formats the text into a ring, and makes
/// one system call if the thread `isorb-log` sleeps. The first record of the process creates that
/// thread, and reads `ISORB_LOG` unless an ORB has: both allocate, unless [`prepare`] was called.
///
/// About 1 us with the wake-up of that thread; 0.1 us for a suppressed record, and 20 instructions
/// for a disabled one (release build).
#[cold]
#[track_caller]
pub fn write(level: Level, target: &'static str, text: fmt::Arguments<'_>) {
    if is_enabled(level, target) {
        #[cfg(not(loom))]
        drain::write(level, target, Location::caller(), text);
        #[cfg(loom)]
        let _ = (text, Location::caller());
    }
}

/// Starts the thread `isorb-log` and reads `ISORB_LOG`, unless that was done before, so that no
/// later record allocates. The ORB calls it when a thread pool is created; a program that has
/// real-time threads of its own calls it before it starts them. If the thread cannot be started
/// now, a later record starts it.
///
/// # Real-time
/// Allocates and starts a thread: for start-up.
pub fn prepare() {
    table();
    #[cfg(not(loom))]
    drain::prepare();
}

/// Whether records of this level and target are written.
///
/// # Real-time
/// As [`write`](fn@write), without the record.
pub fn is_enabled(level: Level, target: &str) -> bool {
    // The table is read only for records that some target has enabled.
    let table = table();
    (level as u8) < MOST_VERBOSE.load(Relaxed) && table.read().of(target).is_some_and(|most| level <= most)
}

/// Writes records of these levels from now on, whatever `ISORB_LOG` is: `warn`, or
/// `warn,isorb::server=debug`. What the setting does not name is at `info`.
///
/// # Errors
/// [`UnknownLevel`]; nothing changes then.
///
/// # Real-time
/// Allocates. No thread that writes a record waits for it.
pub fn set_levels(setting: &str) -> Result<(), UnknownLevel> {
    let levels = Levels::parse(setting)?;
    let most = most_verbose(&levels);
    let mut levels = Some(levels);
    while let Some(next) = levels.take() {
        // Readers hold a version for the moment of a comparison.
        levels = table().replace(next).err().map(|busy| busy.0);
    }
    MOST_VERBOSE.store(most, Relaxed);
    Ok(())
}

/// Waits until the sink has all records that were written before this call, at most for `timeout`.
/// Returns whether it has. A program calls it before it writes to standard error itself, or before
/// it ends without `exit`; at `exit` it is called with half a second.
///
/// # Real-time
/// Sleeps for up to `timeout`.
pub fn flush(timeout: Duration) -> bool {
    #[cfg(not(loom))]
    return drain::flush(timeout);
    #[cfg(loom)]
    return timeout >= Duration::ZERO;
}

/// What became of the records of this process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Counts {
    /// The sink took them.
    pub written: u64,
    /// Their call sites had written too many in a second.
    pub suppressed: u64,
    /// The sink failed, or was too slow to make room for them.
    pub dropped: u64,
}

/// What became of the records of this process so far.
pub fn counts() -> Counts {
    #[cfg(not(loom))]
    return drain::counts();
    #[cfg(loom)]
    return Counts::default();
}

/// Whether this thread writes the records to the sink.
pub(crate) fn is_drain_thread() -> bool {
    #[cfg(not(loom))]
    return drain::is_drain_thread();
    #[cfg(loom)]
    return false;
}

/// One more than the least severe level of any target; 0 for none.
static MOST_VERBOSE: AtomicU8 = AtomicU8::new(0);
static TABLE: AtomicPtr<Snapshot<Levels>> = AtomicPtr::new(ptr::null_mut());

fn most_verbose(levels: &Levels) -> u8 {
    levels.most_verbose().map_or(0, |level| level as u8 + 1)
}

/// The levels of the process, first those of `ISORB_LOG`. No thread waits for another one here.
fn table() -> &'static Snapshot<Levels> {
    // SAFETY: what it points to is never freed.
    match unsafe { TABLE.load(Acquire).as_ref() } {
        Some(table) => table,
        None => first_table(),
    }
}

#[cold]
fn first_table() -> &'static Snapshot<Levels> {
    let setting = std::env::var_os("ISORB_LOG").unwrap_or_default().to_string_lossy().into_owned();
    let (levels, wrong) = match Levels::parse(&setting) {
        Ok(levels) => (levels, None),
        Err(wrong) => (Levels::default(), Some(wrong)),
    };
    let most = most_verbose(&levels);
    let new = Box::into_raw(Box::new(Snapshot::new(4, levels)));
    if let Err(other) = TABLE.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
        // SAFETY: `new` was not published. The other one is never freed.
        return unsafe {
            drop(Box::from_raw(new));
            &*other
        };
    }
    MOST_VERBOSE.store(most, Relaxed);
    if let Some(wrong) = wrong {
        warn("isorb::log", format_args!("ISORB_LOG: {wrong}. Records from info on are written"));
    }
    // SAFETY: it is never freed.
    unsafe { &*new }
}

/// Nanoseconds since 1970.
#[cfg(not(loom))]
fn clock_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
