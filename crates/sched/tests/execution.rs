//! The analysis compared with the machine: FIFO threads on one processor run an admitted set within
//! the computed bounds; a refused set misses deadlines.
//!
//! Work is counted on the thread's CPU clock, so that a job computes what it declares. The noise of
//! the machine (wake-up latency, interrupts, a hypervisor) is measured before, during and after the
//! run, and declared as cost and blocking. If the noise during the run exceeds the declared one,
//! the run is repeated, at most five times.

use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};
use isorb_sched::{Admission, AdmissionConfig, Analysis, Nanos, Preemption, Task, fixed_priority};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const MS: u64 = 1_000_000;
/// Both tests use the same processor.
static PROCESSOR: Mutex<()> = Mutex::new(());
/// The native priority of the most urgent task.
const TOP: u32 = 70;
/// The number of runs with exceeded bounds that is a failure.
const BOUNDED: usize = 3;

fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

/// The measurements of a task.
#[derive(Debug, Default, Clone, Copy)]
struct Observed {
    worst: u64,
    missed: u64,
    /// The longest time without the processor while it was busy.
    gap: u64,
}

/// A FIFO thread on the last available processor; `None` without the right to one.
fn urgent<R: Send + 'static>(
    priority: u32,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<isorb_rt::sched::Thread<R>> {
    let cpu = current_cpus().ok()?.iter().last()?;
    let class = SchedClass::Fifo(u8::try_from(priority).ok()?);
    let spec = ThreadSpec::new("execution").class(class).cpus(Cpus::one(cpu)).prefault(64 * 1024);
    match spec.spawn(work) {
        Ok(thread) => Some(thread),
        Err(error) => {
            println!("skipped: a FIFO thread is not granted here: {error}");
            None
        }
    }
}

/// Computes for `cost` on this thread's CPU clock; returns the longest pause.
fn compute(cost: u64) -> u64 {
    let end = thread_cpu_ns() + cost;
    let (mut gap, mut last) = (0, now_ns());
    while thread_cpu_ns() < end {
        let now = now_ns();
        gap = gap.max(now - last);
        last = now;
    }
    gap
}

/// Runs the tasks for `span`, released together.
fn run(tasks: &[Task], span: u64) -> Option<Vec<Observed>> {
    let start = now_ns() + 50 * MS;
    let threads: Option<Vec<_>> = tasks
        .iter()
        .map(|task| {
            let (cost, period, deadline) = (task.cost.ns(), task.period.ns(), task.deadline.ns());
            urgent(task.priority, move || {
                let mut seen = Observed::default();
                for release in (start..start + span).step_by(usize::try_from(period).unwrap_or(usize::MAX)) {
                    // A job that is released during the previous one begins at the end of that.
                    sleep_until(Deadline::after(Duration::from_nanos(release.saturating_sub(now_ns()))));
                    seen.gap = seen.gap.max(compute(cost));
                    let response = now_ns() - release;
                    seen.worst = seen.worst.max(response);
                    seen.missed += u64::from(response > deadline);
                }
                seen
            })
        })
        .collect();
    threads?.into_iter().map(|thread| thread.join().ok()).collect()
}

/// The longest wake-up latency or pause at the top priority in a fifth of a second.
fn noise() -> Option<u64> {
    let thread = urgent(TOP + 1, || {
        let mut longest = 0;
        for _ in 0..20 {
            let at = now_ns() + 2 * MS;
            sleep_until(Deadline::after(Duration::from_nanos(at.saturating_sub(now_ns()))));
            longest = longest.max(now_ns().saturating_sub(at)).max(compute(8 * MS));
        }
        longest
    })?;
    thread.join().ok()
}

/// The tasks with the noise of the machine: each job may be disturbed once, and so may the jobs
/// that it waits for.
fn declared(tasks: &[Task], noise: u64) -> Analysis {
    let disturbed: Vec<Task> = tasks
        .iter()
        .map(|task| {
            Task { cost: task.cost.plus(Nanos::new(200_000)), ..task.clone() }.blocking(Nanos::new(4 * noise))
        })
        .collect();
    fixed_priority(&disturbed, Preemption::Full).expect("they are tasks")
}

#[test]
fn an_admitted_set_meets_its_bounds() {
    let _alone = PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner);
    let mut admission = Admission::new(AdmissionConfig::default());
    let tasks = [
        Task::new("fast", ms(10), ms(40)).priority(TOP),
        Task::new("middle", ms(15), ms(70)).deadline(ms(60)).priority(TOP - 1),
        Task::new("slow", ms(20), ms(140)).deadline(ms(120)).priority(TOP - 2),
    ];
    for task in &tasks {
        admission.try_admit(task.clone()).unwrap();
    }
    let mut runs = Vec::new();
    for _ in 0..5 {
        let Some(before) = noise() else { return };
        let Some(seen) = run(&tasks, 560 * MS) else { return };
        let after = noise().unwrap_or(before);
        // No task of the set delays the most urgent one.
        let noise = before.max(after).max(seen[0].gap);
        let analysis = declared(&tasks, noise);
        // The slow task waits for both others at the first release, so that the bounds are tested.
        assert!(seen[2].worst >= 45 * MS, "{seen:?}");
        let bounds: Vec<u64> =
            analysis.verdicts.iter().map(|verdict| verdict.response.bound().map_or(0, Nanos::ns)).collect();
        let within = seen.iter().zip(&bounds).all(|(seen, bound)| seen.worst <= *bound && seen.missed == 0);
        println!("noise {}: bounds {bounds:?}, seen {seen:?}", Nanos::new(noise));
        if within && analysis.schedulable() {
            return;
        }
        runs.push((noise, bounds, seen));
    }
    if runs.iter().filter(|(noise, _, _)| declared(&tasks, *noise).schedulable()).count() < BOUNDED {
        println!("skipped: the machine is too noisy for bounds: {runs:?}");
        return;
    }
    panic!("responses are over their bounds: {runs:?}");
}

/// 90 % of the processor is still too much: the analysis and the machine agree on it.
#[test]
fn a_refused_set_misses_when_forced_in() {
    let _alone = PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner);
    let tasks = [
        Task::new("fast", ms(20), ms(40)).priority(TOP),
        Task::new("slow", ms(22), ms(55)).priority(TOP - 1),
    ];
    let mut admission = Admission::new(AdmissionConfig::default());
    admission.try_admit(tasks[0].clone()).unwrap();
    let refusal = admission.try_admit(tasks[1].clone()).unwrap_err();
    assert!(
        refusal.to_string().contains("it would take at least 62 ms, over its deadline of 55 ms"),
        "{refusal}"
    );
    let Some(seen) = run(&tasks, 220 * MS) else { return };
    assert!(seen[1].missed > 0 && seen[1].worst >= 62 * MS, "{seen:?}");
}
