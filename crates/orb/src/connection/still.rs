//! A connection of which the stream takes and gives nothing, for tests.

use super::peer_account::PeerLimits;
use super::{Connection, Limits, Side, SlotLimits};
use isorb_scope::BufferPool;
use isorb_transport::{Stream, Wait};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Still(pub OwnedFd);

impl Stream for Still {
    fn recv(&self, _: &mut [u8], _: Wait) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn send(&self, _: &[io::IoSlice<'_>], _: Wait) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn set_recv_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn set_send_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn shutdown(&self) {}
    fn peer(&self) -> &str {
        "still"
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection that the ORB opened, with this descriptor.
pub(super) fn connection_to(fd: OwnedFd) -> Arc<Connection> {
    let limits = Limits {
        message: 1 << 20,
        fragment: 0,
        send_timeout: None,
        message_timeout: None,
        slots: SlotLimits { pending: 1, queued: 0, accepted: false },
        peer: PeerLimits::configured(0, 0),
    };
    let pool = BufferPool::new(1 << 20, 1 << 20);
    Arc::new(Connection::new(Box::new(Still(fd)), Side::Connector, limits, pool, &Arc::default()))
}
