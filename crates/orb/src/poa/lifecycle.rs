//! Deactivation, etherealisation and destruction: what happens when the last one has left.
//!
//! Nobody waits to etherealise. An object whose last upcall ended is put into a queue, and whoever may be in the servant
//! activator empties the queue; a thread that finds the activator taken leaves the work to the thread that has it, which looks
//! at the queue again after it let go.

use super::active_map::Active;
use super::current::{self, Marker};
use super::errors::{DEADLOCK, guarded};
use super::gate::{DEAD, WATCHED};
use super::managers::ServantManager;
use super::poa::{Life, Pending, Poa};
use crate::Result;
use isorb_rt::time::Deadline;
use std::hint::cold_path;
use std::sync::Arc;

impl Poa {
    /// Destroys this POA and all below it. New requests are turned away at once (OBJECT_NOT_EXIST, or TRANSIENT with minor
    /// code OMG|4 while requests still run), running ones end in peace. `etherealize`: then the servant activators get all active
    /// objects. The name is free again when all that is done. `wait`: returns after that; otherwise whoever is last does the rest.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when `wait` is asked for in an upcall of this ORB; nothing is destroyed then.
    pub fn destroy(&self, etherealize: bool, wait: bool) -> Result<()> {
        if wait && current::inside(self.orb_number()) {
            return Err(DEADLOCK);
        }
        self.condemn(etherealize);
        if wait {
            self.wait_gone();
        }
        Ok(())
    }

    fn wait_gone(&self) {
        let shared = &self.0.shared;
        let mut admin = shared.admin.lock();
        shared.changed.wait_while(&mut admin, Deadline::NONE, |_| self.lock().life != Life::Gone);
    }

    /// Starts the destruction, from here down; finishes it where nothing runs.
    fn condemn(&self, etherealize: bool) {
        let children: Vec<Poa> = {
            let mut body = self.lock();
            if body.life != Life::Alive {
                return;
            }
            body.life = Life::Dying { etherealize };
            self.0.gate.set(DEAD);
            body.children.values().cloned().collect()
        };
        self.0.shared.table.clear(self.0.slot);
        // Requests that are held look again.
        self.0.manager.wake();
        self.0.shared.wake();
        children.iter().for_each(|child| child.condemn(etherealize));
        self.settle();
    }

    /// When the requests inside have ended, etherealises all objects. For a manager that is deactivated.
    pub(super) fn sweep_when_idle(&self) {
        let mut body = self.lock();
        if body.life == Life::Alive && matches!(body.servant_manager, Some(ServantManager::Activator(_))) {
            body.sweep = true;
        }
        self.0.gate.set(WATCHED);
    }

    /// Whether no request is inside.
    pub(super) fn is_idle(&self) -> bool {
        self.0.gate.is_empty()
    }

    /// Whether no request is inside and nothing is left to etherealise.
    pub(super) fn is_swept(&self) -> bool {
        let body = self.lock();
        self.is_idle() && !body.sweep && body.objects.leaving() == 0
    }

    /// Leaves the gate.
    #[inline]
    pub(super) fn leave_gate(&self) {
        if self.0.gate.leave() {
            cold_path();
            self.settle();
        }
    }

    /// An upcall of an object has ended.
    #[inline]
    pub(super) fn leave_object(&self, active: &Arc<Active>) {
        if active.leave() {
            cold_path();
            self.finish(active.clone());
        }
    }

    /// No upcall runs in a deactivated object any more: etherealises it, or forgets it.
    pub(super) fn finish(&self, active: Arc<Active>) {
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
        self.drain();
        self.settle();
    }

    /// Etherealises what waits for it, unless another thread does.
    pub(super) fn drain(&self) {
        while !self.lock().pending.is_empty() {
            let Some(_permit) = self.try_permit() else { return };
            let Ok(turn) = self.0.activator_turn.try_lock() else { return };
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
        let marker = Marker::new(self);
        // What panics has had its object back all the same; there is no client to tell.
        let _: Result<()> = guarded("etherealize", || {
            activator.etherealize(&active.id, self, active.servant.clone(), cleanup, remaining);
            Ok(())
        });
        drop(marker);
        let removed = self.lock().objects.remove(&active);
        self.0.changed.notify_all(&self.0.body);
        drop((removed, active));
        self.settle();
        true
    }

    /// Goes on with destruction and sweeping as far as it can be gone.
    pub(super) fn settle(&self) {
        loop {
            let (mut dropped, mut again) = (Vec::new(), false);
            {
                let mut body = self.lock();
                let quiet = self.is_idle();
                match body.life {
                    Life::Alive if quiet && body.sweep => {
                        body.sweep = false;
                        body.retire_all();
                        again = true;
                    }
                    Life::Dying { etherealize } if quiet && body.children.is_empty() => {
                        body.life = Life::Emptying;
                        body.sweep = false;
                        if etherealize && matches!(body.servant_manager, Some(ServantManager::Activator(_))) {
                            body.retire_all();
                        } else {
                            dropped = body.drop_all();
                        }
                        again = true;
                    }
                    Life::Emptying if body.objects.is_empty() => {
                        body.life = Life::Gone;
                        drop(body);
                        self.forget();
                        return;
                    }
                    _ => {}
                }
            }
            drop(dropped);
            if !again {
                break;
            }
            self.drain();
        }
        if self.0.gate.has(WATCHED) {
            self.0.manager.wake();
        }
    }

    /// Takes the POA out of everything that knows it.
    fn forget(&self) {
        if let Some(rt) = &self.0.rt {
            rt.discharge();
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
            parent.settle();
        }
    }
}

impl super::poa::Body {
    /// Queues all active objects for etherealisation. No upcall runs in any of them.
    fn retire_all(&mut self) {
        for active in self.objects.active() {
            self.objects.deactivate(&active);
            self.pending.push_back(Pending { active, cleanup: true });
        }
    }

    /// Forgets all active objects. No upcall runs in any of them.
    fn drop_all(&mut self) -> Vec<Arc<Active>> {
        let all = self.objects.active();
        for active in &all {
            self.objects.deactivate(active);
            self.objects.remove(active);
        }
        all
    }
}
