//! The coordinator: the directory of areas, their nodes and the nodes' servers.
//!
//! Values flow without it. It is called when an area is created or attached. It stores each change
//! on disk before it answers. A server that the coordinator does not know registers with all of its
//! areas, so an empty store fills itself again.

mod owners;
mod store;

pub use owners::PeerLimits;
pub use store::{CoordinatorStore, FileStore, MemoryStore, StoreError};

use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{
    Area, AreaExists, AreaView, AreasView, CRM_CommRef, Glob_Comm, Glob_CommRef, NamesView, NodeView,
    NodesView, PlacementView, PlacementsView, Unavailable, UnknownArea, UnknownNode, glob_comm,
};
use crate::node::{area_view, owned_area};
use crate::pattern::matches;
use isorb::poa::PoaPolicies;
use isorb::poa::policies::{IdAssignment, Lifespan};
use isorb::{Kind, Orb, Reference, Result, SystemException, Upcall};
use isorb_access::{Permission, Subject, authorize, authorize_owner};
use isorb_giop::{IiopProfile, Ior};
use isorb_rt::sync::PiMutex;
use owners::Owners;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The key in `corbaloc::host:port/ReflectiveMemory`.
pub const KEY: &str = "ReflectiveMemory";

/// How long a server may take to answer a ping.
const ANSWER: Duration = Duration::from_secs(1);

/// A node in the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeEntry {
    /// Its name.
    pub name: String,
    /// A new number for each start of its server.
    pub incarnation: u64,
    /// The stringified reference of its server.
    pub server: String,
}

/// An area in the directory.
#[derive(Clone, PartialEq, Debug)]
pub struct AreaLocation {
    /// Name, size and histories.
    pub area: Area,
    /// The node that holds it.
    pub node: String,
}

/// A coordinator in an ORB.
#[derive(Debug)]
pub struct Coordinator {
    object: Glob_CommRef,
}

impl Coordinator {
    /// Starts a coordinator in an ORB, reachable as `corbaloc::host:port/ReflectiveMemory`.
    ///
    /// # Errors
    /// The errors of creating its POA.
    pub fn start(orb: &Orb, store: Arc<dyn CoordinatorStore>) -> Result<Coordinator> {
        Coordinator::start_with(orb, store, PeerLimits::default())
    }

    /// As [`start`](Self::start), with limits for each client. A registration above them is
    /// IMP_LIMIT.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        orb: &Orb,
        store: Arc<dyn CoordinatorStore>,
        limits: PeerLimits,
    ) -> Result<Coordinator> {
        let policies = PoaPolicies::new().lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User);
        let root = orb.root_poa()?;
        let internal =
            |error: &dyn fmt::Display| SystemException::from(Kind::Internal).detail(error.to_string());
        let poa = root
            .create_poa("crm-coordinator", Some(&root.manager()), policies)
            .map_err(|error| internal(&error))?;
        let servant = Arc::new(Service { store, changing: PiMutex::new(Owners::new(limits)) });
        let object: Glob_CommRef =
            poa.activate_with_id(KEY.as_bytes(), servant).map_err(|error| internal(&error))?;
        orb.register_corbaloc_key(KEY, object.object());
        root.manager().activate().map_err(|error| internal(&error))?;
        Ok(Coordinator { object })
    }

    /// The operations for node servers.
    pub fn object(&self) -> &Glob_CommRef {
        &self.object
    }
}

struct Service {
    store: Arc<dyn CoordinatorStore>,
    /// Held from a query of the store to the change that depends on it.
    changing: PiMutex<Owners>,
}

impl Service {
    fn server(&self, cx: Upcall<'_>, entry: &NodeEntry) -> Result<CRM_CommRef> {
        Ok(cx.orb().string_to_object(&entry.server)?.unchecked_narrow())
    }

    /// Two servers with one name would replace each other for ever, with their areas. So the second
    /// is refused while the first answers.
    fn has_no_other(
        &self,
        cx: Upcall<'_>,
        what: &NodeView<'_>,
        server: &str,
    ) -> Result<(), glob_comm::RegisterNodeError> {
        let nodes = self.store.nodes().map_err(SystemException::from)?;
        let named = nodes.iter().find(|node| node.name == what.name);
        let other = named.filter(|node| node.incarnation != what.incarnation && node.server != server);
        let Some(other) = other else { return Ok(()) };
        let pinged = crate::node::timed(&self.server(cx, other)?, ANSWER);
        match pinged.ping() {
            Ok(()) => Err(Unavailable {
                reason: format!(
                    "there is a node {} already, and its server answers; each needs a name of its own",
                    what.name
                ),
                temporary: false,
            }
            .into()),
            Err(_) => Ok(()),
        }
    }

    /// Checks that a caller may unregister a node or an area of it: the process at the node's
    /// address, unless a policy says otherwise.
    fn authorize_node(&self, cx: Upcall<'_>, node: &str, subject: &str) -> Result<()> {
        let entry = self.store.nodes()?.into_iter().find(|entry| entry.name == node);
        let hosts = entry.map_or_else(Vec::new, |entry| hosts(&entry.server));
        authorize_owner(cx, Permission::Write, Subject::Name(subject), hosts)
    }

    fn known(&self, node: &str) -> Result<bool> {
        Ok(self.store.nodes()?.iter().any(|entry| entry.name == node))
    }
}

/// The hosts in a stringified reference.
fn hosts(reference: &str) -> Vec<String> {
    let Ok(ior) = reference.parse::<Ior>() else { return Vec::new() };
    let profiles = ior.profiles.iter().filter_map(|profile| IiopProfile::parse(&profile.data).ok());
    profiles.flat_map(|of| of.addresses().collect::<Vec<_>>()).map(|(host, _)| host).collect()
}

impl From<StoreError> for SystemException {
    fn from(error: StoreError) -> SystemException {
        SystemException::from(Kind::PersistStore).detail(error.to_string())
    }
}

impl Glob_Comm for Service {
    fn register_node<'u>(
        &'u self,
        cx: Upcall<'u>,
        what: NodeView<'u>,
        held: AreasView<'u>,
    ) -> Result<NamesView<'u>, glob_comm::RegisterNodeError> {
        for area in held {
            authorize(cx, Permission::Write, Subject::Name(area.name))?;
        }
        let server = what.server.ok_or(SystemException::from(Kind::BadParam))?.object().to_string();
        // Without the lock, so that a slow answer does not delay other calls.
        self.has_no_other(cx, &what, &server)?;
        let mut owners = self.changing.lock();
        let node = NodeEntry { name: what.name.into(), incarnation: what.incarnation, server };
        let is_new = !self.known(&node.name)?;
        let mut locations = self.store.areas().map_err(SystemException::from)?;
        // An area belongs to the node that registered it.
        let (lost, kept): (Vec<&AreaView<'u>>, Vec<&AreaView<'u>>) = held.iter().partition(|area| {
            locations.iter().any(|location| location.area.name == area.name && location.node != node.name)
        });
        let is_known = |name: &str| locations.iter().any(|location| location.area.name == name);
        let new = kept.iter().map(|area| area.name).filter(|name| !is_known(name));
        let added = owners.add(cx, is_new, new)?;
        locations.retain(|location| {
            location.node == node.name && !kept.iter().any(|area| area.name == location.area.name)
        });
        let kept = kept.iter().map(|area| owned_area(area)).collect::<Vec<_>>();
        let forgotten = locations.into_iter().map(|location| location.area.name).collect::<Vec<_>>();
        fail_point(FailPoint::NodeCame);
        self.store.set_node(&node, &kept, &forgotten).map_err(SystemException::from)?;
        owners.keep(&node.name, added);
        forgotten.iter().for_each(|area| owners.area_removed(area));
        drop(owners);
        fail_point(FailPoint::NodeStored);
        let lost: Vec<&'u str> = lost.iter().map(|area| area.name).collect();
        Ok(cx.slice(&lost)?)
    }

    fn alive(&self, _: Upcall<'_>, name: &str, incarnation: u64) -> Result<(), glob_comm::AliveError> {
        let nodes = self.store.nodes().map_err(SystemException::from)?;
        match nodes.iter().any(|node| node.name == name && node.incarnation == incarnation) {
            true => Ok(()),
            false => Err(UnknownNode { name: name.into() }.into()),
        }
    }

    fn unregister_node(&self, cx: Upcall<'_>, name: &str, incarnation: u64) -> Result<()> {
        self.authorize_node(cx, name, name)?;
        let mut owners = self.changing.lock();
        if self.store.nodes()?.iter().any(|node| node.name == name && node.incarnation == incarnation) {
            self.store.remove_node(name)?;
            owners.node_removed(name);
        }
        Ok(())
    }

    fn register_area(
        &self,
        cx: Upcall<'_>,
        node: &str,
        what: AreaView<'_>,
    ) -> Result<(), glob_comm::RegisterAreaError> {
        authorize(cx, Permission::Write, Subject::Name(what.name))?;
        let mut owners = self.changing.lock();
        if !self.known(node)? {
            return Err(UnknownNode { name: node.into() }.into());
        }
        let what = owned_area(&what);
        let registered = self.store.area(&what.name).map_err(SystemException::from)?;
        if let Some(location) = &registered {
            // The same area of the same node: the earlier answer was lost.
            if location.node != node || location.area != what {
                return Err(AreaExists { what: location.area.clone() }.into());
            }
        }
        let added = owners.add(cx, false, registered.is_none().then_some(what.name.as_str()))?;
        let location = AreaLocation { area: what, node: node.into() };
        fail_point(FailPoint::AreaCame);
        self.store.set_area(&location).map_err(SystemException::from)?;
        owners.keep(node, added);
        drop(owners);
        fail_point(FailPoint::AreaStored);
        Ok(())
    }

    fn unregister_area(&self, cx: Upcall<'_>, node: &str, name: &str) -> Result<()> {
        self.authorize_node(cx, node, name)?;
        let mut owners = self.changing.lock();
        if self.store.area(name)?.is_some_and(|location| location.node == node) {
            fail_point(FailPoint::AreaLeaves);
            self.store.remove_area(name)?;
            owners.area_removed(name);
            fail_point(FailPoint::AreaForgotten);
        }
        Ok(())
    }

    fn locate<'u>(&'u self, cx: Upcall<'u>, name: &'u str) -> Result<NodeView<'u>, glob_comm::LocateError> {
        let unknown = || glob_comm::LocateError::from(UnknownArea { name: name.into(), node: String::new() });
        let location = self.store.area(name).map_err(SystemException::from)?.ok_or_else(unknown)?;
        let nodes = self.store.nodes().map_err(SystemException::from)?;
        let node = nodes.into_iter().find(|node| node.name == location.node).ok_or_else(unknown)?;
        fail_point(FailPoint::Located);
        let server = cx.keep(self.server(cx, &node)?)?;
        Ok(NodeView { name: cx.str(&node.name)?, incarnation: node.incarnation, server: Some(server) })
    }

    fn list_nodes<'u>(&'u self, cx: Upcall<'u>) -> Result<NodesView<'u>> {
        let mut views = Vec::new();
        for node in self.store.nodes()? {
            let server = cx.keep(self.server(cx, &node)?)?;
            views.push(NodeView {
                name: cx.str(&node.name)?,
                incarnation: node.incarnation,
                server: Some(server),
            });
        }
        cx.slice(&views)
    }

    fn list_areas<'u>(&'u self, cx: Upcall<'u>) -> Result<PlacementsView<'u>> {
        let locations = cx.keep(self.store.areas()?)?;
        let views: Vec<PlacementView<'u>> = locations
            .iter()
            .map(|location| PlacementView { what: area_view(&location.area), node: &location.node })
            .collect();
        cx.slice(&views)
    }

    fn find_areas<'u>(&'u self, cx: Upcall<'u>, pattern: &'u str, limit: u32) -> Result<PlacementsView<'u>> {
        let mut locations = self.store.areas()?;
        locations.retain(|location| matches(pattern, &location.area.name));
        locations.sort_by(|one, other| one.area.name.cmp(&other.area.name));
        locations.truncate(limit as usize);
        let locations = cx.keep(locations)?;
        let view = |location: &'u AreaLocation| PlacementView {
            what: area_view(&location.area),
            node: &location.node,
        };
        cx.slice(&locations.iter().map(view).collect::<Vec<_>>())
    }
}
