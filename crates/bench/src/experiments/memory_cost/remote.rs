//! To another node: writer, server, wire, server, reader, and a bare program with the same
//! hand-overs, in blocks that take turns.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use isorb::{Orb, Reference};
use isorb_memory_area::{Geometry, Reader, Segment, Writer};
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Mode, ReaderQoS, WriterQoS};
use isorb_reflective_memory::{AreaReader, AreaWriter};
use isorb_rt::net::{Events, Interest, Poller, Trigger};
use isorb_rt::sched::SchedClass;
use isorb_rt::time::{Deadline, now_ns};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use super::attach::READER_QOS;
use super::{AGAIN, BARE, Context, MEMORY, PERIODIC, joined, refused, rows, thread};
use crate::blocks::{Rounds, interleave_all};
use crate::experiments::BenchError;
use crate::experiments::nodes::{self, Node, Orbs};
use crate::figure::Measured;

const SIZES: [usize; 3] = [64, 1 << 10, 8 << 10];
const BLOCKS: usize = 10;
/// Octets of a value in a datagram.
const PIECE: usize = 1384;
/// A value that did not come after so long is abandoned: both programs lose what the kernel drops.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The control: values go at intervals, whenever they were written.
const EACH_MS: ReaderQoS = ReaderQoS { how: Mode::PeriodicPush, period: 1_000_000, ..READER_QOS };

/// Two nodes over loopback, each with its processor where there are two.
pub struct Nodes {
    pub near: Node,
    pub far: Node,
    orbs: Orbs,
}

impl Nodes {
    pub fn start(cx: &Context<'_>) -> Result<Nodes, BenchError> {
        Nodes::with_heartbeat(cx, Duration::from_millis(100))
    }

    /// Agents that push nothing else say after so long that they live.
    pub fn with_heartbeat(cx: &Context<'_>, heartbeat: Duration) -> Result<Nodes, BenchError> {
        let first = nodes::orb("127.0.0.1")?;
        let coordinator = Coordinator::start(&first, Arc::new(MemoryStore::default())).map_err(refused)?;
        let glob = coordinator.object().object().to_string();
        let mut orbs = Orbs(vec![first]);
        let mut start = |name: &'static str, cpu: usize| {
            let glob = glob.clone();
            // Its threads inherit the processor.
            let (orb, node) =
                joined(thread(cx, cpu, SchedClass::Other, move || node(name, &glob, heartbeat))?)??;
            orbs.0.push(orb);
            Ok::<_, BenchError>(node)
        };
        let (near, far) = (start("near", 0)?, start("far", 1)?);
        Ok(Nodes { near, far, orbs })
    }

    /// The coordinator's ORB, the near node's, the far one's.
    pub fn orb(&self, which: usize) -> &Orb {
        &self.orbs.0[which]
    }
}

fn node(name: &str, glob: &str, heartbeat: Duration) -> Result<(Orb, Node), BenchError> {
    let orb = nodes::orb("127.0.0.1")?;
    let node = nodes::node(&orb, name, glob, |config| {
        // Loopback is no slow link.
        config.admission.link_bits_per_s = 100_000_000_000;
        config.dispatcher.scheduler.heartbeat_ns = heartbeat.as_nanos() as u64;
    })?;
    Ok((orb, node))
}

pub fn measure(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let nodes = Nodes::start(cx)?;
    let values = cx.ms(200, 2_000) as usize;
    for size in SIZES {
        cx.progress(format!("crm-cost: to another node, {size} octets"));
        let name = format!("measured-{size}");
        let octets = u32::try_from(size).unwrap_or(u32::MAX);
        let library = &nodes.near.1;
        library.create_area(&Area::new(&name, octets, 1)).map_err(refused)?;
        let writer =
            library.map_writer(&name, WriterQoS { period: 0, size: 0, type_hash: 0 }).map_err(refused)?;
        let far = &nodes.far.1;
        let mut subjects = [MEMORY, BARE, AGAIN, PERIODIC];
        let mut writer = Some(writer);
        let all = interleave_all(&mut subjects, Rounds::of(BLOCKS), |subject| {
            let wish = match *subject {
                MEMORY => READER_QOS,
                PERIODIC => EACH_MS,
                _ => return bare(cx, size, values),
            };
            // One reader at a time: the values of another would delay it.
            let reader = far.attach_reader(&name, wish).map_err(refused)?;
            let Some(mine) = writer.take() else { return Ok(Vec::new()) };
            let (samples, mine, _) = service(cx, mine, reader, size, values, || ())?;
            writer = Some(mine);
            Ok(samples)
        })?;
        rows(out, "remote", size, &subjects, &all);
    }
    Ok(())
}

/// The reader's end on its processor: the number of the last value that it saw, and when.
struct Arrival {
    number: AtomicU32,
    at_ns: isorb_rt::sync::atomic::AtomicU64,
}

impl Arrival {
    fn new() -> Arc<Arrival> {
        Arc::new(Arrival { number: AtomicU32::new(0), at_ns: isorb_rt::sync::atomic::AtomicU64::new(0) })
    }

    fn record(&self, number: u32) {
        self.at_ns.store(now_ns(), Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
    }

    /// Sleeps between looks: a spinning thread would keep the servers of its node from running.
    fn took(&self, number: u32, since_ns: u64) -> Option<u64> {
        let until = since_ns + TIMEOUT.as_nanos() as u64;
        loop {
            std::thread::sleep(Duration::from_micros(150));
            if self.number.load(Ordering::Acquire) >= number {
                return Some(self.at_ns.load(Ordering::Relaxed).saturating_sub(since_ns));
            }
            if now_ns() > until {
                return None;
            }
        }
    }
}

/// Values through reflective memory, each written after what comes before; gives the ends back.
pub fn service(
    cx: &Context<'_>,
    mut writer: AreaWriter,
    mut reader: AreaReader,
    size: usize,
    values: usize,
    mut before: impl FnMut() + Send + 'static,
) -> Result<(Vec<u64>, AreaWriter, AreaReader), BenchError> {
    let (seen, stop) = (Arrival::new(), Arc::new(AtomicBool::new(false)));
    let first = writer.sequence();
    let (recorder, ends) = (seen.clone(), stop.clone());
    let reading = thread(cx, 1, SchedClass::Other, move || {
        let mut value = vec![0; size];
        while !ends.load(Ordering::Acquire) {
            let _ = reader.wait(Duration::from_millis(50));
            if let Ok(sample) = reader.latest(&mut value)
                && sample.source > first
            {
                recorder.record((sample.source - first) as u32);
            }
        }
        reader
    })?;
    let writing = thread(cx, 0, SchedClass::Other, move || {
        let value = vec![7; size];
        let mut samples = Vec::with_capacity(values);
        for number in 1..=values as u32 {
            before();
            let at = now_ns();
            let _ = writer.write(&value);
            samples.extend(seen.took(number, at));
        }
        (samples, writer)
    })?;
    let (samples, writer) = joined(writing)?;
    stop.store(true, Ordering::Release);
    Ok((samples, writer, joined(reading)?))
}

/// Writer, sending thread, receiving thread, reader: no protocol, no scheduling.
fn bare(cx: &Context<'_>, size: usize, values: usize) -> Result<Vec<u64>, BenchError> {
    let geometry = Geometry::new(size, 1).map_err(refused)?;
    let source = Segment::create("bare", geometry).map_err(refused)?;
    let replica = Segment::create("bare", geometry).map_err(refused)?;
    let doorbell =
        Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?);
    let (to, from) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    to.set_read_timeout(Some(Duration::from_millis(50)))?;
    from.connect(to.local_addr()?)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (read, rung, ends) = (source.reader().map_err(refused)?, doorbell.clone(), stop.clone());
    let sending = thread(cx, 0, SchedClass::Other, move || send(read, &rung, &from, size, &ends))?;
    let (write, ends) = (replica.writer().map_err(refused)?, stop.clone());
    let receiving = thread(cx, 1, SchedClass::Other, move || receive(write, &to, size, &ends))?;
    let seen = Arrival::new();
    let (mut reader, recorder, ends) = (replica.reader().map_err(refused)?, seen.clone(), stop.clone());
    let reading = thread(cx, 1, SchedClass::Other, move || {
        let mut value = vec![0; size];
        while !ends.load(Ordering::Acquire) {
            let _ = reader.wait(Deadline::after(Duration::from_millis(50)));
            if reader.has_new()
                && let Ok(sample) = reader.latest(&mut value)
            {
                recorder.record(sample.sequence as u32);
            }
        }
    })?;
    let mut writer = source.writer().map_err(refused)?;
    let writing = thread(cx, 0, SchedClass::Other, move || {
        let value = vec![7; size];
        let mut samples = Vec::with_capacity(values);
        for number in 1..=values as u32 {
            let at = now_ns();
            let _ = writer.write(&value);
            let _ = rustix::io::write(&*doorbell, &1u64.to_ne_bytes());
            samples.extend(seen.took(number, at));
        }
        samples
    })?;
    let samples = joined(writing)?;
    stop.store(true, Ordering::Release);
    joined(sending)?;
    joined(receiving)?;
    joined(reading)?;
    Ok(samples)
}

fn send(mut read: Reader, rung: &Arc<OwnedFd>, from: &UdpSocket, size: usize, ends: &AtomicBool) {
    let Ok(poller) = Poller::new() else { return };
    if poller.add(&**rung, 1, Interest::READ, Trigger::Edge).is_err() {
        return;
    }
    let mut events = Events::<4>::new();
    let mut value = vec![0; size];
    while !ends.load(Ordering::Acquire) {
        let _ = poller.wait(&mut events, Deadline::after(Duration::from_millis(50))).map(Iterator::count);
        if read.has_new() && read.latest(&mut value).is_ok() {
            for piece in value.chunks(PIECE) {
                let _ = from.send(piece);
            }
        }
    }
}

fn receive(mut write: Writer, to: &UdpSocket, size: usize, ends: &AtomicBool) {
    let mut piece = vec![0; 2000];
    let mut filled = 0;
    while !ends.load(Ordering::Acquire) {
        let Ok(len) = to.recv(&mut piece) else { continue };
        let _ = write.draft().put(filled, &piece[..len]);
        filled += len;
        if filled >= size {
            let _ = write.publish(size, now_ns());
            filled = 0;
        }
    }
}
