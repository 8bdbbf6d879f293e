//! Latencies of each consumer, as histograms of fixed size that the calling thread updates.

use isorb_rt::histogram::AtomicHistogram;
pub use isorb_rt::histogram::{BUCKETS, Histogram};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

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
    waited: AtomicHistogram,
    response: AtomicHistogram,
    laxity: AtomicHistogram,
    least_laxity: AtomicI64,
}

impl LatencyCounters {
    pub(crate) fn new() -> LatencyCounters {
        LatencyCounters {
            waited: AtomicHistogram::new(),
            response: AtomicHistogram::new(),
            laxity: AtomicHistogram::new(),
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
