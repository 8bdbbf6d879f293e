//! Incast: several nodes send into one port as much as it admits, all at the same moments. Admitted
//! channels lose nothing and meet their deadlines. As control, the reader's node takes its port for
//! ten times as wide and admits more than it carries: then channels lose values or miss deadlines.
//!
//! A run takes `ISORB_INCAST_SECONDS`, 5 if it is not set. Skipped with a message where there is no
//! right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::{LinkSpec, Net, Sorting};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, ReaderQoS, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter, Error};
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{SILENCE, node_on, orb_on, until};

const PORT_KBIT: u32 = 10_000;
const SIZE: usize = 4_096;
const PERIOD: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_millis(400);
/// Channels that have 14 of the port's 10 Mbit/s together.
const TOO_MANY: usize = 40;

/// What the channels of a run did.
#[derive(Debug, Default)]
struct Run {
    channels: usize,
    values: u64,
    lost: u64,
    skipped: u64,
    /// How often a value was older than deadline and period together.
    stale: u64,
    worst_age: Duration,
    /// How late the writing thread woke up.
    noise: Duration,
}

impl Run {
    fn is_kept(&self) -> bool {
        self.lost == 0 && self.skipped == 0 && self.stale == 0 && self.worst_age <= DEADLINE
    }
}

/// Channels of `senders` nodes into the port of one, opened in turn until one is refused; with
/// `forced`, so many whatever the port carries. Each is written once a period.
fn run(senders: usize, forced: Option<usize>, seconds: u64) -> Option<Run> {
    let net = Net::build_or_skip(senders + 1)?;
    net.limit(0, &LinkSpec { rate_kbit: PORT_KBIT, sorting: Sorting::one_queue() }).unwrap();
    let coordinator = orb_on(net.host(0), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let nodes: Vec<_> = (0..=senders)
        .map(|number| {
            let host = net.host(number);
            node_on(host, &orb_on(host, None), &format!("node-{number}"), &glob, |config| {
                let factor = if forced.is_some() { 10 } else { 1 };
                config.admission.link_bits_per_s = u64::from(PORT_KBIT) * 1000 * factor;
                config.silence = SILENCE;
            })
        })
        .collect();
    let reading = &nodes[0].1;
    let mut lines: Vec<(AreaWriter, AreaReader)> = Vec::new();
    let most = forced.unwrap_or(usize::MAX);
    while lines.len() < most {
        let number = 1 + lines.len() % senders;
        let (name, library) = (format!("area-{}", lines.len()), &nodes[number].1);
        let make = || -> Result<AreaWriter, Error> {
            library.create_area(&Area::new(&name, SIZE as u32, 2))?;
            library.map_writer(&name, WriterQoS::every(PERIOD))
        };
        let writer = net.host(number).run(make).unwrap().unwrap();
        let qos = ReaderQoS::on_write().guaranteed(DEADLINE).soft();
        match net.host(0).run(|| reading.attach_reader(&name, qos)).unwrap() {
            Ok(reader) => lines.push((writer, reader)),
            Err(Error::NotAdmitted(refusal)) if forced.is_none() => {
                assert!(["port", "link"].contains(&&*refusal.resource), "{}", refusal.reason);
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut run = Run { channels: lines.len(), ..Run::default() };
    let (start, octets) = (Instant::now(), vec![7; SIZE]);
    while start.elapsed() < Duration::from_secs(seconds) {
        // All of them at once, the worst case of the port.
        for (writer, _) in &mut lines {
            writer.write(&octets).unwrap();
        }
        let before = Instant::now();
        std::thread::sleep(PERIOD);
        run.noise = run.noise.max(before.elapsed().saturating_sub(PERIOD));
    }
    for (writer, reader) in &mut lines {
        if forced.is_none() {
            assert!(until(reader, writer.sequence()).iter().all(|octet| *octet == 7));
        }
        let statistics = net.host(0).run(|| reader.statistics()).unwrap().unwrap();
        run.values += statistics.values;
        run.lost += statistics.lost;
        run.skipped += statistics.skipped;
        run.stale += statistics.stale;
        run.worst_age = run.worst_age.max(Duration::from_nanos(statistics.worst_age));
    }
    Some(run)
}

fn incast(senders: usize) {
    let seconds = std::env::var("ISORB_INCAST_SECONDS").map_or(5, |text| text.parse().expect("seconds"));
    let mut late = Vec::new();
    let channels = loop {
        let Some(run) = run(senders, None, seconds) else { return };
        println!("{senders} senders, {seconds} s: {run:?}");
        assert!(run.channels >= senders.min(4), "{run:?}");
        if run.is_kept() {
            break run.channels;
        }
        late.push(run);
        // Where ordinary threads wake up late, once says nothing.
        let quiet = late.iter().filter(|run| run.noise < DEADLINE / 8).count();
        assert!(quiet < 2, "admitted channels lost values or were late: {late:?}");
        if late.len() == 5 {
            println!("SKIPPED: whether admitted channels are in time; threads woke up too late: {late:?}");
            return;
        }
    };
    let Some(run) = run(senders, Some((2 * channels).max(TOO_MANY)), seconds.min(30)) else { return };
    println!("{senders} senders, the control: {run:?}");
    assert!(!run.is_kept(), "the control must fail: {run:?}");
}

#[test]
fn two_senders() {
    incast(2);
}

#[test]
fn four_senders() {
    incast(4);
}

#[test]
fn eight_senders() {
    incast(8);
}
