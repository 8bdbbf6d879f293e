//! The multicast groups of a dispatching thread, with one socket for all of them.
//!
//! A datagram that goes to a group is received by all nodes that have joined it. An area has one of
//! [`COUNT`] groups by its name, so that a node's network interface leaves out most of what it does
//! not read; channels are told apart by their numbers. A guaranteed channel has one of
//! [`OWN_PORTS`] ports beside, and each node that reads it a socket for that: what is less urgent
//! waits there.

use isorb_rt::sync::PiMutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

/// The number of groups, with consecutive addresses: a socket may join twenty
/// (`net.ipv4.igmp_max_memberships`).
pub(crate) const COUNT: u32 = 16;

/// The number of ports for guaranteed channels, after the port of all groups (before it, if there
/// are none after). Two channels with one group and port would wait for each other as if they had
/// one urgency, and count each other's datagrams as strays.
const OWN_PORTS: u16 = 256;

/// The socket that receives the groups' datagrams.
#[derive(Debug)]
pub(crate) struct Groups {
    first: SocketAddr,
    interface: Interface,
    socket: UdpSocket,
    joined: PiMutex<HashMap<IpAddr, usize>>,
}

/// The interface by which groups are joined.
#[derive(Clone, Copy, Debug)]
enum Interface {
    /// The interface with this address; all zero for the system's choice.
    V4(Ipv4Addr),
    /// By its number; 0 for the system's choice.
    V6(u32),
}

impl Groups {
    /// `first` is the first group and the port of all; `sender` is the socket that sends to them,
    /// bound to `address`. In IPv6 the scope of `first` is the number of the interface.
    pub fn open(first: SocketAddr, sender: &UdpSocket, address: SocketAddr) -> io::Result<Groups> {
        let is_good =
            first.ip().is_multicast() && nth(first, COUNT - 1).is_some_and(|last| last.ip().is_multicast());
        let interface = match (first, address.ip()) {
            (SocketAddr::V4(_), IpAddr::V4(interface)) if is_good => Interface::V4(interface),
            (SocketAddr::V6(first), IpAddr::V6(_)) if is_good => Interface::V6(first.scope_id()),
            _ => {
                let reason = format!(
                    "{first} and {COUNT} groups from there must be multicast addresses, and {address} of the same family"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
        };
        match interface {
            Interface::V4(interface) if !interface.is_unspecified() => {
                sockopt::set_ip_multicast_if(sender, &interface)?;
            }
            Interface::V6(interface) if interface > 0 => sockopt::set_ipv6_multicast_if(sender, interface)?,
            _ => {}
        }
        let any = match interface {
            Interface::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Interface::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = bind(SocketAddr::new(any, first.port()))?;
        let joined = PiMutex::new(HashMap::new());
        Ok(Groups { first, interface, socket, joined })
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The group of an area.
    pub fn of(&self, area: &str) -> SocketAddr {
        let mut hasher = DefaultHasher::new();
        area.hash(&mut hasher);
        let index = (hasher.finish() % u64::from(COUNT)) as u32;
        nth(self.first, index).unwrap_or(self.first)
    }

    /// The group and port of the guaranteed channel with this number.
    pub fn guaranteed_group(&self, area: &str, channel: u32) -> SocketAddr {
        let mut hasher = DefaultHasher::new();
        (area, channel).hash(&mut hasher);
        let (group, first) = (self.of(area), self.first.port());
        let nth = 1 + (hasher.finish() % u64::from(OWN_PORTS)) as u16;
        SocketAddr::new(group.ip(), first.checked_add(nth).unwrap_or(first.wrapping_sub(nth)))
    }

    /// Joins a group. Each join needs a leave.
    pub fn join(&self, group: SocketAddr) -> io::Result<()> {
        self.check(group, group.port() == self.first.port())?;
        let mut joined = self.joined.lock();
        let count = joined.entry(group.ip()).or_default();
        if *count == 0 {
            self.add_membership(&self.socket, group.ip())?;
        }
        *count += 1;
        Ok(())
    }

    /// Joins a guaranteed channel's group, until the socket is closed.
    pub fn open_guaranteed(&self, group: SocketAddr) -> io::Result<UdpSocket> {
        self.check(group, (1..=OWN_PORTS).contains(&group.port().abs_diff(self.first.port())))?;
        let at = match (group, self.interface) {
            (SocketAddr::V6(group), Interface::V6(scope)) => {
                SocketAddrV6::new(*group.ip(), group.port(), 0, scope).into()
            }
            _ => group,
        };
        let socket =
            bind(at).map_err(|error| io::Error::new(error.kind(), format!("the group {at}: {error}")))?;
        self.add_membership(&socket, group.ip())?;
        Ok(socket)
    }

    fn check(&self, group: SocketAddr, is_port: bool) -> io::Result<()> {
        if is_port && group.is_ipv4() == self.first.is_ipv4() && group.ip().is_multicast() {
            return Ok(());
        }
        let reason = format!("the group is {group}, and this node's begin with {}", self.first);
        Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
    }

    fn add_membership(&self, socket: &UdpSocket, group: IpAddr) -> io::Result<()> {
        match (group, self.interface) {
            (IpAddr::V4(group), Interface::V4(interface)) => socket.join_multicast_v4(&group, &interface),
            (IpAddr::V6(group), Interface::V6(interface)) => socket.join_multicast_v6(&group, interface),
            // It is of the same family.
            _ => Ok(()),
        }
    }

    pub fn leave(&self, group: IpAddr) {
        let mut joined = self.joined.lock();
        let Some(count) = joined.get_mut(&group) else { return };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        joined.remove(&group);
        let _ = match (group, self.interface) {
            (IpAddr::V4(group), Interface::V4(interface)) => {
                self.socket.leave_multicast_v4(&group, &interface)
            }
            (IpAddr::V6(group), Interface::V6(interface)) => {
                self.socket.leave_multicast_v6(&group, interface)
            }
            _ => Ok(()),
        };
    }
}

fn bind(at: SocketAddr) -> io::Result<UdpSocket> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Each node of a host receives the group's datagrams.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let _ = sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
    rustix::net::bind(&socket, &at)?;
    Ok(socket.into())
}

/// The group `number` places after the first; none beyond the last address.
fn nth(first: SocketAddr, index: u32) -> Option<SocketAddr> {
    Some(match first {
        SocketAddr::V4(first) => {
            let ip = u32::from(*first.ip()).checked_add(index)?;
            SocketAddr::new(Ipv4Addr::from(ip).into(), first.port())
        }
        SocketAddr::V6(first) => {
            let ip = u128::from(*first.ip()).checked_add(index.into())?;
            SocketAddrV6::new(ip.into(), first.port(), 0, first.scope_id()).into()
        }
    })
}
