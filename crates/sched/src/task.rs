//! The task model: recurring work as the analysis, the simulator and admission know it.

use crate::Nanos;
use std::fmt;

/// A task: work that is released repeatedly, at least `period` apart, and must be done by its
/// deadline.
///
/// The letters are those of the literature: C cost, T period, D deadline, J release jitter, B
/// blocking. The fields are public, since a task is plain data. [`Task::check`] refuses invalid
/// parameters; everything that takes tasks calls it.
///
/// ```
/// use isorb_sched::{Nanos, Task};
/// let display = Task::new("display", Nanos::from_ms(3), Nanos::from_ms(66)).deadline(Nanos::from_ms(40)).priority(20);
/// assert!(display.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name in messages.
    pub name: String,
    /// C: the longest time that one release computes, or occupies the link, without interruption.
    pub cost: Nanos,
    /// T: the shortest time between two arrivals.
    pub period: Nanos,
    /// D: the time from arrival to the deadline. It may be longer than the period.
    pub deadline: Nanos,
    /// J: the longest time from arrival to readiness (because of a tick, a link, a predecessor). It
    /// may exceed the period. Releases become ready in the order of their arrivals.
    pub jitter: Nanos,
    /// B: how long less urgent work may delay it other than by running: shared resources,
    /// interrupts, the noise of the machine. The analysis adds the delay by a lack of preemption.
    pub blocking: Nanos,
    /// The longest section without preemption, if preemption is deferred: the time between two
    /// calls of `yield_now`, or one packet of a message. `None` is the whole cost.
    pub section: Option<Nanos>,
    /// When its first release arrives in the simulator. The analysis assumes the worst case
    /// instead.
    pub offset: Nanos,
    /// A higher value is more urgent, as with CORBA priorities (0 to 32767 where they become one).
    /// Tasks of equal priority are served in order of readiness.
    pub priority: u32,
    /// Its significance to the user. MUF and the criticality policy rank by it first.
    pub criticality: Criticality,
    /// Breaks ties.
    pub importance: Importance,
    /// The time from which queues by deadline or laxity count.
    pub counted: Counted,
}

impl Task {
    /// A task with its period as deadline, without jitter or blocking, of priority 0.
    pub fn new(name: impl Into<String>, cost: Nanos, period: Nanos) -> Task {
        Task {
            name: name.into(),
            cost,
            period,
            deadline: period,
            jitter: Nanos::ZERO,
            blocking: Nanos::ZERO,
            section: None,
            offset: Nanos::ZERO,
            priority: 0,
            criticality: Criticality::Medium,
            importance: Importance::Medium,
            counted: Counted::FromArrival,
        }
    }

    /// With another deadline.
    #[must_use]
    pub fn deadline(self, deadline: Nanos) -> Task {
        Task { deadline, ..self }
    }

    /// With release jitter.
    #[must_use]
    pub fn jitter(self, jitter: Nanos) -> Task {
        Task { jitter, ..self }
    }

    /// With blocking.
    #[must_use]
    pub fn blocking(self, blocking: Nanos) -> Task {
        Task { blocking, ..self }
    }

    /// With a longest section without preemption.
    #[must_use]
    pub fn section(self, section: Nanos) -> Task {
        Task { section: Some(section), ..self }
    }

    /// With a first arrival.
    #[must_use]
    pub fn offset(self, offset: Nanos) -> Task {
        Task { offset, ..self }
    }

    /// With a priority.
    #[must_use]
    pub fn priority(self, priority: u32) -> Task {
        Task { priority, ..self }
    }

    /// With a criticality.
    #[must_use]
    pub fn criticality(self, criticality: Criticality) -> Task {
        Task { criticality, ..self }
    }

    /// With an importance.
    #[must_use]
    pub fn importance(self, importance: Importance) -> Task {
        Task { importance, ..self }
    }

    /// With another time from which queues by deadline or laxity count.
    #[must_use]
    pub fn counted(self, counted: Counted) -> Task {
        Task { counted, ..self }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`Fault`], the first one found. A utilisation over one is no fault; analysis and admission
    /// report it.
    pub fn check(&self) -> Result<(), TaskError> {
        let fault = if self.period.is_zero() {
            Fault::ZeroPeriod
        } else if self.cost.is_zero() {
            Fault::ZeroCost
        } else if self.deadline.is_zero() {
            Fault::ZeroDeadline
        } else if self.section.is_some_and(|section| section > self.cost || section.is_zero()) {
            Fault::Section { section: self.section.unwrap_or_default(), cost: self.cost }
        } else if let Some(time) = self.times().into_iter().find(|time| *time > Nanos::LONGEST) {
            Fault::TooLong { time }
        } else if self.deadline < self.cost.plus(self.jitter) {
            Fault::ImpossibleDeadline { deadline: self.deadline, cost: self.cost, jitter: self.jitter }
        } else {
            return Ok(());
        };
        Err(TaskError { task: self.name.clone(), fault })
    }

    /// The longest section without preemption, if preemption is deferred.
    pub(crate) fn longest_section(&self) -> Nanos {
        self.section.unwrap_or(self.cost)
    }

    fn times(&self) -> [Nanos; 6] {
        [self.cost, self.period, self.deadline, self.jitter, self.blocking, self.offset]
    }
}

/// The time from which a queue by deadline or laxity counts. It has no meaning in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Counted {
    /// From arrival, even if the job became ready later: it is due D after it.
    #[default]
    FromArrival,
    /// From readiness, as in a dispatcher that does not know the arrivals. A job is due D - J after
    /// it, which is earlier than necessary if its jitter was less than the longest.
    FromReadiness,
}

/// A task with invalid parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    /// The task's name.
    pub task: String,
    /// The fault.
    pub fault: Fault,
}

/// Invalid parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The period is zero.
    ZeroPeriod,
    /// The worst-case cost is zero: it was probably not measured.
    ZeroCost,
    /// The deadline is zero.
    ZeroDeadline,
    /// It cannot meet its deadline even alone.
    ImpossibleDeadline {
        /// The deadline.
        deadline: Nanos,
        /// The cost.
        cost: Nanos,
        /// The jitter.
        jitter: Nanos,
    },
    /// The section is longer than the cost, or zero.
    Section {
        /// The section.
        section: Nanos,
        /// The cost.
        cost: Nanos,
    },
    /// A time beyond [`Nanos::LONGEST`].
    TooLong {
        /// The time.
        time: Nanos,
    },
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.task, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::ZeroPeriod => f.write_str("its period is zero"),
            Fault::ZeroCost => f.write_str("its worst-case cost is zero"),
            Fault::ZeroDeadline => f.write_str("its deadline is zero"),
            Fault::ImpossibleDeadline { deadline, cost, jitter } if jitter.is_zero() => {
                write!(f, "its deadline of {deadline} is shorter than its cost of {cost}")
            }
            Fault::ImpossibleDeadline { deadline, cost, jitter } => write!(
                f,
                "its deadline of {deadline} is shorter than its cost of {cost} after a jitter of {jitter}"
            ),
            Fault::Section { section, cost } => {
                write!(f, "a piece of {section} without preemption does not fit its cost of {cost}")
            }
            Fault::TooLong { time } => {
                write!(f, "a time of {time} is over the longest that is allowed, {}", Nanos::LONGEST)
            }
        }
    }
}

impl std::error::Error for TaskError {}

/// How much it matters to the user that the task meets its deadlines
/// (`RtecScheduler::Criticality_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Criticality {
    /// VERY_LOW_CRITICALITY
    VeryLow,
    /// LOW_CRITICALITY
    Low,
    /// MEDIUM_CRITICALITY
    #[default]
    Medium,
    /// HIGH_CRITICALITY
    High,
    /// VERY_HIGH_CRITICALITY
    VeryHigh,
}

/// Which of two otherwise equal tasks goes first (`RtecScheduler::Importance_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Importance {
    /// VERY_LOW_IMPORTANCE
    VeryLow,
    /// LOW_IMPORTANCE
    Low,
    /// MEDIUM_IMPORTANCE
    #[default]
    Medium,
    /// HIGH_IMPORTANCE
    High,
    /// VERY_HIGH_IMPORTANCE
    VeryHigh,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_the_task_and_the_numbers() {
        let ms = Nanos::from_ms;
        let task = |cost, period| Task::new("radar", ms(cost), ms(period));
        for (task, text) in [
            (task(1, 0), "radar: its period is zero"),
            (task(0, 5), "radar: its worst-case cost is zero"),
            (task(1, 5).deadline(ms(0)), "radar: its deadline is zero"),
            (task(6, 5), "radar: its deadline of 5 ms is shorter than its cost of 6 ms"),
            (
                task(4, 5).jitter(ms(2)),
                "radar: its deadline of 5 ms is shorter than its cost of 4 ms after a jitter of 2 ms",
            ),
            (
                task(4, 5).section(ms(5)),
                "radar: a piece of 5 ms without preemption does not fit its cost of 4 ms",
            ),
            (
                Task::new("radar", ms(1), Nanos::MAX),
                "radar: a time of 18446744073.71 s is over the longest that is allowed, 1152921504.607 s",
            ),
        ] {
            assert_eq!(task.check().unwrap_err().to_string(), text);
        }
        assert_eq!(task(6, 5).deadline(ms(8)).check(), Ok(()));
    }
}
