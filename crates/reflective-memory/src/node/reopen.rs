//! Channels that are opened anew: their writer's node was silent, and is there again.

use super::Shared;
use super::failover::FailoverRef;
use super::tables::{Replica, What};
use crate::Error;
use crate::idl::{CRM_CommRef, Path};
use crate::memory::State;
use isorb::Reference;
use isorb_rt::time::now_ns;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Opens channels anew whose writer's node was silent and is there again: its server was restarted, and knows nothing of them. And tries
    /// groups again that fell silent. A thread a node, so that one that hangs keeps no other's waiting.
    pub(super) fn reopen_silent(self: &Arc<Self>) {
        let (mut silent, now) = (Vec::<(String, Arc<Replica>)>::new(), now_ns());
        for ticket in self.tables.lock().tickets.values() {
            if let What::Replica(replica) = &ticket.what
                && (self.is_silent(replica) || self.may_rejoin(replica, now))
                && !silent.iter().any(|(_, other)| Arc::ptr_eq(other, replica))
            {
                silent.push((ticket.area.clone(), replica.clone()));
            }
        }
        let mut by_node: HashMap<String, Vec<(String, Arc<Replica>)>> = HashMap::new();
        for (name, before) in silent {
            let node = before.server.best().object().to_string();
            by_node.entry(node).or_default().push((name, before));
        }
        for (node, replicas) in by_node {
            if !self.reopening.lock().insert(node.clone()) {
                // Whoever let go of one meanwhile left it to us.
                replicas.into_iter().for_each(|(_, before)| self.close_unused(before));
                continue;
            }
            let (shared, done) = (self.clone(), node.clone());
            let reopen = move || {
                shared.reopen_all(replicas);
                shared.reopening.lock().remove(&done);
            };
            if super::named("memory-reopen", reopen).is_err() {
                self.reopening.lock().remove(&node);
            }
        }
    }

    fn reopen_all(&self, replicas: Vec<(String, Arc<Replica>)>) {
        let (silent, apart): (Vec<_>, Vec<_>) =
            replicas.into_iter().partition(|(_, replica)| self.is_silent(replica));
        for (name, before) in silent {
            if !self.stop.load(Ordering::Acquire)
                && let Some(replica) = self.reopen(&name, &before)
            {
                self.replace(&before, replica);
            }
            self.close_unused(before);
        }
        self.rejoin(apart);
    }

    /// Whoever reads one replica reads the other from now on.
    pub(super) fn replace(&self, before: &Arc<Replica>, replica: Replica) {
        let replica = Arc::new(replica);
        let mut tables = self.tables.lock();
        for ticket in tables.tickets.values_mut().filter(|ticket| ticket.is_for(before)) {
            ticket.what = What::Replica(replica.clone());
        }
        replica.entering.fetch_sub(1, Ordering::AcqRel);
        // Its readers may have stopped the other meanwhile, or had it run again.
        let stopped = before.stopped.load(Ordering::Acquire);
        let changed = replica.stopped.swap(stopped, Ordering::AcqRel) != stopped;
        drop(tables);
        if changed {
            let _ = self.run(&replica, !stopped);
        }
        self.close_unused(replica);
    }

    /// Tells the readers of an area that was destroyed, where what would have said so did not come. A node that was restarted has not all of its
    /// areas back, and a coordinator knows those only that it was told of since: what counts is the word of the server that had it.
    fn tell_destroyed(&self, name: &str, before: &Replica) {
        let had_it = before.server.call(|server| server.describe(name, 0));
        if matches!(had_it, Err(Error::UnknownArea(_))) {
            self.forget(before);
            let _ = before.segment.set_state(State::Destroyed);
        }
    }

    fn reopen(&self, name: &str, before: &Replica) -> Option<Replica> {
        // Its server must answer first: only then the memory is taken from the agent that fills it, and given to another.
        let described =
            self.locate(name).and_then(|server| match server.call(|server| server.describe(name, 0)) {
                Ok(_) => Ok(server),
                Err(error) => Err(error),
            });
        let server = match described {
            Ok(server) => server,
            Err(Error::UnknownArea(_)) => {
                self.tell_destroyed(name, before);
                return None;
            }
            Err(_) => return None,
        };
        self.forget(before);
        before.unseen.get_or_init(|| unseen(before, &server));
        // A group has one path. When it falls silent each node asks for itself, which has two, and for the group again if that does.
        let apart = before.qos.through == Path::PathMulticast && before.group.is_some();
        let through = if apart { Path::PathUdp } else { before.qos.through };
        self.open_replica(name, before.qos, through, server, Some(before)).ok()
    }
}

/// Closes the writer's end of a channel that fell silent, where it is still there; gives how many of its pushes did not come.
pub(super) fn unseen(before: &Replica, server: &FailoverRef<CRM_CommRef>) -> u64 {
    // Another server knows nothing of it, and the one that does may never answer.
    if !server.is_of_same(&before.server) {
        return 0;
    }
    let begun = server.call(|server| server.close_channel(before.handle));
    let newest = before.ended.get().and_then(|ended| ended.newest);
    match (begun, newest) {
        (Ok(begun), Some(newest)) => begun.saturating_sub(newest),
        _ => 0,
    }
}
