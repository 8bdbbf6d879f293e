//! Federations by datagrams, on the loopback interface.

use isorb_event::federation::{Federation, Security};
use isorb_event::servants::{UdpGateway, UdpOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter, ProxyPushSupplier};
use isorb_testkit::wait_until;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

pub struct Member {
    pub channel: Channel,
    pub federation: Federation,
    pub seen: Arc<Mutex<Vec<(u64, usize)>>>,
    _consumer: ProxyPushSupplier,
}

pub fn member(id: u64, event_type: i32) -> Member {
    member_with(id, event_type, Security::Loopback)
}

pub fn member_with(id: u64, event_type: i32, security: Security) -> Member {
    let channel = Channel::builder().id(id).build().unwrap();
    let federation = Federation::builder(&channel).security(security).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let consumer = move |events: &[Event<'_>]| {
        log.lock().unwrap().extend(events.iter().map(|e| (e.header.creation_time, e.data.octets.len())));
    };
    let qos = ConsumerQos::new("far", Filter::of(event_type, 0));
    let consumer = channel.for_consumers().connect(Arc::new(consumer), qos).unwrap();
    Member { channel, federation, seen, _consumer: consumer }
}

/// Lets all members send their state until all know all.
pub fn acquaint(members: &[Member]) {
    let others = members.len() - 1;
    wait_until("all know all", || {
        members.iter().for_each(|m| m.federation.tick(isorb_rt::time::now_ns(), u64::MAX));
        members.iter().all(|m| m.federation.known() == others)
    });
}

pub fn free_port() -> SocketAddr {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

#[test]
fn two_neighbours_by_datagrams_ignore_other_addresses() {
    let (a, b) = (member(1, 21), member(2, 20));
    let (here, there) = (free_port(), free_port());
    let one = UdpGateway::start(&a.federation, UdpOptions::to_neighbour(here, there)).unwrap();
    let other = UdpGateway::start(&b.federation, UdpOptions::to_neighbour(there, here)).unwrap();
    let members = [a, b];
    acquaint(&members);
    let [a, b] = &members;
    let supplier = a.channel.for_suppliers().connect().unwrap();
    let data = vec![7; 30_000];
    supplier.push(&Event::new(20, 1).created(1).octets(&data));
    wait_until("one event", || !b.seen.lock().unwrap().is_empty());
    // The sender counts it only then.
    wait_until("it is counted", || a.federation.counts().forwarded == b.federation.counts().received);
    let sent = a.federation.counts().forwarded;
    supplier.push(&Event::new(22, 1).created(2));
    assert_eq!(a.federation.counts().forwarded, sent, "no member wants it");
    let large = vec![7; 70_000];
    supplier.push(&Event::new(20, 1).created(3).octets(&large));
    // By another thread, if that is still at the first one.
    wait_until("one larger than a datagram is lost", || a.federation.counts().lost == 1);
    // Random, cut and changed datagrams, and valid ones of another address.
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for length in 0..60 {
        let mut datagram = b"isEv\x04\x01\x01\x00".to_vec();
        datagram.resize(8 + length, 0xff);
        stranger.send_to(&datagram, there).unwrap();
        datagram[5] = 2;
        stranger.send_to(&datagram, there).unwrap();
    }
    let (overheard, forger) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), member(3, 20));
    let to_us = UdpOptions::to_neighbour(free_port(), overheard.local_addr().unwrap());
    let _forger = UdpGateway::start(&forger.federation, to_us).unwrap();
    forger.federation.tick(isorb_rt::time::now_ns(), u64::MAX);
    let mut room = [0; 2_048];
    let length = overheard.recv(&mut room).unwrap();
    stranger.send_to(&room[..length], there).unwrap();
    wait_until("they were counted", || other.rejected() == 121);
    assert_eq!(b.federation.known(), 1, "no forged member was accepted");
    // Nor does a member send anything to an address that it was not told.
    stranger.set_nonblocking(true).unwrap();
    let answer = stranger.recv(&mut room).unwrap_err();
    assert_eq!(answer.kind(), std::io::ErrorKind::WouldBlock, "an answer to a stranger");
    supplier.push(&Event::new(20, 1).created(4));
    wait_until("the last event", || b.seen.lock().unwrap().len() == 2);
    assert_eq!(*b.seen.lock().unwrap(), [(1, 30_000), (4, 0)]);
    drop(one);
    supplier.push(&Event::new(20, 1).created(5));
    assert_eq!(b.seen.lock().unwrap().len(), 2);
}

#[test]
fn a_group_gets_one_datagram_for_all() {
    let group = Ipv4Addr::new(239, 255, 77, (std::process::id() % 250) as u8 + 1);
    let port = free_port().port();
    let members: Vec<Member> = (1..=3).map(|id| member(id, 20)).collect();
    let options = UdpOptions::to_group(group, port, Ipv4Addr::LOCALHOST);
    let gateways: Result<Vec<_>, _> =
        members.iter().map(|m| UdpGateway::start(&m.federation, options)).collect();
    let _gateways = match gateways {
        Ok(gateways) => gateways,
        Err(error) => {
            println!("skipped: no multicast on the loopback interface here: {error}");
            return;
        }
    };
    acquaint(&members);
    let supplier = members[0].channel.for_suppliers().connect().unwrap();
    let push = |n| assert_eq!(supplier.push(&Event::new(20, 1).created(n).ttl(4)).taken, 2);
    // Each request is granted in its own time, and the missed events are sent then.
    let mut first = 1;
    wait_until("both are sent what is pushed", || {
        push(first);
        first += 1;
        members.iter().all(|m| m.seen.lock().unwrap().last() == Some(&(first - 1, 0)))
    });
    let forwarded = || members[0].federation.counts().forwarded;
    wait_until("each datagram is counted by all three", || {
        let arrived = |m: &Member| m.federation.counts().received + m.federation.counts().repeated;
        members[1..].iter().all(|m| arrived(m) == forwarded())
    });
    let before = forwarded();
    (first..first + 5).for_each(push);
    let all: Vec<_> = (1..first + 5).map(|n| (n, 0)).collect();
    wait_until("five more each", || members.iter().all(|m| m.seen.lock().unwrap().len() >= all.len()));
    members.iter().for_each(|m| assert_eq!(*m.seen.lock().unwrap(), all));
    wait_until("they are counted", || forwarded() >= before + 5);
    assert_eq!(forwarded(), before + 5, "one datagram for both");
}
