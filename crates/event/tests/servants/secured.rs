//! Forged, replayed and cut datagrams, joins that fail, and members with a key.

use crate::datagrams::{Member, acquaint, free_port, member, member_with};
use crate::server;
use isorb::Orb;
use isorb_event::federation::{Federation, MemberKey, Neighbour, Security};
use isorb_event::servants::{
    EventServiceOptions, FederationServant, LinkError, LinkOptions, RtecEventService, UdpGateway, UdpOptions,
};
use isorb_event::{Channel, Event};
use isorb_testkit::wait_until;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between two members: carries their datagrams, keeps copies of those to the first, and sends
/// others in the second's name.
struct Between {
    to_first: Arc<UdpSocket>,
    first: SocketAddr,
    copies: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    _gateways: [UdpGateway; 2],
}

impl Between {
    fn new(members: &[Member; 2]) -> Between {
        let sockets = [(); 2].map(|()| Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()));
        let addresses = [free_port(), free_port()];
        let gateways = [0, 1].map(|i| {
            let options = UdpOptions::to_neighbour(addresses[i], sockets[i].local_addr().unwrap());
            UdpGateway::start(&members[i].federation, options).unwrap()
        });
        let (stop, copies) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        for from in [0, 1] {
            let (source, target) = (sockets[from].clone(), sockets[1 - from].clone());
            let (to, stop, copies) = (addresses[1 - from], stop.clone(), copies.clone());
            source.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            std::thread::spawn(move || {
                let mut room = vec![0; 65_536];
                while !stop.load(SeqCst) {
                    let Ok((length, _)) = source.recv_from(&mut room) else { continue };
                    if from == 1 {
                        copies.lock().unwrap().push(room[..length].to_vec());
                    }
                    let _ = target.send_to(&room[..length], to);
                }
            });
        }
        let to_first = sockets[0].clone();
        Between { to_first, first: addresses[0], copies, stop, _gateways: gateways }
    }

    fn forge(&self, datagram: &[u8]) {
        self.to_first.send_to(datagram, self.first).unwrap();
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}

/// The second member announces at one level that it wants nothing, with the greatest version: what
/// it says itself is older, whatever it says.
fn wants_nothing(level: u8) -> Vec<u8> {
    let mut datagram = b"isEv\x04\x02".to_vec();
    datagram.extend([1 | 4 << 1, level]);
    let (sender, origin, incarnation, version) = (2u64, 2u64, 77u64, u64::MAX);
    for number in [sender, origin, incarnation, version] {
        datagram.extend(number.to_le_bytes());
    }
    // No hops, no filters.
    datagram.extend([0; 8]);
    datagram
}

fn tick(members: &[Member]) {
    members.iter().for_each(|m| m.federation.tick(isorb_rt::time::now_ns(), u64::MAX));
}

/// The first pushes until the second has an event that was pushed from now on.
fn assert_linked(members: &[Member], first: u64, what: &str) {
    let supplier = members[0].channel.for_suppliers().connect().unwrap();
    let mut number = first;
    wait_until(what, || {
        supplier.push(&Event::new(20, 1).created(number).ttl(4));
        number += 1;
        tick(members);
        members[1].seen.lock().unwrap().iter().any(|(time, _)| *time >= first)
    });
}

/// Versions are those of one process, and a forger does not know its number.
#[test]
fn a_forged_version_cuts_no_member_off() {
    let members = [member(1, 21), member(2, 20)];
    let between = Between::new(&members);
    acquaint(&members);
    assert_linked(&members, 1, "an event before");
    for round in 1..=3 {
        (0..4).for_each(|level| between.forge(&wants_nothing(level)));
        assert_linked(&members, round << 32, "an event after the forged datagrams");
    }
}

#[test]
fn without_the_key_datagrams_are_counted_and_ignored() {
    let key = |octet| Security::Key(MemberKey::new(&[octet; 32]).unwrap());
    let members = [member_with(1, 21, key(1)), member_with(2, 20, key(1))];
    let between = Between::new(&members);
    acquaint(&members);
    assert_linked(&members, 1, "an event");
    let unauthenticated = || members[0].federation.counts().unauthenticated;
    assert_eq!(unauthenticated(), 0);
    let copy = between.copies.lock().unwrap().last().unwrap().clone();
    let changed = |at: usize| {
        let mut changed = copy.clone();
        changed[at] ^= 1;
        changed
    };
    let bad = [
        ("without a proof", wants_nothing(0)),
        ("without a proof, said to have one", [&b"isEv\x04\x82"[..], &wants_nothing(0)[6..]].concat()),
        ("received before", copy.clone()),
        ("cut", copy[..copy.len() - 1].to_vec()),
        ("cut to its header and a proof", [&copy[..8], &copy[copy.len() - 32..]].concat()),
        ("with another level", changed(7)),
        ("from another sender", changed(8)),
        ("with another counter", changed(copy.len() - 33)),
        ("with another proof", changed(copy.len() - 1)),
    ];
    for (what, datagram) in bad {
        let before = unauthenticated();
        between.forge(&datagram);
        wait_until(what, || unauthenticated() == before + 1);
    }
    assert_linked(&members, 1 << 32, "an event after them");
    // A member with another key, and one without.
    for security in [key(2), Security::Loopback] {
        let pair = [member_with(1, 21, key(1)), member_with(2, 20, security)];
        let _between = Between::new(&pair);
        wait_until("each counts the other's", || {
            tick(&pair);
            pair.iter().all(|member| member.federation.counts().unauthenticated > 0)
        });
        assert!(pair.iter().all(|member| member.federation.known() == 0));
    }
}

struct Joining {
    orb: Orb,
    federation: Federation,
    servant: FederationServant,
}

fn joining(id: u64, security: Security) -> Joining {
    let (orb, channel) = server(Channel::builder().id(id));
    let federation = Federation::builder(&channel).security(security).build().unwrap();
    let options = LinkOptions::new(Duration::from_secs(5));
    let servant = FederationServant::start(&orb, &federation, options).unwrap();
    Joining { orb, federation, servant }
}

impl Joining {
    fn join(&self, url: &str) -> Result<(), LinkError> {
        self.servant.join(&self.orb.string_to_object(url).unwrap()).map(drop)
    }

    fn url(&self, key: &str) -> String {
        format!("corbaloc::1.2@127.0.0.1:{}/{key}", self.orb.endpoint_addresses()[0].1)
    }
}

#[test]
fn a_join_that_fails_says_why() {
    let key = |octet| Security::Key(MemberKey::new(&[octet; 32]).unwrap());
    let near = joining(1, Security::Loopback);
    let (duplicate, keyed) = (joining(1, Security::Loopback), joining(2, key(1)));
    let (orb, channel) = server(Channel::builder());
    let service = RtecEventService::start(&orb, &channel, EventServiceOptions::default()).unwrap();
    let says = |from: &Joining, url: &str, text: &str| {
        let why = from.join(url).unwrap_err().to_string();
        assert!(why.contains(text), "{url}: {why}");
        assert_eq!(from.federation.links(), 0, "nothing is left of it");
    };
    let dead = free_port();
    says(&near, &format!("corbaloc::{dead}/EventFederation"), "refused");
    says(&near, &service.object().to_string(), "prints as FEDERATION");
    says(&near, &near.url("NoSuchKey"), "prints as FEDERATION");
    says(&near, &duplicate.url("EventFederation"), "has the number 1, too");
    says(&near, "corbaloc::192.0.2.1:4201/EventFederation", "192.0.2.1 is beyond this host");
    says(&near, &keyed.url("EventFederation"), "the members there have a key");
    says(&joining(3, key(1)), &near.url("EventFederation"), "does not have the key of this member");
    says(&joining(3, key(2)), &keyed.url("EventFederation"), "does not have the key of this member");
    assert_eq!(keyed.federation.counts().unauthenticated, 1, "the join with another key");
    assert_eq!((keyed.federation.links(), duplicate.federation.links()), (0, 0));
    // The control: those with the same key are linked, and each knows its neighbour.
    let other = joining(3, key(1));
    other.join(&keyed.url("EventFederation")).unwrap();
    wait_until("both know each other", || other.federation.known() == 1 && keyed.federation.known() == 1);
    let [Neighbour { address, channels, up: true, .. }] = &other.federation.neighbours()[..] else {
        panic!("{:?}", other.federation.neighbours());
    };
    assert_eq!(
        (address, channels),
        (&format!("127.0.0.1:{}", keyed.orb.endpoint_addresses()[0].1), &vec![2])
    );
    assert_eq!(keyed.federation.neighbours()[0].channels, [3]);
}

#[test]
fn datagrams_beyond_this_host_need_a_key() {
    let near = member(1, 20);
    let far = UdpOptions::to_neighbour(free_port(), "192.0.2.1:5001".parse().unwrap());
    let group = UdpOptions::to_group(Ipv4Addr::new(239, 255, 77, 1), 5001, Ipv4Addr::UNSPECIFIED);
    for options in [far, group] {
        let error = UdpGateway::start(&near.federation, options).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("--key-file"), "{error}");
    }
    assert_eq!(near.federation.links(), 0);
}
