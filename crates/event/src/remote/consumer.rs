//! A consumer of a channel in another process.

use super::gaps::{Arrival, GapDetector};
use super::monitor::{Reconnectable, Shared};
use super::{Notice, RemoteError, RemoteQos, units};
use crate::content::ContentFilter;
use crate::event::{Data, Event, Header, Origin};
use crate::filter::{Dependency, Filter, encode};
use crate::servants::any;
use crate::servants::stamped;
use crate::servants::stamped::isorb_rtec_event_channel_admin::{
    self as numbered,
    proxy_push_supplier::{ConnectPushConsumerWithError, SetContentError},
};
use crate::servants::stamped::rtec_event_channel_admin::{
    self as admin, ConsumerQOS, EventChannelRef, ProxyPushSupplierRef,
    proxy_push_supplier::ConnectPushConsumerError,
};
use crate::servants::stamped::rtec_event_comm::{self as comm, EventSetView, PushConsumerRef};
use isorb::poa::ObjectId;
use isorb::{Kind, Object, Reference, Result, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Handles an event. An error is that of its payload.
type Handler = Box<dyn Fn(&Event<'_>) -> Result<()> + Send + Sync>;

/// The counts of a [`RemoteConsumer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RemoteCounts {
    /// Events that arrived.
    pub received: u64,
    /// Events that did not arrive: the gaps in the numbers of suppliers, without those that came
    /// late. Events of suppliers that give no numbers are not known. Those are all but
    /// [`RemoteSupplier`](super::RemoteSupplier), and those beyond a link of a federation.
    pub lost: u64,
    /// Events of the history that had arrived before, and were skipped.
    pub repeated: u64,
    /// Payloads that are no values of the expected type.
    pub malformed: u64,
    /// How often it was connected, the first time included.
    pub connected: u64,
}

/// A consumer that stays connected until this is dropped; from
/// [`RemoteChannel::consume`](super::RemoteChannel::consume).
pub struct RemoteConsumer(Arc<Consumer>);

struct Consumer {
    shared: Arc<Shared>,
    qos: ConsumerQOS,
    wishes: RemoteQos,
    servant: Arc<ConsumerServant>,
    id: ObjectId,
    reference: numbered::PushConsumerRef,
}

struct ConsumerServant {
    shared: Weak<Shared>,
    proxy: PiMutex<Option<ProxyPushSupplierRef>>,
    handle: Handler,
    /// Conjunctions, content filters and time-based filters keep some events: there the gaps say
    /// nothing.
    counts_gaps: bool,
    /// It asks for the history again after an interruption.
    skips_repeated: bool,
    gaps: PiMutex<GapDetector>,
    received: AtomicU64,
    lost: AtomicU64,
    repeated: AtomicU64,
    malformed: AtomicU64,
    connected: AtomicU64,
    reported: AtomicBool,
}

impl RemoteConsumer {
    pub(super) fn connect(
        shared: &Arc<Shared>,
        wishes: RemoteQos,
        filter: Filter,
        handle: Handler,
    ) -> Result<RemoteConsumer, RemoteError> {
        filter.check().map_err(RemoteError::Filter)?;
        let dependency = |d: &Dependency| admin::Dependency {
            event: comm::Event { header: stamped::header(&d.header), data: Default::default() },
            rt_info: d.rt_info,
        };
        let counts_gaps =
            wishes.content.is_none() && wishes.min_separation.is_zero() && !has_conjunction(&filter);
        let dependencies = encode(&[filter], wishes.rt_info).iter().map(dependency).collect();
        let servant = Arc::new(ConsumerServant {
            shared: Arc::downgrade(shared),
            proxy: PiMutex::default(),
            handle,
            counts_gaps,
            skips_repeated: wishes.history.last != 0,
            gaps: PiMutex::default(),
            received: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        });
        let reference: numbered::PushConsumerRef =
            shared.poa.activate(servant.clone()).map_err(SystemException::from)?;
        let id =
            shared.poa.reference_to_id(reference.object()).map_err(|_| Kind::Internal).map_err(system)?;
        let qos = ConsumerQOS { dependencies, is_gateway: shared.gateway };
        // From here on its drop takes the servant back.
        let consumer = RemoteConsumer(Arc::new(Consumer {
            shared: shared.clone(),
            qos,
            wishes,
            servant,
            id,
            reference,
        }));
        consumer.0.register(&shared.resolve()?)?;
        shared.add(&consumer.0);
        Ok(consumer)
    }

    /// Its counts so far.
    pub fn counts(&self) -> RemoteCounts {
        let servant = &self.0.servant;
        RemoteCounts {
            received: servant.received.load(Relaxed),
            lost: servant.lost.load(Relaxed),
            repeated: servant.repeated.load(Relaxed),
            malformed: servant.malformed.load(Relaxed),
            connected: servant.connected.load(Relaxed),
        }
    }

    /// The number of the last event of this type and source that arrived from a supplier
    /// ([`Origin`]); `None` if there was none.
    pub fn last(&self, supplier: u64, event_type: i32, source: i32) -> Option<u64> {
        self.0.servant.gaps.lock().last(supplier, event_type, source)
    }
}

const TYPE_ERROR: RemoteError = RemoteError::Refused("the channel does not take the filter (TypeError)");
const ALREADY_CONNECTED: RemoteError =
    RemoteError::Refused("the channel gave a proxy that is connected already");
const NO_OPTIONS: RemoteError =
    RemoteError::Refused("the channel is not isorb's: it has neither a history nor a time-based filter");

fn options(wishes: &RemoteQos) -> numbered::ConsumerOptions {
    numbered::ConsumerOptions {
        history_last: u32::try_from(wishes.history.last).unwrap_or(u32::MAX),
        history_age: wishes.history.age.map_or(0, |age| units(age).max(1)),
        min_separation: units(wishes.min_separation),
    }
}

fn system(kind: Kind) -> SystemException {
    kind.into()
}

fn has_conjunction(filter: &Filter) -> bool {
    match filter {
        Filter::Conjunction(_) => true,
        Filter::Disjunction(filters) | Filter::LogicalAnd(filters) => filters.iter().any(has_conjunction),
        Filter::Not(filter) | Filter::Bits { behind: filter, .. } => has_conjunction(filter),
        _ => false,
    }
}

impl Reconnectable for Consumer {
    fn proxy(&self) -> Option<Object> {
        self.servant.proxy.lock().as_ref().map(|proxy| proxy.object().clone())
    }

    fn register(&self, channel: &EventChannelRef) -> Result<(), RemoteError> {
        let nil = || SystemException::from(Kind::InvObjref).detail("the channel gave a nil reference");
        let consumers = channel.for_consumers()?.ok_or_else(nil)?;
        let consumers = admin::ConsumerAdminRef::from_object(self.shared.timed(consumers.object()));
        let proxy = consumers.obtain_push_supplier()?.ok_or_else(nil)?;
        let proxy = ProxyPushSupplierRef::from_object(self.shared.timed(proxy.object()));
        if let Some(content) = &self.wishes.content {
            set_content(&proxy, content)?;
        }
        if let Some(period) = self.wishes.instance_period {
            set_instance_period(&proxy, period)?;
        }
        let me = PushConsumerRef::from_object(self.reference.object().clone());
        if self.wishes.is_plain() {
            proxy.connect_push_consumer(&me, &self.qos).map_err(|error| match error {
                ConnectPushConsumerError::TypeError(_) => TYPE_ERROR,
                ConnectPushConsumerError::AlreadyConnected(_) => ALREADY_CONNECTED,
                ConnectPushConsumerError::System(exception) => exception.into(),
            })?;
        } else {
            let able = proxy.object().narrow::<numbered::ProxyPushSupplierRef>()?.ok_or(NO_OPTIONS)?;
            able.connect_push_consumer_with(&me, &self.qos, options(&self.wishes)).map_err(|error| {
                match error {
                    ConnectPushConsumerWithError::TypeError(_) => TYPE_ERROR,
                    ConnectPushConsumerWithError::AlreadyConnected(_) => ALREADY_CONNECTED,
                    ConnectPushConsumerWithError::System(exception) => exception.into(),
                }
            })?;
        }
        *self.servant.proxy.lock() = Some(proxy);
        self.servant.connected.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Has the channel watch the instances.
fn set_instance_period(proxy: &ProxyPushSupplierRef, period: Duration) -> Result<(), RemoteError> {
    let proxy = numbered::ProxyPushSupplierRef::from_object(proxy.object().clone());
    proxy.set_instance_period(units(period).max(1)).map_err(|exception| match exception.kind {
        Kind::BadOperation => {
            RemoteError::Refused("the channel watches no instances: it is not isorb's, or older")
        }
        _ => exception.into(),
    })
}

/// Has the channel filter by payload.
fn set_content(proxy: &ProxyPushSupplierRef, content: &ContentFilter) -> Result<(), RemoteError> {
    let proxy = numbered::ProxyPushSupplierRef::from_object(proxy.object().clone());
    match proxy.set_content(content.expression(), content.payload()) {
        Ok(()) => Ok(()),
        // The client's limits and the channel's may differ.
        Err(SetContentError::ContentError(refused)) => Err(SystemException::from(Kind::ImpLimit)
            .detail(format!("the channel does not take the content filter: {}", refused.why))
            .into()),
        Err(SetContentError::System(exception)) if exception.kind == Kind::BadOperation => {
            Err(RemoteError::Refused("the channel has no content filters: it is not isorb's, or older"))
        }
        Err(SetContentError::System(exception)) => Err(exception.into()),
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.shared.poa.deactivate_object(&self.id);
        let proxy = self.servant.proxy.lock().take();
        if let Some(proxy) = proxy.filter(|_| self.shared.is_connected()) {
            // A channel that does not answer removes it by its ping.
            let _ = proxy.disconnect_push_supplier();
        }
    }
}

impl ConsumerServant {
    fn handle(&self, data: EventSetView<'_>, origins: &[numbered::Origin]) {
        for (at, event) in data.iter().enumerate() {
            let header = &event.header;
            let header = Header {
                event_type: header.type_,
                source: header.source,
                ttl: header.ttl,
                creation_time: header.creation_time,
            };
            let origin = origins.get(at).map_or(Origin::default(), |origin| Origin {
                supplier: origin.supplier,
                number: origin.number,
            });
            let arrival = match self.counts_gaps || self.skips_repeated {
                true => self.gaps.lock().arrived(&header, origin),
                false => Arrival::InOrder,
            };
            if arrival == Arrival::Again && self.skips_repeated {
                self.repeated.fetch_add(1, Relaxed);
                continue;
            }
            self.received.fetch_add(1, Relaxed);
            if self.counts_gaps {
                self.note(arrival, &header, origin);
            }
            let any = any::pack(event.data.any_value);
            let data = Data { pad1: event.data.pad1, octets: event.data.payload, any: &any };
            if let Err(malformed) = (self.handle)(&Event { header, data, origin, ..Event::default() }) {
                self.malformed.fetch_add(1, Relaxed);
                if !self.reported.swap(true, Relaxed) {
                    self.notify(&Notice::Malformed(malformed));
                }
            }
        }
    }

    fn note(&self, arrival: Arrival, header: &Header, origin: Origin) {
        match arrival {
            Arrival::InOrder | Arrival::Again => {}
            Arrival::Late => {
                let _ = self.lost.fetch_update(Relaxed, Relaxed, |lost| lost.checked_sub(1));
                let (Origin { supplier, number }, event_type, source) =
                    (origin, header.event_type, header.source);
                self.notify(&Notice::Late { supplier, event_type, source, number });
            }
            Arrival::After(gap) => {
                self.lost.fetch_add(gap.lost(), Relaxed);
                self.notify(&Notice::Lost(gap));
            }
        }
    }

    fn notify(&self, notice: &Notice) {
        if let Some(shared) = self.shared.upgrade() {
            shared.notify(notice);
        }
    }
}

impl comm::PushConsumer for ConsumerServant {
    fn push(&self, _: Upcall<'_>, data: EventSetView<'_>) -> Result<()> {
        self.handle(data, &[]);
        Ok(())
    }

    /// The channel disconnects it. As the program has not asked for that, it is connected anew.
    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> Result<()> {
        *self.proxy.lock() = None;
        if let Some(shared) = self.shared.upgrade() {
            shared.suspect();
        }
        Ok(())
    }
}

impl numbered::PushConsumer for ConsumerServant {
    fn push_numbered(
        &self,
        _: Upcall<'_>,
        data: EventSetView<'_>,
        origins: &[numbered::Origin],
    ) -> Result<()> {
        self.handle(data, origins);
        Ok(())
    }
}

impl fmt::Debug for RemoteConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteConsumer").field(&self.counts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servants::stamped::{RtecEventDataView, rtec_event_comm::EventView};
    use isorb::generated::Any;

    /// After an interruption the history is asked for again.
    #[test]
    fn events_of_the_history_that_came_before_are_skipped() {
        let seen = Arc::new(PiMutex::new(Vec::new()));
        let log = seen.clone();
        let servant = |skips_repeated| ConsumerServant {
            shared: Weak::new(),
            proxy: PiMutex::default(),
            handle: Box::new({
                let log = log.clone();
                move |event: &Event<'_>| {
                    log.lock().push((event.origin.supplier, event.origin.number));
                    Ok(())
                }
            }),
            counts_gaps: true,
            skips_repeated,
            gaps: PiMutex::default(),
            received: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        };
        let push = |servant: &ConsumerServant, supplier, number| {
            let any = Any::default();
            let header = stamped::header(&Header { event_type: 20, source: 1, ..Header::default() });
            let data = RtecEventDataView { pad1: 0, payload: &[], any_value: &any };
            servant.handle(&[EventView { header, data }], &[numbered::Origin { supplier, number }]);
        };
        let late = servant(true);
        // Those of the history, later ones, the history again; a supplier without numbers.
        for (supplier, number) in
            [(7, 3), (7, 4), (7, 5), (7, 4), (7, 5), (7, 6), (7, 8), (0, 0), (0, 0), (9, 1)]
        {
            push(&late, supplier, number);
        }
        assert_eq!(*seen.lock(), [(7, 3), (7, 4), (7, 5), (7, 6), (7, 8), (0, 0), (0, 0), (9, 1)]);
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        assert_eq!((count(&late.received), count(&late.repeated), count(&late.lost)), (8, 2, 1));
        // Another thread of the supplier was faster: it is late, and not repeated.
        [7, 7, 8].into_iter().for_each(|number| push(&late, 7, number));
        assert_eq!(seen.lock().last(), Some(&(7, 7)));
        assert_eq!((count(&late.received), count(&late.repeated), count(&late.lost)), (9, 4, 0));
        // A consumer that asks for no history takes what comes late.
        let plain = servant(false);
        [1, 3, 2].into_iter().for_each(|number| push(&plain, 7, number));
        assert_eq!((count(&plain.received), count(&plain.repeated), count(&plain.lost)), (3, 0, 0));
    }
}
