//! Through reflective memory: a node's server in each host, an area a producer.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use isorb::{Orb, Reference};
use isorb_netlab::Host;
use isorb_reflective_memory::admission::Costs;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::node::NodeServer;
use isorb_reflective_memory::{AreaReader, Error, Library};
use isorb_rt::sched::{SchedClass, ThreadSpec};

use super::echo::Echo;
use super::site::{LINK_KBIT, LOW_PERIOD_NS, ReadySubject, Sender, Site, Threads};
use crate::experiments::BenchError;
use crate::experiments::nodes::{self, Orbs, refused};

/// The first request of the high producer's reader. It is refused, with the numbers that would be
/// admitted.
const HOPELESS_NS: u64 = 50_000;

/// Everything that must live while values flow, in the order of its end.
#[derive(Default)]
struct Deployment {
    consumers: Threads,
    servers: Vec<(Arc<NodeServer>, Library)>,
    orbs: Orbs,
}

/// One high producer, `admitted` or not, and `low` ones as best effort, all by `path`.
pub fn wire(
    site: &Site<'_>,
    path: Path,
    admitted: bool,
    low: u32,
    size: usize,
    echo: &Echo,
) -> Result<ReadySubject, BenchError> {
    let (left, right) = (site.lab.left(), site.lab.right());
    let (orb, glob) = site.left(|| {
        let orb = orb(left)?;
        let glob = Coordinator::start(&orb, Arc::new(MemoryStore::default())).map_err(refused)?;
        Ok((orb, glob.object().object().to_string()))
    })?;
    let mut held = Deployment { orbs: Orbs(vec![orb]), ..Deployment::default() };
    let (orb, near) = site.left(|| node(site, left, "near", &glob))?;
    held.orbs.0.push(orb);
    let (orb, far) = site.right(|| node(site, right, "far", &glob))?;
    held.orbs.0.push(orb);
    let mut senders: Vec<Sender> = Vec::new();
    let mut deadline_ns = 0;
    for pair in 0..=low {
        let name = format!("value-{pair}");
        let (period, class) = match pair {
            0 => (site.high_ns, site.class(0)),
            _ => (LOW_PERIOD_NS, SchedClass::Other),
        };
        let mut writer = site.left(|| {
            let octets = u32::try_from(size).unwrap_or(u32::MAX);
            near.1.create_area(&Area::new(&name, octets, 2)).map_err(refused)?;
            near.1.map_writer(&name, WriterQoS { period, size: 0, type_hash: 0 }).map_err(refused)
        })?;
        let guaranteed = pair == 0 && admitted;
        let wish = ReaderQoS {
            how: Mode::PushOnWrite,
            period: 0,
            deadline: if guaranteed { HOPELESS_NS } else { 0 },
            histories: 2,
            guaranteed,
            // The costs are the default ones.
            soft: true,
            through: path,
            parity: 0,
            type_hash: 0,
        };
        let (consumer, granted_ns) = site.right(|| {
            let (reader, granted_ns) = attach(&far.1, &name, wish)?;
            let (echo, stop) = (echo.clone(), held.consumers.stop.clone());
            let spec = ThreadSpec::new(format!("reader-{pair}")).class(class);
            let consumer =
                spec.spawn(move || consume(reader, size, &echo, &stop)).map_err(BenchError::Thread)?;
            Ok((consumer, granted_ns))
        })?;
        deadline_ns = deadline_ns.max(granted_ns);
        held.consumers.all.push(consumer);
        senders.push(Box::new(move |value: &[u8]| {
            // Every value is as long as the area.
            let _ = writer.write(value);
        }));
    }
    let server = near.0.clone();
    held.servers = vec![near, far];
    let counts = move || {
        let high = server.pushes(usize::MAX).into_iter().find(|push| push.guarantee.is_some());
        let mut values = Vec::new();
        if admitted {
            values.push(("deadline_ns", deadline_ns as f64));
        }
        if let Some(push) = high {
            let counts = push.counts;
            values.extend([
                ("contained", counts.contained as f64),
                ("promoted", counts.promoted as f64),
                ("missed", counts.missed as f64),
                ("refused", counts.refused as f64),
                ("cost_ns", counts.worst_cost_ns as f64),
            ]);
        }
        values
    };
    Ok(ReadySubject { senders, elsewhere: None, held: Box::new(held), counts: Some(Box::new(counts)) })
}

/// With the shortest deadline that both nodes admit: each refuses a shorter one and names the
/// nearest that it admits. Returns the deadline too.
fn attach(library: &Library, name: &str, mut wish: ReaderQoS) -> Result<(AreaReader, u64), BenchError> {
    loop {
        match library.attach_reader(name, wish) {
            Err(Error::NotAdmitted(refusal)) if refusal.nearest_deadline > wish.deadline => {
                wish.deadline = refusal.nearest_deadline;
            }
            answer => return answer.map(|reader| (reader, wish.deadline)).map_err(refused),
        }
    }
}

fn consume(mut reader: AreaReader, size: usize, echo: &Echo, stop: &AtomicBool) {
    let mut value = vec![0; size];
    while !stop.load(Ordering::Acquire) {
        // Checks `stop` at intervals; values wake the thread.
        let _ = reader.wait(Duration::from_millis(250));
        if reader.has_new()
            && let Ok(sample) = reader.latest(&mut value)
        {
            echo.back(&value[..sample.len]);
        }
    }
}

/// An ORB with its endpoint in a host. Called there.
pub fn orb(host: &Host) -> Result<Orb, BenchError> {
    nodes::orb(&host.address().to_string())
}

fn node(
    site: &Site<'_>,
    host: &Host,
    name: &str,
    glob: &str,
) -> Result<(Orb, (Arc<NodeServer>, Library)), BenchError> {
    let orb = orb(host)?;
    let (server, library) = nodes::node(&orb, name, glob, |config| {
        config.dispatcher.udp = (IpAddr::V4(host.address()), 0).into();
        config.dispatcher.class = site.class(1);
        config.admission.link_bits_per_s = u64::from(LINK_KBIT) * 1000;
        // In the lab a sender's system call goes on into the other namespace, as far as its socket.
        config.admission.costs = Costs { push_ns: 20_000, datagram_ns: 30_000, ..Costs::default() };
    })?;
    Ok((orb, (Arc::new(server), library)))
}
