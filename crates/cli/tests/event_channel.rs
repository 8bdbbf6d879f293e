//! `isorb event-channel` in processes of its own: alone, federated, and after a process was killed.

mod common;
mod page;

use common::events::{consume, event, orb, supply};
use common::{Service, run};
use isorb::Orb;
use isorb_event::servants::RegistrationStore;
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_event::servants::standard::cos_event_channel_admin as cos;
use isorb_event::{Configuration, Strategy};
use isorb_testkit::{freeze, resume, wait_until};
use page::state;

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
    freeze(far.0.id());
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
    resume(far.0.id());
    wait_until("it is there again", || {
        supplier.push(&vec![event(20, 5)]).unwrap();
        there.0.lock().unwrap().contains(&5)
    });
}

/// An address without a listener.
fn free() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A port without a listener that no connection gets by chance, as one of those that the kernel
/// gives out might while its channel is restarted.
fn fixed_port() -> String {
    let begin = (std::process::id() % 10_000) as u16;
    let ports = (20_000..30_000).cycle().skip(begin.into()).take(10_000);
    let mut free = ports.filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("one of ten thousand ports is free").to_string()
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
    assert!(code == Some(2) && error.contains("--id"), "{error}");
}

#[test]
fn a_killed_channel_with_a_store_has_its_consumers_again() {
    let (orb, folder) = (orb(), isorb_testkit::TempFolder::new());
    let file = folder.file("registrations");
    let (here, elsewhere) = (fixed_port(), fixed_port());
    let store = ["--store", file.to_str().unwrap(), "--port"];
    let (_, _, error) = run(&["event-channel", "--store", "anywhere"]);
    assert!(error.contains("--store needs --port"), "{error}");
    let channel = start(&[&store[..], &[&here]].concat());
    let consumer = consume(&orb, &channel.channel(&orb), 20);
    let supplier = supply(&channel.channel(&orb));
    let (_, _, error) = run(&[&["event-channel"], &store[..], &[&elsewhere]].concat());
    assert!(error.contains("another process has it open"), "{error}");
    drop(channel);
    let again = start(&[&store[..], &[&here]].concat());
    wait_until("the old proxies serve", || {
        supplier.push(&vec![event(20, 7)]).unwrap();
        consumer.0.lock().unwrap().contains(&7)
    });
    // The modules that an operator chose are there after the next restart.
    let chosen = ["--configuration", "full", "--dispatching", "threads", "--threads", "3"];
    let (code, _, error) = run(&[&["event-control", &again.0.url], &chosen[..]].concat());
    assert_eq!((code, &*error), (Some(0), ""));
    drop(again);
    let stored = RegistrationStore::open(&file).unwrap();
    assert_eq!(stored.modules(), Ok(Some((Configuration::Full, Strategy::Threads { per_level: 3 }))));
    drop(stored);
    let last = start(&[&store[..], &[&here]].concat());
    // The level's third thread. Pushes to remote consumers have two.
    let named = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).is_ok_and(|name| name == "event-0-2\n")
    };
    let tasks = std::fs::read_dir(format!("/proc/{}/task", last.0.id())).unwrap();
    assert!(tasks.into_iter().any(named), "it dispatches by three threads");
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

#[test]
fn a_channel_binds_itself_and_ends_where_asked() {
    let orb = orb();
    let naming = Service::start(&["naming", "--port", "0", "--memory"]);
    let mut named = start(&["--ns", &naming.url, "--exit-on-destroy"]);
    let resolve = |name: &str| {
        let (code, reference, error) = run(&["name", "--ns", &naming.url, "resolve", name]);
        assert_eq!((code, &*error), (Some(0), ""), "{name}");
        reference.trim().to_owned()
    };
    let standard: cos::EventChannelRef = orb.resolve(&resolve("CosEventService")).unwrap();
    assert!(standard.for_consumers().unwrap().is_some());
    let channel: admin::EventChannelRef = orb.resolve(&resolve("EventService")).unwrap();
    channel.destroy().unwrap();
    wait_until("the process ends", || named.0.ended().is_some_and(|status| status.success()));
    let stays = start(&[]);
    stays.channel(&orb).destroy().unwrap();
    assert!(stays.channel(&orb).for_consumers().is_ok(), "it was not asked to end");
}

/// The lines that a channel logs until one has this text.
fn logged(process: &mut isorb_testkit::Process, text: &str) {
    while let Some(line) = process.next_line() {
        if line.contains(text) {
            return;
        }
    }
    panic!("the channel ended without a line with '{text}'");
}

#[test]
fn a_federation_says_how_it_forms_and_why_not() {
    let neighbour = start(&["--id", "2", "--tick", "100"]);
    let (federation, dead) =
        (neighbour.url("EventFederation"), format!("corbaloc::{}/EventFederation", free()));
    let mut member = isorb_testkit::Process::start_on_stderr(&mut common::isorb(&[
        "event-channel",
        "--real-time",
        "off",
        "--id",
        "1",
        "--tick",
        "100",
        "--join",
        &dead,
        "--join",
        &neighbour.0.url,
        "--join",
        &federation,
    ]));
    logged(&mut member, &format!("not linked to {dead}: "));
    logged(&mut member, "is no member of a federation");
    logged(&mut member, "linked to channel 2 at 127.0.0.1:");
    drop(neighbour);
    logged(&mut member, "channel 2 at 127.0.0.1:");
    member.kill();
    // The URL that others join is printed, and the page shows the neighbour.
    let mut first = isorb_testkit::Process::start(&mut common::isorb(&["event-channel", "--id", "7"]));
    first.expect_line("READY");
    let url = first.expect_line("FEDERATION");
    let (_service, page) = Service::with_page(&[
        "event-channel",
        "--real-time",
        "off",
        "--id",
        "8",
        "--tick",
        "100",
        "--join",
        &url,
        "--admin",
        "0",
    ]);
    wait_until("the page has the neighbour", || state(&page)["neighbours"][0]["channels"][0] == 7);
    let mut duplicate = isorb_testkit::Process::start_on_stderr(&mut common::isorb(&[
        "event-channel",
        "--real-time",
        "off",
        "--id",
        "7",
        "--tick",
        "100",
        "--join",
        &url,
    ]));
    logged(&mut duplicate, "the number 7, too: give each its own (--id)");
}

#[test]
fn beyond_this_host_a_federation_needs_a_key() {
    let folder = isorb_testkit::TempFolder::new();
    let far = "corbaloc::192.0.2.1:4201/EventFederation";
    let fails = |arguments: &[&str], text: &str| {
        let (code, _, error) = run(&[&["event-channel", "--id", "1"], arguments].concat());
        assert!(code == Some(1) && error.contains(text), "{arguments:?}: {error}");
    };
    fails(&["--join", far], "192.0.2.1 is beyond this host");
    fails(&["--udp", "127.0.0.1:0=192.0.2.1:5001"], "192.0.2.1:5001 is beyond this host");
    let file = folder.text("key");
    let write = |octets: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(&file, octets).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("sixteen octets.. and more\n", 0o644);
    fails(&["--key-file", &file], "others can read or write this key");
    write("fifteen octets.\n", 0o600);
    fails(&["--key-file", &file], "a key has at least 16 octets, this one 15");
    let (code, _, error) = run(&["event-channel", "--id", "1", "--key-file", &folder.text("absent")]);
    assert!(code == Some(2) && error.contains("absent' for '--key-file <FILE>': No such file"), "{error}");
    write("sixteen octets.. and more\n", 0o600);
    drop(start(&["--id", "1", "--key-file", &file, "--join", far]));
    let mut open = isorb_testkit::Process::start_on_stderr(&mut common::isorb(&[
        "event-channel",
        "--real-time",
        "off",
        "--id",
        "1",
        "--insecure",
    ]));
    logged(&mut open, "WARN isorb::event: --insecure: any host that reaches this channel can join");
}

/// An event that is larger than every copy is lost for consumers with a queue.
#[test]
fn the_first_event_that_a_supplier_loses_is_logged() {
    let folder = isorb_testkit::TempFolder::new();
    let file = folder.text("channel.ior");
    let mut process = isorb_testkit::Process::start_on_stderr(&mut common::isorb(&[
        "event-channel",
        "--real-time",
        "off",
        "--payload",
        "16",
        "--larger",
        "100:2",
        "--ior-file",
        &file,
    ]));
    let read = || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    wait_until("the channel is there", || read().is_some());
    let orb = orb();
    let channel: admin::EventChannelRef = orb.resolve(read().unwrap().trim()).unwrap();
    let consumer = consume(&orb, &channel, 20);
    let supplier = supply(&channel);
    for (number, size) in [(1, 16), (2, 100), (3, 101), (4, 200), (5, 1)] {
        let mut event = event(20, number);
        event.data.payload = vec![7; size];
        supplier.push(&vec![event]).unwrap();
    }
    wait_until("those that fit come", || consumer.times() == [1, 2, 5]);
    let line = process.next_line().unwrap();
    let sentence = "an event of type 20 with 101 octets is lost for 1 consumers, because no copy is so large";
    assert!(line.contains(sentence) && line.contains("--larger"), "{line}");
    process.kill();
    assert_eq!(process.next_line(), None, "later losses are counted only");
    let (code, _, error) = run(&["event-channel", "--larger", "5"]);
    assert!(code == Some(2) && error.contains("65536:64"), "{error}");
}
