//! The POA itself: its parts, and its constant properties.

use super::active_map::{ActiveObject, ActiveObjectMap};
use super::admission::{AdmissionState, DESTROYING};
use super::errors::NO_ADAPTER;
use super::managers::{AdapterActivator, ServantManager};
use super::policies::PoaPolicies;
use super::registry::Shared;
use super::rt_adapter::Adapter;
use super::{ObjectId, PoaManager};
use crate::server::make_reference;
use crate::transports::ReferenceAddresses;
use crate::{Object, Orb, Result, Servant};
use isorb_giop::SystemException;
use isorb_giop::component::TaggedComponent;
use isorb_rt::sync::{PiCondvar, PiGuard, PiMutex};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A Portable Object Adapter: a group of objects with common policies. Cheap to clone: all clones
/// are one POA.
///
/// Operations on a POA that was destroyed raise OBJECT_NOT_EXIST.
///
/// ```
/// # use isorb::{IntoServant, Orb, Reference, poa::PoaPolicies};
/// # fn example<ProbeRef: Reference>(orb: &Orb, probe: impl IntoServant<ProbeRef>) -> isorb::Result<()> {
/// let poa = orb.root_poa()?.create_poa("probes", None, PoaPolicies::new())?;
/// let probe: ProbeRef = poa.activate(probe)?;
/// poa.manager().activate()?;
/// # drop(probe);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Poa(pub(super) Arc<Inner>);

/// The parts of a [`Poa`].
pub(super) struct Inner {
    pub shared: Arc<Shared>,
    pub slot: u32,
    pub generation: u32,
    pub name: Box<str>,
    /// The names from the root's child down to this one, as in a persistent key.
    pub path: Box<[u8]>,
    /// The common beginning of its objects' keys.
    pub prefix: Box<[u8]>,
    pub parent: Option<Poa>,
    pub policies: PoaPolicies,
    /// The components that IOR interceptors add to its references.
    pub components: Box<[TaggedComponent]>,
    /// Its real-time side, if it has real-time policies.
    pub rt: Option<Box<Adapter>>,
    pub manager: PoaManager,
    pub admission: AdmissionState,
    /// Requests that are answered after their upcall.
    pub deferred: AtomicU32,
    pub body: PiMutex<Body>,
    /// A change in `body` that a thread may wait for.
    pub changed: PiCondvar,
    /// Locked by the thread in the POA, in the single-thread model.
    pub single: PiMutex<()>,
    /// Locked by the thread in the servant activator.
    pub activator_lock: PiMutex<()>,
}

/// The state of a [`Poa`]. Locked for a look-up or a short change, never while user code runs.
pub(super) struct Body {
    pub life: Lifecycle,
    pub objects: ActiveObjectMap,
    pub children: HashMap<Box<str>, Poa>,
    pub default_servant: Option<Servant>,
    pub servant_manager: Option<ServantManager>,
    pub adapter_activator: Option<Arc<dyn AdapterActivator>>,
    /// Objects without upcalls that wait for etherealisation, first come, first served.
    pub pending: VecDeque<Pending>,
    /// Etherealise all objects once no request runs: the manager was deactivated.
    pub sweep: bool,
    /// Requests that wait for an object to be etherealised.
    pub waiting: u32,
}

/// An object to be etherealised.
pub(super) struct Pending {
    pub active: Arc<ActiveObject>,
    pub cleanup: bool,
}

/// The progress of a POA's destruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    Alive,
    /// Waits for its running requests and for the POAs below.
    Destroying {
        etherealize: bool,
    },
    /// Waits for its objects to be etherealised.
    Etherealizing,
    Destroyed,
}

impl Poa {
    /// Its name in its parent; the root's is `RootPOA`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its parent; none for the root.
    pub fn parent(&self) -> Option<Poa> {
        self.0.parent.clone()
    }

    /// Its children, in no order.
    ///
    /// # Real-time
    /// Allocates.
    pub fn children(&self) -> Vec<Poa> {
        self.lock().children.values().filter(|child| !child.0.admission.has(DESTROYING)).cloned().collect()
    }

    /// Counts a request that is answered after its upcall. False when that are as many as `limit`
    /// says.
    pub(crate) fn begin_deferred(&self, limit: usize) -> bool {
        let count = &self.0.deferred;
        let within = (count.fetch_add(1, Ordering::Relaxed) as usize) < limit;
        if !within {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        within
    }

    pub(crate) fn end_deferred(&self) {
        self.0.deferred.fetch_sub(1, Ordering::Relaxed);
    }

    /// Its manager.
    pub fn manager(&self) -> PoaManager {
        self.0.manager.clone()
    }

    /// Its policies.
    pub fn policies(&self) -> &PoaPolicies {
        &self.0.policies
    }

    /// Octets that no other POA of this process ever has.
    pub fn id(&self) -> [u8; 8] {
        (u64::from(self.0.slot) << 32 | u64::from(self.0.generation)).to_be_bytes()
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> PiGuard<'_, Body> {
        self.0.body.lock()
    }

    /// Locks a POA that is not being destroyed.
    ///
    /// # Errors
    /// OBJECT_NOT_EXIST.
    pub(super) fn alive(&self) -> Result<PiGuard<'_, Body>, SystemException> {
        let body = self.lock();
        if body.life == Lifecycle::Alive { Ok(body) } else { Err(NO_ADAPTER) }
    }

    pub(super) fn admission(&self) -> &AdmissionState {
        &self.0.admission
    }

    pub(super) fn is(&self, inner: &Inner) -> bool {
        std::ptr::eq(&*self.0, inner)
    }

    /// Identifies the ORB in the process.
    pub(super) fn orb_number(&self) -> usize {
        self.0.shared.number()
    }

    pub(super) fn orb(&self) -> Result<Orb, SystemException> {
        self.0.shared.orb()
    }

    /// The key of one of its objects.
    pub(super) fn key(&self, id: &[u8]) -> Vec<u8> {
        [&self.0.prefix, id].concat()
    }

    /// A reference to an object. That of a persistent object leads to the implementation
    /// repository, if the server has one.
    pub(super) fn make_reference(
        &self,
        interface_id: &str,
        id: &ObjectId,
    ) -> Result<Object, SystemException> {
        match self.0.shared.resources.indirect() {
            Some(indirect) if self.0.policies.persistent() => {
                Ok(indirect.reference(&self.orb()?, interface_id, &self.key(id)))
            }
            _ => self.make_direct_reference(interface_id, id),
        }
    }

    /// A reference to an object at this server's own addresses, with the object's own priority if
    /// it has one.
    pub(super) fn make_direct_reference(
        &self,
        interface_id: &str,
        id: &ObjectId,
    ) -> Result<Object, SystemException> {
        let (orb, key) = (self.orb()?, self.key(id));
        let endpoints = self.0.shared.resources.endpoints().map(|endpoints| &**endpoints);
        let Some(rt) = &self.0.rt else {
            return Ok(make_reference(
                &orb,
                endpoints,
                interface_id,
                key,
                ReferenceAddresses::default(),
                &self.0.components,
            ));
        };
        let active = self.lock().objects.find(id).and_then(|active| active.priority);
        let published = rt.published(active.or_else(|| rt.assigned(id)));
        let components = [&published.components, &*self.0.components].concat();
        Ok(make_reference(&orb, endpoints, interface_id, key, published.at, &components))
    }
}

impl PartialEq for Poa {
    fn eq(&self, other: &Poa) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Poa {}

impl fmt::Display for Poa {
    /// The names from the root down: `RootPOA/lab/probes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = vec![self.name()];
        let mut poa = self;
        while let Some(parent) = &poa.0.parent {
            names.push(parent.name());
            poa = parent;
        }
        names.reverse();
        f.write_str(&names.join("/"))
    }
}

impl fmt::Debug for Poa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Poa({self})")
    }
}
