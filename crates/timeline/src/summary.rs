//! A row in numbers.

use crate::rows::Row;
use isorb_event::trace::What;

/// What a row's runs and marks come to. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Events pushed.
    pub pushes: u64,
    /// Runs.
    pub runs: u64,
    /// How long the middle run took.
    pub ran_p50: u64,
    /// How long the longest took.
    pub ran_max: u64,
    /// From the event's arrival to the return, in the middle.
    pub response_p50: u64,
    /// The longest of a hundred, but for one.
    pub response_p99: u64,
    /// The longest.
    pub response_max: u64,
    /// Runs that were pre-empted.
    pub preempted: u64,
    /// Runs that returned after their deadline.
    pub missed: u64,
    /// Events lost.
    pub dropped: u64,
}

impl Row {
    /// The row in numbers. Runs that are not recorded from begin to end are counted, and not measured.
    pub fn summary(&self) -> Summary {
        let whole = || self.runs.iter().filter(|run| !run.open);
        let mut ran: Vec<u64> = whole().map(|run| run.end - run.start).collect();
        let mut response: Vec<u64> =
            whole().map(|run| (run.end - run.start).saturating_add(run.waited)).collect();
        ran.sort_unstable();
        response.sort_unstable();
        let marks = |what| self.marks.iter().filter(|mark| mark.what == what).count() as u64;
        let runs = |of: fn(&crate::Run) -> bool| self.runs.iter().filter(|run| of(run)).count() as u64;
        Summary {
            pushes: marks(What::Push),
            runs: self.runs.len() as u64,
            ran_p50: at(&ran, 50),
            ran_max: at(&ran, 100),
            response_p50: at(&response, 50),
            response_p99: at(&response, 99),
            response_max: at(&response, 100),
            preempted: runs(|run| !run.gaps.is_empty()),
            missed: runs(|run| run.late > 0),
            dropped: marks(What::Drop),
        }
    }
}

/// The value that so many of a hundred do not exceed.
fn at(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::upcalls;
    use crate::{Run, Timeline};

    #[test]
    fn a_row_in_numbers() {
        let timeline = Timeline::of("t", &[upcalls()]);
        let slow = timeline.rows[2].summary();
        assert_eq!((slow.runs, slow.missed, slow.preempted, slow.dropped), (1, 1, 1, 0));
        assert_eq!(
            (slow.ran_p50, slow.ran_max, slow.response_p50, slow.response_max),
            (2_500, 2_500, 3_000, 3_000)
        );
        assert_eq!(timeline.rows[0].summary().pushes, 1);
    }

    #[test]
    fn the_middle_and_the_end() {
        let runs = (1..=200).map(|n| Run { end: n, ..Run::default() }).collect();
        let summary = Row { runs, ..Row::default() }.summary();
        assert_eq!((summary.ran_p50, summary.response_p99, summary.ran_max), (100, 198, 200));
        assert_eq!(Row::default().summary(), Summary::default());
    }
}
