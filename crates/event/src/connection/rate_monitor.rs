//! Whether a consumer is pushed to oftener than it declared.

use crate::placement::Placement;
use isorb_rt::sync::atomic::AtomicU64;
use isorb_rt::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The generic cell rate algorithm (ITU-T I.371, virtual scheduling): a push is due a period after the one before, and conforms if it comes no
/// sooner than that less the jitter. One that comes sooner does not move the next: so of pushes at twice the rate every second is early.
pub(super) struct RateMonitor {
    /// In nanoseconds; 0 is none declared.
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

    /// A push comes now. Says whether that is too soon.
    ///
    /// Suppliers may push at once, each on its thread; then one of them goes first, and no push is taken for another.
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
    fn who_comes_too_soon_is_early() {
        let cases: [(u64, u64, &[u64], &[u64]); 8] = [
            (10, 0, &[100, 110, 120, 135], &[]),
            (10, 0, &[100, 109, 110, 111, 120], &[109, 111]),
            // The later one does not make the next one due sooner.
            (10, 0, &[100, 112, 120, 122], &[120]),
            (10, 2, &[100, 112, 120, 130, 140], &[]),
            (10, 2, &[100, 107, 108, 118, 127], &[107, 127]),
            // Twice as often, and the same time again and again.
            (10, 0, &[100, 105, 110, 115, 120, 125], &[105, 115, 125]),
            (10, 0, &[100, 100, 100, 110], &[100, 100]),
            // More jitter than a period lets two come together.
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
    fn any_numbers_do() {
        let longest = rate(u64::MAX, u64::MAX);
        assert!(!longest.is_early(u64::MAX) && !longest.is_early(1));
        let never_again = rate(u64::MAX, 0);
        assert!(!never_again.is_early(1) && never_again.is_early(2));
    }
}
