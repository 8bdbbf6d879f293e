//! Rejoining a group that fell silent.
//!
//! Each node then reads the area by a channel of its own. Only a member can see whether the group
//! works again. So a node joins it once more, beside its own channel and into memory without
//! readers. Where that memory becomes as new as the replica, the readers go over; else the attempt
//! ends and is repeated later.

use super::Channels;
use super::reopen::{Candidate, unseen};
use super::table::Replica;
use crate::idl::Path;
use crate::memory::{State, WaitError};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The longest attempt.
const ATTEMPT: Duration = Duration::from_millis(1500);
/// The first attempt begins after this time, each further one after twice the time,
const FIRST_NS: u64 = 5_000_000_000;
/// up to this one. A group that worked for so long begins with the first interval again.
const LAST_NS: u64 = 60_000_000_000;

/// Failed attempts to rejoin a group.
#[derive(Debug)]
pub(in crate::node) struct RejoinAttempts {
    begun_ns: u64,
    last_ns: AtomicU64,
    count: AtomicU32,
}

impl RejoinAttempts {
    /// The attempts of a replica that replaces another: a group that keeps failing is tried less
    /// often.
    pub fn after(before: Option<&RejoinAttempts>, now_ns: u64) -> RejoinAttempts {
        let kept = before.filter(|before| now_ns.saturating_sub(before.begun_ns) < LAST_NS);
        let count = kept.map_or(0, |kept| kept.count.load(Ordering::Relaxed));
        RejoinAttempts { begun_ns: now_ns, last_ns: AtomicU64::new(now_ns), count: AtomicU32::new(count) }
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

/// A membership beside the node's own channel.
struct Attempt {
    own: Candidate,
    group: Replica,
}

impl Channels {
    /// Did the readers ask for a group, is the area read by the node's own channel, and is the next
    /// attempt due?
    pub(super) fn may_rejoin(&self, replica: &Replica, now_ns: u64) -> bool {
        replica.qos.through == Path::PathMulticast
            && replica.group.is_none()
            && replica.rejoins.is_due(now_ns)
            && self.receive_stats(replica).is_some_and(|stats| stats.state != State::Stopped)
    }

    /// Tries the groups of these replicas at the same time.
    pub(super) fn rejoin(&self, replicas: Vec<Candidate>) {
        let (end, mut attempts) = (Deadline::after(ATTEMPT), Vec::new());
        for own in replicas {
            own.replica.rejoins.count(now_ns());
            let (qos, server) = (own.replica.qos, own.replica.server.clone());
            // A guarantee is needed beside the present one. It may be available later.
            if let Ok(group) = self.open_replica(&own.name, qos, Path::PathMulticast, server, None) {
                attempts.push(Attempt { own, group });
            }
        }
        for attempt in attempts {
            if self.catches_up(&attempt, end) {
                self.go_over(&attempt);
            } else {
                self.close_replica(&attempt.group);
            }
        }
    }

    /// Waits until the group's memory is as new as the replica, until `end`, or until the server
    /// stops.
    fn catches_up(&self, attempt: &Attempt, end: Deadline) -> bool {
        let Ok(mut reader) = attempt.group.segment.reader() else { return false };
        self.rejoining.lock().insert(attempt.group.channel, attempt.group.segment.clone());
        let caught_up = loop {
            let checked = reader.sequence();
            if self.is_stopped() {
                break false;
            }
            if self.is_as_new(attempt) {
                break true;
            }
            reader.skip_to(checked);
            match reader.wait(end) {
                Err(WaitError::Changed(state)) if !state.is_final() => {}
                Err(_) => break self.is_as_new(attempt),
                Ok(()) => {}
            }
        };
        self.rejoining.lock().remove(&attempt.group.channel);
        caught_up
    }

    /// Has the group brought the value of the node's own channel, or a later one?
    fn is_as_new(&self, attempt: &Attempt) -> bool {
        let Attempt { own, group } = attempt;
        let latest =
            |replica: &Replica| replica.segment.reader().ok().and_then(|mut reader| reader.latest_source());
        self.receive_stats(group).is_some_and(|stats| stats.newest.is_some() && !stats.is_silent)
            && group.identity == own.replica.identity
            && latest(group) >= latest(&own.replica)
    }

    fn go_over(&self, attempt: &Attempt) {
        let Attempt { own: Candidate { id, name, replica }, group } = attempt;
        // The writer's node keeps the membership until it is asked for again.
        let _opening = self.handles.opening();
        self.end_replica(group);
        let opened = self.end_replica(replica).then(|| {
            let server = &replica.server;
            replica.unseen.get_or_init(|| unseen(replica, server));
            let open =
                |through| self.open_replica(name, replica.qos, through, server.clone(), Some(replica)).ok();
            open(Path::PathMulticast).or_else(|| open(Path::PathUdp))
        });
        let opened = opened.flatten();
        if opened.as_ref().is_none_or(|opened| opened.group.is_none()) {
            let _ = replica.server.call(|server| server.close_channel(group.handle));
        }
        if let Some(opened) = opened {
            self.replace(*id, opened);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn attempts_come_at_growing_intervals_and_start_over_after_a_group_that_worked() {
        let rejoins = RejoinAttempts::after(None, 0);
        let mut at = 0;
        for wait in [5, 10, 20, 40, 60, 60, 60] {
            assert!(!rejoins.is_due(at + wait * S - 1) && rejoins.is_due(at + wait * S), "{wait}");
            at += wait * S;
            rejoins.count(at);
        }
        (0..100).for_each(|_| rejoins.count(at));
        assert!(!rejoins.is_due(at + 60 * S - 1) && rejoins.is_due(at + 60 * S));
        // The group worked for a while, and not for long.
        let group = RejoinAttempts::after(Some(&RejoinAttempts::after(None, 0)), S);
        group.count(S);
        let again = RejoinAttempts::after(Some(&group), 50 * S);
        assert!(!again.is_due(60 * S - 1) && again.is_due(60 * S));
        assert!(RejoinAttempts::after(Some(&group), 61 * S).is_due(66 * S));
    }
}
