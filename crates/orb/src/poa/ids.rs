//! From servant to id to reference and back (clause 15.3.9).

use super::activation::{check_id, find_active};
use super::current;
use super::key::Key;
use super::poa::Poa;
use super::{ObjectId, ObjectIdError, PolicyError, ServantError, ToIdError, ToServantError};
use crate::{Object, Result, Servant};

impl Poa {
    /// A reference with a new id to an object that is not active. It is activated later, or served
    /// by a servant manager or the default servant.
    ///
    /// # Errors
    /// WrongPolicy without SYSTEM_ID; IMP_LIMIT.
    ///
    /// # Real-time
    /// Allocates, like all methods here that make a reference.
    pub fn create_reference(&self, interface_id: &str) -> Result<Object, PolicyError> {
        if !self.0.policies.system_ids() {
            return Err(PolicyError::WrongPolicy);
        }
        let id = self.alive()?.objects.new_id()?;
        Ok(self.make_reference(interface_id, &id)?)
    }

    /// A reference with this id, for an active or inactive object.
    ///
    /// # Errors
    /// BAD_PARAM with minor code OMG|14 with SYSTEM_ID, when the POA did not make the id.
    pub fn create_reference_with_id(&self, id: impl AsRef<[u8]>, interface_id: &str) -> Result<Object> {
        let id = ObjectId::from(id.as_ref());
        check_id(&*self.alive()?, self.0.policies.system_ids(), &id)?;
        self.make_reference(interface_id, &id)
    }

    /// The id of an active servant; activates the servant if the policies allow it. In an upcall of
    /// the default servant: the id of the upcall.
    ///
    /// # Errors
    /// WrongPolicy without USE_DEFAULT_SERVANT and without RETAIN and one of UNIQUE_ID and
    /// IMPLICIT_ACTIVATION; ServantNotActive.
    pub fn servant_to_id(&self, servant: &Servant) -> Result<ObjectId, ServantError> {
        let policies = &self.0.policies;
        if !policies.default_servant() && !self.knows_servants() {
            return Err(ServantError::WrongPolicy);
        }
        if let Some(id) = self.known_or_new_id(servant)? {
            return Ok(id);
        }
        let is_default =
            policies.default_servant() && self.alive()?.default_servant.as_ref() == Some(servant);
        if is_default && let Some(id) = current::id_of(&self.0, servant) {
            return Ok(id);
        }
        Err(ServantError::ServantNotActive)
    }

    /// A reference to the object of a servant; activates the servant if the policies allow it. In
    /// an upcall of this servant: the reference of the upcall.
    ///
    /// # Errors
    /// WrongPolicy outside of such an upcall, without RETAIN and one of UNIQUE_ID and
    /// IMPLICIT_ACTIVATION; ServantNotActive.
    pub fn servant_to_reference(&self, servant: &Servant) -> Result<Object, ServantError> {
        let current = current::id_of(&self.0, servant);
        if !self.knows_servants() && current.is_none() {
            return Err(ServantError::WrongPolicy);
        }
        let id = match (self.known_or_new_id(servant)?, current) {
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => return Err(ServantError::ServantNotActive),
        };
        Ok(self.make_reference(servant.interface().id, &id)?)
    }

    /// The servant of a reference of this POA: the active one, else the default servant.
    ///
    /// # Errors
    /// WrongPolicy without RETAIN and without USE_DEFAULT_SERVANT; WrongAdapter; ObjectNotActive.
    pub fn reference_to_servant(&self, reference: &Object) -> Result<Servant, ToServantError> {
        if !self.0.policies.retain() && !self.0.policies.default_servant() {
            return Err(ToServantError::WrongPolicy);
        }
        let id = self.reference_to_id(reference).map_err(|error| match error {
            ToIdError::System(exception) => ToServantError::System(exception),
            ToIdError::WrongAdapter => ToServantError::WrongAdapter,
        })?;
        self.servant_of(&id)?.ok_or(ToServantError::ObjectNotActive)
    }

    /// The id in a reference of this POA; the object need not be active.
    ///
    /// # Errors
    /// WrongAdapter.
    pub fn reference_to_id(&self, reference: &Object) -> Result<ObjectId, ToIdError> {
        drop(self.alive()?);
        let orb = self.orb()?;
        let key = reference.local_key(&orb);
        match key.as_deref().and_then(Key::parse) {
            Some(Key::Transient { epoch, slot, generation, id })
                if !self.0.policies.persistent()
                    && (epoch, slot, generation) == (self.0.shared.epoch, self.0.slot, self.0.generation) =>
            {
                Ok(id.into())
            }
            // `local_key` has checked the server of an indirect one.
            Some(Key::Persistent { path, id } | Key::Indirect { path, id, .. })
                if self.0.policies.persistent() && *path == *self.0.path =>
            {
                Ok(id.into())
            }
            _ => Err(ToIdError::WrongAdapter),
        }
    }

    /// The servant of an id: the active one, else the default servant.
    ///
    /// # Errors
    /// WrongPolicy without RETAIN and without USE_DEFAULT_SERVANT; ObjectNotActive.
    pub fn id_to_servant(&self, id: impl AsRef<[u8]>) -> Result<Servant, ObjectIdError> {
        if !self.0.policies.retain() && !self.0.policies.default_servant() {
            return Err(ObjectIdError::WrongPolicy);
        }
        self.servant_of(id.as_ref())?.ok_or(ObjectIdError::ObjectNotActive)
    }

    /// A reference to the active object of an id.
    ///
    /// # Errors
    /// WrongPolicy without RETAIN; ObjectNotActive.
    pub fn id_to_reference(&self, id: impl AsRef<[u8]>) -> Result<Object, ObjectIdError> {
        if !self.0.policies.retain() {
            return Err(ObjectIdError::WrongPolicy);
        }
        // A binding of its own, so that the lock is not held while the reference is made.
        let active = find_active(&*self.alive()?, id.as_ref());
        let active = active.ok_or(ObjectIdError::ObjectNotActive)?;
        Ok(self.make_reference(active.servant.interface().id, &active.id)?)
    }

    /// A new id, for an object of a group.
    #[cfg(feature = "miop")]
    pub(crate) fn new_group_id(&self) -> Result<ObjectId, super::GroupError> {
        if !self.0.policies.system_ids() {
            return Err(super::GroupError::WrongPolicy);
        }
        Ok(self.alive()?.objects.new_id()?)
    }

    #[cfg(feature = "miop")]
    pub(crate) fn check_group_id(&self, id: &[u8]) -> Result<()> {
        check_id(&*self.alive()?, self.0.policies.system_ids(), id)
    }

    #[cfg(feature = "miop")]
    pub(crate) fn group_key(&self, id: &[u8]) -> Vec<u8> {
        self.key(id)
    }

    /// The class of the highest-priority lane that serves its objects.
    #[cfg(feature = "miop")]
    pub(crate) fn most_urgent_lane(&self) -> Option<isorb_rt::sched::SchedClass> {
        let pool = self.0.rt.as_deref()?.pool()?;
        pool.lanes.last().map(|lane| lane.class)
    }

    #[cfg(feature = "miop")]
    pub(crate) fn group_orb(&self) -> Result<crate::Orb> {
        self.orb()
    }

    /// Whether the policies allow to find a servant's object.
    fn knows_servants(&self) -> bool {
        let policies = &self.0.policies;
        policies.retain() && (policies.unique() || policies.implicit())
    }

    /// The id of a servant, or a new one with implicit activation.
    fn known_or_new_id(&self, servant: &Servant) -> Result<Option<ObjectId>> {
        let policies = &self.0.policies;
        if !policies.retain() {
            return Ok(None);
        }
        let mut body = self.alive()?;
        if policies.unique()
            && let Some(active) = body.objects.of_servant(servant)
        {
            return Ok(Some(active.id.clone()));
        }
        if !policies.implicit() {
            return Ok(None);
        }
        Ok(Some(body.objects.insert_new(self, servant.clone(), None)?.id.clone()))
    }

    fn servant_of(&self, id: &[u8]) -> Result<Option<Servant>> {
        let body = self.alive()?;
        let active = find_active(&body, id).map(|active| active.servant.clone());
        Ok(active.or_else(|| body.default_servant.clone()))
    }
}
