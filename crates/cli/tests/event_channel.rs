//! `isorb event-channel` in processes of its own: alone, federated, and after a process was killed.

mod common;
mod page;

use common::{Service, run};
use page::state;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use isorb::{Config, Orb, Upcall};
use isorb_event::face::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};

/// An event channel in a process.
struct Channel(Service);

fn start(arguments: &[&str]) -> Channel {
    Channel(Service::start(&[&["event-channel", "--real-time", "off"], arguments].concat()))
}

impl Channel {
    /// What else is at the address of the channel.
    fn url(&self, key: &str) -> String {
        self.0.url.replace("EventService", key)
    }

    fn channel(&self, orb: &Orb) -> admin::EventChannelRef {
        orb.resolve(&self.0.url).unwrap()
    }
}

#[derive(Default)]
struct Consumer(Mutex<Vec<u64>>);

impl comm::PushConsumer for Consumer {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        self.0.lock().unwrap().extend(data.iter().map(|event| event.header.creation_time));
        Ok(())
    }
    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

fn event(type_: i32, creation_time: u64) -> comm::Event {
    let header = comm::EventHeader { type_, source: 1, ttl: 4, creation_time, ..Default::default() };
    comm::Event { header, data: Default::default() }
}

fn consume(orb: &Orb, channel: &admin::EventChannelRef, type_: i32) -> Arc<Consumer> {
    let consumer = Arc::new(Consumer::default());
    let reference: comm::PushConsumerRef = orb.root_poa().unwrap().activate(consumer.clone()).unwrap();
    let dependency = admin::Dependency { event: event(type_, 0), rt_info: 0 };
    let mut any_source = dependency.clone();
    any_source.event.header.source = 0;
    let qos = admin::ConsumerQOS { dependencies: vec![any_source], is_gateway: false };
    let proxy = channel.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
    proxy.connect_push_consumer(&reference, &qos).unwrap();
    consumer
}

fn supply(channel: &admin::EventChannelRef) -> admin::ProxyPushConsumerRef {
    let supplier = channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default()).unwrap();
    supplier
}

fn orb() -> Orb {
    let orb = Orb::with_config(Config::default());
    orb.root_poa().unwrap().manager().activate().unwrap();
    orb
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_processes_forward_what_is_wanted_also_after_one_was_killed() {
    let orb = orb();
    let near = start(&["--id", "1", "--dispatching", "threads"]);
    let join = near.url("EventFederation");
    let supplier = supply(&near.channel(&orb));
    for round in 1..=2 {
        let far = start(&["--id", "2", "--join", &join]);
        let consumer = consume(&orb, &far.channel(&orb), 20);
        until("an event comes over", || {
            supplier.push(&vec![event(20, round)]).unwrap();
            consumer.0.lock().unwrap().contains(&round)
        });
        supplier.push(&vec![event(21, 7), event(20, 100), event(20, 101)]).unwrap();
        until("the last comes over", || consumer.0.lock().unwrap().contains(&101));
        let seen = consumer.0.lock().unwrap().clone();
        assert_eq!(seen.iter().filter(|time| **time >= 100).collect::<Vec<_>>(), [&100, &101]);
        assert!(!seen.contains(&7));
        drop(far);
    }
}

fn signal(channel: &Channel, signal: &str) {
    let sent = Command::new("kill").args([signal, &channel.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A process that is stopped reads nothing and answers nothing, and its connections stay.
#[test]
fn a_stopped_process_holds_up_nobody() {
    const EVENTS: u64 = 3_000;
    let orb = orb();
    let near = start(&["--id", "1", "--dispatching", "threads", "--queue", "4000", "--push-timeout", "200"]);
    let far = start(&["--id", "2", "--join", &near.url("EventFederation")]);
    let supplier = supply(&near.channel(&orb));
    let (here, there) = (consume(&orb, &near.channel(&orb), 20), consume(&orb, &far.channel(&orb), 20));
    until("an event comes over", || {
        supplier.push(&vec![event(20, 1)]).unwrap();
        there.0.lock().unwrap().contains(&1)
    });
    signal(&far, "-STOP");
    let mut large = event(20, 0);
    large.data.payload = vec![7; 4_096];
    for number in 100..100 + EVENTS {
        large.header.creation_time = number;
        supplier.push(&vec![large.clone()]).unwrap();
    }
    until("the consumer here gets all", || here.0.lock().unwrap().contains(&(99 + EVENTS)));
    let seen: Vec<u64> = here.0.lock().unwrap().iter().copied().filter(|time| *time >= 100).collect();
    assert_eq!(seen, (100..100 + EVENTS).collect::<Vec<_>>());
    assert!(!there.0.lock().unwrap().contains(&(99 + EVENTS)), "the other one stands");
    signal(&far, "-CONT");
    until("it is there again", || {
        supplier.push(&vec![event(20, 5)]).unwrap();
        there.0.lock().unwrap().contains(&5)
    });
}

#[test]
fn a_neighbour_needs_a_number() {
    let (code, _, error) = run(&["event-channel", "--join", "corbaloc::127.0.0.1:1/EventFederation"]);
    assert_ne!(code, Some(0));
    assert!(error.contains("--id"));
}

#[test]
fn the_page_shows_what_remote_consumers_get() {
    let orb = orb();
    let (service, address) = Service::with_page(&["event-channel", "--real-time", "off", "--admin", "0"]);
    let process = Channel(service);
    assert!(address.starts_with("127.0.0.1:"), "loopback, unless told otherwise: {address}");

    let channel = process.channel(&orb);
    let consumer = consume(&orb, &channel, 20);
    let supplier = supply(&channel);
    until("events come", || {
        supplier.push(&vec![event(20, 1)]).unwrap();
        !consumer.0.lock().unwrap().is_empty()
    });
    until("the page has them", || {
        let state = state(&address);
        let row = &state["consumers"][0];
        state["kind"] == "event-channel"
            && row["pushed"].as_u64() > Some(0)
            && row["response"]["count"].as_u64() > Some(0)
    });
}
