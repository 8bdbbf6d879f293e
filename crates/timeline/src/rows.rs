//! From records to rows of runs and marks.

use crate::losses::Losses;
use crate::recording::{Recording, Role};
use isorb_event::trace::{Record, Track, What};
use std::collections::BTreeMap;

/// What happened, row by row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// What it is called.
    pub title: String,
    /// When the first thing happened, in nanoseconds of the channels' clock. All other times count from here.
    pub start: u64,
    /// How long it took to the last, in nanoseconds.
    pub span: u64,
    /// The channels' names.
    pub channels: Vec<String>,
    /// The threads' names.
    pub threads: Vec<String>,
    /// Channel by channel, the most urgent row first.
    pub rows: Vec<Row>,
    /// Records that the rings did not hold, or no longer.
    pub lost: u64,
}

/// A supplier, a consumer, or what is both under one name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its channel, by place.
    pub channel: usize,
    /// It supplies.
    pub supplier: bool,
    /// It consumes.
    pub consumer: bool,
    /// Its level of priority, counted from the least urgent; 0 for a mere supplier.
    pub level: u8,
    /// Its runs, in order of their beginning.
    pub runs: Vec<Run>,
    /// What else happened to it, in order.
    pub marks: Vec<Mark>,
}

/// A call of a consumer. Times are in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// When it began.
    pub start: u64,
    /// When it returned, or where the records end.
    pub end: u64,
    /// How long its event had waited.
    pub waited: u64,
    /// On which thread, by place.
    pub thread: usize,
    /// How long after its deadline it returned; 0 for one that met it or had none.
    pub late: u64,
    /// Processor time used and declared, for one that used more than it declared.
    pub overran: Option<(u64, u64)>,
    /// The consumer failed.
    pub failed: bool,
    /// Its end, or its beginning, is not recorded.
    pub open: bool,
    /// Its thread was on another processor at its end than at its beginning: when it was pre-empted is not known.
    pub moved: bool,
    /// While it was pre-empted.
    pub gaps: Vec<Gap>,
}

/// A stretch of a run in which somebody more urgent ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// From when.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// Whose row.
    pub by: usize,
}

/// A thing that takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// When.
    pub at: u64,
    /// What: a push, a queued event, a time-out or a loss.
    pub what: What,
    /// See [`What`].
    pub a: u64,
    /// See [`What`].
    pub b: u64,
}

type Key = (usize, Role, u32);

impl Timeline {
    /// The timeline of these recordings, which share a clock: channels of one process, or of several on one machine.
    pub fn of(title: impl Into<String>, recordings: &[Recording]) -> Timeline {
        let records = || recordings.iter().flat_map(|r| &r.tracks).flat_map(|track| &track.records);
        let start = records().map(begin_of).min().unwrap_or(0);
        let end = records().map(|r| r.at).max().unwrap_or(0);
        let mut timeline = Timeline {
            title: title.into(),
            start,
            span: end - start,
            channels: recordings.iter().map(|r| r.name.clone()).collect(),
            lost: recordings
                .iter()
                .flat_map(|r| r.tracks.iter().map(|t| t.overwritten).chain([r.lost]))
                .fold(0, u64::saturating_add),
            ..Timeline::default()
        };
        let places = timeline.lay_out(recordings);
        let mut losses = Losses::default();
        for (channel, recording) in recordings.iter().enumerate() {
            for track in &recording.tracks {
                let thread = timeline.threads.len();
                timeline.threads.push(track.thread.clone());
                Reader { timeline: &mut timeline, places: &places, losses: &mut losses, channel, thread }
                    .read(track);
            }
        }
        timeline.rows.iter_mut().for_each(|row| {
            row.runs.sort_by_key(|run| run.start);
            row.marks.sort_by_key(|mark| mark.at);
        });
        losses.into_gaps(&mut timeline);
        timeline.rows.iter_mut().flat_map(|row| &mut row.runs).for_each(|run| tidy(&mut run.gaps));
        timeline
    }

    /// Makes the rows, and says where everybody's is.
    fn lay_out(&mut self, recordings: &[Recording]) -> BTreeMap<Key, usize> {
        let mut levels: BTreeMap<Key, u8> = BTreeMap::new();
        let mut names = BTreeMap::new();
        for (channel, recording) in recordings.iter().enumerate() {
            for party in &recording.parties {
                levels.entry((channel, party.role, party.id)).or_default();
                names.insert((channel, party.role, party.id), party.name.clone());
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
        let mut places = BTreeMap::new();
        for (place, (row, keys)) in rows.into_iter().enumerate() {
            places.extend(keys.into_iter().map(|key| (key, place)));
            self.rows.push(row);
        }
        places
    }
}

/// The end of a run whose beginning was overwritten says how long it was.
fn begin_of(record: &Record) -> u64 {
    if record.what == What::End { record.at.saturating_sub(record.a) } else { record.at }
}

fn key(channel: usize, record: &Record) -> Key {
    let role = if record.what == What::Push { Role::Supplier } else { Role::Consumer };
    (channel, role, record.who)
}

/// In order, and none within another.
fn tidy(gaps: &mut Vec<Gap>) {
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
    places: &'a BTreeMap<Key, usize>,
    losses: &'a mut Losses,
    channel: usize,
    thread: usize,
}

/// A run that has not returned yet.
struct Open {
    place: usize,
    run: Run,
}

impl Reader<'_> {
    fn read(&mut self, track: &Track) {
        let mut stack: Vec<Open> = Vec::new();
        for record in &track.records {
            let Some(&place) = self.places.get(&key(self.channel, record)) else {
                continue;
            };
            let at = record.at.saturating_sub(self.timeline.start);
            match record.what {
                What::Begin => {
                    let run = Run { start: at, waited: record.a, thread: self.thread, ..Run::default() };
                    stack.push(Open { place, run });
                }
                What::End => {
                    let run = self.end(&mut stack, place, at, record);
                    self.timeline.rows[place].runs.push(run);
                }
                What::Preempt | What::Resume => {
                    // A number that no consumer can have is none's.
                    let by = u32::try_from(record.b).ok();
                    let by = by.and_then(|by| self.places.get(&(self.channel, Role::Consumer, by)));
                    if let Some(&by) = by {
                        self.losses.note(record.what, place, by, at, record.a);
                    }
                }
                What::Miss => self.last(place, |run| run.late = record.a),
                What::Overrun => self.last(place, |run| run.overran = Some((record.a, record.b))),
                what => {
                    let mark = Mark { at, what, a: record.a, b: record.b };
                    self.timeline.rows[place].marks.push(mark);
                }
            }
        }
        for open in stack {
            let end = self.timeline.span.max(open.run.start);
            self.timeline.rows[open.place].runs.push(Run { end, open: true, ..open.run });
        }
    }

    /// The run that ends here.
    fn end(&self, stack: &mut Vec<Open>, place: usize, at: u64, record: &Record) -> Run {
        let begun = stack.iter().rposition(|open| open.place == place).map(|from| {
            // What is above it never returned, as far as the records say.
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

    /// Changes the run that ended last.
    fn last(&mut self, place: usize, change: impl FnOnce(&mut Run)) {
        let thread = self.thread;
        let runs = &mut self.timeline.rows[place].runs;
        if let Some(run) = runs.last_mut().filter(|run| run.thread == thread) {
            change(run);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::recording::Party;

    pub(crate) fn record(at: u64, what: What, level: u8, who: u32, a: u64, b: u64) -> Record {
        Record { at, what, level, who, a, b }
    }

    pub(crate) fn track(thread: &str, records: Vec<Record>) -> Track {
        Track { thread: thread.into(), overwritten: 0, records }
    }

    /// A slow consumer makes way for a fast one on the same thread, and returns after its deadline.
    pub(crate) fn upcalls() -> Recording {
        let party = |role, id, name: &str| Party { role, id, name: name.into() };
        Recording {
            name: "main".into(),
            parties: vec![
                party(Role::Supplier, 1, "gps"),
                party(Role::Consumer, 1, "slow"),
                party(Role::Consumer, 2, "fast"),
            ],
            tracks: vec![
                track("pusher", vec![record(1_000, What::Push, 0, 1, 16 << 32 | 4, 0)]),
                track(
                    "worker",
                    vec![
                        record(1_500, What::Begin, 0, 1, 500, 0),
                        record(2_000, What::Preempt, 0, 1, 3, 2),
                        record(2_100, What::Begin, 3, 2, 50, 0),
                        record(2_600, What::End, 3, 2, 500, 0),
                        record(2_600, What::Resume, 0, 1, 600, 2),
                        record(4_000, What::End, 0, 1, 2_500, 0),
                        record(4_000, What::Miss, 0, 1, 800, 3_200),
                        record(4_100, What::Overrun, 0, 1, 2_000, 1_000),
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
        assert_eq!((slow.overran, slow.failed, slow.open), (Some((2_000, 1_000)), false, false));
        assert_eq!(timeline.rows[0].marks[0].what, What::Push);
    }

    #[test]
    fn a_consumer_that_is_called_by_a_running_one_does_not_pre_empt_it() {
        let mut recording = upcalls();
        recording.tracks[1].records.retain(|r| !matches!(r.what, What::Preempt | What::Resume));
        let timeline = Timeline::of("t", &[recording]);
        assert!(timeline.rows[2].runs[0].gaps.is_empty());
    }

    #[test]
    fn ends_without_beginnings_and_beginnings_without_ends() {
        let records = vec![
            record(100, What::End, 1, 5, 40, 1),
            record(120, What::Begin, 1, 5, 3, 0),
            record(150, What::Drop, 1, 5, 0, 0),
        ];
        let recording = Recording { tracks: vec![track("t", records)], ..Recording::default() };
        let timeline = Timeline::of("t", &[recording]);
        let runs: Vec<_> = timeline.rows[0].runs.iter().map(|r| (r.start, r.end, r.open, r.failed)).collect();
        assert_eq!(timeline.rows[0].name, "consumer 5");
        assert_eq!(runs, [(0, 40, true, true), (60, 90, true, false)]);
    }

    #[test]
    fn nothing_recorded_is_an_empty_timeline() {
        let timeline = Timeline::of("t", &[Recording::default()]);
        assert_eq!((timeline.start, timeline.span, timeline.rows.len()), (0, 0, 0));
    }
}
