//! The simulator compared with the analysis over random sets of tasks: equal where the analysis is
//! exact, never above it elsewhere.

use isorb_sched::sim::{Discipline, Trace, Variation, hyperperiod, jobs, simulate};
use isorb_sched::{
    Counted, Criticality, Nanos, Policy, Preemption, Response, Task, analyse, earliest_deadline,
    fixed_priority,
};
use proptest::prelude::*;

fn ns(ns: u64) -> Nanos {
    Nanos::new(ns)
}

/// Tasks with periods that have a small common multiple, so that a simulation is complete.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let period = prop::sample::select(vec![4_u64, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 60]);
    let task = (1_u64..9, period, 0_u64..100, 0_u64..6, 0_u64..40, 1_u64..9);
    prop::collection::vec(task, 1..7).prop_map(|tasks| {
        let mut priority = 100;
        tasks
            .into_iter()
            .map(|(cost, period, shape, jitter, offset, section)| {
                priority -= 1;
                let cost = cost.min(period);
                let deadline = match shape % 4 {
                    0 => period,
                    1 => cost + (period - cost) / 2,
                    2 => period + shape / 4,
                    _ => 3 * period,
                };
                let jitter = if shape % 3 == 0 { jitter.min(deadline.saturating_sub(cost)) } else { 0 };
                Task::new(format!("t{priority}"), ns(cost), ns(period))
                    .deadline(ns(deadline))
                    .jitter(ns(jitter))
                    .offset(ns(offset))
                    .section(ns(section.min(cost)))
                    .priority(priority)
            })
            .collect()
    })
}

/// Few priorities, so that some are equal.
fn with_equals(tasks: Vec<Task>) -> Vec<Task> {
    tasks.into_iter().map(|task| Task { priority: task.priority / 3, ..task }).collect()
}

fn synchronous(tasks: Vec<Task>) -> Vec<Task> {
    tasks.into_iter().map(|task| task.offset(Nanos::ZERO).jitter(Nanos::ZERO)).collect()
}

fn plain(tasks: &[Task], discipline: &Discipline, preemption: Preemption, until: Nanos) -> Trace {
    simulate(tasks, jobs(tasks, until, |_, _| Variation::default()), discipline, preemption, until).unwrap()
}

/// Arrivals, readiness and costs that vary, the same way for the same seed.
fn varied(tasks: &[Task], seed: u64, discipline: &Discipline, preemption: Preemption) -> Trace {
    let until = ns(3000);
    let mut state = seed | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ns(state % below)
    };
    let jobs = jobs(tasks, until, |_, _| Variation {
        later: if random(4).is_zero() { random(5) } else { ns(0) },
        jitter: random(7),
        cheaper: if random(4).is_zero() { random(3) } else { ns(0) },
    });
    simulate(tasks, jobs, discipline, preemption, until).unwrap()
}

/// The utilisation by a task and all that are as urgent.
fn urgent_share(tasks: &[Task], place: usize) -> f64 {
    let urgent = tasks.iter().filter(|task| task.priority >= tasks[place].priority);
    urgent.map(|task| task.cost.ns() as f64 / task.period.ns() as f64).sum()
}

/// With criticalities that follow from the seed.
fn critical(tasks: Vec<Task>, seed: u64) -> Vec<Task> {
    let grades = [Criticality::Low, Criticality::Medium, Criticality::High];
    let grade = |at: usize| grades[(seed >> (2 * at)) as usize % 3];
    tasks.into_iter().enumerate().map(|(at, task)| task.criticality(grade(at))).collect()
}

fn counted() -> impl Strategy<Value = Counted> {
    prop_oneof![Just(Counted::FromArrival), Just(Counted::FromReadiness)]
}

fn preemption() -> impl Strategy<Value = Preemption> {
    prop_oneof![Just(Preemption::Full), Just(Preemption::Deferred), Just(Preemption::None)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn synchronous_preemptive_fixed_priority_is_exact(tasks in tasks().prop_map(synchronous)) {
        let analysis = fixed_priority(&tasks, Preemption::Full).unwrap();
        let until = hyperperiod(&tasks).unwrap().times(4);
        let trace = plain(&tasks, &Discipline::FixedPriority, Preemption::Full, until);
        for (place, verdict) in analysis.verdicts.iter().enumerate() {
            match verdict.response {
                Response::Bounded(bound) => prop_assert_eq!(Some(bound), trace.worst_response(place)),
                // It grows, but may need longer than this to be late. Only a task that overloads
                // the processor with the more urgent ones is unbounded.
                Response::Unbounded => {
                    prop_assert!(urgent_share(&tasks, place) > 1.0);
                }
                _ => prop_assert!(trace.missed().any(|served| served.job.task == place), "{:?}", verdict),
            }
        }
    }

    /// The queues of every policy in every mode, as in the event channel.
    #[test]
    fn no_policy_is_above_its_analysis(
        tasks in tasks(), policy in prop::sample::select(Policy::ALL.to_vec()), preemption in preemption(),
        one_thread_per_level in any::<bool>(), counted in counted(), seed in any::<u64>(),
    ) {
        let tasks: Vec<Task> = critical(tasks, seed).into_iter().map(|task| task.counted(counted)).collect();
        let ranks = policy.ranks(&tasks);
        let level = |task| u32::try_from(ranks.binary_search(&policy.rank(task)).unwrap()).unwrap();
        let levels: Vec<_> = tasks.iter().map(|task| (level(task), policy.order())).collect();
        let analysis = analyse(&tasks, &levels, preemption, one_thread_per_level).unwrap();
        let discipline = Discipline::Levels { levels, one_thread_per_level };
        for trace in [
            plain(&tasks, &discipline, preemption, ns(1000)),
            varied(&tasks, seed, &discipline, preemption),
        ] {
            for (place, verdict) in analysis.verdicts.iter().enumerate() {
                if let (Some(bound), Some(seen)) = (verdict.response.bound(), trace.worst_response(place)) {
                    prop_assert!(seen <= bound, "task {} took {}, bound {}", place, seen, bound);
                }
                if verdict.met() {
                    prop_assert!(trace.missed().all(|served| served.job.task != place));
                }
            }
        }
    }

    #[test]
    fn never_above_the_analysis(
        tasks in tasks(), equal in any::<bool>(), preemption in preemption(), seed in any::<u64>(),
    ) {
        let tasks = if equal { with_equals(tasks) } else { tasks };
        let analysis = fixed_priority(&tasks, preemption).unwrap();
        for trace in [
            plain(&tasks, &Discipline::FixedPriority, preemption, ns(1000)),
            varied(&tasks, seed, &Discipline::FixedPriority, preemption),
        ] {
            for (place, verdict) in analysis.verdicts.iter().enumerate() {
                if let (Some(bound), Some(seen)) = (verdict.response.bound(), trace.worst_response(place)) {
                    prop_assert!(seen <= bound, "task {} took {}, bound {}", place, seen, bound);
                }
            }
        }
    }

    /// With full preemption the demand-bound test is exact: the synchronous release is late if any
    /// is.
    #[test]
    fn earliest_deadline_is_exact(tasks in tasks().prop_map(synchronous)) {
        let analysis = earliest_deadline(&tasks, Preemption::Full).unwrap();
        let longest = tasks.iter().map(|task| task.deadline).max().unwrap();
        let until = hyperperiod(&tasks).unwrap().times(4).plus(longest);
        let trace = plain(&tasks, &Discipline::EarliestDeadline, Preemption::Full, until);
        // Above one the lateness grows, but it may take longer to show.
        if tasks.iter().map(|task| task.cost.ns() * 120 / task.period.ns()).sum::<u64>() <= 120 {
            prop_assert_eq!(analysis.schedulable(), trace.missed().next().is_none());
        } else {
            prop_assert!(!analysis.schedulable());
        }
    }

    #[test]
    fn earliest_deadline_is_never_late_when_schedulable(tasks in tasks(), preemption in preemption(), seed in any::<u64>()) {
        if earliest_deadline(&tasks, preemption).unwrap().schedulable() {
            prop_assert!(varied(&tasks, seed, &Discipline::EarliestDeadline, preemption).missed().next().is_none());
            if preemption == Preemption::Full {
                let laxity = Discipline::MinimumLaxity { tick: ns(1) };
                prop_assert!(varied(&tasks, seed, &laxity, preemption).missed().next().is_none());
            }
        }
    }

    /// Promoted at D - R, real-time jobs meet their deadlines under any load of best effort.
    #[test]
    fn dual_priority_meets_deadlines(tasks in tasks(), seed in any::<u64>()) {
        let analysis = fixed_priority(&tasks, Preemption::Full).unwrap();
        if analysis.schedulable() {
            let mut promotion: Vec<Option<Nanos>> = analysis.verdicts.iter().map(|verdict| verdict.slack()).collect();
            let mut all_tasks = tasks;
            all_tasks.push(Task::new("best effort", ns(7), ns(9)).deadline(ns(1000)));
            promotion.push(None);
            let trace = varied(&all_tasks, seed, &Discipline::DualPriority { promotion }, Preemption::Full);
            let best_effort = all_tasks.len() - 1;
            prop_assert!(trace.missed().all(|served| served.job.task == best_effort));
        }
    }
}

/// While real-time work can wait, best effort goes first: the purpose of dual priority.
#[test]
fn best_effort_is_served_early() {
    let tasks = [
        Task::new("control", ns(4), ns(20)).priority(2),
        Task::new("best effort", ns(5), ns(20)).deadline(ns(1000)).priority(1),
    ];
    let dual = Discipline::DualPriority { promotion: vec![Some(ns(16)), None] };
    assert_eq!(plain(&tasks, &dual, Preemption::Full, ns(20)).worst_response(1), Some(ns(5)));
    assert_eq!(
        plain(&tasks, &Discipline::FixedPriority, Preemption::Full, ns(20)).worst_response(1),
        Some(ns(9))
    );
}

#[test]
fn what_cannot_be_simulated() {
    let tasks = [Task::new("t", ns(1), ns(2))];
    let dual = Discipline::DualPriority { promotion: vec![] };
    for discipline in [dual, Discipline::MinimumLaxity { tick: ns(0) }] {
        assert!(simulate(&tasks, vec![], &discipline, Preemption::Full, ns(9)).is_err());
    }
    let trace = plain(&tasks, &Discipline::FixedPriority, Preemption::Full, ns(0));
    assert!(trace.runs.is_empty() && trace.jobs.is_empty());
}

/// A dispatcher that counts from readiness puts a punctual job before a late one: a third job has
/// to wait for both.
#[test]
fn counting_from_readiness_needs_more_time() {
    let tasks = |counted| {
        [
            Task::new("late", ns(4), ns(10)).deadline(ns(12)).jitter(ns(8)).counted(counted),
            Task::new("other", ns(3), ns(100)).deadline(ns(7)).offset(ns(8)),
        ]
    };
    for (counted, holds) in [(Counted::FromArrival, true), (Counted::FromReadiness, false)] {
        let tasks = tasks(counted);
        assert_eq!(earliest_deadline(&tasks, Preemption::Full).unwrap().schedulable(), holds, "{counted:?}");
        let late = |task: usize, number: u64| Variation {
            jitter: if (task, number) == (0, 0) { ns(8) } else { ns(0) },
            ..Variation::default()
        };
        let jobs = jobs(&tasks, ns(90), late);
        let trace = simulate(&tasks, jobs, &Discipline::EarliestDeadline, Preemption::Full, ns(90)).unwrap();
        assert_eq!(trace.missed().next().is_none(), holds, "{counted:?}");
    }
}
