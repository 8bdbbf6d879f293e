//! Real-Time CORBA at a reference and an ORB: overrides, the plan of a call, explicit binding.

use super::current::calling_priority;
use super::overrides::{Overrides, SharedOverrides, thread_overrides, thread_stamp};
use super::plan::{Conflict, Key, Parts, Plan, Setup, in_bands};
use super::policy::{PriorityBand, PriorityModel, PriorityModelPolicy, RtPolicy};
use super::reference::{Facts, Model};
use crate::object::{Place, Target};
use crate::peer::{Lease, Peer};
use crate::{Object, Orb, Result, SystemException};
use isorb_rt::priority::{NetworkPriorityMapping, Priority, Unmarked};
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, OnceLock};

/// What an ORB keeps of Real-Time CORBA for its connections.
pub(crate) struct ClientState {
    overrides: SharedOverrides,
    network: PiMutex<Arc<dyn NetworkPriorityMapping>>,
    /// What the sockets of those are told who connect to the ORB's own endpoints.
    accepting: OnceLock<Setup>,
}

impl ClientState {
    /// What the sockets of those who connect from now on are told. The first POA that says anything is heard.
    pub fn set_up(&self, setup: Setup) {
        let _ = self.accepting.set(setup);
    }

    pub fn accepting(&self) -> Option<&Setup> {
        self.accepting.get()
    }
}

impl Default for ClientState {
    fn default() -> ClientState {
        ClientState {
            overrides: SharedOverrides::default(),
            network: PiMutex::new(Arc::new(Unmarked)),
            accepting: OnceLock::new(),
        }
    }
}

impl Orb {
    /// The ORB's overrides of Real-Time CORBA policies, the widest scope.
    pub fn rt_overrides(&self) -> Overrides {
        self.rt_client().overrides.get()
    }

    /// Sets the ORB's overrides of Real-Time CORBA policies; gives the ones before.
    pub fn set_rt_overrides(&self, overrides: Overrides) -> Overrides {
        self.rt_client().overrides.set(overrides)
    }

    /// The mapping from CORBA priorities to the marks of packets. Marks nothing unless it was set.
    pub fn network_priority_mapping(&self) -> Arc<dyn NetworkPriorityMapping> {
        self.rt_client().network.lock().clone()
    }

    /// Sets the mapping from CORBA priorities to the marks of packets (`RTCORBA::NetworkPriorityMapping`). It concerns connections
    /// whose protocol properties ask for marks; those that are open, or planned for references in use, keep what they have.
    pub fn set_network_priority_mapping(&self, mapping: Arc<dyn NetworkPriorityMapping>) {
        let before = std::mem::replace(&mut *self.rt_client().network.lock(), mapping);
        drop(before);
    }
}

impl Object {
    /// The same object with overrides of Real-Time CORBA policies; what they leave open comes from this reference's.
    #[must_use]
    pub fn with_rt_overrides(&self, overrides: &Overrides) -> Object {
        self.overriding(overrides.or(self.rt_overrides()))
    }

    /// The priority model that the reference carries (RT-CORBA 1.2, clause 5.4); `None` for an object that is not a real-time one.
    ///
    /// # Errors
    /// INV_OBJREF when its policies are malformed.
    pub fn priority_model(&self) -> Result<Option<PriorityModelPolicy>> {
        let model = Facts::of(self.ior())?.map_or(Model::None, |facts| facts.model);
        let policy =
            |model, priority: Priority| PriorityModelPolicy { model, server_priority: priority.get() };
        Ok(match model {
            Model::None => None,
            Model::Propagated(priority) => Some(policy(PriorityModel::ClientPropagated, priority)),
            Model::Declared(priority) => Some(policy(PriorityModel::ServerDeclared, priority)),
        })
    }

    /// The priority bands that the reference carries: those of a server that wants its clients to use them (clause 5.13.2).
    ///
    /// # Errors
    /// INV_OBJREF when its policies are malformed.
    pub fn priority_bands(&self) -> Result<Option<Vec<PriorityBand>>> {
        Ok(Facts::of(self.ior())?.and_then(|facts| facts.bands))
    }

    /// Whether a call has to ask for its plan: the reference, the thread or the ORB says something about real time.
    #[inline]
    pub(crate) fn needs_plan(&self, target: &Target) -> bool {
        let Key { object, thread, orb } = self.overrides_key();
        target.facts.is_some() || (object | thread | orb) != 0
    }

    #[inline]
    fn overrides_key(&self) -> Key {
        Key {
            object: self.rt_overrides().stamp(),
            thread: thread_stamp(),
            orb: self.orb().rt_client().overrides.stamp(),
        }
    }

    /// What holds for calls through this reference now.
    ///
    /// # Errors
    /// INV_POLICY.
    ///
    /// # Real-time
    /// One PI lock and a short search, once it was worked out for these overrides.
    pub(crate) fn plan(&self, target: &Target, peer: &Arc<Peer>) -> Result<Arc<Plan>, Conflict> {
        let key = self.overrides_key();
        target.plans.get(key, || {
            let orb = self.orb();
            let none = Facts::default();
            let overrides = self.rt_overrides().or(&thread_overrides()).or(&orb.rt_overrides());
            let parts = Parts {
                facts: target.facts.as_deref().unwrap_or(&none),
                overrides: &overrides,
                ior: &target.ior,
                routes: peer.routes(),
                // A reference's own: its place, and the overrides that it was made with.
                reference: self.identity() ^ key.object.rotate_left(48),
            };
            Plan::make(orb, &parts)
        })
    }

    /// Opens the connections that calls will use, so that the first call finds them (`_validate_connection`): one for each priority
    /// band or lane, told which band it is for. The policies that contradict each other come back, none where all is well; nothing
    /// was opened for those.
    ///
    /// # Errors
    /// TRANSIENT and the like when the object cannot be reached; NO_RESOURCES where the server has no lane for a band.
    ///
    /// # Real-time
    /// Connects, calls the object and allocates: that is what it is for.
    pub fn validate_connection(&self) -> Result<Vec<RtPolicy>> {
        self.validate_connections(1)
    }

    /// As [`validate_connection`](Self::validate_connection), for so many threads that will call at the same time: as many
    /// connections for each band or lane, up to the configured number a server.
    ///
    /// # Errors
    /// As [`validate_connection`](Self::validate_connection).
    ///
    /// # Real-time
    /// As [`validate_connection`](Self::validate_connection).
    pub fn validate_connections(&self, threads: usize) -> Result<Vec<RtPolicy>> {
        // Forwards are followed by a call like any other. One that its priority keeps from going out leads nowhere else.
        match self.non_existent() {
            Ok(_) => {}
            Err(exception) if is_local(&exception) => {}
            Err(exception) => return Err(exception),
        }
        let target = self.target()?;
        let Place::There(peer) = &target.place else { return Ok(Vec::new()) };
        let plan = match self.plan(&target, peer) {
            Ok(plan) => plan,
            Err(conflict) => return Ok(conflict.policies),
        };
        let mut held: Vec<Lease> = Vec::new();
        for peer in plan.peers() {
            for _ in 0..threads.clamp(1, self.orb().config().connections_per_server.max(1)) {
                held.push(self.open_on(&target, peer)?);
            }
        }
        Ok(Vec::new())
    }
}

/// Whether an exception came from the policies of the caller and not from the server.
fn is_local(exception: &SystemException) -> bool {
    use isorb_giop::{Kind, minor};
    (exception.kind, exception.minor) == (Kind::InvPolicy, minor::INV_POLICY_RECONCILE)
        || (exception.kind, exception.minor) == (Kind::NoResources, minor::NO_RESOURCES_PRIORITY)
}

/// Where a call goes, and the priority that travels with it.
pub(crate) struct Way {
    plan: Arc<Plan>,
    calling: Option<Priority>,
}

impl Way {
    /// # Errors
    /// INV_POLICY where policies or priorities do not fit; DATA_CONVERSION for a native priority that has no counterpart.
    pub fn find(object: &Object, target: &Target, peer: &Arc<Peer>) -> Result<Way> {
        let plan = object.plan(target, peer)?;
        let calling = if plan.asks_for_priority() { calling_priority(object.orb())? } else { None };
        Ok(Way { plan, calling })
    }

    /// # Errors
    /// As [`Plan::choose`].
    pub fn choose(&self) -> Result<(&Arc<Peer>, Option<Priority>)> {
        self.plan.choose(self.calling)
    }
}

/// The priority that travels with a call to a group: none where its reference says that the members' servers declare theirs. Where it says
/// nothing the caller's travels, since each member's POA knows whether it heeds it.
///
/// # Errors
/// As [`local_priority`].
#[cfg(feature = "miop")]
pub(crate) fn group_priority(object: &Object, facts: Option<&Facts>) -> Result<Option<Priority>> {
    match facts.map(|facts| facts.model) {
        Some(Model::Declared(_)) => Ok(None),
        _ => calling_priority(object.orb()),
    }
}

/// The priority that travels with a call to an object of this ORB: no connection, but the same rules.
///
/// # Errors
/// As [`Way::find`] and [`Plan::choose`].
pub(crate) fn local_priority(object: &Object, facts: &Facts) -> Result<Option<Priority>> {
    let Model::Propagated(server) = facts.model else { return Ok(None) };
    let calling = calling_priority(object.orb())?;
    if let Some(bands) = &facts.bands {
        in_bands(bands, calling.unwrap_or(server))?;
    }
    Ok(calling)
}
