//! The connections of a reference by priority: computed once for each set of overrides, then only
//! looked up.

use super::overrides::Overrides;
use super::reference::{Model, RtComponents};
use crate::peer::Peers;
use crate::peer::{Peer, Routes};
use crate::sched::Setup;
use crate::sched::policy::{PriorityBand, Protocol, RtPolicy};
use crate::transports::{self, Transports};
use crate::{Result, SystemException};
use isorb_giop::{Ior, Kind, minor};
use isorb_rt::priority::{NetworkPriorityMapping, Priority};
use isorb_rt::sync::PiMutex;
use std::sync::Arc;

/// The overrides of a plan: those of the object, the thread and the ORB, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub object: u64,
    pub thread: u64,
    pub orb: u64,
}

/// The effective policies of a reference, and its connections under them.
#[derive(Debug)]
pub(crate) struct Plan {
    model: Model,
    connections: ConnectionSet,
}

#[derive(Debug)]
enum ConnectionSet {
    /// One for all priorities.
    One(Arc<Peer>),
    /// One for each band.
    Bands(Box<[(PriorityBand, Arc<Peer>)]>),
    /// One for each lane; calls without a priority take the last.
    Lanes(Box<[(Priority, Arc<Peer>)]>, Arc<Peer>),
}

/// The input of a plan.
pub(crate) struct PlanInput<'p> {
    pub facts: &'p RtComponents,
    pub overrides: &'p Overrides,
    pub ior: &'p Ior,
    /// The routes to the object without any policy.
    pub routes: &'p Routes,
    /// Identifies the reference if its connections are private.
    pub reference: u64,
    pub transports: &'p Transports,
    pub peers: &'p Peers,
    pub mapping: &'p dyn NetworkPriorityMapping,
}

/// Policies of the reference and the client that exclude each other.
#[derive(Debug, PartialEq)]
pub(crate) struct Conflict {
    pub policies: Vec<RtPolicy>,
    pub sentence: &'static str,
}

impl From<Conflict> for SystemException {
    fn from(conflict: Conflict) -> SystemException {
        SystemException::from(Kind::InvPolicy)
            .minor(minor::INV_POLICY_RECONCILE)
            .detail(conflict.sentence.to_string())
    }
}

impl Plan {
    /// Computes the plan.
    ///
    /// # Errors
    /// [`Conflict`], INV_POLICY to a caller.
    pub fn make(parts: &PlanInput<'_>) -> Result<Plan, Conflict> {
        let PlanInput { facts, overrides, ior, routes, reference, transports, peers, mapping } = parts;
        let bands = reconcile_bands(facts.bands.as_deref(), overrides.bands())?;
        let protocols = reconcile_protocols(facts.protocols.as_deref(), overrides.protocols())?;
        let own = match &protocols[..] {
            [] => (*routes).clone(),
            wanted => {
                let order: Vec<u32> = wanted.iter().map(|protocol| protocol.tag).collect();
                let found = transports::find(ior, transports, &order);
                found.ok_or_else(|| no_protocol(wanted))?.routes
            }
        };
        let marked = protocols.iter().any(|protocol| protocol.properties.network_priority());
        let peer = |routes: Routes, band: Option<PriorityBand>, priority: Option<Priority>| {
            let marks = priority.filter(|_| marked).and_then(|p| mapping.to_network(p));
            let private = if overrides.private() { *reference } else { 0 };
            peers.get(routes, Setup { band, private, protocols: protocols.clone(), marks })
        };
        // Only lanes at addresses of used protocols, the preferred ones first.
        let mut tags: Vec<u32> = Vec::new();
        own.iter().for_each(|route| {
            if !tags.contains(&route.tag) {
                tags.push(route.tag);
            }
        });
        let of_tag = |tag: u32| facts.lanes.iter().filter(move |(_, lane)| lane.tag == tag);
        let has_lanes = |tag: &u32| of_tag(*tag).next().is_some();
        let laned: Vec<u32> = tags.iter().copied().filter(has_lanes).collect();
        let lanes_within = |band: &PriorityBand| -> Option<Routes> {
            let inside = |tag: u32| {
                let mut inside: Vec<_> = of_tag(tag).filter(|(priority, _)| holds(band, *priority)).collect();
                // The highest-priority lane of the band takes its requests, so that none runs below
                // its own lane.
                inside.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
                inside.into_iter().map(|(_, route)| route.clone())
            };
            let found: Routes = laned.iter().flat_map(|tag| inside(*tag)).collect();
            (!found.is_empty()).then_some(found)
        };
        // If a protocol has no lanes of its own, the server moves a connection to the lane of its
        // band.
        let with_moved = |lanes: Routes| -> Routes {
            let of = |tag: &u32| match laned.contains(tag) {
                true => lanes.iter().filter(|route| route.tag == *tag).cloned().collect::<Vec<_>>(),
                false => own.iter().filter(|route| route.tag == *tag).cloned().collect(),
            };
            tags.iter().flat_map(of).collect()
        };
        let connections = match (bands, facts.model) {
            (Some(bands), _) => {
                let way = |band: &PriorityBand| {
                    let at = lanes_within(band).map_or_else(|| own.clone(), with_moved);
                    // The highest-priority call of the band must not travel below its class.
                    (*band, peer(at, Some(*band), Priority::new(band.high)))
                };
                ConnectionSet::Bands(bands.iter().map(way).collect())
            }
            (None, Model::Propagated(server)) if !laned.is_empty() => {
                let mut priorities: Vec<Priority> = Vec::new();
                for (priority, _) in laned.iter().flat_map(|tag| of_tag(*tag)) {
                    if !priorities.contains(priority) {
                        priorities.push(*priority);
                    }
                }
                let way = |priority: &Priority| {
                    let exactly = PriorityBand { low: priority.get(), high: priority.get() };
                    (*priority, peer(lanes_within(&exactly).unwrap_or_default(), None, Some(*priority)))
                };
                let connections: Box<[_]> = priorities.iter().map(way).collect();
                let usual = connections.iter().find(|(priority, _)| *priority == server);
                let usual =
                    usual.map_or_else(|| peer(own.clone(), None, Some(server)), |(_, peer)| peer.clone());
                ConnectionSet::Lanes(connections, usual)
            }
            (None, Model::Declared(server)) => {
                let band = PriorityBand { low: server.get(), high: server.get() };
                let at = lanes_within(&band).unwrap_or_else(|| own.clone());
                ConnectionSet::One(peer(at, None, Some(server)))
            }
            (None, Model::Propagated(server)) => ConnectionSet::One(peer(own, None, Some(server))),
            (None, Model::None) => ConnectionSet::One(peer(own, None, None)),
        };
        Ok(Plan { model: facts.model, connections })
    }

    /// The connection of a call from a thread with this priority, and the priority that travels
    /// with the call.
    ///
    /// # Errors
    /// INV_POLICY for a priority outside the bands; NO_RESOURCES (OMG|2) for one that no lane has.
    ///
    /// # Real-time
    /// Linear in the number of bands or lanes; does not allocate.
    pub fn choose(&self, calling: Option<Priority>) -> Result<(&Arc<Peer>, Option<Priority>)> {
        let (effective, travels) = match self.model {
            Model::None => (calling, None),
            Model::Propagated(server) => (Some(calling.unwrap_or(server)), calling),
            Model::Declared(server) => (Some(server), None),
        };
        let peer = match &self.connections {
            ConnectionSet::One(peer) => peer,
            ConnectionSet::Bands(bands) => {
                let priority = effective.unwrap_or_default();
                let band = bands.iter().find(|(band, _)| holds(band, priority));
                &band.ok_or_else(|| outside(priority))?.1
            }
            ConnectionSet::Lanes(lanes, own) => match travels {
                None => own,
                Some(priority) => {
                    let lane = lanes.iter().find(|(lane, _)| *lane == priority);
                    &lane.ok_or_else(|| no_lane(priority))?.1
                }
            },
        };
        Ok((peer, travels))
    }

    /// Whether calls depend on the thread's priority.
    #[inline]
    pub fn asks_for_priority(&self) -> bool {
        !matches!(
            (self.model, &self.connections),
            (Model::Declared(_), _) | (Model::None, ConnectionSet::One(_))
        )
    }

    /// The peers of all connections.
    pub fn peers(&self) -> Vec<&Arc<Peer>> {
        match &self.connections {
            ConnectionSet::One(peer) => vec![peer],
            ConnectionSet::Bands(bands) => bands.iter().map(|(_, peer)| peer).collect(),
            ConnectionSet::Lanes(lanes, own) => {
                let lanes = lanes.iter().map(|(_, peer)| peer);
                lanes.chain([own].into_iter().filter(|own| !self.has_lane(own))).collect()
            }
        }
    }

    fn has_lane(&self, peer: &Arc<Peer>) -> bool {
        matches!(&self.connections, ConnectionSet::Lanes(lanes, _) if lanes.iter().any(|(_, lane)| Arc::ptr_eq(lane, peer)))
    }
}

fn holds(band: &PriorityBand, priority: Priority) -> bool {
    (band.low..=band.high).contains(&priority.get())
}

/// Either side may set bands; both only if they are equal.
pub(crate) fn reconcile_bands<'b>(
    server: Option<&'b [PriorityBand]>,
    client: Option<&'b [PriorityBand]>,
) -> Result<Option<&'b [PriorityBand]>, Conflict> {
    match (server, client) {
        (Some(server), Some(client)) if server != client => Err(Conflict {
            policies: vec![RtPolicy::PriorityBands(client.into())],
            sentence: "the client's priority bands are not those of the reference",
        }),
        (server, client) => Ok(client.or(server)),
    }
}

/// The client's protocols that the server also allows, in the client's order; if only one side
/// names any, those of that side.
pub(crate) fn reconcile_protocols(
    server: Option<&[Protocol]>,
    client: Option<&[Protocol]>,
) -> Result<Box<[Protocol]>, Conflict> {
    let Some(wanted) = client.or(server) else { return Ok(Box::default()) };
    let allowed = |protocol: &&Protocol| {
        server.is_none_or(|server| server.iter().any(|other| other.tag == protocol.tag))
    };
    let both: Box<[Protocol]> = wanted.iter().filter(allowed).cloned().collect();
    if both.is_empty() { Err(no_protocol(wanted)) } else { Ok(both) }
}

fn no_protocol(wanted: &[Protocol]) -> Conflict {
    Conflict {
        policies: vec![RtPolicy::ClientProtocol(wanted.into())],
        sentence: "the reference has no address here for any of the protocols that the client and the server allow",
    }
}

/// Checks that a priority lies in one of the bands.
///
/// # Errors
/// INV_POLICY.
pub(crate) fn in_bands(bands: &[PriorityBand], priority: Priority) -> Result<()> {
    if bands.iter().any(|band| holds(band, priority)) { Ok(()) } else { Err(outside(priority)) }
}

#[cold]
fn outside(priority: Priority) -> SystemException {
    SystemException::from(Kind::InvPolicy)
        .minor(minor::INV_POLICY_RECONCILE)
        .detail(format!("priority {priority} lies in none of the priority bands"))
}

#[cold]
fn no_lane(priority: Priority) -> SystemException {
    SystemException::from(Kind::NoResources)
        .minor(minor::NO_RESOURCES_PRIORITY)
        .detail(format!("the server has no lane for priority {priority}, and no bands say which takes it"))
}

/// The plans of one resolved reference.
#[derive(Default)]
pub(crate) struct Plans(PiMutex<Vec<(Key, Arc<Plan>)>>);

/// The number of cached sets of overrides; with more, the oldest plan is computed again.
const REMEMBERED: usize = 8;

impl Plans {
    /// The plan under these overrides, computed if it is not cached.
    ///
    /// # Errors
    /// The error of `make`.
    ///
    /// # Real-time
    /// One PI lock and a short search; a first call under a set of overrides allocates.
    pub fn get<E>(&self, key: Key, make: impl FnOnce() -> Result<Plan, E>) -> Result<Arc<Plan>, E> {
        if let Some((_, plan)) = self.0.lock().iter().find(|(known, _)| *known == key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(make()?);
        let mut known = self.0.lock();
        let oldest = if known.len() == REMEMBERED { Some(known.remove(0)) } else { None };
        known.push((key, plan.clone()));
        drop(known);
        drop(oldest);
        Ok(plan)
    }
}
