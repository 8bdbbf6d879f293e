//! Spans of time in whole nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;
use std::time::Duration;

/// A span of time in nanoseconds; arithmetic saturates, so that an overflow can only make a verdict
/// worse.
///
/// # Real-time
/// Plain arithmetic: no allocation, no lock, constant time. [`fmt::Display`] writes for people
/// (`1.25 ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// The longest time that a task may declare: 2^60 ns, about 36 years. Beyond it sums could
    /// saturate unseen.
    pub const LONGEST: Nanos = Nanos(1 << 60);
    /// The result of an overflow.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `ns` nanoseconds.
    #[must_use]
    pub const fn new(ns: u64) -> Nanos {
        Nanos(ns)
    }

    /// `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// `ticks` of 100 ns, the unit of `TimeBase::TimeT` and of the periods of an `RT_Info`.
    #[must_use]
    pub const fn from_100ns(ticks: u64) -> Nanos {
        Nanos(ticks.saturating_mul(100))
    }

    /// In nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// The number of units of 100 ns, rounded up.
    #[must_use]
    pub const fn as_100ns(self) -> u64 {
        self.0.div_ceil(100)
    }

    /// Whether it is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or [`Nanos::MAX`].
    #[must_use]
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn minus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// `times` as long, or [`Nanos::MAX`].
    #[must_use]
    pub const fn times(self, times: u64) -> Nanos {
        Nanos(self.0.saturating_mul(times))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Nanos {
        spans.fold(Nanos::ZERO, Nanos::plus)
    }
}

impl fmt::Display for Nanos {
    /// In the largest unit with at least one whole, with up to three decimals, rounded to the
    /// nearest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        let thousandths = (u128::from(self.0) * 1000 + unit / 2) / unit;
        let (whole, part) = (thousandths / 1000, thousandths % 1000);
        let text = match part {
            0 => format!("{whole} {name}"),
            _ => format!("{whole}.{} {name}", format!("{part:03}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

impl FromStr for Nanos {
    type Err = NoTime;

    /// A number with at most as many decimals as make whole nanoseconds, and a unit: `2 ms`,
    /// `33.3ms`, `1.5 s`, `250 us`, `10 ns`. Zero needs no unit.
    fn from_str(text: &str) -> Result<Nanos, NoTime> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim());
        let scale: u64 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "" if number == "0" => 1,
            _ => return Err(NoTime),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = whole.parse().map_err(|_| NoTime)?;
        let mut sum = whole.checked_mul(scale).ok_or(NoTime)?;
        let mut worth = scale;
        for digit in part.bytes() {
            // More decimals than nanoseconds are an error.
            let digit = u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10).ok_or(NoTime)?);
            if !worth.is_multiple_of(10) && digit != 0 {
                return Err(NoTime);
            }
            worth /= 10;
            sum = sum.checked_add(digit * worth).ok_or(NoTime)?;
        }
        if number.ends_with('.') { Err(NoTime) } else { Ok(Nanos(sum)) }
    }
}

/// A text is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTime;

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time is a number and a unit of s, ms, us or ns, as in \"2.5 ms\"")
    }
}

impl std::error::Error for NoTime {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_text() {
        assert_eq!(Nanos::from_us(1500), Nanos::new(1_500_000));
        assert_eq!(Nanos::from_100ns(3).ns(), 300);
        assert_eq!(Nanos::new(301).as_100ns(), 4);
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (1_250_000, "1.25 ms"),
            (33_333_333, "33.333 ms"),
            (2_000_000_000, "2 s"),
            (u64::MAX, "18446744073.71 s"),
        ] {
            assert_eq!(Nanos::new(ns).to_string(), text);
        }
        assert_eq!(format!("{:>8}|", Nanos::from_ms(1)), "    1 ms|");
    }

    #[test]
    fn times_are_read() {
        for (text, ns) in [
            ("2 ms", 2_000_000),
            ("33.3ms", 33_300_000),
            ("1.000000001 s", 1_000_000_001),
            ("0", 0),
            ("7 ns", 7),
            ("1.50 us", 1500),
        ] {
            assert_eq!(text.parse(), Ok(Nanos::new(ns)), "{text}");
        }
        for text in [
            "",
            "2",
            "ms",
            "1.5 ns",
            "-1 ms",
            "1. ms",
            ".5 ms",
            "1e3 ms",
            "2 m",
            "99999999999999 s",
            "1.2.3 ms",
        ] {
            assert_eq!(text.parse::<Nanos>(), Err(NoTime), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos::MAX.plus(Nanos::new(1)), Nanos::MAX);
        assert_eq!(Nanos::ZERO.minus(Nanos::new(1)), Nanos::ZERO);
        assert_eq!(Nanos::from_ms(u64::MAX), Nanos::MAX);
        assert_eq!([Nanos::MAX, Nanos::new(2)].into_iter().sum::<Nanos>(), Nanos::MAX);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }
}
