//! What a POA has of real time (RT-CORBA 1.2, clause 5.7: `RTPortableServer::POA`): its policies, its thread pool, the priorities of its
//! objects, and what its references say of them.

use super::ObjectId;
use super::policies::PoaPolicies;
use crate::pool::{PoolLane, ServerResources, Threadpool};
use crate::sched::policy::{
    PriorityBand, PriorityModel, PriorityModelPolicy, Protocol, RtPolicy, to_component,
};
use crate::sched::{self, Setup, checked};
use crate::server::listens_by;
use crate::transports::At;
use crate::{Orb, Result, SystemException};
use isorb_giop::component::{Component, TaggedComponent, TaoEndpoint};
use isorb_giop::profile::TAG_INTERNET_IOP;
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::priority::{NetworkPriority, Priority};
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The real-time side of a POA that has any real-time policy.
pub(crate) struct Adapter {
    model: Option<(PriorityModel, Priority)>,
    pool: Option<Arc<Threadpool>>,
    bands: Vec<PriorityBand>,
    /// As they were set, for references.
    policies: Vec<RtPolicy>,
    /// Priorities that were given to references before there was an object.
    given: PiMutex<HashMap<ObjectId, Priority>>,
    /// Whether there are any: looked at for each request.
    gives: AtomicBool,
    /// How many there may be.
    limit: usize,
    enlisted: AtomicBool,
}

/// Policies that no POA can have; the type of the one to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub u32);

impl Adapter {
    /// In [`Unfit`] instead of a policy type: the memory of an upcall.
    pub const REGION: u32 = u32::MAX;

    /// The real-time side of a POA with these policies; `None` where they are none.
    ///
    /// # Errors
    /// [`Unfit`], which the creator of the POA hears as InvalidPolicy.
    pub fn of(
        orb: &Orb,
        resources: &ServerResources,
        policies: &PoaPolicies,
    ) -> Result<Option<Adapter>, Unfit> {
        let set = policies.rt_policies();
        if set.is_empty() {
            return Ok(None);
        }
        let (mut model, mut pool, mut bands) = (None, None, Vec::new());
        for policy in set {
            let unfit = Unfit(policy.policy_type());
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
                // Once the pool is known.
                RtPolicy::ServerProtocol(_) => {}
                RtPolicy::PriorityBands(list) => bands = list.clone(),
                RtPolicy::ClientProtocol(_) => {}
                // A client's, and of no meaning here; so are types that are not known.
                _ => return Err(unfit),
            }
        }
        for policy in set {
            if let RtPolicy::ServerProtocol(protocols) = policy
                && !protocols.iter().all(|protocol| is_served(orb, pool.as_deref(), protocol))
            {
                return Err(Unfit(policy.policy_type()));
            }
        }
        check(model, pool.as_deref(), &bands)?;
        let region = pool.as_ref().and_then(|pool| pool.region_bytes);
        if region.is_some_and(|bytes| bytes < policies.region_bytes_value()) {
            return Err(Unfit(Self::REGION));
        }
        // From here on the pool stays; it may have gone since.
        if let Some(pool) = &pool
            && resources.pools.enlist(pool.id).is_none()
        {
            return Err(Unfit(sched::policy::THREAD_POOL));
        }
        let adapter = Adapter {
            enlisted: AtomicBool::new(pool.is_some()),
            model,
            pool,
            bands,
            policies: set.to_vec(),
            given: PiMutex::default(),
            gives: AtomicBool::new(false),
            limit: policies.max_objects_value() as usize,
        };
        adapter.set_up_doors(orb);
        Ok(Some(adapter))
    }

    /// Tells those who accept this POA's clients what its server protocol policy says of their sockets.
    fn set_up_doors(&self, orb: &Orb) {
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
            None => orb.rt_client().set_up(setup(self.model.map(|(_, priority)| priority))),
        }
    }

    pub fn model(&self) -> Option<(PriorityModel, Priority)> {
        self.model
    }

    pub fn pool(&self) -> Option<&Arc<Threadpool>> {
        self.pool.as_ref()
    }

    /// What the packets to a client of this POA are marked with, where its server protocol policy asks for marks.
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

    /// The POA does not use its pool any more.
    pub fn discharge(&self) {
        if self.enlisted.swap(false, Ordering::AcqRel)
            && let Some(pool) = &self.pool
        {
            pool.discharge();
        }
    }

    /// The priority that an object or a reference may have, from a number.
    ///
    /// # Errors
    /// `None` for WrongPolicy: the priority model is not server-declared. BAD_PARAM for a number that is no priority or that no lane
    /// and no band has.
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

    /// Gives a reference its priority.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|18 when it has another one; IMP_LIMIT for more of them than the POA may have objects.
    pub fn give(&self, id: &ObjectId, priority: Priority) -> Result<()> {
        self.check_given(id, priority)?;
        let mut given = self.given.lock();
        if given.len() >= self.limit && !given.contains_key(id) {
            return Err(SystemException::from(Kind::ImpLimit)
                .detail("as many references have priorities as the POA may have objects"));
        }
        given.insert(id.clone(), priority);
        self.gives.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether an object may have this priority.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|18 when its reference has another one.
    pub fn check_given(&self, id: &[u8], priority: Priority) -> Result<()> {
        match self.given(id) {
            Some(other) if other != priority => {
                Err(SystemException::new(Kind::BadInvOrder, minor::BAD_INV_ORDER_PRIORITY, Completion::No)
                    .detail(format!("the object has priority {other} already")))
            }
            _ => Ok(()),
        }
    }

    /// The priority that was given to a reference.
    pub fn given(&self, id: &[u8]) -> Option<Priority> {
        if !self.gives.load(Ordering::Acquire) {
            return None;
        }
        self.given.lock().get(id).copied()
    }

    /// Where the clients of an object connect, and what its references say about real time. `own` is the object's own priority.
    pub fn published(&self, own: Option<Priority>) -> Published {
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
        // Only a file name with a zero octet in it cannot be written; such a protocol stays unsaid.
        let components: Vec<TaggedComponent> = to_component(&policies).ok().flatten().into_iter().collect();
        let tags = self.policies.iter().find_map(|policy| match policy {
            RtPolicy::ServerProtocol(protocols) => {
                Some(protocols.iter().map(|protocol| protocol.tag).collect())
            }
            _ => None,
        });
        let Some(pool) = &self.pool else {
            return Published { at: At { tags, ..At::default() }, components };
        };
        let home = pool.lane_for(priority);
        let declared = matches!(self.model, Some((PriorityModel::ServerDeclared, _)));
        let others = || pool.lanes.iter().filter(|lane| !declared && lane.priority != home.priority);
        let lanes = |endpoint: &dyn Fn(&PoolLane) -> Option<TaoEndpoint>| -> Vec<TaggedComponent> {
            if !pool.has_lanes {
                return Vec::new();
            }
            let lanes = std::iter::once(home).chain(others()).filter_map(endpoint).collect();
            Component::TaoEndpoints(lanes).to_tagged().into_iter().collect()
        };
        let local = home.local.iter().map(|way| {
            let tag = way.route.tag;
            let at = |lane: &PoolLane| {
                let way = lane.local.iter().find(|way| way.route.tag == tag)?;
                Some(TaoEndpoint { host: way.route.address.clone(), port: 0, priority: lane.priority.get() })
            };
            (way.clone(), lanes(&at))
        });
        let local: Vec<_> = local.collect();
        // A pool whose lanes have no such doors: who comes to the ORB's tells its band and is moved to the lane of it. Without bands
        // it would be served outside the pool.
        let moved = local.is_empty() && pool.has_lanes && !self.bands.is_empty();
        let at = At {
            tcp: Some(home.address.clone()),
            of_tcp: lanes(&|lane| Some(endpoint(lane))),
            tags,
            local: (!moved).then_some(local),
        };
        Published { at, components }
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.discharge();
    }
}

/// What the references to an object say.
pub(crate) struct Published {
    /// The addresses.
    pub at: At,
    /// What all profiles say.
    pub components: Vec<TaggedComponent>,
}

fn endpoint(lane: &PoolLane) -> TaoEndpoint {
    let (host, port) = lane.address.clone();
    TaoEndpoint { host, port, priority: lane.priority.get() }
}

/// Whether anybody here answers to a protocol of a POA: the lanes of its pool, or the ORB's endpoints.
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

/// What of a POA's real-time policies must go together.
fn check(
    model: Option<(PriorityModel, Priority)>,
    pool: Option<&Threadpool>,
    bands: &[PriorityBand],
) -> Result<(), Unfit> {
    use sched::policy::{PRIORITY_BANDED_CONNECTION, PRIORITY_MODEL, THREAD_POOL};
    let lanes = pool.filter(|pool| pool.has_lanes);
    let Some((kind, priority)) = model else {
        if lanes.is_some() {
            return Err(Unfit(THREAD_POOL));
        }
        return if bands.is_empty() { Ok(()) } else { Err(Unfit(PRIORITY_BANDED_CONNECTION)) };
    };
    let declared = kind == PriorityModel::ServerDeclared;
    if declared && !bands.is_empty() && !covered(bands, priority) {
        return Err(Unfit(PRIORITY_BANDED_CONNECTION));
    }
    if let Some(pool) = lanes {
        let of_a_lane = |band: &PriorityBand| {
            pool.lanes.iter().any(|lane| covered(std::slice::from_ref(band), lane.priority))
        };
        if !bands.iter().all(of_a_lane) {
            return Err(Unfit(PRIORITY_BANDED_CONNECTION));
        }
        if declared && pool.lane(priority).is_none() {
            return Err(Unfit(PRIORITY_MODEL));
        }
    }
    Ok(())
}
