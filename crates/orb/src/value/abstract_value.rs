//! Values behind abstract interfaces, and the objects that serve their operations.

use super::{AbstractBase, Value, ValueBase};
use crate::interceptor::OrbInitInfo;
use crate::object::HeldValue;
use crate::poa::{CreateError, ObjectId, Poa, PoaPolicies};
use crate::{Orb, Result, Servant, Serves, SystemException};
use isorb_giop::{Ior, Kind};
use isorb_rt::sync::PiOnceLock;
use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

/// The POA of the objects, a child of the root POA with a manager of its own.
const POA: &str = "isorb values";

/// Makes a servant of a value, if it has the type.
type MakeServant = fn(&ValueBase) -> Option<Servant>;

impl AbstractBase {
    /// Lets calls through abstract references reach the values of type `V` that they hold: `V`
    /// implements the trait of the interface that it supports, and `R` is the reference to it.
    /// Where several are registered for a type, the last one counts; a value of a derived type is
    /// served as its base.
    ///
    /// ```
    /// # use isorb::{AbstractBase, Orb, Serves, Value};
    /// # fn register<PriceRef: Serves<Item>, Item: Value + std::any::Any>() -> isorb::Result<Orb> {
    /// let orb = Orb::builder().register(|info| {
    ///     AbstractBase::serve::<PriceRef, Item>(info);
    ///     Ok(())
    /// });
    /// # orb.build()
    /// # }
    /// ```
    ///
    /// # Real-time
    /// The first call through a reference activates an object in a POA of the ORB, which allocates,
    /// and opens the endpoints of an ORB that has none yet; further ones are calls inside the
    /// process. The object ends with the last copy of the reference.
    pub fn serve<R: Serves<V>, V: Value + Any>(info: &mut OrbInitInfo) {
        let make: MakeServant = |value| Some(Servant::new::<R, V>(Arc::new(value.cast::<V>()?)));
        info.add_value_servants(Box::new(make));
    }
}

/// A value, and the object that serves it once it was called.
pub(super) struct AbstractValue {
    value: ValueBase,
    active: PiOnceLock<Active>,
}

impl AbstractValue {
    pub fn new(value: ValueBase) -> Arc<AbstractValue> {
        Arc::new(AbstractValue { value, active: PiOnceLock::new() })
    }

    pub fn value(&self) -> &ValueBase {
        &self.value
    }
}

impl HeldValue for AbstractValue {
    fn served(&self, orb: &Orb) -> Result<Arc<Ior>> {
        if let Some(active) = self.active.get() {
            return Ok(active.ior.clone());
        }
        let made = orb.value_types().servants().find_map(|make| {
            let make: &MakeServant = make.downcast_ref()?;
            make(&self.value)
        });
        let Some(servant) = made else {
            return Err(SystemException::from(Kind::NoImplement).detail(format!(
                "the abstract reference holds a value, {}, and nothing serves its operations: register it with \
                 AbstractBase::serve, or take it with AbstractBase::value",
                self.value.repository_id()
            )));
        };
        let new = Active::start(orb, servant)?;
        // Another thread may have been faster; its object stays, and the new one ends.
        Ok(self.active.get_or_init(|| new).ior.clone())
    }
}

/// An active object.
struct Active {
    poa: Poa,
    id: ObjectId,
    ior: Arc<Ior>,
}

impl Active {
    fn start(orb: &Orb, servant: Servant) -> Result<Active> {
        let poa = poa(orb)?;
        let id = poa.activate_object(servant).map_err(internal)?;
        let ior = Arc::new(poa.id_to_reference(&id).map_err(internal)?.ior().clone());
        Ok(Active { poa, id, ior })
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        // A POA that is destroyed has no objects any more.
        let _ = self.poa.deactivate_object(&self.id);
    }
}

fn poa(orb: &Orb) -> Result<Poa> {
    let root = orb.root_poa()?;
    match root.create_poa(POA, None, PoaPolicies::new()) {
        Ok(poa) => {
            poa.manager().activate().map_err(internal)?;
            Ok(poa)
        }
        Err(CreateError::AdapterAlreadyExists) => root.find_poa(POA, false).map_err(internal),
        Err(error) => Err(internal(error)),
    }
}

fn internal(error: impl Display) -> SystemException {
    SystemException::from(Kind::Internal).detail(format!("the object of a value cannot be made: {error}"))
}
