//! How long a remote consumer that does not read is left alone.

use isorb::Kind;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The longest rest.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts the pushes in a row that timed out. Each costs a pushing thread the whole time-out, so that the next is put off, for twice as long
/// each time: a consumer that is frozen takes a thread's time once, and then less and less.
#[derive(Debug)]
pub(super) struct Backoff {
    timeout: Duration,
    timed_out: AtomicU32,
}

impl Backoff {
    /// For pushes that take so long at most.
    pub fn new(timeout: Duration) -> Backoff {
        Backoff { timeout, timed_out: AtomicU32::new(0) }
    }

    /// A push has ended, with this system exception or without one.
    pub fn record(&self, failure: Option<Kind>) {
        match failure {
            Some(Kind::Timeout) => {
                self.timed_out.fetch_add(1, Relaxed);
            }
            _ if self.timed_out.load(Relaxed) != 0 => self.timed_out.store(0, Relaxed),
            _ => {}
        }
    }

    /// How long to wait with the next push: the time-out after the first that timed out, then twice as long each time, up to 30 s.
    pub fn delay(&self) -> Duration {
        match self.timed_out.load(Relaxed) {
            0 => Duration::ZERO,
            times => self.timeout.saturating_mul(1 << (times - 1).min(16)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_out_is_followed_by_a_longer_rest_until_a_push_succeeds() {
        let backoff = Backoff::new(Duration::from_millis(500));
        let seen = |kind| {
            backoff.record(kind);
            backoff.delay().as_millis()
        };
        assert_eq!(seen(None), 0);
        let rests: Vec<u128> = (0..40).map(|_| seen(Some(Kind::Timeout))).collect();
        assert_eq!(rests[..7], [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000]);
        assert!(rests[7..].iter().all(|rest| *rest == 30_000));
        assert_eq!(seen(None), 0);
        assert_eq!(seen(Some(Kind::Timeout)), 500, "it begins anew");
        assert_eq!(
            seen(Some(Kind::CommFailure)),
            0,
            "a consumer that is gone is told from one that does not read"
        );
    }
}
