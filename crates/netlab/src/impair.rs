//! The effects of a bad network on packets, without sockets and without a clock.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The planned effects on packets. Shares are in 0 to 1, times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Plan {
    /// The seed of the random numbers: equal seeds have equal effects, packet by packet.
    pub seed: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The share of packets that arrive twice.
    pub duplicate: f64,
    /// The share of packets that are delayed by another `delay_ns`, so that later ones overtake
    /// them.
    pub reorder: f64,
    /// How long each packet takes.
    pub delay_ns: u64,
    /// The largest addition to the delay, evenly distributed. Packets keep their order unless they
    /// are reordered.
    pub jitter_ns: u64,
}

/// Packets under way. A pure state machine: its caller passes the time, and gets the time of the
/// next arrival.
///
/// # Real-time
/// For tests: it allocates for each packet, and holds at most [`Impairment::CAPACITY`] of them;
/// more are dropped.
#[derive(Debug)]
pub struct Impairment<T> {
    plan: Plan,
    random: u64,
    under_way: BinaryHeap<UnderWay<T>>,
    // Tie-break of packets due at the same time.
    sequence: u64,
    // When the last packet in order is due.
    latest: u64,
    dropped: u64,
}

#[derive(Debug)]
struct UnderWay<T> {
    at: u64,
    sequence: u64,
    packet: T,
}

impl<T: Clone> Impairment<T> {
    /// The most packets under way.
    pub const CAPACITY: usize = 4096;

    /// An impairment without packets.
    pub fn new(plan: Plan) -> Impairment<T> {
        Impairment {
            plan,
            random: plan.seed,
            under_way: BinaryHeap::new(),
            sequence: 0,
            latest: 0,
            dropped: 0,
        }
    }

    /// A packet is sent at `now`.
    pub fn push(&mut self, now: u64, packet: T) {
        // Each packet takes the same number of random numbers, so that one share does not change
        // the effects of the others on later packets.
        let [loss, duplicate, reorder, jitter] = std::array::from_fn(|_| self.share());
        if loss < self.plan.loss {
            self.dropped += 1;
            return;
        }
        let jitter = (jitter * self.plan.jitter_ns as f64) as u64;
        let mut at = now.saturating_add(self.plan.delay_ns).saturating_add(jitter);
        if reorder < self.plan.reorder {
            at = at.saturating_add(self.plan.delay_ns.max(1));
        } else {
            at = at.max(self.latest);
            self.latest = at;
        }
        if duplicate < self.plan.duplicate {
            self.schedule(at, packet.clone());
        }
        self.schedule(at, packet);
    }

    /// The next packet that has arrived by `now`.
    pub fn pop(&mut self, now: u64) -> Option<T> {
        if self.under_way.peek()?.at > now {
            return None;
        }
        self.under_way.pop().map(|next| next.packet)
    }

    /// When the next packet arrives; `None` if none is under way.
    pub fn next_at(&self) -> Option<u64> {
        self.under_way.peek().map(|next| next.at)
    }

    /// Packets that were lost so far, by the plan or because too many were under way.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn schedule(&mut self, at: u64, packet: T) {
        if self.under_way.len() >= Self::CAPACITY {
            self.dropped += 1;
            return;
        }
        self.sequence += 1;
        self.under_way.push(UnderWay { at, sequence: self.sequence, packet });
    }

    /// A number in 0..1 (the generator SplitMix64).
    fn share(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

// The heap has its greatest entry on top, which must be the packet that is due first.
impl<T> Ord for UnderWay<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<T> PartialOrd for UnderWay<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for UnderWay<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for UnderWay<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends 0..n a microsecond apart; what arrives, in its order.
    fn arrivals(plan: Plan, n: u64) -> Vec<u64> {
        let mut link = Impairment::new(plan);
        (0..n).for_each(|i| link.push(i * 1000, i));
        std::iter::from_fn(|| link.pop(u64::MAX)).collect()
    }

    #[test]
    fn a_good_link_changes_nothing_and_takes_its_time() {
        let mut link = Impairment::new(Plan { delay_ns: 50, ..Plan::default() });
        link.push(100, 'a');
        link.push(120, 'b');
        assert_eq!((link.next_at(), link.pop(149), link.pop(150)), (Some(150), None, Some('a')));
        assert_eq!((link.pop(150), link.pop(170), link.next_at()), (None, Some('b'), None));
    }

    #[test]
    fn shares_are_kept() {
        let lost =
            10_000 - arrivals(Plan { seed: 1, loss: 0.1, ..Plan::default() }, 4000).len() as i64 - 6000;
        assert!((300..500).contains(&lost), "{lost}");
        let twice = arrivals(Plan { seed: 1, duplicate: 0.25, ..Plan::default() }, 2000).len();
        assert!((2400..2600).contains(&twice), "{twice}");
        let mut order = arrivals(Plan { seed: 1, reorder: 0.1, delay_ns: 5000, ..Plan::default() }, 1000);
        let behind = order.windows(2).filter(|w| w[0] > w[1]).count();
        assert!((50..200).contains(&behind), "{behind}");
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_flood_is_dropped_and_counted() {
        let mut link = Impairment::new(Plan::default());
        (0..5000).for_each(|i| link.push(0, i));
        assert_eq!(link.dropped(), 5000 - Impairment::<i32>::CAPACITY as u64);
    }

    proptest! {
        #[test]
        fn equal_seeds_give_equal_fates(seed: u64, loss in 0.0..1.0, duplicate in 0.0..1.0, reorder in 0.0..1.0) {
            let plan = Plan { seed, loss, duplicate, reorder, delay_ns: 3000, jitter_ns: 2000 };
            prop_assert_eq!(arrivals(plan, 200), arrivals(plan, 200));
        }

        #[test]
        fn without_reordering_the_order_stays(seed: u64, jitter_ns in 0u64..1_000_000, loss in 0.0..1.0) {
            let order = arrivals(Plan { seed, loss, jitter_ns, ..Plan::default() }, 200);
            prop_assert!(order.is_sorted());
        }

        #[test]
        fn nothing_arrives_before_its_delay(seed: u64, jitter_ns in 0u64..1000, at in 0u64..1_000_000) {
            let mut link = Impairment::new(Plan { seed, delay_ns: 70, jitter_ns, reorder: 0.5, ..Plan::default() });
            link.push(at, ());
            prop_assert!(link.next_at().is_some_and(|due| due >= at + 70));
            prop_assert_eq!(link.pop(at + 69), None);
        }
    }
}
