//! Activation and deactivation of objects (clause 15.3.9).

use super::active_map::ActiveObject;
use super::errors::no;
use super::poa::{Body, Poa};
use super::{
    ActivateError, ActivateWithIdError, DefaultServantError, ObjectId, ObjectIdError, PolicyError,
    ServantManager,
};
use crate::servant::IntoServant;
use crate::{Reference, Result, Servant};
use isorb_giop::{Kind, SystemException, minor};
use isorb_rt::priority::Priority;
use std::sync::Arc;

impl Poa {
    /// Activates a servant under a new id and returns the typed reference of the object: the usual
    /// way. Activate the most derived interface and widen the reference; an object activated as a
    /// base has only the base's operations.
    ///
    /// # Errors
    /// As [`activate_object`](Self::activate_object).
    ///
    /// # Real-time
    /// Allocates.
    pub fn activate<R: Reference>(&self, servant: impl IntoServant<R>) -> Result<R, ActivateError> {
        let servant = servant.into_servant();
        let id = self.activate_object(servant)?;
        Ok(R::from_object(self.make_reference(R::INTERFACE.id, &id)?))
    }

    /// As [`activate`](Self::activate) under a given id: for persistent objects, and for objects
    /// that must be found again by name.
    ///
    /// # Errors
    /// As [`activate_object_with_id`](Self::activate_object_with_id).
    ///
    /// # Real-time
    /// Allocates.
    pub fn activate_with_id<R: Reference>(
        &self,
        id: impl AsRef<[u8]>,
        servant: impl IntoServant<R>,
    ) -> Result<R, ActivateWithIdError> {
        let id = ObjectId::from(id.as_ref());
        self.activate_object_with_id(&id, servant.into_servant())?;
        Ok(R::from_object(self.make_reference(R::INTERFACE.id, &id)?))
    }

    /// Activates a servant under a new id.
    ///
    /// # Errors
    /// WrongPolicy without RETAIN and SYSTEM_ID; ServantAlreadyActive with UNIQUE_ID; IMP_LIMIT
    /// when the POA has as many active objects as
    /// [`PoaPolicies::max_objects`](super::PoaPolicies::max_objects) allows.
    pub fn activate_object(&self, servant: Servant) -> Result<ObjectId, ActivateError> {
        self.activate_new(servant, None)
    }

    pub(super) fn activate_new(
        &self,
        servant: Servant,
        priority: Option<Priority>,
    ) -> Result<ObjectId, ActivateError> {
        let policies = &self.0.policies;
        if !policies.retain() || !policies.system_ids() {
            return Err(ActivateError::WrongPolicy);
        }
        let mut body = self.alive()?;
        if policies.unique() && body.objects.activations(&servant) > 0 {
            return Err(ActivateError::ServantAlreadyActive);
        }
        // A clone, so that no destructor runs with the lock held if there is no room.
        Ok(body.objects.insert_new(self, servant.clone(), priority)?.id.clone())
    }

    /// Activates a servant under an id. If the object was deactivated and upcalls still run, waits
    /// until they have ended.
    ///
    /// # Errors
    /// WrongPolicy without RETAIN; ObjectAlreadyActive; ServantAlreadyActive with UNIQUE_ID;
    /// BAD_PARAM with minor code OMG|14 with SYSTEM_ID, when the POA did not make the id;
    /// BAD_INV_ORDER with OMG|3 in an upcall of the object to be replaced.
    pub fn activate_object_with_id(
        &self,
        id: impl AsRef<[u8]>,
        servant: Servant,
    ) -> Result<(), ActivateWithIdError> {
        let id = id.as_ref();
        self.activate_as(id, servant, self.assigned_priority(id))
    }

    pub(super) fn activate_as(
        &self,
        id: &[u8],
        servant: Servant,
        priority: Option<Priority>,
    ) -> Result<(), ActivateWithIdError> {
        let policies = &self.0.policies;
        if !policies.retain() {
            return Err(ActivateWithIdError::WrongPolicy);
        }
        loop {
            let mut body = self.alive()?;
            check_id(&body, policies.system_ids(), id)?;
            match body.objects.find(id) {
                Some(active) if active.is_deactivated() => {
                    drop(body);
                    self.await_removal(id)?;
                    continue;
                }
                Some(_) => return Err(ActivateWithIdError::ObjectAlreadyActive),
                None => {}
            }
            if policies.unique() && body.objects.activations(&servant) > 0 {
                return Err(ActivateWithIdError::ServantAlreadyActive);
            }
            body.objects.insert(self, id, servant.clone(), priority)?;
            return Ok(());
        }
    }

    /// Deactivates an object: new requests do not find it any more, running upcalls complete, then
    /// it is etherealised if the POA has a servant activator. Does not wait for any of that.
    ///
    /// # Errors
    /// WrongPolicy without RETAIN; ObjectNotActive.
    pub fn deactivate_object(&self, id: impl AsRef<[u8]>) -> Result<(), ObjectIdError> {
        if !self.0.policies.retain() {
            return Err(ObjectIdError::WrongPolicy);
        }
        let (active, idle) = {
            let mut body = self.alive()?;
            let active = find_active(&body, id.as_ref()).ok_or(ObjectIdError::ObjectNotActive)?;
            let idle = body.objects.deactivate(&active);
            (active, idle)
        };
        if idle {
            self.finish(active);
        }
        Ok(())
    }

    /// The default servant.
    ///
    /// # Errors
    /// WrongPolicy without USE_DEFAULT_SERVANT; NoServant.
    pub fn servant(&self) -> Result<Servant, DefaultServantError> {
        if !self.0.policies.default_servant() {
            return Err(DefaultServantError::WrongPolicy);
        }
        self.alive()?.default_servant.clone().ok_or(DefaultServantError::NoServant)
    }

    /// Sets the default servant, which serves all objects that are not active.
    ///
    /// # Errors
    /// WrongPolicy without USE_DEFAULT_SERVANT.
    pub fn set_servant(&self, servant: Servant) -> Result<(), PolicyError> {
        if !self.0.policies.default_servant() {
            return Err(PolicyError::WrongPolicy);
        }
        let before = self.alive()?.default_servant.replace(servant);
        drop(before);
        Ok(())
    }

    /// The servant manager, if one is set.
    ///
    /// # Errors
    /// WrongPolicy without USE_SERVANT_MANAGER.
    pub fn servant_manager(&self) -> Result<Option<ServantManager>, PolicyError> {
        if !self.0.policies.servant_manager() {
            return Err(PolicyError::WrongPolicy);
        }
        Ok(self.alive()?.servant_manager.clone())
    }

    /// Sets the servant manager, which cannot be replaced.
    ///
    /// # Errors
    /// WrongPolicy without USE_SERVANT_MANAGER; BAD_INV_ORDER with minor code OMG|6 the second
    /// time; OBJ_ADAPTER with OMG|4 for a locator with RETAIN or an activator without.
    pub fn set_servant_manager(&self, manager: ServantManager) -> Result<(), PolicyError> {
        if !self.0.policies.servant_manager() {
            return Err(PolicyError::WrongPolicy);
        }
        if matches!(manager, ServantManager::Activator(_)) != self.0.policies.retain() {
            return Err(no(Kind::ObjAdapter, minor::OBJ_ADAPTER_NO_SERVANT_MANAGER).into());
        }
        let mut body = self.alive()?;
        if body.servant_manager.is_some() {
            return Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SERVANT_MANAGER).into());
        }
        body.servant_manager = Some(manager);
        Ok(())
    }
}

/// An active object, not a deactivated one.
pub(super) fn find_active(body: &Body, id: &[u8]) -> Option<Arc<ActiveObject>> {
    body.objects.find(id).filter(|active| !active.is_deactivated()).cloned()
}

/// Whether an id is possible here: with SYSTEM_ID the POA must have made it.
///
/// # Errors
/// BAD_PARAM with minor code OMG|14.
pub(super) fn check_id(body: &Body, system_ids: bool, id: &[u8]) -> Result<(), SystemException> {
    if system_ids && !body.objects.is_plausible(id) {
        return Err(no(Kind::BadParam, minor::BAD_PARAM_OBJECT_ID).detail(
            "the POA has SYSTEM_ID and did not make this object id; use USER_ID for ids of your own",
        ));
    }
    Ok(())
}
