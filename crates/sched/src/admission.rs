//! Admission: decides whether a further task may join a set, so that all tasks of the set keep
//! their deadlines.

mod nearest;
mod refusal;

pub use nearest::Nearest;
pub use refusal::{Reason, Refusal};

use crate::demand::Order;
use crate::response::{Preemption, Response, Stop, TermLimit, Times};
use crate::table::Table;
use crate::{Nanos, Task, Utilisation};

/// How admitted tasks get their priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Assignment {
    /// Deadline monotonic: the shorter the time from readiness to deadline, the more urgent.
    /// Optimal with full preemption and deadlines up to the period. Tasks with equal times are
    /// served in order of arrival.
    #[default]
    DeadlineMonotonic,
    /// [`Task::priority`].
    Declared,
    /// Earliest deadline first, without priorities. The response bound of a task is its deadline.
    EarliestDeadline,
}

/// The resource that an [`Admission`] manages, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// How tasks preempt each other: [`Preemption::Full`] for a processor, [`Preemption::None`] for
    /// a link that carries whole messages, [`Preemption::Deferred`] for a link that carries
    /// packets.
    pub preemption: Preemption,
    /// How admitted tasks get their priorities.
    pub assignment: Assignment,
    /// Whether one thread serves all tasks of a level. Tasks of a level then do not preempt each
    /// other, even with full preemption. In order of arrival they never do.
    pub one_thread_per_level: bool,
    /// The greatest number of tasks.
    pub capacity: usize,
    /// The share of the resource that admitted tasks may use. The rest is left to best effort.
    pub share: Utilisation,
    /// The number of response-time terms that a decision may compute; a million takes one to two
    /// milliseconds. Tasks beyond it are judged by a cruder bound, and the new task is refused if
    /// that does not suffice.
    pub effort: u64,
}

impl Default for AdmissionConfig {
    /// A processor, deadline monotonic, 4,096 tasks, the whole processor, four million terms.
    fn default() -> AdmissionConfig {
        AdmissionConfig {
            preemption: Preemption::Full,
            assignment: Assignment::DeadlineMonotonic,
            one_thread_per_level: false,
            capacity: 4096,
            share: Utilisation::ONE,
            effort: 4_000_000,
        }
    }
}

/// Identifies an admitted task. The id of a removed task never identifies another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId {
    slot: u32,
    generation: u32,
}

/// The answer to a task that was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// The id of the task.
    pub id: TaskId,
    /// The longest response with all tasks admitted now. Later admissions make it longer, up to the
    /// deadline; [`Admission::response`] returns the current one.
    pub response: Nanos,
    /// The promotion time of dual-priority scheduling, D - R: how long after its arrival a job may
    /// stay in the lower band.
    pub promotion: Nanos,
}

/// A set of tasks that all meet their deadlines. Admission keeps it so.
///
/// It serves a processor, a link (the tasks are messages, their costs the time on the wire: see
/// [`crate::Link`]), and any other resource that does one job at a time.
///
/// ```
/// use isorb_sched::{Admission, AdmissionConfig, Nanos, Task};
/// let ms = Nanos::from_ms;
/// let mut admission = Admission::new(AdmissionConfig::default());
/// let radar = admission.try_admit(Task::new("radar", ms(4), ms(10)))?;
/// let display = admission.try_admit(Task::new("display", ms(8), ms(20)))?;
/// assert_eq!(display.response, ms(16));
/// assert_eq!(display.promotion, ms(4));
///
/// let refusal = admission.try_admit(Task::new("video", ms(3), ms(15))).unwrap_err();
/// assert_eq!(
///     refusal.to_string(),
///     "video cannot be admitted: display would take at least 22 ms, over its deadline of 20 ms; \
///      a period of 19.102 ms or a deadline of 27.07 ms would be admitted",
/// );
/// admission.remove(radar.id);
/// assert!(admission.try_admit(Task::new("video", ms(3), ms(15))).is_ok());
/// # Ok::<(), Box<isorb_sched::Refusal>>(())
/// ```
///
/// # Real-time
/// A control path: `try_admit` and `remove` allocate and compute, bounded by
/// [`AdmissionConfig::effort`]; nothing locks. [`Admission::response`] and [`Admission::promotion`]
/// are a look-up.
#[derive(Debug)]
pub struct Admission {
    config: AdmissionConfig,
    table: Table,
    /// The order of each declared priority that is not served in order of arrival.
    orders: Vec<(u32, Order)>,
    /// The slots in the order of the table.
    order: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    member: Option<Member>,
}

#[derive(Debug)]
struct Member {
    task: Task,
    response: u64,
}

impl Admission {
    /// A set without tasks.
    #[must_use]
    pub fn new(config: AdmissionConfig) -> Admission {
        Admission {
            table: Table::new(config.preemption, config.one_thread_per_level, config.capacity.min(4096)),
            orders: Vec::new(),
            config,
            order: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Sets the order of a declared priority to another one than that of arrival.
    pub(crate) fn serve(&mut self, priority: u32, order: Order) {
        self.orders.push((priority, order));
    }

    /// Admits the task if it and all tasks admitted before meet their deadlines.
    ///
    /// # Errors
    /// [`Refusal`]: the task that would miss its deadline, the numbers, and the nearest period or
    /// deadline that would be admitted. Nothing has changed then.
    pub fn try_admit(&mut self, task: Task) -> Result<Admitted, Box<Refusal>> {
        let refuse =
            |reason| Box::new(Refusal { task: task.name.clone(), reason, nearest: Nearest::default() });
        if let Err(error) = task.check() {
            return Err(refuse(Reason::Impossible(error)));
        }
        if self.len() >= self.config.capacity {
            return Err(refuse(Reason::Full { capacity: self.config.capacity }));
        }
        match self.decide(&task) {
            Ok(responses) => Ok(self.keep(task, &responses)),
            Err(reason) => {
                let mut refusal = refuse(reason);
                refusal.nearest = nearest::search(self, &task);
                Err(refusal)
            }
        }
    }

    /// Whether [`Admission::try_admit`] would admit the task. Nothing changes.
    ///
    /// # Errors
    /// As [`Admission::try_admit`].
    pub fn would_admit(&mut self, task: &Task) -> Result<Nanos, Box<Refusal>> {
        let admitted = self.try_admit(task.clone())?;
        self.remove(admitted.id);
        Ok(admitted.response)
    }

    /// Whether the task fits, without a reason and without a search for alternatives. Nothing
    /// changes.
    pub fn fits(&mut self, task: &Task) -> bool {
        let mut effort = TermLimit::new(self.config.effort);
        self.len() < self.config.capacity && matches!(self.victim(task, None, &mut effort), Ok(None))
    }

    /// The smallest value from `asked` on for which the task that `make` makes of it
    /// [`fits`](Admission::fits), to within a hundredth of `asked`, or as near as four thirds of
    /// [`AdmissionConfig::effort`] allow. The value has been tried. The search assumes that larger
    /// values fit if smaller ones do; where that is not known, repeat it.
    pub fn nearest(&mut self, requested: Nanos, make: impl Fn(Nanos) -> Task) -> Option<Nanos> {
        if self.len() >= self.config.capacity {
            return None;
        }
        if self.fits(&make(requested)) { Some(requested) } else { nearest::smallest(self, requested, make) }
    }

    /// Removes a task; `None` if there is no task of this id. The other responses become shorter.
    pub fn remove(&mut self, id: TaskId) -> Option<Task> {
        self.member(id)?;
        let rank = self.order.iter().position(|slot| *slot == id.slot)?;
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        let member = slot.member.take()?;
        self.free.push(id.slot);
        self.order.remove(rank);
        self.table.remove(rank);
        // Bounds that are not computed again stay valid, since a removal makes no response longer.
        for rank in 0..self.table.len() {
            self.table.learn(rank, Times { response: 0, first: 0, busy: 0 });
        }
        let mut found = Vec::new();
        self.table.responses(0..self.table.len(), &mut TermLimit::new(self.config.effort), |rank, result| {
            found.extend(result.ok().map(|times| (rank, times)));
            result.is_ok()
        });
        self.learn(&found);
        Some(member.task)
    }

    /// The number of admitted tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parameters of an admitted task.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        Some(&self.member(id)?.task)
    }

    /// The longest response of a task with all tasks admitted now.
    #[must_use]
    pub fn response(&self, id: TaskId) -> Option<Nanos> {
        Some(Nanos::new(self.member(id)?.response))
    }

    /// How long after its arrival a job of the task may stay in the lower band of dual-priority
    /// scheduling.
    #[must_use]
    pub fn promotion(&self, id: TaskId) -> Option<Nanos> {
        let member = self.member(id)?;
        Some(member.task.deadline.minus(Nanos::new(member.response)))
    }

    /// All admitted tasks with their longest responses, the most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &Task, Nanos)> {
        self.order.iter().filter_map(|index| {
            let slot = self.slots.get(*index as usize)?;
            let member = slot.member.as_ref()?;
            let id = TaskId { slot: *index, generation: slot.generation };
            Some((id, &member.task, Nanos::new(member.response)))
        })
    }

    /// The utilisation by all admitted tasks.
    #[must_use]
    pub fn utilisation(&self) -> Utilisation {
        self.table.utilisation()
    }

    fn member(&self, id: TaskId) -> Option<&Member> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.member.as_ref().filter(|_| slot.generation == id.generation)
    }

    fn level(&self, task: &Task) -> u64 {
        match self.config.assignment {
            Assignment::DeadlineMonotonic => u64::MAX - task.deadline.minus(task.jitter).ns(),
            Assignment::Declared => u64::from(task.priority),
            Assignment::EarliestDeadline => 0,
        }
    }

    fn order(&self, task: &Task) -> Order {
        match self.config.assignment {
            Assignment::DeadlineMonotonic => Order::Arrival,
            Assignment::Declared => self
                .orders
                .iter()
                .find(|(priority, _)| *priority == task.priority)
                .map_or(Order::Arrival, |(_, order)| *order),
            Assignment::EarliestDeadline => Order::Deadline,
        }
    }

    fn insert(&mut self, task: &Task) -> usize {
        self.table.insert(self.level(task), self.order(task), task)
    }

    /// The new responses with the task in the table, by rank from the first that changed; or the
    /// task that would miss its deadline.
    fn decide(&mut self, task: &Task) -> Result<Vec<(usize, Times)>, Reason> {
        let requested = Utilisation::of(task.cost, task.period);
        let taken = self.utilisation();
        if taken.plus(requested) > self.config.share {
            return Err(Reason::Share { requested, taken, share: self.config.share });
        }
        let new = self.insert(task);
        let first = self.first_affected(new);
        let mut found = Vec::with_capacity(self.table.len() - first);
        let mut failed = None;
        let mut effort = TermLimit::new(self.config.effort);
        self.table.responses(first..self.table.len(), &mut effort, |rank, result| {
            let deadline = self.table.entry(rank).deadline;
            match result {
                Ok(times) if times.response <= deadline => found.push((rank, times)),
                Ok(times) => failed = Some((rank, Stop::Over(times.response))),
                // The late task is of the same level.
                Err(Stop::Beside { member, late }) => {
                    let rank = self.table.equals(rank).start + member;
                    failed = Some((rank, Stop::Over(self.table.entry(rank).deadline.saturating_add(late))));
                }
                Err(stop) => failed = Some((rank, stop)),
            }
            failed.is_none()
        });
        let Some((rank, stop)) = failed else { return Ok(found) };
        let deadline = Nanos::new(self.table.entry(rank).deadline);
        self.table.remove(new);
        let victim = match rank.cmp(&new) {
            std::cmp::Ordering::Equal => task.name.clone(),
            std::cmp::Ordering::Less => self.name(rank),
            std::cmp::Ordering::Greater => self.name(rank - 1),
        };
        Err(Reason::Deadline { victim, response: Response::of(Err(stop)), deadline })
    }

    /// A more urgent task is affected only by how long a less urgent one may hold the resource.
    fn first_affected(&self, new: usize) -> usize {
        if self.table.entry(new).hold == 0 { self.table.equals(new).start } else { 0 }
    }

    /// Stores a task that [`Admission::decide`] left in the table.
    fn keep(&mut self, task: Task, found: &[(usize, Times)]) -> Admitted {
        let level = self.level(&task);
        let deadline = task.deadline;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot { generation: 0, member: None });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.member = Some(Member { task, response: 0 });
        let id = TaskId { slot: index, generation: slot.generation };
        self.order.insert(self.table.behind_equals(level), index);
        self.learn(found);
        let response = self.response(id).unwrap_or(deadline);
        Admitted { id, response, promotion: deadline.minus(response) }
    }

    fn learn(&mut self, found: &[(usize, Times)]) {
        for (rank, times) in found {
            self.table.learn(*rank, *times);
            let slot = self.order.get(*rank).and_then(|index| self.slots.get_mut(*index as usize));
            if let Some(member) = slot.and_then(|slot| slot.member.as_mut()) {
                member.response = times.response;
            }
        }
    }

    fn name(&self, rank: usize) -> String {
        let slot = self.order.get(rank).and_then(|index| self.slots.get(*index as usize));
        slot.and_then(|slot| slot.member.as_ref()).map(|member| member.task.name.clone()).unwrap_or_default()
    }
}
