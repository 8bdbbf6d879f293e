//! The handshake in which two sides exchange their segments.
//!
//! The connecting side sends a hello with the descriptor of its receive segment, and the accepting
//! side answers with its own. Both check first which user the other process belongs to. The socket
//! stays open: it carries doorbell signals and hangs up when the peer ends.

use super::medium::Join;
use super::memory::{self, Own, Peers};
use super::ring::Ring;
use crate::{PeerProcess, rendezvous};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

// A hello: magic, version of the protocol, capacity of the segment.
const MAGIC: [u8; 8] = *b"isorbseg";
const VERSION: u32 = 1;
const LENGTH: usize = 16;

/// What a side accepts from its peer.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Octets of the own segment.
    pub bytes: usize,
    /// Users besides the own one.
    pub users: Vec<u32>,
}

impl Terms {
    /// The largest segment of a peer that is mapped: its memory counts for this process too.
    fn max_bytes(&self) -> usize {
        self.bytes.max(1 << 20)
    }

    /// Refuses the processes of other users.
    pub fn check_peer(&self, socket: &OwnedFd) -> io::Result<i32> {
        let PeerProcess { id: process, user, .. } = rendezvous::credentials(socket)?;
        if user == rustix::process::geteuid().as_raw() || self.users.contains(&user) {
            return Ok(process);
        }
        let sentence = format!(
            "process {process} belongs to user {user}; add it to segment_users to share segments with it"
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence))
    }
}

impl Join for Terms {
    type Outward = Peers;

    /// Answers the peer's hello.
    fn join(&self, socket: &Arc<OwnedFd>) -> io::Result<Option<Ring<Arc<Own>, Peers>>> {
        let Some(hello) = receive_hello(socket)? else { return Ok(None) };
        let offered = offer(socket, self)?;
        Ok(Some(join(offered, hello, socket.clone(), self)?))
    }
}

/// The own segment, sent in a hello.
pub(crate) struct Offered(Own);

/// Sends a hello with a fresh segment.
pub(crate) fn offer(socket: &OwnedFd, terms: &Terms) -> io::Result<Offered> {
    let (own, fd) = memory::create(terms.bytes)?;
    let mut text = [0; LENGTH];
    text[..8].copy_from_slice(&MAGIC);
    text[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    text[12..].copy_from_slice(&(terms.bytes as u32).to_ne_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&text)], &mut control, flags)?;
    Ok(Offered(own))
}

/// A received hello.
pub(crate) struct Hello {
    capacity: u32,
    fd: OwnedFd,
}

/// Receives a hello without waiting. `None` at the end of the stream.
///
/// # Errors
/// `WouldBlock`; `InvalidData` for other data.
pub(crate) fn receive_hello(socket: &OwnedFd) -> io::Result<Option<Hello>> {
    let mut text = [0; LENGTH + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, flags)?;
    // Descriptors that are not taken out are closed with the buffer. Those beyond its room never
    // entered this process.
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    if got.bytes == 0 {
        return Ok(None);
    }
    let number = |at: usize| u32::from_ne_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
    let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if got.bytes != LENGTH || text[..8] != MAGIC {
        return wrong("the peer does not use the segment protocol");
    }
    if number(8) != VERSION {
        return wrong("the peer uses another version of the segment protocol");
    }
    match fd {
        Some(fd) => Ok(Some(Hello { capacity: number(12), fd })),
        None => wrong("the peer's hello has no segment"),
    }
}

/// Joins both segments.
pub(crate) fn join(
    offered: Offered,
    hello: Hello,
    socket: Arc<OwnedFd>,
    terms: &Terms,
) -> io::Result<Ring<Arc<Own>, Peers>> {
    let peers = memory::attach(hello.fd, hello.capacity, terms.max_bytes(), socket)?;
    Ok(Ring::new(Arc::new(offered.0), peers))
}
