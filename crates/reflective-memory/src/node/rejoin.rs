//! Back into a group that fell silent: its area is read apart since then, by each node for itself.
//!
//! Whether the group works again can be seen only by taking part in it. So a node takes part once more beside what it reads apart, into memory that
//! nobody reads; where that comes to be as new, its readers go over, else the trial ends and a later one is made.

use super::Shared;
use super::reopen::unseen;
use super::tables::Replica;
use crate::idl::Path;
use crate::memory::State;
use isorb_rt::time::{Deadline, now_ns};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A trial takes so long at most.
const TRIAL: Duration = Duration::from_millis(1500);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The first comes after so long, each next one after twice as long,
const FIRST_NS: u64 = 5_000_000_000;
/// up to this. A group that brought values for so long counts as good.
const LAST_NS: u64 = 60_000_000_000;

/// How often a group was tried in vain.
#[derive(Debug)]
pub(super) struct Trials {
    begun_ns: u64,
    last_ns: AtomicU64,
    count: AtomicU32,
}

impl Trials {
    /// Those of a replica that takes the place of another one: a group that keeps failing is tried less and less often.
    pub fn after(before: Option<&Trials>, now_ns: u64) -> Trials {
        let kept = before.filter(|before| now_ns.saturating_sub(before.begun_ns) < LAST_NS);
        let count = kept.map_or(0, |kept| kept.count.load(Ordering::Relaxed));
        Trials { begun_ns: now_ns, last_ns: AtomicU64::new(now_ns), count: AtomicU32::new(count) }
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let wait = FIRST_NS.checked_shl(self.count.load(Ordering::Relaxed).min(8)).unwrap_or(LAST_NS);
        now_ns.saturating_sub(self.last_ns.load(Ordering::Relaxed)) >= wait.min(LAST_NS)
    }

    fn count(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A part in a group beside the channel apart.
struct Trial {
    name: String,
    apart: Arc<Replica>,
    group: Replica,
}

impl Shared {
    /// Is it read apart though its readers asked for a group, and is it time to see whether that is well again?
    pub(super) fn may_rejoin(&self, replica: &Replica, now_ns: u64) -> bool {
        replica.qos.through == Path::PathMulticast
            && replica.group.is_none()
            && replica.trials.is_due(now_ns)
            && self.receive_stats(replica).is_some_and(|stats| stats.state != State::Stopped)
    }

    /// Tries the groups of areas that are read apart, all of them at once; those that bring values are gone over to.
    pub(super) fn rejoin(&self, apart: Vec<(String, Arc<Replica>)>) {
        let (end, mut trials) = (Deadline::after(TRIAL), Vec::new());
        for (name, apart) in apart {
            apart.trials.count(now_ns());
            // A guarantee must be had beside the one that there is; where it cannot, its time may come.
            match self.open_replica(&name, apart.qos, Path::PathMulticast, apart.server.clone(), None) {
                Ok(group) => trials.push(Trial { name, apart, group }),
                Err(_) => self.close_unused(apart),
            }
        }
        let is_stopped = || self.stop.load(Ordering::Acquire);
        while !end.is_past() && !is_stopped() && !trials.iter().all(|trial| self.is_as_new(trial)) {
            std::thread::sleep(LOOK);
        }
        for trial in trials {
            if self.is_as_new(&trial) && !is_stopped() {
                self.go_over(&trial);
            } else {
                self.close_replica(&trial.group);
            }
            self.close_unused(trial.apart);
        }
    }

    /// Has something come by the group, and the value that is read apart, or a later one?
    fn is_as_new(&self, trial: &Trial) -> bool {
        let latest =
            |replica: &Replica| replica.segment.reader().ok().and_then(|mut reader| reader.latest_source());
        self.receive_stats(&trial.group).is_some_and(|stats| stats.newest.is_some() && !stats.is_silent)
            && trial.group.identity == trial.apart.identity
            && latest(&trial.group) >= latest(&trial.apart)
    }

    fn go_over(&self, trial: &Trial) {
        let Trial { name, apart, group } = trial;
        // The writer's node keeps the part in the group until it is asked for again.
        self.forget(group);
        let opened = if self.forget(apart) {
            let server = &apart.server;
            apart.unseen.get_or_init(|| unseen(apart, server));
            let open =
                |through| self.open_replica(name, apart.qos, through, server.clone(), Some(apart)).ok();
            open(Path::PathMulticast).or_else(|| open(Path::PathUdp))
        } else {
            None
        };
        if opened.as_ref().is_none_or(|opened| opened.group.is_none()) {
            let _ = apart.server.call(|server| server.close_channel(group.handle));
        }
        if let Some(opened) = opened {
            self.replace(apart, opened);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn trials_come_at_growing_intervals_and_begin_anew_behind_a_group_that_was_good() {
        let trials = Trials::after(None, 0);
        let mut at = 0;
        for wait in [5, 10, 20, 40, 60, 60, 60] {
            assert!(!trials.is_due(at + wait * S - 1) && trials.is_due(at + wait * S), "{wait}");
            at += wait * S;
            trials.count(at);
        }
        (0..100).for_each(|_| trials.count(at));
        assert!(!trials.is_due(at + 60 * S - 1) && trials.is_due(at + 60 * S));
        // The group worked for a while, and not for long.
        let group = Trials::after(Some(&Trials::after(None, 0)), S);
        group.count(S);
        let again = Trials::after(Some(&group), 50 * S);
        assert!(!again.is_due(60 * S - 1) && again.is_due(60 * S));
        assert!(Trials::after(Some(&group), 61 * S).is_due(66 * S));
    }
}
