//! Paces what gateways send of each level, so that a supplier that exceeds its rate delays events
//! of its own level on its own link only.
//!
//! An event that is not due stays in the log; the order and the numbers there do not change. A
//! thread wakes the gateway when it is due.

use super::node::Inner;
use crate::dispatch::ThreadSetup;
use isorb_rt::priority::Priority;
use isorb_rt::sync::Parker;
use isorb_rt::time::Deadline;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};

/// The octets that an event counts besides its data: the headers of its message.
pub const MESSAGE_OVERHEAD: usize = isorb_sched::federation::MESSAGE_OVERHEAD as usize;

/// What a gateway may send of a level over each link: the admitted rate and burst, as
/// `isorb sched federation` prints them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The level, 0 the least urgent.
    pub level: u8,
    /// Octets a second, [`MESSAGE_OVERHEAD`] of each event included.
    pub octets_per_second: u64,
    /// Octets that may be sent at once. A larger event is sent alone.
    pub burst: u64,
}

/// The state of a [`Pace`] on one link (GCRA, ITU-T I.371).
#[derive(Debug)]
pub(super) struct Pacer {
    octets_per_second: u64,
    /// The time of a burst at the rate, in ns.
    tolerance: u64,
    /// When the link would have sent everything at the rate alone.
    theoretical: u64,
}

impl Pacer {
    pub(super) fn new(pace: Pace) -> Pacer {
        let octets_per_second = pace.octets_per_second.max(1);
        Pacer { octets_per_second, tolerance: time_of(pace.burst, octets_per_second), theoretical: 0 }
    }

    /// Counts a message of so many octets at `now`, or returns when it may be sent.
    ///
    /// # Real-time
    /// Arithmetic.
    pub(super) fn admit(&mut self, octets: usize, now: u64) -> Result<(), u64> {
        let span = time_of(octets as u64, self.octets_per_second);
        let begin = self.theoretical.max(now);
        let due = begin.saturating_sub(self.tolerance.saturating_sub(span));
        if due > now {
            return Err(due);
        }
        self.theoretical = begin.saturating_add(span);
        Ok(())
    }
}

fn time_of(octets: u64, octets_per_second: u64) -> u64 {
    let ns = (u128::from(octets) * 1_000_000_000).div_ceil(u128::from(octets_per_second));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The thread that wakes gateways. It ends when this is dropped.
pub(super) struct PacingThread(Arc<Signal>);

#[derive(Default)]
struct Signal {
    parker: Parker,
    ended: AtomicBool,
}

impl PacingThread {
    /// Starts the thread. `None` if that fails: then the next tick sends what is due.
    pub(super) fn start(inner: Weak<Inner>, setup: &ThreadSetup, priority: Priority) -> Option<PacingThread> {
        let signal = Arc::new(Signal::default());
        let own_signal = signal.clone();
        let body = move || {
            let mut next = Deadline::NONE;
            loop {
                own_signal.parker.park_until(next);
                match inner.upgrade() {
                    Some(inner) if !own_signal.ended.load(Acquire) => {
                        let at = inner.wake_paced(isorb_rt::time::now_ns());
                        next = at.map_or(Deadline::NONE, Deadline::at_ns);
                    }
                    _ => return,
                }
            }
        };
        setup.spawn("event-pacing".into(), priority, body).ok().map(|_| PacingThread(signal))
    }

    /// Has the thread look for what is due next.
    pub(super) fn notify(&self) {
        self.0.parker.unpark();
    }
}

impl Drop for PacingThread {
    fn drop(&mut self) {
        self.0.ended.store(true, Release);
        self.0.parker.unpark();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_burst_at_once_and_the_rate_from_then_on() {
        // 1000 octets take 1 ms.
        let pace = Pace { level: 0, octets_per_second: 1_000_000, burst: 3_000 };
        let mut pacer = Pacer::new(pace);
        let start = 1_000_000_000;
        for _ in 0..3 {
            assert_eq!(pacer.admit(1_000, start), Ok(()));
        }
        let mut now = start;
        for event in 1..50 {
            let due = pacer.admit(1_000, now).unwrap_err();
            assert_eq!(due, start + event * 1_000_000);
            assert_eq!(pacer.admit(1_000, due - 1), Err(due));
            assert_eq!(pacer.admit(1_000, due), Ok(()));
            now = due;
        }
        // A pause gives no more than the burst.
        now += 10_000_000_000;
        assert_eq!((0..10).filter(|_| pacer.admit(1_000, now).is_ok()).count(), 3);
    }

    #[test]
    fn an_event_larger_than_the_burst_is_sent_alone() {
        let mut pacer = Pacer::new(Pace { level: 0, octets_per_second: 1_000_000, burst: 100 });
        assert_eq!(pacer.admit(5_000, 7), Ok(()));
        assert_eq!(pacer.admit(10, 7), Err(7 + 5_000_000 - 90_000));
        // No rate at all is a very small one.
        let mut still = Pacer::new(Pace { level: 0, octets_per_second: 0, burst: 0 });
        assert_eq!(still.admit(1, 7), Ok(()));
        assert!(still.admit(usize::MAX, 8).is_err());
    }
}
