//! The servants of TAO's interfaces, compiled once for each layout of an event.

use super::generated::rtec_event_channel_admin as idl;
use super::generated::rtec_event_channel_admin::{
    AlreadyConnected, ConsumerAdmin, ConsumerAdminRef, ConsumerQOS, ConsumerQOSView, Dependency,
    EventChannel, EventChannelRef, ObserverRef, ProxyPushConsumer, ProxyPushConsumerRef, ProxyPushSupplier,
    ProxyPushSupplierRef, SupplierAdmin, SupplierAdminRef, SupplierQOS, SupplierQOSView, TypeError,
    event_channel, proxy_push_consumer::ConnectPushSupplierError,
    proxy_push_supplier::ConnectPushConsumerError,
};
use super::generated::rtec_event_comm::{
    EventSetView, EventView, PushConsumer, PushConsumerRef, PushSupplier, PushSupplierRef,
};
use super::generated::{RtecEventData, RtecEventDataView};
use crate::admin::{self, ConsumerQos};
use crate::error::ConnectError;
use crate::event::{Data, Event, Header};
use crate::filter::{Filter, encode, parse};
use crate::servants::any;
use crate::servants::control::MonitoredPeer;
use crate::servants::notifier::Notifier;
use crate::servants::proxies::ProxySlot;
use crate::servants::registrations::{Registration, Role};
use crate::servants::remote_peer::RemotePeer;
use crate::servants::service::Shared;
use crate::servants::supplier_proxy::SupplierProxyState;
use crate::{Failure, Observer, Publication, Resume, SupplierQos, consumer};
use isorb::generated::Any;
use isorb::poa::ObjectId;
use isorb::rt::Priority;
use isorb::{Kind, Object, Orb, Reference, Result, SystemException, Upcall};
use isorb_rt::sync::{PiMutex, PiOnceLock};
use std::sync::{Arc, Weak};

/// Makes the channel an object.
pub(in crate::servants) fn activate(shared: &Arc<Shared>) -> Result<Object> {
    let consumers: ConsumerAdminRef =
        shared.activate_own("consumers", Arc::new(ConsumerAdminServant(shared.clone())))?;
    let suppliers: SupplierAdminRef =
        shared.activate_own("suppliers", Arc::new(SupplierAdminServant(shared.clone())))?;
    let channel = Channel { shared: shared.clone(), consumers, suppliers };
    let channel: EventChannelRef = shared.activate_own("channel", Arc::new(channel))?;
    Ok(channel.object().clone())
}

/// Serves a proxy of an earlier process, with its consumer or supplier connected.
pub(in crate::servants) fn restore(
    shared: &Arc<Shared>,
    orb: &Orb,
    id: &ObjectId,
    registration: &Registration,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let Registration { role, reference, gateway, suspended, dependencies } = registration;
    let peer = match reference.is_empty() {
        true => None,
        false => Some(orb.string_to_object(reference)?),
    };
    match role {
        Role::Consumer => {
            let proxy = PushSupplierServant::new(shared);
            shared.proxies.restore::<ProxyPushSupplierRef, _>(id, &proxy, &proxy.slot)?;
            let peer = peer.ok_or("it has no reference")?;
            if let Err(why) = proxy.connect(&peer, dependencies.clone(), *gateway, false) {
                // The registration stays for the next start.
                shared.proxies.forget(&proxy.slot);
                return Err(why.into());
            }
            if *suspended && let Some(proxy) = &proxy.state.lock().proxy {
                proxy.suspend()?;
            }
        }
        Role::Supplier => {
            let proxy = Arc::new(PushConsumerServant(SupplierProxyState::of(shared)));
            shared.proxies.restore::<ProxyPushConsumerRef, _>(id, &proxy, &proxy.0.slot)?;
            let connected = proxy.connect(peer.as_ref(), dependencies.clone(), None);
            if let Err(why) = connected {
                shared.proxies.forget(&proxy.0.slot);
                return Err(why.into());
            }
        }
    }
    Ok(())
}

struct Channel {
    shared: Arc<Shared>,
    consumers: ConsumerAdminRef,
    suppliers: SupplierAdminRef,
}

impl EventChannel for Channel {
    fn for_consumers<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u ConsumerAdminRef>> {
        Ok(Some(&self.consumers))
    }

    fn for_suppliers<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u SupplierAdminRef>> {
        Ok(Some(&self.suppliers))
    }

    fn destroy(&self, _: Upcall<'_>) -> Result<()> {
        self.shared.destroy(&self.consumers)
    }

    fn append_observer(
        &self,
        _: Upcall<'_>,
        gw: Option<&ObserverRef>,
    ) -> Result<u32, event_channel::AppendObserverError> {
        let peer = gw.ok_or(Kind::BadParam).map_err(SystemException::from)?.object();
        let observer = ObserverRef::from_object(self.shared.timed(peer));
        let timeout = self.shared.options.push_timeout;
        let appended = self.shared.observers.append(peer, || {
            let notifier =
                Notifier::start("event-observer", timeout, move |update| notify(&observer, update))?;
            Ok::<_, SystemException>(Arc::new(RemoteObserver(notifier)))
        })?;
        Ok(appended.ok_or(event_channel::CANT_APPEND_OBSERVER {})?)
    }

    fn remove_observer(&self, _: Upcall<'_>, gw: u32) -> Result<(), event_channel::RemoveObserverError> {
        if self.shared.observers.remove(gw) {
            Ok(())
        } else {
            Err(event_channel::RemoveObserverError::CANT_REMOVE_OBSERVER(
                event_channel::CANT_REMOVE_OBSERVER {},
            ))
        }
    }
}

struct ConsumerAdminServant(Arc<Shared>);

impl ConsumerAdmin for ConsumerAdminServant {
    fn obtain_push_supplier<'u>(&'u self, cx: Upcall<'u>) -> Result<Option<&'u ProxyPushSupplierRef>> {
        let proxy = PushSupplierServant::new(&self.0);
        let reference: ProxyPushSupplierRef = self.0.proxies.activate(&proxy, &proxy.slot)?;
        cx.keep(reference).map(Some)
    }
}

struct SupplierAdminServant(Arc<Shared>);

impl SupplierAdmin for SupplierAdminServant {
    fn obtain_push_consumer<'u>(&'u self, cx: Upcall<'u>) -> Result<Option<&'u ProxyPushConsumerRef>> {
        let proxy = Arc::new(PushConsumerServant(SupplierProxyState::of(&self.0)));
        let reference: ProxyPushConsumerRef = self.0.proxies.activate(&proxy, &proxy.0.slot)?;
        cx.keep(reference).map(Some)
    }
}

/// The proxy of a remote consumer.
struct PushSupplierServant {
    shared: Arc<Shared>,
    me: Weak<PushSupplierServant>,
    slot: ProxySlot,
    state: PiMutex<PushSupplierState>,
}

#[derive(Default)]
struct PushSupplierState {
    proxy: Option<admin::ProxyPushSupplier>,
    watch: Option<u64>,
    ended: bool,
    /// As it is stored.
    registration: Option<Registration>,
}

impl PushSupplierServant {
    fn new(shared: &Arc<Shared>) -> Arc<PushSupplierServant> {
        Arc::new_cyclic(|me| PushSupplierServant {
            shared: shared.clone(),
            me: me.clone(),
            slot: ProxySlot::default(),
            state: PiMutex::new(PushSupplierState::default()),
        })
    }

    /// Connects a consumer. With `save` the connection outlives the process before this returns, if
    /// the service is persistent.
    fn connect(
        &self,
        consumer: &Object,
        list: Vec<crate::Dependency>,
        gateway: bool,
        save: bool,
    ) -> Result<(), ConnectPushConsumerError> {
        let filters = parse(&list).map_err(|_| TypeError {})?;
        let shared = &self.shared;
        let mut state = self.state.lock();
        if state.proxy.is_some() || state.ended {
            return Err(AlreadyConnected {}.into());
        }
        let rt_info = list.iter().map(|d| d.rt_info).find(|rt_info| *rt_info != 0).unwrap_or(0);
        let qos = ConsumerQos {
            name: format!("remote {rt_info}"),
            filters,
            quality: crate::Quality {
                rt_info,
                priority: shared.declared(consumer),
                ..shared.options.quality.clone()
            },
            gateway,
            dispatch: shared.dispatch.clone(),
        };
        let remote = RemoteConsumer::new(shared, consumer);
        let connect = || shared.channel.for_consumers().connect(remote.clone(), qos.clone());
        let connected = match connect() {
            // The consumer before it may have crashed: its operation is free then.
            Err(ConnectError::NotAdmitted(_)) if shared.control.is_vacated(rt_info) => connect(),
            connected => connected,
        };
        let proxy = connected.map_err(|error| {
            if let ConnectError::NotAdmitted(why) = &error {
                // Clients of other ORBs see the exception without its detail.
                isorb_rt::log::warn(
                    "isorb::event",
                    format_args!("a consumer with rt_info {rt_info} was refused: {why}"),
                );
            }
            refused(error)
        })?;
        if !shared.proxies.connected(&self.slot) {
            return Err(SystemException::from(Kind::ObjectNotExist).into());
        }
        let registration = Registration {
            role: Role::Consumer,
            reference: consumer.to_string(),
            gateway,
            suspended: false,
            dependencies: list,
        };
        if save && let Err(full) = shared.proxies.save(&self.slot, || registration.clone()) {
            shared.proxies.free_again(&self.slot);
            return Err(full.into());
        }
        state.registration = shared.store.is_some().then_some(registration);
        state.proxy = Some(proxy);
        let me: Weak<dyn MonitoredPeer> = self.me.clone();
        let watch = shared.control.watch(consumer, me, rt_info);
        remote.peer.set_watch(watch);
        state.watch = Some(watch);
        Ok(())
    }

    /// Changes the delivery, and what is stored of it.
    fn suspend(&self, suspended: bool) -> Result<()> {
        let mut state = self.state.lock();
        let Some(proxy) = &state.proxy else { return Err(Kind::BadInvOrder.into()) };
        let changed = if suspended { proxy.suspend() } else { proxy.resume() };
        changed.map_err(|error| system(&error))?;
        match &mut state.registration {
            None => Ok(()),
            Some(registration) => {
                registration.suspended = suspended;
                self.shared.proxies.save(&self.slot, || registration.clone())
            }
        }
    }

    fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let (proxy, watch) = (state.proxy.take(), state.watch.take());
        drop(state);
        if let Some(watch) = watch {
            self.shared.control.forget(watch);
        }
        drop(proxy);
    }
}

impl MonitoredPeer for PushSupplierServant {
    fn lost(&self) {
        self.end();
        self.shared.proxies.retire(&self.slot);
    }
}

impl PushSupplier for PushSupplierServant {
    fn disconnect_push_supplier(&self, _: Upcall<'_>) -> Result<()> {
        self.lost();
        Ok(())
    }
}

impl ProxyPushSupplier for PushSupplierServant {
    fn connect_push_consumer(
        &self,
        _: Upcall<'_>,
        push_consumer: Option<&PushConsumerRef>,
        qos: ConsumerQOSView<'_>,
    ) -> Result<(), ConnectPushConsumerError> {
        let consumer = push_consumer.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let list: Vec<_> = qos
            .dependencies
            .iter()
            .map(|d| crate::Dependency { header: read_header(&d.event), rt_info: d.rt_info })
            .collect();
        self.connect(consumer.object(), list, qos.is_gateway, true)
    }

    fn suspend_connection(&self, _: Upcall<'_>) -> Result<()> {
        self.suspend(true)
    }

    fn resume_connection(&self, _: Upcall<'_>) -> Result<()> {
        self.suspend(false)
    }
}

fn refused(error: ConnectError) -> ConnectPushConsumerError {
    match error {
        ConnectError::Filter(_) => TypeError {}.into(),
        error => system(&error).into(),
    }
}

fn system(error: &ConnectError) -> SystemException {
    let kind = match error {
        ConnectError::Destroyed => Kind::ObjectNotExist,
        ConnectError::Busy => Kind::Transient,
        ConnectError::TooMany | ConnectError::TooManyMasks | ConnectError::TooManyTimers => Kind::ImpLimit,
        _ => Kind::NoResources,
    };
    SystemException::from(kind).detail(error.to_string())
}

/// The proxy of a remote supplier.
struct PushConsumerServant(Arc<SupplierProxyState>);

impl PushConsumer for PushConsumerServant {
    /// Events of a supplier that is not connected are dropped.
    fn push(&self, cx: Upcall<'_>, data: EventSetView<'_>) -> Result<()> {
        if let Some(supplier) = self.0.supplier() {
            isorb_access::authorize_types(cx, data.iter().map(|event| event.header.type_))?;
            for event in data {
                let packed = any::pack(event.data.any_value);
                let data = Data { pad1: event.data.pad1, octets: event.data.payload, any: &packed };
                supplier.push(&Event { header: read_header(event), data, ..Event::default() });
            }
        }
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> Result<()> {
        self.0.end();
        Ok(())
    }
}

impl ProxyPushConsumer for PushConsumerServant {
    fn connect_push_supplier(
        &self,
        cx: Upcall<'_>,
        push_supplier: Option<&PushSupplierRef>,
        qos: SupplierQOSView<'_>,
    ) -> Result<(), ConnectPushSupplierError> {
        isorb_access::authorize_types(cx, qos.publications.iter().map(|of| of.event.header.type_))?;
        let publications = qos.publications.iter();
        let list: Vec<_> = publications
            .map(|publication| crate::Dependency { header: read_header(&publication.event), rt_info: 0 })
            .collect();
        let peer = push_supplier.map(|peer| peer.object());
        let registration = Registration {
            role: Role::Supplier,
            reference: peer.map(Object::to_string).unwrap_or_default(),
            gateway: qos.is_gateway,
            suspended: false,
            dependencies: list.clone(),
        };
        match self.connect(peer, list, Some(registration))? {
            true => Ok(()),
            false => Err(AlreadyConnected {}.into()),
        }
    }
}

impl PushConsumerServant {
    fn connect(
        &self,
        peer: Option<&Object>,
        publications: Vec<crate::Dependency>,
        save: Option<Registration>,
    ) -> Result<bool> {
        let publications = publications.into_iter().map(|d| {
            let Header { event_type, source, .. } = d.header;
            Publication { event_type, source }
        });
        // A gateway's publications count too: a neighbour here may want its events.
        let qos = SupplierQos::new(publications);
        self.0.connect(peer, save, |shared: &Shared| {
            shared.channel.for_suppliers().connect_with(qos).map_err(|error| system(&error))
        })
    }
}

/// A remote consumer.
struct RemoteConsumer {
    peer: Arc<RemotePeer>,
    reference: PushConsumerRef,
}

impl RemoteConsumer {
    fn new(shared: &Arc<Shared>, object: &Object) -> Arc<RemoteConsumer> {
        let peer = RemotePeer::new(shared, object);
        let reference = PushConsumerRef::from_object(peer.reference(shared));
        Arc::new(RemoteConsumer { peer, reference })
    }
}

impl consumer::PushConsumer for RemoteConsumer {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        static NONE: PiOnceLock<Any> = PiOnceLock::new();
        // Only events with an any cost memory.
        let anys: Vec<Any> = match events.iter().any(|event| !event.data.any.is_empty()) {
            true => events.iter().map(|event| any::unpack(event.data.any)).collect(),
            false => Vec::new(),
        };
        let view = |i: usize| EventView {
            header: super::header(&events[i].header),
            data: RtecEventDataView {
                pad1: events[i].data.pad1,
                payload: events[i].data.octets,
                any_value: anys.get(i).unwrap_or(NONE.get_or_init(Any::default)),
            },
        };
        self.peer.push(|| match events.len() {
            0 => Ok(()),
            1 => self.reference.push(&[view(0)][..]),
            count => {
                let mut views = [view(0); crate::MAX_TERMS + 1];
                (1..count).for_each(|i| views[i] = view(i));
                self.reference.push(&views[..count])
            }
        })
    }

    fn backoff(&self) -> std::time::Duration {
        self.peer.backoff()
    }

    fn priority_changed(&self, priority: Priority) {
        self.peer.set_priority(priority);
    }

    fn connected(&self, resume: Resume) {
        self.peer.connected(resume);
    }

    fn disconnected(&self) {
        // The consumer may be gone; an error does not matter.
        let _ = PushConsumerRef::from_object(self.peer.object().clone()).disconnect_push_consumer();
    }
}

/// A notification for an observer.
enum Update {
    Wanted(Vec<Filter>),
    /// Suppliers without publications are an empty list, as in TAO.
    Published(Vec<Publication>),
}

/// A remote observer, with a thread of its own: one that does not answer delays no thread that
/// connects.
struct RemoteObserver(Notifier<Update>);

impl Observer for RemoteObserver {
    fn update_consumers(&self, _: u64, wanted: &[Filter]) {
        self.0.put(Update::Wanted(wanted.to_vec()));
    }

    fn update_suppliers(&self, _: u64, published: Option<&[Publication]>) {
        self.0.put(Update::Published(published.unwrap_or_default().to_vec()));
    }
}

fn notify(observer: &ObserverRef, update: &Update) -> Result<()> {
    let event = |header: &Header| super::generated::rtec_event_comm::Event {
        header: super::header(header),
        data: RtecEventData::default(),
    };
    match update {
        Update::Wanted(wanted) => {
            let group = match wanted.is_empty() {
                true => Vec::new(),
                false => encode(&[Filter::Disjunction(wanted.clone())], 0),
            };
            let dependency =
                |d: &crate::Dependency| Dependency { event: event(&d.header), rt_info: d.rt_info };
            let dependencies = group.iter().map(dependency).collect();
            observer.update_consumer(&ConsumerQOS { dependencies, is_gateway: true })
        }
        Update::Published(published) => {
            let publication = |Publication { event_type, source }: &Publication| idl::Publication {
                event: event(&Header { event_type: *event_type, source: *source, ..Header::default() }),
                dependency_info: Default::default(),
            };
            let publications = published.iter().map(publication).collect();
            observer.update_supplier(&SupplierQOS { publications, is_gateway: true })
        }
    }
}

fn read_header(event: &EventView<'_>) -> Header {
    let h = &event.header;
    Header { event_type: h.type_, source: h.source, ttl: h.ttl, creation_time: h.creation_time }
}
