//! IP multicast: membership in groups and sending to them, by interface and number of hops.
//!
//! ```
//! use isorb_transport::Multicast;
//! # fn main() -> std::io::Result<()> {
//! let multicast = Multicast { interface: "lo".into(), hops: 1, loopback: true };
//! let group = "239.255.0.1:0".parse().unwrap();
//! # if let Err(error) = multicast.receiver(group) { println!("skipped: {error}"); return Ok(()); }
//! let listening = multicast.receiver(group)?;
//! let sending = multicast.sender(listening.local_addr()?)?;
//! sending.send(b"to all")?;
//! # Ok(())
//! # }
//! ```

use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// The interface on which groups are joined and sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interface {
    /// The interface that the machine's routes select.
    #[default]
    Routed,
    /// The interface with this address; for groups of IPv4.
    Address(Ipv4Addr),
    /// The interface with this name, such as `eth0`, at the time when a group is joined or sent to.
    Name(String),
}

impl From<&str> for Interface {
    /// An empty text, an address of IPv4, or a name.
    fn from(text: &str) -> Interface {
        match text.parse() {
            _ if text.is_empty() => Interface::Routed,
            Ok(Ipv4Addr::UNSPECIFIED) => Interface::Routed,
            Ok(address) => Interface::Address(address),
            Err(_) => Interface::Name(text.into()),
        }
    }
}

impl Interface {
    /// Its number; 0 where the interface is selected otherwise.
    fn index(&self) -> io::Result<u32> {
        let Interface::Name(name) = self else { return Ok(0) };
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        let found = name_to_index(&socket, name);
        found.map_err(|error| {
            io::Error::new(
                io::Error::from(error).kind(),
                format!("there is no interface {name}: write its name, or its address of IPv4 ({error})"),
            )
        })
    }
}

/// Settings for joining groups and sending to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// The interface.
    pub interface: Interface,
    /// How many networks a packet may pass: 1 for this network, 0 for this host.
    pub hops: u32,
    /// Whether packets also reach members on this host, the sending process among them.
    pub loopback: bool,
}

impl Default for Multicast {
    fn default() -> Multicast {
        Multicast { interface: Interface::Routed, hops: 1, loopback: true }
    }
}

impl Multicast {
    /// A socket that receives only packets to the group. Other sockets of this host may have the
    /// same port. Port 0 selects a free one.
    ///
    /// # Errors
    /// The operating system's error; `InvalidInput` for an address that is no group's.
    pub fn receiver(&self, group: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(group), Type::DGRAM, None)?;
        if group.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&self.scoped(group)?.into())?;
        self.join(&socket, group.ip())?;
        Ok(socket.into())
    }

    /// A socket that is connected to the group.
    ///
    /// # Errors
    /// The operating system's error; `InvalidInput` for an address that is no group's.
    pub fn sender(&self, group: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(group), Type::DGRAM, None)?;
        self.prepare_to_send(&socket, group.ip())?;
        socket.connect(&self.scoped(group)?.into())?;
        Ok(socket.into())
    }

    /// Makes a socket a member of a group.
    ///
    /// # Errors
    /// The operating system's error; `InvalidInput` for an address that is no group's.
    pub fn join(&self, socket: impl AsFd, group: IpAddr) -> io::Result<()> {
        check(group)?;
        match group {
            IpAddr::V4(group) => {
                let (address, index) = self.of_v4()?;
                sockopt::set_ip_add_membership_with_ifindex(socket, &group, &address, index)?;
            }
            IpAddr::V6(group) => sockopt::set_ipv6_add_membership(socket, &group, self.of_v6()?)?,
        }
        Ok(())
    }

    /// Ends a socket's membership; closing the socket does, too.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn leave(&self, socket: impl AsFd, group: IpAddr) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => {
                let (address, index) = self.of_v4()?;
                sockopt::set_ip_drop_membership_with_ifindex(socket, &group, &address, index)?;
            }
            IpAddr::V6(group) => sockopt::set_ipv6_drop_membership(socket, &group, self.of_v6()?)?,
        }
        Ok(())
    }

    /// Sets the interface and hops with which a socket sends to groups of this one's family.
    ///
    /// # Errors
    /// The operating system's error; `InvalidInput` for an address that is no group's.
    pub fn prepare_to_send(&self, socket: impl AsFd, group: IpAddr) -> io::Result<()> {
        check(group)?;
        let socket = socket.as_fd();
        match group {
            IpAddr::V4(_) => {
                let (address, index) = self.of_v4()?;
                sockopt::set_ip_multicast_if_with_ifindex(socket, &Ipv4Addr::UNSPECIFIED, &address, index)?;
                sockopt::set_ip_multicast_ttl(socket, self.hops)?;
                sockopt::set_ip_multicast_loop(socket, self.loopback)?;
            }
            IpAddr::V6(_) => {
                sockopt::set_ipv6_multicast_if(socket, self.of_v6()?)?;
                sockopt::set_ipv6_multicast_hops(socket, self.hops)?;
                sockopt::set_ipv6_multicast_loop(socket, self.loopback)?;
            }
        }
        Ok(())
    }

    /// Address and number; either one is enough.
    fn of_v4(&self) -> io::Result<(Ipv4Addr, u32)> {
        let address = match self.interface {
            Interface::Address(address) => address,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        Ok((address, self.interface.index()?))
    }

    fn of_v6(&self) -> io::Result<u32> {
        match &self.interface {
            Interface::Address(address) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a group of IPv6 needs the interface by its name, not by the address {address} of IPv4"
                ),
            )),
            other => other.index(),
        }
    }

    /// Groups of link-local scope need an interface.
    fn scoped(&self, group: SocketAddr) -> io::Result<SocketAddr> {
        match group {
            SocketAddr::V6(mut at) if is_link_local(at.ip()) => {
                at.set_scope_id(self.of_v6()?);
                Ok(at.into())
            }
            _ => Ok(group),
        }
    }
}

/// Scope 2 (RFC 4291, 2.7).
fn is_link_local(group: &Ipv6Addr) -> bool {
    group.segments()[0] & 0xf == 2
}

fn check(group: IpAddr) -> io::Result<()> {
    if group.is_multicast() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{group} is no address of a multicast group")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_interface_by_name_or_address() {
        assert_eq!(Interface::from(""), Interface::Routed);
        assert_eq!(Interface::from("0.0.0.0"), Interface::Routed);
        assert_eq!(Interface::from("127.0.0.1"), Interface::Address(Ipv4Addr::LOCALHOST));
        assert!(Interface::from("lo").index().unwrap() > 0);
        let nowhere = Multicast { interface: "no-such-thing".into(), ..Multicast::default() };
        for group in ["239.255.77.1:7", "[ff15::77]:7", "[ff12::77]:7"] {
            let error = nowhere.sender(group.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains("no interface no-such-thing"), "{error}");
            assert!(nowhere.receiver(group.parse().unwrap()).is_err());
        }
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let multicast = Multicast::default();
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let error = multicast.sender(at.parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(multicast.receiver(at.parse().unwrap()).is_err());
        }
        let by_address =
            Multicast { interface: Interface::Address(Ipv4Addr::LOCALHOST), ..multicast.clone() };
        let error = by_address.sender("[ff15::1]:7".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("by its name"), "{error}");
    }

    /// Settings that the loopback interface does not test, since it returns each packet.
    #[test]
    fn sockets_are_told() {
        let multicast = Multicast { interface: "lo".into(), hops: 7, loopback: false };
        if let Ok(socket) = multicast.sender("239.255.77.1:7".parse().unwrap()) {
            assert_eq!(sockopt::ip_multicast_ttl(&socket).unwrap(), 7);
            assert!(!sockopt::ip_multicast_loop(&socket).unwrap());
        }
        if let Ok(socket) = multicast.sender("[ff15::77]:7".parse().unwrap()) {
            assert_eq!(sockopt::ipv6_multicast_hops(&socket).unwrap(), 7);
            assert!(!sockopt::ipv6_multicast_loop(&socket).unwrap());
        }
    }

    /// On the loopback interface, for both families: two members get it, and after leaving none.
    #[test]
    fn members_get_what_is_sent_until_they_leave() {
        let multicast = Multicast { interface: "lo".into(), ..Multicast::default() };
        for group in ["239.255.77.1:0", "[ff15::77]:0", "[ff12::77]:0"] {
            let group: SocketAddr = group.parse().unwrap();
            let one = match multicast.receiver(group) {
                Ok(socket) => socket,
                Err(error) => {
                    println!("SKIPPED {group}: {error}");
                    continue;
                }
            };
            let at = one.local_addr().unwrap();
            let other = multicast.receiver(at).unwrap();
            let sender = match multicast.sender(at) {
                Ok(sender) => sender,
                Err(error) => {
                    println!("SKIPPED {group}: {error}");
                    continue;
                }
            };
            sender.send(b"x").unwrap();
            for member in [&one, &other] {
                member.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                assert_eq!(member.recv(&mut [0; 9]).unwrap(), 1);
            }
            multicast.leave(&one, group.ip()).unwrap();
            assert!(multicast.leave(&one, group.ip()).is_err(), "it is no member any more");
            sender.send(b"zzz").unwrap();
            assert_eq!(other.recv(&mut [0; 9]).unwrap(), 3);
        }
    }
}
