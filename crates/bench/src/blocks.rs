//! Subjects interleaved in blocks of samples, within one run.
//!
//! One after the other, two subjects meet two machines: the second run has another temperature,
//! another load of the host, another layout of memory. So in every round each subject makes one
//! short block, in an order that rotates by one a round, and subjects are compared within the
//! round.

use std::hint::black_box;
use std::time::{Duration, Instant};

use isorb_rt::time::now_ns;

use crate::cases::Case;
use crate::figure::{Row, Values, times};
use crate::protocol::Block;
use crate::stats::{Samples, median, ratio_of_medians};

/// Calls before the clock starts, in each block: a process that was stopped has cold caches.
const WARM: usize = 20;
/// The length of a block: long enough for a median, short enough for many rounds.
const BLOCK: Duration = Duration::from_millis(20);

/// The blocks of one subject.
#[derive(Clone, Debug)]
pub struct Series<E> {
    pub samples: Samples,
    /// The median of each round's block; `None` from the round on in which it failed.
    pub medians: Vec<Option<u64>>,
    /// The longest less the shortest of each block.
    pub ranges: Vec<u64>,
    /// The error after which it made no more blocks.
    pub failed: Option<E>,
}

impl<E> Default for Series<E> {
    fn default() -> Series<E> {
        Series { samples: Samples::new(), medians: Vec::new(), ranges: Vec::new(), failed: None }
    }
}

impl<E> Series<E> {
    /// Of calls in their order, so many of which are a block. The last block may be shorter.
    pub fn of(calls: &[u64], block: usize) -> Series<E> {
        let mut series = Series::default();
        calls.chunks(block).for_each(|block| series.add(block.to_vec()));
        series
    }

    pub fn add(&mut self, block: Vec<u64>) {
        self.medians.push(median(&block));
        self.ranges.extend(range(&block));
        self.samples.extend(block);
    }

    /// The values of all blocks, with `range_ns`, the median of the blocks' ranges.
    pub fn values(&self) -> Values {
        let mut values = times(&self.samples.summary());
        values.push(("range_ns", median(&self.ranges).map_or(f64::NAN, |ns| ns as f64)));
        values.push(("blocks", self.ranges.len() as f64));
        values
    }

    /// The median over the rounds of the ratio to `control` in the same round.
    pub fn ratio_to(&self, control: &Series<E>) -> f64 {
        ratio_of_medians(&self.medians, &control.medians).unwrap_or(f64::NAN)
    }
}

/// The longest less the shortest.
pub fn range(block: &[u64]) -> Option<u64> {
    Some(block.iter().max()? - block.iter().min()?)
}

/// When to end, and how long to pause.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds that are made in any case.
    pub at_least: usize,
    /// No round begins after it, beyond those.
    pub until: Instant,
    /// The pause after a block, by the time since the last pause. The kernel stalls real-time
    /// threads that take more than a share of a second (`sched_rt_runtime_us`), which would show as
    /// a tail.
    pub pause: fn(Duration) -> Duration,
}

impl Rounds {
    /// For blocks of other processes: a third of each block's time, at least 2 ms.
    pub fn until(until: Instant) -> Rounds {
        Rounds { at_least: 3, until, pause: |since| (since / 3).max(Duration::from_millis(2)) }
    }

    /// For blocks of this process, which are shorter: 5 ms after each 20.
    pub fn of(at_least: usize) -> Rounds {
        let pause = |since| Duration::from_millis(if since > BLOCK { 5 } else { 0 });
        Rounds { at_least, until: Instant::now(), pause }
    }
}

/// Makes rounds of blocks; the series of the subjects, in their order. `progress` is called after
/// each block.
pub fn interleave<S, E>(
    subjects: &mut [S],
    rounds: Rounds,
    mut block: impl FnMut(&mut S) -> Result<Vec<u64>, E>,
    mut progress: impl FnMut(),
) -> Vec<Series<E>> {
    let mut all: Vec<Series<E>> = subjects.iter().map(|_| Series::default()).collect();
    let (mut round, mut paused) = (0, Instant::now());
    while round < rounds.at_least || Instant::now() < rounds.until {
        if all.iter().all(|series| series.failed.is_some()) {
            break;
        }
        for k in 0..subjects.len() {
            let i = (k + round) % subjects.len();
            let series = &mut all[i];
            if series.failed.is_some() {
                series.medians.push(None);
                continue;
            }
            match block(&mut subjects[i]) {
                Ok(samples) => series.add(samples),
                Err(error) => {
                    series.medians.push(None);
                    series.failed = Some(error);
                }
            }
            let pause = (rounds.pause)(paused.elapsed());
            if !pause.is_zero() {
                std::thread::sleep(pause);
                paused = Instant::now();
            }
            progress();
        }
        round += 1;
    }
    all
}

/// As [`interleave`], where a failure of one subject ends the run.
pub fn interleave_all<S, E>(
    subjects: &mut [S],
    rounds: Rounds,
    block: impl FnMut(&mut S) -> Result<Vec<u64>, E>,
) -> Result<Vec<Series<E>>, E> {
    let mut all = interleave(subjects, rounds, block, || ());
    match all.iter_mut().find_map(|series| series.failed.take()) {
        Some(error) => Err(error),
        None => Ok(all),
    }
}

/// The block of `case` that takes about as long as one should, by the speed of the subject that
/// makes `block`.
pub fn calibrate<E>(mut block: impl FnMut(Block) -> Result<Vec<u64>, E>, case: Case) -> Result<Block, E> {
    let probe = if case.is_burst() { 200 } else { WARM };
    let samples = block(Block { case, warm: WARM, calls: probe, gap_us: 0 })?;
    let ns = u128::from(median(&samples).unwrap_or(0).max(1));
    let fitting = usize::try_from(BLOCK.as_nanos() / ns).unwrap_or(usize::MAX);
    let calls = if case.is_burst() { fitting.clamp(100, 2000) } else { fitting.clamp(20, 300) };
    Ok(Block { case, warm: WARM, calls, gap_us: 0 })
}

/// A subject in this process. Its samples are picoseconds.
pub struct Local<'a> {
    pub name: &'static str,
    pub x: f64,
    block: Box<dyn FnMut() -> Vec<u64> + 'a>,
}

impl<'a> Local<'a> {
    /// For calls that are too short for a clock: a sample is the mean of `together` calls, and a
    /// block has `samples`.
    pub fn called(
        name: &'static str,
        x: f64,
        [samples, together]: [u32; 2],
        mut call: impl FnMut() + 'a,
    ) -> Local<'a> {
        let mut sample = move || {
            let start = now_ns();
            (0..together).for_each(|_| call());
            (now_ns() - start) * 1000 / u64::from(together)
        };
        Local { name, x, block: Box::new(move || (0..samples).map(|_| sample()).collect()) }
    }

    /// For calls that measure themselves: `sample` returns nanoseconds, and a block has `samples`.
    pub fn timed(
        name: &'static str,
        x: f64,
        samples: usize,
        mut sample: impl FnMut() -> u64 + 'a,
    ) -> Local<'a> {
        Local { name, x, block: Box::new(move || (0..samples).map(|_| sample() * 1000).collect()) }
    }
}

/// Rounds of local subjects after a round that only warms.
pub fn interleave_local(subjects: &mut [Local<'_>], rounds: usize) -> Vec<Series<()>> {
    let block = |subject: &mut Local<'_>| Ok((subject.block)());
    interleave(subjects, Rounds::of(1), block, || ());
    interleave(subjects, Rounds::of(rounds), block, || ())
}

/// Rows of local subjects, in nanoseconds, with the ratio to the first.
pub fn local_rows(figure: &'static str, rounds: u32, subjects: &mut [Local<'_>]) -> Vec<Row> {
    let all = interleave_local(subjects, rounds as usize);
    let row = |(subject, series): (&Local<'_>, &Series<()>)| {
        let mut values = times(&series.samples.summary());
        for (name, value) in &mut values {
            if name.ends_with("_ns") {
                *value = value.round() / 1000.0;
            }
        }
        values.push(("ratio", (series.ratio_to(&all[0]) * 1000.0).round() / 1000.0));
        Row { figure, subject: subject.name, x: subject.x, values }
    };
    subjects.iter().zip(&all).map(row).collect()
}

/// Keeps the compiler from leaving out what makes `result`.
pub fn keep<T>(result: T) {
    let _ = black_box(result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Kind;

    const VOID: Case = Case { kind: Kind::Void, size: 0 };

    fn rounds(at_least: usize) -> Rounds {
        Rounds { at_least, ..Rounds::until(Instant::now()) }
    }

    #[test]
    fn the_order_rotates_and_each_subject_has_a_block_a_round() {
        let (mut log, mut blocks) = (String::new(), 0);
        let block = |name: &mut char| {
            log.push(*name);
            Ok::<_, ()>(vec![5; 4])
        };
        let all = interleave(&mut ['a', 'b', 'c'], rounds(4), block, || blocks += 1);
        assert_eq!((&*log, blocks), ("abcbcacababc", 12));
        for series in all {
            assert_eq!((series.samples.summary().n, series.medians), (16, vec![Some(5); 4]));
        }
    }

    #[test]
    fn a_subject_that_fails_makes_no_more_blocks_and_does_not_end_the_run() {
        let mut calls = 0;
        let mut block = |ns: &mut u64| {
            calls += usize::from(*ns == 15);
            if *ns == 15 && calls > 2 { Err("ended") } else { Ok(vec![*ns]) }
        };
        let all = interleave(&mut [10, 15], rounds(5), &mut block, || ());
        assert_eq!(all[1].medians, [Some(15), Some(15), None, None, None]);
        assert_eq!((all[1].failed, all[0].medians.len(), all[1].ratio_to(&all[0])), (Some("ended"), 5, 1.5));
        assert_eq!(interleave_all(&mut [15], rounds(5), &mut block).err(), Some("ended"));
        assert_eq!(interleave(&mut [15], rounds(5), block, || ())[0].medians, [None], "none is left");
        assert_eq!(calls, 5);
    }

    #[test]
    fn a_block_fits_the_speed() {
        let calls = |ns, case| calibrate(|block| Ok::<_, ()>(vec![ns; block.calls]), case).unwrap().calls;
        assert_eq!([14_000, 200_000, 5_000_000].map(|ns| calls(ns, VOID)), [300, 100, 20]);
        assert_eq!(calls(0, Case { kind: Kind::Oneway, size: 64 }), 2000);
    }

    #[test]
    fn local_subjects_make_all_their_calls() {
        let mut calls = 0;
        let all = interleave_local(&mut [Local::called("one", 1.0, [10, 7], || calls += 1)], 2);
        assert_eq!((calls, all[0].samples.summary().n), (3 * 10 * 7, 20));
        let mut both = [Local::timed("control", 1.0, 3, || 100), Local::timed("other", 1.0, 3, || 150)];
        let all = interleave_local(&mut both, 5);
        assert_eq!((all[1].ratio_to(&all[0]), all[0].samples.summary().n), (1.5, 15));
        assert_eq!(all[1].samples.summary().min_ns, 150_000);
    }
}
