//! Handshakes that fail, peers that go in the middle of one, and certificates that change leave nothing behind: descriptors, threads and mappings are
//! counted before and after. A process of its own, since it counts the process's.

mod common;

use common::authority;
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use isorb_transport::{Listener, Stream, Tcp, Transport, Wait};
use rustix::net::sockopt::set_socket_linger;
use std::io::IoSlice;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// Times that each of them comes, beside the first few.
const ROUNDS: usize = 40;
/// Mappings that the allocator and the threads' library may have added meanwhile; one a round would be more.
const SPARE: usize = ROUNDS / 2;
/// The head of a record, and of a client's greeting in it that does not come.
const HALF: [u8; 11] = *b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

struct Scene {
    ours: Authority,
    server: Tls,
    client: Tls,
    stranger: Tls,
    door: Box<dyn Listener>,
}

impl Scene {
    fn new() -> Scene {
        let (ours, theirs) = (authority(), authority());
        let mut strange = theirs.member("client").unwrap();
        strange.authorities = ours.folder().join("authority.pem");
        let tls = |config: TlsConfig| Tls::new(config).unwrap();
        let server = tls(ours.member("server").unwrap());
        let client = tls(ours.member("client").unwrap());
        let door = server.listen("127.0.0.1:0").unwrap();
        Scene { ours, server, client, stranger: tls(strange), door }
    }

    /// Who speaks no TLS, or not enough of it, to the server.
    fn says(&self, octets: &[u8]) -> Box<dyn Stream> {
        let stream = Tcp.connect(self.door.address(), PATIENCE).unwrap();
        if !octets.is_empty() {
            stream.send(&[IoSlice::new(octets)], Wait::Block).unwrap();
        }
        stream
    }

    fn talks(&self) {
        let near = self.client.connect(self.door.address(), PATIENCE).unwrap();
        let far = self.door.accept(Wait::Block).unwrap();
        near.send(&[IoSlice::new(&[7])], Wait::Block).unwrap();
        far.set_recv_timeout(PATIENCE).unwrap();
        assert_eq!(far.recv(&mut [0; 8], Wait::Block).unwrap(), 1);
    }
}

fn nonsense(scene: &Scene) {
    let stream = scene.says(b"this is no TLS at all, which the server says");
    stream.set_recv_timeout(PATIENCE).unwrap();
    // An alert, and the end.
    while stream.recv(&mut [0; 64], Wait::Block).is_ok_and(|got| got > 0) {}
}

/// Ends as a process does that is done.
fn goes(scene: &Scene) {
    drop(scene.says(&HALF));
    drop(scene.says(b""));
}

/// Ends as a process does that dies with octets unread: the connection is reset.
fn dies(scene: &Scene) {
    for octets in [&HALF[..], &[]] {
        let stream = scene.says(octets);
        set_socket_linger(stream.fd(), Some(Duration::ZERO)).unwrap();
    }
}

/// Of an authority that the server does not know.
fn is_refused(scene: &Scene) {
    let Ok(stream) = scene.stranger.connect(scene.door.address(), PATIENCE) else { return };
    stream.set_recv_timeout(PATIENCE).unwrap();
    assert!(!stream.recv(&mut [0; 8], Wait::Block).is_ok_and(|got| got > 0), "a stranger gets in");
}

/// The server is the one that goes, or that says nothing.
fn meets_a_bad_server(scene: &Scene) {
    let bad = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = bad.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(bad.accept()));
        assert!(scene.client.connect(&address, PATIENCE).is_err());
    });
    // It stays in the backlog.
    assert!(scene.client.connect(&address, Some(Duration::from_millis(20))).is_err());
}

fn has_new_certificates(scene: &Scene) {
    scene.ours.sign("server").unwrap();
    scene.talks();
    scene.ours.sign("client").unwrap();
    scene.talks();
}

fn has_useless_certificates(scene: &Scene) {
    std::fs::write(scene.ours.folder().join("server.pem"), b"no certificate").unwrap();
    scene.talks();
    has_new_certificates(scene);
}

fn listens_anew(scene: &Scene) {
    let door = scene.server.listen("127.0.0.1:0").unwrap();
    drop(scene.client.connect(door.address(), PATIENCE).unwrap());
}

/// Descriptors, threads, mappings.
fn held() -> [usize; 3] {
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    [entries("/proc/self/fd"), entries("/proc/self/task"), mappings]
}

#[test]
fn nothing_is_left_behind() {
    type Case = (&'static str, fn(&Scene));
    let cases: [Case; 8] = [
        ("nonsense", nonsense),
        ("goes", goes),
        ("dies", dies),
        ("refused", is_refused),
        ("a bad server", meets_a_bad_server),
        ("new certificates", has_new_certificates),
        ("useless certificates", has_useless_certificates),
        ("listens anew", listens_anew),
    ];
    let scene = Scene::new();
    scene.talks();
    for (what, case) in cases {
        (0..3).for_each(|_| case(&scene));
        // Behind those before: they are done with, or were given up.
        scene.talks();
        let before = held();
        (0..ROUNDS).for_each(|_| case(&scene));
        scene.talks();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let now = held();
            if now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] + SPARE {
                break;
            }
            assert!(Instant::now() < end, "{what}: descriptors, threads, mappings: {now:?} after {before:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
