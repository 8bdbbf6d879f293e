//! Times of records as text.

use isorb_log_service::cos_lw_log::LogTime;
use std::time::{SystemTime, UNIX_EPOCH};

/// The last nanosecond of a second.
pub const LAST_NANOSECOND: i32 = 999_999_999;

const DAY: i64 = 86_400;

/// RFC 3339, in UTC.
pub fn text_of(time: LogTime) -> String {
    let seconds = i64::from(time.seconds);
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", time.nanoseconds)
}

/// A time: seconds since 1970, RFC 3339 in UTC, or how long ago.
pub fn since(text: &str) -> Result<LogTime, String> {
    let wrong = || {
        "give seconds since 1970, a time in UTC such as 2026-11-28T04:00:00Z, or how long ago, such as 90s, \
         15m, 2h or 1d"
            .to_owned()
    };
    let seconds = if let Ok(seconds) = text.parse::<i64>() {
        seconds
    } else if let Some(seconds) = ago(text) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(seconds)
    } else {
        moment(text).ok_or_else(wrong)?
    };
    let seconds =
        i32::try_from(seconds).map_err(|_| "the standard's times are those of 1901 to 2038".to_owned())?;
    Ok(LogTime { seconds, nanoseconds: 0 })
}

/// Seconds of a duration such as `15m`.
fn ago(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => DAY,
        _ => return None,
    };
    let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
    Some(i64::from(number) * factor)
}

/// Seconds since 1970 of a time such as 2026-11-28T04:00:00Z.
fn moment(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix(['Z', 'z'])?.split_once(['T', 't', ' '])?;
    let [year, month, day] = three(date, '-')?;
    let [hour, minute, second] = three(time, ':')?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    let days = days_of(year, month, day);
    // A date that does not exist is another one.
    let is_date = (1..=12).contains(&month) && date_of(days) == (year, month, day);
    (is_time && is_date).then_some(days * DAY + hour * 3600 + minute * 60 + second)
}

fn three(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.split(separator);
    for number in &mut numbers {
        *number = parts.next().and_then(|part| part.parse::<u16>().ok()).map(i64::from)?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that a
/// leap day is the last of its year.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day, counted from 1970-01-01: the inverse of [`days_of`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, of_year - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let at = |seconds| LogTime { seconds, nanoseconds: 5 };
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_795_839_001, "2026-11-28T04:10:01"),
            (-1, "1969-12-31T23:59:59"),
            (i32::MAX, "2038-01-19T03:14:07"),
        ] {
            assert_eq!(text_of(at(seconds)), format!("{text}.000000005Z"));
            assert_eq!(since(&format!("{text}Z")).unwrap().seconds, seconds);
        }
        assert_eq!(since("17").unwrap().seconds, 17);
        let (near, far) = (since("1s").unwrap().seconds, since("1d").unwrap().seconds);
        assert!((86_390..=86_500).contains(&(near - far)), "{near} {far}");
        for wrong in [
            "",
            "m",
            "5w",
            "2026-02-29T00:00:00Z",
            "2026-11-28T24:00:00Z",
            "2026-11-28",
            "2026-13-01T00:00:00Z",
        ] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
        assert!(since("2040-01-01T00:00:00Z").unwrap_err().contains("2038"));
    }
}
