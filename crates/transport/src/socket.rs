//! Code that the transports over stream sockets share.

use crate::{PeerIdentity, Stream, StreamCapabilities, Wait};
use isorb_rt::net::{self, Interest, wait_ready};
use isorb_rt::time::Deadline;
use rustix::net::{SendFlags, Shutdown};
use socket2::{SockAddr, SockRef, Socket};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Accepting {
    fd: OwnedFd,
    closed: AtomicBool,
}

impl Accepting {
    pub fn new(fd: OwnedFd) -> Accepting {
        Accepting { fd, closed: AtomicBool::new(false) }
    }

    /// The next connection and its peer's address, which the socket of a reset connection no longer
    /// knows.
    pub fn accept(&self, wait: Wait) -> io::Result<(Socket, SockAddr)> {
        // The socket blocks; only a caller that must not wait pays for a poll first.
        if wait == Wait::No && !wait_ready(&self.fd, Interest::READ, Deadline::PAST)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let accepted = SockRef::from(&self.fd).accept()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(accepted)
    }

    /// Ends a blocked accept. Returns whether this was the first close.
    pub fn close(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::AcqRel);
        // Shutting a listening socket down ends a blocked accept on Linux.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
        first
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct SocketStream {
    fd: OwnedFd,
    peer: String,
    identity: PeerIdentity,
}

impl SocketStream {
    pub fn new(socket: impl Into<OwnedFd>, peer: String) -> SocketStream {
        SocketStream { fd: socket.into(), peer, identity: PeerIdentity::default() }
    }

    /// With what the accepting side knows of its peer.
    pub fn identified(self, identity: PeerIdentity) -> SocketStream {
        SocketStream { identity, ..self }
    }
}

fn wait_of(wait: Wait) -> net::Wait {
    if wait == Wait::No { net::Wait::Never } else { net::Wait::Allowed }
}

impl Stream for SocketStream {
    #[inline]
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        // A signal is the caller's to handle: a receive that begins again here would have its whole
        // time-out again.
        Ok(net::recv_into(&self.fd, into, wait_of(wait))?)
    }

    fn capabilities(&self) -> StreamCapabilities {
        StreamCapabilities { short_read_empties: true, ..StreamCapabilities::default() }
    }

    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        Ok(match pieces {
            [one] => net::send(&self.fd, one, wait_of(wait)),
            all => net::send_vectored(&self.fd, all, wait_of(wait)),
        }?)
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(net::set_recv_timeout(&self.fd, timeout)?)
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(net::set_send_timeout(&self.fd, timeout)?)
    }

    fn shutdown(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    fn shutdown_with(&self, last: &[u8]) {
        if !last.is_empty() {
            // The kernel keeps octets with more to come, and sends them in the segment of the end.
            let flags = SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&self.fd, last, flags);
        }
        self.shutdown();
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn identity(&self) -> PeerIdentity {
        self.identity.clone()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
