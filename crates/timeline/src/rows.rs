//! Builds rows of runs and marks from records.

use crate::clocks::{self, Clock};
use crate::preemptions::Preemptions;
use isorb_trace::{Record, RecordKind, Recording, Role, Track};
use std::collections::BTreeMap;

/// The runs and marks of some recordings, row by row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// The title of the page.
    pub title: String,
    /// When the first thing happened, in nanoseconds of the channels' clock. All other times are
    /// relative to it.
    pub start: u64,
    /// The time from the first record to the last, in nanoseconds.
    pub span: u64,
    /// The channels' names.
    pub channels: Vec<String>,
    /// The threads' names.
    pub threads: Vec<String>,
    /// Channel by channel, the most urgent row first.
    pub rows: Vec<Row>,
    /// Records that were lost or overwritten.
    pub lost: u64,
    /// Intervals with a caption.
    pub phases: Vec<Phase>,
    /// Consumers that were not admitted.
    pub refused: Vec<Refusal>,
    /// By channel, how its clock was put on the axis of the first; `None` for one that is taken to
    /// read the same clock.
    pub clocks: Vec<Option<Clock>>,
}

/// An interval of a channel with a caption, such as "GPS silent".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// The index of its channel.
    pub channel: usize,
    /// Its start.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// What is special about it.
    pub caption: String,
}

/// A consumer that a channel did not admit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The index of the channel.
    pub channel: usize,
    /// Its name.
    pub name: String,
    /// Why it was refused.
    pub why: String,
}

/// A supplier, a consumer, or both under one name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The index of its channel.
    pub channel: usize,
    /// It supplies.
    pub supplier: bool,
    /// It consumes.
    pub consumer: bool,
    /// Its priority level, counted from the least urgent; 0 for a supplier only.
    pub level: u8,
    /// Its runs, in order of their beginning.
    pub runs: Vec<Run>,
    /// Its pushes, queueings, time-outs and preemptions, in order.
    pub marks: Vec<Mark>,
}

/// A call of a consumer. Times are in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// When it began.
    pub start: u64,
    /// When it returned, or where the records end.
    pub end: u64,
    /// How long its event had waited: it was released so long before `start`.
    pub waited: u64,
    /// The index of its thread.
    pub thread: usize,
    /// How long after its deadline it returned; 0 if it met it or had none.
    pub late: u64,
    /// When it should have returned, if it has a deadline that the records or its consumer tell.
    pub deadline: Option<u64>,
    /// The index of the row of the push that released it; `None` if a timer did, or if it is not
    /// certain.
    pub cause: Option<usize>,
    /// Processor time used and declared, if it used more than it declared.
    pub overran: Option<(u64, u64)>,
    /// The consumer failed.
    pub failed: bool,
    /// Its end, or its beginning, is not recorded.
    pub open: bool,
    /// Its thread changed the processor during the run, so its pre-emptions are unknown.
    pub moved: bool,
    /// The intervals in which it was pre-empted.
    pub gaps: Vec<Gap>,
}

/// An interval of a run in which a more urgent consumer ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Its start.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// The index of the more urgent consumer's row.
    pub by: usize,
}

/// Something without duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// When.
    pub at: u64,
    /// A push, a queued event, a time-out or a loss.
    pub kind: RecordKind,
    /// See [`RecordKind`].
    pub a: u64,
    /// See [`RecordKind`].
    pub b: u64,
}

type Key = (usize, Role, u32);

impl Timeline {
    /// The timeline of recordings that share a clock: channels of one process, or of several
    /// processes on one machine. Channels of a federation on other hosts are put on the axis of the
    /// first recording by what its members knew of each other's clocks ([`Clock`]).
    pub fn of(title: impl Into<String>, recordings: &[Recording]) -> Timeline {
        let (clocks, shifted) = clocks::on_one_axis(recordings);
        let recordings = &*shifted;
        let records = || recordings.iter().flat_map(|r| &r.tracks).flat_map(|track| &track.records);
        let start = records().map(begin_of).min().unwrap_or(0);
        let end = records().map(|r| r.at).max().unwrap_or(0);
        let mut timeline = Timeline {
            title: title.into(),
            start,
            span: end - start,
            channels: recordings.iter().map(|r| r.name.clone()).collect(),
            clocks,
            lost: recordings
                .iter()
                .flat_map(|r| r.tracks.iter().map(|t| t.overwritten).chain([r.lost]))
                .fold(0, u64::saturating_add),
            ..Timeline::default()
        };
        let row_indices = timeline.add_rows(recordings);
        timeline.add_captions(recordings);
        let mut preemptions = Preemptions::default();
        for (channel, recording) in recordings.iter().enumerate() {
            let consumers = recording.participants.iter().filter(|one| one.role == Role::Consumer);
            let deadlines = consumers.filter_map(|one| Some((one.id, one.deadline?))).collect();
            for track in &recording.tracks {
                let thread = timeline.threads.len();
                timeline.threads.push(track.thread.clone());
                Reader {
                    timeline: &mut timeline,
                    row_indices: &row_indices,
                    preemptions: &mut preemptions,
                    deadlines: &deadlines,
                    channel,
                    thread,
                }
                .read(track);
            }
        }
        timeline.rows.iter_mut().for_each(|row| {
            row.runs.sort_by_key(|run| run.start);
            row.marks.sort_by_key(|mark| mark.at);
        });
        timeline.find_causes();
        preemptions.into_gaps(&mut timeline);
        timeline.rows.iter_mut().flat_map(|row| &mut row.runs).for_each(|run| normalize(&mut run.gaps));
        timeline
    }

    /// Adds phases and refusals. Phases that are over before the first record are left out.
    fn add_captions(&mut self, recordings: &[Recording]) {
        for (channel, recording) in recordings.iter().enumerate() {
            for phase in &recording.phases {
                let from = phase.from.saturating_sub(self.start);
                if let Some(to) = phase.to.checked_sub(self.start).filter(|to| *to > from) {
                    self.phases.push(Phase { channel, from, to, caption: phase.caption.clone() });
                }
            }
            let refusal = |one: &isorb_trace::Refusal| Refusal {
                channel,
                name: one.name.clone(),
                why: one.why.clone(),
            };
            self.refused.extend(recording.refused.iter().map(refusal));
        }
    }

    /// Makes the rows. Returns the row index of each participant.
    fn add_rows(&mut self, recordings: &[Recording]) -> BTreeMap<Key, usize> {
        let mut levels: BTreeMap<Key, u8> = BTreeMap::new();
        let mut names = BTreeMap::new();
        for (channel, recording) in recordings.iter().enumerate() {
            for participant in &recording.participants {
                levels.entry((channel, participant.role, participant.id)).or_default();
                names.insert((channel, participant.role, participant.id), participant.name.clone());
            }
            for record in recording.tracks.iter().flat_map(|track| &track.records) {
                let level = levels.entry(key(channel, record)).or_default();
                *level = record.level.max(*level);
            }
        }
        let mut rows: BTreeMap<(usize, String), (Row, Vec<Key>)> = BTreeMap::new();
        for (key, level) in levels {
            let (channel, role, id) = key;
            let name = names.remove(&key).unwrap_or_else(|| match role {
                Role::Supplier => format!("supplier {id}"),
                Role::Consumer => format!("consumer {id}"),
            });
            let (row, keys) = rows.entry((channel, name.clone())).or_default();
            row.name = name;
            row.channel = channel;
            row.level = row.level.max(level);
            row.supplier |= role == Role::Supplier;
            row.consumer |= role == Role::Consumer;
            keys.push(key);
        }
        let mut rows: Vec<(Row, Vec<Key>)> = rows.into_values().collect();
        rows.sort_by_key(|(row, _)| (row.channel, !row.supplier, std::cmp::Reverse(row.level)));
        let mut row_indices = BTreeMap::new();
        for (index, (row, keys)) in rows.into_iter().enumerate() {
            row_indices.extend(keys.into_iter().map(|key| (key, index)));
            self.rows.push(row);
        }
        row_indices
    }
}

/// When a record's run began. The end of a run contains this even if its beginning was overwritten.
fn begin_of(record: &Record) -> u64 {
    if record.kind == RecordKind::End { record.at.saturating_sub(record.a) } else { record.at }
}

fn key(channel: usize, record: &Record) -> Key {
    let role = if record.kind == RecordKind::Push { Role::Supplier } else { Role::Consumer };
    (channel, role, record.id)
}

/// Sorts the gaps and removes overlaps.
fn normalize(gaps: &mut Vec<Gap>) {
    gaps.sort_unstable_by_key(|gap| (gap.from, std::cmp::Reverse(gap.to)));
    let mut until = 0;
    gaps.retain_mut(|gap| {
        gap.from = gap.from.max(until);
        until = until.max(gap.to);
        gap.from < gap.to
    });
}

struct Reader<'a> {
    timeline: &'a mut Timeline,
    row_indices: &'a BTreeMap<Key, usize>,
    preemptions: &'a mut Preemptions,
    /// The declared deadlines of the channel's consumers, in nanoseconds.
    deadlines: &'a BTreeMap<u32, u64>,
    channel: usize,
    thread: usize,
}

/// A run that has not returned yet.
struct Open {
    row: usize,
    run: Run,
}

impl Reader<'_> {
    fn read(&mut self, track: &Track) {
        let mut stack: Vec<Open> = Vec::new();
        for record in &track.records {
            let Some(&row) = self.row_indices.get(&key(self.channel, record)) else {
                continue;
            };
            let at = record.at.saturating_sub(self.timeline.start);
            match record.kind {
                RecordKind::Begin => {
                    let released = record.at.saturating_sub(record.a);
                    let deadline = self.deadlines.get(&record.id);
                    let deadline = deadline.and_then(|deadline| released.checked_add(*deadline));
                    let deadline = deadline.and_then(|deadline| deadline.checked_sub(self.timeline.start));
                    let (start, thread) = (at, self.thread);
                    let run = Run { start, waited: record.a, thread, deadline, ..Run::default() };
                    stack.push(Open { row, run });
                }
                RecordKind::End => {
                    let run = self.end(&mut stack, row, at, record);
                    self.timeline.rows[row].runs.push(run);
                }
                RecordKind::Preempt | RecordKind::Resume => {
                    // An id out of range belongs to no consumer.
                    let by = u32::try_from(record.b).ok();
                    let by = by.and_then(|by| self.row_indices.get(&(self.channel, Role::Consumer, by)));
                    if let Some(&by) = by {
                        self.preemptions.add(record.kind, row, by, at, record.a);
                    }
                }
                RecordKind::Miss => self.last(row, |run| {
                    run.late = record.a;
                    run.deadline = run.end.checked_sub(record.a);
                }),
                RecordKind::Overrun => self.last(row, |run| run.overran = Some((record.a, record.b))),
                kind => {
                    let mark = Mark { at, kind, a: record.a, b: record.b };
                    self.timeline.rows[row].marks.push(mark);
                }
            }
        }
        for open in stack {
            let end = self.timeline.span.max(open.run.start);
            self.timeline.rows[open.row].runs.push(Run { end, open: true, ..open.run });
        }
    }

    /// The run that this record ends.
    fn end(&self, stack: &mut Vec<Open>, row: usize, at: u64, record: &Record) -> Run {
        let begun = stack.iter().rposition(|open| open.row == row).map(|from| {
            // The records do not show an end of the runs above it.
            stack.truncate(from + 1);
            stack.pop()
        });
        let (failed, moved) = (record.b & 1 != 0, record.b & 2 != 0);
        let Some(Some(Open { run, .. })) = begun else {
            let start = at.saturating_sub(record.a);
            return Run { start, end: at, thread: self.thread, failed, moved, open: true, ..Run::default() };
        };
        Run { end: at.max(run.start), failed, moved, ..run }
    }

    /// Changes the row's last run if it ran on this thread.
    fn last(&mut self, row: usize, change: impl FnOnce(&mut Run)) {
        let thread = self.thread;
        let runs = &mut self.timeline.rows[row].runs;
        if let Some(run) = runs.last_mut().filter(|run| run.thread == thread) {
            change(run);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use isorb_trace::Participant;

    pub(crate) fn record(at: u64, kind: RecordKind, level: u8, id: u32, a: u64, b: u64) -> Record {
        Record { at, kind, level, id, a, b }
    }

    pub(crate) fn track(thread: &str, records: Vec<Record>) -> Track {
        Track { thread: thread.into(), overwritten: 0, records }
    }

    /// A slow consumer yields to a fast one on the same thread, and returns after its deadline.
    pub(crate) fn upcalls() -> Recording {
        let participant = |role, id, name: &str| Participant { role, id, name: name.into(), deadline: None };
        Recording {
            name: "main".into(),
            participants: vec![
                participant(Role::Supplier, 1, "gps"),
                participant(Role::Consumer, 1, "slow"),
                participant(Role::Consumer, 2, "fast"),
            ],
            tracks: vec![
                track("pusher", vec![record(1_000, RecordKind::Push, 0, 1, 16 << 32 | 4, 0)]),
                track(
                    "worker",
                    vec![
                        record(1_500, RecordKind::Begin, 0, 1, 500, 0),
                        record(2_000, RecordKind::Preempt, 0, 1, 3, 2),
                        record(2_100, RecordKind::Begin, 3, 2, 50, 0),
                        record(2_600, RecordKind::End, 3, 2, 500, 0),
                        record(2_600, RecordKind::Resume, 0, 1, 600, 2),
                        record(4_000, RecordKind::End, 0, 1, 2_500, 0),
                        record(4_000, RecordKind::Miss, 0, 1, 800, 3_200),
                        record(4_100, RecordKind::Overrun, 0, 1, 2_000, 1_000),
                    ],
                ),
            ],
            ..Recording::default()
        }
    }

    #[test]
    fn a_nested_upcall_is_a_gap_in_the_run_below() {
        let timeline = Timeline::of("t", &[upcalls()]);
        let names: Vec<_> = timeline.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["gps", "fast", "slow"]);
        assert_eq!((timeline.start, timeline.span), (1_000, 3_100));
        let slow = &timeline.rows[2].runs[0];
        assert_eq!(slow.gaps, [Gap { from: 1_000, to: 1_600, by: 1 }]);
        assert_eq!((slow.start, slow.end, slow.waited, slow.late), (500, 3_000, 500, 800));
        assert_eq!((slow.deadline, slow.cause), (Some(2_200), Some(0)), "the push of gps released it");
        assert_eq!(timeline.rows[1].runs[0].cause, None, "no push is at the time of its release");
        assert_eq!((slow.overran, slow.failed, slow.open), (Some((2_000, 1_000)), false, false));
        assert_eq!(timeline.rows[0].marks[0].kind, RecordKind::Push);
    }

    #[test]
    fn a_consumer_called_by_a_running_one_does_not_preempt_it() {
        let mut recording = upcalls();
        recording.tracks[1].records.retain(|r| !matches!(r.kind, RecordKind::Preempt | RecordKind::Resume));
        let timeline = Timeline::of("t", &[recording]);
        assert!(timeline.rows[2].runs[0].gaps.is_empty());
    }

    #[test]
    fn incomplete_runs_are_open() {
        let records = vec![
            record(100, RecordKind::End, 1, 5, 40, 1),
            record(120, RecordKind::Begin, 1, 5, 3, 0),
            record(150, RecordKind::Drop, 1, 5, 0, 0),
        ];
        let recording = Recording { tracks: vec![track("t", records)], ..Recording::default() };
        let timeline = Timeline::of("t", &[recording]);
        let runs: Vec<_> = timeline.rows[0].runs.iter().map(|r| (r.start, r.end, r.open, r.failed)).collect();
        assert_eq!(timeline.rows[0].name, "consumer 5");
        assert_eq!(runs, [(0, 40, true, true), (60, 90, true, false)]);
    }

    #[test]
    fn declared_deadlines_count_from_the_release() {
        let mut recording = upcalls();
        recording.participants[2].deadline = Some(700);
        let timeline = Timeline::of("t", &[recording]);
        // Released 50 before its start at 1,100.
        assert_eq!(timeline.rows[1].runs[0].deadline, Some(1_750));
    }

    #[test]
    fn phases_are_cut_at_the_first_record() {
        let mut recording = upcalls();
        let phase = |from, to| isorb_trace::Phase { from, to, caption: "quiet".into() };
        recording.phases = vec![phase(0, 900), phase(500, 1_200), phase(2_000, 9_000), phase(3_000, 2_000)];
        let timeline = Timeline::of("t", &[recording]);
        let shown: Vec<_> = timeline.phases.iter().map(|phase| (phase.from, phase.to)).collect();
        assert_eq!(shown, [(0, 200), (1_000, 8_000)]);
    }

    #[test]
    fn an_empty_recording_gives_an_empty_timeline() {
        let timeline = Timeline::of("t", &[Recording::default()]);
        assert_eq!((timeline.start, timeline.span, timeline.rows.len()), (0, 0, 0));
    }
}
