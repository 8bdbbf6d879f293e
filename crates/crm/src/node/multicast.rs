//! The groups that a dispatching thread takes part in: one socket for all of them.
//!
//! A datagram that goes to a group is received by all nodes that have joined it. An area has one of [`COUNT`] groups by its name, so that a
//! node's network interface leaves out most of what it does not read; channels are told apart by their numbers.

use isorb_rt::sync::PiMutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

/// So many groups, one after the other: a socket may join twenty (`net.ipv4.igmp_max_memberships`).
pub(crate) const COUNT: u32 = 16;

/// Where groups' datagrams come in.
#[derive(Debug)]
pub(crate) struct Groups {
    first: SocketAddrV4,
    interface: Ipv4Addr,
    socket: UdpSocket,
    joined: PiMutex<HashMap<Ipv4Addr, usize>>,
}

impl Groups {
    /// `first` is the first group and the port of all; `sender` is the socket that sends to them, bound to `address`.
    pub fn open(first: SocketAddrV4, sender: &UdpSocket, address: SocketAddr) -> io::Result<Groups> {
        let last = u32::from(*first.ip()).checked_add(COUNT - 1).map(Ipv4Addr::from);
        let (IpAddr::V4(interface), true, true) =
            (address.ip(), first.ip().is_multicast(), last.is_some_and(|last| last.is_multicast()))
        else {
            let reason = format!(
                "{first} and {COUNT} groups from there must be multicast addresses, and {address} of IPv4"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        if !interface.is_unspecified() {
            sockopt::set_ip_multicast_if(sender, &interface)?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        // Each node of a host receives what goes to the group.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        let _ = sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, first.port()))?;
        let joined = PiMutex::new(HashMap::new());
        Ok(Groups { first, interface, socket: socket.into(), joined })
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The group of an area.
    pub fn of(&self, area: &str) -> SocketAddrV4 {
        let mut hasher = DefaultHasher::new();
        area.hash(&mut hasher);
        let index = (hasher.finish() % u64::from(COUNT)) as u32;
        SocketAddrV4::new(Ipv4Addr::from(u32::from(*self.first.ip()) + index), self.first.port())
    }

    /// Takes part in a group, as often as it is left again.
    pub fn join(&self, group: SocketAddrV4) -> io::Result<()> {
        if group.port() != self.first.port() || !group.ip().is_multicast() {
            let reason = format!("the group is {group}, and this node listens at port {}", self.first.port());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut joined = self.joined.lock();
        let count = joined.entry(*group.ip()).or_default();
        if *count == 0 {
            self.socket.join_multicast_v4(group.ip(), &self.interface)?;
        }
        *count += 1;
        Ok(())
    }

    pub fn leave(&self, group: Ipv4Addr) {
        let mut joined = self.joined.lock();
        let Some(count) = joined.get_mut(&group) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            joined.remove(&group);
            let _ = self.socket.leave_multicast_v4(&group, &self.interface);
        }
    }
}
