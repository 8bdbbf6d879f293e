//! Statistics of a row.

use crate::rows::Row;
use isorb_trace::RecordKind;

/// Statistics of a row. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Events pushed.
    pub pushes: u64,
    /// Runs.
    pub runs: u64,
    /// Median duration of a run.
    pub ran_p50: u64,
    /// Longest run.
    pub ran_max: u64,
    /// Median time from an event's arrival to the return of the run.
    pub response_p50: u64,
    /// The 99th percentile of the same time.
    pub response_p99: u64,
    /// The longest such time.
    pub response_max: u64,
    /// Runs that were pre-empted.
    pub preempted: u64,
    /// Runs that returned after their deadline.
    pub missed: u64,
    /// Events lost.
    pub dropped: u64,
}

impl Row {
    /// The statistics of this row. Runs that are not recorded completely are counted but not
    /// measured.
    pub fn summary(&self) -> Summary {
        let whole = || self.runs.iter().filter(|run| !run.open);
        let mut ran: Vec<u64> = whole().map(|run| run.end - run.start).collect();
        let mut response: Vec<u64> =
            whole().map(|run| (run.end - run.start).saturating_add(run.waited)).collect();
        ran.sort_unstable();
        response.sort_unstable();
        let marks = |kind| self.marks.iter().filter(|mark| mark.kind == kind).count() as u64;
        let runs = |of: fn(&crate::Run) -> bool| self.runs.iter().filter(|run| of(run)).count() as u64;
        Summary {
            pushes: marks(RecordKind::Push),
            runs: self.runs.len() as u64,
            ran_p50: percentile(&ran, 50),
            ran_max: percentile(&ran, 100),
            response_p50: percentile(&response, 50),
            response_p99: percentile(&response, 99),
            response_max: percentile(&response, 100),
            preempted: runs(|run| !run.gaps.is_empty()),
            missed: runs(|run| run.late > 0),
            dropped: marks(RecordKind::Drop),
        }
    }
}

/// The value that `percent` of the values do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::upcalls;
    use crate::{Run, Timeline};

    #[test]
    fn statistics_of_a_row() {
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
    fn percentiles() {
        let runs = (1..=200).map(|n| Run { end: n, ..Run::default() }).collect();
        let summary = Row { runs, ..Row::default() }.summary();
        assert_eq!((summary.ran_p50, summary.response_p99, summary.ran_max), (100, 198, 200));
        assert_eq!(Row::default().summary(), Summary::default());
    }
}
