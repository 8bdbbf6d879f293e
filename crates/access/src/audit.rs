//! The record of changes.

use crate::control::LOG;
use isorb_rt::log;
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where changes are recorded: one line for each, with the client and the operation.
#[derive(Debug, Default)]
pub struct Audit {
    file: Option<PiMutex<File>>,
    lost: AtomicU64,
}

impl Audit {
    /// Records go to the log, at level info of the target `isorb::access`. The log limits the
    /// records of one place in a second; a file does not.
    pub fn to_log() -> Audit {
        Audit::default()
    }

    /// Records are appended to a file, which is private to the user when it is made.
    ///
    /// # Errors
    /// The file cannot be opened, or is a symbolic link.
    pub fn to_file(file: &Path) -> io::Result<Audit> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(file)?;
        Ok(Audit { file: Some(PiMutex::new(file)), lost: AtomicU64::new(0) })
    }

    /// Records that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes a record.
    ///
    /// # Real-time
    /// Allocates, and writes to the file under a PI lock. For changes only.
    pub fn record(&self, what: fmt::Arguments<'_>) {
        let Some(file) = &self.file else { return log::info(LOG, format_args!("audit: {what}")) };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A peer's text must not make a line of its own.
        let what = what.to_string().replace(char::is_control, "?");
        let line = format!("{}.{:06} {what}\n", since.as_secs(), since.subsec_micros());
        let written = file.lock().write_all(line.as_bytes());
        if let Err(error) = written
            && self.lost.fetch_add(1, Ordering::Relaxed) == 0
        {
            log::error(LOG, format_args!("an audit record is lost: {error}; free the disk of --audit"));
        }
    }
}
