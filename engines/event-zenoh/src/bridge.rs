//! A gateway beside a channel that runs in another process.
//!
//! ```text
//!   channel at the URL ◄─ push ─ queue ◄─┐
//!     │ observer: what its consumers want│ a channel in this process ◄──► Gateway ◄──► routers
//!     └─ events that other sites want ──►┘
//! ```

use crate::gateway::Gateway;
use crate::pattern::{Pattern, patterns, reduce, registrations};
use crate::settings::{GatewayError, Settings};
use crate::streams::RecentMap;
use isorb::Orb;
use isorb_event::remote::{RemoteChannel, RemoteConsumer, RemoteError, RemoteObserver, RemoteSupplier};
use isorb_event::{
    Channel, ConsumerQos, Event, Failure, Filter, Limits, ProxyPushConsumer, ProxyPushSupplier, PushConsumer,
    Quality, SizeClass, Strategy,
};
use isorb_rt::log;
use isorb_rt::sched::{SchedClass, Thread, ThreadSpec};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// With more pairs of type and source than these, the bridge consumes all events of the channel.
const MAX_CONSUMERS: usize = 256;
/// How soon a consumer that the channel refused is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Connects a channel in another process with those of other sites, until it is dropped. It
/// reconnects to the channel and to routers by itself.
pub struct Bridge {
    shared: Arc<Shared>,
    gateway: Gateway,
    thread: Option<Thread<()>>,
    // Dropped after the gateway.
    _observer: RemoteObserver,
    _local: Channel,
}

struct Shared {
    remote: RemoteChannel,
    /// To the channel at the URL.
    supplier: RemoteSupplier,
    /// To the channel in this process.
    local: ProxyPushConsumer,
    /// What other sites want, in order.
    terms: PiMutex<Arc<Vec<Term>>>,
    wake: Parker,
    stopped: AtomicBool,
}

/// A part of what other sites want.
struct Term {
    filter: Filter,
    /// The same, as it is compared with each event.
    patterns: Vec<Pattern>,
}

impl Term {
    fn new(filter: Filter) -> Term {
        let patterns = patterns(std::slice::from_ref(&filter)).into_iter().collect();
        Term { filter, patterns }
    }

    fn matches(&self, event_type: i32, source: i32) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(event_type, source))
    }
}

/// Why a bridge does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum BridgeError {
    /// The channel at the URL cannot be reached, or refuses.
    Remote(RemoteError),
    /// The gateway does not start.
    Gateway(GatewayError),
}

impl BridgeError {
    /// Whether it may be better later: the channel or the routers are not there yet.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            BridgeError::Remote(RemoteError::System(_)) | BridgeError::Gateway(GatewayError::Zenoh(_))
        )
    }
}

impl fmt::Display for BridgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BridgeError::Remote(why) => why.fmt(f),
            BridgeError::Gateway(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for BridgeError {}

impl From<RemoteError> for BridgeError {
    fn from(why: RemoteError) -> BridgeError {
        BridgeError::Remote(why)
    }
}

impl<T: Into<GatewayError>> From<T> for BridgeError {
    fn from(why: T) -> BridgeError {
        BridgeError::Gateway(why.into())
    }
}

impl Bridge {
    /// Joins the channel at a URL or of a name ([`RemoteChannel::connect`]). It must be one of
    /// isorb, which tells consumers the supplier of an event: the bridge knows by that which events
    /// are its own.
    ///
    /// # Errors
    /// [`BridgeError`]: the channel or the routers cannot be reached. A program that is to wait for
    /// them tries again.
    ///
    /// # Real-time
    /// As [`Gateway::start`], and a thread `isorb-zenoh-bri`, those of a channel with a thread for
    /// each level, and of a [`RemoteChannel`].
    pub fn start(orb: &Orb, url: &str, settings: Settings) -> Result<Bridge, BridgeError> {
        let remote = RemoteChannel::builder().gateway(true).connect(orb, url)?;
        let large = SizeClass { payload: settings.payload, events: 16 };
        let limits = Limits::default();
        let limits =
            Limits { events: settings.queue, larger: [limits.larger[0], large, limits.larger[2]], ..limits };
        let local = Channel::builder().limits(limits).strategy(Strategy::Threads { per_level: 1 });
        let local = local.build().map_err(|why| GatewayError::Thread(why.to_string()))?;
        let shared = Arc::new(Shared {
            supplier: remote.supplier()?,
            local: local.for_suppliers().connect()?,
            remote,
            terms: PiMutex::default(),
            wake: Parker::new(),
            stopped: AtomicBool::new(false),
        });
        let wanted = shared.clone();
        let watcher = move |terms: &[Filter]| {
            *wanted.terms.lock() = Arc::new(terms.iter().cloned().map(Term::new).collect());
            wanted.wake.unpark();
        };
        let queue = settings.queue;
        let interests = settings.interests;
        let last = PiMutex::new(RecentMap::new(settings.streams));
        let gateway = Gateway::start_watched(&local, settings, Box::new(watcher))?;
        let consumer = Arc::new(ToRemote { shared: shared.clone(), gateway: gateway.id(), last });
        let local_consumer =
            LocalConsumer { local: local.clone(), consumer, queue, interests, proxy: PiMutex::default() };
        let observer = shared.remote.observe(move |filters| local_consumer.set(filters))?;
        let consuming = shared.clone();
        let spec = ThreadSpec::new("isorb-zenoh-bri").class(SchedClass::Other);
        let thread = spec.spawn(move || consume(&consuming));
        let thread = thread.map_err(|why| GatewayError::Thread(why.to_string()))?;
        Ok(Bridge { shared, gateway, thread: Some(thread), _observer: observer, _local: local })
    }

    /// The gateway, for its counts.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Events of other sites that the channel did not take: it was down, or refused them.
    pub fn refused(&self) -> u64 {
        self.shared.supplier.lost()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Release);
        self.shared.wake.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("channel", &self.shared.remote).finish_non_exhaustive()
    }
}

/// Pushes events of other sites to the channel at the URL. A queue of the local channel is before
/// it, so a channel that does not answer delays no thread of zenoh.
struct ToRemote {
    shared: Arc<Shared>,
    gateway: u64,
    /// The numbers of the gateway's last events, by type and source.
    last: PiMutex<RecentMap<(i32, i32), u64>>,
}

impl PushConsumer for ToRemote {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        for event in events.iter().filter(|event| event.origin.supplier == self.gateway) {
            let (event_type, source) = (event.header.event_type, event.header.source);
            let last = self.last.lock().insert((event_type, source), event.origin.number);
            let missing = last.map_or(0, |last| event.origin.number.saturating_sub(last + 1));
            self.shared.supplier.skip(event_type, source, missing);
            // The supplier counts what fails, and the channel's connection is logged.
            let _ = self.shared.supplier.push(event);
        }
        Ok(())
    }
}

/// What the consumers of the channel at the URL want, as a consumer of the local channel.
struct LocalConsumer {
    local: Channel,
    consumer: Arc<ToRemote>,
    queue: usize,
    interests: usize,
    proxy: PiMutex<Option<ProxyPushSupplier>>,
}

impl LocalConsumer {
    fn set(&self, filters: &[Filter]) {
        let filters = registrations(&reduce(&patterns(filters), self.interests));
        let mut proxy = self.proxy.lock();
        let changed = match &*proxy {
            _ if filters.is_empty() => {
                *proxy = None;
                Ok(())
            }
            Some(proxy) => proxy.resubscribe(filters),
            None => {
                let quality = Quality { queue: self.queue, failures: 0, ..Quality::default() };
                let name = "the channel behind the bridge".into();
                let qos = ConsumerQos { name, filters, quality, ..ConsumerQos::default() };
                let connected = self.local.for_consumers().connect(self.consumer.clone(), qos);
                connected.map(|connected| *proxy = Some(connected))
            }
        };
        if let Err(why) = changed {
            log::warn(
                "isorb::event",
                format_args!("zenoh bridge: the consumers' filters are not served: {why}"),
            );
        }
    }
}

/// Keeps a consumer at the channel for each of the events that other sites want.
fn consume(shared: &Arc<Shared>) {
    let mut consumers: Vec<(Filter, RemoteConsumer)> = Vec::new();
    let refused = OnceLock::new();
    while !shared.stopped.load(Acquire) {
        let mut terms = shared.terms.lock().clone();
        if terms.len() > MAX_CONSUMERS {
            terms = Arc::new(vec![Term::new(Filter::Everything)]);
        }
        let mut complete = true;
        for Term { filter: term, .. } in terms.iter() {
            if consumers.iter().any(|(known, _)| known == term) {
                continue;
            }
            let (mine, receiver) = (term.clone(), shared.clone());
            let receive = move |event: &Event<'_>| receiver.receive(&mine, event);
            match shared.remote.consume(term.clone(), receive) {
                Ok(consumer) => consumers.push((term.clone(), consumer)),
                Err(why) => {
                    complete = false;
                    refused.get_or_init(|| {
                        let why = format_args!(
                            "zenoh bridge: the channel refuses a consumer, and is asked again: {why}"
                        );
                        log::warn("isorb::event", why);
                    });
                }
            }
        }
        consumers.retain(|(known, _)| terms.iter().any(|term| term.filter == *known));
        shared.wake.park_until(if complete { Deadline::NONE } else { Deadline::after(RETRY) });
    }
}

impl Shared {
    /// An event of the channel at the URL, by the consumer of a term.
    fn receive(&self, term: &Filter, event: &Event<'_>) {
        if event.origin.supplier == self.supplier.id() {
            return; // It came from another site.
        }
        // Of several consumers that receive it, the first passes it on.
        let terms = self.terms.lock().clone();
        let first = terms.iter().find(|of| of.matches(event.header.event_type, event.header.source));
        if terms.len() > MAX_CONSUMERS || first.is_none_or(|first| first.filter == *term) {
            self.local.push(event);
        }
    }
}
