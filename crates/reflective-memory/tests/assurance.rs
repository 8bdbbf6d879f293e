//! A guarantee is what it is called: without a real-time class or measured costs it is refused,
//! unless the reader accepts a soft one.

mod world;

use isorb_reflective_memory::Error;
use isorb_reflective_memory::admission::NodeConfig;
use isorb_reflective_memory::idl::{NodeReport, Path, ReaderQoS};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use std::time::Duration;
use world::*;

fn sure() -> ReaderQoS {
    ReaderQoS::on_write().guaranteed(Duration::from_millis(500))
}

/// A world in which these nodes assure their timing as far as they can.
fn world(measured: [bool; 2], class: [SchedClass; 2]) -> World {
    World::configured(Box::new(move |node, config| {
        config.silence = SILENCE;
        config.dispatcher.class = class[node];
        config.admission = NodeConfig { measured: measured[node], ..config.admission };
    }))
}

fn refusal(world: &World) -> String {
    refusal_by(world, Path::PathUdp)
}

fn refusal_by(world: &World, path: Path) -> String {
    match world.library(1).attach_reader("line", sure().through(path)) {
        Err(Error::NotAdmitted(error)) if error.resource == "assurance" => error.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn guessed_costs_or_ordinary_threads_assure_nothing() {
    let ordinary = SchedClass::Other;
    let world = world([true, true], [ordinary; 2]);
    let near = world.library(0);
    near.create_area(&area("line", 64)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let reason = refusal(&world);
    assert!(reason.contains("node far") && reason.contains("--priority"), "{reason}");
    assert!(!reason.contains("--costs") && reason.contains("--soft"), "{reason}");
    // A reader that says so gets the guarantee as what it is.
    let far = world.library(1);
    let mut reader = far.attach_reader("line", sure().soft()).unwrap();
    let last = writer.write(b"soft").unwrap();
    assert_eq!(until(&mut reader, last), b"soft");
    let NodeReport { replicas, .. } = far.report(10).unwrap();
    assert!(replicas.len() == 1 && replicas[0].guaranteed && replicas[0].soft, "{replicas:?}");
    // Without a guarantee there is nothing to assure.
    drop(reader);
    let plain = far.attach_reader("line", ReaderQoS::on_write()).unwrap();
    let NodeReport { replicas, .. } = far.report(10).unwrap();
    assert!(replicas.iter().all(|replica| !replica.guaranteed && !replica.soft), "{replicas:?}");
    drop(plain);
}

#[test]
fn both_nodes_have_to_assure_it() {
    let urgent = SchedClass::Fifo(5);
    if let Err(error) = ThreadSpec::new("urgent").class(urgent).spawn(|| ()) {
        println!("SKIPPED: no thread of a real-time class is granted here: {error}");
        return;
    }
    for (measured, missing) in
        [([true, true], None), ([false, true], Some("near")), ([true, false], Some("far"))]
    {
        let world = world(measured, [urgent; 2]);
        let near = world.library(0);
        near.create_area(&area("line", 64)).unwrap();
        let mut writer = near.map_writer("line", QOS).unwrap();
        match missing {
            Some(node) => {
                for path in [Path::PathUdp, Path::PathOrb, Path::PathOneway] {
                    let reason = refusal_by(&world, path);
                    assert!(
                        reason.contains(&format!("node {node}")) && reason.contains("--costs"),
                        "{reason}"
                    );
                }
            }
            None => {
                let far = world.library(1);
                for path in [Path::PathUdp, Path::PathOrb, Path::PathOneway] {
                    let mut reader = far.attach_reader("line", sure().through(path)).unwrap();
                    let NodeReport { replicas, .. } = far.report(10).unwrap();
                    assert!(replicas[0].guaranteed && !replicas[0].soft, "{replicas:?}");
                    let last = writer.write(b"sure").unwrap();
                    assert_eq!(until(&mut reader, last), b"sure");
                }
            }
        }
        // A refusal leaves nothing behind at either node.
        if missing.is_some() {
            let nodes = [&world.near, &world.far].map(|node| node.as_ref().unwrap().status(1).0.guaranteed);
            assert_eq!((nodes, world.near.as_ref().unwrap().counts().3), ([0, 0], 0));
        }
    }
}
