//! What the steady processes had of the machine over time, and whether it stayed flat.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::faults::daemon::Usage;
use crate::faults::subjects::Subject;

/// The samples of each service, with the time since the start.
#[derive(Clone, Debug, Default)]
pub struct Samples(BTreeMap<Subject, Vec<(Duration, Usage)>>);

/// A quantity of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    Resident,
    Descriptors,
    Threads,
}

/// The medians of a quantity in the second, the third and the last quarter of the time.
///
/// The first quarter is left out: pools and caches fill then. Medians do not see what comes and
/// goes with a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growth {
    pub subject: Subject,
    pub quantity: Quantity,
    pub before: u64,
    pub third: u64,
    pub after: u64,
}

/// The cache of a store in octets. One with much more than that in its file needs longer than a
/// quarter of an hour to fill it.
const CACHE: u64 = 16 << 20;

impl Quantity {
    const ALL: [Quantity; 3] = [Quantity::Resident, Quantity::Descriptors, Quantity::Threads];

    fn of(self, usage: &Usage) -> u64 {
        match self {
            Quantity::Resident => usage.resident,
            Quantity::Descriptors => usage.descriptors,
            Quantity::Threads => usage.threads,
        }
    }

    /// The growth that is still flat.
    fn allowed(self, before: u64) -> u64 {
        match self {
            Quantity::Resident => (before / 20).max(2 << 20),
            Quantity::Descriptors => 8,
            Quantity::Threads => 4,
        }
    }

    /// As tables and plots show it.
    pub fn shown(self, value: u64) -> f64 {
        match self {
            Quantity::Resident => value as f64 / f64::from(1 << 20),
            Quantity::Descriptors | Quantity::Threads => value as f64,
        }
    }
}

impl Growth {
    /// Whether it grew by no more than is allowed: 5 % or 2 MiB of memory, 8 descriptors, 4
    /// threads. A store's cache may still fill in the third quarter: in half the time half as much
    /// is allowed.
    pub fn is_flat(&self) -> bool {
        let allowed = self.quantity.allowed(self.before);
        let is_full = self.quantity == Quantity::Resident
            && self.after <= self.before + CACHE
            && self.after <= self.third + allowed / 2;
        self.after <= self.before + allowed || is_full
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, unit) = match self.quantity {
            Quantity::Resident => ("resident memory", " MiB"),
            Quantity::Descriptors => ("descriptors", ""),
            Quantity::Threads => ("threads", ""),
        };
        let [before, after] = [self.before, self.after].map(|value| self.quantity.shown(value));
        write!(f, "{}: {what} {before:.1} -> {after:.1}{unit}", self.subject)
    }
}

impl Samples {
    /// Adds one.
    pub fn add(&mut self, subject: Subject, at: Duration, usage: Usage) {
        self.0.entry(subject).or_default().push((at, usage));
    }

    /// All, by service.
    pub fn iter(&self) -> impl Iterator<Item = (Subject, &[(Duration, Usage)])> {
        self.0.iter().map(|(subject, samples)| (*subject, &**samples))
    }

    /// The growth of each quantity of each service with at least eight samples.
    pub fn judge(&self) -> Vec<Growth> {
        let mut all = Vec::new();
        for (&subject, samples) in self.0.iter().filter(|(_, samples)| samples.len() >= 8) {
            let quarter = samples.len() / 4;
            let second = &samples[quarter..2 * quarter];
            let (third, last) = samples[2 * quarter..].split_at(samples.len() - 3 * quarter);
            all.extend(Quantity::ALL.map(|quantity| {
                let [before, third, after] = [second, third, last].map(|part| median(part, quantity));
                Growth { subject, quantity, before, third, after }
            }));
        }
        all
    }
}

fn median(part: &[(Duration, Usage)], quantity: Quantity) -> u64 {
    let mut values: Vec<u64> = part.iter().map(|(_, usage)| quantity.of(usage)).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(resident: impl Fn(u64) -> u64, threads: impl Fn(u64) -> u64) -> Vec<bool> {
        let mut samples = Samples::default();
        for second in 0..100 {
            let usage = Usage { resident: resident(second), descriptors: 9, threads: threads(second) };
            samples.add(Subject::Naming, Duration::from_secs(second), usage);
        }
        samples.judge().iter().map(Growth::is_flat).collect()
    }

    #[test]
    fn warming_up_and_peaks_are_flat_and_leaks_are_not() {
        const MIB: u64 = 1 << 20;
        assert_eq!(judged(|_| 40 * MIB, |_| 7), [true, true, true]);
        assert_eq!(judged(|at| if at < 20 { MIB } else { 40 * MIB }, |_| 7), [true, true, true]);
        assert_eq!(judged(|at| if at % 9 == 0 { 90 * MIB } else { 40 * MIB }, |_| 7), [true, true, true]);
        assert_eq!(judged(|at| 40 * MIB + at * MIB / 4, |_| 7), [false, true, true]);
        // More than the least leak that two quarters show.
        assert_eq!(judged(|at| 20 * MIB + at * MIB / 20, |_| 7), [false, true, true]);
        assert_eq!(judged(|at| 20 * MIB + at.min(50) * MIB / 5, |_| 7), [true, true, true], "a cache");
        assert_eq!(judged(|at| 20 * MIB + at.min(50) * 2 * MIB, |_| 7), [false, true, true], "more");
        assert_eq!(judged(|_| 40 * MIB, |at| 7 + at / 10), [true, true, false]);
        assert!(Samples::default().judge().is_empty());
    }
}
