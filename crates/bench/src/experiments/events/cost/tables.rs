//! Timers beside a hundred thousand others, and the analysis of a thousand tasks.

use isorb_rt::time::now_ns;
use isorb_rt::timers::TimerHeap;
use isorb_sched::{Nanos, Order, Preemption, Task, analyse, fixed_priority};

use super::{CHANNEL, controls, rows};
use crate::blocks::{Local, keep};
use crate::figure::Row;

/// Calls to a sample.
const TOGETHER: u32 = 200;
pub const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// One more timer is set and cancelled, beside none and beside `armed` others.
pub fn timers(rounds: u32, armed: u32) -> Vec<Row> {
    let subject = |armed: u32| {
        let mut timers = TimerHeap::with_capacity(armed as usize + 1);
        // Points without an order, as periods of many consumers have none.
        let mut random = Random(SEED);
        (0..armed).for_each(|_| keep(timers.push(random.next() >> 16, ())));
        Local::called(CHANNEL, armed.into(), [10, TOGETHER], move || {
            if let Ok(timer) = timers.push(random.next() >> 16, ()) {
                keep(timers.remove(timer));
            }
        })
    };
    rows("timer", rounds, &mut [subject(0), subject(armed), controls::unsorted_timers(armed)])
}

/// Response times of so many tasks that want 85 % of a processor.
pub fn analysis(rounds: u32) -> Vec<Row> {
    let subject = |name, count: u32, preemption| {
        let tasks = tasks(count.into());
        Local::timed(name, count.into(), 1, move || {
            let start = now_ns();
            keep(fixed_priority(&tasks, preemption).is_ok_and(|analysis| analysis.schedulable()));
            now_ns() - start
        })
    };
    // One queue for all, served by one thread, as the channel has it.
    let queue = |name, order| {
        let tasks = tasks(1000);
        let levels = vec![(0, order); tasks.len()];
        Local::timed(name, 1000.0, 1, move || {
            let start = now_ns();
            keep(
                analyse(&tasks, &levels, Preemption::Full, true).is_ok_and(|analysis| analysis.schedulable()),
            );
            now_ns() - start
        })
    };
    let mut subjects = [
        subject(super::PREEMPTIVE, 100, Preemption::Full),
        subject(super::PREEMPTIVE, 1000, Preemption::Full),
        subject(super::NON_PREEMPTIVE, 1000, Preemption::None),
        queue(super::DEADLINE, Order::Deadline),
        queue(super::LAXITY, Order::Laxity),
    ];
    let mut rows = rows("analysis", rounds, &mut subjects);
    rows.extend(controls::all_points(1000));
    rows
}

fn tasks(count: u64) -> Vec<Task> {
    let task = |(number, (cost, period)): (usize, (u64, u64))| {
        let priority = u32::MAX - u32::try_from(period).unwrap_or(u32::MAX);
        Task::new(format!("t{number}"), Nanos::new(cost), Nanos::new(period)).priority(priority)
    };
    costs_and_periods(count).into_iter().enumerate().map(task).collect()
}

/// In nanoseconds. Periods from 5 ms to 1 s, spread evenly in logarithm.
pub fn costs_and_periods(count: u64) -> Vec<(u64, u64)> {
    let mut random = Random(SEED);
    let mut below = move |limit: u64| random.next() % limit;
    (0..count)
        .map(|_| {
            let octave = below(7);
            let period = (5_000_000 << octave) + below(5_000_000 << octave);
            let cost = period / count * 850 / 1000 * (500 + below(1000)) / 1000;
            (cost.max(1), period)
        })
        .collect()
}

/// Marsaglia's xorshift: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
