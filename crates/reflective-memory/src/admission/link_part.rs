//! The part of the link that the channels of a dispatching thread send to, with the best effort
//! that may stand ahead of them.
//!
//! A best-effort value by a call goes to the link as a whole. Where the network does not sort by
//! class, a guaranteed value waits for one of them at most, because they take turns
//! (`node::orb_path`): that is blocking, the same for all guaranteed values. It changes as such
//! channels come and go, so the set is computed anew with it.

use isorb_sched::{Admission, AdmissionConfig, Nanos, Refusal, Task, TaskId, Utilisation};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct LinkPart {
    config: AdmissionConfig,
    set: Admission,
    /// The tasks by the numbers that this gave them, which stay when the set is computed anew.
    tasks: BTreeMap<u64, TaskId>,
    last: u64,
    /// How long the longest best-effort value occupies the link.
    ahead: Nanos,
}

impl LinkPart {
    pub fn new(config: AdmissionConfig) -> LinkPart {
        let set = Admission::new(config);
        LinkPart { config, set, tasks: BTreeMap::new(), last: 0, ahead: Nanos::ZERO }
    }

    /// Admits a task and returns its number.
    pub fn try_admit(&mut self, task: Task) -> Result<u64, Box<Refusal>> {
        let admitted = self.set.try_admit(behind(task, self.ahead))?;
        self.last += 1;
        self.tasks.insert(self.last, admitted.id);
        Ok(self.last)
    }

    pub fn fits(&mut self, task: &Task) -> bool {
        self.set.fits(&behind(task.clone(), self.ahead))
    }

    /// As [`Admission::nearest`].
    pub fn nearest(&mut self, requested: Nanos, make: impl Fn(Nanos) -> Task) -> Option<Nanos> {
        let ahead = self.ahead;
        self.set.nearest(requested, |value| behind(make(value), ahead))
    }

    pub fn remove(&mut self, number: u64) {
        if let Some(id) = self.tasks.remove(&number) {
            self.set.remove(id);
        }
    }

    /// A best-effort value may occupy the link for so long before any task.
    ///
    /// # Errors
    /// A task would miss its deadline. Nothing has changed then.
    pub fn set_ahead(&mut self, ahead: Nanos) -> Result<(), Box<Refusal>> {
        if ahead == self.ahead {
            return Ok(());
        }
        let mut set = Admission::new(self.config);
        let mut tasks = BTreeMap::new();
        for (number, id) in &self.tasks {
            let Some(task) = self.set.task(*id) else { continue };
            let blocking = task.blocking.minus(self.ahead);
            let task = behind(task.clone().blocking(blocking), ahead);
            tasks.insert(*number, set.try_admit(task)?.id);
        }
        (self.set, self.tasks, self.ahead) = (set, tasks, ahead);
        Ok(())
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.set.len()
    }

    pub fn utilisation(&self) -> Utilisation {
        self.set.utilisation()
    }
}

/// The same task, which waits for `ahead` as well.
fn behind(task: Task, ahead: Nanos) -> Task {
    let blocking = task.blocking.plus(ahead);
    task.blocking(blocking)
}
