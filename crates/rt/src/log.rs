//! Log records: one line each on standard error.
//!
//! ```text
//! 2026-11-23T05:32:21.123Z WARN isorb::connection: 10.0.0.7:4711: unknown message type 9; the connection is closed
//! ```
//!
//! `ISORB_LOG` is `off` or the least severe level to write: `error`, `warn`, `info` (the default)
//! or `debug`. A process writes at most 20 lines a second, so that a hostile peer fills no disk.
//! The next line says how many were suppressed.
//!
//! Records are for exceptional events, never for each request. A caller passes `format_args!`, so
//! the text is formatted only if it is written, and into a buffer on the stack.

use core::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

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

/// The longest line in octets. The rest of a longer text is cut off.
pub const MAX_LINE: usize = 1024;

const PER_SECOND: u64 = 20;

/// Writes a record of [`Level::Error`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
pub fn error(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Error, target, text);
}

/// Writes a record of [`Level::Warn`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
pub fn warn(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Warn, target, text);
}

/// Writes a record of [`Level::Info`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
pub fn info(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Info, target, text);
}

/// Writes a record of [`Level::Debug`].
///
/// # Real-time
/// As [`write`](fn@write).
#[cold]
pub fn debug(target: &'static str, text: fmt::Arguments<'_>) {
    write(Level::Debug, target, text);
}

/// Writes a record, unless its level is disabled or there were too many in this second. `target`
/// names the part of the program (`"isorb::connection"`). If standard error is closed or full the
/// record is lost.
///
/// # Real-time
/// Does not allocate, but for reading `ISORB_LOG` the first time. One system call, which blocks
/// while the reader of a pipe does not read.
#[cold]
pub fn write(level: Level, target: &'static str, text: fmt::Arguments<'_>) {
    if !is_enabled(level) {
        return;
    }
    let Some(suppressed) = RATE.admit(clock_gettime(ClockId::Realtime).tv_sec as u64) else { return };
    write_line(level, target, text, suppressed);
}

fn write_line(level: Level, target: &'static str, text: fmt::Arguments<'_>, suppressed: u64) {
    let now = clock_gettime(ClockId::Realtime);
    let mut line = Line::new();
    line.header(now.tv_sec, now.tv_nsec / 1_000_000, level, target);
    // A text that does not fit is cut off. An argument that fails to format leaves what came
    // before.
    let _ = line.write_fmt(text);
    if suppressed > 0 {
        let _ = write!(line, " ({suppressed} records before this one were suppressed)");
    }
    // There is nowhere to report that standard error is closed.
    let _ = rustix::io::write(std::io::stderr(), line.finish());
}

/// Whether records of this level are written.
pub fn is_enabled(level: Level) -> bool {
    static MOST: OnceLock<Option<Level>> = OnceLock::new();
    let most = MOST.get_or_init(|| {
        let setting = std::env::var_os("ISORB_LOG").map(|setting| setting.to_string_lossy().into_owned());
        most_verbose(setting.as_deref()).unwrap_or_else(|| {
            let wrong = setting.unwrap_or_default();
            write_line(
                Level::Warn,
                "isorb::log",
                format_args!(
                    "ISORB_LOG is '{wrong}', which is no level; records from info on are written. Set it to \
                     off, error, warn, info or debug"
                ),
                0,
            );
            Some(Level::Info)
        })
    });
    most.is_some_and(|most| level <= most)
}

/// The least severe level to write, if any, by this setting; `None` where the setting is unknown.
fn most_verbose(setting: Option<&str>) -> Option<Option<Level>> {
    match setting {
        Some("off") => Some(None),
        Some("error") => Some(Some(Level::Error)),
        Some("warn") => Some(Some(Level::Warn)),
        None | Some("info") => Some(Some(Level::Info)),
        Some("debug") => Some(Some(Level::Debug)),
        Some(_) => None,
    }
}

static RATE: Rate = Rate::new();

/// Limits the records a second.
struct Rate {
    /// The second (upper bits) and the records in it (lower eight).
    recent: AtomicU64,
    suppressed: AtomicU64,
}

impl Rate {
    const fn new() -> Rate {
        Rate { recent: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Admits a record and returns how many were suppressed since the last one.
    fn admit(&self, second: u64) -> Option<u64> {
        let before = self.recent.load(Relaxed);
        let records = if before >> 8 == second { before & 0xff } else { 0 };
        if records >= PER_SECOND {
            self.suppressed.fetch_add(1, Relaxed);
            return None;
        }
        self.recent.store(second << 8 | (records + 1), Relaxed);
        Some(self.suppressed.swap(0, Relaxed))
    }
}

/// A line on the stack; its last octet is for the line feed.
struct Line {
    octets: [u8; MAX_LINE],
    len: usize,
}

impl Line {
    const fn new() -> Line {
        Line { octets: [0; MAX_LINE], len: 0 }
    }

    fn header(&mut self, seconds: i64, ms: i64, level: Level, target: &str) {
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let time = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        let level = match level {
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        };
        // Fails only where the line is full.
        let _ = write!(
            self,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z {level} {target}: "
        );
    }

    fn finish(&mut self) -> &[u8] {
        self.octets[self.len] = b'\n';
        &self.octets[..=self.len]
    }
}

impl fmt::Write for Line {
    /// Replaces control characters, so that no text of a peer begins a line of its own.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let character = if character.is_control() { ' ' } else { character };
            let end = self.len + character.len_utf8();
            if end >= MAX_LINE {
                return Err(fmt::Error);
            }
            character.encode_utf8(&mut self.octets[self.len..end]);
            self.len = end;
        }
        Ok(())
    }
}

/// Year, month and day in the Gregorian calendar, from days since 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    // Years that begin in March, in eras of 400 years, which all have the same number of days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn line(text: fmt::Arguments<'_>) -> String {
        let mut line = Line::new();
        line.header(1_795_411_941, 7, Level::Warn, "isorb::test");
        let _ = line.write_fmt(text);
        String::from_utf8(line.finish().to_vec()).unwrap()
    }

    #[test]
    fn a_record_is_one_line() {
        let expected = "2026-11-23T05:32:21.007Z WARN isorb::test: bad peer  NAME: 7\n";
        assert_eq!(line(format_args!("bad peer\r\n{}: {}", "NAME", 7)), expected);
    }

    #[test]
    fn a_long_record_is_cut_at_a_character() {
        let text = line(format_args!("{}", "ä".repeat(MAX_LINE)));
        assert!(text.ends_with("ä\n") && (MAX_LINE - 1..=MAX_LINE).contains(&text.len()), "{}", text.len());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_780, (2026, 11, 23)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected, "day {days}");
        }
    }

    #[test]
    fn too_many_records_a_second_are_counted() {
        let rate = Rate::new();
        let admitted = (0..PER_SECOND + 5).filter(|_| rate.admit(7).is_some()).count() as u64;
        assert_eq!((admitted, rate.admit(8), rate.admit(8)), (PER_SECOND, Some(5), Some(0)));
    }

    #[test]
    fn the_setting_names_the_least_severe_level() {
        for (setting, most) in [
            (None, Some(Some(Level::Info))),
            (Some("off"), Some(None)),
            (Some("error"), Some(Some(Level::Error))),
            (Some("warn"), Some(Some(Level::Warn))),
            (Some("info"), Some(Some(Level::Info))),
            (Some("debug"), Some(Some(Level::Debug))),
            (Some("loud"), None),
        ] {
            assert_eq!(most_verbose(setting), most);
        }
    }
}
