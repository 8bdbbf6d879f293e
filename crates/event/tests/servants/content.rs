//! Conditions on the payload, of consumers in another process.

use crate::client;
use crate::persistent::World;
use crate::server;
use isorb::{Kind, Reference, TypeCode, Upcall};
use isorb_event::remote::{RemoteChannel, RemoteError};
use isorb_event::servants::stamped::isorb_rtec_event_channel_admin::{
    ProxyPushSupplierRef, proxy_push_supplier::SetContentError,
};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, ContentFilter, ContentLimits, Event, Filter};
use isorb_testkit::{TempFolder, retry, wait_until};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

fn above(limit: i32) -> ContentFilter {
    ContentFilter::new(&format!("payload > {limit}"), &TypeCode::LONG).unwrap()
}

#[test]
fn events_that_do_not_satisfy_a_condition_do_not_cross_the_network() {
    let (near, channel) = server(Channel::builder());
    let service = RtecEventService::start(&near, &channel, EventServiceOptions::default()).unwrap();
    let orb = client();
    let far = RemoteChannel::connect(&orb, &service.object().to_string()).unwrap();
    let (sender, values) = mpsc::channel();
    let sender = Mutex::new(sender);
    let consumer = far
        .consume_values_where(Filter::of_type(20), "payload > 48.5 && payload < 50", move |_, value: f64| {
            sender.lock().unwrap().send(value).unwrap();
        })
        .unwrap();
    let other = far.consume_where(Filter::of_type(21), above(3), |_| ()).unwrap();
    let supplier = far.supplier().unwrap();
    for value in [48.0, 49.0, 50.0, 49.5] {
        supplier.push_value(20, 1, &value).unwrap();
    }
    // No octets at all.
    supplier.push(&Event::new(20, 1)).unwrap();
    (0..6i32).for_each(|value| supplier.push_value(21, 1, &value).unwrap());
    assert_eq!([values.recv().unwrap(), values.recv().unwrap()], [49.0, 49.5]);
    wait_until("the other has two", || other.counts().received == 2);
    assert_eq!((consumer.counts().received, consumer.counts().lost, consumer.counts().malformed), (2, 0, 0));
    let mut counts: Vec<_> = channel
        .consumers()
        .iter()
        .map(|it| (it.counts.pushed, it.counts.filtered, it.counts.unreadable))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(2, 2, 1), (2, 4, 0)], "the channel kept the others");
    let refused = far.consume_values_where(Filter::of_type(20), "payload > x", |_, _: f64| ()).unwrap_err();
    assert!(matches!(refused, RemoteError::Content(_)), "{refused}");
}

#[test]
fn a_condition_is_checked_by_the_channel_and_set_before_the_consumer_connects() {
    let (near, channel) = server(Channel::builder());
    let content = ContentLimits { octets: 20, ..ContentLimits::default() };
    let options = EventServiceOptions { content, ..EventServiceOptions::default() };
    let service = RtecEventService::start(&near, &channel, options).unwrap();
    let orb = client();
    let far: admin::EventChannelRef = orb.resolve(&service.object().to_string()).unwrap();
    let plain = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    let proxy = ProxyPushSupplierRef::from_object(plain.object().clone());
    let refused = |expression: &str, tc: &TypeCode| match proxy.set_content(expression, tc) {
        Err(SetContentError::ContentError(refused)) => refused.why,
        other => panic!("{other:?}"),
    };
    let why = refused("payload > x", &TypeCode::LONG);
    assert!(why.contains("payload > x") && why.contains('^'), "{why}");
    let why = refused("payload > 1 || payload > 2", &TypeCode::LONG);
    assert!(why.contains("ContentLimits::octets"), "{why}");
    assert!(!refused("id == 1", &TypeCode::ANY).is_empty());
    proxy.set_content("payload > 3", &TypeCode::LONG).unwrap();
    // An empty expression takes it back.
    proxy.set_content("", &TypeCode::NULL).unwrap();
    proxy.set_content("payload > 4", &TypeCode::LONG).unwrap();
    let counting = Arc::new(crate::frozen_consumers::Counting::default());
    let consumer: comm::PushConsumerRef = orb.root_poa().unwrap().activate(counting.clone()).unwrap();
    let dependencies = vec![admin::Dependency { event: crate::unreachable_peers::event(20), rt_info: 0 }];
    plain.connect_push_consumer(&consumer, &admin::ConsumerQOS { dependencies, is_gateway: false }).unwrap();
    match proxy.set_content("payload > 3", &TypeCode::LONG) {
        Err(SetContentError::System(exception)) => assert_eq!(exception.kind, Kind::BadInvOrder),
        other => panic!("{other:?}"),
    }
    let supplier = RemoteChannel::connect(&orb, &service.object().to_string()).unwrap().supplier().unwrap();
    (0..7i32).for_each(|value| supplier.push_value(20, 1, &value).unwrap());
    wait_until("it has two", || counting.0.load(std::sync::atomic::Ordering::Relaxed) == 2);
    // The client's limits are wider than this channel's.
    let remote = RemoteChannel::connect(&orb, &service.object().to_string()).unwrap();
    let long = ContentFilter::new("payload > 1 || payload > 2", &TypeCode::LONG).unwrap();
    let refused = remote.consume_where(Filter::of_type(20), long, |_| ()).unwrap_err();
    assert!(refused.to_string().contains("ContentLimits::octets"), "{refused}");
}

/// A channel with TAO's interfaces alone.
struct Foreign {
    consumers: Option<admin::ConsumerAdminRef>,
    proxy: Option<admin::ProxyPushSupplierRef>,
}

impl admin::EventChannel for Foreign {
    fn for_consumers<'u>(&'u self, _: Upcall<'u>) -> isorb::Result<Option<&'u admin::ConsumerAdminRef>> {
        Ok(self.consumers.as_ref())
    }

    fn for_suppliers<'u>(&'u self, _: Upcall<'u>) -> isorb::Result<Option<&'u admin::SupplierAdminRef>> {
        Ok(None)
    }

    fn destroy(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }

    fn append_observer(
        &self,
        _: Upcall<'_>,
        _: Option<&admin::ObserverRef>,
    ) -> Result<u32, admin::event_channel::AppendObserverError> {
        Ok(0)
    }

    fn remove_observer(
        &self,
        _: Upcall<'_>,
        _: u32,
    ) -> Result<(), admin::event_channel::RemoveObserverError> {
        Ok(())
    }
}

impl admin::ConsumerAdmin for Foreign {
    fn obtain_push_supplier<'u>(
        &'u self,
        _: Upcall<'u>,
    ) -> isorb::Result<Option<&'u admin::ProxyPushSupplierRef>> {
        Ok(self.proxy.as_ref())
    }
}

impl comm::PushSupplier for Foreign {
    fn disconnect_push_supplier(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

impl admin::ProxyPushSupplier for Foreign {
    fn connect_push_consumer(
        &self,
        _: Upcall<'_>,
        _: Option<&comm::PushConsumerRef>,
        _: admin::ConsumerQOSView<'_>,
    ) -> Result<(), admin::proxy_push_supplier::ConnectPushConsumerError> {
        Ok(())
    }

    fn suspend_connection(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }

    fn resume_connection(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

#[test]
fn a_channel_of_another_orb_is_not_asked_to_filter_in_silence() {
    let (near, _channel) = server(Channel::builder());
    let poa = near.root_poa().unwrap();
    let nothing = || Foreign { consumers: None, proxy: None };
    let proxy: admin::ProxyPushSupplierRef = poa.activate(Arc::new(nothing())).unwrap();
    let consumers: admin::ConsumerAdminRef =
        poa.activate(Arc::new(Foreign { proxy: Some(proxy), ..nothing() })).unwrap();
    let channel: admin::EventChannelRef =
        poa.activate(Arc::new(Foreign { consumers: Some(consumers), ..nothing() })).unwrap();
    let orb = client();
    let far = RemoteChannel::connect(&orb, &channel.to_string()).unwrap();
    let refused = far.consume_where(Filter::of_type(20), above(3), |_| ()).unwrap_err();
    assert!(matches!(refused, RemoteError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("no content filters"), "{refused}");
    assert!(far.consume(Filter::of_type(20), |_| ()).is_ok());
}

#[test]
fn a_condition_outlives_the_process_of_the_channel() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    let mut child = world.start();
    let orb = client();
    let channel = RemoteChannel::connect(&orb, &world.url()).unwrap();
    let (sender, values) = mpsc::channel();
    let sender = Mutex::new(sender);
    let consumer = channel
        .consume_where(Filter::of_type(20), above(5), move |event| {
            sender.lock().unwrap().send(event.header.source).unwrap();
        })
        .unwrap();
    child.kill();
    let _child = world.start();
    let supplier = retry("the channel answers", || channel.supplier());
    for value in [1, 6, 2, 7] {
        supplier.push_value(20, value, &value).unwrap();
    }
    assert_eq!([values.recv().unwrap(), values.recv().unwrap()], [6, 7]);
    assert_eq!(consumer.counts().connected, 1, "the channel remembers it");
}
