//! All POAs of one ORB, for the dispatcher.

use super::admission::DESTROYING;
use super::current;
use super::errors::{DEADLOCK, NO_ADAPTER, no};
use super::key::{Key, server_of, split_name};
use super::main_thread::{MainThread, RunOutcome};
use super::manager::PoaManager;
use super::managers::Refusal;
use super::poa::Poa;
use super::policies::PoaPolicies;
use super::rt_adapter::{Adapter, InvalidRtPolicy};
use super::table::Table;
use super::upcall_target::{ActiveObjectRef, PoaGuard, UpcallTarget};
#[cfg(feature = "implementation-repository")]
use crate::Object;
use crate::pool::ServerResources;
use crate::{Orb, Result};
use isorb_giop::component::TaggedComponent;
use isorb_giop::message::{OperationName, ServiceContexts};
use isorb_giop::{Kind, SystemException, minor};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiCondvar, PiLatch, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The POAs of an ORB.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    root_waits: AtomicBool,
}

/// The shared state of an ORB's POAs.
pub(super) struct Shared {
    /// Differs between process starts, so that transient references of earlier ones are recognised.
    pub epoch: u32,
    pub table: Table,
    /// POAs with persistent references, by path.
    pub paths: PiMutex<HashMap<Box<[u8]>, Poa>>,
    /// Locked before the lock of any manager and any POA.
    pub admin: PiMutex<Admin>,
    /// A POA was created, was destroyed, or has started.
    pub changed: PiCondvar,
    pub main: MainThread,
    pub resources: Arc<ServerResources>,
    pub components: Option<ComponentSource>,
}

/// Calls the IOR interceptors for the components of a new POA's references.
pub(crate) type ComponentSource =
    Box<dyn Fn(&str, &PoaPolicies) -> Result<Box<[TaggedComponent]>> + Send + Sync>;

/// State for rare operations only.
#[derive(Default)]
pub(super) struct Admin {
    orb: Option<Orb>,
    root: Option<Poa>,
    pub shut_down: bool,
    /// Used slots that are free again.
    pub free: Vec<u32>,
    /// The number of slots ever used.
    pub used: u32,
    pub managers: Vec<Weak<super::manager::Manager>>,
    pub managers_made: u64,
    /// Running adapter activators.
    pub starting: Vec<Starting>,
    /// Requests that wait for one.
    pub waiting: u32,
}

/// A running adapter activator.
pub(super) struct Starting {
    pub parent: Poa,
    pub name: Box<str>,
    pub thread: usize,
    /// Opened when the activator has returned.
    pub started: Arc<PiLatch>,
}

impl Registry {
    /// An empty registry. `epoch` differs between process starts.
    pub fn new(epoch: u32, resources: Arc<ServerResources>, components: Option<ComponentSource>) -> Registry {
        Registry {
            shared: Arc::new(Shared {
                epoch,
                table: Table::default(),
                paths: PiMutex::default(),
                admin: PiMutex::default(),
                changed: PiCondvar::new(),
                main: MainThread::new(MainThread::DEFAULT_LIMIT),
                resources,
                components,
            }),
            root_waits: AtomicBool::new(false),
        }
    }

    /// The root POA. The first call creates it, and the first call after the application destroyed
    /// it creates it again.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|4 after [`shutdown`](Self::shutdown).
    pub fn root(&self, orb: &Orb) -> Result<Poa> {
        let decided = {
            let admin = self.shared.admin.lock();
            admin.shut_down || admin.root.is_some()
        };
        let policies = PoaPolicies::root().or_rt(&self.shared.resources.poa_policies.lock());
        let rt = match decided {
            true => None,
            false => Adapter::of(orb, &self.shared.resources, &policies).map_err(|InvalidRtPolicy(_)| {
                no(Kind::InvPolicy, 0).detail("the root POA cannot have the ORB's real-time policies")
            })?,
        };
        // Without a lock, because it is the application's code. Two first callers may both call it.
        let components = match &self.shared.components {
            Some(components) if !decided => components("RootPOA", &policies)?,
            _ => Box::default(),
        };
        let mut admin = self.shared.admin.lock();
        if admin.shut_down {
            return Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN));
        }
        if let Some(root) = &admin.root
            && !root.admission().has(DESTROYING)
        {
            return Ok(root.clone());
        }
        admin.orb = Some(orb.clone());
        let manager = admin.new_manager("RootPOAManager", &self.shared);
        let root = self.shared.new_poa(
            &mut admin,
            "RootPOA",
            Default::default(),
            None,
            manager,
            (policies, components, rt),
        )?;
        self.shared.table.put(root.0.slot, root.clone());
        let before = admin.root.replace(root.clone());
        self.root_waits.store(true, Ordering::Relaxed);
        drop(admin);
        drop(before);
        Ok(root)
    }

    /// Finds the servant for a request; waits, and calls servant managers and adapter activators.
    /// The request counts as running until the result is dropped.
    ///
    /// # Errors
    /// The reply to the client.
    ///
    /// # Real-time
    /// As the [module](super) says.
    #[inline]
    pub fn enter<'k>(
        &self,
        key: &'k [u8],
        operation: impl Into<OperationName<'k>>,
    ) -> Result<UpcallTarget<'k>, Refusal> {
        let (poa, id) = self.find(key)?;
        PoaGuard::new(poa)?.serve(id, operation.into())
    }

    /// As [`enter`](Self::enter), for an object in an active object map of a POA that admits
    /// requests: the case of nearly every request. After `None` the caller must use `enter`.
    ///
    /// # Real-time
    /// Neither allocates nor waits, except for the locks of the POA's table and of the map, each
    /// held for a look-up.
    #[inline(always)]
    pub fn find_active(&self, key: &[u8]) -> Option<ActiveObjectRef> {
        let (poa, id) = self.find_known(key)?;
        PoaGuard::try_new(poa)?.find_active(id)
    }

    /// The priority of a request with these contexts, if its POA exists and has real-time policies.
    ///
    /// # Real-time
    /// As [`find_active`](Self::find_active), and the cost of the priority transform.
    pub fn request_priority(
        &self,
        orb: &Orb,
        key: &[u8],
        contexts: &ServiceContexts<'_>,
    ) -> Option<Priority> {
        let (poa, id) = self.find_known(key)?;
        poa.request_priority(orb, id, contexts)
    }

    /// The thread pool of the object with a key, if its POA has one.
    #[cfg(feature = "miop")]
    pub fn pool_of(&self, key: &[u8]) -> Option<Arc<crate::pool::Threadpool>> {
        let (poa, _) = self.find_known(key)?;
        poa.0.rt.as_deref()?.pool().cloned()
    }

    /// The thread pool of the object with a key, if its POA has one, and the priority of a request
    /// with the priority that its client sent. Creates POAs on demand.
    pub fn pool_of_local_call(
        &self,
        orb: &Orb,
        key: &[u8],
        sent: Option<Priority>,
    ) -> Option<(Arc<crate::pool::Threadpool>, Option<Priority>)> {
        let (poa, id) = self.find(key).ok()?;
        let rt = poa.0.rt.as_deref()?;
        let pool = rt.pool()?;
        let own = poa.lock().objects.find(id).and_then(|active| active.priority);
        let priority = rt.priority_of(orb, sent, own, id).ok()?;
        Some((pool.clone(), priority))
    }

    /// The POA of a key, if it exists, and the object's id.
    #[inline(always)]
    fn find_known<'k>(&self, key: &'k [u8]) -> Option<(Poa, &'k [u8])> {
        match Key::parse(key)? {
            Key::Transient { epoch, slot, generation, id } => {
                if epoch != self.shared.epoch {
                    return None;
                }
                Some((self.shared.table.find(slot, generation)?, id))
            }
            Key::Persistent { path, id } => Some((self.known_path(path)?, id)),
            Key::Indirect { server, path, id } if self.is_own_name(server) => {
                Some((self.known_path(path)?, id))
            }
            Key::Indirect { .. } => None,
        }
    }

    /// Whether a server's name in a key is that of this one.
    fn is_own_name(&self, server: &[u8]) -> bool {
        self.shared.resources.indirect().is_some_and(|indirect| indirect.server.as_bytes() == server)
    }

    /// Whether a key is that of an indirect reference to an object of this server.
    pub fn is_own(&self, key: &[u8]) -> bool {
        server_of(key).is_some_and(|server| self.is_own_name(server.as_bytes()))
    }

    /// A reference past the implementation repository to the object with this key; `None` for one
    /// that does not exist. Creates POAs on demand.
    ///
    /// # Errors
    /// Those of an adapter activator.
    #[cfg(feature = "implementation-repository")]
    pub fn direct_reference(&self, key: &[u8]) -> Result<Option<Object>> {
        let found = self.find(key).and_then(|(poa, id)| poa.locate(id).map(|()| (poa, id)));
        match found {
            Ok((poa, id)) => poa.make_direct_reference("", &id.into()).map(Some),
            Err(Refusal::Forward { to, .. }) => Ok(Some(to)),
            Err(Refusal::Exception(exception)) if exception.kind == Kind::ObjectNotExist => Ok(None),
            Err(Refusal::Exception(exception)) => Err(exception),
        }
    }

    /// Identifies the ORB in the process.
    #[inline]
    pub(super) fn number(&self) -> usize {
        self.shared.number()
    }

    fn known_path(&self, path: &[u8]) -> Option<Poa> {
        self.shared.paths.lock().get(path).cloned()
    }

    /// For LocateRequest: whether an object with this key exists, as far as that is known without
    /// calling a servant manager. Creates POAs on demand.
    ///
    /// # Errors
    /// The reply to the client.
    pub fn locate(&self, key: &[u8]) -> Result<(), Refusal> {
        let (poa, id) = self.find(key)?;
        poa.locate(id)
    }

    /// Whether the root POA's manager may never have been told a state.
    #[inline]
    pub fn root_waits(&self) -> bool {
        self.root_waits.load(Ordering::Relaxed)
    }

    /// Activates the root POA's manager if its state was never changed.
    pub fn activate_untouched_root(&self) {
        self.root_waits.store(false, Ordering::Relaxed);
        let root = self.shared.admin.lock().root.clone();
        if let Some(root) = root {
            root.manager().activate_untouched();
        }
    }

    /// The permit of the main-thread model; for `Orb::perform_work`.
    pub fn main_thread(&self) -> &MainThread {
        &self.shared.main
    }

    /// Runs requests of the main-thread model until the ORB shuts down; for `Orb::run`.
    pub fn serve_main_thread(&self) {
        while self.shared.main.run_one(Deadline::NONE) != RunOutcome::Closed {}
    }

    /// Deactivates all managers, destroys all POAs, etherealises all objects. `wait`: returns when
    /// all upcalls have ended.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 for `wait` in an upcall of this ORB; nothing happens
    /// then.
    pub fn shutdown(&self, wait: bool) -> Result<()> {
        if wait && current::inside(self.shared.number()) {
            return Err(DEADLOCK);
        }
        let (managers, root) = {
            let mut admin = self.shared.admin.lock();
            admin.shut_down = true;
            (std::mem::take(&mut admin.managers), admin.root.clone())
        };
        for manager in managers.iter().filter_map(Weak::upgrade) {
            PoaManager::from(manager).deactivate(true, false)?;
        }
        // Requests that wait for the main thread end without it.
        self.shared.main.close();
        if let Some(root) = root {
            root.destroy(true, wait)?;
        }
        let mut admin = self.shared.admin.lock();
        let gone = (admin.root.take(), admin.orb.take());
        drop(admin);
        drop(gone);
        Ok(())
    }

    #[inline]
    fn find<'k>(&self, key: &'k [u8]) -> Result<(Poa, &'k [u8]), Refusal> {
        match Key::parse(key) {
            Some(Key::Transient { epoch, slot, generation, id }) if epoch == self.shared.epoch => {
                Ok((self.shared.table.find(slot, generation).ok_or(NO_ADAPTER)?, id))
            }
            Some(Key::Persistent { path, id }) => Ok((self.known_or_made(path)?, id)),
            Some(Key::Indirect { server, path, id }) if self.is_own_name(server) => {
                Ok((self.known_or_made(path)?, id))
            }
            _ => Err(NO_ADAPTER.into()),
        }
    }

    fn known_or_made(&self, path: &[u8]) -> Result<Poa> {
        match self.known_path(path) {
            Some(poa) => Ok(poa),
            None => self.make(path),
        }
    }

    /// Walks down a path and creates missing POAs.
    #[cold]
    fn make(&self, path: &[u8]) -> Result<Poa> {
        let root = self.shared.admin.lock().root.clone();
        let (mut poa, mut rest) = (root.ok_or(NO_ADAPTER)?, path);
        while !rest.is_empty() {
            let (name, after) = split_name(rest).ok_or(NO_ADAPTER)?;
            // A binding of its own, so that the lock is not held in the branch.
            let child = poa.lock().children.get(name).cloned();
            poa = match child {
                Some(child) => child,
                None => poa.activate_child_for_request(name)?,
            };
            rest = after;
        }
        // A transient POA of this name has other keys.
        if poa.0.policies.persistent() { Ok(poa) } else { Err(NO_ADAPTER) }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Upcalls keep the ORB alive, so none runs; only POAs that refer to each other are left.
        let _ = self.shutdown(false);
    }
}

impl Shared {
    /// Identifies the ORB in the process.
    pub fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The ORB.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|4 after shutdown.
    pub fn orb(&self) -> Result<Orb, SystemException> {
        self.admin.lock().orb.clone().ok_or(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN))
    }

    /// Wakes the threads that wait for a change of the POAs.
    pub fn wake(&self) {
        drop(self.admin.lock());
        self.changed.notify_all(&self.admin);
    }
}
