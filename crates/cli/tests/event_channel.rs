//! `isorb event-channel` in processes of its own: alone, federated, and after a process was killed.

mod common;
mod page;

use common::events::{consume, event, orb, supply};
use common::{Service, run};
use isorb::Orb;
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_testkit::wait_until;
use page::state;
use std::process::Command;

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

#[test]
fn two_processes_forward_events_also_after_one_was_killed() {
    let orb = orb();
    let near = start(&["--id", "1", "--dispatching", "threads"]);
    let join = near.url("EventFederation");
    let supplier = supply(&near.channel(&orb));
    for round in 1..=2 {
        let far = start(&["--id", "2", "--join", &join]);
        let consumer = consume(&orb, &far.channel(&orb), 20);
        wait_until("an event comes over", || {
            supplier.push(&vec![event(20, round)]).unwrap();
            consumer.0.lock().unwrap().contains(&round)
        });
        supplier.push(&vec![event(21, 7), event(20, 100), event(20, 101)]).unwrap();
        wait_until("the last comes over", || consumer.0.lock().unwrap().contains(&101));
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
fn a_stopped_process_delays_no_other_one() {
    const EVENTS: u64 = 3_000;
    let orb = orb();
    let near = start(&["--id", "1", "--dispatching", "threads", "--queue", "4000", "--push-timeout", "200"]);
    let far = start(&["--id", "2", "--join", &near.url("EventFederation")]);
    let supplier = supply(&near.channel(&orb));
    let (here, there) = (consume(&orb, &near.channel(&orb), 20), consume(&orb, &far.channel(&orb), 20));
    wait_until("an event comes over", || {
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
    wait_until("the consumer here gets all", || here.0.lock().unwrap().contains(&(99 + EVENTS)));
    let seen: Vec<u64> = here.0.lock().unwrap().iter().copied().filter(|time| *time >= 100).collect();
    assert_eq!(seen, (100..100 + EVENTS).collect::<Vec<_>>());
    assert!(!there.0.lock().unwrap().contains(&(99 + EVENTS)), "the other one stands");
    signal(&far, "-CONT");
    wait_until("it is there again", || {
        supplier.push(&vec![event(20, 5)]).unwrap();
        there.0.lock().unwrap().contains(&5)
    });
}

/// An address without a listener.
fn free() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn neighbours_by_datagrams_forward_once_and_in_order() {
    let orb = orb();
    let (here, there) = (free(), free());
    let near = start(&["--id", "1", "--tick", "100", "--queue", "1000", "--udp", &format!("{here}={there}")]);
    let far = start(&["--id", "2", "--tick", "100", "--queue", "1000", "--udp", &format!("{there}={here}")]);
    let supplier = supply(&near.channel(&orb));
    let consumer = consume(&orb, &far.channel(&orb), 20);
    wait_until("an event comes over", || {
        supplier.push(&vec![event(20, 1)]).unwrap();
        consumer.0.lock().unwrap().contains(&1)
    });
    (100..200).for_each(|number| supplier.push(&vec![event(21, 7), event(20, number)]).unwrap());
    wait_until("the last comes over", || consumer.0.lock().unwrap().contains(&199));
    let seen: Vec<u64> = consumer.0.lock().unwrap().iter().copied().filter(|time| *time != 1).collect();
    assert_eq!(seen, (100..200).collect::<Vec<_>>());
    for wrong in
        [["--udp", "127.0.0.1:1"], ["--multicast", "10.0.0.1:5"], ["--udp", "127.0.0.1:1=239.0.0.1:5"]]
    {
        let (code, _, error) = run(&["event-channel", "--id", "1", wrong[0], wrong[1]]);
        assert!(code == Some(2) && error.contains(wrong[1]), "{error}");
    }
    let (code, _, error) = run(&["event-channel", "--udp", &format!("{}={}", free(), free())]);
    assert!(code == Some(1) && error.contains("--id"), "{error}");
}

#[test]
fn a_neighbour_needs_a_number() {
    let (code, _, error) = run(&["event-channel", "--join", "corbaloc::127.0.0.1:1/EventFederation"]);
    assert_ne!(code, Some(0));
    assert!(error.contains("--id"));
}

#[test]
fn the_page_shows_the_events_of_remote_consumers() {
    let orb = orb();
    let (service, address) = Service::with_page(&["event-channel", "--real-time", "off", "--admin", "0"]);
    let process = Channel(service);
    assert!(address.starts_with("127.0.0.1:"), "loopback, unless told otherwise: {address}");

    let channel = process.channel(&orb);
    let consumer = consume(&orb, &channel, 20);
    let supplier = supply(&channel);
    wait_until("events come", || {
        supplier.push(&vec![event(20, 1)]).unwrap();
        !consumer.0.lock().unwrap().is_empty()
    });
    wait_until("the page has them", || {
        let state = state(&address);
        let row = &state["consumers"][0];
        state["kind"] == "event-channel"
            && row["pushed"].as_u64() > Some(0)
            && row["response"]["count"].as_u64() > Some(0)
    });
}
