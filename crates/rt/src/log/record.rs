//! A record, and the line that it is.

use core::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use super::{Level, MAX_TEXT};

/// A log record, as a [`Sink`](super::Sink) gets it. It displays as one line without a line feed.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    pub(super) time_ns: u64,
    pub(super) level: Level,
    pub(super) target: &'r str,
    pub(super) text: &'r str,
}

impl Record<'_> {
    /// When the thread wrote it.
    pub fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.time_ns)
    }

    /// How severe it is.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The part of the program that it is from.
    pub fn target(&self) -> &str {
        self.target
    }

    /// Its text, which may contain control characters of a peer.
    pub fn text(&self) -> &str {
        self.text
    }
}

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, us) = ((self.time_ns / 1_000_000_000) as i64, self.time_ns / 1000 % 1_000_000);
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let time = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{us:06}Z {} {}: ",
            self.level, self.target
        )?;
        // No text of a peer begins a line of its own.
        self.text.chars().try_for_each(|c| f.write_char(if c.is_control() { ' ' } else { c }))
    }
}

/// A line on the stack, with its line feed.
pub(super) struct Line {
    octets: [u8; MAX_TEXT + 256],
    len: usize,
}

impl Line {
    pub fn of(record: &Record<'_>) -> Line {
        let mut line = Line { octets: [0; _], len: 0 };
        // Fails only for a target of more than 200 octets, which is cut off.
        let _ = write!(line, "{record}");
        line.octets[line.len] = b'\n';
        line.len += 1;
        line
    }

    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.octets.len() - 1 - self.len;
        let fits = &text[..text.floor_char_boundary(room)];
        self.octets[self.len..self.len + fits.len()].copy_from_slice(fits.as_bytes());
        self.len += fits.len();
        if fits.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
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

    #[test]
    fn a_record_is_one_line() {
        let mut record = Record {
            time_ns: 1_795_411_941_007_008_009,
            level: Level::Warn,
            target: "isorb::test",
            text: "bad peer\r\nNAME: ä",
        };
        let expected = "2026-11-23T05:32:21.007008Z WARN isorb::test: bad peer  NAME: ä\n";
        assert_eq!(Line::of(&record).octets(), expected.as_bytes());
        let long = "ä".repeat(MAX_TEXT);
        record.target = &long;
        let line = Line::of(&record);
        assert!(core::str::from_utf8(line.octets()).unwrap().ends_with("ä\n"), "{}", line.len);
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
}
