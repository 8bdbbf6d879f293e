//! Chains of consumers, each of which pushes the events of the next. A chain is admitted as a
//! whole.

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
    slots: BTreeMap<String, ChainSlot>,
}

/// The promise to one operation of a chain.
#[derive(Debug)]
struct ChainSlot {
    chain: ChainId,
    priority: isorb_rt::priority::Priority,
    sub_priority: SubPriority,
    /// From the arrival of its event to its return.
    deadline: Duration,
    cost: Duration,
    /// The shortest period of the streams that reach it.
    period: Duration,
    /// How long after the chain's first event it is released at most.
    jitter: Duration,
    /// One stream of single events reaches it, so that period and jitter are those of its pushes.
    paced: bool,
    /// The admission number of the consumer that has it.
    occupant: Option<u64>,
}

impl Chains {
    pub(crate) fn admit(
        &mut self,
        scheduler: &mut RuntimeScheduler,
        graph: &Graph,
        chain: ChainId,
    ) -> Result<ChainId, NotAdmitted> {
        let names = graph.operations().iter().map(|operation| &operation.name);
        if let Some(twice) = names.clone().find(|name| self.slots.contains_key(*name)) {
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
            let slot = slot(stage, chain, cost, period);
            let paced = matches!(&streams[stage.operation][..], [only] if only.times == 1);
            let slot = ChainSlot { paced, ..slot };
            let name = graph.operations()[stage.operation].name.clone();
            // An operation that several streams release must meet the deadline of each.
            let deadline = slot.deadline;
            let known = self.slots.entry(name).or_insert(slot);
            known.deadline = known.deadline.min(deadline);
        }
        self.tasks.insert(chain, stages.iter().map(|stage| stage.connected.id).collect());
        Ok(chain)
    }

    pub(crate) fn withdraw(&mut self, scheduler: &mut RuntimeScheduler, chain: ChainId) -> bool {
        if self.slots.values().any(|slot| slot.chain == chain && slot.occupant.is_some()) {
            return false;
        }
        let Some(tasks) = self.tasks.remove(&chain) else {
            return false;
        };
        for task in tasks {
            scheduler.disconnect(task);
        }
        self.slots.retain(|_, slot| slot.chain != chain);
        true
    }

    /// The placement that is promised under this name, if any, for the consumer of this number.
    pub(crate) fn take(
        &mut self,
        name: &str,
        quality: &Quality,
        number: u64,
    ) -> Option<Result<Placement, NotAdmitted>> {
        let slot = self.slots.get_mut(name)?;
        if let Some(why) = slot.refuses(quality) {
            return Some(Err(NotAdmitted(format!("{name}: {why}"))));
        }
        slot.occupant = Some(number);
        Some(Ok(Placement {
            priority: slot.priority,
            sub_priority: slot.sub_priority,
            deadline: Some(slot.deadline),
            worst_case: Some(slot.cost),
            period: slot.paced.then_some(slot.period),
            jitter: slot.jitter,
        }))
    }

    /// Frees the slot of a disconnected consumer. The promise remains.
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(slot) = self.slots.values_mut().find(|slot| slot.occupant == Some(number)) {
            slot.occupant = None;
        }
    }
}

impl ChainSlot {
    fn refuses(&self, quality: &Quality) -> Option<String> {
        if self.occupant.is_some() {
            return Some("a consumer is connected under this name of the chain already".into());
        }
        if let Some(worst) = quality.worst_case.filter(|worst| *worst > self.cost) {
            return Some(format!(
                "it declares a worst case of {worst:?}, but its chain was admitted with {:?}",
                self.cost
            ));
        }
        if let Some(period) = quality.period.filter(|period| *period < self.period) {
            return Some(format!(
                "it declares a period of {period:?}, but its chain was admitted with {:?}",
                self.period
            ));
        }
        let deadline = quality.deadline.filter(|deadline| *deadline < self.deadline)?;
        Some(format!(
            "it declares a deadline of {deadline:?}, but its chain was admitted with {:?}",
            self.deadline
        ))
    }
}

fn slot(stage: &Stage, chain: ChainId, cost: Duration, period: Duration) -> ChainSlot {
    let dispatch = stage.connected.dispatch;
    ChainSlot {
        chain,
        priority: priority(dispatch.thread_priority),
        sub_priority: sub_priority(&dispatch),
        deadline: Duration::from_nanos(stage.own_deadline().ns()),
        cost,
        period,
        jitter: Duration::from_nanos(dispatch.released.ns()),
        paced: false,
        occupant: None,
    }
}
