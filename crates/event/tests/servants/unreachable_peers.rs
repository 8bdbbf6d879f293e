//! Peers that are gone, frozen or never connected free their proxies and delay no other peer.

use crate::{client, server};
use isorb::{Config, Kind, Object, Orb, Reference, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::standard::{cos_event_channel_admin as cos, cos_event_comm as cos_comm};
use isorb_event::servants::{CosEventService, EventServiceOptions, RegisteredOperations, RtecEventService};
use isorb_event::{Channel, ConsumerQos, Event, Filter, Limits, Observer, Publication};
use isorb_testkit::{RunningOrb, ScarceTransport, wait_until};
use std::net::TcpListener;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SUPPLIERS: usize = 3;

/// Pings only when the test asks, and one missing reply is enough.
pub fn by_hand() -> EventServiceOptions {
    EventServiceOptions { ping: None, pings: 1, ..EventServiceOptions::default() }
}

struct World {
    _orb: Orb,
    channel: Channel,
    face: RtecEventService,
    here: Orb,
    far: admin::EventChannelRef,
}

fn world(options: EventServiceOptions) -> World {
    let limits = Limits { suppliers: SUPPLIERS, ..Limits::default() };
    let (orb, channel) = server(Channel::builder().limits(limits));
    let face = RtecEventService::start(&orb, &channel, options).unwrap();
    let here = client();
    let far = here.resolve(&face.object().to_string()).unwrap();
    World { _orb: orb, channel, face, here, far }
}

/// The address of a killed process, at which no socket listens.
fn killed(orb: &Orb) -> Object {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    orb.string_to_object(&format!("corbaloc:iiop:1.2@{free}/gone")).unwrap()
}

/// A frozen process: it accepts connections and never replies.
fn frozen(orb: &Orb) -> (TcpListener, Object) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let object = orb.string_to_object(&format!("corbaloc:iiop:1.2@{at}/frozen")).unwrap();
    (listener, object)
}

pub fn event(type_: i32) -> comm::Event {
    let header = comm::EventHeader { type_, source: 1, ttl: 1, ..Default::default() };
    comm::Event { header, data: Default::default() }
}

pub fn publishes(type_: i32) -> admin::SupplierQOS {
    let publication = admin::Publication { event: event(type_), dependency_info: Default::default() };
    admin::SupplierQOS { publications: vec![publication], is_gateway: false }
}

#[derive(Default)]
struct Watching(Mutex<Option<Vec<Publication>>>);

impl Observer for Watching {
    fn update_consumers(&self, _: u64, _: &[Filter]) {}

    fn update_suppliers(&self, _: u64, published: Option<&[Publication]>) {
        *self.0.lock().unwrap() = published.map(<[Publication]>::to_vec);
    }
}

#[test]
fn suppliers_that_were_killed_leave_room_and_publish_nothing_more() {
    let World { channel, face, here, far, .. } = &world(by_hand());
    let watching = Arc::new(Watching::default());
    channel.append_observer(watching.clone()).unwrap();
    let published = || watching.0.lock().unwrap().as_ref().map(Vec::len);
    let obtain = || far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    let alive = obtain();
    alive.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).unwrap();
    for number in 1..=2 * SUPPLIERS as u64 {
        let proxy = obtain();
        let gone = comm::PushSupplierRef::from_object(killed(here));
        proxy.connect_push_supplier(&gone, &publishes(30)).unwrap();
        assert_eq!(published(), Some(2));
        assert_eq!((face.check(), channel.totals().suppliers_lost), (1, number));
        assert_eq!(published(), Some(1), "what it declared is gone");
        assert_eq!(proxy.object().non_existent(), Ok(true));
    }
    assert_eq!(alive.object().non_existent(), Ok(false), "one without a reference is not asked");
}

#[test]
fn a_supplier_that_pushes_is_alive_whatever_its_reference() {
    let World { channel, face, here, far, .. } = &world(by_hand());
    let pushed = Arc::new(AtomicU64::new(0));
    let counting = pushed.clone();
    let consumer = move |events: &[Event<'_>]| {
        counting.fetch_add(events.len() as u64, Relaxed);
    };
    let _connected = channel
        .for_consumers()
        .connect(Arc::new(consumer), ConsumerQos::new("all", Filter::Everything))
        .unwrap();
    let proxy = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    let silent = comm::PushSupplierRef::from_object(killed(here));
    proxy.connect_push_supplier(&silent, &publishes(20)).unwrap();
    for number in 1..=3 {
        proxy.push(&vec![event(20)]).unwrap();
        wait_until("it came", || pushed.load(Relaxed) == number);
        assert_eq!(face.check(), 0);
    }
    assert_eq!((face.check(), channel.totals().suppliers_lost), (1, 1), "and then it is silent");
}

#[test]
fn standard_suppliers_and_pull_consumers_that_were_killed_are_removed() {
    let (orb, channel) = server(Channel::builder());
    let face = CosEventService::start(&orb, &channel, by_hand()).unwrap();
    let here = client();
    let far: cos::EventChannelRef = here.resolve(&face.object().to_string()).unwrap();
    let push = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    push.connect_push_supplier(&cos_comm::PushSupplierRef::from_object(killed(&here))).unwrap();
    let pull = far.for_consumers().unwrap().unwrap().obtain_pull_supplier().unwrap().unwrap();
    pull.connect_pull_consumer(&cos_comm::PullConsumerRef::from_object(killed(&here))).unwrap();
    assert!(!pull.try_pull().unwrap().1);
    // A consumer that pulled recently counts as alive.
    assert_eq!((face.check(), channel.consumers().len()), (1, 1));
    assert_eq!((face.check(), channel.consumers().len()), (1, 0));
    assert_eq!(channel.totals().suppliers_lost, 1);
    assert_eq!((push.object().non_existent(), pull.object().non_existent()), (Ok(true), Ok(true)));
}

/// Counts its notifications.
#[derive(Default)]
struct NotificationCounter(AtomicU64);

impl admin::Observer for NotificationCounter {
    fn update_consumer(&self, _: Upcall<'_>, _: admin::ConsumerQOSView<'_>) -> isorb::Result<()> {
        self.0.fetch_add(1, Relaxed);
        Ok(())
    }

    fn update_supplier(&self, _: Upcall<'_>, _: admin::SupplierQOSView<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

/// With a time-out longer than any test: a thread that waited for the frozen peer would never
/// return.
#[test]
fn a_frozen_observer_delays_no_other() {
    let options = EventServiceOptions { push_timeout: Duration::from_secs(3_600), observers: 2, ..by_hand() };
    let World { channel, face, here, far, .. } = &world(options);
    let (_listener, object) = frozen(here);
    let stuck = far.append_observer(&admin::ObserverRef::from_object(object)).unwrap();
    let counter = Arc::new(NotificationCounter::default());
    let reference: admin::ObserverRef = here.root_poa().unwrap().activate(counter.clone()).unwrap();
    far.append_observer(&reference).unwrap();
    for _ in 0..40 {
        let consumer = Arc::new(|_: &[Event<'_>]| ());
        drop(channel.for_consumers().connect(consumer, ConsumerQos::new("some", Filter::of(20, 1))).unwrap());
    }
    wait_until("the other one is told", || counter.0.load(Relaxed) > 1);

    let third = far.append_observer(&reference).unwrap_err();
    assert!(matches!(third, admin::event_channel::AppendObserverError::CANT_APPEND_OBSERVER(_)), "{third:?}");
    far.remove_observer(stuck).unwrap();
    far.append_observer(&admin::ObserverRef::from_object(killed(here))).unwrap();
    assert!(far.append_observer(&reference).is_err());
    assert_eq!(face.check(), 1, "the one that is gone");
    far.append_observer(&reference).unwrap();
}

#[test]
fn unconnected_proxies_are_evicted() {
    // The channel and its two admin objects do not count.
    let options = EventServiceOptions { proxies: 4, ..by_hand() };
    let World { here, far, .. } = &world(options);
    let consumers = far.for_consumers().unwrap().unwrap();
    let suppliers = far.for_suppliers().unwrap().unwrap();
    let connected = suppliers.obtain_push_consumer().unwrap().unwrap();
    connected.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).unwrap();
    let proxies: Vec<_> = (0..20).map(|_| consumers.obtain_push_supplier().unwrap().unwrap()).collect();
    let gone: Vec<bool> = proxies.iter().map(|proxy| proxy.object().non_existent().unwrap()).collect();
    let expected: Vec<bool> = (0..20).map(|at| at < 17).collect();
    assert_eq!(gone, expected, "the oldest made room");
    assert_eq!(connected.object().non_existent(), Ok(false), "a connected proxy stays");

    // If all are connected there is no room.
    for proxy in [0, 1, 2].map(|_| consumers.obtain_push_supplier().unwrap().unwrap()) {
        let reference: comm::PushConsumerRef = here.root_poa().unwrap().activate(Arc::new(Nothing)).unwrap();
        proxy.connect_push_consumer(&reference, &admin::ConsumerQOS::default()).unwrap();
    }
    let full = consumers.obtain_push_supplier().unwrap_err();
    assert_eq!(full.kind, Kind::ImpLimit, "{full}");
}

pub struct Nothing;

impl comm::PushConsumer for Nothing {
    fn push(&self, _: Upcall<'_>, _: comm::EventSetView<'_>) -> isorb::Result<()> {
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

#[test]
fn proxies_wait_no_longer_than_they_may() {
    for (unconnected, stays) in [(Duration::from_secs(3_600), true), (Duration::ZERO, false)] {
        let World { face, far, .. } = &world(EventServiceOptions { unconnected, ..by_hand() });
        let suppliers = far.for_suppliers().unwrap().unwrap();
        let [waits, connected] = [0, 1].map(|_| suppliers.obtain_push_consumer().unwrap().unwrap());
        connected.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).unwrap();
        face.check();
        assert_eq!(waits.object().non_existent(), Ok(!stays));
        assert_eq!(connected.object().non_existent(), Ok(false));
    }
}

/// A channel that admits the operation with the handle 1.
fn admitting(options: EventServiceOptions) -> World {
    let file = "[[operation]]\nname = 'map'\ncost = '1 ms'\nperiod = '100 ms'\n";
    let file = isorb_sched::file::ScheduleFile::parse("map", file).unwrap();
    let operations = RegisteredOperations::of_file(&file, isorb_sched::Preemption::Full).unwrap();
    let levels = operations.levels(2).unwrap();
    let strategy = isorb_event::Strategy::Threads { per_level: 1 };
    let (orb, channel) =
        server(Channel::builder().scheduler(Arc::new(operations)).levels(levels).strategy(strategy));
    let face = RtecEventService::start(&orb, &channel, options).unwrap();
    let here = client();
    let far = here.resolve(&face.object().to_string()).unwrap();
    World { _orb: orb, channel, face, here, far }
}

impl World {
    /// Connects a consumer of events of type 20 as the operation with the handle 1.
    fn consume(&self, consumer: &Object) -> Result<admin::ProxyPushSupplierRef, String> {
        let dependencies = vec![admin::Dependency { event: event(20), rt_info: 1 }];
        let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
        let proxy = self.far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
        let consumer = comm::PushConsumerRef::from_object(consumer.clone());
        match proxy.connect_push_consumer(&consumer, &qos) {
            Ok(()) => Ok(proxy),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Counting(AtomicU64);

impl comm::PushConsumer for Counting {
    fn push(&self, _: Upcall<'_>, events: comm::EventSetView<'_>) -> isorb::Result<()> {
        self.0.fetch_add(events.len() as u64, Relaxed);
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

#[test]
fn a_channel_without_descriptors_disconnects_nobody() {
    for strategy in [isorb_event::Strategy::Direct, isorb_event::Strategy::Threads { per_level: 1 }] {
        let transport = ScarceTransport::new();
        let orb = RunningOrb::with_transport(Config::default(), transport.clone());
        let channel = Channel::builder().strategy(strategy).build().unwrap();
        // A failed push has its consumer pinged at once, and one failed ping is enough.
        let options = EventServiceOptions { ping: Some(Duration::from_secs(3_600)), ..by_hand() };
        let face = RtecEventService::start(&orb, &channel, options).unwrap();
        let far: admin::EventChannelRef = client().resolve(&face.object().to_string()).unwrap();
        let scarce = Config { endpoints: vec![ScarceTransport::ENDPOINT.into()], ..Config::default() };
        let here = RunningOrb::with_transport(scarce, ScarceTransport::new());

        transport.set_exhausted(true);
        let counting = Arc::new(Counting(AtomicU64::new(0)));
        let consumer: comm::PushConsumerRef = here.root_poa().unwrap().activate(counting.clone()).unwrap();
        let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
        let dependencies = vec![admin::Dependency { event: event(20), rt_info: 0 }];
        let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
        proxy.connect_push_consumer(&consumer, &qos).unwrap();
        let supplier = channel.for_suppliers().connect().unwrap();
        // More than may fail in a row.
        for _ in 0..10 {
            supplier.push(&Event::new(20, 1));
            assert_eq!((face.check(), channel.consumers().len()), (0, 1), "{strategy:?}");
        }
        assert_eq!(counting.0.load(Relaxed), 0, "no connection was opened");

        transport.set_exhausted(false);
        wait_until("it gets events", || {
            supplier.push(&Event::new(20, 1));
            counting.0.load(Relaxed) > 0
        });
        // The control: one that is gone is disconnected.
        here.shutdown(true).unwrap();
        wait_until("it is disconnected", || {
            supplier.push(&Event::new(20, 1));
            channel.consumers().is_empty()
        });
    }
}

#[test]
fn a_crashed_consumer_leaves_its_operation_to_its_successor() {
    // Neither is pinged in its turn.
    let world = admitting(EventServiceOptions { ping: None, ..EventServiceOptions::default() });
    let crashed = world.consume(&killed(&world.here)).unwrap();
    let live: comm::PushConsumerRef = world.here.root_poa().unwrap().activate(Arc::new(Nothing)).unwrap();
    let successor = world.consume(live.object()).unwrap();
    assert_eq!(crashed.object().non_existent(), Ok(true));
    let refused = world.consume(&killed(&world.here)).unwrap_err();
    assert!(refused.contains("another consumer is connected"), "{refused}");
    assert_eq!(successor.object().non_existent(), Ok(false), "a consumer that answers stays");
}

#[test]
fn a_consumer_is_pinged_at_once_when_a_push_to_it_fails() {
    let hour = Some(Duration::from_secs(3_600));
    let world = admitting(EventServiceOptions { ping: hour, ..EventServiceOptions::default() });
    let crashed = world.consume(&killed(&world.here)).unwrap();
    world.channel.for_suppliers().connect().unwrap().push(&Event::new(20, 1));
    wait_until("it is disconnected", || crashed.object().non_existent() == Ok(true));
}
