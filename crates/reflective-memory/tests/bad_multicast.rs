//! A writer's node and the nodes of two readers that share its pushes, each in a namespace of its
//! own; what the group sends goes to each reader's node by a way that is bad in another manner.
//! Each sees whole values only, in order, and counts exactly what it did not get.
//!
//! Skipped with a message where there is no right to make namespaces.

mod relay;
mod world;

use isorb::Reference;
use isorb_netlab::{Host, Net, Plan};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Path, ReaderQoS};
use isorb_reflective_memory::node::NodeServer;
use isorb_reflective_memory::wire::{Counters, Datagram, Kind};
use isorb_reflective_memory::{AreaReader, AreaWriter, Library};
use isorb_rt::time::Deadline;
use relay::{Direction, Drops, Out, Relay, none};
use rustix::net::sockopt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use world::{QOS, TIMEOUT, area, node_on, on_write, orb_on, until};

/// Seven fragments.
const SIZE: usize = 9_000;
const GROUPS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(239, 255, 77, 1)), 28_992);
/// Where datagrams come from and go to: an address that stays in its namespace. The relay has the
/// writer's in all of them.
const WRITER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const READER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

fn own_address(host: &Host, address: Ipv4Addr) {
    let arguments = format!("-n {} addr add {address}/32 dev lo", host.namespace());
    let done = std::process::Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn node(host: &Host, name: &str, glob: &str, own: Ipv4Addr) -> (NodeServer, Library) {
    node_on(host, &orb_on(host, None), name, glob, |config| {
        config.dispatcher.udp = (own, 0).into();
        config.dispatcher.multicast = Some(GROUPS);
        // What is lost may be all heartbeats of a while.
        config.silence = Duration::from_secs(30);
    })
}

/// What comes to a group in the writer's namespace, beside its own node.
fn front(host: &Host, group: SocketAddr) -> UdpSocket {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    host.run(|| {
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([0, 0, 0, 0], group.port()))).unwrap();
        let socket = UdpSocket::from(socket);
        let std::net::IpAddr::V4(group) = group.ip() else { panic!("{group}") };
        socket.join_multicast_v4(&group, &WRITER).unwrap();
        socket
    })
    .unwrap()
}

/// One in a reader's namespace that sends to the group as the writer's node.
fn back(host: &Host, writer: SocketAddr) -> UdpSocket {
    host.run(|| {
        let socket = UdpSocket::bind(writer).unwrap();
        sockopt::set_ip_multicast_if(&socket, &WRITER).unwrap();
        socket
    })
    .unwrap()
}

/// Whatever it reads is whole, was written and is newer.
struct Checked {
    reader: AreaReader,
    last: u64,
    read: u64,
}

impl Checked {
    fn look(&mut self) -> u64 {
        let mut value = vec![0; SIZE];
        let sample = self.reader.latest(&mut value).unwrap();
        assert_eq!(sample.len, SIZE - (sample.source % 100) as usize, "invented");
        let expected = sample.source as u8 ^ 0x5a;
        assert!(value[..sample.len].iter().all(|octet| *octet == expected), "torn: {}", sample.source);
        assert!(sample.source >= self.last, "{} after {}", sample.source, self.last);
        self.read += u64::from(sample.source > self.last);
        self.last = sample.source;
        self.last
    }
}

struct Group {
    // In this order they end.
    readers: Vec<Checked>,
    writer: AreaWriter,
    relay: Relay,
    nodes: Vec<(NodeServer, Library)>,
    /// What each node had counted when its way was good.
    before: Vec<(u64, Counters)>,
    _net: Net,
}

/// Two readers' nodes, each with a plan and with what vanishes beside it.
fn group(parity: u8, bad: [(Plan, Drops); 2]) -> Option<Group> {
    let net = Net::build_or_skip(3)?;
    (0..3).for_each(|number| own_address(net.host(number), WRITER));
    (1..3).for_each(|number| own_address(net.host(number), READER));
    let coordinator = orb_on(net.host(0), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let nodes: Vec<_> = [("near", WRITER), ("far", READER), ("third", READER)]
        .into_iter()
        .enumerate()
        .map(|(number, (name, own))| node(net.host(number), name, &glob, own))
        .collect();
    let make = || {
        nodes[0].1.create_area(&area("radar", SIZE as u32)).unwrap();
        nodes[0].1.map_writer("radar", QOS).unwrap()
    };
    let mut writer = net.host(0).run(make).unwrap();
    let request = ReaderQoS { through: Path::PathMulticast, parity, ..on_write() };
    let attach = |number: usize| {
        net.host(number).run(|| nodes[number].1.attach_reader("radar", request).unwrap()).unwrap()
    };
    let mut readers = vec![attach(1)];
    let pushed = nodes[0].0.pushes(1)[0].node.clone();
    let to: SocketAddr = pushed.strip_prefix("group ").unwrap().parse().unwrap();
    let from = nodes[0].0.datagram_addresses()[0];
    let mut number = 0;
    let outs = bad.map(|(plan, drops)| {
        number += 1;
        Out { socket: back(net.host(number), from), to, plan, drops }
    });
    let relay = Relay::start(front(net.host(0), to), outs.into());
    readers.push(attach(2));
    writer.write(&[1 ^ 0x5a; SIZE - 1]).unwrap();
    readers.iter_mut().for_each(|reader| drop(until(reader, 1)));
    let readers = readers.into_iter().map(|reader| Checked { reader, last: 1, read: 0 }).collect();
    let mut group = Group { readers, writer, relay, nodes, before: Vec::new(), _net: net };
    group.before = (0..2).map(|which| group.counted(which)).collect();
    Some(group)
}

impl Group {
    /// The newest push that a node has seen, and its counters.
    fn counted(&self, which: usize) -> (u64, Counters) {
        let counts = self.nodes[which + 1].0.status(1).0.replicas[0].counts.unwrap();
        (counts.newest.unwrap(), counts.counters)
    }

    fn begun(&self) -> u64 {
        self.nodes[0].0.pushes(1)[0].counts.begun
    }

    /// Of the pushes since the way is bad: those that came out whole, all, and what a node has
    /// counted. None while more may come.
    fn since(&self, which: usize) -> Option<(u64, u64, [u64; 3])> {
        let ((before, old), (newest, now)) = (self.before[which], self.counted(which));
        let (all, whole) = self.relay.pushes(which, before);
        let counted = [now.complete - old.complete, now.incomplete - old.incomplete, now.lost - old.lost];
        (newest - before == all && counted.iter().sum::<u64>() == all).then_some((whole, all, counted))
    }

    /// Writes until each reader has read something of it, and what was written last.
    fn run(&mut self) {
        let deadline = Deadline::after(TIMEOUT);
        self.relay.set(Direction::Bad);
        let mut last = 1;
        while last < 300 || self.readers.iter().any(|reader| reader.read <= 10) {
            assert!(!deadline.is_past(), "at {last}");
            last += 1;
            self.writer.write(&vec![last as u8 ^ 0x5a; SIZE - (last % 100) as usize]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            for reader in &mut self.readers {
                reader.look();
            }
            // Sockets that overflow would lose what no plan says.
            let is_behind = |group: &Group, which: usize| group.counted(which).0 + 3 < group.begun();
            while (0..2).any(|which| is_behind(self, which)) {
                assert!(!deadline.is_past(), "the nodes are behind");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // The latest comes in the end, whatever is lost: it is sent again.
        while self.readers.iter_mut().any(|reader| reader.look() < last) {
            assert!(!deadline.is_past(), "{last} does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// All pushes since the way is bad, and what a node has counted, when no more come.
    fn settled(&self, which: usize) -> (u64, [u64; 3], Counters) {
        let deadline = Deadline::after(TIMEOUT);
        loop {
            let seen = self.since(which);
            std::thread::sleep(Duration::from_millis(300));
            match seen.filter(|_| self.since(which) == seen) {
                Some((_, all, counted)) => return (all, counted, self.counted(which).1),
                None => assert!(!deadline.is_past(), "{:?}", self.counted(which)),
            }
        }
    }

    /// Waits until counts and relay agree, as they must in the end.
    fn until(&self, which: usize, agrees: impl Fn(u64, u64, [u64; 3]) -> bool) -> Counters {
        let deadline = Deadline::after(TIMEOUT);
        loop {
            if let Some((whole, all, counted)) = self.since(which)
                && agrees(whole, all, counted)
            {
                return self.counted(which).1;
            }
            let relay = self.relay.pushes(which, self.before[which].0);
            assert!(!deadline.is_past(), "{:?} and {relay:?} by the relay", self.counted(which));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn each_node_counts_what_it_lost_of_a_group() {
    let plan = |seed, loss| Plan { seed, loss, delay_ns: 200_000, ..Plan::default() };
    let Some(mut group) = group(0, [(plan(21, 0.05), none), (plan(22, 0.01), none)]) else { return };
    group.run();
    let counted = [0, 1].map(|which| group.until(which, |whole, _, [complete, ..]| complete == whole));
    for (which, c) in counted.iter().enumerate() {
        assert!(c.incomplete > 0, "the relay lost nothing: {c:?}");
        assert_eq!((c.forged, c.malformed, c.repeated, c.other_epoch), (0, 0, 0, 0), "{which}");
    }
    assert_ne!(counted[0].complete, counted[1].complete, "each for itself");
}

#[test]
fn repetition_and_reordering_show_no_member_anything_wrong() {
    let plan = |seed| Plan {
        seed,
        loss: 0.02,
        duplicate: 0.05,
        reorder: 0.05,
        delay_ns: 300_000,
        jitter_ns: 200_000,
    };
    let Some(mut group) = group(0, [(plan(23), none), (plan(24), none)]) else { return };
    group.run();
    for which in [0, 1] {
        // What comes after a later push began is late: it may cost a push that came out whole.
        let c = group.until(which, |whole, _, [complete, ..]| complete <= whole);
        assert!(c.repeated + c.late > 0 && c.incomplete > 0, "{c:?}");
        assert_eq!((c.forged, c.malformed, c.other_epoch), (0, 0, 0));
    }
}

/// With a parity for three: one of each three is lost.
fn singles(datagram: &Datagram<'_>) -> bool {
    datagram.kind == Kind::Fragment && u64::from(datagram.index) % 3 == datagram.push % 3
}

/// Two of the same three are lost in each fourth push, as in a burst.
fn bursts(datagram: &Datagram<'_>) -> bool {
    datagram.kind == Kind::Fragment && datagram.push % 4 == 1 && matches!(datagram.index, 3 | 4)
}

#[test]
fn parity_makes_single_losses_good_for_a_group_and_bursts_are_counted() {
    let mut tries = Vec::new();
    while tries.len() < 5 {
        let Some(mut group) = group(3, [(Plan::default(), singles), (Plan::default(), bursts)]) else {
            return;
        };
        group.run();
        let (all, counted, healed) = group.settled(0);
        let first = group.before[1].0;
        let (sent, burst_counted, burst) = group.settled(1);
        let lost = (first + 1..=first + sent).filter(|push| push % 4 == 1).count() as u64;
        // Nothing vanishes but what is said here, so that the numbers are exact. Only on a busy
        // machine a socket may overflow.
        if counted != [all, 0, 0] || burst_counted != [sent - lost, lost, 0] {
            tries.push((counted, burst_counted));
            continue;
        }
        assert!(healed.recovered >= 2 * all, "{healed:?}, of {} at least", 2 * all);
        assert_eq!(burst.recovered, 0, "of two nothing can be made: {burst:?}");
        assert!(burst.incomplete > 0, "{burst:?}");
        return;
    }
    panic!("complete, incomplete and lost pushes: {tries:?}");
}
