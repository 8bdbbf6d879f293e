//! Peers that die, stop, scribble, lie and starve leave nothing behind: descriptors, mappings and
//! threads are counted before and after.
//!
//! The test starts itself again as the peer (`ISORB_HOSTILE`). A process of its own, since it
//! counts the process's.

use isorb_transport::conformance::{TIMEOUT, pattern, receive, send_all};
use isorb_transport::{Loan, Segments, Stream, Transport, Unix, Wait};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::io::{self, BufRead, BufReader, IoSlice, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Times that each of them comes.
const ROUNDS: usize = 20;
/// Octets that a peer sends before it turns bad.
const OCTETS: usize = 5000;
/// Octets of a loan: whole cache lines.
const LENT: usize = 300_032;
/// Larger than what a starved process may still map.
const LARGE: usize = 16 << 20;

/// Open descriptors, mappings of segments, threads.
fn held() -> [usize; 3] {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    [count("/proc/self/fd"), segments().len(), count("/proc/self/task")]
}

/// The mapped segments and arenas of this process, first and last octet.
fn segments() -> Vec<(u64, u64)> {
    mapped(|line| line.contains("isorb-segment") || line.contains("isorb-arena"))
}

fn mapped(wanted: fn(&str) -> bool) -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of = maps.lines().filter(|line| wanted(line));
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    of.filter_map(range).collect()
}

/// What the other process does.
#[test]
fn the_peer() {
    let Ok(orders) = std::env::var("ISORB_HOSTILE") else { return };
    let parts: Vec<&str> = orders.split('|').collect();
    let [what, transport, address] = parts[..] else { panic!("what|transport|address") };
    if what == "starve" {
        return starve();
    }
    let stream = by_name(transport).connect(address, Some(TIMEOUT)).unwrap();
    send_all(&*stream, &pattern(OCTETS, 3)).unwrap();
    // All of it has been received.
    assert_eq!(receive(&*stream, 1, 1).unwrap(), b"!");
    let mut loans = Vec::new();
    match what {
        "scribble" => scribble(),
        "lend" => {
            // Two that are sent, one that is not; the last fills the arena.
            loans.extend([LENT, LENT, (4 << 20) - 2 * LENT].map(|n| filled(&*stream, n)));
            let pieces = [&b"head"[..], &loans[0], &loans[1]].map(IoSlice::new);
            assert_eq!(stream.send(&pieces, Wait::Block).unwrap(), 4 + 2 * LENT);
            loans.remove(0);
        }
        _ => {}
    }
    println!("ready");
    if what == "borrow" {
        assert_eq!(receive(&*stream, LENT + LENT / 2, LENT / 3).unwrap().len(), LENT + LENT / 2);
        println!("halfway");
    }
    // Longer than any test; the test kills this process.
    std::thread::sleep(2 * TIMEOUT);
}

fn by_name(name: &str) -> Box<dyn Transport> {
    if name == "unix" { Box::new(Unix::default()) } else { Box::new(Segments::default()) }
}

/// A loan with a pattern.
fn filled(stream: &dyn Stream, n: usize) -> Loan {
    let mut loan = stream.arena().unwrap().loan(n).unwrap();
    loan.octets_mut().unwrap().copy_from_slice(&pattern(n, 9));
    loan
}

/// Nonsense all over both segments and the own arena, heads, credits and entries included. The
/// peer's arena cannot be written: see `an_arena_has_one_writer`.
fn scribble() {
    let mut memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    let mut seed = std::process::id();
    for (start, end) in mapped(|line| line.contains("isorb-") && line.contains("rw-s")) {
        memory.seek(SeekFrom::Start(start)).unwrap();
        let nonsense: Vec<u8> = (start..end)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        memory.write_all(&nonsense).unwrap();
    }
}

/// Serves, first without the memory for a segment, then with it.
fn starve() {
    let listener = Segments { bytes: LARGE, ..Segments::default() }.listen("").unwrap();
    println!("at {}", listener.address());
    let refused = || {
        let stream = listener.accept(Wait::Block).unwrap();
        let error = stream.recv(&mut [0; 8], Wait::Block).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
    };
    let usual = getrlimit(Resource::As);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = line.trim_end_matches("kB").trim().parse().unwrap();
    let little = (kib << 10) + (LARGE as u64) / 2;
    setrlimit(Resource::As, Rlimit { current: Some(little), ..usual }).unwrap();
    refused();
    let before = held();
    (0..ROUNDS).for_each(|_| refused());
    settles("refused", before);
    setrlimit(Resource::As, usual).unwrap();
    let stream = listener.accept(Wait::Block).unwrap();
    assert_eq!(receive(&*stream, 4, 4).unwrap(), b"fine");
    println!("as before");
}

struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(what: &str, transport: &str, address: &str) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_peer", "--nocapture"]).stdout(Stdio::piped());
        let mut child =
            command.env("ISORB_HOSTILE", format!("{what}|{transport}|{address}")).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Peer { child, output }
    }

    /// The rest of the line that begins so, among those of the test's own.
    fn expect(&mut self, word: &str) -> String {
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the peer said {printed}");
            // The harness's own words may stand before it.
            if let Some((_, rest)) = line.trim_end().split_once(word) {
                return rest.trim().to_owned();
            }
            printed.push_str(&line);
        }
    }

    fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection from a peer that has sent its octets and then did `what`.
fn from(what: &str, transport: &str) -> (Box<dyn Stream>, Peer) {
    let listener = by_name(transport).listen("").unwrap();
    let mut peer = Peer::start(what, transport, listener.address());
    let stream = listener.accept(Wait::Block).unwrap();
    stream.set_recv_timeout(Some(TIMEOUT)).unwrap();
    assert!(receive(&*stream, OCTETS, 999).unwrap() == pattern(OCTETS, 3));
    send_all(&*stream, b"!").unwrap();
    peer.expect("ready");
    (stream, peer)
}

/// Receives and sends until an error, a time-out or the end.
fn until_it_ends(stream: &dyn Stream) {
    let brief = Some(Duration::from_millis(20));
    stream.set_recv_timeout(brief).unwrap();
    stream.set_send_timeout(brief).unwrap();
    let mut block = vec![1; 1 << 20];
    // What a scribbled head pretends to have is at most a segment.
    let received = (0..1000).any(|_| !matches!(stream.recv(&mut block, Wait::Block), Ok(n) if n > 0));
    let sent = (0..1000).any(|_| stream.send(&[IoSlice::new(&block)], Wait::Block).is_err());
    assert!(received && sent, "it goes on for ever");
}

fn killed(transport: &str) {
    let (stream, peer) = from("stay", transport);
    drop(peer);
    until_it_ends(&*stream);
}

/// A peer that is killed while its loans are under way: they arrive all the same.
fn killed_lender(_: &str) {
    let (stream, peer) = from("lend", "segment");
    drop(peer);
    assert!(receive(&*stream, 4, 4).unwrap() == b"head");
    for _ in 0..2 {
        assert!(receive(&*stream, LENT, LENT / 7).unwrap() == pattern(LENT, 9));
    }
    until_it_ends(&*stream);
}

/// A peer that is killed before it reads a loan, and in the middle of one.
fn killed_borrower(what: &str) {
    let (stream, mut peer) = from(what, "segment");
    let loans: Vec<_> = (0..4).map(|_| filled(&*stream, LENT)).collect();
    for loan in &loans {
        assert_eq!(stream.send(&[IoSlice::new(loan)], Wait::Block).unwrap(), LENT);
    }
    if what == "borrow" {
        peer.expect("halfway");
        assert!(!loans[0].is_sent() && loans[1].is_sent());
    }
    drop(peer);
    until_it_ends(&*stream);
    // What the peer has not released stays, and the rest of the arena does not.
    assert!(loans[1..].iter().all(Loan::is_sent));
    assert!(loans.iter().all(|loan| **loan == pattern(LENT, 9)));
    assert!(loans[0].arena().loan((4 << 20) - 5 * LENT).is_ok());
    drop(stream);
    assert!(*loans[3] == pattern(LENT, 9), "a loan outlives its connection");
}

fn frozen(transport: &str) {
    let (stream, peer) = from("stay", transport);
    peer.stop();
    until_it_ends(&*stream);
}

fn scribbled(_: &str) {
    let (stream, _peer) = from("scribble", "segment");
    until_it_ends(&*stream);
}

/// A hello that names a length which its segment has not, with a file that is no segment, and
/// none at all.
fn lied(_: &str) {
    let listener = Segments::default().listen("").unwrap();
    for length in [0, 1, 4096, 1 << 16, u32::MAX] {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(listener.address()).unwrap()).unwrap();
        let mut hello = *b"isorbseg\x01\0\0\0\0\0\0\0";
        hello[12..].copy_from_slice(&u32::to_ne_bytes(length));
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fds = [std::os::fd::AsFd::as_fd(&file)];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
        let pieces = [IoSlice::new(&hello)];
        rustix::net::sendmsg(&socket, &pieces, &mut control, SendFlags::empty()).unwrap();
        let stream = listener.accept(Wait::Block).unwrap();
        assert_eq!(stream.recv(&mut [0; 8], Wait::Block).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

/// The other side has no memory for its segment: this side's connect is an error, until it has
/// some.
fn starved() {
    let mut peer = Peer::start("starve", "segment", "");
    let address = peer.expect("at ");
    let ours = Segments { bytes: LARGE, ..Segments::default() };
    for _ in 0..=ROUNDS {
        assert!(ours.connect(&address, Some(TIMEOUT)).is_err());
    }
    let stream = ours.connect(&address, Some(TIMEOUT)).unwrap();
    send_all(&*stream, b"fine").unwrap();
    peer.expect("as before");
}

/// Waits until no more is held than before: threads of the test's harness end when they like.
fn settles(what: &str, before: [usize; 3]) {
    for _ in 0..3000 {
        if held().iter().zip(before).all(|(now, before)| *now <= before) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: descriptors, segments, threads: {:?} are left, there were {before:?}", held());
}

#[test]
fn nothing_is_left_behind() {
    type Case = (&'static str, fn(&str), &'static str);
    let cases: [Case; 9] = [
        ("killed", killed, "segment"),
        ("killed", killed, "unix"),
        ("killed lender", killed_lender, "segment"),
        ("killed borrower", killed_borrower, "stay"),
        ("killed borrower", killed_borrower, "borrow"),
        ("frozen", frozen, "segment"),
        ("frozen", frozen, "unix"),
        ("scribbled", scribbled, "segment"),
        ("lied", lied, "segment"),
    ];
    for (what, case, transport) in cases {
        case(transport);
        let before = held();
        (0..ROUNDS).for_each(|_| case(transport));
        settles(what, before);
        assert_eq!(before[1], 0, "{what}: no segment stays mapped");
    }
    starved();
    let before = held();
    starved();
    settles("starved", before);
}
