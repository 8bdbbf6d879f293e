//! Sockets of guaranteed receive agents: one each, so that less urgent datagrams wait in the kernel
//! and not in front of them.

use super::dispatcher::bind;
use crate::agents::Via;
use isorb_rt::Errno;
use isorb_rt::net::{Interest, Poller, Trigger};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// The first token of these sockets; sessions are numbered from 1 and never reach it.
const FIRST: u64 = 1 << 62;
const LAST: u64 = FIRST + (2 << 32) - 1;

/// The sockets of one receive agent, one a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveSocket {
    sockets: [Option<Arc<UdpSocket>>; 2],
}

impl ReceiveSocket {
    /// Sockets at these addresses, with ports that the system chooses.
    pub fn open(first: IpAddr, second: Option<IpAddr>) -> io::Result<ReceiveSocket> {
        let open = |ip| bind(SocketAddr::new(ip, 0)).map(|(socket, _)| Some(Arc::new(socket)));
        Ok(ReceiveSocket { sockets: [open(first)?, second.map(open).transpose()?.flatten()] })
    }

    /// A socket of a group.
    pub fn of(socket: UdpSocket) -> ReceiveSocket {
        ReceiveSocket { sockets: [Some(Arc::new(socket)), None] }
    }

    /// The ports of both paths; 0 for none.
    pub fn ports(&self) -> [u16; 2] {
        self.sockets.each_ref().map(|socket| {
            let address = socket.as_ref().and_then(|socket| socket.local_addr().ok());
            address.map_or(0, |address| address.port())
        })
    }

    pub fn socket(&self, via: Via) -> Option<&Arc<UdpSocket>> {
        self.sockets[via as usize].as_ref()
    }

    /// The number of sockets.
    pub fn len(&self) -> usize {
        self.sockets.iter().flatten().count()
    }

    /// Level-triggered: remaining datagrams are reported again.
    pub fn watch(&self, poller: &Poller, receive: u32) -> Result<(), Errno> {
        for via in [Via::First, Via::Second] {
            if let Some(socket) = self.socket(via) {
                poller.add(&**socket, token(receive, via), Interest::READ, Trigger::Level)?;
            }
        }
        Ok(())
    }

    pub fn forget(&self, poller: &Poller) {
        for socket in self.sockets.iter().flatten() {
            // A dispatching thread may hold it for a moment longer.
            let _ = poller.delete(&**socket);
        }
    }
}

fn token(receive: u32, via: Via) -> u64 {
    FIRST + (u64::from(receive) << 1) + via as u64
}

/// The receive agent and the path of a token.
pub(super) fn of_token(token: u64) -> Option<(u32, Via)> {
    let at = (FIRST..=LAST).contains(&token).then(|| token - FIRST)?;
    Some(((at >> 1) as u32, if at & 1 == 0 { Via::First } else { Via::Second }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        for (receive, via) in [(0, Via::First), (7, Via::Second), (u32::MAX, Via::Second)] {
            assert_eq!(of_token(token(receive, via)), Some((receive, via)));
        }
        for other in [0, 1, FIRST - 1, LAST + 1, u64::MAX] {
            assert_eq!(of_token(other), None);
        }
    }
}
