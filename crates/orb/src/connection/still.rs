//! A connection of which the stream takes and gives nothing, for tests.

use super::peer_account::PeerLimits;
use super::{Connection, Limits, Side, SlotLimits};
use isorb_rt::Errno;
use isorb_scope::BufferPool;
use isorb_transport::{Stream, Wait};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Debug)]
struct Still {
    fd: OwnedFd,
    /// How often it was shut down.
    shut_down: Arc<AtomicU32>,
    /// What each send fails with.
    refusal: Errno,
}

impl Stream for Still {
    fn recv(&self, _: &mut [u8], _: Wait) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn send(&self, _: &[io::IoSlice<'_>], _: Wait) -> io::Result<usize> {
        Err(self.refusal.into())
    }
    fn set_recv_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn set_send_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
    fn shutdown(&self) {
        self.shut_down.fetch_add(1, Ordering::Relaxed);
    }
    fn peer(&self) -> &str {
        "still"
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A stream of which each send fails with `refusal`.
pub(super) fn refusing(refusal: Errno) -> impl Stream {
    let fd = std::fs::File::open("/dev/null").unwrap().into();
    Still { fd, shut_down: Arc::default(), refusal }
}

/// A connection that the ORB opened, with this descriptor.
pub(super) fn connection_to(fd: OwnedFd) -> Arc<Connection> {
    counted_connection_to(fd).0
}

/// The same, and how often its stream was shut down.
pub(super) fn counted_connection_to(fd: OwnedFd) -> (Arc<Connection>, Arc<AtomicU32>) {
    let limits = Limits {
        message: 1 << 20,
        fragment: 0,
        send_timeout: None,
        message_timeout: None,
        slots: SlotLimits { pending: 1, queued: 0, accepted: false },
        peer: PeerLimits::configured(0, 0),
    };
    let pool = BufferPool::new(1 << 20, 1 << 20);
    let shut_down = Arc::new(AtomicU32::new(0));
    let stream = Still { fd, shut_down: shut_down.clone(), refusal: Errno::AGAIN };
    let connection = Connection::new(Box::new(stream), Side::Connector, limits, pool, &Arc::default());
    (Arc::new(connection), shut_down)
}
