//! Creating and finding POAs.

use super::active_map::ActiveObjectMap;
use super::admission::{AdmissionState, DESTROYING, STARTING};
use super::current;
use super::errors::{DEADLOCK, NO_ADAPTER, no};
use super::key::{child_path, indirect_prefix, persistent_prefix, transient_prefix};
use super::poa::{Body, Inner, Lifecycle, Poa};
use super::registry::{Admin, Shared};
use super::rt_adapter::{Adapter, InvalidRtPolicy};
use super::table::MAX_POAS;
use super::{AdapterActivator, CreateError, FindError, PoaManager, PoaPolicies};
use crate::Result;
use isorb_giop::component::TaggedComponent;
use isorb_giop::{Kind, SystemException, minor};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

impl Poa {
    /// Creates a child. Without a manager it gets a new one, which holds requests until it is
    /// activated. If a child of this name is being destroyed, waits for the end of its destruction.
    ///
    /// # Errors
    /// AdapterAlreadyExists; OBJ_ADAPTER with minor code OMG|6 when an IOR interceptor refused;
    /// InvalidPolicy with the index of the policy (see [`PoaPolicies`]), 65535 for one of the ORB;
    /// BAD_PARAM for a manager of another ORB; BAD_INV_ORDER with minor code OMG|17 when this POA
    /// is being destroyed, with OMG|3 when it would have to wait in an upcall of this ORB;
    /// IMP_LIMIT for too many POAs or too long a path.
    pub fn create_poa(
        &self,
        name: &str,
        manager: Option<&PoaManager>,
        policies: PoaPolicies,
    ) -> Result<Poa, CreateError> {
        if let Some(index) = policies.contradiction() {
            return Err(CreateError::InvalidPolicy(index));
        }
        let shared = &self.0.shared;
        let policies = policies.or_rt(&shared.resources.poa_policies.lock());
        let number = shared.number();
        if manager.is_some_and(|manager| !manager.is_of(number)) {
            return Err(no(Kind::BadParam, 0).detail("the POA manager belongs to another ORB").into());
        }
        let path = child_path(&self.0.path, name).ok_or_else(|| {
            no(Kind::ImpLimit, 0).detail("the names of the POA and its ancestors are too long together")
        })?;
        let rt = Adapter::of(&self.orb()?, &shared.resources, &policies).map_err(
            |InvalidRtPolicy(policy_type)| CreateError::InvalidPolicy(policies.rt_index(policy_type)),
        )?;
        // Before any lock, because it is the application's code.
        let components = self.interceptors_components(name, &policies)?;
        let mut admin = shared.admin.lock();
        loop {
            let body = self.lock();
            check_parent(body.life)?;
            match body.children.get(name) {
                None => break,
                Some(child) if !child.0.admission.has(DESTROYING) => {
                    return Err(CreateError::AdapterAlreadyExists);
                }
                Some(_) if current::inside(number) => return Err(DEADLOCK.into()),
                Some(_) => drop(body),
            }
            shared.changed.wait_until(&mut admin, Deadline::NONE);
        }
        let manager = match manager {
            Some(manager) => manager.clone(),
            None => {
                admin.managers_made += 1;
                let id = format!("POAManager-{}", admin.managers_made);
                admin.new_manager(&id, shared)
            }
        };
        let poa = shared.new_poa(
            &mut admin,
            name,
            path,
            Some(self),
            manager.clone(),
            (policies, components, rt),
        )?;
        {
            let mut body = self.lock();
            if let Err(error) = check_parent(body.life) {
                drop(body);
                admin.free.push(poa.0.slot);
                drop(admin);
                manager.unregister(&poa);
                return Err(error.into());
            }
            body.children.insert(name.into(), poa.clone());
            if poa.0.policies.persistent() {
                shared.paths.lock().insert(poa.0.path.clone(), poa.clone());
            } else {
                shared.table.put(poa.0.slot, poa.clone());
            }
        }
        Ok(poa)
    }

    /// The components of IOR interceptors for the references of a child; they are called only if
    /// the child can be made.
    fn interceptors_components(
        &self,
        name: &str,
        policies: &PoaPolicies,
    ) -> Result<Box<[TaggedComponent]>, CreateError> {
        let Some(components) = &self.0.shared.components else { return Ok(Box::default()) };
        if self.lock().children.get(name).is_some_and(|child| !child.0.admission.has(DESTROYING)) {
            return Err(CreateError::AdapterAlreadyExists);
        }
        Ok(components(name, policies)?)
    }

    /// Finds a child. `activate`: calls the adapter activator if there is none.
    ///
    /// # Errors
    /// AdapterNonExistent; OBJ_ADAPTER with minor code OMG|1 when the adapter activator raised an
    /// exception.
    pub fn find_poa(&self, name: &str, activate: bool) -> Result<Poa, FindError> {
        let (child, activator) = {
            let body = self.alive()?;
            let child = body.children.get(name).filter(|child| !child.0.admission.has(DESTROYING)).cloned();
            (child, body.adapter_activator.is_some())
        };
        match child {
            Some(child) => Ok(child),
            None if activate && activator => self.activate_child(name)?.ok_or(FindError::AdapterNonExistent),
            None => Err(FindError::AdapterNonExistent),
        }
    }

    /// The adapter activator for its children.
    ///
    /// # Errors
    /// OBJECT_NOT_EXIST when the POA was destroyed.
    pub fn adapter_activator(&self) -> Result<Option<Arc<dyn AdapterActivator>>> {
        Ok(self.alive()?.adapter_activator.clone())
    }

    /// Sets, replaces or removes the adapter activator.
    ///
    /// # Errors
    /// OBJECT_NOT_EXIST when the POA was destroyed.
    pub fn set_adapter_activator(&self, activator: Option<Arc<dyn AdapterActivator>>) -> Result<()> {
        let before = std::mem::replace(&mut self.alive()?.adapter_activator, activator);
        drop(before);
        Ok(())
    }
}

fn check_parent(life: Lifecycle) -> Result<(), SystemException> {
    match life {
        Lifecycle::Alive => Ok(()),
        Lifecycle::Destroying { .. } | Lifecycle::Etherealizing => {
            Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_POA_DESTROYED))
        }
        Lifecycle::Destroyed => Err(NO_ADAPTER),
    }
}

impl Admin {
    /// A new manager, in the holding state.
    pub fn new_manager(&mut self, id: &str, shared: &Shared) -> PoaManager {
        let indirect = shared.resources.indirect().cloned();
        let manager = PoaManager::new(id, shared.number(), PoaManager::DEFAULT_MAX_HELD, indirect);
        self.managers.retain(|other| other.strong_count() > 0);
        self.managers.push(manager.downgrade());
        manager
    }

    /// A slot for a POA and its generation in it.
    fn new_slot(&mut self, shared: &Shared) -> Result<(u32, u32)> {
        loop {
            let slot = match self.free.pop() {
                Some(slot) => slot,
                None if self.used < MAX_POAS => {
                    self.used += 1;
                    self.used - 1
                }
                None => return Err(no(Kind::ImpLimit, 0).detail("the ORB has as many POAs as it can have")),
            };
            // A slot without generations left is abandoned.
            if let Some(generation) = shared.table.reserve(slot) {
                return Ok((slot, generation));
            }
        }
    }
}

impl Shared {
    /// A POA that only its manager knows yet.
    pub fn new_poa(
        self: &Arc<Shared>,
        admin: &mut Admin,
        name: &str,
        path: Box<[u8]>,
        parent: Option<&Poa>,
        manager: PoaManager,
        (policies, components, rt): (PoaPolicies, Box<[TaggedComponent]>, Option<Adapter>),
    ) -> Result<Poa> {
        if admin.shut_down {
            return Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN));
        }
        let (slot, generation) = admin.new_slot(self)?;
        let prefix = match (policies.persistent(), self.resources.indirect()) {
            (true, Some(indirect)) => indirect_prefix(&indirect.server, &path),
            (true, None) => persistent_prefix(&path),
            (false, _) => transient_prefix(self.epoch, slot, generation),
        };
        let epoch = policies.persistent().then_some(self.epoch);
        let starting = parent.is_some_and(|parent| {
            parent.admission().has(STARTING)
                || admin.starting.iter().any(|other| other.parent == *parent && *other.name == *name)
        });
        let body = Body {
            life: Lifecycle::Alive,
            objects: ActiveObjectMap::new(policies.max_objects_value(), policies.system_ids(), epoch),
            children: HashMap::new(),
            default_servant: None,
            servant_manager: None,
            adapter_activator: None,
            pending: VecDeque::new(),
            sweep: false,
            waiting: 0,
        };
        let poa = Poa(Arc::new(Inner {
            shared: self.clone(),
            slot,
            generation,
            name: name.into(),
            path,
            prefix,
            parent: parent.cloned(),
            policies,
            components,
            rt: rt.map(Box::new),
            manager: manager.clone(),
            admission: AdmissionState::new(if starting { STARTING } else { 0 }),
            deferred: Default::default(),
            body: PiMutex::new(body),
            changed: PiCondvar::new(),
            single: PiMutex::new(()),
            activator_lock: PiMutex::new(()),
        }));
        manager.register(&poa);
        Ok(poa)
    }
}
