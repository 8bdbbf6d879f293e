//! The offset between the clocks of two nodes, from the time stamps of their messages.
//!
//! Each node has a monotonic clock with an origin and a rate of its own. Every message from the
//! other node bounds the offset from one side, because it cannot arrive before it was sent:
//!
//! ```text
//!  here  ──●t1───────────────────────●t4──►     offset = far - here
//!            ╲ probe        answer ╱            t3 - t4 <= offset      each message that arrives
//!  far   ─────●t2─────────────────●t3────►     offset <= t2 - t1      each message that is answered
//! ```
//!
//! The estimate is the middle of the interval, and half of the interval bounds its error. An older
//! bound widens by the drift of the two clocks since it was taken. So the bound is at most half of
//! the least round trip of any window, plus the drift over that window. A queue in one direction
//! widens the interval but does not shift it out of the truth.
//!
//! Where both nodes read a clock that hardware keeps the same (PTP), what they read bounds the
//! offset from both sides at once ([`common_clock`](crate::common_clock)). A reading that the
//! messages refute is not used: the clock is not kept, or the nodes read different ones.
//!
//! The module has no I/O and no clock: callers pass the time, so tests simulate it.

/// The offset of the other node's clock, and how far it may be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offset {
    /// The other node's clock minus this node's, nanoseconds (modulo 2^64).
    pub ns: i64,
    /// The largest error of `ns` in either direction. None while the other node has answered
    /// nothing: then `ns` takes the least one-way time as zero, and the error is at least that
    /// time.
    pub bound_ns: Option<u64>,
}

impl Offset {
    /// A time of the other node on this node's clock.
    pub fn to_here(&self, far_ns: u64) -> u64 {
        far_ns.wrapping_sub(self.ns as u64)
    }
}

/// Estimates the offset between this node's clock and another node's. Times are nanoseconds.
///
/// # Real-time
/// Implementations neither allocate nor block.
pub trait OffsetEstimator {
    /// A message arrived here at `arrived_ns`, which the other node sent at `sent_far_ns` of its
    /// clock.
    fn arrived(&mut self, sent_far_ns: u64, arrived_ns: u64);

    /// The other node reports that a message of this node, sent at `sent_ns`, arrived there at
    /// `arrived_far_ns` of its clock.
    fn answered(&mut self, sent_ns: u64, arrived_far_ns: u64, now_ns: u64);

    /// Both nodes compared their clocks with a common one: the other node's clock is `offset_ns`
    /// ahead of this node's, at most `bound_ns` more or less.
    fn agreed(&mut self, offset_ns: i64, bound_ns: u64, now_ns: u64);

    /// The offset now; none before the first message.
    fn offset(&self, now_ns: u64) -> Option<Offset>;

    /// How often a clock was found to have stepped. Bounds from before a step are forgotten.
    fn steps(&self) -> u64;

    /// How often messages refuted what a common clock said.
    fn refuted(&self) -> u64;
}

/// Estimates the offset from the least one-way times in both directions.
///
/// A message that contradicts the bounds shows that a clock has stepped, or that it drifts by more
/// than assumed. The estimate then starts over from that message.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    drift_ppm: u64,
    least: Option<Bound>,
    most: Option<Bound>,
    steps: u64,
    refuted: u64,
}

/// A bound of the offset, and the time at which it held.
#[derive(Clone, Copy, Debug)]
struct Bound {
    offset_ns: i64,
    at_ns: u64,
}

/// The drift that [`RoundTrips`] assumes between two clocks, parts per million. Each clock may be
/// wrong by half of it. Crystals are wrong by up to 100.
pub const DRIFT_PPM: u64 = 400;

/// Bounds that cross by less than this are equal: rounding, not a step.
const GRAIN_NS: i64 = 1_000;

impl Default for RoundTrips {
    /// With [`DRIFT_PPM`].
    fn default() -> RoundTrips {
        RoundTrips::new(DRIFT_PPM)
    }
}

impl RoundTrips {
    /// An estimate for two clocks with rates that differ by at most this many parts per million.
    pub const fn new(drift_ppm: u64) -> RoundTrips {
        RoundTrips { drift_ppm, least: None, most: None, steps: 0, refuted: 0 }
    }

    fn least(&self, now_ns: u64) -> Option<i64> {
        self.least.map(|bound| bound.offset_ns.wrapping_sub(self.dispersion(bound, now_ns)))
    }

    fn most(&self, now_ns: u64) -> Option<i64> {
        self.most.map(|bound| bound.offset_ns.wrapping_add(self.dispersion(bound, now_ns)))
    }

    /// The drift since a bound was taken.
    fn dispersion(&self, bound: Bound, now_ns: u64) -> i64 {
        let since = u128::from(now_ns.saturating_sub(bound.at_ns));
        i64::try_from((since * u128::from(self.drift_ppm)).div_ceil(1_000_000)).unwrap_or(i64::MAX)
    }
}

impl OffsetEstimator for RoundTrips {
    fn arrived(&mut self, sent_far_ns: u64, arrived_ns: u64) {
        let offset_ns = difference(sent_far_ns, arrived_ns);
        if self.most(arrived_ns).is_some_and(|most| difference_of(offset_ns, most) > GRAIN_NS) {
            (self.most, self.least, self.steps) = (None, None, self.steps + 1);
        }
        if self.least(arrived_ns).is_none_or(|least| difference_of(offset_ns, least) >= 0) {
            self.least = Some(Bound { offset_ns, at_ns: arrived_ns });
        }
    }

    fn answered(&mut self, sent_ns: u64, arrived_far_ns: u64, now_ns: u64) {
        let bound = Bound { offset_ns: difference(arrived_far_ns, sent_ns), at_ns: sent_ns };
        let offset_ns = bound.offset_ns.wrapping_add(self.dispersion(bound, now_ns));
        if self.least(now_ns).is_some_and(|least| difference_of(least, offset_ns) > GRAIN_NS) {
            (self.most, self.least, self.steps) = (None, None, self.steps + 1);
        }
        if self.most(now_ns).is_none_or(|most| difference_of(offset_ns, most) <= 0) {
            self.most = Some(bound);
        }
    }

    fn agreed(&mut self, offset_ns: i64, bound_ns: u64, now_ns: u64) {
        let (least, most) = (self.least(now_ns), self.most(now_ns));
        let Some(bound_ns) = i64::try_from(bound_ns).ok().filter(|bound| *bound < i64::MAX / 4) else {
            return;
        };
        let (low, high) = (offset_ns.wrapping_sub(bound_ns), offset_ns.wrapping_add(bound_ns));
        if most.is_some_and(|most| difference_of(low, most) > GRAIN_NS)
            || least.is_some_and(|least| difference_of(least, high) > GRAIN_NS)
        {
            self.refuted += 1;
            return;
        }
        if least.is_none_or(|least| difference_of(low, least) >= 0) {
            self.least = Some(Bound { offset_ns: low, at_ns: now_ns });
        }
        if most.is_none_or(|most| difference_of(high, most) <= 0) {
            self.most = Some(Bound { offset_ns: high, at_ns: now_ns });
        }
    }

    fn offset(&self, now_ns: u64) -> Option<Offset> {
        Some(match (self.least(now_ns), self.most(now_ns)) {
            (Some(least), Some(most)) => {
                let width = difference_of(most, least).max(0);
                let bound_ns = Some((width as u64).div_ceil(2));
                Offset { ns: least.wrapping_add(width / 2), bound_ns }
            }
            (Some(ns), None) | (None, Some(ns)) => Offset { ns, bound_ns: None },
            (None, None) => return None,
        })
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn refuted(&self) -> u64 {
        self.refuted
    }
}

/// The difference of two times; right also where a clock wraps, and defined for any number that a
/// peer sends.
fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

fn difference_of(a: i64, b: i64) -> i64 {
    a.wrapping_sub(b)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// A clock with an origin and a rate of its own, against true time.
    #[derive(Clone, Copy)]
    struct Clock {
        origin: u64,
        drift_ppm: i64,
    }

    impl Clock {
        fn at(self, true_ns: u64) -> u64 {
            let drift = i128::from(true_ns) * i128::from(self.drift_ppm) / 1_000_000;
            self.origin.wrapping_add((i128::from(true_ns) + drift) as u64)
        }
    }

    proptest! {
        /// The stated bound holds at every message, and is no wider than half of the least round
        /// trip of the last second plus the drift over it.
        #[test]
        fn the_error_stays_within_its_bound(
            here in any::<u32>(), far in any::<u32>(), days in 0u64..1000, drifts in (-199i64..=199, -199i64..=199),
            ways in prop::collection::vec((0u64..1000 * MS, 0u64..1000 * MS, 1u64..300 * MS), 1..200),
        ) {
            let here = Clock { origin: u64::from(here), drift_ppm: drifts.0 };
            let far = Clock { origin: u64::from(far) + days * 86_400_000 * MS, drift_ppm: drifts.1 };
            let (mut estimate, mut now, mut trips) = (RoundTrips::default(), 0, Vec::new());
            for (forth, back, pause) in ways {
                now += pause;
                let arrives = now + forth;
                let returns = arrives + back;
                let (t1, t2, t3, t4) = (here.at(now), far.at(arrives), far.at(arrives), here.at(returns));
                estimate.answered(t1, t2, t4);
                estimate.arrived(t3, t4);
                now = returns;
                trips.push((now, forth + back));
                let offset = estimate.offset(t4).unwrap();
                let truth = difference(far.at(now), t4);
                let bound = offset.bound_ns.unwrap();
                prop_assert!(difference_of(offset.ns, truth).unsigned_abs() <= bound + 2, "{offset:?} {truth}");
                let window = 1000 * MS;
                let least = trips.iter().filter(|(at, _)| now - at <= window).map(|(_, trip)| *trip).min().unwrap();
                let drift = (window + 2 * least) * (DRIFT_PPM + 200) / 1_000_000;
                prop_assert!(bound <= least / 2 + drift + 2, "{bound} of {least}");
            }
            prop_assert_eq!(estimate.steps(), 0);
        }

        #[test]
        fn any_numbers_are_survived(stamps in prop::collection::vec(any::<[u64; 3]>(), 0..100)) {
            let mut estimate = RoundTrips::new(u64::MAX);
            for [a, b, c] in stamps {
                estimate.arrived(a, b);
                estimate.answered(b, c, a);
                estimate.agreed(c as i64, a, b);
                let _ = estimate.offset(c).map(|offset| offset.to_here(a));
            }
        }
    }

    proptest! {
        /// With readings of a common clock that is right within 500 ns, simulated, beside messages
        /// that may wait in queues: the bound holds, and is never wider than the last reading's
        /// and the drift since.
        #[test]
        fn a_common_clock_bounds_the_offset_however_long_queues_are(
            days in 0u64..1000, drifts in (-199i64..=199, -199i64..=199),
            ways in prop::collection::vec(
                (0u64..1000 * MS, 0u64..1000 * MS, 1u64..300 * MS, -500i64..=500, -500i64..=500), 1..100),
        ) {
            let here = Clock { origin: 7, drift_ppm: drifts.0 };
            let far = Clock { origin: days * 86_400_000 * MS, drift_ppm: drifts.1 };
            let (mut estimate, mut now) = (RoundTrips::default(), 0);
            for (forth, back, pause, error_here, error_far) in ways {
                now += pause;
                let (t1, arrives) = (here.at(now), now + forth);
                let t2 = far.at(arrives);
                now = arrives + back;
                let t4 = here.at(now);
                estimate.answered(t1, t2, t4);
                estimate.arrived(t2, t4);
                // The common clock is true time. The far node read it when it answered, and its
                // clock has drifted since.
                let ahead = |at: u64, clock: u64, error: i64| at.wrapping_sub(clock).wrapping_add_signed(error);
                let offset = ahead(now, t4, error_here).wrapping_sub(ahead(arrives, t2, error_far)) as i64;
                let bound = 1_000 + (t4 - t1) * DRIFT_PPM / 1_000_000 + 1;
                estimate.agreed(offset, bound, t4);
                let seen = estimate.offset(t4).unwrap();
                let truth = difference(far.at(now), t4);
                prop_assert!(difference_of(seen.ns, truth).unsigned_abs() <= seen.bound_ns.unwrap() + 2);
                prop_assert!(seen.bound_ns.unwrap() <= bound + 2, "{seen:?} of {bound}");
            }
            prop_assert_eq!((estimate.steps(), estimate.refuted()), (0, 0));
        }
    }

    #[test]
    fn a_common_clock_that_messages_refute_is_not_used() {
        let mut estimate = RoundTrips::new(0);
        // The clock there is 5 s ahead, a round trip takes 2 ms.
        estimate.answered(0, 5_001 * MS, 2 * MS);
        estimate.arrived(5_001 * MS, 2 * MS);
        let before = estimate.offset(2 * MS).unwrap();
        assert_eq!(before, Offset { ns: 5_000 * MS as i64, bound_ns: Some(MS) });
        // The two read different clocks, or one is not kept: 37 s, 2 ms, and no number at all.
        for (wrong, bound) in [(42_000 * MS, 1_000), (5_002 * MS, 1_000), (4_998 * MS, 1_000)] {
            estimate.agreed(wrong as i64, bound, 2 * MS);
        }
        estimate.agreed(i64::MIN, u64::MAX, 2 * MS);
        assert_eq!((estimate.offset(2 * MS), estimate.refuted(), estimate.steps()), (Some(before), 3, 0));
        estimate.agreed(5_000_500_000, 1_000, 2 * MS);
        assert_eq!(estimate.offset(2 * MS), Some(Offset { ns: 5_000_500_000, bound_ns: Some(1_000) }));
        assert_eq!(estimate.refuted(), 3);
    }

    #[test]
    fn without_an_answer_the_time_beyond_the_least_way_counts() {
        let mut estimate = RoundTrips::new(0);
        assert_eq!(estimate.offset(0), None);
        // The least way takes 1 ms, the clock there is 5 s ahead.
        for (sent, way) in [(0, 3), (10, 1), (20, 530), (30, 530)] {
            estimate.arrived(5_000 * MS + sent * MS, (sent + way) * MS);
        }
        let offset = estimate.offset(560 * MS).unwrap();
        assert_eq!(offset, Offset { ns: 4_999 * MS as i64, bound_ns: None });
        // Written at 30 ms, it arrives at 560: 530 less the least way.
        assert_eq!(560 * MS - offset.to_here(5_030 * MS), 529 * MS);
    }

    #[test]
    fn a_clock_that_steps_is_found_and_the_old_bounds_are_forgotten() {
        const OFFSET: i64 = 7_000 * MS as i64;
        for step in [10_000_000 * MS as i64, -3_000 * MS as i64] {
            let mut estimate = RoundTrips::default();
            let mut exchange = |sent: u64, offset: i64| {
                let far = |at: u64| at.wrapping_add_signed(offset);
                estimate.answered(sent, far(sent + MS), sent + 2 * MS);
                estimate.arrived(far(sent + MS), sent + 2 * MS);
                (estimate.offset(sent + 2 * MS).unwrap(), estimate.steps())
            };
            // 2 ms of round trip, and 400 ppm of drift over them.
            let within = Some(MS + 400);
            let before = exchange(100_000_000 * MS, OFFSET);
            assert_eq!(before, (Offset { ns: OFFSET + 400, bound_ns: within }, 0));
            let mut after = before;
            for second in 1..4 {
                after = exchange((100_000_000 + second * 1000) * MS, OFFSET + step);
            }
            assert_eq!(after, (Offset { ns: OFFSET + step + 400, bound_ns: within }, 1));
        }
    }
}
