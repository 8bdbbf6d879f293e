//! What consumers declare, and the placement that the scheduler returns.

use isorb_rt::priority::Priority;
use isorb_rt::queue::Overflow;
use isorb_sched::{Criticality, Importance, Preemption};
use std::fmt;
use std::time::Duration;

/// The order of consumers within one priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubPriority {
    /// Higher first; among equals in order of arrival.
    Static(i32),
    /// The earliest deadline first, computed when an event is queued.
    Deadline,
    /// The least laxity first: time to the deadline less the declared worst case.
    Laxity,
}

/// The reaction to a consumer that used more processor time than it declared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Containment {
    /// Count and record it.
    #[default]
    Count,
    /// Also skip its next event, which gives back the time.
    Skip,
    /// Also run it at the least urgent priority from now on.
    Demote,
    /// Also disconnect it.
    Disconnect,
}

/// What a consumer declares when it connects: the part of an RT_Info that the channel enforces (TAO
/// event service paper, section 5.2.1), and its queue.
#[derive(Clone, Debug)]
pub struct Quality {
    /// The scheduler's handle of the consumer's operation; 0 is none.
    pub rt_info: i32,
    /// Its priority, if no scheduler assigns one.
    pub priority: Priority,
    /// Its order within the priority, if no scheduler assigns one.
    pub sub_priority: SubPriority,
    /// From an event's arrival at the channel to the consumer's return. A miss is counted and
    /// recorded.
    pub deadline: Option<Duration>,
    /// Processor time of a push. Overruns are detected if it is declared (two system calls for each
    /// push).
    pub worst_case: Option<Duration>,
    /// The shortest time between two pushes, for admission. Earlier pushes are counted
    /// ([`Counts::early`](crate::Counts::early)) and delivered.
    pub period: Option<Duration>,
    /// The release jitter: how late a push may be against a strictly periodic one. The next push
    /// may follow sooner than one period by this time. Admission takes it into account.
    pub jitter: Duration,
    /// The time-based filter: the shortest time between two pushes of events. Earlier ones are
    /// dropped and counted ([`Counts::too_soon`](crate::Counts::too_soon)). Zero: it gets all.
    pub min_separation: Duration,
    /// The deadline of each instance: once no event of a type and source came for so long, the
    /// consumer gets one event of the type
    /// [`INSTANCE_TIMEOUT`](crate::designator::INSTANCE_TIMEOUT), at most a quarter of this time
    /// later, and the next one only after the instance has come again. The first event of an
    /// instance begins it. Takes a timer. Events that its registrations and its condition let
    /// through count; [`Broadcaster`](crate::Configuration) channels do not watch.
    pub instance_period: Option<Duration>,
    /// Its criticality, for schedulers that use it.
    pub criticality: Criticality,
    /// Its importance among otherwise equal consumers, for schedulers that use it.
    pub importance: Importance,
    /// The reaction to an overrun.
    pub containment: Containment,
    /// The capacity of its queue, at least 1.
    pub queue: usize,
    /// What happens when its queue is full.
    pub overflow: Overflow,
    /// Disconnects it after so many failures (errors and panics) in a row; 0 for never.
    pub failures: u32,
}

impl Default for Quality {
    /// The least urgent; a queue of 64, from which the oldest is dropped; disconnected after 8
    /// failures in a row.
    fn default() -> Self {
        Quality {
            rt_info: 0,
            priority: Priority::MIN,
            sub_priority: SubPriority::Static(0),
            deadline: None,
            worst_case: None,
            period: None,
            jitter: Duration::ZERO,
            min_separation: Duration::ZERO,
            instance_period: None,
            criticality: Criticality::Medium,
            importance: Importance::Medium,
            containment: Containment::Count,
            queue: 64,
            overflow: Overflow::DropOldest,
            failures: 8,
        }
    }
}

/// The placement of a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Its pre-emption priority.
    pub priority: Priority,
    /// Its order within that priority.
    pub sub_priority: SubPriority,
    /// See [`Quality::deadline`].
    pub deadline: Option<Duration>,
    /// See [`Quality::worst_case`].
    pub worst_case: Option<Duration>,
    /// See [`Quality::period`]; `None` if early pushes are not counted.
    pub period: Option<Duration>,
    /// See [`Quality::jitter`].
    pub jitter: Duration,
}

impl Placement {
    /// The placement that a consumer declares.
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

    /// The placement of a consumer without a promise.
    pub(crate) fn least_urgent(q: &Quality) -> Placement {
        Placement { priority: Priority::MIN, ..Placement::as_declared(q) }
    }
}

/// A refusal by the scheduler: a sentence with the numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAdmitted(pub String);

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAdmitted {}

/// The run-time scheduler as the channel sees it. It is asked when a consumer connects, never for
/// an event.
pub trait RunTimeScheduler: Send + Sync {
    /// Admits a consumer. Returns its placement and the number for [`leave`](Self::leave).
    ///
    /// # Errors
    /// [`NotAdmitted`]: with this consumer, earlier promises would not hold.
    fn admit(&self, name: &str, quality: &Quality) -> Result<(Placement, u64), NotAdmitted>;

    /// The kind of pre-emption that its promises assume. A channel with other dispatching is not
    /// made, and does not get such modules later. `None` by default: it promises nothing, or only
    /// for consumers with dispatchers of their own.
    fn preemption(&self) -> Option<Preemption> {
        None
    }

    /// Whether it admits by [`Quality::rt_info`]. If not, registrations over TAO's interfaces that
    /// name different operations have one queue, since none is more urgent than another. False by
    /// default.
    fn has_operations(&self) -> bool {
        false
    }

    /// The processor, by its number in
    /// [`ChannelBuilder::processors`](crate::ChannelBuilder::processors), on which this consumer
    /// was admitted. `None` by default: the channel's own strategy dispatches it.
    fn processor(&self, number: u64) -> Option<usize> {
        let _ = number;
        None
    }

    /// Removes the consumer that was admitted under this number.
    fn leave(&self, number: u64);

    /// The current placements of admitted consumers, by number. The channel asks after each
    /// admission and applies them. Empty by default: no consumer ever moves.
    fn placements(&self) -> Vec<(u64, Placement)> {
        Vec::new()
    }
}

/// No scheduler: each consumer is admitted with the placement that it declares.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsDeclared;

impl RunTimeScheduler for AsDeclared {
    fn admit(&self, _: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        Ok((Placement::as_declared(q), 0))
    }

    fn leave(&self, _: u64) {}
}
