//! The ORB as its lower layers see it: its settings, what its clients' calls need, and a handle to
//! the server side, which lies above them.
//!
//! Layers between this one and the POA (connections' threads, thread pools) serve requests by
//! [`RequestHandler`], as TAO's ORB core reaches its object adapters by `TAO_Adapter`.

use crate::binding::{ClientState, Overrides};
use crate::buffers::CallBuffers;
use crate::config::Config;
use crate::connection::{Arrived, Connection, ConnectionMonitors, ConnectionTable};
use crate::log::warn;
use crate::peer::{Connector, Peer, Peers, Routes};
use crate::policy::{Effective, Policies, SharedPolicies};
use crate::sched::{self, Setup};
use crate::statistics::RequestStatistics;
use crate::transports::{Route, Transports};
use crate::value_type::ValueTypes;
use crate::{Caller, Result, SystemException};
use isorb_cdr::Message;
use isorb_giop::context::read_listen_points;
use isorb_giop::{Ior, Kind, minor};
use isorb_rt::atomic_enum;
use isorb_rt::priority::{NetworkPriorityMapping, Priority};
use isorb_rt::sched::ProcessAddressSpace;
use isorb_rt::sync::AtomicEnum;
use isorb_rt::time::Deadline;
use isorb_scope::BufferPool;
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An object request broker. Cheap to clone; all clones are the same ORB.
///
/// Dropping the last clone does not end an ORB after a call of [`Orb::root_poa`]: its threads and
/// POAs hold it until [`Orb::shutdown`]. After a `fork` only the process that made the ORB may use
/// it: the other has none of its threads.
///
/// ```no_run
/// let orb = isorb::Orb::init(std::env::args())?;
/// let root = orb.root_poa()?;           // opens the endpoints
/// // root.activate(..)?, isorb_naming::Naming::initial(&orb)?.bind(..)?
/// orb.run();                            // until orb.shutdown(..)
/// # Ok::<(), isorb::SystemException>(())
/// ```
#[derive(Clone)]
pub struct Orb(Arc<Inner>);

struct Inner {
    client: ClientCore,
    handler: Box<dyn RequestHandler>,
}

/// Sends a finished message over the connection that it belongs to. When it cannot, the connection
/// breaks.
pub(crate) type SendReply<'a> = dyn FnMut(&Message<'_>) + 'a;

/// The server side of an ORB, for the layers below it.
pub(crate) trait RequestHandler: Any + Send + Sync {
    /// The object key in a reference, if it is a reference to an object of this ORB.
    fn local_key(&self, ior: &Ior) -> Option<Vec<u8>>;

    /// A reference is about to be sent. If it is to an object of this ORB, the peer may call it, so
    /// the root POA's manager becomes active, unless the program has set its state.
    fn exported(&self, ior: &Ior);

    /// Handles a message that a thread read from a connection; it lies in `buffers.block`.
    /// Says whether the connection goes on.
    fn handle(
        &self,
        orb: &Orb,
        connection: &Arc<Connection>,
        arrived: Arrived,
        buffers: &mut CallBuffers,
        send: &mut SendReply<'_>,
    ) -> ControlFlow<()>;

    /// The priority at which the request in `buffers.block` will run, as far as it is known before
    /// the request is served.
    fn request_priority(&self, orb: &Orb, arrived: Arrived, buffers: &mut CallBuffers) -> Option<Priority>;

    /// Serves the request in `buffers.block`, which came to a group and names a member's key.
    #[cfg(feature = "miop")]
    fn handle_group_request(
        &self,
        orb: &Orb,
        text: isorb_cdr::Text,
        arrived: Arrived,
        buffers: &mut CallBuffers,
    );

    /// Serves the request of this process that lies in `buffers.block`. It waits until `deadline`
    /// on its way to the servant.
    fn handle_local(
        &self,
        orb: &Orb,
        deadline: Deadline,
        arrived: Arrived,
        buffers: &mut CallBuffers,
        send: &mut SendReply<'_>,
    );

    /// Allocates what the calling thread would allocate with its first request, and forgets what
    /// servants of earlier connections set for it.
    fn prepare_thread(&self);
}

/// What an ORB's calls use.
pub(crate) struct ClientCore {
    connector: Connector,
    policies: SharedPolicies,
    rt_client: ClientState,
    sched: sched::State,
    peers: Peers,
    statistics: Option<Box<RequestStatistics>>,
    state: AtomicEnum<State>,
    /// Whether calls have client interceptors.
    intercepts: bool,
    value_types: ValueTypes,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Running,
    Stopping,
    Stopped,
}

atomic_enum!(State: Running, Stopping, Stopped);

/// Bytes of message blocks that may stay allocated while they are not in use.
const RETAIN: usize = 16 << 20;

impl ClientCore {
    /// `intercepts` says whether calls have client interceptors.
    pub fn new(
        config: Config,
        transports: Transports,
        intercepts: bool,
        value_types: ValueTypes,
    ) -> ClientCore {
        let policies = SharedPolicies::new(config.policies());
        let sched = sched::State::new(&config.real_time);
        let statistics = RequestStatistics::new(config.request_statistics);
        let retain = RETAIN.min(config.memory_limit);
        let pool = BufferPool::with_address_space(config.memory_limit, retain, &ProcessAddressSpace);
        ClientCore {
            connector: Connector {
                config,
                transports,
                pool,
                accepted: Arc::default(),
                monitors: ConnectionMonitors::default(),
            },
            policies,
            rt_client: ClientState::default(),
            sched,
            peers: Peers::default(),
            statistics,
            state: AtomicEnum::new(),
            intercepts,
            value_types,
        }
    }
}

impl Orb {
    pub(crate) fn new(client: ClientCore, handler: Box<dyn RequestHandler>) -> Orb {
        Orb(Arc::new(Inner { client, handler }))
    }

    #[inline]
    pub(crate) fn handler(&self) -> &dyn RequestHandler {
        &*self.0.handler
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.0.client.connector.config
    }

    #[inline]
    pub(crate) fn sched(&self) -> &sched::State {
        &self.0.client.sched
    }

    /// The valuetypes that the program registered.
    pub(crate) fn value_types(&self) -> &ValueTypes {
        &self.0.client.value_types
    }

    /// Counts of requests, if they are wanted.
    #[inline]
    pub(crate) fn statistics(&self) -> Option<&RequestStatistics> {
        self.0.client.statistics.as_deref()
    }

    /// The ORB's policies, the widest scope.
    pub fn policies(&self) -> Policies {
        self.0.client.policies.get()
    }

    #[inline]
    pub(crate) fn effective_policies(&self) -> Effective {
        self.0.client.policies.effective()
    }

    /// The policies of a call through an object that sets these.
    #[inline]
    pub(crate) fn effective_policies_under(&self, object: &Policies) -> Effective {
        self.0.client.policies.effective_under(object)
    }

    /// Sets the ORB's policies; what is `None` stays as it was.
    pub fn set_policies(&self, policies: Policies) {
        self.0.client.policies.set(policies);
    }

    #[inline]
    pub(crate) fn rt_client(&self) -> &ClientState {
        &self.0.client.rt_client
    }

    /// Whether calls have client interceptors.
    #[inline(always)]
    pub(crate) fn intercepts_calls(&self) -> bool {
        cfg!(feature = "interceptors") && self.0.client.intercepts
    }

    #[inline]
    pub(crate) fn connector(&self) -> &Connector {
        &self.0.client.connector
    }

    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.0.client.connector.pool
    }

    /// The connections that this ORB has accepted.
    pub(crate) fn accepted(&self) -> &Arc<ConnectionTable> {
        &self.0.client.connector.accepted
    }

    pub(crate) fn transports(&self) -> &Transports {
        &self.0.client.connector.transports
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.0.client.peers
    }

    pub(crate) fn peer(&self, routes: Routes) -> Arc<Peer> {
        self.0.client.peers.get(routes, Setup::default())
    }

    /// A connection that served requests has ended.
    pub(crate) fn connection_ended(&self, connection: &Connection) {
        // It may stand among those that calls go out on.
        if connection.bidirectional.load(Ordering::Acquire) {
            self.0.client.peers.sweep();
        }
    }

    /// Uses a client's connection for calls to the addresses that it listens at, if this ORB is
    /// configured so. Listen points that are not the client's own addresses are ignored: it would
    /// get the calls that are meant for others.
    pub(crate) fn accept_bidirectional(&self, connection: &Arc<Connection>, data: &[u8]) {
        if !self.config().bidirectional || connection.bidirectional.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(points) = read_listen_points(data) else { return };
        let caller = Caller::peer(connection);
        let (own, foreign): (Vec<_>, Vec<_>) =
            points.iter().take(16).partition(|point| caller.is_at(&point.host));
        if let Some(point) = foreign.first() {
            let (peer, more) = (connection.peer(), foreign.len() - 1);
            warn(
                "isorb::connection",
                format_args!(
                    "{peer}: announced {} and {more} more, which are not its addresses; calls to them do not take \
                     its connection",
                    Route::tcp(&point.host, point.port).address
                ),
            );
        }
        let routes = own.iter().map(|point| Route::tcp(&point.host, point.port));
        self.0.client.peers.adopt(routes.collect(), connection);
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if self.0.client.state.is(State::Stopped, Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
    }

    /// Begins to shut down; `false` when that has begun before.
    pub(crate) fn begin_shutdown(&self) -> bool {
        self.0.client.state.change(State::Running, State::Stopping, Ordering::AcqRel)
    }

    /// Ends the shutdown: calls are refused from now on, unless it was abandoned.
    pub(crate) fn end_shutdown(&self, abandoned: bool) {
        let state = if abandoned { State::Running } else { State::Stopped };
        self.0.client.state.store(state, Ordering::Release);
    }

    /// Whether [`Orb::shutdown`] was called.
    pub fn is_shut_down(&self) -> bool {
        !self.0.client.state.is(State::Running, Ordering::Acquire)
    }

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

    /// Sets the mapping from CORBA priorities to the marks of packets
    /// (`RTCORBA::NetworkPriorityMapping`). It concerns connections with protocol properties that
    /// ask for marks; those that are open, or planned for references in use, keep what they have.
    pub fn set_network_priority_mapping(&self, mapping: Arc<dyn NetworkPriorityMapping>) {
        let before = std::mem::replace(&mut *self.rt_client().network.lock(), mapping);
        drop(before);
    }
}

impl PartialEq for Orb {
    fn eq(&self, other: &Orb) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cold]
fn stopped() -> SystemException {
    SystemException::from(Kind::BadInvOrder)
        .minor(minor::BAD_INV_ORDER_SHUTDOWN)
        .detail("the ORB was shut down")
}
