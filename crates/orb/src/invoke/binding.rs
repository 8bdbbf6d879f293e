//! Real-Time CORBA at a reference: overrides, the plan of a call, explicit binding.

use crate::binding::{
    Conflict, Key, Model, Overrides, Plan, PlanInput, RtComponents, in_bands, reconcile_bands,
    reconcile_protocols, thread_overrides, thread_stamp,
};
use crate::object::{Locality, Target};
use crate::peer::{Lease, Peer};
use crate::poa;
use crate::sched::policy::{self, PriorityBand, PriorityModel, PriorityModelPolicy, RtPolicy};
use crate::sched::{thread, unmappable};
use crate::{Object, Orb, Result, SystemException};
use isorb_giop::{Kind, minor};
use isorb_rt::priority::Priority;
use isorb_rt::sched::SchedClass;
use std::sync::Arc;

impl Object {
    /// The same object with overrides of Real-Time CORBA policies. Policies that are not set come
    /// from this reference's overrides.
    #[must_use]
    pub fn with_rt_overrides(&self, overrides: &Overrides) -> Object {
        self.overriding(overrides.or(self.rt_overrides()))
    }

    /// The priority model that the reference carries (RT-CORBA 1.2, priority models); `None` for an
    /// object that is not a real-time one.
    ///
    /// # Errors
    /// INV_OBJREF when its policies are malformed.
    pub fn priority_model(&self) -> Result<Option<PriorityModelPolicy>> {
        let model = RtComponents::of(self.ior())?.map_or(Model::None, |facts| facts.model);
        let policy =
            |model, priority: Priority| PriorityModelPolicy { model, server_priority: priority.get() };
        Ok(match model {
            Model::None => None,
            Model::Propagated(priority) => Some(policy(PriorityModel::ClientPropagated, priority)),
            Model::Declared(priority) => Some(policy(PriorityModel::ServerDeclared, priority)),
        })
    }

    /// The priority bands that the reference carries: those of a server that wants its clients to
    /// use them (RT-CORBA 1.2, priority-banded connections).
    ///
    /// # Errors
    /// INV_OBJREF when its policies are malformed.
    pub fn priority_bands(&self) -> Result<Option<Vec<PriorityBand>>> {
        Ok(RtComponents::of(self.ior())?.and_then(|facts| facts.bands))
    }

    /// The Real-Time CORBA policy of this type that calls through this reference have
    /// (`get_policy`): the priority model of the reference, bands and protocols as far as both the
    /// reference and the effective overrides allow them, a private connection if an override asks
    /// for one. `None` where neither side sets it, and for the policies that a server keeps to
    /// itself (thread pool, its protocols).
    ///
    /// # Errors
    /// INV_POLICY (OMG|2) for a type that is none of Real-Time CORBA; INV_POLICY (OMG|1) when
    /// reference and override contradict each other; INV_OBJREF when the reference's policies are
    /// malformed.
    ///
    /// # Real-time
    /// Allocates.
    pub fn get_policy(&self, policy_type: u32) -> Result<Option<RtPolicy>> {
        let facts = RtComponents::of(self.ior())?.unwrap_or_default();
        let overrides = self.rt_overrides().or(&thread_overrides()).or(&self.orb().rt_overrides());
        Ok(match policy_type {
            policy::PRIORITY_MODEL => self.priority_model()?.map(RtPolicy::PriorityModel),
            policy::THREAD_POOL | policy::SERVER_PROTOCOL => None,
            policy::CLIENT_PROTOCOL => {
                let both = reconcile_protocols(facts.protocols.as_deref(), overrides.protocols())?;
                (!both.is_empty()).then(|| RtPolicy::ClientProtocol(both.to_vec()))
            }
            policy::PRIVATE_CONNECTION => overrides.private().then_some(RtPolicy::PrivateConnection),
            policy::PRIORITY_BANDED_CONNECTION => {
                let bands = reconcile_bands(facts.bands.as_deref(), overrides.bands())?;
                bands.map(|bands| RtPolicy::PriorityBands(bands.to_vec()))
            }
            other => {
                let exception = SystemException::from(Kind::InvPolicy).minor(minor::INV_POLICY_TYPE);
                return Err(exception.detail(format!("policy {other} is none of Real-Time CORBA")));
            }
        })
    }

    /// The effective override of a Real-Time CORBA policy, without the reference's own
    /// (`get_client_policy`): that of this reference, else of the thread, else of the ORB.
    ///
    /// # Real-time
    /// Allocates.
    pub fn get_client_policy(&self, policy_type: u32) -> Option<RtPolicy> {
        let overrides = self.rt_overrides().or(&thread_overrides()).or(&self.orb().rt_overrides());
        overrides.policies().iter().find(|policy| policy.policy_type() == policy_type).cloned()
    }

    /// Whether a call needs a plan: the reference, the thread or the ORB has real-time policies.
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

    /// The present plan for calls through this reference.
    ///
    /// # Errors
    /// INV_POLICY.
    ///
    /// # Real-time
    /// One PI lock and a short search, once the plan for these overrides exists.
    pub(crate) fn plan(&self, target: &Target, peer: &Arc<Peer>) -> Result<Arc<Plan>, Conflict> {
        let key = self.overrides_key();
        target.plans.get(key, || {
            let orb = self.orb();
            let none = RtComponents::default();
            let mapping = orb.network_priority_mapping();
            let overrides = self.rt_overrides().or(&thread_overrides()).or(&orb.rt_overrides());
            let input = PlanInput {
                facts: target.facts.as_deref().unwrap_or(&none),
                overrides: &overrides,
                ior: &target.ior,
                routes: peer.routes(),
                // Identifies the reference: its address, and the overrides that it was made with.
                reference: self.identity() ^ key.object.rotate_left(48),
                transports: orb.transports(),
                peers: orb.peers(),
                mapping: &*mapping,
            };
            Plan::make(&input)
        })
    }

    /// Opens the connections that calls will use, so that the first call finds them
    /// (`_validate_connection`): one for each priority band or lane, with its band announced.
    /// Returns the policies that contradict each other, and opens nothing for them; none on
    /// success.
    ///
    /// # Errors
    /// TRANSIENT and the like when the object cannot be reached; NO_RESOURCES when the server has
    /// no lane for a band.
    ///
    /// # Real-time
    /// Connects, calls the object and allocates, so that later calls need not.
    pub fn validate_connection(&self) -> Result<Vec<RtPolicy>> {
        self.validate_connections(1)
    }

    /// As [`validate_connection`](Self::validate_connection), for threads that will call at the
    /// same time: opens that many connections for each band or lane, up to
    /// `connections_per_server`.
    ///
    /// # Errors
    /// As [`validate_connection`](Self::validate_connection).
    ///
    /// # Real-time
    /// As [`validate_connection`](Self::validate_connection).
    pub fn validate_connections(&self, threads: usize) -> Result<Vec<RtPolicy>> {
        // An ordinary call follows forwards. A call that the caller's policies refuse was not
        // forwarded.
        match self.non_existent() {
            Ok(_) => {}
            Err(exception) if is_local(&exception) => {}
            Err(exception) => return Err(exception),
        }
        let target = self.target()?;
        let Locality::Remote(peer) = &target.locality else { return Ok(Vec::new()) };
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

/// Whether the caller's policies caused an exception, not the server.
fn is_local(exception: &SystemException) -> bool {
    (exception.kind, exception.minor) == (Kind::InvPolicy, minor::INV_POLICY_RECONCILE)
        || (exception.kind, exception.minor) == (Kind::NoResources, minor::NO_RESOURCES_PRIORITY)
}

/// The plan of a call, and the priority that is sent with it.
pub(crate) struct PriorityBinding {
    plan: Arc<Plan>,
    calling: Option<Priority>,
}

impl PriorityBinding {
    /// # Errors
    /// INV_POLICY when policies or priorities contradict each other; DATA_CONVERSION for a native
    /// priority without a CORBA priority.
    pub fn find(object: &Object, target: &Target, peer: &Arc<Peer>) -> Result<PriorityBinding> {
        let plan = object.plan(target, peer)?;
        let calling = if plan.asks_for_priority() { calling_priority(object.orb())? } else { None };
        Ok(PriorityBinding { plan, calling })
    }

    /// # Errors
    /// As [`Plan::choose`].
    pub fn choose(&self) -> Result<(&Arc<Peer>, Option<Priority>)> {
        self.plan.choose(self.calling)
    }
}

/// The priority that is sent with a call to a group: none if the reference has the server-declared
/// model. Without a model the caller's is sent, since each member's POA decides whether to use it.
///
/// # Errors
/// As [`local_priority`].
#[cfg(feature = "miop")]
pub(crate) fn group_priority(object: &Object, facts: Option<&RtComponents>) -> Result<Option<Priority>> {
    match facts.map(|facts| facts.model) {
        Some(Model::Declared(_)) => Ok(None),
        _ => calling_priority(object.orb()),
    }
}

/// The priority that is sent with a call to an object of this ORB. The rules are those of remote
/// calls.
///
/// # Errors
/// As [`PriorityBinding::find`] and [`Plan::choose`].
pub(crate) fn local_priority(object: &Object, facts: &RtComponents) -> Result<Option<Priority>> {
    let Model::Propagated(server) = facts.model else { return Ok(None) };
    let calling = calling_priority(object.orb())?;
    if let Some(bands) = &facts.bands {
        in_bands(bands, calling.unwrap_or(server))?;
    }
    Ok(calling)
}

/// The priority of this thread's calls: the CORBA priority that it has, else that of its native
/// real-time priority. `None` for an ordinary thread, which is not a real-time client. In an upcall
/// the priority transform is applied.
///
/// # Errors
/// DATA_CONVERSION (OMG|2) when the mapping has no CORBA priority for the native one, or the
/// transform has none.
///
/// # Real-time
/// One system call if the thread never set its priority, and is not one that the ORB started for a
/// connection.
pub(crate) fn calling_priority(orb: &Orb) -> Result<Option<Priority>> {
    let priority = match thread::priority() {
        Some(priority) => Some(priority),
        None => native(orb)?,
    };
    let priorities = &orb.sched().priorities;
    match (priority, priorities.transforms()) {
        // Outside of an upcall there is nothing to transform.
        (Some(priority), true) => poa::Current
            .with_object_id(|id| priorities.outbound(priority, id))
            .unwrap_or(Ok(priority))
            .map(Some),
        (priority, _) => Ok(priority),
    }
}

#[cold]
fn native(orb: &Orb) -> Result<Option<Priority>> {
    match thread::present_class().and_then(SchedClass::native_priority) {
        None => Ok(None),
        Some(native) => orb.sched().priorities.mapping().to_corba(native).map(Some).ok_or_else(unmappable),
    }
}
