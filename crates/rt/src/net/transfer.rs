//! Bytes in and out.

use core::mem::MaybeUninit;
use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

/// May a call wait for the peer?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It may, up to the socket's time-out (see [`set_recv_timeout`](super::set_recv_timeout)),
    /// unless the socket itself is set not to.
    Allowed,
    /// It may not, whatever the socket is set to (`MSG_DONTWAIT`).
    Never,
}

impl Wait {
    fn recv_flags(self) -> RecvFlags {
        match self {
            Wait::Allowed => RecvFlags::empty(),
            Wait::Never => RecvFlags::DONTWAIT,
        }
    }

    fn send_flags(self) -> SendFlags {
        // A peer that is gone is an error of the call, not a signal that ends the process.
        match self {
            Wait::Allowed => SendFlags::NOSIGNAL,
            Wait::Never => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        }
    }
}

/// Receives available octets into the front of `buf`, at least one. 0 is the end of the stream (or
/// an empty `buf`).
///
/// # Errors
/// `AGAIN`: nothing came in the time allowed. `INTR`: a signal came first; call again, with the
/// time that is left. Otherwise the error of the connection (`CONNRESET`, `TIMEDOUT`, ...).
///
/// # Real-time
/// Does not allocate. One system call, which blocks as `wait` and the socket's time-out say.
#[inline]
pub fn recv_into(fd: impl AsFd, buf: &mut [u8], wait: Wait) -> Result<usize, Errno> {
    rustix::net::recv(fd, buf, wait.recv_flags()).map(|(received, _)| received)
}

/// [`recv_into`] for uninitialised memory. Returns the part that was received.
///
/// # Errors
/// As [`recv_into`].
///
/// # Real-time
/// As [`recv_into`].
#[inline]
pub fn recv_uninit(fd: impl AsFd, buf: &mut [MaybeUninit<u8>], wait: Wait) -> Result<&mut [u8], Errno> {
    rustix::net::recv(fd, buf, wait.recv_flags()).map(|((received, _), _)| received)
}

/// Sends the front of `buf` and says how much of it; on a stream that may be less than all.
///
/// # Errors
/// As [`recv_into`], and `PIPE` when this side has been shut or the peer is gone.
///
/// # Real-time
/// Does not allocate. One system call, which blocks while the peer takes nothing, as `wait` and the
/// socket's time-out say.
#[inline]
pub fn send(fd: impl AsFd, buf: &[u8], wait: Wait) -> Result<usize, Errno> {
    rustix::net::send(fd, buf, wait.send_flags())
}

/// Sends several pieces as if they were one, and says how many bytes. At most 1024 pieces
/// (`INVAL`).
///
/// # Errors
/// As [`send`].
///
/// # Real-time
/// As [`send`].
#[inline]
pub fn send_vectored(fd: impl AsFd, bufs: &[IoSlice<'_>], wait: Wait) -> Result<usize, Errno> {
    rustix::net::sendmsg(fd, bufs, &mut SendAncillaryBuffer::default(), wait.send_flags())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_arrive_in_either_kind_of_memory() {
        let (a, b) = UnixStream::pair().unwrap();
        assert_eq!(send(&a, b"abc", Wait::Allowed), Ok(3));
        let mut buf = [0; 8];
        assert_eq!(recv_into(&b, &mut buf, Wait::Allowed), Ok(3));
        assert_eq!(&buf[..3], b"abc");

        let parts = [IoSlice::new(b"de"), IoSlice::new(b""), IoSlice::new(b"fgh")];
        assert_eq!(send_vectored(&a, &parts, Wait::Never), Ok(5));
        let mut raw = [MaybeUninit::uninit(); 4];
        assert_eq!(recv_uninit(&b, &mut raw, Wait::Allowed).unwrap(), b"defg");
        assert_eq!(recv_uninit(&b, &mut raw, Wait::Never).unwrap(), b"h");
        assert_eq!(recv_uninit(&b, &mut raw, Wait::Never).unwrap_err(), Errno::AGAIN);
    }

    #[test]
    fn a_closed_peer_is_the_end_and_no_signal() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        assert_eq!(recv_into(&a, &mut [0; 4], Wait::Allowed), Ok(0));
        assert_eq!(send(&a, b"x", Wait::Allowed), Err(Errno::PIPE));
        assert_eq!(send_vectored(&a, &[IoSlice::new(b"x")], Wait::Allowed), Err(Errno::PIPE));
    }

    #[test]
    fn a_full_connection_refuses_rather_than_waits() {
        let (a, _b) = UnixStream::pair().unwrap();
        let block = [0; 65536];
        let error = loop {
            if let Err(e) = send(&a, &block, Wait::Never) {
                break e;
            }
        };
        assert_eq!(error, Errno::AGAIN);
    }
}
