//! Latencies of each consumer, as histograms of fixed size that the calling thread updates.
//!
//! Buckets double in width, so a percentile is exact within a factor of two over the whole range,
//! in 320 octets. There is no lock. A reader sees each bucket at its own moment, so two buckets may
//! differ by an event.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

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

/// A consumer's latencies while the trace was on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latencies {
    /// From an event's arrival at the channel to the consumer's call.
    pub waited: Histogram,
    /// From an event's arrival to the consumer's return.
    pub response: Histogram,
    /// Slack at the consumer's return, of events that met the deadline.
    pub laxity: Histogram,
    /// The least slack in nanoseconds; negative if a deadline was missed. `None` without a deadline
    /// or an event.
    pub least_laxity: Option<i64>,
}

/// The histograms that the calling thread updates.
#[derive(Debug)]
pub(crate) struct LatencyCounters {
    waited: Buckets,
    response: Buckets,
    laxity: Buckets,
    least_laxity: AtomicI64,
}

#[derive(Debug)]
struct Buckets([AtomicU64; BUCKETS]);

impl Buckets {
    fn new() -> Buckets {
        Buckets(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline]
    fn count(&self, ns: u64) {
        let bucket = (u64::BITS - ns.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    fn read(&self) -> Histogram {
        Histogram(std::array::from_fn(|bucket| self.0[bucket].load(Relaxed)))
    }
}

impl LatencyCounters {
    pub(crate) fn new() -> LatencyCounters {
        LatencyCounters {
            waited: Buckets::new(),
            response: Buckets::new(),
            laxity: Buckets::new(),
            least_laxity: AtomicI64::new(i64::MAX),
        }
    }

    /// Records the arrival of an event, the call of its consumer and the return, on the channel's
    /// clock.
    ///
    /// # Real-time
    /// Two to four atomic operations; neither allocates nor blocks.
    #[inline]
    pub(crate) fn count(&self, since: u64, begin: u64, end: u64, deadline_ns: Option<u64>) {
        let response = end.saturating_sub(since);
        self.waited.count(begin.saturating_sub(since));
        self.response.count(response);
        if let Some(deadline) = deadline_ns {
            if let Some(left) = deadline.checked_sub(response) {
                self.laxity.count(left);
            }
            let left = i64::try_from(i128::from(deadline) - i128::from(response)).unwrap_or(i64::MAX - 1);
            self.least_laxity.fetch_min(left, Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Latencies {
        let least = self.least_laxity.load(Relaxed);
        Latencies {
            waited: self.waited.read(),
            response: self.response.read(),
            laxity: self.laxity.read(),
            least_laxity: (least != i64::MAX).then_some(least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, ConsumerQos, Event, Failure, Filter, PushConsumer, Quality, VirtualClock};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_time_is_in_the_bucket_that_says_so() {
        for ns in [0, 1, 2, 3, 4, 1023, 1024, (1 << 38) - 1, 1 << 38, 1 << 39, u64::MAX] {
            let buckets = Buckets::new();
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

    #[test]
    fn laxity_is_what_is_left_and_the_least_is_kept() {
        let counted = LatencyCounters::new();
        assert_eq!(counted.read().least_laxity, None);
        counted.count(100, 150, 300, None);
        assert_eq!(counted.read().least_laxity, None);
        counted.count(100, 150, 300, Some(1_000));
        assert_eq!(counted.read().least_laxity, Some(800));
        counted.count(100, 150, 2_100, Some(1_000));
        let read = counted.read();
        assert_eq!(read.least_laxity, Some(-1_000));
        assert_eq!((read.laxity.count(), read.response.count(), read.waited.count()), (1, 3, 3));
    }

    struct Slow(Arc<VirtualClock>, u64);

    impl PushConsumer for Slow {
        fn push(&self, _: &[Event<'_>]) -> Result<(), Failure> {
            self.0.advance(self.1);
            Ok(())
        }
    }

    #[test]
    fn a_channel_counts_them_while_the_trace_is_on() {
        let clock = Arc::new(VirtualClock::new());
        let config = |latencies| {
            Channel::builder().latencies(latencies).trace(true).own_threads(false).clock(clock.clone())
        };
        let channel = config(true).build().unwrap();
        let quality = Quality { deadline: Some(Duration::from_nanos(500)), ..Quality::default() };
        let consumer = Arc::new(Slow(clock.clone(), 300));
        let qos = ConsumerQos::new("slow", Filter::of(20, 1)).quality(quality);
        let _proxy = channel.for_consumers().connect(consumer, qos).unwrap();
        let supplier = channel.for_suppliers().connect().unwrap();
        let id = channel.consumers()[0].id;
        supplier.push(&Event::new(20, 1));
        let read = channel.latencies(&[id, id + 1]);
        let latencies = read[0].unwrap();
        assert_eq!((latencies.response.quantile(0.5), latencies.least_laxity), (Some(512), Some(200)));
        assert_eq!((latencies.waited.0[0], read[1]), (1, None));
        channel.recorder().switch(false);
        supplier.push(&Event::new(20, 1));
        assert_eq!(channel.latencies(&[id]), [Some(latencies)], "nothing is counted any more");

        let without = config(false).build().unwrap();
        let qos = ConsumerQos::new("slow", Filter::of(20, 1));
        let _proxy = without.for_consumers().connect(Arc::new(Slow(clock.clone(), 1)), qos).unwrap();
        assert_eq!(without.latencies(&[without.consumers()[0].id]), [None]);
    }
}
