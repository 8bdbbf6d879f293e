//! Ten thousand connects that ask for nothing, and what they do to a client that is there already.
//!
//! A client and its server share a processor, and the crowd takes what it can of that and of the
//! others; all processes are ordinary. Anywhere, the kernel has the two on one processor at times
//! and on two at others, where a call takes three times as long, storm or no storm. A bystander,
//! another server with its client outside of the storm, shows what of the rest is the machine's and
//! not the server's doing.

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use isorb::{Config, Orb};
use isorb_giop::component::Component;
use isorb_giop::profile::TAG_TAO_UIOP;
use isorb_giop::{AddressProfile, IiopProfile};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::cases::{Case, Kind};
use crate::claim::{AtLeast, AtMost, Cells, Claim, claims, control, paper};
use crate::figure::{Figure, Measured, times};
use crate::process::{Fault, Peer, PeerError, Scheduling, Side};
use crate::protocol::Block;
use crate::stats::Samples;
use crate::subjects::{
    Missing, Pair, PairScheduling, Programs, Subject, TIMEOUT, isorb_programs, isorb_tls_programs,
};
use crate::workload::connection_storm;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Calls of a client while 10,000 others connect and send nothing, or an octet a second",
    source: "of our own",
    paper: "a storm of connections leaves the median call of a connected client within 2, and ends with the storm closed by limits and time-outs",
    seconds: (60, 120),
    run,
    claims,
};

const NAME: &str = "storm";
const CONNECTS: usize = 10_000;
const WAVES: usize = 10;
/// Connections that the server holds, and after how many milliseconds those go that do not get on.
const LIMITS: [&str; 6] =
    ["-ORBMaxConnections", "256", "-ORBMessageTimeout", "3000", "-ORBFirstRequestTimeout", "3000"];
/// The control: as many as come, for as long as they like.
const NO_LIMITS: [&str; 6] =
    ["-ORBMaxConnections", "20000", "-ORBMessageTimeout", "0", "-ORBFirstRequestTimeout", "0"];
/// How long after its last wave the crowd may be there.
const END: Duration = Duration::from_secs(30);
/// The control's crowd is watched for so long: twice the limits of the others.
const WATCHED: Duration = Duration::from_secs(6);
const NO_LIMITS_NAME: &str = "no-limits";
const BLOCK: Block = Block { case: Case { kind: Kind::Void, size: 0 }, warm: 20, calls: 300, gap_us: 0 };

/// The subjects with their bystanders: over TCP with a thread for each connection and with a lane,
/// over a unix socket and over TLS.
const SUBJECTS: [(Subject, &str); 4] = [
    (Subject::Isorb, "bystander"),
    (Subject::IsorbLane, "bystander-lane"),
    (Subject::IsorbUnix, "bystander-unix"),
    (Subject::IsorbTls, "bystander-tls"),
];
/// The phases, as places of the horizontal axis.
const BEFORE: f64 = 0.0;
const DURING: f64 = 1.0;
const STAYING: f64 = 2.0;
const AFTER: f64 = 3.0;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let connects = CONNECTS / if cx.is_smoke() { 50 } else { 1 };
    for (subject, bystander) in SUBJECTS {
        // A door with handshakes behind it lets so many in a second and no more: the quick form has
        // no time for all.
        let connects = if subject == Subject::IsorbTls { cx.pick(connects / 4, connects) } else { connects };
        let mut scene = Scene::start(cx, subject, &LIMITS)?;
        scene.play(cx, [subject.name(), bystander], connects, out)?;
        scene.end();
    }
    cx.progress(format!("{NAME}: the control"));
    let mut scene = Scene::start(cx, Subject::IsorbLane, &NO_LIMITS)?;
    let crowd = connects.min(1000).min(connection_storm::most(1000));
    let opened = scene.crowd.open(crowd)?;
    std::thread::sleep(if cx.is_smoke() { WATCHED / 10 } else { WATCHED });
    crowd_row(out, NO_LIMITS_NAME, crowd, opened, scene.crowd.alive()?);
    scene.end();
    let phases = "0 before, 1 while they connect, 2 while some stay, 3 after the last was closed";
    let calls = "Calls of a client that is there already";
    let left = "What became of the connections";
    out.figures = vec![
        Figure::new("calls", calls, phases, "microseconds", &["p50_ns", "p99_ns"]),
        Figure::new("crowd", left, "connects", "connections", &["alive"]).divide(1.0).linear(),
    ];
    out.note(format!(
        "{connects} connects (over TLS a quarter in the quick form) in {WAVES} waves, every second of them sends an octet a second; the server holds 256 connections, and \
         gives a first request and a message 3 s. All are ordinary processes, clients and servers on one processor, the crowd on any. A \
         bystander is a server with its client outside of the storm, in turns with the other."
    ));
    Ok(())
}

/// The server that is stormed with its client, the bystanders, and the crowd.
struct Scene {
    stormed: Pair,
    bystander: Pair,
    crowd: Crowd,
}

/// Samples of the stormed client, and of the bystander.
type Both = [Samples; 2];

impl Scene {
    fn start(cx: &Context<'_>, subject: Subject, limits: &[&str]) -> Result<Scene, BenchError> {
        let programs = programs(cx, subject, limits).map_err(|_| BenchError::NoSubject)?;
        let place = Scheduling { cpu: cx.machine.cpus.first().copied(), fifo: None };
        let places = PairScheduling { client: place, server: place };
        let pair = || Pair::start(cx.launcher, subject, &programs, places, TIMEOUT);
        let (stormed, bystander) = (pair()?, pair()?);
        let crowd = Crowd::start(cx, address(subject, &stormed.address)?)?;
        Ok(Scene { stormed, bystander, crowd })
    }

    fn play(
        &mut self,
        cx: &mut Context<'_>,
        names: [&'static str; 2],
        wanted: usize,
        out: &mut Measured,
    ) -> Result<(), BenchError> {
        let connects = wanted.min(connection_storm::most(wanted));
        let [subject, _] = names;
        let blocks = cx.pick(20, 40);
        let note = |out: &mut Measured, x: f64, both: Both| {
            for (subject, samples) in names.into_iter().zip(both) {
                out.row("calls", subject, x, times(&samples.summary()));
            }
        };
        cx.progress(format!("{NAME}: {subject}, before"));
        note(out, BEFORE, self.calls(blocks)?);
        let mut during = Both::default();
        let mut opened = 0;
        for wave in 0..WAVES {
            cx.progress(format!("{NAME}: {subject}, wave {}", wave + 1));
            opened += self.wave(connects / WAVES, &mut during)?;
        }
        note(out, DURING, during);
        note(out, STAYING, self.calls(blocks)?);
        cx.progress(format!("{NAME}: {subject}, until the last is closed"));
        let until = Instant::now() + END;
        let mut alive = self.crowd.alive()?;
        while alive > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
            alive = self.crowd.alive()?;
        }
        note(out, AFTER, self.calls(blocks)?);
        crowd_row(out, subject, wanted, opened, alive);
        Ok(())
    }

    /// So many blocks of calls of both, in turns.
    fn calls(&mut self, blocks: usize) -> Result<Both, PeerError> {
        let mut both = Both::default();
        for _ in 0..blocks {
            both[0].extend(self.stormed.run(BLOCK, TIMEOUT)?);
            both[1].extend(self.bystander.run(BLOCK, TIMEOUT)?);
        }
        Ok(both)
    }

    /// Calls of both in turns for as long as the crowd connects; how many connections there were.
    fn wave(&mut self, connects: usize, both: &mut Both) -> Result<usize, PeerError> {
        let Scene { stormed, bystander, crowd } = self;
        std::thread::scope(|threads| {
            let opening = threads.spawn(|| crowd.open(connects));
            while !opening.is_finished() {
                both[0].extend(stormed.run(BLOCK, TIMEOUT)?);
                both[1].extend(bystander.run(BLOCK, TIMEOUT)?);
            }
            opening.join().unwrap_or(Ok(0))
        })
    }

    fn end(self) {
        let Scene { stormed, bystander, crowd } = self;
        // A process that has to be killed is no error any more.
        let _ = crowd.0.end(TIMEOUT);
        let _ = stormed.end(TIMEOUT);
        let _ = bystander.end(TIMEOUT);
    }
}

/// Client and server of a subject, its server with these limits.
fn programs(cx: &Context<'_>, subject: Subject, limits: &[&str]) -> Result<Programs, Missing> {
    let with = |more: &[&str]| Ok(isorb_programs(cx.launcher, &[more, limits].concat(), &[]));
    match subject {
        Subject::IsorbTls => isorb_tls_programs(cx.launcher, limits),
        Subject::IsorbUnix => with(&["-ORBConcurrency", "connection", "-ORBEndPoint", "unix:"]),
        Subject::IsorbLane => with(&["-ORBConcurrency", "lane"]),
        _ => with(&["-ORBConcurrency", "connection"]),
    }
}

/// The process of the clients that connect.
struct Crowd(Peer);

impl Crowd {
    fn start(cx: &Context<'_>, (transport, address): (&str, String)) -> Result<Crowd, PeerError> {
        let program = cx.launcher.peer(&["storm", transport, &address]);
        let start = |side| Peer::start_ready(cx.launcher, "crowd", side, Scheduling::ANY, &program, TIMEOUT);
        Ok(Crowd(start(Side::Client)?.0))
    }

    fn open(&mut self, connects: usize) -> Result<usize, PeerError> {
        self.0.send(&format!("open {connects}"))?;
        self.number("opened")
    }

    fn alive(&mut self) -> Result<usize, PeerError> {
        self.0.send("count")?;
        self.number("alive")
    }

    fn number(&mut self, word: &str) -> Result<usize, PeerError> {
        let message = self.0.expect(word, 3 * TIMEOUT)?;
        message.parse().map_err(|_| self.0.error(Fault::Garbled))
    }
}

/// By what, and where, the server of a reference listens.
pub(super) fn address(subject: Subject, reference: &str) -> Result<(&'static str, String), BenchError> {
    let nowhere = || std::io::Error::other("the server's reference names no address");
    let object = Orb::with_config(Config::default())?.string_to_object(reference)?;
    let ior = object.ior();
    if subject == Subject::IsorbUnix {
        let mut tagged = ior.profiles.iter().filter(|profile| profile.tag == TAG_TAO_UIOP);
        let profile = tagged.next().and_then(|tagged| AddressProfile::parse(tagged).ok());
        return Ok(("unix", profile.ok_or_else(nowhere)?.address));
    }
    let profile = ior.iiop_profiles().next().and_then(Result::ok).ok_or_else(nowhere)?;
    let port = match subject {
        Subject::IsorbTls => tls_port(&profile).ok_or_else(nowhere)?,
        _ => profile.port,
    };
    let address = (profile.host.as_str(), port).to_socket_addrs()?.next().ok_or_else(nowhere)?;
    Ok((if subject == Subject::IsorbTls { "tls" } else { "tcp" }, address.to_string()))
}

/// Where a profile says that TLS is spoken.
fn tls_port(profile: &IiopProfile) -> Option<u16> {
    profile.components.iter().find_map(|tagged| match Component::parse(tagged) {
        Ok(Component::Ssl { port, .. }) => Some(port),
        _ => None,
    })
}

fn crowd_row(out: &mut Measured, subject: &'static str, connects: usize, opened: usize, alive: usize) {
    let values = vec![("opened", opened as f64), ("alive", alive as f64)];
    out.row("crowd", subject, connects as f64, values);
}

/// Of one subject: connections that were wanted, opened, and are left.
fn crowd(r: &dyn Cells, subject: &str) -> [f64; 3] {
    let first = |name| r.series("crowd", subject, name).first().copied().unwrap_or((f64::NAN, f64::NAN));
    let ((wanted, opened), (_, alive)) = (first("opened"), first("alive"));
    [wanted, opened, alive]
}

fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for (subject, bystander) in SUBJECTS.map(|(subject, bystander)| (subject.name(), bystander)) {
        for (x, when) in [(DURING, "while they connect"), (STAYING, "while some stay")] {
            claims.extend(claims! {
                paper AtMost(2.0), format!("{subject}: the median {when} is {{0:.2}} of that before ({{limit}}; a \
                     bystander's {{1:.2}})"),
                    move |r| [subject, bystander].map(|of| r.growth("calls", of, "p50_ns", [BEFORE, x]));
            });
        }
        claims.extend(claims! {
            paper AtMost(0.0), format!("{subject}: of {{1:.0}} connections {{0:.0}} are left ({{limit}})"),
                move |r| {
                    let [_, opened, alive] = crowd(r, subject);
                    [alive, opened]
                };
            // With too few descriptors for the crowd it was no storm, and shows nothing.
            paper AtLeast(1.0), format!("{subject}: {{1:.0}} connects came about, of {{2:.0}} (all; the crowd \
                 needs a descriptor for each: ulimit -Hn)"),
                move |r| {
                    let [wanted, opened, _] = crowd(r, subject);
                    [opened / wanted, opened, wanted]
                };
        });
    }
    claims.extend(claims! {
        control AtLeast(1.0), "without limits {1:.0} of {2:.0} connections are left (all)",
            |r| {
                let [_, opened, alive] = crowd(r, NO_LIMITS_NAME);
                [alive / opened, alive, opened]
            };
    });
    claims
}
