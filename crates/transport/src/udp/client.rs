//! The calling side: a socket that is connected to one address.

use super::proof::answer_to;
use super::{DatagramCounts, ROOM, TimeOut, Udp, again, bound};
use crate::{LONGEST_DATAGRAM, Stream, StreamCapabilities, Wait};
use isorb_rt::net::{self, Interest, wait_ready};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Client {
    socket: UdpSocket,
    peer: String,
    whole: fn(&[u8]) -> bool,
    counts: Arc<DatagramCounts>,
    last: PiMutex<LastDatagram>,
    recv_timeout: TimeOut,
    send_timeout: TimeOut,
    ended: AtomicBool,
}

/// The unread part of the last datagram.
#[derive(Debug)]
struct LastDatagram {
    block: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Client {
    pub fn connect(udp: &Udp, at: SocketAddr) -> io::Result<Client> {
        let any: SocketAddr = match at {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = bound(at, any)?;
        socket.connect(at)?;
        Ok(Client {
            socket,
            peer: format!("udp:{at}"),
            whole: udp.whole,
            counts: udp.counts.clone(),
            last: PiMutex::new(LastDatagram { block: vec![0; ROOM].into(), from: 0, to: 0 }),
            recv_timeout: TimeOut::none(),
            send_timeout: TimeOut::none(),
            ended: AtomicBool::new(false),
        })
    }
}

impl Stream for Client {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.recv_timeout.get()),
        };
        let mut last = self.last.lock();
        while last.from == last.to {
            let got = net::recv_into(&self.socket, &mut last.block, net::Wait::Never);
            if self.ended.load(Ordering::Acquire) {
                return Ok(0);
            }
            match got {
                Ok(n) if (self.whole)(&last.block[..n]) => (last.from, last.to) = (0, n),
                Ok(n) => match answer_to(&last.block[..n]) {
                    // A lost answer is a lost reply.
                    Some(answer) => {
                        let _ = net::send_vectored(&self.socket, &[IoSlice::new(&answer)], net::Wait::Never);
                    }
                    None => self.counts.ignore(),
                },
                Err(Errno::AGAIN) => {
                    if !wait_ready(&self.socket, Interest::READ, deadline)? {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                }
                Err(error) if again(error) => {}
                // The host reports that no process listens there, and so does this stream.
                Err(error) => return Err(error.into()),
            }
            if wait == Wait::Block && last.from == last.to && deadline.is_past() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let n = into.len().min(last.to - last.from);
        into[..n].copy_from_slice(&last.block[last.from..last.from + n]);
        last.from += n;
        Ok(n)
    }

    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let deadline = match wait {
            Wait::No => Deadline::PAST,
            Wait::Block => Deadline::after_opt(self.send_timeout.get()),
        };
        let mut refused = false;
        loop {
            match net::send_vectored(&self.socket, pieces, net::Wait::Never) {
                Ok(n) => return Ok(n),
                Err(Errno::AGAIN) => {
                    if !wait_ready(&self.socket, Interest::WRITE, deadline)? {
                        self.counts.drop_one();
                        return Ok(pieces.iter().map(|piece| piece.len()).sum());
                    }
                }
                Err(error) if again(error) => {}
                // The error of an earlier datagram; this one was not sent yet.
                Err(Errno::CONNREFUSED) if !refused => refused = true,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn capabilities(&self) -> StreamCapabilities {
        StreamCapabilities { max_datagram: Some(LONGEST_DATAGRAM), ..StreamCapabilities::default() }
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
