//! Which push released which run.

use crate::rows::Timeline;
use isorb_trace::RecordKind;
use std::collections::BTreeMap;

impl Timeline {
    /// Finds the causes of runs. A channel reads its clock once for a push, and counts the waiting
    /// of the event from that time: the release of a run is the time of its push, to the
    /// nanosecond. Where pushes of two rows have the same time, the cause is not certain, and none
    /// is given.
    pub(crate) fn find_causes(&mut self) {
        // `None` for a time that two rows share.
        let mut pushes: BTreeMap<(usize, u64), Option<usize>> = BTreeMap::new();
        for (index, row) in self.rows.iter().enumerate() {
            for push in row.marks.iter().filter(|mark| mark.kind == RecordKind::Push) {
                let known = pushes.entry((row.channel, push.at)).or_insert(Some(index));
                *known = known.filter(|known| *known == index);
            }
        }
        for row in &mut self.rows {
            let channel = row.channel;
            // Of an open run the beginning may be lost, and with it the release.
            for run in row.runs.iter_mut().filter(|run| !run.open) {
                let released = run.start.checked_sub(run.waited);
                run.cause = released.and_then(|at| *pushes.get(&(channel, at))?);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Timeline;
    use crate::rows::tests::{record, track};
    use isorb_trace::{RecordKind, Recording};

    #[test]
    fn a_push_at_the_time_of_the_release_is_the_cause_unless_two_are() {
        let push = |at, supplier| record(at, RecordKind::Push, 0, supplier, 0, 0);
        let run = |begin, waited| {
            let begin = record(begin, RecordKind::Begin, 1, 9, waited, 0);
            [begin, record(begin.at + 5, RecordKind::End, 1, 9, 5, 0)]
        };
        let records = [run(110, 10), run(220, 20), run(330, 29)].concat();
        let tracks = vec![
            track("pushers", vec![push(100, 1), push(100, 1), push(200, 1), push(200, 2), push(300, 1)]),
            track("worker", records),
        ];
        let timeline = Timeline::of("t", &[Recording { tracks, ..Recording::default() }]);
        let causes: Vec<_> = timeline.rows[2].runs.iter().map(|run| run.cause).collect();
        assert_eq!(timeline.rows[0].name, "supplier 1");
        assert_eq!(causes, [Some(0), None, None]);
    }
}
