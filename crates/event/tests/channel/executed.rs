//! Admission against the machine: consumers that were admitted are served within their deadlines by the channel's real-time threads on one
//! processor, under fixed priorities, deadlines and laxity; those that were refused, forced in, miss.

use crate::common::*;
use isorb_event::{
    Channel, Config, ConnectError, Event, Filter, Placement, Quality, RunTimeScheduler, Scheduled, Strategy,
    ThreadSetup,
};
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};
use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const MS: u64 = 1_000_000;
const SPAN: u64 = 560 * MS;
/// What a consumer computes beyond what the test gives it to do: declared, too.
const OVERHEAD: u64 = MS / 2;
/// A machine that keeps a thread at the top priority from running for longer is too noisy for bounds.
const NOISE: u64 = 3 * MS;

#[derive(Clone, Copy)]
struct Task {
    name: &'static str,
    cost: u64,
    period: u64,
    deadline: u64,
}

const fn task(name: &'static str, cost: u64, period: u64, deadline: u64) -> Task {
    Task { name, cost: cost * MS, period: period * MS, deadline: deadline * MS }
}

/// 61 % of the processor; with 3 ms to spare for each whichever runs first, and without pre-emption.
const GOOD: [Task; 3] = [task("fast", 10, 40, 40), task("middle", 15, 70, 60), task("slow", 10, 140, 120)];
/// In time where the fast one pre-empts the slow one, and late where not.
const PREEMPTING: [Task; 2] = [task("fast", 4, 30, 16), task("slow", 40, 140, 130)];
/// 110 %.
const BAD: [Task; 2] = [task("fast", 20, 40, 40), task("slow", 33, 55, 55)];

fn quality(task: Task) -> Quality {
    let ns = |ns| Some(Duration::from_nanos(ns));
    Quality {
        worst_case: ns(task.cost + OVERHEAD),
        period: ns(task.period),
        deadline: ns(task.deadline),
        ..Quality::default()
    }
}

fn scheduled(policy: Policy) -> Scheduled {
    let spans = [40, 55, 70, 140].map(Nanos::from_ms);
    Scheduled::new(RuntimeScheduler::new(Plan::with_levels(policy, &spans, 1..=100).unwrap()))
}

/// Puts consumers where a scheduler would that took them for a tenth as expensive.
struct Forced(Scheduled);

impl RunTimeScheduler for Forced {
    fn admit(&self, name: &str, q: &Quality) -> Result<(Placement, u64), isorb_event::NotAdmitted> {
        let cheap = Quality { worst_case: q.worst_case.map(|cost| cost / 10), ..q.clone() };
        let (placement, number) = self.0.admit(name, &cheap)?;
        Ok((Placement { worst_case: q.worst_case, ..placement }, number))
    }

    fn leave(&self, number: u64) {
        self.0.leave(number);
    }
}

/// As it is, but for that it does not say what it counts on, so that any channel takes it.
struct Unchecked(Scheduled);

impl RunTimeScheduler for Unchecked {
    fn admit(&self, name: &str, q: &Quality) -> Result<(Placement, u64), isorb_event::NotAdmitted> {
        self.0.admit(name, q)
    }

    fn leave(&self, number: u64) {
        self.0.leave(number);
    }
}

/// What was seen of a consumer.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    served: u64,
    missed: u64,
    worst_ns: u64,
    /// The native priority that served it last.
    native: Option<u8>,
}

/// Pushes to the tasks' consumers at their periods, all released together.
fn run(
    tasks: &[Task],
    levels: Vec<isorb_event::Priority>,
    scheduler: Arc<dyn RunTimeScheduler>,
    strategy: Strategy,
) -> Vec<Seen> {
    let cpu = current_cpus().unwrap().iter().last().unwrap();
    let threads = ThreadSetup::fifo().on(Cpus::one(cpu));
    let channel = Channel::new(Config { levels, threads, scheduler, ..Config::with(strategy) }).unwrap();
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::new(Mutex::new(vec![Seen::default(); tasks.len()]));
    let _proxies: Vec<_> = (tasks.iter().enumerate())
        .map(|(i, task)| {
            let (task, seen) = (*task, seen.clone());
            let consumer = move |events: &[Event<'_>]| {
                let end = thread_cpu_ns() + task.cost;
                while thread_cpu_ns() < end {}
                let response = now_ns() - events[0].header.creation_time;
                let mut seen = seen.lock().unwrap();
                seen[i].served += 1;
                seen[i].missed += u64::from(response > task.deadline);
                seen[i].worst_ns = seen[i].worst_ns.max(response);
                seen[i].native = SchedClass::current().unwrap().native_priority();
            };
            let qos = isorb_event::ConsumerQos::of(task.name, Filter::of(20 + i as i32, 0));
            channel.for_consumers().connect(Arc::new(consumer), qos.quality(quality(task))).unwrap()
        })
        .collect();
    let start = now_ns() + 50 * MS;
    let mut releases: Vec<(u64, usize)> = Vec::new();
    for (i, task) in tasks.iter().enumerate() {
        releases.extend((0..SPAN).step_by(task.period as usize).map(|at| (start + at, i)));
    }
    releases.sort_unstable();
    let pushes = releases.len() as u64;
    let supplier = channel.for_suppliers().connect().unwrap();
    // Above all consumers, so that none keeps it from pushing.
    let push = move || {
        for (at, i) in releases {
            sleep_until(Deadline::at_ns(at));
            supplier.push(&event(20 + i as i32, 0, at));
        }
    };
    ThreadSpec::new("supplier")
        .class(SchedClass::Fifo(98))
        .cpus(Cpus::one(cpu))
        .spawn(push)
        .unwrap()
        .join()
        .unwrap();
    while seen.lock().unwrap().iter().map(|seen| seen.served).sum::<u64>() < pushes {
        std::thread::sleep(Duration::from_millis(5));
    }
    channel.destroy();
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// The longest time, of a tenth of a second, for which a thread at the top priority wakes up late or is kept from running.
fn noise() -> u64 {
    let cpu = current_cpus().unwrap().iter().last().unwrap();
    let look = || {
        let mut longest = 0;
        for _ in 0..10 {
            let at = now_ns() + 2 * MS;
            sleep_until(Deadline::at_ns(at));
            let mut last = now_ns();
            longest = longest.max(last - at);
            while last < at + 8 * MS {
                let now = now_ns();
                longest = longest.max(now - last);
                last = now;
            }
        }
        longest
    };
    ThreadSpec::new("noise")
        .class(SchedClass::Fifo(99))
        .cpus(Cpus::one(cpu))
        .spawn(look)
        .unwrap()
        .join()
        .unwrap()
}

/// The right to real-time threads, and the processor: these tests run one after the other.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static PROCESSOR: Mutex<()> = Mutex::new(());
    let may = std::thread::spawn(|| SchedClass::Fifo(99).set_current().is_ok()).join().unwrap();
    if !may {
        println!("SKIPPED: no right to real-time scheduling here");
        return None;
    }
    Some(PROCESSOR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Runs an admitted set until all are in time, at most eight times. A machine that is too noisy for any bound is said to be.
fn admitted(policy: Policy, tasks: &[Task], strategy: Strategy) -> Vec<Seen> {
    let mut told = Vec::new();
    for _ in 0..8 {
        let scheduled = scheduled(policy);
        let before = noise();
        let seen = run(tasks, scheduled.levels(), Arc::new(scheduled), strategy);
        let served = |task: &Task| SPAN.div_ceil(task.period);
        assert!(tasks.iter().zip(&seen).all(|(task, seen)| seen.served == served(task)), "{seen:?}");
        let late = tasks.iter().zip(&seen).any(|(task, seen)| seen.worst_ns > task.deadline);
        told.push((before.max(noise()), late, seen));
        if !late {
            break;
        }
    }
    let quiet = told.iter().filter(|(noise, ..)| *noise < NOISE).count();
    let held = told.iter().any(|(_, late, _)| !late);
    if !held && quiet < 3 {
        println!("SKIPPED: the machine is too noisy for any bound: {told:?}");
    } else {
        assert!(held, "{policy:?}, {strategy:?}: admitted, and late: {told:?}");
    }
    told.pop().map(|(_, _, seen)| seen).unwrap_or_default()
}

/// Levels that are next to each other have native priorities of their own, so that the fast one pre-empts; and one thread for both, which does
/// not, is late.
#[test]
fn neighbouring_levels_pre_empt_each_other() {
    let Some(_alone) = alone() else { return };
    for policy in [Policy::RateMonotonic, Policy::DeadlineMonotonic] {
        for per_level in [1, 2] {
            let seen = admitted(policy, &PREEMPTING, Strategy::Threads { per_level });
            assert!(seen[0].native > seen[1].native, "{policy:?}: {seen:?}");
        }
        let scheduled = scheduled(policy);
        let seen =
            run(&PREEMPTING, scheduled.levels(), Arc::new(Unchecked(scheduled)), Strategy::SingleThreaded);
        assert!(seen[0].missed > 0, "nobody pre-empts on one thread: {seen:?}");
    }
}

/// Where a level has two threads, they take turns on one processor: the verdict holds as for one.
#[test]
fn a_second_thread_of_a_level_takes_nothing_from_the_verdict() {
    let Some(_alone) = alone() else { return };
    for policy in [Policy::EarliestDeadline, Policy::MinimumLaxity] {
        admitted(policy, &GOOD, Strategy::Threads { per_level: 2 });
    }
}

#[test]
fn who_was_admitted_is_in_time_and_who_was_refused_is_not() {
    let Some(_alone) = alone() else { return };
    for policy in [
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
        Policy::EarliestDeadline,
        Policy::MinimumLaxity,
        Policy::MaximumUrgency,
    ] {
        admitted(policy, &GOOD, Strategy::Threads { per_level: 1 });
        // Refused, and right so.
        let refusing = scheduled(policy);
        let (levels, refusing) = (refusing.levels(), Arc::new(refusing));
        let channel = Channel::new(Config {
            levels: levels.clone(),
            scheduler: refusing,
            own_threads: false,
            ..Config::with(Strategy::Threads { per_level: 1 })
        })
        .unwrap();
        let connect = |task: Task| {
            let qos = isorb_event::ConsumerQos::of(task.name, Filter::Everything).quality(quality(task));
            channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
        };
        let _first = connect(BAD[0]).unwrap();
        let Err(ConnectError::NotAdmitted(why)) = connect(BAD[1]) else { panic!("{policy:?}: admitted") };
        assert!(why.to_string().contains("slow cannot be admitted"), "{why}");
        let seen = run(&BAD, levels, Arc::new(Forced(scheduled(policy))), Strategy::Threads { per_level: 1 });
        assert!(
            seen.iter().any(|seen| seen.missed > 0),
            "{policy:?}: more than all of the processor, and in time: {seen:?}"
        );
    }
}
