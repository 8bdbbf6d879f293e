//! The servants of the OMG's Event Service: push and pull, in any mixture.
//!
//! Its events have no type and no source. They enter the channel as notifications ([`STANDARD_EVENT`]) without a source; and
//! whatever any supplier of the channel sends with an any in it comes out.

use super::FaceOptions;
use super::any;
use super::control::Connected;
use super::options::Shared;
use super::patience::Patience;
use super::standard::{cos_event_channel_admin as admin_idl, cos_event_comm as comm};
use crate::admin::{ConsumerQos, ProxyPushConsumer, ProxyPushSupplier, Pushed};
use crate::channel::Channel;
use crate::designator;
use crate::event::{Data, Event, Header};
use crate::filter::Filter;
use crate::{Failure, PushConsumer};
use admin_idl::{
    AlreadyConnected, proxy_pull_consumer::ConnectPullSupplierError,
    proxy_pull_supplier::ConnectPullConsumerError, proxy_push_consumer::ConnectPushSupplierError,
    proxy_push_supplier::ConnectPushConsumerError,
};
use comm::{
    Disconnected,
    pull_supplier::{PullError, TryPullError},
    push_consumer::PushError,
};
use isorb::{Any, Completion, Kind, Object, Orb, Reference, Result, SystemException, Upcall};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a `pull` waits inside before it looks whether it still should.
const PULL_SLICE: Duration = Duration::from_millis(200);
/// How often a pull supplier is asked that had nothing.
const PULL_PAUSE: Duration = Duration::from_millis(20);

/// A channel with the interfaces of the OMG's Event Service.
pub struct StandardFace {
    object: Object,
    shared: Arc<Shared>,
}

/// The type of events that come from the standard face.
pub const STANDARD_EVENT: i32 = designator::NOTIFICATION;

impl StandardFace {
    /// Makes the channel an object of the ORB: with a POA of its own below the root POA, and under the key `CosEventChannel` of
    /// a `corbaloc` URL.
    ///
    /// # Errors
    /// As [`RealTimeFace::start`](super::RealTimeFace::start).
    pub fn start(orb: &Orb, channel: &Channel, options: FaceOptions) -> Result<StandardFace> {
        // Its consumers have no words for how urgent they are.
        let levels = [options.quality.priority];
        let shared = Shared::start(orb, channel, options, "cos-events", &levels)?;
        let consumers = shared.poa.activate(Arc::new(Consumers(shared.clone())))?;
        let suppliers = shared.poa.activate(Arc::new(Suppliers(shared.clone())))?;
        let servant = ChannelServant { shared: shared.clone(), consumers, suppliers };
        let channel: admin_idl::EventChannelRef = shared.poa.activate(Arc::new(servant))?;
        let object = channel.object().clone();
        orb.register_corbaloc_key("CosEventChannel", &object);
        Ok(StandardFace { object, shared })
    }

    /// The channel's reference, untyped: its `Display` is the stringified one.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// As [`RealTimeFace::check`](super::RealTimeFace::check).
    pub fn check(&self) -> usize {
        self.shared.control.check()
    }
}

impl std::fmt::Debug for StandardFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandardFace").field("options", &self.shared.options).finish_non_exhaustive()
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
        self.shared.channel.destroy();
        Ok(())
    }
}

struct Consumers(Arc<Shared>);

impl admin_idl::ConsumerAdmin for Consumers {
    fn obtain_push_supplier<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPushSupplierRef>> {
        let proxy =
            Arc::new_cyclic(|me| ToPush { shared: self.0.clone(), me: me.clone(), ends: Ends::default() });
        let reference: admin_idl::ProxyPushSupplierRef = self.0.poa.activate(proxy)?;
        cx.keep(reference).map(Some)
    }

    fn obtain_pull_supplier<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPullSupplierRef>> {
        let proxy = Arc::new(ToPull {
            shared: self.0.clone(),
            store: Arc::new(Store::new(self.0.options.quality.queue.max(1))),
            ends: Ends::default(),
        });
        let reference: admin_idl::ProxyPullSupplierRef = self.0.poa.activate(proxy)?;
        cx.keep(reference).map(Some)
    }
}

struct Suppliers(Arc<Shared>);

impl admin_idl::SupplierAdmin for Suppliers {
    fn obtain_push_consumer<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPushConsumerRef>> {
        let proxy = Arc::new(FromPush { shared: self.0.clone(), supplier: PiMutex::default() });
        let reference: admin_idl::ProxyPushConsumerRef = self.0.poa.activate(proxy)?;
        cx.keep(reference).map(Some)
    }

    fn obtain_pull_consumer<'u>(
        &'u self,
        cx: Upcall<'u>,
    ) -> Result<Option<&'u admin_idl::ProxyPullConsumerRef>> {
        let proxy = Arc::new(FromPull { shared: self.0.clone(), asking: PiMutex::default() });
        let reference: admin_idl::ProxyPullConsumerRef = self.0.poa.activate(proxy)?;
        cx.keep(reference).map(Some)
    }
}

fn retire(cx: Upcall<'_>) {
    if let Some(poa) = cx.poa() {
        let _ = poa.deactivate_object(cx.object_id());
    }
}

/// What a proxy of a consumer holds while it is connected.
#[derive(Default)]
struct Ends(PiMutex<EndsState>);

#[derive(Default)]
struct EndsState {
    proxy: Option<ProxyPushSupplier>,
    watch: Option<u64>,
    connected: bool,
    ended: bool,
}

impl Ends {
    fn connect<E: From<AlreadyConnected> + From<SystemException>>(
        &self,
        shared: &Shared,
        consumer: Arc<dyn PushConsumer>,
        own_dispatch: bool,
        watch: Option<(&Object, Weak<dyn Connected>)>,
    ) -> Result<(), E> {
        let mut state = self.0.lock();
        if state.connected || state.ended {
            return Err(AlreadyConnected {}.into());
        }
        let qos = ConsumerQos {
            name: "standard".into(),
            filters: vec![Filter::Everything],
            quality: shared.options.quality.clone(),
            gateway: false,
            dispatch: shared.dispatch.clone().filter(|_| own_dispatch),
        };
        let proxy = shared.channel.for_consumers().connect(consumer, qos);
        let refused =
            |error: crate::ConnectError| SystemException::from(Kind::ImpLimit).detail(error.to_string());
        state.proxy = Some(proxy.map_err(refused)?);
        state.connected = true;
        state.watch = watch.map(|(peer, me)| shared.control.watch(peer, me));
        Ok(())
    }

    fn end(&self, shared: &Shared) {
        let mut state = self.0.lock();
        state.ended = true;
        let (proxy, watch) = (state.proxy.take(), state.watch.take());
        drop(state);
        if let Some(watch) = watch {
            shared.control.forget(watch);
        }
        drop(proxy);
    }
}

/// The proxy of a push consumer.
struct ToPush {
    shared: Arc<Shared>,
    me: Weak<ToPush>,
    ends: Ends,
}

impl Connected for ToPush {
    fn lost(&self) {
        self.ends.end(&self.shared);
    }
}

impl comm::PushSupplier for ToPush {
    fn disconnect_push_supplier(&self, cx: Upcall<'_>) -> Result<()> {
        self.ends.end(&self.shared);
        retire(cx);
        Ok(())
    }
}

impl admin_idl::ProxyPushSupplier for ToPush {
    fn connect_push_consumer(
        &self,
        _: Upcall<'_>,
        push_consumer: Option<&comm::PushConsumerRef>,
    ) -> Result<(), ConnectPushConsumerError> {
        let consumer = push_consumer.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let reference = comm::PushConsumerRef::from_object(self.shared.timed(consumer.object()));
        let remote = RemotePush { reference, patience: Patience::new(self.shared.options.push_timeout) };
        let me: Weak<dyn Connected> = self.me.clone();
        self.ends.connect(&self.shared, Arc::new(remote), true, Some((consumer.object(), me)))
    }
}

/// A push consumer at the other end of a network. The standard's push is two-way, so each waits for its answer, on a thread that
/// serves remote consumers only.
struct RemotePush {
    reference: comm::PushConsumerRef,
    patience: Patience,
}

impl PushConsumer for RemotePush {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        for event in events.iter().filter(|event| !event.data.any.is_empty()) {
            let pushed = self.reference.push(&any::unpack(event.data.any));
            self.patience.saw(match &pushed {
                Err(comm::push_consumer::PushError::System(exception)) => Some(exception.kind),
                _ => None,
            });
            pushed.map_err(|_| Failure)?;
        }
        Ok(())
    }

    fn rest(&self) -> std::time::Duration {
        self.patience.rest()
    }

    fn disconnected(&self) {
        let _ = self.reference.disconnect_push_consumer();
    }
}

/// Events that wait to be pulled: of the newest as many as fit.
struct Store {
    values: PiMutex<VecDeque<Any>>,
    filled: PiCondvar,
    limit: usize,
    closed: AtomicBool,
}

impl Store {
    fn new(limit: usize) -> Store {
        Store {
            values: PiMutex::new(VecDeque::with_capacity(limit)),
            filled: PiCondvar::new(),
            limit,
            closed: AtomicBool::new(false),
        }
    }

    fn close(&self) {
        self.closed.store(true, Release);
        drop(self.values.lock());
        self.filled.notify_all(&self.values);
    }

    fn take(&self, deadline: Deadline) -> Option<Any> {
        let mut values = self.values.lock();
        self.filled
            .wait_while(&mut values, deadline, |values| values.is_empty() && !self.closed.load(Acquire));
        values.pop_front()
    }
}

struct Storing(Arc<Store>);

impl PushConsumer for Storing {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        for event in events.iter().filter(|event| !event.data.any.is_empty()) {
            let value = any::unpack(event.data.any);
            let mut values = self.0.values.lock();
            let oldest = if values.len() >= self.0.limit { values.pop_front() } else { None };
            values.push_back(value);
            drop(values);
            drop(oldest);
            self.0.filled.notify_one(&self.0.values);
        }
        Ok(())
    }

    fn disconnected(&self) {
        self.0.close();
    }
}

/// The proxy of a pull consumer.
struct ToPull {
    shared: Arc<Shared>,
    store: Arc<Store>,
    ends: Ends,
}

impl ToPull {
    fn is_connected(&self) -> bool {
        let state = self.ends.0.lock();
        state.connected && !state.ended && !self.store.closed.load(Acquire)
    }
}

impl comm::PullSupplier for ToPull {
    /// Waits for an event as long as the consumer is connected. The client's own time-out may end the wait sooner; what came
    /// meanwhile is then lost, as the standard has it.
    fn pull<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u Any, PullError> {
        while self.is_connected() {
            if let Some(value) = self.store.take(Deadline::after(PULL_SLICE)) {
                return Ok(cx.keep(value)?);
            }
        }
        Err(Disconnected {}.into())
    }

    fn try_pull<'u>(&'u self, cx: Upcall<'u>) -> Result<(&'u Any, bool), TryPullError> {
        if !self.is_connected() {
            return Err(Disconnected {}.into());
        }
        let value = self.store.take(Deadline::PAST);
        let has_event = value.is_some();
        Ok((cx.keep(value.unwrap_or_default())?, has_event))
    }

    fn disconnect_pull_supplier(&self, cx: Upcall<'_>) -> Result<()> {
        self.ends.end(&self.shared);
        self.store.close();
        retire(cx);
        Ok(())
    }
}

impl admin_idl::ProxyPullSupplier for ToPull {
    fn connect_pull_consumer(
        &self,
        _: Upcall<'_>,
        _: Option<&comm::PullConsumerRef>,
    ) -> Result<(), ConnectPullConsumerError> {
        self.ends.connect(&self.shared, Arc::new(Storing(self.store.clone())), false, None)
    }
}

/// Sends a value into the channel.
fn send(supplier: &ProxyPushConsumer, value: &Any) -> Pushed {
    let packed = any::pack(value);
    let header = Header { event_type: STANDARD_EVENT, source: 0, ttl: 1, creation_time: 0 };
    let data = Data { any: &packed, ..Data::default() };
    supplier.push(&Event { header, data, ..Event::default() })
}

fn connect_supplier(shared: &Shared) -> Result<ProxyPushConsumer> {
    let refused =
        |error: crate::ConnectError| SystemException::from(Kind::ImpLimit).detail(error.to_string());
    shared.channel.for_suppliers().connect().map_err(refused)
}

/// The proxy of a push supplier.
struct FromPush {
    shared: Arc<Shared>,
    supplier: PiMutex<Option<Arc<ProxyPushConsumer>>>,
}

impl comm::PushConsumer for FromPush {
    fn push(&self, _: Upcall<'_>, data: &Any) -> Result<(), PushError> {
        let supplier = self.supplier.lock().clone().ok_or(Disconnected {})?;
        match send(&supplier, data).too_large {
            0 => Ok(()),
            // The standard has no exception for it. Consumers that need no copy have got it.
            missed => Err(SystemException::from(Kind::ImpLimit)
                .completed(Completion::Yes)
                .detail(format!("{missed} consumers did not get the event: it is larger than a copy may be"))
                .into()),
        }
    }

    fn disconnect_push_consumer(&self, cx: Upcall<'_>) -> Result<()> {
        let gone = self.supplier.lock().take();
        drop(gone);
        retire(cx);
        Ok(())
    }
}

impl admin_idl::ProxyPushConsumer for FromPush {
    fn connect_push_supplier(
        &self,
        _: Upcall<'_>,
        _: Option<&comm::PushSupplierRef>,
    ) -> Result<(), ConnectPushSupplierError> {
        let mut supplier = self.supplier.lock();
        if supplier.is_some() {
            return Err(AlreadyConnected {}.into());
        }
        *supplier = Some(Arc::new(connect_supplier(&self.shared)?));
        Ok(())
    }
}

/// The proxy of a pull supplier: a thread of its own asks it.
struct FromPull {
    shared: Arc<Shared>,
    asking: PiMutex<Option<Arc<AtomicBool>>>,
}

impl FromPull {
    fn stop(&self) {
        if let Some(stop) = self.asking.lock().take() {
            stop.store(true, Release);
        }
    }
}

impl Drop for FromPull {
    fn drop(&mut self) {
        self.stop();
    }
}

impl comm::PullConsumer for FromPull {
    fn disconnect_pull_consumer(&self, cx: Upcall<'_>) -> Result<()> {
        self.stop();
        retire(cx);
        Ok(())
    }
}

impl admin_idl::ProxyPullConsumer for FromPull {
    fn connect_pull_supplier(
        &self,
        _: Upcall<'_>,
        pull_supplier: Option<&comm::PullSupplierRef>,
    ) -> Result<(), ConnectPullSupplierError> {
        let peer = pull_supplier.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let mut asking = self.asking.lock();
        if asking.is_some() {
            return Err(AlreadyConnected {}.into());
        }
        let supplier = connect_supplier(&self.shared)?;
        let peer = comm::PullSupplierRef::from_object(self.shared.timed(peer.object()));
        let (stop, limit) = (Arc::new(AtomicBool::new(false)), self.shared.options.pings.max(1));
        let stopped = stop.clone();
        let body = move || ask(&peer, &supplier, &stopped, limit);
        std::thread::Builder::new()
            .name("event-pull".into())
            .spawn(body)
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        *asking = Some(stop);
        Ok(())
    }
}

/// Asks a pull supplier until it is disconnected, or has failed too often in a row.
fn ask(peer: &comm::PullSupplierRef, supplier: &ProxyPushConsumer, stop: &AtomicBool, limit: u32) {
    let mut failures = 0;
    while !stop.load(Acquire) && failures < limit {
        match peer.try_pull() {
            Ok((value, true)) => {
                failures = 0;
                send(supplier, &value);
            }
            Ok((_, false)) => {
                failures = 0;
                std::thread::sleep(PULL_PAUSE);
            }
            Err(TryPullError::Disconnected(_)) => return,
            Err(_) => failures += 1,
        }
    }
}
