//! The kernel's table of all sockets.

use std::net::{IpAddr, SocketAddr};

/// As [`super::owner`], by addresses in their shortest form.
///
/// # Real-time
/// Reads and searches a file as long as there are sockets, and allocates.
pub(super) fn owner(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let in_table = |table: &str, map: fn(IpAddr) -> IpAddr| {
        let [local, remote] = [local, remote].map(|at| SocketAddr::new(map(at.ip()), at.port()));
        owner_in(&std::fs::read_to_string(table).ok()?, local, remote)
    };
    // A socket of IPv6 may be connected by IPv4, as those of Java are.
    let four = if local.is_ipv4() { in_table("/proc/thread-self/net/tcp", |ip| ip) } else { None };
    four.or_else(|| in_table("/proc/thread-self/net/tcp6", mapped))
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
fn owner_in(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
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

    #[test]
    fn rows_of_the_table_are_compared_whole() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000 0 4711 1 x\n\
                     1: 0100007F:C350 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0 0 0 3 x\n\
                     2: 0100007F:C351 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001 0 4712 1 x\n\
                     3: 0100007F:C352 010000";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner_in(table, at(0x1f90), at(0xc350)), Some(1000));
        assert_eq!(owner_in(table, at(0xc350), at(0x1f90)), None, "it waits for its end");
        assert_eq!(owner_in(table, at(0xc351), at(0x1f90)), Some(1001));
        assert_eq!(owner_in(table, at(0xc352), at(0x1f90)), None);
        assert_eq!(hexadecimal("[::1]:80".parse().unwrap()), "00000000000000000000000001000000:0050");
    }
}
