//! Memory segments: the transport that writes straight into its peer.
//!
//! As in ROFES (section 4), each side of a connection owns a segment in which it receives, and maps
//! the other's to write in. The sender copies a message into the peer's segment and publishes it.
//! The peer copies it into private memory before it parses it. Messages longer than a segment
//! stream through. Three traits ([`medium`]) hide the memory. Here it is a sealed memfd that is
//! passed over a unix socket; `engines/fabric` writes to the memory of another host.
//!
//! ```text
//!   stream           waits, and their time-outs              Stream of this crate
//!   spin, wake_cost  how long a wait polls before it sleeps  follows the cost of a wake-up
//!   timeout_monitor  ends waits that no peer ends            one thread of the process
//!   handshake        exchange of the segments, access check
//!   ring             heads, credits, sleeps: the protocol    checked by loom
//!   arena            memory in which long messages lie       read-only for the peer
//!   medium           requirements on a pair of segments      three traits
//!   memory           sealed memfd, mapped                    unsafe code, as in arena
//! ```
//!
//! The death of a peer is noticed at once, and a stopped peer by the time-out. A peer that
//! overwrites the segment causes an error of its connection, or bytes that are no message.

mod arena;
mod handshake;
pub mod medium;
#[allow(unsafe_code)]
mod memory;
mod ring;
mod spin;
mod stream;
mod timeout_monitor;
mod wake_cost;

pub use arena::{Arena, ArenaCounts, LentPart, Loan, LoanError};
pub use memory::OwnSegment;
pub use ring::{ProtocolViolation, Ring};
pub use spin::{Spin, SpinBudget, SpinWait};
pub use stream::SegmentStream;

use crate::rendezvous::{self, Path};
use crate::socket::Accepting;
use crate::{Capabilities, Listener, Locality, Stream, Transport, Wait};
use handshake::Terms;
use isorb_rt::net::connect_unix_packets;
use isorb_rt::time::Deadline;
use socket2::Type;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Profile tag of GIOP over memory segments ("ISO\0").
pub const TAG_SEGMENTS: u32 = 0x4953_4f00;

/// Memory segments. Addresses are paths of unix sockets, as with [`Unix`](crate::Unix), but of
/// another kind of socket.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Octets of a connection's receive segment, rounded up to a power of two from 4 KiB to 1 GiB.
    /// A peer's segment may be as long, or up to 1 MiB.
    pub bytes: usize,
    /// Octets of the arena in which a connection lends to its peer, rounded up to whole pages, up
    /// to 1 GiB. 0: neither side has one. A peer's arena may be as long, or up to 16 MiB.
    pub arena_bytes: usize,
    /// How long a waiting side spins before it sleeps, while the peer runs on another processor.
    pub spin: Spin,
    /// Permissions of the sockets that it listens at.
    pub mode: u32,
    /// Users, by number, with which this process may share segments, besides the own user.
    pub users: Vec<u32>,
}

impl Default for Segments {
    /// 64 KiB, as in ROFES; an arena of four messages of 1 MiB; twice what a wake-up costs; the own
    /// user.
    fn default() -> Segments {
        Segments {
            bytes: 64 << 10,
            arena_bytes: 4 << 20,
            spin: Spin::default(),
            mode: 0o600,
            users: Vec::new(),
        }
    }
}

impl Segments {
    fn terms(&self) -> Terms {
        let bytes = self.bytes.clamp(memory::LEAST, memory::MOST).next_power_of_two();
        Terms { bytes, arena_bytes: self.arena_bytes.min(arena::MOST), users: self.users.clone() }
    }
}

impl Transport for Segments {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn profile_tag(&self) -> u32 {
        TAG_SEGMENTS
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliable: true,
            pollable: true,
            crosses_hosts: false,
            notices_death: true,
            multicast: false,
        }
    }

    fn locality(&self, address: &str) -> Option<Locality> {
        rendezvous::locality(address)
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        wake_cost::measure_once();
        let deadline = Deadline::after_opt(timeout);
        let socket = connect_unix_packets(address.as_ref(), deadline)?;
        let peer = format!("segment:{address}");
        Ok(Box::new(SegmentStream::connect(socket, self.terms(), self.spin, peer, deadline)?))
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        wake_cost::measure_once();
        let (fd, path) = rendezvous::listen(address, Type::SEQPACKET, self.mode)?;
        Ok(Box::new(SegmentListener {
            socket: Accepting::new(fd),
            path,
            terms: self.terms(),
            spin: self.spin,
        }))
    }
}

#[derive(Debug)]
struct SegmentListener {
    socket: Accepting,
    path: Path,
    terms: Terms,
    spin: Spin,
}

impl Listener for SegmentListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let (socket, _) = self.socket.accept(wait)?;
        Ok(Box::new(SegmentStream::accepted(socket.into(), self.terms.clone(), self.spin)?))
    }

    fn address(&self) -> &str {
        &self.path.text
    }

    fn close(&self) {
        if self.socket.close() {
            self.path.remove();
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }
}
