//! Peers of a segment that are killed, stop, or write random data into it, as server and as client:
//! an exception or the end of that connection, while other connections of the ORB continue, and
//! nothing leaks. One test in a process of its own, which counts its resources.
//!
//! The bad peer is this program again (`ISORB_SEGMENT_PEER`), controlled by its standard input.
#![cfg(feature = "segments")]

mod common;

use common::{Echo, EchoRef};
use isorb::transport::{Segments, Stream, Transport, Wait};
use isorb::{Completion, Config, Kind, Orb, Policies, Reference, Result, SystemException, Upcall};
use isorb_testkit::{freeze, resume, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, IoSlice, Lines, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const ROLE: &str = "ISORB_SEGMENT_PEER";
/// A message larger than a segment, so that it progresses only while its reader takes it.
const LARGE: usize = 1 << 20;
/// Repetitions of each peer after the first run.
const ROUNDS: u32 = 4;
/// For calls that fail; others have a minute.
const BRIEF: Duration = Duration::from_millis(200);
/// Longer than any wait here: a process that ends earlier ends by itself, not by a time-out.
const LONG: Duration = Duration::from_secs(600);

/// The mapped segments and arenas of this process, first and last octet.
fn mapped(kind: &str) -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let ours = |line: &&str| line.contains("isorb-segment") || line.contains("isorb-arena");
    let of = maps.lines().filter(ours).filter(|line| line.contains(kind));
    let ranges = of.map(|line| line.split(' ').next().unwrap().split_once('-').unwrap());
    ranges.map(|(start, end)| (number(start), number(end))).collect()
}

/// Random data in both segments and the own arena of the process's connection, headers and credits
/// included. The peer's arena cannot be written.
fn scribble(mut seed: u32) {
    assert_eq!((mapped("rw-s").len(), mapped("r--s").len()), (3, 1));
    let mut memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    for (start, end) in mapped("rw-s") {
        let mut octet = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        let nonsense: Vec<u8> = (start..end).map(|_| octet()).collect();
        memory.seek(SeekFrom::Start(start)).unwrap();
        memory.write_all(&nonsense).unwrap();
    }
}

/// The servant of a peer: reports its call, and may write random data meanwhile.
struct Bad;

impl Echo for Bad {
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        println!("called");
        std::thread::sleep(Duration::from_millis(ms.into()));
        Ok(ms)
    }
    fn fail(&self, _: Upcall<'_>, seed: u32) -> Result<()> {
        scribble(seed);
        println!("scribbled");
        Ok(())
    }
}

/// The other process: performs its role, then follows commands until its standard input ends.
#[test]
fn the_peer() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let orb = Orb::with_config(serving(";connection", [LONG; 2])).unwrap();
    let (what, at) = role.split_once(' ').unwrap();
    let mut stays: Option<Box<dyn Stream>> = None;
    match what {
        "serve" => println!("at {}", serve(&orb, Arc::new(Bad))),
        "half" => {
            let stream = Segments::default().connect(at, Some(Duration::from_secs(60))).unwrap();
            let head = b"GIOP\x01\x02\x01\x00\x00\x04\x00\x00 and no more";
            assert_eq!(stream.send(&[IoSlice::new(head)], Wait::Block).unwrap(), head.len());
            println!("half sent");
            stays = Some(stream);
        }
        _ => {
            let far: EchoRef = orb.resolve(at).unwrap();
            // The other side checks the call's result.
            std::thread::spawn(move || far.object().orb().scope(|s| far.octets_in(s, &[7; LARGE]).map(drop)));
        }
    }
    for order in std::io::stdin().lines().map_while(std::result::Result::ok) {
        scribble(order.parse().unwrap());
        println!("done");
    }
    drop(stays);
    // Without an orderly shutdown: its threads may wait for calls that never return.
    std::process::exit(0);
}

struct Peer {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(role: &str) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_peer", "--nocapture"]).env(ROLE, role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Peer { child, output }
    }

    /// The rest of the line of its report, behind possible output of the harness.
    fn expect(&mut self, word: &str) -> String {
        let mut lines = self.output.by_ref().map(std::result::Result::unwrap);
        let rest = lines.find_map(|line| Some(line.split_once(word)?.1.trim().to_owned()));
        rest.unwrap_or_else(|| panic!("the peer ended before it said {word}"))
    }

    fn scribble(&mut self, seed: u32) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{seed}").unwrap();
        self.expect("done");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// With this time for a message to arrive, and for a reply to be read.
fn serving(form: &str, [message, send]: [Duration; 2]) -> Config {
    Config {
        endpoints: vec![format!("segment:{form}")],
        message_timeout_ms: message.as_millis() as u64,
        send_timeout_ms: send.as_millis() as u64,
        round_trip_timeout_ms: 60_000,
        ..Config::default()
    }
}

fn serve<S: Echo>(orb: &Orb, servant: Arc<S>) -> String {
    let root = orb.root_poa().unwrap();
    root.manager().activate().unwrap();
    root.activate::<EchoRef>(servant).unwrap().object().to_string()
}

/// Blocks senders of large messages until it opens.
#[derive(Default)]
struct Gate {
    /// The number of blocked upcalls, and of those that may leave.
    state: Mutex<[u32; 2]>,
    changed: Condvar,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut [u32; 2])) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn until(&self, mut ready: impl FnMut(&mut [u32; 2]) -> bool) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, Duration::from_secs(60), |state| !ready(state));
        assert!(!waited.unwrap().1.timed_out(), "no upcall came, or none was released");
    }

    /// Waits until an upcall is blocked.
    fn entered(&self) {
        self.until(|[inside, _]| *inside > 0);
    }

    fn release(&self) {
        self.change(|[inside, leave]| (*inside, *leave) = (*inside - 1, *leave + 1));
    }
}

impl Echo for Gate {
    fn octets<'u>(&'u self, _: Upcall<'u>, o: &'u [u8]) -> Result<&'u [u8]> {
        self.change(|[inside, _]| *inside += 1);
        self.until(|[_, leave]| *leave > 0);
        self.change(|[_, leave]| *leave -= 1);
        Ok(o)
    }
}

/// Descriptors, threads, mappings of segments.
fn held() -> [usize; 3] {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    [entries("/proc/self/fd"), entries("/proc/self/task"), mapped("").len()]
}

/// Two ORBs of this process with a connection over segments between them, which no peer may affect.
struct Here {
    server: Orb,
    client: Orb,
    gate: Arc<Gate>,
    good: EchoRef,
}

impl Here {
    fn new(form: &str, times: [Duration; 2]) -> Here {
        let orb = || Orb::with_config(serving(form, times)).unwrap();
        let (server, client) = (orb(), orb());
        let gate = Arc::new(Gate::default());
        let good: EchoRef = client.resolve(&serve(&server, gate.clone())).unwrap();
        let here = Here { server, client, gate, good };
        here.goes_on();
        here
    }

    fn goes_on(&self) {
        assert_eq!(self.good.text("still here").unwrap(), "still here");
    }

    /// Waits until the good connection is the server's only one.
    fn is_rid(&self, what: &str) {
        wait_until(what, || {
            self.goes_on();
            self.server.served_connections().len() == 1
        });
    }

    fn end(self) {
        self.client.shutdown(true).unwrap();
        self.server.shutdown(true).unwrap();
    }
}

/// A misbehaving server, and its object.
fn bad_server(here: &Here) -> (Peer, EchoRef) {
    let mut peer = Peer::start("serve ");
    let far: EchoRef = here.client.resolve(&peer.expect("at ")).unwrap();
    far.ping().unwrap();
    (peer, far)
}

/// Ends the server. The next call fails, and the call after it finds no server; the resources for
/// the server are released.
fn has_gone(peer: Peer, far: &EchoRef) {
    drop(peer);
    let error = far.ping().unwrap_err();
    assert!([Kind::Transient, Kind::CommFailure].contains(&error.kind), "{error}");
    let error = far.ping().unwrap_err();
    assert_eq!(error.kind, Kind::Transient, "{error}");
}

fn within(echo: &EchoRef, time: Duration) -> EchoRef {
    echo.with_policies(Policies { round_trip_timeout: Some(time), ..Policies::default() })
}

fn octets(echo: &EchoRef) -> std::result::Result<(), SystemException> {
    echo.object().orb().scope(|scope| echo.octets_in(scope, &[7; LARGE]).map(drop))
}

fn a_server_that_is_killed(here: &Here, _: u32) {
    let (mut peer, far) = bad_server(here);
    std::thread::scope(|threads| {
        let caller = threads.spawn(|| far.sleep(600_000).unwrap_err());
        peer.expect("called");
        peer.signal(Signal::KILL);
        let error = caller.join().unwrap();
        assert_eq!((error.kind, error.completed), (Kind::CommFailure, Completion::Maybe), "{error}");
    });
    here.goes_on();
    has_gone(peer, &far);
}

fn a_server_that_stops(here: &Here, _: u32) {
    let (peer, far) = bad_server(here);
    let brief = within(&far, BRIEF);
    freeze(peer.child.id());
    let error = brief.ping().unwrap_err();
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    here.goes_on();
    // No further credit is granted.
    let error = octets(&brief).unwrap_err();
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    here.goes_on();
    resume(peer.child.id());
    far.ping().unwrap();
    has_gone(peer, &far);
}

fn a_server_that_scribbles(here: &Here, seed: u32) {
    let (mut peer, far) = bad_server(here);
    // A sleeping thread may not be woken any more; its call then times out.
    let error = within(&far, BRIEF).fail(seed).unwrap_err();
    assert!([Kind::CommFailure, Kind::Timeout].contains(&error.kind), "{error}");
    peer.expect("scribbled");
    here.goes_on();
    // Its other connections are not affected.
    far.ping().unwrap();
    has_gone(peer, &far);
}

/// A client with a large request in service.
fn bad_client(here: &Here) -> Peer {
    let peer = Peer::start(&format!("call {}", here.good.object()));
    here.gate.entered();
    peer
}

fn a_client_that_is_killed(here: &Here, _: u32) {
    let peer = bad_client(here);
    drop(peer);
    here.gate.release();
    here.is_rid("a killed client keeps its connection");
}

fn a_client_that_stops(here: &Here, _: u32) {
    let peer = bad_client(here);
    freeze(peer.child.id());
    here.gate.release();
    // The reply is not read.
    here.is_rid("a stopped client keeps its connection");
}

fn a_client_that_scribbles(here: &Here, seed: u32) {
    let mut peer = bad_client(here);
    peer.scribble(seed);
    here.gate.release();
    here.is_rid("a client that scribbles keeps its connection");
}

fn a_client_that_stops_in_a_message(here: &Here, _: u32) {
    let (_, path) = here.server.endpoint_names().remove(0);
    let mut peer = Peer::start(&format!("half {path}"));
    peer.expect("half sent");
    here.is_rid("half a message keeps its connection");
}

#[test]
fn a_bad_peer_costs_its_connection_only() {
    type Case = (&'static str, [Duration; 2], fn(&Here, u32));
    let cases: [Case; 7] = [
        ("a server that is killed", [LONG; 2], a_server_that_is_killed),
        ("a server that stops", [LONG; 2], a_server_that_stops),
        ("a server that scribbles", [LONG; 2], a_server_that_scribbles),
        ("a client that is killed", [LONG; 2], a_client_that_is_killed),
        ("a client that stops", [LONG, BRIEF], a_client_that_stops),
        ("a client that scribbles", [LONG; 2], a_client_that_scribbles),
        ("a client that stops in a message", [BRIEF, LONG], a_client_that_stops_in_a_message),
    ];
    for form in [";connection", ";lane=2"] {
        for (what, times, case) in cases {
            let here = Here::new(form, times);
            case(&here, 1);
            let before = held();
            (2..2 + ROUNDS).for_each(|round| case(&here, round));
            wait_until(format!("{form}, {what}: there were {before:?}"), || {
                held().iter().zip(before).all(|(now, before)| *now <= before)
            });
            here.end();
            wait_until(format!("{form}, {what}: segments are left"), || mapped("").is_empty());
        }
    }
}
