//! TCP over IPv4 and IPv6.

use crate::{Capabilities, Listener, Stream, Transport, Wait};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The TCP transport. `TCP_NODELAY` is set on both sides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

const BACKLOG: i32 = 128;

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { reliable: true, pollable: true, crosses_hosts: true }
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for address in address.to_socket_addrs()? {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match connect_one(address, left) {
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
                    let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
                    return Ok(Box::new(TcpListener {
                        fd: socket.into(),
                        host,
                        port,
                        closed: AtomicBool::new(false),
                    }));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn connect_one(address: SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    match timeout {
        Some(timeout) => socket.connect_timeout(&address.into(), timeout)?,
        None => socket.connect(&address.into())?,
    }
    TcpStream::new(socket, Some(address))
}

fn listen_one(address: SocketAddr) -> io::Result<(Socket, u16)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let port = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
    Ok((socket, port))
}

#[derive(Debug)]
struct TcpListener {
    fd: OwnedFd,
    host: String,
    port: u16,
    closed: AtomicBool,
}

impl Listener for TcpListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let socket = SockRef::from(&self.fd);
        if wait == Wait::No {
            let mut watched = [rustix::event::PollFd::new(&self.fd, rustix::event::PollFlags::IN)];
            if rustix::event::poll(&mut watched, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }))?
                == 0
            {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let (stream, _) = socket.accept()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(Box::new(TcpStream::new(stream, None)?))
    }

    fn local(&self) -> (String, u16) {
        (self.host.clone(), self.port)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Shutting a listening socket down ends a blocked accept on Linux.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[derive(Debug)]
struct TcpStream {
    fd: OwnedFd,
    peer: String,
}

impl TcpStream {
    fn new(socket: Socket, peer: Option<SocketAddr>) -> io::Result<TcpStream> {
        socket.set_tcp_nodelay(true)?;
        let peer = peer.or(socket.peer_addr()?.as_socket());
        let peer = peer.map_or_else(|| "unknown".to_string(), |peer| peer.to_string());
        Ok(TcpStream { fd: socket.into(), peer })
    }
}

impl Stream for TcpStream {
    #[inline]
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        let flags = if wait == Wait::No { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        loop {
            match rustix::net::recv(&self.fd, &mut *into, flags) {
                Ok((n, _)) => return Ok(n),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn short_is_all(&self) -> bool {
        true
    }

    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        let flags =
            SendFlags::NOSIGNAL | if wait == Wait::No { SendFlags::DONTWAIT } else { SendFlags::empty() };
        loop {
            let sent = match pieces {
                [one] => rustix::net::send(&self.fd, one, flags),
                all => rustix::net::sendmsg(&self.fd, all, &mut Default::default(), flags),
            };
            match sent {
                Ok(n) => return Ok(n),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        SockRef::from(&self.fd).set_read_timeout(at_least_a_microsecond(timeout))
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        SockRef::from(&self.fd).set_write_timeout(at_least_a_microsecond(timeout))
    }

    fn shutdown(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel takes zero for 'for ever'.
fn at_least_a_microsecond(timeout: Option<Duration>) -> Option<Duration> {
    timeout.map(|timeout| timeout.max(Duration::from_micros(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Box<dyn Stream>, Box<dyn Stream>) {
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let (host, port) = listener.local();
        let client = Tcp.connect(&format!("{host}:{port}"), Some(Duration::from_secs(5))).unwrap();
        (client, listener.accept(Wait::Block).unwrap())
    }

    #[test]
    fn bytes_cross_in_pieces() {
        let (a, b) = pair();
        assert_eq!(a.send(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")], Wait::Block).unwrap(), 4);
        let mut got = [0; 8];
        assert_eq!(b.recv(&mut got, Wait::Block).unwrap(), 4);
        assert_eq!(&got[..4], b"abcd");
        assert_eq!(b.recv(&mut got, Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_receive_times_out_and_the_end_is_seen() {
        let (a, b) = pair();
        b.set_recv_timeout(Some(Duration::from_millis(5))).unwrap();
        assert_eq!(b.recv(&mut [0; 1], Wait::Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        a.shutdown();
        assert_eq!(b.recv(&mut [0; 1], Wait::Block).unwrap(), 0);
    }

    #[test]
    fn closing_ends_accept() {
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| listener.accept(Wait::Block).is_err());
            std::thread::sleep(Duration::from_millis(20));
            listener.close();
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn what_cannot_be_reached_says_so() {
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let (host, port) = listener.local();
        drop(listener);
        let refused = Tcp.connect(&format!("{host}:{port}"), Some(Duration::from_secs(5))).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
