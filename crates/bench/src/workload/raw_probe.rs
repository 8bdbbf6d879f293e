//! A raw socket beside the ORB: the octets of the same messages, over a plain connection between
//! threads of the same priorities.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use isorb::Orb;
use isorb_rt::net::set_dscp;
use isorb_rt::priority::{ClassSelectors, NetworkPriorityMapping, Priority};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::time::now_ns;

use crate::cases::{Case, Kind};
use crate::load::work;

/// The longest message that the server has room for.
const LONGEST: usize = (1 << 20) + 4096;

/// Starts the server's thread, at a CORBA priority of `orb`, listening at a port of `host`; its
/// address. `stamped`: replies begin with the moments at which a request had arrived and its reply
/// left.
pub fn serve(orb: &Orb, host: &str, priority: i16, marked: bool, stamped: bool) -> io::Result<String> {
    let listener = TcpListener::bind((host, 0))?;
    let address = listener.local_addr()?.to_string();
    let orb = orb.clone();
    let thread = ThreadSpec::new("probe").class(SchedClass::Other).spawn(move || {
        for stream in listener.incoming().flatten() {
            let orb = orb.clone();
            let thread = ThreadSpec::new("probe").class(SchedClass::Other).spawn(move || {
                if let Err(error) = orb.rt_current().set_the_priority(priority) {
                    eprintln!("isorb-bench: probe: {error}");
                }
                // That its client has gone is an error, and no reason to say so.
                let _ = answer(stream, marked.then_some(priority), stamped);
            });
            if let Err(error) = thread {
                eprintln!("isorb-bench: probe: {error}");
            }
        }
    });
    thread.map_err(io::Error::other)?;
    Ok(address)
}

fn answer(mut stream: TcpStream, marked: Option<i16>, stamped: bool) -> io::Result<()> {
    prepare(&stream, marked)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let (numbers, _) = head.as_chunks::<4>();
    let [request, reply, units] = [0, 1, 2].map(|i| u32::from_le_bytes(numbers[i]) as usize);
    let units = i32::try_from(units).unwrap_or(0);
    if request.max(reply) > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (mut request, mut reply) = (vec![0; request], vec![1; reply]);
    loop {
        stream.read_exact(&mut request)?;
        if stamped && let Some((stamp, reply)) = reply.split_first_chunk_mut::<8>() {
            *stamp = now_ns().to_le_bytes();
            work(units);
            if let Some(stamp) = reply.first_chunk_mut::<8>() {
                *stamp = now_ns().to_le_bytes();
            }
        } else {
            work(units);
        }
        stream.write_all(&reply)?;
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

    #[test]
    fn one_client_after_the_other_gets_its_answers() {
        let mut config = Config::default();
        config.real_time.mode = RealTime::Off;
        let orb = Orb::with_config(config).unwrap();
        let address = serve(&orb, "127.0.0.1", 30_000, true, false).unwrap();
        for payload in [0, 10 << 10] {
            let mut probe = RawProbe::connect(&address, payload, 1, Some(30_000)).unwrap();
            for _ in 0..3 {
                probe.call().unwrap();
            }
            assert!(probe.reply.len() >= payload as usize && probe.reply.iter().all(|&octet| octet == 1));
        }
        let stamping = serve(&orb, "127.0.0.1", 30_000, false, true).unwrap();
        let mut probe = RawProbe::connect(&stamping, 0, 0, None).unwrap();
        for _ in 0..3 {
            let begun = now_ns();
            probe.call().unwrap();
            let [arrived, left] = probe.stamps();
            assert!(begun < arrived && arrived <= left && left < now_ns());
        }
        let mut liar = RawProbe::connect(&address, u32::MAX, 0, None).unwrap();
        assert!(liar.stream.read_exact(&mut [0]).is_err(), "it is longer than the buffers");
    }
}
