//! A sender to a group: a socket and a buffer for one packet.

use super::{GroupCounts, Miop};
use crate::udp::TimeOut;
use crate::{Stream, StreamCapabilities, Wait};
use isorb_giop::miop::{ID_LEN, PacketHead};
use isorb_rt::net::{self, Interest, wait_ready};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Sender {
    socket: UdpSocket,
    peer: String,
    longest: usize,
    piece: usize,
    counts: Arc<GroupCounts>,
    packet: PiMutex<PacketBuffer>,
    recv_timeout: TimeOut,
    send_timeout: TimeOut,
    ended: AtomicBool,
}

#[derive(Debug)]
struct PacketBuffer {
    octets: Vec<u8>,
    ids: Ids,
}

/// Ids that no other sender uses, and this one not twice. All octets are printable, since some
/// peers treat them as text.
#[derive(Debug)]
struct Ids {
    own: u64,
    next: u64,
}

impl Ids {
    fn new() -> Ids {
        Ids { own: isorb_rt::random_u64(), next: 0 }
    }

    fn next(&mut self) -> [u8; ID_LEN] {
        const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
        let number = self.next;
        self.next += 1;
        std::array::from_fn(|i| {
            let (from, digit) = if i < ID_LEN / 2 { (self.own, i) } else { (number, i - ID_LEN / 2) };
            DIGITS[(from >> (6 * digit)) as usize % DIGITS.len()]
        })
    }
}

impl Sender {
    pub fn connect(miop: &Miop, group: SocketAddr) -> io::Result<Sender> {
        let piece = miop.piece();
        Ok(Sender {
            socket: miop.multicast.sender(group)?,
            peer: format!("miop:{group}"),
            longest: miop.message,
            piece,
            counts: miop.counts.clone(),
            packet: PiMutex::new(PacketBuffer {
                octets: Vec::with_capacity(PacketHead::LEN + piece),
                ids: Ids::new(),
            }),
            recv_timeout: TimeOut::none(),
            send_timeout: TimeOut::none(),
            ended: AtomicBool::new(false),
        })
    }

    fn send_packet(&self, packet: &[u8], deadline: Deadline) -> io::Result<()> {
        loop {
            match net::send(&self.socket, packet, net::Wait::Never) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) if wait_ready(&self.socket, Interest::WRITE, deadline)? => {}
                // The error of an earlier packet on the own host.
                Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Stream for Sender {
    /// No reply ever arrives: waits until the time-out.
    fn recv(&self, _: &mut [u8], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.recv_timeout.get()),
        };
        if !self.ended.load(Ordering::Acquire) && wait == Wait::Block {
            wait_ready(&self.socket, Interest::READ, deadline)?;
        }
        if self.ended.load(Ordering::Acquire) { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Sends one message in several packets; `EMSGSIZE` for one that is too long. If a later packet
    /// cannot be sent in time, the rest of the message is lost.
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.send_timeout.get()),
        };
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        if total > self.longest {
            return Err(Errno::MSGSIZE.into());
        }
        let count = total.div_ceil(self.piece) as u32;
        let mut remaining = Remaining { pieces, at: 0 };
        let mut buffer = self.packet.lock();
        let PacketBuffer { octets: packet, ids } = &mut *buffer;
        let id = ids.next();
        for number in 0..count {
            let length = (total - number as usize * self.piece).min(self.piece);
            packet.clear();
            packet.extend_from_slice(&PacketHead { number, count, id, length: length as u16 }.write());
            remaining.take(length, packet);
            match self.send_packet(packet, deadline) {
                Ok(()) => {}
                // The packets are longer than the network allows.
                Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
                    return Err(error);
                }
                Err(_) if number > 0 => {
                    self.counts.unsent();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn capabilities(&self) -> StreamCapabilities {
        StreamCapabilities { max_datagram: Some(self.longest), ..StreamCapabilities::default() }
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.recv_timeout.set(timeout);
        Ok(())
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.send_timeout.set(timeout);
        Ok(())
    }

    fn shutdown(&self) {
        self.ended.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The remaining octets of a message.
struct Remaining<'p, 'a> {
    pieces: &'p [IoSlice<'a>],
    /// Octets of the first piece that were taken.
    at: usize,
}

impl Remaining<'_, '_> {
    fn take(&mut self, mut octets: usize, into: &mut Vec<u8>) {
        while let Some((first, others)) = self.pieces.split_first()
            && octets > 0
        {
            let part = &first[self.at..][..octets.min(first.len() - self.at)];
            into.extend_from_slice(part);
            octets -= part.len();
            self.at += part.len();
            if self.at == first.len() {
                (self.pieces, self.at) = (others, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_are_text() {
        let (mut one, mut other) = (Ids::new(), Ids::new());
        let ids: std::collections::HashSet<_> = (0..5000).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().flatten().all(u8::is_ascii_graphic));
    }
}
