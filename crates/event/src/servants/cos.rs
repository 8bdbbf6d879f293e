//! The servants of the OMG's Event Service: push and pull, in any mixture.
//!
//! Its events have no type and no source. They enter the channel as notifications
//! ([`STANDARD_EVENT`]) without a source. Each event of the channel that has an any is passed to
//! its consumers.

use super::EventServiceOptions;
use super::any;
use super::backoff::Backoff;
use super::control::MonitoredPeer;
use super::cos_pull::{PullConsumerServant, PullSupplierServant};
use super::proxies::ProxySlot;
use super::remote_peer::failure_of;
use super::service::Shared;
use super::standard::{cos_event_channel_admin as admin_idl, cos_event_comm as comm};
use super::supplier_proxy::SupplierProxyState;
use crate::admin::{ConsumerQos, ProxyPushConsumer, ProxyPushSupplier, Pushed};
use crate::channel::Channel;
use crate::designator;
use crate::dispatch::Dispatch;
use crate::event::{Data, Event, Header};
use crate::filter::Filter;
use crate::{Failure, PushConsumer};
use admin_idl::{
    AlreadyConnected, proxy_push_consumer::ConnectPushSupplierError,
    proxy_push_supplier::ConnectPushConsumerError,
};
use comm::{Disconnected, push_consumer::PushError};
use isorb::{Any, Completion, Kind, Object, Orb, Reference, Result, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::sync::{Arc, Weak};

/// A channel with the interfaces of the OMG's Event Service.
pub struct CosEventService {
    object: Object,
    shared: Arc<Shared>,
}

/// The type of events from suppliers of the OMG's Event Service.
pub const STANDARD_EVENT: i32 = designator::NOTIFICATION;

impl CosEventService {
    /// Makes the channel an object of the ORB, with a POA of its own below the root POA, and under
    /// the key `CosEventChannel` of a `corbaloc` URL.
    ///
    /// # Errors
    /// As [`RtecEventService::start`](super::RtecEventService::start).
    pub fn start(orb: &Orb, channel: &Channel, options: EventServiceOptions) -> Result<CosEventService> {
        // Its interfaces have no priorities.
        let levels = [options.quality.priority];
        let shared = Shared::start(orb, channel, options, "cos-events", &levels, None)?;
        let consumers = shared.poa.activate(Arc::new(ConsumerAdminServant(shared.clone())))?;
        let suppliers = shared.poa.activate(Arc::new(SupplierAdminServant(shared.clone())))?;
        let servant = ChannelServant { shared: shared.clone(), consumers, suppliers };
        let channel: admin_idl::EventChannelRef = shared.poa.activate(Arc::new(servant))?;
        let object = channel.object().clone();
        orb.register_corbaloc_key("CosEventChannel", &object);
        Ok(CosEventService { object, shared })
    }

    /// The channel's reference. Its `Display` is the stringified reference.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// As [`RtecEventService::check`](super::RtecEventService::check).
    pub fn check(&self) -> usize {
        self.shared.control.check()
    }
}

impl std::fmt::Debug for CosEventService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CosEventService").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

struct ChannelServant {
    shared: Arc<Shared>,
    consumers: admin_idl::ConsumerAdminRef,
    suppliers: admin_idl::SupplierAdminRef,
}

impl admin_idl::EventChannel for ChannelServant {
    fn for_consumers<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u admin_idl::ConsumerAdminRef>> {
        Ok(Some(&self.consumers))
    }

    fn for_suppliers<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u admin_idl::SupplierAdminRef>> {
        Ok(Some(&self.suppliers))
    }

    fn destroy(&self, _: Upcall<'_>) -> Result<()> {
        self.shared.destroy(&self.consumers)
    }
}

struct ConsumerAdminServant(Arc<Shared>);

impl admin_idl::ConsumerAdmin for ConsumerAdminServant {
    fn obtain_push_supplier<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPushSupplierRef>> {
        let proxy = Arc::new_cyclic(|me| PushSupplierServant {
            shared: self.0.clone(),
            me: me.clone(),
            slot: ProxySlot::default(),
            ends: ConsumerProxyState::default(),
        });
        let reference: admin_idl::ProxyPushSupplierRef = self.0.proxies.activate(cx, &proxy, &proxy.slot)?;
        cx.keep(reference).map(Some)
    }

    fn obtain_pull_supplier<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPullSupplierRef>> {
        let proxy = PullSupplierServant::new(&self.0);
        let reference: admin_idl::ProxyPullSupplierRef = self.0.proxies.activate(cx, &proxy, &proxy.slot)?;
        cx.keep(reference).map(Some)
    }
}

struct SupplierAdminServant(Arc<Shared>);

impl admin_idl::SupplierAdmin for SupplierAdminServant {
    fn obtain_push_consumer<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPushConsumerRef>> {
        let proxy = Arc::new(PushConsumerServant(SupplierProxyState::of(&self.0)));
        let reference: admin_idl::ProxyPushConsumerRef =
            self.0.proxies.activate(cx, &proxy, &proxy.0.slot)?;
        cx.keep(reference).map(Some)
    }

    fn obtain_pull_consumer<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPullConsumerRef>> {
        let proxy = PullConsumerServant::new(&self.0);
        let reference: admin_idl::ProxyPullConsumerRef = self.0.proxies.activate(cx, &proxy, &proxy.slot)?;
        cx.keep(reference).map(Some)
    }
}

/// The state of a consumer's proxy.
#[derive(Default)]
pub(super) struct ConsumerProxyState(PiMutex<ConsumerProxyInner>);

#[derive(Default)]
struct ConsumerProxyInner {
    proxy: Option<ProxyPushSupplier>,
    watch: Option<u64>,
    connected: bool,
    ended: bool,
}

impl ConsumerProxyState {
    /// Connects a consumer. `dispatch` is its own dispatcher; `watch` is the peer to be pinged, if
    /// it gave a reference.
    pub fn connect<E: From<AlreadyConnected> + From<SystemException>>(
        &self,
        shared: &Shared,
        slot: &ProxySlot,
        consumer: Arc<dyn PushConsumer>,
        dispatch: Option<Arc<dyn Dispatch>>,
        watch: Option<(&Object, Weak<dyn MonitoredPeer>)>,
    ) -> Result<(), E> {
        let mut state = self.0.lock();
        if state.connected || state.ended {
            return Err(AlreadyConnected {}.into());
        }
        let qos = ConsumerQos {
            name: "standard".into(),
            address: watch.as_ref().and_then(|(peer, _)| peer.address()).unwrap_or_default(),
            filters: vec![Filter::Everything],
            content: None,
            quality: shared.options.quality.clone(),
            gateway: false,
            dispatch,
            ..ConsumerQos::default()
        };
        let proxy = shared.channel.for_consumers().connect(consumer, qos);
        let refused =
            |error: crate::ConnectError| SystemException::from(Kind::ImpLimit).detail(error.to_string());
        let proxy = proxy.map_err(refused)?;
        if !shared.proxies.connected(slot) {
            return Err(SystemException::from(Kind::ObjectNotExist).into());
        }
        state.proxy = Some(proxy);
        state.connected = true;
        state.watch = watch.map(|(peer, me)| shared.control.watch(peer, me, &[]));
        Ok(())
    }

    /// Disconnects the consumer and deactivates the proxy.
    pub fn end(&self, shared: &Shared, slot: &ProxySlot) {
        let mut state = self.0.lock();
        state.ended = true;
        let (proxy, watch) = (state.proxy.take(), state.watch.take());
        drop(state);
        if let Some(watch) = watch {
            shared.control.forget(watch);
        }
        shared.proxies.retire(slot);
        drop(proxy);
    }

    pub fn is_connected(&self) -> bool {
        let state = self.0.lock();
        state.connected && !state.ended
    }
}

/// The proxy of a push consumer.
struct PushSupplierServant {
    shared: Arc<Shared>,
    me: Weak<PushSupplierServant>,
    slot: ProxySlot,
    ends: ConsumerProxyState,
}

impl MonitoredPeer for PushSupplierServant {
    fn lost(&self) {
        self.ends.end(&self.shared, &self.slot);
    }
}

impl comm::PushSupplier for PushSupplierServant {
    fn disconnect_push_supplier(&self, _: Upcall<'_>) -> Result<()> {
        self.lost();
        Ok(())
    }
}

impl admin_idl::ProxyPushSupplier for PushSupplierServant {
    fn connect_push_consumer(
        &self,
        _: Upcall<'_>,
        push_consumer: Option<&comm::PushConsumerRef>,
    ) -> Result<(), ConnectPushConsumerError> {
        let consumer = push_consumer.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let reference = comm::PushConsumerRef::from_object(self.shared.timed(consumer.object()));
        let remote =
            RemotePushConsumer { reference, backoff: Backoff::new(self.shared.options.push_timeout) };
        let me: Weak<dyn MonitoredPeer> = self.me.clone();
        let dispatch = self.shared.dispatch.clone();
        self.ends.connect(&self.shared, &self.slot, Arc::new(remote), dispatch, Some((consumer.object(), me)))
    }
}

/// A remote push consumer. The standard's push is two-way, so each push waits for its reply, on a
/// thread that serves only remote consumers.
struct RemotePushConsumer {
    reference: comm::PushConsumerRef,
    backoff: Backoff,
}

impl PushConsumer for RemotePushConsumer {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        for event in events.iter().filter(|event| !event.data.any.is_empty()) {
            match self.reference.push(&any::unpack(event.data.any)) {
                Ok(()) => self.backoff.record(None),
                Err(comm::push_consumer::PushError::System(exception)) => {
                    self.backoff.record(Some(exception.kind));
                    return Err(failure_of(&exception));
                }
                Err(_) => {
                    self.backoff.record(None);
                    return Err(Failure::Failed);
                }
            }
        }
        Ok(())
    }

    fn backoff(&self) -> std::time::Duration {
        self.backoff.delay()
    }

    fn disconnected(&self) {
        let _ = self.reference.disconnect_push_consumer();
    }
}

/// Pushes a value into the channel.
pub(super) fn send(supplier: &ProxyPushConsumer, value: &Any) -> Pushed {
    let packed = any::pack_value(value);
    let header = Header { event_type: STANDARD_EVENT, source: 0, ttl: 1, creation_time: 0 };
    let data = Data { any: &packed, ..Data::default() };
    supplier.push(&Event { header, data, ..Event::default() })
}

pub(super) fn connect_supplier(shared: &Shared) -> Result<ProxyPushConsumer> {
    let refused =
        |error: crate::ConnectError| SystemException::from(Kind::ImpLimit).detail(error.to_string());
    shared.channel.for_suppliers().connect().map_err(refused)
}

/// The proxy of a push supplier.
struct PushConsumerServant(Arc<SupplierProxyState>);

impl comm::PushConsumer for PushConsumerServant {
    fn push(&self, cx: Upcall<'_>, data: &Any) -> Result<(), PushError> {
        let supplier = self.0.supplier().ok_or(Disconnected {})?;
        isorb_access::authorize_types(cx, [STANDARD_EVENT])?;
        match send(&supplier, data).too_large {
            0 => Ok(()),
            // The standard has no exception for this. Consumers without a queue have received the
            // event.
            missed => Err(SystemException::from(Kind::ImpLimit)
                .completed(Completion::Yes)
                .detail(format!("{missed} consumers did not receive the event: it is larger than the channel's copies (Limits::payload)"))
                .into()),
        }
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> Result<()> {
        self.0.end();
        Ok(())
    }
}

impl admin_idl::ProxyPushConsumer for PushConsumerServant {
    fn connect_push_supplier(
        &self,
        cx: Upcall<'_>,
        push_supplier: Option<&comm::PushSupplierRef>,
    ) -> Result<(), ConnectPushSupplierError> {
        isorb_access::authorize_types(cx, [STANDARD_EVENT])?;
        match self.0.connect(push_supplier.map(|peer| peer.object()), None, connect_supplier)? {
            true => Ok(()),
            false => Err(AlreadyConnected {}.into()),
        }
    }
}
