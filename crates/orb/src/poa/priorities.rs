//! Objects with priorities of their own (RT-CORBA 1.2, real-time POA), in POAs with the
//! server-declared priority model.

use super::poa::Poa;
use super::{ActivateError, ActivateWithIdError, ObjectId, PolicyError};
use crate::servant::IntoServant;
use crate::{Object, Orb, Reference, Result, Servant};
use isorb_giop::message::ServiceContexts;
use isorb_rt::priority::Priority;

impl Poa {
    /// The priority of a request for an object; `None` without real-time policies, and if the
    /// request will be rejected.
    pub(super) fn request_priority(
        &self,
        orb: &Orb,
        id: &[u8],
        contexts: &ServiceContexts<'_>,
    ) -> Option<Priority> {
        let rt = self.0.rt.as_deref()?;
        let own = self.lock().objects.find(id).and_then(|active| active.priority);
        rt.request_priority(orb, contexts, own, id).ok()?.priority()
    }

    /// As [`create_reference`](Self::create_reference), for an object with requests at `priority`.
    ///
    /// # Errors
    /// WrongPolicy without SYSTEM_ID, with IMPLICIT_ACTIVATION, or if the priority model is not
    /// server-declared; BAD_PARAM for a negative priority, and for one that no lane of the POA's
    /// pool and none of its bands has; IMP_LIMIT.
    pub fn create_reference_with_priority(
        &self,
        interface_id: &str,
        priority: i16,
    ) -> Result<Object, PolicyError> {
        let priority = self.own_priority(priority)?.ok_or(PolicyError::WrongPolicy)?;
        if !self.0.policies.system_ids() {
            return Err(PolicyError::WrongPolicy);
        }
        let id = self.alive()?.objects.new_id()?;
        self.assign_priority(&id, priority)?;
        Ok(self.make_reference(interface_id, &id)?)
    }

    /// As [`create_reference_with_id`](Self::create_reference_with_id), for an object with requests
    /// at `priority`.
    ///
    /// # Errors
    /// WrongPolicy with IMPLICIT_ACTIVATION or if the priority model is not server-declared;
    /// BAD_PARAM as [`create_reference_with_priority`](Self::create_reference_with_priority), and
    /// with minor code OMG|14 with SYSTEM_ID for an id that the POA did not make; BAD_INV_ORDER
    /// with minor code OMG|18 when the object has another priority.
    pub fn create_reference_with_id_and_priority(
        &self,
        id: impl AsRef<[u8]>,
        interface_id: &str,
        priority: i16,
    ) -> Result<Object, PolicyError> {
        let priority = self.own_priority(priority)?.ok_or(PolicyError::WrongPolicy)?;
        let id = ObjectId::from(id.as_ref());
        {
            let body = self.alive()?;
            super::activation::check_id(&body, self.0.policies.system_ids(), &id)?;
            if let Some(other) = body.objects.find(&id).map(|active| active.priority) {
                let other = other.unwrap_or_else(|| self.model_priority(priority));
                if other != priority {
                    return Err(reassigned(other).into());
                }
            }
        }
        self.assign_priority(&id, priority)?;
        Ok(self.make_reference(interface_id, &id)?)
    }

    /// As [`activate_object`](Self::activate_object), for an object with requests at `priority`.
    ///
    /// # Errors
    /// As [`activate_object`](Self::activate_object); WrongPolicy and BAD_PARAM as
    /// [`create_reference_with_priority`](Self::create_reference_with_priority).
    pub fn activate_object_with_priority(
        &self,
        servant: Servant,
        priority: i16,
    ) -> Result<ObjectId, ActivateError> {
        let priority = self.own_priority(priority)?.ok_or(ActivateError::WrongPolicy)?;
        self.activate_new(servant, Some(priority))
    }

    /// As [`activate_object_with_id`](Self::activate_object_with_id), for an object with requests
    /// at `priority`.
    ///
    /// # Errors
    /// As [`activate_object_with_id`](Self::activate_object_with_id); WrongPolicy and BAD_PARAM as
    /// [`create_reference_with_priority`](Self::create_reference_with_priority); BAD_INV_ORDER with
    /// minor code OMG|18 when a reference was made with this id and another priority.
    pub fn activate_object_with_id_and_priority(
        &self,
        id: impl AsRef<[u8]>,
        servant: Servant,
        priority: i16,
    ) -> Result<(), ActivateWithIdError> {
        let priority = self.own_priority(priority)?.ok_or(ActivateWithIdError::WrongPolicy)?;
        if let Some(rt) = &self.0.rt {
            rt.check_assigned(id.as_ref(), priority)?;
        }
        self.activate_as(id.as_ref(), servant, Some(priority))
    }

    /// As [`activate`](Self::activate), for an object with requests at `priority`.
    ///
    /// # Errors
    /// As [`activate_object_with_priority`](Self::activate_object_with_priority).
    pub fn activate_with_priority<R: Reference>(
        &self,
        servant: impl IntoServant<R>,
        priority: i16,
    ) -> Result<R, ActivateError> {
        let id = self.activate_object_with_priority(servant.into_servant(), priority)?;
        Ok(R::from_object(self.make_reference(R::INTERFACE.id, &id)?))
    }

    /// A number as a priority; `None` if the POA's policies have no priorities of objects.
    fn own_priority(&self, priority: i16) -> Result<Option<Priority>> {
        drop(self.alive()?);
        if self.0.policies.implicit() {
            return Ok(None);
        }
        self.0.rt.as_ref().and_then(|rt| rt.own_priority(priority)).transpose()
    }

    /// The priority of a reference with this id that was made before its object.
    pub(super) fn assigned_priority(&self, id: &[u8]) -> Option<Priority> {
        self.0.rt.as_ref()?.assigned(id)
    }

    fn assign_priority(&self, id: &ObjectId, priority: Priority) -> Result<()> {
        self.0.rt.as_ref().map_or(Ok(()), |rt| rt.assign(id, priority))
    }

    /// The priority of objects without one of their own.
    fn model_priority(&self, otherwise: Priority) -> Priority {
        self.0.rt.as_ref().and_then(|rt| rt.model()).map_or(otherwise, |(_, priority)| priority)
    }
}

#[cold]
fn reassigned(priority: Priority) -> isorb_giop::SystemException {
    super::errors::no(isorb_giop::Kind::BadInvOrder, isorb_giop::minor::BAD_INV_ORDER_PRIORITY)
        .detail(format!("the object has priority {priority} already"))
}
