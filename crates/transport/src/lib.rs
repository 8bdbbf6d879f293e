//! Transports behind one set of traits: they move bytes and know nothing of messages or requests.
//!
//! A [`Transport`] connects and listens, a [`Listener`] accepts, and a [`Stream`] moves the bytes
//! of one connection, in order and without loss.
//!
//! ```text
//!   Transport ── connect(address) ──► Stream   recv, send, time-outs, shutdown
//!       └────── listen(address) ──► Listener ── accept ──► Stream
//! ```
//!
//! | transport | name | reaches | for |
//! |---|---|---|---|
//! | [`Tcp`] | `tcp` | hosts | everything, and every other ORB |
//! | [`Segments`] | `segment` | this host | the shortest and steadiest calls between processes |
//! | [`Unix`] | `unix` | this host | clients without a network; TAO and isorb |
//!
//! With [`Udp`] (`udp`) each send is one datagram, which arrives whole or not at all. With the
//! feature `miop`, `Miop` sends to all members of a multicast group; [`Multicast`] holds the
//! settings of groups.
//!
//! Another transport implements the three traits and passes the suite in `conformance` (a cargo
//! feature).
#![deny(unsafe_code)]

#[cfg(feature = "conformance")]
pub mod conformance;
mod identity;
#[cfg(feature = "miop")]
pub mod miop;
mod multicast;
mod owner;
mod rendezvous;
pub mod segment;
mod shortage;
mod socket;
mod tcp;
mod udp;
mod unix;
mod unprotected;

pub use identity::{PeerCertificate, PeerIdentity, PeerProcess};
#[cfg(feature = "miop")]
pub use miop::Miop;
pub use multicast::{Interface, Multicast};
pub use segment::{Arena, ArenaCounts, LentPart, Loan, LoanError, Segments, Spin, TAG_SEGMENTS};
pub use shortage::is_shortage;
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
    /// Up to the time-out of the stream.
    Block,
    /// Not at all: `WouldBlock` instead.
    No,
}

/// The properties of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Bytes arrive in order and without loss. Otherwise calls with a reply need a time-out.
    pub reliable: bool,
    /// A poller can watch the descriptor of a stream. Otherwise lanes refuse its endpoints: each
    /// connection needs a thread.
    pub pollable: bool,
    /// Peers may be on another host.
    pub crosses_hosts: bool,
    /// A thread that waits for a peer learns of the end of its process at once. Otherwise calls
    /// with a reply need a time-out.
    pub notices_death: bool,
    /// Messages reach all members of a group, and there are no replies.
    pub multicast: bool,
}

/// The properties of a stream, which never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCapabilities {
    /// A receive that returns less than there was room for has received all there was, except for
    /// the end of the stream. Not so where bytes arrive in records.
    pub short_read_empties: bool,
    /// Octets that a send refused with `WouldBlock` or `Interrupted` may leave all the same, for
    /// example because they are encrypted already. The caller sends the same octets next or closes
    /// the stream. It must not assume that they were not sent.
    pub retains_refused: bool,
    /// Each send is one datagram of at most this many octets, which arrives whole or not at all. A
    /// longer one is refused with `EMSGSIZE`. `None` for a stream of bytes.
    pub max_datagram: Option<usize>,
}

/// The meaning of an address that is valid on one host only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locality {
    /// The running host: its boot id.
    pub host: String,
    /// The address's identity on the host: which file it leads to, for example.
    pub identity: String,
}

/// Sets the options of a socket.
pub type PrepareSocket<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<()>;

/// Makes connections of one kind.
pub trait Transport: Send + Sync + Debug {
    /// Its name in endpoint strings, such as `tcp`.
    fn name(&self) -> &'static str;

    /// The tag of the profiles in which references carry its addresses: 0 for TCP, a different one
    /// for each other transport.
    fn profile_tag(&self) -> u32;

    /// Its properties.
    fn capabilities(&self) -> Capabilities;

    /// The meaning of the address here. Two processes that get the same locality for an address
    /// mean the same endpoint. `None` where an address means the same everywhere, or nothing is
    /// there.
    ///
    /// # Real-time
    /// May access the file system; allocates. Not for the request path.
    fn locality(&self, address: &str) -> Option<Locality> {
        let _ = address;
        None
    }

    /// Connects to an address in the transport's form (`host:port`, `[v6]:port`, a path). It tries
    /// each address of a name in turn. The accepting side may have to receive, in another thread or
    /// process, before this returns.
    ///
    /// # Errors
    /// The error of the operating system for the last address tried; `TimedOut` when `timeout`
    /// passed. The error contains [`Unprotected`] if a peer answered and the two did not come to
    /// trust each other; the caller must not try another address then.
    ///
    /// # Real-time
    /// Blocks up to `timeout`; name resolution may take longer and allocates. Not for the request
    /// path.
    fn connect(&self, address: &str, timeout: Option<Duration>) -> io::Result<Box<dyn Stream>>;

    /// Connects as [`Transport::connect`] does, and sets the options of the socket by `prepare`:
    /// before the first packet where the transport can, so that the handshake has them too. A lost
    /// packet of a TCP handshake is sent again only after a second. Other transports, by default,
    /// set them on the connected stream.
    ///
    /// `prepare` may be called for several sockets, one for each address of a name.
    ///
    /// # Errors
    /// As [`Transport::connect`], and what `prepare` returned.
    ///
    /// # Real-time
    /// As [`Transport::connect`].
    fn connect_prepared(
        &self,
        address: &str,
        timeout: Option<Duration>,
        prepare: PrepareSocket<'_>,
    ) -> io::Result<Box<dyn Stream>> {
        let stream = self.connect(address, timeout)?;
        prepare(stream.fd())?;
        Ok(stream)
    }

    /// Listens at an address. Port 0 or an empty path takes a free one.
    ///
    /// # Errors
    /// The error of the operating system.
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
    /// - `PermissionDenied` for a peer that may not connect, `NotConnected` or `ConnectionAborted`
    ///   for one that has left. The next accept may follow at once.
    /// - `WouldBlock` with [`Wait::No`].
    /// - Any error after [`Listener::close`]; else the error of the operating system.
    ///
    /// # Real-time
    /// Allocates the stream; blocks without bound with [`Wait::Block`]. Long operations, such as a
    /// handshake, are not done here.
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>>;

    /// The address in the form that [`Transport::connect`] takes: the host as given, the actual
    /// port.
    fn address(&self) -> &str;

    /// Ends a blocked `accept` and refuses further connections.
    ///
    /// # Real-time
    /// Waits for no other thread.
    fn close(&self);

    /// Sets the limit of further connections, before the first arrives. A listener that does a
    /// handshake before `accept` has at most so many of them under way, but always one, so that a
    /// new client can replace another.
    ///
    /// # Real-time
    /// Once for each listener; it may allocate.
    fn set_limit(&self, limit: ConnectionLimit) {
        let _ = limit;
    }

    /// Sets the options of the listening socket by `prepare`, where its part of a client's
    /// handshake is sent with them. The accepted streams need not have them. Does nothing by
    /// default.
    ///
    /// # Errors
    /// What `prepare` returned.
    ///
    /// # Real-time
    /// As `prepare`.
    fn prepare(&self, prepare: PrepareSocket<'_>) -> io::Result<()> {
        let _ = prepare;
        Ok(())
    }

    /// The descriptor to watch.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// How many more connections there may be. Any thread may query it.
#[derive(Clone)]
pub struct ConnectionLimit(Arc<dyn Fn() -> usize + Send + Sync>);

impl ConnectionLimit {
    /// A limit that `left` computes each time.
    ///
    /// # Real-time
    /// Allocates.
    pub fn new(left: impl Fn() -> usize + Send + Sync + 'static) -> ConnectionLimit {
        ConnectionLimit(Arc::new(left))
    }

    /// The current number.
    ///
    /// # Real-time
    /// As the function that it was made of.
    pub fn left(&self) -> usize {
        (self.0)()
    }
}

impl Debug for ConnectionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConnectionLimit").field(&self.left()).finish()
    }
}

/// One connection. All methods take `&self`: one thread may receive while another sends. Two
/// threads that do the same must take turns.
pub trait Stream: Send + Sync + Debug {
    /// Receives at least one byte; 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing arrived in time. `Interrupted` when a signal arrived first; the
    /// caller computes the time that is left. Else the error of the operating system.
    ///
    /// # Real-time
    /// One system call; blocks as `wait` and the receive time-out say.
    fn recv(&self, into: &mut [u8], wait: Wait) -> io::Result<usize>;

    /// Sends some of the pieces' bytes, in order, and returns how many.
    ///
    /// # Errors
    /// `WouldBlock` when nothing could be sent in time, or, with
    /// [`retains_refused`](StreamCapabilities::retains_refused), not all of a piece. `Interrupted`
    /// likewise, when a signal arrived first. Else the error of the operating system.
    ///
    /// # Real-time
    /// One system call; blocks as `wait` and the send time-out say.
    fn send(&self, pieces: &[IoSlice<'_>], wait: Wait) -> io::Result<usize>;

    /// The properties of this stream, the same for all of its life.
    ///
    /// # Real-time
    /// Neither blocks nor allocates.
    fn capabilities(&self) -> StreamCapabilities {
        StreamCapabilities::default()
    }

    /// Sets how long a blocking receive waits; `None` is without a limit.
    ///
    /// # Errors
    /// The error of the operating system.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; at most one system call. A receive with a time-out may cost
    /// the kernel a timer.
    fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// Sets how long a blocking send waits; `None` is without a limit.
    ///
    /// # Errors
    /// The error of the operating system.
    ///
    /// # Real-time
    /// As [`set_recv_timeout`](Self::set_recv_timeout).
    fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// Ends both directions and wakes threads that are blocked in `recv` or `send`. One direction
    /// alone cannot be ended: GIOP does not need it, since its CloseConnection is a message, and
    /// not every medium has it.
    ///
    /// # Real-time
    /// Does not wait for the peer; some system calls.
    fn shutdown(&self);

    /// Sends these last octets as far as the peer has room for them now, and then ends both
    /// directions, as [`shutdown`](Self::shutdown) does. A transport that can puts both into one
    /// packet.
    ///
    /// # Real-time
    /// As [`shutdown`](Self::shutdown), and one system call.
    fn shutdown_with(&self, last: &[u8]) {
        if !last.is_empty() {
            let _ = self.send(&[IoSlice::new(last)], Wait::No);
        }
        self.shutdown();
    }

    /// The peer, for messages and logs.
    fn peer(&self) -> &str;

    /// The identity of the peer, as far as the transport proved it. Accepted streams have one; by
    /// default nothing is known.
    ///
    /// # Real-time
    /// Once for each connection; it may allocate and make a system call.
    fn identity(&self) -> PeerIdentity {
        PeerIdentity::default()
    }

    /// A poller will watch the descriptor from now on, edge-triggered. After a receive that found
    /// nothing, or a send without room, the next octets or the next room make an event.
    ///
    /// # Real-time
    /// Once for each connection; does not block.
    fn watched(&self) {}

    /// The stream as memory that a thread can poll; `None` where arrivals are seen by system calls
    /// only.
    ///
    /// # Real-time
    /// Neither blocks nor allocates.
    fn polled(&self) -> Option<&dyn Polled> {
        None
    }

    /// The memory in which this side lends octets to the peer; `None` where there is none. A piece
    /// of a send that lies there is not copied.
    ///
    /// # Real-time
    /// Neither blocks nor allocates.
    fn arena(&self) -> Option<&Arc<Arena>> {
        None
    }

    /// The length of the next octets of the stream, where they are a part that the peer lends and
    /// of which nothing was received; `None` for other octets, and where nothing has arrived. A
    /// [`recv`](Self::recv) copies such a part as any other octets.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), for a part that cannot be.
    ///
    /// # Real-time
    /// Neither blocks nor allocates.
    fn lent_ahead(&self) -> io::Result<Option<usize>> {
        Ok(None)
    }

    /// Takes the part that [`lent_ahead`](Self::lent_ahead) found, without copying it. The caller
    /// releases it after it was read.
    ///
    /// # Errors
    /// As [`lent_ahead`](Self::lent_ahead).
    ///
    /// # Real-time
    /// Neither blocks nor allocates.
    fn take_lent(&self) -> io::Result<Option<LentPart>> {
        Ok(None)
    }

    /// Returns a part of this stream to the peer, on any thread, once. It is not read any more.
    ///
    /// # Real-time
    /// Does not block; a system call where the peer waits for it.
    fn release_lent(&self, part: &LentPart) {
        let _ = part;
    }

    /// The descriptor to watch.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// A stream that a thread can poll in memory, without a system call. Before it sleeps in a poller,
/// it [arms](Self::arm) the stream: the peer then makes an event of the descriptor. The threads of
/// a lane see to it that a stream is armed while none of them polls.
///
/// # Real-time
/// Nothing here allocates. [`arm`](Self::arm) and [`disarm`](Self::disarm) take a PI lock for some
/// loads and stores.
pub trait Polled: Send + Sync + Debug {
    /// From now on a receive that finds nothing leaves it to the caller to arm; with `false` it
    /// arms by itself, as [`Stream::watched`] says.
    fn set_polled(&self, polled: bool);

    /// Whether the caller has to arm.
    fn is_polled(&self) -> bool;

    /// Whether a receive has something to report.
    fn ready(&self) -> bool;

    /// Announces a sleep: what arrives from now on makes one event. `false` when something has
    /// arrived already.
    fn arm(&self) -> bool;

    /// Takes the announcement back, so that the peer saves the event. One event may come anyway.
    fn disarm(&self);

    /// The poller has reported the descriptor, `closed` as it says: takes its signals off, and
    /// disarms.
    ///
    /// # Real-time
    /// One system call, which does not wait; a few if the descriptor has closed.
    fn reported(&self, closed: bool);

    /// Announces the processor that polls, one more than its number, and returns whether the peer
    /// was last seen on another one.
    fn polls_from(&self, processor: u32) -> bool;

    /// Whether a send has had to wake the peer since this was last asked.
    fn take_woke(&self) -> bool;

    /// The limits of polling.
    fn spin(&self) -> Spin;
}
