//! Incast: several nodes send into one port as much as it admits, all at the same moments. Admitted
//! channels lose nothing and meet their deadlines. As control, the reader's node takes its port for
//! ten times as wide and admits more than it carries: then channels lose values or miss deadlines.
//!
//! A machine that lets ordinary threads wait makes values late, too. So each miss is put beside the
//! delays of threads that only sleep ([`noise`]), in the seconds from the value's writing to its
//! sight. Where they were late as well, the miss says nothing and is counted apart; all others fail
//! the test. Where that was so in more than a fifth of all seconds, the try says nothing.
//!
//! A run takes `ISORB_INCAST_SECONDS`, 5 if it is not set. Skipped with a message where there is no
//! right to make namespaces.

mod noise;
#[path = "../world/mod.rs"]
mod world;

use isorb::Reference;
use isorb_netlab::{Host, LinkSpec, Net, Sorting};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, ReaderQoS, Statistics, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter, Error};
use isorb_rt::time::now_ns;
use noise::Probe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use world::{SILENCE, node_on, orb_on, until};

const PORT_KBIT: u32 = 10_000;
const SIZE: usize = 4_096;
const PERIOD: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_millis(400);
/// Channels that have 14 of the port's 10 Mbit/s together.
const TOO_MANY: usize = 40;
/// A thread that wakes up so late explains a miss.
const LATE: Duration = DEADLINE.checked_div(8).unwrap();
/// The interval at which values are looked for.
const LOOK: Duration = Duration::from_millis(5);
/// So many misses are printed.
const PRINTED: usize = 10;

/// What the channels of a run did.
#[derive(Debug, Default)]
struct Run {
    channels: usize,
    values: u64,
    /// Values that were lost or overtaken, were too old when they came, or were not followed in
    /// time, while threads woke up in time.
    missed: u64,
    /// The same while they did not.
    explained: u64,
    /// The first ones that were not explained.
    misses: Vec<String>,
    /// The largest age that a value certainly had when it came.
    worst_age: Duration,
    seconds: u64,
    noisy_seconds: u64,
    /// The worst delay of a thread that only sleeps.
    noise: Duration,
}

impl Run {
    /// `count` misses between `from` and now.
    fn missed(&mut self, probe: &Probe, from: Instant, count: u64, what: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        let noise = probe.since(from);
        if noise > LATE {
            self.explained += count;
            return;
        }
        self.missed += count;
        if self.misses.len() < PRINTED {
            self.misses.push(format!("{}, threads at most {noise:?} late", what()));
        }
    }

    fn is_too_noisy(&self) -> bool {
        5 * self.noisy_seconds > self.seconds
    }
}

/// Looks at the readers' values and counts until `seconds` have passed.
fn watch(host: &Host, readers: &mut [AreaReader], seconds: u64, run: &mut Run) {
    let (probe, start) = (Probe::start(seconds), Instant::now());
    let statistics = |reader: &AreaReader| host.run(|| reader.statistics()).unwrap().unwrap();
    let mut before: Vec<Statistics> = readers.iter().map(statistics).collect();
    let (mut octets, mut counted) = (vec![0; SIZE], start);
    // What is there already has no age that is known. When a reader was looked at last.
    readers.iter_mut().for_each(|reader| _ = reader.latest(&mut octets));
    let mut looks = vec![now_ns(); readers.len()];
    while start.elapsed() < Duration::from_secs(seconds) {
        for (reader, looked) in readers.iter_mut().zip(&mut looks) {
            let look = now_ns();
            if reader.has_new()
                && let Ok(sample) = reader.latest(&mut octets)
            {
                assert!(octets[..sample.len].iter().all(|octet| *octet == 7), "torn");
                // It was not there at the last look: so old it was at least. That this thread woke
                // up late makes no value older.
                let age = Duration::from_nanos(looked.saturating_sub(sample.written_ns));
                run.worst_age = run.worst_age.max(age);
                let from = Instant::now().checked_sub(age + LOOK).unwrap_or(start);
                let late = u64::from(age > DEADLINE);
                run.missed(&probe, from, late, || {
                    format!("{}: value {} came {age:?} old", reader.name(), sample.source)
                });
            }
            *looked = look;
        }
        if counted.elapsed() >= Duration::from_secs(1) {
            for (reader, before) in readers.iter().zip(&mut before) {
                let now = statistics(reader);
                let more = [now.lost - before.lost, now.skipped - before.skipped, now.stale - before.stale];
                // What became stale was written a deadline and a period before.
                let from = counted.checked_sub(DEADLINE + PERIOD).unwrap_or(start);
                run.missed(&probe, from, more.iter().sum(), || {
                    let second = start.elapsed().as_secs();
                    format!("{}, second {second}: {more:?} lost, skipped, stale", reader.name())
                });
                *before = now;
            }
            counted = Instant::now();
        }
        std::thread::sleep(LOOK);
    }
    run.seconds = seconds;
    (run.noisy_seconds, run.noise) = probe.noisy(seconds, LATE);
    run.values = before.iter().map(|of| of.values).sum();
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
    let (mut writers, mut readers) = (Vec::<AreaWriter>::new(), Vec::<AreaReader>::new());
    let most = forced.unwrap_or(usize::MAX);
    while readers.len() < most {
        let number = 1 + readers.len() % senders;
        let (name, library) = (format!("area-{}", readers.len()), &nodes[number].1);
        let make = || -> Result<AreaWriter, Error> {
            library.create_area(&Area::new(&name, SIZE as u32, 2))?;
            library.map_writer(&name, WriterQoS::every(PERIOD))
        };
        let writer = net.host(number).run(make).unwrap().unwrap();
        let qos = ReaderQoS::on_write().guaranteed(DEADLINE).soft();
        match net.host(0).run(|| reading.attach_reader(&name, qos)).unwrap() {
            Ok(reader) => {
                writers.push(writer);
                readers.push(reader);
            }
            Err(Error::NotAdmitted(refusal)) if forced.is_none() => {
                assert!(["port", "link"].contains(&&*refusal.resource), "{}", refusal.reason);
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut run = Run { channels: readers.len(), ..Run::default() };
    let octets = vec![7; SIZE];
    let write = |writers: &mut [AreaWriter]| {
        // All of them at once, the worst case of the port.
        writers.iter_mut().for_each(|writer| _ = writer.write(&octets).unwrap());
        std::thread::sleep(PERIOD);
    };
    // Values flow before and after the watch, so that nothing is stale because it begins or ends.
    (0..5).for_each(|_| write(&mut writers));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            watch(net.host(0), &mut readers, seconds, &mut run);
            ends.store(true, Ordering::Release);
        });
        // Also where the watch has failed: the scope waits for it, not for this.
        let end = Instant::now() + Duration::from_secs(seconds + 30);
        while !ends.load(Ordering::Acquire) && Instant::now() < end {
            write(&mut writers);
        }
    });
    if forced.is_none() {
        for (writer, reader) in writers.iter().zip(&mut readers) {
            assert!(until(reader, writer.sequence()).iter().all(|octet| *octet == 7));
        }
    }
    Some(run)
}

fn incast(senders: usize) {
    let seconds = std::env::var("ISORB_INCAST_SECONDS").map_or(5, |text| text.parse().expect("seconds"));
    let (mut tries, mut missed) = (Vec::new(), 0);
    let channels = loop {
        let Some(run) = run(senders, None, seconds) else { return };
        println!("{senders} senders, {seconds} s: {run:?}");
        assert!(run.channels >= senders.min(4), "{run:?}");
        if run.missed == 0 && !run.is_too_noisy() {
            break run.channels;
        }
        // Noise that no thread of the probe met makes one try say nothing.
        missed += u32::from(run.missed > 0 && !run.is_too_noisy());
        tries.push(run);
        assert!(missed < 2, "admitted channels lost values or were late: {tries:?}");
        // Ten minutes are not tried as often as five seconds.
        if tries.len() == if seconds > 60 { 2 } else { 5 } {
            println!(
                "INCONCLUSIVE: whether admitted channels are in time; threads woke up too late: {tries:?}"
            );
            return;
        }
    };
    for _ in 0..3 {
        let forced = (2 * channels).max(TOO_MANY);
        let Some(run) = run(senders, Some(forced), seconds.min(30)) else { return };
        println!("{senders} senders, the control: {run:?}");
        if run.missed > 0 {
            return;
        }
        assert!(run.is_too_noisy(), "the control must fail: {run:?}");
    }
    println!("INCONCLUSIVE: whether the control fails; threads woke up too late");
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
