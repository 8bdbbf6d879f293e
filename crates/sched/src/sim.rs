//! A simulator of a processor or a link that serves given jobs.
//!
//! It is the oracle of the analysis, and draws schedules. It advances from event to event, since
//! nothing changes between them, so that the result is that of a simulation by nanoseconds. Only
//! laxity changes all the time: there it decides again every tick.

mod jobs;

pub use jobs::{Job, Variation, hyperperiod, jobs};

use crate::{Counted, Nanos, Order, Preemption, Task, TaskError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The order of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discipline {
    /// The higher [`Task::priority`]; among equals the job that became ready first.
    FixedPriority,
    /// The nearest deadline.
    EarliestDeadline,
    /// The least laxity, decided again every tick.
    MinimumLaxity {
        /// The tick.
        tick: Nanos,
    },
    /// Dual priority: a real-time job waits below best effort until its promotion time, and above
    /// it from then on (Davis and Wellings 1995). The priority decides inside a band.
    DualPriority {
        /// For each task how long after its arrival a job is promoted; `None` for best effort, the
        /// middle band.
        promotion: Vec<Option<Nanos>>,
    },
    /// A queue for each level, like the dispatchers: the position of a job is decided when it is
    /// queued.
    Levels {
        /// For each task its level, 0 the most urgent, and the order of that queue.
        levels: Vec<(u32, Order)>,
        /// Whether a job that has begun goes before all others of its level.
        one_thread_per_level: bool,
    },
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Its end. Jobs may not be done by then.
    pub until: Nanos,
    /// Every run of a job, in order.
    pub runs: Vec<Run>,
    /// Every job, in order of readiness.
    pub jobs: Vec<TracedJob>,
}

/// A time during which one job ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its task, by index.
    pub task: usize,
    /// Its index in [`Trace::jobs`].
    pub job: usize,
    /// Its begin.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
}

/// A job and its completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedJob {
    /// The job.
    pub job: Job,
    /// Its absolute deadline.
    pub deadline: Nanos,
    /// Its completion, if before the end.
    pub finished: Option<Nanos>,
}

impl TracedJob {
    fn new(job: Job, task: &Task) -> TracedJob {
        TracedJob { deadline: job.arrival.plus(task.deadline), job, finished: None }
    }

    /// Whether it is late: done after its deadline, or not done at `until`, which is after it.
    #[must_use]
    pub fn missed(&self, until: Nanos) -> bool {
        self.finished.unwrap_or(until) > self.deadline
    }

    /// The time from arrival to completion.
    #[must_use]
    pub fn response(&self) -> Option<Nanos> {
        self.finished.map(|finished| finished.minus(self.job.arrival))
    }
}

impl Trace {
    /// The longest response of a task among the completed jobs.
    #[must_use]
    pub fn worst_response(&self, task: usize) -> Option<Nanos> {
        self.jobs.iter().filter(|served| served.job.task == task).filter_map(TracedJob::response).max()
    }

    /// The jobs that were late.
    pub fn missed(&self) -> impl Iterator<Item = &TracedJob> {
        self.jobs.iter().filter(|served| served.missed(self.until))
    }
}

/// Why there is no simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimError {
    /// A task has invalid parameters.
    Task(TaskError),
    /// There were more than [`MOST_RUNS`] runs: the span is too long for such short periods, or the
    /// tick is too short.
    TooMany {
        /// The time that the simulation reached.
        reached: Nanos,
    },
    /// The discipline has not one entry for each task, or a tick of zero.
    Discipline,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Task(error) => error.fmt(f),
            SimError::TooMany { reached } => {
                write!(f, "more than {MOST_RUNS} runs until {reached}; simulate a shorter span")
            }
            SimError::Discipline => {
                f.write_str("the discipline lacks a promotion time of a task, or its tick is zero")
            }
        }
    }
}

impl std::error::Error for SimError {}

impl From<TaskError> for SimError {
    fn from(error: TaskError) -> SimError {
        SimError::Task(error)
    }
}

/// The greatest number of runs in a trace.
pub const MOST_RUNS: usize = 4_000_000;

/// Serves `jobs` of `tasks` until `until`.
///
/// Declared blocking is not simulated, since it stands for events outside.
///
/// # Errors
/// [`SimError`].
///
/// ```
/// use isorb_sched::sim::{Discipline, Variation, jobs, simulate};
/// use isorb_sched::{Nanos, Preemption, Task};
/// let ms = Nanos::from_ms;
/// let tasks = [Task::new("fast", ms(1), ms(4)).priority(2), Task::new("slow", ms(4), ms(12)).priority(1)];
/// let jobs = jobs(&tasks, ms(12), |_, _| Variation::default());
/// let trace = simulate(&tasks, jobs, &Discipline::FixedPriority, Preemption::Full, ms(12))?;
/// assert_eq!(trace.worst_response(1), Some(ms(6)));
/// assert_eq!(trace.runs.len(), 5);
/// # Ok::<(), isorb_sched::sim::SimError>(())
/// ```
pub fn simulate(
    tasks: &[Task],
    mut jobs: Vec<Job>,
    discipline: &Discipline,
    preemption: Preemption,
    until: Nanos,
) -> Result<Trace, SimError> {
    tasks.iter().try_for_each(Task::check)?;
    jobs.retain(|job| job.ready < until && job.task < tasks.len() && !job.cost.is_zero());
    let mut waiting: BTreeMap<(usize, u64), Vec<Job>> = BTreeMap::new();
    jobs.retain_mut(|job| match job.after.pop() {
        Some(after) => {
            waiting.entry(after).or_default().push(job.clone());
            false
        }
        None => true,
    });
    jobs.sort_by_key(|job| (job.ready, job.task, job.number));
    let fits = match discipline {
        Discipline::DualPriority { promotion } => promotion.len() == tasks.len(),
        Discipline::Levels { levels, .. } => levels.len() == tasks.len(),
        Discipline::MinimumLaxity { tick } => !tick.is_zero(),
        Discipline::FixedPriority | Discipline::EarliestDeadline => true,
    };
    if !fits {
        return Err(SimError::Discipline);
    }
    let served = |job: Job| {
        let task = &tasks[job.task];
        TracedJob::new(job, task)
    };
    let trace = Trace { until, runs: Vec::new(), jobs: jobs.into_iter().map(served).collect() };
    let (active, done) = (Vec::new(), BTreeSet::new());
    Machine { tasks, discipline, preemption, trace, active, running: None, arrived: 0, waiting, done }.run()
}

/// A job that is ready and not done.
#[derive(Debug, Clone, Copy)]
struct Active {
    /// Its index among the jobs of the trace; a lower one became ready earlier.
    place: usize,
    left: u64,
}

struct Machine<'a> {
    tasks: &'a [Task],
    discipline: &'a Discipline,
    preemption: Preemption,
    trace: Trace,
    active: Vec<Active>,
    /// The index of the job that ran last, while it is not done.
    running: Option<usize>,
    /// The number of jobs that became ready.
    arrived: usize,
    /// Jobs that wait for other jobs, by the job waited for, with their further dependencies.
    waiting: BTreeMap<(usize, u64), Vec<Job>>,
    /// The jobs that are done, by task and number.
    done: BTreeSet<(usize, u64)>,
}

impl Machine<'_> {
    fn run(mut self) -> Result<Trace, SimError> {
        let until = self.trace.until.ns();
        let mut now = 0;
        while now < until {
            self.arrive(now);
            let Some(chosen) = self.choose(now) else {
                match self.trace.jobs.get(self.arrived) {
                    Some(next) => now = next.job.ready.ns(),
                    None => break,
                }
                continue;
            };
            let end = self.next_change(now, chosen).min(until);
            self.serve(chosen, now, end);
            if self.trace.runs.len() > MOST_RUNS {
                return Err(SimError::TooMany { reached: Nanos::new(now) });
            }
            now = end;
        }
        Ok(self.trace)
    }

    fn arrive(&mut self, now: u64) {
        while let Some(next) = self.trace.jobs.get(self.arrived).filter(|next| next.job.ready.ns() <= now) {
            self.active.push(Active { place: self.arrived, left: next.job.cost.ns() });
            self.arrived += 1;
        }
    }

    /// The index among the active jobs of the one that runs now.
    fn choose(&self, now: u64) -> Option<usize> {
        let held = self.active.iter().position(|active| Some(active.place) == self.running);
        if let Some(held) = held.filter(|held| self.keeps(&self.active[*held])) {
            return Some(held);
        }
        (0..self.active.len()).min_by_key(|index| self.urgency(&self.active[*index], now))
    }

    /// Whether the running job may not be preempted now.
    fn keeps(&self, active: &Active) -> bool {
        match self.preemption {
            Preemption::Full => false,
            Preemption::None => true,
            Preemption::Deferred => self.left_of_section(active) < self.section(active),
        }
    }

    fn section(&self, active: &Active) -> u64 {
        self.task(active).longest_section().ns()
    }

    /// The rest of the current section of a job: a whole section at its boundaries.
    fn left_of_section(&self, active: &Active) -> u64 {
        let section = self.section(active);
        let done = self.trace.jobs[active.place].job.cost.ns() - active.left;
        section - done % section
    }

    /// A lower value goes first. The running job goes before others of equal value.
    fn urgency(&self, active: &Active, now: u64) -> (u64, Reverse<u32>, u64, bool, usize) {
        let priority = Reverse(self.task(active).priority);
        let waits = Some(active.place) != self.running;
        let served = &self.trace.jobs[active.place];
        match self.discipline {
            Discipline::FixedPriority => (0, priority, 0, false, active.place),
            Discipline::EarliestDeadline => (self.due(served).ns(), Reverse(0), 0, false, active.place),
            Discipline::MinimumLaxity { .. } => {
                // Counted from long before now, so that late jobs go first.
                let latest_start = served.deadline.ns().saturating_add(1 << 61).saturating_sub(active.left);
                (latest_start.saturating_sub(now), Reverse(0), 0, waits, active.place)
            }
            Discipline::DualPriority { promotion } => {
                let band = match promotion[served.job.task] {
                    Some(wait) if served.job.arrival.plus(wait).ns() <= now => 0,
                    None => 1,
                    Some(_) => 2,
                };
                (band, priority, 0, false, active.place)
            }
            Discipline::Levels { levels, one_thread_per_level } => {
                let (level, order) = levels[served.job.task];
                let begun = *one_thread_per_level && active.left < served.job.cost.ns();
                let key = match order {
                    _ if begun => 0,
                    Order::Arrival => served.job.ready.ns(),
                    Order::Deadline => self.due(served).ns(),
                    Order::Laxity => self.due(served).minus(self.task(active).cost).ns(),
                };
                (u64::from(level), Reverse(0), key, !begun, active.place)
            }
        }
    }

    /// When a job is due in a queue by deadline.
    fn due(&self, served: &TracedJob) -> Nanos {
        let task = &self.tasks[served.job.task];
        match task.counted {
            Counted::FromArrival => served.deadline,
            Counted::FromReadiness => served.job.ready.plus(task.deadline.minus(task.jitter)),
        }
    }

    /// When the next decision is due.
    fn next_change(&self, now: u64, chosen: usize) -> u64 {
        let active = &self.active[chosen];
        let done = now.saturating_add(active.left);
        match self.preemption {
            Preemption::None => return done,
            Preemption::Deferred => return done.min(now.saturating_add(self.left_of_section(active))),
            Preemption::Full => {}
        }
        let arrival = self.trace.jobs.get(self.arrived).map_or(u64::MAX, |next| next.job.ready.ns());
        let other = match self.discipline {
            Discipline::MinimumLaxity { tick } if self.active.len() > 1 => now.saturating_add(tick.ns()),
            Discipline::DualPriority { promotion } => self
                .active
                .iter()
                .filter_map(|active| {
                    let job = &self.trace.jobs[active.place].job;
                    Some(job.arrival.plus(promotion[job.task]?).ns()).filter(|time| *time > now)
                })
                .min()
                .unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        done.min(arrival).min(other)
    }

    fn serve(&mut self, chosen: usize, now: u64, end: u64) {
        let Active { place, left } = self.active[chosen];
        let served = &mut self.trace.jobs[place];
        let (start, end) = (Nanos::new(now), Nanos::new(end));
        match self.trace.runs.last_mut() {
            Some(last) if last.job == place && last.end == start => last.end = end,
            _ => self.trace.runs.push(Run { task: served.job.task, job: place, start, end }),
        }
        if end.ns() - now == left {
            served.finished = Some(end);
            let done = (served.job.task, served.job.number);
            self.running = None;
            self.active.swap_remove(chosen);
            self.done.insert(done);
            for mut job in self.waiting.remove(&done).into_iter().flatten() {
                while job.after.last().is_some_and(|other| self.done.contains(other)) {
                    job.after.pop();
                }
                if let Some(other) = job.after.pop() {
                    self.waiting.entry(other).or_default().push(job);
                    continue;
                }
                job.ready = end;
                let task = &self.tasks[job.task];
                // Jobs that are not ready have no index yet.
                self.trace.jobs.insert(self.arrived, TracedJob::new(job, task));
            }
        } else {
            self.active[chosen].left -= end.ns() - now;
            self.running = Some(place);
        }
    }

    fn task(&self, active: &Active) -> &Task {
        &self.tasks[self.trace.jobs[active.place].job.task]
    }
}
