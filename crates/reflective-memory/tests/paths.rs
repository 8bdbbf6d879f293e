//! Two nodes with two links between them: when one is cut, a channel continues over the other, and
//! returns later.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Path, ReaderQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::node::NodeServer;
use isorb_reflective_memory::{AreaReader, AreaWriter, Error, Library};
use isorb_rt::time::Deadline;
use isorb_testkit::{retry, wait_until};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use world::{QOS, TIMEOUT, area, node_on, on_write, orb_on, until, until_state};

fn node(host: &Host, name: &str, glob: &str, second: Option<&str>) -> (NodeServer, Library) {
    node_with(host, name, glob, (second, second), Duration::from_secs(3))
}

/// With a second path for datagrams, and one for calls.
fn node_with(
    host: &Host,
    name: &str,
    glob: &str,
    (second, by_call): (Option<&str>, Option<&str>),
    silence: Duration,
) -> (NodeServer, Library) {
    node_on(host, &orb_on(host, by_call), name, glob, |config| {
        config.dispatcher.second = second.map(|address| (address.parse::<IpAddr>().unwrap(), 0).into());
        config.silence = silence;
        config.answer = Duration::from_secs(1);
        config.dispatcher.multicast = Some("239.255.77.1:28991".parse().unwrap());
    })
}

fn ip(arguments: String) -> String {
    let done = std::process::Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The hosts get a second link.
fn second_link(lab: &Lab) {
    let (left, right) = (lab.left().namespace(), lab.right().namespace());
    ip(format!("-n {left} link add eth1 type veth peer name eth1 netns {right}"));
    for (namespace, address) in [(left, "10.78.0.1"), (right, "10.78.0.2")] {
        ip(format!("-n {namespace} addr add {address}/24 dev eth1"));
        ip(format!("-n {namespace} link set eth1 up"));
    }
}

/// Repeats the attempt until it succeeds: a busy machine may answer late by both paths.
fn sooner_or_later<T>(host: &Host, attempt: impl Fn() -> Result<T, Error> + Sync) -> T
where
    T: Send,
{
    retry("an answer", || host.run(&attempt).unwrap())
}

/// An area of this host's node, and its writer. A repeated call, after a late answer, reports the
/// first one's effect.
fn written(host: &Host, library: &Library, name: &str, size: u32) -> AreaWriter {
    let what = area(name, size);
    sooner_or_later(host, || match library.create_area(&what) {
        Err(Error::AreaExists(exists)) if exists.what == what => Ok(()),
        other => other,
    });
    sooner_or_later(host, || library.map_writer(name, QOS))
}

fn attached(host: &Host, library: &Library, name: &str, request: ReaderQoS) -> AreaReader {
    sooner_or_later(host, || library.attach_reader(name, request))
}

struct Nodes {
    _near: (NodeServer, Library),
    far: (NodeServer, Library),
    writer: AreaWriter,
    reader: AreaReader,
}

fn nodes(lab: &Lab, second: [Option<&str>; 2]) -> Nodes {
    let coordinator = orb_on(lab.left(), second[0]);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let near = node(lab.left(), "near", &glob, second[0]);
    let far = node(lab.right(), "far", &glob, second[1]);
    let mut writer = written(lab.left(), &near.1, "line", 5_000);
    let mut reader = attached(lab.right(), &far.1, "line", on_write());
    writer.write(&[1; 5_000]).unwrap();
    assert_eq!(until(&mut reader, 1), [1; 5_000]);
    Nodes { _near: near, far, writer, reader }
}

#[test]
fn a_channel_goes_on_over_its_second_path() {
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    second_link(&lab);
    let mut nodes = nodes(&lab, [Some("10.78.0.1"), Some("10.78.0.2")]);
    let switches = |nodes: &Nodes| nodes.far.0.status(1).0.replicas[0].counts.map_or(0, |c| c.switches);
    assert_eq!(switches(&nodes), 0);
    lab.set_plugged(false).unwrap();
    for n in 2..=20u8 {
        nodes.writer.write(&[n; 5_000]).unwrap();
        assert_eq!(until(&mut nodes.reader, u64::from(n)), [n; 5_000], "over the other link");
    }
    assert_eq!(switches(&nodes), 1);
    lab.set_plugged(true).unwrap();
    wait_until("the first path is in use again", || switches(&nodes) >= 2);
    nodes.writer.write(&[21; 5_000]).unwrap();
    assert_eq!(until(&mut nodes.reader, 21), [21; 5_000]);
}

/// The first path is cut and comes back while the writer writes on: each of both readers, one of
/// them guaranteed, sees whole values in order, and all pushes are counted.
#[test]
fn values_under_way_when_a_path_is_cut_are_whole_and_all_are_counted() {
    const SECOND: [Option<&str>; 2] = [Some("10.78.0.1"), Some("10.78.0.2")];
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    second_link(&lab);
    let coordinator = orb_on(lab.left(), SECOND[0]);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    // A channel that is opened anew would begin to count pushes anew.
    let silence = Duration::from_secs(9);
    let near = node_with(lab.left(), "near", &glob, (SECOND[0], SECOND[0]), silence);
    let far = node_with(lab.right(), "far", &glob, (SECOND[1], SECOND[1]), silence);
    let mut writer = written(lab.left(), &near.1, "line", 5_000);
    let sure = ReaderQoS { guaranteed: true, deadline: 200_000_000, ..on_write() };
    let mut readers =
        [on_write(), sure].map(|request| (attached(lab.right(), &far.1, "line", request), 0_u64));
    let counts = || far.0.status(10).0.replicas.into_iter().filter_map(|replica| replica.counts);
    let deadline = Deadline::after(2 * TIMEOUT);
    let (mut out, mut last) = (vec![0; 5_000], 0);
    for (plugged, switches) in [(true, 0), (false, 1), (true, 2)] {
        lab.set_plugged(plugged).unwrap();
        let begun = last;
        while last < begun + 200
            || counts().any(|counts| counts.switches < switches)
            || readers.iter().any(|(_, seen)| *seen < begun + 200)
        {
            assert!(!deadline.is_past(), "{last} written, {:?}", counts().collect::<Vec<_>>());
            last = writer.write(&vec![(last + 1) as u8; 5_000 - (last as usize + 1) % 100]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            for (reader, seen) in &mut readers {
                let Ok(sample) = reader.latest(&mut out) else { continue };
                assert!(sample.source >= *seen, "{} after {seen}", sample.source);
                assert_eq!(sample.len, 5_000 - sample.source as usize % 100);
                assert!(out[..sample.len].iter().all(|octet| *octet == sample.source as u8), "torn");
                *seen = sample.source;
            }
        }
    }
    for (reader, _) in &mut readers {
        until(reader, last);
    }
    loop {
        let pushed: u64 = near.0.pushes(10).iter().map(|push| push.counts.begun).sum();
        let counted: Vec<_> = counts().map(|counts| counts.counters).collect();
        let sum: u64 = counted.iter().map(|c| c.complete + c.incomplete + c.lost).sum();
        if pushed == sum && counted.len() == 2 {
            assert!(counted.iter().all(|c| c.lost > 0), "what went into the cut: {counted:?}");
            break;
        }
        assert!(!deadline.is_past(), "{pushed} pushes, {counted:?}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn without_a_second_path_the_reader_is_told_that_the_node_is_gone() {
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    second_link(&lab);
    // One end alone has none.
    let mut nodes = nodes(&lab, [Some("10.78.0.1"), None]);
    lab.set_plugged(false).unwrap();
    nodes.writer.write(&[2; 5_000]).unwrap();
    until_state(&mut nodes.reader, State::WriterGone);
    lab.set_plugged(true).unwrap();
    assert_eq!(until(&mut nodes.reader, 2), [2; 5_000]);
}

#[test]
fn calls_go_on_over_the_second_path_and_so_does_what_goes_by_them() {
    const SECOND: [&str; 2] = ["10.78.0.1", "10.78.0.2"];
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    second_link(&lab);
    let coordinator = orb_on(lab.left(), Some(SECOND[0]));
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let (_near_server, near) = node(lab.left(), "near", &glob, Some(SECOND[0]));
    let (_far_server, far) = node(lab.right(), "far", &glob, Some(SECOND[1]));
    // The control: its datagrams have a second path, its calls have none.
    let (_poor_server, poor) =
        node_with(lab.right(), "poor", &glob, (Some(SECOND[1]), None), Duration::from_secs(3));
    let paths = [Path::PathUdp, Path::PathOrb, Path::PathOneway, Path::PathMulticast];
    let mut writer = written(lab.left(), &near, "line", 500);
    let by = |through| ReaderQoS { through, ..on_write() };
    let mut readers: Vec<AreaReader> =
        paths.into_iter().map(|path| attached(lab.right(), &far, "line", by(path))).collect();
    let mut control = attached(lab.right(), &poor, "line", by(Path::PathOrb));
    writer.write(&[1; 500]).unwrap();
    assert_eq!(until(&mut control, 1), [1; 500]);
    readers.iter_mut().for_each(|reader| assert_eq!(until(reader, 1), [1; 500]));

    lab.set_plugged(false).unwrap();
    writer.write(&[2; 500]).unwrap();
    for (reader, path) in readers.iter_mut().zip(paths) {
        assert_eq!(until(reader, 2), [2; 500], "by {path:?}");
    }
    // Set-up works: the coordinator and the writer's node are reached.
    let mut late = written(lab.left(), &near, "late", 500);
    late.write(&[3; 500]).unwrap();
    let mut reader = attached(lab.right(), &far, "late", on_write());
    assert_eq!(until(&mut reader, 1), [3; 500]);

    assert_eq!(control.latest(&mut [0; 500]).unwrap().source, 1, "the control has no other way");

    lab.set_plugged(true).unwrap();
    assert_eq!(until(&mut control, 2), [2; 500]);
    let last = writer.write(&[4; 500]).unwrap();
    readers.iter_mut().for_each(|reader| assert_eq!(until(reader, last), [4; 500], "back again"));
}

#[test]
fn groups_may_be_of_ipv6() {
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    if !std::path::Path::new("/proc/net/if_inet6").exists() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let nodes: Vec<(NodeServer, Library)> = [(lab.left(), "fd77::1"), (lab.right(), "fd77::2")]
        .into_iter()
        .map(|(host, address)| {
            let (namespace, interface) = (host.namespace(), host.interface());
            ip(format!("-n {namespace} -6 addr add {address}/64 dev {interface} nodad"));
            let line = ip(format!("-n {namespace} -o link show {interface}"));
            let number = line.split(':').next().unwrap();
            node_on(host, &orb_on(host, None), address, &glob, |config| {
                config.dispatcher.udp = format!("[{address}]:0").parse().unwrap();
                config.dispatcher.multicast = Some(format!("[ff12::77:1%{number}]:28991").parse().unwrap());
                config.silence = Duration::from_secs(30);
            })
        })
        .collect();
    let [(near_server, near), (_far_server, far)] = &nodes[..] else { panic!() };
    let mut writer = written(lab.left(), near, "radar", 5_000);
    let request = ReaderQoS { through: Path::PathMulticast, ..on_write() };
    let mut reader = attached(lab.right(), far, "radar", request);
    for n in 1..=10u8 {
        writer.write(&[n; 5_000]).unwrap();
        assert_eq!(until(&mut reader, n.into()), [n; 5_000]);
    }
    let pushes = near_server.pushes(10);
    assert!(
        pushes.len() == 1 && pushes[0].node.starts_with("group [ff12::77:") && pushes[0].counts.refused == 0,
        "nothing went to nodes apart: {pushes:?}"
    );
}

/// The left host's datagrams to groups get a queue of their own with this length. With length 0
/// they are lost, and no other datagrams.
fn queue_of_groups(lab: &Lab, places: u32) {
    let (host, interface) = (lab.left().namespace(), lab.left().interface());
    let tc = |words: &str| {
        let words = format!("-n {host} {}", words.replace("DEV", interface));
        let done = std::process::Command::new(isorb_netlab::tool_place("tc")).args(words.split(' ')).output();
        let done = done.unwrap();
        assert!(done.status.success(), "tc {words}: {}", String::from_utf8_lossy(&done.stderr));
    };
    tc("qdisc del dev DEV root");
    tc("qdisc add dev DEV root handle 1: htb default 10");
    for class in [10, 11] {
        tc(&format!("class add dev DEV parent 1: classid 1:{class} htb rate 100mbit"));
    }
    tc(&format!("qdisc add dev DEV parent 1:11 handle 111: pfifo limit {places}"));
    tc("filter add dev DEV parent 1: protocol ip prio 1 u32 match ip dst 239.0.0.0/8 flowid 1:11");
}

/// A silent group is replaced by a separate channel and tried again; when it works, its readers
/// return to it. They always see values in order.
#[test]
fn a_group_that_works_again_is_joined_again() {
    let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let silence = Duration::from_secs(3);
    let near = node_with(lab.left(), "near", &glob, (None, None), silence);
    let far = node_with(lab.right(), "far", &glob, (None, None), silence);
    let mut writer = written(lab.left(), &near.1, "radar", 5_000);
    let request = ReaderQoS { through: Path::PathMulticast, ..on_write() };
    let sure = ReaderQoS { guaranteed: true, deadline: 500_000_000, ..request };
    let mut readers = [request, sure].map(|request| (attached(lab.right(), &far.1, "radar", request), 0_u64));
    // The number of channels to groups, and to the node separately.
    let pushed = || {
        let pushes = near.0.pushes(10);
        let groups = pushes.iter().filter(|push| push.node.starts_with("group")).count();
        (groups, pushes.len() - groups)
    };
    let mut out = vec![0; 5_000];
    let mut until = |what: &str, so: &dyn Fn((usize, usize)) -> bool, more: u64| {
        let (deadline, begun) = (Deadline::after(4 * TIMEOUT), writer.sequence());
        while !so(pushed()) || readers.iter().any(|(_, seen)| *seen < begun + more) {
            assert!(!deadline.is_past(), "{what}: {:?}", near.0.pushes(10));
            let last = writer.write(&vec![(writer.sequence() + 1) as u8; 5_000]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            for (reader, seen) in &mut readers {
                let Ok(sample) = reader.latest(&mut out) else { continue };
                assert!((*seen..=last).contains(&sample.source), "{} after {seen}", sample.source);
                assert!(out.iter().all(|octet| *octet == sample.source as u8), "torn");
                *seen = sample.source;
            }
        }
    };
    until("by groups", &|pushed| pushed == (2, 0), 10);
    queue_of_groups(&lab, 0);
    until("apart", &|pushed| pushed == (0, 2), 10);
    until("tried", &|(groups, apart)| groups > 0 && apart == 2, 0);
    let in_vain = |(groups, apart): (usize, usize)| {
        assert_eq!(apart, 2, "no reader goes over to a group that brings nothing");
        groups == 0
    };
    until("in vain, which disturbs no reader", &in_vain, 10);
    queue_of_groups(&lab, 1000);
    until("by groups again", &|pushed| pushed == (2, 0), 50);
}
