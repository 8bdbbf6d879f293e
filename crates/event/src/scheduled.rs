//! The run-time scheduler of `isorb-sched` for event channels.

use crate::chains::{ChainId, Chains};
use crate::placement::{NotAdmitted, Placement, Quality, RunTimeScheduler, SubPriority};
use isorb_rt::priority::Priority;
use isorb_rt::sync::PiMutex;
use isorb_sched::{Dispatch, Graph, Nanos, Order, Preemption, RuntimeScheduler, Task, TaskId, Utilisation};
use std::collections::BTreeMap;
use std::time::Duration;

/// Admits consumers by the analysis of a [`Plan`](isorb_sched::Plan), and puts them at the priority
/// that the plan gives them.
///
/// A consumer is a task if it declares [`worst_case`](Quality::worst_case) and
/// [`period`](Quality::period); its deadline is what it declares, or the period. One that does not
/// promise anything is promised nothing: it is put at the least urgent priority, where it takes
/// what is left.
///
/// The channel must dispatch as the plan's [`preemption`](isorb_sched::Plan::preemption) has it,
/// and is refused otherwise ([`StartError::Preemption`](crate::StartError::Preemption)).
///
/// ```
/// use isorb_event::{Channel, ConnectError, ConsumerQos, Event, Filter};
/// use isorb_event::{Quality, Scheduled, Strategy};
/// use isorb_sched::{Nanos, Plan, Policy, RuntimeScheduler};
/// use std::{sync::Arc, time::Duration};
///
/// let ms = Nanos::from_ms;
/// let plan = Plan::with_levels(Policy::RateMonotonic, &[ms(25), ms(100)], 1..=100)?;
/// let scheduled = Scheduled::new(RuntimeScheduler::new(plan));
/// // The plan assumes full pre-emption: one thread for each level, at its priority.
/// let strategy = Strategy::Threads { per_level: 1 };
/// let levels = scheduled.levels();
/// let scheduler = Arc::new(scheduled);
/// let channel = Channel::builder().levels(levels).scheduler(scheduler).strategy(strategy).build()?;
///
/// let declared = |cost, period| Quality {
///     worst_case: Some(Duration::from_millis(cost)),
///     period: Some(Duration::from_millis(period)),
///     ..Quality::default()
/// };
/// let connect = |name, cost, period| {
///     let qos = ConsumerQos::new(name, Filter::Everything).quality(declared(cost, period));
///     channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| ()), qos)
/// };
/// let _radar = connect("radar", 10, 25)?;
/// let _map = connect("map", 50, 100)?;
/// let Err(ConnectError::NotAdmitted(why)) = connect("video", 15, 25) else { panic!("admitted") };
/// assert!(why.to_string().contains("video cannot be admitted"), "{why}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scheduled {
    state: PiMutex<State>,
}

#[derive(Debug)]
struct State {
    scheduler: RuntimeScheduler,
    admitted: BTreeMap<u64, TaskId>,
    chains: Chains,
    next: u64,
}

impl Scheduled {
    /// A scheduler for channels, including the tasks that `scheduler` has admitted already.
    pub fn new(scheduler: RuntimeScheduler) -> Scheduled {
        Scheduled {
            state: PiMutex::new(State {
                scheduler,
                admitted: BTreeMap::new(),
                chains: Chains::default(),
                next: 0,
            }),
        }
    }

    /// Admits the consumers of a task graph as a whole, before any of them connects. Their
    /// deadlines count from the event that starts the chain.
    ///
    /// A consumer that connects under the name of an operation gets that operation's placement,
    /// with the priority and the deadline relative to its own event. Its [`Quality`] may leave
    /// these out, and may not ask for more.
    ///
    /// # Errors
    /// [`NotAdmitted`]: the graph is invalid, a task would miss its deadline, or a name is promised
    /// already. Nothing has changed then.
    ///
    /// # Real-time
    /// For administration: allocates. The computation takes as long as the plan's effort allows,
    /// once for each operation and round.
    pub fn admit_graph(&self, graph: &Graph) -> Result<ChainId, NotAdmitted> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.next += 1;
        state.chains.admit(&mut state.scheduler, graph, ChainId(state.next))
    }

    /// Withdraws the promise. Returns false if it was withdrawn before, or while a consumer is
    /// connected under one of its names.
    pub fn withdraw(&self, chain: ChainId) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.chains.withdraw(&mut state.scheduler, chain)
    }

    /// The worst-case response time of the consumer of this name, with all consumers that are
    /// admitted now. `None` if it has no promise.
    ///
    /// # Real-time
    /// Looks a name up under the lock that admission takes.
    pub fn response(&self, name: &str) -> Option<Duration> {
        let state = self.state.lock();
        let id = state.scheduler.lookup(name)?;
        let released = state.scheduler.dispatch(id)?.released;
        Some(Duration::from_nanos(state.scheduler.response(id)?.minus(released).ns()))
    }

    /// The demand of all consumers that are admitted now.
    pub fn utilisation(&self) -> Utilisation {
        self.state.lock().scheduler.utilisation()
    }

    /// The levels that a channel needs: those of the plan, and below them the least urgent level
    /// for consumers without a promise.
    pub fn levels(&self) -> Vec<Priority> {
        let state = self.state.lock();
        let mut levels: Vec<Priority> =
            state.scheduler.queues().map(|queue| priority(queue.thread_priority)).collect();
        levels.push(Priority::MIN);
        levels.sort_unstable();
        levels.dedup();
        levels
    }
}

impl RunTimeScheduler for Scheduled {
    fn admit(&self, name: &str, q: &Quality) -> Result<(Placement, u64), NotAdmitted> {
        let mut state = self.state.lock();
        let number = state.next + 1;
        if let Some(place) = state.chains.take(name, q, number) {
            let placement = place?;
            state.next = number;
            return Ok((placement, number));
        }
        let (Some(worst_case), Some(period)) = (q.worst_case, q.period) else {
            return Ok((Placement::least_urgent(q), 0));
        };
        // A consumer's deadline counts from the push, a task's from when that should have come at
        // the earliest.
        let (jitter, deadline) = (nanos(q.jitter), nanos(q.deadline.unwrap_or(period)));
        let task = Task::new(name, nanos(worst_case), nanos(period))
            .jitter(jitter)
            .deadline(deadline.plus(jitter))
            .priority(q.priority.get().unsigned_abs().into())
            .criticality(q.criticality)
            .importance(q.importance);
        let connected = state.scheduler.connect(task).map_err(|refusal| NotAdmitted(refusal.to_string()))?;
        state.next += 1;
        let number = state.next;
        state.admitted.insert(number, connected.id);
        let d = connected.dispatch;
        let placement = Placement {
            priority: priority(d.thread_priority),
            sub_priority: sub_priority(&d),
            deadline: Some(Duration::from_nanos(d.own_deadline().ns())),
            worst_case: Some(worst_case),
            period: Some(period),
            jitter: q.jitter,
        };
        Ok((placement, number))
    }

    fn preemption(&self) -> Option<Preemption> {
        Some(self.state.lock().scheduler.preemption())
    }

    fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some(id) = state.admitted.remove(&number) {
            state.scheduler.disconnect(id);
        } else {
            state.chains.leave(number);
        }
    }
}

pub(crate) fn priority(of: u16) -> Priority {
    i16::try_from(of).ok().and_then(Priority::new).unwrap_or(Priority::MAX)
}

/// A queue by deadline or laxity computes it of each event as it is queued.
pub(crate) fn sub_priority(dispatch: &Dispatch) -> SubPriority {
    match dispatch.order {
        // Less is sooner there, more is sooner here.
        Order::Arrival => SubPriority::Static(-i32::from(dispatch.static_subpriority)),
        Order::Deadline => SubPriority::Deadline,
        Order::Laxity => SubPriority::Laxity,
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_sched::{Plan, Policy};

    fn quality(cost: u64, period: u64) -> Quality {
        Quality {
            worst_case: Some(Duration::from_millis(cost)),
            period: Some(Duration::from_millis(period)),
            ..Quality::default()
        }
    }

    #[test]
    fn admitted_consumers_get_the_plans_priorities_and_free_them_on_leaving() {
        let ms = Nanos::from_ms;
        for (policy, expected) in [
            (Policy::RateMonotonic, SubPriority::Static(0)),
            (Policy::EarliestDeadline, SubPriority::Deadline),
        ] {
            let plan = Plan::with_levels(policy, &[ms(10), ms(100)], 10..=20).unwrap();
            let scheduled = Scheduled::new(RuntimeScheduler::new(plan));
            assert!(scheduled.levels().windows(2).all(|pair| pair[0] < pair[1]));
            let (fast, number) = scheduled.admit("fast", &quality(6, 10)).unwrap();
            assert_eq!((fast.priority.get(), fast.deadline), (20, Some(Duration::from_millis(10))));
            match fast.sub_priority {
                SubPriority::Static(_) => assert!(matches!(expected, SubPriority::Static(_))),
                other => assert_eq!(other, expected),
            }
            let refused = scheduled.admit("more", &quality(6, 10)).unwrap_err();
            assert!(refused.to_string().contains("more"), "{refused}");
            scheduled.leave(number);
            assert!(scheduled.admit("more", &quality(6, 10)).is_ok());
            let (rest, _) = scheduled.admit("rest", &Quality::default()).unwrap();
            assert_eq!(rest.priority, Priority::MIN);
        }
    }
}
