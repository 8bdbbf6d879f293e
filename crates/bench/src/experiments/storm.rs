//! Ten thousand connects that ask for nothing, and what they do to a client that is there already.
//!
//! A client and its server share a processor, and the crowd takes what it can of that and of the others; nobody is more than ordinary.
//! Anywhere, the kernel has the two on one processor at times and on two at others, where a call takes three times as long, storm or no storm. A
//! bystander, another server with its client that nobody storms, shows what of the rest is the machine's and not the server's doing.

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use isorb::{Config, Orb};
use isorb_giop::component::Component;
use isorb_giop::profile::TAG_TAO_UIOP;
use isorb_giop::{AddressProfile, IiopProfile};

use super::catalogue::Experiment;
use super::seats::PATIENCE;
use super::{BenchError, Context};
use crate::cases::{Case, Kind};
use crate::contention::storm::{self, Address};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::process::{Fault, Peer, PeerError, Place, Role};
use crate::protocol::Block;
use crate::stats::Samples;
use crate::subjects::{Missing, Pair, Places, Programs, Subject, isorb_programs, isorb_tls_programs};

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Calls of a client while 10,000 others connect and send nothing, or an octet a second",
    source: "of our own",
    paper: PAPER,
    seconds: (60, 120),
    run,
};

const NAME: &str = "storm";
const PAPER: &str = "a storm of connections leaves the median call of those who are served within 2, and ends with the storm closed by limits and time-outs";
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
const BLOCK: Block = Block { case: Case { kind: Kind::Void, size: 0 }, warm: 20, calls: 300 };

/// Who is stormed, with its bystander: over TCP with a thread for each connection and with a lane, over a unix socket and over TLS.
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

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let connects = CONNECTS / if cx.is_smoke() { 50 } else { 1 };
    let mut rows = Vec::new();
    for (subject, bystander) in SUBJECTS {
        // A door with handshakes behind it lets so many in a second and no more: the quick form has no time for all.
        let connects = if subject == Subject::IsorbTls { cx.pick(connects / 4, connects) } else { connects };
        let mut scene = Scene::start(cx, subject, &LIMITS)?;
        scene.play(cx, [subject.name(), bystander], connects, &mut rows)?;
        scene.end();
    }
    cx.step(format!("{NAME}: the control"));
    let mut scene = Scene::start(cx, Subject::IsorbLane, &NO_LIMITS)?;
    let crowd = connects.min(1000).min(storm::most(1000));
    let opened = scene.crowd.open(crowd)?;
    std::thread::sleep(WATCHED);
    rows.push(crowd_row("no-limits", crowd, opened, scene.crowd.alive()?));
    scene.end();
    let figures = vec![
        Figure {
            id: "calls",
            title: "Calls of a client that is there already",
            x: "0 before, 1 while they connect, 2 while some stay, 3 after the last was closed",
            y: "microseconds",
            draw: &["p50_ns", "p99_ns"],
            divide: 1000.0,
            log: true,
        },
        Figure {
            id: "crowd",
            title: "What became of those who connected",
            x: "connects",
            y: "connections",
            draw: &["alive"],
            divide: 1.0,
            log: false,
        },
    ];
    let notes = vec![format!(
        "{connects} connects (over TLS a quarter in the quick form) in {WAVES} waves, every second of them sends an octet a second; the server holds 256 connections, and \
         gives a first request and a message 3 s. All are ordinary processes, clients and servers on one processor, the crowd on any. A \
         bystander is a server with its client that nobody storms, in turns with the other."
    )];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
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
        let place = Place { cpu: cx.machine.cpus.first().copied(), fifo: None };
        let places = Places { client: place, server: place };
        let pair = || Pair::start(cx.launcher, subject, &programs, places, PATIENCE);
        let (stormed, bystander) = (pair()?, pair()?);
        let crowd = Crowd::start(cx, &address(subject, stormed.address())?)?;
        Ok(Scene { stormed, bystander, crowd })
    }

    fn play(
        &mut self,
        cx: &mut Context<'_>,
        names: [&'static str; 2],
        wanted: usize,
        rows: &mut Vec<Row>,
    ) -> Result<(), BenchError> {
        let connects = wanted.min(storm::most(wanted));
        let [subject, _] = names;
        let blocks = cx.pick(20, 40);
        let mut note = |x: f64, both: Both| {
            for (subject, samples) in names.into_iter().zip(both) {
                let values = times(&samples.summary());
                rows.push(Row { experiment: NAME, figure: "calls", subject, x, values });
            }
        };
        cx.step(format!("{NAME}: {subject}, before"));
        note(BEFORE, self.calls(blocks)?);
        let mut during = Both::default();
        let mut opened = 0;
        for wave in 0..WAVES {
            cx.step(format!("{NAME}: {subject}, wave {}", wave + 1));
            opened += self.wave(connects / WAVES, &mut during)?;
        }
        note(DURING, during);
        note(STAYING, self.calls(blocks)?);
        cx.step(format!("{NAME}: {subject}, until the last is closed"));
        let until = Instant::now() + END;
        let mut alive = self.crowd.alive()?;
        while alive > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
            alive = self.crowd.alive()?;
        }
        note(AFTER, self.calls(blocks)?);
        rows.push(crowd_row(subject, wanted, opened, alive));
        Ok(())
    }

    /// So many blocks of calls of both, in turns.
    fn calls(&mut self, blocks: usize) -> Result<Both, PeerError> {
        let mut both = Both::default();
        for _ in 0..blocks {
            both[0].extend(self.stormed.run(BLOCK, PATIENCE)?);
            both[1].extend(self.bystander.run(BLOCK, PATIENCE)?);
        }
        Ok(both)
    }

    /// Calls of both in turns for as long as the crowd connects; how many connections there were.
    fn wave(&mut self, connects: usize, both: &mut Both) -> Result<usize, PeerError> {
        let Scene { stormed, bystander, crowd } = self;
        std::thread::scope(|threads| {
            let opening = threads.spawn(|| crowd.open(connects));
            while !opening.is_finished() {
                both[0].extend(stormed.run(BLOCK, PATIENCE)?);
                both[1].extend(bystander.run(BLOCK, PATIENCE)?);
            }
            opening.join().unwrap_or(Ok(0))
        })
    }

    fn end(self) {
        let Scene { stormed, bystander, crowd } = self;
        // Whether they end by themselves matters to nobody any more.
        let _ = crowd.0.end(PATIENCE);
        let _ = stormed.end(PATIENCE);
        let _ = bystander.end(PATIENCE);
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

/// The process of those who connect.
struct Crowd(Peer);

impl Crowd {
    fn start(cx: &Context<'_>, address: &Address) -> Result<Crowd, PeerError> {
        let program = cx.launcher.peer(&["storm", &address.to_string()]);
        let mut peer = Peer::start(cx.launcher, "crowd", Role::Client, Place::ANYWHERE, &program)?;
        peer.expect("ready", PATIENCE)?;
        Ok(Crowd(peer))
    }

    fn open(&mut self, connects: usize) -> Result<usize, PeerError> {
        self.0.tell(&format!("open {connects}"))?;
        self.number("opened")
    }

    fn alive(&mut self) -> Result<usize, PeerError> {
        self.0.tell("count")?;
        self.number("alive")
    }

    fn number(&mut self, word: &str) -> Result<usize, PeerError> {
        let said = self.0.expect(word, 3 * PATIENCE)?;
        said.parse().map_err(|_| self.0.error(Fault::Garbled))
    }
}

/// Where the server of a reference listens.
fn address(subject: Subject, reference: &str) -> Result<Address, BenchError> {
    let nowhere = || std::io::Error::other("the server's reference names no address");
    let object = Orb::with_config(Config::default())?.string_to_object(reference)?;
    let ior = object.ior();
    if subject == Subject::IsorbUnix {
        let mut tagged = ior.profiles.iter().filter(|profile| profile.tag == TAG_TAO_UIOP);
        let profile = tagged.next().and_then(|tagged| AddressProfile::parse(tagged).ok());
        return Ok(Address::Unix(profile.ok_or_else(nowhere)?.address.into()));
    }
    let profile = ior.iiop_profiles().next().and_then(Result::ok).ok_or_else(nowhere)?;
    let port = match subject {
        Subject::IsorbTls => tls_port(&profile).ok_or_else(nowhere)?,
        _ => profile.port,
    };
    let address = (profile.host.as_str(), port).to_socket_addrs()?.next().ok_or_else(nowhere)?;
    Ok(if subject == Subject::IsorbTls { Address::Tls(address) } else { Address::Tcp(address) })
}

/// Where a profile says that TLS is spoken.
fn tls_port(profile: &IiopProfile) -> Option<u16> {
    profile.components.iter().find_map(|tagged| match Component::parse(tagged) {
        Ok(Component::Ssl { port, .. }) => Some(port),
        _ => None,
    })
}

fn crowd_row(subject: &'static str, connects: usize, opened: usize, alive: usize) -> Row {
    let values = vec![("opened", opened as f64), ("alive", alive as f64)];
    Row { experiment: NAME, figure: "crowd", subject, x: connects as f64, values }
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let p50 = |subject: &str, x| at(rows, "calls", subject, "p50_ns", x);
    let mut claims = Vec::new();
    for (subject, bystander) in SUBJECTS.map(|(subject, bystander)| (subject.name(), bystander)) {
        for (x, when) in [(DURING, "while they connect"), (STAYING, "while some stay")] {
            let ratio = p50(subject, x) / p50(subject, BEFORE);
            let machine = p50(bystander, x) / p50(bystander, BEFORE);
            claims.push(Claim::paper(
                ratio <= 2.0,
                format!("{subject}: the median {when} is {ratio:.2} of that before (at most 2; a bystander's {machine:.2})"),
            ));
        }
        let left = crowd(rows, subject, "alive");
        let opened = crowd(rows, subject, "opened");
        let wanted = rows
            .iter()
            .find(|row| row.figure == "crowd" && row.subject == subject)
            .map_or(f64::NAN, |row| row.x);
        claims.push(Claim::paper(
            left == 0.0,
            format!("{subject}: of {opened:.0} connections {left:.0} are left (none)"),
        ));
        // With too few descriptors for the crowd it was no storm, and shows nothing.
        claims.push(Claim::paper(
            opened >= wanted,
            format!("{subject}: {opened:.0} connects came about, of {wanted:.0} (all; the crowd needs a descriptor for each: ulimit -Hn)"),
        ));
    }
    let (left, opened) = (crowd(rows, "no-limits", "alive"), crowd(rows, "no-limits", "opened"));
    claims.push(Claim::control(
        left >= opened && opened > 0.0,
        format!("without limits {left:.0} of {opened:.0} connections are left"),
    ));
    claims
}

fn crowd(rows: &[Row], subject: &str, value: &str) -> f64 {
    let row = rows.iter().find(|row| row.figure == "crowd" && row.subject == subject);
    row.and_then(|row| row.value(value)).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(during: f64, left: usize, left_without: usize) -> Verdict {
        of(1000, during, left, left_without)
    }

    fn of(opened: usize, during: f64, left: usize, left_without: usize) -> Verdict {
        let mut rows = Vec::new();
        for subject in SUBJECTS.iter().flat_map(|(subject, bystander)| [subject.name(), bystander]) {
            for (x, p50) in [(BEFORE, 10.0), (DURING, during), (STAYING, 10.0), (AFTER, 10.0)] {
                rows.push(Row {
                    experiment: NAME,
                    figure: "calls",
                    subject,
                    x,
                    values: vec![("p50_ns", p50)],
                });
            }
        }
        rows.push(crowd_row("isorb", 1000, opened, left));
        for (subject, _) in &SUBJECTS[1..] {
            rows.push(crowd_row(subject.name(), 1000, 1000, 0));
        }
        rows.push(crowd_row("no-limits", 1000, 1000, left_without));
        Verdict::new(NAME, PAPER, judge(&rows))
    }

    #[test]
    fn shapes_are_told_apart() {
        let good = verdict(15.0, 0, 1000);
        assert!(good.shape_holds && good.control_fails == Some(true));
        assert!(!verdict(25.0, 0, 1000).shape_holds, "slow");
        assert!(!verdict(15.0, 1, 1000).shape_holds, "somebody stays");
        assert!(!of(900, 15.0, 0, 1000).shape_holds, "not all could connect");
        assert_eq!(verdict(15.0, 0, 0).control_fails, Some(false));
    }
}
