//! The network interface of an address.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// The rate of the interface with this address, in bits a second, as its driver reports it
/// (`ETHTOOL_GSET`). None where no interface has the address, the link is down, or the driver does
/// not know the rate: loopback and most wireless interfaces do not. A virtual pair (veth) reports
/// 10 Gbit/s, and a shaper behind an interface is not part of its rate.
///
/// # Real-time
/// For set-up: allocates, and makes some system calls.
pub fn interface_rate(address: IpAddr) -> Option<u64> {
    let name = interface_name(address)?;
    let family = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(family).ok()?;
    megabits(&socket, name).map(|megabits| u64::from(megabits) * 1_000_000)
}

type Name = [libc::c_char; libc::IFNAMSIZ];

fn interface_name(address: IpAddr) -> Option<Name> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the kernel's list is written to a pointer of ours.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let (mut next, mut found) = (list, None);
    while !next.is_null() && found.is_none() {
        // SAFETY: the list is valid until it is freed below, and `next` is one of its elements.
        let entry = unsafe { &*next };
        // SAFETY: the pointer is null or points to an address of the family that it names.
        if unsafe { address_of(entry.ifa_addr) } == Some(address) {
            // SAFETY: a name of the list is a string that ends with zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            let mut copy: Name = [0; libc::IFNAMSIZ];
            let octets = name.to_bytes().iter().take(libc::IFNAMSIZ - 1);
            copy.iter_mut().zip(octets).for_each(|(to, octet)| *to = *octet as libc::c_char);
            found = Some(copy);
        }
        next = entry.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs` and is not used afterwards.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// # Safety
/// `address` is null or points to a socket address of the family that it names.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller says so; each family has its own structure, which is read as octets may
    // lie.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// The kernel's `struct ethtool_cmd`.
#[repr(C)]
#[derive(Default)]
struct EthtoolCommand {
    command: u32,
    supported: u32,
    advertised: u32,
    speed: u16,
    ports: [u8; 6],
    packets: [u32; 2],
    speed_high: u16,
    rest: [u8; 2],
    partner: u32,
    reserved: [u32; 2],
}

const _: () = assert!(size_of::<EthtoolCommand>() == 44);

const ETHTOOL_GSET: u32 = 1;

fn megabits(socket: &UdpSocket, name: Name) -> Option<u32> {
    let mut command = EthtoolCommand { command: ETHTOOL_GSET, ..EthtoolCommand::default() };
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut command).cast() },
    };
    // SAFETY: the request points to a command that lives as long as the call, with the size that
    // the kernel expects.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    let megabits = u32::from(command.speed_high) << 16 | u32::from(command.speed);
    // All ones: not known.
    (result == 0 && megabits != 0 && megabits < u32::from(u16::MAX) << 16 && megabits != u32::from(u16::MAX))
        .then_some(megabits)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_an_interface_of_this_host_has_a_rate() {
        assert_eq!(interface_rate(Ipv4Addr::new(192, 0, 2, 1).into()), None, "no interface has it");
        assert_eq!(interface_rate(Ipv4Addr::LOCALHOST.into()), None, "loopback has no rate");
        let name = interface_name(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(name.map(|octet| octet as u8)[..3], *b"lo\0");
    }
}
