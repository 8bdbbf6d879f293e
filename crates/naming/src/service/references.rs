//! References in the form that the store keeps.

use super::{ids, problem};
use crate::binding::{ContextId, Target};
use crate::cos_naming::NamingContextExtRef;
use crate::limits::Limits;
use crate::store::Store;
use isorb::{Kind, Object, Orb, Poa, Reference, Result, SystemException};
use isorb_giop::Ior;

/// The reference to a context of this service.
///
/// # Errors
/// OBJECT_NOT_EXIST when the POA is destroyed.
pub fn of_context(poa: &Poa, store: &dyn Store, context: ContextId) -> Result<Object> {
    poa.create_reference_with_id(ids::of_context(store.stamp(), context), NamingContextExtRef::INTERFACE.id)
}

/// The stored form of an object: the number of a context of this service, the reference of any
/// other object.
///
/// # Errors
/// IMP_LIMIT for a reference that is too large, MARSHAL for one that cannot be written.
pub fn to_target(poa: &Poa, store: &dyn Store, limits: &Limits, object: Option<&Object>) -> Result<Target> {
    let id = object.and_then(|object| poa.reference_to_id(object).ok());
    if let Some(context) = id.and_then(|id| ids::context(store.stamp(), &id)) {
        return Ok(Target::Local(context));
    }
    let octets = object.map_or(&Ior::NIL, Object::ior).to_encapsulation()?;
    if octets.len() > limits.reference {
        return Err(SystemException::from(Kind::ImpLimit).detail(format!(
            "the reference has {} octets; the naming service keeps at most {}",
            octets.len(),
            limits.reference
        )));
    }
    Ok(Target::Reference(octets.into()))
}

/// The object of a stored target; `None` for nil.
///
/// # Errors
/// PERSIST_STORE for octets that are not a reference, OBJECT_NOT_EXIST if the POA is destroyed.
pub fn of_target(poa: &Poa, orb: &Orb, store: &dyn Store, target: &Target) -> Result<Option<Object>> {
    match target {
        Target::Local(context) => of_context(poa, store, *context).map(Some),
        Target::Reference(octets) => of_octets(orb, octets),
    }
}

/// The object of a stored reference.
///
/// # Errors
/// PERSIST_STORE for octets that are not a reference.
pub fn of_octets(orb: &Orb, octets: &[u8]) -> Result<Option<Object>> {
    let corrupt = || problem::system(crate::store::Refusal::Failed(crate::store::Fault::Corrupt));
    let ior = Ior::from_encapsulation(octets).map_err(|_| corrupt())?;
    if ior.is_nil() {
        return Ok(None);
    }
    orb.string_to_object(&ior.to_string()).map(Some)
}
