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
    file: Option<PiMutex<Lines>>,
    lost: AtomicU64,
}

/// The lines of an audit file.
#[derive(Debug)]
struct Lines {
    file: File,
    /// The last record failed.
    failed: bool,
    /// The file ends with a part of a line.
    torn: bool,
}

impl Audit {
    /// Records go to the log, at level info of the target `isorb::access`. The log limits the
    /// records of one place in a second; a file does not.
    pub fn to_log() -> Audit {
        Audit::default()
    }

    /// Records are appended to a file, which is private to the user when it is made. A change that
    /// cannot be recorded there is refused.
    ///
    /// # Errors
    /// The file cannot be opened, or is a symbolic link.
    pub fn to_file(file: &Path) -> io::Result<Audit> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(file)?;
        let lines = Lines { file, failed: false, torn: false };
        Ok(Audit { file: Some(PiMutex::new(lines)), lost: AtomicU64::new(0) })
    }

    /// Records that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes a record. One that cannot be written is counted, and the log says when that begins
    /// and ends.
    ///
    /// # Errors
    /// Those of writing the file, such as a full disk. Nothing is left of the record, or a part of
    /// a line, which the next record ends.
    ///
    /// # Real-time
    /// Allocates, and writes to the file under a PI lock. For changes only.
    pub fn record(&self, what: fmt::Arguments<'_>) -> io::Result<()> {
        let Some(lines) = &self.file else {
            log::info(LOG, format_args!("audit: {what}"));
            return Ok(());
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A peer's text must not make a line of its own.
        let what = what.to_string().replace(char::is_control, "?");
        let line = format!("{}.{:06} {what}\n", since.as_secs(), since.subsec_micros());
        let mut lines = lines.lock();
        let written = lines.append(line.as_bytes());
        let failed_before = std::mem::replace(&mut lines.failed, written.is_err());
        drop(lines);
        match &written {
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if !failed_before {
                    let text = "changes that clients ask for are refused until the disk of --audit has space";
                    log::error(LOG, format_args!("an audit record cannot be written: {error}; {text}"));
                }
            }
            Ok(()) if failed_before => {
                let lost = self.lost();
                log::info(LOG, format_args!("audit records are written again; {lost} could not be so far"));
            }
            Ok(()) => {}
        }
        written
    }
}

impl Lines {
    /// Appends a line. After a part of one it begins a new line first.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.write(b"\n")?;
            self.torn = false;
        }
        self.write(line)
    }

    fn write(&mut self, mut octets: &[u8]) -> io::Result<()> {
        while !octets.is_empty() {
            match self.file.write(octets) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    octets = &octets[count..];
                    self.torn = !octets.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_testkit::{TempFolder, fill_disk, on_small_disk};

    #[test]
    fn a_full_disk_refuses_records_and_tears_no_line() {
        on_small_disk("audit::tests::a_full_disk_refuses_records_and_tears_no_line", |disk| {
            let path = disk.join("audit");
            let audit = Audit::to_file(&path).unwrap();
            // Lines of an odd length, so that the last one is torn at the end of a page.
            let record = |number: u32| audit.record(format_args!("record {number} {}", "x".repeat(990)));
            record(0).unwrap();
            let filling = fill_disk(disk);
            let full = (1..10).find(|number| record(*number).is_err()).expect("the disk is full");
            let refused = record(full).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
            assert_eq!(audit.lost(), 2);
            filling.set_len(0).unwrap();
            record(100).unwrap();
            assert_eq!(audit.lost(), 2);
            let text = std::fs::read_to_string(&path).unwrap();
            let whole = text.lines().filter(|line| line.ends_with(&"x".repeat(990))).count();
            assert_eq!(whole as u32, full + 1, "acknowledged records are lost");
            assert!(text.lines().last().unwrap().contains(" record 100 "), "{text}");
            assert!(text.ends_with('\n') && text.lines().count() as u32 <= full + 2);
        });
    }

    #[test]
    fn a_client_cannot_add_a_line() {
        let folder = TempFolder::new();
        let path = folder.file("audit");
        Audit::to_file(&path).unwrap().record(format_args!("bind \"a\n1.000000 root: unbind\"")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    }
}
