//! References to a POA with a servant locator that forwards every request.

use super::objects::{internal, new_thing};
use crate::generated::interop::*;
use isorb::poa::policies::{IdAssignment, RequestProcessing, ServantRetention};
use isorb::poa::{Cookie, ForwardRequest, PoaPolicies, Refusal, ServantLocator, ServantManager};
use isorb::{Kind, Object, Poa, Reference, Result, Servant, Upcall};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Creates references to Things that have moved.
pub(super) struct Mover {
    things: Poa,
    moved: Poa,
    shared: Arc<Moved>,
}

#[derive(Default)]
struct Moved {
    forwards: AtomicU32,
    targets: Mutex<HashMap<Vec<u8>, Object>>,
}

impl Mover {
    /// # Errors
    /// The POA's.
    pub fn new(root: &Poa) -> Result<Mover> {
        let policies = PoaPolicies::new()
            .servant_retention(ServantRetention::NonRetain)
            .request_processing(RequestProcessing::ServantManager)
            .id_assignment(IdAssignment::User);
        let moved = root.create_poa("moved", Some(&root.manager()), policies).map_err(internal)?;
        let shared = Arc::new(Moved::default());
        moved.set_servant_manager(ServantManager::Locator(shared.clone())).map_err(internal)?;
        Ok(Mover { things: root.clone(), moved, shared })
    }
}

impl Forwards for Mover {
    fn create<'u>(&'u self, cx: Upcall<'u>, name: &'u str) -> Result<Option<&'u ThingRef>> {
        let target = new_thing(&self.things, name)?.object().clone();
        let mut targets = self.shared.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("moved-{}", targets.len());
        targets.insert(key.clone().into_bytes(), target);
        drop(targets);
        let reference = self.moved.create_reference_with_id(key, ThingRef::INTERFACE.id)?;
        cx.keep(ThingRef::from_object(reference)).map(Some)
    }
    fn made(&self, _: Upcall<'_>) -> Result<u32> {
        Ok(self.shared.forwards.load(SeqCst))
    }
}

impl ServantLocator for Moved {
    fn preinvoke(&self, id: &[u8], _: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        let to = self.targets.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let to = to.ok_or(Kind::ObjectNotExist)?;
        self.forwards.fetch_add(1, SeqCst);
        Err(ForwardRequest { to, permanent: false }.into())
    }
    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, _: Servant) -> Result<()> {
        Ok(())
    }
}
