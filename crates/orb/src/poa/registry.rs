//! All POAs of one ORB, as the dispatcher sees them.

use super::current;
use super::entered::{Entered, Found, Visit};
use super::errors::{DEADLOCK, NO_ADAPTER, no};
use super::gate::DEAD;
use super::key::{Key, split_name};
use super::main_queue::{MainQueue, Ran};
use super::manager::PoaManager;
use super::managers::Refusal;
use super::poa::Poa;
use super::policies::PoaPolicies;
use super::table::Table;
use crate::pool::ServerResources;
use crate::{Orb, Result};
use isorb_giop::component::TaggedComponent;
use isorb_giop::message::{OperationName, ServiceContexts};
use isorb_giop::{Kind, SystemException, minor};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The POAs of an ORB.
pub(crate) struct Registry {
    shared: Arc<Shared>,
}

/// What POAs of an ORB have in common.
pub(super) struct Shared {
    /// Differs from process start to process start, so that transient references of earlier ones are recognised.
    pub epoch: u32,
    pub table: Table,
    /// POAs whose references are persistent, by path.
    pub paths: PiMutex<HashMap<Box<[u8]>, Poa>>,
    /// Locked before the lock of any manager and any POA.
    pub admin: PiMutex<Admin>,
    /// A POA came, went, or became ready.
    pub changed: PiCondvar,
    pub main: MainQueue,
    pub resources: Arc<ServerResources>,
    pub components: Option<ComponentSource>,
}

/// Asks the IOR interceptors for the components of a new POA's references.
pub(crate) type ComponentSource =
    Box<dyn Fn(&str, &PoaPolicies) -> Result<Box<[TaggedComponent]>> + Send + Sync>;

/// What only the rare operations need.
#[derive(Default)]
pub(super) struct Admin {
    orb: Option<Orb>,
    root: Option<Poa>,
    pub shut_down: bool,
    /// Slots that were used and are free.
    pub free: Vec<u32>,
    /// How many slots were ever used.
    pub used: u32,
    pub managers: Vec<Weak<super::manager::Manager>>,
    pub managers_made: u64,
    /// Adapter activators that run now.
    pub starting: Vec<Starting>,
    /// Requests that wait for one.
    pub waiting: u32,
}

/// An adapter activator that runs now.
pub(super) struct Starting {
    pub parent: Poa,
    pub name: Box<str>,
    pub thread: usize,
}

impl Registry {
    /// An empty one. `epoch` differs from process start to process start.
    pub fn new(epoch: u32, resources: Arc<ServerResources>, components: Option<ComponentSource>) -> Registry {
        Registry {
            shared: Arc::new(Shared {
                epoch,
                table: Table::default(),
                paths: PiMutex::default(),
                admin: PiMutex::default(),
                changed: PiCondvar::new(),
                main: MainQueue::new(MainQueue::DEFAULT_LIMIT),
                resources,
                components,
            }),
        }
    }

    /// The root POA; the first call makes it, and the first one after the application destroyed it.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|4 after [`shutdown`](Self::shutdown).
    pub fn root(&self, orb: &Orb) -> Result<Poa> {
        let decided = {
            let admin = self.shared.admin.lock();
            admin.shut_down || admin.root.is_some()
        };
        // Without a lock, since it is the application's code. Two threads that come first may both ask.
        let components = match &self.shared.components {
            Some(components) if !decided => components("RootPOA", &PoaPolicies::root())?,
            _ => Box::default(),
        };
        let mut admin = self.shared.admin.lock();
        if admin.shut_down {
            return Err(no(Kind::BadInvOrder, minor::BAD_INV_ORDER_SHUTDOWN));
        }
        if let Some(root) = &admin.root
            && !root.gate().has(DEAD)
        {
            return Ok(root.clone());
        }
        admin.orb = Some(orb.clone());
        let manager = admin.new_manager("RootPOAManager", self.shared.number());
        let root = self.shared.new_poa(
            &mut admin,
            "RootPOA",
            Default::default(),
            None,
            manager,
            (PoaPolicies::root(), components, None),
        )?;
        self.shared.table.put(root.0.slot, root.clone());
        let before = admin.root.replace(root.clone());
        drop(admin);
        drop(before);
        Ok(root)
    }

    /// Finds the servant for a request, waiting and asking whom there is to ask. The request counts as running until
    /// the result is dropped.
    ///
    /// # Errors
    /// What to answer to the client.
    ///
    /// # Real-time
    /// As the [module](super) says.
    #[inline]
    pub fn enter<'k>(
        &self,
        key: &'k [u8],
        operation: impl Into<OperationName<'k>>,
    ) -> Result<Entered<'k>, Refusal> {
        let (poa, id) = self.find(key)?;
        Visit::new(poa)?.serve(id, operation.into())
    }

    /// As [`enter`](Self::enter), for an object that is in an active object map of a POA whose gate is open: what nearly every
    /// request finds. `None` says no more than that `enter` has to be asked.
    ///
    /// # Real-time
    /// Neither allocates nor waits, but for the locks of the POA's table and of the map, each held for a look-up.
    #[inline(always)]
    pub fn find_active(&self, key: &[u8]) -> Option<Found> {
        let (poa, id) = self.find_known(key)?;
        Visit::at_once(poa)?.find_active(id)
    }

    /// The priority at which a request with these contexts will run, as far as its POA is there and has a real-time side.
    ///
    /// # Real-time
    /// As [`find_active`](Self::find_active), and what the priority transform does.
    pub fn urgency(&self, orb: &Orb, key: &[u8], contexts: &ServiceContexts<'_>) -> Option<Priority> {
        let (poa, id) = self.find_known(key)?;
        poa.urgency(orb, id, contexts)
    }

    /// The thread pool that serves the object with a key, if it is one of a POA with a pool.
    #[cfg(feature = "miop")]
    pub fn pool_of(&self, key: &[u8]) -> Option<Arc<crate::pool::Threadpool>> {
        let (poa, _) = self.find_known(key)?;
        poa.0.rt.as_deref()?.pool().cloned()
    }

    /// The POA of a key, if it is there, and the object's id.
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
        }
    }

    /// Tells ORBs of a process apart.
    #[inline]
    pub(super) fn number(&self) -> usize {
        self.shared.number()
    }

    fn known_path(&self, path: &[u8]) -> Option<Poa> {
        self.shared.paths.lock().get(path).cloned()
    }

    /// Whether there is, as far as can be known without asking a servant manager, an object behind a key: for
    /// LocateRequest. Makes POAs on demand.
    ///
    /// # Errors
    /// What to answer to the client.
    pub fn locate(&self, key: &[u8]) -> Result<(), Refusal> {
        let (poa, id) = self.find(key)?;
        poa.locate(id)
    }

    /// Activates the root POA's manager if its state was never changed.
    pub fn activate_untouched_root(&self) {
        let root = self.shared.admin.lock().root.clone();
        if let Some(root) = root {
            root.manager().activate_untouched();
        }
    }

    /// Where requests of the main-thread model wait; for `Orb::perform_work`.
    pub fn main_queue(&self) -> &MainQueue {
        &self.shared.main
    }

    /// Lets requests of the main-thread model run until the ORB shuts down; for `Orb::run`.
    pub fn serve_main_thread(&self) {
        while self.shared.main.run_one(Deadline::NONE) != Ran::Closed {}
    }

    /// Deactivates all managers, destroys all POAs, etherealises all objects. `wait`: returns when all upcalls have ended.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|3 when `wait` is asked for in an upcall of this ORB; nothing happens then.
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
            Some(Key::Persistent { path, id }) => match self.known_path(path) {
                Some(poa) => Ok((poa, id)),
                None => Ok((self.make(path)?, id)),
            },
            _ => Err(NO_ADAPTER.into()),
        }
    }

    /// Walks down a path, making what is missing.
    #[cold]
    fn make(&self, path: &[u8]) -> Result<Poa> {
        let root = self.shared.admin.lock().root.clone();
        let (mut poa, mut rest) = (root.ok_or(NO_ADAPTER)?, path);
        while !rest.is_empty() {
            let (name, after) = split_name(rest).ok_or(NO_ADAPTER)?;
            // Bound, so that the lock is not held in the branch.
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
        // Upcalls hold the ORB, so none runs; what is left are POAs that know each other.
        let _ = self.shutdown(false);
    }
}

impl Shared {
    /// Tells ORBs of a process apart.
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

    /// Wakes whoever waits for POAs to come, go or become ready.
    pub fn wake(&self) {
        drop(self.admin.lock());
        self.changed.notify_all(&self.admin);
    }
}
