//! Remote consumers that join late, and those that want fewer events.

use crate::{client, server};
use isorb::{Reference, Upcall};
use isorb_event::remote::{RemoteChannel, RemoteError, RemoteQos};
use isorb_event::servants::stamped::{
    isorb_rtec_event_channel_admin as numbered, rtec_event_channel_admin as admin, rtec_event_comm as comm,
};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Event, Filter, HistoryQos, HistoryRequest, VirtualClock};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type ReceivedEvents = Arc<Mutex<Vec<(i32, u64)>>>;

/// A consumer that records type and number of each event.
fn recording() -> (ReceivedEvents, impl Fn(&Event<'_>) + Send + Sync + 'static) {
    let seen = ReceivedEvents::default();
    let log = seen.clone();
    (seen, move |event: &Event<'_>| log.lock().unwrap().push((event.header.event_type, event.origin.number)))
}

#[test]
fn a_remote_consumer_gets_the_history_first_with_the_numbers_of_suppliers() {
    let config = Channel::builder().history(HistoryQos::keep_last(3));
    let (orb, channel) = server(config);
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let client = client();
    let remote = RemoteChannel::connect(&client, &service.object().to_string()).unwrap();
    let supplier = remote.supplier().unwrap();
    for _ in 0..5 {
        supplier.push(&Event::new(20, 1)).unwrap();
    }
    supplier.push(&Event::new(21, 1)).unwrap();
    let (seen, log) = recording();
    let qos = RemoteQos::history(HistoryRequest::last(9));
    let late =
        remote.consume_with(qos, Filter::any_of([Filter::of_type(20), Filter::of_type(21)]), log).unwrap();
    // Before a later event overwrites one of them.
    wait_until("it has the history", || seen.lock().unwrap().len() == 4);
    let (fresh_seen, log) = recording();
    let _fresh = remote.consume(Filter::of_type(20), log).unwrap();
    supplier.push(&Event::new(20, 1)).unwrap();
    wait_until("the later event comes", || seen.lock().unwrap().len() == 5);
    assert_eq!(*seen.lock().unwrap(), [(20, 3), (20, 4), (20, 5), (21, 1), (20, 6)]);
    let counts = late.counts();
    assert_eq!((counts.received, counts.lost, counts.repeated, counts.connected), (5, 0, 0, 1));
    wait_until("the other one gets it, too", || *fresh_seen.lock().unwrap() == [(20, 6)]);
}

/// The sizes of the pushes that come.
struct Sizes(Mutex<Vec<usize>>);

impl numbered::PushConsumer for Sizes {
    fn push_numbered(
        &self,
        _: Upcall<'_>,
        data: comm::EventSetView<'_>,
        _: &[numbered::Origin],
    ) -> isorb::Result<()> {
        self.0.lock().unwrap().push(data.len());
        Ok(())
    }
}

impl comm::PushConsumer for Sizes {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        self.0.lock().unwrap().push(data.len());
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

/// A call for each would cost more than the events. Later ones come by themselves, and large ones
/// do not wait for each other.
#[test]
fn the_history_comes_in_sets() {
    let kept = HistoryQos { payload: 20_000, ..HistoryQos::keep_last(100) };
    let (orb, channel) = server(Channel::builder().history(kept));
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let supplier = channel.for_suppliers().connect().unwrap();
    for _ in 0..20 {
        supplier.push(&Event::new(20, 1));
    }
    let large = vec![7; 20_000];
    for _ in 0..3 {
        supplier.push(&Event::new(20, 1).octets(&large));
    }
    let here = client();
    let far: admin::EventChannelRef = here.resolve(&service.object().to_string()).unwrap();
    let consumer = Arc::new(Sizes(Mutex::default()));
    let reference: numbered::PushConsumerRef = here.root_poa().unwrap().activate(consumer.clone()).unwrap();
    let reference = comm::PushConsumerRef::from_object(reference.object().clone());
    let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    let proxy = numbered::ProxyPushSupplierRef::from_object(proxy.object().clone());
    let header = comm::EventHeader { type_: 20, ..Default::default() };
    let event = comm::Event { header, data: Default::default() };
    let dependencies = vec![admin::Dependency { event, rt_info: 0 }];
    let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
    let options = numbered::ConsumerOptions { history_last: 100, ..Default::default() };
    proxy.connect_push_consumer_with(&reference, &qos, options).unwrap();
    let sizes = || consumer.0.lock().unwrap().clone();
    wait_until("it has the history", || sizes().iter().sum::<usize>() == 23);
    supplier.push(&Event::new(20, 1));
    supplier.push(&Event::new(20, 1));
    wait_until("it has the later ones", || sizes().iter().sum::<usize>() == 25);
    assert_eq!(sizes(), [8, 8, 5, 1, 1, 1, 1]);
    let counts = channel.consumers()[0].counts;
    assert_eq!((counts.from_history, counts.history_lost), (23, 0));
}

#[test]
fn a_channel_without_a_history_refuses_and_says_why() {
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let client = client();
    let remote = RemoteChannel::connect(&client, &service.object().to_string()).unwrap();
    let qos = RemoteQos::history(HistoryRequest::last(1));
    let refused = remote.consume_with(qos, Filter::Everything, |_| ()).err().unwrap();
    assert!(
        matches!(&refused, RemoteError::System(why) if why.kind == isorb::Kind::NoResources),
        "{refused}"
    );
    assert!(refused.to_string().contains("--keep-last"), "{refused}");
    assert!(channel.consumers().is_empty());
}

/// The time between the events is that of the channel's clock, and gaps in the numbers are no
/// losses.
#[test]
fn a_remote_consumer_wants_an_event_in_a_time_only() {
    let clock = Arc::new(VirtualClock::new());
    let (orb, channel) = server(Channel::builder().clock(Arc::new(clock.clone())));
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let client = client();
    let remote = RemoteChannel::connect(&client, &service.object().to_string()).unwrap();
    let (seen, log) = recording();
    let qos = RemoteQos { min_separation: Duration::from_millis(10), ..RemoteQos::default() };
    let consumer = remote.consume_with(qos, Filter::of_type(20), log).unwrap();
    let supplier = remote.supplier().unwrap();
    for _ in 0..10 {
        supplier.push(&Event::new(20, 1)).unwrap();
        clock.advance(4_000_000);
    }
    wait_until("the last one comes", || seen.lock().unwrap().last() == Some(&(20, 10)));
    assert_eq!(*seen.lock().unwrap(), [(20, 1), (20, 4), (20, 7), (20, 10)]);
    assert_eq!((consumer.counts().received, consumer.counts().lost), (4, 0));
    assert_eq!(channel.consumers()[0].counts.too_soon, 6);
}
