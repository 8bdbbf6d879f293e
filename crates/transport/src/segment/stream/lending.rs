//! How a connection over segments sends messages of which parts lie in its arena.

use super::super::arena::{Arena, Exhausted};
use super::super::medium::{Join, Joined, PeerSegment, Sleep};
use super::super::ring::Ring;
use super::{MAX_ROOM_WAIT, SegmentStream, Spun, after, sent_or_would_block};
use crate::Wait;
use isorb_rt::time::Deadline;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

impl<J: Join> SegmentStream<J> {
    /// Sends pieces of which some lie in the arena: of those the peer gets an entry. They are
    /// never copied instead: without a free entry the sender waits as it does without room.
    #[cold]
    pub(super) fn send_lent(
        &self,
        ring: &Joined<J>,
        arena: &Arc<Arena>,
        pieces: &[IoSlice<'_>],
        wait: Wait,
    ) -> io::Result<usize> {
        let sent = put(ring, arena, pieces)?;
        if sent > 0 || pieces.iter().all(|piece| piece.is_empty()) {
            return Ok(sent);
        }
        let exhausted = || arena.is_exhausted();
        if wait == Wait::No {
            let full =
                self.watched.load(Acquire) && ring.about_to_write_lacking(Sleep::OnDescriptor, exhausted)?;
            let sent = if full { 0 } else { put(ring, arena, pieces)? };
            return match sent {
                0 if !self.peer_is_alive()? => Err(io::ErrorKind::BrokenPipe.into()),
                sent => sent_or_would_block(sent),
            };
        }
        let deadline = after(self.send_timeout.load(Relaxed));
        loop {
            let ready = || (ring.has_room() != Ok(false) && !exhausted()) || self.ended(ring);
            let spun = self.spin(ring, &self.writer, deadline, ready);
            if !matches!(spun, Spun::Ready) {
                self.sleep_to_write(ring, Deadline::after(MAX_ROOM_WAIT).earlier(deadline), exhausted)?;
                self.writer.slept(spun);
                if !self.peer_is_alive()? {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            if self.ended(ring) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match put(ring, arena, pieces)? {
                0 if deadline.is_past() => return Err(io::ErrorKind::WouldBlock.into()),
                0 => {}
                sent => return Ok(sent),
            }
        }
    }
}

/// Puts the pieces into the ring, as far as there is room, and publishes them together.
fn put<I: super::ReceiveSegment, O: PeerSegment>(
    ring: &Ring<I, O>,
    arena: &Arc<Arena>,
    pieces: &[IoSlice<'_>],
) -> io::Result<usize> {
    let mut all = 0;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let n = match arena.refer(piece) {
            Ok(Some(lent)) => {
                let put = ring.put_lent(lent);
                if put != Ok(true) {
                    arena.take_back();
                }
                if put? { piece.len() } else { 0 }
            }
            Ok(None) => ring.put_octets(piece)?,
            Err(Exhausted) => 0,
        };
        all += n;
        if n < piece.len() {
            break;
        }
    }
    ring.publish();
    Ok(all)
}
