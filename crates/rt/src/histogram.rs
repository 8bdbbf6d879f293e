//! Histograms of durations, of fixed size, that any thread updates without a lock.
//!
//! Buckets double in width, so a percentile is exact within a factor of two over the whole range,
//! in 320 octets. A reader sees each bucket at its own moment, so two buckets may differ by a
//! duration.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = 40;

/// A histogram of durations. Bucket 0 counts 0 ns, bucket `i` counts from 2^(i-1) ns to below 2^i
/// ns. The last bucket also counts all longer ones (275 s and more).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram(pub [u64; BUCKETS]);

impl Histogram {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// The exclusive upper bound of a bucket in nanoseconds; `None` for the last one.
    pub fn end(bucket: usize) -> Option<u64> {
        (bucket < BUCKETS - 1).then(|| 1 << bucket)
    }

    /// The upper bound of the bucket that contains this quantile (0 to 1), in nanoseconds. `None`
    /// without durations, or in the last bucket.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let count = self.count();
        let wanted = ((count as f64 * part).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0_u64;
        let bucket = self.0.iter().position(|n| {
            sum = sum.saturating_add(*n);
            sum >= wanted
        })?;
        Histogram::end(bucket)
    }
}

/// A [`Histogram`] that threads count in.
#[derive(Debug)]
pub struct AtomicHistogram([AtomicU64; BUCKETS]);

impl Default for AtomicHistogram {
    fn default() -> AtomicHistogram {
        AtomicHistogram::new()
    }
}

impl AtomicHistogram {
    /// A histogram without durations.
    pub fn new() -> AtomicHistogram {
        AtomicHistogram(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Counts a duration.
    ///
    /// # Real-time
    /// One atomic operation; neither allocates nor blocks.
    #[inline]
    pub fn count(&self, ns: u64) {
        let bucket = (u64::BITS - ns.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// The counts now.
    pub fn read(&self) -> Histogram {
        Histogram(std::array::from_fn(|bucket| self.0[bucket].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_says_so() {
        for ns in [0, 1, 2, 3, 4, 1023, 1024, (1 << 38) - 1, 1 << 38, 1 << 39, u64::MAX] {
            let buckets = AtomicHistogram::new();
            buckets.count(ns);
            let read = buckets.read();
            assert_eq!(read.count(), 1);
            let bucket = read.0.iter().position(|n| *n == 1).unwrap();
            assert!(Histogram::end(bucket).is_none_or(|end| ns < end), "{ns} in {bucket}");
            assert!(
                bucket == 0 || Histogram::end(bucket - 1).is_some_and(|end| ns >= end),
                "{ns} in {bucket}"
            );
        }
    }

    #[test]
    fn quantiles_are_ends_of_buckets() {
        let mut histogram = Histogram([0; BUCKETS]);
        assert_eq!(histogram.quantile(0.5), None);
        histogram.0[4] = 90; // 8 to 15 ns
        histogram.0[11] = 10; // 1024 to 2047 ns
        assert_eq!(
            [0.0, 0.5, 0.9, 0.91, 1.0].map(|part| histogram.quantile(part)),
            [Some(16), Some(16), Some(16), Some(2048), Some(2048)]
        );
        histogram.0[BUCKETS - 1] = 1000;
        assert_eq!(histogram.quantile(0.99), None, "no end");
    }
}
