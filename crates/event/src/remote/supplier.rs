//! A supplier of a channel in another process.

use super::monitor::{Reconnectable, Shared};
use super::numbers::EventNumbers;
use super::{RemoteError, encode, units};
use crate::event::{Event, Header};
use crate::ownership::Ownership;
use crate::servants::any;
use crate::servants::stamped::isorb_rtec_event_channel_admin as numbered;
use crate::servants::stamped::rtec_event_channel_admin::{
    self as admin, EventChannelRef, ProxyPushConsumerRef, SupplierQOS,
    proxy_push_consumer::ConnectPushSupplierError,
};
use crate::servants::stamped::rtec_event_comm::{self as comm, EventView, PushSupplierRef};
use crate::servants::stamped::{self, RtecEventDataView};
use crate::supplier::Publication;
use isorb::generated::Idl;
use isorb::poa::ObjectId;
use isorb::{Completion, Kind, Object, Policies, Reference, Result, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// A supplier that stays connected until this is dropped; from
/// [`RemoteChannel::supplier`](super::RemoteChannel::supplier).
///
/// It numbers its events of each type and source, so that consumers notice those that are lost; of
/// more than 65,536 types and sources, those of the first ones.
pub struct RemoteSupplier(Arc<Supplier>);

struct Supplier {
    shared: Arc<Shared>,
    qos: SupplierQOS,
    servant: Arc<SupplierServant>,
    id: ObjectId,
    reference: PushSupplierRef,
    /// Its number, drawn at random.
    number: u64,
    numbers: EventNumbers,
    pushed: AtomicU64,
    lost: AtomicU64,
    ownership: Option<Ownership>,
    /// The turn of a push of a supplier with an ownership: it may give back its number.
    turn: PiMutex<()>,
    not_owned: AtomicU64,
}

struct SupplierServant {
    shared: Weak<Shared>,
    proxy: PiMutex<Option<Proxy>>,
}

/// The channel's end, which may be one of another ORB.
#[derive(Clone)]
enum Proxy {
    Numbered(numbered::ProxyPushConsumerRef),
    Plain(ProxyPushConsumerRef),
}

impl Proxy {
    fn object(&self) -> &Object {
        match self {
            Proxy::Numbered(proxy) => proxy.object(),
            Proxy::Plain(proxy) => proxy.object(),
        }
    }
}

impl RemoteSupplier {
    pub(super) fn connect(
        shared: &Arc<Shared>,
        publications: Vec<Publication>,
        ownership: Option<Ownership>,
    ) -> Result<RemoteSupplier, RemoteError> {
        let publication = |Publication { event_type, source }: &Publication| {
            let header = Header { event_type: *event_type, source: *source, ..Header::default() };
            let event = comm::Event { header: stamped::header(&header), data: Default::default() };
            admin::Publication { event, dependency_info: Default::default() }
        };
        let publications = publications.iter().map(publication).collect();
        let servant = Arc::new(SupplierServant { shared: Arc::downgrade(shared), proxy: PiMutex::default() });
        let reference: PushSupplierRef =
            shared.poa.activate(servant.clone()).map_err(SystemException::from)?;
        let id = shared
            .poa
            .reference_to_id(reference.object())
            .map_err(|_| SystemException::from(Kind::Internal))?;
        // From here on its drop takes the servant back.
        let supplier = RemoteSupplier(Arc::new(Supplier {
            shared: shared.clone(),
            qos: SupplierQOS { publications, is_gateway: shared.gateway },
            servant,
            id,
            reference,
            number: isorb_rt::random_u64() | 1,
            numbers: EventNumbers::default(),
            pushed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            ownership,
            turn: PiMutex::default(),
            not_owned: AtomicU64::new(0),
        }));
        supplier.0.register(&shared.resolve()?)?;
        shared.add(&supplier.0);
        Ok(supplier)
    }

    /// Pushes an event. `Ok` means what
    /// [`RemoteChannelBuilder::sync_scope`](super::RemoteChannelBuilder::sync_scope) says: by
    /// default, that the channel has it. An event without creation time goes out without one.
    ///
    /// # Errors
    /// The event is lost for some or all consumers, and counted
    /// ([`lost`](RemoteSupplier::lost)): TRANSIENT while the channel does not answer, COMM_FAILURE
    /// or TIMEOUT when it ceases to, NO_PERMISSION where an access policy refuses the event. It is
    /// not sent again, and has used up its number, so that consumers count it, too.
    ///
    /// # Real-time
    /// A call to the channel; two PI locks for short sections. Allocates for the first event of a
    /// type and source, and for events with an `any`.
    ///
    /// Threads that share a supplier with an [`Ownership`] wait for each other, each for a call to
    /// the channel.
    pub fn push(&self, event: &Event<'_>) -> Result<()> {
        self.push_owned(event).map(drop)
    }

    /// As [`push`](Self::push); returns false if the channel dropped the event because a stronger
    /// supplier owns its instance. It waits for the channel's answer where the supplier has an
    /// ownership, whatever the sync scope is. Such an event uses up no number, so that consumers do
    /// not take it for lost.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Real-time
    /// As [`push`](Self::push).
    pub fn push_owned(&self, event: &Event<'_>) -> Result<bool> {
        let supplier = &*self.0;
        let _turn = supplier.ownership.map(|_| supplier.turn.lock());
        let number = supplier.numbers.next(&event.header);
        let pushed = supplier.send(event, number);
        match &pushed {
            Ok(true) => {
                supplier.pushed.fetch_add(1, Relaxed);
            }
            Ok(false) => {
                supplier.numbers.give_back(&event.header);
                supplier.not_owned.fetch_add(1, Relaxed);
            }
            Err(exception) => {
                supplier.lost.fetch_add(1, Relaxed);
                if exception.kind != Kind::NoPermission {
                    supplier.shared.suspect();
                }
            }
        }
        pushed
    }

    /// Pushes a value of an IDL type, as [`encode`] writes it.
    ///
    /// # Errors
    /// As [`push`](Self::push) and [`encode`].
    ///
    /// # Real-time
    /// As [`push`](Self::push); allocates.
    pub fn push_value<T: Idl>(&self, event_type: i32, source: i32, value: &T) -> Result<()> {
        self.push(&Event::new(event_type, source).octets(&encode(value)?))
    }

    /// Uses up the numbers of `count` events of this type and source that were lost before they
    /// reached this supplier, so that consumers count them. For gateways.
    ///
    /// # Real-time
    /// A PI lock for a short section. Allocates for the first event of a type and source.
    pub fn skip(&self, event_type: i32, source: i32, count: u64) {
        self.0.numbers.skip(event_type, source, count);
    }

    /// The number of pushes that succeeded.
    pub fn pushed(&self) -> u64 {
        self.0.pushed.load(Relaxed)
    }

    /// The number of pushes that failed.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }

    /// The number of pushes of which the channel dropped the event because a stronger supplier owns
    /// its instance.
    pub fn not_owned(&self) -> u64 {
        self.0.not_owned.load(Relaxed)
    }

    /// The supplier's number in [`Origin`](crate::Origin).
    pub fn id(&self) -> u64 {
        self.0.number
    }
}

impl Supplier {
    /// Returns false if a stronger supplier owns the instance.
    fn send(&self, event: &Event<'_>, number: u64) -> Result<bool> {
        let Some(proxy) = self.servant.proxy.lock().clone() else {
            let url = &self.shared.url;
            return Err(SystemException::new(Kind::Transient, 0, Completion::No)
                .detail(format!("not connected to the event channel {url}")));
        };
        let value = any::unpack(event.data.any);
        let view = [EventView {
            header: stamped::header(&event.header),
            data: RtecEventDataView { pad1: event.data.pad1, payload: event.data.octets, any_value: &value },
        }];
        match proxy {
            Proxy::Plain(proxy) => proxy.push(&view[..]).map(|()| true),
            Proxy::Numbered(proxy) => {
                let origins = [numbered::Origin { supplier: self.number, number }];
                match self.ownership {
                    None => proxy.push_numbered(&view[..], &origins).map(|()| true),
                    Some(_) => proxy.push_owned(&view[..], &origins).map(|not_owned| not_owned == 0),
                }
            }
        }
    }
}

const NO_OWNERSHIP: RemoteError =
    RemoteError::Refused("the channel knows no ownership: it is not isorb's, or older");

/// Has the supplier compete for instances.
fn set_ownership(proxy: &Object, ownership: Ownership) -> Result<(), RemoteError> {
    let proxy = proxy.narrow::<numbered::ProxyPushConsumerRef>()?.ok_or(NO_OWNERSHIP)?;
    // Rounded up: a lease of 0 ends with the connection only.
    proxy.set_ownership(ownership.strength, units(ownership.lease)).map_err(|exception| {
        match exception.kind {
            Kind::BadOperation => NO_OWNERSHIP,
            _ => exception.into(),
        }
    })
}

impl Reconnectable for Supplier {
    fn proxy(&self) -> Option<Object> {
        self.servant.proxy.lock().as_ref().map(|proxy| proxy.object().clone())
    }

    fn register(&self, channel: &EventChannelRef) -> Result<(), RemoteError> {
        let nil = || SystemException::from(Kind::InvObjref).detail("the channel gave a nil reference");
        let suppliers = channel.for_suppliers()?.ok_or_else(nil)?;
        let suppliers = admin::SupplierAdminRef::from_object(self.shared.timed(suppliers.object()));
        let proxy = suppliers.obtain_push_consumer()?.ok_or_else(nil)?;
        let timed = self.shared.timed(proxy.object());
        if let Some(ownership) = self.ownership {
            set_ownership(&timed, ownership)?;
        }
        match ProxyPushConsumerRef::from_object(timed.clone())
            .connect_push_supplier(&self.reference, &self.qos)
        {
            Ok(()) => {}
            Err(ConnectPushSupplierError::AlreadyConnected(_)) => {
                return Err(RemoteError::Refused("the channel gave a proxy that is connected already"));
            }
            Err(ConnectPushSupplierError::System(exception)) => return Err(exception.into()),
        }
        let sync_scope = Some(self.shared.sync_scope);
        let pushes = timed.with_policies(Policies { sync_scope, ..self.shared.policies() });
        let proxy = match pushes.narrow::<numbered::ProxyPushConsumerRef>()? {
            Some(proxy) => Proxy::Numbered(proxy),
            None => Proxy::Plain(ProxyPushConsumerRef::from_object(pushes)),
        };
        *self.servant.proxy.lock() = Some(proxy);
        Ok(())
    }
}

impl Drop for Supplier {
    fn drop(&mut self) {
        let _ = self.shared.poa.deactivate_object(&self.id);
        let proxy = self.servant.proxy.lock().take();
        if let Some(proxy) = proxy.filter(|_| self.shared.is_connected()) {
            // A channel that does not answer removes it by its ping.
            let proxy = ProxyPushConsumerRef::from_object(self.shared.timed(proxy.object()));
            let _ = proxy.disconnect_push_consumer();
        }
    }
}

impl comm::PushSupplier for SupplierServant {
    /// The channel disconnects it. As the program has not asked for that, it is connected anew.
    fn disconnect_push_supplier(&self, _: Upcall<'_>) -> Result<()> {
        *self.proxy.lock() = None;
        if let Some(shared) = self.shared.upgrade() {
            shared.suspect();
        }
        Ok(())
    }
}

impl fmt::Debug for RemoteSupplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pushed, lost) = (self.pushed(), self.lost());
        f.debug_struct("RemoteSupplier")
            .field("pushed", &pushed)
            .field("lost", &lost)
            .field("not_owned", &self.not_owned())
            .finish()
    }
}
