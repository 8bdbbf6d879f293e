//! What consumers declare, and where the scheduler puts them.

use isorb_rt::priority::Priority;
use isorb_rt::queue::Overflow;
use isorb_sched::{Criticality, Importance, Preemption};
use std::fmt;
use std::time::Duration;

/// In which order events of one priority reach their consumers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubPriority {
    /// Higher first; among equals in order of arrival.
    Static(i32),
    /// The earliest deadline first, computed when an event is queued.
    Deadline,
    /// The least laxity first: time to the deadline less the declared worst case.
    Laxity,
}

/// What happens to a consumer that used more processor time for an event than it declared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Containment {
    /// It is counted and recorded.
    #[default]
    Count,
    /// Its next event is dropped as well, which gives back the time.
    Skip,
    /// It runs at the least urgent priority from now on.
    Demote,
    /// It is disconnected.
    Disconnect,
}

/// What a consumer declares when it connects: the part of an RT_Info that the channel enforces (paper 001, section 5.2.1), and its queue.
#[derive(Clone, Debug)]
pub struct Quality {
    /// The scheduler's handle of the consumer's operation; 0 is none.
    pub rt_info: i32,
    /// How urgent it is, where no scheduler says so.
    pub priority: Priority,
    /// Its order among its priority, where no scheduler says so.
    pub sub_priority: SubPriority,
    /// From an event's arrival at the channel to the consumer's return. Missing it is counted and recorded.
    pub deadline: Option<Duration>,
    /// Processor time for a push. Overruns are looked for where it is declared (two system calls a push).
    pub worst_case: Option<Duration>,
    /// The shortest time between two pushes, for the scheduler's admission. Pushes that come sooner are counted
    /// ([`Counts::early`](crate::Counts::early)) and made all the same.
    pub period: Option<Duration>,
    /// How late a push may be against a clock that ticks once a period, since who pushes woke up late or was held up: the next one
    /// may come so much sooner than a period after it. Admission counts on it.
    pub jitter: Duration,
    /// How much its deadlines matter, for schedulers that ask.
    pub criticality: Criticality,
    /// Which goes first of those that are equal otherwise, for schedulers that ask.
    pub importance: Importance,
    /// What an overrun entails.
    pub containment: Containment,
    /// How many pushes may wait for it; at least 1.
    pub queue: usize,
    /// What happens to one more.
    pub overflow: Overflow,
    /// After so many failures (errors and panics) in a row it is disconnected; 0 is never.
    pub failures: u32,
}

impl Default for Quality {
    /// The least urgent; a queue of 64, from which the oldest is dropped; disconnected after 8 failures in a row.
    fn default() -> Self {
        Quality {
            rt_info: 0,
            priority: Priority::MIN,
            sub_priority: SubPriority::Static(0),
            deadline: None,
            worst_case: None,
            period: None,
            jitter: Duration::ZERO,
            criticality: Criticality::Medium,
            importance: Importance::Medium,
            containment: Containment::Count,
            queue: 64,
            overflow: Overflow::DropOldest,
            failures: 8,
        }
    }
}

/// Where a consumer is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Its pre-emption priority.
    pub priority: Priority,
    /// Its order among that priority.
    pub sub_priority: SubPriority,
    /// See [`Quality::deadline`].
    pub deadline: Option<Duration>,
    /// See [`Quality::worst_case`].
    pub worst_case: Option<Duration>,
    /// See [`Quality::period`]; `None` where nothing is counted as early.
    pub period: Option<Duration>,
    /// See [`Quality::jitter`].
    pub jitter: Duration,
}

impl Placement {
    /// Where a consumer is put by what it declares itself.
    pub(crate) fn as_declared(q: &Quality) -> Placement {
        Placement {
            priority: q.priority,
            sub_priority: q.sub_priority,
            deadline: q.deadline,
            worst_case: q.worst_case,
            period: q.period,
            jitter: q.jitter,
        }
    }

    /// Where one is put that is promised nothing.
    pub(crate) fn least_urgent(q: &Quality) -> Placement {
        Placement { priority: Priority::MIN, ..Placement::as_declared(q) }
    }
}

/// A consumer that the scheduler does not admit, and why: a sentence with the numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAdmitted(pub String);

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAdmitted {}

/// The run-time scheduler as the channel sees it. It is asked when a consumer connects, not when events pass.
pub trait RunTimeScheduler: Send + Sync {
    /// Where the consumer goes, and the number under which it leaves again.
    ///
    /// # Errors
    /// [`NotAdmitted`]: with it, the promises made so far could not be kept.
    fn admit(&self, name: &str, quality: &Quality) -> Result<(Placement, u64), NotAdmitted>;

    /// How its promises take consumers to give way to each other. A channel whose own dispatching has them do so otherwise is not made, and gets
    /// no such modules later. `None`, unless implemented: it promises nothing, or for consumers with dispatchers of their own.
    fn preemption(&self) -> Option<Preemption> {
        None
    }

    /// The consumer that was admitted under this number is gone.
    fn leave(&self, number: u64);

    /// Where those go now that were admitted before, by their numbers: asked for after each admission, and they are put there. Empty,
    /// unless implemented: nobody is ever moved.
    fn placements(&self) -> Vec<(u64, Placement)> {
        Vec::new()
    }
}

/// No scheduler: everybody is put where they say, and everybody is admitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsDeclared;

impl RunTimeScheduler for AsDeclared {
    fn admit(&self, _: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        Ok((Placement::as_declared(q), 0))
    }

    fn leave(&self, _: u64) {}
}
