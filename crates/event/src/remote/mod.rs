//! A channel in another process, for programs that are to survive its restarts.
//!
//! [`RemoteChannel`] connects consumers and suppliers by TAO's interfaces, and keeps them
//! connected. After the connection ends it probes their proxies: a channel with a store has them
//! still, at another one they are connected anew. Consumers learn of each event that was lost on
//! its way, if its supplier is of this kind, too, and the channel is isorb's.
//!
//! ```no_run
//! use isorb_event::remote::RemoteChannel;
//! use isorb_event::{Event, Filter};
//!
//! let orb = isorb::Orb::init(std::env::args())?;
//! let channel = RemoteChannel::connect(&orb, "corbaloc::cockpit:4200/EventService")?;
//! let _display = channel.consume(Filter::of(16, 1), |event| println!("{:?}", event.data.octets))?;
//! let gps = channel.supplier()?;
//! gps.push(&Event::new(16, 1).octets(b"48.2N 16.3E"))?;
//! orb.run();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The events have the layout with the channel's time stamps
//! ([`Layout::Stamped`](crate::servants::Layout)).

mod consumer;
mod gaps;
mod monitor;
mod numbers;
mod observer;
mod payload;
mod supplier;

pub use consumer::{RemoteConsumer, RemoteCounts};
pub use gaps::Gap;
pub use observer::RemoteObserver;
pub use payload::{decode, encode};
pub use supplier::RemoteSupplier;

use crate::content::{ContentError, ContentFilter};
use crate::event::{Event, Header};
use crate::filter::{Filter, Malformed};
use crate::ownership::Ownership;
use crate::retention::HistoryRequest;
use crate::supplier::Publication;
use isorb::generated::Idl;
use isorb::{Orb, SyncScope, SystemException};
use isorb_any::AnyValue;
use monitor::Shared;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A change that a [`RemoteChannel`] notifies its program of.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The channel cannot be reached, or does not answer. Pushes fail until it is back.
    Interrupted(SystemException),
    /// All consumers and suppliers are connected again.
    Resumed,
    /// A consumer or supplier could not be connected again; it is tried again later.
    Refused(SystemException),
    /// A consumer missed events.
    Lost(Gap),
    /// An event that was notified as lost has come late: threads that share a supplier may overtake
    /// each other.
    Late {
        /// The supplier, by a number that it drew at its start.
        supplier: u64,
        /// The type of the event.
        event_type: i32,
        /// Its source.
        source: i32,
        /// Its number among those of this supplier, type and source.
        number: u64,
    },
    /// A payload is no value of the type that its consumer expects; reported once a consumer.
    Malformed(SystemException),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Interrupted(why) => write!(f, "the event channel does not answer: {why}"),
            Notice::Resumed => f.write_str("connected to the event channel again"),
            Notice::Refused(why) => write!(f, "not connected to the event channel again: {why}"),
            Notice::Lost(gap) => {
                let Gap { event_type, source, supplier, .. } = gap;
                write!(
                    f,
                    "{} events of type {event_type} and source {source} were lost on their way from supplier {supplier:x}",
                    gap.lost()
                )
            }
            Notice::Late { supplier, event_type, source, number } => write!(
                f,
                "event {number} of type {event_type} and source {source} from supplier {supplier:x}, counted as \
                 lost, came late"
            ),
            Notice::Malformed(why) => {
                write!(f, "an event is ignored, since its octets are no value of the expected type: {why}")
            }
        }
    }
}

/// Why a consumer or supplier was not connected.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum RemoteError {
    /// The filter is malformed.
    Filter(Malformed),
    /// The expression is no condition on the payload's type.
    Content(ContentError),
    /// The channel does not take the filter, or the proxy is connected already.
    Refused(&'static str),
    /// The call failed, or the channel refused.
    System(SystemException),
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Filter(why) => why.fmt(f),
            RemoteError::Content(why) => why.fmt(f),
            RemoteError::Refused(why) => f.write_str(why),
            RemoteError::System(exception) => exception.fmt(f),
        }
    }
}

impl std::error::Error for RemoteError {}

impl From<ContentError> for RemoteError {
    fn from(why: ContentError) -> RemoteError {
        RemoteError::Content(why)
    }
}

impl From<SystemException> for RemoteError {
    fn from(exception: SystemException) -> RemoteError {
        RemoteError::System(exception)
    }
}

/// What a remote consumer asks for besides its filter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoteQos {
    /// The handle of its operation in the channel's schedule; 0 for none.
    pub rt_info: i32,
    /// The events of the channel's history that it gets first.
    pub history: HistoryRequest,
    /// The shortest time between two events; those that come sooner are dropped. Losses are not
    /// counted then, since the numbers of events have gaps.
    pub min_separation: Duration,
    /// A condition on the payload, which the channel evaluates, so that other events do not cross
    /// the network. Losses are not counted then either.
    pub content: Option<ContentFilter>,
    /// The deadline of each instance, as in
    /// [`Quality::instance_period`](crate::Quality::instance_period). Once it was missed the
    /// consumer gets an event of the type
    /// [`INSTANCE_TIMEOUT`](crate::designator::INSTANCE_TIMEOUT).
    pub instance_period: Option<Duration>,
}

impl RemoteQos {
    /// The last events of each type and source, if the channel keeps them.
    pub fn history(history: HistoryRequest) -> RemoteQos {
        RemoteQos { history, ..RemoteQos::default() }
    }

    /// Events that satisfy a condition on their payload.
    pub fn content(content: ContentFilter) -> RemoteQos {
        RemoteQos { content: Some(content), ..RemoteQos::default() }
    }

    /// A consumer that learns which instances fell silent.
    pub fn instance_period(period: Duration) -> RemoteQos {
        RemoteQos { instance_period: Some(period), ..RemoteQos::default() }
    }

    /// Whether it needs no options when it connects. The condition and the deadline of instances
    /// are set before.
    fn is_plain(&self) -> bool {
        self.history.last == 0 && self.min_separation.is_zero()
    }
}

/// A time in units of 100 ns (`TimeBase::TimeT`), rounded up: a zero would mean another thing.
fn units(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(100)).unwrap_or(u64::MAX)
}

/// Makes a [`RemoteChannel`].
#[must_use = "a channel is connected by `connect`"]
pub struct RemoteChannelBuilder {
    timeout: Duration,
    probe: Duration,
    longest_backoff: Duration,
    sync_scope: SyncScope,
    gateway: bool,
    notify: Box<dyn Fn(&Notice) + Send + Sync>,
}

impl Default for RemoteChannelBuilder {
    fn default() -> RemoteChannelBuilder {
        RemoteChannelBuilder {
            timeout: Duration::from_secs(2),
            probe: Duration::from_secs(5),
            longest_backoff: Duration::from_millis(500),
            sync_scope: SyncScope::WithTarget,
            gateway: false,
            notify: Box::new(|notice| match notice {
                Notice::Resumed | Notice::Late { .. } => {
                    isorb_rt::log::info("isorb::event", format_args!("{notice}"))
                }
                _ => isorb_rt::log::warn("isorb::event", format_args!("{notice}")),
            }),
        }
    }
}

impl RemoteChannelBuilder {
    /// The longest wait for a call to the channel, pushes included; 2 s by default.
    pub fn timeout(mut self, timeout: Duration) -> RemoteChannelBuilder {
        self.timeout = timeout;
        self
    }

    /// How often the proxies are probed while nothing is wrong; 5 s by default. A connection that
    /// ends has them probed at once. The interval matters for hosts that vanish, and for proxies
    /// that the channel removed.
    pub fn probe(mut self, interval: Duration) -> RemoteChannelBuilder {
        self.probe = interval;
        self
    }

    /// The longest delay between two attempts to connect again; 500 ms by default. The first delay
    /// is 10 ms, and each is about twice the one before.
    pub fn longest_backoff(mut self, longest: Duration) -> RemoteChannelBuilder {
        self.longest_backoff = longest;
        self
    }

    /// What a push waits for. By default, [`SyncScope::WithTarget`], for the channel's answer: an
    /// event of which the push returned `Ok` is with the channel. With
    /// [`SyncScope::WithTransport`] a push is faster, and events that are under way when the
    /// channel ends are noticed by consumers only.
    pub fn sync_scope(mut self, scope: SyncScope) -> RemoteChannelBuilder {
        self.sync_scope = scope;
        self
    }

    /// Its consumers and suppliers forward events from and to other channels: observers of the
    /// channel do not see them (`is_gateway`). By default they do not.
    pub fn gateway(mut self, gateway: bool) -> RemoteChannelBuilder {
        self.gateway = gateway;
        self
    }

    /// Is called for each [`Notice`], by a thread of the ORB or of this channel. It must not wait
    /// for this channel. By default notices are logged.
    pub fn notify(mut self, notify: impl Fn(&Notice) + Send + Sync + 'static) -> RemoteChannelBuilder {
        self.notify = Box::new(notify);
        self
    }

    /// Connects; see [`RemoteChannel::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(self, orb: &Orb, channel: &str) -> Result<RemoteChannel, RemoteError> {
        Ok(RemoteChannel(Shared::start(orb, channel, self)?))
    }
}

/// A channel in another process; see the [module](self). Clones are handles of one connection. It
/// ends with its last handle, consumer and supplier.
#[derive(Clone)]
pub struct RemoteChannel(Arc<Shared>);

impl RemoteChannel {
    /// Connects to the channel at a URL (`corbaloc:`, `corbaname:`, `IOR:`, `file:`), or of a name:
    /// of an initial reference (`-ORBInitRef EventService=URL`), or else in the naming service of
    /// the ORB. After a restart the URL or name is resolved again.
    ///
    /// # Errors
    /// The channel cannot be reached, or the object is no event channel. A program that is to wait
    /// for its channel tries again.
    ///
    /// # Real-time
    /// Allocates, calls, and starts a thread `event-remote`, which probes and reconnects.
    pub fn connect(orb: &Orb, channel: &str) -> Result<RemoteChannel, RemoteError> {
        RemoteChannel::builder().connect(orb, channel)
    }

    /// The settings of a connection.
    pub fn builder() -> RemoteChannelBuilder {
        RemoteChannelBuilder::default()
    }

    /// Connects a consumer of events that pass the filter, until the result is dropped. `handle`
    /// runs on the ORB's threads, and for each event of a conjunction in turn.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn consume(
        &self,
        filter: Filter,
        handle: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<RemoteConsumer, RemoteError> {
        self.consume_as(0, filter, handle)
    }

    /// As [`consume`](Self::consume), as the operation of the channel's schedule with this handle
    /// (`rt_info`), so that it is admitted with its deadline and priority.
    ///
    /// # Errors
    /// As [`consume`](Self::consume); NO_RESOURCES if the schedule does not admit it.
    pub fn consume_as(
        &self,
        rt_info: i32,
        filter: Filter,
        handle: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<RemoteConsumer, RemoteError> {
        self.consume_with(RemoteQos { rt_info, ..RemoteQos::default() }, filter, handle)
    }

    /// As [`consume`](Self::consume), with more wishes: events of the channel's history first, a
    /// time-based filter, or a condition on the payload. After an interruption it asks for the
    /// history again, and skips the events that it has had, so that it misses those only that the
    /// history has lost.
    ///
    /// # Errors
    /// As [`consume`](Self::consume); NO_RESOURCES if the channel keeps no history;
    /// [`RemoteError::Refused`] if it is not isorb's, unless `qos` names an operation only.
    pub fn consume_with(
        &self,
        qos: RemoteQos,
        filter: Filter,
        handle: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<RemoteConsumer, RemoteError> {
        let always = move |event: &Event<'_>| {
            handle(event);
            Ok(())
        };
        RemoteConsumer::connect(&self.0, qos, filter, Box::new(always))
    }

    /// As [`consume`](Self::consume), with payloads that are values of an IDL type, as
    /// [`RemoteSupplier::push_value`] makes them. Others are counted
    /// ([`RemoteCounts::malformed`]) and ignored.
    ///
    /// # Errors
    /// As [`consume`](Self::consume).
    ///
    /// # Real-time
    /// Allocates for each event.
    pub fn consume_values<T: Idl>(
        &self,
        filter: Filter,
        handle: impl Fn(&Header, T) + Send + Sync + 'static,
    ) -> Result<RemoteConsumer, RemoteError> {
        let typed =
            move |event: &Event<'_>| decode(event.data.octets).map(|value| handle(&event.header, value));
        RemoteConsumer::connect(&self.0, RemoteQos::default(), filter, Box::new(typed))
    }

    /// As [`consume`](Self::consume), of the events that satisfy a condition on their payload. The
    /// channel evaluates it, so that other events do not cross the network. As it keeps some
    /// events, this consumer does not count lost ones ([`RemoteCounts::lost`]).
    ///
    /// # Errors
    /// As [`consume`](Self::consume). The channel must be isorb's, and of a version with content
    /// filters.
    pub fn consume_where(
        &self,
        filter: Filter,
        content: ContentFilter,
        handle: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<RemoteConsumer, RemoteError> {
        self.consume_with(RemoteQos::content(content), filter, handle)
    }

    /// As [`consume_values`](Self::consume_values), of the values that satisfy a condition, such as
    /// `position.altitude > 300 && id == 7`. See [`consume_where`](Self::consume_where).
    ///
    /// # Errors
    /// As [`consume_where`](Self::consume_where); [`RemoteError::Content`] for an expression that
    /// is no condition on the type.
    ///
    /// # Real-time
    /// Allocates for each event.
    pub fn consume_values_where<T: Idl + AnyValue>(
        &self,
        filter: Filter,
        expression: &str,
        handle: impl Fn(&Header, T) + Send + Sync + 'static,
    ) -> Result<RemoteConsumer, RemoteError> {
        let qos = RemoteQos::content(ContentFilter::of::<T>(expression)?);
        let typed =
            move |event: &Event<'_>| decode(event.data.octets).map(|value| handle(&event.header, value));
        RemoteConsumer::connect(&self.0, qos, filter, Box::new(typed))
    }

    /// Observes what the channel's consumers want, gateways excluded, until the result is dropped.
    /// `handle` gets all their filters, at first and after each change, on a thread of the ORB; see
    /// [`Observer::update_consumers`](crate::Observer::update_consumers). After the connection ended
    /// it gets them anew.
    ///
    /// # Errors
    /// [`RemoteError`]; [`Refused`](RemoteError::Refused) if the channel takes no further observers.
    pub fn observe(
        &self,
        handle: impl Fn(&[Filter]) + Send + Sync + 'static,
    ) -> Result<RemoteObserver, RemoteError> {
        RemoteObserver::connect(&self.0, Arc::new(handle))
    }

    /// Connects a supplier that does not say what it pushes, until the result is dropped.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn supplier(&self) -> Result<RemoteSupplier, RemoteError> {
        self.supplier_of([])
    }

    /// Connects a supplier of these events, until the result is dropped.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn supplier_of(
        &self,
        publications: impl IntoIterator<Item = Publication>,
    ) -> Result<RemoteSupplier, RemoteError> {
        RemoteSupplier::connect(&self.0, publications.into_iter().collect(), None)
    }

    /// As [`supplier_of`](Self::supplier_of), of a supplier that competes with others for the
    /// instances that it pushes: while a stronger one pushes an instance, its own events of it are
    /// dropped. Where its process is killed, the others are heard when its lease is over; without a
    /// lease when the channel's pings have found it to be gone.
    ///
    /// # Errors
    /// [`RemoteError`]; [`Refused`](RemoteError::Refused) if the channel is not isorb's, or older.
    pub fn supplier_with(
        &self,
        publications: impl IntoIterator<Item = Publication>,
        ownership: Ownership,
    ) -> Result<RemoteSupplier, RemoteError> {
        RemoteSupplier::connect(&self.0, publications.into_iter().collect(), Some(ownership))
    }

    /// Whether the channel answered when it was last asked.
    pub fn is_connected(&self) -> bool {
        self.0.is_connected()
    }
}

impl fmt::Debug for RemoteChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteChannel").field(&self.0.url).finish()
    }
}
