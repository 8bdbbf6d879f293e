//! A transport of your own: unix sockets in Linux's abstract namespace, which leave no file behind.
//!
//! It needs three traits, and one line that runs the conformance suite (`tests/`). An ORB gets it
//! with `Orb::builder().register(|info| Ok(info.add_transport(Arc::new(Abstract))?)).build()`.
//! Endpoints are written `giop:abstract:NAME`.
#![forbid(unsafe_code)]

use isorb::transport::{Capabilities, Listener, Locality, Stream, Transport, Wait};
use isorb_rt::net::{self, Interest, wait_ready};
use isorb_rt::time::Deadline;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The transport. Addresses are names in the abstract namespace.
#[derive(Clone, Copy, Debug)]
pub struct Abstract;

impl Transport for Abstract {
    fn name(&self) -> &'static str {
        "abstract"
    }

    fn profile_tag(&self) -> u32 {
        // Any number that no other transport in the system uses.
        0x4142_5300
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

    /// Names belong to the network namespace, so they mean the same to two processes in one
    /// namespace of one running kernel.
    fn locality(&self, name: &str) -> Option<Locality> {
        let host = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
        let namespace = std::fs::read_link("/proc/self/ns/net").ok()?;
        Some(Locality { host, identity: format!("{}/{name}", namespace.display()) })
    }

    fn connect(&self, name: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // While the listener does not accept, connecting waits as long as a send may.
        net::set_send_timeout(&socket, timeout)?;
        match connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?) {
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            connected => connected?,
        }
        net::set_send_timeout(&socket, None)?;
        Ok(Box::new(AbstractStream { socket: socket.into(), peer: name.into() }))
    }

    fn listen(&self, name: &str) -> io::Result<Box<dyn Listener>> {
        let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        Ok(Box::new(AbstractListener { socket, name: name.into(), closed: AtomicBool::new(false) }))
    }
}

#[derive(Debug)]
struct AbstractListener {
    socket: UnixListener,
    name: String,
    closed: AtomicBool,
}

impl Listener for AbstractListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        if wait == Wait::No && !wait_ready(&self.socket, Interest::READ, Deadline::PAST)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (socket, _) = self.socket.accept()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(Box::new(AbstractStream { socket, peer: "abstract".into() }))
    }

    fn address(&self) -> &str {
        &self.name
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Ends an accept that waits, and refuses later clients.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Debug)]
struct AbstractStream {
    socket: UnixStream,
    peer: String,
}

fn may(wait: Wait) -> net::Wait {
    if wait == Wait::No { net::Wait::Never } else { net::Wait::Allowed }
}

impl Stream for AbstractStream {
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        Ok(net::recv_into(&self.socket, into, may(wait))?)
    }

    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
        Ok(net::send_vectored(&self.socket, pieces, may(wait))?)
    }

    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(net::set_recv_timeout(&self.socket, timeout)?)
    }

    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(net::set_send_timeout(&self.socket, timeout)?)
    }

    fn shutdown(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
