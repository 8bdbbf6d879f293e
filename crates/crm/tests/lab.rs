//! Two nodes in two network namespaces with a link of 10 Mbit/s: what is admitted is executed, what is not is refused.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_crm::coordinator::{Coordinator, MemoryStore};
use isorb_crm::idl::{Area, Mode, Path, ReaderQoS, WriterQoS};
use isorb_crm::node::NodeServer;
use isorb_crm::{AreaWriter, Error, Library};
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use world::{node_on, orb_on};

const LINK_KBIT: u32 = 10_000;

fn node(host: &Host, name: &str, glob: &str) -> (NodeServer, Library) {
    node_on(host, &orb_on(host, None), name, glob, |config| {
        config.admission.link_bits_per_s = u64::from(LINK_KBIT) * 1000;
        // The machine may be busy for long.
        config.silence = Duration::from_secs(30);
    })
}

const DEADLINE: Duration = Duration::from_millis(100);

/// How late a thread of the same class wakes up at the latest.
fn noise(stop: &AtomicBool) -> Duration {
    let mut latest = Duration::ZERO;
    while !stop.load(Ordering::Acquire) {
        let (start, nap) = (Instant::now(), Duration::from_millis(1));
        std::thread::sleep(nap);
        latest = latest.max(start.elapsed().saturating_sub(nap));
    }
    latest
}

#[test]
fn admitted_channels_cross_a_narrow_link_beside_best_effort() {
    let spec = LinkSpec { rate_kbit: LINK_KBIT, sorting: Sorting::one_queue() };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let ((_near_server, near), (_far_server, far)) =
        (node(lab.left(), "near", &glob), node(lab.right(), "far", &glob));

    // 4 KiB every 100 ms are a third of a megabit: some twenty fit.
    let wish = ReaderQoS {
        how: Mode::PushOnWrite,
        period: 0,
        deadline: DEADLINE.as_nanos() as u64,
        histories: 1,
        guaranteed: true,
        through: Path::PathUdp,
        parity: 0,
    };
    let mut lines = Vec::new();
    let mut admit = |name: String| -> Result<(), Error> {
        // Calls are made from within the host: they open connections.
        let make = || -> Result<AreaWriter, Error> {
            near.create_area(&Area { name: name.clone(), size: 4096, histories: 1 })?;
            near.map_writer(&name, WriterQoS { period: 100_000_000, size: 0 })
        };
        let writer = lab.left().run(make).unwrap().unwrap();
        let reader = lab.right().run(|| far.attach_reader(&name, wish)).unwrap()?;
        lines.push((writer, reader));
        Ok(())
    };
    let refusal =
        (0..100).find_map(|number| admit(format!("rt-{number}")).err()).expect("the link has an end");
    let Error::NotAdmitted(refusal) = refusal else { panic!("{refusal}") };
    assert!(refusal.reason.contains("link") && refusal.reason.contains("node near"), "{}", refusal.reason);
    assert!((8..25).contains(&lines.len()), "{} channels of 0.34 Mbit/s in 10", lines.len());

    // Best effort that would fill the link many times over.
    let make = || -> Result<AreaWriter, Error> {
        near.create_area(&Area { name: "bulk".into(), size: 60_000, histories: 1 })?;
        near.map_writer("bulk", WriterQoS { period: 0, size: 0 })
    };
    let mut bulk = lab.left().run(make).unwrap().unwrap();
    let best_effort = ReaderQoS { guaranteed: false, ..wish };
    let mut bulk_reader = lab.right().run(|| far.attach_reader("bulk", best_effort)).unwrap().unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let noise = std::thread::spawn({
        let stop = stop.clone();
        move || noise(&stop)
    });
    let start = Instant::now();
    let (mut value, mut rounds) = (vec![0; 60_000], 0_u64);
    while start.elapsed() < Duration::from_secs(3) {
        rounds += 1;
        for (writer, _) in &mut lines {
            writer.write(&[rounds as u8; 4096]).unwrap();
        }
        for _ in 0..10 {
            bulk.write(&vec![rounds as u8; 60_000]).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Release);
    let noise = noise.join().unwrap();
    let quiet = noise < DEADLINE / 4;
    if !quiet {
        println!("SKIPPED: whether every value arrived; threads woke up {noise:?} late");
    }
    for (writer, reader) in &mut lines {
        let sample = reader.latest(&mut value).unwrap();
        assert!(value[..sample.len].iter().all(|octet| *octet == sample.source as u8), "torn");
        let statistics = lab.right().run(|| reader.statistics()).unwrap().unwrap();
        // How many rounds come late depends on the machine; that the last one is there does not.
        assert_eq!(sample.source, writer.sequence(), "{statistics:?}");
        // Threads that wake up late let a value be overtaken by the next.
        assert!(statistics.values >= rounds || !quiet, "{statistics:?} of {rounds}, {noise:?} late");
    }
    let sample = bulk_reader.latest(&mut value).unwrap();
    assert!(sample.len == 60_000 && value[1..].iter().all(|octet| *octet == value[0]), "torn");
    println!(
        "{} guaranteed channels, {rounds} rounds; bulk {} of {}",
        lines.len(),
        sample.sequence,
        bulk.sequence()
    );
}
