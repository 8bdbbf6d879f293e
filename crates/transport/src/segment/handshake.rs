//! The handshake in which two sides exchange their segments.
//!
//! The connecting side sends a hello with the descriptor of its receive segment, and the accepting
//! side answers with its own. A second descriptor is that of the side's [arena](super::arena). An
//! ORB that knows no arenas sends one descriptor and closes any other, so the hello is the same.
//! Messages go by the arenas only where both sides have sent one.
//! Both check first which user the other process belongs to. The socket
//! stays open: it carries doorbell signals and hangs up when the peer ends.

use super::arena::{self, OfferedArena, PeersArena};
use super::medium::Join;
use super::memory::{self, OwnSegment, Peers};
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
    /// Octets of the own arena; 0: none, in either direction.
    pub arena_bytes: usize,
    /// Users besides the own one.
    pub users: Vec<u32>,
}

impl Terms {
    /// The largest segment of a peer that is mapped: its memory counts for this process too.
    fn max_bytes(&self) -> usize {
        self.bytes.max(1 << 20)
    }

    /// The largest arena of a peer that is mapped. Its memory counts for the peer, except where the
    /// peer refers to octets that it never wrote.
    fn max_arena_bytes(&self) -> usize {
        self.arena_bytes.max(16 << 20)
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
    type PeerSegment = Peers;

    /// Answers the peer's hello.
    fn join(&self, socket: &Arc<OwnedFd>) -> io::Result<Option<Ring<Arc<OwnSegment>, Peers>>> {
        let Some(hello) = receive_hello(socket)? else { return Ok(None) };
        let offered = offer(socket, self)?;
        Ok(Some(join(offered, hello, socket.clone(), self)?))
    }
}

/// The own segment and arena, sent in a hello.
pub(crate) struct Offer(OwnSegment, Option<OfferedArena>);

/// Sends a hello with a fresh segment.
pub(crate) fn offer(socket: &OwnedFd, terms: &Terms) -> io::Result<Offer> {
    let (own, fd) = memory::create(terms.bytes)?;
    let mut text = [0; LENGTH];
    text[..8].copy_from_slice(&MAGIC);
    text[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    text[12..].copy_from_slice(&(terms.bytes as u32).to_ne_bytes());
    let (arena, arena_fd) = arena::offer(terms.arena_bytes)?.unzip();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd(), arena_fd.as_ref().map_or(fd.as_fd(), OwnedFd::as_fd)];
    control.push(SendAncillaryMessage::ScmRights(&fds[..1 + usize::from(arena_fd.is_some())]));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&text)], &mut control, flags)?;
    Ok(Offer(own, arena))
}

/// A received hello.
pub(crate) struct Hello {
    capacity: u32,
    fd: OwnedFd,
    arena: Option<OwnedFd>,
}

/// Receives a hello without waiting. `None` at the end of the stream.
///
/// # Errors
/// `WouldBlock`; `InvalidData` for other data.
pub(crate) fn receive_hello(socket: &OwnedFd) -> io::Result<Option<Hello>> {
    let mut text = [0; LENGTH + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, flags)?;
    // Descriptors that are not taken out are closed with the buffer. Those beyond its room never
    // entered this process.
    let (fd, arena) = control
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => Some((fds.next(), fds.next())),
            _ => None,
        })
        .unwrap_or_default();
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
        Some(fd) => Ok(Some(Hello { capacity: number(12), fd, arena })),
        None => wrong("the peer's hello has no segment"),
    }
}

/// Joins both segments.
pub(crate) fn join(
    offered: Offer,
    hello: Hello,
    socket: Arc<OwnedFd>,
    terms: &Terms,
) -> io::Result<Ring<Arc<OwnSegment>, Peers>> {
    let Offer(own, arena) = offered;
    let peers = memory::attach(hello.fd, hello.capacity, terms.max_bytes(), socket)?;
    let (arena, peers_arena) = match (arena, hello.arena) {
        (Some(arena), Some(fd)) => (Some(arena), Some(PeersArena::attach(&fd, terms.max_arena_bytes())?)),
        _ => (None, None),
    };
    let own = Arc::new(own.with_peers_arena(peers_arena));
    let peers = peers.with_arena(arena, &own);
    Ok(Ring::new(own, peers))
}
