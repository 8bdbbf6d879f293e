//! What attacks do to clients that are served, to clients that come, and to the server's memory.
//!
//! ```text
//!   attacker ──► server ◄── a client that was there before: calls without a pause
//!                       ◄── newcomers, one after the other: connect, and call once
//! ```
//!
//! Each attack has several rounds, each with a new attacker. The control is a server that accepts
//! and echoes, and does nothing else, under the same attack in the same run.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use isorb::{Config, Orb};
use isorb_giop::message::Response;

use super::catalogue::Experiment;
use super::storm::address;
use super::{BenchError, Context};
use crate::claim::{AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, most, paper};
use crate::figure::{Figure, Measured};
use crate::process::{Peer, PeerError, Scheduling, Side};
use crate::stats::Samples;
use crate::subjects::{Subject, TIMEOUT, isorb_programs, isorb_tls_programs, tls};
use crate::workload::attack::{Attack, request};
use crate::workload::connection_storm;
use crate::workload::many_clients::length_of;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Newcomers, connected clients and memory of a server that is attacked in nine ways",
    source: "of our own",
    paper: "under attack newcomers are served within 100 ms or twice a bare server's time, connected clients keep their p99 within 3 or the bare server's, and memory comes back",
    seconds: (60, 600),
    run,
    claims,
};

const NAME: &str = "attacks";
/// A client that is not served for so long has not been served.
const PATIENCE: Duration = Duration::from_secs(5);
/// Calls of the connected client between two newcomers.
const CALLS: usize = 100;
/// Newcomers are served within this, whatever a bare server does.
const SERVED_MS: f64 = 100.0;
/// By what the p99 of a connected client may grow, whatever a bare server's does.
const GROWTH: f64 = 3.0;

const PLAIN: [&str; 2] = ["isorb", "isorb-lane"];
const TLS: &str = "isorb-tls";
const BARE: &str = "bare";
const BARE_TLS: &str = "bare-tls";
const NO_LIMITS: &str = "no-limits";
/// As many as come, for as long as they like.
const WITHOUT: [&str; 6] =
    ["-ORBMaxConnections", "20000", "-ORBMessageTimeout", "0", "-ORBFirstRequestTimeout", "0"];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    // The attackers have as many descriptors as this process may have.
    let descriptors = connection_storm::most(10_000);
    for name in [PLAIN[0], PLAIN[1], BARE] {
        for attack in Attack::PLAIN {
            scene(cx, name, attack, out)?;
        }
    }
    for name in [TLS, BARE_TLS] {
        scene(cx, name, Attack::HalfHandshakes, out)?;
    }
    scene(cx, NO_LIMITS, Attack::Idle, out)?;
    out.figures = Attack::PLAIN
        .into_iter()
        .chain([Attack::HalfHandshakes])
        .map(|attack| {
            let title = "Newcomers and a connected client under attack";
            Figure::new(attack.name(), title, "round", "microseconds", &["newcomer_max_ns", "p99_ns"])
        })
        .collect();
    out.note(format!(
        "All are ordinary processes on any processor. A newcomer's time is from its first connect to its reply, in as many attempts as it \
         needs, {} s at most. Round 0 is before the attack. The attackers may have {descriptors} descriptors. The servers of isorb \
         have their default limits, '{NO_LIMITS}' has none.",
        PATIENCE.as_secs()
    ));
    Ok(())
}

/// One attack on one server, in rounds.
fn scene(
    cx: &mut Context<'_>,
    name: &'static str,
    attack: Attack,
    out: &mut Measured,
) -> Result<(), BenchError> {
    let rounds = if cx.is_smoke() || name == NO_LIMITS { 1 } else { cx.pick(2, 10) };
    let length = Duration::from_millis(u64::from(cx.ms(500, 1_500)));
    let server = Server::start(cx, name)?;
    let mut client = Client::new(&server.target);
    let mut calm = Samples::default();
    let before = server.resident();
    for _ in 0..10 {
        calm.extend(client.calls());
    }
    let row =
        |out: &mut Measured, round: u32, newcomers: &[u64], calls: &Samples, [highest, after]: [f64; 2]| {
            let worst = newcomers.iter().max().copied().unwrap_or_default();
            let values = vec![
                ("newcomers", newcomers.len() as f64),
                ("newcomer_max_ns", worst as f64),
                ("p50_ns", calls.summary().p50_ns as f64),
                ("p99_ns", calls.summary().p99_ns as f64),
                ("highest_mib", highest),
                ("resident_mib", after),
            ];
            out.row(attack.name(), name, round, values);
        };
    row(out, 0, &[], &calm, [before, before]);
    for round in 1..=rounds {
        cx.progress(format!("{NAME}: {name}, {}, round {round} of {rounds}", attack.name()));
        let attacker = server.attacked_by(cx, attack)?;
        sleep(length / 5);
        let (start, mut newcomers, mut calls) = (Instant::now(), Vec::new(), Samples::default());
        let mut highest = server.resident();
        while start.elapsed() < length {
            newcomers.push(server.target.newcomer());
            calls.extend(client.calls());
            highest = highest.max(server.resident());
        }
        // A process that has to be killed is no error here.
        let _ = attacker.end(TIMEOUT);
        let after = server.comes_to_rest(before);
        row(out, round, &newcomers, &calls, [highest, after]);
    }
    drop(client);
    let _ = server.peer.end(TIMEOUT);
    Ok(())
}

struct Server {
    peer: Peer,
    target: Target,
}

/// Where a server is, and what a client sends it.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    key: String,
    request: Vec<u8>,
    tls: Option<PathBuf>,
}

impl Server {
    fn start(cx: &Context<'_>, name: &'static str) -> Result<Server, BenchError> {
        let folder = || tls::certificates().map_err(|_| BenchError::NoSubject);
        let bare = |more: &[OsString]| [&cx.launcher.peer(&["bare-echo"])[..], more].concat();
        let isorb = |arguments: &[&str]| isorb_programs(cx.launcher, arguments, &[]).server;
        let thread = ["-ORBConcurrency", "connection"];
        let program = match name {
            BARE => bare(&[]),
            BARE_TLS => bare(&["--tls".into(), folder()?.into()]),
            TLS => isorb_tls_programs(cx.launcher, &[]).map_err(|_| BenchError::NoSubject)?.server,
            NO_LIMITS => isorb(&[&thread[..], &WITHOUT].concat()),
            "isorb-lane" => isorb(&["-ORBConcurrency", "lane"]),
            _ => isorb(&thread),
        };
        let (peer, ready) =
            Peer::start_ready(cx.launcher, name, Side::Server, Scheduling::ANY, &program, TIMEOUT)?;
        let is_bare = name == BARE || name == BARE_TLS;
        let tls = (name == TLS || name == BARE_TLS).then(folder).transpose()?;
        let (address, key) = if is_bare { (ready, Vec::new()) } else { found(&ready, name == TLS)? };
        Ok(Server {
            peer,
            target: Target {
                address: address.parse().map_err(io::Error::other)?,
                request: request(&key, Response::Target, "_non_existent")?,
                key: key.iter().map(|octet| format!("{octet:02x}")).collect(),
                tls,
            },
        })
    }

    fn attacked_by(&self, cx: &Context<'_>, attack: Attack) -> Result<Peer, PeerError> {
        let Target { address, key, .. } = &self.target;
        let mut words = vec!["attack", attack.name()];
        let address = address.to_string();
        words.extend([&*address, key].iter().filter(|word| !word.is_empty()));
        let program = cx.launcher.peer(&words);
        let any = Scheduling::ANY;
        Ok(Peer::start_ready(cx.launcher, "attacker", Side::Client, any, &program, TIMEOUT)?.0)
    }

    fn resident(&self) -> f64 {
        self.peer.resident_kib().map_or(f64::NAN, |kib| kib as f64 / 1024.0)
    }

    /// Its memory when it has got rid of the attacker's connections.
    fn comes_to_rest(&self, before: f64) -> f64 {
        let start = Instant::now();
        loop {
            let now = self.resident();
            // What it had before, and a megabyte; more than that may be what it keeps.
            if now <= before + 1.0 || start.elapsed() > Duration::from_secs(1) {
                return now;
            }
            sleep(Duration::from_millis(50));
        }
    }
}

/// Where the server of a reference listens, and the key of its object.
fn found(reference: &str, tls: bool) -> Result<(String, Vec<u8>), BenchError> {
    let (_, address) = address(if tls { Subject::IsorbTls } else { Subject::Isorb }, reference)?;
    let object = Orb::with_config(Config::default())?.string_to_object(reference)?;
    let profile = object.ior().iiop_profiles().next().and_then(Result::ok);
    let key = profile.ok_or_else(|| io::Error::other("the server's reference has no key"))?.key;
    Ok((address, key))
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Target {
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(match &self.tls {
            Some(folder) => Box::new(tls::connected(folder, stream)?),
            None => Box::new(stream),
        })
    }

    /// A connection that was served once.
    fn served(&self) -> io::Result<Box<dyn Stream>> {
        let mut stream = self.connect()?;
        self.call(&mut *stream)?;
        Ok(stream)
    }

    /// One request, and its reply.
    fn call(&self, stream: &mut dyn Stream) -> io::Result<()> {
        stream.write_all(&self.request)?;
        stream.flush()?;
        let mut header = [0; 12];
        stream.read_exact(&mut header)?;
        // A reply, or what the bare server echoes.
        if header[7] > 1 {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let mut rest = vec![0; length_of(&header)? - header.len()];
        stream.read_exact(&mut rest)
    }

    /// The nanoseconds until a client that comes has been served.
    fn newcomer(&self) -> u64 {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.served().is_ok() {
                return nanoseconds(start);
            }
            sleep(Duration::from_millis(1));
        }
        nanoseconds(start)
    }
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The client that was there before.
struct Client<'t> {
    target: &'t Target,
    stream: Option<Box<dyn Stream>>,
}

impl Client<'_> {
    fn new(target: &Target) -> Client<'_> {
        Client { target, stream: target.served().ok() }
    }

    /// The nanoseconds of some calls. One that finds its connection closed connects again, as an
    /// ORB does.
    fn calls(&mut self) -> Vec<u64> {
        let mut samples = Vec::with_capacity(CALLS);
        while samples.len() < CALLS {
            let start = Instant::now();
            let called = self.stream.take().is_some_and(|mut stream| {
                let served = self.target.call(&mut *stream).is_ok();
                self.stream = served.then_some(stream);
                served
            });
            while !called && start.elapsed() < PATIENCE {
                self.stream = self.target.served().ok();
                if self.stream.is_some() {
                    break;
                }
                sleep(Duration::from_millis(1));
            }
            samples.push(nanoseconds(start));
            if self.stream.is_none() {
                break;
            }
        }
        samples
    }
}

/// A value under attack, at its worst.
fn worst(r: &dyn Cells, attack: Attack, server: &str, value: &str) -> f64 {
    let rounds = r.series(attack.name(), server, value);
    if rounds.is_empty() {
        return f64::NAN;
    }
    most(rounds.into_iter().filter(|(round, _)| *round > 0.0).map(|(_, value)| value))
}

/// A newcomer's time over what it may take; the time, and the bare server's, in milliseconds.
fn newcomer(r: &dyn Cells, attack: Attack, server: &str, bare: &str) -> [f64; 3] {
    let [own, bare] = [server, bare].map(|server| worst(r, attack, server, "newcomer_max_ns") / 1e6);
    [own / SERVED_MS.max(2.0 * bare), own, bare]
}

/// The growth of a connected client's p99 over what it may be; the growth, and the bare server's.
fn connected(r: &dyn Cells, attack: Attack, server: &str, bare: &str) -> [f64; 3] {
    let growth = |server| worst(r, attack, server, "p99_ns") / r.at(attack.name(), server, "p99_ns", 0.0);
    let [own, bare] = [server, bare].map(growth);
    [own / GROWTH.max(bare), own, bare]
}

/// Mebibytes that are left after the last round, and how many of them came after the first one.
fn left(r: &dyn Cells, attack: Attack, server: &str) -> [f64; 2] {
    let resident = r.values(attack.name(), server, "resident_mib");
    match resident[..] {
        [before, first, .., last] => [last - before, last - first],
        [before, last] => [last - before, 0.0],
        _ => [f64::NAN; 2],
    }
}

/// The servers with their bare ones, and the attacks on them.
fn scenes() -> [(&'static str, &'static str, &'static [Attack]); 3] {
    [
        (PLAIN[0], BARE, &Attack::PLAIN),
        (PLAIN[1], BARE, &Attack::PLAIN),
        (TLS, BARE_TLS, &[Attack::HalfHandshakes]),
    ]
}

fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for (server, bare, attacks) in scenes() {
        let over = move |of: fn(&dyn Cells, Attack, &str, &str) -> [f64; 3]| {
            move |r: &dyn Cells| [nan_or_most(attacks.iter().map(|&attack| of(r, attack, server, bare)[0]))]
        };
        claims.extend(claims! {
            paper AtMost(1.0), format!("{server}: newcomers take {{0:.2}} of what they may under the worst attack ({{limit}}): \
                 {SERVED_MS} ms, or twice the bare server's time"), over(newcomer);
            paper AtMost(1.0), format!("{server}: the p99 of a connected client grows by {{0:.2}} of what it may under the \
                 worst attack ({{limit}}): {GROWTH}, or what the bare server's does"), over(connected);
            paper AtMost(32.0), format!("{server}: at most {{0:.1}} MiB are left after an attack ({{limit}})"),
                move |r| [nan_or_most(attacks.iter().map(|&attack| left(r, attack, server)[0]))];
            paper AtMost(4.0), format!("{server}: at most {{0:.1}} MiB come with further rounds ({{limit}})"),
                move |r| [nan_or_most(attacks.iter().map(|&attack| left(r, attack, server)[1]))];
        });
        for &attack in attacks {
            let name = attack.name();
            claims.extend(claims! {
                aim AtMost(1.0), format!("{server}, {name}: a newcomer is served within {{1:.1}} ms, by the bare server within {{2:.1}} ms"),
                    move |r| newcomer(r, attack, server, bare);
                aim AtMost(1.0), format!("{server}, {name}: the p99 of a connected client is {{1:.2}} of that before, the bare server's {{2:.2}}"),
                    move |r| connected(r, attack, server, bare);
            });
        }
    }
    let highest = |r: &dyn Cells, server| {
        let before = r.at(Attack::Idle.name(), server, "resident_mib", 0.0);
        worst(r, Attack::Idle, server, "highest_mib") - before
    };
    claims.extend(claims! {
        paper Below(0.5), "isorb: ten thousand that send nothing take {1:.1} MiB, {0:.2} of what they take without limits ({limit})",
            move |r| {
                let [limited, without] = [PLAIN[0], NO_LIMITS].map(|server| highest(r, server));
                [limited / without, limited]
            };
        control AtLeast(32.0), "without limits ten thousand that send nothing take {0:.1} MiB ({limit})",
            move |r| [highest(r, NO_LIMITS)];
    });
    claims
}

/// The greatest value; not a number if one is none, so that no claim holds.
fn nan_or_most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, |most, one| if one.is_nan() || one > most { one } else { most })
}
