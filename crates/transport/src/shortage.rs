//! Connections that this process or its host cannot open.

use rustix::io::Errno;
use std::io;

/// Whether this process or its host had no descriptor, port or memory for a connection, which says
/// nothing of the peer. (No port is EADDRNOTAVAIL, connect(2).)
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::ADDRNOTAVAIL)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_refuses_is_none() {
        for (errno, is) in [(Errno::MFILE, true), (Errno::ADDRNOTAVAIL, true), (Errno::CONNREFUSED, false)] {
            assert_eq!(is_shortage(&errno.into()), is, "{errno}");
        }
        assert!(!is_shortage(&io::ErrorKind::TimedOut.into()));
    }
}
