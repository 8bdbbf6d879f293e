//! A raw socket beside the ORB: the octets of the same messages, over a plain connection between
//! threads of the same priorities.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use isorb::Orb;
use isorb_rt::log::warn;
use isorb_rt::net::set_dscp;
use isorb_rt::priority::{ClassSelectors, NetworkPriorityMapping, Priority};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::time::now_ns;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::setup::Setup;
use crate::cases::{Case, Kind};
use crate::load::work;

/// The longest message that the server has room for.
const LONGEST: usize = (1 << 20) + 4096;

/// Starts the server's threads, at the highest of the set-up's priorities; their address. Where
/// replies are stamped, they begin with the moments at which a request had arrived and its reply
/// left.
pub fn serve(orb: &Orb, setup: &Setup) -> io::Result<String> {
    let listener = TcpListener::bind((&*setup.host, 0))?;
    let address = listener.local_addr()?.to_string();
    let priority = setup.lanes.last().copied().unwrap_or(0);
    let marked = setup.marked.then_some(priority);
    let stamped = setup.layers;
    let accept = move |serve: &dyn Fn(Served)| {
        let accepted = listener.incoming().flatten().map(|stream| Served::accept(stream, marked, stamped));
        // That a client has gone is an error, and no reason to say so.
        accepted.flatten().for_each(serve);
    };
    if setup.sorted {
        let own = orb.clone();
        let alone =
            move |mut served: Served| at_priority(&own, priority, move || while served.answer().is_ok() {});
        at_priority(orb, priority, move || accept(&alone));
    } else {
        let pool =
            Arc::new(Pool { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, served: Mutex::default() });
        for _ in &setup.lanes {
            let pool = pool.clone();
            at_priority(orb, priority, move || pool.answer());
        }
        at_priority(orb, priority, move || accept(&|served| pool.add(served)));
    }
    Ok(address)
}

/// Runs `f` on a thread of its own at a CORBA priority.
fn at_priority(orb: &Orb, priority: i16, f: impl FnOnce() + Send + 'static) {
    let orb = orb.clone();
    let failed = |error: &dyn Display| warn("isorb::bench", format_args!("raw socket: {error}"));
    let thread = ThreadSpec::new("probe").class(SchedClass::Other).spawn(move || {
        if let Err(error) = orb.rt_current().set_the_priority(priority) {
            failed(&error);
        }
        f();
    });
    if let Err(error) = thread {
        failed(&error);
    }
}

/// A client's connection: a message's octets there and back, and its work.
struct Served {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
    work: i32,
    stamped: bool,
}

impl Served {
    fn accept(mut stream: TcpStream, marked: Option<i16>, stamped: bool) -> io::Result<Served> {
        prepare(&stream, marked)?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        let (numbers, _) = head.as_chunks::<4>();
        let [request, reply, work] = [0, 1, 2].map(|i| u32::from_le_bytes(numbers[i]));
        if request.max(reply) as usize > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let [request, reply] = [(request, 0), (reply, 1)].map(|(octets, of)| vec![of; octets as usize]);
        Ok(Served { stream, request, reply, work: i32::try_from(work).unwrap_or(0), stamped })
    }

    /// Waits for a request, and replies.
    fn answer(&mut self) -> io::Result<()> {
        self.stream.read_exact(&mut self.request)?;
        let arrived = now_ns();
        work(self.work);
        if self.stamped
            && let Some((stamps, _)) = self.reply.split_first_chunk_mut::<16>()
        {
            stamps[..8].copy_from_slice(&arrived.to_le_bytes());
            stamps[8..].copy_from_slice(&now_ns().to_le_bytes());
        }
        self.stream.write_all(&self.reply)
    }
}

/// Connections that some threads serve together, a request each in turn.
struct Pool {
    epoll: OwnedFd,
    served: Mutex<BTreeMap<u64, Arc<Mutex<Served>>>>,
}

impl Pool {
    const ONE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

    fn add(&self, served: Served) {
        let key = served.stream.as_raw_fd().unsigned_abs().into();
        // A thread that has its first event at once waits for this lock.
        let Ok(mut all) = self.served.lock() else { return };
        if epoll::add(&self.epoll, &served.stream, EventData::new_u64(key), Pool::ONE).is_ok() {
            all.insert(key, Arc::new(Mutex::new(served)));
        }
    }

    fn answer(&self) {
        let mut events = Vec::with_capacity(1);
        loop {
            events.clear();
            // A wait that a signal ends is repeated.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), None);
            let Some(data) = events.first().map(|event| event.data) else { continue };
            let served = self.served.lock().ok().and_then(|all| all.get(&data.u64()).cloned());
            let Some(mut served) = served.as_ref().and_then(|served| served.lock().ok()) else { continue };
            let answered = served.answer();
            let armed = epoll::modify(&self.epoll, &served.stream, data, Pool::ONE);
            if let (Err(_), Ok(mut all)) = (answered.and(armed.map_err(io::Error::from)), self.served.lock())
            {
                all.remove(&data.u64());
            }
        }
    }
}

fn prepare(stream: &TcpStream, marked: Option<i16>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // As the ORB marks what it sends at this priority.
    if let Some(mark) = marked.and_then(Priority::new).and_then(|p| ClassSelectors.to_network(p)) {
        set_dscp(stream, mark.dscp)?;
    }
    Ok(())
}

/// The client.
pub struct RawProbe {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl RawProbe {
    /// Connects; each call is to be as long as a message with so many octets, and to be so much
    /// work for the server.
    pub fn connect(address: &str, payload: u32, work: i32, marked: Option<i16>) -> io::Result<RawProbe> {
        let mut stream = TcpStream::connect(address)?;
        prepare(&stream, marked)?;
        let case = Case { kind: Kind::Message, size: payload as usize };
        let lengths = [case.request_bytes(), case.reply_bytes()];
        for number in lengths.into_iter().chain([work.max(0).unsigned_abs() as usize]) {
            stream.write_all(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes())?;
        }
        let [request, reply] = lengths.map(|length| vec![1; length]);
        Ok(RawProbe { stream, request, reply })
    }

    /// There and back.
    pub fn call(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.request)?;
        self.stream.read_exact(&mut self.reply)
    }

    /// When the server had read the last request and began to send the reply, if it stamps them.
    pub fn stamps(&self) -> [u64; 2] {
        let (stamps, _) = self.reply.as_chunks::<8>();
        [0, 1].map(|i| stamps.get(i).map_or(0, |&octets| u64::from_le_bytes(octets)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb::Config;
    use isorb_rt::sched::RealTime;

    fn started(change: impl FnOnce(&mut Setup)) -> (Orb, String) {
        let mut config = Config::default();
        config.real_time.mode = RealTime::Off;
        let orb = Orb::with_config(config).unwrap();
        let mut setup = Setup::lanes(&[10_000, 30_000]);
        change(&mut setup);
        let address = serve(&orb, &setup).unwrap();
        (orb, address)
    }

    #[test]
    fn one_client_after_the_other_gets_its_answers() {
        let (_orb, address) = started(|setup| setup.marked = true);
        for payload in [0, 10 << 10] {
            let mut probe = RawProbe::connect(&address, payload, 1, Some(30_000)).unwrap();
            for _ in 0..3 {
                probe.call().unwrap();
            }
            assert!(probe.reply.len() >= payload as usize && probe.reply.iter().all(|&octet| octet == 1));
        }
        let mut liar = RawProbe::connect(&address, u32::MAX, 0, None).unwrap();
        assert!(liar.stream.read_exact(&mut [0]).is_err(), "it is longer than the buffers");
    }

    #[test]
    fn replies_are_stamped() {
        let (_orb, address) = started(|setup| setup.layers = true);
        let mut probe = RawProbe::connect(&address, 0, 0, None).unwrap();
        for _ in 0..3 {
            let begun = now_ns();
            probe.call().unwrap();
            let [arrived, left] = probe.stamps();
            assert!(begun < arrived && arrived <= left && left < now_ns());
        }
    }

    #[test]
    fn two_threads_serve_more_connections_than_they_are() {
        let (_orb, address) = started(|setup| setup.sorted = false);
        for _ in 0..2 {
            let connect = |payload| RawProbe::connect(&address, payload, 1, None).unwrap();
            let mut probes: Vec<RawProbe> = (0..5).map(connect).collect();
            // All requests are there before a reply is read.
            for _ in 0..3 {
                for probe in &mut probes {
                    probe.stream.write_all(&probe.request).unwrap();
                }
                for probe in &mut probes {
                    probe.stream.read_exact(&mut probe.reply).unwrap();
                }
            }
        }
    }
}
