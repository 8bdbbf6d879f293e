//! The lane of guaranteed channels on the ORB's path: a thread, an endpoint and connections of
//! their own, more urgent than the dispatching threads.
//!
//! It opens when this node first reads such a channel, and ends with the server. The writer's node
//! gets the lane's reference in place of the server's, and has a private, marked connection for
//! each channel. Best effort stays with the ORB's other threads.

use crate::Error;
use crate::agents::Mark;
use crate::idl::CRM_CommRef;
use crate::node::Node;
use crate::node::servants::Servant;
use isorb::poa::{Poa, PoaPolicies};
use isorb::rt::policy::{PriorityModel, Protocol, RtPolicy, TcpProperties};
use isorb::rt::{Overrides, ThreadpoolId, ThreadpoolLane, ThreadpoolOptions};
use isorb::{Kind, Orb, SystemException};
use isorb_rt::priority::{NetworkPriority, NetworkPriorityMapping, Priority};
use isorb_rt::sched::{NativeRange, RealTime, SchedClass};
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, OnceLock, Weak};

/// Octets of the largest guaranteed value on the ORB's path. The lane reserves as many blocks as it
/// has channels.
pub(in crate::node) const LARGEST_VALUE: usize = 32 << 10;
/// Guaranteed channels on the ORB's path that a node receives.
pub(in crate::node) const LANE_CHANNELS: usize = 64;
/// Octets of a call beside its value.
const CALL: usize = 1 << 10;

/// The lane of a node, open or not.
pub(in crate::node) struct GuaranteedLane {
    orb: Orb,
    /// The class of the dispatching threads.
    below: SchedClass,
    mark: Mark,
    /// Set once the server's objects exist.
    node: OnceLock<Weak<Node>>,
    /// Locked while the lane is opened or closed.
    open: PiMutex<Option<OpenLane>>,
}

struct OpenLane {
    poa: Poa,
    pool: ThreadpoolId,
    reference: CRM_CommRef,
}

impl GuaranteedLane {
    pub fn new(orb: &Orb, below: SchedClass, mark: Mark) -> GuaranteedLane {
        GuaranteedLane { orb: orb.clone(), below, mark, node: OnceLock::new(), open: PiMutex::default() }
    }

    pub fn serve(&self, node: &Arc<Node>) {
        let _ = self.node.set(Arc::downgrade(node));
    }

    /// Why there can be no lane.
    pub fn missing(&self) -> Option<&'static str> {
        self.urgency().err()
    }

    /// Whether the lane would be open beside endpoints that are all over TLS.
    pub fn is_unprotected(&self) -> bool {
        self.orb.listens_only_over_tls()
    }

    /// The class of the lane's threads, and of the threads that push guaranteed channels.
    pub fn class(&self) -> SchedClass {
        self.urgency().map_or(SchedClass::Other, |(class, _)| class)
    }

    fn urgency(&self) -> Result<(SchedClass, Priority), &'static str> {
        let native = match self.below {
            SchedClass::Fifo(native) | SchedClass::Rr(native) => native,
            // Soft guarantees only.
            SchedClass::Other => return Ok((SchedClass::Other, Priority::MIN)),
            SchedClass::Reserved(_) => {
                return Err("its dispatching threads have reservations, and no priority is above those");
            }
        };
        let config = &self.orb.config().real_time;
        if config.mode == RealTime::Off {
            return Err("the ORB's threads have no real-time class (-ORBRealTime)");
        }
        let native = native.saturating_add(1);
        let corba = self.orb.rt().priority_mapping().to_corba(native);
        match corba.filter(|_| NativeRange::system().contains(native)) {
            Some(corba) if corba.get() < config.ordinary_below => {
                Err("the ORB's threads of its lane are ordinary ones (ordinary_below)")
            }
            Some(corba) => Ok((SchedClass::Fifo(native), corba)),
            None => {
                Err("the ORB has no priority above that of the dispatching threads (--priority, native_max)")
            }
        }
    }

    /// The reference of the lane, which opens if need be.
    ///
    /// # Errors
    /// What the system or the ORB refused.
    pub fn open(&self) -> Result<CRM_CommRef, Error> {
        let mut open = self.open.lock();
        if let Some(lane) = &*open {
            return Ok(lane.reference.clone());
        }
        let gone = || Error::from(SystemException::from(Kind::BadInvOrder));
        let node = self.node.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let (_, priority) = self.urgency().map_err(|_| gone())?;
        self.mark_connections(priority);
        let lane = ThreadpoolLane::new(priority.get(), 1).messages(LARGEST_VALUE + CALL, LANE_CHANNELS);
        let rt = self.orb.rt();
        let pool = rt.create_threadpool_with_lanes(&[lane], &ThreadpoolOptions::default())?;
        let opened =
            self.activate(&node, pool, priority).inspect_err(|_| drop(rt.destroy_threadpool(pool)))?;
        Ok(open.insert(opened).reference.clone())
    }

    fn activate(&self, node: &Arc<Node>, pool: ThreadpoolId, priority: Priority) -> Result<OpenLane, Error> {
        let policies = PoaPolicies::new()
            .threadpool(pool)
            .priority_model(PriorityModel::ServerDeclared, priority.get())
            .server_protocols([marked_tcp()]);
        let root = self.orb.root_poa()?;
        // Several servers may share an ORB.
        let name = format!("memory-guaranteed-{pool}");
        let poa = root.create_poa(&name, Some(&root.manager()), policies).map_err(Error::setup)?;
        match poa.activate(Arc::new(Servant { node: node.clone() })) {
            Ok(reference) => Ok(OpenLane { poa, pool, reference }),
            Err(error) => {
                let _ = poa.destroy(false, false);
                Err(Error::setup(error))
            }
        }
    }

    /// The policies of a connection to another node's lane.
    ///
    /// # Errors
    /// What the ORB refused.
    pub fn overrides(&self) -> Result<Overrides, Error> {
        self.mark_connections(Priority::MAX);
        Ok(Overrides::new(&[RtPolicy::ClientProtocol(vec![marked_tcp()]), RtPolicy::PrivateConnection])?)
    }

    /// Connections that ask for marks, and have none by the ORB's mapping, get those of guaranteed
    /// values.
    fn mark_connections(&self, priority: Priority) {
        let before = self.orb.network_priority_mapping();
        if before.to_network(priority).is_none() {
            let Mark { dscp, priority: queue } = self.mark;
            let mark = NetworkPriority { dscp, queue };
            self.orb.set_network_priority_mapping(Arc::new(Marked { mark, before }));
        }
    }

    /// Closes the lane.
    pub fn close(&self) {
        if let Some(OpenLane { poa, pool, .. }) = self.open.lock().take() {
            let _ = poa.destroy(false, true);
            let _ = self.orb.rt().destroy_threadpool(pool);
        }
    }
}

fn marked_tcp() -> Protocol {
    Protocol::iiop(TcpProperties { network_priority: true, ..TcpProperties::default() })
}

/// The ORB's mapping, with marks where it has none.
struct Marked {
    mark: NetworkPriority,
    before: Arc<dyn NetworkPriorityMapping>,
}

impl NetworkPriorityMapping for Marked {
    fn to_network(&self, corba: Priority) -> Option<NetworkPriority> {
        self.before.to_network(corba).or(Some(self.mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb::Config;

    fn lane(below: SchedClass, change: impl FnOnce(&mut Config)) -> GuaranteedLane {
        let mut config = Config::default();
        change(&mut config);
        GuaranteedLane::new(
            &Orb::with_config(config).unwrap(),
            below,
            crate::agents::Marks::default().guaranteed,
        )
    }

    #[test]
    fn a_lane_is_above_the_dispatching_threads_or_the_reason_is_given() {
        let usual = |_: &mut Config| {};
        assert_eq!(lane(SchedClass::Other, usual).class(), SchedClass::Other);
        let urgent = lane(SchedClass::Fifo(40), usual);
        assert_eq!((urgent.missing(), urgent.class()), (None, SchedClass::Fifo(41)));
        let highest = SchedClass::Fifo(NativeRange::system().max);
        assert!(lane(highest, usual).missing().unwrap().contains("--priority"));
        let off = lane(SchedClass::Fifo(40), |config| config.real_time.mode = RealTime::Off);
        assert!(off.missing().unwrap().contains("-ORBRealTime"));
        let ordinary = lane(SchedClass::Fifo(40), |config| config.real_time.ordinary_below = 32_767);
        assert!(ordinary.missing().unwrap().contains("ordinary_below"));
    }

    #[test]
    fn marks_of_the_program_stay() {
        let lane = lane(SchedClass::Other, |_| {});
        lane.overrides().unwrap();
        let marks = |lane: &GuaranteedLane| lane.orb.network_priority_mapping().to_network(Priority::MIN);
        assert_eq!(marks(&lane), Some(NetworkPriority { dscp: 46, queue: 6 }));
        lane.orb.set_network_priority_mapping(Arc::new(isorb_rt::priority::ClassSelectors));
        lane.overrides().unwrap();
        assert_eq!(marks(&lane), Some(NetworkPriority { dscp: 0, queue: 0 }));
    }
}
