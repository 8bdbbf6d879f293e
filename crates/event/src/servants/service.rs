//! The real-time face of a channel.

use super::control::Control;
use super::observers::Observers;
use super::proxies::ProxyTable;
use super::{plain, stamped};
use crate::channel::Channel;
use crate::dispatch::{Dispatch, Queued, Strategy, ThreadSetup};
use crate::placement::Quality;
use isorb::poa::{PoaPolicies, policies::ServantRetention};
use isorb::rt::Overrides;
use isorb::rt::policy::{PriorityBand, PriorityModel, RtPolicy};
use isorb::{Kind, Object, Orb, Poa, Policies, Result, SyncScope, SystemException};
use isorb_rt::priority::Priority;
use std::sync::Arc;
use std::time::Duration;

/// How an event lies on the wire; both ends must agree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// With the channel's receive and send time in the header: TAO as it is built by default.
    #[default]
    Stamped,
    /// Without: a TAO that was built with `TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS`.
    Plain,
}

/// How remote suppliers and consumers are treated.
#[derive(Clone, Debug)]
pub struct EventServiceOptions {
    /// How an event lies on the wire.
    pub layout: Layout,
    /// What remote consumers are given: their queue and its policy, how many failures they may have. Their interface has no codec
    /// for it.
    pub quality: Quality,
    /// How long a push may wait for a consumer that does not read.
    pub push_timeout: Duration,
    /// How many threads push to remote consumers at each of the channel's levels of priority; 0 lets the channel's own dispatching do
    /// it.
    pub threads: usize,
    /// What these threads are. Each has the priority of its level.
    pub setup: ThreadSetup,
    /// How often consumers, suppliers and observers are asked whether they still exist; `None` is never. SupplierAdminServant that pushed since
    /// then are not asked.
    pub ping: Option<Duration>,
    /// How long the answer may take.
    pub ping_timeout: Duration,
    /// After so many questions without an answer it is disconnected.
    pub pings: u32,
    /// ProxyTable that may exist at once, connected or not. One more takes the place of the oldest that nobody has connected to.
    pub proxies: u32,
    /// For so long a proxy waits for somebody to connect, if anybody is asked at all.
    pub unconnected: Duration,
    /// Observers at the other end of a network. Each has a thread, and one more is refused.
    pub observers: u32,
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
            unconnected: Duration::from_secs(60),
            observers: 32,
        }
    }
}

/// The channel and its two admins are objects, too.
const OWN_OBJECTS: u32 = 3;

/// What a face's servants share.
pub(super) struct Shared {
    pub channel: Channel,
    pub options: EventServiceOptions,
    pub poa: Poa,
    pub dispatch: Option<Arc<dyn Dispatch>>,
    pub control: Arc<Control>,
    pub proxies: Arc<ProxyTable>,
    pub observers: Arc<Observers>,
    /// One a level of priority, so that what is less urgent is never before what is more so on one connection.
    bands: Overrides,
}

/// The bands of priorities that the levels serve: from each to the next.
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
    ) -> Result<Arc<Shared>> {
        let objects = options.proxies.saturating_add(OWN_OBJECTS);
        let policies = PoaPolicies::new().servant_retention(ServantRetention::Retain).max_objects(objects);
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
        let proxies = Arc::new(ProxyTable::new(&poa, options.unconnected));
        let control = Control::start(&options, &proxies)?;
        let observers = Arc::new(Observers::new(channel, &control, options.observers));
        let bands = Overrides::new(&[RtPolicy::PriorityBands(bands(levels))])?;
        let channel = channel.clone();
        Ok(Arc::new(Shared { channel, options, poa, dispatch, control, proxies, observers, bands }))
    }

    /// A reference whose calls end in time, and go over a connection for the level of priority that they are made at.
    pub(super) fn by_level(&self, object: &Object) -> Object {
        let timed = self.timed(object);
        // Who exports bands of his own keeps them: others would contradict them.
        if object.priority_bands().is_ok_and(|bands| bands.is_some()) {
            return timed;
        }
        timed.with_rt_overrides(&self.bands)
    }

    /// How urgent a consumer is for which nobody has said it: its reference says at which priority it serves, if it has any.
    pub(super) fn declared(&self, object: &Object) -> Priority {
        let policy = object.priority_model().ok().flatten();
        let server = policy.filter(|policy| policy.model == PriorityModel::ServerDeclared);
        server
            .and_then(|policy| Priority::new(policy.server_priority))
            .unwrap_or(self.options.quality.priority)
    }

    /// A reference whose calls end in time.
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
}

impl RtecEventService {
    /// Makes the channel an object of the ORB: with a POA of its own below the root POA, under the key `EventService` of a
    /// `corbaloc` URL, and as the initial reference of that name.
    ///
    /// # Errors
    /// BAD_INV_ORDER when the ORB has one already, NO_RESOURCES without threads, and what making a POA ends in.
    pub fn start(orb: &Orb, channel: &Channel, options: EventServiceOptions) -> Result<RtecEventService> {
        let layout = options.layout;
        let shared = Shared::start(orb, channel, options, "rt-events", channel.levels())?;
        let object = match layout {
            Layout::Stamped => stamped::servants::activate(&shared)?,
            Layout::Plain => plain::servants::activate(&shared)?,
        };
        orb.register_corbaloc_key("EventService", &object);
        orb.register_initial_reference("EventService", &object);
        Ok(RtecEventService { object, shared })
    }

    /// The channel's reference, untyped: its `Display` is the stringified one.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Asks all remote consumers, suppliers and observers now whether they exist, and disconnects those that have not answered too often.
    /// Says how many.
    pub fn check(&self) -> usize {
        self.shared.control.check()
    }
}

impl std::fmt::Debug for RtecEventService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtecEventService").field("options", &self.shared.options).finish_non_exhaustive()
    }
}
