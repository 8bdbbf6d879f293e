//! A value written at one node and read at another.
#![forbid(unsafe_code)]

use isorb::Orb;
use isorb_reflective_memory::Library;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::State;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// An ORB that serves.
fn orb() -> Result<Orb, Box<dyn Error>> {
    let orb = Orb::builder().build()?;
    orb.root_poa()?.manager().activate()?;
    Ok(orb)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let socket = |node: &str| folder.path().join(format!("{node}.socket"));

    // One coordinator for the system, one server for each node. In a plant these are processes:
    // `isorb memory-coordinator` and `isorb memory-server`.
    let centre = orb()?;
    let coordinator = Coordinator::start(&centre, Arc::new(MemoryStore::default()))?;
    let node = |name: &str| -> Result<(Orb, NodeServer), Box<dyn Error>> {
        let orb = orb()?;
        let coordinator = orb.resolve(&coordinator.object().to_string())?;
        let server = NodeServer::start(&orb, ServerConfig::new(name, socket(name)), Some(coordinator))?;
        Ok((orb, server))
    };
    let (plant, display) = (node("plant")?, node("display")?);

    // The writer's program, at the plant. It promises a value each 10 ms.
    let library = Library::connect(&plant.0, socket("plant"))?;
    library.open_or_create(&Area::new("tank/1", 64, 2))?;
    let mut writer = library.map_writer("tank/1", WriterQoS { period: 10_000_000, size: 0, type_hash: 0 })?;

    // The reader's program, at the display. It asks for a guarantee, and is admitted or refused.
    let library = Library::connect(&display.0, socket("display"))?;
    let qos = ReaderQoS {
        how: Mode::PushOnWrite,
        period: 0,
        deadline: 50_000_000,
        histories: 1,
        guaranteed: true,
        // This machine may grant no real-time class, and its costs were not measured.
        soft: true,
        through: Path::PathUdp,
        parity: 0,
        type_hash: 0,
    };
    let mut reader = library.attach_reader("tank/1", qos)?;

    // Writing is a copy into memory; it never waits.
    writer.write(b"level 2.5 m")?;
    let mut octets = [0; 64];
    let sample = loop {
        let _ = reader.wait(Duration::from_millis(100));
        if let Ok(sample) = reader.latest(&mut octets) {
            break sample;
        }
    };
    println!("value {}: {}", sample.sequence, String::from_utf8_lossy(&octets[..sample.len]));

    // A writer that is gone leaves its last value behind, and its readers are informed.
    drop(writer);
    while reader.state() != Some(State::WriterGone) {
        let _ = reader.wait(Duration::from_millis(100));
    }
    let sample = reader.latest(&mut octets)?;
    println!("the writer is gone, its last value stays: {}", String::from_utf8_lossy(&octets[..sample.len]));
    Ok(())
}
