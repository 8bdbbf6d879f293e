//! A federation over the ORB.

use crate::server;
use isorb::Orb;
use isorb_event::federation::Federation;
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter};
use isorb_testkit::wait_until;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Member {
    orb: Orb,
    channel: Channel,
    federation: Federation,
    neighbourhood: FederationServant,
}

fn member(id: u64) -> Member {
    let (orb, channel) = server(Channel::builder().id(id));
    let federation = Federation::builder(&channel).build().unwrap();
    let neighbourhood =
        FederationServant::start(&orb, &federation, LinkOptions::new(Duration::from_secs(5))).unwrap();
    Member { orb, channel, federation, neighbourhood }
}

impl Member {
    fn join(&self, other: &Member) -> isorb_event::federation::LinkId {
        let port = other.orb.endpoint_addresses()[0].1;
        let url = format!("corbaloc::127.0.0.1:{port}/EventFederation");
        self.neighbourhood.join(&self.orb.string_to_object(&url).unwrap()).unwrap()
    }
}

/// Waits until both ends have counted all events that crossed their links. The sender counts an
/// event only after it has arrived. Useful only after the last event has arrived.
fn until_counted(members: &[Member]) {
    wait_until("all is counted that crossed", || {
        let counts = members.iter().map(|member| member.federation.counts());
        let (sent, came) = counts.fold((0, 0), |(sent, came), counts| {
            (sent + counts.forwarded, came + counts.received + counts.repeated)
        });
        sent == came
    });
}

#[test]
fn a_ring_over_the_wire_delivers_once_and_only_what_is_wanted() {
    let ring: Vec<Member> = (1..=4).map(member).collect();
    let links: Vec<_> = (0..4).map(|i| ring[i].join(&ring[(i + 1) % 4])).collect();
    assert!(ring.iter().zip(links).all(|(member, link)| member.federation.is_up(link)));
    wait_until("everybody knows everybody", || ring.iter().all(|m| m.federation.known() == 3));
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let consumer = move |events: &[Event<'_>]| {
        for event in events {
            seen.lock().unwrap().push((event.header.creation_time, event.data.octets.to_vec()));
        }
    };
    let filter = Filter::any_of([Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)]), Filter::of(22, 5)]);
    let _c =
        ring[2].channel.for_consumers().connect(Arc::new(consumer), ConsumerQos::new("far", filter)).unwrap();
    let supplier = ring[0].channel.for_suppliers().connect().unwrap();
    let push = |event_type, source, time| {
        supplier.push(&Event::new(event_type, source).created(time).ttl(8).octets(b"data"));
    };
    let sent = || ring.iter().map(|m| m.federation.counts().forwarded).sum::<u64>();
    wait_until("the interest is known at the supplier", || {
        push(22, 5, 0);
        !log.lock().unwrap().is_empty()
    });
    // Behind all events under way.
    push(22, 5, 1);
    wait_until("all of them came", || log.lock().unwrap().last().is_some_and(|(time, _)| *time == 1));
    until_counted(&ring);
    log.lock().unwrap().clear();
    let before = sent();
    (0..50).for_each(|_| push(23, 5, 1));
    (0..50).for_each(|_| push(22, 6, 1));
    assert_eq!(sent(), before, "no member wants these");
    push(20, 1, 2);
    push(21, 1, 3);
    push(22, 5, 4);
    // A repeated event would arrive before this one.
    push(22, 5, 5);
    wait_until("the last event", || log.lock().unwrap().iter().any(|(time, _)| *time == 5));
    let got: Vec<_> = log.lock().unwrap().iter().map(|(time, data)| (*time, data.len())).collect();
    assert_eq!(got, [(2, 4), (3, 4), (4, 4), (5, 4)]);
}

#[test]
fn each_end_knows_the_other_hosts_clock_within_a_bound() {
    let members = [member(1), member(2)];
    let [a, b] = &members;
    a.join(b);
    for member in &members {
        wait_until("a reading of the clock", || {
            member.federation.tick(isorb_rt::time::now_ns(), u64::MAX);
            member.federation.neighbours()[0].clock.is_some()
        });
        // Both have the same clock.
        let clock = member.federation.neighbours()[0].clock.unwrap();
        assert!(clock.ns.unsigned_abs() <= clock.bound_ns.unwrap(), "{clock:?}");
    }
    // A trace takes it along, for the time axis of several hosts.
    let of = |member: &Member| member.federation.recording("plant", &[]);
    let (one, other) = (of(a), of(b));
    assert_eq!((one.member, other.member), (1, 2));
    for (recording, neighbour) in [(one, 2), (other, 1)] {
        let [clock] = recording.clocks[..] else { panic!("{:?}", recording.clocks) };
        assert_eq!(clock.member, neighbour);
        assert!(clock.at > 0 && clock.offset.unsigned_abs() <= clock.bound, "{clock:?}");
    }
}

#[test]
fn a_link_that_is_left_can_be_joined_again() {
    let members = [member(1), member(2)];
    let [a, b] = &members;
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let consumer = move |events: &[Event<'_>]| {
        let header = &events[0].header;
        seen.lock().unwrap().push((header.source, header.creation_time));
    };
    let qos = ConsumerQos::new("far", Filter::of(20, 0));
    let _c = b.channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();
    let supplier = a.channel.for_suppliers().connect().unwrap();
    for round in 1..=3 {
        let link = a.join(b);
        wait_until("an event arrives", || {
            supplier.push(&Event::new(20, 1).created(round).ttl(1));
            log.lock().unwrap().contains(&(1, round))
        });
        // Behind all events under way.
        supplier.push(&Event::new(20, 2).created(round).ttl(1));
        wait_until("all of them came", || log.lock().unwrap().contains(&(2, round)));
        until_counted(&members);
        a.federation.leave(link);
        wait_until("the neighbour has left too", || b.federation.known() == 0);
        let before = a.federation.counts().forwarded;
        supplier.push(&Event::new(20, 1).created(100).ttl(1));
        assert_eq!(a.federation.counts().forwarded, before);
    }
    // Events that entered meanwhile arrived over the next link; those after the last link did not.
    let mut came = log.lock().unwrap().clone();
    came.dedup();
    assert_eq!(came, [(1, 1), (2, 1), (1, 100), (1, 2), (2, 2), (1, 100), (1, 3), (2, 3)]);
}

#[test]
fn a_neighbour_with_the_same_number_is_refused() {
    let (a, b) = (member(7), member(7));
    let port = b.orb.endpoint_addresses()[0].1;
    let url = format!("corbaloc::127.0.0.1:{port}/EventFederation");
    let refused = a.neighbourhood.join(&a.orb.string_to_object(&url).unwrap());
    assert!(
        matches!(refused, Err(isorb_event::servants::LinkError::System(e)) if e.kind == isorb::Kind::BadParam)
    );
    assert_eq!((a.federation.known(), b.federation.known()), (0, 0));
}

/// Returns true if a member subscribes for others to the events of its own suppliers.
fn is_asked(member: &Member) -> bool {
    member.channel.consumers().iter().any(|consumer| consumer.name.starts_with("federation"))
}

/// A consumer in the middle of a line of five wants events of both ends, two links away each:
/// single ones and conjunctions of both.
#[test]
fn suspending_resuming_and_resubscribing_take_effect_over_two_links() {
    let line: Vec<Member> = (1..=5).map(member).collect();
    for pair in line.windows(2) {
        pair[1].join(&pair[0]);
    }
    wait_until("everybody knows everybody", || line.iter().all(|m| m.federation.known() == 4));
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let consumer = move |events: &[Event<'_>]| {
        let halves = events.iter().map(|event| (event.header.event_type, event.header.creation_time));
        seen.lock().unwrap().push(halves.collect::<Vec<_>>());
    };
    let both = |left, right| Filter::all_of([Filter::of(left, 0), Filter::of(right, 0)]);
    let admin = line[2].channel.for_consumers();
    let proxy = admin.connect(Arc::new(consumer), ConsumerQos::new("middle", both(20, 21))).unwrap();
    let ends = [0, 4].map(|i| line[i].channel.for_suppliers().connect().unwrap());
    let push = |end: usize, event_type, time| {
        ends[end].push(&Event::new(event_type, 1).created(time).ttl(8));
    };
    let crossed = || line.iter().map(|m| m.federation.counts().forwarded).sum::<u64>();
    let requested = || [is_asked(&line[0]), is_asked(&line[4])];
    let take = || std::mem::take(&mut *log.lock().unwrap());
    // Pairs of events, one after the other; all arrive, once each.
    let all_come = |left, right, from: u64| {
        for time in from..from + 50 {
            push(0, left, time);
            push(1, right, time);
            wait_until("both halves", || log.lock().unwrap().len() as u64 > time - from);
        }
        let mut pairs = take();
        pairs.iter_mut().for_each(|pair| pair.sort_unstable());
        let expected: Vec<_> = (from..from + 50).map(|time| vec![(left, time), (right, time)]).collect();
        assert_eq!(pairs, expected);
    };
    // None of these crosses a link. Earlier ones have arrived.
    let stays = |end, event_type| {
        until_counted(&line);
        let before = crossed();
        (0..100).for_each(|_| push(end, event_type, 1));
        assert_eq!((crossed(), take().len()), (before, 0));
    };
    wait_until("both ends are asked", || requested() == [true; 2]);
    all_come(20, 21, 1_000);
    stays(0, 23);
    for round in 1..=3 {
        proxy.suspend().unwrap();
        wait_until("no member is asked", || requested() == [false; 2]);
        stays(0, 20);
        stays(1, 21);
        proxy.resume().unwrap();
        wait_until("both ends are asked again", || requested() == [true; 2]);
        all_come(20, 21, 1_000 + round * 100);
    }
    // One event of the pair is another now: that end is asked for it, and no longer for the former
    // one.
    until_counted(&line);
    proxy.resubscribe(vec![both(20, 22)]).unwrap();
    let crosses = |end, event_type| {
        let before = crossed();
        push(end, event_type, 1);
        crossed() > before
    };
    wait_until("the other half is wanted", || crosses(1, 22));
    wait_until("the former is not", || !crosses(1, 21));
    // Behind all attempts under way. Each event of one end completes a pair with one of those; the
    // last of them with this one.
    push(1, 22, 2);
    for time in 3.. {
        push(0, 20, time);
        wait_until("a pair", || !log.lock().unwrap().is_empty());
        let pair = take().concat();
        assert!(pair.len() == 2 && pair.contains(&(20, time)), "{pair:?}");
        if pair.contains(&(22, 2)) {
            break;
        }
    }
    stays(1, 21);
    let before = crossed();
    push(1, 22, 1_000);
    wait_until("it has crossed both links", || crossed() == before + 2);
    push(0, 20, 1_001);
    wait_until("a pair", || !log.lock().unwrap().is_empty());
    assert_eq!(take().concat(), [(22, 1_000), (20, 1_001)]);
    drop(proxy);
    wait_until("no member is asked", || requested() == [false; 2]);
    stays(0, 20);
    stays(1, 22);
}
