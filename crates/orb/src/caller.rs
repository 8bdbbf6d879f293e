//! The identity of the client that makes a request.

use crate::Principal;
use crate::connection::Connection;
#[cfg(feature = "interceptors")]
use crate::principal::Authenticated;
use isorb_rt::sync::PiOnceLock;
use isorb_transport::{PeerIdentity, PeerProcess};
use std::fmt;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::AtomicU64;

/// The caller of a request: this process, or the peer of a connection. From
/// [`Upcall::caller`](crate::Upcall::caller) and
/// [`ServerRequestInfo::caller`](crate::interceptor::ServerRequestInfo::caller).
///
/// What the transport proved is known: the user of a process of this host, a certificate, and for
/// TCP the address. A [`principal`](Self::principal) is known if an interceptor authenticated it.
#[derive(Clone, Copy)]
pub struct Caller<'u>(Origin<'u>);

#[derive(Clone, Copy)]
enum Origin<'u> {
    Process,
    Peer(&'u Connection),
    #[cfg(feature = "interceptors")]
    Authenticated(&'u Authenticated<'u>),
    #[cfg(feature = "miop")]
    Group,
}

/// What a connection keeps of the identity of its peer.
#[derive(Debug, Default)]
pub(crate) struct CallerState {
    identity: PeerIdentity,
    user: PiOnceLock<Option<u32>>,
    memo: AtomicU64,
}

impl CallerState {
    pub fn new(identity: PeerIdentity) -> CallerState {
        CallerState { identity, ..CallerState::default() }
    }

    pub fn identity(&self) -> &PeerIdentity {
        &self.identity
    }
}

impl<'u> Caller<'u> {
    pub(crate) const PROCESS: Caller<'static> = Caller(Origin::Process);
    /// A member of a multicast group.
    #[cfg(feature = "miop")]
    pub(crate) const GROUP: Caller<'static> = Caller(Origin::Group);

    pub(crate) fn peer(connection: &'u Connection) -> Caller<'u> {
        Caller(Origin::Peer(connection))
    }

    /// The peer of a request that an interceptor authenticated.
    #[cfg(feature = "interceptors")]
    pub(crate) fn authenticated(authenticated: &'u Authenticated<'u>) -> Caller<'u> {
        Caller(Origin::Authenticated(authenticated))
    }

    /// The connection that the request came over.
    #[inline]
    fn connection(self) -> Option<&'u Connection> {
        match self.0 {
            Origin::Peer(connection) => Some(connection),
            #[cfg(feature = "interceptors")]
            Origin::Authenticated(authenticated) => Some(authenticated.connection),
            _ => None,
        }
    }

    /// The name under which the client authenticated itself for this request. `None` if no
    /// interceptor checks that, for anonymous clients, and for this process.
    #[inline]
    pub fn principal(self) -> Option<&'u Principal> {
        match self.0 {
            #[cfg(feature = "interceptors")]
            Origin::Authenticated(authenticated) => Some(authenticated.principal),
            _ => None,
        }
    }

    /// Whether the request came from this process, over no connection.
    #[inline]
    pub fn is_this_process(self) -> bool {
        matches!(self.0, Origin::Process)
    }

    /// What the transport proved of the peer. `None` for this process, and for requests to a
    /// multicast group.
    pub fn identity(self) -> Option<&'u PeerIdentity> {
        self.connection().map(|connection| connection.caller().identity())
    }

    /// The user of the caller's process: that of a unix socket or memory segment, of a TCP
    /// connection inside this host, or of this process.
    ///
    /// # Real-time
    /// As [`PeerIdentity::user`] with the first call for a connection; later calls read memory.
    pub fn user(self) -> Option<u32> {
        if self.is_this_process() {
            return Some(PeerProcess::this().user);
        }
        let state = self.connection()?.caller();
        *state.user.get_or_init(|| state.identity.user())
    }

    /// Whether `host` is an address of the caller: the one that it connects from, or any of this
    /// host for a process of this host.
    ///
    /// # Real-time
    /// Resolves host names, and makes a system call for an address other than the caller's. Not for
    /// the request path.
    pub fn is_at(self, host: &str) -> bool {
        // Only addresses of this host can be bound.
        let is_here = |ip: &IpAddr| UdpSocket::bind((*ip, 0)).is_ok();
        let is_local = self.is_this_process() || self.identity().is_some_and(|peer| peer.process.is_some());
        let at = self.identity().and_then(|peer| peer.addresses).map(|(peer, _)| peer.ip().to_canonical());
        let is_local = is_local || at.as_ref().is_some_and(is_here);
        let same = |ip: &IpAddr| at == Some(ip.to_canonical()) || is_local && is_here(ip);
        match host.parse() {
            Ok(ip) => same(&ip),
            Err(_) => (host, 0).to_socket_addrs().is_ok_and(|mut all| all.any(|address| same(&address.ip()))),
        }
    }

    /// A number that belongs to the peer's connection, at first 0. A [`Guard`](crate::Guard) keeps
    /// its decision there. `None` for a request with a [`principal`](Self::principal): other
    /// requests of the connection may have other ones.
    #[inline]
    pub fn memo(self) -> Option<&'u AtomicU64> {
        match self.0 {
            Origin::Peer(connection) => Some(&connection.caller().memo),
            _ => None,
        }
    }
}

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Origin::Process => f.write_str("this process"),
            Origin::Peer(connection) => connection.caller().identity().fmt(f),
            #[cfg(feature = "interceptors")]
            Origin::Authenticated(Authenticated { connection, principal }) => {
                write!(f, "{principal} ({})", connection.caller().identity())
            }
            #[cfg(feature = "miop")]
            Origin::Group => f.write_str("a sender to a group"),
        }
    }
}

impl fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({self})")
    }
}
