//! The time of the next datagram, so that a channel uses no more of the link than was admitted.

/// A leaky bucket in its virtual-scheduling form (ITU-T I.371, GCRA): one number of state, no tick.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    bytes_per_s: u64,
    burst_ns: u64,
    /// When the bucket will be empty.
    free_at: u64,
}

impl Pacer {
    /// `bytes_per_s` on average, up to `burst` bytes at once. A rate of 0 sets no limit.
    pub fn new(bytes_per_s: u64, burst: usize) -> Pacer {
        Pacer { bytes_per_s, burst_ns: time_of(burst, bytes_per_s), free_at: 0 }
    }

    /// The time, not before `now`, at which a datagram may be sent.
    #[inline]
    pub fn ready_at(&self, now_ns: u64) -> u64 {
        now_ns.max(self.free_at.saturating_sub(self.burst_ns))
    }

    /// A datagram of `bytes` was sent.
    #[inline]
    pub fn sent(&mut self, now_ns: u64, bytes: usize) {
        self.free_at = self.free_at.max(now_ns).saturating_add(time_of(bytes, self.bytes_per_s));
    }
}

fn time_of(bytes: usize, bytes_per_s: u64) -> u64 {
    match bytes_per_s {
        0 => 0,
        rate => u64::try_from((bytes as u128 * 1_000_000_000).div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In any window, at most the rate times its length, and a burst, and the last datagram.
        #[test]
        fn the_rate_is_kept(
            rate in 1_000u64..1_000_000_000,
            burst in 0usize..100_000,
            sizes in prop::collection::vec(1usize..2_000, 1..200),
            waits in prop::collection::vec(0u64..3_000_000, 200),
        ) {
            let mut pacer = Pacer::new(rate, burst);
            let mut now = 0;
            let mut log = Vec::new();
            for (bytes, wait) in sizes.iter().zip(waits) {
                now = pacer.ready_at(now + wait);
                pacer.sent(now, *bytes);
                log.push((now, *bytes));
            }
            for first in 0..log.len() {
                let mut sum = 0;
                for (at, bytes) in &log[first..] {
                    let allowed = u128::from(rate) * u128::from(at - log[first].0) / 1_000_000_000;
                    prop_assert!(sum as u128 <= allowed + burst as u128 + 1, "{sum} bytes before {at}");
                    sum += bytes;
                }
            }
        }
    }

    #[test]
    fn without_a_rate_everything_may_go_at_once() {
        let mut pacer = Pacer::new(0, 0);
        pacer.sent(5, usize::MAX);
        assert_eq!(pacer.ready_at(5), 5);
    }
}
