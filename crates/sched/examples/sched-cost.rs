//! What analysis and admission cost with a thousand tasks: `cargo run --release -p isorb-sched
//! --example sched-cost`.

use isorb_sched::{Admission, AdmissionConfig, Nanos, Preemption, Task, fixed_priority};
use std::time::{Duration, Instant};

fn main() {
    for (name, preemption) in [
        ("preemptive", Preemption::Full),
        ("deferred", Preemption::Deferred),
        ("whole jobs", Preemption::None),
    ] {
        let tasks = set(1000, 850);
        let start = Instant::now();
        let analysis = fixed_priority(&tasks, preemption).expect("they are tasks");
        println!(
            "{name}: analysis of {} tasks at {}, schedulable {}: {:.2?}",
            tasks.len(),
            analysis.utilisation,
            analysis.schedulable(),
            start.elapsed()
        );
        let mut admission = Admission::new(AdmissionConfig { preemption, ..AdmissionConfig::default() });
        let (mut worst, mut total, mut refused, mut worst_refusal) =
            (Duration::ZERO, Duration::ZERO, 0_u32, Duration::ZERO);
        for (number, task) in tasks.into_iter().enumerate() {
            let start = Instant::now();
            let admitted = admission.try_admit(task).is_ok();
            let taken = start.elapsed();
            if !admitted {
                refused += 1;
                worst_refusal = worst_refusal.max(taken);
            } else if number >= 900 {
                total += taken;
                worst = worst.max(taken);
            }
        }
        println!(
            "  the last hundred of {} admitted: {:.2?} together, {worst:.2?} at most",
            admission.len(),
            total
        );
        println!("  refused on the way: {refused}, {worst_refusal:.2?} at most");
        let urgent = Task::new("urgent", Nanos::from_us(5), Nanos::from_ms(1));
        let start = Instant::now();
        let answer = admission.try_admit(urgent);
        println!("  one more urgent than all: {}: {:.2?}", answer.is_ok(), start.elapsed());
        for cost in [100, 130, 145, 149] {
            let greedy = Task::new("greedy", Nanos::from_us(10 * cost), Nanos::from_ms(10));
            let start = Instant::now();
            match admission.try_admit(greedy) {
                Ok(admitted) => {
                    println!("  {cost} per mille more, admitted: {:.2?}", start.elapsed());
                    admission.remove(admitted.id);
                }
                Err(refusal) => println!("  {cost} per mille more: {:.2?}: {refusal}", start.elapsed()),
            }
        }
    }
}

/// `count` tasks with periods from 5 ms to 1 s, spread evenly in logarithm, that ask for so many
/// thousandths together.
fn set(count: u64, thousandths: u64) -> Vec<Task> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    (0..count)
        .map(|number| {
            let octave = random(7);
            let period = (5_000_000 << octave) + random(5_000_000 << octave);
            let cost = period / count * thousandths / 1000 * (500 + random(1000)) / 1000;
            Task::new(format!("t{number}"), Nanos::new(cost.max(1)), Nanos::new(period))
                .priority(u32::MAX - u32::try_from(period).unwrap_or(u32::MAX))
        })
        .collect()
}
