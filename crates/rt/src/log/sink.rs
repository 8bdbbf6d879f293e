//! Where records go.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::record::{Line, Record};

/// Takes log records, on the thread `isorb-log`. It may block: the threads that write records never
/// wait for it. Records that find the rings full meanwhile are counted as dropped.
pub trait Sink: Send {
    /// Takes a record.
    ///
    /// # Errors
    /// The record is counted as dropped. The sink is called again with the next one.
    fn write(&mut self, record: &Record<'_>) -> io::Result<()>;
}

/// The sink of a process that sets none. With the feature `tracing` or `log` of this crate, records
/// go to the global subscriber or logger if the program has one. Otherwise each is a line on
/// standard error.
#[derive(Clone, Copy, Default, Debug)]
pub struct DefaultSink;

impl Sink for DefaultSink {
    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        #[cfg(feature = "tracing")]
        if tracing::dispatcher::has_been_set() {
            trace(record);
            return Ok(());
        }
        // Without a logger the greatest level is `Off`.
        #[cfg(feature = "log")]
        if ::log::max_level() != ::log::LevelFilter::Off {
            ::log::log!(target: record.target(), level(record), "{}", record.text());
            return Ok(());
        }
        write_line(Line::of(record).octets())
    }
}

/// The target of an event of `tracing` is fixed where it is written, so the record's is a field.
#[cfg(feature = "tracing")]
fn trace(record: &Record<'_>) {
    use super::Level;
    macro_rules! event {
        ($level:ident) => {
            tracing::event!(target: "isorb", tracing::Level::$level, log.target = record.target(), "{}", record.text())
        };
    }
    match record.level() {
        Level::Error => event!(ERROR),
        Level::Warn => event!(WARN),
        Level::Info => event!(INFO),
        Level::Debug => event!(DEBUG),
    }
}

#[cfg(feature = "log")]
fn level(record: &Record<'_>) -> ::log::Level {
    use super::Level;
    match record.level() {
        Level::Error => ::log::Level::Error,
        Level::Warn => ::log::Level::Warn,
        Level::Info => ::log::Level::Info,
        Level::Debug => ::log::Level::Debug,
    }
}

/// Writes all octets to standard error, waiting where it is full.
fn write_line(mut line: &[u8]) -> io::Result<()> {
    let stderr = io::stderr();
    while !line.is_empty() {
        match rustix::io::write(&stderr, line) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => line = &line[written..],
            Err(Errno::INTR) => {}
            // Another process made the descriptor non-blocking.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The program's sink. Null while there is none, or while a record is written to it.
static SINK: AtomicPtr<Box<dyn Sink>> = AtomicPtr::new(ptr::null_mut());

/// Sends later records to `sink` instead of the former one.
///
/// # Real-time
/// Allocates; never waits for the former sink.
pub fn set_sink(sink: Box<dyn Sink>) {
    drop_sink(SINK.swap(Box::into_raw(Box::new(sink)), AcqRel));
}

/// Writes a record to the sink; false if that failed. For the one thread that does so.
pub(super) fn deliver(record: &Record<'_>) -> bool {
    let sink = SINK.swap(ptr::null_mut(), AcqRel);
    // SAFETY: the pointer came from `Box::into_raw`, and the exchange made it this thread's alone.
    let own = unsafe { sink.as_mut() };
    let write = || match own {
        Some(sink) => sink.write(record),
        None => DefaultSink.write(record),
    };
    let written = catch_unwind(AssertUnwindSafe(write)).is_ok_and(|written| written.is_ok());
    // Unless it was replaced meanwhile.
    if !sink.is_null() && SINK.compare_exchange(ptr::null_mut(), sink, AcqRel, Relaxed).is_err() {
        drop_sink(sink);
    }
    written
}

fn drop_sink(sink: *mut Box<dyn Sink>) {
    if !sink.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the caller took it out of `SINK`.
        let sink = unsafe { Box::from_raw(sink) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
    }
}
