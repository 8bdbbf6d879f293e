//! A supplier and a consumer of a remote channel, in one process.

use std::io;
use std::sync::Arc;

use isorb::{Orb, Result, Upcall};
use isorb_event::servants::stamped as idl;

use self::idl::rtec_event_channel_admin::{
    ConsumerQOS, Dependency, EventChannelRef, ProxyPushConsumerRef, SupplierQOS,
};
use self::idl::rtec_event_comm::{
    Event, EventHeader, EventSetView, EventView, PushConsumer, PushConsumerRef, PushSupplierRef,
};
use self::idl::{RtecEventData, RtecEventDataView};
use super::{InFlight, by_connection, failed, orb};

/// Types below are the channel's own.
pub(super) const TYPE: i32 = 16;
pub(super) const SOURCE: i32 = 1;

pub(super) fn run(channel: &str) -> io::Result<()> {
    let orb = orb(by_connection())?;
    let channel: EventChannelRef = orb.resolve(channel).map_err(failed)?;
    let flight = Arc::new(InFlight::default());
    connect(&orb, &channel, Arc::new(Receiver(flight.clone())))?;
    let supplier = supplier(&channel)?;
    let none = isorb::Any::default();
    flight.obey(|octets| {
        let data = RtecEventDataView { pad1: 0, payload: octets, any_value: &none };
        supplier.push(&[EventView { header: header(), data }][..]).map_err(failed)
    })
}

/// Connects a consumer of everything that is pushed here.
pub(super) fn connect(
    orb: &Orb,
    channel: &EventChannelRef,
    consumer: Arc<impl PushConsumer + 'static>,
) -> io::Result<()> {
    let root = orb.root_poa().map_err(failed)?;
    let reference: PushConsumerRef = root.activate(consumer).map_err(failed)?;
    let admin = channel.for_consumers().map_err(failed)?.ok_or_else(|| failed("no consumer admin"))?;
    let proxy = admin.obtain_push_supplier().map_err(failed)?.ok_or_else(|| failed("no proxy"))?;
    let wanted = Event { header: header(), data: RtecEventData::default() };
    let qos = ConsumerQOS { dependencies: vec![Dependency { event: wanted, rt_info: 0 }], is_gateway: false };
    proxy.connect_push_consumer(&reference, &qos).map_err(failed)
}

fn supplier(channel: &EventChannelRef) -> io::Result<ProxyPushConsumerRef> {
    let admin = channel.for_suppliers().map_err(failed)?.ok_or_else(|| failed("no supplier admin"))?;
    let proxy = admin.obtain_push_consumer().map_err(failed)?.ok_or_else(|| failed("no proxy"))?;
    proxy.connect_push_supplier(None::<&PushSupplierRef>, &SupplierQOS::default()).map_err(failed)?;
    Ok(proxy)
}

fn header() -> EventHeader {
    EventHeader { type_: TYPE, source: SOURCE, ttl: 0, creation_time: 0, ec_recv_time: 0, ec_send_time: 0 }
}

struct Receiver(Arc<InFlight>);

impl PushConsumer for Receiver {
    fn push(&self, _: Upcall<'_>, events: EventSetView<'_>) -> Result<()> {
        events.iter().for_each(|event| self.0.arrive(event.data.payload));
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
}
