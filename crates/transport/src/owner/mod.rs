//! The user that owns the other end of a TCP connection inside this host.
//!
//! ```text
//!   query by netlink ── not permitted, not there ──► table of all sockets in /proc
//! ```

mod diag;
mod table;

use diag::Entry;
use isorb_rt::log;
use rustix::io::Errno;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

/// The target of this module's log records.
const LOG: &str = "isorb::transport";

/// What is known of the kernel's interface for queries. An answer of 'no such socket' means
/// nothing before another socket was found: a kernel without the module gives the same one.
static QUERIES: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const ANSWERED: u8 = 1;
const MISSING: u8 = 2;

/// The user that owns the established socket which is bound to `local` and connected to `remote`.
/// Sockets without an owner, such as those that their process has closed, have none.
///
/// # Real-time
/// Four system calls and no allocation, however many sockets there are. The kernel serves such
/// queries one after the other. Where it serves none, as [`table::owner`].
pub(crate) fn owner(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    find(&QUERIES, canonical(local), canonical(remote), diag::query)
}

fn find(
    queries: &AtomicU8,
    local: SocketAddr,
    remote: SocketAddr,
    query: impl FnOnce(SocketAddr, SocketAddr) -> Result<Option<Entry>, Errno>,
) -> Option<u32> {
    let state = queries.load(Ordering::Relaxed);
    if state == MISSING {
        return table::owner(local, remote);
    }
    match query(local, remote) {
        Ok(Some(entry)) => {
            queries.store(ANSWERED, Ordering::Relaxed);
            (entry.established && (entry.local, entry.remote) == (local, remote)).then_some(entry.owner)?
        }
        Ok(None) if state == ANSWERED => None,
        Ok(None) => table::owner(local, remote),
        Err(error) => {
            note(queries, error);
            table::owner(local, remote)
        }
    }
}

/// Learns whether the kernel answers queries, by one for a socket that listens. The first one may
/// load a module, so an ordinary thread makes it here instead of a lane with a request.
pub(crate) fn probe(listener: SocketAddr) {
    if QUERIES.load(Ordering::Relaxed) != UNKNOWN {
        return;
    }
    let listener = canonical(listener);
    let anywhere = match listener {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    match diag::query(listener, anywhere) {
        Ok(Some(_)) => QUERIES.store(ANSWERED, Ordering::Relaxed),
        Ok(None) => note(&QUERIES, Errno::OPNOTSUPP),
        Err(error) => note(&QUERIES, error),
    }
}

/// Says once that the kernel answers no queries. Other errors, such as that of a process without a
/// free descriptor, may pass.
fn note(queries: &AtomicU8, error: Errno) {
    let lasting = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::AFNOSUPPORT,
        Errno::PROTONOSUPPORT,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::INVAL,
        Errno::CONNREFUSED,
        Errno::BADMSG,
    ];
    if lasting.contains(&error) && queries.swap(MISSING, Ordering::Relaxed) != MISSING {
        log::warn(
            LOG,
            format_args!(
                "no queries for the owners of sockets ({error}): for each connection inside this host the table \
                 /proc/net/tcp is searched, which takes longer the more sockets there are; allow AF_NETLINK to this \
                 process and load the kernel's modules inet_diag and tcp_diag"
            ),
        );
    }
}

/// IPv4 as IPv4, also on a socket of IPv6; no zone.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerProcess;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn query_and_table_agree() {
        let own = PeerProcess::this().user;
        for (at, to) in [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "::ffff:127.0.0.1"), ("::1", "::1")] {
            let Ok(listener) = TcpListener::bind((at, 0)) else {
                println!("skipped: no {at} here");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((to, port)).unwrap();
            let [near, far] = [client.local_addr(), client.peer_addr()].map(|at| canonical(at.unwrap()));
            let entry = diag::query(near, far).unwrap().unwrap();
            assert_eq!((entry.local, entry.remote, entry.established), (near, far, true), "{to}");
            assert_eq!((entry.owner, table::owner(near, far)), (Some(own), Some(own)), "{to}");
            let elsewhere = listener.local_addr().unwrap();
            assert_eq!(owner(elsewhere, SocketAddr::new(near.ip(), 1)), None, "{to}: it only listens");
            drop(client);
            assert_eq!((owner(near, far), table::owner(near, far)), (None, None), "{to}");
        }
    }

    #[test]
    fn without_queries_the_table_is_searched() {
        let own = Some(PeerProcess::this().user);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [near, far] = [client.local_addr().unwrap(), client.peer_addr().unwrap()];
        let queries = AtomicU8::new(UNKNOWN);
        // No descriptor is free: the next connection is asked for again.
        assert_eq!(find(&queries, near, far, |_, _| Err(Errno::MFILE)), own);
        // Without the module the kernel knows no socket at all.
        assert_eq!(find(&queries, near, far, |_, _| Ok(None)), own);
        assert_eq!(find(&queries, near, far, diag::query), own);
        assert_eq!(find(&queries, near, far, |_, _| Ok(None)), None, "it has answered before");
        assert_eq!(find(&queries, near, far, |_, _| Err(Errno::PERM)), own);
        assert_eq!(find(&queries, near, far, |_, _| panic!("it is not permitted")), own);
    }
}
