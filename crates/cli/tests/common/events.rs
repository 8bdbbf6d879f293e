//! Suppliers and consumers of a channel in another process.

use isorb::{Config, Orb, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use std::sync::{Arc, Mutex};

/// Keeps when the events that it is pushed were created, which numbers them.
#[derive(Default)]
pub struct Consumer(pub Mutex<Vec<u64>>);

impl comm::PushConsumer for Consumer {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        self.0.lock().unwrap().extend(data.iter().map(|event| event.header.creation_time));
        Ok(())
    }
    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

impl Consumer {
    /// What it has got so far.
    pub fn times(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

/// An event of source 1 that may go over four links.
pub fn event(type_: i32, creation_time: u64) -> comm::Event {
    let header = comm::EventHeader { type_, source: 1, ttl: 4, creation_time, ..Default::default() };
    comm::Event { header, data: Default::default() }
}

/// An ORB that is called back.
pub fn orb() -> Orb {
    let orb = Orb::with_config(Config::default()).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}

/// A consumer of events of this type, from whatever source.
pub fn consume(orb: &Orb, channel: &admin::EventChannelRef, type_: i32) -> Arc<Consumer> {
    let consumer = Arc::new(Consumer::default());
    let reference: comm::PushConsumerRef = orb.root_poa().unwrap().activate(consumer.clone()).unwrap();
    let mut event = event(type_, 0);
    event.header.source = 0;
    let dependencies = vec![admin::Dependency { event, rt_info: 0 }];
    let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
    let proxy = channel.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    proxy.connect_push_consumer(&reference, &qos).unwrap();
    consumer
}

/// A supplier that does not say what it pushes.
pub fn supply(channel: &admin::EventChannelRef) -> admin::ProxyPushConsumerRef {
    let supplier = channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default()).unwrap();
    supplier
}
