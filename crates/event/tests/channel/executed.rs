//! Admission against the machine. Admitted consumers meet the analysed responses with the channel's
//! real-time threads on one processor, under each policy; refused ones that are forced in miss.
//! (`analysed.rs` does the same in virtual time, to the millisecond.)
//!
//! Work is measured on the thread's own CPU clock, so a consumer computes exactly as long as it
//! declares. The cost of the channel is declared too. Disturbances of the machine (wake-up latency,
//! interrupts, a hypervisor) are measured before, during and after a run, and enter the analysis as
//! blocking. A run on a machine too noisy to admit anything is repeated.

use crate::common::*;
use isorb_event::{
    Channel, ConnectError, Event, Filter, Placement, Quality, RunTimeScheduler, Scheduled, Strategy,
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
/// The channel's own cost of an event, declared too.
const OVERHEAD: u64 = MS / 2;
/// The disturbances of a job: one of its own, two of jobs before it, and one as its supplier wakes
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

/// 43 % of the processor, with slack for each in any order and without pre-emption. By criticality
/// the middle one is first.
pub const GOOD: [Task; 3] = [
    task("fast", 8, 40, 40).critical(Criticality::High),
    task("middle", 12, 70, 60).critical(Criticality::VeryHigh),
    task("slow", 8, 140, 120).critical(Criticality::Low),
];
/// In time if the fast one pre-empts the slow one, late if not.
const PREEMPTING: [Task; 2] = [task("fast", 4, 30, 16), task("slow", 40, 140, 130)];
/// 83 % of the processor, but 40 ms of work within 30 in any order.
pub const BAD: [Task; 2] = [task("fast", 20, 40, 25), task("slow", 20, 60, 30)];

/// The declaration of a task that costs so much more than it computes.
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

/// All policies that rank tasks by their parameters; the remaining one uses declared priorities.
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

/// The analysed responses on a machine with this noise; `None` if it leaves no room for the tasks.
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

/// Places consumers like a scheduler that believes them ten times cheaper.
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

/// As the inner scheduler, but without a promised pre-emption, so that any channel accepts it.
pub struct Unchecked(pub Arc<Scheduled>);

impl RunTimeScheduler for Unchecked {
    fn admit(&self, name: &str, q: &Quality) -> Result<(Placement, u64), isorb_event::NotAdmitted> {
        self.0.admit(name, q)
    }

    fn leave(&self, number: u64) {
        self.0.leave(number);
    }
}

/// The observations of one consumer.
#[derive(Debug, Clone, Copy, Default)]
struct Observations {
    served: u64,
    missed: u64,
    worst_ns: u64,
    /// The longest interruption while it computed.
    gap: u64,
    /// The native priority that served it last.
    native: Option<u8>,
}

/// The observations while they are recorded. Consumers share no lock that a less urgent one could
/// hold.
#[derive(Default)]
struct Notes {
    served: AtomicU64,
    missed: AtomicU64,
    worst_ns: AtomicU64,
    gap: AtomicU64,
    /// 0 for none.
    native: AtomicU64,
}

impl Notes {
    fn read(&self) -> Observations {
        Observations {
            served: self.served.load(SeqCst),
            missed: self.missed.load(SeqCst),
            worst_ns: self.worst_ns.load(SeqCst),
            gap: self.gap.load(SeqCst),
            native: u8::try_from(self.native.load(SeqCst)).ok().filter(|native| *native > 0),
        }
    }
}

/// Computes for a time on this thread's CPU clock. Returns the longest pause.
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
) -> Vec<Observations> {
    let cpu = current_cpus().unwrap().iter().last().unwrap();
    let threads = ThreadSetup::fifo().on(Cpus::one(cpu));
    let channel = Channel::builder()
        .strategy(strategy)
        .levels(levels)
        .threads(threads)
        .scheduler(scheduler)
        .build()
        .unwrap();
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

/// The longest delay, within a tenth of a second, of a thread at the top priority.
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

/// The number of runs above their bounds that count as a failure.
const BOUNDED: usize = 3;

/// Runs an admitted set until each response is within the analysed one, at most eight times.
/// Reports a machine that is too noisy for bounds most of the time.
fn admitted(policy: Policy, tasks: &[Task], strategy: Strategy) -> Vec<Observations> {
    let mut runs = Vec::new();
    for _ in 0..8 {
        let scheduled = scheduled(policy);
        let before = noise();
        let observed = run(tasks, scheduled.levels(), Arc::new(scheduled), strategy);
        let served = |task: &Task| SPAN.div_ceil(task.period);
        assert!(
            tasks.iter().zip(&observed).all(|(task, observed)| observed.served == served(task)),
            "{observed:?}"
        );
        // No task of the set delays the most urgent one.
        let top = observed.iter().map(|observed| observed.native).max().flatten();
        let gap = observed
            .iter()
            .filter(|observed| observed.native == top)
            .map(|observed| observed.gap)
            .max()
            .unwrap_or(0);
        let noise = before.max(noise()).max(gap);
        let bounds = analysed(policy, tasks, noise);
        let within = |bounds: &Vec<u64>| {
            observed.iter().zip(bounds).all(|(observed, bound)| observed.worst_ns <= *bound)
        };
        let held = bounds.as_ref().is_some_and(within);
        // The last task waits for the others at the first release, so the bounds are meaningful.
        let all: u64 = tasks.iter().map(|task| task.cost).sum();
        assert!(observed.iter().any(|observed| observed.worst_ns >= all), "{policy:?}: {observed:?}");
        runs.push((noise, bounds, observed));
        if held {
            return runs.pop().map(|(_, _, observed)| observed).unwrap_or_default();
        }
    }
    if runs.iter().filter(|(_, bounds, _)| bounds.is_some()).count() < BOUNDED {
        println!("SKIPPED: the machine is too noisy for bounds: {runs:?}");
    } else {
        panic!("{policy:?}, {strategy:?}: admitted, and over the analysed responses: {runs:?}");
    }
    runs.pop().map(|(_, _, observed)| observed).unwrap_or_default()
}

/// Adjacent levels have different native priorities, so the fast task pre-empts. With one thread
/// for both it is late.
#[test]
fn adjacent_levels_preempt_each_other() {
    let Some(_alone) = alone() else { return };
    for policy in [Policy::RateMonotonic, Policy::DeadlineMonotonic] {
        for per_level in [1, 2] {
            let observed = admitted(policy, &PREEMPTING, Strategy::Threads { per_level });
            assert!(observed[0].native > observed[1].native, "{policy:?}: {observed:?}");
        }
        let scheduled = scheduled(policy);
        let observed = run(
            &PREEMPTING,
            scheduled.levels(),
            Arc::new(Unchecked(Arc::new(scheduled))),
            Strategy::SingleThreaded,
        );
        assert!(observed[0].missed > 0, "there is no pre-emption on one thread: {observed:?}");
    }
}

/// Two threads of a level share one processor; the verdict holds as for one.
#[test]
fn a_second_thread_of_a_level_keeps_the_verdict() {
    let Some(_alone) = alone() else { return };
    for policy in [Policy::EarliestDeadline, Policy::MinimumLaxity] {
        admitted(policy, &GOOD, Strategy::Threads { per_level: 2 });
    }
}

#[test]
fn admitted_sets_meet_deadlines_and_refused_ones_do_not() {
    let Some(_alone) = alone() else { return };
    for policy in POLICIES {
        admitted(policy, &GOOD, Strategy::Threads { per_level: 1 });
        // Refused, and rightly so.
        let refusing = scheduled(policy);
        let (levels, refusing) = (refusing.levels(), Arc::new(refusing));
        let channel = Channel::builder()
            .strategy(Strategy::Threads { per_level: 1 })
            .levels(levels.clone())
            .scheduler(refusing)
            .own_threads(false)
            .build()
            .unwrap();
        let connect = |task: Task| {
            let qos =
                isorb_event::ConsumerQos::new(task.name, Filter::Everything).quality(quality(task, OVERHEAD));
            channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
        };
        let _first = connect(BAD[0]).unwrap();
        let Err(ConnectError::NotAdmitted(why)) = connect(BAD[1]) else { panic!("{policy:?}: admitted") };
        assert!(why.to_string().contains("slow cannot be admitted"), "{why}");
        let observed =
            run(&BAD, levels, Arc::new(Forced(scheduled(policy))), Strategy::Threads { per_level: 1 });
        assert!(
            observed.iter().any(|observed| observed.missed > 0),
            "{policy:?}: 40 ms of work within 30, and in time: {observed:?}"
        );
    }
}
