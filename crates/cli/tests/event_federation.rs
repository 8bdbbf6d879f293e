//! Event channels as processes on hosts of their own: an event without a consumer sends no packet,
//! and a cut link is survived.
//!
//! Skipped with a message where there is no right to make network namespaces.

mod common;

use isorb_testkit::{Process, wait_until};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isorb::{Config, Orb};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_netlab::{Host, Net};

use common::events::Consumer;

const WANTED: i32 = 20;
const UNWANTED: i32 = 21;

/// A channel as a process on a host.
struct Channel {
    _process: Process,
    url: String,
}

impl Channel {
    /// With a tick and a time-out for calls to neighbours in ms.
    fn start(host: &Host, id: usize, times: [&str; 2], join: &[&Channel]) -> Channel {
        let join = join.iter().flat_map(|other| ["--join".to_owned(), other.federation()]);
        Channel::with(host, id, times, &join.collect::<Vec<_>>())
    }

    /// As [`start`](Channel::start), with its neighbours as arguments say.
    fn with(host: &Host, id: usize, [tick, timeout]: [&str; 2], neighbours: &[String]) -> Channel {
        let mut command: Command = host.command(env!("CARGO_BIN_EXE_isorb"));
        let (address, id) = (host.address().to_string(), id.to_string());
        command.args(["event-channel", "--real-time", "off", "--ping", "0", "--queue", "1000", "--insecure"]);
        command.args(["--host", &address, "--id", &id, "--tick", tick, "--push-timeout", timeout]);
        command.args(neighbours);
        let (_process, url) = Process::ready(&mut command);
        Channel { _process, url }
    }

    fn federation(&self) -> String {
        self.url.replace("EventService", "EventFederation")
    }
}

fn event(type_: i32, creation_time: u64) -> comm::Event {
    let header = comm::EventHeader { type_, source: 1, ttl: 16, creation_time, ..Default::default() };
    comm::Event { header, data: Default::default() }
}

/// A program on a host that uses the channel there.
struct Client<'n> {
    host: &'n Host,
    orb: Orb,
    channel: admin::EventChannelRef,
}

impl<'n> Client<'n> {
    fn of(host: &'n Host, channel: &Channel) -> Client<'n> {
        let (address, url) = (host.address(), channel.url.clone());
        let made = host.run(move || {
            let orb =
                Orb::with_config(Config { endpoints: vec![format!("{address}:0")], ..Config::default() })
                    .unwrap();
            orb.root_poa().unwrap().manager().activate().unwrap();
            let channel = orb.resolve(&url).unwrap();
            (orb, channel)
        });
        let (orb, channel) = made.unwrap();
        Client { host, orb, channel }
    }

    fn consume(&self, type_: i32) -> Arc<Consumer> {
        self.in_host(|| {
            let consumer = Arc::new(Consumer::default());
            let poa = self.orb.root_poa().unwrap();
            let reference: comm::PushConsumerRef = poa.activate(consumer.clone()).unwrap();
            let mut event = event(type_, 0);
            event.header.source = 0;
            let dependencies = vec![admin::Dependency { event, rt_info: 0 }];
            let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
            let proxy =
                self.channel.for_consumers().unwrap().unwrap().obtain_push_supplier().unwrap().unwrap();
            proxy.connect_push_consumer(&reference, &qos).unwrap();
            consumer
        })
    }

    fn supplier(&self) -> admin::ProxyPushConsumerRef {
        self.in_host(|| {
            let supplier =
                self.channel.for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
            let qos = admin::SupplierQOS::default();
            supplier.connect_push_supplier(None::<&comm::PushSupplierRef>, &qos).unwrap();
            supplier
        })
    }

    /// Connections are opened where a call is made.
    fn in_host<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.host.run(f).unwrap()
    }
}

/// Pushes one after the other until the consumer has one, then says the last number.
fn push_until_one_arrives(
    near: &Client<'_>,
    supplier: &admin::ProxyPushConsumerRef,
    far: &Consumer,
    from: u64,
) -> u64 {
    let mut number = from;
    wait_until("an event comes over", || {
        number += 1;
        near.in_host(|| supplier.push(&vec![event(WANTED, number)]).unwrap());
        far.times().iter().any(|time| *time > from)
    });
    number
}

/// Pushes these numbers.
fn push(near: &Client<'_>, supplier: &admin::ProxyPushConsumerRef, numbers: std::ops::Range<u64>) {
    near.in_host(|| numbers.for_each(|n| supplier.push(&vec![event(WANTED, n)]).unwrap()));
}

/// Waits until these numbers have come: once each, in order.
fn all_come(far: &Consumer, numbers: std::ops::Range<u64>) {
    let came = || -> Vec<u64> { far.times().into_iter().filter(|n| numbers.contains(n)).collect() };
    wait_until("the last number", || came().last() == numbers.clone().last().as_ref());
    assert_eq!(came(), numbers.collect::<Vec<_>>());
}

/// What all hosts have sent, once no host has sent anything for a while.
fn sent_when_still(net: &Net, hosts: usize) -> Vec<u64> {
    let now = || -> Vec<u64> { (0..hosts).map(|host| net.sent(host).unwrap()).collect() };
    let (mut before, mut since) = (now(), Instant::now());
    wait_until("silence on the net", || {
        let sent = now();
        if sent != before {
            (before, since) = (sent, Instant::now());
        }
        since.elapsed() > Duration::from_millis(500)
    });
    before
}

/// Four channels in a line, a star and a ring: an event comes once; not one packet is sent for
/// events without a consumer elsewhere.
#[test]
fn an_event_without_a_consumer_sends_no_packet() {
    const HOSTS: usize = 4;
    const MANY: u64 = 300;
    // There are no announcements while packets are counted. On a busy machine the first one must
    // not be abandoned.
    const QUIET: [&str; 2] = ["3600000", "30000"];
    // The neighbours that each host joins.
    let shapes: [(&str, [&[usize]; HOSTS]); 3] = [
        ("line", [&[], &[0], &[1], &[2]]),
        ("tree", [&[], &[0], &[0], &[1]]),
        ("ring", [&[], &[0], &[1], &[2, 0]]),
    ];
    let Some(net) = Net::build_or_skip(HOSTS) else { return };
    for (shape, joins) in shapes {
        let mut channels: Vec<Channel> = Vec::new();
        for (i, joins) in joins.iter().enumerate() {
            let join: Vec<&Channel> = joins.iter().map(|other| &channels[*other]).collect();
            let channel = Channel::start(net.host(i), i + 1, QUIET, &join);
            channels.push(channel);
        }
        let clients: Vec<Client<'_>> =
            channels.iter().enumerate().map(|(i, channel)| Client::of(net.host(i), channel)).collect();
        let far = clients[3].consume(WANTED);
        let near = clients[0].consume(UNWANTED);
        let supplier = clients[0].supplier();
        let last = push_until_one_arrives(&clients[0], &supplier, &far, 0);
        push(&clients[0], &supplier, last + 1..last + 50);
        all_come(&far, last + 1..last + 50);

        let before = sent_when_still(&net, HOSTS);
        clients[0].in_host(|| (0..MANY).for_each(|n| supplier.push(&vec![event(UNWANTED, n)]).unwrap()));
        wait_until("they come where they are wanted", || near.times().len() as u64 == MANY);
        assert_eq!(sent_when_still(&net, HOSTS), before, "{shape}: no consumer beyond wants them");
        // The control: what is wanted is sent.
        push(&clients[0], &supplier, 100_000..100_000 + MANY);
        all_come(&far, 100_000..100_000 + MANY);
        let after = sent_when_still(&net, HOSTS);
        assert!(after[0] > before[0] + 1, "{shape}: {before:?} to {after:?}");
    }
}

/// Three channels in a ring: a cut link is gone round, and joined again once it is mended. What was
/// pushed into it comes by the other way.
#[test]
fn a_cut_link_is_gone_round_and_joined_again() {
    const TICK: [&str; 2] = ["200", "300"];
    const MANY: u64 = 100;
    let Some(net) = Net::build_or_skip(3) else { return };
    let a = Channel::start(net.host(0), 1, TICK, &[]);
    let b = Channel::start(net.host(1), 2, TICK, &[&a]);
    let c = Channel::start(net.host(2), 3, TICK, &[&a, &b]);
    let (near, far) = (Client::of(net.host(0), &a), Client::of(net.host(2), &c));
    let (consumer, supplier) = (far.consume(WANTED), near.supplier());
    let first = push_until_one_arrives(&near, &supplier, &consumer, 0) + 1;
    let mut next = first;
    // By a, b, c; then directly, when that way alone is there; then by the long one again.
    for (cut, mend) in [((0, 2), None), ((0, 1), Some((0, 2))), ((0, 2), Some((0, 1)))] {
        if let Some((here, there)) = mend {
            net.cut(here, there, false).unwrap();
        }
        push(&near, &supplier, next..next + MANY);
        net.cut(cut.0, cut.1, true).unwrap();
        push(&near, &supplier, next + MANY..next + 2 * MANY);
        next += 2 * MANY;
        all_come(&consumer, first..next);
    }
}

/// Its numbers begin above those that others remember of it.
#[test]
fn events_of_a_restarted_channel_arrive() {
    const TICK: [&str; 2] = ["200", "300"];
    let Some(net) = Net::build_or_skip(2) else { return };
    let b = Channel::start(net.host(1), 2, TICK, &[]);
    let far = Client::of(net.host(1), &b);
    let consumer = far.consume(WANTED);
    for life in 1..=3 {
        let a = Channel::start(net.host(0), 1, TICK, &[&b]);
        let near = Client::of(net.host(0), &a);
        let supplier = near.supplier();
        let first = push_until_one_arrives(&near, &supplier, &consumer, life * 1_000_000) + 1;
        push(&near, &supplier, first..first + 100);
        all_come(&consumer, first..first + 100);
    }
}

/// Three hosts that listen to a group: what is pushed on one comes to both others in one datagram,
/// once and in order; an event without a consumer is not sent.
#[test]
fn hosts_of_a_multicast_group_get_each_event_once() {
    const HOSTS: usize = 3;
    const MANY: u64 = 200;
    let Some(net) = Net::build_or_skip(HOSTS) else { return };
    let channels: Vec<Channel> = (0..HOSTS)
        .map(|i| {
            let address = net.host(i).address();
            let group = format!("239.255.77.1:5001@{address}");
            Channel::with(net.host(i), i + 1, ["1000", "300"], &["--multicast".to_owned(), group])
        })
        .collect();
    let clients: Vec<Client<'_>> =
        channels.iter().enumerate().map(|(i, channel)| Client::of(net.host(i), channel)).collect();
    let consumers: Vec<_> = clients.iter().map(|client| client.consume(WANTED)).collect();
    let supplier = clients[0].supplier();
    let mut last = 0;
    for far in &consumers[1..] {
        last = push_until_one_arrives(&clients[0], &supplier, far, last);
    }
    for round in 0..3 {
        let first = last + 1 + round * MANY;
        push(&clients[0], &supplier, first..first + MANY);
        consumers.iter().for_each(|consumer| all_come(consumer, first..first + MANY));
    }
    // What each says with its ticks is a few datagrams; these would be thousands.
    let before = net.sent(0).unwrap();
    clients[0].in_host(|| (0..50 * MANY).for_each(|n| supplier.push(&vec![event(UNWANTED, n)]).unwrap()));
    let marker = last + 4 * MANY;
    push(&clients[0], &supplier, marker..marker + 1);
    consumers.iter().for_each(|consumer| all_come(consumer, marker..marker + 1));
    let sent = net.sent(0).unwrap() - before;
    assert!(sent < 25 * MANY, "{sent} packets");
}
