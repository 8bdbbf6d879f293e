//! Suppliers in other processes that compete for a type and source, and consumers there that learn
//! which of these fell silent.

use crate::persistent::World;
use crate::unreachable_peers::publishes;
use crate::{client, server};
use isorb::{Config, Kind, Orb, Reference};
use isorb_event::designator::INSTANCE_TIMEOUT;
use isorb_event::remote::{RemoteChannel, RemoteQos, RemoteSupplier};
use isorb_event::servants::stamped::{
    isorb_rtec_event_channel_admin as numbered, rtec_event_channel_admin as admin, rtec_event_comm as comm,
};
use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Event, Filter, Ownership};
use isorb_testkit::{Process, TempFolder, wait_until};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// Whether an event is heard.
fn is_heard(supplier: &RemoteSupplier) -> bool {
    supplier.push_owned(&Event::new(20, 1)).unwrap()
}

/// What its events are dropped for is no loss: its consumers see no gap.
#[test]
fn a_stronger_supplier_is_heard_and_the_weaker_one_again_when_it_has_left() {
    let (served, channel) = server(Channel::builder());
    let service = RtecEventService::start(&served, &channel, EventServiceOptions::default()).unwrap();
    let orb = client();
    let remote = RemoteChannel::connect(&orb, &service.object().to_string()).unwrap();
    let consumer = remote.consume(Filter::of(20, 1), |_| ()).unwrap();
    let weak = remote.supplier_with([], Ownership::new(1)).unwrap();
    let strong = remote.supplier_with([], Ownership::new(2)).unwrap();
    let any = remote.supplier().unwrap();
    assert!(is_heard(&weak) && is_heard(&strong));
    assert!(!is_heard(&weak) && !is_heard(&weak) && is_heard(&strong) && is_heard(&any));
    assert!(weak.push_owned(&Event::new(20, 2)).unwrap(), "another instance");
    assert_eq!((weak.pushed(), weak.not_owned(), weak.lost()), (2, 2, 0));
    let totals = channel.totals();
    assert_eq!((totals.not_owned, totals.owners_changed), (2, 3));
    drop(strong);
    wait_until("the weaker one is heard", || is_heard(&weak));
    assert_eq!(channel.totals().not_owned, weak.not_owned());
    wait_until("its last event arrives", || consumer.last(weak.id(), 20, 1) == Some(2));
    assert_eq!((consumer.counts().received, consumer.counts().lost), (5, 0));
}

#[test]
fn a_stronger_supplier_that_is_silent_gives_way_after_its_lease() {
    let (served, channel) = server(Channel::builder());
    let service = RtecEventService::start(&served, &channel, EventServiceOptions::default()).unwrap();
    let orb = client();
    let remote = RemoteChannel::connect(&orb, &service.object().to_string()).unwrap();
    let weak = remote.supplier_with([], Ownership::new(-1)).unwrap();
    let lease = Duration::from_millis(50);
    let strong = remote.supplier_with([], Ownership::new(1).lease(lease)).unwrap();
    assert!(is_heard(&strong));
    wait_until("the lease is over", || is_heard(&weak));
    assert!(is_heard(&strong), "it takes over again");
}

/// Where the child finds the channel.
const CHANNEL: &str = "ISORB_EVENT_CHANNEL";

/// The child's part: owns an instance until it is killed.
#[test]
fn owns_an_instance_for_another_test() {
    let Ok(url) = std::env::var(CHANNEL) else { return };
    let orb = client();
    let remote = RemoteChannel::connect(&orb, &url).unwrap();
    let strong = remote.supplier_with([], Ownership::new(2)).unwrap();
    assert!(is_heard(&strong));
    wait_until("the channel is connected to it", || orb.connection_counts().open > 0);
    println!("\nREADY");
    // It has pushed just before it is killed.
    while strong.push(&Event::new(20, 1)).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// No ping of a round takes part: the first one is in an hour. That it has called is no answer.
#[test]
fn a_stronger_supplier_that_is_killed_gives_way_at_once() {
    let (served, channel) = server(Channel::builder());
    let options =
        EventServiceOptions { ping: Some(Duration::from_secs(3600)), ..EventServiceOptions::default() };
    let service = RtecEventService::start(&served, &channel, options).unwrap();
    let url = service.object().to_string();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["ownership::owns_an_instance_for_another_test", "--exact", "--nocapture"]);
    let mut child = Process::start(command.env(CHANNEL, &url));
    while child.next_line().expect("it owns the instance") != "READY" {}
    let orb = client();
    let weak = RemoteChannel::connect(&orb, &url).unwrap().supplier_with([], Ownership::new(1)).unwrap();
    assert!(!is_heard(&weak));
    child.kill();
    wait_until("its successor is heard", || is_heard(&weak));
    assert_eq!(channel.totals().suppliers_lost, 1);
}

/// Its server closes connections that are idle for a moment. It answers over the next one, which is
/// watched in turn.
#[test]
fn a_supplier_keeps_its_instances_while_only_connections_to_it_end() {
    let (served, channel) = server(Channel::builder());
    let options =
        EventServiceOptions { ping: Some(Duration::from_secs(3600)), ..EventServiceOptions::default() };
    let service = RtecEventService::start(&served, &channel, options).unwrap();
    let url = service.object().to_string();
    let orb = Orb::with_config(Config { connection_idle_timeout_ms: 40, ..Config::default() }).unwrap();
    orb.root_poa().unwrap().manager().activate().unwrap();
    let strong = RemoteChannel::connect(&orb, &url).unwrap().supplier_with([], Ownership::new(2)).unwrap();
    assert!(is_heard(&strong));
    let other = client();
    let weak = RemoteChannel::connect(&other, &url).unwrap().supplier_with([], Ownership::new(1)).unwrap();
    wait_until("several connections to it have ended", || orb.connection_counts().accepted > 3);
    assert!(!is_heard(&weak) && is_heard(&strong));
    assert_eq!(channel.totals().suppliers_lost, 0);
}

/// The registrations hold the strengths.
#[test]
fn strengths_survive_a_restart_of_the_channel() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    let mut child = world.start();
    let orb = client();
    let channel = RemoteChannel::connect(&orb, &world.url()).unwrap();
    let weak = channel.supplier_with([], Ownership::new(1)).unwrap();
    let strong = channel.supplier_with([], Ownership::new(2)).unwrap();
    for _ in 0..2 {
        assert!(is_heard(&strong) && !is_heard(&weak));
        child.kill();
        child = world.start();
        let pushes = |supplier: &RemoteSupplier| supplier.push(&Event::new(20, 1)).is_ok();
        wait_until("both are connected again", || pushes(&weak) && pushes(&strong));
    }
}

#[test]
fn a_remote_consumer_learns_which_instance_fell_silent() {
    let (served, channel) = server(Channel::builder());
    let service = RtecEventService::start(&served, &channel, EventServiceOptions::default()).unwrap();
    let orb = client();
    let remote = RemoteChannel::connect(&orb, &service.object().to_string()).unwrap();
    let (tell, told) = mpsc::channel();
    let qos = RemoteQos::instance_period(Duration::from_millis(20));
    let _consumer = remote
        .consume_with(qos, Filter::of_type(20), move |event| {
            let header = event.header;
            if header.event_type == INSTANCE_TIMEOUT {
                let _ = tell.send((header.source, header.creation_time));
            }
        })
        .unwrap();
    let supplier = remote.supplier().unwrap();
    supplier.push(&Event::new(20, 7)).unwrap();
    assert_eq!(told.recv().unwrap(), (7, 20));
    let missed = channel.consumers()[0].counts.instances_missed;
    assert_eq!((channel.totals().instances_missed, missed), (1, 1));
    supplier.push(&Event::new(20, 7)).unwrap();
    assert_eq!(told.recv().unwrap(), (7, 20), "it came again, and is told anew");
}

/// What a peer of TAO does in another order is refused.
#[test]
fn a_connected_peer_cannot_change_what_it_declared() {
    let (served, channel) = server(Channel::builder());
    let service = RtecEventService::start(&served, &channel, EventServiceOptions::default()).unwrap();
    let orb = client();
    let far: admin::EventChannelRef = orb.resolve(&service.object().to_string()).unwrap();
    let proxy = far.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    let able = proxy.object().narrow::<numbered::ProxyPushConsumerRef>().unwrap().unwrap();
    let events = vec![crate::unreachable_peers::event(20)];
    assert_eq!(able.push_owned(&events, &[]).unwrap_err().kind, Kind::ObjectNotExist);
    able.set_ownership(3, 0).unwrap();
    proxy.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).unwrap();
    assert_eq!(able.set_ownership(4, 0).unwrap_err().kind, Kind::BadInvOrder);
    assert_eq!(able.push_owned(&events, &[]).unwrap(), 0);
}
