//! The run-time scheduler: admits consumers, and gives a dispatcher the queue and the order of
//! their events.
//!
//! A dispatcher has one queue for each level, served by a thread of the level's priority. When a
//! consumer connects, it is admitted or refused. An admitted consumer has a [`Dispatch`], a plain
//! value with the queue of its events and their order in it. The scheduler computes nothing while
//! events flow.
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

/// The queues of a dispatcher and their limits.
#[derive(Debug, Clone)]
pub struct Plan {
    policy: Policy,
    /// The last rank of each level, the most urgent level first. The last level takes all further
    /// ranks.
    levels: Vec<(Rank, QueueConfig)>,
    /// How levels preempt each other: [`Preemption::Full`] with a thread for each level,
    /// [`Preemption::None`] with one thread for all, [`Preemption::Deferred`] if consumers yield.
    pub preemption: Preemption,
    /// The greatest number of consumers.
    pub capacity: usize,
    /// The share of the processor for consumers.
    pub share: Utilisation,
    /// See [`AdmissionConfig::effort`].
    pub effort: u64,
}

/// The parameters of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueConfig {
    /// The preemption priority: 0 goes first.
    pub level: u32,
    /// The CORBA priority of its thread.
    pub thread_priority: u16,
    /// The order of the queue.
    pub order: Order,
}

impl Plan {
    /// The levels of a policy for these tasks. The most urgent level has the upper end of
    /// `priorities`.
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

    /// Levels for periods (deadlines under [`Policy::DeadlineMonotonic`]) up to each of `spans`, in
    /// ascending order. Longer ones go into the last level. Other policies have one level, or five
    /// by criticality, and ignore `spans`.
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

    /// With another kind of preemption.
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

/// The policy needs more levels than there are priorities, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanError {
    /// The number of levels.
    pub levels: usize,
    /// The number of priorities.
    pub priorities: usize,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} levels of urgency do not fit {} thread priorities", self.levels, self.priorities)
    }
}

impl std::error::Error for PlanError {}

/// How events of a consumer are dispatched: a value that the dispatcher stores with the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dispatch {
    /// The queue: 0 is the most urgent.
    pub level: u32,
    /// The CORBA priority of the queue's thread.
    pub thread_priority: u16,
    /// The order of the queue.
    pub order: Order,
    /// Breaks ties: a lower value goes first.
    pub static_subpriority: u8,
    /// The deadline of a job, counted from its arrival.
    pub deadline: Nanos,
    /// The release jitter, since queues count from readiness.
    pub released: Nanos,
    /// The declared cost of a job; a job that takes longer is an overrun.
    pub cost: Nanos,
}

impl Dispatch {
    /// The position in its queue of a job that became ready at `now_ns`: lower values go first, and
    /// equal ones in the order of readiness. All are equal in order of arrival. Otherwise it is the
    /// time of the deadline, or the latest time to begin by laxity, both for a job with its whole
    /// jitter.
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

    /// The time of a job from readiness to its deadline.
    #[must_use]
    pub fn own_deadline(&self) -> Nanos {
        self.deadline.minus(self.released)
    }

    /// The laxity of a job with this deadline; negative if it is too late.
    #[must_use]
    pub fn laxity(&self, arrived_ns: u64, now_ns: u64) -> i64 {
        let begin = arrived_ns.saturating_add(self.deadline.minus(self.cost).ns());
        let difference = i128::from(begin) - i128::from(now_ns);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }
}

/// An admitted consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// Its id.
    pub id: TaskId,
    /// How its events are dispatched.
    pub dispatch: Dispatch,
    /// Its longest response with all consumers connected now.
    pub response: Nanos,
}

/// Admits consumers to the queues of a [`Plan`], and stores how each is dispatched.
///
/// # Real-time
/// [`RuntimeScheduler::dispatch`] and [`RuntimeScheduler::dispatch_configuration`] take constant
/// time and no memory. Connecting and disconnecting allocate and compute, bounded by
/// [`Plan::effort`]. There is no lock inside. Its owner connects consumers outside of the
/// dispatching threads, which need only their [`Dispatch`].
#[derive(Debug)]
pub struct RuntimeScheduler {
    plan: Plan,
    admission: Admission,
    names: BTreeMap<String, TaskId>,
}

impl RuntimeScheduler {
    /// A scheduler without consumers.
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

    /// Admits a consumer if all deadlines, its own included, are met. The plan determines its
    /// priority, except under [`Policy::Declared`]. If the name is in use, it names the newest
    /// consumer.
    ///
    /// # Errors
    /// [`Refusal`] with the numbers. Nothing has changed then.
    pub fn connect(&mut self, task: Task) -> Result<Connected, Box<Refusal>> {
        let queue = self.queue_of(&task);
        self.connect_at(task, queue)
    }

    /// Admits a consumer to this queue, whatever the plan says.
    pub(crate) fn connect_at(&mut self, task: Task, queue: QueueConfig) -> Result<Connected, Box<Refusal>> {
        let dispatch = dispatch(&task, queue);
        let name = task.name.clone();
        // A dispatcher knows when a job became ready, but not the arrival that caused it.
        let task = task.priority(u32::MAX - dispatch.level).counted(Counted::FromReadiness);
        let admitted = self.admission.try_admit(task)?;
        self.names.insert(name, admitted.id);
        Ok(Connected { id: admitted.id, dispatch, response: admitted.response })
    }

    /// Removes a consumer; false if there is none of this id.
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

    /// The longest response of a consumer with all consumers connected now.
    #[must_use]
    pub fn response(&self, id: TaskId) -> Option<Nanos> {
        self.admission.response(id)
    }

    /// How the levels of its plan preempt each other.
    #[must_use]
    pub fn preemption(&self) -> Preemption {
        self.plan.preemption
    }

    /// The utilisation by all connected consumers.
    #[must_use]
    pub fn utilisation(&self) -> Utilisation {
        self.admission.utilisation()
    }

    pub(crate) fn queue_of(&self, task: &Task) -> QueueConfig {
        self.plan.queue_of(task)
    }

    /// The queue that a consumer would get.
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
