//! Keeps best-effort calls from filling the queue before the node's link.
//!
//! A link with one queue makes a guaranteed value wait for everything that lies there. So best
//! effort on the ORB's paths takes turns at the rate of the link while the node has guaranteed
//! channels, and one value at a time lies in the queue, for which admission counts where the
//! network does not sort (`admission::best_effort`). Guaranteed calls never wait here; what they
//! send delays the turns after them.

use crate::agents::link_burst;
use crate::wire::Pacer;
use isorb_rt::sync::PiMutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The turns of a node's calls at its link.
#[derive(Debug)]
pub(in crate::node) struct CallPacing {
    /// Octets a second; 0 for no limit. Written under the lock.
    rate: AtomicU64,
    turns: PiMutex<Pacer>,
}

impl CallPacing {
    /// Without a limit.
    pub fn new() -> CallPacing {
        CallPacing { rate: AtomicU64::new(0), turns: PiMutex::new(Pacer::new(0, 0)) }
    }

    /// Octets a second from now on; 0 for no limit.
    pub fn set_rate(&self, bytes_per_s: u64) {
        let mut turns = self.turns.lock();
        if self.rate.swap(bytes_per_s, Ordering::Relaxed) != bytes_per_s {
            *turns = Pacer::new(bytes_per_s, link_burst(bytes_per_s));
        }
    }

    /// Whether there is a limit.
    ///
    /// # Real-time
    /// One atomic read.
    pub fn is_limited(&self) -> bool {
        self.rate.load(Ordering::Relaxed) > 0
    }

    /// Takes the next turn for a call with so many octets on the wire, and returns when it begins.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    pub fn take_turn(&self, now_ns: u64, octets: u64) -> u64 {
        let mut turns = self.turns.lock();
        let at_ns = turns.ready_at(now_ns);
        turns.sent(at_ns, usize::try_from(octets).unwrap_or(usize::MAX));
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_one_another_at_the_rate() {
        let pacing = CallPacing::new();
        assert_eq!([0, 0].map(|now| pacing.take_turn(now, 1 << 20)), [0, 0], "no limit");
        // A thousand octets take a millisecond; the burst is 50 octets.
        pacing.set_rate(1_000_000);
        assert!(pacing.is_limited());
        let at = [0, 0, 500_000].map(|now| pacing.take_turn(now, 1_000));
        assert_eq!(at, [0, 950_000, 1_950_000]);
        // The same rate again changes nothing, another one begins anew.
        pacing.set_rate(1_000_000);
        assert_eq!(pacing.take_turn(600_000, 1_000), 2_950_000);
        pacing.set_rate(0);
        assert_eq!((pacing.is_limited(), pacing.take_turn(700_000, 1)), (false, 700_000));
    }
}
