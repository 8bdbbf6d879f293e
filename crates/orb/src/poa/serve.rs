//! From an object id to the servant, by the POA's policies (clause 15.2.6, figures 15.2 and 15.3).

use super::active_map::ActiveObject;
use super::admission::DESTROYING;
use super::current::{self, ManagerCall};
use super::errors::{DEADLOCK, DESTROYED, DISCARDED, NO_OBJECT, guarded, no};
use super::managers::{Refusal, ServantActivator, ServantManager};
use super::poa::{Body, Poa};
use super::policies::RequestProcessing;
use super::threads::holds;
use super::upcall_target::{ActiveObjectRef, PoaGuard, UpcallTarget};
use super::wait_deadline;
use super::{ObjectId, PoaManager};
use crate::{Result, SystemException};
use isorb_giop::message::OperationName;
use isorb_giop::{Kind, minor};
use isorb_rt::time::Deadline;
use std::sync::Arc;

impl PoaGuard {
    /// Finds the servant for a request if it is in the active object map.
    #[inline(always)]
    pub fn find_active(self, id: &[u8]) -> Option<ActiveObjectRef> {
        let active = enter_active(&self.poa.lock(), id)?;
        Some(ActiveObjectRef { visit: self, active })
    }

    /// Finds the servant for a request.
    ///
    /// # Errors
    /// OBJECT_NOT_EXIST; OBJ_ADAPTER with minor code OMG|3, 4 or 5 for errors of the application;
    /// the exception of a servant manager.
    #[inline]
    pub fn serve<'k>(self, id: &'k [u8], operation: OperationName<'k>) -> Result<UpcallTarget<'k>, Refusal> {
        let policies = &self.poa.0.policies;
        if policies.retain() {
            let mut active = enter_active(&self.poa.lock(), id);
            if active.is_none() && policies.servant_manager() {
                let _call = ManagerCall::new(&self.poa);
                active = Some(self.poa.incarnate(id)?);
            }
            // In one function, so that it is inlined and constructed in its final position.
            if let Some(active) = active {
                return Ok(UpcallTarget::active(self, active, operation));
            }
        }
        match policies.request_processing_value() {
            RequestProcessing::ActiveObjectMapOnly => Err(NO_OBJECT.into()),
            RequestProcessing::DefaultServant => {
                let servant = self.poa.lock().default_servant.clone();
                let servant = servant.ok_or(no(Kind::ObjAdapter, minor::OBJ_ADAPTER_NO_DEFAULT_SERVANT))?;
                Ok(UpcallTarget::servant_of(self, servant, None, id, operation))
            }
            RequestProcessing::ServantManager => {
                let manager = self.poa.lock().servant_manager.clone();
                let Some(ServantManager::Locator(locator)) = manager else {
                    return Err(no(Kind::ObjAdapter, minor::OBJ_ADAPTER_NO_SERVANT_MANAGER).into());
                };
                let name = operation.text().map_err(SystemException::from)?;
                let (servant, cookie) = {
                    let _call = ManagerCall::new(&self.poa);
                    let _permit = self.poa.permit(wait_deadline::current())?;
                    guarded("preinvoke", || locator.preinvoke(id, &self.poa, name))?
                };
                Ok(UpcallTarget::servant_of(self, servant, Some((locator, cookie)), id, operation))
            }
        }
    }
}

/// Counts an upcall of an active object.
#[inline(always)]
fn enter_active(body: &Body, id: &[u8]) -> Option<Arc<ActiveObject>> {
    let active = body.objects.find(id).filter(|active| !active.is_deactivated())?;
    active.enter();
    Some(active.clone())
}

impl Poa {
    /// Calls the servant activator for an inactive object, and counts an upcall of it. Waits while
    /// the object is being etherealised.
    ///
    /// # Errors
    /// OBJ_ADAPTER with minor code OMG|4 without an activator, OMG|5 if it returned the servant of
    /// another object; BAD_INV_ORDER with OMG|3 when this thread is in the activator or in the
    /// object to be replaced; the exception of the activator.
    #[cold]
    fn incarnate(&self, id: &[u8]) -> Result<Arc<ActiveObject>, Refusal> {
        loop {
            {
                let _permit = self.permit(wait_deadline::current())?;
                let _turn = self.activator_lock(wait_deadline::current())?;
                let activator = {
                    let body = self.lock();
                    match body.objects.find(id) {
                        Some(active) if active.is_deactivated() => None,
                        Some(active) => {
                            active.enter();
                            return Ok(active.clone());
                        }
                        None => match &body.servant_manager {
                            Some(ServantManager::Activator(activator)) => Some(activator.clone()),
                            _ => {
                                return Err(
                                    no(Kind::ObjAdapter, minor::OBJ_ADAPTER_NO_SERVANT_MANAGER).into()
                                );
                            }
                        },
                    }
                };
                if let Some(activator) = activator {
                    return self.incarnate_now(id, &*activator);
                }
            }
            self.await_removal(id)?;
        }
    }

    /// With the activator's lock.
    fn incarnate_now(
        &self,
        id: &[u8],
        activator: &dyn ServantActivator,
    ) -> Result<Arc<ActiveObject>, Refusal> {
        let servant = guarded("incarnate", || activator.incarnate(&ObjectId::from(id), self))?;
        let wrong = no(Kind::ObjAdapter, minor::OBJ_ADAPTER_INCARNATE);
        let mut body = self.lock();
        if let Some(active) = body.objects.find(id) {
            // The activator activated the object itself, which is valid for the same servant.
            return if active.servant == servant && !active.is_deactivated() {
                active.enter();
                Ok(active.clone())
            } else {
                Err(wrong.into())
            };
        }
        if self.0.policies.unique() && body.objects.activations(&servant) > 0 {
            drop(body);
            return Err(wrong.into());
        }
        // A clone, so that no destructor runs with the lock held if there is no room.
        let active = body.objects.insert(self, id, servant.clone(), self.assigned_priority(id))?;
        active.enter();
        Ok(active)
    }

    /// Waits until a deactivated object has left the map.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when it would wait for this thread's own upcall or
    /// etherealisation; TRANSIENT when too many threads wait.
    #[cold]
    pub(super) fn await_removal(&self, id: &[u8]) -> Result<()> {
        if current::serves(self, id) || holds(&self.0.activator_lock) {
            return Err(DEADLOCK);
        }
        loop {
            // Other threads leave the queue to this thread, if it is in a single-thread POA.
            self.etherealize_pending();
            let mut body = self.lock();
            if !body.objects.find(id).is_some_and(|active| active.is_deactivated()) {
                return Ok(());
            }
            if !body.pending.is_empty() && holds(&self.0.single) {
                continue;
            }
            if body.waiting >= PoaManager::DEFAULT_MAX_HELD {
                return Err(DISCARDED);
            }
            body.waiting += 1;
            self.0.changed.wait_until(&mut body, Deadline::NONE);
            body.waiting -= 1;
        }
    }

    /// Whether an object exists, as far as that is known without calling the application.
    ///
    /// # Errors
    /// OBJECT_NOT_EXIST.
    pub(super) fn locate(&self, id: &[u8]) -> Result<(), Refusal> {
        let policies = &self.0.policies;
        let known = self.lock().objects.find(id).is_some_and(|active| !active.is_deactivated());
        match policies.request_processing_value() {
            _ if self.admission().has(DESTROYING) => Err(DESTROYED.into()),
            RequestProcessing::ActiveObjectMapOnly if !known => Err(NO_OBJECT.into()),
            _ => Ok(()),
        }
    }
}
