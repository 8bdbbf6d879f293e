//! Datagrams through relays that lose, double and delay some of them, as a seed decides.

use crate::datagrams::{Member, acquaint, free_port, member};
use isorb::transport::{Interface, Multicast};
use isorb_event::Event;
use isorb_event::servants::{UdpGateway, UdpOptions};
use isorb_netlab::{Impairment, Plan};
use isorb_rt::time::now_ns;
use isorb_testkit::wait_until;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn bad(seed: u64) -> Plan {
    Plan { seed, loss: 0.05, duplicate: 0.05, reorder: 0.1, delay_ns: 300_000, jitter_ns: 200_000 }
}

/// One side of a relay: its receiving socket, its sending socket and its destination.
struct Side {
    receiver: UdpSocket,
    sender: UdpSocket,
    to: SocketAddr,
}

impl Side {
    /// To a neighbour that accepts only this address.
    fn neighbour(socket: UdpSocket, to: SocketAddr) -> Side {
        Side { sender: socket.try_clone().unwrap(), receiver: socket, to }
    }

    /// To a group. `None` where the system has no multicast.
    fn group(group: Ipv4Addr, port: u16) -> Option<Side> {
        let receiver = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        receiver.set_reuse_address(true).unwrap();
        receiver.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()).unwrap();
        let sender = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        sender.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let interface = Interface::Address(Ipv4Addr::LOCALHOST);
        let multicast = Multicast { interface, hops: 1, loopback: true };
        multicast.join(&receiver, group.into()).ok()?;
        multicast.prepare_to_send(&sender, group.into()).ok()?;
        Some(Side { receiver: receiver.into(), sender: sender.into(), to: (group, port).into() })
    }
}

/// Carries datagrams from each side to the other, until it is dropped.
struct Relay {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn start(a: Side, b: Side, plan: impl Fn(u64) -> Plan) -> Relay {
        let (stop, lost) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let own = a.sender.local_addr().unwrap();
        let other = b.sender.local_addr().unwrap();
        let carry = |receiver: UdpSocket, own, sender: UdpSocket, to, plan| {
            let (stop, lost) = (stop.clone(), lost.clone());
            std::thread::spawn(move || carry(&receiver, own, &sender, to, plan, &stop, &lost))
        };
        let threads = vec![
            carry(a.receiver, own, b.sender.try_clone().unwrap(), b.to, plan(1)),
            carry(b.receiver, other, a.sender.try_clone().unwrap(), a.to, plan(2)),
        ];
        Relay { stop, lost, threads }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// One direction. The relay's own datagrams, which a group loops back, are dropped.
fn carry(
    receiver: &UdpSocket,
    own: SocketAddr,
    sender: &UdpSocket,
    to: SocketAddr,
    plan: Plan,
    stop: &AtomicBool,
    lost: &AtomicU64,
) {
    receiver.set_read_timeout(Some(Duration::from_micros(100))).unwrap();
    let mut way = Impairment::new(plan);
    let (mut room, mut before) = (vec![0; 65_536], 0);
    while !stop.load(SeqCst) {
        if let Ok((length, from)) = receiver.recv_from(&mut room)
            && from != own
        {
            way.push(now_ns(), room[..length].to_vec());
        }
        while let Some(packet) = way.pop(now_ns()) {
            let _ = sender.send_to(&packet, to);
        }
        lost.fetch_add(way.dropped() - before, SeqCst);
        before = way.dropped();
    }
}

/// The number of events that each member pushes; it receives those of the others.
const EVENTS: u64 = 150;

/// All members push together, a few events at a time, and all events arrive everywhere, once and in
/// order.
fn assert_all_arrive(members: &[Member]) {
    acquaint(members);
    let tick = || members.iter().for_each(|m| m.federation.tick(now_ns(), u64::MAX));
    let suppliers: Vec<_> = members.iter().map(|m| m.channel.for_suppliers().connect().unwrap()).collect();
    // By the number of the source. The first event shows that events are wanted there.
    let push = |number: u64| {
        for (i, supplier) in suppliers.iter().enumerate() {
            let time = (i as u64 + 1) << 32 | number;
            supplier.push(&Event::new(20, 1).created(time).ttl(4));
        }
    };
    let got = |member: &Member, of: usize| -> Vec<u64> {
        let seen = member.seen.lock().unwrap();
        let numbers = seen.iter().map(|(time, _)| *time).filter(|time| time >> 32 == of as u64 + 1);
        numbers.map(|time| time & 0xffff_ffff).collect()
    };
    let pairs = || (0..members.len()).flat_map(|to| (0..members.len()).map(move |of| (to, of)));
    let everywhere = |f: &dyn Fn(&[u64]) -> bool| pairs().all(|(to, of)| f(&got(&members[to], of)));
    let mut number = 0;
    wait_until("events of all come everywhere", || {
        number += 1;
        push(number);
        tick();
        everywhere(&|numbers| !numbers.is_empty())
    });
    let (first, last) = (number + 1, number + EVENTS);
    for number in first..=last {
        push(number);
        if number % 50 == 0 {
            tick();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // On a slow machine, more events arrive as long as any do.
    let total = || members.iter().map(|member| member.seen.lock().unwrap().len()).sum::<usize>();
    let (mut before, mut since) = (total(), Instant::now());
    while !everywhere(&|numbers| numbers.last() == Some(&last)) {
        tick();
        std::thread::sleep(Duration::from_millis(10));
        if total() > before {
            (before, since) = (total(), Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(60), "waited in vain for the last of each");
    }
    for (to, of) in pairs() {
        let numbers: Vec<u64> = got(&members[to], of).into_iter().filter(|n| *n >= first).collect();
        assert_eq!(numbers, (first..=last).collect::<Vec<_>>(), "of {of} at {to}");
        let all = got(&members[to], of);
        assert!(all.is_sorted_by(|a, b| a < b), "of {of} at {to}: {all:?}");
    }
    assert!(members.iter().all(|m| m.federation.counts().lost == 0));
}

#[test]
fn a_link_that_loses_doubles_and_reorders_brings_all_once_and_in_order() {
    for seed in 1..=2 {
        let members = [member(1, 20), member(2, 20)];
        let (a, b) = (free_port(), free_port());
        let [to_a, to_b] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let here = UdpOptions::to_neighbour(a, to_a.local_addr().unwrap());
        let there = UdpOptions::to_neighbour(b, to_b.local_addr().unwrap());
        let _gateways = [(0, here), (1, there)]
            .map(|(i, options)| UdpGateway::start(&members[i].federation, options).unwrap());
        let relay =
            Relay::start(Side::neighbour(to_a, a), Side::neighbour(to_b, b), |way| bad(seed << 8 | way));
        assert_all_arrive(&members);
        // The control: without repeated requests some events would be missing or out of order.
        let repeated: u64 = members.iter().map(|m| m.federation.counts().repeated).sum();
        assert!(relay.lost.load(SeqCst) > 0 && repeated > 0, "seed {seed}: nothing went wrong");
    }
}

/// Two of them receive each other directly, the third through the relay.
#[test]
fn a_group_that_loses_doubles_and_reorders_brings_all_once_and_in_order() {
    let group = |n: u8| Ipv4Addr::new(239, 255, 80 + n, (std::process::id() % 250) as u8 + 1);
    let ports = [free_port().port(), free_port().port()];
    let sides = [0, 1].map(|i| Side::group(group(i as u8), ports[i]));
    let [Some(here), Some(there)] = sides else {
        println!("SKIPPED: no multicast on the loopback interface here");
        return;
    };
    let members: Vec<Member> = (1..=3).map(|id| member(id, 20)).collect();
    let _gateways: Vec<_> = [0, 0, 1]
        .into_iter()
        .zip(&members)
        .map(|(i, member)| {
            let options = UdpOptions::to_group(group(i as u8), ports[i], Ipv4Addr::LOCALHOST);
            UdpGateway::start(&member.federation, options).unwrap()
        })
        .collect();
    let relay = Relay::start(here, there, |way| bad(1 << 8 | way));
    assert_all_arrive(&members);
    assert!(relay.lost.load(SeqCst) > 0, "nothing went wrong");
}
