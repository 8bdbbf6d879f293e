//! Several nodes into one: what their guaranteed channels send together has to fit into the
//! reader's port.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::Net;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, ReaderQoS, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter, Error};
use std::sync::Arc;
use std::time::Duration;
use world::{SILENCE, node_on, orb_on, until};

/// 8 KiB each 10 ms are 6.9 Mbit/s with what surrounds them.
const SIZE: u32 = 8_192;
const PERIOD: Duration = Duration::from_millis(10);
const LINK_BITS_PER_S: u64 = 10_000_000;

#[test]
fn the_readers_port_admits_no_more_than_it_carries_from_all_nodes_together() {
    let Some(net) = Net::build_or_skip(4) else { return };
    let coordinator = orb_on(net.host(0), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let nodes: Vec<_> = (0..4)
        .map(|number| {
            let host = net.host(number);
            node_on(host, &orb_on(host, None), &format!("node-{number}"), &glob, |config| {
                config.admission.link_bits_per_s = LINK_BITS_PER_S;
                config.silence = SILENCE;
            })
        })
        .collect();
    let reader = &nodes[0].1;
    let open = |number: usize| -> Result<(AreaWriter, AreaReader), Error> {
        let (name, library) = (format!("area-{number}"), &nodes[number].1);
        let make = || {
            library.open_or_create(&Area::new(&name, SIZE, 1))?;
            library.map_writer(&name, WriterQoS::every(PERIOD))
        };
        let writer = net.host(number).run(make).unwrap()?;
        let qos = ReaderQoS::on_write().guaranteed(Duration::from_millis(200)).soft();
        let reader = net.host(0).run(|| reader.attach_reader(&name, qos)).unwrap()?;
        Ok((writer, reader))
    };
    let first = open(1).unwrap();
    for number in [2, 3] {
        let Err(Error::NotAdmitted(refusal)) = open(number) else { panic!("node {number} was admitted") };
        assert_eq!(refusal.resource, "port");
        let reason = &refusal.reason;
        assert!(reason.contains("node node-0") && reason.contains("Mbit/s"), "{reason}");
        assert!(refusal.nearest_period > PERIOD.as_nanos() as u64, "{reason}");
    }
    // The one that was admitted works, and its end makes room.
    let (mut writer, mut values) = first;
    let last = writer.write(&[7; SIZE as usize]).unwrap();
    assert_eq!(until(&mut values, last), [7; SIZE as usize]);
    net.host(0).run(|| drop(values)).unwrap();
    net.host(1).run(|| drop(writer)).unwrap();
    open(2).unwrap();
}
