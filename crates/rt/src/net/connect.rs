//! Connecting within a deadline.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::options::errno;
use super::poller::{Interest, wait_ready};
use crate::time::{Deadline, sleep_until};

/// Connects to `addr` by TCP, until `deadline`. The socket blocks, with `TCP_NODELAY` set.
///
/// # Errors
/// `TIMEDOUT` at the deadline (or the kernel's own, some two minutes); `CONNREFUSED`, `HOSTUNREACH`
/// and the like.
///
/// # Real-time
/// Does not allocate. Blocks until connected or `deadline`.
pub fn connect_tcp(addr: SocketAddr, deadline: Deadline) -> Result<TcpStream, Errno> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).map_err(errno)?;
    socket.set_nonblocking(true).map_err(errno)?;
    socket.set_tcp_nodelay(true).map_err(errno)?;
    match socket.connect(&addr.into()).map_err(errno) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            if !wait_ready(&socket, Interest::WRITE, deadline)? {
                return Err(Errno::TIMEDOUT);
            }
            if let Some(e) = socket.take_error().map_err(errno)? {
                return Err(errno(e));
            }
        }
        Err(e) => return Err(e),
    }
    socket.set_nonblocking(false).map_err(errno)?;
    Ok(socket.into())
}

/// Connects to the unix socket at `path`, until `deadline`. The socket blocks.
///
/// # Errors
/// `TIMEDOUT` if the listener's queue is full until the deadline; `NOENT`, `CONNREFUSED`, `ACCESS`;
/// `INVAL` for a path that is too long.
///
/// # Real-time
/// Does not allocate for any path that fits. Blocks until connected or `deadline`; a full queue is
/// looked at again each millisecond, since the kernel offers nothing to wait on.
pub fn connect_unix(path: &Path, deadline: Deadline) -> Result<UnixStream, Errno> {
    Ok(connect_local(path, Type::STREAM, deadline)?.into())
}

/// As [`connect_unix`], to a socket that keeps the boundaries of packets (`SOCK_SEQPACKET`).
///
/// # Errors
/// As [`connect_unix`]; `PROTOTYPE` where a stream socket listens.
///
/// # Real-time
/// As [`connect_unix`].
pub fn connect_unix_packets(path: &Path, deadline: Deadline) -> Result<OwnedFd, Errno> {
    Ok(connect_local(path, Type::SEQPACKET, deadline)?.into())
}

fn connect_local(path: &Path, kind: Type, deadline: Deadline) -> Result<Socket, Errno> {
    let addr = SockAddr::unix(path).map_err(errno)?;
    let socket = Socket::new(Domain::UNIX, kind, None).map_err(errno)?;
    socket.set_nonblocking(true).map_err(errno)?;
    loop {
        match socket.connect(&addr).map_err(errno) {
            Ok(()) => break,
            Err(Errno::AGAIN) if deadline.is_past() => return Err(Errno::TIMEDOUT),
            Err(Errno::AGAIN) => {
                sleep_until(Deadline::after(core::time::Duration::from_millis(1)).earlier(deadline));
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    socket.set_nonblocking(false).map_err(errno)?;
    Ok(socket)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn tcp_connects_and_blocks_afterwards() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut s =
            connect_tcp(listener.local_addr().unwrap(), Deadline::after(Duration::from_secs(60))).unwrap();
        assert!(s.nodelay().unwrap());
        let (mut peer, _) = listener.accept().unwrap();
        let t = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            peer.write_all(b"x").unwrap();
        });
        s.read_exact(&mut [0]).unwrap();
        t.join().unwrap();
    }

    #[test]
    fn a_port_without_a_listener_refuses() {
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(connect_tcp(addr, Deadline::NONE).unwrap_err(), Errno::CONNREFUSED);
    }

    #[test]
    fn a_listener_that_accepts_none_is_a_time_out() {
        let dir = std::env::temp_dir().join(format!("isorb-rt-connect-{}", std::process::id()));
        let _ = std::fs::remove_file(&dir);
        let listener = UnixListener::bind(&dir).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match connect_unix(&dir, Deadline::after(Duration::from_millis(10))) {
                Ok(s) => waiting.push(s),
                Err(e) => break e,
            }
        };
        assert_eq!(error, Errno::TIMEDOUT);
        assert!(!waiting.is_empty());
        std::fs::remove_file(&dir).unwrap();
        drop(listener);
        assert_eq!(connect_unix(&dir, Deadline::NONE).unwrap_err(), Errno::NOENT);
    }
}
