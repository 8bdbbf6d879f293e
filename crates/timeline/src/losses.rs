//! Who lost the processor to whom: from records of two moments to gaps in runs.

use crate::rows::{Gap, Timeline};
use isorb_event::trace::What;
use std::collections::BTreeSet;

/// What the records of a recording say of pre-emptions. Rows are meant by their places.
#[derive(Default)]
pub(crate) struct Losses {
    /// Whose run, to whom, from when.
    begun: Vec<(usize, usize, u64)>,
    ended: Vec<(usize, Gap)>,
}

impl Losses {
    /// A record of either kind, at `at` since the timeline's start; `a` as it stands in the record.
    pub(crate) fn note(&mut self, what: What, place: usize, by: usize, at: u64, a: u64) {
        match what {
            What::Preempt => self.begun.push((place, by, at)),
            _ => self.ended.push((place, Gap { from: at.saturating_sub(a), to: at, by })),
        }
    }

    /// Puts the gaps into the runs, which are in order. A pre-emption whose end was not recorded lasts to the end of the records, if the more
    /// urgent run does so too; else the pre-empted one was somewhere else, and lost nothing.
    pub(crate) fn into_gaps(self, timeline: &mut Timeline) {
        let known: BTreeSet<(usize, usize, u64)> =
            self.ended.iter().map(|(place, gap)| (*place, gap.by, gap.from)).collect();
        let span = timeline.span;
        let lasts = |by: usize, from: u64| {
            let last = timeline.rows[by].runs.last();
            last.is_some_and(|run| run.open && run.start >= from && run.end == span)
        };
        let open = self.begun.iter().filter(|lost| !known.contains(*lost));
        let open = open.filter(|(_, by, from)| lasts(*by, *from));
        let open: Vec<_> = open.map(|&(place, by, from)| (place, Gap { from, to: span, by })).collect();
        for (place, gap) in self.ended.into_iter().chain(open) {
            // Of one consumer's runs no more than there are threads are under way at a time.
            let threads = timeline.threads.len();
            let runs = &mut timeline.rows[place].runs;
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
    use crate::recording::Recording;
    use crate::rows::tests::{record, track};

    /// A low consumer's thread and a high one's.
    fn recording(end: u64, resume: Option<u64>) -> Recording {
        let low = [record(10, What::Begin, 0, 1, 0, 0), record(90, What::End, 0, 1, 80, end)];
        let mut high = vec![
            record(20, What::Preempt, 0, 1, 2, 2),
            record(20, What::Begin, 2, 2, 0, 0),
            record(30, What::End, 2, 2, 10, 0),
        ];
        high.extend(resume.map(|at| record(at, What::Resume, 0, 1, at - 20, 2)));
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
    fn a_loss_between_threads_is_a_gap() {
        assert_eq!(gaps(&recording(0, Some(30))), [Gap { from: 10, to: 20, by: 0 }]);
        // Its beginning may have been overwritten.
        let mut cut = recording(0, Some(30));
        cut.tracks[1].records.remove(0);
        assert_eq!(gaps(&cut), [Gap { from: 10, to: 20, by: 0 }]);
    }

    #[test]
    fn who_got_nothing_back_or_moved_lost_nothing_that_is_known() {
        assert_eq!(gaps(&recording(0, None)), []);
        assert_eq!(gaps(&recording(2, Some(30))), []);
        let timeline = Timeline::of("t", &[recording(2, Some(30))]);
        assert!(timeline.rows[1].runs[0].moved && !timeline.rows[1].runs[0].failed);
        // Nor does one lose anything after its end, whatever a file says.
        assert_eq!(gaps(&recording(0, Some(95))), []);
    }

    #[test]
    fn a_loss_under_way_lasts_to_the_end_of_the_records() {
        let mut cut = recording(0, None);
        cut.tracks[0].records.pop();
        cut.tracks[1].records.pop();
        cut.tracks.push(track("other", vec![record(60, What::Timeout, 0, 1, 0, 0)]));
        assert_eq!(gaps(&cut), [Gap { from: 10, to: 50, by: 0 }]);
    }
}
