//! Admission: one question at a time, answered for everybody who was admitted before.

mod nearest;
mod refusal;

pub use nearest::Nearest;
pub use refusal::{Reason, Refusal};

use crate::demand::Order;
use crate::response::{Effort, Preemption, Response, Stop, Times};
use crate::table::Table;
use crate::{Nanos, Task, Utilisation};

/// Which priorities admitted tasks get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Assignment {
    /// The less time from readiness to deadline, the more urgent. The best there is where preemption is full and no deadline exceeds
    /// its period; those with equal times are served in order of arrival.
    #[default]
    DeadlineMonotonic,
    /// What [`Task::priority`] says.
    Declared,
    /// None: the nearest deadline goes first. The longest response that is known of a task is then its deadline.
    EarliestDeadline,
}

/// What an [`Admission`] decides about, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// How the resource is handed over: [`Preemption::Full`] for a processor, [`Preemption::None`] for a link that carries
    /// whole messages, [`Preemption::Deferred`] for one that carries packets.
    pub preemption: Preemption,
    /// Which priorities admitted tasks get.
    pub assignment: Assignment,
    /// Whether one thread serves all tasks of a level. Tasks of a level then do not preempt each other, even with full preemption.
    /// In order of arrival they never do.
    pub one_thread_per_level: bool,
    /// At most so many tasks; more are refused.
    pub capacity: usize,
    /// How much of the resource may be given away; the rest is left to best effort.
    pub share: Utilisation,
    /// How many terms of a response-time sum a decision may compute; a million takes one to two milliseconds. Tasks that it does not reach
    /// are judged by a cruder bound, and the task refused where that does not suffice.
    pub effort: u64,
}

impl Default for AdmissionConfig {
    /// A processor, deadline monotonic, 4,096 tasks, all of it, four million terms.
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

/// Names an admitted task. A stale one finds nothing, never another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId {
    slot: u32,
    generation: u32,
}

/// The answer to a task that was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Its name from now on.
    pub id: TaskId,
    /// Its longest response with all that are admitted now. Later admissions make it longer, never past the deadline: ask
    /// [`Admission::response`].
    pub response: Nanos,
    /// How long after its arrival a job may stay in the lower band of dual-priority scheduling: D - R.
    pub promotion: Nanos,
}

/// A set of tasks that all meet their deadlines, and stays one.
///
/// The same serves a processor, a link (its tasks are messages, their costs the time on the wire: see [`crate::Link`]) and every
/// other thing that does one job at a time.
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
/// A control path: `try_admit` and `remove` allocate and compute, bounded by [`AdmissionConfig::effort`]; nothing locks.
/// [`Admission::response`] and [`Admission::promotion`] are a look-up.
#[derive(Debug)]
pub struct Admission {
    config: AdmissionConfig,
    table: Table,
    /// How each declared priority is served, where not in order of arrival.
    orders: Vec<(u32, Order)>,
    /// Which slot stands where in the table.
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
    /// Nobody admitted yet.
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

    /// Tasks of this declared priority are served in another order than that of arrival.
    pub(crate) fn serve(&mut self, priority: u32, order: Order) {
        self.orders.push((priority, order));
    }

    /// Admits the task where it and all that were admitted before meet their deadlines.
    ///
    /// # Errors
    /// [`Refusal`]: who would fail, by which numbers, and the nearest period or deadline that would be admitted. Nothing has changed then.
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

    /// Whether [`Admission::try_admit`] would admit it; nothing changes.
    ///
    /// # Errors
    /// As [`Admission::try_admit`].
    pub fn would_admit(&mut self, task: &Task) -> Result<Nanos, Box<Refusal>> {
        let admitted = self.try_admit(task.clone())?;
        self.remove(admitted.id);
        Ok(admitted.response)
    }

    /// Whether there is room for the task, without a reason and without looking for what would be admitted instead; nothing changes.
    pub fn fits(&mut self, task: &Task) -> bool {
        let mut effort = Effort::new(self.config.effort);
        self.len() < self.config.capacity && matches!(self.victim(task, None, &mut effort), Ok(None))
    }

    /// The smallest value from `asked` on for which [`fits`](Admission::fits) says so of the task that `make` makes of it, to within a hundredth
    /// of `asked`, or as near as an effort of four thirds of [`AdmissionConfig::effort`] comes. It was tried. It presumes that what
    /// fits with a smaller value fits with a larger one; where that is not known, ask again.
    pub fn nearest(&mut self, asked: Nanos, make: impl Fn(Nanos) -> Task) -> Option<Nanos> {
        if self.len() >= self.config.capacity {
            return None;
        }
        if self.fits(&make(asked)) { Some(asked) } else { nearest::smallest(self, asked, make) }
    }

    /// Takes a task out; `None` where the name is stale. The responses of the others become shorter.
    pub fn remove(&mut self, id: TaskId) -> Option<Task> {
        self.member(id)?;
        let rank = self.order.iter().position(|slot| *slot == id.slot)?;
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        let member = slot.member.take()?;
        self.free.push(id.slot);
        self.order.remove(rank);
        self.table.remove(rank);
        // Bounds that are not computed anew stay true: with less to wait for nobody takes longer.
        for rank in 0..self.table.len() {
            self.table.learn(rank, Times { response: 0, first: 0, busy: 0 });
        }
        let mut found = Vec::new();
        self.table.responses(0..self.table.len(), &mut Effort::new(self.config.effort), |rank, result| {
            found.extend(result.ok().map(|times| (rank, times)));
            result.is_ok()
        });
        self.learn(&found);
        Some(member.task)
    }

    /// How many are admitted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An admitted task.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        Some(&self.member(id)?.task)
    }

    /// Its longest response with all that are admitted now.
    #[must_use]
    pub fn response(&self, id: TaskId) -> Option<Nanos> {
        Some(Nanos::new(self.member(id)?.response))
    }

    /// How long after its arrival a job of it may stay in the lower band of dual-priority scheduling.
    #[must_use]
    pub fn promotion(&self, id: TaskId) -> Option<Nanos> {
        let member = self.member(id)?;
        Some(member.task.deadline.minus(Nanos::new(member.response)))
    }

    /// Everybody admitted, the most urgent first, with the longest responses.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &Task, Nanos)> {
        self.order.iter().filter_map(|index| {
            let slot = self.slots.get(*index as usize)?;
            let member = slot.member.as_ref()?;
            let id = TaskId { slot: *index, generation: slot.generation };
            Some((id, &member.task, Nanos::new(member.response)))
        })
    }

    /// What the admitted tasks ask for together.
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

    /// What is found, by rank from the first that changed, with the task in the table; or who would fail.
    fn decide(&mut self, task: &Task) -> Result<Vec<(usize, Times)>, Reason> {
        let asked = Utilisation::of(task.cost, task.period);
        let taken = self.utilisation();
        if taken.plus(asked) > self.config.share {
            return Err(Reason::Share { asked, taken, share: self.config.share });
        }
        let new = self.insert(task);
        let first = self.first_affected(new);
        let mut found = Vec::with_capacity(self.table.len() - first);
        let mut failed = None;
        let mut effort = Effort::new(self.config.effort);
        self.table.responses(first..self.table.len(), &mut effort, |rank, result| {
            let deadline = self.table.entry(rank).deadline;
            match result {
                Ok(times) if times.response <= deadline => found.push((rank, times)),
                Ok(times) => failed = Some((rank, Stop::Over(times.response))),
                // The one that is late stands in the same level.
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

    /// More urgent tasks notice a less urgent one only by what it holds.
    fn first_affected(&self, new: usize) -> usize {
        if self.table.entry(new).hold == 0 { self.table.equals(new).start } else { 0 }
    }

    /// Keeps a task that [`Admission::decide`] left in the table.
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
