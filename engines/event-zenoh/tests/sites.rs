//! Two sites at two routers: what crosses, what does not, and what hostile programs can do.

mod world;

use isorb_event::{Event, Filter, Origin};
use isorb_event_zenoh::{Bridge, History, Settings};
use isorb_testkit::{RunningOrb, retry, wait_for, wait_until};
use std::sync::mpsc;
use std::time::Duration;
use world::{Site, at, consumer, free_port, numbered, router, two_routers};
use zenoh::{Session, Wait};

fn next<T>(received: &mpsc::Receiver<T>) -> T {
    wait_for("the next one arrives", || received.try_recv().ok())
}

/// A program at a router that is no gateway.
fn stranger(router: &str) -> Session {
    let mut config = zenoh::Config::default();
    for (path, value) in [
        ("mode", "\"client\"".to_string()),
        ("connect/endpoints", format!("[\"{router}\"]")),
        ("scouting/multicast/enabled", "false".into()),
    ] {
        config.insert_json5(path, &value).unwrap();
    }
    retry("the router answers", || zenoh::open(config.clone()).wait())
}

#[test]
fn an_event_crosses_once_if_it_is_wanted_and_does_not_come_back() {
    let (_routers, [near, far]) = two_routers();
    let (vienna, graz) = (Site::new("vienna", &[near]), Site::new("graz", &[far]));
    // Both want it, each twice, and by filters that overlap.
    let (own, _a) = consumer(&vienna.channel, Filter::of_type(20), 0);
    let (there, _b) = consumer(&graz.channel, Filter::of_type(20), 0);
    let (_, _c) = consumer(&graz.channel, Filter::from_source(1), 0);
    for site in [&vienna, &graz] {
        wait_until("the interests are known", || site.gateway.is_wanted(20, 1));
    }
    wait_until("both interests of Graz are known", || vienna.gateway.is_wanted(33, 1));
    assert!(!graz.gateway.is_wanted(33, 1), "what Graz wants itself does not come back as another's wish");
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    let payload = vec![7; 3_000];
    for number in 1..=100 {
        supplier.push(&numbered(20, number).octets(&payload).ttl(3));
        // Wanted by no consumer.
        supplier.push(&Event::new(21, 2).ttl(3));
    }
    wait_until("all arrive", || there.count() >= 100);
    let answer = graz.channel.for_suppliers().connect().unwrap();
    answer.push(&numbered(20, 101));
    wait_until("the answer arrives", || own.count() >= 101);
    assert_eq!(there.numbers(), (1..=101).collect::<Vec<_>>());
    assert_eq!(own.numbers(), (1..=101).collect::<Vec<_>>(), "each once, so none came back");
    let (header, octets, _) = &there.all()[0];
    assert_eq!((header.event_type, header.source, header.ttl), (20, 1, 2));
    assert_eq!(octets, &payload);
    let (sent, back) = (vienna.gateway.counts(), graz.gateway.counts());
    assert_eq!((sent.sent, back.received, back.sent, sent.received), (100, 100, 1, 1));
    assert_eq!((back.repeated, back.missing), (0, 0), "interests that overlap repeat nothing");
}

#[test]
fn an_event_without_a_hop_left_stays_and_is_counted() {
    let (_routers, [near, far]) = two_routers();
    let (vienna, graz) = (Site::new("vienna", &[near]), Site::new("graz", &[far]));
    let (there, _connected) = consumer(&graz.channel, Filter::of_type(20), 0);
    wait_until("the interest is known", || vienna.gateway.is_wanted(20, 1));
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    supplier.push(&numbered(20, 1).ttl(0));
    supplier.push(&numbered(20, 2));
    wait_until("the second arrives", || there.count() == 1);
    assert_eq!(there.numbers(), [2]);
    assert_eq!(vienna.gateway.counts().expired, 1);
}

/// The only router ends and comes back. What was pushed meanwhile is lost, and both sides count it.
#[test]
fn events_without_a_router_are_counted_and_the_gateways_find_it_again() {
    let address = at(free_port());
    let mut process = router(&address, &[]);
    let routers = [address.clone()];
    let (vienna, graz) = (Site::new("vienna", &routers), Site::new("graz", &routers));
    let (there, _connected) = consumer(&graz.channel, Filter::of_type(20), 0);
    wait_until("the interest is known", || vienna.gateway.is_wanted(20, 1));
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    let mut number = 0;
    let mut push = || {
        number += 1;
        supplier.push(&numbered(20, number));
    };
    (0..10).for_each(|_| push());
    wait_until("they arrive", || there.count() == 10);
    process.kill();
    wait_until("the gateway notices", || !vienna.gateway.is_connected());
    (0..10).for_each(|_| push());
    wait_until("they are counted", || vienna.gateway.counts().unsent == 10);
    let _again = router(&address, &[]);
    wait_until("events arrive again", || {
        push();
        std::thread::sleep(Duration::from_millis(5));
        there.count() >= 20
    });
    let numbers = there.numbers();
    let gaps: u64 = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
    assert!(gaps >= 10 && numbers.is_sorted(), "{numbers:?}");
    assert_eq!(graz.gateway.counts().missing, gaps);
}

/// What no consumer wants any more is not sent, and no loss is counted when it is wanted again.
#[test]
fn interests_come_and_go() {
    let (_routers, [near, far]) = two_routers();
    let (vienna, graz) = (Site::new("vienna", &[near]), Site::new("graz", &[far]));
    let (_, first) = consumer(&graz.channel, Filter::of_type(20), 0);
    wait_until("the interest is known", || vienna.gateway.is_wanted(20, 1));
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    supplier.push(&numbered(20, 1));
    wait_until("it arrives", || graz.gateway.counts().received == 1);
    drop(first);
    wait_until("the interest is gone", || !vienna.gateway.is_wanted(20, 1));
    let sent = vienna.gateway.counts().sent;
    supplier.push(&numbered(20, 2));
    let (there, _second) = consumer(&graz.channel, Filter::of(20, 1), 0);
    wait_until("it is wanted again", || vienna.gateway.is_wanted(20, 1) && !vienna.gateway.is_wanted(20, 2));
    supplier.push(&numbered(20, 3));
    wait_until("it arrives", || there.count() == 1);
    assert_eq!(there.numbers(), [3]);
    assert_eq!((vienna.gateway.counts().sent - sent, graz.gateway.counts().missing), (1, 0));
}

#[test]
fn the_most_urgent_consumer_decides_the_priority_of_zenoh() {
    let (_routers, [near, far]) = two_routers();
    let (vienna, graz) = (Site::new("vienna", std::slice::from_ref(&near)), Site::new("graz", &[far]));
    let watcher = stranger(&near);
    let (tell, told) = mpsc::channel();
    let watch = watcher.declare_subscriber("isorb/event/plant/data/**");
    let _watch = watch.callback(move |sample| _ = tell.send(sample.priority())).wait().unwrap();
    let (slow, _slow) = consumer(&graz.channel, Filter::of_type(20), 0);
    wait_until("the interest is known", || vienna.gateway.is_wanted(20, 1));
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    supplier.push(&numbered(20, 1));
    assert_eq!(next(&told), zenoh::qos::Priority::Background);
    let (urgent, _urgent) = consumer(&graz.channel, Filter::of(20, 1), 24_576);
    wait_until("the priority changes", || {
        supplier.push(&numbered(20, 2));
        next(&told) == zenoh::qos::Priority::InteractiveHigh
    });
    wait_until("both receive", || urgent.count() > 0 && slow.count() > 1);
}

/// Samples, deletions and interests that no gateway makes cost nothing but a count.
#[test]
fn hostile_samples_and_interests_are_counted_and_ignored() {
    let (_routers, [near, far]) = two_routers();
    let mut settings = Settings::new("plant", "graz", vec![far]);
    (settings.payload, settings.interests) = (10_000, 8);
    let (vienna, graz) = (Site::new("vienna", std::slice::from_ref(&near)), Site::with(settings));
    let (there, _connected) = consumer(&graz.channel, Filter::Everything, 0);
    let (_, _wanted) = consumer(&vienna.channel, Filter::of_type(20), 0);
    wait_until("the interest is known", || vienna.gateway.is_wanted(20, 1));
    let stranger = stranger(&near);
    let base = "isorb/event/plant/data";
    let mut hostile = 0;
    let mut put = |key: &str, octets: &[u8]| {
        stranger.put(format!("{base}/{key}"), octets).wait().unwrap();
        hostile += 1;
    };
    // A message that is right but for its key: version, ttl 1, incarnation 9, number 1.
    let mut message = [0; 40];
    (message[0], message[4], message[16], message[24]) = (1, 1, 9, 1);
    for key in ["1/1", "15/1", "0/1", "020/1", "+20/1", "99999999999/1"] {
        put(key, &message);
    }
    for length in [0, 1, 39] {
        put("20/1", &message[..length]);
    }
    let mut large = message.to_vec();
    large.resize(40 + 10_001, 0);
    put("20/1", &large);
    let mut seed = 1_u32;
    for length in 0..300 {
        let noise: Vec<u8> = (0..length)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        put("20/1", &noise);
    }
    stranger.delete(format!("{base}/20/1")).wait().unwrap();
    hostile += 1;
    wait_until("all are counted", || graz.gateway.counts().malformed == hostile);
    // Far more than zenoh would take into memory: it does not even arrive.
    stranger.put(format!("{base}/20/1"), vec![0; 4 << 20]).wait().unwrap();
    // Interests: malformed, of priorities that do not exist, and far too many.
    let base = "isorb/event/plant/interest";
    let mut tokens = Vec::new();
    let mut declare = |key: String| tokens.push(stranger.liveliness().declare_token(key).wait().unwrap());
    for key in ["x", "x/1/9/20/1", "x/zz/1/20/1", "x/1/1/0/1", "x/1/1/20/1/1"] {
        declare(format!("{base}/{key}"));
    }
    (0..80).for_each(|number| declare(format!("{base}/x/7/1/{}/1", 1_000 + number)));
    // 8 interests at each of 7 priorities are served.
    wait_until("they are counted", || graz.gateway.counts().ignored == 5 + 80 - 56);
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    for number in 1..=10 {
        supplier.push(&numbered(20, number));
    }
    wait_until("events arrive", || there.count() >= 10);
    assert_eq!(there.numbers(), (1..=10).collect::<Vec<_>>());
    assert_eq!(graz.gateway.counts().received, 10);
}

/// A site that joins later receives the last events, each once.
#[test]
fn a_late_site_receives_the_history() {
    let (_routers, [near, far]) = two_routers();
    let settings = |site: &str, router: String| Settings {
        history: Some(History { events: 5, filters: vec![Filter::of_type(20)] }),
        ..Settings::new("plant", site, vec![router])
    };
    let vienna = Site::with(settings("vienna", near));
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    // Until the gateway's consumer is connected, as a supplier that was there first.
    wait_until("the gateway keeps events", || {
        supplier.push(&numbered(20, 0));
        vienna.gateway.counts().sent > 0
    });
    (1..=10).for_each(|number| _ = supplier.push(&numbered(20, number)));
    wait_until("they are kept", || vienna.gateway.counts().sent >= 11);
    let graz = Site::with(settings("graz", far));
    let (there, connected) = consumer(&graz.channel, Filter::of_type(20), 0);
    wait_until("the last five arrive", || there.count() >= 5);
    supplier.push(&numbered(20, 11));
    wait_until("the next arrives", || there.count() >= 6);
    assert_eq!(there.numbers(), [6, 7, 8, 9, 10, 11]);
    // The site ends its interest, and asks for the history anew: what it had does not come again.
    drop(connected);
    wait_until("the interest is gone", || !vienna.gateway.is_wanted(20, 1));
    (12..=14).for_each(|number| _ = supplier.push(&numbered(20, number)));
    let (again, _connected) = consumer(&graz.channel, Filter::of_type(20), 0);
    wait_until("what it missed arrives", || again.count() >= 3);
    assert_eq!(again.numbers(), [12, 13, 14]);
    assert_eq!(graz.gateway.counts().missing, 0);
}

/// A bridge to a channel behind the ORB, and a gateway: events cross in both directions, once.
#[test]
fn a_bridge_joins_a_channel_by_its_url() {
    use isorb_event::servants::{EventServiceOptions, RtecEventService};
    let (_routers, [near, far]) = two_routers();
    let graz = Site::new("graz", &[far]);
    let (serving, calling) = (RunningOrb::new(), RunningOrb::new());
    let channel = isorb_event::Channel::builder().build().unwrap();
    // Room for all events of this test on their way to the bridge.
    let quality = isorb_event::Quality { queue: 10_000, ..isorb_event::Quality::default() };
    let options = EventServiceOptions { quality, ..EventServiceOptions::default() };
    let service = RtecEventService::start(serving.orb(), &channel, options).unwrap();
    let url = service.object().to_string();
    let settings = Settings::new("plant", "vienna", vec![near]);
    let bridge = retry("the bridge starts", || Bridge::start(calling.orb(), &url, settings.clone()));
    let (own, _a) = consumer(&channel, Filter::of_type(20), 0);
    let (there, _b) = consumer(&graz.channel, Filter::of_type(20), 0);
    let supplier = channel.for_suppliers().connect().unwrap();
    wait_until("the bridge consumes at the channel", || {
        supplier.push(&numbered(20, 0));
        std::thread::sleep(Duration::from_millis(1));
        there.count() > 0
    });
    wait_until("the interest of Vienna is known", || graz.gateway.is_wanted(20, 1));
    (1..=100).for_each(|number| _ = supplier.push(&numbered(20, number)));
    wait_until("all arrive", || there.numbers().last() == Some(&100));
    let answer = graz.channel.for_suppliers().connect().unwrap();
    (101..=200).for_each(|number| _ = answer.push(&numbered(20, number)));
    wait_until("all answers arrive", || own.numbers().last() == Some(&200));
    for record in [own, there] {
        let numbers: Vec<u64> = record.numbers().into_iter().filter(|number| *number > 0).collect();
        assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    }
    assert_eq!(bridge.refused(), 0);
    let counts = bridge.gateway().counts();
    assert_eq!((counts.received, counts.missing), (100, 0));
}

/// Numbers of other sites' events tell a consumer of the channel what is missing.
#[test]
fn events_of_other_sites_are_numbered() {
    let (_routers, [near, far]) = two_routers();
    let (vienna, graz) = (Site::new("vienna", &[near]), Site::new("graz", &[far]));
    let (tell, told) = mpsc::channel();
    let note = move |events: &[Event<'_>]| events.iter().for_each(|event| _ = tell.send(event.origin));
    let qos = isorb_event::ConsumerQos::new("numbers", Filter::of_type(20));
    let _connected = graz.channel.for_consumers().connect(std::sync::Arc::new(note), qos).unwrap();
    wait_until("the interest is known", || vienna.gateway.is_wanted(20, 1));
    let supplier = vienna.channel.for_suppliers().connect().unwrap();
    for number in 1..=3 {
        supplier.push(&numbered(20, number));
        assert_eq!(next(&told), Origin { supplier: graz.gateway.id(), number });
    }
}
