//! Socket options.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use socket2::{Domain, SockRef};

/// Sets how long a receive waits (`SO_RCVTIMEO`); `None` is for ever. Costs the calls nothing,
/// where a poll before each of them costs a system call; but the kernel counts it in ticks (1 to 10
/// ms) and rounds up. For a finer limit wait with [`wait_ready`](super::wait_ready). A zero time is
/// taken as the shortest.
///
/// # Errors
/// `BADF`, `NOTSOCK`.
pub fn set_recv_timeout(fd: impl AsFd, timeout: Option<Duration>) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_read_timeout(timeout.map(at_least_a_microsecond)).map_err(errno)
}

/// Sets how long a send waits for a peer that takes nothing (`SO_SNDTIMEO`); as
/// [`set_recv_timeout`]. Also bounds a blocking connect.
///
/// # Errors
/// `BADF`, `NOTSOCK`.
pub fn set_send_timeout(fd: impl AsFd, timeout: Option<Duration>) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_write_timeout(timeout.map(at_least_a_microsecond)).map_err(errno)
}

/// Sends small segments at once instead of waiting for more to send (`TCP_NODELAY`). Every GIOP
/// connection wants it.
///
/// # Errors
/// `OPNOTSUPP` for a socket other than TCP.
pub fn set_nodelay(fd: impl AsFd, on: bool) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_tcp_nodelay(on).map_err(errno)
}

/// Sets the packets' priority inside this machine (`SO_PRIORITY`): the queueing discipline of the
/// interface sorts by it. Set it after [`set_dscp`], which changes it on IPv4.
///
/// # Errors
/// `PERM` for a priority above 6 without `CAP_NET_ADMIN`.
pub fn set_priority(fd: impl AsFd, priority: u32) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_priority(priority).map_err(errno)
}

/// Sets the packets' differentiated-services code point, 0 to 63 (RFC 2474), for the network.
/// `IP_TOS` or `IPV6_TCLASS`, both where an IPv6 socket may carry IPv4.
///
/// # Errors
/// `INVAL` for a code point above 63, `OPNOTSUPP` for a socket that is neither IPv4 nor IPv6.
pub fn set_dscp(fd: impl AsFd, dscp: u8) -> Result<(), Errno> {
    if dscp > 63 {
        return Err(Errno::INVAL);
    }
    let fd = fd.as_fd();
    let socket = SockRef::from(&fd);
    let class = u32::from(dscp) << 2;
    match socket.domain().map_err(errno)? {
        Domain::IPV4 => socket.set_tos_v4(class).map_err(errno),
        Domain::IPV6 => {
            socket.set_tclass_v6(class).map_err(errno)?;
            // Only matters to connections of mapped addresses; refused on a socket that is for IPv6
            // alone.
            let _ = socket.set_tos_v4(class);
            Ok(())
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Requests a send buffer of `bytes` bytes (`SO_SNDBUF`); the system doubles and bounds it.
///
/// # Errors
/// `BADF`, `NOTSOCK`.
pub fn set_send_buffer(fd: impl AsFd, bytes: usize) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_send_buffer_size(bytes).map_err(errno)
}

/// Requests a receive buffer of `bytes` bytes (`SO_RCVBUF`); the system doubles and bounds it.
///
/// # Errors
/// `BADF`, `NOTSOCK`.
pub fn set_recv_buffer(fd: impl AsFd, bytes: usize) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_recv_buffer_size(bytes).map_err(errno)
}

/// Probes an idle peer at intervals (`SO_KEEPALIVE`).
///
/// # Errors
/// `BADF`, `NOTSOCK`.
pub fn set_keepalive(fd: impl AsFd, on: bool) -> Result<(), Errno> {
    SockRef::from(&fd.as_fd()).set_keepalive(on).map_err(errno)
}

/// Sends only to hosts of the networks that this one is attached to, past the routing table
/// (`SO_DONTROUTE`).
///
/// # Errors
/// `BADF`, `NOTSOCK`.
pub fn set_dontroute(fd: impl AsFd, on: bool) -> Result<(), Errno> {
    let value = libc::c_int::from(on);
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads the one integer of
    // the given size.
    let r = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DONTROUTE,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if r == 0 { Ok(()) } else { Err(errno(io::Error::last_os_error())) }
}

/// For the socket, zero microseconds mean no limit.
fn at_least_a_microsecond(timeout: Duration) -> Duration {
    timeout.max(Duration::from_micros(1))
}

pub(super) fn errno(e: io::Error) -> Errno {
    // socket2 has some errors without a number, all of them about arguments.
    Errno::from_io_error(&e).unwrap_or(Errno::INVAL)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::net::{Wait, recv_into, send};
    use crate::time::now_ns;

    #[test]
    fn a_receive_ends_at_its_time_out() {
        let (a, _b) = UnixStream::pair().unwrap();
        for timeout in [Duration::from_millis(20), Duration::ZERO] {
            set_recv_timeout(&a, Some(timeout)).unwrap();
            let start = now_ns();
            assert_eq!(recv_into(&a, &mut [0; 1], Wait::Allowed), Err(Errno::AGAIN));
            assert!(now_ns() - start >= timeout.as_nanos() as u64);
        }
    }

    #[test]
    fn a_send_ends_at_its_time_out() {
        let (a, _b) = UnixStream::pair().unwrap();
        set_send_timeout(&a, Some(Duration::from_millis(5))).unwrap();
        let block = [0; 65536];
        let error = loop {
            if let Err(e) = send(&a, &block, Wait::Allowed) {
                break e;
            }
        };
        assert_eq!(error, Errno::AGAIN);
    }

    #[test]
    fn options_are_set() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let s = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_nodelay(&s, true).unwrap();
        assert!(s.nodelay().unwrap());
        set_dscp(&s, 46).unwrap();
        set_priority(&s, 5).unwrap();
        set_send_buffer(&s, 50_000).unwrap();
        set_recv_buffer(&s, 60_000).unwrap();
        set_keepalive(&s, true).unwrap();
        set_dontroute(&s, true).unwrap();
        let r = SockRef::from(&s);
        assert!(r.send_buffer_size().unwrap() >= 50_000 && r.recv_buffer_size().unwrap() >= 60_000);
        assert!(r.keepalive().unwrap());
        assert_eq!((r.tos_v4().unwrap(), r.priority().unwrap()), (46 << 2, 5));
        assert_eq!(set_dscp(&s, 64), Err(Errno::INVAL));
        if let Ok(s) = UdpSocket::bind("[::1]:0") {
            set_dscp(&s, 10).unwrap();
            assert_eq!(SockRef::from(&s).tclass_v6().unwrap(), 10 << 2);
        }
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(set_dscp(&a, 10), Err(Errno::OPNOTSUPP));
        assert_eq!(set_nodelay(&a, true), Err(Errno::OPNOTSUPP));
    }
}
