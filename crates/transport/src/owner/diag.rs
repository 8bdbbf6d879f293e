//! A query for one socket through NETLINK_SOCK_DIAG (`linux/inet_diag.h`).

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, send, socket_with,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// `inet_diag_sockid`: ports, addresses, interface, cookie.
const SOCKET: usize = 48;
/// `inet_diag_req_v2`.
const REQUEST: usize = HEADER + 8 + SOCKET;
/// `inet_diag_msg`. Attributes follow, which are not read.
const REPLY: usize = HEADER + 4 + SOCKET + 20;

const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
/// The loopback interface, in each network namespace. With its index the kernel also finds sockets
/// that are bound to it.
const LOOPBACK: u32 = 1;
/// Each query has a socket of its own, so one number does.
const SEQUENCE: u32 = 0x6973_6f72;

/// A socket as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub established: bool,
    /// `None` for a socket that no process has any more.
    pub owner: Option<u32>,
}

/// The socket that would receive from `remote` at `local`, both in their shortest form. That may
/// be one that listens at `local`.
///
/// # Errors
/// The kernel's; BADMSG for a reply that is none to this query.
pub(super) fn query(local: SocketAddr, remote: SocketAddr) -> Result<Option<Entry>, Errno> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    // Not connected, it sends to the kernel, which has replied when `send` returns.
    let request = request(local, remote);
    if send(&socket, &request, SendFlags::empty())? != request.len() {
        return Err(Errno::BADMSG);
    }
    let mut reply = [0; 512];
    let (length, _, from) = recvfrom(&socket, &mut reply, RecvFlags::DONTWAIT)?;
    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
    if from.is_none_or(|from| from.pid() != 0) {
        // Not the kernel.
        return Err(Errno::BADMSG);
    }
    entry(reply.get(..length).ok_or(Errno::BADMSG)?, local)
}

fn request(local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[8..12].copy_from_slice(&SEQUENCE.to_ne_bytes());
    request[16] = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    request[17] = IPPROTO_TCP;
    // All states.
    request[20..24].fill(0xff);
    request[24..26].copy_from_slice(&local.port().to_be_bytes());
    request[26..28].copy_from_slice(&remote.port().to_be_bytes());
    put(&mut request[28..44], local.ip());
    put(&mut request[44..60], remote.ip());
    request[60..64].copy_from_slice(&LOOPBACK.to_ne_bytes());
    // No cookie.
    request[64..72].fill(0xff);
    request
}

fn put(to: &mut [u8], ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => to[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => to.copy_from_slice(&ip.octets()),
    }
}

/// The entry in a reply to a query for a socket at `asked`.
fn entry(reply: &[u8], asked: SocketAddr) -> Result<Option<Entry>, Errno> {
    let length = number(reply, 0)? as usize;
    if !(HEADER + 4..=reply.len()).contains(&length) || number(reply, 8)? != SEQUENCE {
        return Err(Errno::BADMSG);
    }
    let reply = &reply[..length];
    match u16::from_ne_bytes(octets(reply, 4)?) {
        NLMSG_ERROR => match i32::from_ne_bytes(octets(reply, HEADER)?) {
            error @ -4095..=-1 if Errno::from_raw_os_error(-error) == Errno::NOENT => Ok(None),
            error @ -4095..=-1 => Err(Errno::from_raw_os_error(-error)),
            _ => Err(Errno::BADMSG),
        },
        SOCK_DIAG_BY_FAMILY if length >= REPLY => {
            let local = address(reply, 20, 24)?;
            let remote = address(reply, 22, 40)?;
            if local.port() != asked.port() {
                return Err(Errno::BADMSG);
            }
            let (user, inode) = (number(reply, REPLY - 8)?, number(reply, REPLY - 4)?);
            let owner = (inode != 0).then_some(user);
            Ok(Some(Entry { local, remote, established: reply[17] == ESTABLISHED, owner }))
        }
        _ => Err(Errno::BADMSG),
    }
}

/// The address in a reply, by the family of the socket. One of IPv6 may be connected by IPv4.
fn address(reply: &[u8], port: usize, ip: usize) -> Result<SocketAddr, Errno> {
    let port = u16::from_be_bytes(octets(reply, port)?);
    let ip = match reply[16] {
        AF_INET => Ipv4Addr::from(octets::<4>(reply, ip)?).into(),
        AF_INET6 => Ipv6Addr::from(octets::<16>(reply, ip)?).to_canonical(),
        _ => return Err(Errno::BADMSG),
    };
    Ok(SocketAddr::new(ip, port))
}

fn number(from: &[u8], at: usize) -> Result<u32, Errno> {
    octets(from, at).map(u32::from_ne_bytes)
}

fn octets<const N: usize>(from: &[u8], at: usize) -> Result<[u8; N], Errno> {
    let octets = from.get(at..at + N).and_then(|octets| octets.try_into().ok());
    octets.ok_or(Errno::BADMSG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// What the kernel replies for a socket of user 1000.
    fn reply() -> Vec<u8> {
        let mut reply = vec![0; REPLY + 12];
        reply[..HEADER + 4].copy_from_slice(&request(at(80), at(81))[..HEADER + 4]);
        reply[..4].copy_from_slice(&(REPLY as u32 + 12).to_ne_bytes());
        reply[17] = ESTABLISHED;
        reply[20..68].copy_from_slice(&request(at(80), at(81))[24..]);
        reply[REPLY - 8..REPLY - 4].copy_from_slice(&1000u32.to_ne_bytes());
        reply[REPLY - 4..REPLY].copy_from_slice(&4711u32.to_ne_bytes());
        reply
    }

    fn with(at: usize, octets: &[u8]) -> Vec<u8> {
        let mut reply = reply();
        reply[at..at + octets.len()].copy_from_slice(octets);
        reply
    }

    #[test]
    fn replies_are_read() {
        let whole = Entry { local: at(80), remote: at(81), established: true, owner: Some(1000) };
        let read = |reply: &[u8]| entry(reply, at(80));
        assert_eq!(read(&reply()), Ok(Some(whole)));
        assert_eq!(read(&with(17, &[8])), Ok(Some(Entry { established: false, ..whole })));
        assert_eq!(read(&with(REPLY - 4, &[0; 4])), Ok(Some(Entry { owner: None, ..whole })));
        // A socket of IPv6 that is connected by IPv4.
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
        let six = [&[AF_INET6, 1, 0, 0, 0, 80, 0, 81][..], &mapped, &mapped].concat();
        assert_eq!(read(&with(16, &six)), Ok(Some(whole)));
    }

    #[test]
    fn replies_to_others_and_broken_ones_are_refused() {
        let read = |reply: &[u8]| entry(reply, at(80));
        for length in 0..REPLY + 12 {
            assert_eq!(read(&reply()[..length]), Err(Errno::BADMSG), "cut to {length}");
            if length < REPLY {
                let short = with(0, &(length as u32).to_ne_bytes());
                assert_eq!(read(&short), Err(Errno::BADMSG), "says it has {length}");
            }
        }
        for (at, octets, what) in [
            (0, &[0xff; 4][..], "a length above that received"),
            (4, &[3, 0], "the end of a list"),
            (8, &[0; 4], "another sequence number"),
            (16, &[1], "another family"),
            (20, &[0, 79], "another port"),
        ] {
            assert_eq!(read(&with(at, octets)), Err(Errno::BADMSG), "{what}");
        }
        let error = |number: i32| {
            let mut reply = with(4, &NLMSG_ERROR.to_ne_bytes());
            reply[16..20].copy_from_slice(&number.to_ne_bytes());
            read(&reply)
        };
        assert_eq!(error(-2), Ok(None));
        assert_eq!(error(-1), Err(Errno::PERM));
        for none in [0, 1, -4096, i32::MIN] {
            assert_eq!(error(none), Err(Errno::BADMSG), "{none}");
        }
    }
}
