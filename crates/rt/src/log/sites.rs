//! Limits the records of each call site, so that a hostile peer neither fills a disk nor hides the
//! records of others.

use core::panic::Location;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU64};

/// Most records of one call site in a second.
pub const MOST_PER_SECOND: u64 = 20;

/// Call sites that have a limit of their own. A further one shares that of another.
const SITES: usize = 256;

/// The call sites that have written records.
pub(super) struct Sites([Site; SITES]);

struct Site {
    location: AtomicPtr<Location<'static>>,
    /// The second (upper bits) and the records in it (lower eight).
    recent: AtomicU64,
    suppressed: AtomicU64,
}

impl Sites {
    pub const fn new() -> Sites {
        Sites(
            [const {
                Site {
                    location: AtomicPtr::new(ptr::null_mut()),
                    recent: AtomicU64::new(0),
                    suppressed: AtomicU64::new(0),
                }
            }; SITES],
        )
    }

    /// Admits a record of this call site, or counts it. Two threads at a time may be counted as
    /// one; the limit need not be exact.
    pub fn admit(&self, location: &'static Location<'static>, second: u64) -> Admitted {
        let site = self.site(location);
        let before = site.recent.load(Relaxed);
        let records = if before >> 8 == second { before & 0xff } else { 0 };
        if records < MOST_PER_SECOND {
            site.recent.store(second << 8 | (records + 1), Relaxed);
            return Admitted::Yes;
        }
        match site.suppressed.fetch_add(1, Relaxed) {
            0 => Admitted::FirstSuppressed,
            _ => Admitted::Suppressed,
        }
    }

    fn site(&self, location: &'static Location<'static>) -> &Site {
        let wanted = ptr::from_ref(location).cast_mut();
        let begin = (wanted as usize / align_of::<Location<'_>>()) % SITES;
        let mut slots = (0..16).map(|step| &self.0[(begin + step) % SITES]);
        let claims = |site: &&Site| {
            let claimed = site.location.compare_exchange(ptr::null_mut(), wanted, AcqRel, Acquire);
            claimed.is_ok() || claimed == Err(wanted)
        };
        slots.find(claims).unwrap_or(&self.0[begin])
    }

    /// Whether records were suppressed that were not reported yet.
    pub fn any_suppressed(&self) -> bool {
        self.0.iter().any(|site| site.suppressed.load(Relaxed) > 0)
    }

    /// Reports the records that were suppressed before this second.
    pub fn report(&self, second: u64, mut report: impl FnMut(&'static Location<'static>, u64)) {
        for site in self.0.iter().filter(|site| site.suppressed.load(Relaxed) > 0) {
            // SAFETY: a site's location is null or came from a static reference.
            let location = unsafe { site.location.load(Acquire).as_ref() };
            if site.recent.load(Relaxed) >> 8 != second
                && let Some(location) = location
            {
                report(location, site.suppressed.swap(0, Relaxed));
            }
        }
    }
}

/// Whether a record may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admitted {
    Yes,
    /// The first one that may not since the last report.
    FirstSuppressed,
    Suppressed,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_its_own_limit_and_is_reported_in_the_next_second() {
        static SITES: Sites = Sites::new();
        let (noisy, other) = (Location::caller(), Location::caller());
        let admitted: Vec<_> = (0..MOST_PER_SECOND + 5).map(|_| SITES.admit(noisy, 7)).collect();
        assert_eq!(admitted.iter().filter(|admitted| **admitted == Admitted::Yes).count(), 20);
        assert_eq!(admitted[20..22], [Admitted::FirstSuppressed, Admitted::Suppressed]);
        assert_eq!((SITES.admit(other, 7), SITES.any_suppressed()), (Admitted::Yes, true));
        let report = |second| {
            let mut reported = Vec::new();
            SITES.report(second, |location, count| reported.push((location.column(), count)));
            reported
        };
        assert_eq!(report(7), []);
        assert_eq!(report(8), [(noisy.column(), 5)]);
        assert_eq!(
            (report(8), SITES.any_suppressed(), SITES.admit(noisy, 8)),
            (vec![], false, Admitted::Yes)
        );
    }
}
