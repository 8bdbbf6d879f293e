//! Unix stream sockets.

use crate::rendezvous::{self, Path};
use crate::socket::{Accepting, SocketStream};
use crate::{Capabilities, Listener, Locality, PeerIdentity, Stream, Transport, Wait};
use isorb_rt::net::{connect_unix, set_send_buffer};
use isorb_rt::time::Deadline;
use socket2::Type;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Profile tag of GIOP over unix sockets, as TAO uses it ("TAO\0").
pub const TAG_UNIX: u32 = 0x5441_4f00;

/// Unix sockets. Addresses are paths; an empty one takes a fresh path in `XDG_RUNTIME_DIR`, else in
/// the folder for temporary files.
#[derive(Clone, Copy, Debug)]
pub struct Unix {
    /// Permissions of the sockets that it listens at.
    pub mode: u32,
}

impl Default for Unix {
    /// Only the own user may connect.
    fn default() -> Unix {
        Unix { mode: 0o600 }
    }
}

impl Transport for Unix {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn profile_tag(&self) -> u32 {
        TAG_UNIX
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

    fn locality(&self, address: &str) -> Option<Locality> {
        rendezvous::locality(address)
    }

    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>> {
        let socket = connect_unix(address.as_ref(), Deadline::after_opt(timeout))?;
        widen(&socket);
        Ok(Box::new(SocketStream::new(socket, format!("unix:{address}"))))
    }

    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        let (fd, path) = rendezvous::listen(address, Type::STREAM, self.mode)?;
        Ok(Box::new(UnixListener { socket: Accepting::new(fd), path }))
    }
}

/// Makes room for messages of some 100 KiB, so that a sender of one need not wait or keep a part.
/// The kernel may give less.
fn widen(socket: impl AsFd) {
    let _ = set_send_buffer(socket, 1 << 20);
}

#[derive(Debug)]
struct UnixListener {
    socket: Accepting,
    path: Path,
}

impl Listener for UnixListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let fd = OwnedFd::from(self.socket.accept(wait)?.0);
        widen(&fd);
        let process = rendezvous::credentials(&fd)?;
        let peer = format!("unix: process {} of user {}", process.id, process.user);
        let identity = PeerIdentity { process: Some(process), ..PeerIdentity::default() };
        Ok(Box::new(SocketStream::new(fd, peer).identified(identity)))
    }

    fn address(&self) -> &str {
        &self.path.text
    }

    fn close(&self) {
        if self.socket.close() {
            self.path.remove();
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }
}
