//! Counts pushes that arrive sooner than the consumer declared.

use crate::placement::Placement;
use isorb_rt::sync::atomic::AtomicU64;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The generic cell rate algorithm (ITU-T I.371, virtual scheduling). A push is due one period
/// after the previous one, and conforms if it is early by at most the jitter. A push that does not
/// conform does not move the next due time, so of pushes at twice the rate every second is early.
pub(super) struct RateMonitor {
    /// In nanoseconds; 0 if none is declared.
    period: AtomicU64,
    jitter: AtomicU64,
    /// When the next push is due.
    due: AtomicU64,
}

impl RateMonitor {
    pub fn new(placement: &Placement) -> RateMonitor {
        let rate =
            RateMonitor { period: AtomicU64::new(0), jitter: AtomicU64::new(0), due: AtomicU64::new(0) };
        rate.set(placement);
        rate
    }

    pub fn set(&self, placement: &Placement) {
        self.jitter.store(nanos(placement.jitter), Relaxed);
        self.period.store(placement.period.map_or(0, nanos), Relaxed);
    }

    #[inline]
    pub fn is_declared(&self) -> bool {
        self.period.load(Relaxed) != 0
    }

    /// Records a push at `now`. Returns true if it is too early.
    ///
    /// Suppliers may push at the same time on several threads. The update is atomic, so each push
    /// counts once.
    pub fn is_early(&self, now: u64) -> bool {
        let (period, jitter) = (self.period.load(Relaxed), self.jitter.load(Relaxed));
        let next =
            |due: u64| (now.saturating_add(jitter) >= due).then(|| due.max(now).saturating_add(period));
        period != 0 && self.due.fetch_update(Relaxed, Relaxed, next).is_err()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::placement::SubPriority;
    use isorb_rt::priority::Priority;

    fn rate(period: u64, jitter: u64) -> RateMonitor {
        RateMonitor::new(&Placement {
            priority: Priority::MIN,
            sub_priority: SubPriority::Static(0),
            deadline: None,
            worst_case: None,
            period: (period != 0).then(|| Duration::from_nanos(period)),
            jitter: Duration::from_nanos(jitter),
        })
    }

    #[test]
    fn pushes_before_the_due_time_are_early() {
        let cases: [(u64, u64, &[u64], &[u64]); 8] = [
            (10, 0, &[100, 110, 120, 135], &[]),
            (10, 0, &[100, 109, 110, 111, 120], &[109, 111]),
            // A late push does not make the next one due sooner.
            (10, 0, &[100, 112, 120, 122], &[120]),
            (10, 2, &[100, 112, 120, 130, 140], &[]),
            (10, 2, &[100, 107, 108, 118, 127], &[107, 127]),
            // At twice the rate, and several at the same time.
            (10, 0, &[100, 105, 110, 115, 120, 125], &[105, 115, 125]),
            (10, 0, &[100, 100, 100, 110], &[100, 100]),
            // With a jitter of a whole period two may come together.
            (10, 10, &[100, 100, 100, 110, 110], &[100, 110]),
        ];
        for (period, jitter, pushes, early) in cases {
            let rate = rate(period, jitter);
            let found: Vec<u64> = pushes.iter().copied().filter(|at| rate.is_early(*at)).collect();
            assert_eq!(found, early, "{period} {jitter} {pushes:?}");
        }
        let none = rate(0, 0);
        assert!(!none.is_declared() && ![5, 5, 4].into_iter().any(|at| none.is_early(at)));
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let longest = rate(u64::MAX, u64::MAX);
        assert!(!longest.is_early(u64::MAX) && !longest.is_early(1));
        let never_again = rate(u64::MAX, 0);
        assert!(!never_again.is_early(1) && never_again.is_early(2));
    }
}
