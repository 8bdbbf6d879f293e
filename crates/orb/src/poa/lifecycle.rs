//! Deactivation, etherealisation and destruction: the steps after the last upcall.
//!
//! No thread waits to etherealise. An object goes into a queue after its last upcall, and a thread
//! that may enter the servant activator empties the queue. A thread that finds the activator
//! occupied leaves the queue to the thread inside, which checks it again after it has left the
//! activator.

use super::active_map::ActiveObject;
use super::admission::{DESTROYING, NOTIFY_IDLE};
use super::current::{self, ManagerCall};
use super::errors::{DEADLOCK, guarded};
use super::managers::ServantManager;
use super::poa::{Lifecycle, Pending, Poa};
use crate::Result;
use isorb_rt::time::Deadline;
use std::hint::cold_path;
use std::sync::Arc;

impl Poa {
    /// Destroys this POA and all below it. New requests fail at once (OBJECT_NOT_EXIST, or
    /// TRANSIENT with minor code OMG|4 while requests still run); running ones complete.
    /// `etherealize`: the servant activators then get all active objects. Afterwards the name is
    /// free again. `wait`: returns after all that; otherwise the thread of the last request
    /// completes it.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 for `wait` in an upcall of this ORB; nothing is
    /// destroyed then.
    pub fn destroy(&self, etherealize: bool, wait: bool) -> Result<()> {
        if wait && current::inside(self.orb_number()) {
            return Err(DEADLOCK);
        }
        self.begin_destruction(etherealize);
        if wait {
            self.wait_destroyed();
        }
        Ok(())
    }

    fn wait_destroyed(&self) {
        let shared = &self.0.shared;
        let mut admin = shared.admin.lock();
        shared.changed.wait_while(&mut admin, Deadline::NONE, |_| self.lock().life != Lifecycle::Destroyed);
    }

    /// Begins the destruction from here down, and completes it where nothing runs.
    fn begin_destruction(&self, etherealize: bool) {
        let children: Vec<Poa> = {
            let mut body = self.lock();
            if body.life != Lifecycle::Alive {
                return;
            }
            body.life = Lifecycle::Destroying { etherealize };
            self.0.admission.set(DESTROYING);
            body.children.values().cloned().collect()
        };
        self.0.shared.table.clear(self.0.slot);
        // Held requests check the state again.
        self.0.manager.wake();
        self.0.shared.wake();
        children.iter().for_each(|child| child.begin_destruction(etherealize));
        self.advance();
    }

    /// Etherealises all objects once the running requests have ended. For a manager that is
    /// deactivated.
    pub(super) fn etherealize_when_idle(&self) {
        let mut body = self.lock();
        if body.life == Lifecycle::Alive && matches!(body.servant_manager, Some(ServantManager::Activator(_)))
        {
            body.sweep = true;
        }
        self.0.admission.set(NOTIFY_IDLE);
    }

    /// Whether no request is running.
    pub(super) fn is_idle(&self) -> bool {
        self.0.admission.is_empty()
    }

    /// Whether no request is running and no object waits for etherealisation.
    pub(super) fn is_etherealized(&self) -> bool {
        let body = self.lock();
        self.is_idle() && !body.sweep && body.objects.leaving() == 0
    }

    /// Ends a request in the POA.
    #[inline]
    pub(super) fn end_request(&self) {
        if self.0.admission.end() {
            cold_path();
            self.advance();
        }
    }

    /// An upcall of an object has ended.
    #[inline]
    pub(super) fn leave_object(&self, active: &Arc<ActiveObject>) {
        if active.leave() {
            cold_path();
            self.finish(active.clone());
        }
    }

    /// After the last upcall of a deactivated object: queues it for etherealisation, or removes it.
    pub(super) fn finish(&self, active: Arc<ActiveObject>) {
        let removed = {
            let mut body = self.lock();
            if matches!(body.servant_manager, Some(ServantManager::Activator(_))) {
                body.pending.push_back(Pending { active, cleanup: false });
                None
            } else {
                body.objects.remove(&active)
            }
        };
        self.0.changed.notify_all(&self.0.body);
        drop(removed);
        self.etherealize_pending();
        self.advance();
    }

    /// Etherealises queued objects, unless another thread does.
    pub(super) fn etherealize_pending(&self) {
        while !self.lock().pending.is_empty() {
            let Some(_permit) = self.try_permit() else { return };
            let Ok(turn) = self.0.activator_lock.try_lock() else { return };
            while self.etherealize_one() {}
            drop(turn);
        }
    }

    fn etherealize_one(&self) -> bool {
        let (pending, activator, remaining) = {
            let mut body = self.lock();
            let Some(ServantManager::Activator(activator)) = body.servant_manager.clone() else {
                return false;
            };
            let Some(pending) = body.pending.pop_front() else { return false };
            let remaining = body.objects.activations(&pending.active.servant) > 0;
            (pending, activator, remaining)
        };
        let Pending { active, cleanup } = pending;
        let call = ManagerCall::new(self);
        // After a panic the object is removed all the same; there is no client to inform.
        let _: Result<()> = guarded("etherealize", || {
            activator.etherealize(&active.id, self, active.servant.clone(), cleanup, remaining);
            Ok(())
        });
        drop(call);
        let removed = self.lock().objects.remove(&active);
        self.0.changed.notify_all(&self.0.body);
        drop((removed, active));
        self.advance();
        true
    }

    /// Continues destruction and etherealisation as far as possible.
    pub(super) fn advance(&self) {
        loop {
            let (mut dropped, mut again) = (Vec::new(), false);
            {
                let mut body = self.lock();
                let quiet = self.is_idle();
                match body.life {
                    Lifecycle::Alive if quiet && body.sweep => {
                        body.sweep = false;
                        body.deactivate_all();
                        again = true;
                    }
                    Lifecycle::Destroying { etherealize } if quiet && body.children.is_empty() => {
                        body.life = Lifecycle::Etherealizing;
                        body.sweep = false;
                        if etherealize && matches!(body.servant_manager, Some(ServantManager::Activator(_))) {
                            body.deactivate_all();
                        } else {
                            dropped = body.remove_all();
                        }
                        again = true;
                    }
                    Lifecycle::Etherealizing if body.objects.is_empty() => {
                        body.life = Lifecycle::Destroyed;
                        drop(body);
                        self.unregister();
                        return;
                    }
                    _ => {}
                }
            }
            drop(dropped);
            if !again {
                break;
            }
            self.etherealize_pending();
        }
        if self.0.admission.has(NOTIFY_IDLE) {
            self.0.manager.wake();
        }
    }

    /// Removes the POA from all tables.
    fn unregister(&self) {
        if let Some(rt) = &self.0.rt {
            rt.release();
        }
        let shared = &self.0.shared;
        {
            let mut admin = shared.admin.lock();
            if self.0.policies.persistent() {
                shared.paths.lock().remove(&self.0.path);
            }
            if let Some(parent) = &self.0.parent {
                parent.lock().children.remove(&self.0.name);
            }
            admin.free.push(self.0.slot);
        }
        let (servant, manager, activator) = {
            let mut body = self.lock();
            (body.default_servant.take(), body.servant_manager.take(), body.adapter_activator.take())
        };
        drop((servant, manager, activator));
        self.0.manager.unregister(self);
        shared.wake();
        if let Some(parent) = &self.0.parent {
            parent.advance();
        }
    }
}

impl super::poa::Body {
    /// Queues all active objects for etherealisation. None of their upcalls runs.
    fn deactivate_all(&mut self) {
        for active in self.objects.active() {
            self.objects.deactivate(&active);
            self.pending.push_back(Pending { active, cleanup: true });
        }
    }

    /// Removes all active objects. None of their upcalls runs.
    fn remove_all(&mut self) -> Vec<Arc<ActiveObject>> {
        let all = self.objects.active();
        for active in &all {
            self.objects.deactivate(active);
            self.objects.remove(active);
        }
        all
    }
}
