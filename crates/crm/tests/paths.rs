//! Two nodes with two links between them: when one is cut, a channel goes on over the other, and comes back.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::{Config, Orb, Reference};
use isorb_crm::coordinator::{Coordinator, MemoryStore};
use isorb_crm::idl::Glob_CommRef;
use isorb_crm::memory::State;
use isorb_crm::node::{NodeServer, ServerConfig};
use isorb_crm::{AreaReader, Library};
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_rt::time::Deadline;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use world::{PATIENCE, QOS, area, on_write, until, until_state};

fn orb(host: &Host) -> Orb {
    let address = host.address();
    host.run(move || {
        let orb = Orb::with_config(Config { endpoints: vec![format!("{address}:0")], ..Config::default() });
        orb.root_poa().unwrap();
        let background = orb.clone();
        std::thread::spawn(move || background.run());
        orb
    })
    .unwrap()
}

fn node(host: &Host, name: &str, glob: &str, second: Option<&str>) -> (NodeServer, Library) {
    let orb = orb(host);
    // The host's name is the lab's own.
    let socket = std::env::temp_dir().join(format!("{}-{name}.socket", host.namespace()));
    let mut config = ServerConfig::new(name, &socket);
    config.dispatcher.udp = (IpAddr::V4(host.address()), 0).into();
    config.dispatcher.second = second.map(|address| (address.parse::<IpAddr>().unwrap(), 0).into());
    config.silence = Duration::from_secs(3);
    host.run(|| {
        let glob = orb.resolve::<Glob_CommRef>(glob).unwrap();
        let server = NodeServer::start(&orb, config, Some(glob)).unwrap();
        (server, Library::connect(&orb, &socket).unwrap())
    })
    .unwrap()
}

/// The hosts get a second link.
fn second_link(lab: &Lab) {
    let (left, right) = (lab.left().namespace(), lab.right().namespace());
    let ip = |arguments: String| {
        let done = std::process::Command::new("ip").args(arguments.split(' ')).output().unwrap();
        assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    };
    ip(format!("-n {left} link add eth1 type veth peer name eth1 netns {right}"));
    for (namespace, address) in [(left, "10.78.0.1"), (right, "10.78.0.2")] {
        ip(format!("-n {namespace} addr add {address}/24 dev eth1"));
        ip(format!("-n {namespace} link set eth1 up"));
    }
}

struct Nodes {
    _near: (NodeServer, Library),
    far: (NodeServer, Library),
    writer: isorb_crm::AreaWriter,
    reader: AreaReader,
}

fn nodes(lab: &Lab, second: [Option<&str>; 2]) -> Nodes {
    let coordinator = orb(lab.left());
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let near = node(lab.left(), "near", &glob, second[0]);
    let far = node(lab.right(), "far", &glob, second[1]);
    let make = || {
        near.1.create_area(&area("line", 5_000)).unwrap();
        near.1.map_writer("line", QOS).unwrap()
    };
    let mut writer = lab.left().run(make).unwrap();
    let mut reader = lab.right().run(|| far.1.attach_reader("line", on_write()).unwrap()).unwrap();
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
    let deadline = Deadline::after(PATIENCE);
    while switches(&nodes) < 2 {
        assert!(!deadline.is_past(), "it does not come back to the first path");
        std::thread::sleep(Duration::from_millis(20));
    }
    nodes.writer.write(&[21; 5_000]).unwrap();
    assert_eq!(until(&mut nodes.reader, 21), [21; 5_000]);
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
