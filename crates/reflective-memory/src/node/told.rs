//! What the coordinator knows of this node.
//!
//! A call to it may fail, or be taken when nobody waits for the answer any more. What it may not know is told again, with all that the node
//! holds: so nothing that was lost on the way stays lost, and nothing that is gone stays there.

use super::Shared;
use crate::Error;
use crate::idl::{Area, Node};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Registrations that follow upon a call that failed. The second is for a call that was still under way during the first.
const REPEATED: u32 = 2;

/// What is owed to the coordinator; part of the tables.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Counts the areas that came and went.
    changes: u64,
    /// Registrations that are to be made.
    owed: u32,
    /// The last call got no answer.
    silent: bool,
}

impl Told {
    /// An area is about to come, or is gone. A registration that is under way may not say so.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    /// A call got no answer, or the coordinator did not know us: what it knows may be something else than what is so.
    pub fn failed(&mut self) {
        self.changes += 1;
        self.owed = REPEATED;
        self.silent = true;
    }

    /// Is there something that it may not know?
    pub fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Whoever asks now is likely to wait in vain.
    pub fn is_silent(&self) -> bool {
        self.silent
    }
}

impl Shared {
    /// Tells the coordinator who we are and what we hold, or are about to hold. Areas that were taken back without its word, and that another
    /// node has, are not served any more.
    pub(super) fn register(&self) -> Result<(), Error> {
        let (Some(coordinator), Some(me)) = (&self.coordinator, self.me.get()) else { return Ok(()) };
        let node =
            Node { name: self.config.name.clone(), incarnation: self.incarnation, server: Some(me.clone()) };
        let (held, changes): (Vec<Area>, u64) = {
            let tables = self.tables.lock();
            let held = tables.areas.values().map(|entry| &entry.what).chain(tables.making.values());
            (held.cloned().collect(), tables.told.changes)
        };
        match coordinator.call(|glob| glob.register_node(&node, &held)) {
            Ok(elsewhere) => {
                self.told(&held, elsewhere, changes);
                Ok(())
            }
            Err(error) => {
                self.tables.lock().told.failed();
                Err(error)
            }
        }
    }

    fn told(&self, held: &[Area], elsewhere: Vec<String>, changes: u64) {
        let mut tables = self.tables.lock();
        tables.told.silent = false;
        if tables.told.changes != changes {
            // It may have heard of the change first and of this after it. So it is told once more.
            return;
        }
        tables.told.owed = tables.told.owed.saturating_sub(1);
        let is_unasked = |name: &String| tables.areas.get(name).is_some_and(|entry| entry.unasked);
        let refused: Vec<String> = elsewhere.into_iter().filter(is_unasked).collect();
        for area in held {
            if let Some(entry) = tables.areas.get_mut(&area.name) {
                entry.unasked = false;
            }
        }
        drop(tables);
        refused.iter().for_each(|name| self.withdraw(name));
    }

    /// An area is gone; where the coordinator does not hear it now, it does later.
    pub(super) fn unregister(&self, name: &str) {
        if let Some(coordinator) = &self.coordinator
            && coordinator.call(|glob| glob.unregister_area(&self.config.name, name)).is_err()
        {
            self.tables.lock().told.failed();
        }
    }

    /// Once a second: does the coordinator know us, and all of us?
    pub(super) fn keep_known(&self) {
        let Some(coordinator) = &self.coordinator else { return };
        let mut round = 0_u32;
        while !self.stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(50));
            round = round.wrapping_add(1);
            if !round.is_multiple_of(20) {
                continue;
            }
            let alive = || coordinator.call(|glob| glob.alive(&self.config.name, self.incarnation));
            if self.tables.lock().told.owes() || matches!(alive(), Err(Error::UnknownNode(_))) {
                // Who is not heard now is heard a second later.
                let _ = self.register();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_owed_and_one_that_answered_is_asked_again() {
        let mut told = Told::default();
        told.changed();
        assert!(!told.owes() && !told.is_silent(), "what changes is told at once");
        told.failed();
        assert!(told.owes() && told.is_silent() && told.changes == 2);
    }
}
