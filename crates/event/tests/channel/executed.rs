//! Admission against the machine: consumers that were admitted are answered within the analysed
//! responses by the channel's real-time threads on one processor, under each policy; those that
//! were refused, forced in, miss. (`analysed.rs` does so in virtual time, to the millisecond.)
//!
//! ReadyConsumer is counted on the thread's own CPU clock, so what a consumer computes is what it
//! declares. What the channel adds is declared as cost. What the machine adds (waking up,
//! interrupts, a hypervisor) is measured before, during and after, and declared to the analysis as
//! blocking. A run on a machine that is so noisy that nothing could be admitted with that says
//! nothing, and is made again.

use crate::common::*;
use isorb_event::{
    Channel, Config, ConnectError, Event, Filter, Placement, Quality, RunTimeScheduler, Scheduled, Strategy,
    ThreadSetup,
};
use isorb_rt::sched::{Cpus, SchedClass, ThreadSpec, current_cpus};
use isorb_rt::time::{Deadline, now_ns, sleep_until, thread_cpu_ns};
use isorb_sched::{Criticality, Nanos, Plan, Policy, RuntimeScheduler};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const MS: u64 = 1_000_000;
const SPAN: u64 = 560 * MS;
/// What the channel computes for an event besides its consumer: declared, too.
const OVERHEAD: u64 = MS / 2;
/// So often a job may be disturbed: itself, twice by who goes before it, and as its supplier wakes
/// up.
const DISTURBED: u64 = 4;

#[derive(Clone, Copy)]
pub struct Task {
    pub name: &'static str,
    pub cost: u64,
    pub period: u64,
    pub deadline: u64,
    criticality: Criticality,
}

pub const fn task(name: &'static str, cost: u64, period: u64, deadline: u64) -> Task {
    let criticality = Criticality::Medium;
    Task { name, cost: cost * MS, period: period * MS, deadline: deadline * MS, criticality }
}

impl Task {
    pub const fn critical(self, criticality: Criticality) -> Task {
        Task { criticality, ..self }
    }
}

/// 43 % of the processor; with room to spare for each whichever runs first, and without
/// pre-emption. By criticality the middle one goes first.
pub const GOOD: [Task; 3] = [
    task("fast", 8, 40, 40).critical(Criticality::High),
    task("middle", 12, 70, 60).critical(Criticality::VeryHigh),
    task("slow", 8, 140, 120).critical(Criticality::Low),
];
/// In time where the fast one pre-empts the slow one, and late where not.
const PREEMPTING: [Task; 2] = [task("fast", 4, 30, 16), task("slow", 40, 140, 130)];
/// 83 % of the processor, and 40 ms of work within 30 all the same, whoever goes first.
pub const BAD: [Task; 2] = [task("fast", 20, 40, 25), task("slow", 20, 60, 30)];

/// What a task declares that costs so much more than what it computes.
pub fn quality(task: Task, overhead: u64) -> Quality {
    let ns = |ns| Some(Duration::from_nanos(ns));
    Quality {
        worst_case: ns(task.cost + overhead),
        period: ns(task.period),
        deadline: ns(task.deadline),
        criticality: task.criticality,
        ..Quality::default()
    }
}

/// All that rank tasks by what is known of them; the other goes by declared priorities.
pub const POLICIES: [Policy; 6] = [
    Policy::RateMonotonic,
    Policy::DeadlineMonotonic,
    Policy::EarliestDeadline,
    Policy::MinimumLaxity,
    Policy::MaximumUrgency,
    Policy::Criticality,
];

pub fn plan(policy: Policy) -> Plan {
    let spans = [40, 55, 70, 140].map(Nanos::from_ms);
    Plan::with_levels(policy, &spans, 1..=100).unwrap()
}

fn scheduled(policy: Policy) -> Scheduled {
    Scheduled::new(RuntimeScheduler::new(plan(policy)))
}

/// The longest responses by the analysis on a machine with so much noise; `None` where that leaves
/// no room for the tasks.
fn analysed(policy: Policy, tasks: &[Task], noise: u64) -> Option<Vec<u64>> {
    let mut scheduler = RuntimeScheduler::new(plan(policy));
    let connect = |task: &Task| {
        let declared =
            isorb_sched::Task::new(task.name, Nanos::new(task.cost + OVERHEAD), Nanos::new(task.period))
                .deadline(Nanos::new(task.deadline))
                .criticality(task.criticality)
                .blocking(Nanos::new(DISTURBED * noise));
        scheduler.connect(declared).ok()
    };
    let ids: Option<Vec<_>> = tasks.iter().map(connect).map(|connected| Some(connected?.id)).collect();
    ids?.into_iter().map(|id| Some(scheduler.response(id)?.ns())).collect()
}

/// Puts consumers where a scheduler would that took them for a tenth as expensive.
pub struct Forced(pub Scheduled);

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
pub struct Unchecked(pub Arc<Scheduled>);

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
    /// The longest time in which it was kept from running while it was busy.
    gap: u64,
    /// The native priority that served it last.
    native: Option<u8>,
}

/// As it is written down: consumers share no lock, which a less urgent one could hold.
#[derive(Default)]
struct Notes {
    served: AtomicU64,
    missed: AtomicU64,
    worst_ns: AtomicU64,
    gap: AtomicU64,
    /// 0 is none.
    native: AtomicU64,
}

impl Notes {
    fn read(&self) -> Seen {
        Seen {
            served: self.served.load(SeqCst),
            missed: self.missed.load(SeqCst),
            worst_ns: self.worst_ns.load(SeqCst),
            gap: self.gap.load(SeqCst),
            native: u8::try_from(self.native.load(SeqCst)).ok().filter(|native| *native > 0),
        }
    }
}

/// Computes for so long on this thread's CPU clock; the longest pause.
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
    let notes: Vec<Arc<Notes>> = tasks.iter().map(|_| Arc::default()).collect();
    let _proxies: Vec<_> = (tasks.iter().enumerate())
        .map(|(i, task)| {
            let (task, notes) = (*task, notes[i].clone());
            let consumer = move |events: &[Event<'_>]| {
                notes.gap.fetch_max(compute(task.cost), SeqCst);
                let response = now_ns() - events[0].header.creation_time;
                notes.missed.fetch_add(u64::from(response > task.deadline), SeqCst);
                notes.worst_ns.fetch_max(response, SeqCst);
                let native = SchedClass::current().unwrap().native_priority();
                notes.native.store(native.map_or(0, u64::from), SeqCst);
                notes.served.fetch_add(1, SeqCst);
            };
            let qos = isorb_event::ConsumerQos::new(task.name, Filter::of(20 + i as i32, 0));
            channel.for_consumers().connect(Arc::new(consumer), qos.quality(quality(task, OVERHEAD))).unwrap()
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
    while notes.iter().map(|notes| notes.served.load(SeqCst)).sum::<u64>() < pushes {
        std::thread::sleep(Duration::from_millis(5));
    }
    channel.destroy();
    notes.iter().map(|notes| notes.read()).collect()
}

/// The longest time, of a tenth of a second, for which a thread at the top priority wakes up late
/// or is kept from running.
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

/// So many runs that had bounds, and were over them, tell something.
const BOUNDED: usize = 3;

/// Runs an admitted set until each response is within the analysed one, at most eight times. A
/// machine that is too noisy for bounds most of the time is said to be.
fn admitted(policy: Policy, tasks: &[Task], strategy: Strategy) -> Vec<Seen> {
    let mut told = Vec::new();
    for _ in 0..8 {
        let scheduled = scheduled(policy);
        let before = noise();
        let seen = run(tasks, scheduled.levels(), Arc::new(scheduled), strategy);
        let served = |task: &Task| SPAN.div_ceil(task.period);
        assert!(tasks.iter().zip(&seen).all(|(task, seen)| seen.served == served(task)), "{seen:?}");
        // Nobody of the set keeps the most urgent from running.
        let top = seen.iter().map(|seen| seen.native).max().flatten();
        let gap = seen.iter().filter(|seen| seen.native == top).map(|seen| seen.gap).max().unwrap_or(0);
        let noise = before.max(noise()).max(gap);
        let bounds = analysed(policy, tasks, noise);
        let within = |bounds: &Vec<u64>| seen.iter().zip(bounds).all(|(seen, bound)| seen.worst_ns <= *bound);
        let held = bounds.as_ref().is_some_and(within);
        // Whoever goes last waits for the others at the first release: the bounds are about
        // something.
        let all: u64 = tasks.iter().map(|task| task.cost).sum();
        assert!(seen.iter().any(|seen| seen.worst_ns >= all), "{policy:?}: {seen:?}");
        told.push((noise, bounds, seen));
        if held {
            return told.pop().map(|(_, _, seen)| seen).unwrap_or_default();
        }
    }
    if told.iter().filter(|(_, bounds, _)| bounds.is_some()).count() < BOUNDED {
        println!("SKIPPED: the machine is too noisy for bounds: {told:?}");
    } else {
        panic!("{policy:?}, {strategy:?}: admitted, and over the analysed responses: {told:?}");
    }
    told.pop().map(|(_, _, seen)| seen).unwrap_or_default()
}

/// Levels that are next to each other have native priorities of their own, so that the fast one
/// pre-empts; and one thread for both, which does not, is late.
#[test]
fn neighbouring_levels_pre_empt_each_other() {
    let Some(_alone) = alone() else { return };
    for policy in [Policy::RateMonotonic, Policy::DeadlineMonotonic] {
        for per_level in [1, 2] {
            let seen = admitted(policy, &PREEMPTING, Strategy::Threads { per_level });
            assert!(seen[0].native > seen[1].native, "{policy:?}: {seen:?}");
        }
        let scheduled = scheduled(policy);
        let seen = run(
            &PREEMPTING,
            scheduled.levels(),
            Arc::new(Unchecked(Arc::new(scheduled))),
            Strategy::SingleThreaded,
        );
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
    for policy in POLICIES {
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
            let qos =
                isorb_event::ConsumerQos::new(task.name, Filter::Everything).quality(quality(task, OVERHEAD));
            channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
        };
        let _first = connect(BAD[0]).unwrap();
        let Err(ConnectError::NotAdmitted(why)) = connect(BAD[1]) else { panic!("{policy:?}: admitted") };
        assert!(why.to_string().contains("slow cannot be admitted"), "{why}");
        let seen = run(&BAD, levels, Arc::new(Forced(scheduled(policy))), Strategy::Threads { per_level: 1 });
        assert!(
            seen.iter().any(|seen| seen.missed > 0),
            "{policy:?}: 40 ms of work within 30, and in time: {seen:?}"
        );
    }
}
