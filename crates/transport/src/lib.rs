//! Byte movers behind one set of traits: an ORB hands bytes over and gets bytes back, whatever carries them.
//!
//! A [`Transport`] connects and listens; a [`Listener`] accepts; a [`Stream`] moves bytes of one connection, in
//! order, without loss. What a transport knows nothing of: messages, requests, who waits for whom.
//!
//! ```text
//!   Transport ── connect(address) ──► Stream   recv, send, time-outs, shutdown
//!       └────── listen(address) ──► Listener ── accept ──► Stream
//! ```
//!
//! | transport | name | reaches | what it is good for |
//! |---|---|---|---|
//! | [`Tcp`] | `tcp` | hosts | everything, and every other ORB |
//! | [`Segments`] | `segment` | this host | the shortest and steadiest calls between processes |
//! | [`Unix`] | `unix` | this host | clients without a network; TAO and isorb |
//!
//! [`Udp`] (`udp`) is another matter: each send is one datagram, which arrives whole or not at all. With the feature `miop`, `Miop` sends to all members of
//! a multicast group at once; [`Multicast`] is what it and others know of groups.
//!
//! A transport of one's own implements the three traits and passes the suite in `conformance` (a cargo feature).
#![deny(unsafe_code)]

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "miop")]
pub mod miop;
mod multicast;
mod rendezvous;
pub mod segment;
mod socket;
mod tcp;
mod udp;
mod unix;
mod unprotected;
mod warden;

#[cfg(feature = "miop")]
pub use miop::Miop;
pub use multicast::{Interface, Multicast};
pub use segment::{Segments, TAG_SEGMENTS};
pub use tcp::Tcp;
pub use udp::{DatagramCounts, LONGEST_DATAGRAM, TAG_UDP, Udp};
pub use unix::{TAG_UNIX, Unix};
pub use unprotected::Unprotected;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Whether an operation may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as the stream's time-out says.
    Block,
    /// Not at all: `WouldBlock` instead.
    No,
}

/// What a transport can do; the ORB asks instead of guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Bytes arrive in order and without loss. Without, requests that are answered need a time-out.
    pub reliable: bool,
    /// A stream has a descriptor that a poller can watch. Without, lanes refuse its endpoints: each connection needs a thread.
    pub pollable: bool,
    /// Peers may be on another host.
    pub crosses_hosts: bool,
    /// A peer whose process ends without a word is noticed at once by whoever waits for it, and not only at a time-out. Without, requests that
    /// are answered need a time-out.
    pub notices_death: bool,
    /// What is sent reaches all members of a group, and nobody answers.
    pub multicast: bool,
}

/// What an address that is good on one host means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The host, as it runs now.
    pub host: String,
    /// The spot on it that the address leads to.
    pub spot: String,
}

/// Makes connections of one kind.
pub trait Transport: Send + Sync + Debug {
    /// Its name in endpoint strings, such as `tcp`.
    fn name(&self) -> &'static str;

    /// The tag of the profiles in which references carry its addresses: 0 for TCP, another for each other transport.
    fn profile_tag(&self) -> u32;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What the address means here: two processes that get the same place for an address mean the same by it. `None` where an
    /// address means the same everywhere, or nothing is there.
    ///
    /// # Real-time
    /// May look at the file system; allocates. Not for the request path.
    fn place(&self, address: &str) -> Option<Place> {
        let _ = address;
        None
    }

    /// Connects to an address in the transport's own form (`host:port`, `[v6]:port`, a path), trying each address of a
    /// name in turn. It may need the accepting side to receive, in another thread or process, before it returns.
    ///
    /// # Errors
    /// What the operating system gave for the last address tried; `TimedOut` when `timeout` passed. With [`Unprotected`] inside where
    /// somebody answered and the two did not come to trust each other: then nobody tries another address instead.
    ///
    /// # Real-time
    /// Blocks up to `timeout`; name resolution may take longer and allocates. Not for the request path.
    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>>;

    /// Listens at an address; port 0, or an empty path, takes a free one.
    ///
    /// # Errors
    /// What the operating system gave.
    ///
    /// # Real-time
    /// Allocates, and may resolve a name. Not for the request path.
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>>;
}

/// Accepts connections.
pub trait Listener: Send + Sync + Debug {
    /// The next connection.
    ///
    /// # Errors
    /// What the operating system gave; `PermissionDenied` for a peer that may not connect, `NotConnected` or `ConnectionAborted` for one that
    /// has left, after which the next may come at once; `WouldBlock` with [`Wait::No`]; anything after [`Listener::close`].
    ///
    /// # Real-time
    /// Allocates the stream; blocks without bound with [`Wait::Block`]. What takes long, such as a handshake, is not done here.
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>>;

    /// Where it listens, in the form that [`Transport::connect`] takes: a host as given, a port as taken.
    fn address(&self) -> &str;

    /// Ends a blocked `accept` and refuses further connections.
    ///
    /// # Real-time
    /// Does not wait for anybody.
    fn close(&self);

    /// Says who knows how many more connections there may be, before the first comes. A listener that has something to do with a
    /// connection before `accept` gives it out, such as a handshake, has no more of them under way than that, but always one, so that
    /// who comes may get the place of another.
    ///
    /// # Real-time
    /// Once a listener; it may allocate.
    fn set_room(&self, room: Room) {
        let _ = room;
    }

    /// The descriptor to watch.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// How many more connections there may be; asked by any thread.
#[derive(Clone)]
pub struct Room(Arc<dyn Fn() -> usize + Send + Sync>);

impl Room {
    /// As `left` says each time.
    ///
    /// # Real-time
    /// Allocates.
    pub fn new(left: impl Fn() -> usize + Send + Sync + 'static) -> Room {
        Room(Arc::new(left))
    }

    /// How many it is now.
    ///
    /// # Real-time
    /// What the function takes that it was made of.
    pub fn left(&self) -> usize {
        (self.0)()
    }
}

impl Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Room").field(&self.left()).finish()
    }
}

/// One connection. All methods take `&self`: one thread may receive while another sends; two that do the same must
/// take turns.
pub trait Stream: Send + Sync + Debug {
    /// Receives at least one byte; 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in time; `Interrupted` when a signal came first, after which who calls counts what is left of the
    /// time; else what the operating system gave.
    ///
    /// # Real-time
    /// One system call; blocks as `wait` and the receive time-out say.
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize>;

    /// Whether a receive that gets less than there was room for got all there was, the end of the stream aside. Not so
    /// where bytes come in records.
    fn short_is_all(&self) -> bool {
        false
    }

    /// Sends some of the pieces' bytes, in order; how many is returned.
    ///
    /// # Errors
    /// `WouldBlock` when nothing could be sent in time, or not all of a piece of a stream that [keeps it](Self::keeps_refused); `Interrupted`
    /// likewise, when a signal came first; else what the operating system gave.
    ///
    /// # Real-time
    /// One system call; blocks as `wait` and the send time-out say.
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize>;

    /// Whether what a send refused with `WouldBlock` or `Interrupted` may leave all the same, as where it was encrypted and cannot be taken back. Who sends by
    /// such a stream sends the same octets next, or gives the stream up; nobody may count on it that they were not sent.
    ///
    /// # Real-time
    /// The same for all of a stream's life; neither blocks nor allocates.
    fn keeps_refused(&self) -> bool {
        false
    }

    /// Whether each send is one message that arrives whole or not at all, instead of bytes of a stream that all arrive. Such a stream
    /// refuses what is too long with `EMSGSIZE`, having sent nothing, and receives nothing but whole messages.
    fn is_lossy(&self) -> bool {
        false
    }

    /// The longest message that a lossy stream sends, in octets.
    fn longest_message(&self) -> Option<usize> {
        self.is_lossy().then_some(LONGEST_DATAGRAM)
    }

    /// How long a blocking receive waits; `None` for ever.
    ///
    /// # Errors
    /// What the operating system gave.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; at most one system call. A receive with a time-out may cost the kernel a timer.
    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// How long a blocking send waits; `None` for ever.
    ///
    /// # Errors
    /// What the operating system gave.
    ///
    /// # Real-time
    /// As [`set_recv_timeout`](Self::set_recv_timeout).
    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// Ends both directions and wakes whoever is blocked in `recv` or `send`. There is no end of one direction: GIOP needs none, since
    /// its CloseConnection is a message, and not every medium has one.
    ///
    /// # Real-time
    /// Does not wait for the peer; some system calls.
    fn shutdown(&self);

    /// The peer, for messages and logs.
    fn peer(&self) -> &str;

    /// Says that a poller will watch the descriptor from now on, edge-triggered: each time a receive has found nothing, or a
    /// send no room, what comes next makes an event.
    ///
    /// # Real-time
    /// Once a connection; does not block.
    fn watched(&self) {}

    /// The descriptor to watch.
    fn fd(&self) -> BorrowedFd<'_>;
}
