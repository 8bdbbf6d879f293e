//! TCP over IPv4 and IPv6.

use crate::socket::{Accepting, SocketStream};
use crate::{Capabilities, Listener, PeerIdentity, PrepareSocket, Stream, Transport, Wait};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The TCP transport. `TCP_NODELAY` is set on both sides. Addresses are `host:port` and
/// `[v6]:port`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

/// Clients that may wait to be accepted; the kernel takes no more than `net.core.somaxconn` says.
/// One that finds no room tries again after a second, so a storm of others must not fill it.
const BACKLOG: i32 = 4096;

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn profile_tag(&self) -> u32 {
        0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reliable: true,
            pollable: true,
            crosses_hosts: true,
            notices_death: true,
            multicast: false,
        }
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        self.connect_prepared(address, timeout, &|_| Ok(()))
    }

    fn connect_prepared(
        &self,
        address: &str,
        timeout: Option<Duration>,
        prepare: PrepareSocket<'_>,
    ) -> io::Result<Box<dyn Stream>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for address in address.to_socket_addrs()? {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match connect_one(address, left, prepare) {
                Ok(stream) => return Ok(Box::new(stream)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for at in address.to_socket_addrs()? {
            match listen_one(at) {
                Ok((socket, port)) => {
                    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                    let address = format!("{host}:{port}");
                    return Ok(Box::new(TcpListener { socket: Accepting::new(socket.into()), address }));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn connect_one(
    address: SocketAddr,
    timeout: Option<Duration>,
    prepare: PrepareSocket<'_>,
) -> io::Result<SocketStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_tcp_nodelay(true)?;
    prepare(socket.as_fd())?;
    match timeout {
        Some(timeout) => socket.connect_timeout(&address.into(), timeout)?,
        None => socket.connect(&address.into())?,
    }
    Ok(SocketStream::new(socket, address.to_string()))
}

fn listen_one(address: SocketAddr) -> io::Result<(Socket, u16)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // An endpoint is one family: what a wildcard takes must not depend on a setting of the
        // machine.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let bound = socket.local_addr()?.as_socket();
    if let Some(address) = bound {
        crate::owner::probe(address);
    }
    Ok((socket, bound.map_or(0, |address| address.port())))
}

fn accepted(socket: Socket, peer: Option<SocketAddr>) -> io::Result<SocketStream> {
    socket.set_tcp_nodelay(true)?;
    let name = peer.map_or_else(|| "unknown".to_string(), |peer| peer.to_string());
    let local = socket.local_addr().ok().and_then(|local| local.as_socket());
    let identity = PeerIdentity { addresses: peer.zip(local), ..PeerIdentity::default() };
    Ok(SocketStream::new(socket, name).identified(identity))
}

#[derive(Debug)]
struct TcpListener {
    socket: Accepting,
    address: String,
}

impl Listener for TcpListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let (socket, peer) = self.socket.accept(wait)?;
        Ok(Box::new(accepted(socket, peer.as_socket())?))
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn close(&self) {
        self.socket.close();
    }

    fn prepare(&self, prepare: PrepareSocket<'_>) -> io::Result<()> {
        prepare(self.fd())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wait;
    use socket2::SockRef;
    use std::os::fd::AsRawFd;

    /// The segments that a socket has received.
    #[expect(unsafe_code, reason = "no crate at hand knows TCP_INFO")]
    fn segments_in(stream: &dyn Stream) -> u32 {
        let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, option, fd) = (libc::IPPROTO_TCP, libc::TCP_INFO, stream.fd().as_raw_fd());
        // SAFETY: the kernel writes at most `size` octets there, and zeros are a value of the type.
        let info = unsafe {
            assert_eq!(libc::getsockopt(fd, level, option, info.as_mut_ptr().cast(), &mut size), 0);
            info.assume_init()
        };
        info.tcpi_segs_in
    }

    /// The segments of an end after 12 octets.
    fn segments_of_an_end(end: impl FnOnce(&dyn Stream)) -> u32 {
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let near = Tcp.connect(listener.address(), None).unwrap();
        let far = listener.accept(Wait::Block).unwrap();
        let before = segments_in(&*near);
        end(&*far);
        let mut octets = 0;
        while let n @ 1.. = near.recv(&mut [0; 64], Wait::Block).unwrap() {
            octets += n;
        }
        assert_eq!(octets, 12);
        segments_in(&*near) - before
    }

    #[test]
    fn last_octets_and_the_end_are_one_segment() {
        assert_eq!(segments_of_an_end(|stream| stream.shutdown_with(&[7; 12])), 1);
        let apart = segments_of_an_end(|stream| {
            stream.send(&[io::IoSlice::new(&[7; 12])], Wait::No).unwrap();
            stream.shutdown();
        });
        assert_eq!(apart, 2, "the control");
    }

    #[test]
    fn options_are_set_before_the_handshake() {
        let mark = |fd: BorrowedFd<'_>| {
            let socket = SockRef::from(&fd);
            assert!(socket.peer_addr().is_err(), "connected already");
            socket.set_tos_v4(46 << 2)
        };
        let marks = |stream: &dyn Stream| SockRef::from(&stream.fd()).tos_v4().unwrap();
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let near = Tcp.connect_prepared(listener.address(), None, &mark).unwrap();
        let far = listener.accept(Wait::Block).unwrap();
        assert_eq!((marks(&*near), marks(&*far)), (46 << 2, 0));
        // The acceptor's streams begin with the options of its socket, which answers the handshake.
        listener.prepare(&mark).unwrap();
        let _near = Tcp.connect(listener.address(), None).unwrap();
        assert_eq!(marks(&*listener.accept(Wait::Block).unwrap()), 46 << 2);
        let refused =
            Tcp.connect_prepared(listener.address(), None, &|_| Err(io::ErrorKind::Unsupported.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn hundreds_may_connect_before_anybody_is_accepted() {
        let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        if limit.trim().parse().is_ok_and(|limit: u32| limit < 300) {
            return println!("skipped: this machine lets {} connections wait", limit.trim());
        }
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let time_limit = Some(Duration::from_secs(60));
        let connected: Vec<_> =
            (0..300).map(|_| Tcp.connect(listener.address(), time_limit).map(drop)).collect();
        assert!(connected.iter().all(Result::is_ok), "{connected:?}");
    }

    #[test]
    fn an_address_keeps_its_host() {
        for host in ["127.0.0.1", "[::1]", "localhost"] {
            match Tcp.listen(&format!("{host}:0")) {
                Ok(listener) => {
                    let (at, port) = listener.address().rsplit_once(':').unwrap();
                    assert_eq!(at, host);
                    assert_ne!(port, "0");
                }
                Err(error) => println!("skipped {host}: {error}"),
            }
        }
    }
}
