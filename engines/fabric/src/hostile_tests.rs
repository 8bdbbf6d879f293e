//! Peers that speak libfabric and lie, or are cut off at any octet.

use crate::Fabric;
use crate::ffi::{Device, Endpoint, Event, Info, Region};
use crate::hello::{End, Hello, News};
use isorb_transport::conformance::{TIMEOUT, connect, pattern, receive, send_all};
use isorb_transport::segment::OwnSegment;
use isorb_transport::{Listener, Stream, Transport, Wait};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ANYWHERE: &str = "127.0.0.1:0";

/// A peer that says and writes what the test wants.
struct Liar {
    endpoint: Endpoint,
    device: Arc<Device>,
    /// What the accepting side said.
    victim: Hello,
}

impl Liar {
    /// Connects with this hello; `None` if it is refused.
    fn connect(address: &str, printed: &[u8]) -> Option<Liar> {
        let (host, port) = address.split_once(':').unwrap();
        let info = Info::find("tcp", host, port, false).unwrap();
        let device = Arc::new(Device::open(&info).unwrap());
        let mut endpoint = Endpoint::open(&device, &info).unwrap();
        let memory = Arc::new(OwnSegment::new(8192).unwrap());
        endpoint.keep(Region::register(&device, memory, false, 2).unwrap());
        // The segment of its hello.
        let segment = Arc::new(OwnSegment::new(4096).unwrap());
        endpoint.keep(Region::register(&device, segment, true, hello().key).unwrap());
        for slot in 0..8 {
            endpoint.post_receive(0, slot * 16..(slot + 1) * 16, slot).unwrap();
        }
        endpoint.connect(&info, printed).unwrap();
        loop {
            match device.event() {
                Some(Event::Connected { hello: answer, .. }) => {
                    let victim = Hello::decode(&answer, 1 << 30).unwrap();
                    return Some(Liar { endpoint, device, victim });
                }
                Some(Event::Gone { .. }) => return None,
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Has the device work, as long as `busy` says.
    fn work(&self, busy: impl Fn() -> bool) {
        let end = Instant::now() + TIMEOUT;
        while busy() {
            assert!(Instant::now() < end, "nothing happened");
            while self.device.completion().is_some() || self.device.event().is_some() {}
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn hello() -> Hello {
    Hello { capacity: 4096, key: 1, address: 0 }
}

/// A liar, and the victim's end of the connection.
fn victim_of_a_liar(listener: &dyn Listener) -> (Liar, Box<dyn Stream>) {
    std::thread::scope(|scope| {
        let liar = scope
            .spawn(|| Liar::connect(listener.address(), &hello().encode()).expect("a hello as it should be"));
        let victim = listener.accept(Wait::Block).unwrap();
        // Joins the segments.
        let end = Instant::now() + TIMEOUT;
        while victim.send(&[], Wait::No).is_err() {
            assert!(Instant::now() < end, "the segments are never joined");
            let _ = victim.recv(&mut [], Wait::No);
            std::thread::yield_now();
        }
        (liar.join().unwrap(), victim)
    })
}

/// The listener goes on, whatever came before.
fn assert_serves(transport: &dyn Transport, listener: &dyn Listener) {
    let (a, b) = connect(transport, listener);
    send_all(&*a, b"next").unwrap();
    assert_eq!(receive(&*b, 4, 4).unwrap(), b"next");
}

#[test]
fn a_hello_that_lies_is_refused() {
    let fabric = Fabric { bytes: 4096, ..Fabric::default() };
    let listener = fabric.listen(ANYWHERE).unwrap();
    let mut other_magic = hello().encode();
    other_magic[0] ^= 1;
    let capacity = |capacity| Hello { capacity, ..hello() }.encode();
    let lies: [&[u8]; 7] = [
        b"",
        b"GIOP",
        &hello().encode()[..31],
        &other_magic,
        &capacity(0),
        &capacity(5000),
        // More than this side would keep a copy of.
        &capacity(2 << 20),
    ];
    for lie in lies {
        assert!(Liar::connect(listener.address(), lie).is_none(), "{lie:?}");
        assert_eq!(listener.accept(Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    assert_serves(&fabric, &*listener);
}

/// What the victim's receive says after the liar sent this.
fn after(message: &[u8]) -> io::Result<usize> {
    let listener = Fabric::default().listen(ANYWHERE).unwrap();
    let (liar, victim) = victim_of_a_liar(&*listener);
    liar.endpoint.send(message).unwrap();
    victim.set_recv_timeout(Some(TIMEOUT)).unwrap();
    let received = std::thread::scope(|scope| {
        let received = scope.spawn(|| victim.recv(&mut [0; 8], Wait::Block));
        liar.work(|| !received.is_finished());
        received.join().unwrap()
    });
    assert_serves(&Fabric::default(), &*listener);
    received
}

fn assert_ended(received: io::Result<usize>, what: &str) {
    match received {
        Ok(n) => assert_eq!(n, 0, "{what}"),
        Err(error) => assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{what}"),
    }
}

#[test]
fn a_message_of_another_length_ends_the_connection() {
    for length in [1, 11, 13, 16, 17, 100] {
        assert_ended(after(&vec![0; length]), &format!("{length} octets"));
    }
    let mut other_end = News::default().encode();
    other_end[8] = 9;
    assert_ended(after(&other_end), "another end");
}

#[test]
fn a_head_that_cannot_be_is_an_error() {
    for head in [(64 << 10) + 1, u32::MAX] {
        let news = News { head, ..News::default() };
        assert_eq!(after(&news.encode()).unwrap_err().kind(), io::ErrorKind::InvalidData, "{head}");
    }
}

#[test]
fn a_credit_that_cannot_be_is_an_error() {
    let listener = Fabric::default().listen(ANYWHERE).unwrap();
    for credit in [4097, u32::MAX] {
        let (liar, victim) = victim_of_a_liar(&*listener);
        assert_eq!(victim.send(&[IoSlice::new(&[1; 4096])], Wait::Block).unwrap(), 4096);
        liar.endpoint.send(&News { credit, ..News::default() }.encode()).unwrap();
        victim.set_send_timeout(Some(TIMEOUT)).unwrap();
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| send_all(&*victim, b"x"));
            liar.work(|| !sent.is_finished());
            assert_eq!(sent.join().unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData, "{credit}");
        });
    }
}

#[test]
fn a_write_outside_the_segment_ends_the_connection() {
    let listener = Fabric::default().listen(ANYWHERE).unwrap();
    let capacity = 64 << 10;
    for (address, length) in [(capacity - 1, 2), (capacity, 1), (1 << 40, 100), (u64::MAX, 8)] {
        for other_key in [false, true] {
            let (liar, victim) = victim_of_a_liar(&*listener);
            let (key, at) =
                (liar.victim.key ^ u64::from(other_key), liar.victim.address.wrapping_add(address));
            liar.endpoint.write(0, 4096..4096 + length, at, key, 99).unwrap();
            victim.set_recv_timeout(Some(TIMEOUT)).unwrap();
            std::thread::scope(|scope| {
                let received = scope.spawn(|| victim.recv(&mut [0; 8], Wait::Block));
                liar.work(|| !received.is_finished());
                assert_ended(received.join().unwrap(), &format!("{length} octets at {address}"));
            });
        }
    }
    assert_serves(&Fabric::default(), &*listener);
}

#[test]
fn an_end_before_its_octets_costs_only_them() {
    let news = News { end: End::Acknowledged, ..News::default() };
    assert_eq!(after(&news.encode()).unwrap(), 0);
}

/// Octets that are no libfabric, at the same port.
#[test]
fn a_stranger_at_the_port_disturbs_no_connection() {
    let fabric = Fabric::default();
    let listener = fabric.listen(ANYWHERE).unwrap();
    for octets in [0, 1, 7, 8, 100, 5000] {
        let mut stranger = TcpStream::connect(listener.address()).unwrap();
        // It may be refused before it has sent everything.
        let _ = stranger.write_all(&pattern(octets, 4));
        let _ = stranger.shutdown(Shutdown::Write);
        assert_serves(&fabric, &*listener);
    }
}

/// Copies octets, until `most` have gone; then both connections end.
fn copy(mut from: &TcpStream, mut to: &TcpStream, mut most: usize) {
    let mut block = [0; 4096];
    while most > 0 {
        let room = most.min(block.len());
        match from.read(&mut block[..room]) {
            Ok(n @ 1..) if to.write_all(&block[..n]).is_ok() => most -= n,
            _ => break,
        }
    }
    for socket in [from, to] {
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// A connection that is cut after any octet of its hello, of a write or of a message: what
/// arrived is the beginning of what was sent, and then comes the end.
#[test]
fn a_connection_that_is_cut_anywhere_ends() {
    let fabric = Fabric::default();
    let listener = fabric.listen(ANYWHERE).unwrap();
    let relay = TcpListener::bind(ANYWHERE).unwrap();
    let address = relay.local_addr().unwrap().to_string();
    let all = pattern(3000, 5);
    let mut complete = 0;
    for cut in (0..160).step_by(3).chain((160..3600).step_by(311)) {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (client, _) = relay.accept().unwrap();
                let server = TcpStream::connect(listener.address()).unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| copy(&server, &client, usize::MAX));
                    copy(&client, &server, cut);
                });
            });
            scope.spawn(|| {
                // The cut may come before the connection.
                if let Ok(stream) = fabric.connect(&address, Some(TIMEOUT)) {
                    stream.set_send_timeout(Some(TIMEOUT)).unwrap();
                    for part in all.chunks(100) {
                        if send_all(&*stream, part).is_err() {
                            break;
                        }
                    }
                    stream.set_recv_timeout(Some(TIMEOUT)).unwrap();
                    assert_ended(stream.recv(&mut [0; 8], Wait::Block), "the client's end");
                }
                over.store(true, Ordering::Release);
            });
            let accepted = loop {
                match listener.accept(Wait::No) {
                    Ok(stream) => break Some(stream),
                    Err(error) => assert_ne!(error.kind(), io::ErrorKind::TimedOut),
                }
                if over.load(Ordering::Acquire) {
                    break None;
                }
                std::thread::sleep(Duration::from_micros(500));
            };
            let Some(stream) = accepted else { return };
            stream.set_recv_timeout(Some(TIMEOUT)).unwrap();
            let mut got = Vec::new();
            let mut block = [0; 512];
            let end = loop {
                match stream.recv(&mut block, Wait::Block) {
                    Ok(n @ 1..) => got.extend_from_slice(&block[..n]),
                    end => break end,
                }
            };
            assert_ended(end, "the server's end");
            assert!(all.starts_with(&got), "after {cut} octets");
            complete += usize::from(!got.is_empty());
        });
    }
    assert!(complete > 3, "some cuts come after the first messages");
    assert_serves(&fabric, &*listener);
}

/// Connections leave nothing behind.
#[test]
fn descriptors_come_back() {
    // In a process of its own, since others of this program open descriptors.
    if std::env::var_os("ISORB_FABRIC_ALONE").is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "hostile_tests::descriptors_come_back"]).env("ISORB_FABRIC_ALONE", "1");
        let output = alone.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let fabric = Fabric::default();
    let listener = fabric.listen(ANYWHERE).unwrap();
    assert_serves(&fabric, &*listener);
    let settle = |most: usize| {
        let end = Instant::now() + TIMEOUT;
        while open() > most && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        open()
    };
    std::thread::sleep(Duration::from_millis(200));
    let before = open();
    for _ in 0..20 {
        assert_serves(&fabric, &*listener);
        let _ = Liar::connect(listener.address(), b"a lie");
    }
    assert!(settle(before) <= before, "{} descriptors, {before} before", open());
}
