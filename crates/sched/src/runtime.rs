//! The run-time scheduler: what a dispatcher asks of it, and the door that consumers come in by.
//!
//! A dispatcher has one queue a level, each served by a thread of the level's priority. On connecting, a consumer is admitted or refused; what it
//! gets is a [`Dispatch`], a plain value that says which queue its events go to and where in it. Nothing is looked up or computed
//! by the scheduler while events flow.
//!
//! ```
//! use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler, Task};
//! let ms = Nanos::from_ms;
//! // Queues for 30, 15 and 5 Hz, threads at CORBA priorities 300, 299 and 298.
//! let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(33), ms(67), ms(200)], 1..=300)?;
//! let mut scheduler = RuntimeScheduler::new(plan);
//!
//! let hud = scheduler.connect(Task::new("hud", ms(4), ms(50)))?;
//! assert_eq!((hud.dispatch.level, hud.dispatch.thread_priority), (1, 299));
//! assert_eq!(scheduler.lookup("hud"), Some(hud.id));
//!
//! let refusal = scheduler.connect(Task::new("video", ms(30), ms(33))).unwrap_err();
//! assert!(refusal.to_string().contains("hud would take at least 64 ms, over its deadline of 50 ms"), "{refusal}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    Admission, AdmissionConfig, Assignment, Counted, Nanos, Order, Policy, Preemption, Rank, Refusal, Task,
    TaskId, Utilisation,
};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// The queues of a dispatcher and what may be put into them.
#[derive(Debug, Clone)]
pub struct Plan {
    policy: Policy,
    /// The last rank that each level takes, the most urgent level first; the last level takes the rest.
    levels: Vec<(Rank, QueueConfig)>,
    /// How the processor is handed over between levels: [`Preemption::Full`] with a thread a level, [`Preemption::None`] with one thread for all,
    /// [`Preemption::Deferred`] where consumers yield.
    pub preemption: Preemption,
    /// At most so many consumers.
    pub capacity: usize,
    /// How much of the processor consumers may have.
    pub share: Utilisation,
    /// See [`AdmissionConfig::effort`].
    pub effort: u64,
}

/// What a dispatcher needs to know to set up a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueConfig {
    /// The preemption priority: 0 goes first.
    pub level: u32,
    /// The CORBA priority of the thread that serves it; more is more urgent.
    pub thread_priority: u16,
    /// The order of the queue.
    pub order: Order,
}

impl Plan {
    /// The levels that a policy gives to these tasks, with the upper end of `priorities` for the most urgent.
    ///
    /// # Errors
    /// [`PlanError`] where there are more levels than priorities.
    pub fn for_tasks(
        policy: Policy,
        tasks: &[Task],
        priorities: RangeInclusive<u16>,
    ) -> Result<Plan, PlanError> {
        Plan::with_ranks(policy, policy.ranks(tasks), priorities)
    }

    /// Levels for periods (deadlines under [`Policy::DeadlineMonotonic`]) up to each of `spans`, in ascending order; longer ones go into
    /// the last. Under other policies there is one level, or, by criticality, five, and `spans` says nothing.
    ///
    /// # Errors
    /// [`PlanError`] where there are more levels than priorities, or none.
    pub fn with_levels(
        policy: Policy,
        spans: &[Nanos],
        priorities: RangeInclusive<u16>,
    ) -> Result<Plan, PlanError> {
        use crate::Criticality::{High, Low, Medium, VeryHigh, VeryLow};
        let mut ranks: Vec<Rank> = match policy {
            Policy::RateMonotonic | Policy::DeadlineMonotonic => {
                spans.iter().map(|span| policy.up_to(*span)).collect()
            }
            _ => [VeryHigh, High, Medium, Low, VeryLow]
                .into_iter()
                .map(|criticality| {
                    policy.rank(&Task::new("", Nanos::ZERO, Nanos::MAX).criticality(criticality))
                })
                .collect(),
        };
        ranks.sort_unstable();
        ranks.dedup();
        Plan::with_ranks(policy, ranks, priorities)
    }

    fn with_ranks(
        policy: Policy,
        ranks: Vec<Rank>,
        priorities: RangeInclusive<u16>,
    ) -> Result<Plan, PlanError> {
        let there_are = usize::from(priorities.end().saturating_sub(*priorities.start())) + 1;
        if ranks.is_empty() || priorities.is_empty() || ranks.len() > there_are {
            let priorities = if priorities.is_empty() { 0 } else { there_are };
            return Err(PlanError { levels: ranks.len(), priorities });
        }
        let levels = ranks.into_iter().zip((0_u32..).zip(priorities.rev()));
        Ok(Plan {
            policy,
            levels: levels
                .map(|(rank, (level, thread_priority))| {
                    (rank, QueueConfig { level, thread_priority, order: policy.order() })
                })
                .collect(),
            preemption: Preemption::Full,
            capacity: AdmissionConfig::default().capacity,
            share: Utilisation::ONE,
            effort: AdmissionConfig::default().effort,
        })
    }

    /// With another way to hand the processor over.
    #[must_use]
    pub fn preemption(self, preemption: Preemption) -> Plan {
        Plan { preemption, ..self }
    }

    /// Its policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn queue_of(&self, task: &Task) -> QueueConfig {
        let rank = self.policy.rank(task);
        let level = self.levels.partition_point(|(last, _)| *last < rank).min(self.levels.len() - 1);
        self.levels[level].1
    }
}

/// More levels than there are priorities for them, or none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanError {
    /// What the policy asks for.
    pub levels: usize,
    /// What there is.
    pub priorities: usize,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} levels of urgency do not fit {} thread priorities", self.levels, self.priorities)
    }
}

impl std::error::Error for PlanError {}

/// How events of a consumer are dispatched: a value to keep beside the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dispatch {
    /// The queue: 0 goes first.
    pub level: u32,
    /// The CORBA priority of the thread that serves the queue.
    pub thread_priority: u16,
    /// The order of the queue.
    pub order: Order,
    /// Goes first among those that are equal otherwise: less is sooner.
    pub static_subpriority: u8,
    /// When a job must be done, counted from its arrival.
    pub deadline: Nanos,
    /// How long after its arrival it may become ready: queues count from readiness.
    pub released: Nanos,
    /// How long it computes at most; what goes beyond is an overrun.
    pub cost: Nanos,
}

impl Dispatch {
    /// Where a job that became ready at `now_ns` stands in its queue: less goes first, and equals in the order in which they came.
    /// By arrival everybody is equal; by deadline it is the time of the deadline, by laxity the latest time to begin, both for a job that
    /// was as late as it may be.
    ///
    /// # Real-time
    /// One addition.
    #[must_use]
    pub fn subpriority(&self, now_ns: u64) -> u64 {
        match self.order {
            Order::Arrival => 0,
            Order::Deadline => now_ns.saturating_add(self.own_deadline().ns()),
            Order::Laxity => now_ns.saturating_add(self.own_deadline().minus(self.cost).ns()),
        }
    }

    /// How long a job has from when it became ready.
    #[must_use]
    pub fn own_deadline(&self) -> Nanos {
        self.deadline.minus(self.released)
    }

    /// How long a job with this deadline may still wait before it must begin; negative when it is too late.
    #[must_use]
    pub fn laxity(&self, arrived_ns: u64, now_ns: u64) -> i64 {
        let begin = arrived_ns.saturating_add(self.deadline.minus(self.cost).ns());
        let difference = i128::from(begin) - i128::from(now_ns);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }
}

/// The answer to a consumer that may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// Its name here.
    pub id: TaskId,
    /// How its events are dispatched.
    pub dispatch: Dispatch,
    /// Its longest response with all that are connected now.
    pub response: Nanos,
}

/// Admits consumers to the queues of a [`Plan`] and remembers how each is dispatched.
///
/// # Real-time
/// [`RuntimeScheduler::dispatch`] and [`RuntimeScheduler::dispatch_configuration`] take constant time and no memory.
/// Connecting and disconnecting allocate and compute, bounded by [`Plan::effort`]. There is no lock inside: who shares it
/// keeps connecting away from the threads that dispatch, which need nothing but their [`Dispatch`].
#[derive(Debug)]
pub struct RuntimeScheduler {
    plan: Plan,
    admission: Admission,
    names: BTreeMap<String, TaskId>,
}

impl RuntimeScheduler {
    /// Nobody connected yet.
    #[must_use]
    pub fn new(plan: Plan) -> RuntimeScheduler {
        let mut admission = Admission::new(AdmissionConfig {
            preemption: plan.preemption,
            assignment: Assignment::Declared,
            one_thread_per_level: true,
            capacity: plan.capacity,
            share: plan.share,
            effort: plan.effort,
        });
        for (_, queue) in &plan.levels {
            admission.serve(u32::MAX - queue.level, queue.order);
        }
        RuntimeScheduler { plan, admission, names: BTreeMap::new() }
    }

    /// Lets a consumer in where everybody's deadlines, its own included, are met. Its priority is decided by the plan, whatever it declares
    /// (except under [`Policy::Declared`]). A name that is connected already names the newest one.
    ///
    /// # Errors
    /// [`Refusal`], with the numbers; nothing has changed then.
    pub fn connect(&mut self, task: Task) -> Result<Connected, Box<Refusal>> {
        let queue = self.queue_of(&task);
        self.connect_at(task, queue)
    }

    /// Into this queue, whatever the plan says.
    pub(crate) fn connect_at(&mut self, task: Task, queue: QueueConfig) -> Result<Connected, Box<Refusal>> {
        let dispatch = dispatch(&task, queue);
        let name = task.name.clone();
        // What dispatches is handed jobs, and knows nothing of what set them off.
        let task = task.priority(u32::MAX - dispatch.level).counted(Counted::FromReadiness);
        let admitted = self.admission.try_admit(task)?;
        self.names.insert(name, admitted.id);
        Ok(Connected { id: admitted.id, dispatch, response: admitted.response })
    }

    /// Takes a consumer out; false where it is not there.
    pub fn disconnect(&mut self, id: TaskId) -> bool {
        let Some(task) = self.admission.remove(id) else { return false };
        if self.names.get(&task.name) == Some(&id) {
            self.names.remove(&task.name);
        }
        true
    }

    /// The consumer of that name.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Option<TaskId> {
        self.names.get(name).copied()
    }

    /// How events of a consumer are dispatched.
    #[must_use]
    pub fn dispatch(&self, id: TaskId) -> Option<Dispatch> {
        let task = self.admission.task(id)?;
        let level = (u32::MAX - task.priority) as usize;
        let (_, queue) = self.plan.levels.get(level)?;
        Some(dispatch(task, *queue))
    }

    /// The queue of a level; `None` where there is no such level.
    #[must_use]
    pub fn dispatch_configuration(&self, level: u32) -> Option<QueueConfig> {
        self.plan.levels.get(level as usize).map(|(_, queue)| *queue)
    }

    /// All queues, the most urgent first.
    pub fn queues(&self) -> impl Iterator<Item = QueueConfig> {
        self.plan.levels.iter().map(|(_, queue)| *queue)
    }

    /// Its longest response with all that are connected now.
    #[must_use]
    pub fn response(&self, id: TaskId) -> Option<Nanos> {
        self.admission.response(id)
    }

    /// How its plan hands the processor over.
    #[must_use]
    pub fn preemption(&self) -> Preemption {
        self.plan.preemption
    }

    /// What the connected consumers ask for together.
    #[must_use]
    pub fn utilisation(&self) -> Utilisation {
        self.admission.utilisation()
    }

    pub(crate) fn queue_of(&self, task: &Task) -> QueueConfig {
        self.plan.queue_of(task)
    }

    /// Which queue a consumer would get.
    #[must_use]
    pub fn dispatch_of(&self, task: &Task) -> Dispatch {
        dispatch(task, self.plan.queue_of(task))
    }
}

fn dispatch(task: &Task, queue: QueueConfig) -> Dispatch {
    Dispatch {
        level: queue.level,
        thread_priority: queue.thread_priority,
        order: queue.order,
        static_subpriority: 4 - task.importance as u8,
        deadline: task.deadline,
        released: task.jitter,
        cost: task.cost,
    }
}
