//! Failed and interrupted handshakes and changed certificates leave nothing behind. The test counts
//! the descriptors, threads and mappings of the process, so it is a process of its own.

mod common;

use common::authority;
use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use isorb_transport::{Listener, Stream, Tcp, Transport, Wait};
use rustix::net::sockopt::set_socket_linger;
use std::io::IoSlice;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));
/// Repetitions of each case after the first few.
const ROUNDS: usize = 40;
/// Mappings that the allocator and the thread library may have added. One for each round would be
/// more.
const SPARE: usize = ROUNDS / 2;
/// The header of a record, and of a ClientHello that does not follow.
const HALF: [u8; 11] = *b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

struct Scene {
    ours: Authority,
    server: Tls,
    client: Tls,
    stranger: Tls,
    listener: Box<dyn Listener>,
}

impl Scene {
    fn new() -> Scene {
        let (ours, theirs) = (authority(), authority());
        let mut strange = theirs.member("client").unwrap();
        strange.authorities = ours.folder().join("authority.pem");
        let tls = |config: TlsConfig| Tls::new(config).unwrap();
        let server = tls(ours.member("server").unwrap());
        let client = tls(ours.member("client").unwrap());
        let listener = server.listen("127.0.0.1:0").unwrap();
        Scene { ours, server, client, stranger: tls(strange), listener }
    }

    /// A client that sends octets other than a handshake.
    fn send_raw(&self, octets: &[u8]) -> Box<dyn Stream> {
        let stream = Tcp.connect(self.listener.address(), TIMEOUT).unwrap();
        if !octets.is_empty() {
            stream.send(&[IoSlice::new(octets)], Wait::Block).unwrap();
        }
        stream
    }

    fn exchange(&self) {
        let near = self.client.connect(self.listener.address(), TIMEOUT).unwrap();
        let far = self.listener.accept(Wait::Block).unwrap();
        near.send(&[IoSlice::new(&[7])], Wait::Block).unwrap();
        far.set_recv_timeout(TIMEOUT).unwrap();
        assert_eq!(far.recv(&mut [0; 8], Wait::Block).unwrap(), 1);
    }
}

fn nonsense(scene: &Scene) {
    let stream = scene.send_raw(b"not TLS at all, so the server sends an alert");
    stream.set_recv_timeout(TIMEOUT).unwrap();
    // An alert and the end.
    while stream.recv(&mut [0; 64], Wait::Block).is_ok_and(|got| got > 0) {}
}

/// Closes in order.
fn closes(scene: &Scene) {
    drop(scene.send_raw(&HALF));
    drop(scene.send_raw(b""));
}

/// Resets the connection, as the death of a process with unread octets does.
fn resets(scene: &Scene) {
    for octets in [&HALF[..], &[]] {
        let stream = scene.send_raw(octets);
        set_socket_linger(stream.fd(), Some(Duration::ZERO)).unwrap();
    }
}

/// A client of an authority that the server does not trust.
fn untrusted(scene: &Scene) {
    let Ok(stream) = scene.stranger.connect(scene.listener.address(), TIMEOUT) else { return };
    stream.set_recv_timeout(TIMEOUT).unwrap();
    assert!(
        !stream.recv(&mut [0; 8], Wait::Block).is_ok_and(|got| got > 0),
        "an untrusted client is accepted"
    );
}

/// A server that closes, and one that sends nothing.
fn faulty_server(scene: &Scene) {
    let faulty = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = faulty.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(faulty.accept()));
        assert!(scene.client.connect(&address, TIMEOUT).is_err());
    });
    // This connection stays in the backlog.
    assert!(scene.client.connect(&address, Some(Duration::from_millis(20))).is_err());
}

fn new_certificates(scene: &Scene) {
    scene.ours.sign("server").unwrap();
    scene.exchange();
    scene.ours.sign("client").unwrap();
    scene.exchange();
}

fn unusable_certificates(scene: &Scene) {
    std::fs::write(scene.ours.folder().join("server.pem"), b"no certificate").unwrap();
    scene.exchange();
    new_certificates(scene);
}

fn listens_again(scene: &Scene) {
    let listener = scene.server.listen("127.0.0.1:0").unwrap();
    drop(scene.client.connect(listener.address(), TIMEOUT).unwrap());
}

/// Descriptors, threads, mappings.
fn resources() -> [usize; 3] {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    [entries("/proc/self/fd"), entries("/proc/self/task"), mappings]
}

#[test]
fn nothing_is_left_behind() {
    type Case = (&'static str, fn(&Scene));
    let cases: [Case; 8] = [
        ("nonsense", nonsense),
        ("closes", closes),
        ("resets", resets),
        ("untrusted", untrusted),
        ("faulty server", faulty_server),
        ("new certificates", new_certificates),
        ("unusable certificates", unusable_certificates),
        ("listens again", listens_again),
    ];
    let scene = Scene::new();
    scene.exchange();
    for (name, case) in cases {
        (0..3).for_each(|_| case(&scene));
        // A handshake after all others: they are done or abandoned.
        scene.exchange();
        let before = resources();
        (0..ROUNDS).for_each(|_| case(&scene));
        scene.exchange();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let now = resources();
            if now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] + SPARE {
                break;
            }
            assert!(Instant::now() < end, "{name}: descriptors, threads, mappings: {now:?} after {before:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
