//! Consumers and suppliers of a channel in another process, over its restarts.

use crate::frozen_consumers::Counting;
use crate::persistent::World;
use crate::unreachable_peers::{event, publishes};
use crate::{client, server};
use isorb::{Kind, Orb, SystemException};
use isorb_event::remote::{Gap, Notice, RemoteChannel, RemoteError, RemoteSupplier};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Event, Filter, Origin, Quality};
use isorb_testkit::{Process, TempFolder, wait_until};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A channel in this process, with an ORB of its own.
struct Near {
    _orb: Orb,
    channel: Channel,
    service: RtecEventService,
}

fn near(options: EventServiceOptions) -> Near {
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, options).unwrap();
    Near { _orb: orb, channel, service }
}

impl Near {
    fn connect(&self, orb: &Orb) -> RemoteChannel {
        RemoteChannel::connect(orb, &self.service.object().to_string()).unwrap()
    }
}

/// Pushes an event each millisecond, whatever becomes of it, until told to stop.
fn push_until(supplier: &RemoteSupplier, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let _ = supplier.push(&Event::new(20, 1));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the thread that pushes, also when the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A channel is killed three times under 1,000 events a second. Each event arrives, or is counted
/// as lost by the consumer.
fn over_restarts(world: &World, start: &dyn Fn() -> Process) {
    let mut child = start();
    let orb = client();
    let interrupted = Arc::new(AtomicUsize::new(0));
    let count = interrupted.clone();
    let channel = RemoteChannel::builder()
        .notify(move |notice| {
            _ = count.fetch_add(usize::from(matches!(notice, Notice::Interrupted(_))), Relaxed)
        })
        .connect(&orb, &world.url())
        .unwrap();
    let consumer = channel.consume(Filter::of(20, 1), |_| ()).unwrap();
    let supplier = channel.supplier().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| push_until(&supplier, &stop));
        let _stop = StopAtEnd(&stop);
        for _ in 0..3 {
            let before = consumer.counts().received;
            wait_until("events come", || consumer.counts().received > before + 100);
            // With a store they come before the client has probed the channel.
            wait_until("the client is connected", || channel.is_connected());
            let known = interrupted.load(Relaxed);
            child.kill();
            wait_until("the client notices", || interrupted.load(Relaxed) > known);
            assert!(!channel.is_connected());
            child = start();
            let before = consumer.counts().received;
            wait_until("events come again", || consumer.counts().received > before);
        }
    });
    wait_until("the last one arrives", || {
        let _ = supplier.push(&Event::new(20, 1));
        let number = supplier.pushed() + supplier.lost();
        let due = isorb_rt::time::Deadline::after(Duration::from_millis(100));
        while consumer.last(supplier.id(), 20, 1) != Some(number) && !due.is_past() {
            std::thread::yield_now();
        }
        consumer.last(supplier.id(), 20, 1) == Some(number)
    });
    let counts = consumer.counts();
    assert_eq!(counts.received + counts.lost, supplier.pushed() + supplier.lost(), "none is lost in silence");
    assert!(supplier.lost() > 0 && counts.lost > 0, "{supplier:?} {counts:?}");
    wait_until("all are connected", || channel.is_connected());
}

#[test]
fn every_event_arrives_or_is_counted_over_restarts_of_a_channel_with_a_store() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    over_restarts(&world, &|| world.start());
}

#[test]
fn every_event_arrives_or_is_counted_over_restarts_of_a_channel_without_a_store() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    over_restarts(&world, &|| world.start_without_store());
}

#[test]
fn a_consumer_counts_the_events_that_its_queue_lost() {
    let quality = Quality { queue: 4, ..Quality::default() };
    let near = near(EventServiceOptions { quality, ..EventServiceOptions::default() });
    let orb = client();
    let channel = near.connect(&orb);
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    // It blocks until the test has dropped `go`.
    let slow = channel.consume(Filter::of_type(20), move |_| _ = wait.lock().unwrap().recv()).unwrap();
    let supplier = channel.supplier().unwrap();
    supplier.push(&Event::new(20, 1)).unwrap();
    wait_until("it has begun", || slow.counts().received == 1);
    let large = vec![7; 64 << 10];
    let lost = || near.channel.consumers()[0].counts.dropped;
    wait_until("events are lost", || {
        supplier.push(&Event::new(20, 1).octets(&large)).unwrap();
        lost() > 10
    });
    drop(go);
    wait_until("its queue is empty", || near.channel.consumers()[0].waiting == 0);
    supplier.push(&Event::new(20, 1)).unwrap();
    let last = supplier.pushed();
    wait_until("the last one arrives", || slow.last(supplier.id(), 20, 1) == Some(last));
    let counts = slow.counts();
    assert_eq!((counts.lost, counts.received + counts.lost), (lost(), last));
}

#[test]
fn peers_without_numbers_take_part() {
    let near = near(EventServiceOptions::default());
    let orb = client();
    let channel = near.connect(&orb);
    let consumer = channel.consume(Filter::of(20, 1), |_| ()).unwrap();
    let far: admin::EventChannelRef = orb.resolve(&near.service.object().to_string()).unwrap();
    let counting = Arc::new(Counting::default());
    let plain: comm::PushConsumerRef = orb.root_poa().unwrap().activate(counting.clone()).unwrap();
    let proxy = far.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    let dependencies = vec![admin::Dependency { event: event(20), rt_info: 0 }];
    proxy.connect_push_consumer(&plain, &admin::ConsumerQOS { dependencies, is_gateway: false }).unwrap();
    let supplier = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).unwrap();
    supplier.push(&vec![event(20), event(20)]).unwrap();
    let numbered = channel.supplier().unwrap();
    numbered.push(&Event::new(20, 1)).unwrap();
    wait_until("both have all", || consumer.counts().received == 3 && counting.0.load(Relaxed) == 3);
    assert_eq!(consumer.counts().lost, 0);
}

#[test]
fn a_consumer_of_a_destroyed_channel_is_told_once_that_it_is_refused() {
    let near = near(EventServiceOptions::default());
    let orb = client();
    let (sender, notices) = mpsc::channel();
    let sender = Mutex::new(sender);
    let channel = RemoteChannel::builder()
        .notify(move |notice| sender.lock().unwrap().send(notice.clone()).unwrap())
        .connect(&orb, &near.service.object().to_string())
        .unwrap();
    let consumer = channel.consume(Filter::of(20, 1), |_| ()).unwrap();
    near.channel.destroy();
    let refused = |why: &SystemException| why.kind == Kind::ObjectNotExist;
    assert!(matches!(notices.recv().unwrap(), Notice::Refused(why) if refused(&why)));
    let again = channel.supplier().unwrap_err();
    assert!(matches!(&again, RemoteError::System(why) if refused(why)), "{again}");
    assert!(channel.is_connected(), "the channel answers");
    drop(consumer);
    drop(channel);
    assert!(notices.try_recv().is_err(), "it is said once");
}

#[test]
fn values_of_idl_types_come_and_others_are_counted() {
    let near = near(EventServiceOptions::default());
    let orb = client();
    let channel = near.connect(&orb);
    let (sender, values) = mpsc::channel();
    let sender = Mutex::new(sender);
    let consumer = channel
        .consume_values(Filter::of_type(20), move |header, value: Vec<String>| {
            sender.lock().unwrap().send((header.source, value)).unwrap();
        })
        .unwrap();
    let supplier = channel.supplier().unwrap();
    supplier.push(&Event::new(20, 1)).unwrap();
    supplier.push(&Event::new(20, 1).octets(&[1, 0, 0, 0, 255, 255, 255, 255])).unwrap();
    let texts = vec!["48.2N".to_owned(), "16.3E".to_owned()];
    supplier.push_value(20, 3, &texts).unwrap();
    assert_eq!(values.recv().unwrap(), (3, texts));
    assert_eq!((consumer.counts().malformed, consumer.counts().received), (2, 3));
}

#[test]
fn what_is_dropped_is_disconnected() {
    let near = near(EventServiceOptions { ping: None, ..EventServiceOptions::default() });
    let orb = client();
    let channel = near.connect(&orb);
    let consumer = channel.consume(Filter::of(20, 1), |_| ()).unwrap();
    assert_eq!(near.channel.consumers().len(), 1);
    drop(consumer);
    assert_eq!(near.channel.consumers().len(), 0);
    let malformed = channel.consume(Filter::Conjunction(Vec::new()), |_| ()).unwrap_err();
    assert!(matches!(malformed, RemoteError::Filter(_)), "{malformed}");
}

#[test]
fn a_wrong_url_says_why() {
    let near = near(EventServiceOptions::default());
    let orb = client();
    let fails = |url: &str| RemoteChannel::connect(&orb, url).unwrap_err().to_string();
    let consumers = near.connect(&orb).consume(Filter::of(20, 1), |_| ()).unwrap();
    drop(consumers);
    let far: admin::EventChannelRef = orb.resolve(&near.service.object().to_string()).unwrap();
    let admin = far.for_consumers().unwrap().unwrap();
    assert!(fails(&admin.to_string()).contains("READY"), "{}", fails(&admin.to_string()));
    assert!(fails("EventService").contains("-ORBInitRef"), "{}", fails("EventService"));
    assert!(fails("no:url").contains("no:url"), "{}", fails("no:url"));
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = fails(&format!("corbaloc:iiop:1.2@{dead}/EventService"));
    assert!(refused.contains(&dead.to_string()), "{refused}");
}

/// What the channel's consumers want, without gateways, at first, after a change, and after the
/// channel was restarted; more filters than one registration may have.
#[test]
fn an_observer_learns_what_consumers_want_and_gateways_are_not_seen() {
    let near = near(EventServiceOptions::default());
    let orb = client();
    let channel = near.connect(&orb);
    let wanted = Arc::new(Mutex::new(None));
    let told = wanted.clone();
    let observer = channel.observe(move |filters| *told.lock().unwrap() = Some(filters.to_vec())).unwrap();
    let is = |expected: &[Filter]| wanted.lock().unwrap().as_deref() == Some(expected);
    wait_until("nothing is wanted", || is(&[]));
    let url = near.service.object().to_string();
    let gateway = RemoteChannel::builder().gateway(true).connect(&orb, &url).unwrap();
    let _unseen = gateway.consume(Filter::of(19, 1), |_| ()).unwrap();
    let many: Vec<Filter> = (20..120).map(|event_type| Filter::of(event_type, 1)).collect();
    let consumers: Vec<_> =
        many.iter().map(|filter| channel.consume(filter.clone(), |_| ()).unwrap()).collect();
    wait_until("all are told", || is(&many));
    drop(consumers);
    wait_until("their end is told", || is(&[]));
    drop(observer);
    let _late = channel.consume(Filter::of(20, 1), |_| ()).unwrap();
    let supplier = channel.supplier().unwrap();
    supplier.push(&Event::new(20, 1)).unwrap();
    assert!(is(&[]), "it was removed");
}

/// Each restart makes the observer known again.
#[test]
fn an_observer_survives_a_restart_of_the_channel() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    let mut child = world.start();
    let orb = client();
    let channel = RemoteChannel::connect(&orb, &world.url()).unwrap();
    let _consumer = channel.consume(Filter::of(20, 1), |_| ()).unwrap();
    let (tell, told) = mpsc::channel();
    let _observer = channel.observe(move |filters| _ = tell.send(filters.to_vec())).unwrap();
    let wanted = |filters: &[Filter]| {
        wait_until("the filters are told", || told.try_recv().is_ok_and(|told| told == filters));
    };
    wanted(&[Filter::of(20, 1)]);
    for _ in 0..2 {
        child.kill();
        wait_until("the client notices", || !channel.is_connected());
        child = world.start();
        wanted(&[Filter::of(20, 1)]);
    }
}

/// Threads that share a supplier may overtake each other: an event that was notified as lost comes
/// late, and that is notified, too.
#[test]
fn an_event_that_was_notified_as_lost_and_comes_late_is_notified() {
    let near = near(EventServiceOptions::default());
    let orb = client();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let noted = notices.clone();
    let channel = RemoteChannel::builder()
        .notify(move |notice| noted.lock().unwrap().push(notice.clone()))
        .connect(&orb, &near.service.object().to_string())
        .unwrap();
    let consumer = channel.consume(Filter::of_type(20), |_| ()).unwrap();
    let supplier = near.channel.for_suppliers().connect().unwrap();
    for number in [1, 4, 2] {
        supplier.push(&Event { origin: Origin { supplier: 7, number }, ..Event::new(20, 1) });
    }
    wait_until("all have come", || consumer.counts().received == 3);
    assert_eq!(consumer.counts().lost, 1);
    let gap = Gap { supplier: 7, event_type: 20, source: 1, last: 1, next: 4 };
    let late = Notice::Late { supplier: 7, event_type: 20, source: 1, number: 2 };
    assert_eq!(*notices.lock().unwrap(), [Notice::Lost(gap), late.clone()]);
    let sentence = "event 2 of type 20 and source 1 from supplier 7, counted as lost, came late";
    assert_eq!(late.to_string(), sentence);
}
