//! A member of a group, which receives its messages.

use super::{GroupCounts, Miop};
use isorb_giop::miop::{Collector, LostCounts, Packet, Taken};
use isorb_rt::net::{Interest, set_recv_buffer, wait_ready};
use isorb_rt::time::{Deadline, now_ns};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Room for the longest datagram of either family.
const ROOM: usize = 65_536;

/// A member of a group: one of the sockets that receive its messages. Dropping it leaves the
/// group.
#[derive(Debug)]
pub struct Member {
    socket: UdpSocket,
    group: SocketAddr,
    counts: Arc<GroupCounts>,
    closed: AtomicBool,
}

/// Where a member's messages are put together again: all the memory that it takes.
#[derive(Debug)]
pub struct Memory {
    datagram: Box<[u8]>,
    collector: Collector<SocketAddr>,
    lost: LostCounts,
}

impl Memory {
    /// Memory for what `miop` allows.
    pub fn new(miop: &Miop) -> Memory {
        Memory {
            datagram: vec![0; ROOM].into(),
            collector: Collector::new(miop.limits()),
            lost: LostCounts::default(),
        }
    }
}

impl Member {
    pub(super) fn join(miop: &Miop, group: SocketAddr) -> io::Result<Member> {
        let socket = miop.multicast.receiver(group)?;
        // Room for the packets of long messages; the kernel may give less.
        let _ = set_recv_buffer(&socket, 1 << 20);
        let group = SocketAddr::new(group.ip(), socket.local_addr()?.port());
        Ok(Member { socket, group, counts: miop.counts.clone(), closed: AtomicBool::new(false) })
    }

    /// The group, and the port.
    pub fn group(&self) -> SocketAddr {
        self.group
    }

    /// Calls `each` with each whole message and its sender, until [`Member::close`]. One thread
    /// only.
    ///
    /// # Errors
    /// What the operating system gives.
    ///
    /// # Real-time
    /// Blocks. A receive for each packet; allocates nothing.
    pub fn serve(&self, memory: &mut Memory, mut each: impl FnMut(&[u8], SocketAddr)) -> io::Result<()> {
        let Memory { datagram, collector, lost } = memory;
        loop {
            let got = rustix::net::recvfrom(&self.socket, &mut datagram[..], RecvFlags::empty());
            if self.closed.load(Ordering::Acquire) {
                return Ok(());
            }
            let (n, from) = match got {
                Ok((_, n, Some(from))) => (n.min(ROOM), from),
                Ok((..)) | Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    wait_ready(&self.socket, Interest::READ, Deadline::NONE)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let (Ok(from), Ok(packet)) = (SocketAddr::try_from(from), Packet::parse(&datagram[..n])) else {
                self.counts.ignore();
                continue;
            };
            if let Taken::Whole(message) = collector.take(from, &packet, now_ns()) {
                self.counts.message();
                each(message, from);
            }
            let now = collector.counts();
            if now != *lost {
                self.counts.lost(*lost, now);
                *lost = now;
            }
        }
    }

    /// Ends [`Member::serve`].
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the waiting thread, although the kernel reports that the socket is not connected.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }
}
