//! The medium of the ring: what it writes to the peer, and how the two segments are joined.

use crate::connection::Connection;
use isorb_rt::net::{Wait, recv_into};
use isorb_transport::segment::medium::{Join, PeerSegment, Word};
use isorb_transport::segment::{OwnSegment, Ring};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// The peer's segment, as the ring writes it.
#[derive(Debug)]
pub struct Remote {
    connection: Arc<Connection>,
    capacity: u32,
}

impl PeerSegment for Remote {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn write(&self, at: u32, bytes: &[u8]) {
        self.connection.write(at, bytes);
    }

    fn store(&self, word: Word, value: u32) {
        self.connection.store(word, value);
    }

    fn fence(&self) -> bool {
        // For the own announcements, which stay here. What the peer does is not ordered by it.
        fence(Ordering::SeqCst);
        false
    }

    fn wake(&self, _: Word) {
        self.connection.flush_from_stream();
    }

    fn ring_doorbell(&self) {
        // The wake-up before it has flushed; the peer's device thread rings.
    }
}

/// Joins the segments once both sides are connected.
#[derive(Debug)]
pub struct Joining(pub(crate) Arc<Connection>);

impl Join for Joining {
    type PeerSegment = Remote;

    fn join(&self, socket: &Arc<OwnedFd>) -> io::Result<Option<Ring<Arc<OwnSegment>, Remote>>> {
        let connection = &self.0;
        match recv_into(&**socket, &mut [0], Wait::Never) {
            Ok(_) | Err(Errno::CONNRESET) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(capacity) = connection.attach()? else { return Ok(None) };
        let remote = Remote { connection: connection.clone(), capacity };
        Ok(Some(Ring::new(connection.own().clone(), remote)))
    }
}
