//! TAO's event service interfaces for a channel, and what all servants share.

use super::binder::Binder;
use super::control::Control;
use super::dependencies::DependencyRecorder;
use super::observers::Observers;
use super::proxies::ProxyTable;
use super::registrations::RegistrationStore;
use super::{plain, stamped};
use crate::channel::Channel;
use crate::content::ContentLimits;
use crate::dispatch::{Dispatch, Queued, Strategy, ThreadSetup};
use crate::placement::Quality;
use isorb::poa::{
    PoaPolicies,
    policies::{IdAssignment, Lifespan, ServantRetention},
};
use isorb::rt::Overrides;
use isorb::rt::policy::{PriorityBand, PriorityModel, RtPolicy};
use isorb::{
    Caller, IntoServant, Kind, Object, Orb, Poa, Policies, Rebind, Reference, Result, SyncScope,
    SystemException, UnknownTargetObserver,
};
use isorb_access::PeerLimit;
use isorb_rt::priority::Priority;
use std::sync::Arc;
use std::time::Duration;

/// The layout of an event on the wire; both ends must agree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// With the channel's receive and send times in the header: TAO's default.
    #[default]
    Stamped,
    /// Without these times: TAO built with `TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS`.
    Plain,
}

/// How remote suppliers and consumers are served.
#[derive(Clone, Debug)]
pub struct EventServiceOptions {
    /// The layout of an event on the wire.
    pub layout: Layout,
    /// The quality of remote consumers (queue, overflow policy, failures), which their interface
    /// cannot express.
    pub quality: Quality,
    /// The longest wait for a consumer that does not answer: to connect to it, and for the pushes
    /// of the standard's event service, which are two-way. Threads of `threads` do not wait for
    /// consumers of TAO's interfaces.
    pub push_timeout: Duration,
    /// Threads that push to remote consumers at each priority level; 0 to use the channel's own
    /// dispatching.
    pub threads: usize,
    /// The setup of these threads. Each has the priority of its level.
    pub setup: ThreadSetup,
    /// How often remote peers are pinged; `None` for never. Suppliers that pushed meanwhile are not
    /// pinged.
    pub ping: Option<Duration>,
    /// The time-out of a ping.
    pub ping_timeout: Duration,
    /// Pings without an answer before a peer is disconnected.
    pub pings: u32,
    /// The most proxies. When all are in use, a new one replaces the oldest unconnected one.
    pub proxies: u32,
    /// The most proxies of one client. They count from when it obtains them until they are removed;
    /// those of an earlier process count for no client. Services with clones of these options count
    /// together.
    pub peer_proxies: PeerLimit,
    /// How long a proxy waits for a connection, if pings are on.
    pub unconnected: Duration,
    /// The most remote observers. Each has a thread.
    pub observers: u32,
    /// What the content filters of remote consumers may cost.
    pub content: ContentLimits,
    /// Records which operations release which, as consumers and suppliers connect.
    pub dependencies: Option<Arc<DependencyRecorder>>,
    /// Whether a client that destroys the channel shuts the ORB down, too.
    pub shutdown_on_destroy: bool,
}

impl Default for EventServiceOptions {
    fn default() -> Self {
        EventServiceOptions {
            layout: Layout::Stamped,
            quality: Quality::default(),
            push_timeout: Duration::from_millis(500),
            threads: 2,
            setup: ThreadSetup::default(),
            ping: Some(Duration::from_secs(10)),
            ping_timeout: Duration::from_secs(1),
            pings: 3,
            proxies: 4096,
            peer_proxies: peer_proxies(0),
            unconnected: Duration::from_secs(60),
            observers: 32,
            content: ContentLimits::default(),
            dependencies: None,
            shutdown_on_destroy: false,
        }
    }
}

/// The most proxies of one client; 0 for no limit.
pub fn peer_proxies(most: usize) -> PeerLimit {
    PeerLimit::new("proxies", "--max-peer-proxies", most)
}

/// The channel and its two admin objects.
const OWN_OBJECTS: u32 = 3;

/// The state that the servants of one service share.
pub(super) struct Shared {
    pub channel: Channel,
    pub options: EventServiceOptions,
    pub poa: Poa,
    pub dispatch: Option<Arc<dyn Dispatch>>,
    pub control: Arc<Control>,
    pub binder: Binder,
    pub proxies: Arc<ProxyTable>,
    pub observers: Arc<Observers>,
    pub store: Option<RegistrationStore>,
    /// A priority band for each level, so that less urgent pushes never precede more urgent ones on
    /// one connection.
    bands: Overrides,
}

/// The priority bands of the levels: from each to the next.
fn bands(levels: &[Priority]) -> Vec<PriorityBand> {
    let low = |i: usize| if i == 0 { 0 } else { levels[i].get() };
    let high = |i: usize| levels.get(i + 1).map_or(Priority::MAX.get(), |next| next.get() - 1);
    (0..levels.len()).map(|i| PriorityBand { low: low(i), high: high(i) }).collect()
}

impl Shared {
    pub(super) fn start(
        orb: &Orb,
        channel: &Channel,
        options: EventServiceOptions,
        name: &str,
        levels: &[Priority],
        store: Option<RegistrationStore>,
    ) -> Result<Arc<Shared>> {
        let objects = options.proxies.saturating_add(OWN_OBJECTS);
        let mut policies =
            PoaPolicies::new().servant_retention(ServantRetention::Retain).max_objects(objects);
        if store.is_some() {
            policies = policies.lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User);
        }
        let root = orb.root_poa()?;
        let poa = root.create_poa(name, Some(&root.manager()), policies).map_err(|_| {
            SystemException::from(Kind::BadInvOrder).detail("the ORB has such an event service already")
        })?;
        let dispatch = match options.threads {
            0 => None,
            per_level => {
                let strategy = Strategy::Threads { per_level };
                let queued = Queued::alone(strategy, levels, &options.setup);
                let queued = queued
                    .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
                queued.map(|queued| Arc::new(queued) as Arc<dyn Dispatch>)
            }
        };
        if let Some(dispatch) = &dispatch {
            dispatch.reserve(options.proxies as usize);
        }
        let proxies =
            Arc::new(ProxyTable::new(&poa, options.unconnected, options.peer_proxies.clone(), store.clone()));
        let control = Control::start(&options, &proxies)?;
        let binder = Binder::start(options.push_timeout)?;
        let observers = Arc::new(Observers::new(channel, &control, options.observers));
        let bands = Overrides::new(&[RtPolicy::PriorityBands(bands(levels))])?;
        let channel = channel.clone();
        Ok(Arc::new(Shared {
            channel,
            options,
            poa,
            dispatch,
            control,
            binder,
            proxies,
            observers,
            bands,
            store,
        }))
    }

    /// Destroys the channel for a client. `own` is an object of this service.
    pub(super) fn destroy(&self, own: &impl Reference) -> Result<()> {
        self.channel.destroy();
        if let Some(store) = &self.store {
            store.clear();
        }
        // The client gets its reply before `Orb::run` returns.
        if self.options.shutdown_on_destroy { own.object().orb().shutdown(false) } else { Ok(()) }
    }

    /// A reference with the push time-out, and with a connection for each priority level.
    pub(super) fn by_level(&self, object: &Object) -> Object {
        let timed = self.timed(object);
        // A server that exports its own bands keeps them: others would contradict them.
        if object.priority_bands().is_ok_and(|bands| bands.is_some()) {
            return timed;
        }
        timed.with_rt_overrides(&self.bands)
    }

    /// The default priority of a consumer: the one at which its server declares to serve it, if
    /// any.
    pub(super) fn declared(&self, object: &Object) -> Priority {
        let policy = object.priority_model().ok().flatten();
        let server = policy.filter(|policy| policy.model == PriorityModel::ServerDeclared);
        server
            .and_then(|policy| Priority::new(policy.server_priority))
            .unwrap_or(self.options.quality.priority)
    }

    /// Makes an object of the service itself: under its name, if its references outlive the
    /// process.
    pub(super) fn activate_own<R: Reference>(&self, name: &str, servant: impl IntoServant<R>) -> Result<R> {
        let refused = |error: &dyn std::fmt::Display| {
            SystemException::from(Kind::NoResources).detail(error.to_string())
        };
        match &self.store {
            None => self.poa.activate(servant).map_err(|error| refused(&error)),
            Some(_) => self.poa.activate_with_id(name, servant).map_err(|error| refused(&error)),
        }
    }

    /// A reference for pushes that neither connect nor wait for the consumer to read.
    pub(super) fn without_waits(&self, object: &Object) -> Object {
        let sync_scope = Some(SyncScope::None);
        self.by_level(object).with_policies(Policies {
            sync_scope,
            rebind: Some(Rebind::NoReconnect),
            round_trip_timeout: Some(self.options.push_timeout),
            ..Policies::default()
        })
    }

    /// A reference with the push time-out.
    pub(super) fn timed(&self, object: &Object) -> Object {
        object.with_policies(Policies {
            sync_scope: Some(SyncScope::WithTransport),
            round_trip_timeout: Some(self.options.push_timeout),
            ..Policies::default()
        })
    }
}

/// A channel with TAO's interfaces.
pub struct RtecEventService {
    object: Object,
    shared: Arc<Shared>,
    _unknown: Arc<UnknownProxies>,
}

/// Counts pushes to proxies that do not exist. Pushes of TAO's interfaces are oneways, so that a
/// supplier of a channel that was restarted would push into the void for ever.
struct UnknownProxies(Channel);

impl UnknownTargetObserver for UnknownProxies {
    fn unknown_target(&self, operation: &str, caller: Caller<'_>) -> bool {
        if operation != "push" {
            return false;
        }
        report_unknown_proxy(&self.0, caller);
        true
    }
}

/// Counts a push without a supplier's proxy. The first is logged, the second, the fourth and so on.
#[cold]
pub(super) fn report_unknown_proxy(channel: &Channel, caller: Caller<'_>) {
    let count = channel.unknown_proxy();
    if count.is_power_of_two() {
        isorb_rt::log::warn(
            "isorb::event",
            format_args!(
                "{caller} pushes to a proxy that this channel does not have or that no supplier is connected to, \
                 perhaps of an earlier process (--store keeps them): {count} such pushes are lost"
            ),
        );
    }
}

impl RtecEventService {
    /// Makes the channel an object of the ORB, with a POA of its own below the root POA. It is
    /// found under the key `EventService` of a `corbaloc` URL, and as the initial reference of that
    /// name.
    ///
    /// # Errors
    /// BAD_INV_ORDER if the ORB has such a service already, NO_RESOURCES without threads, and the
    /// errors of creating a POA.
    pub fn start(orb: &Orb, channel: &Channel, options: EventServiceOptions) -> Result<RtecEventService> {
        RtecEventService::start_with(orb, channel, options, None)
    }

    /// As [`start`](Self::start), with the registrations of `store`: the proxies of earlier
    /// processes are there again, under their references, and their consumers and suppliers are
    /// connected. For that the ORB must listen at the same address each time. A registration that
    /// is refused, such as that of an operation that is no longer in the schedule, is logged and
    /// tried again at the next start.
    ///
    /// # Errors
    /// As [`start`](Self::start), and PERSIST_STORE if the store cannot be read.
    pub fn start_persistent(
        orb: &Orb,
        channel: &Channel,
        options: EventServiceOptions,
        store: RegistrationStore,
    ) -> Result<RtecEventService> {
        RtecEventService::start_with(orb, channel, options, Some(store))
    }

    fn start_with(
        orb: &Orb,
        channel: &Channel,
        options: EventServiceOptions,
        store: Option<RegistrationStore>,
    ) -> Result<RtecEventService> {
        let layout = options.layout;
        let shared = Shared::start(orb, channel, options, "rt-events", channel.levels(), store)?;
        let object = match layout {
            Layout::Stamped => stamped::servants::activate(&shared)?,
            Layout::Plain => plain::servants::activate(&shared)?,
        };
        let known = shared.store.as_ref().map_or(Ok(Vec::new()), RegistrationStore::all)?;
        for (id, registration) in &known {
            let restored = match layout {
                Layout::Stamped => stamped::servants::restore(&shared, orb, id, registration),
                Layout::Plain => plain::servants::restore(&shared, orb, id, registration),
            };
            if let Err(why) = restored {
                isorb_rt::log::warn(
                    "isorb::event",
                    format_args!("a registration of {:?} could not be restored: {why}", registration.role),
                );
            }
        }
        orb.register_corbaloc_key("EventService", &object);
        orb.register_initial_reference("EventService", &object);
        let unknown = Arc::new(UnknownProxies(channel.clone()));
        let observer: Arc<dyn UnknownTargetObserver> = unknown.clone();
        orb.observe_unknown_targets(Arc::downgrade(&observer));
        Ok(RtecEventService { object, shared, _unknown: unknown })
    }

    /// The channel's reference. Its `Display` is the stringified reference.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Pings all remote consumers, suppliers and observers now, and disconnects those that failed
    /// to answer too often. Returns their number.
    pub fn check(&self) -> usize {
        self.shared.control.check()
    }
}

impl std::fmt::Debug for RtecEventService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtecEventService").field("options", &self.shared.options).finish_non_exhaustive()
    }
}
