//! The jobs that tasks release.

use crate::{Nanos, Task};

/// One release of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its task, by place.
    pub task: usize,
    /// Which job of that task, from 0.
    pub number: u64,
    /// When it arrives: responses and deadlines count from here.
    pub arrival: Nanos,
    /// When it is ready to run: at its arrival, or late by up to the jitter.
    pub ready: Nanos,
    /// What it computes.
    pub cost: Nanos,
    /// Other jobs, by task and number: this one is ready when the last of them is done, and `ready`
    /// says nothing. None for one that is ready by itself.
    pub after: Vec<(usize, u64)>,
}

/// How a job differs from the plainest one, which arrives a period after the one before, is ready
/// then, and costs the worst case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variation {
    /// So much later than a period after the one before.
    pub later: Nanos,
    /// Ready so long after its arrival; cut to the task's jitter.
    pub jitter: Nanos,
    /// So much cheaper than the worst case.
    pub cheaper: Nanos,
}

/// The jobs of `tasks` that arrive before `until`, the first of each at its offset, varied as
/// `vary` says of task and number. Jobs of one task become ready in the order in which they arrive:
/// one that is late holds back those behind it.
#[must_use]
pub fn jobs(tasks: &[Task], until: Nanos, mut vary: impl FnMut(usize, u64) -> Variation) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (place, task) in tasks.iter().enumerate() {
        let (mut arrival, mut ready) = (task.offset, Nanos::ZERO);
        for number in 0.. {
            let variation = vary(place, number);
            arrival = arrival.plus(variation.later);
            if arrival >= until || task.period.is_zero() {
                break;
            }
            ready = ready.max(arrival.plus(variation.jitter.min(task.jitter)));
            jobs.push(Job {
                task: place,
                number,
                arrival,
                ready,
                cost: task.cost.minus(variation.cheaper).max(Nanos::new(1)),
                after: Vec::new(),
            });
            arrival = arrival.plus(task.period);
        }
    }
    jobs
}

/// The least common multiple of the periods: a synchronous schedule repeats after it. `None` where
/// it is over [`Nanos::LONGEST`].
#[must_use]
pub fn hyperperiod(tasks: &[Task]) -> Option<Nanos> {
    tasks.iter().try_fold(Nanos::new(1), |multiple, task| {
        let (a, b) = (multiple.ns(), task.period.ns());
        let next = (a / common(a, b).max(1)).checked_mul(b).map(Nanos::new)?;
        Some(next).filter(|next| *next <= Nanos::LONGEST && !next.is_zero())
    })
}

fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_after() {
        let task = |period| Task::new("t", Nanos::new(1), Nanos::new(period));
        assert_eq!(hyperperiod(&[task(4), task(6), task(10)]), Some(Nanos::new(60)));
        assert_eq!(hyperperiod(&[]), Some(Nanos::new(1)));
        assert_eq!(hyperperiod(&[task((1 << 59) - 1), task((1 << 59) - 3)]), None);
        assert_eq!(hyperperiod(&[task(0)]), None);
    }
}
