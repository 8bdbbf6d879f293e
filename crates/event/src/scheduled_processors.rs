//! Consumers on several processors, by worst fit while a channel runs.

use crate::placement::{NotAdmitted, Placement, Quality, RunTimeScheduler};
use crate::scheduled::Scheduled;
use isorb_rt::priority::Priority;
use isorb_sched::{Plan, Preemption, RuntimeScheduler};
use std::time::Duration;

/// Admits each consumer on one of several processors: on the one with the least demand where its
/// deadline and those of all that are there hold (worst fit). It stays there.
///
/// The channel dispatches each processor's consumers by threads that are bound to it, one for each
/// level ([`ChannelBuilder::processors`](crate::ChannelBuilder::processors)). A consumer that
/// declares neither worst case nor period is dispatched by the channel's own strategy, at the least
/// urgent priority. Keep those threads off the processors, or they take time from promises.
///
/// ```
/// use isorb_event::{Channel, ConnectError, ConsumerQos, Event, Filter, Quality, ScheduledProcessors};
/// use isorb_rt::sched::{Cpus, current_cpus};
/// use isorb_sched::{Nanos, Plan, Policy};
/// use std::{sync::Arc, time::Duration};
///
/// let ms = Nanos::from_ms;
/// let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(25), ms(100)], 1..=100)?;
/// let scheduler = ScheduledProcessors::new(&plan, 2);
/// let allowed: Vec<usize> = current_cpus().unwrap().iter().collect();
/// let processors = allowed.iter().cycle().take(2).map(|cpu| Cpus::one(*cpu)).collect();
/// let channel = Channel::builder()
///     .levels(scheduler.levels())
///     .processors(processors)
///     .scheduler(Arc::new(scheduler))
///     .build()?;
/// let connect = |name, cost| {
///     let (worst_case, period) = (Some(Duration::from_millis(cost)), Some(Duration::from_millis(25)));
///     let quality = Quality { worst_case, period, ..Quality::default() };
///     let qos = ConsumerQos::new(name, Filter::Everything).quality(quality);
///     channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
/// };
/// let _radar = connect("radar", 15)?;
/// let _map = connect("map", 15)?; // on the other processor
/// let Err(ConnectError::NotAdmitted(why)) = connect("video", 15) else { panic!("admitted") };
/// assert!(why.to_string().starts_with("video cannot be admitted on any of 2 processors: on processor 0, "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScheduledProcessors {
    processors: Vec<Scheduled>,
}

impl ScheduledProcessors {
    /// So many processors (at least one), each with the levels of `plan` and full pre-emption.
    pub fn new(plan: &Plan, processors: usize) -> ScheduledProcessors {
        let plan = plan.clone().preemption(Preemption::Full);
        let one = |_| Scheduled::new(RuntimeScheduler::new(plan.clone()));
        ScheduledProcessors { processors: (0..processors.max(1)).map(one).collect() }
    }

    /// The levels that a channel needs, as [`Scheduled::levels`].
    pub fn levels(&self) -> Vec<Priority> {
        self.processors.first().map(Scheduled::levels).unwrap_or_default()
    }

    /// The processor and the worst-case response time of the consumer of this name, with all
    /// consumers that are admitted there now. `None` if it has no promise.
    pub fn response(&self, name: &str) -> Option<(usize, Duration)> {
        let of = |(at, processor): (usize, &Scheduled)| Some((at, processor.response(name)?));
        self.processors.iter().enumerate().find_map(of)
    }
}

impl RunTimeScheduler for ScheduledProcessors {
    fn admit(&self, name: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        if q.worst_case.is_none() || q.period.is_none() {
            return Ok((Placement::least_urgent(q), 0));
        }
        let count = self.processors.len();
        let mut order: Vec<usize> = (0..count).collect();
        // Equals in the order of their numbers.
        order.sort_by_key(|at| self.processors[*at].utilisation());
        let mut reasons = vec![String::new(); count];
        for at in order {
            match self.processors[at].admit(name, q) {
                // The number tells the processor.
                Ok((placement, number)) => return Ok((placement, number * count as u64 + at as u64)),
                Err(NotAdmitted(why)) => reasons[at] = why,
            }
        }
        let prefix = format!("{name} cannot be admitted: ");
        let reason = |(at, why): (usize, &String)| {
            format!("on processor {at}, {}", why.strip_prefix(&prefix).unwrap_or(why))
        };
        let reasons: Vec<String> = reasons.iter().enumerate().map(reason).collect();
        let processors = if count == 1 { "processor" } else { "processors" };
        Err(NotAdmitted(format!(
            "{name} cannot be admitted on any of {count} {processors}: {}",
            reasons.join("; ")
        )))
    }

    fn processor(&self, number: u64) -> Option<usize> {
        let count = self.processors.len() as u64;
        (number >= count).then_some((number % count) as usize)
    }

    fn leave(&self, number: u64) {
        if let Some(at) = self.processor(number) {
            self.processors[at].leave(number / self.processors.len() as u64);
        }
    }
}
