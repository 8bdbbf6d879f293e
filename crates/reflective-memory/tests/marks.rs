//! Datagrams are marked by their class: a guaranteed channel crosses a link that other traffic
//! floods, where switches and queues go by the marks. Best effort is the control.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::{Lab, LinkSpec, Sorting};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, ReaderQoS, Statistics, WriterQoS};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use world::{SILENCE, node_on, orb_on};

const LINK_KBIT: u32 = 2_000;
const VALUES: u64 = 120;

/// Statistics of a guaranteed reader and of one of best effort.
fn flooded(sorting: Sorting) -> Option<[Statistics; 2]> {
    let lab = Lab::build_or_skip(&LinkSpec { rate_kbit: LINK_KBIT, sorting })?;
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let node = |host, name| {
        node_on(host, &orb_on(host, None), name, &glob, |config| {
            config.admission.link_bits_per_s = u64::from(LINK_KBIT) * 1000;
            config.silence = SILENCE;
        })
    };
    let ((_near_server, near), (_far_server, far)) = (node(lab.left(), "near"), node(lab.right(), "far"));
    let sure = ReaderQoS::on_write().guaranteed(Duration::from_millis(900)).soft();
    let mut lines = [("sure", sure), ("plain", ReaderQoS::on_write())].map(|(name, qos)| {
        let make = || {
            near.create_area(&Area::new(name, 64, 1))?;
            near.map_writer(name, WriterQoS::every(Duration::from_millis(20)))
        };
        let writer = lab.left().run(make).unwrap().unwrap();
        (writer, lab.right().run(|| far.attach_reader(name, qos)).unwrap().unwrap())
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = lab.left().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
            while !stop.load(Ordering::Acquire) {
                // Twice what the link carries.
                (0..4).for_each(|_| drop(socket.send_to(&[0; 1_200], (lab.right().address(), 9))));
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        for _ in 0..VALUES {
            for (writer, _) in &mut lines {
                writer.write(&[1; 64]).unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Release);
    });
    // The calls for statistics cross the flooded link, too.
    std::thread::sleep(Duration::from_secs(1));
    Some(lines.map(|(_, reader)| lab.right().run(|| reader.statistics()).unwrap().unwrap()))
}

#[test]
fn switches_know_guaranteed_datagrams_by_their_code_point() {
    let Some([sure, plain]) = flooded(Sorting::urgent(46)) else { return };
    println!("{sure:?}\n{plain:?}");
    assert_eq!(sure.lost, 0, "{sure:?}");
    assert!(plain.lost > 0, "the control must fail: {plain:?}");
}

#[test]
fn the_own_interface_knows_them_by_their_priority() {
    let Some([sure, plain]) = flooded(Sorting::BySocketPriority) else { return };
    println!("{sure:?}\n{plain:?}");
    assert_eq!(sure.lost, 0, "{sure:?}");
    assert!(sure.worst_age < plain.worst_age, "{} and {}", sure.worst_age, plain.worst_age);
}
