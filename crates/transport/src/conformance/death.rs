//! A peer that is another process, and is killed: its streams are not shut down by anybody, the
//! kernel ends what it had.
//!
//! The test starts its own program again as that process, with the orders in its environment and
//! `the_peer` as the only test.

use super::{Make, TIMEOUT, pattern, receive, send_all};
use crate::{Listener, Stream, Wait};
use std::io::{self, IoSlice, Read};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// What the other process is to do: the address to connect to, a bar, how many octets to send.
const ORDERS: &str = "ISORB_CONFORMANCE_PEER";
const SEED: u64 = 3;

/// Is this process the peer of a test's? Then it has to find what the test made, such as
/// certificates, and not make its own.
pub fn is_peer() -> bool {
    std::env::var_os(ORDERS).is_some()
}

/// What the other process does: connects, sends, and stays until it is killed. Without orders there
/// is nothing to do.
pub fn the_peer(make: Make<'_>, _module: &str) {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let (address, octets) = orders.rsplit_once('|').expect("address|octets");
    let octets = octets.parse().expect("octets are a number");
    let stream = make().0.connect(address, Some(TIMEOUT)).expect("a listener can be connected to");
    send_all(&*stream, &pattern(octets, SEED)).expect("there is room, or the other side receives");
    println!("ready");
    // Longer than any test; the test kills this process.
    std::thread::sleep(2 * TIMEOUT);
}

struct Peer(Child);

impl Peer {
    fn start(module: &str, address: &str, octets: usize) -> Peer {
        // Tests are named without their crate.
        let module = module.split_once("::").map_or("", |(_, module)| module);
        let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
        command.args(["--exact", &format!("{module}::the_peer"), "--nocapture"]);
        command.env(ORDERS, format!("{address}|{octets}")).stdout(Stdio::piped()).stderr(Stdio::null());
        Peer(command.spawn().expect("a test can start itself"))
    }

    /// Until it has sent everything.
    fn ready(&mut self) {
        let mut printed = String::new();
        let out = self.0.stdout.as_mut().expect("it is a pipe");
        let mut octet = [0];
        while !printed.contains("ready") {
            assert_eq!(out.read(&mut octet).expect("the pipe can be read"), 1, "the peer said {printed}");
            printed.push(octet[0].into());
        }
    }

    fn kill(&mut self) {
        // It may have ended by itself, which the test then sees.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A connection from a process that has sent this many octets, of which none was received.
fn sent_by_peer(make: Make<'_>, module: &str, octets: usize) -> (Box<dyn Listener>, Box<dyn Stream>, Peer) {
    let (transport, address) = make();
    let listener = transport.listen(&address).expect("a free address can be listened at");
    let mut peer = Peer::start(module, listener.address(), octets);
    let stream = listener.accept(Wait::Block).expect("the connection is accepted");
    // A transport may greet in the first receive; it takes nothing, having room for nothing.
    while stream.send(&[], Wait::No).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected) {
        let _ = stream.recv(&mut [], Wait::No);
        std::thread::yield_now();
    }
    peer.ready();
    (listener, stream, peer)
}

/// A peer that is killed after any octet of a header, or in the middle of a message: exactly
/// its octets arrive, then the end, or an error.
pub fn a_killed_peer_leaves_exactly_what_it_sent(make: Make<'_>, module: &str) {
    // No more than fits on the way: a GIOP header is 12 octets, a small request some 80.
    for octets in (0..=16).chain([31, 32, 33, 80, 1000, 3000]) {
        let (_listener, stream, mut peer) = sent_by_peer(make, module, octets);
        peer.kill();
        stream.set_recv_timeout(Some(TIMEOUT)).unwrap();
        assert!(receive(&*stream, octets, 5).unwrap() == pattern(octets, SEED), "{octets} octets");
        assert_gone(&stream.recv(&mut [0; 8], Wait::Block));
    }
}

/// A receiver that waits for the rest of a message is woken when the peer's process is killed.
pub fn a_killed_peer_ends_a_blocked_receive(make: Make<'_>, module: &str) {
    for octets in [0, 1, 100] {
        let (_listener, stream, mut peer) = sent_by_peer(make, module, octets);
        assert!(receive(&*stream, octets, 64).unwrap() == pattern(octets, SEED));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stream.recv(&mut [0; 8], Wait::Block));
            std::thread::sleep(std::time::Duration::from_millis(30));
            peer.kill();
            assert_gone(&waiting.join().unwrap());
        });
    }
}

/// So is a sender in the middle of a message: it gets an error.
pub fn a_killed_peer_ends_a_blocked_send(make: Make<'_>, module: &str) {
    let (_listener, stream, mut peer) = sent_by_peer(make, module, 10);
    let block = vec![1; 1 << 16];
    // Until there is no room: a further send waits for the peer, which receives nothing.
    let full = (0..1000).find_map(|_| stream.send(&[IoSlice::new(&block)], Wait::No).err());
    assert_eq!(full.expect("64 MiB on the way, and no end").kind(), io::ErrorKind::WouldBlock);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| send_all(&*stream, &vec![1; 64 << 20]));
        std::thread::sleep(std::time::Duration::from_millis(30));
        peer.kill();
        let error = waiting.join().unwrap().unwrap_err();
        assert_gone(&Err(error));
    });
}

/// A sender without waiting, such as a lane, does not mistake such a peer for a slow one.
pub fn a_killed_peer_is_no_slow_one(make: Make<'_>, module: &str) {
    for watched in [false, true] {
        if watched && !make().0.capabilities().pollable {
            continue;
        }
        let (_listener, stream, mut peer) = sent_by_peer(make, module, 0);
        if watched {
            stream.watched();
        }
        peer.kill();
        let block = vec![1; 1 << 16];
        let end = Instant::now() + TIMEOUT;
        let error = loop {
            match stream.send(&[IoSlice::new(&block)], Wait::No) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => break error,
                _ => assert!(Instant::now() < end, "the peer seems to be there"),
            }
        };
        assert_gone(&Err(error));
    }
}

/// The end of the stream; or that the peer is gone, as the kernel has it where the peer had not
/// received everything.
fn assert_gone(received: &io::Result<usize>) {
    let kind = received.as_ref().map_err(io::Error::kind);
    let gone = [Ok(&0), Err(io::ErrorKind::BrokenPipe), Err(io::ErrorKind::ConnectionReset)];
    assert!(gone.contains(&kind), "{received:?}");
}
