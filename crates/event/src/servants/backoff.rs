//! The backoff of a remote consumer that does not read.

use isorb::Kind;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The longest delay.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts consecutive pushes that timed out. Each occupies a pushing thread for the whole time-out,
/// so the next push is delayed, twice as long each time. A consumer that does not read takes a
/// thread's time once, and then less and less.
#[derive(Debug)]
pub(super) struct Backoff {
    timeout: Duration,
    timed_out: AtomicU32,
}

impl Backoff {
    /// A backoff for pushes with this time-out.
    pub fn new(timeout: Duration) -> Backoff {
        Backoff { timeout, timed_out: AtomicU32::new(0) }
    }

    /// Records the end of a push, with its system exception if it failed.
    pub fn record(&self, failure: Option<Kind>) {
        match failure {
            Some(Kind::Timeout) => {
                self.timed_out.fetch_add(1, Relaxed);
            }
            _ if self.timed_out.load(Relaxed) != 0 => self.timed_out.store(0, Relaxed),
            _ => {}
        }
    }

    /// The delay of the next push: the time-out after the first that timed out, then twice as long
    /// each time, up to 30 s.
    pub fn delay(&self) -> Duration {
        delay(self.timeout, self.timed_out.load(Relaxed))
    }
}

/// The delay after so many failures in a row.
pub(crate) fn delay(timeout: Duration, failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        failures => timeout.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_out_doubles_the_delay_until_a_push_succeeds() {
        let backoff = Backoff::new(Duration::from_millis(500));
        let delay_after = |kind| {
            backoff.record(kind);
            backoff.delay().as_millis()
        };
        assert_eq!(delay_after(None), 0);
        let delays: Vec<u128> = (0..40).map(|_| delay_after(Some(Kind::Timeout))).collect();
        assert_eq!(delays[..7], [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000]);
        assert!(delays[7..].iter().all(|delay| *delay == 30_000));
        assert_eq!(delay_after(None), 0);
        assert_eq!(delay_after(Some(Kind::Timeout)), 500, "it starts again");
        assert_eq!(delay_after(Some(Kind::CommFailure)), 0, "a lost connection is not a time-out");
    }
}
