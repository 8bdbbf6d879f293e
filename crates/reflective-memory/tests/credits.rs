//! Best effort of other nodes runs on credits of a node that receives guaranteed channels, so that
//! it does not fill the queue before that node's port, by datagrams to one node and by multicast.
//! Without a guarantee it does; that is the control.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::{Lab, LinkSpec, Sorting};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Path, ReaderQoS, Statistics, WriterQoS};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use world::{SILENCE, node_on, orb_on};

const LINK_KBIT: u32 = 10_000;
const VALUES: u64 = 100;
const PERIOD: Duration = Duration::from_millis(20);
/// Nodes that flood the link. The socket of each holds about 90 packets, the link's queue 100.
const FLOODS: usize = 3;
const BULK: usize = 200_000;
const GROUP: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(239, 255, 78, 1), 7_400));

/// The statistics of a reader that gets values over a link beside the best effort of other nodes,
/// which know nothing of the link's rate, and how often those waited for credit.
fn beside_a_flood(qos: ReaderQoS, through: Path) -> Option<(Statistics, u64)> {
    let lab = Lab::build_or_skip(&LinkSpec { rate_kbit: LINK_KBIT, sorting: Sorting::one_queue() })?;
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let node = |host, name: &str, mbit: u64| {
        node_on(host, &orb_on(host, None), name, &glob, |config| {
            config.admission.link_bits_per_s = mbit * 1_000_000;
            config.dispatcher.multicast = Some(GROUP);
            config.silence = SILENCE;
        })
    };
    let (_sender, sender) = node(lab.left(), "sender", 10);
    let floods: Vec<_> =
        (0..FLOODS).map(|number| node(lab.left(), &format!("flood-{number}"), 10_000)).collect();
    let (_reading, reading) = node(lab.right(), "reading", 10);
    let line = |library: &isorb_reflective_memory::Library, name: &str, size: usize, qos: ReaderQoS| {
        let make = || {
            library.create_area(&Area::new(name, size as u32, 1))?;
            library.map_writer(name, WriterQoS::every(PERIOD))
        };
        let writer = lab.left().run(make).unwrap().unwrap();
        (writer, lab.right().run(|| reading.attach_reader(name, qos)).unwrap().unwrap())
    };
    let (mut urgent, reader) = line(&sender, "urgent", 1_000, qos);
    let mut bulk: Vec<_> = (floods.iter().enumerate())
        .map(|(number, (_, library))| {
            line(library, &format!("bulk-{number}"), BULK, ReaderQoS::on_write().through(through))
        })
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                for (writer, _) in &mut bulk {
                    writer.write(&[1; BULK]).unwrap();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        for _ in 0..VALUES {
            urgent.write(&[1; 1_000]).unwrap();
            std::thread::sleep(PERIOD);
        }
        stop.store(true, Ordering::Release);
    });
    // The call for statistics crosses the flooded link, too.
    std::thread::sleep(Duration::from_secs(1));
    let waited = floods.iter().flat_map(|(node, _)| node.pushes(10)).map(|push| push.counts.waited).sum();
    Some((lab.right().run(|| reader.statistics()).unwrap().unwrap(), waited))
}

fn does_not_drown(through: Path) {
    let sure = ReaderQoS::on_write().guaranteed(Duration::from_millis(400)).soft();
    let Some((statistics, waited)) = beside_a_flood(sure, through) else { return };
    println!("guaranteed: {statistics:?}, the flood waited {waited} times");
    assert!(statistics.lost == 0 && waited > 0, "{statistics:?}, {waited}");
    let Some((statistics, waited)) = beside_a_flood(ReaderQoS::on_write(), through) else { return };
    println!("control: {statistics:?}");
    assert!(statistics.lost > 0 && waited == 0, "the control must fail: {statistics:?}, {waited}");
}

#[test]
fn the_best_effort_of_other_nodes_does_not_drown_a_guarantee() {
    does_not_drown(Path::PathUdp);
}

#[test]
fn best_effort_by_multicast_does_not_drown_a_guarantee() {
    does_not_drown(Path::PathMulticast);
}
