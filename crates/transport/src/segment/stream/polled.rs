//! A connection over segments that the threads of a poller poll.
//!
//! Several threads may announce and take back a sleep of the one reader: the thread that sleeps,
//! and one that is about to reply and will poll again. A lock orders them, since an announcement
//! that another thread overwrites would be a lost wake-up.

use super::super::medium::{Join, PeerSegment, ReceiveSegment, Sleep, Word};
use super::super::memory::OwnSegment;
use super::super::ring::Ring;
use super::super::spin::Spin;
use super::SegmentStream;
use crate::Polled;
use isorb_rt::sync::PiMutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a connection has to be polled.
#[derive(Debug, Default)]
pub(super) struct PolledState {
    on: AtomicBool,
    /// The socket has ended.
    gone: AtomicBool,
    /// The announcement stands: octets after it make an event.
    armed: AtomicBool,
    announcing: PiMutex<()>,
}

impl PolledState {
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Acquire)
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    /// Announces a sleep on the socket. Returns whether it may begin.
    pub fn announce(&self, ring: &Ring<Arc<OwnSegment>, impl PeerSegment>) -> io::Result<bool> {
        let _announcing = self.announcing.lock();
        let may = ring.about_to_read(Sleep::OnDescriptor)?;
        self.armed.store(true, Release);
        Ok(may)
    }
}

impl<J: Join> Polled for SegmentStream<J> {
    fn set_polled(&self, polled: bool) {
        self.polled.on.store(polled, Release);
    }

    fn is_polled(&self) -> bool {
        self.polled.is_on()
    }

    #[inline]
    fn ready(&self) -> bool {
        self.ring.get().is_some_and(|ring| ring.available() != Ok(0) || ring.closed())
    }

    fn arm(&self) -> bool {
        // The peer's hello makes an event by itself.
        let Some(ring) = self.ring.get() else { return true };
        if self.polled.armed.load(Acquire) {
            return !self.ready();
        }
        self.polled.announce(ring).unwrap_or(false)
    }

    #[inline]
    fn disarm(&self) {
        if !self.polled.armed.load(Relaxed) {
            return;
        }
        let _announcing = self.polled.announcing.lock();
        self.polled.armed.store(false, Release);
        if let Some(ring) = self.ring.get() {
            ring.stay_awake();
        }
    }

    fn reported(&self, closed: bool) {
        // Before the handshake there is a hello in the socket. Signals that stay would fill it, and
        // a later one would be lost. The end of the stream makes an event of its own, so that
        // nothing needs to be looked for behind the signals.
        let alive = || if closed { self.drain_doorbell() } else { self.take_signals() };
        if self.ring.get().is_some() && !alive().unwrap_or(false) {
            self.polled.gone.store(true, Release);
        }
        // The event was the one that the announcement was for.
        self.disarm();
    }

    fn polls_from(&self, processor: u32) -> bool {
        let Some(ring) = self.ring.get() else { return false };
        if self.reader.processor.load(Relaxed) != processor {
            self.reader.processor.store(processor, Relaxed);
            ring.outward().store(Word::Processor, processor);
        }
        ring.inward().load(Word::Processor) != processor
    }

    fn take_woke(&self) -> bool {
        self.ring.get().is_some_and(|ring| ring.take_woke())
    }

    fn spin(&self) -> Spin {
        *self.reader.budget.spin()
    }
}
