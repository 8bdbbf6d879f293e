//! The identity of a peer, as far as a transport proves it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
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
    /// The user of the peer's process. For a TCP connection inside this host, the kernel's table of
    /// sockets has it. `None` where the kernel does not know a user.
    ///
    /// # Real-time
    /// For TCP it reads and searches a file of `/proc` as long as the table of sockets. Not for the
    /// request path.
    pub fn user(&self) -> Option<u32> {
        if let Some(process) = self.process {
            return Some(process.user);
        }
        let (peer, local) = self.addresses.filter(|(peer, _)| peer.ip().to_canonical().is_loopback())?;
        let in_table = |table: &str, map: fn(IpAddr) -> IpAddr| {
            let [peer, local] = [peer, local].map(|at| SocketAddr::new(map(at.ip()), at.port()));
            user_of_socket(&std::fs::read_to_string(table).ok()?, peer, local)
        };
        // A socket of IPv6 may be connected by IPv4, as those of Java are.
        let four = if peer.ip().to_canonical().is_ipv4() {
            in_table("/proc/thread-self/net/tcp", |ip| ip.to_canonical())
        } else {
            None
        };
        four.or_else(|| in_table("/proc/thread-self/net/tcp6", mapped))
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

/// The address in IPv6.
fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

/// The user of the socket that is bound to `local` and connected to `remote`, from the kernel's
/// table. Sockets without an owner, such as those that their process has closed, have none.
fn user_of_socket(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    const ESTABLISHED: &str = "01";
    let (local, remote) = (hexadecimal(local), hexadecimal(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == local && fields.next()? == remote && fields.next()? == ESTABLISHED;
        // Behind the user come a time-out and the inode, 0 for a socket without an owner.
        let user = fields.nth(3)?.parse().ok()?;
        let inode = fields.nth(1)?;
        (is_it && inode != "0").then_some(user)
    })
}

/// An address as the kernel's table writes it: words in the order of this machine.
fn hexadecimal(address: SocketAddr) -> String {
    let words = |octets: &[u8]| -> String {
        let words = octets.chunks_exact(4).map(|word| {
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            format!("{word:08X}")
        });
        words.collect()
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    format!("{ip}:{:04X}", address.port())
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

    #[test]
    fn rows_of_the_table_are_compared_whole() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000 0 4711 1 x\n\
                     1: 0100007F:C350 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0 0 0 3 x\n\
                     2: 0100007F:C351 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001 0 4712 1 x\n\
                     3: 0100007F:C352 010000";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(user_of_socket(table, at(0x1f90), at(0xc350)), Some(1000));
        assert_eq!(user_of_socket(table, at(0xc350), at(0x1f90)), None, "it waits for its end");
        assert_eq!(user_of_socket(table, at(0xc351), at(0x1f90)), Some(1001));
        assert_eq!(user_of_socket(table, at(0xc352), at(0x1f90)), None);
        assert_eq!(hexadecimal("[::1]:80".parse().unwrap()), "00000000000000000000000001000000:0050");
    }
}
