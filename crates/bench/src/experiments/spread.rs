//! What rounds of calls come to: jitter and spread of blocks of calls.

use crate::blocks::{Series, range};
use crate::figure::Values;
use crate::stats::{Samples, median};
use crate::workload::RoleResult;

/// Calls that share one figure of jitter and spread. A virtual machine stalls for hundreds of
/// microseconds about once a second: of rounds of a second most would hold a stall, and the figures
/// would be the host's.
const BLOCK: usize = 20;

/// The rounds of one subject at one size.
#[derive(Default)]
pub(super) struct Rounds {
    latencies: Vec<u64>,
    low_calls: u64,
    ms: u32,
}

impl Rounds {
    /// Adds what a client did in so many milliseconds, and its low clients meanwhile.
    pub fn add(&mut self, ms: u32, high: &RoleResult, lows: &[RoleResult]) {
        self.ms += ms;
        self.latencies.extend(&high.latencies);
        self.low_calls += lows.iter().map(|low| low.calls).sum::<u64>();
    }

    /// The values of all calls; `jitter_ns` and `spread_ns` are medians over blocks.
    pub fn values(&self) -> Values {
        let mut series = Series::<()>::default();
        // Calls that fill no block count among the samples only.
        let (blocks, rest) = self.latencies.as_chunks::<BLOCK>();
        blocks.iter().for_each(|block| series.add(block.to_vec()));
        series.samples.extend(rest.iter().copied());
        let of_blocks = |value: fn(&[u64]) -> Option<u64>| {
            let each: Vec<u64> = blocks.iter().filter_map(|block| value(block)).collect();
            median(&each).map_or(f64::NAN, |ns| ns as f64)
        };
        let deviation = |block: &[u64]| {
            let samples: Samples = block.iter().copied().collect();
            Some(samples.summary().stddev_ns.round() as u64)
        };
        let mut values = series.values();
        values.push(("jitter_ns", of_blocks(deviation)));
        values.push(("spread_ns", of_blocks(range)));
        let seconds = f64::from(self.ms.max(1)) / 1000.0;
        values.push(("low_calls_per_s", (self.low_calls as f64 / seconds).round()));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rounds of two blocks each, with stalls in as many blocks as said.
    fn rounds(stalled: usize) -> Values {
        let mut rounds = Rounds::default();
        for turn in 0..3 {
            let mut latencies: Vec<u64> = (0..2 * BLOCK as u64).map(|i| 10 + i % 20).collect();
            for block in (0..2).filter(|block| turn * 2 + block < stalled) {
                latencies[block * BLOCK + 7] = 1_000_010;
            }
            // What is too little for a block in the end: not taken for one without jitter.
            if turn == 2 {
                latencies.extend([10; 3]);
            }
            let high = RoleResult { latencies, ..RoleResult::default() };
            let low = RoleResult { calls: 500, ..RoleResult::default() };
            rounds.add(1000, &high, &[low]);
        }
        rounds.values()
    }

    #[test]
    fn a_spread_is_the_median_of_those_of_the_blocks() {
        let of = |stalled: usize, name: &str| {
            rounds(stalled).into_iter().find(|(n, _)| *n == name).map_or(f64::NAN, |v| v.1)
        };
        assert_eq!((of(0, "spread_ns"), of(0, "low_calls_per_s"), of(0, "n")), (19.0, 500.0, 123.0));
        // A stall now and then does not decide, but is told; stalls all the time do.
        assert_eq!((of(2, "spread_ns"), of(2, "jitter_ns")), (19.0, of(0, "jitter_ns")));
        assert_eq!(of(2, "max_minus_min_ns"), 1_000_000.0);
        assert_eq!(of(5, "spread_ns"), 1_000_000.0);
        assert!(of(5, "jitter_ns") > 1000.0 * of(0, "jitter_ns"));
    }
}
