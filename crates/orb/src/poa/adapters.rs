//! Child POAs that adapter activators make on demand (clause 15.3.4).

use super::admission::{DESTROYING, STARTING};
use super::current::ManagerCall;
use super::errors::{DEADLOCK, DESTROYED, DISCARDED, NO_ADAPTER, guarded, no};
use super::key::child_path;
use super::manager::PoaManager;
use super::poa::Poa;
use super::registry::Starting;
use super::upcall_target::PoaGuard;
use super::wait_deadline::TIMED_OUT;
use crate::Result;
use isorb_giop::{Kind, minor};
use isorb_rt::sync::PiLatch;
use isorb_rt::time::Deadline;
use std::sync::Arc;

impl Poa {
    /// For a request to a missing child. While this POA's manager holds requests, no adapter
    /// activator is called.
    ///
    /// # Errors
    /// OBJECT_NOT_EXIST with minor code OMG|2 without an activator, or if it makes no child;
    /// OBJ_ADAPTER with OMG|1 if it raises an exception; the error of the manager's state.
    #[cold]
    pub(super) fn activate_child_for_request(&self, name: &str) -> Result<Poa> {
        if self.lock().adapter_activator.is_none() {
            return Err(NO_ADAPTER);
        }
        let _visit = PoaGuard::new(self.clone())?;
        self.activate_child(name)?.ok_or(NO_ADAPTER)
    }

    /// Calls the adapter activator for a child, or waits for the thread that does. `None`: there is
    /// no child, and the activator made none.
    ///
    /// # Errors
    /// OBJ_ADAPTER with minor code OMG|1 if the activator raises an exception; BAD_INV_ORDER with
    /// OMG|3 if this thread is making the same child; TRANSIENT when too many threads wait.
    pub(super) fn activate_child(&self, name: &str) -> Result<Option<Poa>> {
        let shared = &self.0.shared;
        let me = Poa::this_thread();
        let latch = Arc::new(PiLatch::new());
        let activator = {
            let mut admin = shared.admin.lock();
            loop {
                let (child, activator) = {
                    let body = self.lock();
                    (body.children.get(name).cloned(), body.adapter_activator.clone())
                };
                let started =
                    match admin.starting.iter().find(|other| other.parent == *self && *other.name == *name) {
                        Some(other) if other.thread == me => return Err(DEADLOCK),
                        Some(other) => other.started.clone(),
                        None => match child {
                            Some(child) if !child.admission().has(DESTROYING) => return Ok(Some(child)),
                            Some(_) => return Err(DESTROYED),
                            None => break,
                        },
                    };
                drop(activator);
                if admin.waiting >= PoaManager::DEFAULT_MAX_HELD {
                    return Err(DISCARDED);
                }
                admin.waiting += 1;
                drop(admin);
                started.wait_until(Deadline::NONE);
                admin = shared.admin.lock();
                admin.waiting -= 1;
            }
            let Some(activator) = self.lock().adapter_activator.clone() else { return Ok(None) };
            let (parent, started) = (self.clone(), latch.clone());
            admin.starting.push(Starting { parent, name: name.into(), thread: me, started });
            activator
        };
        let started = Started { parent: self, name, latch };
        let made = {
            let _call = ManagerCall::new(self);
            self.permit(Deadline::NONE)
                .and_then(|_permit| guarded("unknown_adapter", || activator.unknown_adapter(self, name)))
        };
        drop(started);
        match made {
            Ok(true) => {
                Ok(self.lock().children.get(name).filter(|child| !child.admission().has(DESTROYING)).cloned())
            }
            Ok(false) => Ok(None),
            Err(_) => Err(no(Kind::ObjAdapter, minor::OBJ_ADAPTER_ACTIVATOR)),
        }
    }

    /// For a request to a POA that is starting: waits until it has started. Returns true at once if
    /// this thread runs an adapter activator.
    ///
    /// # Errors
    /// TRANSIENT when too many wait or the POA is destroyed meanwhile, TIMEOUT at the deadline.
    #[cold]
    pub(super) fn await_started(&self, deadline: Deadline) -> Result<bool> {
        let shared = &self.0.shared;
        let me = Poa::this_thread();
        let mut admin = shared.admin.lock();
        loop {
            if self.admission().has(DESTROYING) {
                return Err(DESTROYED);
            }
            if !self.admission().has(STARTING) {
                return Ok(false);
            }
            if admin.starting.iter().any(|other| other.thread == me) {
                return Ok(true);
            }
            if admin.waiting >= PoaManager::DEFAULT_MAX_HELD {
                return Err(DISCARDED);
            }
            admin.waiting += 1;
            // The activator that makes this POA or, as the innermost, one above it.
            let makes = |other: &&Starting| {
                let path = child_path(&other.parent.0.path, &other.name);
                path.is_some_and(|path| self.0.path.starts_with(&path))
            };
            let started = admin.starting.iter().filter(makes).max_by_key(|other| other.parent.0.path.len());
            let notified = match started.map(|other| other.started.clone()) {
                Some(started) => {
                    drop(admin);
                    let notified = started.wait_until(deadline);
                    admin = shared.admin.lock();
                    notified
                }
                None => shared.changed.wait_until(&mut admin, deadline),
            };
            admin.waiting -= 1;
            if !notified && deadline.is_past() {
                return Err(TIMED_OUT);
            }
        }
    }

    /// Admits requests to this POA and those below it.
    fn start(&self) {
        self.admission().clear(STARTING);
        let children: Vec<Poa> = self.lock().children.values().cloned().collect();
        children.iter().for_each(Poa::start);
    }
}

/// A running call of an adapter activator; dropping it ends the call.
struct Started<'p> {
    parent: &'p Poa,
    name: &'p str,
    latch: Arc<PiLatch>,
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let shared = &self.parent.0.shared;
        {
            let mut admin = shared.admin.lock();
            admin.starting.retain(|other| other.parent != *self.parent || *other.name != *self.name);
            let child = self.parent.lock().children.get(self.name).cloned();
            if let Some(child) = child {
                child.start();
            }
        }
        shared.changed.notify_all(&shared.admin);
        self.latch.open();
    }
}
