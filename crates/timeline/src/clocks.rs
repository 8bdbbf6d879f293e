//! Puts recordings of several hosts on one axis.
//!
//! A member of a federation knows the offset of each neighbour's clock, with its bound, and its
//! trace file keeps them. From the first recording on, each further one is reached over members
//! that know each other, over as few links as possible; offsets and bounds add up. A recording that
//! is not reached is taken to read the first one's clock, as channels of one machine do.

use isorb_trace::{NeighbourClock, Recording};
use std::borrow::Cow;
use std::collections::VecDeque;

/// How a recording's clock differs from that of the first recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// The recording's clock minus the first one's, nanoseconds (modulo 2^64).
    pub offset: i64,
    /// The largest error of any time of the recording on the common axis, nanoseconds: the bounds
    /// of all links between both, and their drift from the recording's farthest time until they
    /// were known.
    pub bound: u64,
}

/// The clock of each recording, and the recordings with times of the first one's clock.
///
/// An offset within its bound moves nothing: both may read one clock, and then the times are right
/// to the nanosecond.
pub(crate) fn on_one_axis(recordings: &[Recording]) -> (Vec<Option<Clock>>, Cow<'_, [Recording]>) {
    let mut clocks: Vec<Option<Clock>> = vec![None; recordings.len()];
    let mut reached = vec![false; recordings.len()];
    let mut next: VecDeque<usize> = (0..recordings.len().min(1)).collect();
    reached.iter_mut().take(1).for_each(|first| *first = true);
    while let Some(at) = next.pop_front() {
        for other in 0..recordings.len() {
            let between = match reached[other] {
                false => link(&recordings[at], &recordings[other]),
                true => None,
            };
            let Some(Clock { offset, bound }) = between else { continue };
            let from = clocks[at].unwrap_or(Clock { offset: 0, bound: 0 });
            let clock =
                Clock { offset: from.offset.wrapping_add(offset), bound: from.bound.saturating_add(bound) };
            reached[other] = true;
            clocks[other] = Some(clock);
            next.push_back(other);
        }
    }
    for clock in &mut clocks {
        *clock = clock.filter(|clock| clock.offset.unsigned_abs() > clock.bound);
    }
    if clocks.iter().all(Option::is_none) {
        return (clocks, Cow::Borrowed(recordings));
    }
    let offsets = || clocks.iter().map(|clock| clock.map_or(0, |clock| i128::from(clock.offset)));
    // Hosts that started before the first one have times before its zero.
    let before = recordings
        .iter()
        .zip(offsets())
        .filter_map(|(recording, offset)| times(recording).min().map(|least| i128::from(least) - offset));
    let ahead = before.min().map_or(0, |least| (-least).max(0));
    let shifted = recordings.iter().zip(offsets()).map(|(recording, offset)| {
        let mut recording = recording.clone();
        let to_axis = |time: &mut u64| {
            // A damaged file has any number.
            let there = (i128::from(*time) - offset + ahead).clamp(0, i128::from(u64::MAX));
            *time = u64::try_from(there).unwrap_or(u64::MAX);
        };
        recording
            .tracks
            .iter_mut()
            .flat_map(|track| &mut track.records)
            .for_each(|record| to_axis(&mut record.at));
        recording.phases.iter_mut().for_each(|phase| {
            to_axis(&mut phase.from);
            to_axis(&mut phase.to);
        });
        recording
    });
    let shifted = shifted.collect();
    (clocks, Cow::Owned(shifted))
}

/// The clock of `other` beside that of `one`, by what either knew. The more exact one counts.
fn link(one: &Recording, other: &Recording) -> Option<Clock> {
    let of = |knows: &Recording, known: &Recording| {
        let clock = knows.clocks.iter().find(|clock| known.member != 0 && clock.member == known.member);
        clock.map(|clock| Clock { offset: clock.offset, bound: bound(clock, knows) })
    };
    let there = of(one, other);
    let back = of(other, one).map(|clock| Clock { offset: clock.offset.wrapping_neg(), ..clock });
    there.into_iter().chain(back).min_by_key(|clock| clock.bound)
}

/// The bound at the recording's time that is the farthest from when the clock was known.
fn bound(clock: &NeighbourClock, recording: &Recording) -> u64 {
    times(recording).map(|time| clock.bound_at(time)).max().unwrap_or(clock.bound)
}

fn times(recording: &Recording) -> impl Iterator<Item = u64> + '_ {
    recording.tracks.iter().flat_map(|track| &track.records).map(|record| record.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timeline;
    use crate::rows::tests::{record, track};
    use isorb_trace::RecordKind;

    /// Three days, nanoseconds.
    const DAYS: i64 = 3 * 24 * 3600 * 1_000_000_000;

    /// A member with a push at each of these times.
    fn member(number: u64, times: &[u64], clocks: Vec<NeighbourClock>) -> Recording {
        let push = |at: &u64| record(*at, RecordKind::Push, 0, 1, 0, 0);
        let tracks = vec![track("supplier", times.iter().map(push).collect())];
        Recording { name: format!("m{number}"), member: number, tracks, clocks, ..Recording::default() }
    }

    fn knows(member: u64, at: u64, offset: i64, bound: u64) -> Vec<NeighbourClock> {
        vec![NeighbourClock { member, at, offset, bound }]
    }

    fn marks(timeline: &Timeline) -> Vec<Vec<u64>> {
        timeline.rows.iter().map(|row| row.marks.iter().map(|mark| mark.at).collect()).collect()
    }

    #[test]
    fn hosts_with_clocks_days_apart_share_an_axis_in_either_order() {
        let (start, far) = (5_000_000, 5_000_000 + DAYS as u64);
        let one = member(1, &[start, start + 1_000], knows(2, start, DAYS, 40));
        // The other end knows nothing of the first.
        let other = member(2, &[far + 200, far + 700], Vec::new());
        let timeline = Timeline::of("t", &[one.clone(), other.clone()]);
        assert_eq!(marks(&timeline), [[0, 1_000], [200, 700]]);
        assert_eq!(timeline.span, 1_000);
        // 400 ppm of the 1,000 ns since.
        assert_eq!(timeline.clocks, [None, Some(Clock { offset: DAYS, bound: 41 })]);
        let timeline = Timeline::of("t", &[other, one]);
        assert_eq!(marks(&timeline), [[200, 700], [0, 1_000]]);
        assert_eq!(timeline.clocks, [None, Some(Clock { offset: -DAYS, bound: 41 })]);
    }

    #[test]
    fn offsets_and_bounds_add_up_over_members_between() {
        let one = member(1, &[1_000], Vec::new());
        let two = member(2, &[1_000 + DAYS as u64], knows(1, 1_000 + DAYS as u64, -DAYS, 30));
        let three = member(3, &[500], knows(2, 500, DAYS + 400, 20));
        let timeline = Timeline::of("t", &[one, three.clone(), two]);
        // The third's clock is 400 ns behind the first's.
        assert_eq!(marks(&timeline), [[100], [0], [100]]);
        assert_eq!(timeline.clocks[1], Some(Clock { offset: -400, bound: 50 }));
        // Alone with a stranger, it is taken to read the same clock.
        let stranger = member(0, &[600], knows(0, 600, DAYS, 1));
        let timeline = Timeline::of("t", &[stranger, three]);
        assert_eq!((marks(&timeline), timeline.clocks), (vec![vec![100], vec![0]], vec![None, None]));
    }

    #[test]
    fn one_clock_is_left_alone_and_the_better_of_two_answers_counts() {
        let one = member(1, &[1_000], knows(2, 1_000, 30, 40));
        let other = member(2, &[1_010], Vec::new());
        assert_eq!(marks(&Timeline::of("t", &[one.clone(), other.clone()])), [[0], [10]]);
        let exact = Recording { clocks: knows(1, 1_010, -30, 5), ..other };
        assert_eq!(marks(&Timeline::of("t", &[one, exact])), [[20], [0]]);
    }

    #[test]
    fn damaged_offsets_are_any_number() {
        for offset in [i64::MIN, i64::MAX, -1] {
            let one = member(1, &[0, u64::MAX], knows(2, u64::MAX, offset, u64::MAX / 3));
            let other = member(2, &[0, u64::MAX], knows(1, 0, offset, 0));
            let three = member(3, &[7], knows(2, 0, offset, 1));
            Timeline::of("t", &[one, other, three]);
        }
    }
}
