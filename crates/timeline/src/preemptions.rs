//! Puts pre-emptions into runs: from records of their begin and end to gaps.

use crate::rows::{Gap, Timeline};
use isorb_trace::RecordKind;
use std::collections::BTreeSet;

/// The pre-emptions of a recording. Rows are named by their indices.
#[derive(Default)]
pub(crate) struct Preemptions {
    /// The pre-empted row, the more urgent row, and when it began.
    begun: Vec<(usize, usize, u64)>,
    ended: Vec<(usize, Gap)>,
}

impl Preemptions {
    /// Adds a [`RecordKind::Preempt`] or [`RecordKind::Resume`] at `at`, counted from the
    /// timeline's start. `a` is the record's.
    pub(crate) fn add(&mut self, kind: RecordKind, row: usize, by: usize, at: u64, a: u64) {
        match kind {
            RecordKind::Preempt => self.begun.push((row, by, at)),
            _ => self.ended.push((row, Gap { from: at.saturating_sub(a), to: at, by })),
        }
    }

    /// Puts the gaps into the runs, which are in order. A pre-emption without a recorded end lasts
    /// to the end of the records if the more urgent run does. Otherwise the run was on another
    /// processor and lost nothing.
    pub(crate) fn into_gaps(self, timeline: &mut Timeline) {
        let known: BTreeSet<(usize, usize, u64)> =
            self.ended.iter().map(|(row, gap)| (*row, gap.by, gap.from)).collect();
        let span = timeline.span;
        let lasts = |by: usize, from: u64| {
            let last = timeline.rows[by].runs.last();
            last.is_some_and(|run| run.open && run.start >= from && run.end == span)
        };
        let open = self.begun.iter().filter(|begun| !known.contains(*begun));
        let open = open.filter(|(_, by, from)| lasts(*by, *from));
        let open: Vec<_> = open.map(|&(row, by, from)| (row, Gap { from, to: span, by })).collect();
        for (row, gap) in self.ended.into_iter().chain(open) {
            // A consumer has at most one run under way on each thread.
            let threads = timeline.threads.len();
            let runs = &mut timeline.rows[row].runs;
            let before = runs.partition_point(|run| run.start <= gap.from);
            let mut candidates = runs[..before].iter_mut().rev().take(threads + 1);
            if let Some(run) = candidates.find(|run| gap.to <= run.end)
                && !run.moved
            {
                run.gaps.push(gap);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{record, track};
    use isorb_trace::Recording;

    /// The threads of a low and a high consumer. `end`: argument `b` of the low run's end.
    fn recording(end: u64, resume: Option<u64>) -> Recording {
        let low = [record(10, RecordKind::Begin, 0, 1, 0, 0), record(90, RecordKind::End, 0, 1, 80, end)];
        let mut high = vec![
            record(20, RecordKind::Preempt, 0, 1, 2, 2),
            record(20, RecordKind::Begin, 2, 2, 0, 0),
            record(30, RecordKind::End, 2, 2, 10, 0),
        ];
        high.extend(resume.map(|at| record(at, RecordKind::Resume, 0, 1, at - 20, 2)));
        let tracks = vec![track("low", low.to_vec()), track("high", high)];
        Recording { tracks, ..Recording::default() }
    }

    fn gaps(recording: &Recording) -> Vec<Gap> {
        let timeline = Timeline::of("t", std::slice::from_ref(recording));
        let [high, low] = &timeline.rows[..] else { panic!("two rows") };
        assert!(high.runs.iter().all(|run| run.gaps.is_empty()));
        low.runs[0].gaps.clone()
    }

    #[test]
    fn a_preemption_between_threads_is_a_gap() {
        assert_eq!(gaps(&recording(0, Some(30))), [Gap { from: 10, to: 20, by: 0 }]);
        // Its beginning may have been overwritten.
        let mut cut = recording(0, Some(30));
        cut.tracks[1].records.remove(0);
        assert_eq!(gaps(&cut), [Gap { from: 10, to: 20, by: 0 }]);
    }

    #[test]
    fn a_run_without_resume_or_that_moved_has_no_gaps() {
        assert_eq!(gaps(&recording(0, None)), []);
        assert_eq!(gaps(&recording(2, Some(30))), []);
        let timeline = Timeline::of("t", &[recording(2, Some(30))]);
        assert!(timeline.rows[1].runs[0].moved && !timeline.rows[1].runs[0].failed);
        // A resume after the end of the run is not a gap.
        assert_eq!(gaps(&recording(0, Some(95))), []);
    }

    #[test]
    fn a_preemption_under_way_lasts_to_the_end_of_the_records() {
        let mut cut = recording(0, None);
        cut.tracks[0].records.pop();
        cut.tracks[1].records.pop();
        cut.tracks.push(track("other", vec![record(60, RecordKind::Timeout, 0, 1, 0, 0)]));
        assert_eq!(gaps(&cut), [Gap { from: 10, to: 50, by: 0 }]);
    }
}
