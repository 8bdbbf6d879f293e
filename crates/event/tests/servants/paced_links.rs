//! Links that are paced and marked by level.

use crate::server_at;
use isorb::Orb;
use isorb_event::federation::{Federation, Gateways, Levels, Pace, Security};
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter, Priority, Quality, ThreadSetup};
use isorb_netlab::{Class, Host, Lab, LinkSpec, Sorting};
use isorb_sched::Nanos;
use isorb_sched::federation::FederationFile;
use isorb_testkit::wait_until;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Member {
    orb: Orb,
    channel: Channel,
    federation: Federation,
    neighbourhood: FederationServant,
}

fn member(id: u64, host: Ipv4Addr, marked: bool, paces: &[Pace]) -> Member {
    let (orb, channel) = server_at(Channel::builder().id(id), vec![format!("giop:tcp:{host}:0")]);
    let federation = Federation::builder(&channel)
        .security(Security::Insecure)
        .gateways(Gateways::Threads(1, ThreadSetup::default()))
        .paces(paces)
        .build()
        .unwrap();
    let options = LinkOptions::new(Duration::from_secs(20)).lanes(true).marked(marked);
    let neighbourhood = FederationServant::start(&orb, &federation, options).unwrap();
    Member { orb, channel, federation, neighbourhood }
}

impl Member {
    fn join(&self, other: &Member) {
        let (host, port) = &other.orb.endpoint_addresses()[0];
        let url = format!("corbaloc::{host}:{port}/EventFederation");
        self.neighbourhood.join(&self.orb.string_to_object(&url).unwrap()).unwrap();
        wait_until("both know each other", || self.federation.known() == 1 && other.federation.known() == 1);
    }
}

type Arrivals = Arc<Mutex<Vec<(i32, u64, Duration)>>>;

/// Consumes the events of a type at a level of the default ones: type, number, age.
fn consume(member: &Member, event_type: i32, level: u8, seen: &Arrivals) -> isorb_event::ProxyPushSupplier {
    let log = seen.clone();
    let consumer = move |events: &[Event<'_>]| {
        for event in events {
            let now = isorb_rt::time::now_ns() / 100;
            let age = Duration::from_nanos(now.saturating_sub(event.header.creation_time) * 100);
            log.lock().unwrap().push((event.header.event_type, event.header.source as u64, age));
        }
    };
    let priority = Levels::default().begins()[usize::from(level)];
    let quality = Quality { priority: Priority::new(priority.get()).unwrap(), ..Quality::default() };
    let qos = ConsumerQos { quality, ..ConsumerQos::new("far", Filter::of(event_type, 0)) };
    member.channel.for_consumers().connect(Arc::new(consumer), qos).unwrap()
}

fn created(event_type: i32, source: i32, octets: &[u8]) -> Event<'_> {
    Event::new(event_type, source).created(isorb_rt::time::now_ns() / 100).ttl(1).octets(octets)
}

#[test]
fn a_level_above_its_rate_waits_alone_and_loses_nothing() {
    const EVENTS: i32 = 30;
    // 1000 octets with their overhead: 20 a second, two at once.
    let pace = Pace { level: 0, octets_per_second: 20_000, burst: 2_000 };
    let (a, b) = (member(1, Ipv4Addr::LOCALHOST, false, &[pace]), member(2, Ipv4Addr::LOCALHOST, false, &[]));
    let seen = Arrivals::default();
    let _bulk = consume(&b, 20, 0, &seen);
    let _urgent = consume(&b, 30, 3, &seen);
    a.join(&b);
    let supplier = a.channel.for_suppliers().connect().unwrap();
    let count = |event_type: i32| seen.lock().unwrap().iter().filter(|(of, ..)| *of == event_type).count();
    wait_until("both are wanted there", || {
        supplier.push(&created(20, 0, b""));
        supplier.push(&created(30, 0, b""));
        count(20) > 0 && count(30) > 0
    });
    let data = [7; 840];
    let begun = Instant::now();
    (1..=EVENTS).for_each(|number| _ = supplier.push(&created(20, number, &data)));
    (1..=EVENTS).for_each(|number| _ = supplier.push(&created(30, number, &data)));
    let last = |event_type: i32| {
        seen.lock().unwrap().iter().any(|(of, number, _)| (*of, *number) == (event_type, EVENTS as u64))
    };
    wait_until("the urgent ones", || last(30));
    wait_until("the others", || last(20));
    let took = begun.elapsed();
    // 30 of them take 1.5 s less the burst.
    assert!(took >= Duration::from_millis(1_300), "{took:?}");
    assert!(a.federation.counts().paced > 0, "{:?}", a.federation.counts());
    assert_eq!(a.federation.counts().lost, 0);
    let seen = seen.lock().unwrap();
    let numbers = |event_type| {
        seen.iter()
            .filter(move |(of, n, _)| *of == event_type && *n > 0)
            .map(|(_, n, _)| *n)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(20), (1..=EVENTS as u64).collect::<Vec<_>>());
    assert_eq!(numbers(30), (1..=EVENTS as u64).collect::<Vec<_>>());
    // All urgent ones arrived before the last that was paced.
    let at = |of: i32| seen.iter().rposition(|(event_type, ..)| *event_type == of).unwrap();
    assert!(at(30) < at(20));
}

/// The rate of the link, and the room of its queue. A socket fills some 130 ms of it: its own
/// buffer bounds what it has under way.
const KBIT: u32 = 5_000;
const PACKETS: u32 = 1_000;

/// What the analysis says of this link, marked or not.
fn worst_case(marked: bool, deadline: &str) -> (bool, Option<Nanos>) {
    let sharing = if marked { String::new() } else { format!("marked = false\nqueue = {}", PACKETS * 1_500) };
    let text = format!(
        "[[channel]]\nname = 'left'\nschedule = 'left'\n[[channel]]\nname = 'right'\nschedule = 'right'\n\
         [[link]]\nname = 'wire'\nfrom = 'left'\nto = 'right'\nrate = '{KBIT} kbit/s'\ndelay = '20 ms'\n{sharing}\n\
         [[event]]\nfrom = 'left/alarm'\nto = ['right/react']\noctets = 100\nlevel = 3\n"
    );
    let schedule = |name: &str| match name {
        "left" => Ok("[[operation]]\nname = 'alarm'\ncost = '5 ms'\nperiod = '100 ms'".to_string()),
        _ => Ok(format!("[[operation]]\nname = 'react'\ncost = '5 ms'\ndeadline = '{deadline}'")),
    };
    let report = FederationFile::parse("f", &text, schedule).unwrap().topology.check().unwrap();
    (report.holds(), report.paths[0].worst)
}

/// The ages of alarms over a link that other traffic has filled.
fn ages(lab: &Lab, marked: bool) -> Vec<Duration> {
    let on = |host: &Host, id: u64| host.run(|| member(id, host.address(), marked, &[])).unwrap();
    let (left, right) = (on(lab.left(), 1), on(lab.right(), 2));
    let seen = Arrivals::default();
    let _consumer = consume(&right, 30, 3, &seen);
    lab.left().run(|| left.join(&right)).unwrap();
    let supplier = left.channel.for_suppliers().connect().unwrap();
    let came = || seen.lock().unwrap().len();
    wait_until("alarms are wanted there", || {
        supplier.push(&created(30, 0, b""));
        came() > 0
    });
    let flood = lab.left().run(|| UdpSocket::bind((lab.left().address(), 0))).unwrap().unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let octets = [0; 1_400];
            while !ended.load(Relaxed) {
                // More than the link takes, in bursts that leave the processor to others.
                (0..16).for_each(|_| drop(flood.send_to(&octets, (lab.right().address(), 9))));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        // Until the queue stands.
        std::thread::sleep(Duration::from_secs(2));
        let before = came();
        for number in 1..=15 {
            supplier.push(&created(30, number, &[1; 100]));
            std::thread::sleep(Duration::from_millis(100));
        }
        wait_until("alarms arrive", || came() >= before + 15);
        ended.store(true, Relaxed);
    });
    let seen = seen.lock().unwrap();
    seen.iter().filter(|(_, number, _)| *number > 0).map(|(.., age)| *age).collect()
}

#[test]
fn marked_events_keep_their_deadline_on_a_link_that_others_fill() {
    let classes = vec![Class { dscp: vec![46], share: 50 }, Class { dscp: vec![32, 16], share: 20 }];
    let spec = LinkSpec { rate_kbit: KBIT, sorting: Sorting::ByDscp { classes, packets: PACKETS } };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let deadline = Duration::from_millis(60);
    // The analysis tells both apart.
    assert!(worst_case(true, "60 ms").0);
    assert!(!worst_case(false, "60 ms").0);
    let in_time = |marked: bool| {
        let ages = ages(&lab, marked);
        (ages.iter().filter(|age| **age <= deadline).count(), ages)
    };
    // A machine that stalls says nothing of the link.
    let mut tries = Vec::new();
    for _ in 0..4 {
        let (marked, unmarked) = (in_time(true), in_time(false));
        if marked.0 >= 12 && unmarked.0 <= 3 {
            return;
        }
        tries.push((marked, unmarked));
    }
    panic!("in time with marks and without, and the ages: {tries:?}");
}
