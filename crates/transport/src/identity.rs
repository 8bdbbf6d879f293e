//! The identity of a peer, as far as a transport proves it.

use crate::owner;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the accepting side of a connection knows of its peer without trusting it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The peer's address and the own one, where a handshake of TCP proved that the peer receives
    /// there. `None` for datagrams: their senders can write any address.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The process at the other end of a unix socket or memory segment.
    pub process: Option<PeerProcess>,
    /// The certificate with which the peer authenticated itself.
    pub certificate: Option<Arc<PeerCertificate>>,
    /// Whether the connection is encrypted, so that a password may be sent over it.
    pub encrypted: bool,
}

/// A process of this host, as the kernel saw it when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// Its number. It may have ended, and the number may be another process's by now.
    pub id: i32,
    /// Its effective user.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
}

impl PeerProcess {
    /// This process, as its peers see it.
    pub fn this() -> PeerProcess {
        PeerProcess {
            id: std::process::id().cast_signed(),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }
}

/// A certificate that one of the configured authorities signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name of its subject; empty if it has none.
    pub common_name: String,
    /// The DNS names that it is valid for.
    pub dns_names: Vec<String>,
    /// The certificate itself, in DER.
    pub der: Vec<u8>,
}

impl PeerIdentity {
    /// The user of the peer's process. For a TCP connection inside this host, it is the owner of
    /// the peer's socket. `None` where the kernel does not know a user.
    ///
    /// # Real-time
    /// For TCP a query to the kernel for that one socket: four system calls, no allocation, the
    /// same however many sockets there are. The kernel serves such queries one after the other. A
    /// process that may not make them reads the table of all sockets in `/proc` instead, which
    /// allocates; a warning says so once.
    pub fn user(&self) -> Option<u32> {
        if let Some(process) = self.process {
            return Some(process.user);
        }
        let (peer, local) = self.addresses.filter(|(peer, _)| peer.ip().to_canonical().is_loopback())?;
        owner::owner(peer, local)
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certificate = self.certificate.as_ref();
        match (certificate, self.process, self.addresses) {
            (Some(certificate), _, Some((peer, _))) => write!(f, "{:?} at {peer}", certificate.common_name),
            (Some(certificate), ..) => write!(f, "{:?}", certificate.common_name),
            (_, Some(process), _) => write!(f, "user {} (process {})", process.user, process.id),
            (_, _, Some((peer, _))) => write!(f, "{peer}"),
            _ => f.write_str("an unknown peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tcp, Transport, Unix, Wait};

    fn connected(transport: &dyn Transport, address: &str) -> [Box<dyn crate::Stream>; 2] {
        let listener = transport.listen(address).unwrap();
        let client = transport.connect(listener.address(), None).unwrap();
        [client, listener.accept(Wait::Block).unwrap()]
    }

    #[test]
    fn the_user_of_a_peer_on_this_host_is_known() {
        let own = PeerProcess::this().user;
        let [_client, unix] = connected(&Unix::default(), "");
        let unix = unix.identity();
        assert_eq!(unix.process, Some(PeerProcess::this()));
        assert_eq!((unix.user(), unix.addresses), (Some(own), None));
        let [client, stream] = connected(&Tcp, "127.0.0.1:0");
        let tcp = stream.identity();
        assert_eq!((tcp.user(), tcp.process), (Some(own), None));
        assert!(tcp.to_string().starts_with("127.0.0.1:"));
        // A socket of IPv6 that is connected by IPv4, as Java's are, stands in the other table.
        let listener = Tcp.listen("127.0.0.1:0").unwrap();
        let port = listener.address().rsplit(':').next().unwrap().parse().unwrap();
        let mapped = (std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port);
        let _java = std::net::TcpStream::connect(mapped).unwrap();
        assert_eq!(listener.accept(Wait::Block).unwrap().identity().user(), Some(own));
        // A socket that its process has closed has no user; the table says 0, as for root.
        drop(client);
        assert_eq!(tcp.user(), None);
    }
}
