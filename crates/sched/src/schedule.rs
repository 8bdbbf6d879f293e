//! Off-line scheduling: from the task graph to levels, priorities and a verdict for each task.

mod resources;
mod responses;

use crate::graph::{Graph, GraphError, OperationId};
use crate::links::Links;
use crate::{Analysis, Plan, PlanError, Policy, Preemption, QueueConfig, Task, TaskError, Verdict};
use responses::Responses;
use std::fmt;
use std::ops::RangeInclusive;

/// How to schedule a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The order between tasks.
    pub policy: Policy,
    /// When a running task can be preempted.
    pub preemption: Preemption,
    /// Whether one thread serves all tasks of a level, so that they do not preempt each other. A
    /// policy with a single level, such as EDF, then runs without preemption.
    pub one_thread_per_level: bool,
    /// The CORBA priorities of threads. The most urgent level has the last one.
    pub priorities: RangeInclusive<u16>,
}

impl Default for Config {
    /// Rate monotonic, full preemption, one thread per level, every CORBA priority.
    fn default() -> Config {
        Config {
            policy: Policy::RateMonotonic,
            preemption: Preemption::Full,
            one_thread_per_level: true,
            priorities: 0..=32767,
        }
    }
}

/// A computed schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The configuration that it was computed with.
    pub config: Config,
    /// One for each operation and stream, in the order of operations.
    pub tasks: Vec<Scheduled>,
    /// The queues, the most urgent first.
    pub queues: Vec<QueueConfig>,
    /// A verdict for each task, and the utilisation.
    pub analysis: Analysis,
    /// Findings that do not prevent the schedule.
    pub anomalies: Vec<Anomaly>,
    /// The ceiling of each resource, as [`Schedule::ceiling`] says.
    ceilings: Vec<Option<u32>>,
}

/// A task of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The operation it runs.
    pub operation: OperationId,
    /// The operation that releases it; itself if the period is its own.
    pub from: OperationId,
    /// The operation with the clock that started its chain.
    pub origin: OperationId,
    /// Its predecessors, by index.
    pub after: Vec<usize>,
    /// The predecessor that releases it run by run. The others are the faster members of a
    /// conjunction.
    pub lead: Option<usize>,
    /// Its parameters, with computed jitter and blocking. [`Task::priority`] is the thread's. If
    /// queues are by deadline or laxity and it has successors, its deadline is its share of the
    /// end-to-end time.
    pub task: Task,
    /// Its queue.
    pub queue: QueueConfig,
    /// Breaks ties in its queue: a lower value goes first.
    pub static_subpriority: u32,
}

/// How bad an anomaly is (`RtecScheduler::Anomaly_Severity`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The schedule holds, but may not be as intended.
    Warning,
    /// A deadline is, or may be, missed.
    Error,
    /// There is no schedule.
    Fatal,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its severity.
    pub severity: Severity,
    /// A sentence with the task and the numbers.
    pub description: String,
}

/// Why there is no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleError {
    /// The graph is invalid.
    Graph(GraphError),
    /// A task has invalid parameters.
    Task(TaskError),
    /// The policy needs more levels than there are priorities.
    Plan(PlanError),
    /// The ceiling of a resource is below the priority of a user.
    Ceiling {
        /// The resource.
        resource: String,
        /// Its ceiling.
        ceiling: u32,
        /// The user.
        task: String,
        /// The user's priority.
        priority: u32,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleError::Graph(error) => error.fmt(f),
            ScheduleError::Task(error) => error.fmt(f),
            ScheduleError::Plan(error) => error.fmt(f),
            ScheduleError::Ceiling { resource, ceiling, task, priority } => write!(
                f,
                "{task}: its priority of {priority} is over the ceiling of {ceiling} of {resource}, which it holds"
            ),
        }
    }
}

impl std::error::Error for ScheduleError {}

impl ScheduleError {
    /// The operation or task that it is about, if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            ScheduleError::Graph(GraphError::Cycle { path }) => path.first().map(String::as_str),
            ScheduleError::Graph(
                GraphError::Duplicate { name }
                | GraphError::Unknown { name }
                | GraphError::Idle { name }
                | GraphError::TooMany { name, .. },
            ) => Some(name),
            ScheduleError::Task(error) => Some(&error.task),
            ScheduleError::Ceiling { task, .. } => Some(task),
            ScheduleError::Plan(_) => None,
        }
    }
}

impl From<GraphError> for ScheduleError {
    fn from(error: GraphError) -> ScheduleError {
        ScheduleError::Graph(error)
    }
}

impl From<TaskError> for ScheduleError {
    fn from(error: TaskError) -> ScheduleError {
        ScheduleError::Task(error)
    }
}

impl From<PlanError> for ScheduleError {
    fn from(error: PlanError) -> ScheduleError {
        ScheduleError::Plan(error)
    }
}

impl Graph {
    /// Schedules the graph: propagates rates, makes the tasks, assigns levels and priorities, and
    /// analyses them.
    ///
    /// A released operation inherits jitter: it becomes ready when its predecessor is done, at any
    /// time up to the predecessor's longest response. Responses and jitter are computed in
    /// alternation until neither changes (holistic analysis: Tindell and Clark 1994). Deadlines
    /// count from the arrival that started the chain. In queues by deadline or laxity the deadline
    /// is the only bound on a response. There each operation with successors has its share of the
    /// end-to-end time as deadline, and queues count from readiness.
    ///
    /// # Errors
    /// [`ScheduleError`] if there is nothing to analyse. Missed deadlines are no error but a
    /// verdict.
    ///
    /// # Real-time
    /// Off line.
    pub fn schedule(&self, config: Config) -> Result<Schedule, ScheduleError> {
        let links = Links::of(self)?;
        let tasks: Vec<Task> = links.all.iter().map(|link| link.task.clone()).collect();
        tasks.iter().try_for_each(Task::check)?;
        let plan = Plan::for_tasks(config.policy, &tasks, config.priorities.clone());
        let queues: Vec<QueueConfig> = match plan {
            Ok(plan) => tasks.iter().map(|task| plan.queue_of(task)).collect(),
            Err(_) if tasks.is_empty() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let Responses { tasks, analysis, ceilings } = self.respond(&links, &queues, &config)?;
        let anomalies = anomalies(&tasks, &analysis);
        let subpriorities = subpriorities(&tasks, &queues);
        let mut all: Vec<QueueConfig> = queues.clone();
        all.sort_by_key(|queue| queue.level);
        all.dedup();
        let tasks = tasks
            .into_iter()
            .zip(links.all)
            .zip(queues.iter().zip(subpriorities))
            .map(|((task, link), (queue, static_subpriority))| Scheduled {
                operation: link.operation,
                from: link.stream.from,
                origin: link.stream.origin,
                after: link.after.into_iter().map(|(before, _)| before).collect(),
                lead: link.lead,
                task: task.priority(u32::from(queue.thread_priority)),
                queue: *queue,
                static_subpriority,
            })
            .collect();
        Ok(Schedule { config, tasks, queues: all, analysis, anomalies, ceilings })
    }
}

impl Schedule {
    /// Whether every deadline is known to be met.
    #[must_use]
    pub fn schedulable(&self) -> bool {
        self.analysis.schedulable()
    }

    /// The tasks of an operation.
    pub fn of(&self, operation: OperationId) -> impl Iterator<Item = (&Scheduled, &Verdict)> {
        let verdicts = self.tasks.iter().zip(&self.analysis.verdicts);
        verdicts.filter(move |(scheduled, _)| scheduled.operation == operation)
    }

    /// The queues as a run-time scheduler has them.
    ///
    /// # Errors
    /// [`PlanError`] where there are no tasks.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let tasks: Vec<Task> = self.tasks.iter().map(|scheduled| scheduled.task.clone()).collect();
        let plan = Plan::for_tasks(self.config.policy, &tasks, self.config.priorities.clone())?;
        Ok(plan.preemption(self.config.preemption))
    }
}

/// Ranks the tasks of each queue by importance, then in the given order.
fn subpriorities(tasks: &[Task], queues: &[QueueConfig]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|place| (queues[*place].level, std::cmp::Reverse(tasks[*place].importance)));
    let mut found = vec![0; tasks.len()];
    let (mut level, mut next) = (None, 0);
    for place in order {
        next = if level == Some(queues[place].level) { next + 1 } else { 0 };
        level = Some(queues[place].level);
        found[place] = next;
    }
    found
}

fn anomalies(tasks: &[Task], analysis: &Analysis) -> Vec<Anomaly> {
    let mut found = Vec::new();
    if analysis.utilisation > crate::Utilisation::ONE {
        let description =
            format!("the tasks ask for {} of the processor: {}", analysis.utilisation, askers(tasks));
        found.push(Anomaly { severity: Severity::Fatal, description });
    }
    for (task, verdict) in tasks.iter().zip(&analysis.verdicts) {
        if !verdict.met() {
            let description = format!(
                "{}: its response is {}, its deadline {}",
                task.name, verdict.response, verdict.deadline
            );
            found.push(Anomaly { severity: Severity::Error, description });
        }
    }
    found
}

/// The largest utilisations, as many as a message should have.
fn askers(tasks: &[Task]) -> String {
    const NAMED: usize = 8;
    let mut requested: Vec<_> =
        tasks.iter().map(|task| (crate::Utilisation::of(task.cost, task.period), &task.name)).collect();
    requested.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    let named = requested.iter().take(NAMED).map(|(share, name)| format!("{name} {share}"));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if requested.len() > NAMED {
        text.push_str(&format!(", and {} others", requested.len() - NAMED));
    }
    text
}
