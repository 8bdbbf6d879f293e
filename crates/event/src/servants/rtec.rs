//! The servants of TAO's interfaces, compiled once for each layout of an event.

use super::generated::isorb_rtec_event_channel_admin as numbered;
use super::generated::isorb_rtec_event_channel_admin::proxy_push_supplier::SetContentError;
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
use crate::content::ContentFilter;
use crate::error::ConnectError;
use crate::event::{Data, Event, Header, Origin};
use crate::filter::{Filter, OperationFilters, encode, parse, parse_operations};
use crate::ownership::Ownership;
use crate::servants::any;
use crate::servants::control::MonitoredPeer;
use crate::servants::dependencies::PublishedBy;
use crate::servants::notifier::Notifier;
use crate::servants::proxies::ProxySlot;
use crate::servants::registrations::{Registration, Role, StoredContent};
use crate::servants::remote_peer::RemotePeer;
use crate::servants::service::{Shared, report_unknown_proxy};
use crate::servants::supplier_proxy::SupplierProxyState;
use crate::{Failure, HistoryRequest, Observer, Publication, Registrations, Resume, SupplierQos, consumer};
use isorb::generated::Any;
use isorb::poa::ObjectId;
use isorb::rt::Priority;
use isorb::{Kind, Object, Orb, Reference, Result, SystemException, TypeCode, Upcall};
use isorb_rt::sync::PiMutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    let Registration { role, reference, gateway, suspended, dependencies, content, .. } = registration;
    let peer = match reference.is_empty() {
        true => None,
        false => Some(orb.string_to_object(reference)?),
    };
    match role {
        Role::Consumer => {
            let proxy = PushSupplierServant::new(shared);
            shared.proxies.restore::<numbered::ProxyPushSupplierRef, _>(id, &proxy, &proxy.slot)?;
            let peer = peer.ok_or("it has no reference")?;
            match content.as_ref().map(|content| content.compile(shared.options.content)).transpose() {
                Ok(content) => {
                    let mut state = proxy.state.lock();
                    (state.content, state.instance_period) = (content, registration.instance_period);
                }
                Err(why) => {
                    shared.proxies.forget(&proxy.slot);
                    return Err(why);
                }
            }
            // The history is that of this process, and has no events yet.
            let options = Options { min_separation: registration.min_separation, ..Options::default() };
            if let Err(why) = proxy.connect(&peer, dependencies.clone(), *gateway, &options, false) {
                // The registration stays for the next start.
                shared.proxies.forget(&proxy.slot);
                return Err(why.into());
            }
            if *suspended {
                proxy.state.lock().proxies.iter().try_for_each(admin::ProxyPushSupplier::suspend)?;
            }
        }
        Role::Supplier => {
            let proxy = Arc::new(PushConsumerServant(SupplierProxyState::of(shared)));
            shared.proxies.restore::<numbered::ProxyPushConsumerRef, _>(id, &proxy, &proxy.0.slot)?;
            if let Some(ownership) = registration.ownership {
                proxy.0.set_ownership(ownership)?;
            }
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
        let reference: numbered::ProxyPushSupplierRef = self.0.proxies.activate(cx, &proxy, &proxy.slot)?;
        cx.keep(ProxyPushSupplierRef::from(reference)).map(Some)
    }
}

struct SupplierAdminServant(Arc<Shared>);

impl SupplierAdmin for SupplierAdminServant {
    fn obtain_push_consumer<'u>(&'u self, cx: Upcall<'u>) -> Result<Option<&'u ProxyPushConsumerRef>> {
        let proxy = Arc::new(PushConsumerServant(SupplierProxyState::of(&self.0)));
        let reference: numbered::ProxyPushConsumerRef = self.0.proxies.activate(cx, &proxy, &proxy.0.slot)?;
        cx.keep(ProxyPushConsumerRef::from(reference)).map(Some)
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
    /// One for each group of registrations; empty while no consumer is connected.
    proxies: Vec<admin::ProxyPushSupplier>,
    watch: Option<u64>,
    ended: bool,
    /// Of the consumer that connects next, or is connected.
    content: Option<ContentFilter>,
    /// As [`content`](Self::content).
    instance_period: Option<Duration>,
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
        options: &Options,
        save: bool,
    ) -> Result<(), ConnectPushConsumerError> {
        let shared = &self.shared;
        if let Some(recorder) = &shared.options.dependencies {
            recorder.consumer(&parse_operations(&list).map_err(|_| TypeError {})?);
        }
        let groups = match shared.channel.has_operations() {
            true => parse_operations(&list).map_err(|_| TypeError {})?,
            false => vec![undivided(&list)?],
        };
        let mut state = self.state.lock();
        if !state.proxies.is_empty() || state.ended {
            return Err(AlreadyConnected {}.into());
        }
        let siblings = Arc::new(Siblings { told: AtomicBool::new(false), proxy: self.me.clone() });
        let mut remotes = Vec::with_capacity(groups.len());
        let mut registrations = Vec::with_capacity(groups.len());
        let mut operations = Vec::new();
        for OperationFilters { operations: handles, filters } in groups {
            let (rt_info, further) =
                handles.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
            let qos = ConsumerQos {
                name: format!("remote {rt_info}"),
                address: consumer.address().unwrap_or_default(),
                filters,
                content: state.content.clone(),
                quality: crate::Quality {
                    rt_info,
                    priority: shared.declared(consumer),
                    min_separation: options.min_separation,
                    instance_period: state.instance_period,
                    ..shared.options.quality.clone()
                },
                gateway,
                dispatch: shared.dispatch.clone(),
                history: options.history,
            };
            // Each has a connection of its own level.
            let remote = RemoteConsumer::new(shared, consumer, &siblings);
            let (further, consumer) = (further.to_vec(), remote.clone());
            registrations.push(Registrations { consumer, qos, operations: further });
            remotes.push(remote);
            operations.extend(handles);
        }
        let connect = || shared.channel.for_consumers().connect_each(registrations.clone());
        let connected = match connect() {
            // The consumers before it may have crashed: their operations are free then.
            Err(ConnectError::NotAdmitted(_)) if shared.control.are_vacated(&operations) => connect(),
            connected => connected,
        };
        let proxies = connected.map_err(|error| {
            if let ConnectError::NotAdmitted(why) = &error {
                // Clients of other ORBs see the exception without its detail.
                isorb_rt::log::warn(
                    "isorb::event",
                    format_args!("a consumer with rt_info {operations:?} was refused: {why}"),
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
            content: state.content.as_ref().map(StoredContent::of),
            min_separation: options.min_separation,
            instance_period: state.instance_period,
            ownership: None,
        };
        if save && let Err(full) = shared.proxies.save(&self.slot, || registration.clone()) {
            shared.proxies.free_again(&self.slot);
            return Err(full.into());
        }
        state.registration = shared.store.is_some().then_some(registration);
        state.proxies = proxies;
        let me: Weak<dyn MonitoredPeer> = self.me.clone();
        let watch = shared.control.watch(consumer, me, &operations);
        remotes.iter().for_each(|remote| remote.peer.set_watch(watch));
        state.watch = Some(watch);
        Ok(())
    }

    /// Changes the delivery, and what is stored of it.
    fn suspend(&self, suspended: bool) -> Result<()> {
        let mut state = self.state.lock();
        if state.proxies.is_empty() {
            return Err(Kind::BadInvOrder.into());
        }
        for proxy in &state.proxies {
            let changed = if suspended { proxy.suspend() } else { proxy.resume() };
            changed.map_err(|error| system(&error))?;
        }
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
        let (proxies, watch) = (std::mem::take(&mut state.proxies), state.watch.take());
        drop(state);
        if let Some(watch) = watch {
            self.shared.control.forget(watch);
        }
        drop(proxies);
    }

    /// Disconnects the other registrations of a consumer that the channel disconnected. The proxy
    /// stays until its peer is found to be gone, or says so.
    fn end_others(&self) {
        let mut state = self.state.lock();
        if state.proxies.len() > 1 {
            state.ended = true;
            let proxies = std::mem::take(&mut state.proxies);
            drop(state);
            drop(proxies);
        }
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
        self.connect_remote(push_consumer, qos, &Options::default())
    }

    fn suspend_connection(&self, _: Upcall<'_>) -> Result<()> {
        self.suspend(true)
    }

    fn resume_connection(&self, _: Upcall<'_>) -> Result<()> {
        self.suspend(false)
    }
}

/// What a consumer asks for besides its filter.
#[derive(Default)]
struct Options {
    history: HistoryRequest,
    min_separation: Duration,
}

impl PushSupplierServant {
    fn connect_remote(
        &self,
        push_consumer: Option<&PushConsumerRef>,
        qos: ConsumerQOSView<'_>,
        options: &Options,
    ) -> Result<(), ConnectPushConsumerError> {
        let consumer = push_consumer.ok_or(Kind::BadParam).map_err(SystemException::from)?;
        let list: Vec<_> = qos
            .dependencies
            .iter()
            .map(|d| crate::Dependency { header: read_header(&d.event), rt_info: d.rt_info })
            .collect();
        self.connect(consumer.object(), list, qos.is_gateway, options, true)
    }
}

impl numbered::ProxyPushSupplier for PushSupplierServant {
    fn set_content(
        &self,
        _: Upcall<'_>,
        expression: &str,
        payload: &TypeCode,
    ) -> Result<(), SetContentError> {
        let content = match expression.is_empty() {
            true => None,
            false => {
                let made = ContentFilter::within(self.shared.options.content, expression, payload);
                Some(made.map_err(|why| numbered::ContentError { why: why.to_string() })?)
            }
        };
        let mut state = self.state.lock();
        if !state.proxies.is_empty() || state.ended {
            return Err(SystemException::from(Kind::BadInvOrder).into());
        }
        state.content = content;
        Ok(())
    }

    fn set_instance_period(&self, _: Upcall<'_>, period: u64) -> Result<()> {
        let mut state = self.state.lock();
        if !state.proxies.is_empty() || state.ended {
            return Err(Kind::BadInvOrder.into());
        }
        state.instance_period = (period != 0).then(|| time(period));
        Ok(())
    }

    fn connect_push_consumer_with(
        &self,
        _: Upcall<'_>,
        push_consumer: Option<&PushConsumerRef>,
        qos: ConsumerQOSView<'_>,
        options: numbered::ConsumerOptions,
    ) -> Result<(), numbered::proxy_push_supplier::ConnectPushConsumerWithError> {
        use numbered::proxy_push_supplier::ConnectPushConsumerWithError as Refused;
        let history = HistoryRequest {
            last: options.history_last as usize,
            age: (options.history_age != 0).then(|| time(options.history_age)),
        };
        let options = Options { history, min_separation: time(options.min_separation) };
        self.connect_remote(push_consumer, qos, &options).map_err(|error| match error {
            ConnectPushConsumerError::AlreadyConnected(raised) => Refused::AlreadyConnected(raised),
            ConnectPushConsumerError::TypeError(raised) => Refused::TypeError(raised),
            ConnectPushConsumerError::System(exception) => Refused::System(exception),
        })
    }
}

/// A time in units of 100 ns (`TimeBase::TimeT`).
fn time(units: u64) -> Duration {
    Duration::from_nanos(units.saturating_mul(100))
}

/// All registrations of a list, as the first operation that it names.
fn undivided(list: &[crate::Dependency]) -> Result<OperationFilters, TypeError> {
    let filters = parse(list).map_err(|_| TypeError {})?;
    let operations = list.iter().map(|entry| entry.rt_info).filter(|rt_info| *rt_info != 0).take(1);
    Ok(OperationFilters { operations: operations.collect(), filters })
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
    fn push(&self, cx: Upcall<'_>, data: EventSetView<'_>) -> Result<()> {
        if self.push_all(cx, data, &[])?.is_none() {
            self.report(cx);
        }
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> Result<()> {
        self.0.end();
        Ok(())
    }
}

impl numbered::ProxyPushConsumer for PushConsumerServant {
    fn push_numbered(
        &self,
        cx: Upcall<'_>,
        data: EventSetView<'_>,
        origins: &[numbered::Origin],
    ) -> Result<()> {
        if self.push_all(cx, data, origins)?.is_none() {
            self.report(cx);
        }
        Ok(())
    }

    fn set_ownership(&self, _: Upcall<'_>, strength: i32, lease: u64) -> Result<()> {
        self.0.set_ownership(Ownership::new(strength).lease(time(lease)))
    }

    fn push_owned(
        &self,
        cx: Upcall<'_>,
        data: EventSetView<'_>,
        origins: &[numbered::Origin],
    ) -> Result<u32> {
        self.push_all(cx, data, origins)?.ok_or_else(|| {
            self.report(cx);
            Kind::ObjectNotExist.into()
        })
    }
}

impl PushConsumerServant {
    /// Events of a supplier that is not connected are dropped, and counted.
    fn report(&self, cx: Upcall<'_>) {
        report_unknown_proxy(&self.0.shared().channel, cx.caller());
    }

    /// Returns how many were dropped because a stronger supplier owns their instance; `None` if no
    /// supplier is connected.
    fn push_all(
        &self,
        cx: Upcall<'_>,
        data: EventSetView<'_>,
        origins: &[numbered::Origin],
    ) -> Result<Option<u32>> {
        let Some(supplier) = self.0.supplier() else { return Ok(None) };
        let mut not_owned = 0;
        isorb_access::authorize_types(cx, data.iter().map(|event| event.header.type_))?;
        for (at, event) in data.iter().enumerate() {
            let packed = any::pack(event.data.any_value);
            let data = Data { pad1: event.data.pad1, octets: event.data.payload, any: &packed };
            let of = |origin: &numbered::Origin| Origin { supplier: origin.supplier, number: origin.number };
            let origin = origins.get(at).map_or(Origin::default(), of);
            let event = Event { header: read_header(event), data, origin, ..Event::default() };
            not_owned += supplier.push(&event).not_owned;
        }
        Ok(Some(not_owned))
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
            .map(|publication| crate::Dependency {
                header: read_header(&publication.event),
                rt_info: publication.dependency_info.rt_info,
            })
            .collect();
        if let Some(recorder) = &self.0.shared().options.dependencies {
            let of = |publication: &idl::PublicationView<'_>| PublishedBy {
                rt_info: publication.dependency_info.rt_info,
                calls: publication.dependency_info.number_of_calls,
                publication: Publication::new(
                    publication.event.header.type_,
                    publication.event.header.source,
                ),
            };
            recorder.supplier(&qos.publications.iter().map(of).collect::<Vec<_>>());
        }
        let peer = push_supplier.map(|peer| peer.object());
        let registration = Registration {
            role: Role::Supplier,
            reference: peer.map(Object::to_string).unwrap_or_default(),
            gateway: qos.is_gateway,
            suspended: false,
            dependencies: list.clone(),
            content: None,
            min_separation: Duration::ZERO,
            instance_period: None,
            ownership: self.0.ownership(),
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
        let qos = SupplierQos { ownership: self.0.ownership(), ..SupplierQos::new(publications) };
        self.0.connect(peer, save, |shared: &Shared| {
            shared.channel.for_suppliers().connect_with(qos).map_err(|error| system(&error))
        })
    }
}

/// What the registrations of one remote consumer share.
struct Siblings {
    /// The consumer was told that it is disconnected.
    told: AtomicBool,
    proxy: Weak<PushSupplierServant>,
}

/// Registrations of a remote consumer.
struct RemoteConsumer {
    siblings: Arc<Siblings>,
    peer: Arc<RemotePeer>,
    reference: PushConsumerRef,
    /// The same, if it takes numbers.
    numbered: Option<numbered::PushConsumerRef>,
}

impl RemoteConsumer {
    fn new(shared: &Arc<Shared>, object: &Object, siblings: &Arc<Siblings>) -> Arc<RemoteConsumer> {
        let peer = RemotePeer::new(shared, object);
        let pushes = peer.reference(shared);
        // Other consumers are not asked.
        let takes_numbers = object.type_id() == numbered::PushConsumerRef::INTERFACE.id;
        let numbered = takes_numbers.then(|| numbered::PushConsumerRef::from_object(pushes.clone()));
        let (siblings, reference) = (siblings.clone(), PushConsumerRef::from_object(pushes));
        Arc::new(RemoteConsumer { siblings, peer, reference, numbered })
    }
}

impl RemoteConsumer {
    /// Sends with origins where they are known and wanted.
    fn send(&self, views: &[EventView<'_>], events: &[Event<'_>]) -> Result<()> {
        let unknown = Origin::default();
        match &self.numbered {
            Some(reference) if events.iter().any(|event| event.origin != unknown) => {
                let mut origins = [numbered::Origin::default(); crate::MAX_TERMS + 1];
                for (to, Event { origin, .. }) in origins.iter_mut().zip(events) {
                    *to = numbered::Origin { supplier: origin.supplier, number: origin.number };
                }
                reference.push_numbered(views, &origins[..events.len()])
            }
            _ => self.reference.push(views),
        }
    }
}

impl consumer::PushConsumer for RemoteConsumer {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        static NONE: Any = Any::null();
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
                any_value: anys.get(i).unwrap_or(&NONE),
            },
        };
        self.peer.push(|| match events.len() {
            0 => Ok(()),
            1 => self.send(&[view(0)], events),
            count => {
                let mut views = [view(0); crate::MAX_TERMS + 1];
                (1..count).for_each(|i| views[i] = view(i));
                self.send(&views[..count], events)
            }
        })
    }

    fn takes_sets(&self) -> bool {
        true
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
        if self.siblings.told.swap(true, AcqRel) {
            return;
        }
        if let Some(proxy) = self.siblings.proxy.upgrade() {
            proxy.end_others();
        }
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
