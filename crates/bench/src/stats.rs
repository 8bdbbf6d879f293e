//! Distributions of samples, and their ratio to a control that was measured at the same time.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Samples in nanoseconds. Minimum, mean, deviation and maximum are exact; percentiles to three
/// digits.
#[derive(Clone, Debug)]
pub struct Samples {
    histogram: Histogram<u64>,
    // Welford's running mean and sum of squared distances: the histogram's own would be rounded to
    // its buckets.
    mean: f64,
    squares: f64,
    min: u64,
    max: u64,
}

/// What a table says of [`Samples`]. All times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    pub n: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    /// Standard deviation of the samples.
    pub stddev_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    /// Not in the lines of `two-way`, which have a fixed set of fields.
    #[serde(skip)]
    pub p9999_ns: u64,
    pub max_ns: u64,
}

impl Samples {
    /// None yet.
    pub fn new() -> Samples {
        Samples { histogram: empty_histogram(), mean: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }

    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        let away = ns as f64 - self.mean;
        self.mean += away / self.histogram.len() as f64;
        self.squares += away * (ns as f64 - self.mean);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Those of another as well.
    pub fn join(&mut self, more: &Samples) {
        let (ours, theirs) = (self.histogram.len() as f64, more.histogram.len() as f64);
        if theirs == 0.0 {
            return;
        }
        let away = more.mean - self.mean;
        self.squares += more.squares + away * away * ours * theirs / (ours + theirs);
        self.mean += away * theirs / (ours + theirs);
        // Both have the same buckets.
        let _ = self.histogram.add(&more.histogram);
        self.min = self.min.min(more.min);
        self.max = self.max.max(more.max);
    }

    /// The figures; all zero if there is no sample.
    pub fn summary(&self) -> Summary {
        let n = self.histogram.len();
        if n == 0 {
            return Summary::default();
        }
        // The histogram answers with the end of a bucket, which may lie beyond what was seen.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(self.min, self.max);
        Summary {
            n,
            min_ns: self.min,
            mean_ns: self.mean,
            stddev_ns: if n < 2 { 0.0 } else { (self.squares / (n - 1) as f64).sqrt() },
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: self.max,
        }
    }
}

impl Summary {
    /// With mean and deviation to a tenth of a nanosecond.
    pub fn rounded(self) -> Summary {
        let tenth = |ns: f64| (ns * 10.0).round() / 10.0;
        Summary { mean_ns: tenth(self.mean_ns), stddev_ns: tenth(self.stddev_ns), ..self }
    }
}

impl Default for Samples {
    fn default() -> Self {
        Samples::new()
    }
}

impl Extend<u64> for Samples {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, samples: I) {
        samples.into_iter().for_each(|ns| self.add(ns));
    }
}

impl FromIterator<u64> for Samples {
    fn from_iter<I: IntoIterator<Item = u64>>(samples: I) -> Self {
        let mut all = Samples::new();
        all.extend(samples);
        all
    }
}

/// The median of a block of samples, exact; `None` of an empty one.
pub fn median(samples: &[u64]) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The median over rounds of `subject`'s block median over `control`'s of the same round.
///
/// A machine that changes its speed between rounds changes both medians of a round, so this moves
/// far less than the ratio of the two overall medians. Rounds in which one of them is missing are
/// left out; `None` if that leaves none.
pub fn ratio_of_medians(subject: &[Option<u64>], control: &[Option<u64>]) -> Option<f64> {
    let mut ratios: Vec<f64> = subject
        .iter()
        .zip(control)
        .filter_map(|(s, c)| Some((*s)? as f64 / (*c).filter(|&c| c > 0)? as f64))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let high = *ratios.get(ratios.len() / 2)?;
    Some(if ratios.len() % 2 == 1 { high } else { (ratios[ratios.len() / 2 - 1] + high) / 2.0 })
}

fn empty_histogram() -> Histogram<u64> {
    // A minute is longer than any block may take.
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are constants in order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_samples() {
        let mut samples = Samples::new();
        samples.extend(1..=1000);
        let s = samples.summary();
        assert_eq!((s.n, s.min_ns, s.max_ns), (1000, 1, 1000));
        assert_eq!((s.p50_ns, s.p99_ns, s.p999_ns), (500, 990, 999));
        assert!((s.mean_ns - 500.5).abs() < 1e-9);
        // The variance of 1..=n, with n - 1, is n (n + 1) / 12.
        assert!((s.stddev_ns - (1000.0f64 * 1001.0 / 12.0).sqrt()).abs() < 1e-6);
    }

    #[test]
    fn joined_samples_are_as_if_they_had_been_added() {
        let (some, others) = ([3_u64, 900, 40_000], [70_u64, 5, 1_000_000, 12]);
        let mut joined = Samples::new();
        for part in [&some[..], &[], &others[..]] {
            let mut more = Samples::new();
            more.extend(part.iter().copied());
            joined.join(&more);
        }
        let mut all = Samples::new();
        all.extend(some.into_iter().chain(others));
        let (joined, all) = (joined.summary(), all.summary());
        assert!((joined.mean_ns - all.mean_ns).abs() < 1e-6);
        assert!((joined.stddev_ns - all.stddev_ns).abs() < 1e-3);
        assert_eq!((joined.n, joined.min_ns, joined.max_ns, joined.p50_ns), (7, 3, 1_000_000, all.p50_ns));
    }

    #[test]
    fn percentiles_stay_within_what_was_seen() {
        let mut samples = Samples::new();
        samples.extend([14_503, 14_503]);
        let s = samples.summary();
        assert_eq!((s.p50_ns, s.p999_ns, s.max_ns), (14_503, 14_503, 14_503));
        assert_eq!(s.stddev_ns, 0.0);
    }

    #[test]
    fn nothing_and_too_much() {
        assert_eq!(Samples::new().summary(), Summary::default());
        let mut samples = Samples::new();
        samples.extend([0, 100_000_000_000]);
        assert_eq!((samples.summary().min_ns, samples.summary().max_ns), (0, 100_000_000_000));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5]), Some(5));
        assert_eq!(median(&[9, 1, 5]), Some(5));
        assert_eq!(median(&[4, 1, 3, 2]), Some(2));
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The machine halves its speed after the second round: round by round, the subject is at
        // 1.5.
        let control = [Some(10), Some(10), Some(20), Some(20), Some(20)];
        let subject = [Some(15), Some(15), Some(30), Some(30), None];
        assert_eq!(ratio_of_medians(&subject, &control), Some(1.5));
        assert_eq!(ratio_of_medians(&[Some(3), Some(4)], &[Some(2), Some(2)]), Some(1.75));
        assert_eq!(ratio_of_medians(&[Some(3)], &[Some(0)]), None);
        assert_eq!(ratio_of_medians(&[], &[]), None);
    }
}
