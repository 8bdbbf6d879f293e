//! Consumers that push on what they were pushed, promised their places as a whole.

use crate::placement::{NotAdmitted, Placement, Quality, SubPriority};
use crate::scheduled::{priority, sub_priority};
use isorb_sched::{Graph, RuntimeScheduler, Stage, TaskId};
use std::collections::BTreeMap;
use std::time::Duration;

/// A task graph that was admitted by [`Scheduled::admit_graph`](crate::Scheduled::admit_graph).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChainId(pub(crate) u64);

#[derive(Debug, Default)]
pub(crate) struct Chains {
    tasks: BTreeMap<ChainId, Vec<TaskId>>,
    places: BTreeMap<String, Place>,
}

/// A place in a chain.
#[derive(Debug)]
struct Place {
    chain: ChainId,
    priority: isorb_rt::priority::Priority,
    sub_priority: SubPriority,
    /// From the event that it is pushed to its return.
    deadline: Duration,
    cost: Duration,
    /// The shortest of those of the streams that reach it.
    period: Duration,
    /// How late it is released after what set the chain off.
    jitter: Duration,
    /// There is one stream of single events, so that its period and jitter are theirs.
    paced: bool,
    /// Under which number a consumer has it.
    taken: Option<u64>,
}

impl Chains {
    pub(crate) fn admit(
        &mut self,
        scheduler: &mut RuntimeScheduler,
        graph: &Graph,
        chain: ChainId,
    ) -> Result<ChainId, NotAdmitted> {
        let names = graph.operations().iter().map(|operation| &operation.name);
        if let Some(twice) = names.clone().find(|name| self.places.contains_key(*name)) {
            return Err(NotAdmitted(format!("{twice}: a chain with this name is admitted already")));
        }
        let refused = |error: &dyn std::fmt::Display| NotAdmitted(error.to_string());
        let costs = graph.costs().map_err(|error| refused(&error))?;
        let streams = graph.streams().map_err(|error| refused(&error))?;
        let stages = scheduler.connect_graph(graph).map_err(|refusal| refused(&refusal))?;
        for stage in &stages {
            let cost = Duration::from_nanos(costs[stage.operation].ns());
            let period = streams[stage.operation].iter().map(|stream| stream.period).min();
            let period = Duration::from_nanos(period.unwrap_or_default().ns());
            let place = place(stage, chain, cost, period);
            let paced = matches!(&streams[stage.operation][..], [only] if only.times == 1);
            let place = Place { paced, ..place };
            let name = graph.operations()[stage.operation].name.clone();
            // One that several release has to be done with each in time.
            let deadline = place.deadline;
            let known = self.places.entry(name).or_insert(place);
            known.deadline = known.deadline.min(deadline);
        }
        self.tasks.insert(chain, stages.iter().map(|stage| stage.connected.id).collect());
        Ok(chain)
    }

    pub(crate) fn withdraw(&mut self, scheduler: &mut RuntimeScheduler, chain: ChainId) -> bool {
        if self.places.values().any(|place| place.chain == chain && place.taken.is_some()) {
            return false;
        }
        let Some(tasks) = self.tasks.remove(&chain) else {
            return false;
        };
        for task in tasks {
            scheduler.disconnect(task);
        }
        self.places.retain(|_, place| place.chain != chain);
        true
    }

    /// The place that is promised under this name, if one is, for the consumer of this number.
    pub(crate) fn take(
        &mut self,
        name: &str,
        asks: &Quality,
        number: u64,
    ) -> Option<Result<Placement, NotAdmitted>> {
        let place = self.places.get_mut(name)?;
        if let Some(why) = place.refuses(asks) {
            return Some(Err(NotAdmitted(format!("{name}: {why}"))));
        }
        place.taken = Some(number);
        Some(Ok(Placement {
            priority: place.priority,
            sub_priority: place.sub_priority,
            deadline: Some(place.deadline),
            worst_case: Some(place.cost),
            period: place.paced.then_some(place.period),
            jitter: place.jitter,
        }))
    }

    /// The consumer of this number is gone; its place is still promised.
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(place) = self.places.values_mut().find(|place| place.taken == Some(number)) {
            place.taken = None;
        }
    }
}

impl Place {
    fn refuses(&self, asks: &Quality) -> Option<String> {
        if self.taken.is_some() {
            return Some("a consumer has its place in the chain already".into());
        }
        if let Some(worst) = asks.worst_case.filter(|worst| *worst > self.cost) {
            return Some(format!(
                "it takes up to {worst:?}, and was admitted in its chain with {:?}",
                self.cost
            ));
        }
        if let Some(period) = asks.period.filter(|period| *period < self.period) {
            return Some(format!(
                "it is pushed to every {period:?}, and was admitted in its chain with {:?}",
                self.period
            ));
        }
        let deadline = asks.deadline.filter(|deadline| *deadline < self.deadline)?;
        Some(format!(
            "it asks for a deadline of {deadline:?}, and was admitted in its chain with {:?}",
            self.deadline
        ))
    }
}

fn place(stage: &Stage, chain: ChainId, cost: Duration, period: Duration) -> Place {
    let dispatch = stage.connected.dispatch;
    Place {
        chain,
        priority: priority(dispatch.thread_priority),
        sub_priority: sub_priority(&dispatch),
        deadline: Duration::from_nanos(stage.own_deadline().ns()),
        cost,
        period,
        jitter: Duration::from_nanos(dispatch.released.ns()),
        paced: false,
        taken: None,
    }
}
