//! The real-time properties of a POA (RT-CORBA 1.2: `RTPortableServer::POA`): its
//! policies, its thread pool, the priorities of its objects, and the components of its references.

use super::ObjectId;
use super::policies::PoaPolicies;
use crate::pool::{PoolLane, ServerResources, Threadpool};
use crate::sched::policy::{
    PriorityBand, PriorityModel, PriorityModelPolicy, Protocol, RtPolicy, to_component,
};
use crate::sched::{self, Setup, checked};
use crate::server::listens_by;
use crate::transports::ReferenceAddresses;
use crate::{Orb, Result, SystemException};
use isorb_giop::component::TaggedComponent;
use isorb_giop::lane_endpoints::{self, LaneEndpoint};
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::priority::{NetworkPriority, Priority};
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The real-time properties of a POA with real-time policies.
pub(crate) struct Adapter {
    model: Option<(PriorityModel, Priority)>,
    pool: Option<Arc<Threadpool>>,
    bands: Vec<PriorityBand>,
    /// As set by the program, for references.
    policies: Vec<RtPolicy>,
    /// Priorities assigned to references before their objects exist.
    assigned: PiMutex<HashMap<ObjectId, Priority>>,
    /// Whether there are any; read for each request.
    has_assigned: AtomicBool,
    /// Their limit.
    limit: usize,
    acquired: AtomicBool,
}

/// A policy that no POA can have, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRtPolicy(pub u32);

impl Adapter {
    /// In [`InvalidRtPolicy`] instead of a policy type: the memory of an upcall.
    pub const REGION: u32 = u32::MAX;

    /// The real-time properties of a POA with these policies; `None` without any.
    ///
    /// # Errors
    /// [`InvalidRtPolicy`], which the creator of the POA gets as InvalidPolicy.
    pub fn of(
        orb: &Orb,
        resources: &ServerResources,
        policies: &PoaPolicies,
    ) -> Result<Option<Adapter>, InvalidRtPolicy> {
        let set = policies.rt_policies();
        if set.is_empty() {
            return Ok(None);
        }
        let (mut model, mut pool, mut bands) = (None, None, Vec::new());
        for policy in set {
            let unfit = InvalidRtPolicy(policy.policy_type());
            policy.check().map_err(|_| unfit)?;
            match policy {
                RtPolicy::PriorityModel(PriorityModelPolicy { model: kind, server_priority }) => {
                    let priority = checked(*server_priority).map_err(|_| unfit)?;
                    orb.sched().priorities.class(priority).map_err(|_| unfit)?;
                    model = Some((*kind, priority));
                }
                RtPolicy::ThreadPool(id) => {
                    pool = Some(resources.pools.find(*id).ok_or(unfit)?);
                }
                // Checked below, once the pool is known.
                RtPolicy::ServerProtocol(_) => {}
                RtPolicy::PriorityBands(list) => bands = list.clone(),
                RtPolicy::ClientProtocol(_) => {}
                // A client's policy, without meaning here; unknown types too.
                _ => return Err(unfit),
            }
        }
        for policy in set {
            if let RtPolicy::ServerProtocol(protocols) = policy
                && !protocols.iter().all(|protocol| is_served(orb, pool.as_deref(), protocol))
            {
                return Err(InvalidRtPolicy(policy.policy_type()));
            }
        }
        check(model, pool.as_deref(), &bands)?;
        let region = pool.as_ref().and_then(|pool| pool.region_bytes);
        if region.is_some_and(|bytes| bytes < policies.region_bytes_value()) {
            return Err(InvalidRtPolicy(Self::REGION));
        }
        // From here on the pool cannot be destroyed; it may have been until now.
        if let Some(pool) = &pool
            && resources.pools.acquire(pool.id).is_none()
        {
            return Err(InvalidRtPolicy(sched::policy::THREAD_POOL));
        }
        let adapter = Adapter {
            acquired: AtomicBool::new(pool.is_some()),
            model,
            pool,
            bands,
            policies: set.to_vec(),
            assigned: PiMutex::default(),
            has_assigned: AtomicBool::new(false),
            limit: policies.max_objects_value() as usize,
        };
        adapter.configure_acceptors(orb);
        Ok(Some(adapter))
    }

    /// Configures the acceptors of this POA's clients with the sockets' properties of its server
    /// protocol policy.
    fn configure_acceptors(&self, orb: &Orb) {
        let Some(protocols) = self.policies.iter().find_map(|policy| match policy {
            RtPolicy::ServerProtocol(protocols) => Some(protocols),
            _ => None,
        }) else {
            return;
        };
        let setup = |priority: Option<Priority>| Setup {
            protocols: protocols.as_slice().into(),
            marks: priority.and_then(|priority| self.marks(orb, priority)),
            ..Setup::default()
        };
        match &self.pool {
            Some(pool) => pool.lanes.iter().for_each(|lane| {
                if let Some(server) = lane.lane().server() {
                    server.set_socket_setup(setup(Some(lane.priority)));
                }
            }),
            None => {
                let setup = orb.rt_client().set_up(setup(self.model.map(|(_, priority)| priority)));
                if let (Some(setup), Some(endpoints)) = (setup, orb.endpoints()) {
                    endpoints.prepare(setup);
                }
            }
        }
    }

    pub fn model(&self) -> Option<(PriorityModel, Priority)> {
        self.model
    }

    pub fn pool(&self) -> Option<&Arc<Threadpool>> {
        self.pool.as_ref()
    }

    /// The marks of packets to a client of this POA, if its server protocol policy asks for them.
    pub fn marks(&self, orb: &Orb, priority: Priority) -> Option<NetworkPriority> {
        let wants = |policy: &RtPolicy| match policy {
            RtPolicy::ServerProtocol(protocols) => {
                protocols.iter().any(|protocol| protocol.properties.network_priority())
            }
            _ => false,
        };
        if !self.policies.iter().any(wants) {
            return None;
        }
        orb.network_priority_mapping().to_network(priority)
    }

    /// The POA stops using its pool.
    pub fn release(&self) {
        if self.acquired.swap(false, Ordering::AcqRel)
            && let Some(pool) = &self.pool
        {
            pool.release();
        }
    }

    /// A number as the priority of an object or a reference.
    ///
    /// # Errors
    /// `None` for WrongPolicy: the priority model is not server-declared. BAD_PARAM for an invalid
    /// priority, and for one that no lane and no band has.
    pub fn own_priority(&self, priority: i16) -> Option<Result<Priority>> {
        let Some((PriorityModel::ServerDeclared, _)) = self.model else { return None };
        Some(checked(priority).and_then(|priority| {
            let lanes = self.pool.as_ref().filter(|pool| pool.has_lanes);
            if lanes.is_some_and(|pool| pool.lane(priority).is_none()) {
                return Err(SystemException::from(Kind::BadParam)
                    .detail(format!("no lane of the POA's thread pool has priority {priority}")));
            }
            if !self.bands.is_empty() && !covered(&self.bands, priority) {
                return Err(SystemException::from(Kind::BadParam)
                    .detail(format!("no priority band of the POA has priority {priority}")));
            }
            Ok(priority)
        }))
    }

    /// Assigns a priority to a reference.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|18 for another priority than before; IMP_LIMIT for more
    /// than the POA may have objects.
    pub fn assign(&self, id: &ObjectId, priority: Priority) -> Result<()> {
        self.check_assigned(id, priority)?;
        let mut given = self.assigned.lock();
        if given.len() >= self.limit && !given.contains_key(id) {
            return Err(SystemException::from(Kind::ImpLimit)
                .detail("as many references have priorities as the POA may have objects"));
        }
        given.insert(id.clone(), priority);
        self.has_assigned.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether an object may have this priority.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|18 if its reference has another one.
    pub fn check_assigned(&self, id: &[u8], priority: Priority) -> Result<()> {
        match self.assigned(id) {
            Some(other) if other != priority => {
                Err(SystemException::new(Kind::BadInvOrder, minor::BAD_INV_ORDER_PRIORITY, Completion::No)
                    .detail(format!("the object has priority {other} already")))
            }
            _ => Ok(()),
        }
    }

    /// The priority assigned to a reference.
    pub fn assigned(&self, id: &[u8]) -> Option<Priority> {
        if !self.has_assigned.load(Ordering::Acquire) {
            return None;
        }
        self.assigned.lock().get(id).copied()
    }

    /// The addresses and real-time components of an object's references. `own` is the object's own
    /// priority.
    pub fn published(&self, own: Option<Priority>) -> ReferenceContents {
        let priority = own.or(self.model.map(|(_, priority)| priority));
        let policies: Vec<RtPolicy> = self
            .policies
            .iter()
            .map(|policy| match (policy, own) {
                (RtPolicy::PriorityModel(model), Some(own)) => {
                    RtPolicy::PriorityModel(PriorityModelPolicy { server_priority: own.get(), ..*model })
                }
                _ => policy.clone(),
            })
            .collect();
        // Only a file name with a zero octet cannot be written; such a protocol is omitted.
        let components: Vec<TaggedComponent> = to_component(&policies).ok().flatten().into_iter().collect();
        let tags = self.policies.iter().find_map(|policy| match policy {
            RtPolicy::ServerProtocol(protocols) => {
                Some(protocols.iter().map(|protocol| protocol.tag).collect())
            }
            _ => None,
        });
        let Some(pool) = &self.pool else {
            return ReferenceContents {
                at: ReferenceAddresses { tags, ..ReferenceAddresses::default() },
                components,
            };
        };
        let home = pool.lane_for(priority);
        let declared = matches!(self.model, Some((PriorityModel::ServerDeclared, _)));
        let others = || pool.lanes.iter().filter(|lane| !declared && lane.priority != home.priority);
        let lanes = |tag, endpoint: &dyn Fn(&PoolLane) -> Option<LaneEndpoint>| -> Vec<TaggedComponent> {
            if !pool.has_lanes {
                return Vec::new();
            }
            let lanes: Vec<_> = std::iter::once(home).chain(others()).filter_map(endpoint).collect();
            lane_endpoints::write(tag, &lanes).ok().flatten().into_iter().collect()
        };
        let local = home.local.iter().map(|way| {
            let tag = way.route.tag;
            let at = |lane: &PoolLane| {
                let way = lane.local.iter().find(|way| way.route.tag == tag)?;
                let (address, priority) = (way.route.address.clone(), lane.priority.get());
                Some(LaneEndpoint { address, port: 0, priority })
            };
            (way.clone(), lanes(tag, &at))
        });
        let local: Vec<_> = local.collect();
        // A pool without local endpoints: a client at the ORB's own endpoint announces its band,
        // and its connection moves to the band's lane. Without bands it would be served outside the
        // pool.
        let moved = local.is_empty() && pool.has_lanes && !self.bands.is_empty();
        let at = ReferenceAddresses {
            tcp: Some(home.address.clone()),
            of_tcp: lanes(TAG_INTERNET_IOP, &|lane| Some(endpoint(lane))),
            tags,
            local: (!moved).then_some(local),
        };
        ReferenceContents { at, components }
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.release();
    }
}

/// The contents of an object's references.
pub(crate) struct ReferenceContents {
    /// The addresses.
    pub at: ReferenceAddresses,
    /// The components of all profiles.
    pub components: Vec<TaggedComponent>,
}

fn endpoint(lane: &PoolLane) -> LaneEndpoint {
    let (address, port) = lane.address.clone();
    LaneEndpoint { address, port, priority: lane.priority.get() }
}

/// Whether a protocol of a POA is served: by the lanes of its pool, or the ORB's endpoints.
fn is_served(orb: &Orb, pool: Option<&Threadpool>, protocol: &Protocol) -> bool {
    let at = |lane: &PoolLane| lane.local.iter().any(|way| way.route.tag == protocol.tag);
    match pool {
        _ if protocol.tag == TAG_INTERNET_IOP => true,
        Some(pool) => pool.lanes.iter().all(at),
        None => listens_by(orb, protocol.tag),
    }
}

fn covered(bands: &[PriorityBand], priority: Priority) -> bool {
    bands.iter().any(|band| (band.low..=band.high).contains(&priority.get()))
}

/// Checks the constraints between a POA's real-time policies.
fn check(
    model: Option<(PriorityModel, Priority)>,
    pool: Option<&Threadpool>,
    bands: &[PriorityBand],
) -> Result<(), InvalidRtPolicy> {
    use sched::policy::{PRIORITY_BANDED_CONNECTION, PRIORITY_MODEL, THREAD_POOL};
    let lanes = pool.filter(|pool| pool.has_lanes);
    let Some((kind, priority)) = model else {
        if lanes.is_some() {
            return Err(InvalidRtPolicy(THREAD_POOL));
        }
        return if bands.is_empty() { Ok(()) } else { Err(InvalidRtPolicy(PRIORITY_BANDED_CONNECTION)) };
    };
    let declared = kind == PriorityModel::ServerDeclared;
    if declared && !bands.is_empty() && !covered(bands, priority) {
        return Err(InvalidRtPolicy(PRIORITY_BANDED_CONNECTION));
    }
    if let Some(pool) = lanes {
        let of_a_lane = |band: &PriorityBand| {
            pool.lanes.iter().any(|lane| covered(std::slice::from_ref(band), lane.priority))
        };
        if !bands.iter().all(of_a_lane) {
            return Err(InvalidRtPolicy(PRIORITY_BANDED_CONNECTION));
        }
        if declared && pool.lane(priority).is_none() {
            return Err(InvalidRtPolicy(PRIORITY_MODEL));
        }
    }
    Ok(())
}
