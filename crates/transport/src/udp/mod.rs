//! UDP: one message for each datagram, whole or not at all.
//!
//! There is no connection on the network. A client has a socket that is connected to the server's
//! address, so the kernel discards datagrams of other senders. A server has one socket for all
//! clients. The thread that accepts sorts datagrams by sender into a bounded queue for each, from
//! which that sender's stream receives.
//!
//! ```text
//!   socket ── accept: whole? known sender? ──► queue of the sender ──► Stream
//!                 │ no: counted, dropped           │ full: counted, dropped
//! ```
//!
//! A function recognises whole messages ([`Udp::whole`]). Other datagrams are counted and dropped,
//! so noise never reaches a connection. An address that did not prove that it receives gets a
//! multiple of what it sent at most ([`Udp::amplification`]). Nothing is retransmitted: a caller
//! that waits for a reply needs a time-out.

mod client;
mod proof;
mod server;

use crate::{Capabilities, Listener, Stream, Transport};
use rustix::io::Errno;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Profile tag of GIOP over UDP, as TAO uses it ("TAO\4").
pub const TAG_UDP: u32 = 0x5441_4f04;

/// The longest message: the payload of a UDP datagram over IPv4.
pub const LONGEST_DATAGRAM: usize = 65_507;

/// Room for the longest datagram of either family, and one octet to detect a longer one.
const ROOM: usize = 65_536;

/// UDP. Addresses are `host:port` and `[v6]:port`.
#[derive(Clone, Debug)]
pub struct Udp {
    /// Whether these octets are one whole message. Others are counted and dropped.
    pub whole: fn(&[u8]) -> bool,
    /// Whether the sender of this message waits for a reply.
    pub expects_reply: fn(&[u8]) -> bool,
    /// Most senders that a listener knows at a time. With so many, a new sender replaces the one
    /// that was silent for longest, if that is more than a second, or more than a minute where it
    /// waits for a reply. Otherwise the datagram of the new sender is dropped.
    pub peers: usize,
    /// The most octets that a listener sends to an address, as a multiple of those that came from
    /// it, until the sender has proved that it receives there. Longer replies wait for the proof,
    /// which clients of this transport give when they are asked. 0: no proof is needed.
    pub amplification: u32,
    /// Counts of lost datagrams.
    pub counts: Arc<DatagramCounts>,
}

/// Datagrams that were ignored or dropped since the transport was made.
#[derive(Debug, Default)]
pub struct DatagramCounts {
    ignored: AtomicU64,
    dropped: AtomicU64,
}

impl DatagramCounts {
    /// Received datagrams that were not one whole message.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// Whole messages, received or to be sent, without room for them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn ignore(&self) {
        self.ignored.fetch_add(1, Ordering::Relaxed);
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Transport for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn profile_tag(&self) -> u32 {
        TAG_UDP
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliable: false,
            pollable: true,
            crosses_hosts: true,
            notices_death: false,
            multicast: false,
        }
    }

    /// Does not wait: nothing is sent, so that a server which is not there is noticed by the first
    /// call only.
    fn connect(&self, address: &str, _: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        let mut last = no_address();
        for at in address.to_socket_addrs()? {
            match client::Client::connect(self, at) {
                Ok(stream) => return Ok(Box::new(stream)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        let mut last = no_address();
        for at in address.to_socket_addrs()? {
            match server::listen(self, at) {
                Ok((socket, port)) => {
                    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                    let address = format!("{host}:{port}");
                    return Ok(Box::new(server::Demultiplexer::new(self, socket, address)));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host name has no address")
}

/// A socket of the family of `like`.
fn bound(like: SocketAddr, to: SocketAddr) -> io::Result<UdpSocket> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::for_address(like), Type::DGRAM, None)?;
    if like.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&to.into())?;
    Ok(socket.into())
}

/// A time-out that is read and set without a lock; nanoseconds, the largest number for none.
#[derive(Debug)]
pub(crate) struct TimeOut(AtomicU64);

impl TimeOut {
    pub(crate) fn none() -> TimeOut {
        TimeOut(AtomicU64::new(u64::MAX))
    }

    pub(crate) fn set(&self, timeout: Option<Duration>) {
        let ns = timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            u64::MAX => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }
}

/// Whether a system call is to be made again at once.
fn again(error: Errno) -> bool {
    error == Errno::INTR
}

#[cfg(test)]
mod tests;
