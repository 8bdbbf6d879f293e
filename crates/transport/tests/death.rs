//! A peer that is another process, and stops or lies, or is another user's. One that is killed is
//! among the suite's.
//!
//! The test starts itself again as that process (`ISORB_PEER`), so that what ends is a process and
//! not a value.

use isorb_transport::conformance::{TIMEOUT, pattern, receive, send_all};
use isorb_transport::{Listener, Segments, Stream, Transport, Unix, Wait};
use std::io::{self, IoSlice, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The other process: connects, sends a number of octets, then stays until it is killed. It shares
/// segments with one more user if it gets a user's number.
#[test]
fn the_peer() {
    let Ok(orders) = std::env::var("ISORB_PEER") else { return };
    let parts: Vec<&str> = orders.split('|').collect();
    let [transport, address, octets, users] = parts[..] else { panic!("transport|address|octets|users") };
    let users = users.parse().into_iter().collect();
    let stream = match by_name(transport, users).connect(address, Some(TIMEOUT)) {
        Ok(stream) => stream,
        Err(error) => return println!("refused: {:?}", error.kind()),
    };
    let octets: usize = octets.parse().unwrap();
    send_all(&*stream, &pattern(octets, 3)).unwrap();
    println!("ready");
    // Longer than any test; the test kills this process.
    std::thread::sleep(2 * TIMEOUT);
}

fn by_name(name: &str, users: Vec<u32>) -> Box<dyn Transport> {
    match name {
        "unix" => Box::new(Unix::default()),
        _ => Box::new(Segments { users, ..Segments::default() }),
    }
}

/// Where one of that name listens.
fn listen(name: &str) -> Box<dyn Listener> {
    by_name(name, Vec::new()).listen("").unwrap()
}

struct Peer(Child);

impl Peer {
    fn start(transport: &str, address: &str, octets: usize) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_peer", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::null());
        Peer(command.env("ISORB_PEER", format!("{transport}|{address}|{octets}|")).spawn().unwrap())
    }

    /// Waits until the peer has executed its orders.
    fn ready(&mut self) {
        let mut printed = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        let mut octet = [0];
        while !printed.contains("ready") {
            assert_eq!(out.read(&mut octet).unwrap(), 1, "the peer said {printed}");
            printed.push(octet[0].into());
        }
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    fn stop(&self) {
        let process = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A connection from a peer that has sent this many octets.
fn from_peer(transport: &str, octets: usize) -> (Box<dyn Stream>, Peer) {
    let listener = listen(transport);
    let mut peer = Peer::start(transport, listener.address(), octets);
    let stream = listener.accept(Wait::Block).unwrap();
    // Both go on at once: what was sent is taken while the peer still sends it.
    stream.set_recv_timeout(Some(TIMEOUT)).unwrap();
    assert!(receive(&*stream, octets, 999).unwrap() == pattern(octets, 3));
    if octets == 0 {
        while stream.recv(&mut [0], Wait::No).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
            if peer.0.try_wait().unwrap().is_some() {
                panic!("the peer ended");
            }
            if greeted(&*stream) {
                break;
            }
        }
    }
    peer.ready();
    stream.set_recv_timeout(None).unwrap();
    (stream, peer)
}

/// Whether the stream can send, which over segments it can when the peer has greeted.
fn greeted(stream: &dyn Stream) -> bool {
    !stream.send(&[], Wait::No).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected)
}

#[test]
fn a_stopped_peer_is_a_time_out() {
    for transport in ["segment", "unix"] {
        let (stream, peer) = from_peer(transport, 10);
        peer.stop();
        stream.set_recv_timeout(Some(Duration::from_millis(50))).unwrap();
        let error = stream.recv(&mut [0; 8], Wait::Block).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        stream.set_send_timeout(Some(Duration::from_millis(50))).unwrap();
        let block = vec![1; 1 << 20];
        let ended = (0..100).find_map(|_| stream.send(&[IoSlice::new(&block)], Wait::Block).err());
        let kind = ended.expect("a peer that takes nothing is noticed").kind();
        assert!(matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
    }
}

#[test]
fn what_is_no_handshake_ends_that_connection_only() {
    use rustix::net::{SendFlags, SocketAddrUnix, SocketFlags, SocketType};
    let listener = Segments::default().listen("").unwrap();
    let raw = |hello_octets: &[u8]| {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(rustix::net::AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(listener.address()).unwrap()).unwrap();
        if !hello_octets.is_empty() {
            rustix::net::send(&socket, hello_octets, SendFlags::empty()).unwrap();
        }
        (socket, listener.accept(Wait::Block).unwrap())
    };
    // A silent peer: a receiver waits no longer than it wants to.
    let (_socket, silent) = raw(b"");
    assert_eq!(silent.recv(&mut [0; 8], Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    silent.set_recv_timeout(Some(Duration::from_millis(10))).unwrap();
    assert_eq!(silent.recv(&mut [0; 8], Wait::Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(silent.send(&[IoSlice::new(b"x")], Wait::Block).is_err());
    let mut hello = *b"isorbseg\x01\0\0\0\0\0\x01\0";
    for hello_octets in [&b"GIOP"[..], &hello[..8], &[0; 200], &hello.clone()] {
        let (_socket, stream) = raw(hello_octets);
        assert_eq!(stream.recv(&mut [0; 8], Wait::No).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
    hello[8] = 9;
    let (_socket, stream) = raw(&hello);
    assert_eq!(stream.recv(&mut [0; 8], Wait::Block).unwrap_err().kind(), io::ErrorKind::InvalidData);
    // The listener is as good as before.
    let (near, far) = isorb_transport::conformance::connect(&Segments::default(), &*listener);
    send_all(&*near, b"fine").unwrap();
    assert_eq!(receive(&*far, 4, 4).unwrap(), b"fine");
}

#[test]
fn another_users_process_attaches_where_each_names_the_other() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can start a process of another user");
    }
    const ROOT: u32 = 0;
    const OTHER_USER: u32 = 65534;
    use std::os::unix::process::CommandExt;
    for (named, names) in [(false, false), (false, true), (true, false), (true, true)] {
        let users = if named { vec![OTHER_USER] } else { Vec::new() };
        let segments = Segments { mode: 0o666, users, ..Segments::default() };
        // Where every user may look.
        let path = format!("/tmp/isorb-users-{}-{named}-{names}", std::process::id());
        let listener = segments.listen(&path).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_peer", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let its = if names { ROOT.to_string() } else { String::new() };
        let started = command.env("ISORB_PEER", format!("segment|{path}|1000|{its}")).uid(OTHER_USER).spawn();
        let mut peer = match started {
            Ok(child) => Peer(child),
            Err(error) => return println!("skipped: user {OTHER_USER} cannot run this test: {error}"),
        };
        if !named {
            let refused = listener.accept(Wait::Block).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(refused.to_string().contains(&OTHER_USER.to_string()), "{refused}");
            continue;
        }
        let stream = listener.accept(Wait::Block).unwrap();
        if names {
            assert!(receive(&*stream, 1000, 99).unwrap() == pattern(1000, 3));
            peer.ready();
        } else {
            // The peer does not know this user: it is the one that refuses.
            assert_eq!(receive(&*stream, 1, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            let mut printed = String::new();
            peer.0.stdout.as_mut().unwrap().read_to_string(&mut printed).unwrap();
            assert!(printed.contains("refused: PermissionDenied"), "{printed}");
        }
    }
}
