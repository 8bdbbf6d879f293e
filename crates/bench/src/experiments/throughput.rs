//! Calls a second and the server's processor time a call for 1 to 256 clients, and what a resting
//! connection holds.
//!
//! One thread of the harness's own plays all clients of all subjects
//! ([`many_clients`](crate::workload::many_clients)), so that the server is what differs. It has a
//! processor of its own where there are two.

use std::fs;
use std::net::ToSocketAddrs;

use isorb::{Config, Orb};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::cases::{Case, Kind};
use crate::claim::{AtLeast, AtMost, Cells, Claim, aim, claims, control, least, paper};
use crate::figure::{Figure, Measured};
use crate::process::{Fault, Peer, PeerError, Scheduling, Side};
use crate::protocol::Block;
use crate::subjects::{Missing, Pair, PairScheduling, Programs, Subject, TIMEOUT, isorb_programs, omniorb};
use crate::workload::connection_storm;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Calls a second and processor time a call of a server with 1 to 256 clients; memory of resting connections",
    source: "of our own",
    paper: "a lane serves as many clients as come, at no more processor time a call than one client takes",
    seconds: (30, 300),
    run,
    claims,
};

const NAME: &str = "throughput";
const CLIENTS: [u32; 5] = [1, 4, 16, 64, MOST];
const QUICK_CLIENTS: [u32; 3] = [1, 16, MOST];
const MOST: u32 = 256;
/// Octets of an argument that comes back.
const SIZES: [u32; 4] = [16, 1 << 10, 16 << 10, 64 << 10];
const QUICK_SIZES: [u32; 2] = [16, 16 << 10];
/// Octets of a oneway.
const FED: u32 = 1 << 10;
const RESTING: [u32; 2] = [1_000, 10_000];
/// A connection that rests in a lane is to hold no more.
const RESTING_BYTES: f64 = 2048.0;

const RAW: &str = "raw-epoll";
const AGAIN: &str = "raw-epoll-again";
const LANE: &str = "isorb-lane";
const CONNECTION: &str = "isorb";
const OMNIORB: &str = "omniorb";
const ONEWAYS: &str = "oneways";
const MEMORY: &str = "memory";

/// No client is turned away, and none is closed for resting.
const LIMITS: [&str; 4] = ["-ORBMaxConnections", "20000", "-ORBFirstRequestTimeout", "0"];

/// The figures, an argument's size each.
fn figure(size: u32) -> &'static str {
    match size {
        16 => "echo-16",
        1024 => "echo-1024",
        16_384 => "echo-16384",
        _ => "echo-65536",
    }
}

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let mut servers = Vec::new();
    for subject in [RAW, CONNECTION, LANE, OMNIORB, AGAIN] {
        match Server::start(cx, subject)? {
            Some(server) => servers.push(server),
            None => out.note(format!("{subject} is missing: its packages are not installed.")),
        }
    }
    let clients: &[u32] = cx.pick(&QUICK_CLIENTS, &CLIENTS);
    let rounds = cx.pick(2, 5);
    let ms = cx.ms(150, 400);
    let sizes: &[u32] = cx.pick(&QUICK_SIZES, &SIZES);
    for &(figure, kind, size) in &scenes(sizes) {
        for &count in clients {
            cx.progress(format!("{NAME}: {figure}, {count} clients"));
            let mut sums = vec![Sum::default(); servers.len()];
            for _ in 0..rounds {
                for (server, sum) in servers.iter_mut().zip(&mut sums) {
                    server.open(count)?;
                    server.measure(kind, size, ms, sum)?;
                }
            }
            for (server, sum) in servers.iter_mut().zip(&sums) {
                out.row(figure, server.subject, count, sum.values());
                // The next one has the processors to itself.
                server.open(0)?;
            }
        }
    }
    servers.into_iter().for_each(Server::end);
    memory(cx, out)?;
    over_memory(cx, out)?;
    figures(out, sizes);
    let place = if cx.machine.cpus.len() > 1 { "a processor each" } else { "one processor for both" };
    out.note(format!(
        "All clients are one thread with epoll; server and clients have {place} and are ordinary processes. A call is an argument \
         there and back; a oneway is one of {} that a connection sends in a row before it asks whether they arrived. Processor time \
         is that of the server, by the kernel's accounts. '{RAW}' and '{AGAIN}': one thread with epoll that sends the octets back.",
        crate::workload::many_clients::BURST
    ));
    Ok(())
}

fn scenes(sizes: &[u32]) -> Vec<(&'static str, &'static str, u32)> {
    let echo = sizes.iter().map(|&size| (figure(size), "echo", size));
    echo.chain([(ONEWAYS, "feed", FED)]).collect()
}

/// Calls of a subject with so many clients, added up.
#[derive(Clone, Copy, Default)]
struct Sum {
    calls: u64,
    ns: u64,
    cpu_ns: u64,
}

impl Sum {
    fn values(&self) -> Vec<(&'static str, f64)> {
        let calls = self.calls.max(1) as f64;
        vec![
            ("calls_per_s", self.calls as f64 * 1e9 / self.ns.max(1) as f64),
            ("server_cpu_ns", self.cpu_ns as f64 / calls),
            ("n", self.calls as f64),
        ]
    }
}

/// A server, and the process of its clients.
struct Server {
    subject: &'static str,
    server: Peer,
    clients: Peer,
}

impl Server {
    /// `None` where it is not installed.
    fn start(cx: &Context<'_>, subject: &'static str) -> Result<Option<Server>, BenchError> {
        let Some(program) = program(cx, subject) else { return Ok(None) };
        let on =
            |n: usize| Scheduling { cpu: cx.machine.cpus.get(n).copied().or(Some(cx.cpu())), fifo: None };
        let (server, address) =
            Peer::start_ready(cx.launcher, subject, Side::Server, on(1), &program, TIMEOUT)?;
        let (address, key) = match subject {
            RAW | AGAIN => (address, "00".repeat(24)),
            _ => place(&address)?,
        };
        let program = cx.launcher.peer(&["many-clients", &address, &key]);
        let (clients, _) = Peer::start_ready(cx.launcher, subject, Side::Client, on(0), &program, TIMEOUT)?;
        Ok(Some(Server { subject, server, clients }))
    }

    /// So many connections in all.
    fn open(&mut self, count: u32) -> Result<(), PeerError> {
        self.clients.send(&format!("open {count}"))?;
        let opened = self.clients.expect("opened", 3 * TIMEOUT)?;
        if opened == count.to_string() { Ok(()) } else { Err(self.clients.error(Fault::Garbled)) }
    }

    fn measure(&mut self, kind: &str, size: u32, ms: u32, sum: &mut Sum) -> Result<(), PeerError> {
        let before = processor_ns(self.server.id());
        self.clients.send(&format!("{kind} {size} {ms}"))?;
        let answer = self.clients.expect("calls", TIMEOUT)?;
        let numbers =
            answer.split_once(' ').and_then(|(calls, ns)| Some((calls.parse().ok()?, ns.parse().ok()?)));
        let (calls, ns): (u64, u64) = numbers.ok_or(self.clients.error(Fault::Garbled))?;
        sum.calls += calls;
        sum.ns += ns;
        sum.cpu_ns += processor_ns(self.server.id()).saturating_sub(before);
        Ok(())
    }

    fn end(self) {
        // A process that has to be killed is no error any more.
        let _ = self.clients.end(TIMEOUT);
        let _ = self.server.end(TIMEOUT);
    }
}

fn program(cx: &Context<'_>, subject: &str) -> Option<Vec<std::ffi::OsString>> {
    let isorb = |concurrency| {
        let arguments = [&["-ORBConcurrency", concurrency][..], &LIMITS].concat();
        Some(isorb_programs(cx.launcher, &arguments, &[]).server)
    };
    match subject {
        CONNECTION => isorb("connection"),
        LANE => isorb("lane"),
        OMNIORB => omniorb::programs(omniorb::Server::AsShipped).ok().map(|Programs { server, .. }| server),
        _ => Some(cx.launcher.peer(&["raw-epoll-server"])),
    }
}

/// Where the object of a reference is reached by TCP, and its key in hexadecimal digits.
fn place(reference: &str) -> Result<(String, String), BenchError> {
    let nowhere = || std::io::Error::other("the server's reference names no address");
    let object = Orb::with_config(Config::default())?.string_to_object(reference)?;
    let profile = object.ior().iiop_profiles().next().and_then(Result::ok).ok_or_else(nowhere)?;
    let address = (profile.host.as_str(), profile.port).to_socket_addrs()?.next().ok_or_else(nowhere)?;
    let key = profile.key.iter().map(|octet| format!("{octet:02x}")).collect();
    Ok((address.to_string(), key))
}

/// Nanoseconds of processor time of all threads of a process, those included that have ended.
fn processor_ns(process: u32) -> u64 {
    // In ticks, of which there are a hundred a second: a run has at least fifteen.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = after_name.split(' ').skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
    ticks.sum::<u64>() * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Resident memory of a process in octets.
fn resident(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}

/// What the server holds for a connection that has called once and rests.
fn memory(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    for subject in [LANE, CONNECTION, OMNIORB, RAW] {
        for count in RESTING {
            let count = if cx.is_smoke() { count / 50 } else { count };
            // The client's descriptors; the server needs as many.
            let fits = connection_storm::most(count as usize) >= count as usize;
            // Ten thousand threads are what the other subjects are measured to avoid.
            if !fits || (count > 1_000 && matches!(subject, CONNECTION | OMNIORB)) {
                if !fits {
                    out.note(format!("{subject}: {count} connections need more descriptors (ulimit -Hn)."));
                }
                continue;
            }
            cx.progress(format!("{NAME}: {subject}, {count} resting"));
            let Some(mut server) = Server::start(cx, subject)? else { continue };
            server.open(1)?;
            let before = resident(server.server.id());
            server.open(1 + count)?;
            let each = (resident(server.server.id()) - before) / f64::from(count);
            out.row(MEMORY, subject, count, vec![("bytes", each)]);
            server.end();
        }
    }
    Ok(())
}

/// Calls a second of one client over memory, both ends spinning.
fn over_memory(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    if cx.machine.cpus.len() < 2 {
        out.note("Over memory both ends spin, for which two processors are needed.");
        return Ok(());
    }
    cx.progress(format!("{NAME}: over memory"));
    for subject in [Subject::IsorbSegment, Subject::IsorbSegmentLane, Subject::Iceoryx2] {
        let programs = match subject.programs(cx.launcher) {
            Ok(programs) => programs,
            Err(Missing::NotInstalled(_) | Missing::NotBuilt) => {
                out.note(format!("{} is missing: it could not be built here.", subject.name()));
                continue;
            }
        };
        let scheduling = PairScheduling::of(crate::report::Placement::TwoCore, &cx.machine);
        let mut pair = Pair::start(cx.launcher, subject, &programs, scheduling, TIMEOUT)?;
        let calls = if cx.is_smoke() { 200 } else { 20_000 };
        let case = Case { kind: Kind::Void, size: 0 };
        let samples = pair.run(Block { case, warm: 200, calls, gap_us: 0 }, TIMEOUT)?;
        let mean = samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
        out.row("segments", subject.name(), 1, vec![("calls_per_s", 1e9 / mean)]);
        // A process that has to be killed is no error any more.
        let _ = pair.end(TIMEOUT);
    }
    Ok(())
}

fn figures(out: &mut Measured, sizes: &[u32]) {
    for &size in sizes {
        let title = match size {
            16 => "Calls with 16 octets there and back",
            1024 => "Calls with 1 KiB there and back",
            16_384 => "Calls with 16 KiB there and back",
            _ => "Calls with 64 KiB there and back",
        };
        let of = Figure::new(figure(size), title, "clients", "thousand calls a second", &["calls_per_s"]);
        out.figures.push(of);
    }
    let oneways = "Oneways of 1 KiB, sixteen in a row";
    out.figures.extend([
        Figure::new(ONEWAYS, oneways, "clients", "thousand oneways a second", &["calls_per_s"]),
        Figure::new(MEMORY, "What a resting connection holds", "connections", "octets", &["bytes"])
            .divide(1.0),
        Figure::new(
            "segments",
            "Void calls over memory",
            "clients",
            "thousand calls a second",
            &["calls_per_s"],
        ),
    ]);
}

fn claims() -> Vec<Claim> {
    let rate = |r: &dyn Cells, figure, subject, x: u32| r.at(figure, subject, "calls_per_s", x.into());
    let time = |r: &dyn Cells, figure, subject, x: u32| r.at(figure, subject, "server_cpu_ns", x.into());
    // The bare server beside itself.
    let noise = move |r: &dyn Cells, figure: &'static str| {
        let ratio = time(r, figure, RAW, MOST) / time(r, figure, AGAIN, MOST);
        ratio.max(ratio.recip())
    };
    let mut claims = claims! {
        paper AtLeast(0.8), "a lane with 256 clients makes {0:.2} times as many calls a second as with 16 ({limit})",
            move |r| [rate(r, "echo-16", LANE, MOST) / rate(r, "echo-16", LANE, 16)];
        paper AtMost(1.1), "a call takes the lane {0:.2} times as much processor time with 256 clients as with one ({limit})",
            move |r| [time(r, "echo-16", LANE, MOST) / time(r, "echo-16", LANE, 1)];
        control AtLeast(1.1), "with 256 clients and 16 KiB a thread a connection takes {0:.1} times the processor time of a lane ({limit})",
            move |r| [time(r, "echo-16384", CONNECTION, MOST) / time(r, "echo-16384", LANE, MOST)];
        aim AtMost(RESTING_BYTES), "a resting connection holds {0:.0} octets in a lane ({limit}; with a thread {1:.0})",
            |r| {
                let of = |subject| least(r.values(MEMORY, subject, "bytes"));
                [of(LANE), of(CONNECTION)]
            };
    };
    for (figure, words) in [("echo-16", "16 octets"), ("echo-16384", "16 KiB")] {
        let to_raw = move |r: &dyn Cells| {
            [LANE, OMNIORB].map(|subject| time(r, figure, subject, MOST) / time(r, figure, RAW, MOST))
        };
        let wording = format!(
            "{words}, 256 clients: the lane takes {{0:.2}} times the processor time of a bare server ({{limit}}; omniORB {{1:.2}})"
        );
        claims.push(aim(AtMost(1.5), wording, to_raw).unless_noisy(move |r| noise(r, figure)));
    }
    claims
}
