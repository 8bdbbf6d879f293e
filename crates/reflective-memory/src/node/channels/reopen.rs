//! Opening channels again after the writer's node was silent.

use super::table::Replica;
use super::{Channels, ReplicaId};
use crate::Error;
use crate::idl::{CRM_CommRef, Path};
use crate::memory::State;
use crate::node::failover::FailoverRef;
use isorb::Reference;
use isorb_rt::time::now_ns;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A replica that is silent, or is to rejoin its group.
pub(super) struct Candidate {
    pub id: ReplicaId,
    pub name: String,
    pub replica: Arc<Replica>,
}

impl Channels {
    /// Opens silent channels again: a restarted server knows nothing of them. Also tries groups
    /// again that fell silent. Each writer's node has a thread, so that one that hangs delays no
    /// other.
    pub fn reopen_silent(self: &Arc<Self>) {
        let now = now_ns();
        let mut by_node: HashMap<String, Vec<Candidate>> = HashMap::new();
        for (id, entry) in self.lock().replicas() {
            let replica = &entry.replica;
            if self.is_silent(replica) || self.may_rejoin(replica, now) {
                let (name, replica) = (entry.area.clone(), replica.clone());
                let node = replica.server.preferred().object().to_string();
                by_node.entry(node).or_default().push(Candidate { id, name, replica });
            }
        }
        for (node, candidates) in by_node {
            if !self.reopening.lock().insert(node.clone()) {
                continue;
            }
            let (channels, done) = (self.clone(), node.clone());
            let reopen = move || {
                channels.reopen_all(candidates);
                channels.reopening.lock().remove(&done);
            };
            if crate::node::spawn("memory-reopen", reopen).is_err() {
                self.reopening.lock().remove(&node);
            }
        }
    }

    fn reopen_all(&self, candidates: Vec<Candidate>) {
        let (silent, apart): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| self.is_silent(&candidate.replica));
        for Candidate { id, name, replica } in silent {
            let has_readers = self.lock().replica(id).is_some();
            if has_readers
                && !self.is_stopped()
                && let Some(new) = self.reopen(&name, &replica)
            {
                self.replace(id, new);
            }
        }
        self.rejoin(apart);
    }

    /// The readers of a replica go over to a new one. Without readers, the new one is closed.
    pub(super) fn replace(&self, id: ReplicaId, new: Replica) {
        let new = Arc::new(new);
        let replaced = self.lock().replace_replica(id, &new);
        match replaced {
            // The readers stopped the former one meanwhile, or started it.
            Some(true) => drop(self.run(&new, !new.stopped.load(Ordering::Acquire))),
            Some(false) => {}
            None => self.close_replica(&new),
        }
    }

    /// Reports an area as destroyed when the heartbeat that said so was lost. A restarted node may
    /// not have all of its areas back, and a restarted coordinator may not know them. So the server
    /// that had it decides.
    fn report_destroyed(&self, name: &str, before: &Replica) {
        let described = before.server.call(|server| server.describe(name, 0));
        if matches!(described, Err(Error::UnknownArea(_))) {
            self.end_replica(before);
            let _ = before.segment.set_state(State::Destroyed);
        }
    }

    fn reopen(&self, name: &str, before: &Replica) -> Option<Replica> {
        // The server must answer before the memory is taken from the agent that fills it.
        let server = self.locate(name).and_then(|server| {
            server.call(|server| server.describe(name, 0))?;
            Ok(server)
        });
        let server = match server {
            Ok(server) => server,
            Err(Error::UnknownArea(_)) => {
                self.report_destroyed(name, before);
                return None;
            }
            Err(_) => return None,
        };
        self.end_replica(before);
        before.unseen.get_or_init(|| unseen(before, &server));
        // A group has one path. When it falls silent, each node opens a channel of its own, which
        // may have two, and tries the group again once that channel works.
        let was_group = before.qos.through == Path::PathMulticast && before.group.is_some();
        let through = if was_group { Path::PathUdp } else { before.qos.through };
        self.open_replica(name, before.qos, through, server, Some(before)).ok()
    }
}

/// Closes the writer's end of a channel that fell silent, if it still exists. Gives the number of
/// its pushes that did not arrive.
pub(super) fn unseen(before: &Replica, server: &FailoverRef<CRM_CommRef>) -> u64 {
    // Another server does not know the channel, and the one that does may never answer.
    if !server.is_same_object(&before.server) {
        return 0;
    }
    let pushes = server.call(|server| server.close_channel(before.handle));
    let newest = before.ended.get().and_then(|ended| ended.newest);
    match (pushes, newest) {
        (Ok(pushes), Some(newest)) => pushes.saturating_sub(newest),
        _ => 0,
    }
}
