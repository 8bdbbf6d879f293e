//! What rounds of calls come to: jitter and spread of blocks of calls, and how many times as far
//! calls spread as others do, with how sure that is.

use crate::claim::{Cells, most};
use crate::figure::{Values, times};
use crate::stats::{Samples, Summary, median};
use crate::workload::RoleResult;

/// Calls that share one figure of jitter and spread. A virtual machine stalls for hundreds of
/// microseconds about once a second: of rounds of a second most would hold a stall, and the figures
/// would be the host's.
const BLOCK: usize = 20;
/// Sets of rounds that are drawn for an interval.
const DRAWN: usize = 1000;

/// What the rounds of one subject at one size came to.
#[derive(Default)]
pub(super) struct Rounds {
    /// Of the high client, of each round in their order.
    latencies: Vec<Vec<u64>>,
    low_calls: u64,
    ms: u32,
}

impl Rounds {
    /// A round of so many milliseconds. The high client is the first.
    pub fn add(&mut self, ms: u32, results: &[RoleResult]) {
        let [high, lows @ ..] = results else { return };
        self.ms += ms;
        self.latencies.push(high.latencies.clone());
        self.low_calls += lows.iter().map(|low| low.calls).sum::<u64>();
    }

    pub fn values(&self) -> Values {
        let all = self.latencies.concat();
        let blocks: Vec<_> = all.chunks_exact(BLOCK).map(summary).collect();
        let of_blocks = |value: fn(&Summary) -> u64| {
            let each: Vec<u64> = blocks.iter().map(value).collect();
            median(&each).map_or(f64::NAN, |ns| ns as f64)
        };
        // Calls that fill no block count among the samples only.
        let mut values = times(&summary(&all));
        values.push(("jitter_ns", of_blocks(|block| block.stddev_ns.round() as u64)));
        values.push(("spread_ns", spread(&all)));
        let seconds = f64::from(self.ms.max(1)) / 1000.0;
        values.push(("low_calls_per_s", (self.low_calls as f64 / seconds).round()));
        values
    }

    /// The calls of these rounds, one after another.
    fn of(&self, rounds: &[usize]) -> Vec<u64> {
        rounds.iter().filter_map(|&round| self.latencies.get(round)).flatten().copied().collect()
    }
}

fn summary(latencies: &[u64]) -> Summary {
    let mut samples = Samples::default();
    samples.extend(latencies.iter().copied());
    samples.summary()
}

/// The median over the blocks of the longest less the shortest of a block's calls.
fn spread(latencies: &[u64]) -> f64 {
    let of_block = |block: &[u64]| Some(block.iter().max()? - block.iter().min()?);
    let each: Vec<u64> = latencies.chunks_exact(BLOCK).filter_map(of_block).collect();
    median(&each).map_or(f64::NAN, |ns| ns as f64)
}

/// How many times as much, and between which bounds that surely is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Times {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// How many times as far as `alone` the calls of `beside` spread, of rounds that took turns. The
/// interval is that of a bootstrap: calls of a round are alike in what the machine did meanwhile,
/// so rounds are drawn and not calls, and those that took turns are drawn together.
pub(super) fn times_alone(beside: &Rounds, alone: &Rounds) -> Times {
    let rounds = beside.latencies.len().min(alone.latencies.len());
    let of = |drawn: &[usize]| spread(&beside.of(drawn)) / spread(&alone.of(drawn)).max(1.0);
    let all: Vec<usize> = (0..rounds).collect();
    // Xorshift, always from the same seed: the same samples come to the same interval.
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 33) as usize % rounds.max(1)
    };
    let mut drawn: Vec<f64> =
        (0..DRAWN).map(|_| of(&(0..rounds).map(|_| draw()).collect::<Vec<_>>())).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let [low, high] = [25, DRAWN - 26].map(|at| drawn[at]);
    let value = of(&all);
    // Of few and skewed rounds the value itself may lie beyond either end; an interval without it
    // would be too narrow.
    Times { value, low: low.min(value), high: high.max(value) }
}

impl Times {
    pub fn values(self) -> Values {
        vec![("times", self.value), ("times_low", self.low), ("times_high", self.high)]
    }

    /// The geometric mean of several that were taken independently of each other, the distances of
    /// its bounds by the sum of squares. Not a number of none.
    fn mean(of: &[Times]) -> Times {
        let n = of.len() as f64;
        let value = of.iter().map(|times| times.value.ln()).sum::<f64>() / n;
        let distance = |bound: fn(&Times) -> f64| {
            of.iter().map(|times| (bound(times) / times.value).ln().powi(2)).sum::<f64>().sqrt() / n
        };
        Times {
            value: value.exp(),
            low: (value - distance(|times| times.low)).exp(),
            high: (value + distance(|times| times.high)).exp(),
        }
    }
}

/// How many times as far a subject's calls spread, over the sizes of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OverSizes {
    /// Of all sizes.
    pub mean: Times,
    /// At the size at which it is largest.
    pub worst: f64,
    /// What it surely is at some size: the largest of the lower bounds.
    pub surely: f64,
}

/// NaN of a subject that was not measured.
pub(super) fn over_sizes(r: &dyn Cells, figure: &str, subject: &str) -> OverSizes {
    let [values, lows, highs] =
        ["times", "times_low", "times_high"].map(|name| r.values(figure, subject, name));
    let bounds = values.iter().zip(&lows).zip(&highs);
    let each: Vec<Times> = bounds.map(|((&value, &low), &high)| Times { value, low, high }).collect();
    OverSizes { mean: Times::mean(&each), worst: most(values), surely: most(lows) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Row;

    fn round(latencies: Vec<u64>) -> RoleResult {
        let n = latencies.len() as u64;
        RoleResult { calls: n, due: n, in_time: n, latencies, parts: vec![] }
    }

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
            let low = RoleResult { calls: 500, due: 500, in_time: 500, latencies: vec![], parts: vec![] };
            rounds.add(1000, &[round(latencies), low]);
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

    /// Rounds of four blocks with these spreads of calls.
    fn spreading(spreads: &[u64]) -> Rounds {
        let mut rounds = Rounds::default();
        for &spread in spreads {
            let latencies = (0..4 * BLOCK as u64).map(|i| 10_000 + i % BLOCK as u64 * spread / 19).collect();
            rounds.add(100, &[round(latencies)]);
        }
        rounds
    }

    #[test]
    fn an_interval_says_how_much_rounds_differ() {
        let steady = times_alone(&spreading(&[3000; 8]), &spreading(&[1000; 8]));
        assert_eq!(steady, Times { value: 3.0, low: 3.0, high: 3.0 });
        // Three in eight rounds were disturbed: three times as far is possible, and so is as far as
        // without them.
        let beside = spreading(&[1000, 3000, 1000, 3000, 1000, 1000, 3000, 1000]);
        let unsure = times_alone(&beside, &spreading(&[1000; 8]));
        assert_eq!(unsure, Times { value: 1.0, low: 1.0, high: 3.0 });
        // What disturbs both of a turn makes no difference, however much it is.
        let alike = [1000, 30_000, 1000, 30_000, 1000, 1000, 30_000, 1000];
        assert_eq!(
            times_alone(&spreading(&alike), &spreading(&alike)),
            Times { value: 1.0, low: 1.0, high: 1.0 }
        );
        assert!(times_alone(&Rounds::default(), &Rounds::default()).value.is_nan());
    }

    #[test]
    fn sizes_are_taken_together() {
        let row = |x, [value, low, high]: [f64; 3]| {
            let values = Times { value, low, high }.values();
            Row { figure: "f", subject: "s", x, values }
        };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let one = over_sizes(&vec![row(0.0, [2.0, 1.0, 4.0])], "f", "s");
        assert!(near(one.mean.value, 2.0) && near(one.mean.low, 1.0) && near(one.mean.high, 4.0));
        let rows = vec![row(0.0, [1.0, 0.5, 2.0]), row(1.0, [4.0, 2.0, 8.0])];
        let both = over_sizes(&rows, "f", "s");
        assert!(near(both.mean.value, 2.0) && near(both.mean.high, 2.0 * 2f64.powf(0.5f64.sqrt())));
        assert!(near(both.mean.low * both.mean.high, 4.0), "it is surer than one of them");
        assert_eq!((both.worst, both.surely), (4.0, 2.0));
        assert!(over_sizes(&rows, "f", "other").mean.value.is_nan());
    }
}
