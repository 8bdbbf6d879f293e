//! How long a value takes to another node, beside a bare program with the same hand-overs; and what
//! attaching costs.
//!
//! `cargo run --release -p isorb-reflective-memory --example measure [values [areas]]`. Both nodes
//! are in this process, over loopback. The bare program hands over as the service does: eventfd to
//! a thread that copies and sends, a thread that receives and copies, a futex to the reader.
//! Service and bare program alternate in blocks.

use isorb::{Config, Orb, Reference};
use isorb_reflective_memory::Library;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::{Geometry, Segment};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::time::{Deadline, now_ns};
use rustix::event::{EventfdFlags, eventfd};
use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const READER_QOS: ReaderQoS = ReaderQoS {
    how: Mode::PushOnWrite,
    period: 0,
    deadline: 0,
    histories: 1,
    guaranteed: false,
    soft: true,
    through: Path::PathUdp,
    parity: 0,
    type_hash: 0,
};

fn main() -> Result<(), Box<dyn Error>> {
    let values: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let orb = || -> isorb::Result<Orb> {
        let orb = Orb::with_config(Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() })?;
        orb.root_poa()?;
        let background = orb.clone();
        std::thread::spawn(move || background.run());
        Ok(orb)
    };
    let glob = Coordinator::start(&orb()?, Arc::new(MemoryStore::default()))?.object().object().to_string();
    let start = |name: &str| -> Result<(NodeServer, Library), Box<dyn Error>> {
        let orb = orb()?;
        let socket = std::env::temp_dir().join(format!("isorb-memory-measure-{}-{name}", std::process::id()));
        let mut config = ServerConfig::new(name, &socket);
        // Loopback is no slow link.
        config.admission.link_bits_per_s = 100_000_000_000;
        let server = NodeServer::start(&orb, config, Some(orb.resolve::<Glob_CommRef>(&glob)?))?;
        Ok((server, Library::connect(&orb, &socket)?))
    };
    let ((_near_server, near), (_far_server, far)) = (start("near")?, start("far")?);
    println!(
        "{:>7} {:>15} {:>12} {:>7} {:>15}",
        "bytes", "service p50 us", "bare p50 us", "ratio", "service p99 us"
    );
    for size in [64, 1024, 8192] {
        let (mut service, mut bare) = (Vec::new(), Vec::new());
        let name = format!("measured-{size}");
        near.create_area(&Area::new(&name, size as u32, 1))?;
        let mut writer = near.map_writer(&name, WriterQoS { period: 0, size: 0, type_hash: 0 })?;
        let mut reader = far.attach_reader(&name, READER_QOS)?;
        let mut value = vec![7; size];
        for _ in 0..6 {
            for _ in 0..values / 6 {
                let at = now_ns();
                let number = writer.write(&value)?;
                loop {
                    let _ = reader.wait(Duration::from_secs(2));
                    if reader.latest(&mut value).is_ok_and(|sample| sample.source >= number) {
                        break;
                    }
                }
                service.push(now_ns() - at);
            }
            bare.extend(bare_block(size, values / 6)?);
        }
        service.sort_unstable();
        bare.sort_unstable();
        let us = |samples: &[u64], part: usize| samples[samples.len() * part / 100] as f64 / 1e3;
        let (s, b) = (us(&service, 50), us(&bare, 50));
        println!("{size:>7} {s:>15.1} {b:>12.1} {:>7.2} {:>15.1}", s / b, us(&service, 99));
    }
    let areas = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(300);
    attaching(&near, &far, areas)
}

/// Writer, sending thread, receiving thread, reader: no protocol, no scheduling.
fn bare_block(size: usize, values: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let (source, replica) = (
        Segment::create("bare", Geometry::new(size, 1)?)?,
        Segment::create("bare", Geometry::new(size, 1)?)?,
    );
    let doorbell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let (to, from) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    to.set_read_timeout(Some(Duration::from_millis(200)))?;
    let target = to.local_addr()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (mut read, rung, ends) = (source.reader()?, doorbell.clone(), stop.clone());
    let poller = Poller::new()?;
    poller.add(&*rung, 1, Interest::READ, Trigger::Edge)?;
    let sending = std::thread::spawn(move || {
        let mut events = Events::<4>::new();
        let mut value = vec![0; size];
        while !ends.load(Ordering::Acquire) {
            let _ =
                poller.wait(&mut events, Deadline::after(Duration::from_millis(100))).map(Iterator::count);
            if read.has_new() && read.latest(&mut value).is_ok() {
                for piece in value.chunks(1384) {
                    let _ = from.send_to(piece, target);
                }
            }
        }
    });
    let (mut write, ends) = (replica.writer()?, stop.clone());
    let receiving = std::thread::spawn(move || {
        let mut piece = vec![0; 2000];
        let mut filled = 0;
        while !ends.load(Ordering::Acquire) {
            let Ok((len, _)) = to.recv_from(&mut piece) else { continue };
            let _ = write.draft().put(filled, &piece[..len]);
            filled += len;
            if filled == size {
                let _ = write.publish(size, now_ns());
                filled = 0;
            }
        }
    });
    let (mut writer, mut reader) = (source.writer()?, replica.reader()?);
    let mut value = vec![7; size];
    let mut samples = Vec::new();
    for _ in 0..values {
        let at = now_ns();
        writer.write(&value)?;
        rustix::io::write(&*doorbell, &1u64.to_ne_bytes())?;
        reader.wait(Deadline::after(Duration::from_secs(2)))?;
        reader.latest(&mut value)?;
        samples.push(now_ns() - at);
    }
    stop.store(true, Ordering::Release);
    sending.join().map_err(|_| "the sending thread failed")?;
    receiving.join().map_err(|_| "the receiving thread failed")?;
    Ok(samples)
}

/// Many areas, a guaranteed reader each on the other node; then many readers of one.
fn attaching(near: &Library, far: &Library, areas: usize) -> Result<(), Box<dyn Error>> {
    let mut held = Vec::new();
    let mut guaranteed = Vec::new();
    let request = ReaderQoS { guaranteed: true, deadline: 900_000_000, ..READER_QOS };
    for number in 0..areas {
        let name = format!("area-{number}");
        near.create_area(&Area::new(&name, 64, 1))?;
        let writer = near.map_writer(&name, WriterQoS { period: 1_000_000_000, size: 0, type_hash: 0 })?;
        let start = Instant::now();
        match far.attach_reader(&name, request) {
            Ok(reader) => {
                guaranteed.push(start.elapsed());
                if guaranteed.len().is_multiple_of(100) {
                    println!("guaranteed attach with {} admitted: {:.1?}", guaranteed.len(), start.elapsed());
                }
                held.push((writer, reader));
            }
            Err(error) => {
                println!("after {} guaranteed channels: {error}", held.len());
                break;
            }
        }
    }
    if let (Some(first), Some(last)) = (guaranteed.first(), guaranteed.last()) {
        println!("guaranteed attach: first {first:.1?}, with {} admitted {last:.1?}", guaranteed.len());
    }
    let mut best_effort = Vec::new();
    let mut readers = Vec::new();
    for number in 0..200 {
        let start = Instant::now();
        // Another parity each time, so that no replica is shared.
        readers.push(far.attach_reader("area-0", ReaderQoS { parity: number, ..READER_QOS })?);
        best_effort.push(start.elapsed());
    }
    best_effort.sort();
    println!("best-effort attach to another node, p50: {:.1?}", best_effort[100]);
    let (start, many) = (Instant::now(), 10_000);
    for _ in 0..many {
        readers.push(near.attach_reader("area-0", READER_QOS)?);
    }
    println!("best-effort attach within the node, mean of {many} readers: {:.1?}", start.elapsed() / many);
    Ok(())
}
